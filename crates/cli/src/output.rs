//! Data on stdout. A reader that has gone away (`… | head`) ends the output, not in an error.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;

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
