//! Escapes and unescapes the text at the end of a buffer in place, as in JSON strings.

/// Escapes `text` for use inside a JSON string.
pub(crate) fn escaped(text: &str) -> Box<[u8]> {
    let mut out = text.as_bytes().to_vec();
    escape_tail(0, &mut out);
    out.into_boxed_slice()
}

/// Escapes the bytes of `out` from `begin` on.
pub(crate) fn escape_tail(begin: usize, out: &mut Vec<u8>) {
    fn extra(byte: u8) -> usize {
        match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
            0..0x20 => 5,
            _ => 0,
        }
    }
    let more: usize = out[begin..].iter().map(|b| extra(*b)).sum();
    if more == 0 {
        return;
    }
    let mut from = out.len();
    out.resize(from + more, 0);
    let mut to = out.len();
    // From the back, so that nothing is overwritten before it is read.
    while from > begin && to > from {
        from -= 1;
        let byte = out[from];
        let short = match byte {
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            other => other,
        };
        match extra(byte) {
            0 => {
                to -= 1;
                out[to] = byte;
            }
            1 => {
                to -= 2;
                out[to..to + 2].copy_from_slice(&[b'\\', short]);
            }
            _ => {
                to -= 6;
                let hex = b"0123456789abcdef";
                let code = [b'\\', b'u', b'0', b'0', hex[usize::from(byte >> 4)], hex[usize::from(byte & 15)]];
                out[to..to + 6].copy_from_slice(&code);
            }
        }
    }
}

/// Undoes [`escape_tail`], and the `\` escapes in text of the corpus.
pub(crate) fn unescape_tail(begin: usize, out: &mut Vec<u8>) {
    let Some(first) = out[begin..].iter().position(|b| *b == b'\\') else { return };
    let (mut from, mut to) = (begin + first, begin + first);
    while from < out.len() {
        let byte = out[from];
        let (plain, used) = match (byte, out.get(from + 1)) {
            (b'\\', Some(b'n')) => (b'\n', 2),
            (b'\\', Some(b'r')) => (b'\r', 2),
            (b'\\', Some(b't')) => (b'\t', 2),
            (b'\\', Some(b'u')) => {
                // Only control characters are written this way, so two digits are enough.
                let digit = |at: usize| out.get(at).and_then(|b| (*b as char).to_digit(16)).unwrap_or(0) as u8;
                (digit(from + 4) << 4 | digit(from + 5), 6)
            }
            (b'\\', Some(other)) => (*other, 2),
            _ => (byte, 1),
        };
        out[to] = plain;
        to += 1;
        from += used;
    }
    out.truncate(to);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn escapes_are_json_and_undone(before in ".{0,3}", text in "(?s)[\\PC\"\\\\\u{0}-\u{1f}]{0,40}") {
            let mut out = before.clone().into_bytes();
            let begin = out.len();
            out.extend_from_slice(text.as_bytes());
            escape_tail(begin, &mut out);
            let quoted = format!("\"{}\"", std::str::from_utf8(&out[begin..]).unwrap());
            prop_assert_eq!(&serde_json::from_str::<String>(&quoted).unwrap(), &text);
            unescape_tail(begin, &mut out);
            prop_assert_eq!(out, (before + &text).into_bytes());
        }
    }
}
