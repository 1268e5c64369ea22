//! Operations as requests.

use std::time::Duration;

use couchbase::transcoding::{DataType, encode_common_flags};
use storebench_documents::json::{self, Member, members};
use storebench_engine::store::{ErrorKind, Op, OpError, OpKind};
use storebench_study::workload::Body;

use super::super::errors::TOO_LARGE;
use super::super::{LONGEST_DEFAULT_KEY_BYTES, LONGEST_KEY_BYTES};
use super::frame::{Request, opcode};
use super::snappy;
use crate::connection::{Collection, expiry_s};

/// What the answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Stored, or the key exists already.
    Made,
    /// Done, or there is no such key.
    Hit,
    /// Done, changed meanwhile, or no such key.
    Swapped,
    /// Members were set and removed, or one of them could not be.
    Patched,
    /// The value of a counter.
    Counted,
    /// The document and its revision.
    Value,
    /// One or zero documents.
    Exists,
    /// The map.
    Map,
    /// Nothing yet: the request is being made.
    Nothing,
}

/// The awaited answer: what it means, and the operation code that it repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expect {
    pub(super) what: What,
    pub(super) opcode: u8,
}

/// A number as LEB128.
pub(super) fn leb128(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// The frame that keeps a document's expiry.
const KEEP_EXPIRY: u8 = 0x50;
/// The frame of a durability level, which follows, and of the server's timeout for it.
const DURABILITY: u8 = 0x13;
/// Room for both frames.
type Frames = [u8; 5];

/// What the requests of a session have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer {
    /// The code of the durability level; 0 for none.
    pub(super) level: u8,
    /// How long the server waits for the copies of a durable write.
    pub(super) patience_ms: u16,
    /// Whether documents are sent compressed.
    pub(super) compress: bool,
}

impl Writer {
    /// The server says that a durable write is of unknown outcome a little before the operation's timeout.
    pub(super) fn new(level: u8, timeout: Duration, compress: bool) -> Self {
        let ms = (timeout.as_millis() * 9 / 10).clamp(1, 65_534);
        Self { level, patience_ms: ms as u16, compress }
    }

    /// The frames of a write.
    fn frames(self, keeps_expiry: bool, room: &mut Frames) -> &[u8] {
        let mut length = 0;
        if keeps_expiry {
            room[0] = KEEP_EXPIRY;
            length = 1;
        }
        if self.level > 0 {
            let [high, low] = self.patience_ms.to_be_bytes();
            room[length..length + 4].copy_from_slice(&[DURABILITY, self.level, high, low]);
            length += 4;
        }
        &room[..length]
    }

    /// Appends the request of an operation on one document. `keeps_expiry`: the document that is overwritten has the
    /// same expiry afterwards.
    ///
    /// # Errors
    /// *Refused* if the operation does not fit the collection, or is not one on a single document.
    #[inline]
    pub(super) fn single(
        self,
        op: &Op<'_>,
        keeps_expiry: bool,
        collection: &Collection,
        vbucket: impl Fn(&str) -> u16,
        out: &mut Vec<u8>,
    ) -> Result<Expect, OpError> {
        let mut room = Frames::default();
        let seconds;
        // Format, then expiry: never.
        let mut stored = [0; 8];
        stored[..4].copy_from_slice(&flags(collection.body).to_be_bytes());
        let write =
            |what, opcode, key, value, extras| (what, key, Request { opcode, value, extras, ..Request::default() });
        let (what, key, mut request) = match *op {
            Op::Read { key } => write(What::Value, opcode::GET, key, b"", b""),
            Op::Exists { key } => write(What::Exists, opcode::GET_META, key, b"", b""),
            Op::Upsert { key, body } => write(What::Hit, opcode::SET, key, body, &stored),
            Op::Insert { key, body } => write(What::Made, opcode::ADD, key, body, &stored),
            Op::Replace { key, body } => write(What::Hit, opcode::REPLACE, key, body, &stored),
            Op::CompareAndSwap { key, body, .. } => write(What::Swapped, opcode::REPLACE, key, body, &stored),
            Op::Delete { key } => write(What::Hit, opcode::DELETE, key, b"", b""),
            Op::Touch { key, expiry } => {
                seconds = (expiry_s(expiry, u32::MAX.into()) as u32).to_be_bytes();
                write(What::Hit, opcode::TOUCH, key, b"", &seconds)
            }
            Op::Append { key, bytes } | Op::Prepend { key, bytes } => {
                let append = matches!(op, Op::Append { .. });
                write(What::Hit, if append { opcode::APPEND } else { opcode::PREPEND }, key, bytes, b"")
            }
            _ => return Err(OpError::unsupported()),
        };
        if let Op::CompareAndSwap { expected, .. } = op {
            request.cas = cas(expected);
        }
        if op.kind().writes() && op.kind() != OpKind::Touch {
            request.frames = self.frames(keeps_expiry, &mut room);
        }
        self.put(what, request, collection, key, vbucket(key), out)
    }

