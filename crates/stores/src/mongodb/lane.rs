//! The connections of a session to one node, and the operations that wait for one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use storebench_engine::store::StoreError;

use super::finder::{Hello, Role};
use super::url::Target;
use super::wire::Connection;
use crate::connection::{Link, again};

/// The answer that a connection waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited {
    /// The place of its operation.
    pub(super) place: usize,
    /// The number of its message.
    pub(super) request: u32,
}

/// One connection, with at most one operation.
pub(super) struct Line {
    pub(super) link: Link<Awaited>,
    /// Whether its node no longer accepts writes.
    stale: bool,
}

/// Connections to one node, each borrowed for an operation and returned. A broken connection reconnects by itself.
pub(super) struct Lane {
    pub(super) limits: Hello,
    pub(super) lines: Vec<Line>,
    /// Lines that are up and free. The most recently used one is taken first.
    pub(super) idle: Vec<usize>,
    /// Places of operations that wait for a line.
    pub(super) waiting: VecDeque<usize>,
    /// Lines with a message that has not been written yet.
    pub(super) dirty: Vec<usize>,
}

impl Lane {
    /// Opens `wanted` connections.
    ///
    /// # Errors
    /// The error of the first connection that cannot be made.
    pub(super) async fn open(
        target: &Arc<Target>,
        role: Role,
        wanted: usize,
        timeout: Duration,
    ) -> Result<Self, StoreError> {
        // The first one alone: a problem is reported once, and the password is salted for the others.
        let finder = &target.finder;
        let (first, limits) = finder.connect(role, timeout).await?;
        let others = try_join_all((1..wanted).map(|_| finder.connect(role, timeout))).await?;
        let line = |connection: Connection| {
            let again = again(Arc::clone(target), move |target| async move {
                Ok(target.finder.connect(role, timeout).await?.0.into_stream())
            });
            Line { link: Link::connected(connection.into_stream(), again, 1, timeout), stale: false }
        };
        let mut lines = vec![line(first)];
        lines.extend(others.into_iter().map(|(connection, _)| line(connection)));
        let idle = (0..lines.len()).rev().collect();
        Ok(Self { limits, lines, idle, waiting: VecDeque::new(), dirty: Vec::new() })
    }

    /// Writes the messages queued on its lines.
    pub(super) fn flush(&mut self) {
        while let Some(line) = self.dirty.pop() {
            self.lines[line].link.flush();
        }
    }

    /// Returns the line of an operation that has ended. `elsewhere`: its node no longer accepts writes, so all
    /// connections are replaced by ones to the node that does.
    pub(super) fn give_back(&mut self, line: usize, elsewhere: bool) {
        if elsewhere && !self.lines[line].stale {
            self.lines.iter_mut().for_each(|line| line.stale = true);
            for idle in std::mem::take(&mut self.idle) {
                self.replace(idle);
            }
        }
        match self.lines[line].stale {
            true => self.replace(line),
            false => self.idle.push(line),
        }
    }

    /// Takes back the line of an abandoned operation, whose answer may still arrive.
    pub(super) fn take_back(&mut self, line: usize) {
        self.dirty.retain(|dirty| *dirty != line);
        let sent = self.lines[line].link.pipe.lose().any(|(_, sent)| sent);
        match sent || self.lines[line].stale {
            true => self.replace(line),
            false => self.idle.push(line),
        }
    }

    /// Drops a line that is no longer up from the lists.
    pub(super) fn forget(&mut self, line: usize) {
        self.idle.retain(|idle| *idle != line);
        self.dirty.retain(|dirty| *dirty != line);
        self.lines[line].stale = false;
    }

    fn replace(&mut self, line: usize) {
        self.lines[line].stale = false;
        self.lines[line].link.replace();
    }
}
