//! Bytes that came from the server, in a buffer that is used again and again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// How much room a read finds at least. A reply of a common document fits, so that one read takes
/// it whole and the connection is known to be drained without asking again.
const ROOM_BYTES: usize = 16 * 1024;

/// A buffer of received bytes. It grows to the largest answer and keeps its memory.
#[derive(Debug, Default)]
pub(super) struct Input {
    buffer: Vec<u8>,
    filled: usize,
}

impl Input {
    /// What has come and was not dropped.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// Moves the bytes from `from` on down to `to`, and forgets those in between.
    pub(super) fn remove(&mut self, to: usize, from: usize) {
        self.buffer.copy_within(from..self.filled, to);
        self.filled -= from - to;
    }

    /// Copies a part of the bytes down; nothing is forgotten.
    pub(super) fn move_down(&mut self, from: usize, bytes: usize, to: usize) {
        self.buffer.copy_within(from..from + bytes, to);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.filled = 0;
    }

    /// How many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.filled
    }

    /// Reads once; gives how many bytes came, zero at the end of the stream.
    pub(super) fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<usize>> {
        if self.buffer.len() - self.filled < ROOM_BYTES {
            let wanted = (self.filled + ROOM_BYTES).max(self.buffer.len() * 2);
            self.buffer.resize(wanted, 0);
        }
        let mut room = ReadBuf::new(&mut self.buffer[self.filled..]);
        ready!(Pin::new(stream).poll_read(cx, &mut room))?;
        let came = room.filled().len();
        self.filled += came;
        Poll::Ready(Ok(came))
    }

    /// Adds bytes, for tests.
    #[cfg(test)]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.truncate(self.filled);
        self.buffer.extend_from_slice(bytes);
        self.filled = self.buffer.len();
    }
}
