use std::sync::Arc;
use std::task::{Context, Waker};

use super::super::{
    CollectionId, CollectionLayout, Durability, ErrorKind, Layout, MemoryStore, Op, OpError, PhaseStart, Prepare,
    ReadConsistency, Reply, Request, Session, SessionOptions, StoreError, Token,
};
use super::*;
use crate::{Clock, FakeClock};

const MS: u64 = 1_000_000;

/// Runs a future that is ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("memory opens at once"),
    }
}

fn options(clock: &FakeClock, phase_start_ns: Option<u64>) -> SessionOptions {
    SessionOptions {
        durability: Durability::MEMORY,
        consistency: ReadConsistency::Strong,
        timeout: Duration::from_secs(1),
        in_flight: 1,
        clock: Arc::new(clock.clone()),
        phase_start: {
            let start = PhaseStart::new();
            if let Some(at) = phase_start_ns {
                start.begin(at);
            }
            start
        },
    }
}

fn slow(slow: SlowOptions) -> Slow<MemoryStore> {
    let store = Slow::new(MemoryStore::new(), slow);
    let layout = Layout {
        collections: vec![CollectionLayout {
            name: "c".into(),
            body: Default::default(),
            indexes: Vec::new(),
            existing: None,
            uses: crate::store::Uses::ALL,
        }],
    };
    store.prepare(&layout, Prepare::Fresh).unwrap();
    store
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn submit(session: &mut impl Session, token: u64, op: Op<'_>, ended: &mut Vec<u64>) {
    session.submit(&Request { collection: CollectionId(0), op, contents: true }, Token(token), &mut |token: Token,
                                                                                                     _: Result<
        Reply<'_>,
        OpError,
    >| {
        ended.push(token.0)
    });
}

fn poll(session: &mut impl Session, ended: &mut Vec<u64>) -> bool {
    let mut out = |token: Token, _: Result<Reply<'_>, OpError>| ended.push(token.0);
    session.poll(&mut Context::from_waker(Waker::noop()), &mut out).is_ready()
}

/// Wakes the session whenever it asks to be woken, until nothing is in flight. Returns (token, time) in the order of
/// completion.
fn run_out(session: &mut impl Session, clock: &FakeClock) -> Vec<(u64, u64)> {
    let mut ends = Vec::new();
    loop {
        let mut ended = Vec::new();
        let idle = poll(session, &mut ended);
        ends.extend(ended.iter().map(|token| (*token, clock.now_ns())));
        if idle {
            return ends;
        }
        let wake_at_ns = session.wake_at_ns().expect("in flight, so it waits for a time");
        assert!(wake_at_ns > clock.now_ns(), "it asked to be polled at a time that has passed");
        clock.advance_to(wake_at_ns - 1);
        let mut early = Vec::new();
        poll(session, &mut early);
        assert!(early.is_empty(), "{early:?} ended before their time");
        clock.advance_to(wake_at_ns);
    }
}

const READ: Op<'static> = Op::Read { key: "a" };

#[test]
fn without_a_limit_every_operation_takes_its_latency() {
    let clock = FakeClock::new();
    let store = slow(SlowOptions { latency: ms(1), ..Default::default() });
    let mut session = now(store.open(&options(&clock, None))).unwrap();
    let mut ended = Vec::new();
    clock.advance_to(5 * MS);
    submit(&mut session, 1, READ, &mut ended);
    clock.advance_to(5 * MS + 10);
    submit(&mut session, 2, READ, &mut ended);
    assert!(ended.is_empty());
    assert_eq!(run_out(&mut session, &clock), [(1, 6 * MS), (2, 6 * MS + 10)]);
    assert_eq!(session.wake_at_ns(), None);
}

#[test]
fn concurrency_is_shared_over_sessions_and_queues() {
    let clock = FakeClock::new();
    let store = slow(SlowOptions { latency: ms(10), concurrency: NonZeroU32::new(2), ..Default::default() });
    let mut a = now(store.open(&options(&clock, None))).unwrap();
    let mut b = now(store.open(&options(&clock, None))).unwrap();
    let mut ended = Vec::new();
    // Slot 1: 0–10, 10–20. Slot 2: 3–13, 13–23. The fifth takes slot 1 again: 20–30.
    submit(&mut a, 1, READ, &mut ended);
    clock.advance_to(3 * MS);
    submit(&mut b, 2, READ, &mut ended);
    submit(&mut a, 3, READ, &mut ended);
    submit(&mut b, 4, READ, &mut ended);
    submit(&mut b, 5, READ, &mut ended);
    assert_eq!(b.wake_at_ns(), Some(13 * MS));
    assert_eq!(run_out(&mut a, &clock), [(1, 10 * MS), (3, 20 * MS)]);
    assert_eq!(run_out(&mut b, &clock), [(2, 20 * MS), (4, 23 * MS), (5, 30 * MS)], "2 was due at 13 and polled at 20");
}

#[test]
fn a_stall_extends_what_overlaps_it_and_nothing_else() {
    let clock = FakeClock::new();
    // Phase from 100 ms on; stalled from 150 to 250 ms.
    let stalling = SlowOptions { latency: ms(10), stall_at: Some(ms(50)), stall_for: ms(100), ..Default::default() };
    let servers = Servers::new(stalling.clone());
    let cases = [
        (139, 149), // over before the stall
        (140, 150), // over as it begins
        (141, 251), // 9 ms done, 1 ms left after the stall
        (149, 259),
        (150, 260), // begins with the stall
        (200, 260), // begins within it
        (249, 260),
        (250, 260), // begins as it ends
        (251, 261),
    ];
    for (at_ms, end_ms) in cases {
        assert_eq!(servers.due_ns(at_ms * MS, Some(100 * MS)), end_ms * MS, "submitted at {at_ms} ms");
    }
    let store = slow(stalling);
    let mut session = now(store.open(&options(&clock, Some(100 * MS)))).unwrap();
    let mut ended = Vec::new();
    clock.advance_to(141 * MS);
    submit(&mut session, 1, READ, &mut ended);
    assert_eq!(run_out(&mut session, &clock), [(1, 251 * MS)]);

    // Without a measured phase there is no stall.
    let fresh = FakeClock::new();
    let mut loading = now(store.open(&options(&fresh, None))).unwrap();
    fresh.advance_to(200 * MS);
    submit(&mut loading, 1, READ, &mut ended);
    assert_eq!(run_out(&mut loading, &fresh), [(1, 210 * MS)]);
}

#[test]
fn a_stall_holds_up_the_queue_behind_it() {
    let clock = FakeClock::new();
    let store = slow(SlowOptions {
        latency: ms(10),
        concurrency: NonZeroU32::new(1),
        stall_at: Some(ms(5)),
        stall_for: ms(100),
        ..Default::default()
    });
    let mut session = now(store.open(&options(&clock, Some(0)))).unwrap();
    let mut ended = Vec::new();
    for token in 1..=3 {
        submit(&mut session, token, READ, &mut ended);
    }
    assert_eq!(run_out(&mut session, &clock), [(1, 110 * MS), (2, 120 * MS), (3, 130 * MS)]);
}

#[test]
fn jitter_is_even_within_its_bounds_seeded_and_never_below_zero() {
    let servers = |seed| {
        Servers::new(SlowOptions { latency: ms(1), jitter: Duration::from_micros(200), seed, ..Default::default() })
    };
    let model = servers(1);
    let ends: Vec<u64> = (0..20_000).map(|_| model.due_ns(0, None)).collect();
    assert!(ends.iter().all(|end| (800_000..=1_200_000).contains(end)));
    for fifth in 0..5 {
        let low = 800_000 + fifth * 80_000;
        let share = ends.iter().filter(|end| (low..low + 80_000).contains(*end)).count() as f64 / 20_000.0;
        assert!((share - 0.2).abs() < 0.015, "a fifth of the range has {share} of the draws");
    }
    let again = servers(1);
    assert!(ends.iter().all(|end| again.due_ns(0, None) == *end), "the same seed, the same times");
    let other = servers(2);
    assert!(ends.iter().any(|end| other.due_ns(0, None) != *end), "another seed, other times");

    let wide = Servers::new(SlowOptions { latency: ms(1), jitter: ms(3), ..Default::default() });
    let ends: Vec<u64> = (0..1_000).map(|_| wide.due_ns(5, None)).collect();
    assert!(ends.contains(&5) && ends.iter().all(|end| (5..=5 + 4 * MS).contains(end)));
}

#[test]
fn replies_arrive_whole_and_abandoned_ones_do_not() {
    let clock = FakeClock::new();
    let store = slow(SlowOptions { latency: ms(1), ..Default::default() });
    let mut session = now(store.open(&options(&clock, None))).unwrap();
    let mut ended = Vec::new();
    submit(&mut session, 1, Op::Insert { key: "a", body: b"{}" }, &mut ended);
    submit(&mut session, 2, READ, &mut ended);
    submit(&mut session, 3, READ, &mut ended);
    submit(&mut session, 4, Op::Read { key: "b" }, &mut ended);
    session.abandon(Token(2));
    session.abandon(Token(99));
    clock.advance_to(MS);
    let mut seen = Vec::new();
    let mut out = |token: Token, result: Result<Reply<'_>, OpError>| {
        seen.push((token.0, result.map(|r| r.body.map(<[u8]>::to_vec)).map_err(|e| e.kind)));
    };
    assert!(session.poll(&mut Context::from_waker(Waker::noop()), &mut out).is_ready());
    assert_eq!(seen, [(1, Ok(None)), (3, Ok(Some(b"{}".to_vec()))), (4, Err(ErrorKind::NotFound))]);

    // Only abandoned operations are in flight: nothing to wake for.
    submit(&mut session, 5, READ, &mut ended);
    session.abandon(Token(5));
    assert_eq!(session.wake_at_ns(), None);
    assert!(poll(&mut session, &mut ended) && ended.is_empty());
    // The same token names another operation.
    submit(&mut session, 5, READ, &mut ended);
    assert_eq!(run_out(&mut session, &clock), [(5, 2 * MS)]);
}

