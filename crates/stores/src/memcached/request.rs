//! Encodes operations as commands.

use storebench_engine::store::{ErrorKind, Op, OpError};
use storebench_study::workload::Body;

use super::keys;
use super::meta::decimal;
use crate::ascii;
use crate::connection::{Collection, expiry_s};
use crate::document;
use crate::refusals::refused;

/// The meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Stored.
    Stored,
    /// Stored, or not stored because the key exists already.
    Made,
    /// Stored, or not stored because there is no such key.
    Replaced,
    /// Stored, changed meanwhile, or no such key.
    Swapped,
    /// The document and its revision.
    Value,
    /// Those of several documents that exist, in the order in which they were asked for.
    Values,
    /// One or zero documents.
    Exists,
    /// Done, or no such key.
    Hit,
    /// A counter's value, after this number was added.
    Counter(i64),
}

/// The maximum overhead of an item, besides its key and value: header, revision, line ends.
const ITEM_BYTES: usize = 64;
/// The last second that memcached counts to: in 32 bits.
pub(super) const LATEST_S: u64 = i32::MAX as u64;

/// Appends the command of an operation on one document. On an error, the caller must remove what was appended.
///
/// # Errors
/// *Refused* if the operation does not fit the collection, if the document is larger than the server accepts, or if
/// it is not an operation on one document.
#[inline]
pub(super) fn single(
    op: &Op<'_>,
    collection: &Collection,
    largest_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<Expect, OpError> {
    match *op {
        Op::Upsert { key, body } => store(out, collection, key, body, b"", largest_bytes).map(|()| Expect::Stored),
        Op::Read { key } => get(out, collection, key, b" v c\r\n").map(|()| Expect::Value),
        Op::Insert { key, body } => store(out, collection, key, body, b" ME", largest_bytes).map(|()| Expect::Made),
        Op::Replace { key, body } => {
            store(out, collection, key, body, b" MR", largest_bytes).map(|()| Expect::Replaced)
        }
        Op::Append { key, bytes } | Op::Prepend { key, bytes } => {
            let mode: &[u8] = if matches!(op, Op::Append { .. }) { b" MA" } else { b" MP" };
            store(out, collection, key, bytes, mode, largest_bytes).map(|()| Expect::Replaced)
        }
        Op::Exists { key } => get(out, collection, key, b"\r\n").map(|()| Expect::Exists),
        Op::Delete { key } => command(out, b"md ", collection, key, b"\r\n").map(|()| Expect::Hit),
        Op::Touch { key, expiry } => {
            command(out, b"mg ", collection, key, b" T")?;
            decimal(out, expiry_s(expiry, LATEST_S));
            out.extend_from_slice(b"\r\n");
            Ok(Expect::Hit)
        }
        Op::Counter { key, delta, initial } => {
            command(out, b"ma ", collection, key, b" N0 J")?;
            decimal(out, keys::to_unsigned(initial));
            out.extend_from_slice(if delta < 0 { b" MD D" } else { b" MI D" });
            decimal(out, delta.unsigned_abs());
            out.extend_from_slice(b" v\r\n");
            Ok(Expect::Counter(delta))
        }
        Op::CompareAndSwap { key, expected, body } => {
            if ascii::number(expected).is_none() {
                return Err(OpError::new(
                    ErrorKind::Conflict,
                    "the expected revision is not a memcached revision, so it cannot match",
                ));
            }
            store(out, collection, key, body, &[&b" C"[..], expected].concat(), largest_bytes).map(|()| Expect::Swapped)
        }
        _ => Err(OpError::unsupported()),
    }
}

/// A command with these flags, or the first of them.
#[inline]
fn command(out: &mut Vec<u8>, name: &[u8], collection: &Collection, key: &str, flags: &[u8]) -> Result<(), OpError> {
    out.extend_from_slice(name);
    if keys::write(out, collection, key)? {
        out.extend_from_slice(b" b");
    }
    out.extend_from_slice(flags);
    Ok(())
}

/// `mg` with these flags.
#[inline]
pub(super) fn get(out: &mut Vec<u8>, collection: &Collection, key: &str, flags: &[u8]) -> Result<(), OpError> {
    command(out, b"mg ", collection, key, flags)
}

/// `ms`.
#[inline]
pub(super) fn store(
    out: &mut Vec<u8>,
    collection: &Collection,
    key: &str,
    body: &[u8],
    flags: &[u8],
    largest_bytes: usize,
) -> Result<(), OpError> {
    let counter;
    let mut buffer = itoa::Buffer::new();
    let body = if collection.body == Body::Counter && !collection.theirs {
        counter = document::counter(body)?;
        buffer.format(keys::to_unsigned(counter)).as_bytes()
    } else {
        body
    };
    // The server would refuse it too, but also remove the previous document.
    if body.len() + collection.prefix.len() + key.len() + ITEM_BYTES > largest_bytes {
        return Err(refused(format!(
            "a document of {} bytes is larger than this server accepts ({largest_bytes} bytes with its key and \
             header); start it with a larger -I, or make the documents smaller",
            body.len()
        )));
    }
    out.reserve(body.len() + 320);
    out.extend_from_slice(b"ms ");
    let base64 = keys::write(out, collection, key)?;
    out.push(b' ');
    decimal(out, body.len() as u64);
    if base64 {
        out.extend_from_slice(b" b");
    }
    out.extend_from_slice(flags);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn commands_are_as_memcached_wants_them() {
        let of = |body, op: Op<'_>| {
            let collection = Collection { body, prefix: b"p:".to_vec(), ..Collection::default() };
            let mut out = Vec::new();
            single(&op, &collection, 200, &mut out).map(|_| String::from_utf8(out).unwrap())
        };
        let key = "k";
        assert_eq!(of(Body::Json, Op::Upsert { key, body: b"{}" }).unwrap(), "ms p:k 2\r\n{}\r\n");
        assert_eq!(of(Body::Json, Op::Insert { key: "a b", body: b"{}" }).unwrap(), "ms cDphIGI= 2 b ME\r\n{}\r\n");
        assert_eq!(of(Body::Json, Op::Read { key }).unwrap(), "mg p:k v c\r\n");
        assert_eq!(of(Body::Json, Op::Touch { key, expiry: Duration::ZERO }).unwrap(), "mg p:k T1\r\n");
        let year = Duration::from_secs(365 * 86_400);
        let touch = of(Body::Json, Op::Touch { key, expiry: year }).unwrap();
        let date: u64 = touch.trim_end().rsplit_once('T').unwrap().1.parse().unwrap();
        assert!(date > 1_700_000_000 + year.as_secs(), "{touch}");
        let count = of(Body::Counter, Op::Counter { key, delta: -5, initial: -1 }).unwrap();
        assert_eq!(count, "ma p:k N0 J9223372036854775807 MD D5 v\r\n");
        assert_eq!(of(Body::Counter, Op::Upsert { key, body: b"0" }).unwrap(), "ms p:k 19\r\n9223372036854775808\r\n");
        assert!(of(Body::Counter, Op::Upsert { key, body: b"x" }).is_err());
        assert!(of(Body::Json, Op::Upsert { key, body: &[b'x'; 200] }).is_err());
        let swap = |expected| of(Body::Json, Op::CompareAndSwap { key, expected, body: b"{}" });
        assert_eq!(swap(b"12").unwrap(), "ms p:k 2 C12\r\n{}\r\n");
        assert_eq!(swap(b"1 T0").unwrap_err().kind, ErrorKind::Conflict);
    }
}
