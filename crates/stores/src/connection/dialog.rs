//! A connection on which one thing is asked at a time: that of control calls, and the beginning of every session's.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::net::Stream;

/// A read has room for so many bytes.
const ROOM_BYTES: usize = 64 << 10;

/// A connection and what was read from it.
#[derive(Debug)]
pub(crate) struct Dialog {
    stream: Stream,
    input: Vec<u8>,
    /// Bytes of the input that were taken.
    start: usize,
}

impl Dialog {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, input: Vec::new(), start: 0 }
    }

    /// Writes all of it.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Waits until more has come. The buffer grows with what comes, not with what a length claims.
    ///
    /// # Errors
    /// Where the connection breaks, or ends.
    pub(crate) async fn read(&mut self) -> io::Result<()> {
        self.input.drain(..std::mem::take(&mut self.start));
        self.input.reserve(ROOM_BYTES);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            _ => Ok(()),
        }
    }

    /// What came and was not taken yet.
    pub(crate) fn input(&self) -> &[u8] {
        &self.input[self.start..]
    }

    /// Takes so many bytes of it, which are there.
    pub(crate) fn take(&mut self, bytes: usize) -> &[u8] {
        let start = self.start;
        self.start += bytes;
        &self.input[start..self.start]
    }

    /// Takes all of it.
    pub(crate) fn take_all(&mut self) {
        self.start = self.input.len();
    }

    /// The connection for other use, and what came over it and was not taken.
    pub(crate) fn into_stream(mut self) -> (Stream, Vec<u8>) {
        (self.stream, self.input.split_off(self.start))
    }
}
