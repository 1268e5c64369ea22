//! The columns of a file that a copy writes, out of what was typed, and what the summary says of records.

use storebench_lab::human::count;
use storebench_transfer::{
    Columns, CopyReport, Format, Infer, Kind, Place, Shape, Source, TransferError, infer_columns,
};

use crate::args::{ColumnArgs, CopyArgs, OpText};
use crate::endpoints::Endpoint;

/// Damaged parts that are named.
const NAMED: usize = 10;

/// How records will stand in the target, where it is a file.
pub(super) fn format_of(args: &CopyArgs, to: &Endpoint) -> Option<Format> {
    let name = match to {
        Endpoint::Store(_) => return None,
        Endpoint::Standard => return args.to_format.or(Some(Format::Jsonl)),
        Endpoint::Files(path) => path.clone(),
        Endpoint::Remote(url) => Place::shown(url),
    };
    let folder = name.ends_with('/') || std::path::Path::new(&name).is_dir();
    args.to_format.or_else(|| if folder { Some(Format::Jsonl) } else { Format::told_by(&name) })
}

/// Refuses what has no meaning for this target.
///
/// # Errors
/// Which flag.
pub(super) fn check(args: &ColumnArgs, format: Option<Format>) -> Result<(), TransferError> {
    let given = settings(args).map(|(flag, _)| flag).next();
    match (given, format.is_some_and(Format::has_columns)) {
        (Some(flag), false) => Err(TransferError::BadInput(format!(
            "{flag} needs a target with columns: a .csv, .tsv, .parquet or .arrow file"
        ))),
        _ => Ok(()),
    }
}

/// What of it a copy must be resumed with.
pub(super) fn settings(args: &ColumnArgs) -> impl Iterator<Item = (&'static str, String)> {
    let infer = args.infer.map(|records| if records == 0 { "all".to_owned() } else { records.to_string() });
    let given = args.no_overflow.then(|| "given".to_owned());
    let schema = args.schema.as_ref().map(|path| path.display().to_string());
    [("--infer", infer), ("--schema", schema), ("--overflow", args.overflow.clone()), ("--no-overflow", given)]
        .into_iter()
        .filter_map(|(flag, value)| Some((flag, value?)))
}

/// The columns: those of the schema, or of what the source holds.
///
/// # Errors
/// A schema that cannot be used, and the source's.
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
                    "columns.{key}: this column gets the key, which is a text; make it `text`, or name another with --key-field"
                )));
            }
        }
    }
    if let Some(name) = columns.overflow.as_ref().filter(|name| columns.get(name).is_some()) {
        return Err(wrong(format!("`{name}` is a column and the overflow; name another with --overflow")));
    }
    Ok(columns)
}

/// Lines of the summary about damaged sources and keys.
pub(super) fn told(report: &CopyReport, args: &CopyArgs, into_store: bool) -> String {
    let mut out = String::new();
    for damage in report.damaged.iter().take(NAMED) {
        out += &format!("INCOMPLETE: {}; {} records before it arrived\n", damage.what, count(damage.records));
    }
    if report.damaged.len() > NAMED {
        out += &format!("INCOMPLETE: {} more parts\n", count((report.damaged.len() - NAMED) as u64));
    }
    let made_text = report.counts.keys_made_text;
    if made_text > 0 {
        out += &format!(
            "keys of {} records are not text in the source (numbers, say); they were written as text\n",
            count(made_text)
        );
    }
    if let Some(repeated) = report.repeated_keys.filter(|repeated| repeated.records > 0) {
        let how = match (repeated.exact, repeated.at_least) {
            (false, _) => "about ",
            (true, true) => "at least ",
            (true, false) => "",
        };
        let records = count(repeated.records);
        if into_store && args.op == OpText::Upsert && args.records.op_field.is_none() {
            out += &format!(
                "{how}{records} records repeat an earlier key: the target holds {how}{records} documents fewer than were written\n"
            );
        } else if !into_store {
            out += &format!("{how}{records} records repeat an earlier key\n");
        }
    }
    out
}
