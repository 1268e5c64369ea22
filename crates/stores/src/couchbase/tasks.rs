//! The SDK's calls, as tasks of the session's thread.
//!
//! The SDK repeats a call at once, without waiting, over a connection that it has just found closed, until another of its
//! tasks has taken that connection out of use. On one thread, the other task gets its turn only if the call is
//! interrupted. Tokio interrupts a task whose budget is used up, but the engine's worker and a
//! [`FutureSession`](storebench_engine::store::FutureSession) run without a budget: there, such a call never ends.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use storebench_engine::store::{Completions, OpError, OwnedReply, Request, Respond, Session, Token};
use tokio::task::{AbortHandle, LocalSet};

/// What has ended and was not handed over.
type Ended = Vec<(Token, Result<OwnedReply, OpError>)>;

/// A session that makes a task of each operation.
pub(super) struct Tasks<R> {
    client: R,
    tasks: LocalSet,
    running: HashMap<Token, AbortHandle>,
    done: Rc<RefCell<Ended>>,
    /// Kept for its memory.
    turn: Ended,
}

impl<R: Respond> Tasks<R> {
    pub(super) fn new(client: R) -> Self {
        let (running, done, turn) = (HashMap::new(), Rc::default(), Vec::new());
        Self { client, tasks: LocalSet::new(), running, done, turn }
    }
}

impl<R: Respond<Future: 'static>> Session for Tasks<R> {
    fn submit(&mut self, request: &Request<'_>, token: Token, _: &mut dyn Completions) {
        let (future, done) = (self.client.respond(request), Rc::clone(&self.done));
        let task = self.tasks.spawn_local(async move {
            let result = future.await;
            done.borrow_mut().push((token, result));
        });
        self.running.insert(token, task.abort_handle());
    }

    fn flush(&mut self) {
        // Tasks run until they wait, so most requests are on their way. What is left is run by the next poll, which always
        // comes.
        let _ = Pin::new(&mut self.tasks).poll(&mut Context::from_waker(Waker::noop()));
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        let _ = Pin::new(&mut self.tasks).poll(cx);
        std::mem::swap(&mut self.turn, &mut *self.done.borrow_mut());
        for (token, result) in self.turn.drain(..) {
            if self.running.remove(&token).is_some() {
                out.complete(token, result.as_ref().map(OwnedReply::as_reply).map_err(OpError::clone));
            }
        }
        if self.running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn abandon(&mut self, token: Token) {
        if let Some(task) = self.running.remove(&token) {
            task.abort();
            // It may have ended already. The token may be used again.
            self.done.borrow_mut().retain(|(ended, _)| *ended != token);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use storebench_engine::store::{CollectionId, Op, Reply};

    use super::*;

    const REQUEST: Request<'static> =
        Request { collection: CollectionId(0), op: Op::Read { key: "a" }, contents: true };

    /// As a worker of the engine runs it.
    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(tokio::task::unconstrained(work))
    }

    #[test]
    fn a_call_that_is_repeated_at_once_leaves_the_others_their_turn() {
        run(async {
            let (closed, out_of_use) = (Arc::new(AtomicBool::new(true)), Arc::new(tokio::sync::Mutex::new(())));
            let noticed = Arc::clone(&closed);
            tokio::spawn(async move { noticed.store(false, Ordering::Relaxed) });
            let mut session = Tasks::new(|_: &Request<'_>| {
                let (closed, connection) = (Arc::clone(&closed), Arc::clone(&out_of_use));
                async move {
                    while closed.load(Ordering::Relaxed) {
                        drop(connection.lock().await);
                    }
                    Err(OpError::not_found())
                }
            });
            let mut seen = 0;
            let mut out = |_: Token, result: Result<Reply<'_>, OpError>| {
                assert_eq!(result.unwrap_err(), OpError::not_found());
                seen += 1;
            };
            session.submit(&REQUEST, Token(1), &mut out);
            session.flush();
            std::future::poll_fn(|cx| session.poll(cx, &mut out)).await;
            assert_eq!(seen, 1);
        });
    }

    #[test]
    fn what_is_abandoned_is_dropped_and_its_token_is_free_for_another() {
        run(async {
            let held = Rc::new(());
            let mut session = Tasks::new(|request: &Request<'_>| {
                let (held, waits) = (Rc::clone(&held), matches!(request.op, Op::Exists { .. }));
                async move {
                    if waits {
                        std::future::pending::<()>().await;
                    }
                    drop(held);
                    Ok(OwnedReply::documents(1))
                }
            });
            let mut seen = Vec::new();
            let mut out =
                |token: Token, result: Result<Reply<'_>, OpError>| seen.push((token, result.unwrap().documents));
            session.submit(&Request { op: Op::Exists { key: "a" }, ..REQUEST }, Token(7), &mut out);
            session.submit(&REQUEST, Token(8), &mut out);
            session.flush();
            // One waits, and one has ended without having been handed over.
            session.abandon(Token(7));
            session.abandon(Token(8));
            session.submit(&REQUEST, Token(8), &mut out);
            std::future::poll_fn(|cx| session.poll(cx, &mut out)).await;
            assert_eq!(Rc::strong_count(&held), 1, "all were dropped");
            assert_eq!(seen, [(Token(8), 1)]);
        });
    }
}
