//! Data on stdout. If the reader closes the pipe (`… | head`), the output ends without an error.

use std::io::{self, ErrorKind, IsTerminal, Write};

use serde::Serialize;
use storebench_results::summary::{Layout, WIDTH};

use crate::failure::Failure;
use crate::in_process;

/// Maximum width of a text, in columns.
const WIDEST: usize = 160;

/// Prints a text to stdout.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    if in_process::print(text) {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    quiet_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints one JSON document to stdout.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|e| Failure::spoiled(format!("cannot write the result as JSON: {e}")))?;
    print(&(text + "\n"))
}

/// Prints a document as JSON, or else its text.
pub(crate) fn print_json_or(
    json: bool,
    document: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if json { print_json(document) } else { print(&text()) }
}

/// Checks the result of writing to stdout. A pipe that its reader has closed is not a failure.
pub(crate) fn quiet_pipe(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::spoiled(format!("stdout cannot be written: {e}; free space or write elsewhere")))
        }
        _ => Ok(()),
    }
}

/// The layout of text on stdout. A terminal sets the width, and gets colours unless `NO_COLOR` is set. In a file or a
/// pipe, the layout is always the same.
pub(crate) fn layout() -> Layout {
    if in_process::is_called() || !io::stdout().is_terminal() {
        return Layout::plain();
    }
    let columns = terminal_size::terminal_size_of(io::stdout()).map_or(WIDTH, |(width, _)| usize::from(width.0));
    // Longer lines are hard to read, however wide the window is.
    Layout::new(columns.min(WIDEST), colours())
}

/// Whether stdout shows colours.
pub(crate) fn colours() -> bool {
    colours_on(&io::stdout())
}

/// Whether a stream shows colours: it is a terminal, and `NO_COLOR` is not set; see <https://no-color.org>.
pub(crate) fn colours_on(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
