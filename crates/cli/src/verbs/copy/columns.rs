//! The columns of a target file, from the arguments or from the records of the source.

use std::path::Path;

use storebench_transfer::{Columns, Format, Infer, Kind, Shape, Source, TransferError, infer_columns};

use super::plan::Plan;
use crate::endpoints::Endpoint;
use crate::failure::Failure;

/// The format of the target, if it is a file.
pub(super) fn format_of(plan: &Plan) -> Option<Format> {
    if let Endpoint::Store(..) = plan.to {
        return None;
    }
    plan.args.to_format.or_else(|| match plan.to.files() {
        Some(name) if !name.ends_with('/') && !Path::new(&name).is_dir() => Format::told_by(&name),
        _ => Some(Format::Jsonl),
    })
}

/// Refuses flags about columns if the target has no columns.
///
/// # Errors
/// Names the flag.
pub(super) fn check(plan: &Plan) -> Result<(), Failure> {
    let given = plan.settings.first_of(&["--infer", "--schema", "--overflow", "--no-overflow"]);
    match (given, format_of(plan).is_some_and(Format::has_columns)) {
        (Some(flag), false) => Err(Failure::bad_input(format!(
            "{flag} needs a target with columns: a .csv, .tsv, .parquet or .arrow file"
        ))),
        _ => Ok(()),
    }
}

/// The columns: from the schema file, or inferred from the source.
///
/// # Errors
/// The schema cannot be used, or the source fails.
pub(super) fn columns(
    plan: &Plan,
    source: &dyn Source,
    shape: &Shape,
    format: Format,
) -> Result<Columns, TransferError> {
    let (args, key_field) = (&plan.args.columns, plan.key_field());
    let Some(path) = &args.schema else {
        let mut infer = Infer::new(format, key_field.as_deref());
        infer.records = args.infer.unwrap_or(infer.records);
        infer.overflow = args.overflow.clone().or(infer.overflow).filter(|_| !args.no_overflow);
        return infer_columns(source, &source.splits(plan.parallel)?, shape, &infer);
    };
    let wrong = |what: String| TransferError::BadInput(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| wrong(format!("cannot be read: {e}; check the path")))?;
    let mut columns = Columns::of_schema(&text).map_err(|e| wrong(e.to_string()))?;
    if args.no_overflow {
        columns.overflow = None;
    }
    if let Some(name) = &args.overflow {
        columns.overflow = Some(name.clone());
    }
    if let Some(key) = key_field {
        match columns.get(&key) {
            None => columns.list.insert(0, (key, Kind::Text)),
            Some(Kind::Text) => {}
            Some(_) => {
                return Err(wrong(format!(
                    "columns.{key}: this column receives the key, which is text; make it `text`, or use another column with --key-field"
                )));
            }
        }
    }
    if let Some(name) = columns.overflow.as_ref().filter(|name| columns.get(name).is_some()) {
        return Err(wrong(format!(
            "`{name}` cannot be both a column and the overflow; use another name with --overflow"
        )));
    }
    Ok(columns)
}
