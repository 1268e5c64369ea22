//! Errors in a TOML file: file, line, key, what is wrong, and what is expected.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml_edit::{Document, DocumentMut, Item, Value};

use super::check::{Problem, did_you_mean};
use super::load::Override;
use super::study::Study;

/// One error in a TOML file: a study, or a price sheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StudyError {
    /// The file.
    pub file: PathBuf,
    /// Line and column, from 1; `None` if the error has no place in the file.
    pub line: Option<(usize, usize)>,
    /// The key, such as `phases.1.mix.read`; empty if there is none.
    pub key: String,
    /// What is wrong and what is expected.
    pub message: String,
    /// The line itself.
    pub source_line: Option<String>,
}

impl fmt::Display for StudyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.line {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)?;
        if let (Some((line, _)), Some(text)) = (self.line, &self.source_line) {
            write!(f, "\n  {line:>4} | {}", text.trim_end())?;
        }
        Ok(())
    }
}

/// All errors in a TOML file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct StudyErrors(pub Vec<StudyError>);

impl fmt::Display for StudyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl StudyErrors {
    /// One error, at a byte offset of the text if it has a place.
    pub fn one(file: &Path, text: &str, offset: Option<usize>, key: String, message: String) -> Self {
        let line = offset.map(|offset| place(text, offset));
        let source_line = line.and_then(|(line, _)| text.lines().nth(line - 1)).map(str::to_owned);
        Self(vec![StudyError { file: file.to_owned(), line, key, message, source_line }])
    }

    /// An error at the deepest part of a path of keys (`phases.1.mix`) that exists in the text.
    pub fn at(file: &Path, text: &str, path: &[String], message: String) -> Self {
        Self::one(file, text, locate(text, path), path.join("."), message)
    }

    /// An error for each problem, at its place in the text.
    pub fn of(file: &Path, text: &str, problems: Vec<Problem>) -> Self {
        Self(problems.into_iter().flat_map(|p| Self::at(file, text, &p.path, p.message).0).collect())
    }

    /// Places each error of a text that overrides have changed where it comes from: the override that sets the value,
    /// the file if it has the error without overrides, or else the override that caused the error. `with` reads the
    /// text with only some of the overrides.
    pub(super) fn in_terms_of(
        self,
        text: &str,
        overrides: &[Override],
        with: impl Fn(&[Override]) -> Result<(), StudyErrors>,
    ) -> Self {
        let faults = |of: &[Override]| with(of).err().map_or_else(Vec::new, |errors| errors.0);
        let of_file = faults(&[]);
        let told = |error: StudyError| {
            let same = |other: &&StudyError| (&other.key, &other.message) == (&error.key, &error.message);
            if let Some((one, key)) = setting(text, overrides, &error.key) {
                return of_override(one, StudyError { key, ..error });
            }
            if let Some(known) = of_file.iter().find(same) {
                return known.clone();
            }
            let brought = (1..=overrides.len()).find(|n| faults(&overrides[..*n]).iter().any(|other| same(&other)));
            match brought.map(|n| &overrides[n - 1]) {
                Some(one) => of_override(one, error),
                None => {
                    let path: Vec<String> = error.key.split('.').map(str::to_owned).collect();
                    Self::at(&error.file, text, &path, error.message).0.remove(0)
                }
            }
        };
        Self(self.0.into_iter().map(told).collect())
    }

