//! Data on stdout. A reader that has gone away (`… | head`) ends the output, not in an error.

use std::io::{self, ErrorKind, IsTerminal as _, Write};

use serde::Serialize;
use storebench_results::summary::{Layout, WIDTH};

use crate::failure::Failure;

/// Columns of a text, at most.
const WIDEST: usize = 160;

/// Prints a text to stdout.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    quiet_pipe("stdout", out.write_all(text.as_bytes()).and_then(|()| out.flush())).map(drop)
}

/// Prints one JSON document to stdout.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|e| Failure::spoiled(format!("the result could not be written as JSON: {e}")))?;
    print(&(text + "\n"))
}

/// Whether the reader is still there, or the failure to write.
pub(crate) fn quiet_pipe(place: &str, written: io::Result<()>) -> Result<bool, Failure> {
    match written {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Failure::spoiled(format!("{place} cannot be written: {e}; free space or write elsewhere"))),
    }
}

/// How a text is laid out for who reads stdout: as wide as the terminal, in colour unless `NO_COLOR` says otherwise; in a
/// file or a pipe always the same.
pub(crate) fn layout() -> Layout {
    if !io::stdout().is_terminal() {
        return Layout::plain();
    }
    let columns = terminal_size::terminal_size_of(io::stdout()).map_or(WIDTH, |(width, _)| usize::from(width.0));
    // Longer lines are hard to read, however wide the window is.
    Layout::new(columns.min(WIDEST), colours())
}

/// Whether a terminal is to show colours: <https://no-color.org>.
pub(crate) fn colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
