//! Keys and bodies side by side in one buffer, so that a batch of a thousand documents costs no
//! allocation once its buffer has grown.

/// A borrowed batch of (key, body) pairs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Batch<'a> {
    bytes: &'a [u8],
    ends: &'a [(usize, usize)],
}

impl<'a> Batch<'a> {
    /// How many pairs.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys and bodies.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The pair at a position, if there is one.
    pub fn get(&self, position: usize) -> Option<(&'a str, &'a [u8])> {
        let (key_end, end) = *self.ends.get(position)?;
        let start = if position == 0 { 0 } else { self.ends[position - 1].1 };
        let key = std::str::from_utf8(&self.bytes[start..key_end]).expect("a BatchBuf takes keys as str only");
        Some((key, &self.bytes[key_end..end]))
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

/// The buffer of a [`Batch`], to be filled, borrowed, cleared and filled again.
#[derive(Debug, Clone, Default)]
pub struct BatchBuf {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl BatchBuf {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the pairs, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a pair.
    pub fn push(&mut self, key: &str, body: &[u8]) {
        self.bytes.extend_from_slice(key.as_bytes());
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(body);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Adds a pair that `key` and then `body` write at the end of the buffer.
    ///
    /// # Panics
    /// If `key` writes what is not UTF-8 (checked in debug builds).
    pub fn push_with(&mut self, key: impl FnOnce(&mut Vec<u8>), body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        let key_end = self.bytes.len();
        debug_assert!(std::str::from_utf8(&self.bytes[start..key_end]).is_ok(), "keys are UTF-8");
        body(&mut self.bytes);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// How many pairs.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The pairs.
    pub fn as_batch(&self) -> Batch<'_> {
        Batch { bytes: &self.bytes, ends: &self.ends }
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
