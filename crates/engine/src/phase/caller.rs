//! Blocking operations, for verification and checks, where nothing is timed.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Runtime as Tokio;

use super::clock::Clock;
use super::host::event_loop;
use crate::store::{
    AnyStore, CollectionId, Completions, ErrorKind, Op, OpError, Reply, Request, Runtime, Session, SessionOptions,
    StoreError, Token,
};

/// The longest single wait.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Submits the next request; returns false if there is none.
type Next<'a> = dyn FnMut(&mut dyn FnMut(&Request<'_>)) -> bool + 'a;

/// A blocking session of any store.
pub struct Caller {
    // In an `Option` so that it can be dropped within the runtime that owns its sockets.
    session: Option<Box<dyn Session>>,
    reactor: Option<Tokio>,
    clock: Arc<dyn Clock>,
    timeout_ns: u64,
    next: u64,
}

impl Caller {
    /// Opens a session.
    ///
    /// # Errors
    /// As [`Store::open`](crate::store::Store::open).
    pub fn open(store: &dyn AnyStore, options: &SessionOptions) -> Result<Self, StoreError> {
        let reactor = event_loop()?;
        let session = reactor.block_on(store.open_any(options))?;
        let reactor = (store.runtime() == Runtime::Reactor).then_some(reactor);
        Ok(Self {
            session: Some(session),
            reactor,
            clock: Arc::clone(&options.clock),
            timeout_ns: options.timeout.as_nanos() as u64,
            next: 0,
        })
    }

    /// Opens this many sessions at once, and closes them again.
    ///
    /// # Errors
    /// How many could be opened, and why no more.
    pub fn open_at_once(
        store: &dyn AnyStore,
        options: &SessionOptions,
        sessions: u64,
    ) -> Result<(), (u64, StoreError)> {
        event_loop().map_err(|error| (0, error))?.block_on(async {
            let mut open = Vec::new();
            for opened in 0..sessions {
                open.push(store.open_any(options).await.map_err(|error| (opened, error))?);
            }
            Ok(())
        })
    }

