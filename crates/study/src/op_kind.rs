//! The kinds of operations: one name and one meaning on every store.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::written::{names, schema};

/// The kind of an operation, for capabilities, mixes and results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum OpKind {
    Insert,
    Upsert,
    Replace,
    Append,
    Prepend,
    Read,
    Exists,
    Delete,
    Touch,
    Counter,
    CompareAndSwap,
    MergePatch,
    BulkInsert,
    BulkUpsert,
    BulkRead,
    BulkDelete,
    Page,
    Prefix,
    Scan,
    View,
    Query,
    Transaction,
}

names! { OpKind:
    Insert "insert", Upsert "upsert", Replace "replace", Append "append", Prepend "prepend", Read "read",
    Exists "exists", Delete "delete", Touch "touch", Counter "counter", CompareAndSwap "cas", MergePatch "merge",
    BulkInsert "bulk-insert", BulkUpsert "bulk-upsert", BulkRead "bulk-read", BulkDelete "bulk-delete",
    Page "page", Prefix "prefix", Scan "scan", View "view",
    Query "query", Transaction "transaction",
}

impl OpKind {
    /// Names that a mix may use. They are single operations; `batch` turns them into their bulk forms. `update` is
    /// another name for `upsert`.
    pub const IN_MIX: &'static [&'static str] = &[
        "insert",
        "upsert",
        "update",
        "replace",
        "append",
        "prepend",
        "read",
        "exists",
        "delete",
        "touch",
        "counter",
        "cas",
        "merge",
        "page",
        "prefix",
        "scan",
        "view",
        "query",
        "transaction",
    ];

    /// The single operation of this name in a mix.
    pub fn find(name: &str) -> Option<Self> {
        let name = Self::IN_MIX.iter().find(|known| **known == name)?;
        Self::ALL.into_iter().find(|kind| kind.name() == *name).or(Some(Self::Upsert))
    }

    /// Its bulk form, if it has one.
    pub fn bulk(self) -> Option<Self> {
        match self {
            Self::Insert => Some(Self::BulkInsert),
            Self::Upsert => Some(Self::BulkUpsert),
            Self::Read => Some(Self::BulkRead),
            Self::Delete => Some(Self::BulkDelete),
            _ => None,
        }
    }

    /// Whether it may change what is stored.
    pub fn writes(self) -> bool {
        use OpKind::{BulkRead, Exists, Page, Prefix, Query, Read, Scan, View};
        !matches!(self, Read | Exists | BulkRead | Page | Prefix | Scan | View | Query)
    }

    /// Whether it returns documents or rows. A transaction does if one of its steps does.
    pub fn returns_contents(self) -> bool {
        !self.writes() && self != OpKind::Exists || self == OpKind::Transaction
    }

    /// Whether it stores documents that did not exist.
    pub fn inserts(self) -> bool {
        matches!(self, OpKind::Insert | OpKind::BulkInsert)
    }

    /// Whether it is idempotent, so that it may be retried if the outcome of the first try is unknown. An insert is
    /// not: the second try reports a conflict that the first one caused.
    pub fn repeatable(self) -> bool {
        use OpKind::{Append, BulkInsert, CompareAndSwap, Counter, Insert, Prepend, Transaction};
        !matches!(self, Append | Prepend | Counter | Insert | BulkInsert | CompareAndSwap | Transaction)
    }
}

impl Serialize for OpKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Reads the name of a single operation, as written in a mix.
impl<'de> Deserialize<'de> for OpKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::find(&name).ok_or_else(|| serde::de::Error::unknown_variant(&name, Self::IN_MIX))
    }
}

schema!(OpKind, "OpName", |_| {
    schemars::json_schema!({
        "enum": OpKind::IN_MIX,
        "description": "Name of a single operation in a mix; `batch` turns it into its bulk form."
    })
});