    /// Reads a text. Each key that is unknown or has a wrong value is left out once it is found, so that all of them are
    /// told at once. `remedy` says what to write for a missing key.
    ///
    /// # Errors
    /// All that the parser finds, each with its place.
    pub fn read<T: DeserializeOwned>(
        text: &str,
        file: &Path,
        remedy: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<T, Self> {
        let mut found: Vec<StudyError> = Vec::new();
        let mut rest = text.to_owned();
        while found.len() < MOST_ERRORS {
            let error = match toml_edit::de::from_str(&rest) {
                Ok(read) if found.is_empty() => return Ok(read),
                Ok(_) => break,
                Err(error) => error,
            };
            let of = Self::of_toml(&error, file, &rest, &remedy).0.remove(0);
            let path: Vec<String> = of.key.split('.').filter(|key| !key.is_empty()).map(str::to_owned).collect();
            // A table may lack a key because that was left out of it.
            let without_a_part = |known: &StudyError| path.is_empty() || known.key.starts_with(&format!("{}.", of.key));
            if found.iter().any(without_a_part) {
                break;
            }
            found.push(if found.is_empty() { of } else { Self::at(file, text, &path, of.message).0.remove(0) });
            match without(&rest, &path) {
                Some(shorter) => rest = shorter,
                None => break,
            }
        }
        Err(Self(found))
    }

    /// The parser's error with its place and, for an unknown name, a suggestion.
    fn of_toml(
        error: &toml_edit::de::Error,
        file: &Path,
        text: &str,
        remedy: impl FnOnce(&str) -> Option<&'static str>,
    ) -> Self {
        let message = error.message().trim();
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let mut offset = error.span().map(|s| s.start);
        let message = match quoted.split_first() {
            Some((wrong, names)) if message.starts_with("unknown field") || message.starts_with("unknown variant") => {
                let all = names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
                match did_you_mean(wrong, names.iter().copied()) {
                    Some(name) => format!("`{wrong}` is not known here; did you mean `{name}`? (known: {all})"),
                    None => format!("`{wrong}` is not known here; known: {all}"),
                }
            }
            Some((name, _)) if message.starts_with("missing field") => {
                // A key that is missing at the root has no place: the line at the offset is not at fault.
                offset = offset.filter(|at| *at > 0);
                remedy(name).map_or_else(|| message.to_owned(), |remedy| format!("`{name}` is missing; {remedy}"))
            }
            _ => message.to_owned(),
        };
        let key = offset.and_then(|o| key_at(text, o)).unwrap_or_default();
        Self::one(file, text, offset, key, message)
    }
}

impl Study {
    /// An error about a key of this study that was found after it was read, for example in its files. Its place is the
    /// override that sets the key, or else the key in the text; the message then names the overrides, which may have
    /// caused it.
    pub fn error_at(text: &str, file: &Path, overrides: &[Override], key: &str, mut message: String) -> StudyErrors {
        if let Some((one, key)) = setting(text, overrides, key) {
            let error = StudyErrors::one(file, text, None, key, message).0.remove(0);
            return StudyErrors(vec![of_override(one, error)]);
        }
        if !overrides.is_empty() {
            let given: Vec<String> = overrides.iter().map(Override::named).collect();
            message += &format!(" (with {})", given.join(", "));
        }
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        StudyErrors::at(file, text, &path, message)
    }
}

/// The text without a key; `None` if it has no such key.
fn without(text: &str, path: &[String]) -> Option<String> {
    fn remove(item: &mut Item, path: &[String]) -> Option<()> {
        let (first, rest) = path.split_first()?;
        if let Item::ArrayOfTables(array) = item {
            let mut table = Item::Table(std::mem::take(array.get_mut(first.parse().ok()?)?));
            let removed = remove(&mut table, rest);
            if let (Item::Table(table), Some(place)) = (table, array.get_mut(first.parse().ok()?)) {
                *place = table;
            }
            return removed;
        }
        let table = item.as_table_like_mut()?;
        if rest.is_empty() { table.remove(first).map(drop) } else { remove(table.get_mut(first)?, rest) }
    }
    let mut document: DocumentMut = text.parse().ok()?;
    remove(document.as_item_mut(), path)?;
    Some(document.to_string())
}

/// The last override that sets a key or one of its parents, and the key if it says more than the override.
fn setting<'a>(text: &str, overrides: &'a [Override], key: &str) -> Option<(&'a Override, String)> {
    let document = Document::parse(text).ok()?;
    let sets = |one: &'a Override| {
        let set = one.resolved(document.as_table());
        let rest = key.strip_prefix(set.as_str())?;
        // The override names its own key as the user did.
        let told = if rest.is_empty() { String::new() } else { key.to_owned() };
        (rest.is_empty() || rest.starts_with('.')).then_some((one, told))
    };
    overrides.iter().rev().find_map(sets)
}

fn of_override(one: &Override, error: StudyError) -> StudyError {
    StudyError { file: PathBuf::from(one.named()), line: None, source_line: None, ..error }
}

