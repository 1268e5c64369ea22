//! The meta protocol (<https://docs.memcached.org/protocols/meta/>).

use crate::ascii;

/// One answer. It borrows from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// `HD`: done; its flags.
    Done(&'a [u8]),
    /// `VA`: a value, and its flags.
    Value(&'a [u8], &'a [u8]),
    /// `EN` or `NF`: no such key.
    Missing,
    /// `NS`: not stored.
    NotStored,
    /// `EX`: the key has another revision.
    Changed,
    /// `SERVER_ERROR …` or `CLIENT_ERROR …`, after which the connection is still usable.
    Failure(&'a [u8]),
}

/// The input is not this protocol, or it shows that the server misread a request. Holds the input, shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Garbage(pub(super) String);

impl Garbage {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Self(line[..line.len().min(60)].trim_ascii_end().escape_ascii().to_string())
    }
}

/// The maximum length of a line: a key of 250 bytes, and flags.
const LONGEST_LINE: usize = 2_048;
/// The maximum size of a value (`-I` goes up to 1 GiB).
const LARGEST_BYTES: usize = 1 << 30;

/// Reads one answer from the start of the input. Returns it with its length, or `None` if it is incomplete.
#[inline]
pub(super) fn answer(input: &[u8]) -> Result<Option<(Answer<'_>, usize)>, Garbage> {
    let Some(line_end) = memchr::memchr(b'\n', &input[..input.len().min(LONGEST_LINE)]) else {
        return if input.len() >= LONGEST_LINE || !begins_well(input) { Err(Garbage::of(input)) } else { Ok(None) };
    };
    let Some(line) = input[..line_end].strip_suffix(b"\r") else { return Err(Garbage::of(input)) };
    let after = line_end + 1;
    let (code, flags) = match line {
        [a, b] => ([*a, *b], &line[2..]),
        [a, b, b' ', flags @ ..] => ([*a, *b], flags),
        _ if line.starts_with(b"SERVER_ERROR ") => return Ok(Some((Answer::Failure(line), after))),
        // Any other error means that requests and answers no longer match.
        _ if line == b"CLIENT_ERROR cannot increment or decrement non-numeric value" => {
            return Ok(Some((Answer::Failure(line), after)));
        }
        _ => return Err(Garbage::of(input)),
    };
    let answer = match &code {
        b"HD" => Answer::Done(flags),
        b"VA" => {
            let (size, flags) = match memchr::memchr(b' ', flags) {
                Some(space) => (&flags[..space], &flags[space + 1..]),
                None => (flags, &flags[flags.len()..]),
            };
            let size = ascii::number(size).and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= LARGEST_BYTES);
            let end = after + size.ok_or_else(|| Garbage::of(input))?;
            return match input.get(end..end + 2) {
                None => Ok(None),
                Some(b"\r\n") => Ok(Some((Answer::Value(&input[after..end], flags), end + 2))),
                Some(_) => Err(Garbage::of(&input[end..])),
            };
        }
        b"EN" | b"NF" => Answer::Missing,
        b"NS" => Answer::NotStored,
        b"EX" => Answer::Changed,
        _ => return Err(Garbage::of(input)),
    };
    Ok(Some((answer, after)))
}

/// Whether an incomplete line may become an answer.
fn begins_well(input: &[u8]) -> bool {
    let words: [&[u8]; 8] = [b"HD", b"VA", b"EN", b"NF", b"NS", b"EX", b"SERVER_ERROR ", b"CLIENT_ERROR "];
    words.iter().any(|word| {
        let length = word.len().min(input.len());
        word[..length] == input[..length]
    })
}

/// The value of a flag: in `c12 t-1`, the value of `c` is `12`.
#[inline]
pub(super) fn flag(flags: &[u8], name: u8) -> Option<&[u8]> {
    flags.split(|byte| *byte == b' ').find_map(|flag| flag.strip_prefix(&[name]))
}

/// Appends a number.
#[inline]
pub(super) fn decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_answer_is_read() {
        let cases: [(&[u8], Answer<'_>); 8] = [
            (b"HD\r\n", Answer::Done(b"")),
            (b"HD c12 t-1\r\n", Answer::Done(b"c12 t-1")),
            (b"VA 4 c7 t30\r\na\r\nb\r\n", Answer::Value(b"a\r\nb", b"c7 t30")),
            (b"VA 0\r\n\r\n", Answer::Value(b"", b"")),
            (b"EN\r\n", Answer::Missing),
            (b"NS\r\n", Answer::NotStored),
            (b"EX\r\n", Answer::Changed),
            (
                b"SERVER_ERROR out of memory storing object\r\n",
                Answer::Failure(b"SERVER_ERROR out of memory storing object"),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(answer(text), Ok(Some((expected, text.len()))), "{}", text.escape_ascii());
            for end in 0..text.len() {
                assert_eq!(answer(&text[..end]), Ok(None), "{}", text[..end].escape_ascii());
            }
        }
        assert_eq!((flag(b"c12 t-1", b't'), flag(b"c12", b't')), (Some(&b"-1"[..]), None));
    }

    #[test]
    fn what_is_not_the_protocol_is_garbage() {
        for text in [
            "+OK\r\n",
            "HTTP/1.1",
            "ERROR\r\n",
            "VA x\r\n",
            "VA 99999999999999\r\n",
            "VA 1\r\nabc",
            "HD\n",
            "CLIENT_ERROR bad\r\n",
            "X",
        ] {
            assert!(answer(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = answer(&bytes);
            let mut begun = b"VA 3 ".to_vec();
            begun.extend_from_slice(&bytes);
            let _ = answer(&begun);
        }
    }
}
