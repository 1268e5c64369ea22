//! Reads a study file: applies overrides, then checks types and meaning. Each error has its line.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, Value};

use super::check::{check, did_you_mean};
use super::errors::{StudyErrors, read_toml};
use super::study::Study;

/// One value that replaces the file's: `phases.mixed.rate=500`.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// Keys from the root, separated by dots; a key that contains dots is quoted.
    pub path: String,
    /// The value as TOML.
    value: String,
    /// As it was given, for messages.
    given: String,
    /// How it was given, for messages: `--set`, `--preset laptop`.
    by: String,
}

impl Override {
    /// Parses `path=value`. A value that is not TOML is used as a string.
    ///
    /// # Errors
    /// If there is no `=`.
    pub fn parse(given: &str) -> Result<Self, StudyErrors> {
        let (path, value) = given.split_once('=').ok_or_else(|| {
            let remedy = "write it like --set phases.mixed.rate=500 or --set collections.books.count=10k";
            StudyErrors::one(Path::new("--set"), "", None, given.to_owned(), remedy.into())
        })?;
        let value = value.trim();
        let value: Value = value.parse().unwrap_or_else(|_| value.into());
        // The other name would be a second key.
        let path = match path.trim().strip_prefix("repeat") {
            Some(rest) if rest.is_empty() || rest.starts_with('.') => format!("repeats{rest}"),
            _ => path.trim().to_owned(),
        };
        Ok(Self { path, value: value.to_string(), given: given.to_owned(), by: "--set".to_owned() })
    }

    /// Parses all of them.
    ///
    /// # Errors
    /// As [`Override::parse`].
    pub fn parse_all(given: &[String]) -> Result<Vec<Self>, StudyErrors> {
        given.iter().map(|given| Self::parse(given)).collect()
    }

    /// How it was given, with the value: `--set phases.mixed.rate=500`.
    pub(super) fn named(&self) -> String {
        format!("{} {}", self.by, self.given)
    }

    /// Its path in the form that errors use: tables of an array by their positions, without quotes.
    pub(super) fn resolved(&self, root: &Table) -> String {
        let mut path = keys(&self.path);
        let mut item = path.first().and_then(|key| root.get(key));
        for key in path.iter_mut().skip(1) {
            let Some(known) = item else { break };
            let Item::ArrayOfTables(array) = known else {
                item = known.get(&*key);
                continue;
            };
            let named = |table: &Table| table.get("name").and_then(Item::as_str) == Some(key.as_str());
            if let Some(position) = array.iter().position(named) {
                *key = position.to_string();
            }
            // No table of such an array contains another array of tables.
            break;
        }
        path.join(".")
    }

    /// An override with a JSON value. `null`, which TOML does not have, becomes an empty string.
    pub(super) fn of_value(path: String, value: &serde_json::Value) -> Self {
        let value = serde::Serialize::serialize(value, toml_edit::ser::ValueSerializer::new());
        let value = value.map_or_else(|_| "\"\"".to_owned(), |value| value.to_string());
        let given = format!("{path}={value}");
        Self { path, value, given, by: "--set".to_owned() }
    }

    /// The same, but given by something other than `--set`.
    pub(super) fn given_by(self, by: &str) -> Self {
        Self { by: by.to_owned(), ..self }
    }
}

/// Paths of the numbers of workers that a study, with overrides applied, leaves to the machine: those that are `"auto"`, such
/// as `phases.mixed.workers`. Wrong values are left to [`Study::parse_with`].
///
/// # Errors
/// If the text is not TOML, or an override names nothing.
pub fn automatic_workers(text: &str, file: &Path, overrides: &[Override]) -> Result<Vec<String>, StudyErrors> {
    let Ok(document) = apply(text, file, overrides)?.parse::<DocumentMut>() else { return Ok(Vec::new()) };
    let tables = document.get("phases").and_then(Item::as_array_of_tables);
    let paths = tables.into_iter().flatten().enumerate().filter_map(|(position, phase)| {
        let auto = phase.get("workers").and_then(Item::as_str) == Some("auto");
        let name = phase.get("name").and_then(Item::as_str);
        auto.then(|| format!("phases.{}.workers", name.map_or_else(|| position.to_string(), str::to_owned)))
    });
    Ok(paths.collect())
}