/// The most errors that are told at once.
const MOST_ERRORS: usize = 20;
/// The largest file that is read as TOML. Typical ones have a few KiB.
const MOST_BYTES: u64 = 4 << 20;

/// The text of a TOML file. `what` says what is expected, such as "a study file".
///
/// # Errors
/// If it cannot be read, is a folder, is not text, or is too large.
pub fn read_toml(file: &Path, what: &str) -> Result<String, StudyErrors> {
    let wrong = |message: String| StudyErrors::one(file, "", None, String::new(), message);
    let give = format!("give the path of {what} (TOML)");
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|open| open.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Err(_) if file.is_dir() => return Err(wrong(format!("this is a folder; {give}"))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(wrong(format!("cannot be read: {error}; {give}")));
        }
        Err(error) => return Err(wrong(format!("cannot be read: {error}"))),
        Ok(_) if bytes.len() as u64 > MOST_BYTES => {
            return Err(wrong(format!("the file is larger than {} MiB; {give}", MOST_BYTES >> 20)));
        }
        Ok(_) => {}
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        wrong(format!("this is not a text file (byte {at} is not UTF-8); {give}"))
    })?;
    match text.find('\0') {
        Some(at) => Err(wrong(format!("this is not a text file (byte {at} is 0); {give}"))),
        None => Ok(text),
    }
}

/// Line and column of a byte offset, from 1.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The byte offset of the deepest existing part of a path.
fn locate(text: &str, path: &[String]) -> Option<usize> {
    locate_in_table(Document::parse(text).ok()?.as_table(), path)
}

fn locate_in_table(table: &dyn toml_edit::TableLike, path: &[String]) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    let (key, item) = table.get_key_value(first)?;
    let here = key.span().or_else(|| item.span()).map(|s| s.start);
    locate_in_item(item, rest).or(here)
}

fn locate_in_item(item: &Item, path: &[String]) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    match item {
        Item::Table(table) => locate_in_table(table, path),
        Item::ArrayOfTables(array) => {
            let table = array.get(first.parse().ok()?)?;
            locate_in_table(table, rest).or_else(|| table.span().map(|s| s.start))
        }
        Item::Value(Value::InlineTable(table)) => locate_in_table(table, path),
        Item::Value(Value::Array(array)) => array.get(first.parse().ok()?)?.span().map(|s| s.start),
        _ => None,
    }
}

/// The path of the key that is at a byte offset, or whose value spans it.
fn key_at(text: &str, offset: usize) -> Option<String> {
    fn table(t: &toml_edit::Table, offset: usize, path: &mut Vec<String>) -> bool {
        t.iter().any(|(name, item)| {
            path.push(name.to_owned());
            let on_key = t.key(name).and_then(|k| k.span()).is_some_and(|s| s.contains(&offset));
            let found = on_key
                || match item {
                    Item::Table(inner) => {
                        table(inner, offset, path) || inner.span().is_some_and(|s| s.contains(&offset))
                    }
                    Item::ArrayOfTables(array) => array.iter().enumerate().any(|(i, inner)| {
                        path.push(i.to_string());
                        let found = table(inner, offset, path) || inner.span().is_some_and(|s| s.contains(&offset));
                        if !found {
                            path.pop();
                        }
                        found
                    }),
                    Item::Value(v) => value(v, offset, path),
                    Item::None => false,
                };
            if !found {
                path.pop();
            }
            found
        })
    }
    fn value(v: &Value, offset: usize, path: &mut Vec<String>) -> bool {
        if !v.span().is_some_and(|s| s.contains(&offset)) {
            return false;
        }
        if let Value::InlineTable(inner) = v {
            for (name, v) in inner.iter() {
                path.push(name.to_owned());
                let on_key = inner.key(name).and_then(|k| k.span()).is_some_and(|s| s.contains(&offset));
                if on_key || value(v, offset, path) {
                    return true;
                }
                path.pop();
            }
        }
        true
    }
    let document = Document::parse(text).ok()?;
    let mut path = Vec::new();
    table(document.as_table(), offset, &mut path).then(|| path.join("."))
}