    /// Appends the request that sets and removes members. `None` if the patch does more.
    pub(super) fn patch(
        self,
        key: &str,
        patch: &[u8],
        collection: &Collection,
        vbucket: u16,
        out: &mut Vec<u8>,
    ) -> Option<Result<Expect, OpError>> {
        let mut value = Vec::new();
        for (path, new) in parts(patch)? {
            let new = new.unwrap_or_default();
            let opcode = if new.is_empty() { opcode::SUBDOC_DELETE } else { opcode::DICT_UPSERT };
            value.extend_from_slice(&[opcode, 0]);
            value.extend_from_slice(&(path.len() as u16).to_be_bytes());
            value.extend_from_slice(&(new.len() as u32).to_be_bytes());
            value.extend_from_slice(path.as_bytes());
            value.extend_from_slice(new);
        }
        let mut room = Frames::default();
        let frames = self.frames(true, &mut room);
        let request = Request { opcode: opcode::MULTI_MUTATION, frames, value: &value, ..Request::default() };
        Some(self.put(What::Patched, request, collection, key, vbucket, out))
    }

    /// Appends the request that adds to a counter. `None` if the server's counters cannot do it: they are unsigned.
    pub(super) fn add(
        self,
        key: &str,
        delta: i64,
        initial: i64,
        collection: &Collection,
        vbucket: u16,
        out: &mut Vec<u8>,
    ) -> Option<Result<Expect, OpError>> {
        let (delta, initial) = (u64::try_from(delta).ok()?, u64::try_from(initial).ok()?);
        // What is added, what the counter begins with, and its expiry: never.
        let mut extras = [0; 20];
        extras[..8].copy_from_slice(&delta.to_be_bytes());
        extras[8..16].copy_from_slice(&initial.to_be_bytes());
        let mut room = Frames::default();
        let frames = self.frames(false, &mut room);
        let request = Request { opcode: opcode::INCREMENT, frames, extras: &extras, ..Request::default() };
        Some(self.put(What::Counted, request, collection, key, vbucket, out))
    }

    /// Appends a request with its key.
    #[inline]
    fn put(
        self,
        what: What,
        request: Request<'_>,
        collection: &Collection,
        key: &str,
        vbucket: u16,
        out: &mut Vec<u8>,
    ) -> Result<Expect, OpError> {
        // The default collection, whose number is 0, has keys of 250 bytes.
        let longest =
            if matches!(collection.prefix[..], [] | [0]) { LONGEST_DEFAULT_KEY_BYTES } else { LONGEST_KEY_BYTES };
        if key.len() > longest {
            return Err(OpError::new(
                ErrorKind::Refused,
                format!("a key of {} bytes is longer than the server accepts ({longest})", key.len()),
            ));
        }
        if request.value.len() > MOST_BODY_BYTES {
            return Err(TOO_LARGE);
        }
        let is_document =
            matches!(request.opcode, opcode::SET | opcode::ADD | opcode::REPLACE | opcode::APPEND | opcode::PREPEND);
        let small = if self.compress && is_document { snappy::compressed(request.value) } else { None };
        let (value, datatype) = small.as_ref().map_or((request.value, 0), |small| (&small[..], snappy::DATATYPE));
        let prefix = &collection.prefix[..];
        Request { prefix, key: key.as_bytes(), vbucket, value, datatype, ..request }.write(out);
        Ok(Expect { what, opcode: request.opcode })
    }
}

/// The most paths that the server accepts in one request.
const MOST_PATHS: usize = 16;
/// Keeps a path, quotes included, below the server's limit of 1,024 bytes.
const LONGEST_NAME: usize = 500;

/// A path and its new value, if it has one.
type Part<'p> = (String, Option<&'p [u8]>);

/// The members that a patch sets or removes. `None` for patches that do more.
fn parts(patch: &[u8]) -> Option<Vec<Part<'_>>> {
    fn part(Member { name, value, .. }: Member<'_>) -> Option<Part<'_>> {
        // The server reads escapes of JSON in a path.
        let literal = |name: &str| !name.chars().any(|c| matches!(c, '"' | '\\') || c.is_control());
        let name = json::name(name).filter(|name| (1..=LONGEST_NAME).contains(&name.len()) && literal(name))?;
        let new = Some(value).filter(|value| value != b"null");
        (!value.starts_with(b"{")).then(|| (format!("`{}`", name.replace('`', "``")), new))
    }
    let parts: Vec<_> = members(patch).take(MOST_PATHS + 1).map(part).collect::<Option<_>>()?;
    (1..=MOST_PATHS).contains(&parts.len()).then_some(parts)
}

/// The flags that tell SDKs the format of a document.
fn flags(body: Body) -> u32 {
    encode_common_flags(if body == Body::Bytes { DataType::Binary } else { DataType::Json })
}

