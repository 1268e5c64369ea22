//! Control calls: one request on a connection of its own.

use std::sync::Arc;
use std::time::Duration;

use storebench_core::store::StoreError;
use tokio::io::AsyncWriteExt;

use super::input::Input;
use super::parser::Parser;
use super::session::Target;
use super::{Answer, Method, RequestBuf};

/// An answer to a control call, owned.
#[derive(Debug)]
pub(crate) struct Response {
    /// 200 to 599.
    pub(crate) status: u16,
    /// The body, without its transfer encoding.
    pub(crate) body: Vec<u8>,
    head: Vec<u8>,
}

impl Response {
    /// The same, borrowed.
    pub(crate) fn answer(&self) -> Answer<'_> {
        Answer::of_parts(self.status, &self.head, &self.body)
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

/// Makes control calls. Every call connects anew, so that no call meets a connection that the server
/// has closed meanwhile, and none leaves one open. Redirects are not followed: they are answers.
#[derive(Clone)]
pub(crate) struct Client {
    target: Target,
    common: Arc<[u8]>,
    timeout: Duration,
}

impl Client {
    /// A client of this host. `common` are the headers of every request; no call takes longer than
    /// `timeout`.
    pub(crate) fn new(target: Target, common: Arc<[u8]>, timeout: Duration) -> Self {
        Self { target, common, timeout }
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
        self.send(&mut request).await
    }

    /// An empty request, for calls that need more than a path.
    pub(crate) fn request(&self) -> RequestBuf {
        RequestBuf::new(Arc::clone(&self.common))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// As of [`Client::call`].
    pub(crate) async fn send(&self, request: &mut RequestBuf) -> Result<Response, StoreError> {
        match tokio::time::timeout(self.timeout, self.send_now(request)).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::Unreachable(format!(
                "{} was reached, but gave no answer within {:?}; is it a server of HTTP, and is it well?",
                self.target.host, self.timeout
            ))),
        }
    }

    async fn send_now(&self, request: &mut RequestBuf) -> Result<Response, StoreError> {
        let host = &self.target.host;
        let mut stream = self.target.connect(self.timeout).await?;
        let to_head = request.is_head();
        // A server that answers before it has read everything (413) breaks the write; its answer counts.
        let sent = match stream.write_all(request.finish()).await {
            Ok(()) => stream.flush().await,
            Err(error) => Err(error),
        };
        let (mut input, mut parser) = (Input::default(), Parser::default());
        parser.begin(to_head);
        loop {
            let came = std::future::poll_fn(|cx| input.poll_fill(&mut stream, cx)).await.map_err(|error| {
                StoreError::Unreachable(format!(
                    "{host} was reached, but broke the connection: {}; does this port speak {}?",
                    sent.as_ref().err().unwrap_or(&error),
                    if self.target.tls.is_some() { "HTTP over TLS" } else { "HTTP without TLS" }
                ))
            })?;
            let done = parser.advance(&mut input, came == 0).map_err(|garbled| {
                StoreError::Unreachable(format!(
                    "{host} was reached, but did not answer in HTTP: {}; is this the right port, and with TLS or \
                     without?",
                    garbled.0
                ))
            })?;
            if done {
                let answer = Answer::of(&parser, &input);
                return Ok(Response {
                    status: answer.status,
                    body: answer.body.to_vec(),
                    head: parser.head(&input).to_vec(),
                });
            }
        }
    }
}
