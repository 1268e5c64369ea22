//! What MongoDB's error codes mean:
//! <https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml>.

use storebench_engine::store::{ErrorKind, OpError, OpKind, StoreError};

use super::bson::Members;
use crate::document::EXISTS;

/// An error that the server reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerError {
    pub(super) code: i64,
    pub(super) text: String,
    /// Whether the server has aborted the transaction, and another try may succeed.
    pub(super) aborted: bool,
}

/// The label of errors after which a transaction may be tried again.
const ABORTED: &str = "TransientTransactionError";
/// Error code for a command that this user may not run.
pub(super) const UNAUTHORIZED: i64 = 13;
/// Error code for an unknown command.
pub(super) const NO_SUCH_COMMAND: i64 = 59;

impl ServerError {
    /// Reads the error from a server's document: a reply, a write error or a write concern error.
    pub(super) fn of(document: Members<'_>) -> Self {
        let text = document.get("errmsg").and_then(|text| text.as_str()).unwrap_or("no reason given");
        let mut labels = document.get("errorLabels").and_then(|labels| labels.members()).into_iter().flatten();
        Self {
            code: document.get("code").and_then(|code| code.as_i64()).unwrap_or(0),
            text: shorten(text),
            aborted: labels.any(|label| label.is_ok_and(|(_, label)| label.as_str() == Some(ABORTED))),
        }
    }

    /// Whether the server does not know the command, an option of it or a stage: 59 and 115 are MongoDB's, 238 is also
    /// FerretDB's for what it does not implement, 40324 is an unknown stage.
    pub(super) fn is_lacking(&self) -> bool {
        matches!(self.code, NO_SUCH_COMMAND | 115 | 238 | 40_324)
    }

    /// Whether the node is not, or no longer, the one that accepts writes.
    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self.code, 10107 | 13435 | 10058 | 13436 | 11600 | 11602 | 189 | 91)
    }

    /// The error of a commit or an abort. Only the label says that nothing was committed: a router may have begun to commit
    /// when it returns an error that elsewhere means that nothing was done.
    fn ending(&self) -> OpError {
        let kind = match self.code {
            _ if self.aborted => ErrorKind::Aborted,
            // Permissions, malformed or unknown requests, transactions of a single server.
            2 | 9 | 13 | 18 | 20 | 40 | 59 | 72 | 115 | 263 => ErrorKind::Refused,
            _ => ErrorKind::OutcomeUnknown,
        };
        OpError::new(kind, self.to_string())
    }

    /// The error of an operation that was refused as a whole, or of one item of a bulk operation.
    pub(super) fn operation(&self, kind: OpKind) -> OpError {
        if kind == OpKind::Transaction {
            return self.ending();
        }
        let kind = match self.code {
            11000 | 11001 | 12582 => return EXISTS,
            // 251: the server does not know the transaction (any more).
            _ if self.aborted || self.code == 251 => ErrorKind::Aborted,
            _ if self.is_lacking() => ErrorKind::Refused,
            // Not the primary, a transaction conflict, or too many requests: nothing was done.
            10107 | 13435 | 10058 | 13436 | 112 | 462 => ErrorKind::Temporary,
            // Interrupted midway, or another node did not answer.
            11600 | 11601 | 11602 | 189 | 91 | 6 | 7 | 89 | 9001 | 50 | 134 | 202 | 262 | 384 => {
                if kind.writes() {
                    ErrorKind::OutcomeUnknown
                } else {
                    ErrorKind::Temporary
                }
            }
            // Permissions, malformed or unknown requests, names, sizes, nesting, validation.
            2 | 9 | 13 | 14 | 15 | 17 | 18 | 20 | 22 | 26 | 28 | 33 | 40 | 52 | 53 | 54 | 55 | 56 | 57 | 66 | 72
            | 73 | 121 | 166 | 263 | 303 | 10334 | 10335 | 16755 | 17280 | 17419 | 17420 => ErrorKind::Refused,
            // The disk is full.
            14031 => ErrorKind::Failed,
            // It may have been done all the same.
            _ if kind.writes() => ErrorKind::OutcomeUnknown,
            _ => ErrorKind::Failed,
        };
        OpError::new(kind, self.to_string())
    }

    /// The error of a write that was done but not acknowledged as requested.
    pub(super) fn unacknowledged(&self) -> OpError {
        OpError::new(ErrorKind::OutcomeUnknown, format!("written, but not acknowledged as requested: {self}"))
    }

    /// The error of a control call.
    pub(super) fn control(&self, place: &str, doing: &str) -> StoreError {
        let text = format!("{place}: cannot {doing}: {self}");
        match self.code {
            UNAUTHORIZED => {
                StoreError::Unreachable(format!("{text}; grant the user at least the role readWrite on this database"))
            }
            18 => StoreError::Unreachable(text),
            _ if self.is_lacking() => StoreError::NotSupported(text),
            _ => StoreError::Failed(text),
        }
    }
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.code == 0 { f.write_str(&self.text) } else { write!(f, "{} (code {})", self.text, self.code) }
    }
}

/// Shortens a message: a server may quote an entire document in it.
fn shorten(text: &str) -> String {
    const MOST: usize = 300;
    if text.len() <= MOST {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(MOST).collect();
    short.push('…');
    short
}

/// Whether a reply reports success.
pub(super) fn is_ok(reply: Members<'_>) -> bool {
    reply.get("ok").is_some_and(|ok| ok.is_true())
}
