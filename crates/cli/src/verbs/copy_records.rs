//! What becomes of each record of a copy, out of what was typed.

use std::sync::Arc;

use storebench_transfer::{Expiry, Jq, JqError, KEY_FIELD, MergeBy, OwnMembers, Projection, Shape};

use crate::args::{OwnMembersText, RecordArgs};
use crate::failure::Failure;

/// How records are made, for a copy of this name.
///
/// # Errors
/// An expression that is none, or names that cannot be given.
pub(super) fn shape(args: &RecordArgs, copy: &str) -> Result<Shape, Failure> {
    let mut shape = Shape::new(args.key.clone(), copy);
    if let Some(filter) = &args.filter {
        shape = shape.with_filter(expression("--filter", Jq::of_record(filter))?);
    }
    if let Some(map) = &args.map {
        shape = shape.with_map(expression("--map", Jq::of_record(map))?);
    }
    if let Some(field) = &args.value {
        shape = shape.with_value(field);
    }
    if let Some(field) = &args.op_field {
        shape = shape.with_verb(field);
    }
    if let Some(field) = &args.expiry_field {
        shape = shape.with_expiry(field);
    }
    if args.key.is_none() && args.rename.as_ref().is_some_and(|renames| renames.names(KEY_FIELD)) {
        return Err(Failure::bad_input(format!(
            "the key's field `{KEY_FIELD}` is no part of the document, so --rename does not reach it; `--key \
             {KEY_FIELD}` leaves it in the document, and --key-field names it otherwise in a file that is written"
        )));
    }
    let projection =
        Projection { only: args.fields.clone(), without: args.without.clone(), renames: args.rename.clone() };
    Ok(shape.with_projection(projection))
}

/// How --op merge merges, where it is said.
///
/// # Errors
/// An expression that is none.
pub(super) fn merge(args: &RecordArgs) -> Result<Option<MergeBy>, Failure> {
    let Some(typed) = &args.merge else { return Ok(None) };
    let compiled = expression("--merge", Jq::of_merge(typed))?;
    Ok(Some(MergeBy { expression: Arc::new(compiled), absent: args.merge_absent }))
}

/// When documents expire that do not say it themselves.
///
/// # Errors
/// No time at all.
pub(super) fn expiry(args: &RecordArgs) -> Result<Option<Expiry>, Failure> {
    match args.expiry {
        Some(span) if span.ns() == 0 => {
            Err(Failure::bad_input("--expiry: a document that lives for no time is not written"))
        }
        span => Ok(span.map(|span| Expiry::In(span.0))),
    }
}

/// The first of what was typed that only a store can do.
pub(super) fn only_stores(args: &RecordArgs) -> Option<&'static str> {
    [
        ("--op-field", args.op_field.is_some()),
        ("--merge", args.merge.is_some()),
        ("--own-members", args.own_members != OwnMembersText::default()),
        ("--expiry", args.expiry.is_some()),
        ("--expiry-field", args.expiry_field.is_some()),
    ]
    .into_iter()
    .find_map(|(flag, given)| given.then_some(flag))
}

fn expression(flag: &str, compiled: Result<Jq, JqError>) -> Result<Jq, Failure> {
    compiled.map_err(|error| Failure::bad_input(format!("{flag}: {error}")))
}

/// The rule for members that the target keeps for itself, where it is not the usual one.
fn own_members(args: &RecordArgs) -> Option<String> {
    let given = args.own_members != OwnMembersText::default();
    given.then(|| OwnMembers::from(args.own_members).name().to_owned())
}

/// What was typed, by flag: a copy that goes on must be told the same.
pub(super) fn settings(args: &RecordArgs) -> impl Iterator<Item = (&'static str, String)> {
    [
        ("--key", args.key.as_ref().map(ToString::to_string)),
        ("--filter", args.filter.clone()),
        ("--map", args.map.clone()),
        ("--fields", args.fields.as_ref().map(ToString::to_string)),
        ("--without", args.without.as_ref().map(ToString::to_string)),
        ("--rename", args.rename.as_ref().map(ToString::to_string)),
        ("--value", args.value.clone()),
        ("--op-field", args.op_field.clone()),
        ("--merge", args.merge.clone()),
        ("--merge-absent", args.merge_absent.then(|| "given".to_owned())),
        ("--own-members", own_members(args)),
        ("--expiry", args.expiry.map(|span| span.to_string())),
        ("--expiry-field", args.expiry_field.clone()),
    ]
    .into_iter()
    .filter_map(|(flag, value)| Some((flag, value?)))
}
