//! The body of an answer as it comes, for one that no buffer should hold.

use std::time::Duration;

use storebench_core::store::StoreError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::http::Target;
use crate::net::{Stream, connect};

/// How long a server may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// How much is read at once.
const ROOM_BYTES: usize = 64 * 1024;
/// A head larger than this, or of more headers, is garbage.
const HEAD_BYTES: usize = 64 * 1024;
const HEADERS: usize = 100;

/// An answer under way, on a connection of its own.
pub(super) struct Download {
    /// 200 to 599.
    pub(super) status: u16,
    host: String,
    stream: Stream,
    /// What came; from `at` on it was not taken yet.
    input: Vec<u8>,
    at: usize,
    part: Part,
}

/// What comes next of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// So many bytes, and then its end.
    Whole(u64),
    /// The size of a chunk.
    Size,
    /// So many bytes of a chunk.
    Chunk(u64),
    /// The end of a chunk's line.
    ChunkEnd,
}

impl Part {
    /// How a body begins, if its headers tell where it ends.
    fn first(headers: &[httparse::Header<'_>]) -> Option<Self> {
        let value = |name: &str| headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|h| h.value);
        match value("transfer-encoding") {
            Some(coding) => coding.trim_ascii().eq_ignore_ascii_case(b"chunked").then_some(Self::Size),
            None => std::str::from_utf8(value("content-length")?).ok()?.trim().parse().ok().map(Self::Whole),
        }
    }
}

impl Download {
    /// Asks for a path (with its query, encoded) and reads the head of the answer. `common` are the headers of
    /// every request.
    ///
    /// # Errors
    /// `Unreachable` where nobody answers, or not in HTTP. Any status is an answer.
    pub(super) async fn begin(target: &Target, common: &[u8], path: &str) -> Result<Self, StoreError> {
        let stream = connect(&target.host, target.tls.as_ref(), SILENCE).await?;
        let host = target.host.to_string();
        let mut download = Self { status: 0, host, stream, input: Vec::new(), at: 0, part: Part::Size };
        let request = [&b"GET "[..], path.as_bytes(), b" HTTP/1.1\r\n", common, b"Connection: close\r\n\r\n"].concat();
        let sent = match download.stream.write_all(&request).await {
            Ok(()) => download.stream.flush().await,
            Err(error) => Err(error),
        };
        sent.map_err(|error| download.broken(&error.to_string()))?;
        download.head().await?;
        Ok(download)
    }

    /// The error of an answer that broke off.
    pub(super) fn broken(&self, why: &str) -> StoreError {
        StoreError::Unreachable(format!("{}: the answer broke off: {why}; is the server well?", self.host))
    }

    async fn head(&mut self) -> Result<(), StoreError> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut response = httparse::Response::new(&mut headers);
            match response.parse(&self.input) {
                Ok(httparse::Status::Complete(length)) => {
                    let status = response.code.unwrap_or_default();
                    let part = Part::first(response.headers);
                    (self.status, self.at) = (status, length);
                    self.part = part.ok_or_else(|| self.broken("it tells neither a length nor chunks"))?;
                    return Ok(());
                }
                Ok(httparse::Status::Partial) if self.input.len() <= HEAD_BYTES => {}
                _ => return Err(self.broken("it is not HTTP")),
            }
            if !self.fill().await? {
                return Err(self.broken("the connection was closed"));
            }
        }
    }

    /// Waits for more; false where the connection has ended.
    async fn fill(&mut self) -> Result<bool, StoreError> {
        self.input.drain(..self.at);
        self.at = 0;
        self.input.reserve(ROOM_BYTES);
        match tokio::time::timeout(SILENCE, self.stream.read_buf(&mut self.input)).await {
            Ok(Ok(came)) => Ok(came > 0),
            Ok(Err(error)) => Err(self.broken(&error.to_string())),
            Err(_) => Err(self.broken(&format!("nothing came within {SILENCE:?}"))),
        }
    }

    /// Appends what comes next of the body; false at its end.
    ///
    /// # Errors
    /// `Unreachable` where the connection ends before.
    pub(super) async fn more(&mut self, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        loop {
            let here = &self.input[self.at..];
            match self.part {
                Part::Whole(0) => return Ok(false),
                Part::Whole(left) | Part::Chunk(left) if !here.is_empty() => {
                    let taken = here.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    into.extend_from_slice(&here[..taken]);
                    self.at += taken;
                    self.part = match (self.part, left - taken as u64) {
                        (Part::Whole(_), left) => Part::Whole(left),
                        (_, 0) => Part::ChunkEnd,
                        (_, left) => Part::Chunk(left),
                    };
                    return Ok(true);
                }
                Part::Size => match httparse::parse_chunk_size(here) {
                    // What may follow the last chunk are headers that say nothing here.
                    Ok(httparse::Status::Complete((_, 0))) => return Ok(false),
                    Ok(httparse::Status::Complete((length, size))) => {
                        self.at += length;
                        self.part = Part::Chunk(size);
                        continue;
                    }
                    Ok(httparse::Status::Partial) => {}
                    Err(_) => return Err(self.broken("the size of a chunk is no number")),
                },
                Part::ChunkEnd if here.starts_with(b"\r\n") => {
                    self.at += 2;
                    self.part = Part::Size;
                    continue;
                }
                Part::ChunkEnd if here.len() >= 2 => return Err(self.broken("a chunk is longer than it says")),
                Part::Whole(_) | Part::Chunk(_) | Part::ChunkEnd => {}
            }
            if !self.fill().await? {
                return Err(self.broken("the connection was closed"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
            let mut download = Download::begin(&Target { host, tls: None }, b"Host: h\r\n", "/x").await?;
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
                (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "closed"),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "closed"),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n", "longer than it says"),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no number"),
            ] {
                let error = read(broken, piece).unwrap_err();
                assert!(matches!(&error, StoreError::Unreachable(text) if text.contains(why)), "{why}: {error}");
            }
        }
    }
}
