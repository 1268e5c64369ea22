//! Fuzz tests of the answer parser.

use super::resp::{Value, item};

const GOOD: &[&[u8]] = &[
    b"+OK\r\n",
    b"-ERR unknown command 'x'\r\n",
    b":-12\r\n",
    b"$5\r\nhello\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"_\r\n",
    b"*3\r\n$1\r\na\r\n:1\r\n*2\r\n+x\r\n$-1\r\n",
    b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    b"$3\r\nabc\r\n+OK\r\n:7\r\n-MOVED 1 127.0.0.1:7000\r\n",
];

fn take(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((_, length))) = item(rest) {
        assert!((1..=rest.len()).contains(&length), "an answer of {length} bytes in {}", rest.len());
        rest = &rest[length..];
    }
    let mut rest = bytes;
    while let Ok(Some((value, length))) = Value::read(rest) {
        assert!((1..=rest.len()).contains(&length), "an answer of {length} bytes in {}", rest.len());
        let _ = (value.text(), value.number(), value.items().len());
        rest = &rest[length..];
    }
}

crate::fuzz::fuzzed!("Redis", GOOD, take);
