//! One operation at a time, waited for: for verification and checks, where nothing is timed.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Runtime as Tokio;

use super::clock::Clock;
use crate::store::{AnyStore, ErrorKind, OpError, Reply, Request, Runtime, Session, SessionOptions, StoreError, Token};

/// A session of any store with one operation in flight.
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
        let session = self.session.as_mut().expect("only `drop` takes the session");
        let entered = self.reactor.as_ref().map(Tokio::enter);
        session.submit(request, token, &mut out);
        session.flush();
        drop(entered);
        if let Some(reactor) = self.reactor.as_ref().filter(|_| ended) {
            // A session that is down answers at once; what connects it again runs here only.
            reactor.block_on(tokio::task::yield_now());
        }
        let deadline_ns = self.clock.now_ns().saturating_add(self.timeout_ns);
        while !ended {
            let now_ns = self.clock.now_ns();
            if now_ns >= deadline_ns {
                let _entered = self.reactor.as_ref().map(Tokio::enter);
                session.abandon(token);
                return done(Err(OpError::new(ErrorKind::OutcomeUnknown, "no answer within the timeout")));
            }
            let wake_ns = session.wake_at_ns().unwrap_or(u64::MAX).min(deadline_ns);
            let at_most = Duration::from_nanos(wake_ns.saturating_sub(now_ns));
            let mut out = |given: Token, result: Result<Reply<'_>, OpError>| {
                if given == token {
                    ended = true;
                    done(result);
                }
            };
            match &self.reactor {
                Some(reactor) => {
                    let mut polled = false;
                    let woken = poll_fn(|cx| {
                        if std::mem::replace(&mut polled, true) {
                            return Poll::Ready(());
                        }
                        session.poll(cx, &mut out)
                    });
                    // Out of time is no fault here: the session may only be waiting for time to pass.
                    let _ = reactor.block_on(async { tokio::time::timeout(at_most, woken).await });
                }
                None => {
                    let _ = session.poll(&mut Context::from_waker(Waker::noop()), &mut out);
                    if !ended {
                        std::thread::sleep(at_most.min(Duration::from_millis(1)));
                    }
                }
            }
        }
    }
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
        CollectionId, CollectionLayout, Durability, Layout, MemoryStore, Op, PhaseStart, Prepare, Slow, SlowOptions,
        Store,
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
}
