//! What a session has encoded and the socket has not taken yet.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use super::channel::Channel;

/// So much may lie in the output buffer before what was sent is moved out of it.
const MOVE_BYTES: usize = 1 << 20;

/// What is to be written. Positions count from when the connection was made.
#[derive(Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    /// The position of the first of `bytes`.
    base: u64,
    pub(super) sent: u64,
}

impl Output {
    /// Where the next request begins.
    pub(super) fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// The connection is gone, and positions begin anew.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        (self.base, self.sent) = (0, 0);
    }

    fn forget_sent(&mut self) {
        let sent = (self.sent - self.base) as usize;
        if sent == self.bytes.len() {
            self.bytes.clear();
            self.base = self.sent;
        } else if sent >= MOVE_BYTES && sent * 2 >= self.bytes.len() {
            self.bytes.drain(..sent);
            self.base = self.sent;
        }
    }

    /// Writes up to this position, as far as the socket takes it.
    pub(super) fn write(&mut self, channel: &mut Channel, cx: &mut Context<'_>, limit: u64) -> io::Result<()> {
        let mut wrote = false;
        while self.sent < limit {
            let range = (self.sent - self.base) as usize..(limit - self.base) as usize;
            match Pin::new(&mut channel.stream).poll_write(cx, &self.bytes[range]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(n)) => self.sent += n as u64,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
            wrote = true;
        }
        if wrote {
            self.forget_sent();
        }
        // TLS takes more than the socket does, and nothing but this writes the rest.
        if channel.stream.is_encrypted()
            && let Poll::Ready(Err(error)) = Pin::new(&mut channel.stream).poll_flush(cx)
        {
            return Err(error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;
    use crate::net::{connect, held_reader};

    #[test]
    fn what_tls_holds_back_is_sent_in_the_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bytes = vec![7; 50_000];
            let (host, tls, go) = held_reader(bytes.len(), b"!");
            let mut channel = Channel::new(connect(&host, Some(&tls), Duration::from_secs(20)).await.unwrap());
            let mut output = Output { bytes, ..Output::default() };
            let limit = output.end();
            poll_fn(|cx| {
                output.write(&mut channel, cx, limit).unwrap();
                Poll::Ready(())
            })
            .await;
            assert_eq!(output.sent, limit, "TLS holds what the socket has not taken");
            go.send(()).unwrap();
            let answered = poll_fn(|cx| {
                output.write(&mut channel, cx, limit).unwrap();
                channel.poll_fill(cx)
            });
            let answered = tokio::time::timeout(Duration::from_secs(60), answered).await;
            assert_eq!(answered.expect("the end never left").unwrap(), 1);
            assert_eq!((output.sent, output.bytes.len()), (limit, 0));
        });
    }
}
