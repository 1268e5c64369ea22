//! The meta protocol (<https://docs.memcached.org/protocols/meta/>), and the answer to `get` with several keys
//! (<https://docs.memcached.org/protocols/classic/>).

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
    const BEGINNINGS: [&[u8]; 8] = [b"HD", b"VA", b"EN", b"NF", b"NS", b"EX", b"SERVER_ERROR ", b"CLIENT_ERROR "];
    let Some((line, after)) = line(input, &BEGINNINGS)? else { return Ok(None) };
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
            return Ok(value(input, after, size)?.map(|(value, used)| (Answer::Value(value, flags), used)));
        }
        b"EN" | b"NF" => Answer::Missing,
        b"NS" => Answer::NotStored,
        b"EX" => Answer::Changed,
        _ => return Err(Garbage::of(input)),
    };
    Ok(Some((answer, after)))
}

/// A part of the answer to `get` with several keys. Keys that the server does not have are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row<'a> {
    /// `VALUE`: a key and its value.
    Value(&'a [u8], &'a [u8]),
    /// `END`: no more.
    End,
    /// `SERVER_ERROR …`, instead of the rest.
    Failure(&'a [u8]),
}

/// Reads one row from the start of the input. Returns it with its length, or `None` if it is incomplete.
#[inline]
pub(super) fn row(input: &[u8]) -> Result<Option<(Row<'_>, usize)>, Garbage> {
    const BEGINNINGS: [&[u8]; 3] = [b"VALUE ", b"END\r\n", b"SERVER_ERROR "];
    let Some((line, after)) = line(input, &BEGINNINGS)? else { return Ok(None) };
    if let Some(words) = line.strip_prefix(b"VALUE ") {
        let mut words = words.split(|byte| *byte == b' ');
        let (Some(key), Some(_flags), Some(size), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Garbage::of(input));
        };
        return Ok(value(input, after, size)?.map(|(value, used)| (Row::Value(key, value), used)));
    }
    match line {
        b"END" => Ok(Some((Row::End, after))),
        _ if line.starts_with(b"SERVER_ERROR ") => Ok(Some((Row::Failure(line), after))),
        _ => Err(Garbage::of(input)),
    }
}

/// The first line, and where the next one begins. `None` if it is incomplete and may still become one of these.
#[inline]
fn line<'a>(input: &'a [u8], beginnings: &[&[u8]]) -> Result<Option<(&'a [u8], usize)>, Garbage> {
    let Some(end) = memchr::memchr(b'\n', &input[..input.len().min(LONGEST_LINE)]) else {
        let begins_well = beginnings.iter().any(|word| {
            let length = word.len().min(input.len());
            word[..length] == input[..length]
        });
        return if input.len() >= LONGEST_LINE || !begins_well { Err(Garbage::of(input)) } else { Ok(None) };
    };
    let line = input[..end].strip_suffix(b"\r").ok_or_else(|| Garbage::of(input))?;
    Ok(Some((line, end + 1)))
}

/// The value that begins at `start`, of a size in decimal, and where what follows it begins. `None` if it is incomplete.
#[inline]
fn value<'a>(input: &'a [u8], start: usize, size: &[u8]) -> Result<Option<(&'a [u8], usize)>, Garbage> {
    let size = ascii::number(size).and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= LARGEST_BYTES);
    let end = start + size.ok_or_else(|| Garbage::of(input))?;
    match input.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((&input[start..end], end + 2))),
        Some(_) => Err(Garbage::of(&input[end..])),
    }
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
    fn each_row_is_read() {
        let cases: [(&[u8], Row<'_>); 4] = [
            (b"VALUE p:k 0 4\r\na\r\nb\r\n", Row::Value(b"p:k", b"a\r\nb")),
            (b"VALUE k 7 0\r\n\r\n", Row::Value(b"k", b"")),
            (b"END\r\n", Row::End),
            (
                b"SERVER_ERROR out of memory writing get response\r\n",
                Row::Failure(b"SERVER_ERROR out of memory writing get response"),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(row(text), Ok(Some((expected, text.len()))), "{}", text.escape_ascii());
            for end in 0..text.len() {
                assert_eq!(row(&text[..end]), Ok(None), "{}", text[..end].escape_ascii());
            }
        }
        let garbage =
            ["EN\r\n", "VA 1\r\na\r\n", "VALUE k 0\r\n", "VALUE k 0 1 2 3\r\na\r\n", "VALUE k 0 1\r\nabc", "E\n"];
        for text in garbage.into_iter().chain(["VALUE k 0 x\r\n", "ERROR\r\n", "CLIENT_ERROR bad\r\n", "X"]) {
            assert!(row(text.as_bytes()).is_err(), "{text}");
        }
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
            let _ = row(&bytes);
            let mut begun = b"VALUE k 0 ".to_vec();
            begun.extend_from_slice(&bytes);
            let _ = row(&begun);
        }
    }
}
