//! The protocol between a session and the process that hosts its store. A frame is a length (4 bytes, little endian)
//! and a postcard value. A control call is its name and its arguments, and its answer is the store's result or error.
//! Both ends are the same program, so the format has no version.

use std::io::{self, Read, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;
use storebench_engine::store::{
    Batch, BatchBuf, CollectionId, Durability, ErrorKind, Layout, Op, OpError, OpKind, Prepare, ReadConsistency,
    Reject, Reply, Request, Step, StoreError,
};

/// The maximum length of a frame.
const LONGEST: usize = 1 << 30;

/// The first frame of a connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Hello {
    /// Control calls follow, each a frame.
    Control,
    /// Operations follow. A process without a prepared layout prepares the store for this one, and keeps the existing
    /// documents.
    Session { guarantees: Guarantees, timeout: Duration, layout: Layout, how: Prepare },
}

/// The guarantees of a session, as JSON text, because postcard cannot deserialize these types.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Guarantees(String);

impl Guarantees {
    pub(super) fn of(durability: Durability, consistency: ReadConsistency) -> Self {
        Self(serde_json::json!([durability, consistency]).to_string())
    }

    pub(super) fn read(&self) -> io::Result<(Durability, ReadConsistency)> {
        serde_json::from_str(&self.0).map_err(io::Error::other)
    }
}

/// An operation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ask<'a> {
    /// Without its batch and steps.
    #[serde(borrow)]
    request: Request<'a>,
    #[serde(borrow)]
    batch: Pairs<'a>,
    #[serde(borrow)]
    steps: Vec<WireStep<'a>>,
}

type Pairs<'a> = Vec<(&'a str, &'a Bytes)>;

/// A step of a transaction.
#[derive(Debug, Serialize, Deserialize)]
struct WireStep<'a> {
    collection: u16,
    /// Its position in [`OpKind::ALL`].
    kind: u8,
    key: &'a str,
    #[serde(borrow)]
    body: &'a Bytes,
    number: u16,
    text: &'a str,
    #[serde(borrow)]
    values: Pairs<'a>,
}

impl<'a> WireStep<'a> {
    fn of(step: &'a Step) -> Self {
        let kind = OpKind::ALL.into_iter().position(|kind| Some(kind) == step.kind);
        Self {
            collection: step.collection.0,
            kind: kind.map_or(u8::MAX, |at| at as u8),
            key: &step.key,
            body: Bytes::new(&step.body),
            number: step.number,
            text: &step.text,
            values: pairs(&step.values.as_batch()),
        }
    }

    fn step(&self) -> Step {
        let mut step = Step {
            collection: CollectionId(self.collection),
            kind: OpKind::ALL.get(usize::from(self.kind)).copied(),
            key: self.key.to_owned(),
            body: self.body.to_vec(),
            number: self.number,
            text: self.text.into(),
            ..Step::default()
        };
        self.values.iter().for_each(|(name, value)| step.values.push(name, value));
        step
    }
}

fn pairs<'a>(batch: &Batch<'a>) -> Pairs<'a> {
    batch.iter().map(|(key, body)| (key, Bytes::new(body))).collect()
}

impl<'a> Ask<'a> {
    pub(super) fn of(request: &Request<'a>) -> Self {
        let mut ask = Self { request: *request, batch: Vec::new(), steps: Vec::new() };
        match request.op {
            Op::BulkWrite { items: batch, .. }
            | Op::BulkRead { keys: batch }
            | Op::BulkDelete { keys: batch }
            | Op::Query { values: batch, .. } => ask.batch = pairs(&batch),
            Op::Transaction { steps, .. } => ask.steps = steps.iter().map(WireStep::of).collect(),
            _ => {}
        }
        ask
    }

    /// The request. Documents of a batch are put into `batch`, and steps of a transaction into `steps`.
    pub(super) fn request<'b>(&self, batch: &'b mut BatchBuf, steps: &'b mut Vec<Step>) -> Request<'b>
    where
        'a: 'b,
    {
        batch.clear();
        self.batch.iter().for_each(|(key, body)| batch.push(key, body));
        steps.clear();
        steps.extend(self.steps.iter().map(WireStep::step));
        let mut request: Request<'b> = self.request;
        match &mut request.op {
            Op::BulkWrite { items: into, .. }
            | Op::BulkRead { keys: into }
            | Op::BulkDelete { keys: into }
            | Op::Query { values: into, .. } => *into = batch.as_batch(),
            Op::Transaction { steps: into, .. } => *into = steps,
            _ => {}
        }
        request
    }
}

