//! A session: as many connections as operations may be in flight, because the protocol answers one request at a time on
//! each. The session reconnects those that were lost.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{LocalBoxFuture, try_join_all};
use futures_util::stream::FuturesUnordered;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Statement};
use storebench_engine::store::{
    Completions, Durability, ErrorKind, FutureSession, OpError, OwnedReply, ReadConsistency, Request, Respond, Session,
    SessionCounters, SessionOptions, StoreError, Token,
};

use super::durability::Facts;
use super::errors::Fault;
use super::job::{self, Client};
use super::login::Target;
use super::sql::{Table, Text};
use crate::net::{Backoff, not_connected};

/// The most statements that a connection keeps prepared.
const PREPARED: usize = 100;

/// How connections of a session are made.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) target: Target,
    /// `None` for a session that only reads.
    pub(super) durability: Option<Durability>,
    pub(super) consistency: ReadConsistency,
    pub(super) timeout: Duration,
}

impl Setup {
    /// Logs in. `again`: the server may have been started anew, with settings that give less.
    async fn connect(&self, again: bool) -> Result<Connection, StoreError> {
        let first = if self.durability.is_none() { "SET SESSION TRANSACTION READ ONLY" } else { "" };
        let mut conn = self.target.login(first, self.timeout.max(Duration::from_secs(1))).await?;
        if again {
            let facts = Facts::ask(&self.target, &mut conn).await?;
            facts.guarantee(&self.target.place(), self.durability, self.consistency)?;
        }
        Ok(Connection { conn, prepared: HashMap::new() })
    }
}

/// A connection and its prepared statements.
pub(super) struct Connection {
    pub(super) conn: Conn,
    prepared: HashMap<(u16, Text), Statement>,
}

impl Connection {
    /// A statement on a collection, prepared at its first use. `sql` gives its text.
    pub(super) async fn prepared(
        &mut self,
        collection: u16,
        text: Text,
        sql: impl FnOnce(&Text) -> Result<String, OpError>,
    ) -> Result<Statement, Fault> {
        let key = (collection, text);
        if let Some(statement) = self.prepared.get(&key) {
            return Ok(statement.clone());
        }
        if self.prepared.len() >= PREPARED {
            for (_, statement) in std::mem::take(&mut self.prepared) {
                self.conn.close(statement).await?;
            }
        }
        let statement = self.conn.prep(sql(&key.1)?).await?;
        self.prepared.insert(key, statement.clone());
        Ok(statement)
    }
}

/// The connections of a session.
#[derive(Default)]
pub(super) struct Pool {
    idle: Vec<Connection>,
    /// Connections that operations have.
    busy: usize,
    /// Operations that wait for a connection.
    waiting: Vec<Waker>,
    /// Connections that were lost and are not being replaced yet.
    missing: usize,
    /// Connections that are being replaced, where no try has failed yet.
    hopeful: usize,
    /// What the server lacks since it was started again.
    lacking: Option<String>,
    pub(super) counters: SessionCounters,
}

impl Pool {
    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

/// A connection that an operation has. If the operation is dropped before its answer, the connection is replaced.
pub(super) struct Held<'p> {
    pool: &'p RefCell<Pool>,
    connection: Option<Connection>,
}

impl<'p> Held<'p> {
    /// Waits for a connection, if there may be one soon.
    pub(super) async fn take(pool: &'p RefCell<Pool>) -> Result<Self, OpError> {
        let connection = poll_fn(|cx| {
            let mut within = pool.borrow_mut();
            if let Some(connection) = within.idle.pop() {
                within.busy += 1;
                return Poll::Ready(Ok(connection));
            }
            if within.busy + within.hopeful + within.missing == 0 {
                let lacks = |why: &String| OpError::new(ErrorKind::Failed, why.clone());
                return Poll::Ready(Err(within.lacking.as_ref().map_or(not_connected(), lacks)));
            }
            within.waiting.push(cx.waker().clone());
            Poll::Pending
        });
        Ok(Self { pool, connection: Some(connection.await?) })
    }

