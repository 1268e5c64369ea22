//! Just enough of HTTP/1.1 for the management API and the query service.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::cluster::Shared;
use super::management;

const LONGEST_HEAD: usize = 64 << 10;
const LONGEST_BODY: usize = 16 << 20;

/// A request.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub method: String,
    /// Without the query.
    pub path: String,
    /// Names and values of the query, decoded.
    pub query: Vec<(String, String)>,
    authorization: String,
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub(super) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self { status, body: body.to_string().into_bytes() }
    }

    pub(super) fn text(status: u16, body: &str) -> Self {
        Self { status, body: body.as_bytes().to_vec() }
    }
}

/// Serves a connection until either side closes it.
pub(super) async fn serve<S>(mut stream: S, shared: Arc<Shared>, node: usize)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut closing = shared.closing[node].subscribe();
    let work = async {
        let mut buffer = Vec::new();
        while let Some(request) = read(&mut stream, &mut buffer).await {
            let mut answer = if authorized(&request, &shared) {
                management::answer(&request, &shared).await
            } else {
                Answer::text(401, "")
            };
            if let Some((garbage, random)) = &mut shared.lock().faults.garbage {
                garbage.spoil_body(random, &mut answer.body);
            }
            let head = format!(
                "HTTP/1.1 {} Fake\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                answer.status,
                answer.body.len()
            );
            let bytes = [head.as_bytes(), &answer.body].concat();
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = work => {}
        _ = closing.changed() => {}
    }
}

fn authorized(request: &Request, shared: &Shared) -> bool {
    let cluster = shared.lock();
    let expected = STANDARD.encode(format!("{}:{}", cluster.options.user, cluster.options.password));
    request.authorization.strip_prefix("Basic ") == Some(&expected)
}

/// The next request of a connection. `None` if the connection ends or the input is not HTTP.
async fn read(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<Request> {
    let head_end = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if buffer.len() > LONGEST_HEAD || !more(stream, buffer).await {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let mut request = Request { method: first.next()?.to_owned(), ..Request::default() };
    let target = first.next()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    request.path = path.to_owned();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    request.query = pairs.map(|(name, value)| (decoded(name), decoded(value))).collect();
    let mut length = 0;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => request.authorization = value.trim().to_owned(),
            _ => {}
        }
    }
    if length > LONGEST_BODY {
        return None;
    }
    while buffer.len() < head_end + length {
        if !more(stream, buffer).await {
            return None;
        }
    }
    request.body = buffer[head_end..head_end + length].to_vec();
    buffer.drain(..head_end + length);
    Some(request)
}

/// Decodes a part of a target.
pub(super) fn decoded(part: &str) -> String {
    let part = part.replace('+', " ");
    percent_encoding::percent_decode_str(&part).decode_utf8_lossy().into_owned()
}

async fn more(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> bool {
    let mut chunk = [0; 16 << 10];
    match stream.read(&mut chunk).await {
        Ok(0) | Err(_) => false,
        Ok(count) => {
            buffer.extend_from_slice(&chunk[..count]);
            true
        }
    }
}