/// The result of a successful operation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer<'a> {
    documents: u32,
    bytes: u64,
    #[serde(borrow)]
    body: Option<&'a Bytes>,
    #[serde(borrow)]
    rows: Option<Pairs<'a>>,
    #[serde(borrow)]
    revision: Option<&'a Bytes>,
    counter: Option<i64>,
    rejects: Vec<(u64, ErrorKind, String)>,
    steps: Vec<u32>,
}

impl<'a> Answer<'a> {
    pub(super) fn of(reply: &Reply<'a>) -> Self {
        Self {
            documents: reply.documents,
            bytes: reply.bytes,
            body: reply.body.map(Bytes::new),
            rows: reply.rows.as_ref().map(pairs),
            revision: reply.revision.map(Bytes::new),
            counter: reply.counter,
            rejects: reply.rejects.iter().map(|r| (r.item as u64, r.error.kind, r.error.message.to_string())).collect(),
            steps: reply.steps.to_vec(),
        }
    }

    /// The reply. Rows are put into `rows`, and rejected items into `rejects`.
    pub(super) fn reply<'b>(&'b self, rows: &'b mut BatchBuf, rejects: &'b mut Vec<Reject>) -> Reply<'b>
    where
        'a: 'b,
    {
        rows.clear();
        for (key, body) in self.rows.iter().flatten() {
            rows.push(key, body);
        }
        rejects.clear();
        rejects.extend(
            self.rejects.iter().map(|(item, kind, message)| Reject {
                item: *item as usize,
                error: OpError::new(*kind, message.clone()),
            }),
        );
        let body: Option<&'a [u8]> = self.body.map(|body| &**body);
        let revision: Option<&'a [u8]> = self.revision.map(|revision| &**revision);
        Reply {
            documents: self.documents,
            bytes: self.bytes,
            body,
            rows: self.rows.is_some().then(|| rows.as_batch()),
            revision,
            counter: self.counter,
            rejects,
            steps: &self.steps,
        }
    }
}

/// The outcome of an operation.
pub(super) type Ended<'a> = Result<Answer<'a>, (ErrorKind, String)>;

/// Appends a frame to a buffer.
pub(super) fn push<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), postcard::Error> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let whole = postcard::to_extend(value, std::mem::take(out))?;
    *out = whole;
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// The first frame of the input, and its size including the length. `None` if it is incomplete.
pub(super) fn frame(input: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST {
        return Err(format!("invalid frame of {length} bytes; the maximum is {LONGEST}"));
    }
    Ok(rest.get(..length).map(|frame| (frame, length + 4)))
}

/// Reads one frame of a blocking stream. Returns false at its end.
pub(super) fn read_frame(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("invalid frame of {length} bytes")));
    }
    into.resize(length, 0);
    from.read_exact(into)?;
    Ok(true)
}

/// Writes one frame to a blocking stream.
pub(super) fn write_frame<T: Serialize>(to: &mut impl Write, value: &T) -> io::Result<()> {
    let mut out = Vec::new();
    push(value, &mut out).map_err(|e| io::Error::other(e.to_string()))?;
    to.write_all(&out)
}

/// Decodes the result or error of a control call.
pub(super) fn outcome<T: DeserializeOwned>(frame: &[u8]) -> Result<T, StoreError> {
    postcard::from_bytes::<Result<T, StoreError>>(frame)
        .map_err(|e| StoreError::Failed(format!("cannot decode the answer of the process that hosts the store: {e}")))?
}

#[cfg(test)]
mod tests {
    use storebench_engine::store::{BulkWrite, Isolation, ViewRows};

    use super::*;

