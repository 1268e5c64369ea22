//! Control calls and downloads. Each request has its own connection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use storebench_engine::store::StoreError;

use super::incoming::Incoming;
use super::session::Target;
use super::wire::{Failure, Wire};
use super::{Method, RequestBuf};
use crate::net::Host;

/// The maximum silence of a server during a download.
const SILENCE: Duration = Duration::from_secs(60);

/// The complete answer to a control call.
pub(crate) type Response = Incoming;

impl Response {
    /// Whether the status is 2xx.
    pub(crate) fn is_success(&self) -> bool {
        self.answer().is_success()
    }

    /// The error of a server that does not accept the user.
    pub(crate) fn rejected_user(&self, host: &Host, scheme: &str) -> StoreError {
        StoreError::Unreachable(format!(
            "{host} rejected this user ({}); check user and password: write {scheme}://user@host, and put the password \
             into STOREBENCH_PASSWORD",
            self.answer().shown()
        ))
    }

    /// The error of a server that has no time for a control call.
    pub(crate) fn too_busy(&self, host: &Host) -> StoreError {
        StoreError::Unreachable(format!("{host} is too busy to answer ({}); try again later", self.answer().shown()))
    }

    /// The body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Makes control calls. Every call opens a new connection. So no call uses a connection that the server has closed, and
/// none stays open. Redirects are answers and are not followed.
#[derive(Clone)]
pub(crate) struct Client {
    target: Target,
    timeout: Duration,
}

impl Client {
    /// A client for this host. No call takes longer than `timeout`.
    pub(crate) fn new(target: Target, timeout: Duration) -> Self {
        Self { target, timeout }
    }

    /// Sends a request to a path (encoded, with its query).
    ///
    /// # Errors
    /// `Unreachable` if there is no answer, or if it is not HTTP. Any status is an answer.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Response, StoreError> {
        let mut request = self.request();
        request.begin(method).raw(path);
        if let Some(body) = body {
            request.body().extend_from_slice(body.to_string().as_bytes());
        }
        self.send(&request).await
    }

    /// An empty request, for calls that need more than a path.
    pub(crate) fn request(&self) -> RequestBuf {
        RequestBuf::new(Arc::clone(&self.target.headers))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Those of [`Client::call`].
    pub(crate) async fn send(&self, request: &RequestBuf) -> Result<Response, StoreError> {
        let host = &self.target.host;
        match tokio::time::timeout(self.timeout, self.send_now(request)).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::Unreachable(format!(
                "connected to {host}, but got no answer within {:?}; check that it is a working HTTP server",
                self.timeout
            ))),
        }
    }

    async fn send_now(&self, request: &RequestBuf) -> Result<Response, StoreError> {
        request.check().map_err(StoreError::Failed)?;
        let mut wire = self.target.connect(self.timeout).await?;
        wire.exchange(request).await.map_err(|failure| self.unanswered(failure))?;
        Ok(wire.incoming)
    }

    fn unanswered(&self, failure: Failure) -> StoreError {
        let host = &self.target.host;
        let with = if self.target.tls.is_some() { "HTTP over TLS" } else { "HTTP without TLS" };
        match failure {
            Failure::Unsent => self.unanswered(Failure::Lost("before the request was sent".into())),
            Failure::Lost(why) => StoreError::Unreachable(format!(
                "connected to {host}, but the connection broke: {why}; check that this port uses {with}"
            )),
            Failure::Garbled(why) => StoreError::Unreachable(format!(
                "connected to {host}, but got no valid HTTP answer: {why}; check the port, and whether it uses TLS"
            )),
        }
    }

    /// Requests a path (encoded, with its query) whose answer is too large for a buffer.
    ///
    /// # Errors
    /// `Unreachable` if there is no answer, or if it is not HTTP. Any status is an answer.
    pub(crate) async fn download(&self, path: &str) -> Result<Download, StoreError> {
        let target = self.target.clone().with("Connection", "close");
        let mut request = RequestBuf::new(Arc::clone(&target.headers));
        request.begin(Method::GET).raw(path);
        request.check().map_err(StoreError::Failed)?;
        let mut wire = target.connect(SILENCE).await?;
        let host = target.host.to_string();
        within_silence(&host, wire.ask(&request)).await?;
        Ok(Download { status: wire.incoming.status, host, wire })
    }
}

async fn within_silence<T>(host: &str, what: impl Future<Output = Result<T, Failure>>) -> Result<T, StoreError> {
    match tokio::time::timeout(SILENCE, what).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(Failure::Lost(why) | Failure::Garbled(why))) => Err(broken(host, &why)),
        Ok(Err(Failure::Unsent)) => Err(broken(host, "the connection was closed")),
        Err(_) => Err(broken(host, &format!("received nothing within {SILENCE:?}"))),
    }
}

fn broken(host: &str, why: &str) -> StoreError {
    StoreError::Unreachable(format!("{host}: the answer is incomplete: {why}; check the server"))
}

/// An answer whose body is read piece by piece.
pub(crate) struct Download {
    /// 200 to 599.
    pub(crate) status: u16,
    host: String,
    wire: Wire,
}

impl Download {
    /// The error of an incomplete answer.
    pub(crate) fn broken(&self, why: &str) -> StoreError {
        broken(&self.host, why)
    }

    /// Appends the next piece of the body. Returns false at its end.
    ///
    /// # Errors
    /// `Unreachable` if the connection ends before the body.
    pub(crate) async fn more(&mut self, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        // The first piece may have come with the head.
        let ended = if self.wire.incoming.body.is_empty() {
            within_silence(&self.host, self.wire.more()).await?
        } else {
            false
        };
        let piece = &mut self.wire.incoming.body;
        let some = !piece.is_empty();
        into.append(piece);
        Ok(some || !ended)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// The result of an answer that is sent in pieces of this size.
    fn read(answer: &'static [u8], piece: usize) -> Result<(u16, Vec<u8>), StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let host = Host { name: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 1024]).await;
                for piece in answer.chunks(piece) {
                    // The client may have closed the connection.
                    let _ = stream.write_all(piece).await;
                    tokio::task::yield_now().await;
                }
            });
            let mut body = Vec::new();
            let client = Client::new(Target { host, tls: None, headers: [].as_slice().into() }, SILENCE);
            let mut download = client.download("/x").await?;
            while download.more(&mut body).await? {}
            Ok((download.status, body))
        })
    }

    #[test]
    fn a_body_comes_as_it_was_sent_or_not_at_all() {
        for piece in [1, 3, 1_000] {
            let whole = read(b"HTTP/1.1 404 No\r\nContent-Length: 5\r\n\r\nhello", piece).unwrap();
            assert_eq!(whole, (404, b"hello".to_vec()));
            let chunks =
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
            assert_eq!(read(chunks, piece).unwrap(), (200, b"abc0123456789".to_vec()));
            for (broken, why) in [
                (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], "not HTTP"),
                (b"HTTP/1.1 200 OK\r\n\r\nto the end", "neither a length nor chunks"),
                (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "closed the connection"),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "closed the connection"),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n", "not HTTP"),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not HTTP"),
            ] {
                let error = read(broken, piece).unwrap_err();
                assert!(matches!(&error, StoreError::Unreachable(text) if text.contains(why)), "{why}: {error}");
            }
        }
    }
}
