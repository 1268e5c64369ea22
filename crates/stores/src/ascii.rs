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
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}
