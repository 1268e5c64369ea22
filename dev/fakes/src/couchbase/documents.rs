//! One copy of a vbucket: its documents and its sequence number.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest relative expiry: 30 days. A larger value is a Unix time.
const LONGEST_RELATIVE_S: u32 = 30 * 24 * 60 * 60;

/// Collection and key.
pub(super) type Name = (u32, Vec<u8>);

/// A stored document.
#[derive(Debug, Clone, Default)]
pub(super) struct Document {
    pub value: Vec<u8>,
    pub flags: u32,
    /// When it expires, as Unix time in seconds; 0 for never.
    pub expires_s: u32,
    pub cas: u64,
    pub seqno: u64,
}

impl Document {
    /// Whether it is JSON, as the server determines when it stores the document.
    pub(super) fn is_json(&self) -> bool {
        serde_json::from_slice::<serde_json::Value>(&self.value).is_ok()
    }
}

/// A vbucket on one node.
#[derive(Debug, Clone, Default)]
pub(super) struct Copy {
    pub documents: BTreeMap<Name, Document>,
    pub seqno: u64,
}

impl Copy {
    /// A document that exists and has not expired.
    pub(super) fn get(&self, name: &Name) -> Option<&Document> {
        self.documents.get(name).filter(|document| alive(document))
    }
}

/// Whether a document has not expired.
pub(super) fn alive(document: &Document) -> bool {
    document.expires_s == 0 || document.expires_s > now_s()
}

/// The current Unix time in seconds.
pub(super) fn now_s() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32)
}

/// Converts an expiry of the protocol to Unix time; 0 still means never.
pub(super) fn expires_s(expiry: u32) -> u32 {
    if expiry == 0 || expiry > LONGEST_RELATIVE_S { expiry } else { now_s() + expiry }
}

/// Splits a protocol key into the collection's id, in LEB128, and the key.
pub(super) fn split_key(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut collection = 0_u32;
    for (i, byte) in bytes.iter().enumerate().take(5) {
        collection |= u32::from(byte & 0x7f).checked_shl(7 * i as u32)?;
        if byte & 0x80 == 0 {
            return Some((collection, &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_read_from_keys() {
        assert_eq!(split_key(b"\x00key"), Some((0, &b"key"[..])));
        assert_eq!(split_key(b"\x88\x01key"), Some((0x88, &b"key"[..])));
        assert_eq!(split_key(b"\xff\xff"), None);
        assert_eq!(split_key(b""), None);
    }

    #[test]
    fn an_expiry_beyond_thirty_days_is_a_time() {
        assert_eq!(expires_s(0), 0);
        assert!(expires_s(10) > now_s());
        assert_eq!(expires_s(LONGEST_RELATIVE_S + 1), LONGEST_RELATIVE_S + 1);
    }
}
