//! Encodes operations as commands.

use storebench_engine::store::{Op, OpError};

use super::resp::{command, word, word_of};
use super::scripts::{Names, Script};
use crate::connection::Collection;
use crate::document;
use crate::refusals::refused;

/// The expected form of an answer, and its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    /// `+OK`.
    Stored,
    /// `+OK`, or nil if the key exists already.
    Made,
    /// `+OK`, or nil if there is no such key.
    Replaced,
    /// 1, or 0 if the key exists already.
    MadeFlag,
    /// The document, or nil.
    Value,
    /// 1 or 0 documents.
    Exists,
    /// 1, or 0 if there is no such key.
    Hit,
    /// 1, 0 if there is no such key, -1 if it does not have the expected revision.
    Swapped,
    /// The counter's value as text.
    Counter,
    /// An array of documents in the order of the requested keys, with nil for missing documents.
    Many,
    /// The number of these documents that are still to come.
    ManyLeft(u32),
    /// An array of alternating keys and documents.
    Rows,
    /// The number of these keys and documents that are still to come.
    RowsLeft(u32),
    /// Anything: the rows of a query.
    Answer,
    /// `+OK`: a transaction has begun.
    Begun,
    /// `+QUEUED`: a command of a transaction.
    Queued,
    /// An array with the answer to each command of a transaction.
    Steps,
    /// How many replicas have all earlier writes.
    Replicas,
    /// The node of each range of slots.
    Slots,
    /// The name of a script that was reloaded.
    Script,
    /// Anything: the driver's own request.
    Ignored,
}

/// The start of the most common commands, up to the length of the key.
const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n";
const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n";
const SET_IF: &[u8] = b"*4\r\n$3\r\nSET\r\n";

/// Appends the command of an operation on one document. Appends nothing if the operation is refused.
///
/// # Errors
/// *Refused* if the operation does not fit the collection, if the document is larger than the server accepts, or if
/// it is not an operation on one document.
#[inline]
pub(super) fn single(
    op: &Op<'_>,
    collection: &Collection,
    names: &Names,
    largest_bytes: u64,
    out: &mut Vec<u8>,
) -> Result<Expect, OpError> {
    let prefix = collection.prefix.as_slice();
    let key_of = |out: &mut Vec<u8>, key: &str| word_of(out, &[prefix, key.as_bytes()]);
    let check = |body: &[u8]| {
        if body.len() as u64 > largest_bytes {
            return Err(refused(format!(
                "a document of {} bytes is larger than this server accepts ({largest_bytes} bytes); raise its \
                 proto-max-bulk-len, or make the documents smaller",
                body.len()
            )));
        }
        document::check(collection.body, body)
    };
    // The keys are the document's and, if it is given, that of the sorted set of its collection.
    let evaluate = |out: &mut Vec<u8>, script: Script, key: &str, order: Option<&[u8]>, arguments: &[&[u8]]| {
        command(out, 4 + usize::from(order.is_some()) + arguments.len());
        word(out, b"EVALSHA");
        word(out, names.of(script));
        word(out, if order.is_some() { b"2" } else { b"1" });
        key_of(out, key);
        for argument in order.iter().chain(arguments) {
            word(out, argument);
        }
        match script {
            Script::Counter | Script::OrderedCounter => Expect::Counter,
            Script::OrderedInsert => Expect::MadeFlag,
            Script::Swap => Expect::Swapped,
            _ => Expect::Hit,
        }
    };
    let order = collection.order.as_deref();
    if let Op::Insert { body, .. }
    | Op::Upsert { body, .. }
    | Op::Replace { body, .. }
    | Op::CompareAndSwap { body, .. } = *op
    {
        check(body)?;
    }
    Ok(match *op {
        Op::Upsert { key, body } if order.is_some() => {
            evaluate(out, Script::OrderedUpsert, key, order, &[body, key.as_bytes()])
        }
        Op::Upsert { key, body } if collection.theirs => evaluate(out, Script::TheirsSet, key, None, &[body, b""]),
        Op::Upsert { key, body } => {
            out.reserve(64 + prefix.len() + key.len() + body.len());
            out.extend_from_slice(SET);
            key_of(out, key);
            word(out, body);
            Expect::Stored
        }
        Op::Read { key } => {
            out.extend_from_slice(GET);
            key_of(out, key);
            Expect::Value
        }
        Op::Insert { key, body } if order.is_some() => {
            evaluate(out, Script::OrderedInsert, key, order, &[body, key.as_bytes()])
        }
        Op::Replace { key, body } if collection.theirs => evaluate(out, Script::TheirsSet, key, None, &[body, b"XX"]),
        Op::Insert { key, body } | Op::Replace { key, body } => {
            let inserts = matches!(op, Op::Insert { .. });
            out.extend_from_slice(SET_IF);
            key_of(out, key);
            word(out, body);
            word(out, if inserts { b"NX" } else { b"XX" });
            if inserts { Expect::Made } else { Expect::Replaced }
        }
        Op::Exists { key } => {
            command(out, 2);
            word(out, b"EXISTS");
            key_of(out, key);
            Expect::Exists
        }
        Op::Delete { key } if order.is_some() => evaluate(out, Script::OrderedDelete, key, order, &[key.as_bytes()]),
        Op::Delete { key } if collection.theirs => evaluate(out, Script::TheirsDelete, key, None, &[]),
        Op::Delete { key } => {
            command(out, 2);
            word(out, b"DEL");
            key_of(out, key);
            Expect::Hit
        }
        Op::Touch { key, expiry } => {
            command(out, 3);
            word(out, b"PEXPIRE");
            key_of(out, key);
            // The minimum is 1 ms, because PEXPIRE with 0 deletes the key. The maximum is within Redis's range.
            let millis = expiry.as_millis().clamp(1, 1 << 52);
            word(out, millis.to_string().as_bytes());
            Expect::Hit
        }
        Op::Append { key, bytes } | Op::Prepend { key, bytes } => {
            check(bytes)?;
            let which = if matches!(op, Op::Append { .. }) { Script::Append } else { Script::Prepend };
            evaluate(out, which, key, None, &[bytes])
        }
        Op::Counter { key, delta, initial } => {
            let (mut by, mut first) = (itoa::Buffer::new(), itoa::Buffer::new());
            let (by, first) = (by.format(delta).as_bytes(), first.format(initial).as_bytes());
            match order {
                Some(_) => evaluate(out, Script::OrderedCounter, key, order, &[by, first, key.as_bytes()]),
                None => evaluate(out, Script::Counter, key, None, &[by, first]),
            }
        }
        Op::CompareAndSwap { key, expected, body } => evaluate(out, Script::Swap, key, None, &[expected, body]),
        _ => return Err(OpError::unsupported()),
    })
}