impl Study {
    /// Reads and checks a study file, with overrides `path=value` applied first.
    ///
    /// # Errors
    /// All errors found, each with file, line and key.
    pub fn read(file: &Path, overrides: &[String]) -> Result<Self, StudyErrors> {
        Self::parse(&read_toml(file, "a study file")?, file, overrides)
    }

    /// The same from a text; `file` is only named in errors.
    ///
    /// # Errors
    /// All errors found, each with file, line and key.
    pub fn parse(text: &str, file: &Path, overrides: &[String]) -> Result<Self, StudyErrors> {
        Self::parse_with(text, file, &Override::parse_all(overrides)?)
    }

    /// The same with overrides that were parsed before.
    ///
    /// # Errors
    /// All errors found, each with file, line and key.
    pub fn parse_with(text: &str, file: &Path, overrides: &[Override]) -> Result<Self, StudyErrors> {
        if text.trim().is_empty() {
            let message = "the file is empty; a study has a title, collections and phases; start from one of \
                           `storebench studies NAME --file`";
            return Err(StudyErrors::one(file, "", None, String::new(), message.into()));
        }
        let changed = apply(text, file, overrides)?;
        let read = |changed: &str| {
            StudyErrors::read(changed, file, remedy).and_then(|study: Study| study.checked(changed, file))
        };
        // Lines of the changed text, which the user does not see, are no use as places.
        read(&changed).map_err(|errors| match overrides {
            [] => errors,
            _ => errors.in_terms_of(text, overrides, |some| read(&apply(text, file, some)?).map(drop)),
        })
    }

    fn checked(self, text: &str, file: &Path) -> Result<Self, StudyErrors> {
        let problems = check(&self);
        if problems.is_empty() {
            return Ok(self);
        }
        Err(StudyErrors::of(file, text, problems))
    }

    /// Checks a study that was not read from a file.
    ///
    /// # Errors
    /// All errors found, by key.
    pub fn validate(self, origin: &str) -> Result<Self, StudyErrors> {
        self.checked("", Path::new(origin))
    }
}

/// What to write for a required key.
fn remedy(key: &str) -> Option<&'static str> {
    Some(match key {
        "title" => "describe the study in one line, such as title = \"Reads beside updates\"",
        "collections" => "define the documents: [collections.NAME] with a `count` or `from`",
        "phases" => "define what is done: [[phases]] with a `name`, and `load` or `mix`",
        "name" => "name the phase, such as name = \"load\"",
        _ => return None,
    })
}

/// Applies overrides to the text.
fn apply(text: &str, file: &Path, overrides: &[Override]) -> Result<String, StudyErrors> {
    if overrides.is_empty() {
        return Ok(text.to_owned());
    }
    let mut document: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| {
        StudyErrors::one(file, text, e.span().map(|s| s.start), String::new(), e.message().to_owned())
    })?;
    for one in overrides {
        let wrong = |message: String| StudyErrors::one(Path::new(&one.by), "", None, one.given.clone(), message);
        let value = one.value.parse().map_err(|e: toml_edit::TomlError| wrong(e.message().to_owned()))?;
        let by_its_other_name = one.path == "repeats" || one.path.starts_with("repeats.");
        if by_its_other_name && let Some(repeat) = document.remove("repeat") {
            document.insert("repeats", repeat);
        }
        set(document.as_item_mut(), &keys(&one.path), value).map_err(wrong)?;
    }
    Ok(document.to_string())
}

