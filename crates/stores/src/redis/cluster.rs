//! Which node of a cluster holds a key
//! (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>).

use crc16::{State, XMODEM};

use super::resp::Value;
use crate::net::Host;

/// How many slots a cluster has.
pub(super) const SLOTS: usize = 16_384;

/// The slot of a key. If the key has text between its first `{` and the next `}`, only that text is hashed.
#[inline]
pub(super) fn slot(key: &[u8]) -> u16 {
    let tag = memchr::memchr(b'{', key).and_then(|open| {
        let rest = &key[open + 1..];
        memchr::memchr(b'}', rest).filter(|length| *length > 0).map(|length| &rest[..length])
    });
    State::<XMODEM>::calculate(tag.unwrap_or(key)) % SLOTS as u16
}

/// A range of slots, both ends included, and the node that serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) host: Host,
}

/// Reads the answer of `CLUSTER SLOTS`. A node that does not know its own name is `asked`.
/// `None` if it is not a valid answer.
pub(super) fn ranges(answer: &Value, asked: &Host) -> Option<Vec<Range>> {
    let Value::Array(entries) = answer else { return None };
    entries
        .iter()
        .map(|entry| {
            let [first, last, primary, ..] = entry.items() else { return None };
            let [name, port, ..] = primary.items() else { return None };
            let number = |value: &Value| value.number().and_then(|n| u16::try_from(n).ok());
            let name = name.text().filter(|name| !name.is_empty() && name != "?");
            let host = Host { name: name.unwrap_or_else(|| asked.name.clone()), port: number(port)? };
            let (first, last) = (number(first)?, number(last)?);
            (usize::from(last) < SLOTS && first <= last).then_some(Range { first, last, host })
        })
        .collect()
}

/// The target of a redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirection {
    pub(super) slot: u16,
    pub(super) host: Host,
    /// Whether it applies to this request only (`ASK`) or from now on (`MOVED`).
    pub(super) once: bool,
}

/// Reads `MOVED 3999 127.0.0.1:6381` or `ASK …`. `None` for any other error.
pub(super) fn redirection(line: &[u8], asked: &Host) -> Option<Redirection> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let once = match words.next()? {
        "MOVED" => false,
        "ASK" => true,
        _ => return None,
    };
    let slot = words.next()?.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
    let (name, port) = words.next()?.rsplit_once(':')?;
    let name = if name.is_empty() || name == "?" { &asked.name } else { name };
    Some(Redirection { slot, host: Host { name: name.to_owned(), port: port.parse().ok()? }, once })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.into(), port }
    }

    /// The examples of the cluster specification.
    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), State::<XMODEM>::calculate(b"foo{}{bar}") % 16_384);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
    }

    #[test]
    fn redirections_and_maps_are_read() {
        let asked = host("here", 1);
        let read = |line: &str| redirection(line.as_bytes(), &asked);
        assert_eq!(
            read("MOVED 3999 ::1:6381"),
            Some(Redirection { slot: 3_999, host: host("::1", 6_381), once: false })
        );
        assert_eq!(read("ASK 1 :2"), Some(Redirection { slot: 1, host: host("here", 2), once: true }));
        for line in ["MOVED", "MOVED x h:1", "MOVED 99999 h:1", "MOVED 1 h", "MOVED 1 h:x", "ERR MOVED 1 h:1"] {
            assert_eq!(read(line), None, "{line}");
        }
        let text = b"*1\r\n*3\r\n:0\r\n:99\r\n*3\r\n$0\r\n\r\n:7000\r\n$2\r\nid\r\n";
        let (answer, _) = Value::read(text).unwrap().unwrap();
        assert_eq!(ranges(&answer, &asked), Some(vec![Range { first: 0, last: 99, host: host("here", 7_000) }]));
        assert_eq!(ranges(&Value::Nil, &asked), None);
        let text = b"*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$1\r\nh\r\n:7000\r\n";
        assert_eq!(ranges(&Value::read(text).unwrap().unwrap().0, &asked), None);
    }
}
