//! Control calls and downloads: one request on a connection of its own.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use storebench_engine::store::StoreError;

use super::session::Target;
use super::wire::{Failure, Wire, ask};
use super::{Answer, RequestBuf};

/// How long a server may be silent within a download.
const SILENCE: Duration = Duration::from_secs(60);

/// An answer to a control call, owned.
#[derive(Debug)]
pub(crate) struct Response {
    /// 200 to 599.
    pub(crate) status: u16,
    /// The body, without its transfer encoding.
    pub(crate) body: Vec<u8>,
    headers: HeaderMap,
}

impl Response {
    /// The same, borrowed.
    pub(crate) fn answer(&self) -> Answer<'_> {
        Answer::of_parts(self.status, Some(&self.headers), &self.body)
    }

    /// Whether the status is 2xx.
    pub(crate) fn is_success(&self) -> bool {
        self.answer().is_success()
    }

    /// The body as JSON; null where it is none.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Makes control calls. Every call makes a connection, so that no call meets one that the server
/// has closed meanwhile, and none leaves one open. Redirects are not followed: they are answers.
#[derive(Clone)]
pub(crate) struct Client {
    target: Target,
    timeout: Duration,
}

impl Client {
    /// A client of this host. No call takes longer than `timeout`.
    pub(crate) fn new(target: Target, timeout: Duration) -> Self {
        Self { target, timeout }
    }

    /// Sends a request to a path (with its query, encoded); a body is sent as JSON.
    ///
    /// # Errors
    /// `Unreachable` where nobody answers, or not in HTTP. Any status is an answer.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&[u8]>) -> Result<Response, StoreError> {
        let mut request = self.request();
        request.begin(method).raw(path);
        if let Some(body) = body {
            request.body().extend_from_slice(body);
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
    /// As of [`Client::call`].
    pub(crate) async fn send(&self, request: &RequestBuf) -> Result<Response, StoreError> {
        let host = &self.target.host;
        match tokio::time::timeout(self.timeout, self.send_now(request)).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::Unreachable(format!(
                "{host} was reached, but gave no answer within {:?}; is it a server of HTTP, and is it well?",
                self.timeout
            ))),
        }
    }

    async fn send_now(&self, request: &RequestBuf) -> Result<Response, StoreError> {
        let outgoing = request.outgoing().map_err(|failure| self.unanswered(failure))?;
        let (sender, mut wire) = self.target.connect(self.timeout).await?;
        let done = wire.exchange(sender, outgoing).await;
        let head = done.head.map_err(|failure| self.unanswered(failure))?;
        Ok(Response { status: head.status.as_u16(), body: done.body, headers: head.headers })
    }

    fn unanswered(&self, failure: Failure) -> StoreError {
        let host = &self.target.host;
        let with = if self.target.tls.is_some() { "HTTP over TLS" } else { "HTTP without TLS" };
        match failure {
            Failure::Unsendable(why) => StoreError::Failed(why),
            Failure::Unsent => self.unanswered(Failure::Lost("before the request was sent".into())),
            Failure::Lost(why) => StoreError::Unreachable(format!(
                "{host} was reached, but broke the connection: {why}; does this port speak {with}?"
            )),
            Failure::Garbled(why) => StoreError::Unreachable(format!(
                "{host} was reached, but did not answer in HTTP: {why}; is this the right port, and with TLS or without?"
            )),
        }
    }

    /// Asks for a path (with its query, encoded) whose answer no buffer should hold.
    ///
    /// # Errors
    /// `Unreachable` where nobody answers, or not in HTTP. Any status is an answer.
    pub(crate) async fn download(&self, path: &str) -> Result<Download, StoreError> {
        let mut request = self.request();
        request.begin(Method::GET).raw(path);
        let mut outgoing = request.outgoing().map_err(|failure| self.unanswered(failure))?;
        outgoing.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let (mut sender, mut wire) = self.target.connect(SILENCE).await?;
        let answer = tokio::time::timeout(SILENCE, wire.carry(ask(&mut sender, outgoing))).await;
        let host = self.target.host.to_string();
        let (head, body) = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(Failure::Unsendable(why) | Failure::Lost(why) | Failure::Garbled(why))) => {
                return Err(broken(&host, &why));
            }
            Ok(Err(Failure::Unsent)) => return Err(broken(&host, "the connection was closed")),
            Err(_) => return Err(broken(&host, &format!("nothing came within {SILENCE:?}"))),
        };
        if body.size_hint().exact().is_none() && !head.headers.contains_key(TRANSFER_ENCODING) {
            return Err(broken(&host, "it tells neither a length nor chunks"));
        }
        Ok(Download { status: head.status.as_u16(), host, wire, body })
    }
}

fn broken(host: &str, why: &str) -> StoreError {
    StoreError::Unreachable(format!("{host}: the answer broke off: {why}; is the server well?"))
}

/// An answer whose body comes bit by bit.
pub(crate) struct Download {
    /// 200 to 599.
    pub(crate) status: u16,
    host: String,
    wire: Wire,
    body: Incoming,
}

impl Download {
    /// The error of an answer that broke off.
    pub(crate) fn broken(&self, why: &str) -> StoreError {
        broken(&self.host, why)
    }

    /// Appends what comes next of the body; false at its end.
    ///
    /// # Errors
    /// `Unreachable` where the connection ends before.
    pub(crate) async fn more(&mut self, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        match tokio::time::timeout(SILENCE, self.wire.carry(self.body.frame())).await {
            Ok(None) => Ok(false),
            Ok(Some(Ok(frame))) => {
                into.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
                Ok(true)
            }
            Ok(Some(Err(error))) => Err(match Failure::of(&error) {
                Failure::Lost(why) | Failure::Garbled(why) => self.broken(&why),
                Failure::Unsent | Failure::Unsendable(_) => self.broken("the connection was closed"),
            }),
            Err(_) => Err(self.broken(&format!("nothing came within {SILENCE:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::net::Host;

    /// What comes of an answer that is sent in pieces of this size.
    fn read(answer: &'static [u8], piece: usize) -> Result<(u16, Vec<u8>), StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let host = Host { name: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 1024]).await;
                for piece in answer.chunks(piece) {
                    // Who heard enough is gone.
                    let _ = stream.write_all(piece).await;
                    tokio::task::yield_now().await;
                }
            });
            let mut body = Vec::new();
            let client = Client::new(Target { host, tls: None, headers: Arc::default() }, SILENCE);
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
                (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "end of file"),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "EOF"),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n", "not HTTP"),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not HTTP"),
            ] {
                let error = read(broken, piece).unwrap_err();
                assert!(matches!(&error, StoreError::Unreachable(text) if text.contains(why)), "{why}: {error}");
            }
        }
    }
}
