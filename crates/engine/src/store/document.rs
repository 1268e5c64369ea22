//! What an operation does to one document, for engines that offer only get and put.

use super::{ErrorKind, Op, OpError, OpKind, Request, check_patch, merge_patch};
use storebench_study::workload::Body;

/// What to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect<'a> {
    /// Store this.
    Put(&'a [u8]),
    /// Store the contents of the scratch buffer.
    PutScratch {
        /// The counter's new value, if it is a counter.
        counter: Option<i64>,
    },
    /// Remove the document.
    Remove,
}

/// A conflict of an insert.
pub const EXISTS: OpError = OpError::conflict("a document with this key exists already");

/// Why a write did nothing, if the store says so and reports no error.
pub fn nothing_written(kind: OpKind) -> OpError {
    match kind {
        OpKind::Insert | OpKind::Upsert | OpKind::Counter => OpError::fixed(
            ErrorKind::Refused,
            "the store reported no error, but that it wrote nothing; a trigger, a rule or a fault of the store left it out",
        ),
        _ => OpError::not_found(),
    }
}

/// A conflict of a compare-and-swap.
pub const CHANGED: OpError = OpError::conflict("the document is no longer at the expected revision");

/// The error of the parts of a bulk operation that follow a failed part.
pub const NOT_SENT: OpError =
    OpError::fixed(ErrorKind::Temporary, "not sent, because an earlier part of the same bulk operation failed");

/// The collection that a request is for.
///
/// # Errors
/// *Refused* if the layout has no such collection, and for a write if the store was prepared for reading only.
#[inline]
pub fn collection_of<'c, T>(request: &Request<'_>, collections: &'c [T], read_only: bool) -> Result<&'c T, OpError> {
    if read_only && request.op.kind().writes() {
        return Err(wrong_collection("the store was prepared for reading only; nothing was written"));
    }
    collections
        .get(request.collection.position())
        .ok_or(const { wrong_collection("the layout has no such collection") })
}

/// Applies a write of one document to what is stored (`old`). A revision is the document itself: exact, free to return,
/// and blind to a change that was reverted.
///
/// # Errors
/// *Not found*, *conflict*, or *refused* if body and operation do not fit the collection.
pub fn effect<'a>(op: &Op<'a>, kind: Body, old: Option<&[u8]>, scratch: &mut Vec<u8>) -> Result<Effect<'a>, OpError> {
    match *op {
        Op::Insert { body, .. } => {
            check(kind, body)?;
            if old.is_some() { Err(EXISTS) } else { Ok(Effect::Put(body)) }
        }
        Op::Upsert { body, .. } => {
            check(kind, body)?;
            Ok(Effect::Put(body))
        }
        Op::Replace { body, .. } => {
            check(kind, body)?;
            old.map(|_| Effect::Put(body)).ok_or(OpError::not_found())
        }
        Op::Delete { .. } => old.map(|_| Effect::Remove).ok_or(OpError::not_found()),
        Op::CompareAndSwap { expected, body, .. } => {
            check(kind, body)?;
            match old {
                None => Err(OpError::not_found()),
                Some(old) if old == expected => Ok(Effect::Put(body)),
                Some(_) => Err(CHANGED),
            }
        }
        Op::Append { bytes, .. } | Op::Prepend { bytes, .. } => {
            if kind != Body::Bytes {
                return Err(wrong_collection("append and prepend work on collections of bytes only"));
            }
            let old = old.ok_or(OpError::not_found())?;
            let (first, second) = if matches!(op, Op::Append { .. }) { (old, bytes) } else { (bytes, old) };
            scratch.clear();
            scratch.extend_from_slice(first);
            scratch.extend_from_slice(second);
            Ok(Effect::PutScratch { counter: None })
        }
        Op::Counter { delta, initial, .. } => {
            if kind != Body::Counter {
                return Err(wrong_collection("counter works on collections of counters only"));
            }
            let value = match old {
                None => initial,
                Some(old) => counter(old)?.checked_add(delta).ok_or(OVERFLOW)?,
            };
            write_counter(value, scratch);
            Ok(Effect::PutScratch { counter: Some(value) })
        }
        Op::MergePatch { patch, .. } => {
            if kind != Body::Json {
                return Err(wrong_collection("merge works on collections of JSON only"));
            }
            check_patch(patch)?;
            if !patch.trim_ascii_start().starts_with(b"{") {
                return Err(OpError::fixed(ErrorKind::Refused, "a merge patch must be a JSON object"));
            }
            *scratch = merge_patch(old.ok_or(OpError::not_found())?, patch)?;
            Ok(Effect::PutScratch { counter: None })
        }
        _ => Err(OpError::unsupported()),
    }
}

/// Adding would leave the 64-bit range.
pub const OVERFLOW: OpError =
    OpError::fixed(ErrorKind::Refused, "the counter would leave the range of a 64-bit integer");

/// The operation does not fit what the collection holds.
pub const fn wrong_collection(message: &'static str) -> OpError {
    OpError::fixed(ErrorKind::Refused, message)
}

