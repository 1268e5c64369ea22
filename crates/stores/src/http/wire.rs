//! A `hyper` connection, and the exchange of one request for its complete answer. It spawns no task: whoever waits for
//! an answer also polls the connection.

use std::error::Error as _;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::http::response;
use hyper_util::rt::TokioIo;
use storebench_engine::store::LocalFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum size of a body. No request of a driver expects more.
const BODY_BYTES: u64 = 1 << 30;
const TOO_LARGE: &str = "the answer is larger than 1 GiB";

/// A request to send.
pub(super) type Outgoing = Request<Full<Bytes>>;
/// The sending side of a connection.
pub(super) type Sender = SendRequest<Full<Bytes>>;

/// Reads and writes on a connection while it is polled.
pub(super) struct Wire {
    /// `None` once the connection has ended.
    running: Option<LocalFuture<'static, hyper::Result<()>>>,
    /// Why it ended, if no exchange reported it.
    failure: Option<Failure>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The request cannot be written as HTTP.
    Unsendable(String),
    /// The connection had ended: nothing of the request was sent.
    Unsent,
    /// The connection ended before the answer.
    Lost(String),
    /// The input is not a valid answer.
    Garbled(String),
}

impl Failure {
    pub(super) fn of(error: &hyper::Error) -> Self {
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
        let text = match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        // Invalid chunks are reported as I/O errors of these kinds.
        if error.is_parse() || matches!(cause, Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)) {
            Self::Garbled(format!("the answer is not HTTP: {text}"))
        } else {
            Self::Lost(text)
        }
    }
}

/// The result of an exchange. Sender and buffer are returned for the next one.
pub(super) struct Exchanged {
    pub(super) sender: Sender,
    pub(super) body: Vec<u8>,
    pub(super) head: Result<response::Parts, Failure>,
}

/// Starts HTTP on a stream.
pub(super) async fn open<S>(stream: S) -> hyper::Result<(Sender, Wire)>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let stream = TokioIo::new(ReadToTheEnd { stream, broken: false, ended: false });
    let (sender, connection) = Builder::new().title_case_headers(true).handshake(stream).await?;
    Ok((sender, Wire { running: Some(Box::pin(connection)), failure: None }))
}

impl Wire {
    /// Reads and writes as much as possible.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(wire) = &mut self.running
            && let Poll::Ready(ended) = wire.as_mut().poll(cx)
        {
            self.running = None;
            self.failure = ended.err().map(|error| match Failure::of(&error) {
                // `hyper` has no method that detects bytes sent before any request.
                Failure::Lost(why) if error.source().is_none() && !error.is_incomplete_message() => {
                    Failure::Garbled(format!("the server sent data before any request: {why}"))
                }
                failure => failure,
            });
        }
    }

    /// Exchanges a request for its complete answer.
    pub(super) async fn exchange(&mut self, sender: Sender, request: Outgoing) -> Exchanged {
        let mut done = self.carry(exchange(sender, request, Vec::new())).await;
        if matches!(done.head, Err(Failure::Unsent))
            && let Some(why) = self.failure.take()
        {
            done.head = Err(why);
        }
        done
    }

    /// Whether the connection is over.
    pub(super) fn has_ended(&self) -> bool {
        self.running.is_none()
    }

    /// Drives this connection until a future that depends on it completes.
    pub(super) async fn carry<T>(&mut self, what: impl Future<Output = T>) -> T {
        let mut what = pin!(what);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = what.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            self.poll(cx);
            what.as_mut().poll(cx)
        })
        .await
    }
}

/// Sends a request. Returns the head of its answer, and the stream of its body.
pub(super) async fn ask(sender: &mut Sender, request: Outgoing) -> Result<(response::Parts, Incoming), Failure> {
    if sender.ready().await.is_err() {
        return Err(Failure::Unsent);
    }
    let answer = sender.try_send_request(request).await.map_err(|mut error| match error.take_message() {
        Some(_) => Failure::Unsent,
        None => Failure::of(error.error()),
    })?;
    let (head, body) = answer.into_parts();
    match head.status.as_u16() {
        200..=599 => Ok((head, body)),
        other => Err(Failure::Garbled(format!("the answer has the unexpected status {other}"))),
    }
}

/// Exchanges a request for its complete answer, with the body in this buffer.
pub(super) async fn exchange(mut sender: Sender, request: Outgoing, mut body: Vec<u8>) -> Exchanged {
    body.clear();
    let head = whole(&mut sender, request, &mut body).await;
    Exchanged { sender, body, head }
}

async fn whole(sender: &mut Sender, request: Outgoing, into: &mut Vec<u8>) -> Result<response::Parts, Failure> {
    let (head, mut body) = ask(sender, request).await?;
    if body.size_hint().lower() > BODY_BYTES {
        return Err(Failure::Garbled(TOO_LARGE.into()));
    }
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| Failure::of(&error))?.into_data() else { continue };
        if (into.len() + data.len()) as u64 > BODY_BYTES {
            return Err(Failure::Garbled(TOO_LARGE.into()));
        }
        into.extend_from_slice(&data);
    }
    Ok(head)
}

/// A stream that reports write errors only after it has been read to its end. A server may answer (413) and close the
/// connection before it has read the whole request, and that answer counts.
struct ReadToTheEnd<S> {
    stream: S,
    broken: bool,
    ended: bool,
}

impl<S> ReadToTheEnd<S> {
    fn written(&mut self, result: Poll<io::Result<usize>>, cx: &Context<'_>) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Err(_)) if !self.ended => {
                if !std::mem::replace(&mut self.broken, true) {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
            result => result,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadToTheEnd<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.ended |= match &read {
            Poll::Ready(Ok(())) => buf.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadToTheEnd<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.written(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
