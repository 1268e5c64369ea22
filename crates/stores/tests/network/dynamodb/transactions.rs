//! Transactions: moto has them, dynalite has none.

use storebench_engine::store::{Durability, ErrorKind, Isolation, Op, OpKind, Prepare, Step};

use super::open;
use crate::driven::{Driven, layout};
use crate::server::Server;

/// A step that writes `{"n":2}`, if it writes.
pub(super) fn step((kind, key): (OpKind, &str)) -> Step {
    Step { kind: Some(kind), key: key.to_owned(), body: br#"{"n":2}"#.to_vec(), ..Step::default() }
}

pub(super) fn transaction(steps: &[Step], rolls_back: bool) -> Op<'_> {
    Op::Transaction { isolation: Isolation::Serializable, steps, rolls_back }
}

pub(super) fn it_has_none(server: &Server) {
    let store = open(&server.url);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let told = store.capabilities().lacks(OpKind::Transaction);
    assert!(told.contains("no TransactWriteItems"), "{told}");
    assert!(store.capabilities().supports(OpKind::Transaction).is_none());
    store.remove().unwrap();
}

/// All of them read the same document, so one after another is written.
#[test]
fn of_transactions_that_meet_those_that_are_done_are_done_as_a_whole() {
    let server = Server::start("moto");
    let store = open(&server.url);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    for key in ["x", "y"] {
        driven.call(Op::Upsert { key, body: b"{}" }).unwrap();
    }
    let (mut done, mut aborted) = (0, 0);
    for round in 0..4 {
        let body = |n: usize| format!("{{\"by\":\"{round}-{n}\"}}").into_bytes();
        let all: Vec<Vec<Step>> = (0..8)
            .map(|n| {
                let step = |kind, key| Step { body: body(n), ..step((kind, key)) };
                vec![step(OpKind::Read, "x"), step(OpKind::Replace, "y"), step(OpKind::Replace, "x")]
            })
            .collect();
        for steps in &all {
            driven.submit(transaction(steps, false));
        }
        for (_, answer) in driven.finish(all.len()) {
            match answer {
                Ok(reply) => {
                    assert_eq!(reply.as_reply().steps, [1, 1, 1]);
                    done += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Aborted, "{error}");
                    aborted += 1;
                }
            }
        }
        let both = [(OpKind::Read, "x"), (OpKind::Read, "y")].map(step);
        let reply = driven.call(transaction(&both, false)).unwrap();
        let rows: Vec<_> = reply.as_reply().rows.unwrap().iter().map(|(_, body)| body.to_vec()).collect();
        assert!(rows.len() == 2 && rows[0] == rows[1], "{rows:?}");
    }
    assert!(done >= 4 && aborted > 0, "{done} done, {aborted} aborted");
    // A deleted document, and one that is rolled back.
    let steps = [(OpKind::Delete, "x"), (OpKind::Insert, "new")].map(step);
    assert_eq!(driven.call(transaction(&steps, true)).unwrap().as_reply().documents, 0);
    assert_eq!(driven.call(Op::Exists { key: "x" }).unwrap().as_reply().documents, 1);
    assert_eq!(driven.call(transaction(&steps, false)).unwrap().as_reply().documents, 2);
    assert_eq!(driven.call(Op::Exists { key: "x" }).unwrap().as_reply().documents, 0);
    assert_eq!(driven.call(transaction(&steps, false)).unwrap_err().kind, ErrorKind::Conflict);
    store.remove().unwrap();
}
