//! A connection that carries one request at a time: for control calls, and for the start of every session.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::net::Stream;

/// The buffer space for one read.
const ROOM_BYTES: usize = 64 << 10;

/// A connection and its read buffer.
#[derive(Debug)]
pub(crate) struct Dialog {
    stream: Stream,
    input: Vec<u8>,
    /// The number of input bytes already taken.
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

    /// Waits for more input. The buffer grows with the data received, not with the length that the server announces.
    ///
    /// # Errors
    /// If the connection breaks or is closed.
    pub(crate) async fn read(&mut self) -> io::Result<()> {
        self.input.drain(..std::mem::take(&mut self.start));
        self.input.reserve(ROOM_BYTES);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            _ => Ok(()),
        }
    }

    /// The input that was not taken yet.
    pub(crate) fn input(&self) -> &[u8] {
        &self.input[self.start..]
    }

    /// Takes `bytes` bytes of the input. They must have been read already.
    pub(crate) fn take(&mut self, bytes: usize) -> &[u8] {
        let start = self.start;
        self.start += bytes;
        &self.input[start..self.start]
    }

    /// Takes all input.
    pub(crate) fn take_all(&mut self) {
        self.start = self.input.len();
    }

    /// The connection for other uses, and the input that was not taken.
    pub(crate) fn into_stream(mut self) -> (Stream, Vec<u8>) {
        (self.stream, self.input.split_off(self.start))
    }
}
