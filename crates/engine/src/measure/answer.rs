//! What a store answered to one operation of a trace.

use std::fmt;

use crate::store::{ErrorKind, OpKind};

/// Bits below the kind of an answer.
const PAYLOAD: u64 = (1 << 60) - 1;
const DONE: u64 = 1;
const MISSED: u64 = 2;
const FAILED: u64 = 3;
const AS_LOADED: u64 = 4;
const WRITTEN: u64 = 5;
const OTHER: u64 = 6;

/// What a store answered to one operation, in 64 bits: a kind, and what tells answers of that kind apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Answer(u64);

impl Answer {
    fn new(kind: u64, payload: u64) -> Self {
        Self(kind << 60 | payload & PAYLOAD)
    }

    /// Done: written, removed, or found without reading.
    pub(crate) fn done() -> Self {
        Self::new(DONE, 0)
    }

    /// No such document; for an insert, it is there already.
    pub(crate) fn missed() -> Self {
        Self::new(MISSED, 0)
    }

    pub(crate) fn failed(kind: ErrorKind) -> Self {
        Self::new(FAILED, kind as u64)
    }

    /// The generated document that was loaded or inserted.
    pub(crate) fn as_loaded() -> Self {
        Self::new(AS_LOADED, 0)
    }

    /// The generated document that this operation of the trace wrote, counted from 1.
    pub(crate) fn of_operation(number: u64) -> Self {
        Self::new(WRITTEN, number)
    }

    /// Any other document, by its hash.
    pub(crate) fn hashed(hash: u64) -> Self {
        Self::new(OTHER, hash)
    }

    /// Whether the store has answered.
    pub fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Its bytes, for a hash over many.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// What it was, of an operation of this kind: `found the document as loaded`.
    pub fn of(self, kind: OpKind) -> impl fmt::Display {
        Told { answer: self, kind }
    }
}

struct Told {
    answer: Answer,
    kind: OpKind,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payload = self.answer.0 & PAYLOAD;
        match self.answer.0 >> 60 {
            DONE if self.kind == OpKind::Exists => f.write_str("found it"),
            DONE => f.write_str("did it"),
            MISSED if self.kind == OpKind::Insert => f.write_str("found a document there already"),
            MISSED => f.write_str("found no document"),
            FAILED => {
                let kind = ErrorKind::ALL.iter().find(|kind| **kind as u64 == payload);
                write!(f, "failed ({})", kind.map_or("", |kind| kind.name()))
            }
            AS_LOADED => f.write_str("found the document as it was loaded or inserted"),
            WRITTEN => write!(f, "found the document of operation {payload}"),
            OTHER => write!(f, "found a document with hash {payload:015x}"),
            _ => f.write_str("did not answer"),
        }
    }
}
