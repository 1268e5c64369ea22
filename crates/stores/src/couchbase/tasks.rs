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
use std::task::{Context, Waker};

use storebench_engine::store::Token;
use tokio::task::{AbortHandle, LocalSet};

/// The tasks of a session, each with the token of its operation.
pub(super) struct Tasks<T> {
    tasks: LocalSet,
    running: HashMap<Token, AbortHandle>,
    /// What has ended and was not handed over.
    done: Rc<RefCell<Vec<(Token, T)>>>,
    /// Whether an abandoned task remains to be dropped, which the set does when it is polled.
    aborted: bool,
}

impl<T: 'static> Tasks<T> {
    pub(super) fn new() -> Self {
        Self { tasks: LocalSet::new(), running: HashMap::new(), done: Rc::default(), aborted: false }
    }

    pub(super) fn start(&mut self, token: Token, future: impl Future<Output = T> + 'static) {
        let done = Rc::clone(&self.done);
        let task = self.tasks.spawn_local(async move {
            let result = future.await;
            done.borrow_mut().push((token, result));
        });
        self.running.insert(token, task.abort_handle());
    }

    pub(super) fn flush(&mut self) {
        // Tasks run until they wait, so most requests are on their way. What is left is run by the next poll, which always
        // comes.
        if !self.running.is_empty() {
            let _ = Pin::new(&mut self.tasks).poll(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Lets the tasks go on. Hands over what has ended.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Vec<(Token, T)> {
        if self.running.is_empty() && !std::mem::take(&mut self.aborted) {
            return Vec::new();
        }
        let _ = Pin::new(&mut self.tasks).poll(cx);
        let mut ended = self.done.take();
        ended.retain(|(token, _)| self.running.remove(token).is_some());
        ended
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn abandon(&mut self, token: Token) {
        if let Some(task) = self.running.remove(&token) {
            task.abort();
            self.aborted = true;
            // It may have ended already. The token may be used again.
            self.done.borrow_mut().retain(|(ended, _)| *ended != token);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Poll;

    use super::*;

    /// As a worker of the engine runs it.
    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(tokio::task::unconstrained(work))
    }

    /// What has ended when no task runs any more.
    async fn all<T: 'static>(tasks: &mut Tasks<T>) -> Vec<(Token, T)> {
        let mut seen = Vec::new();
        std::future::poll_fn(|cx| {
            seen.extend(tasks.poll(cx));
            if tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        seen
    }

    #[test]
    fn a_call_that_is_repeated_at_once_leaves_the_others_their_turn() {
        run(async {
            let (closed, connection) = (Arc::new(AtomicBool::new(true)), Arc::new(tokio::sync::Mutex::new(())));
            let noticed = Arc::clone(&closed);
            tokio::spawn(async move { noticed.store(false, Ordering::Relaxed) });
            let mut tasks = Tasks::new();
            tasks.start(Token(1), async move {
                while closed.load(Ordering::Relaxed) {
                    drop(connection.lock().await);
                }
                "ended"
            });
            tasks.flush();
            assert_eq!(all(&mut tasks).await, [(Token(1), "ended")]);
        });
    }

    #[test]
    fn what_is_abandoned_is_dropped_and_its_token_is_free_for_another() {
        run(async {
            let held = Rc::new(());
            let mut tasks = Tasks::new();
            let start = |tasks: &mut Tasks<u8>, token, number, waits: bool| {
                let held = Rc::clone(&held);
                tasks.start(token, async move {
                    if waits {
                        std::future::pending::<()>().await;
                    }
                    drop(held);
                    number
                });
            };
            start(&mut tasks, Token(7), 1, true);
            start(&mut tasks, Token(8), 2, false);
            tasks.flush();
            // One waits, and one has ended without having been handed over.
            tasks.abandon(Token(7));
            tasks.abandon(Token(8));
            assert!(all(&mut tasks).await.is_empty());
            assert_eq!(Rc::strong_count(&held), 1, "all were dropped");
            start(&mut tasks, Token(8), 3, false);
            assert_eq!(all(&mut tasks).await, [(Token(8), 3)]);
        });
    }
}
