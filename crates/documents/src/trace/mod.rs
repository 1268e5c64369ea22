//! Recorded traffic: which operation touched which key, when, and for which client.

mod read;
mod time;

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::catalog::FileFacts;
use super::error::DocumentError;
use storebench_study::op_kind::OpKind;

pub use time::seconds_ns;

/// Operations that a trace may have, by their names in files. `update` is another name for `upsert`.
pub const OPERATIONS: [(&str, OpKind); 7] = [
    ("read", OpKind::Read),
    ("exists", OpKind::Exists),
    ("insert", OpKind::Insert),
    ("upsert", OpKind::Upsert),
    ("update", OpKind::Upsert),
    ("replace", OpKind::Replace),
    ("delete", OpKind::Delete),
];

/// Passes each row of a table as a JSON line to a function.
pub type TableRows = fn(&Path, &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>;

static TABLE_ROWS: OnceLock<TableRows> = OnceLock::new();

/// Reads traces in Parquet with this function. Without one they are refused. Only the first call counts.
pub fn read_tables_with(rows: TableRows) {
    let _ = TABLE_ROWS.set(rows);
}

/// An operation of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceOp {
    /// When it began, in ns after the first operation.
    pub at_ns: u64,
    /// The number of its key.
    pub key: u32,
    /// The number of its client.
    pub client: u32,
    /// The number of its recorded document plus one; 0 if it has none.
    body: u32,
    kind: u8,
}

impl TraceOp {
    /// What it does.
    pub fn kind(&self) -> OpKind {
        OPERATIONS[usize::from(self.kind)].1
    }
}

/// A trace, in memory: 24 bytes for each operation, and each key once.
#[derive(Debug, Default)]
pub struct Trace {
    ops: Vec<TraceOp>,
    /// Keys that exist before the first operation come first.
    keys: Texts,
    before: u32,
    /// The size of the document of each key, as first recorded; 0 if unknown. Empty if no size is known.
    sizes: Vec<u32>,
    bodies: Texts,
    clients: u32,
    facts: FileFacts,
    /// For each key, whether more than one operation creates its document.
    created_again: Vec<bool>,
}

/// Many texts, one after another.
#[derive(Debug, Default)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u64>,
}

impl Texts {
    fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u64);
    }

    fn get(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(at)? as usize;
        let begin = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        Some(&self.bytes[begin..end])
    }
}

impl Trace {
    /// Reads a trace: JSON Lines, plain or compressed, or CSV or Parquet if the name says so.
    ///
    /// # Errors
    /// What is wrong, with the file and the line. `place` is the place in the study.
    pub fn read(file: &Path, place: &str) -> Result<Arc<Self>, DocumentError> {
        let mut trace = read::read(file, place)?;
        trace.created_again = trace.count_creations();
        Ok(Arc::new(trace))
    }

    fn count_creations(&self) -> Vec<bool> {
        let (mut once, mut again) = (vec![false; self.keys.ends.len()], vec![false; self.keys.ends.len()]);
        for op in self.ops.iter().filter(|op| matches!(op.kind(), OpKind::Insert | OpKind::Upsert)) {
            let key = op.key as usize;
            again[key] |= std::mem::replace(&mut once[key], true);
        }
        again
    }

    /// Whether an insert of this key may find its document there: it exists before the trace, or another operation creates
    /// it, too.
    pub fn may_exist(&self, key: u64) -> bool {
        key < self.keys_before() || self.created_again.get(key as usize).is_some_and(|again| *again)
    }

    /// The operations, in the order of their times.
    pub fn ops(&self) -> &[TraceOp] {
        &self.ops
    }

    /// The text of a key.
    pub fn key(&self, number: u32) -> &[u8] {
        self.keys.get(number as usize).unwrap_or_default()
    }

    /// How many keys there are.
    pub fn keys(&self) -> u64 {
        self.keys.ends.len() as u64
    }

    /// How many of the keys exist before the first operation: all whose first operation is not an insert. Their numbers
    /// are lower than those of the others.
    pub fn keys_before(&self) -> u64 {
        u64::from(self.before)
    }

    /// The length of the longest key, in bytes.
    pub fn longest_key_bytes(&self) -> u64 {
        (0..self.keys.ends.len()).map(|at| self.keys.get(at).map_or(0, <[u8]>::len) as u64).max().unwrap_or(0)
    }

    /// The size of the document of each key, as first recorded; `None` if the trace has no sizes.
    pub fn sizes(&self) -> Option<&[u32]> {
        (!self.sizes.is_empty()).then_some(&self.sizes)
    }

    /// The recorded document of an operation that writes.
    pub fn body(&self, op: &TraceOp) -> Option<&[u8]> {
        self.bodies.get((op.body as usize).checked_sub(1)?)
    }

    /// Whether any operation has a recorded document.
    pub fn has_bodies(&self) -> bool {
        !self.bodies.ends.is_empty()
    }

    /// How many clients there are.
    pub fn clients(&self) -> u32 {
        self.clients
    }

    /// The kinds of its operations, each once, in the order of [`OPERATIONS`].
    pub fn kinds(&self) -> Vec<OpKind> {
        let mut seen = [false; OPERATIONS.len()];
        self.ops.iter().for_each(|op| seen[usize::from(op.kind)] = true);
        let mut kinds: Vec<OpKind> =
            OPERATIONS.iter().zip(seen).filter(|(_, seen)| *seen).map(|((_, kind), _)| *kind).collect();
        kinds.dedup();
        kinds
    }

    /// From the first to the last operation, in ns.
    pub fn span_ns(&self) -> u64 {
        self.ops.last().map_or(0, |op| op.at_ns)
    }

    /// Identifies the file.
    pub fn facts(&self) -> &FileFacts {
        &self.facts
    }
}
