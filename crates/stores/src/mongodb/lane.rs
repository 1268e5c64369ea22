//! The connections of a session to one node, and the operations that wait for one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::try_join_all;
use storebench_core::store::{OpError, StoreError};

use super::finder::{Hello, Role};
use super::url::Target;
use super::wire::Connection;
use crate::net::{Backoff, not_connected};

/// Connections to one node, taken for an operation and given back. What breaks is made anew by one
/// task of its own, which lives only that long.
#[derive(Debug)]
pub(super) struct Lane {
    target: Arc<Target>,
    role: Role,
    timeout: Duration,
    state: Mutex<State>,
    disconnects: AtomicU64,
    pub(super) splits: AtomicU64,
    pub(super) limits: Hello,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Connection>,
    /// Connections that are idle or in use.
    live: usize,
    wanted: usize,
    /// Grows when all connections are to be given up.
    generation: u64,
    waiting: VecDeque<(u64, Waker)>,
    tickets: u64,
    mending: bool,
    buffers: Vec<Vec<u8>>,
}

/// A connection in use.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) connection: Connection,
    generation: u64,
}

impl Lane {
    /// Makes so many connections.
    ///
    /// # Errors
    /// Of the first that cannot be made.
    pub(super) async fn open(
        target: Arc<Target>,
        role: Role,
        wanted: usize,
        timeout: Duration,
    ) -> Result<Arc<Self>, StoreError> {
        // The first alone: it tells what is wrong once, and it salts the password for the others.
        let finder = &target.finder;
        let (first, limits) = finder.connect(role, timeout).await?;
        let others = try_join_all((1..wanted).map(|_| finder.connect(role, timeout))).await?;
        let mut idle = vec![first];
        idle.extend(others.into_iter().map(|(connection, _)| connection));
        let state = State { live: idle.len(), wanted: idle.len(), idle, ..State::default() };
        Ok(Arc::new(Self {
            target,
            role,
            timeout,
            state: Mutex::new(state),
            disconnects: AtomicU64::new(0),
            splits: AtomicU64::new(0),
            limits,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn disconnects(&self) -> u64 {
        self.disconnects.load(Ordering::Relaxed)
    }

    /// A buffer for a message; its memory has been used before.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.state().buffers.pop().unwrap_or_default()
    }

    pub(super) fn give_buffer_back(&self, buffer: Vec<u8>) {
        // One long message must not keep its memory for ever.
        const LARGE: usize = 4 << 20;
        if buffer.capacity() <= LARGE {
            self.state().buffers.push(buffer);
        }
    }

    /// Takes a connection, or waits for one; *temporary* where there is none to wait for.
    pub(super) fn poll_take(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        ticket: &mut Option<u64>,
    ) -> Poll<Result<Taken, OpError>> {
        let mut state = self.state();
        while let Some(connection) = state.idle.pop() {
            if connection.is_dead() {
                state.live -= 1;
                self.disconnects.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            state.leave(ticket);
            return Poll::Ready(Ok(Taken { connection, generation: state.generation }));
        }
        if state.live < state.wanted {
            self.mend(&mut state);
        }
        if state.live == 0 {
            state.leave(ticket);
            state.wake_all();
            return Poll::Ready(Err(not_connected()));
        }
        let number = *ticket.get_or_insert_with(|| {
            state.tickets += 1;
            state.tickets
        });
        match state.waiting.iter_mut().find(|(other, _)| *other == number) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => state.waiting.push_back((number, cx.waker().clone())),
        }
        Poll::Pending
    }

    /// Gives back a connection that is in order. `elsewhere`: its node no longer takes writes, so all
    /// connections are given up and the node that does is looked for.
    pub(super) fn give_back(self: &Arc<Self>, taken: Taken, elsewhere: bool) {
        let mut state = self.state();
        if elsewhere && taken.generation == state.generation {
            state.generation += 1;
            state.live -= state.idle.len();
            state.idle.clear();
        }
        if taken.generation == state.generation {
            state.idle.push(taken.connection);
            state.wake_one();
        } else {
            self.drop_one(&mut state);
        }
    }

    /// A connection broke while it was in use.
    pub(super) fn lost(self: &Arc<Self>) {
        self.disconnects.fetch_add(1, Ordering::Relaxed);
        self.drop_one(&mut self.state());
    }

    /// A connection was closed because its operation was given up.
    pub(super) fn given_up(self: &Arc<Self>) {
        self.drop_one(&mut self.state());
    }

    /// Somebody no longer waits.
    pub(super) fn leave(&self, ticket: Option<u64>) {
        let mut state = self.state();
        let waiting = state.waiting.len();
        state.leave(&mut ticket.clone());
        if ticket.is_some() && state.waiting.len() == waiting && !state.idle.is_empty() {
            // It had been woken for a connection that it does not take.
            state.wake_one();
        }
    }

    fn drop_one(self: &Arc<Self>, state: &mut State) {
        state.live -= 1;
        if state.live == 0 {
            state.wake_all();
        }
        self.mend(state);
    }

    fn mend(self: &Arc<Self>, state: &mut State) {
        // Dropped after the end of its runtime, a session mends nothing.
        if !state.mending
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            state.mending = true;
            runtime.spawn(mend(Arc::downgrade(self)));
        }
    }
}

impl State {
    fn wake_one(&mut self) {
        if let Some((_, waker)) = self.waiting.pop_front() {
            waker.wake();
        }
    }

    /// Where there is nothing left to wait for, each answers that there is no connection now.
    fn wake_all(&mut self) {
        for (_, waker) in self.waiting.drain(..) {
            waker.wake();
        }
    }

    fn leave(&mut self, ticket: &mut Option<u64>) {
        if let Some(number) = ticket.take()
            && let Some(place) = self.waiting.iter().position(|(other, _)| *other == number)
        {
            self.waiting.remove(place);
        }
    }
}

/// Makes connections until there are as many as wanted, or nobody wants any.
async fn mend(lane: Weak<Lane>) {
    let mut backoff = Backoff::new(lane.as_ptr() as usize as u64);
    loop {
        let Some(present) = lane.upgrade() else { return };
        let generation = {
            let mut state = present.state();
            if state.live >= state.wanted {
                state.mending = false;
                return;
            }
            state.generation
        };
        let (target, role, timeout) = (Arc::clone(&present.target), present.role, present.timeout);
        drop(present);
        let made = target.finder.connect(role, timeout).await;
        let Some(present) = lane.upgrade() else { return };
        match made {
            Ok((connection, _)) => {
                backoff.reset();
                let mut state = present.state();
                if generation == state.generation {
                    state.live += 1;
                    state.idle.push(connection);
                    state.wake_one();
                }
            }
            Err(_) => {
                drop(present);
                tokio::time::sleep(backoff.next_wait()).await;
            }
        }
    }
}
