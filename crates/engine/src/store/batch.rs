//! Keys and bodies of many documents in two buffers. A batch of a thousand documents costs no allocation once its
//! buffers have grown, and a pass over the keys alone stays in the cache.

/// A borrowed batch of (key, body) pairs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Batch<'a> {
    keys: &'a str,
    bodies: &'a [u8],
    ends: &'a [(usize, usize)],
}

impl<'a> Batch<'a> {
    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys and bodies.
    pub fn total_bytes(&self) -> usize {
        self.keys.len() + self.bodies.len()
    }

    /// The pair at a position, if there is one.
    pub fn get(&self, position: usize) -> Option<(&'a str, &'a [u8])> {
        let (key_end, end) = *self.ends.get(position)?;
        let (key_start, start) = if position == 0 { (0, 0) } else { self.ends[position - 1] };
        Some((&self.keys[key_start..key_end], &self.bodies[start..end]))
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

/// The buffers of a [`Batch`], to be filled, borrowed, cleared and filled again.
#[derive(Debug, Clone, Default)]
pub struct BatchBuf {
    keys: String,
    key: Vec<u8>,
    bodies: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl BatchBuf {
    /// Empty buffers.
    pub const fn new() -> Self {
        Self { keys: String::new(), key: Vec::new(), bodies: Vec::new(), ends: Vec::new() }
    }

    /// Removes the pairs but keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.bodies.clear();
        self.ends.clear();
    }

    /// Adds a pair.
    pub fn push(&mut self, key: &str, body: &[u8]) {
        self.keys.push_str(key);
        self.bodies.extend_from_slice(body);
        self.ends.push((self.keys.len(), self.bodies.len()));
    }

    /// Adds a pair: `key` appends the key to a buffer, `body` the body. Bytes of the key that are not UTF-8 become
    /// U+FFFD.
    pub fn push_with(&mut self, key: impl FnOnce(&mut Vec<u8>), body: impl FnOnce(&mut Vec<u8>)) {
        self.key.clear();
        key(&mut self.key);
        match std::str::from_utf8(&self.key) {
            Ok(key) => self.keys.push_str(key),
            Err(_) => self.keys.push_str(&String::from_utf8_lossy(&self.key)),
        }
        body(&mut self.bodies);
        self.ends.push((self.keys.len(), self.bodies.len()));
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The pairs.
    pub fn as_batch(&self) -> Batch<'_> {
        Batch { keys: &self.keys, bodies: &self.bodies, ends: &self.ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_in_order() {
        let mut buf = BatchBuf::new();
        buf.push("a", b"1");
        buf.push("", b"");
        buf.push_with(|k| k.extend_from_slice("ключ".as_bytes()), |b| b.extend_from_slice(b"22"));
        let pairs: Vec<_> = buf.as_batch().iter().collect();
        assert_eq!(pairs, [("a", &b"1"[..]), ("", b""), ("ключ", b"22")]);
        assert!(buf.as_batch().get(3).is_none());
    }
}
