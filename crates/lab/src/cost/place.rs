//! Where in a price sheet a fault stands, worded as the faults of a study are.

use std::path::Path;

use storebench_core::workload::{Problem, StudyError, StudyErrors, did_you_mean};
use toml_edit::{Document, TableLike};

/// One fault, at a byte offset of the text where it has a place.
pub(super) fn fault(file: &Path, text: &str, offset: Option<usize>, key: String, message: String) -> StudyError {
    let line = offset.map(|offset| line_and_column(text, offset));
    let source_line = line.and_then(|(line, _)| text.lines().nth(line - 1)).map(str::to_owned);
    StudyError { file: file.to_owned(), line, key, message, source_line }
}

/// Faults of a sheet that was read, each at the deepest key of its path that the text holds.
pub(super) fn faults(file: &Path, text: &str, problems: Vec<Problem>) -> StudyErrors {
    let document = Document::parse(text).ok();
    let errors = problems.into_iter().map(|problem| {
        let offset = document.as_ref().and_then(|d| offset_of(d.as_table(), &problem.path));
        fault(file, text, offset, problem.path.join("."), problem.message)
    });
    StudyErrors(errors.collect())
}

/// The parser's fault with its place, what was meant, and what to write where something is missing.
pub(super) fn from_toml(error: &toml_edit::de::Error, file: &Path, text: &str) -> StudyErrors {
    let message = error.message().trim();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let missing = message.starts_with("missing field");
    let message = match quoted.split_first() {
        Some((wrong, names)) if message.starts_with("unknown field") => {
            let all = names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
            match did_you_mean(wrong, names.iter().copied()) {
                Some(name) => format!("`{wrong}` is not known here; did you mean `{name}`? (known: {all})"),
                None => format!("`{wrong}` is not known here; known: {all}"),
            }
        }
        Some((name, _)) if missing => format!("`{name}` is missing; {}", remedy(name)),
        _ => message.to_owned(),
    };
    // What the root lacks has no place of its own: the file's first line stands for it.
    let offset = error.span().map(|span| span.start).or_else(|| missing.then_some(0));
    let key = offset.and_then(|offset| key_at(text, offset)).unwrap_or_default();
    StudyErrors(vec![fault(file, text, offset, key, message)])
}

/// What to write for a key that must be there.
pub(super) fn remedy(key: &str) -> &'static str {
    match key {
        "currency" => "write the three letters of the currency, like currency = \"USD\"",
        "source" => "say where the prices are from, like source = \"list prices of the provider, region west\"",
        "date" => "write the day on which these prices held, like date = \"2026-11-22\"",
        "per_hour" => "write what one machine costs for an hour, like per_hour = 0.532",
        "per_gib_month" => "write what 1 GiB of disk costs for a month, like per_gib_month = 0.08",
        "per_million" => "write what a million I/O requests cost, like per_million = 0.2",
        "per_gib" => "write what 1 GiB sent costs, like per_gib = 0.09",
        "node" => "name a machine of [nodes], like node = \"large\"",
        _ => "write it",
    }
}

/// Line and column of a byte offset, from 1.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Where the deepest existing part of a path stands.
fn offset_of(table: &dyn TableLike, path: &[String]) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    let (key, item) = table.get_key_value(first)?;
    let here = key.span().or_else(|| item.span()).map(|span| span.start);
    item.as_table_like().and_then(|inner| offset_of(inner, rest)).or(here)
}

/// The path of the key that stands at, or whose value spans, a byte offset.
fn key_at(text: &str, offset: usize) -> Option<String> {
    fn find(table: &dyn TableLike, offset: usize, path: &mut Vec<String>) -> bool {
        table.iter().any(|(name, item)| {
            path.push(name.to_owned());
            let holds = |span: Option<std::ops::Range<usize>>| span.is_some_and(|span| span.contains(&offset));
            let found = item.as_table_like().is_some_and(|inner| find(inner, offset, path))
                || holds(table.key(name).and_then(|key| key.span()))
                || holds(item.span());
            if !found {
                path.pop();
            }
            found
        })
    }
    let document = Document::parse(text).ok()?;
    let mut path = Vec::new();
    find(document.as_table(), offset, &mut path).then(|| path.join("."))
}
