//! The protocol: RESP2 (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).

use crate::ascii;

/// The maximum length of a string or an array. Servers send no longer ones.
const LONGEST: i64 = 1 << 30;
/// The maximum nesting depth of arrays.
const DEEPEST: u32 = 8;

/// One answer, or the head of an array. It borrows from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// `+OK`
    Simple(&'a [u8]),
    /// `-ERR …`
    Error(&'a [u8]),
    /// `:1`
    Integer(i64),
    /// `$3 abc`
    Bulk(&'a [u8]),
    /// `$-1` or `*-1`
    Nil,
    /// The number of answers that follow.
    Array(usize),
}

/// The input is not this protocol. Holds the input, shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Garbage(pub(super) String);

impl Garbage {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let shown = &bytes[..bytes.len().min(40)];
        Self(shown.escape_ascii().to_string())
    }
}

/// Reads one answer from the start of the input. Returns it with its length, or `None` if it is incomplete.
#[inline]
pub(super) fn item(input: &[u8]) -> Result<Option<(Item<'_>, usize)>, Garbage> {
    let Some(kind) = input.first() else { return Ok(None) };
    if !b"+-:$*_".contains(kind) {
        return Err(Garbage::of(input));
    }
    let Some(line_end) = memchr::memchr(b'\n', input) else {
        // Lines of a status, an error or a number are short.
        return if input.len() > 64 << 10 { Err(Garbage::of(input)) } else { Ok(None) };
    };
    if line_end < 2 || input[line_end - 1] != b'\r' {
        return Err(Garbage::of(input));
    }
    let (line, after) = (&input[1..line_end - 1], line_end + 1);
    let whole = |item| Ok(Some((item, after)));
    match kind {
        b'$' => match integer(line).ok_or_else(|| Garbage::of(input))? {
            -1 => whole(Item::Nil),
            length @ 0..LONGEST => {
                let end = after + length as usize;
                match input.get(end..end + 2) {
                    None => Ok(None),
                    Some(b"\r\n") => Ok(Some((Item::Bulk(&input[after..end]), end + 2))),
                    Some(_) => Err(Garbage::of(&input[end..])),
                }
            }
            _ => Err(Garbage::of(input)),
        },
        b'+' => whole(Item::Simple(line)),
        b'-' => whole(Item::Error(line)),
        b':' => whole(Item::Integer(integer(line).ok_or_else(|| Garbage::of(input))?)),
        b'*' => match integer(line).ok_or_else(|| Garbage::of(input))? {
            -1 => whole(Item::Nil),
            count @ 0..LONGEST => whole(Item::Array(count as usize)),
            _ => Err(Garbage::of(input)),
        },
        _ => whole(Item::Nil),
    }
}

/// Parses a decimal integer of at most 64 bits, in the shortest form, as servers write it.
#[inline]
fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let value = ascii::number(digits).filter(|_| digits.len() <= 19)?;
    if digits.len() < text.len() { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// A complete, owned answer, for infrequent requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Value>),
}

impl Value {
    /// Reads one answer, like [`item`].
    pub(super) fn read(input: &[u8]) -> Result<Option<(Self, usize)>, Garbage> {
        Self::read_at(input, 0)
    }

    fn read_at(input: &[u8], depth: u32) -> Result<Option<(Self, usize)>, Garbage> {
        let Some((item, mut used)) = item(input)? else { return Ok(None) };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let value = match item {
            Item::Simple(line) => Self::Simple(text(line)),
            Item::Error(line) => Self::Error(text(line)),
            Item::Integer(number) => Self::Integer(number),
            Item::Bulk(bytes) => Self::Bulk(bytes.to_vec()),
            Item::Nil => Self::Nil,
            Item::Array(_) if depth >= DEEPEST => return Err(Garbage::of(input)),
            Item::Array(count) => {
                let mut values = Vec::new();
                for _ in 0..count {
                    let Some((value, bytes)) = Self::read_at(&input[used..], depth + 1)? else { return Ok(None) };
                    used += bytes;
                    values.push(value);
                }
                Self::Array(values)
            }
        };
        Ok(Some((value, used)))
    }

    /// The text of a status or string.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Simple(text) => Some(text.clone()),
            Self::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    /// The number.
    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The answers of an array.
    pub(super) fn items(&self) -> &[Value] {
        match self {
            Self::Array(values) => values,
            _ => &[],
        }
    }
}

/// Begins a command of `words` words.
#[inline]
pub(super) fn command(out: &mut Vec<u8>, words: usize) {
    out.push(b'*');
    decimal(out, words);
    out.extend_from_slice(b"\r\n");
}

/// A whole command.
pub(super) fn full_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    command(out, words.len());
    words.iter().for_each(|bytes| word(out, bytes));
}

/// One word.
#[inline]
pub(super) fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    word_of(out, &[bytes]);
}

/// One word, given in parts.
#[inline]
pub(super) fn word_of(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.push(b'$');
    decimal(out, parts.iter().map(|part| part.len()).sum());
    out.extend_from_slice(b"\r\n");
    for part in parts {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn decimal(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_kind_is_read() {
        let cases: [(&[u8], Item<'_>); 8] = [
            (b"+OK\r\n", Item::Simple(b"OK")),
            (b"-ERR no\r\n", Item::Error(b"ERR no")),
            (b":-12\r\n", Item::Integer(-12)),
            (b":-9223372036854775808\r\n", Item::Integer(i64::MIN)),
            (b"$3\r\na\r\n\r\n", Item::Bulk(b"a\r\n")),
            (b"$0\r\n\r\n", Item::Bulk(b"")),
            (b"$-1\r\n", Item::Nil),
            (b"*2\r\n", Item::Array(2)),
        ];
        for (text, expected) in cases {
            assert_eq!(item(text), Ok(Some((expected, text.len()))));
            for end in 0..text.len() {
                assert_eq!(item(&text[..end]), Ok(None), "{}", text[..end].escape_ascii());
            }
        }
        let nested = b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\nrest";
        let expected = Value::Array(vec![Value::Array(vec![Value::Integer(1)]), Value::Bulk(b"x".to_vec())]);
        assert_eq!(Value::read(nested), Ok(Some((expected, nested.len() - 4))));
    }

    #[test]
    fn what_is_not_the_protocol_is_garbage() {
        for text in [
            "HTTP/1.1 400",
            "ERROR\r\n",
            "$x\r\n",
            "$-2\r\n",
            ":\r\n",
            ":9223372036854775808\r\n",
            "+OK\n",
            "$1\r\nabc",
            "*99999999999\r\n",
            "$99999999999999\r\n",
        ] {
            assert!(item(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Value::read("*1\r\n".repeat(100).as_bytes()).is_err());
        assert!(item(&vec![b'+'; 100_000]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Value::read(&bytes);
            let mut begun = b"*3\r\n$2\r\n".to_vec();
            begun.extend_from_slice(&bytes);
            let _ = Value::read(&begun);
        }

        #[test]
        fn words_come_back(words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..8)) {
            let mut out = Vec::new();
            command(&mut out, words.len());
            for w in &words {
                word(&mut out, w);
            }
            let expected = Value::Array(words.into_iter().map(Value::Bulk).collect());
            prop_assert_eq!(Value::read(&out), Ok(Some((expected, out.len()))));
        }
    }
}
