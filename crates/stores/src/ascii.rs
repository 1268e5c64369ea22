//! Short texts of protocols.

/// Whether all bytes pass. It has no early end, so the compiler looks at many bytes at once: for texts that almost always
/// pass.
#[inline]
pub(crate) fn all(text: &[u8], passes: impl Fn(u8) -> bool) -> bool {
    text.iter().fold(true, |all, byte| all & passes(*byte))
}

/// A number of decimal digits only; `None` for any other text, and for one that does not fit.
#[inline]
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    // So many digits fit whatever they are, and are not checked one by one: this is called for every answer.
    let (first, rest) = text.split_at(text.len().min(19));
    let mut value = 0;
    for digit in first {
        value = value * 10 + u64::from(value_of(*digit)?);
    }
    for digit in rest {
        value = value.checked_mul(10)?.checked_add(u64::from(value_of(*digit)?))?;
    }
    (!text.is_empty()).then_some(value)
}

#[inline]
fn value_of(digit: u8) -> Option<u8> {
    let value = digit.wrapping_sub(b'0');
    (value <= 9).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_standard_library_reads_them() {
        for text in ["", "0", "7", "007", "-1", "+1", "1a", ":", "/"] {
            let plain = text.bytes().all(|byte| byte.is_ascii_digit());
            assert_eq!(number(text.as_bytes()), text.parse().ok().filter(|_| plain), "{text}");
        }
        let edges = [u64::MAX, u64::MAX - 1, 9_999_999_999_999_999_999, 1_000_000_000_000_000_000];
        for text in edges.map(|number| number.to_string()) {
            assert_eq!(number(text.as_bytes()), text.parse().ok());
        }
        for text in ["18446744073709551616", "99999999999999999999", "100000000000000000000000", "1844674407370955161x"]
        {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
        assert_eq!(number(b"00000000000000000000018446744073709551615"), Some(u64::MAX));
    }
}