/// Appends the command that reads several documents.
pub(super) fn many<'k>(collection: &Collection, keys: impl ExactSizeIterator<Item = &'k str>, out: &mut Vec<u8>) {
    command(out, 1 + keys.len());
    word(out, b"MGET");
    for key in keys {
        word_of(out, &[&collection.prefix, key.as_bytes()]);
    }
}

/// Appends the command that reads documents in the order of their keys, from `start` (included) to `end` (excluded).
pub(super) fn range(
    collection: &Collection,
    order: &[u8],
    names: &Names,
    start: &[u8],
    end: Option<&[u8]>,
    limit: u32,
    out: &mut Vec<u8>,
) {
    command(out, 8);
    word(out, b"EVALSHA");
    word(out, names.of(Script::OrderedRange));
    word(out, b"1");
    word(out, order);
    word_of(out, &[b"[", start]);
    match end {
        Some(end) => word_of(out, &[b"(", end]),
        None => word(out, b"+"),
    }
    word(out, &collection.prefix);
    word(out, limit.to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_commands_are_as_redis_wants_them() {
        let collection = Collection { prefix: b"sb:c:".to_vec(), ..Collection::default() };
        let text = |op: Op<'_>| {
            let mut out = Vec::new();
            single(&op, &collection, &Names::default(), 5, &mut out).map(|_| String::from_utf8(out).unwrap())
        };
        let set = text(Op::Upsert { key: "k", body: b"{}" }).unwrap();
        assert_eq!(set, "*3\r\n$3\r\nSET\r\n$6\r\nsb:c:k\r\n$2\r\n{}\r\n");
        assert_eq!(text(Op::Read { key: "k" }).unwrap(), "*2\r\n$3\r\nGET\r\n$6\r\nsb:c:k\r\n");
        let set = text(Op::Insert { key: "k", body: b"{}" }).unwrap();
        assert_eq!(set, "*4\r\n$3\r\nSET\r\n$6\r\nsb:c:k\r\n$2\r\n{}\r\n$2\r\nNX\r\n");
        assert!(text(Op::Upsert { key: "k", body: b"{12345}" }).is_err());
        assert!(text(Op::Prefix { prefix: "", limit: 1 }).is_err());
    }
}
