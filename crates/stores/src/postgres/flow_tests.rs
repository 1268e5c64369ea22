use std::collections::VecDeque;

use proptest::prelude::*;
use storebench_engine::store::{BulkWrite, OpError, OpKind, Reply, Token};

use super::*;
use crate::net::not_connected;

/// The entries in flight, and the flow that reads their answers.
#[derive(Default)]
struct Both {
    flow: Flow,
    entries: VecDeque<Entry>,
}

impl Both {
    fn new(waits_for_standbys: bool) -> Self {
        Self { flow: Flow::new(waits_for_standbys), entries: VecDeque::new() }
    }
}

fn in_flight(both: &mut Both, what: What, op: OpKind, token: u64) {
    let token = (!matches!(what, What::Bulk(_) | What::Prepare(_))).then_some(Token(token));
    both.entries.push_back(Entry { token, op, what, in_transaction: false });
}

/// One request of each kind, with the tokens 0 to 7. The bulk write has 7.
fn one_of_each() -> Both {
    let mut both = Both::new(true);
    let kinds = [
        (What::Read { contents: true, jsonb: true }, OpKind::Read),
        (What::Exists, OpKind::Exists),
        (What::Write, OpKind::Upsert),
        (What::Count, OpKind::BulkDelete),
        (What::Counter, OpKind::Counter),
        (What::Swap, OpKind::CompareAndSwap),
        (What::Rows { contents: true, jsonb: false }, OpKind::Scan),
    ];
    for (token, (what, op)) in kinds.into_iter().enumerate() {
        in_flight(&mut both, what, op, token as u64);
    }
    let flow = &mut both.flow;
    let place = flow.take_bulk();
    flow.bulks[place].items.push("k", b"{}");
    flow.bulks[place].begin(Token(7), BulkWrite::Insert, 0);
    flow.bulks[place].next_part(&mut 0);
    in_flight(&mut both, What::Bulk(place), OpKind::BulkInsert, 7);
    in_flight(&mut both, What::Prepare(3), OpKind::Read, 8);
    both
}

/// How each token ended: with this many documents, or with an error of this kind.
type Ended = Vec<(u64, Result<u32, ErrorKind>)>;

/// Feeds messages. Returns how each token ended, in order, and why the connection became unusable.
fn feed(both: &mut Both, messages: &[(u8, Vec<u8>)]) -> (Ended, Option<Lost>) {
    let mut ended = Vec::new();
    let mut out = |token: Token, result: Result<Reply<'_>, OpError>| {
        ended.push((token.0, result.map(|reply| reply.documents).map_err(|error| error.kind)));
    };
    let mut lost = None;
    for (tag, body) in messages {
        let Both { flow, entries } = both;
        match flow.message(entries.front_mut(), *tag, body, &mut out) {
            Ok(false) => {}
            Ok(true) => drop(flow.end(&entries.pop_front().unwrap(), &mut out)),
            Err(why) => {
                flow.lose(entries.drain(..).map(|entry| (entry, true)), &why.0, &not_connected(), &mut out);
                lost = Some(why);
                break;
            }
        }
    }
    (ended, lost)
}

fn message(tag: u8, body: &[u8]) -> (u8, Vec<u8>) {
    (tag, body.to_vec())
}

#[test]
fn a_write_is_acknowledged_when_its_transaction_has_ended_and_not_before() {
    let mut both = Both::new(false);
    in_flight(&mut both, What::Write, OpKind::Upsert, 1);
    assert_eq!(feed(&mut both, &[message(b'C', b"INSERT 0 1\0")]).0, []);
    assert_eq!(feed(&mut both, &[message(b'Z', b"I")]).0, [(1, Ok(1))]);
    in_flight(&mut both, What::Write, OpKind::Upsert, 2);
    let late = [message(b'C', b"INSERT 0 1\0"), message(b'E', b"VERROR\0C40001\0Mno\0\0"), message(b'Z', b"I")];
    assert_eq!(feed(&mut both, &late).0, [(2, Err(ErrorKind::Temporary))]);
}

