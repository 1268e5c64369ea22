//! Documents compressed with Snappy (`compression=snappy`), as the official clients do it:
//! <https://github.com/couchbase/kv_engine/blob/master/docs/Compression.md>.

use std::borrow::Cow;

/// What both sides agree on when a connection begins (HELLO).
pub(super) const FEATURE: u16 = 0x0a;
/// The bit of a packet's data type that says that its value is compressed.
pub(super) const DATATYPE: u8 = 0x02;
/// Documents up to this size are sent as they are, and so are those that do not shrink to this share. Both are the defaults
/// of the official clients.
const UP_TO_BYTES: usize = 32;
const TO_PERCENT: usize = 83;
/// Documents have at most 20 MiB.
const LONGEST: usize = 64 << 20;

/// A document compressed. `None` if that is not worth it.
pub(super) fn compressed(value: &[u8]) -> Option<Vec<u8>> {
    let small = || snap::raw::Encoder::new().compress_vec(value).ok();
    let worth = |small: &Vec<u8>| small.len() * 100 <= value.len() * TO_PERCENT;
    (value.len() > UP_TO_BYTES).then(small).flatten().filter(worth)
}

/// A value as it was before it was compressed.
///
/// # Errors
/// Why it cannot be one.
pub(super) fn plain(value: &[u8], datatype: u8) -> Result<Cow<'_, [u8]>, &'static str> {
    if datatype & DATATYPE == 0 {
        return Ok(Cow::Borrowed(value));
    }
    let wrong = "its compressed document cannot be read";
    if snap::raw::decompress_len(value).map_err(|_| wrong)? > LONGEST {
        return Err("its document has an impossible length");
    }
    snap::raw::Decoder::new().decompress_vec(value).map(Cow::Owned).map_err(|_| wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shrinks_is_compressed_and_comes_back() {
        let text = "again and ".repeat(10);
        let small = compressed(text.as_bytes()).unwrap();
        assert!(small.len() < 83);
        assert_eq!(plain(&small, DATATYPE | 1).unwrap(), text.as_bytes());
        assert_eq!(plain(&small, 1).unwrap(), &small[..]);
        assert_eq!(compressed(&text.as_bytes()[..32]), None, "too short");
        assert_eq!(compressed((0..=255).collect::<Vec<u8>>().as_slice()), None, "it does not shrink");
        assert!(plain(b"\xff\xff\xff\xff\x0f", DATATYPE).is_err());
        assert!(plain(b"\x05a", DATATYPE).is_err());
    }
}
