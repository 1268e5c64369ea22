//! Keys in memcached's form: at most 250 bytes, without spaces and control characters.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use storebench_engine::store::{ErrorKind, OpError};

use crate::ascii;
use crate::connection::Collection;

/// The maximum length of a written key.
const LONGEST: usize = 250;

/// Appends a key. Returns whether it is in base64, so that the command needs the flag `b`.
///
/// # Errors
/// *Refused* for an empty key without prefix, and for a key that memcached does not accept in a collection that
/// Storebench did not create. In others, a key that is too long is replaced by its hash.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, collection: &Collection, key: &str) -> Result<bool, OpError> {
    let (prefix, length) = (collection.prefix.as_slice(), collection.prefix.len() + key.len());
    if length <= LONGEST && length > 0 && is_plain(key.as_bytes()) && is_plain(prefix) {
        out.extend_from_slice(prefix);
        out.extend_from_slice(key.as_bytes());
        return Ok(false);
    }
    if length > 0 && length.div_ceil(3) * 4 <= LONGEST {
        push_base64(out, &[prefix, key.as_bytes()].concat());
        return Ok(true);
    }
    if collection.theirs || length == 0 {
        return Err(OpError::new(
            ErrorKind::Refused,
            "invalid key; memcached accepts 1 to 250 bytes (187 if they contain spaces or control characters)",
        ));
    }
    // A `;` instead of the `:` before an unhashed key, so that no key equals the hash of another.
    out.extend_from_slice(prefix.strip_suffix(b":").unwrap_or(prefix));
    out.push(b';');
    push_base64(out, &Sha256::digest(key.as_bytes()));
    Ok(false)
}

/// Whether a key has neither spaces nor control characters.
#[inline]
fn is_plain(key: &[u8]) -> bool {
    ascii::all(key, |byte| (byte > b' ') & (byte != 0x7F))
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // The buffer has exactly the required size.
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

/// Reads an item of a listing. The server percent-encodes its key.
pub(super) fn listed(line: &[u8]) -> Option<Listed> {
    let mut words = line.split(|byte| *byte == b' ');
    let key = percent_encoding::percent_decode(words.next()?.strip_prefix(b"key=")?).collect();
    let revision = words.find_map(|word| word.strip_prefix(b"cas="))?;
    Some(Listed { key, revision: std::str::from_utf8(revision).ok()?.parse().ok()? })
}

/// Appends a complete key, with its prefix, from a listing. Returns whether it is in base64.
pub(super) fn write_raw(out: &mut Vec<u8>, key: &[u8]) -> bool {
    if is_plain(key) {
        out.extend_from_slice(key);
        return false;
    }
    push_base64(out, key);
    true
}

/// A counter in memcached's form. Its numbers are unsigned, so 2⁶³ is added.
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
        let collection = Collection { prefix: b"sb:1:c:".to_vec(), theirs: !ours, ..Collection::default() };
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