    /// Does one operation, and calls `done` with its result.
    pub fn call(&mut self, request: &Request<'_>, mut done: impl FnMut(Result<Reply<'_>, OpError>)) {
        let mut request = Some(request);
        let mut next = |submit: &mut dyn FnMut(&Request<'_>)| request.take().map(submit).is_some();
        self.all(1, &|| false, &mut next, &mut |_, result| done(result));
    }

    /// Reads many documents, up to `in_flight` at once. `next` writes a key and returns its collection, or `None` at
    /// the end. `done` is called once for each document, in any order, with its number in the order of `next`, from 0.
    /// As soon as `stopped` returns true, the reads in flight are given up.
    pub fn read_all(
        &mut self,
        in_flight: usize,
        stopped: impl Fn() -> bool,
        mut next: impl FnMut(&mut Vec<u8>) -> Option<CollectionId>,
        mut done: impl FnMut(usize, Result<Reply<'_>, OpError>),
    ) {
        let mut key = Vec::new();
        let mut next = |submit: &mut dyn FnMut(&Request<'_>)| {
            key.clear();
            let Some(collection) = next(&mut key) else { return false };
            let key = std::str::from_utf8(&key).expect("generated keys are UTF-8");
            submit(&Request { collection, op: Op::Read { key }, contents: true });
            true
        };
        self.all(in_flight, &stopped, &mut next, &mut done);
    }

    /// Runs what `next` submits, until it submits nothing more.
    fn all(
        &mut self,
        in_flight: usize,
        stopped: &dyn Fn() -> bool,
        next: &mut Next<'_>,
        done: &mut dyn FnMut(usize, Result<Reply<'_>, OpError>),
    ) {
        let first = self.next;
        // In the order of their deadlines.
        let mut asked: VecDeque<(Token, u64)> = VecDeque::new();
        let mut open: HashSet<u64> = HashSet::new();
        let mut more = true;
        loop {
            more &= !stopped();
            while more && open.len() < in_flight {
                let token = Token(self.next);
                more = next(&mut |request| {
                    self.next += 1;
                    open.insert(token.0);
                    asked.push_back((token, self.clock.now_ns().saturating_add(self.timeout_ns)));
                    self.submit(request, token, &mut Open { open: &mut open, first, done });
                });
            }
            self.flush(&mut Open { open: &mut open, first, done });
            while asked.front().is_some_and(|(token, _)| !open.contains(&token.0)) {
                asked.pop_front();
            }
            match asked.front().copied() {
                None if more => {}
                None => return,
                Some(_) if stopped() => {
                    for token in open.drain() {
                        self.abandon(Token(token));
                        done((token - first) as usize, Err(unknown("given up")));
                    }
                    return;
                }
                Some((token, deadline_ns)) if self.clock.now_ns() >= deadline_ns => {
                    self.abandon(token);
                    open.remove(&token.0);
                    done((token.0 - first) as usize, Err(unknown("no answer within the timeout")));
                }
                Some((_, deadline_ns)) => self.wait(deadline_ns, &mut Open { open: &mut open, first, done }),
            }
        }
    }

    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let _entered = self.reactor.as_ref().map(Tokio::enter);
        self.session.as_mut().expect("only `drop` takes the session").submit(request, token, out);
    }

    fn abandon(&mut self, token: Token) {
        let _entered = self.reactor.as_ref().map(Tokio::enter);
        self.session.as_mut().expect("only `drop` takes the session").abandon(token);
    }

    /// Sends what was submitted. A disconnected session has already answered; it reconnects while it is polled here.
    fn flush(&mut self, out: &mut dyn Completions) {
        let entered = self.reactor.as_ref().map(Tokio::enter);
        let session = self.session.as_mut().expect("only `drop` takes the session");
        session.flush();
        drop(entered);
        if let Some(reactor) = &self.reactor {
            reactor.block_on(async {
                let _ = poll_fn(|cx| Poll::Ready(session.poll(cx, out))).await;
                tokio::task::yield_now().await;
            });
        }
    }

    /// Waits for an answer, at most until `deadline_ns`.
    fn wait(&mut self, deadline_ns: u64, out: &mut dyn Completions) {
        let now_ns = self.clock.now_ns();
        let session = self.session.as_mut().expect("only `drop` takes the session");
        let wake_ns = session.wake_at_ns().unwrap_or(u64::MAX).min(deadline_ns);
        // Keep waits short, so that a request to stop is noticed soon.
        let at_most = Duration::from_nanos(wake_ns.saturating_sub(now_ns)).min(LONGEST_WAIT);
        match &self.reactor {
            Some(reactor) => {
                let mut polled = false;
                let woken = poll_fn(|cx| {
                    if std::mem::replace(&mut polled, true) {
                        return Poll::Ready(());
                    }
                    session.poll(cx, out)
                });
                // A timeout is not an error here: the session may only be waiting for time to pass.
                let _ = reactor.block_on(async { tokio::time::timeout(at_most, woken).await });
            }
            None => {
                let mut answered = false;
                let mut heard = |token: Token, result: Result<Reply<'_>, OpError>| {
                    answered = true;
                    out.complete(token, result);
                };
                let _ = session.poll(&mut Context::from_waker(Waker::noop()), &mut heard);
                if !answered {
                    std::thread::sleep(at_most.min(Duration::from_millis(1)));
                }
            }
        }
    }
}

/// Operations that were submitted and have not ended, and the callback for their results.
struct Open<'a> {
    open: &'a mut HashSet<u64>,
    first: u64,
    done: &'a mut dyn FnMut(usize, Result<Reply<'_>, OpError>),
}

impl Completions for Open<'_> {
    fn complete(&mut self, token: Token, result: Result<Reply<'_>, OpError>) {
        if self.open.remove(&token.0) {
            (self.done)((token.0 - self.first) as usize, result);
        }
    }
}

