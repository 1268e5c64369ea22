//! One operation at a time, waited for: for verification and checks, where nothing is timed.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Runtime as Tokio;

use super::clock::Clock;
use crate::store::{AnyStore, OpError, Reply, Request, Runtime, Session, SessionOptions, StoreError, Token};

/// A session of any store with one operation in flight.
pub struct Caller {
    session: Box<dyn Session>,
    reactor: Option<Tokio>,
    clock: Arc<dyn Clock>,
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
        Ok(Self { session, reactor, clock: Arc::clone(&options.clock), next: 0 })
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
        let _entered = self.reactor.as_ref().map(Tokio::enter);
        self.session.submit(request, token, &mut out);
        self.session.flush();
        drop(_entered);
        while !ended {
            let mut out = |given: Token, result: Result<Reply<'_>, OpError>| {
                if given == token {
                    ended = true;
                    done(result);
                }
            };
            match &self.reactor {
                Some(reactor) => {
                    let session = &mut self.session;
                    let mut polled = false;
                    reactor.block_on(poll_fn(|cx| {
                        if std::mem::replace(&mut polled, true) {
                            return Poll::Ready(());
                        }
                        session.poll(cx, &mut out)
                    }));
                }
                None => {
                    let _ = self.session.poll(&mut Context::from_waker(Waker::noop()), &mut out);
                }
            }
            if !ended && let Some(wake) = self.session.wake_at_ns() {
                std::thread::sleep(Duration::from_nanos(wake.saturating_sub(self.clock.now_ns())));
            }
        }
    }
}
