use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use super::super::{
    CollectionId, Durability, MemoryStore, NullStore, Op, OpError, PhaseStart, ReadConsistency, Reply, Request,
    Session, SessionOptions, Token,
};
use super::*;
use crate::{Clock, FakeClock};

const MS: u64 = 1_000_000;

fn schedule(rate_per_s: f64) -> Schedule {
    Schedule { rate_per_s, busy: Mutex::default() }
}

#[test]
fn a_burst_is_spread_over_the_schedule_exactly() {
    let s = schedule(1_000.0);
    let due: Vec<u64> = (0..5).map(|_| s.due_ns(7, None)).collect();
    assert_eq!(due, [7, 7 + MS, 7 + 2 * MS, 7 + 3 * MS, 7 + 4 * MS]);
    let thirds = schedule(3.0);
    let due: Vec<u64> = (0..7).map(|_| thirds.due_ns(0, None)).collect();
    assert_eq!(due, [0, 333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333, 1_666_666_666, 2_000_000_000]);
}

#[test]
fn idle_time_is_not_saved_up() {
    let s = schedule(1_000.0);
    assert_eq!(s.due_ns(0, None), 0);
    assert_eq!(s.due_ns(10 * MS, None), 10 * MS);
    assert_eq!(s.due_ns(10 * MS, None), 11 * MS);
    assert_eq!(s.due_ns(10 * MS + 1, None), 12 * MS);
    assert_eq!(s.due_ns(13 * MS, None), 13 * MS, "on time is not held back");
    assert_eq!(s.due_ns(13 * MS, None), 14 * MS);
}

#[test]
fn the_limit_holds_over_all_sessions() {
    let clock = FakeClock::new();
    let store = Limit::new(NullStore::new(), 1_000.0).unwrap();
    let options = SessionOptions {
        durability: Durability::MEMORY,
        consistency: ReadConsistency::Strong,
        timeout: Duration::from_secs(1),
        in_flight: 1,
        clock: Arc::new(clock.clone()),
        phase_start: PhaseStart::new(),
    };
    let mut cx = Context::from_waker(Waker::noop());
    let mut open = || match std::pin::pin!(store.open(&options)).poll(&mut cx) {
        std::task::Poll::Ready(session) => session.unwrap(),
        std::task::Poll::Pending => panic!("null opens at once"),
    };
    let mut sessions = [open(), open(), open()];
    let request = Request { collection: CollectionId(0), op: Op::Read { key: "a" }, contents: false };
    let mut ends = Vec::new();
    for token in 0..300 {
        let mut out = |token: Token, _: Result<Reply<'_>, OpError>| ends.push((token.0, clock.now_ns()));
        sessions[token as usize % 3].submit(&request, Token(token), &mut out);
    }
    while let Some(at_ns) = sessions.iter().filter_map(Session::wake_at_ns).min() {
        clock.advance_to(at_ns);
        for session in &mut sessions {
            let mut out = |token: Token, _: Result<Reply<'_>, OpError>| ends.push((token.0, clock.now_ns()));
            let _ = session.poll(&mut Context::from_waker(Waker::noop()), &mut out);
        }
    }
    assert_eq!(ends, (0..300).map(|k| (k, k * MS)).collect::<Vec<_>>());
}

#[test]
fn a_rate_that_is_none_is_refused() {
    for rate_per_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = Limit::new(MemoryStore::new(), rate_per_s).unwrap_err();
        assert!(matches!(error, StoreError::BadUrl(_)), "{error}");
    }
    let limit = Limit::new(MemoryStore::new(), 1_000.0).unwrap();
    assert_eq!(limit.describe().url, "limit+memory:?rate=1000");
}