/// The keys of a path. A quoted part is one key, including its dots.
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
            if rest.is_empty() && value.as_bool() == Some(false) {
                array.remove(position);
                return Ok(());
            }
            let table = array.get_mut(position).ok_or("there is nothing here")?;
            if rest.is_empty() {
                return Err(format!("name a key of `{part}`, or leave it out with {part}=false"));
            }
            // A phase ends by one of them.
            match rest {
                [key] if key == "duration" => table.remove("operations"),
                [key] if key == "operations" => table.remove("duration"),
                _ => None,
            };
            let mut inner = Item::Table(std::mem::take(table));
            let done = set(&mut inner, rest, value);
            if let Item::Table(changed) = inner {
                *table = changed;
            }
            return done;
        }
        if last {
            let table = item.as_table_like_mut();
            let table = table.ok_or_else(|| format!("`{}` has no keys", parts[..depth].join(".")))?;
            table.insert(part, Item::Value(value));
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
            _ => return Err(format!("`{}` has no keys", parts[..depth].join("."))),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"t\"\n[stores]\na = \"sqlite:a.db\"\n[collections.c]\ncount = 10\n\
        [[phases]]\nname = \"load\"\nload = [\"c\"]\nworkers = \"auto\"\n\
        [[phases]]\nname = \"read-all\"\nmix = { read = 1 }\nduration = \"1s\"\nworkers = \"auto\"\n\
        [[phases]]\nname = \"last\"\nmix = { read = 1 }\nduration = \"1s\"\nworkers = 3\n";

    #[test]
    fn a_phase_is_left_out() {
        let names = |set: &[&str]| {
            let overrides: Vec<String> =
                ["phases.load.workers=1"].iter().chain(set).map(|&text| text.to_owned()).collect();
            let study = Study::parse(TEXT, Path::new("study.toml"), &overrides);
            study.map(|study| study.phases.into_iter().map(|phase| phase.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["phases.read-all=false"]).unwrap(), ["load", "last"]);
        assert_eq!(names(&["phases.read-all=false", "phases.last.workers=1"]).unwrap(), ["load", "last"]);
        let told = |set: &str| names(&["phases.read-all.workers=1", set]).unwrap_err().to_string();
        assert!(told("phases.read-al=false").contains("did you mean `read-all`?"), "{}", told("phases.read-al=false"));
        let other = told("phases.read-all=true");
        assert!(other.contains("name a key of `read-all`, or leave it out with read-all=false"), "{other}");
    }

    #[test]
    fn a_duration_takes_the_place_of_operations_and_the_other_way_round() {
        let last = |set: &[&str]| {
            let others = ["phases.load.workers=1", "phases.read-all=false"].iter();
            let overrides: Vec<String> = others.chain(set).map(|&text| text.to_owned()).collect();
            let study = Study::parse(TEXT, Path::new("study.toml"), &overrides).unwrap();
            let last = study.phases.last().unwrap();
            (last.duration.is_some(), last.operations.map(|of| of.0))
        };
        assert_eq!(last(&["phases.last.operations=5"]), (false, Some(5)));
        assert_eq!(last(&["phases.last.operations=5", "phases.last.duration=2s"]), (true, None));
    }

    #[test]
    fn automatic_workers_are_found_and_replaced() {
        let file = Path::new("study.toml");
        let automatic = |set: &[&str]| {
            let overrides: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
            automatic_workers(TEXT, file, &Override::parse_all(&overrides).unwrap()).unwrap()
        };
        let found = automatic(&[]);
        assert_eq!(found, ["phases.load.workers", "phases.read-all.workers"]);
        assert_eq!(
            automatic(&["phases.load.workers=2", "phases.last.workers=auto"]),
            ["phases.read-all.workers", "phases.last.workers"]
        );
        let chosen: Vec<String> = found.iter().map(|path| format!("{path}=4")).collect();
        let study = Study::parse(TEXT, file, &chosen).unwrap();
        assert_eq!(study.phases.iter().map(|phase| phase.workers).collect::<Vec<_>>(), [4, 4, 3]);
    }
}
