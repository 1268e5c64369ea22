//! Why a verb did not do what was asked, and the exit code of it.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use storebench_documents::DocumentError;
use storebench_engine::store::StoreError;
use storebench_results::{Secrets, redact, redact_url};
use storebench_study::workload::StudyErrors;

/// Data lost, wrong or not verifiable; or a failure that left something undone.
pub(crate) const SPOILED: u8 = 1;
/// Bad input: nothing was started.
pub(crate) const BAD_INPUT: u8 = 2;
/// A store could not be reached.
pub(crate) const UNREACHABLE: u8 = 3;
/// The measurement is invalid by its own checks, or was cut short.
pub(crate) const INVALID: u8 = 4;

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
        // As a word of its own: a file called `x` is not named by "expected".
        let whole = |at: usize| !text[..at].ends_with(letter) && !text[at + path.len()..].starts_with(letter);
        let named = text.contains(&url) || (!path.is_empty() && text.match_indices(path).any(|(at, _)| whole(at)));
        Self { code, message: if named { text } else { format!("{url}: {text}") } }
    }

    /// Prints the message; gives the code.
    pub(crate) fn tell(self) -> ExitCode {
        // Without stderr there is nobody to tell, but the code still says it.
        let _ = writeln!(std::io::stderr(), "error: {}", redact(self.message.trim_end()));
        ExitCode::from(self.code)
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
