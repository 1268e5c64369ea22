//! How a copy processes each record, from the arguments.

use std::sync::Arc;

use storebench_transfer::{Expiry, Jq, JqError, KEY_FIELD, MergeBy, Projection, Shape};

use crate::args::RecordArgs;
use crate::failure::Failure;

/// How to form the records of the copy with this id.
///
/// # Errors
/// An expression is invalid, or --rename names the key's field.
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
            "--rename cannot rename the key's field `{KEY_FIELD}`, because it is not part of the document; use `--key \
             {KEY_FIELD}` to keep it in the document, or --key-field to name it in a target file"
        )));
    }
    let projection =
        Projection { only: args.fields.clone(), without: args.without.clone(), renames: args.rename.clone() };
    Ok(shape.with_projection(projection))
}

/// How --op merge combines documents, if --merge is given.
///
/// # Errors
/// The expression is invalid.
pub(super) fn merge(args: &RecordArgs) -> Result<Option<MergeBy>, Failure> {
    let Some(typed) = &args.merge else { return Ok(None) };
    let compiled = expression("--merge", Jq::of_merge(typed))?;
    Ok(Some(MergeBy { expression: Arc::new(compiled), absent: args.merge_absent }))
}

/// When documents expire that have no expiry of their own.
///
/// # Errors
/// The time is zero.
pub(super) fn expiry(args: &RecordArgs) -> Result<Option<Expiry>, Failure> {
    match args.expiry {
        Some(span) if span.ns() == 0 => Err(Failure::bad_input("--expiry: expected a time above 0, such as 1h")),
        span => Ok(span.map(|span| Expiry::In(span.0))),
    }
}

fn expression(flag: &str, compiled: Result<Jq, JqError>) -> Result<Jq, Failure> {
    compiled.map_err(|error| Failure::bad_input(format!("{flag}: {error}")))
}
