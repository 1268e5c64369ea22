//! Several operations in flight, on a session driven by hand.

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{
    AnyStore, BatchBuf, BulkWrite, Durability, ErrorKind, Op, OpError, OwnedReply, Request, Session, SessionOptions,
    Token,
};

use super::{DOCUMENTS, NO_ANSWER, options, prepared, three};

/// A session driven by hand, with several operations in flight.
struct ByHand {
    runtime: tokio::runtime::Runtime,
    session: Option<Box<dyn Session>>,
}

impl Drop for ByHand {
    fn drop(&mut self) {
        let _within = self.runtime.enter();
        drop(self.session.take());
    }
}

impl ByHand {
    fn open(store: &Arc<dyn AnyStore>) -> Self {
        Self::open_with(store, &options())
    }

    fn open_with(store: &Arc<dyn AnyStore>, options: &SessionOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = Some(runtime.block_on(store.open_any(options)).unwrap());
        Self { runtime, session }
    }

    /// Submits, runs `between`, and waits for all answers.
    fn run(&mut self, ops: &[Op<'_>], between: impl FnOnce()) -> Vec<Result<OwnedReply, OpError>> {
        let session = self.session.as_mut().unwrap();
        let mut answers: Vec<Option<Result<OwnedReply, OpError>>> = ops.iter().map(|_| None).collect();
        let mut take = |token: Token, result: Result<storebench_engine::store::Reply<'_>, OpError>| {
            answers[token.0 as usize] = Some(result.map(OwnedReply::from));
        };
        self.runtime.block_on(async {
            for (i, op) in ops.iter().enumerate() {
                session.submit(&Request { collection: DOCUMENTS, op: *op, contents: true }, Token(i as u64), &mut take);
            }
            session.flush();
            // Let the submitted operations leave.
            tokio::time::sleep(Duration::from_millis(50)).await;
            between();
            let ending = std::future::poll_fn(|cx| session.poll(cx, &mut take));
            // Abandon operations that wait in the client for a node that has left the cluster, as the engine would.
            let _ = tokio::time::timeout(Duration::from_secs(5), ending).await;
            for i in 0..ops.len() {
                session.abandon(Token(i as u64));
            }
        });
        let given_up = || Err(OpError::new(ErrorKind::OutcomeUnknown, NO_ANSWER));
        answers.into_iter().map(|answer| answer.unwrap_or_else(given_up)).collect()
    }

    /// Repeats the operations until all succeed. The client learns of a change of the cluster when it polls or is
    /// notified. The limit keeps a client that never learns of it from blocking all tests.
    fn until_done(&mut self, ops: &[Op<'_>]) {
        let mut last = Vec::new();
        for _ in 0..40 {
            last = self.run(ops, || ());
            if last.iter().all(Result::is_ok) {
                return;
            }
        }
        panic!("still failing: {last:?}");
    }

    fn disconnects(&self) -> u64 {
        self.session.as_ref().unwrap().counters().disconnects
    }
}

#[test]
fn connections_lost_in_flight_leave_writes_unknown_and_reads_temporary_and_come_back() {
    let fake = three(0);
    let store = prepared(&fake);
    let mut c = ByHand::open(&store);
    let keys: Vec<String> = (0..30).map(|i| format!("key-{i}")).collect();
    let writes: Vec<Op<'_>> = keys.iter().map(|key| Op::Upsert { key, body: b"{}" }).collect();
    let reads: Vec<Op<'_>> = keys.iter().map(|key| Op::Read { key }).collect();
    assert!(c.run(&writes, || ()).iter().all(Result::is_ok));
    assert_eq!(c.disconnects(), 0);

    for (ops, expected) in [(&writes, ErrorKind::OutcomeUnknown), (&reads, ErrorKind::Temporary)] {
        fake.stall(true);
        let answers = c.run(ops, || {
            for node in 0..3 {
                fake.kill(node);
            }
        });
        for answer in answers {
            let error = answer.expect_err("nobody answered");
            assert_eq!(error.kind, expected, "{error}");
            assert!(!error.message.contains("127.0.0.1"), "equal errors must have equal texts: {error}");
        }
        fake.stall(false);
        // While the nodes are down, nothing is sent, and each operation fails immediately.
        for answer in c.run(ops, || ()) {
            assert_eq!(answer.expect_err("all nodes are down").kind, ErrorKind::Temporary);
        }
        for node in 0..3 {
            fake.revive(node);
        }
        c.until_done(ops);
    }
    assert_eq!(c.disconnects(), 6, "three nodes were lost twice");
}

/// What was sent and not answered is of unknown outcome. The later writes of the same keys were not sent.
#[test]
fn a_bulk_write_that_loses_its_connections_names_what_is_unknown() {
    let fake = three(0);
    let store = prepared(&fake);
    let mut c = ByHand::open(&store);
    let mut items = BatchBuf::new();
    (0..30).for_each(|n| items.push(&format!("k{}", n % 10), format!("{n}").as_bytes()));
    let write = Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() };
    fake.stall(true);
    let answers = c.run(&[write], || (0..3).for_each(|node| fake.kill(node)));
    fake.stall(false);
    assert_eq!(answers[0].as_ref().unwrap_err().kind, ErrorKind::OutcomeUnknown);
    (0..3).for_each(|node| fake.revive(node));
    c.until_done(&[write]);
    // One node is lost: its items only.
    fake.stall(true);
    let answers = c.run(&[write], || {
        fake.kill(1);
        fake.stall(false);
    });
    let reply = answers[0].as_ref().unwrap().as_reply();
    let kind = |item: usize| reply.rejects.iter().find(|reject| reject.item == item).map(|reject| reject.error.kind);
    let lost: Vec<usize> = (0..10).filter(|item| kind(*item).is_some()).collect();
    assert!(!lost.is_empty() && lost.len() < 10, "{lost:?}");
    for item in 0..30 {
        let expected = match (lost.contains(&(item % 10)), item < 10) {
            (false, _) => None,
            (true, true) => Some(ErrorKind::OutcomeUnknown),
            (true, false) => Some(ErrorKind::Temporary),
        };
        assert_eq!(kind(item), expected, "{item}");
    }
    fake.revive(1);
    c.until_done(&[write]);
    // One that is abandoned sends nothing more, and the session goes on.
    fake.stall(true);
    assert_eq!(c.run(&[write], || ())[0].as_ref().unwrap_err().message, NO_ANSWER);
    fake.stall(false);
    c.until_done(&[write]);
}

