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
pub(super) struct PooledConnection {
    pub(super) link: Link<Awaited>,
    /// Whether its node no longer accepts writes.
    stale: bool,
}

/// Connections to one node, each borrowed for an operation and returned. A broken connection reconnects by itself.
pub(super) struct NodeConnections {
    pub(super) limits: Hello,
    pub(super) connections: Vec<PooledConnection>,
    /// Connections that are up and free. The most recently used one is taken first.
    pub(super) idle: Vec<usize>,
    /// Places of operations that wait for a connection.
    pub(super) waiting: VecDeque<usize>,
    /// Connections with a message that has not been written yet.
    pub(super) dirty: Vec<usize>,
}

impl NodeConnections {
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
        let pooled = |connection: Connection| {
            let again = again(Arc::clone(target), move |target| async move {
                Ok(target.finder.connect(role, timeout).await?.0.into_stream())
            });
            PooledConnection { link: Link::connected(connection.into_stream(), again, 1, timeout), stale: false }
        };
        let mut connections = vec![pooled(first)];
        connections.extend(others.into_iter().map(|(connection, _)| pooled(connection)));
        let idle = (0..connections.len()).rev().collect();
        Ok(Self { limits, connections, idle, waiting: VecDeque::new(), dirty: Vec::new() })
    }

    /// Writes the messages queued on its connections.
    pub(super) fn flush(&mut self) {
        while let Some(connection) = self.dirty.pop() {
            self.connections[connection].link.flush();
        }
    }

    /// Returns the connection of an operation that has ended. `elsewhere`: its node no longer accepts writes, so all
    /// connections are replaced by ones to the node that does.
    pub(super) fn give_back(&mut self, connection: usize, elsewhere: bool) {
        if elsewhere && !self.connections[connection].stale {
            self.connections.iter_mut().for_each(|connection| connection.stale = true);
            for idle in std::mem::take(&mut self.idle) {
                self.replace(idle);
            }
        }
        match self.connections[connection].stale {
            true => self.replace(connection),
            false => self.idle.push(connection),
        }
    }

    /// Takes back the connection of an abandoned operation, whose answer may still arrive.
    pub(super) fn take_back(&mut self, connection: usize) {
        self.dirty.retain(|dirty| *dirty != connection);
        let sent = self.connections[connection].link.pipe.lose().any(|(_, sent)| sent);
        match sent || self.connections[connection].stale {
            true => self.replace(connection),
            false => self.idle.push(connection),
        }
    }

    /// Drops a connection that is no longer up from the lists.
    pub(super) fn forget(&mut self, connection: usize) {
        self.idle.retain(|idle| *idle != connection);
        self.dirty.retain(|dirty| *dirty != connection);
        self.connections[connection].stale = false;
    }

    fn replace(&mut self, connection: usize) {
        self.connections[connection].stale = false;
        self.connections[connection].link.replace();
    }
}
