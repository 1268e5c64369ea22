//! Keys as memcached takes them: at most 250 bytes, none of them a space or a control character.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use storebench_engine::store::{ErrorKind, OpError};
use storebench_study::workload::Body;

/// The longest key as it is written.
const LONGEST: usize = 250;

/// A collection as sessions use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collection {
    pub(super) body: Body,
    /// What the keys of its documents begin with.
    pub(super) prefix: Vec<u8>,
    /// Whether Storebench made it: then a key that is too long is replaced by a hash of it, and
    /// counters are stored as memcached can count.
    pub(super) ours: bool,
}

/// Appends a key. Gives whether it is in base64, which the command then says with the flag `b`.
///
/// # Errors
/// *Refused* for a key that memcached does not take, in a collection that is not ours.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, collection: &Collection, key: &str) -> Result<bool, OpError> {
    let plain = |bytes: &[u8]| bytes.iter().all(|byte| *byte > b' ' && *byte != 0x7F);
    let (prefix, length) = (collection.prefix.as_slice(), collection.prefix.len() + key.len());
    if length <= LONGEST && length > 0 && plain(key.as_bytes()) && plain(prefix) {
        out.extend_from_slice(prefix);
        out.extend_from_slice(key.as_bytes());
        return Ok(false);
    }
    if length > 0 && length.div_ceil(3) * 4 <= LONGEST {
        push_base64(out, &[prefix, key.as_bytes()].concat());
        return Ok(true);
    }
    if !collection.ours || length == 0 {
        return Err(OpError::new(
            ErrorKind::Refused,
            "memcached takes keys of 1 to 250 bytes (187 with spaces or control characters in them)",
        ));
    }
    // A `;` where a document's own key has a `:`, so that no key is the hash of another.
    out.extend_from_slice(prefix.strip_suffix(b":").unwrap_or(prefix));
    out.push(b';');
    push_base64(out, &Sha256::digest(key.as_bytes()));
    Ok(false)
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // The room is exactly what the encoding takes.
    if let Ok(written) = STANDARD.encode_slice(bytes, &mut out[start..]) {
        out.truncate(start + written);
    }
}

/// An item of a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) key: Vec<u8>,
    pub(super) revision: u64,
}

/// An item from a listing, whose key the server writes percent-encoded.
pub(super) fn listed(line: &[u8]) -> Option<Listed> {
    let mut words = line.split(|byte| *byte == b' ');
    let key = percent_encoding::percent_decode(words.next()?.strip_prefix(b"key=")?).collect();
    let revision = words.find_map(|word| word.strip_prefix(b"cas="))?;
    Some(Listed { key, revision: std::str::from_utf8(revision).ok()?.parse().ok()? })
}

/// Appends a whole key, prefix included, as it came from a listing.
pub(super) fn write_raw(out: &mut Vec<u8>, key: &[u8]) -> bool {
    if key.iter().all(|byte| *byte > b' ' && *byte != 0x7F) {
        out.extend_from_slice(key);
        return false;
    }
    push_base64(out, key);
    true
}

/// A counter as memcached can count it: its numbers have no sign, so 2⁶³ is added.
pub(super) fn to_unsigned(value: i64) -> u64 {
    (value as u64) ^ (1 << 63)
}

/// The counter of a stored number.
pub(super) fn from_unsigned(value: u64) -> i64 {
    (value ^ (1 << 63)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(key: &str, ours: bool) -> Result<(String, bool), OpError> {
        let collection = Collection { body: Body::Json, prefix: b"sb:1:c:".to_vec(), ours };
        let mut out = Vec::new();
        write(&mut out, &collection, key).map(|base64| (String::from_utf8(out).unwrap(), base64))
    }

    #[test]
    fn every_key_finds_a_way() {
        assert_eq!(written("a/b", true).unwrap(), ("sb:1:c:a/b".into(), false));
        assert_eq!(written("ключ", true).unwrap(), ("sb:1:c:ключ".into(), false));
        assert_eq!(written("a b", true).unwrap(), (STANDARD.encode("sb:1:c:a b"), true));
        assert!(!written(&"k".repeat(243), true).unwrap().1);
        let (hashed, base64) = written(&"k".repeat(250), true).unwrap();
        assert!(hashed.starts_with("sb:1:c;") && hashed.len() < 60 && !base64);
        assert_ne!(hashed, written(&"l".repeat(250), true).unwrap().0);
        let long = format!("a {}", "b".repeat(200));
        assert!(written(&long, true).unwrap().0.starts_with("sb:1:c;"));
        assert_eq!(written(&long, false).unwrap_err().kind, ErrorKind::Refused);
        assert_eq!(listed(b"key=a%20b exp=-1 la=1 cas=7").unwrap(), Listed { key: b"a b".into(), revision: 7 });
    }

    #[test]
    fn counters_keep_their_order_without_a_sign() {
        assert_eq!((to_unsigned(i64::MIN), to_unsigned(0), to_unsigned(i64::MAX)), (0, 1 << 63, u64::MAX));
        for value in [i64::MIN, -1, 0, 1, i64::MAX] {
            assert_eq!(from_unsigned(to_unsigned(value)), value);
        }
    }
}
