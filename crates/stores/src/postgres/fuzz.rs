//! Fuzzing with arbitrary bytes as messages, for every request that may wait for them.

use std::collections::VecDeque;

use storebench_engine::store::{BulkWrite, Completions, OpError, OpKind, Reply, Token};

use super::flow::{Entry, Flow, What};
use super::wire::{ServerError, affected, look};
use crate::net::not_connected;

const GOOD: &[&[u8]] = &[
    b"2\0\0\0\x04D\0\0\0\x19\0\x02\0\0\0\x04\0\0\0\x07\0\0\0\x07\x01{\"a\":1C\0\0\0\rSELECT 1\0Z\0\0\0\x05I",
    b"2\0\0\0\x04D\0\0\0\x13\0\x02\0\0\0\x01k\0\0\0\x03\x01{}D\0\0\0\x13\0\x02\0\0\0\x01l\0\0\0\x03\x01{}C\0\0\0\rSELECT 2\0Z\0\0\0\x05I",
    b"2\0\0\0\x04C\0\0\0\x0fINSERT 0 1\0Z\0\0\0\x05I",
    b"2\0\0\0\x04D\0\0\0\x12\0\x01\0\0\0\x08\0\0\0\0\0\0\0\x05C\0\0\0\x0fINSERT 0 1\0Z\0\0\0\x05I",
    b"E\0\0\0\x20SERROR\0C40P01\0Mdeadlock\0\0Z\0\0\0\x05I",
    b"E\0\0\0\x1fVFATAL\0C57P01\0Mgoing away\0\0",
    b"N\0\0\0\x18VWARNING\0C01000\0Mw\0\0S\0\0\0\x0bTZ\0UTC\0\0Z\0\0\0\x05T",
    b"1\0\0\0\x04Z\0\0\0\x05I",
    b"D\0\0\0\x0a\0\x01\xff\xff\xff\xffC\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I",
];

struct Drop;

impl Completions for Drop {
    fn complete(&mut self, _: Token, _: Result<Reply<'_>, OpError>) {}
}

fn take(bytes: &[u8]) {
    let _ = (affected(bytes), ServerError::read(bytes).ends_connection());
    for turn in 0..9 {
        let mut flow = Flow::new(turn % 2 == 0);
        let place = flow.take_bulk();
        flow.bulks[place].items.push("k", b"{}");
        flow.bulks[place].items.push("l", b"{}");
        flow.bulks[place].begin(Token(9), if turn == 0 { BulkWrite::Insert } else { BulkWrite::Upsert }, 0);
        flow.bulks[place].next_part(&mut 0);
        let (contents, jsonb) = (true, true);
        let kinds = [
            What::Bulk(place),
            What::Read { contents, jsonb },
            What::Exists,
            What::Write,
            What::Count,
            What::Counter,
            What::Swap,
            What::Rows { contents, jsonb },
            What::Prepare(0),
        ];
        let mut entries = VecDeque::new();
        // Each kind is first in one of the turns.
        for step in 0..kinds.len() {
            let what = kinds[(turn + step) % kinds.len()];
            entries.push_back(Entry {
                token: Some(Token(step as u64)),
                op: OpKind::Upsert,
                what,
                in_transaction: false,
            });
        }
        let mut rest = bytes;
        while let Ok(Some((tag, length))) = look(rest) {
            assert!((5..=rest.len()).contains(&length), "a message of {length} bytes in {}", rest.len());
            match flow.message(entries.front_mut(), tag, &rest[5..length], &mut Drop) {
                Ok(false) => {}
                Ok(true) => drop(entries.pop_front().map(|entry| flow.end(&entry, &mut Drop))),
                Err(_) => break,
            }
            rest = &rest[length..];
        }
        flow.lose(entries.drain(..).map(|entry| (entry, false)), "the end", &not_connected(), &mut Drop);
    }
}

crate::fuzz::fuzzed!("PostgreSQL", GOOD, take);