fn unknown(why: &'static str) -> OpError {
    OpError::new(ErrorKind::OutcomeUnknown, why)
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _entered = self.reactor.as_ref().map(Tokio::enter);
        drop(self.session.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    use crate::store::{
        CollectionLayout, Durability, Layout, MemoryStore, PhaseStart, Prepare, Slow, SlowOptions, Store,
    };
    use storebench_study::workload::Body;

    /// The errors of reading two missing keys, on a store with this latency.
    fn read(latency: Duration, timeout: Duration) -> Vec<ErrorKind> {
        let store = Slow::new(MemoryStore::new(), SlowOptions { latency, ..SlowOptions::default() });
        let docs = CollectionLayout {
            name: "docs".into(),
            body: Body::Json,
            indexes: Vec::new(),
            existing: None,
            uses: crate::store::Uses::ALL,
        };
        Store::prepare(&store, &Layout { collections: vec![docs] }, Prepare::Fresh).unwrap();
        let options = SessionOptions {
            durability: Durability::MEMORY,
            consistency: Default::default(),
            timeout,
            in_flight: 1,
            clock: Arc::new(crate::RealClock::new()),
            phase_start: PhaseStart::new(),
        };
        let mut caller = Caller::open(&store, &options).unwrap();
        let mut ended = Vec::new();
        for key in ["a", "b"] {
            let request = Request { collection: CollectionId(0), op: Op::Read { key }, contents: true };
            caller.call(&request, |result| ended.push(result.unwrap_err().kind));
        }
        ended
    }

    #[test]
    fn an_answer_is_waited_for() {
        assert_eq!(read(Duration::from_millis(5), Duration::from_secs(600)), [ErrorKind::NotFound; 2]);
    }

    #[test]
    fn one_that_does_not_come_within_the_timeout_is_given_up_and_told_once() {
        assert_eq!(read(Duration::from_secs(3_600), Duration::from_millis(20)), [ErrorKind::OutcomeUnknown; 2]);
    }

    #[test]
    fn many_are_read_at_once_and_each_is_told_once() {
        let slow = SlowOptions { latency: Duration::from_millis(2), ..SlowOptions::default() };
        let store = Slow::new(MemoryStore::new(), slow);
        let docs = CollectionLayout {
            name: "docs".into(),
            body: Body::Json,
            indexes: Vec::new(),
            existing: None,
            uses: crate::store::Uses::ALL,
        };
        Store::prepare(&store, &Layout { collections: vec![docs] }, Prepare::Fresh).unwrap();
        let options = SessionOptions {
            durability: Durability::MEMORY,
            consistency: Default::default(),
            timeout: Duration::from_secs(600),
            in_flight: 8,
            clock: Arc::new(crate::RealClock::new()),
            phase_start: PhaseStart::new(),
        };
        let mut caller = Caller::open(&store, &options).unwrap();
        let mut told = vec![0; 50];
        for round in 1..3 {
            let mut left = 0..50;
            let next = |key: &mut Vec<u8>| {
                key.extend_from_slice(left.next()?.to_string().as_bytes());
                Some(CollectionId(0))
            };
            caller.read_all(
                8,
                || false,
                next,
                |nth, result| {
                    assert_eq!(result.unwrap_err().kind, ErrorKind::NotFound);
                    told[nth] += 1;
                },
            );
            assert_eq!(told, [round; 50]);
        }
    }

    /// The user need not wait for a silent store, whatever the timeout is.
    #[test]
    fn what_is_in_flight_is_given_up_when_an_end_is_asked_for() {
        let mut caller = Caller {
            session: Some(Box::new(Silent)),
            reactor: Some(tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()),
            clock: Arc::new(crate::RealClock::new()),
            timeout_ns: u64::MAX,
            next: 7,
        };
        let (asked, mut told) = (Cell::new(0), Vec::new());
        let next = |key: &mut Vec<u8>| {
            key.push(b'a');
            asked.set(asked.get() + 1);
            Some(CollectionId(0))
        };
        caller.read_all(3, || asked.get() == 3, next, |nth, result| told.push((nth, result.unwrap_err().kind)));
        told.sort_unstable_by_key(|(nth, _)| *nth);
        let unknown = ErrorKind::OutcomeUnknown;
        assert_eq!(told, [(0, unknown), (1, unknown), (2, unknown)]);
    }

    /// A session that never answers.
    struct Silent;

    impl Session for Silent {
        fn submit(&mut self, _: &Request<'_>, _: Token, _: &mut dyn Completions) {}
        fn poll(&mut self, _: &mut Context<'_>, _: &mut dyn Completions) -> Poll<()> {
            Poll::Pending
        }
    }

    /// A session whose connection is lost. Each poll brings it one step closer to reconnecting.
    struct Away {
        polls_to_come: u32,
    }

    impl Session for Away {
        fn submit(&mut self, _: &Request<'_>, token: Token, out: &mut dyn Completions) {
            let kind = if self.polls_to_come > 0 { ErrorKind::Temporary } else { ErrorKind::NotFound };
            out.complete(token, Err(OpError::new(kind, "")));
        }
        fn poll(&mut self, _: &mut Context<'_>, _: &mut dyn Completions) -> Poll<()> {
            self.polls_to_come = self.polls_to_come.saturating_sub(1);
            Poll::Ready(())
        }
    }

    #[test]
    fn a_session_that_turns_each_call_away_at_once_connects_again_meanwhile() {
        let reactor = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut caller = Caller {
            session: Some(Box::new(Away { polls_to_come: 3 })),
            reactor: Some(reactor),
            clock: Arc::new(crate::RealClock::new()),
            timeout_ns: 1_000_000_000,
            next: 0,
        };
        let mut ended = Vec::new();
        for _ in 0..5 {
            let request = Request { collection: CollectionId(0), op: Op::Read { key: "a" }, contents: true };
            caller.call(&request, |result| ended.push(result.unwrap_err().kind));
        }
        let (away, there) = (ErrorKind::Temporary, ErrorKind::NotFound);
        assert_eq!(ended, [away, away, away, there, there]);
    }
}