/// The server closes the connection on a packet of more than 30 MiB.
const MOST_BODY_BYTES: usize = 29 << 20;

/// A revision that no document has. It replaces what cannot be read as a revision.
const NO_REVISION: u64 = u64::MAX;

/// A revision as the server has it. 0 would mean any revision.
fn cas(revision: &[u8]) -> u64 {
    match revision.try_into().map_or(0, u64::from_be_bytes) {
        0 => NO_REVISION,
        cas => cas,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn collection(body: Body) -> Collection {
        Collection { prefix: leb128(8), body, ..Collection::default() }
    }

    fn single(op: &Op<'_>, body: Body, level: u8) -> Result<Vec<u8>, OpError> {
        let mut out = Vec::new();
        Writer { level, patience_ms: 0x0102, compress: false }
            .single(op, false, &collection(body), |_| 5, &mut out)
            .map(|_| out)
    }

    #[test]
    fn numbers_of_collections_are_those_of_the_document() {
        for (number, bytes) in [(0, &[0][..]), (0x7f, &[0x7f]), (0x80, &[0x80, 1]), (0x555, &[0xd5, 0x0a])] {
            assert_eq!(leb128(number), bytes);
        }
    }

    #[test]
    fn only_writes_have_a_durability_and_a_touch_has_none() {
        let key = "k";
        for (op, flexible) in [
            (Op::Upsert { key, body: b"{}" }, true),
            (Op::Delete { key }, true),
            (Op::Read { key }, false),
            (Op::Exists { key }, false),
            (Op::Touch { key, expiry: Duration::from_secs(1) }, false),
        ] {
            assert_eq!(single(&op, Body::Json, 1).unwrap()[0] == 0x08, flexible, "{op:?}");
            assert_eq!(single(&op, Body::Json, 0).unwrap()[0], 0x80, "{op:?}");
        }
    }

    #[test]
    fn a_patch_is_sent_as_members_if_these_do_the_same() {
        let patch = |patch: &Value| {
            let mut out = Vec::new();
            Writer { level: 3, patience_ms: 0x0102, compress: false }
                .patch("k", patch.to_string().as_bytes(), &collection(Body::Json), 5, &mut out)
                .map(|_| out)
        };
        let out = patch(&json!({ "a": 1, "b": null })).unwrap();
        assert_eq!(&out[..5], [0x08, 0xd1, 5, 2, 0]);
        let rest: &[u8] = b"\x50\x13\x03\x01\x02\x08k\xc8\0\0\x03\0\0\0\x01`a`1\xc9\0\0\x03\0\0\0\0`b`";
        assert_eq!(&out[24..], rest);
        assert!(patch(&json!({ "a": { "b": 1 } })).is_none());
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let long = "k".repeat(247);
        for (op, body) in
            [(Op::Read { key: &long }, Body::Json), (Op::Counter { key: "k", delta: 1, initial: 0 }, Body::Counter)]
        {
            assert_eq!(single(&op, body, 0).unwrap_err().kind, ErrorKind::Refused, "{op:?}");
        }
        let body = vec![b'x'; 30 << 20];
        assert!(single(&Op::Upsert { key: "k", body: &body }, Body::Bytes, 0).is_err());
    }

    #[test]
    fn the_server_gives_up_a_durable_write_before_the_client_does() {
        let patience = |timeout| Writer::new(1, timeout, false).patience_ms;
        assert_eq!(patience(Duration::from_secs(10)), 9_000);
        assert_eq!((patience(Duration::ZERO), patience(Duration::from_secs(3_600))), (1, 65_534));
    }

    #[test]
    fn no_document_has_an_odd_revision() {
        assert_eq!(cas(&[0; 8]), NO_REVISION);
        assert_eq!((cas(b"odd"), cas(&7u64.to_be_bytes())), (NO_REVISION, 7));
    }

    #[test]
    fn only_what_sub_documents_do_the_same_is_done_by_them() {
        let paths = |patch: &Value| {
            parts(patch.to_string().as_bytes()).map(|parts| parts.into_iter().map(|(path, _)| path).collect::<Vec<_>>())
        };
        assert_eq!(paths(&json!({"a": 1, "b.c": null, "d`": [1]})).unwrap(), ["`a`", "`b.c`", "`d```"]);
        let many: serde_json::Map<String, Value> = (0..17).map(|i| (format!("m{i}"), json!(i))).collect();
        let escapes = [json!({"C:\\new": 1}), json!({"say \"x\"": 1}), json!({"a\u{1f}": null})];
        let others = [json!({"a": {"b": 1}}), json!({}), json!([1]), json!({"": 1}), Value::Object(many)];
        for patch in others.into_iter().chain(escapes) {
            assert_eq!(paths(&patch), None, "{patch}");
        }
    }
}
