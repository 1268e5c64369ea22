//! Reading a study file: overrides, then types, then sense, each error with its line.

use std::fmt;
use std::path::{Path, PathBuf};

use toml_edit::{Document, DocumentMut, Item, Value};

use super::check::{check, did_you_mean};
use super::study::Study;

/// One thing wrong with a study file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StudyError {
    /// The file.
    pub file: PathBuf,
    /// Line and column, from 1; none when the fault lies in no place of the file.
    pub line: Option<(usize, usize)>,
    /// The key, as `phases.1.mix.read`; empty when there is none.
    pub key: String,
    /// What is wrong and what would be right.
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

/// Everything wrong with a study file.
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

/// One value that takes the place of the file's: `phases.mixed.rate=500`.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// Keys from the root, with dots between them; one that holds dots stands in quotes.
    pub path: String,
    /// The value as TOML.
    value: String,
    /// As it was given, for messages.
    given: String,
}

impl Override {
    /// Reads `path=value`. A value that is no TOML is taken as a string.
    ///
    /// # Errors
    /// There is no `=`.
    pub fn parse(given: &str) -> Result<Self, StudyErrors> {
        let (path, value) = given.split_once('=').ok_or_else(|| {
            let remedy = "write it like --set phases.mixed.rate=500 or --set collections.books.count=10k";
            lone(Path::new("--set"), None, given.to_owned(), remedy.into(), "")
        })?;
        let value = value.trim();
        let value: Value = value.parse().unwrap_or_else(|_| value.into());
        Ok(Self { path: path.trim().to_owned(), value: value.to_string(), given: given.to_owned() })
    }

    /// Every one of them.
    ///
    /// # Errors
    /// As [`Override::parse`].
    pub fn parse_all(given: &[String]) -> Result<Vec<Self>, StudyErrors> {
        given.iter().map(|given| Self::parse(given)).collect()
    }

    /// A JSON value at a path. What TOML does not know (`null`) becomes an empty string.
    pub(super) fn of_level(path: String, level: &serde_json::Value) -> Self {
        let value = serde::Serialize::serialize(level, toml_edit::ser::ValueSerializer::new());
        let value = value.map_or_else(|_| "\"\"".to_owned(), |value| value.to_string());
        let given = format!("{path}={value}");
        Self { path, value, given }
    }
}

impl Study {
    /// Reads and checks a study file, with overrides `path=value` applied first.
    ///
    /// # Errors
    /// Every fault found, each with file, line and key.
    pub fn read(file: &Path, overrides: &[String]) -> Result<Self, StudyErrors> {
        let text = std::fs::read_to_string(file).map_err(|e| {
            let remedy =
                if e.kind() == std::io::ErrorKind::NotFound { "; give the path of a study file (TOML)" } else { "" };
            lone(file, None, String::new(), format!("cannot be read: {e}{remedy}"), "")
        })?;
        Self::parse(&text, file, overrides)
    }

    /// The same from a text; `file` is only named in errors.
    ///
    /// # Errors
    /// Every fault found, each with file, line and key.
    pub fn parse(text: &str, file: &Path, overrides: &[String]) -> Result<Self, StudyErrors> {
        Self::parse_with(text, file, &Override::parse_all(overrides)?)
    }

    /// The same with overrides that were read before.
    ///
    /// # Errors
    /// Every fault found, each with file, line and key.
    pub fn parse_with(text: &str, file: &Path, overrides: &[Override]) -> Result<Self, StudyErrors> {
        let text = &apply(text, file, overrides)?;
        let study: Study = toml_edit::de::from_str(text).map_err(|e| from_toml(&e, file, text))?;
        study.checked(text, file)
    }

    fn checked(self, text: &str, file: &Path) -> Result<Self, StudyErrors> {
        let problems = check(&self);
        if problems.is_empty() {
            return Ok(self);
        }
        let document = Document::parse(text.to_owned()).ok();
        let errors = problems
            .into_iter()
            .map(|p| {
                let place = document.as_ref().and_then(|d| locate(d, &p.path)).map(|offset| place(text, offset));
                let source_line = place.and_then(|(line, _)| text.lines().nth(line - 1)).map(str::to_owned);
                StudyError {
                    file: file.to_owned(),
                    line: place,
                    key: p.path.join("."),
                    message: p.message,
                    source_line,
                }
            })
            .collect();
        Err(StudyErrors(errors))
    }

    /// An error about a key of this study that was found later (in its files, say).
    pub fn error_at(text: &str, file: &Path, key: &str, message: String) -> StudyErrors {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        let offset = Document::parse(text.to_owned()).ok().and_then(|d| locate(&d, &path));
        lone(file, offset, key.to_owned(), message, text)
    }

    /// Checks a study that was not read from a file.
    ///
    /// # Errors
    /// Every fault found, by its key.
    pub fn validate(self, origin: &str) -> Result<Self, StudyErrors> {
        self.checked("", Path::new(origin))
    }
}