#[test]
fn places_are_used_again() {
    let clock = FakeClock::new();
    let store = slow(SlowOptions { latency: ms(1), ..Default::default() });
    let mut session = now(store.open(&options(&clock, None))).unwrap();
    for round in 0..50 {
        let mut ended = Vec::new();
        for token in 0..8 {
            submit(&mut session, round * 8 + token, READ, &mut ended);
        }
        if round % 2 == 0 {
            session.abandon(Token(round * 8 + 3));
        }
        run_out(&mut session, &clock);
    }
    assert_eq!(session.places(), 8);
}

#[test]
fn it_says_what_it_is() {
    let store = slow(SlowOptions {
        latency: ms(1),
        jitter: Duration::from_micros(200),
        concurrency: NonZeroU32::new(4),
        stall_at: Some(Duration::from_secs(5)),
        ..Default::default()
    });
    let url = "slow+memory:?latency=1ms&jitter=200us&concurrency=4&stall_at=5s&stall_for=1s";
    assert_eq!(store.describe().url, url);
    assert_eq!(Slow::new(MemoryStore::new(), SlowOptions::default()).describe().url, "slow+memory:");
    let twice = Slow::new(store, SlowOptions { latency: Duration::from_nanos(1_500), ..Default::default() });
    assert_eq!(twice.describe().url, format!("slow+{url}&latency=1500ns"));
    let capabilities = twice.capabilities();
    assert!(capabilities.gives_up_at_timeout && capabilities.embedded);
    assert!(matches!(
        now(twice.open(&SessionOptions { durability: Durability::FSYNC, ..options(&FakeClock::new(), None) })),
        Err(StoreError::NotSupported(_))
    ));
}
