//! What a store answered to one operation of a trace.

use std::borrow::Cow;

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
    pub fn of(self, kind: OpKind) -> Cow<'static, str> {
        let text = match self {
            Self::Done if kind == OpKind::Exists => "found it",
            Self::Done => "did it",
            Self::Missed if kind == OpKind::Insert => "found a document there already",
            Self::Missed => "found no document",
            Self::Failed(kind) => return format!("failed ({kind})").into(),
            Self::AsLoaded => "found the document as it was loaded or inserted",
            Self::Written(number) => return format!("found the document of operation {number}").into(),
            Self::Other(hash) => return format!("found a document with hash {hash:016x}").into(),
        };
        text.into()
    }
}