/// A write that waits for its copies does not hold up what was sent after it, as in the order of a queue.
#[test]
fn answers_come_in_any_order() {
    let fake = three(2);
    let store = prepared(&fake);
    let majority = SessionOptions { durability: Durability::MAJORITY, ..options() };
    let mut c = ByHand::open_with(&store, &majority);
    let keys: Vec<String> = (0..40).map(|i| format!("key-{i}")).collect();
    let bodies: Vec<String> = (0..40).map(|i| format!("{{\"n\":{i}}}")).collect();
    let body = |i: usize| bodies[i].as_bytes();
    let writes: Vec<Op<'_>> = (0..40).map(|i| Op::Upsert { key: &keys[i], body: body(i) }).collect();
    assert!(c.run(&writes, || ()).iter().all(Result::is_ok));
    for node in 0..3 {
        fake.set_replicating(node, false);
    }
    // Every fourth is a write that waits until the copies follow again, or until its timeout.
    let mixed: Vec<Op<'_>> = (0..40)
        .map(|i| if i % 4 == 0 { Op::Upsert { key: &keys[i], body: b"[]" } } else { Op::Read { key: &keys[i] } })
        .collect();
    let answers = c.run(&mixed, || ());
    for (i, answer) in answers.iter().enumerate() {
        match answer {
            Ok(reply) => assert_eq!(reply.as_reply().body, Some(body(i)), "the answer to another request"),
            Err(error) => assert!(i % 4 == 0 && error.kind == ErrorKind::OutcomeUnknown, "{i}: {error}"),
        }
    }
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 30);
    for node in 0..3 {
        fake.set_replicating(node, true);
    }
    assert!(c.run(&writes, || ()).iter().all(Result::is_ok));
}

/// Answers may overtake one that never comes. What is remembered behind it does not grow without end, also if no other
/// operation times out: the connection is replaced.
#[test]
fn an_answer_that_never_comes_costs_its_connection_in_the_end() {
    // The write waits for its copies for longer than the test takes.
    let patience = Duration::from_secs(600);
    let of = super::FakeOptions { nodes: 3, replicas: 2, durability_timeout: patience, ..Default::default() };
    let fake = super::fake(of);
    let store = prepared(&fake);
    let patient = SessionOptions { durability: Durability::MAJORITY, timeout: patience, in_flight: 1, ..options() };
    let mut c = ByHand::open_with(&store, &patient);
    let write = Op::Upsert { key: "key", body: b"{}" };
    assert!(c.run(&[write], || ()).iter().all(Result::is_ok));
    for node in 0..3 {
        fake.set_replicating(node, false);
    }
    assert!(c.run(&[write], || ())[0].is_err(), "it has no copies");
    let reads = vec![Op::Read { key: "key" }; 500];
    let mut rounds = 0;
    while c.disconnects() == 0 {
        rounds += 1;
        assert!(rounds < 10, "{} answers are remembered", rounds * reads.len());
        let lost = c.run(&reads, || ()).iter().filter(|answer| answer.is_err()).count();
        assert!(lost == 0 || c.disconnects() == 1, "{lost}");
    }
    assert!(rounds > 3, "it was given up too soon");
    for node in 0..3 {
        fake.set_replicating(node, true);
    }
    c.until_done(&reads);
}

#[test]
fn a_node_that_is_away_leaves_the_documents_of_the_others_alone() {
    let fake = three(1);
    let store = prepared(&fake);
    let mut c = ByHand::open(&store);
    let keys: Vec<String> = (0..60).map(|i| format!("key-{i}")).collect();
    let writes: Vec<Op<'_>> = keys.iter().map(|key| Op::Upsert { key, body: b"{}" }).collect();
    assert!(c.run(&writes, || ()).iter().all(Result::is_ok));
    fake.stall(true);
    c.run(&writes, || {
        fake.kill(1);
        fake.stall(false);
    });
    // Operations passed to the client before it noticed end at their timeout.
    let begun = std::time::Instant::now();
    let answers = loop {
        let answers = c.run(&writes, || ());
        let noticed = answers.iter().all(|a| a.as_ref().err().is_none_or(|e| e.message != NO_ANSWER));
        if noticed || begun.elapsed() > Duration::from_secs(60) {
            break answers;
        }
    };
    let temporary = answers.iter().filter(|a| a.as_ref().is_err_and(|e| e.kind == ErrorKind::Temporary)).count();
    let done = answers.iter().filter(|a| a.is_ok()).count();
    assert_eq!(temporary + done, 60, "{answers:?}");
    assert!(temporary > 0 && done > 0, "{temporary} temporary, {done} done");
    // Its replicas take over.
    fake.fail_over(1);
    c.until_done(&writes);
}
