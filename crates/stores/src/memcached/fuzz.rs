//! Fuzz tests of the answer parser.

use super::meta::{Answer, answer, flag, row};
use crate::ascii::number;

const GOOD: &[&[u8]] = &[
    b"HD\r\n",
    b"HD c12 t-1 Oab\r\n",
    b"VA 5 c7 t30\r\nhello\r\n",
    b"VA 0\r\n\r\n",
    b"EN\r\n",
    b"NF Ob\r\n",
    b"NS\r\n",
    b"EX c1\r\n",
    b"SERVER_ERROR out of memory storing object\r\n",
    b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    b"VA 2 c1\r\n{}\r\nHD\r\nEN\r\n",
    b"VALUE p:k 0 5\r\nhello\r\nVALUE p:l 0 0\r\n\r\nEND\r\n",
];

fn take(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((answer, length))) = answer(rest) {
        assert!((1..=rest.len()).contains(&length), "an answer of {length} bytes in {}", rest.len());
        if let Answer::Done(flags) | Answer::Value(_, flags) = answer {
            let _ = flag(flags, b'c').and_then(number);
        }
        rest = &rest[length..];
    }
    let mut rest = bytes;
    while let Ok(Some((_, length))) = row(rest) {
        assert!((1..=rest.len()).contains(&length), "a row of {length} bytes in {}", rest.len());
        rest = &rest[length..];
    }
}

crate::fuzz::fuzzed!("memcached", GOOD, take);