fn lone(file: &Path, offset: Option<usize>, key: String, message: String, text: &str) -> StudyErrors {
    let line = offset.map(|o| place(text, o));
    let source_line = line.and_then(|(line, _)| text.lines().nth(line - 1)).map(str::to_owned);
    StudyErrors(vec![StudyError { file: file.to_owned(), line, key, message, source_line }])
}

/// Line and column of a byte offset, from 1.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Where in the file the deepest existing part of a path stands.
fn locate(document: &Document<String>, path: &[String]) -> Option<usize> {
    locate_in_table(document.as_table(), path)
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

/// Puts overrides into the text.
fn apply(text: &str, file: &Path, overrides: &[Override]) -> Result<String, StudyErrors> {
    if overrides.is_empty() {
        return Ok(text.to_owned());
    }
    let mut document: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| {
        lone(file, e.span().map(|s| s.start), String::new(), e.message().to_owned(), text)
    })?;
    for one in overrides {
        let wrong = |message: String| lone(Path::new("--set"), None, one.given.clone(), message, "");
        let value = one.value.parse().map_err(|e: toml_edit::TomlError| wrong(e.message().to_owned()))?;
        set(document.as_item_mut(), &keys(&one.path), value).map_err(wrong)?;
    }
    Ok(document.to_string())
}

/// The keys of a path: what stands in quotes is one, dots and all.
fn keys(path: &str) -> Vec<String> {
    let mut keys = vec![String::new()];
    let mut quoted = None;
    for c in path.chars() {
        match (c, quoted) {
            ('"' | '\'', None) => quoted = Some(c),
            (c, Some(quote)) if c == quote => quoted = None,
            ('.', None) => keys.push(String::new()),
            (c, _) => keys.last_mut().expect("there is always one").push(c),
        }
    }
    keys
}

fn set(root: &mut Item, parts: &[String], value: Value) -> Result<(), String> {
    let mut item = root;
    for (depth, part) in parts.iter().enumerate() {
        if part.is_empty() {
            return Err("a key between two dots is empty".into());
        }
        let (last, rest) = (depth + 1 == parts.len(), &parts[depth + 1..]);
        if let Item::ArrayOfTables(array) = item {
            // Phases are found by name, or by position from 0.
            let by_name = array.iter().position(|t| t.get("name").and_then(Item::as_str) == Some(part));
            let names: Vec<String> =
                array.iter().filter_map(|t| t.get("name").and_then(Item::as_str)).map(str::to_owned).collect();
            let position =
                by_name.or_else(|| part.parse().ok()).filter(|i| *i < array.len()).ok_or_else(
                    || match did_you_mean(part, names.iter().map(String::as_str)) {
                        Some(name) => format!("there is no `{part}` here; did you mean `{name}`?"),
                        None => format!("there is no `{part}` here; there are: {}", names.join(", ")),
                    },
                )?;
            let table = array.get_mut(position).ok_or("there is nothing here")?;
            if rest.is_empty() {
                return Err("name a key of it".into());
            }
            let mut inner = Item::Table(std::mem::take(table));
            let done = set(&mut inner, rest, value);
            if let Item::Table(changed) = inner {
                *table = changed;
            }
            return done;
        }
        if last {
            match item {
                Item::Table(table) => {
                    table.insert(part, Item::Value(value));
                }
                Item::Value(Value::InlineTable(table)) => {
                    table.insert(part, value);
                }
                _ => return Err(format!("`{}` holds no keys", parts[..depth].join("."))),
            }
            return Ok(());
        }
        item = match item {
            Item::Table(table) => table.entry(part).or_insert_with(|| Item::Table(toml_edit::Table::new())),
            Item::Value(Value::InlineTable(table)) => {
                let inner = table.entry(part).or_insert_with(|| Value::InlineTable(toml_edit::InlineTable::new()));
                let mut item = Item::Value(inner.clone());
                set(&mut item, rest, value)?;
                if let Item::Value(changed) = item {
                    *inner = changed;
                }
                return Ok(());
            }
            _ => return Err(format!("`{}` holds no keys", parts[..depth].join("."))),
        };
    }
    Ok(())
}

/// Makes the parser's error say the place and, for an unknown name, the one that was meant.
fn from_toml(error: &toml_edit::de::Error, file: &Path, text: &str) -> StudyErrors {
    let message = error.message().trim();
    let offset = error.span().map(|s| s.start);
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let message = match quoted.split_first() {
        Some((wrong, names)) if message.starts_with("unknown field") || message.starts_with("unknown variant") => {
            let all = names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
            match did_you_mean(wrong, names.iter().copied()) {
                Some(name) => format!("`{wrong}` is not known here; did you mean `{name}`? (known: {all})"),
                None => format!("`{wrong}` is not known here; known: {all}"),
            }
        }
        _ => message.to_owned(),
    };
    let key = offset.and_then(|o| key_at(text, o)).unwrap_or_default();
    lone(file, offset, key, message, text)
}

/// The path of the key that stands at, or whose value spans, a byte offset.
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