#[test]
fn a_warning_in_the_answer_to_a_write_by_two_is_no_acknowledgement() {
    let answer = [message(b'C', b"INSERT 0 1\0"), message(b'N', b"VWARNING\0C01000\0Mx\0\0"), message(b'Z', b"I")];
    for (waits_for_standbys, expected) in [(true, Err(ErrorKind::OutcomeUnknown)), (false, Ok(1))] {
        let mut both = Both::new(waits_for_standbys);
        in_flight(&mut both, What::Write, OpKind::Upsert, 1);
        assert_eq!(feed(&mut both, &answer).0, [(1, expected)]);
    }
}

#[test]
fn the_end_of_a_connection_ends_everything_once() {
    let mut both = one_of_each();
    let (mut ended, lost) = feed(&mut both, &[message(b'E', b"VFATAL\0C57P01\0Mterminating\0\0")]);
    assert!(lost.is_some_and(|why| why.0.contains("terminating")));
    ended.sort_unstable();
    let (unknown, temporary) = (Err(ErrorKind::OutcomeUnknown), Err(ErrorKind::Temporary));
    let expected = [temporary, temporary, unknown, unknown, unknown, unknown, temporary, unknown];
    assert_eq!(ended, expected.into_iter().enumerate().map(|(n, e)| (n as u64, e)).collect::<Vec<_>>());
    assert!(both.entries.is_empty());
}

#[test]
fn what_was_abandoned_is_dropped_when_it_comes() {
    let mut both = Both::new(false);
    in_flight(&mut both, What::Write, OpKind::Upsert, 1);
    in_flight(&mut both, What::Write, OpKind::Upsert, 2);
    both.flow.abandon(both.entries.iter_mut(), Token(1));
    let answers = [b'C', b'Z', b'C', b'Z'].map(|tag| message(tag, b"UPDATE 1\0"));
    assert_eq!(feed(&mut both, &answers).0, [(2, Ok(1))]);
}

proptest! {
    /// Whatever a server answers, nothing panics, and no operation completes twice.
    #[test]
    fn any_answer_ends_an_operation_once_at_most(
        messages in proptest::collection::vec(
            (
                proptest::sample::select(&b"DDDDCCZZZZENRSKA123GTtnIsHWcdv!"[..]),
                proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(4), Just(255), any::<u8>()], 0..24),
            ),
            0..40,
        )
    ) {
        let mut both = one_of_each();
        let (ended, _) = feed(&mut both, &messages);
        let mut tokens: Vec<u64> = ended.iter().map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        tokens.dedup();
        prop_assert_eq!(tokens.len(), ended.len());
    }

    /// Arbitrary bytes are taken for messages only if they can be messages.
    #[test]
    fn any_bytes_are_messages_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(Some((_, length))) = wire::look(&bytes) {
            prop_assert!((5..=bytes.len()).contains(&length));
        }
        let _ = wire::ServerError::read(&bytes);
        let _ = wire::affected(&bytes);
    }
}

/// A trigger may leave a row out without an error.
#[test]
fn a_write_that_the_server_counts_as_none_is_no_success() {
    for (what, op, expected) in [
        (What::Write, OpKind::Insert, ErrorKind::Refused),
        (What::Write, OpKind::Upsert, ErrorKind::Refused),
        (What::Counter, OpKind::Counter, ErrorKind::Refused),
        (What::Write, OpKind::Replace, ErrorKind::NotFound),
    ] {
        let mut both = Both::new(false);
        in_flight(&mut both, what, op, 1);
        let answer = [message(b'C', b"INSERT 0 0\0"), message(b'Z', b"I")];
        assert_eq!(feed(&mut both, &answer).0, [(1, Err(expected))], "{op}");
    }
}
