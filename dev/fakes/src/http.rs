//! Serves a file over HTTP, with different behaviours. The first part of the path selects one.
//!
//! | path | behaviour |
//! |---|---|
//! | `/ranges/…` | supports ranges, and has an `ETag` |
//! | `/whole/…` | returns the whole file, and its length |
//! | `/chunked/…` | the same without a length |
//! | `/cut/…` | announces the length, but closes before the end |
//! | `/flaky/…` | as `ranges`, but every second request fails with 500 |
//! | `/torn/…` | as `ranges`, but every second body breaks off in its middle |
//! | `/moved/…` | redirects to `ranges` |
//! | anything else | 404 |

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct File {
    bytes: Vec<u8>,
    requests: AtomicU64,
}

/// Starts a server of one file, whatever its name in the path. Returns the port.
///
/// # Errors
/// If no port is available.
pub fn serve(bytes: Vec<u8>) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let file = Arc::new(File { bytes, requests: AtomicU64::new(0) });
    std::thread::spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            let file = Arc::clone(&file);
            // Ignore clients that disconnect.
            std::thread::spawn(move || drop(talk(stream, &file)));
        }
    });
    Ok(port)
}

/// Answers one request, and closes.
fn talk(mut stream: TcpStream, file: &File) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let manner = head.split(['/', '?', ' ']).nth(2).unwrap_or_default();
    let range =
        head.lines().find_map(|line| line.strip_prefix("range: bytes=")).and_then(|range| range.split_once('-'));
    let number = file.requests.fetch_add(1, Ordering::Relaxed);
    let all = &file.bytes;
    let mut say = |status: &str, headers: &str, body: &[u8]| -> io::Result<()> {
        write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n")?;
        stream.write_all(body)?;
        stream.flush()
    };
    let torn = manner == "torn" && number.is_multiple_of(2);
    let length = format!("Content-Length: {}\r\n", all.len());
    match manner {
        "flaky" if number.is_multiple_of(2) => say("500 Internal Server Error", "Content-Length: 0\r\n", b""),
        "ranges" | "flaky" | "torn" => match range {
            Some((from, to)) => {
                let from: usize = from.parse().map_err(io::Error::other)?;
                let end = to.parse().map_or(all.len(), |to: usize| (to + 1).min(all.len()));
                let headers = format!(
                    "ETag: \"v1\"\r\nContent-Range: bytes {from}-{}/{}\r\nContent-Length: {}\r\n",
                    end - 1,
                    all.len(),
                    end - from
                );
                say(
                    "206 Partial Content",
                    &headers,
                    if torn { &all[from..from + (end - from) / 2] } else { &all[from..end] },
                )
            }
            None => say("200 OK", &format!("ETag: \"v1\"\r\n{length}"), all),
        },
        "whole" => say("200 OK", &length, all),
        "chunked" => {
            let mut body = Vec::new();
            for piece in all.chunks(10_000) {
                write!(body, "{:x}\r\n", piece.len())?;
                body.extend_from_slice(piece);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"0\r\n\r\n");
            say("200 OK", "Transfer-Encoding: chunked\r\n", &body)
        }
        "cut" => say("200 OK", &length, &all[..all.len() / 2]),
        "moved" => say("302 Found", "Location: /ranges/x.jsonl\r\nContent-Length: 0\r\n", b""),
        _ => say("404 Not Found", "Content-Length: 0\r\n", b""),
    }
}
