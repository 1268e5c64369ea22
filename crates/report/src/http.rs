//! A read-only server on this machine, for what a run shows of itself: the live report and metrics.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::watch;

/// The body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Listens at this address; port 0 chooses a free port. Returns the address with its port.
///
/// # Errors
/// The port is in use, or the address does not belong to this machine.
pub(crate) fn listen(address: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Answers requests until `stopped` changes. Connections that are still open end then, too.
pub(crate) async fn serve<F>(listener: TcpListener, mut stopped: watch::Receiver<bool>, answer: F)
where
    F: Fn(&Request<Incoming>) -> Response<Body> + Clone + Send + Sync + 'static,
{
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // For example too many open files. Some may be closed after a pause.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            _ = stopped.changed() => return,
        };
        let (answer, mut ends) = (answer.clone(), stopped.clone());
        tokio::spawn(async move {
            let answer = service_fn(|request: Request<Incoming>| {
                let reads = request.method() == Method::GET || request.method() == Method::HEAD;
                let answer = match reads {
                    true => answer(&request),
                    false => text(StatusCode::METHOD_NOT_ALLOWED, "this server is read-only; use GET or HEAD\n"),
                };
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
            // A reader may disconnect at any time.
            tokio::select! { _ = connection => {}, _ = ends.changed() => {} }
        });
    }
}

/// An answer to a `Host` header that names another machine.
pub(crate) fn unknown_host() -> Response<Body> {
    text(StatusCode::MISDIRECTED_REQUEST, "unknown Host header; use the address that storebench printed\n")
}

/// A message as plain text.
pub(crate) fn text(status: StatusCode, said: &'static str) -> Response<Body> {
    body(status, "text/plain; charset=utf-8", Bytes::from_static(said.as_bytes()))
}

/// An answer with a body of this media type.
pub(crate) fn body(status: StatusCode, kind: &'static str, bytes: Bytes) -> Response<Body> {
    respond(status, kind, Full::new(bytes).boxed_unsync())
}

/// An answer that nobody caches.
pub(crate) fn respond(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
