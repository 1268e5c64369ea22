//! Arguments of `copy` for each record.

use clap::Args as ClapArgs;
use storebench_study::units::Span;
use storebench_transfer::{Fields, KeyRule, OwnMembers, Renames};

use super::copy::one_of;

/// How each record is selected, changed and written.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Records")]
pub(crate) struct RecordArgs {
    /// Key of each record: a field (`id`, `address.zip`) or a template (`{user}-{book}`, `{uuid}`, `{seq}`)
    /// [default: in a file the field `_id`, in a store the document's key]
    #[arg(long, value_name = "RULE")]
    pub(crate) key: Option<KeyRule>,

    /// Copy only records for which this jq expression gives anything but false or null
    ///
    /// `.` is the record with its key as `_id`.
    #[arg(long, value_name = "JQ")]
    pub(crate) filter: Option<String>,

    /// Replace each record with the result of this jq expression, or with none (`empty`)
    ///
    /// If the result has an `_id`, that is the key.
    #[arg(long, value_name = "JQ")]
    pub(crate) map: Option<String>,

    /// Keep only these fields of each document, such as `title,address.zip`
    #[arg(long, value_name = "FIELDS", conflicts_with = "value")]
    pub(crate) fields: Option<Fields>,

    /// Remove these fields from each document
    #[arg(long, value_name = "FIELDS", conflicts_with = "value")]
    pub(crate) without: Option<Fields>,

    /// Rename fields, such as `old=new,other=another`
    #[arg(long, value_name = "NAMES", conflicts_with = "value")]
    pub(crate) rename: Option<Renames>,

    /// Write this field's value instead of the document
    ///
    /// The value is a text for append and prepend, and an integer for counter.
    #[arg(long, value_name = "FIELD")]
    pub(crate) value: Option<String>,

    /// Field with the operation for each record: upsert, insert, replace, delete, merge or touch
    #[arg(long, value_name = "FIELD", conflicts_with_all = ["op", "value"])]
    pub(crate) op_field: Option<String>,

    /// With --op merge: compute the new document with this jq expression, such as '.n += $new.n'
    ///
    /// `.` is the stored document and `$new` is the record. If another client changed the document in the meantime, the
    /// expression is applied again to the changed document.
    #[arg(long, value_name = "JQ")]
    pub(crate) merge: Option<String>,

    /// With --merge: insert keys that do not exist, with null as the stored document
    ///
    /// Without this option, such records are rejected.
    #[arg(long, requires = "merge")]
    pub(crate) merge_absent: bool,

    /// What to do with documents that have members reserved by the target, such as `_rev` in CouchDB
    #[arg(long, value_name = "WHAT", value_parser = one_of(OwnMembers::ALL), default_value = "reject")]
    pub(crate) own_members: OwnMembers,

    /// Time from writing a document until it expires
    #[arg(long, value_name = "TIME")]
    pub(crate) expiry: Option<Span>,

    /// Field with the expiry of a document: seconds from its writing, or a time such as 2031-01-31T12:00:00Z
    ///
    /// If the field is missing or null, --expiry applies.
    #[arg(long, value_name = "FIELD")]
    pub(crate) expiry_field: Option<String>,
}
