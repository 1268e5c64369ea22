//! One connection as bytes: read into one buffer, messages found in place; and control calls over it.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::wire::{self, Columns, Garbled, Look, ServerError};
use crate::net::Stream;

/// What was read holds at least so many bytes, so that one read takes what the socket has.
const INPUT_BYTES: usize = 64 << 10;

/// Why a connection is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lost(pub(super) String);

impl From<Garbled> for Lost {
    fn from(_: Garbled) -> Self {
        Self("the server's answer is not PostgreSQL's protocol".into())
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Why a control call failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server said no.
    Server(ServerError),
    /// The connection broke.
    Lost(Lost),
}

impl<E: Into<Lost>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Lost(error.into())
    }
}

/// A row of a control call, as text.
pub(super) type Row = Vec<Option<String>>;

/// A connection and what was read from it.
pub(super) struct Channel {
    pub(super) stream: Stream,
    input: Vec<u8>,
    start: usize,
    end: usize,
}

impl Channel {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, input: vec![0; INPUT_BYTES], start: 0, end: 0 }
    }

    /// What was read and not taken yet, for telling who else may be talking.
    pub(super) fn unread(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// The next whole message: its tag, and where its body lies in [`Channel::body`].
    pub(super) fn message(&mut self) -> Result<Option<(u8, Range<usize>)>, Garbled> {
        match wire::look(self.unread())? {
            Look::Whole(tag, bytes) => {
                let body = self.start + 5..self.start + bytes;
                self.start += bytes;
                Ok(Some((tag, body)))
            }
            Look::Part(bytes) => {
                self.make_room(bytes);
                Ok(None)
            }
        }
    }

    /// The body of a message, until the next read.
    pub(super) fn body(&self, range: Range<usize>) -> &[u8] {
        &self.input[range]
    }

    /// Makes the buffer such that a message of so many bytes fits behind `start`. It grows with what
    /// arrives, not with what a length claims.
    fn make_room(&mut self, bytes: usize) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.start > 0 && self.start + bytes > self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
    }

    /// Reads what the socket has; 0 bytes is its end.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut free = ReadBuf::new(&mut self.input[self.end..]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut free))?;
        let read = free.filled().len();
        self.end += read;
        Poll::Ready(Ok(read))
    }

    /// Writes all of it.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        let mut sent = 0;
        poll_fn(|cx| {
            while sent < bytes.len() {
                sent += ready!(Pin::new(&mut self.stream).poll_write(cx, &bytes[sent..]))?;
            }
            Pin::new(&mut self.stream).poll_flush(cx)
        })
        .await
        .map_err(Lost::from)
    }

    /// Waits for the next message.
    pub(super) async fn receive(&mut self) -> Result<(u8, Range<usize>), Lost> {
        loop {
            if let Some(message) = self.message()? {
                return Ok(message);
            }
            if poll_fn(|cx| self.poll_fill(cx)).await? == 0 {
                return Err(Lost("the server closed the connection".into()));
            }
        }
    }

    /// Runs statements by the simple protocol; gives the rows of all of them.
    pub(super) async fn query(&mut self, sql: &str) -> Result<Vec<Row>, Fault> {
        let mut out = Vec::new();
        wire::query(&mut out, sql);
        self.send(&out).await?;
        self.rows().await
    }

    /// Reads answers up to ReadyForQuery.
    pub(super) async fn rows(&mut self) -> Result<Vec<Row>, Fault> {
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            let (tag, body) = self.receive().await?;
            let body = self.body(body);
            match tag {
                b'D' => {
                    let mut columns = Columns::of(body)?;
                    let mut row = Row::new();
                    while !columns.is_empty() {
                        row.push(columns.next()?.map(|value| String::from_utf8_lossy(value).into_owned()));
                    }
                    rows.push(row);
                }
                b'E' => {
                    let said = ServerError::read(body);
                    if said.ends_connection() {
                        return Err(Fault::Server(said));
                    }
                    error.get_or_insert(said);
                }
                b'Z' => return error.map_or(Ok(rows), |error| Err(Fault::Server(error))),
                _ => {}
            }
        }
    }
}
