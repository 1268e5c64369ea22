//! Why a verb failed, with its exit code.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use storebench_documents::DocumentError;
use storebench_engine::store::StoreError;
use storebench_results::exit::{BAD_INPUT, SPOILED, UNREACHABLE};
use storebench_results::{Secrets, redact, redact_url};
use storebench_study::workload::{StudyErrors, did_you_mean};

use crate::output::colours_on;

/// A message for the user and the exit code that goes with it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn bad_input(message: impl fmt::Display) -> Self {
        Self { code: BAD_INPUT, message: message.to_string() }
    }

    pub(crate) fn spoiled(message: impl fmt::Display) -> Self {
        Self { code: SPOILED, message: message.to_string() }
    }

    /// An error of the store at this URL.
    pub(crate) fn of_store(url: &str, error: &StoreError) -> Self {
        let code = match error {
            StoreError::BadUrl(_) | StoreError::NotOurs(_) | StoreError::NotSupported(_) => BAD_INPUT,
            StoreError::Unreachable(_) => UNREACHABLE,
            StoreError::Failed(_) => SPOILED,
        };
        let text = Secrets::of_url(url).hide(&error.to_string());
        let url = redact_url(url);
        // Most drivers name the place already.
        let path = url.split(['?']).next().and_then(|u| u.split_once(':')).map_or("", |(_, path)| path);
        let letter = |c: char| c.is_alphanumeric();
        // Only as a whole word: "expected" does not name a file called `x`.
        let whole = |at: usize| !text[..at].ends_with(letter) && !text[at + path.len()..].starts_with(letter);
        let named = text.contains(&url) || (!path.is_empty() && text.match_indices(path).any(|(at, _)| whole(at)));
        Self { code, message: if named { text } else { format!("{url}: {text}") } }
    }

    /// Prints the message and returns the exit code.
    pub(crate) fn tell(self) -> ExitCode {
        // If stderr is closed, the exit code still reports the failure.
        let (on, off) = if colours_on(&std::io::stderr()) { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        let _ = writeln!(std::io::stderr(), "{on}error:{off} {}", redact(self.message.trim_end()));
        ExitCode::from(self.code)
    }
}

/// The message about an unknown name: the name that was probably meant, or all names.
pub(crate) fn no_such<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    match did_you_mean(name, names.clone()) {
        Some(near) => format!("unknown {what} `{name}`; did you mean `{near}`?"),
        None => {
            format!("unknown {what} `{name}`; expected one of: {}", names.collect::<Vec<_>>().join(", "))
        }
    }
}

impl From<StudyErrors> for Failure {
    fn from(errors: StudyErrors) -> Self {
        let mut message = String::new();
        if errors.0.len() > 1 {
            message = format!("the study has {} errors\n", errors.0.len());
        }
        Self::bad_input(message + &errors.to_string())
    }
}

impl From<DocumentError> for Failure {
    fn from(error: DocumentError) -> Self {
        Self::bad_input(error)
    }
}
