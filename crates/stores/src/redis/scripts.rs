//! Server-side scripts for atomic operations that Redis has no single command for.

/// A script that each connection loads before use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    /// Appends if the key exists.
    Append,
    /// Prepends if the key exists.
    Prepend,
    /// Adds to a counter, or sets its initial value.
    Counter,
    /// Replaces a value if it still is the expected one.
    Swap,
    /// Stores a document, in a mode of `SET`, unless the key holds another type than a string.
    TheirsSet,
    /// Removes a string.
    TheirsDelete,
    /// Stores a document and adds its key to the sorted set.
    OrderedUpsert,
    /// The same, for a new document only.
    OrderedInsert,
    /// Removes a document, and its key from the sorted set.
    OrderedDelete,
    /// Like `Counter`, and adds its key to the sorted set.
    OrderedCounter,
    /// Reads documents in the order of their keys.
    OrderedRange,
}

/// The text of each script, in the order of [`Script`]: those for ordered collections come last.
pub(super) const TEXTS: [&str; 11] = [
    // Append
    "if redis.call('EXISTS',KEYS[1])==0 then return 0 end \
     redis.call('APPEND',KEYS[1],ARGV[1]) return 1",
    // Prepend
    "local old=redis.call('GET',KEYS[1]) if not old then return 0 end \
     redis.call('SET',KEYS[1],ARGV[1]..old,'KEEPTTL') return 1",
    // Counter. It returns the value as text, because Lua numbers have only 53 bits.
    "if redis.call('EXISTS',KEYS[1])==0 then redis.call('SET',KEYS[1],ARGV[2]) return ARGV[2] end \
     redis.call('INCRBY',KEYS[1],ARGV[1]) return redis.call('GET',KEYS[1])",
    // Swap
    "local old=redis.call('GET',KEYS[1]) if not old then return 0 end \
     if old~=ARGV[1] then return -1 end \
     redis.call('SET',KEYS[1],ARGV[2],'KEEPTTL') return 1",
    // TheirsSet
    "local kind=redis.call('TYPE',KEYS[1]).ok if kind~='string' and kind~='none' then \
     return redis.error_reply('WRONGTYPE the key holds a '..kind..', no string') end \
     if ARGV[2]=='XX' and kind=='none' then return 0 end \
     redis.call('SET',KEYS[1],ARGV[1]) return 1",
    // TheirsDelete
    "local kind=redis.call('TYPE',KEYS[1]).ok if kind~='string' and kind~='none' then \
     return redis.error_reply('WRONGTYPE the key holds a '..kind..', no string') end \
     return redis.call('DEL',KEYS[1])",
    // OrderedUpsert
    "redis.call('SET',KEYS[1],ARGV[1]) redis.call('ZADD',KEYS[2],0,ARGV[2]) return 1",
    // OrderedInsert
    "if not redis.call('SET',KEYS[1],ARGV[1],'NX') then return 0 end \
     redis.call('ZADD',KEYS[2],0,ARGV[2]) return 1",
    // OrderedDelete
    "redis.call('ZREM',KEYS[2],ARGV[1]) return redis.call('DEL',KEYS[1])",
    // OrderedCounter
    "if redis.call('EXISTS',KEYS[1])==0 then redis.call('SET',KEYS[1],ARGV[2]) \
     redis.call('ZADD',KEYS[2],0,ARGV[3]) return ARGV[2] end \
     redis.call('INCRBY',KEYS[1],ARGV[1]) return redis.call('GET',KEYS[1])",
    // OrderedRange. The sorted set still contains the keys of expired documents, which it skips.
    "local out,limit,from={},tonumber(ARGV[4]),0 \
     while #out<limit*2 do \
     local keys=redis.call('ZRANGEBYLEX',KEYS[1],ARGV[1],ARGV[2],'LIMIT',from,limit) \
     if #keys==0 then break end \
     for _,key in ipairs(keys) do local body=redis.call('GET',ARGV[3]..key) \
     if body and #out<limit*2 then out[#out+1]=key out[#out+1]=body end end \
     from=from+#keys end return out",
];

impl Script {
    pub(super) fn text(self) -> &'static str {
        TEXTS[self as usize]
    }
}

/// The texts of the scripts that a session needs.
pub(super) fn needed(ordered: bool) -> &'static [&'static str] {
    if ordered { &TEXTS } else { &TEXTS[..Script::OrderedUpsert as usize] }
}

/// The script names that the server returned: the SHA-1 of their text, in hexadecimal.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(pub(super) [Vec<u8>; 11]);

impl Names {
    #[inline]
    pub(super) fn of(&self, script: Script) -> &[u8] {
        &self.0[script as usize]
    }
}
