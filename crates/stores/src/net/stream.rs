//! A connection to a server, encrypted or not.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
#[cfg(feature = "net")]
use tokio_rustls::client::TlsStream;

/// A connection: TCP without Nagle's delay, with or without TLS, or a Unix socket.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Plain TCP.
    Plain(TcpStream),
    /// TCP with TLS.
    #[cfg(feature = "net")]
    Tls(Box<TlsStream<TcpStream>>),
    /// To a process on this machine.
    Unix(UnixStream),
}

impl Stream {
    /// Whether the connection uses TLS, which may hold written data back until it is flushed.
    pub(crate) fn is_encrypted(&self) -> bool {
        #[cfg(feature = "net")]
        return matches!(self, Self::Tls(_));
        #[cfg(not(feature = "net"))]
        false
    }

    /// Whether something may be read. If not, the waker is registered. Costs less than a read that finds nothing.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Plain(stream) => stream.poll_read_ready(cx).map(drop),
            // It may hold input that the socket does not have any more.
            #[cfg(feature = "net")]
            Self::Tls(_) => Poll::Ready(()),
            Self::Unix(stream) => stream.poll_read_ready(cx).map(drop),
        }
    }
}

macro_rules! each {
    ($self:ident, $stream:ident => $do:expr) => {
        match $self.get_mut() {
            Stream::Plain($stream) => $do,
            #[cfg(feature = "net")]
            Stream::Tls($stream) => $do,
            Stream::Unix($stream) => $do,
        }
    };
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, s => Pin::new(s).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, s => Pin::new(s).poll_write(cx, buf))
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, s => Pin::new(s).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, s => Pin::new(s).poll_shutdown(cx))
    }
}