/// Refuses a body that a collection of this kind cannot hold. JSON is not parsed here: an engine
/// that stores bytes would not do so either, and the check would be the client's cost.
pub fn check(kind: Body, body: &[u8]) -> Result<(), OpError> {
    if kind == Body::Counter { counter(body).map(|_| ()) } else { Ok(()) }
}

/// Reads a counter's decimal text.
pub fn counter(text: &[u8]) -> Result<i64, OpError> {
    std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).ok_or_else(|| {
        let shown: String = String::from_utf8_lossy(text).chars().take(40).collect();
        OpError::new(ErrorKind::Refused, format!("`{shown}` is not a counter; expected a decimal integer"))
    })
}

/// Writes a counter's decimal text into a buffer, which is emptied first.
pub fn write_counter(value: i64, into: &mut Vec<u8>) {
    use std::io::Write;
    into.clear();
    write!(into, "{value}").expect("writing into a Vec cannot fail");
}

/// Writes the smallest byte string that is greater than every one beginning with `prefix`. Returns false if there is
/// none.
pub fn prefix_end(prefix: &[u8], into: &mut Vec<u8>) -> bool {
    into.clear();
    into.extend_from_slice(prefix);
    while let Some(last) = into.pop() {
        if last < u8::MAX {
            into.push(last + 1);
            return true;
        }
    }
    false
}

/// The same for text: the smallest text that is greater than every one beginning with `prefix`. UTF-8 sorts in the
/// order of its code points.
pub fn prefix_end_text(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            other => char::from_u32(u32::from(other) + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_lies_behind_its_last_key() {
        let mut end = Vec::new();
        assert!(prefix_end("a\u{10FFFF}".as_bytes(), &mut end));
        assert!("a\u{10FFFF}\u{10FFFF}".as_bytes() < end.as_slice());
        assert!(end.as_slice() < "b".as_bytes());
        assert!(prefix_end(b"a\xff\xff", &mut end));
        assert_eq!(end, b"b");
        assert!(!prefix_end(b"", &mut end));
        assert!(!prefix_end(b"\xff", &mut end));
    }

    #[test]
    fn the_end_of_a_text_is_the_next_text() {
        assert_eq!(prefix_end_text("a/").as_deref(), Some("a0"));
        assert_eq!(prefix_end_text("a\u{D7FF}").as_deref(), Some("a\u{E000}"));
        assert_eq!(prefix_end_text("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(prefix_end_text("\u{10FFFF}"), None);
        assert_eq!(prefix_end_text(""), None);
        for prefix in ["ключ", "日", "a\u{7F}", "a\u{7FF}", "a\u{FFFF}"] {
            let end = prefix_end_text(prefix).unwrap();
            let last = format!("{prefix}\u{10FFFF}\u{10FFFF}");
            assert!(last < end && end.as_str() > prefix, "{prefix}");
        }
    }

    #[test]
    fn each_operation_on_a_missing_and_on_a_stored_document() {
        let mut scratch = Vec::new();
        let key = "k";
        let put = Ok(Effect::Put(&b"1"[..]));
        let missing = Err(OpError::not_found());
        let mut run = |op, kind, old: Option<&[u8]>| effect(&op, kind, old, &mut scratch);
        assert_eq!(run(Op::Insert { key, body: b"1" }, Body::Json, None), put);
        assert_eq!(run(Op::Insert { key, body: b"1" }, Body::Json, Some(b"0")), Err(EXISTS));
        assert_eq!(run(Op::Replace { key, body: b"1" }, Body::Json, None), missing);
        assert_eq!(run(Op::Delete { key }, Body::Json, None), missing);
        let cas = Op::CompareAndSwap { key, expected: b"0", body: b"1" };
        assert_eq!(run(cas, Body::Json, Some(b"0")), put);
        assert_eq!(run(cas, Body::Json, Some(b"2")), Err(CHANGED));
        assert_eq!(run(cas, Body::Json, None), missing);
        let add = Op::Counter { key, delta: 1, initial: 5 };
        assert_eq!(run(add, Body::Counter, None), Ok(Effect::PutScratch { counter: Some(5) }));
        assert_eq!(run(add, Body::Counter, Some(b"-1")), Ok(Effect::PutScratch { counter: Some(0) }));
        assert_eq!(run(add, Body::Counter, Some(b"9223372036854775807")), Err(OVERFLOW));
        assert_eq!(run(add, Body::Json, None).unwrap_err().kind, ErrorKind::Refused);
        assert_eq!(run(Op::Append { key, bytes: b"1" }, Body::Json, None).unwrap_err().kind, ErrorKind::Refused);
        let merge = |patch| Op::MergePatch { key, patch };
        assert_eq!(run(merge(b"{"), Body::Json, Some(b"{}")).unwrap_err().kind, ErrorKind::Refused);
        assert_eq!(run(merge(b"[1]"), Body::Json, Some(b"{}")).unwrap_err().kind, ErrorKind::Refused);
        assert_eq!(run(merge(b"{}"), Body::Json, None), missing);
        effect(&Op::Prepend { key, bytes: b"a" }, Body::Bytes, Some(b"b"), &mut scratch).unwrap();
        assert_eq!(scratch, b"ab");
    }
}
