//! What a store answered to one operation of a trace.

use std::fmt;

use crate::store::{ErrorKind, OpKind};

/// What a store answered to one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It wrote or removed the document, or found it without reading it.
    Done,
    /// There is no such document; for an insert, it is there already.
    Missed,
    /// It failed.
    Failed(ErrorKind),
    /// It found the generated document that was loaded or inserted.
    AsLoaded,
    /// It found the generated document that this operation of the trace wrote, counted from 1.
    Written(u64),
    /// It found any other document, with this hash.
    Other(u64),
}

impl Answer {
    /// What it was, of an operation of this kind: `found the document of operation 7`.
    pub fn of(self, kind: OpKind) -> impl fmt::Display {
        InWords { answer: self, kind }
    }
}

struct InWords {
    answer: Answer,
    kind: OpKind,
}

impl fmt::Display for InWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.answer {
            Answer::Done if self.kind == OpKind::Exists => f.write_str("found it"),
            Answer::Done => f.write_str("did it"),
            Answer::Missed if self.kind == OpKind::Insert => f.write_str("found a document there already"),
            Answer::Missed => f.write_str("found no document"),
            Answer::Failed(kind) => write!(f, "failed ({kind})"),
            Answer::AsLoaded => f.write_str("found the document as it was loaded or inserted"),
            Answer::Written(number) => write!(f, "found the document of operation {number}"),
            Answer::Other(hash) => write!(f, "found a document with hash {hash:016x}"),
        }
    }
}
