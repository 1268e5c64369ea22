//! Messages of MongoDB's wire protocol (`OP_MSG`), and a connection that exchanges them:
//! <https://github.com/mongodb/specifications/blob/master/source/message/OP_MSG.md>.

use std::io;
use std::ops::Range;
use std::time::Duration;

use ::bson::Document;
use storebench_engine::store::{ErrorKind, OpError, OpKind};
use storebench_study::units::Span;

use super::bson;
use crate::connection::Dialog;
use crate::net::{Host, Stream};

const OP_MSG: u32 = 2013;
const HEADER_BYTES: usize = 16;
/// The offset of the document in a message's first section: after the header, the flags and the kind of section.
const DOCUMENT_AT: usize = HEADER_BYTES + 4 + 1;
/// The longest reply accepted. Servers send at most 48,000,000 bytes and a little more.
const LONGEST_REPLY: usize = 64 << 20;

/// Begins a message. Returns the offset of its command's document, for [`bson::end`].
pub(super) fn begin(out: &mut Vec<u8>) -> usize {
    out.clear();
    out.extend_from_slice(&[0; DOCUMENT_AT]);
    out[12..16].copy_from_slice(&OP_MSG.to_le_bytes());
    bson::begin(out)
}

/// Closes a message.
pub(super) fn end(out: &mut [u8]) {
    let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_le_bytes());
}

/// Builds a message to a database.
pub(super) fn message(database: &str, command: Document) -> Vec<u8> {
    let command = command.to_vec().expect("the names of a command's members have no NUL");
    encoded_message(database, &command[4..command.len() - 1])
}

/// The same with the members of a command as BSON.
pub(super) fn encoded_message(database: &str, command: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    let at = begin(&mut message);
    message.extend_from_slice(command);
    bson::text(&mut message, "$db", database);
    bson::end(&mut message, at);
    end(&mut message);
    message
}

/// Opens a sequence of documents, which may be longer than a document. Returns its offset.
pub(super) fn begin_sequence(out: &mut Vec<u8>, name: &str) -> usize {
    out.push(1);
    let at = bson::begin(out);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    at
}

/// Closes the sequence.
pub(super) fn end_sequence(out: &mut [u8], at: usize) {
    let length = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Why a connection is no longer usable.
#[derive(Debug)]
pub(super) enum Broken {
    /// It was closed, or the operating system reports an error.
    Io(io::Error),
    /// The bytes are not this protocol.
    Garbage(&'static str),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Garbage(what) => f.write_str(what),
        }
    }
}

/// The error of an operation whose answer is invalid. A write may have been done.
pub(super) fn garbage(kind: OpKind, what: &str) -> OpError {
    let error = if kind.writes() { ErrorKind::OutcomeUnknown } else { ErrorKind::Failed };
    OpError::new(error, format!("the server's answer is not MongoDB's protocol: {what}"))
}

/// Puts the request's number into a message.
pub(super) fn number(message: &mut [u8], number: u32) {
    message[4..8].copy_from_slice(&number.to_le_bytes());
}

/// Finds the document in the reply to a request. Returns `None` while the reply is incomplete.
///
/// # Errors
/// What is wrong with the reply.
pub(super) fn reply(bytes: &[u8], request: u32) -> Result<Option<Range<usize>>, &'static str> {
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    if bytes.len() < 4 {
        return Ok(None);
    }
    let length = word(0) as usize;
    if !(DOCUMENT_AT + 5..=LONGEST_REPLY).contains(&length) {
        return Err("a message has an impossible length");
    }
    if bytes.len() > length {
        return Err("it is followed by more bytes");
    }
    if bytes.len() < length {
        return Ok(None);
    }
    if word(12) != OP_MSG {
        return Err("it is not an `OP_MSG` message");
    }
    if word(8) != request {
        return Err("it answers another request");
    }
    const CHECKSUM: u32 = 1;
    let flags = word(HEADER_BYTES);
    if flags & !CHECKSUM & 0xFFFF != 0 || bytes[DOCUMENT_AT - 1] != 0 {
        return Err("it has unsupported flags or sections");
    }
    let end = DOCUMENT_AT + word(DOCUMENT_AT) as usize;
    let tail = if flags & CHECKSUM == 0 { 0 } else { 4 };
    if end + tail != length || bson::Members::of(&bytes[DOCUMENT_AT..end]).is_err() {
        return Err("it contains no document of the right length");
    }
    Ok(Some(DOCUMENT_AT..end))
}

/// A connection for commands outside of sessions, one at a time.
pub(super) struct Connection {
    dialog: Dialog,
    host: Host,
    request: u32,
}

impl Connection {
    pub(super) fn new(stream: Stream, host: Host) -> Self {
        Self { dialog: Dialog::new(stream), host, request: 0 }
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the underlying stream.
    pub(super) fn into_stream(self) -> Stream {
        self.dialog.into_stream().0
    }

    /// Runs one command.
    ///
    /// # Errors
    /// If the connection breaks or the time is over.
    pub(super) async fn call(&mut self, message: &mut [u8], within: Duration) -> Result<&[u8], Broken> {
        self.request = self.request.wrapping_add(1);
        number(message, self.request);
        self.dialog.take_all();
        let exchange = async {
            self.dialog.send(message).await.map_err(Broken::Io)?;
            loop {
                if let Some(document) = reply(self.dialog.input(), self.request).map_err(Broken::Garbage)? {
                    return Ok(document);
                }
                self.dialog.read().await.map_err(Broken::Io)?;
            }
        };
        match tokio::time::timeout(within, exchange).await {
            Ok(document) => document.map(|document| &self.dialog.input()[document]),
            Err(_) => {
                Err(Broken::Io(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {}", Span(within)))))
            }
        }
    }
}
