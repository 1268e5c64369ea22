//! What can be wrong with a server.

use std::fmt;
use std::time::Duration;

/// Why a server does not work as it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A command could not be run or failed.
    #[error("server `{server}`: {what}: `{command}` {why}{}", Said(.said))]
    Command {
        /// The server.
        server: String,
        /// The step that it belongs to.
        what: &'static str,
        /// The command.
        command: String,
        /// How it failed.
        why: String,
        /// The last lines of output.
        said: String,
    },
    /// It ended before it was ready, or although nothing had asked it to.
    #[error("server `{server}` ended unexpectedly ({how}){}", Said(.said))]
    Died {
        /// Its exit status.
        server: String,
        /// How.
        how: String,
        /// The last lines of output.
        said: String,
    },
    /// It is running but not ready.
    #[error("server `{server}` was not ready within {within:?}: {why}; raise `ready_within`{}", Said(.said))]
    NotReady {
        /// The server.
        server: String,
        /// How long Storebench waited.
        within: Duration,
        /// What was observed instead.
        why: String,
        /// The last lines of output.
        said: String,
    },
    /// It did not stop in time, and was killed.
    #[error("server `{server}` did not stop within {within:?} after {asked} and was killed; {remedy}")]
    NotStopped {
        /// The server.
        server: String,
        /// How long Storebench waited.
        within: Duration,
        /// What should have stopped it.
        asked: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The action is not possible.
    #[error("server `{server}` cannot be {what}: {why}")]
    NoWay {
        /// The server.
        server: String,
        /// The action.
        what: &'static str,
        /// What is missing.
        why: String,
    },
}

struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; its last output:\n{}", self.0) }
    }
}
