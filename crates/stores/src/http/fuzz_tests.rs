//! Whatever a server answers, a session neither panics nor hangs, and ends every operation once.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use storebench_core::store::{Op, OpError, Session, Token};

use super::input::Input;
use super::parser::Parser;
use super::session_tests::{Ended, finish, request, runtime, serve, session, submit};
use crate::net::draw as next;

const WELL: [&str; 6] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
    "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nbusy",
    "HTTP/1.0 409 Conflict\r\nETag: \"1-a\"\r\nContent-Length: 00000000000000000002\r\n\r\n[]",
];

/// A good answer with some bytes changed, inserted, removed or cut off, or noise.
fn garbled(state: &mut u64) -> Vec<u8> {
    let mut bytes = WELL[next(state) as usize % WELL.len()].as_bytes().to_vec();
    for _ in 0..next(state) % 4 {
        if bytes.is_empty() {
            break;
        }
        let at = next(state) as usize % bytes.len();
        match next(state) % 5 {
            0 => bytes[at] = next(state) as u8,
            1 => bytes.insert(at, b"\r\n:;,0 Z"[next(state) as usize % 8]),
            2 => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            _ => bytes = (0..next(state) % 200).map(|_| next(state) as u8).collect(),
        }
    }
    bytes
}

#[test]
fn garbled_answers_end_every_operation_once() {
    let seeds = AtomicU64::new(1);
    let port = serve(move |_, mut stream| {
        let mut state = seeds.fetch_add(1, Ordering::SeqCst);
        while request(&mut stream).is_some() {
            if stream.write_all(&garbled(&mut state)).is_err() {
                return;
            }
            // What was cut off never comes: half of them say so, the others leave the client waiting.
            if next(&mut state).is_multiple_of(2) {
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
            let patience = Duration::from_millis(20);
            let _ = tokio::time::timeout(patience, finish(&mut session, start + 6, &mut ended)).await;
            for n in submitted..submitted + 6 {
                if !ended.iter().any(|(token, _)| *token == n) {
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

proptest! {
    #[test]
    fn the_parser_takes_any_bytes(seed: u64, pieces in 1_usize..40) {
        let mut state = seed;
        let mut bytes = garbled(&mut state);
        bytes.extend(garbled(&mut state));
        let (mut parser, mut input) = (Parser::default(), Input::default());
        parser.begin(seed % 7 == 0);
        for piece in bytes.chunks(pieces) {
            input.push(piece);
            match parser.advance(&mut input, false) {
                Ok(false) => {}
                _ => return Ok(()),
            }
        }
        let _ = parser.advance(&mut input, true);
        prop_assert!(parser.body(&input).len() <= bytes.len());
    }
}
