//! Operations that are waited for: for verification and checks, where nothing is timed.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Runtime as Tokio;

use super::clock::Clock;
use crate::store::{
    AnyStore, CollectionId, Completions, ErrorKind, Op, OpError, Reply, Request, Runtime, Session, SessionOptions,
    StoreError, Token,
};

/// A session of any store.
pub struct Caller {
    // In an `Option` so that it can be dropped within the runtime that its sockets belong to.
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
        let reactor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| StoreError::Failed(format!("the system gives no event loop: {e}")))?;
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

    /// Does one operation, and calls `done` with how it ended.
    pub fn call(&mut self, request: &Request<'_>, mut done: impl FnMut(Result<Reply<'_>, OpError>)) {
        let token = Token(self.next);
        self.next += 1;
        let mut ended = false;
        let mut out = |given: Token, result: Result<Reply<'_>, OpError>| {
            if given == token {
                ended = true;
                done(result);
            }
        };
        self.submit(request, token, &mut out);
        self.flush(&mut out);
        let deadline_ns = self.clock.now_ns().saturating_add(self.timeout_ns);
        while !ended {
            if self.clock.now_ns() >= deadline_ns {
                self.abandon(token);
                return done(Err(timed_out()));
            }
            let mut out = |given: Token, result: Result<Reply<'_>, OpError>| {
                if given == token {
                    ended = true;
                    done(result);
                }
            };
            self.wait(deadline_ns, &mut out);
        }
    }

    /// Reads many documents, so many at once. `next` writes a key and gives its collection, or none at the end; `done` is
    /// called for each, in any order, with its number in the order of `next`, from 0.
    pub fn read_all(
        &mut self,
        in_flight: usize,
        mut next: impl FnMut(&mut Vec<u8>) -> Option<CollectionId>,
        mut done: impl FnMut(usize, Result<Reply<'_>, OpError>),
    ) {
        let first = self.next;
        let mut key = Vec::new();
        // In the order of their deadlines.
        let mut asked: VecDeque<(Token, u64)> = VecDeque::new();
        let mut open: HashSet<u64> = HashSet::new();
        let mut more = true;
        loop {
            while more && open.len() < in_flight {
                key.clear();
                let Some(collection) = next(&mut key) else {
                    more = false;
                    break;
                };
                let token = Token(self.next);
                self.next += 1;
                open.insert(token.0);
                asked.push_back((token, self.clock.now_ns().saturating_add(self.timeout_ns)));
                let key = std::str::from_utf8(&key).expect("keys are made of text");
                let request = Request { collection, op: Op::Read { key }, contents: true };
                self.submit(&request, token, &mut |given: Token, result: Result<Reply<'_>, OpError>| {
                    if open.remove(&given.0) {
                        done((given.0 - first) as usize, result);
                    }
                });
            }
            self.flush(&mut |given: Token, result: Result<Reply<'_>, OpError>| {
                if open.remove(&given.0) {
                    done((given.0 - first) as usize, result);
                }
            });
            while asked.front().is_some_and(|(token, _)| !open.contains(&token.0)) {
                asked.pop_front();
            }
            match asked.front().copied() {
                None if more => {}
                None => return,
                Some((token, deadline_ns)) if self.clock.now_ns() >= deadline_ns => {
                    self.abandon(token);
                    open.remove(&token.0);
                    done((token.0 - first) as usize, Err(timed_out()));
                }
                Some((_, deadline_ns)) => {
                    let mut out = |given: Token, result: Result<Reply<'_>, OpError>| {
                        if open.remove(&given.0) {
                            done((given.0 - first) as usize, result);
                        }
                    };
                    self.wait(deadline_ns, &mut out);
                }
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

    /// Sends what was submitted. A session that is down has answered at once; it connects again while it is polled here.
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

    /// Waits for an answer, at most until then.
    fn wait(&mut self, deadline_ns: u64, out: &mut dyn Completions) {
        let now_ns = self.clock.now_ns();
        let session = self.session.as_mut().expect("only `drop` takes the session");
        let wake_ns = session.wake_at_ns().unwrap_or(u64::MAX).min(deadline_ns);
        let at_most = Duration::from_nanos(wake_ns.saturating_sub(now_ns));
        match &self.reactor {
            Some(reactor) => {
                let mut polled = false;
                let woken = poll_fn(|cx| {
                    if std::mem::replace(&mut polled, true) {
                        return Poll::Ready(());
                    }
                    session.poll(cx, out)
                });
                // Out of time is no fault here: the session may only be waiting for time to pass.
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

fn timed_out() -> OpError {
    OpError::new(ErrorKind::OutcomeUnknown, "no answer within the timeout")
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
    use crate::store::{
        CollectionLayout, Durability, Layout, MemoryStore, PhaseStart, Prepare, Slow, SlowOptions, Store,
    };
    use crate::workload::Body;

    /// What comes of a read of a key that does not exist, where each operation takes so long.
    fn read(latency: Duration, timeout: Duration) -> Vec<ErrorKind> {
        let store = Slow::new(MemoryStore::new(), SlowOptions { latency, ..SlowOptions::default() });
        let docs = CollectionLayout { name: "docs".into(), body: Body::Json, indexes: Vec::new(), existing: None };
        Store::prepare(&store, &Layout { collections: vec![docs] }, Prepare::Fresh).unwrap();
        let options = SessionOptions {
            durability: Durability::MEMORY,
            consistency: Default::default(),
            timeout,
            in_flight: 1,
            clock: Arc::new(crate::engine::RealClock::new()),
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
        let docs = CollectionLayout { name: "docs".into(), body: Body::Json, indexes: Vec::new(), existing: None };
        Store::prepare(&store, &Layout { collections: vec![docs] }, Prepare::Fresh).unwrap();
        let options = SessionOptions {
            durability: Durability::MEMORY,
            consistency: Default::default(),
            timeout: Duration::from_secs(600),
            in_flight: 8,
            clock: Arc::new(crate::engine::RealClock::new()),
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
            caller.read_all(8, next, |nth, result| {
                assert_eq!(result.unwrap_err().kind, ErrorKind::NotFound);
                told[nth] += 1;
            });
            assert_eq!(told, [round; 50]);
        }
    }

    /// A server's session whose connection is lost: each poll brings it one step nearer to the next one.
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
            clock: Arc::new(crate::engine::RealClock::new()),
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
