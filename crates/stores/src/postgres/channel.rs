//! Control calls on a connection, and the start of each session's connection.

use std::io;

use super::wire::{self, Columns, Garbled, ServerError};
use crate::connection::Dialog;
use crate::net::Stream;

/// Why a connection is no longer usable.
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
    /// The server reported an error.
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

/// A connection for control calls.
pub(super) struct Channel(Dialog);

impl Channel {
    pub(super) fn new(stream: Stream) -> Self {
        Self(Dialog::new(stream))
    }

    /// Returns the underlying stream, after the rest of any message that has begun to arrive unrequested.
    pub(super) async fn into_stream(mut self) -> Result<Stream, Lost> {
        while !self.unread().is_empty() {
            self.receive().await?;
        }
        Ok(self.0.into_stream().0)
    }

    /// The bytes read but not taken yet, which may show what other server is listening.
    pub(super) fn unread(&self) -> &[u8] {
        self.0.input()
    }

    /// Sends all bytes.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        Ok(self.0.send(bytes).await?)
    }

    /// Waits for the next message: its tag and its body.
    pub(super) async fn receive(&mut self) -> Result<(u8, &[u8]), Lost> {
        loop {
            if let Some((tag, bytes)) = wire::look(self.unread())? {
                return Ok((tag, &self.0.take(bytes)[5..]));
            }
            self.0.read().await?;
        }
    }

    /// Runs statements with the simple query protocol. Returns the rows of all of them.
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
