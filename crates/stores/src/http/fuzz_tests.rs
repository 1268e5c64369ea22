//! Fuzz tests: whatever a server answers, a session neither panics nor hangs, and completes every operation once.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use storebench_engine::store::{CollectionId, Op, OpError, Request, Session, Token};
use storebench_fakes::fuzz::Mutator;

use super::answer::status_error;
use super::incoming::Incoming;
use super::request::RequestBuf;
use super::session::Dialect;
use super::session_tests::{Ended, finish, request, runtime, serve, session, submit};
use crate::connection::Pipe;

const WELL: [&str; 6] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 500 No\r\nConnection: close\r\n\r\nuntil the end",
    "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nbusy",
    "HTTP/1.0 409 Conflict\r\nETag: \"1-a\"\r\nContent-Length: 00000000000000000002\r\n\r\n[]",
];

/// A mutation of a valid answer, or noise.
fn garbled(random: &mut Rng) -> Vec<u8> {
    Mutator::new(random.u64(..)).input(&WELL, &[])
}

/// Reads the bytes as an answer to a GET, in pieces, and then the end of the connection. `None` if they are not an answer.
fn read(bytes: &[u8], piece: usize) -> Option<Incoming> {
    let mut pipe = Pipe::<()>::new(1);
    let mut incoming = Incoming::new();
    incoming.begin(false);
    for piece in bytes.chunks(piece) {
        pipe.room()[..piece.len()].copy_from_slice(piece);
        pipe.filled(piece.len());
        if incoming.take(&mut pipe).ok()? {
            return Some(incoming);
        }
    }
    incoming.ends_when_closed().then_some(incoming)
}

/// Answers every request of these operations with the same bytes. Each operation must complete.
pub(crate) fn answer_with<D: Dialect>(dialect: &mut D, ops: &[Op<'_>], bytes: &[u8]) {
    const MOST_REQUESTS: u32 = 5_000;
    let Some(read) = read(bytes, 7) else { return };
    let answer = read.answer();
    let mut out = RequestBuf::new([].as_slice().into());
    for op in ops {
        let mut state = D::State::default();
        let request = Request { collection: CollectionId(0), op: *op, contents: true };
        let mut ended = !matches!(dialect.begin(&request, &mut state, &mut out), Ok(None));
        let mut requests = 0;
        while !ended {
            assert!(requests < MOST_REQUESTS, "{op:?} asks again and again");
            requests += 1;
            ended = !matches!(dialect.answer(&mut state, Ok(answer), &mut out), Ok(None));
        }
    }
}

/// Tests an answer without an operation.
fn take(bytes: &[u8]) {
    let read = [1, 7, 4_096].map(|piece| read(bytes, piece));
    let parts = read.each_ref().map(|read| read.as_ref().map(|read| (read.status, &read.head, &read.body)));
    assert!(parts.iter().all(|other| *other == parts[0]), "it depends on the pieces: {parts:?}");
    if let [Some(read), ..] = &read {
        assert!(read.body.len() <= bytes.len());
        let answer = read.answer();
        let _ = (answer.header("etag"), answer.shown(), status_error(&answer, true));
    }
}

crate::fuzz::fuzzed!("HTTP", &WELL.map(str::as_bytes), take);

/// The rest of a truncated answer never comes. Half of the connections leave the client waiting for it.
#[test]
fn garbled_answers_end_no_operation_twice() {
    garbled_answers(2, Duration::from_millis(20));
}

/// Every connection ends with its answer, so the client has nothing to wait for.
#[test]
fn garbled_answers_end_every_operation() {
    garbled_answers(1, Duration::from_secs(60));
}

/// One in `closes` answers is followed by a close. Operations that have not ended after `patience` are abandoned, which a
/// server that always closes leaves no reason for.
fn garbled_answers(closes: u64, patience: Duration) {
    let seeds = AtomicU64::new(1);
    let port = serve(move |_, mut stream| {
        let mut random = Rng::with_seed(seeds.fetch_add(1, Ordering::SeqCst));
        while request(&mut stream).is_some() {
            if stream.write_all(&garbled(&mut random)).is_err() || random.u64(..).is_multiple_of(closes) {
                return;
            }
        }
    });
    runtime().block_on(async {
        let mut session = session(port, 4).await.unwrap();
        let mut ended = Ended::new();
        let mut submitted = 0;
        for _ in 0..150 {
            let start = ended.len();
            for n in submitted..submitted + 6 {
                let op = match n % 3 {
                    0 => Op::Read { key: "a" },
                    1 => Op::Upsert { key: "b", body: b"{}" },
                    _ => Op::Replace { key: "c", body: b"{}" },
                };
                submit(&mut session, n, op, &mut ended);
            }
            let _ = tokio::time::timeout(patience, finish(&mut session, start + 6, &mut ended)).await;
            for n in submitted..submitted + 6 {
                if !ended.iter().any(|(token, _)| *token == n) {
                    assert!(closes > 1, "operation {n} never ended");
                    session.abandon(Token(n));
                    ended.push((n, Err(OpError::not_found())));
                }
            }
            submitted += 6;
        }
        let mut tokens: Vec<u64> = ended.iter().map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..submitted).collect::<Vec<_>>());
    });
}