    fn round(request: &Request<'_>) {
        let mut bytes = Vec::new();
        push(&Ask::of(request), &mut bytes).unwrap();
        let (whole, used) = frame(&bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        assert!(frame(&bytes[..used - 1]).unwrap().is_none(), "not whole");
        let ask: Ask<'_> = postcard::from_bytes(whole).unwrap();
        let mut batch = BatchBuf::new();
        let mut steps = Vec::new();
        assert_eq!(format!("{:?}", ask.request(&mut batch, &mut steps)), format!("{request:?}"));
    }

    #[test]
    fn every_operation_arrives_as_it_was() {
        let mut batch = BatchBuf::new();
        batch.push("a", b"{}");
        batch.push("\u{fc}", &[0, 255]);
        let step = Step { kind: Some(OpKind::Upsert), key: "a".into(), body: vec![0, 255], ..Step::default() };
        let query = Step {
            kind: Some(OpKind::Query),
            number: 7,
            text: "select $a".into(),
            values: batch.clone(),
            ..Step::default()
        };
        let steps = [step, query];
        let mut keys = BatchBuf::new();
        keys.push("a", b"");
        keys.push("", b"");
        let (key, body) = ("users/1", &b"{\"a\":1}"[..]);
        let ops = [
            Op::Insert { key, body },
            Op::Upsert { key, body },
            Op::Replace { key, body: b"" },
            Op::Append { key, bytes: body },
            Op::Prepend { key, bytes: body },
            Op::Read { key },
            Op::Exists { key: "" },
            Op::Delete { key },
            Op::Touch { key, expiry: Duration::from_millis(1_500) },
            Op::Counter { key, delta: -1, initial: i64::MIN },
            Op::CompareAndSwap { key, expected: &[0, 1, 255], body },
            Op::MergePatch { key, patch: body },
            Op::BulkWrite { kind: BulkWrite::Insert, items: batch.as_batch() },
            Op::BulkWrite { kind: BulkWrite::Upsert, items: batch.as_batch() },
            Op::BulkRead { keys: keys.as_batch() },
            Op::BulkDelete { keys: keys.as_batch() },
            Op::Page { field: "user", value: "\"u\"", limit: u32::MAX },
            Op::Prefix { prefix: "u", limit: 1 },
            Op::Scan { start: "a", end: None, limit: 7 },
            Op::Scan { start: "a", end: Some("b"), limit: 7 },
            Op::View { view: "d/v", rows: ViewRows::All, skip: 1, limit: 2 },
            Op::Query { number: 3, text: "select $a", values: batch.as_batch() },
            Op::Transaction { isolation: Isolation::Snapshot, steps: &steps, rolls_back: true },
            Op::View { view: "d/v", rows: ViewRows::Keys("[1]"), skip: 1, limit: 2 },
            Op::View { view: "d/v", rows: ViewRows::Range { start: Some("1"), end: None }, skip: 1, limit: 2 },
        ];
        assert!(OpKind::ALL.iter().all(|kind| ops.iter().any(|op| op.kind() == *kind)), "a kind is missing here");
        for op in ops {
            round(&Request { collection: CollectionId(3), op, contents: true });
            round(&Request { collection: CollectionId(0), op, contents: false });
        }
    }

    #[test]
    fn every_answer_arrives_as_it_was() {
        let mut rows = BatchBuf::new();
        rows.push("a", b"1");
        let rejects = [Reject { item: 7, error: OpError::new(ErrorKind::Conflict, "exists") }];
        let replies = [
            Reply::default(),
            Reply { documents: 1, bytes: 9, body: Some(b"{}"), revision: Some(&[1, 2]), ..Reply::default() },
            Reply { rows: Some(rows.as_batch()), counter: Some(-5), rejects: &rejects, ..Reply::default() },
            Reply { documents: 3, steps: &[1, 0, 2], ..Reply::default() },
        ];
        for reply in replies {
            let mut bytes = Vec::new();
            push::<Ended<'_>>(&Ok(Answer::of(&reply)), &mut bytes).unwrap();
            let (whole, _) = frame(&bytes).unwrap().unwrap();
            let ended: Ended<'_> = postcard::from_bytes(whole).unwrap();
            let (mut rows, mut rejects) = (BatchBuf::new(), Vec::new());
            assert_eq!(format!("{:?}", ended.unwrap().reply(&mut rows, &mut rejects)), format!("{reply:?}"));
        }
    }

    #[test]
    fn a_frame_that_cannot_be_is_refused() {
        assert!(frame(&u32::MAX.to_le_bytes()).is_err());
        assert!(read_frame(&mut &u32::MAX.to_le_bytes()[..], &mut Vec::new()).is_err());
        assert!(!read_frame(&mut &[][..], &mut Vec::new()).unwrap());
    }
}
