//! Whether all bytes of a text pass.

/// Whether all bytes pass. It has no early end, so the compiler looks at many bytes at once: for texts that almost always
/// pass.
#[inline]
pub(crate) fn all(text: &[u8], passes: impl Fn(u8) -> bool) -> bool {
    text.iter().fold(true, |all, byte| all & passes(*byte))
}
