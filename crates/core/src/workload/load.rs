//! Reading a study file: overrides, then types, then sense, each error with its line.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Value};

use super::check::{check, did_you_mean};
use super::errors::StudyErrors;
use super::study::Study;

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
            StudyErrors::one(Path::new("--set"), "", None, given.to_owned(), remedy.into())
        })?;
        let value = value.trim();
        let value: Value = value.parse().unwrap_or_else(|_| value.into());
        // The other name of it would be a second key.
        let path = if path.trim() == "repeat" { "repeats" } else { path.trim() };
        Ok(Self { path: path.to_owned(), value: value.to_string(), given: given.to_owned() })
    }

    /// Every one of them.
    ///
    /// # Errors
    /// As [`Override::parse`].
    pub fn parse_all(given: &[String]) -> Result<Vec<Self>, StudyErrors> {
        given.iter().map(|given| Self::parse(given)).collect()
    }

    /// Whether a key of the study lies at the path of this one, in it or around it.
    pub(super) fn concerns(&self, key: &str) -> bool {
        let (mine, theirs) = (keys(&self.path), keys(key));
        !key.is_empty() && mine.iter().zip(&theirs).all(|(a, b)| a == b)
    }

    /// As it was given.
    pub(super) fn given(&self) -> &str {
        &self.given
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
            StudyErrors::one(file, "", None, String::new(), format!("cannot be read: {e}{remedy}"))
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
        let changed = &apply(text, file, overrides)?;
        let study = toml_edit::de::from_str(changed).map_err(|e| StudyErrors::of_toml(&e, file, changed, |_| None));
        let checked = study.and_then(|study: Study| study.checked(changed, file));
        // Lines of a text that nobody sees: what was overridden is at fault by its name, the rest where the file has it.
        checked.map_err(|errors| if overrides.is_empty() { errors } else { errors.in_terms_of(text, overrides) })
    }

    fn checked(self, text: &str, file: &Path) -> Result<Self, StudyErrors> {
        let problems = check(&self);
        if problems.is_empty() {
            return Ok(self);
        }
        Err(StudyErrors::of(file, text, problems))
    }

    /// An error about a key of this study that was found later (in its files, say).
    pub fn error_at(text: &str, file: &Path, key: &str, message: String) -> StudyErrors {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        StudyErrors::at(file, text, &path, message)
    }

    /// Checks a study that was not read from a file.
    ///
    /// # Errors
    /// Every fault found, by its key.
    pub fn validate(self, origin: &str) -> Result<Self, StudyErrors> {
        self.checked("", Path::new(origin))
    }
}

/// Puts overrides into the text.
fn apply(text: &str, file: &Path, overrides: &[Override]) -> Result<String, StudyErrors> {
    if overrides.is_empty() {
        return Ok(text.to_owned());
    }
    let mut document: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| {
        StudyErrors::one(file, text, e.span().map(|s| s.start), String::new(), e.message().to_owned())
    })?;
    for one in overrides {
        let wrong = |message: String| StudyErrors::one(Path::new("--set"), "", None, one.given.clone(), message);
        let value = one.value.parse().map_err(|e: toml_edit::TomlError| wrong(e.message().to_owned()))?;
        if one.path == "repeats" {
            document.remove("repeat");
        }
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
