//! The columns of a target file, from the arguments or from the records of the source.

use storebench_transfer::{Columns, FileLocation, Format, Infer, Kind, Shape, Source, TransferError, infer_columns};

use crate::args::{ColumnArgs, CopyArgs};
use crate::endpoints::Endpoint;
use crate::failure::Failure;
use crate::verbs::copy_settings::Settings;

/// The format of the target, if it is a file.
pub(super) fn format_of(args: &CopyArgs, to: &Endpoint) -> Option<Format> {
    let name = match to {
        Endpoint::Store(_) => return None,
        Endpoint::Standard => return args.to_format.or(Some(Format::Jsonl)),
        Endpoint::Files(path) => path.clone(),
        Endpoint::Remote(url) => FileLocation::shown(url),
    };
    let folder = name.ends_with('/') || std::path::Path::new(&name).is_dir();
    args.to_format.or_else(|| if folder { Some(Format::Jsonl) } else { Format::told_by(&name) })
}

/// Refuses flags about columns if the target has no columns.
///
/// # Errors
/// Names the flag.
pub(super) fn check(settings: &Settings, format: Option<Format>) -> Result<(), Failure> {
    let given = settings.first_of(&["--infer", "--schema", "--overflow", "--no-overflow"]);
    match (given, format.is_some_and(Format::has_columns)) {
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
    args: &ColumnArgs,
    source: &dyn Source,
    parallel: u32,
    shape: &Shape,
    format: Format,
    key_field: Option<&str>,
) -> Result<Columns, TransferError> {
    let Some(path) = &args.schema else {
        let mut infer = Infer::new(format, key_field);
        infer.records = args.infer.unwrap_or(infer.records);
        infer.overflow = args.overflow.clone().or(infer.overflow).filter(|_| !args.no_overflow);
        return infer_columns(source, &source.splits(parallel)?, shape, &infer);
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
        match columns.get(key) {
            None => columns.list.insert(0, (key.to_owned(), Kind::Text)),
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
