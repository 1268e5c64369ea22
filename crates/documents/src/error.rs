//! What can be wrong with a description of documents, and with a document read back.

use std::path::PathBuf;

/// Why the collections of a study cannot be compiled. `path` is the place in the study, to which the caller can add
/// file and line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct DocumentError {
    /// The place in the study, such as `collections.users.fields.text`.
    pub path: String,
    /// What is wrong and what to do about it. Names file and line if a data file is at fault.
    pub message: String,
    /// The data file at fault, if any.
    pub file: Option<PathBuf>,
    /// The line in that file, counted from 1.
    pub line: Option<u64>,
}

impl DocumentError {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), file: None, line: None }
    }

    pub(crate) fn in_file(path: impl Into<String>, file: PathBuf, line: Option<u64>, message: &str) -> Self {
        let place = match line {
            Some(line) => format!("{}:{line}", file.display()),
            None => file.display().to_string(),
        };
        Self { path: path.into(), message: format!("{place}: {message}"), file: Some(file), line }
    }
}

/// The end of an error about an unknown name: `; did you mean X?` if a known name is similar, and the known names.
pub(crate) fn suggest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let near = known
        .iter()
        .map(|name| (strsim::jaro_winkler(wrong, name), *name))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let mut text = near.map(|(_, name)| format!("; did you mean `{name}`?")).unwrap_or_default();
    if known.is_empty() {
        text.push_str(" (none exist)");
    } else {
        text.push_str(&format!(" (known: {})", known.join(", ")));
    }
    text
}

/// How a document that was read back differs from every version of the expected document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It is not JSON (or, in a collection of counters, not an integer).
    #[error("it cannot be read: {reason}")]
    Malformed {
        /// The parser's message.
        reason: String,
    },
    /// It carries no marker: Storebench did not write it.
    #[error("it has no Storebench marker: {saw}")]
    NotMadeHere {
        /// The beginning of what was read.
        saw: String,
    },
    /// It is another document of this collection.
    #[error("expected document {expected}, but it is document {saw}")]
    WrongDocument {
        /// The index it should have.
        expected: u64,
        /// The index it carries.
        saw: u64,
    },
    /// A field differs; both values are cut to about 80 characters.
    #[error("`{field}` should be {expected} but is {saw}")]
    Field {
        /// Path of the field, or `document` for bytes.
        field: String,
        /// The value in the version that the document carries.
        expected: String,
        /// What was read.
        saw: String,
    },
}

/// The first 80 characters of a text.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
