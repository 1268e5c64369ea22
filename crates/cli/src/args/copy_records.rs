//! What may be typed after `copy` about each record.

use clap::Args as ClapArgs;
use storebench_study::units::Span;
use storebench_transfer::{Fields, KeyRule, OwnMembers, Renames};

use super::copy::one_of;

/// What becomes of each record.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Records")]
pub(crate) struct RecordArgs {
    /// The key of each record: a field (`id`, `address.zip`) or a template (`{user}-{book}`, `{uuid}`, `{seq}`)
    /// [default: of a file the field `_id`, of a store the document's key]
    #[arg(long, value_name = "RULE")]
    pub(crate) key: Option<KeyRule>,

    /// Only records for which this jq expression gives anything but false or null; `.` is the record with its
    /// key as `_id`
    #[arg(long, value_name = "JQ")]
    pub(crate) filter: Option<String>,

    /// The record that this jq expression makes of each, or none (`empty`); its `_id`, if it has one, is the key
    #[arg(long, value_name = "JQ")]
    pub(crate) map: Option<String>,

    /// Only these fields of each document: `title,address.zip`
    #[arg(long, value_name = "FIELDS", conflicts_with = "value")]
    pub(crate) fields: Option<Fields>,

    /// All fields but these
    #[arg(long, value_name = "FIELDS", conflicts_with = "value")]
    pub(crate) without: Option<Fields>,

    /// Fields under other names: `old=new,other=another`
    #[arg(long, value_name = "NAMES", conflicts_with = "value")]
    pub(crate) rename: Option<Renames>,

    /// Write this field's value instead of the document: for append and prepend a text, for counter an integer
    #[arg(long, value_name = "FIELD")]
    pub(crate) value: Option<String>,

    /// What is done with each record is in this field: one of upsert, insert, replace, delete, merge, touch
    #[arg(long, value_name = "FIELD", conflicts_with_all = ["op", "value"])]
    pub(crate) op_field: Option<String>,

    /// For --op merge: the document that this jq expression makes of the stored one (`.`) and the record
    /// (`$new`), as in '.n += $new.n'; stored only if nobody was quicker, else made again
    #[arg(long, value_name = "JQ")]
    pub(crate) merge: Option<String>,

    /// With --merge: where the key is not stored, begin with null and insert what comes of it; without it such a
    /// record is rejected
    #[arg(long, requires = "merge")]
    pub(crate) merge_absent: bool,

    /// What becomes of documents with members that the target keeps for itself, such as `_rev` in CouchDB: leave these
    /// members out, send them as they are, or reject the document
    #[arg(long, value_name = "WHAT", value_parser = one_of(OwnMembers::ALL), default_value = "reject")]
    pub(crate) own_members: OwnMembers,

    /// Let each document expire so long after it was written
    #[arg(long, value_name = "TIME")]
    pub(crate) expiry: Option<Span>,

    /// The field that says when a document expires: seconds from its writing, or a time such as
    /// 2031-01-31T12:00:00Z; where it is missing or null, --expiry counts
    #[arg(long, value_name = "FIELD")]
    pub(crate) expiry_field: Option<String>,
}