    pub(super) fn connection(&mut self) -> Result<&mut Connection, OpError> {
        self.connection.as_mut().ok_or(not_connected())
    }

    /// Gives it back, unless it broke.
    pub(super) fn give_back(mut self, broke: bool) {
        if broke {
            self.pool.borrow_mut().counters.disconnects += 1;
        } else if let Some(connection) = self.connection.take() {
            let mut pool = self.pool.borrow_mut();
            pool.busy -= 1;
            pool.idle.push(connection);
            pool.wake();
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.connection.is_some() {
            let mut pool = self.pool.borrow_mut();
            pool.busy -= 1;
            pool.missing += 1;
        }
    }
}

/// Begins operations.
pub(super) struct Responder(Rc<Client>);

impl Respond for Responder {
    type Future = Pin<Box<dyn Future<Output = Result<OwnedReply, OpError>>>>;

    fn respond(&mut self, request: &Request<'_>) -> Self::Future {
        let client = Rc::clone(&self.0);
        match client.job(request) {
            Ok(job) => Box::pin(async move { job::run(&client, job).await }),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// A try to replace a connection: how often it has failed, and what came of it.
type Coming = LocalBoxFuture<'static, (Backoff, Result<Connection, StoreError>)>;

pub(crate) struct MysqlSession {
    operations: FutureSession<Responder>,
    client: Rc<Client>,
    setup: Rc<Setup>,
    coming: FuturesUnordered<Coming>,
}

impl MysqlSession {
    /// Opens the connections. `facts` are those of the server now.
    pub(super) async fn open(
        setup: Setup,
        facts: &Facts,
        tables: &Arc<Vec<Table>>,
        options: &SessionOptions,
    ) -> Result<Self, StoreError> {
        facts.guarantee(&setup.target.place(), setup.durability, setup.consistency)?;
        let connections = options.in_flight.max(1) as usize;
        let mut idle = Vec::with_capacity(connections);
        // In batches, because a server's accept queue is short.
        while idle.len() < connections {
            let together = (connections - idle.len()).min(32);
            idle.extend(try_join_all((0..together).map(|_| setup.connect(false))).await?);
        }
        let pool = RefCell::new(Pool { idle, ..Pool::default() });
        let client = Rc::new(Client::new(Arc::clone(tables), facts, pool));
        let operations = FutureSession::new(Responder(Rc::clone(&client)));
        Ok(Self { operations, client, setup: Rc::new(setup), coming: FuturesUnordered::new() })
    }

    /// Begins to replace lost connections, and takes those that were replaced.
    fn reconnect(&mut self, cx: &mut Context<'_>) {
        loop {
            let missing = std::mem::take(&mut self.client.pool.borrow_mut().missing);
            for _ in 0..missing {
                self.coming.push(coming(&self.setup, Backoff::default(), None));
            }
            self.client.pool.borrow_mut().hopeful += missing;
            let Poll::Ready(Some((mut backoff, made))) = self.coming.poll_next_unpin(cx) else { return };
            let mut pool = self.client.pool.borrow_mut();
            if backoff.is_reset() {
                pool.hopeful -= 1;
            }
            match made {
                Ok(connection) => {
                    pool.lacking = None;
                    pool.idle.push(connection);
                }
                Err(error) => {
                    pool.lacking = if let StoreError::NotSupported(why) = error { Some(why) } else { None };
                    let wait = backoff.next_wait();
                    self.coming.push(coming(&self.setup, backoff, Some(wait)));
                }
            }
            pool.wake();
        }
    }
}

fn coming(setup: &Rc<Setup>, backoff: Backoff, wait: Option<Duration>) -> Coming {
    let setup = Rc::clone(setup);
    Box::pin(async move {
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        (backoff, setup.connect(true).await)
    })
}

impl Session for MysqlSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        self.operations.submit(request, token, out);
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        self.reconnect(cx);
        let polled = self.operations.poll(cx, out);
        // What this turn lost.
        self.reconnect(cx);
        polled
    }

    fn counters(&self) -> SessionCounters {
        self.client.pool.borrow().counters
    }

    fn abandon(&mut self, token: Token) {
        self.operations.abandon(token);
    }
}
