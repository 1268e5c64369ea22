//! Messages of MongoDB's wire protocol (`OP_MSG`) and a connection that exchanges them, one at a time:
//! <https://github.com/mongodb/specifications/blob/master/source/message/OP_MSG.md>.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use storebench_core::store::{ErrorKind, OpError, OpKind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::bson;
use crate::net::{Host, Stream, lost};

const OP_MSG: u32 = 2013;
const HEADER_BYTES: usize = 16;
/// Where the document of a message's first section begins: header, flags, kind of section.
const DOCUMENT_AT: usize = HEADER_BYTES + 4 + 1;
/// No server sends more in one message (48,000,000 bytes and a little).
const LONGEST_REPLY: usize = 64 << 20;
const FIRST_BUFFER: usize = 8 << 10;

/// Begins a message; gives where its command's document begins, for [`bson::end`].
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

/// Opens a sequence of documents, which may be longer than a document may; gives where it begins.
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

/// Why a connection is of no more use.
#[derive(Debug)]
pub(super) enum Broken {
    /// It ended, or the system says so.
    Io(io::Error),
    /// What came is not this protocol.
    Garbage(&'static str),
}

impl Broken {
    /// What became of the operation that was under way.
    pub(super) fn operation(&self, kind: OpKind) -> OpError {
        match self {
            Self::Io(error) => lost(kind, &error.to_string()),
            Self::Garbage(what) => garbage(kind, what),
        }
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Garbage(what) => f.write_str(what),
        }
    }
}

/// The error of an operation whose answer makes no sense: a write may have been done.
pub(super) fn garbage(kind: OpKind, what: &str) -> OpError {
    let error = if kind.writes() { ErrorKind::OutcomeUnknown } else { ErrorKind::Failed };
    OpError::new(error, format!("the server's answer is not MongoDB's protocol: {what}"))
}

/// A connection, with at most one message under way.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    host: Host,
    /// Bytes of the present message that are sent.
    sent: usize,
    flushed: bool,
    /// Bytes of the present reply, the first `filled` of them valid.
    buffer: Vec<u8>,
    filled: usize,
    request: u32,
    document: std::ops::Range<usize>,
}

impl Connection {
    pub(super) fn new(stream: Stream, host: Host) -> Self {
        Self {
            stream,
            host,
            sent: 0,
            flushed: false,
            buffer: vec![0; FIRST_BUFFER],
            filled: 0,
            request: 0,
            document: 0..0,
        }
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Whether the other side has closed it, or sent what nobody asked for, while it was idle. Costs
    /// no system call where nothing came.
    pub(super) fn is_dead(&self) -> bool {
        // Under TLS something may have come that TLS wants for itself.
        let Stream::Plain(tcp) = &self.stream else { return false };
        match tcp.poll_read_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => false,
            Poll::Ready(_) => {
                !matches!(tcp.try_read(&mut [0; 1]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            }
        }
    }

    /// Sends a message and receives its reply, then to be had by [`Self::reply`]. To be called until
    /// ready with the same message.
    pub(super) fn poll_exchange(&mut self, message: &mut [u8], cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if self.sent == 0 {
            self.request = self.request.wrapping_add(1);
            message[4..8].copy_from_slice(&self.request.to_le_bytes());
            self.filled = 0;
            self.flushed = false;
        }
        let mut stream = Pin::new(&mut self.stream);
        while self.sent < message.len() {
            match ready!(stream.as_mut().poll_write(cx, &message[self.sent..])) {
                Ok(0) => return Poll::Ready(Err(Broken::Io(io::ErrorKind::WriteZero.into()))),
                Ok(bytes) => self.sent += bytes,
                Err(error) => return Poll::Ready(Err(Broken::Io(error))),
            }
        }
        if !self.flushed {
            if let Err(error) = ready!(stream.as_mut().poll_flush(cx)) {
                return Poll::Ready(Err(Broken::Io(error)));
            }
            self.flushed = true;
        }
        loop {
            let length = self.expected_length()?;
            if length == Some(self.filled) {
                self.document = self.check_reply()?;
                self.sent = 0;
                return Poll::Ready(Ok(()));
            }
            // Not all at once: a length that was made up must not take memory.
            let wanted = length.unwrap_or(FIRST_BUFFER).min(self.filled * 2 + FIRST_BUFFER);
            if self.buffer.len() < wanted {
                self.buffer.resize(wanted, 0);
            }
            let mut space = ReadBuf::new(&mut self.buffer[self.filled..]);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut space)) {
                Ok(()) if space.filled().is_empty() => {
                    return Poll::Ready(Err(Broken::Io(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the server closed the connection",
                    ))));
                }
                Ok(()) => self.filled += space.filled().len(),
                Err(error) => return Poll::Ready(Err(Broken::Io(error))),
            }
        }
    }

    /// The length of the reply, once that much is there.
    fn expected_length(&self) -> Result<Option<usize>, Broken> {
        let Some(prefix) = self.buffer[..self.filled].first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if !(DOCUMENT_AT + 5..=LONGEST_REPLY).contains(&length) {
            return Err(Broken::Garbage("the length of a message is impossible"));
        }
        if self.filled > length {
            return Err(Broken::Garbage("more came than one answer"));
        }
        Ok(Some(length))
    }

    /// Where the document of a whole reply is.
    fn check_reply(&self) -> Result<std::ops::Range<usize>, Broken> {
        let reply = &self.buffer[..self.filled];
        let word = |at: usize| reply[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        if word(12) != OP_MSG {
            return Err(Broken::Garbage("it is of another kind than was asked for"));
        }
        if word(8) != self.request {
            return Err(Broken::Garbage("it answers another request"));
        }
        const CHECKSUM: u32 = 1;
        let flags = word(HEADER_BYTES);
        if flags & !CHECKSUM & 0xFFFF != 0 || reply[DOCUMENT_AT - 1] != 0 {
            return Err(Broken::Garbage("it has flags or parts that were not agreed on"));
        }
        let end = DOCUMENT_AT + word(DOCUMENT_AT) as usize;
        let tail = if flags & CHECKSUM == 0 { 0 } else { 4 };
        if end + tail != reply.len() || bson::Members::of(&reply[DOCUMENT_AT..end]).is_err() {
            return Err(Broken::Garbage("it holds no document of the right length"));
        }
        Ok(DOCUMENT_AT..end)
    }

    /// The document of the last reply.
    pub(super) fn reply(&self) -> &[u8] {
        &self.buffer[self.document.clone()]
    }

    /// Runs one command outside of a session.
    ///
    /// # Errors
    /// Where the connection breaks or the time is over.
    pub(super) async fn call(&mut self, message: &mut [u8], within: Duration) -> Result<&[u8], Broken> {
        match tokio::time::timeout(within, poll_fn(|cx| self.poll_exchange(message, cx))).await {
            Ok(Ok(())) => Ok(self.reply()),
            Ok(Err(broken)) => Err(broken),
            Err(_) => Err(Broken::Io(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {within:?}")))),
        }
    }
}
