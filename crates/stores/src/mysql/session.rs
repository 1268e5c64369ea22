//! A session: as many connections as operations may be in flight, because the protocol answers one request at a time on
//! each. An operation that finds one missing makes it again.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use mysql_async::prelude::Queryable;
use mysql_async::{Column, Conn, Params, Row, Statement, Value};
use storebench_engine::store::{
    Durability, ErrorKind, FutureSession, OpError, OwnedReply, ReadConsistency, Request, Respond, SessionCounters,
    StoreError,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::durability::Facts;
use super::errors::Fault;
use super::job::{self, Client};
use super::login::{READ_ONLY, Target};
use super::sql::{Table, Text};
use crate::net::{Backoff, not_connected};

/// The most statements that a connection keeps prepared.
const PREPARED: usize = 100;

/// How connections of a session are made.
pub(super) struct Setup {
    pub(super) target: Target,
    /// `None` for a session that only reads.
    pub(super) durability: Option<Durability>,
    pub(super) consistency: ReadConsistency,
    pub(super) timeout: Duration,
    /// Whether the server ends a statement after that time. It does not notice that its connection is gone.
    pub(super) limits: bool,
}

impl Setup {
    async fn connect(&self, within: Duration) -> Result<Connection, StoreError> {
        let mut first = if self.durability.is_none() { READ_ONLY } else { "SET SESSION autocommit = 1" }.to_owned();
        if self.limits {
            // MariaDB reads the first comment, MySQL the second. Both statements above end with a SET.
            let most = self.timeout.max(Duration::from_secs(1));
            let (s, ms) = (most.as_secs_f64(), most.as_millis());
            first += &format!(" /*M! , max_statement_time = {s} */ /*!50708 , max_execution_time = {ms} */");
        }
        let conn = self.target.login(&first, within).await?;
        Ok(Connection { conn, prepared: HashMap::new() })
    }

    /// Logs in to a server that may have been started again, with settings that give less. Gives up before the operation
    /// that waits for it.
    async fn connect_again(&self) -> Result<Connection, StoreError> {
        let mut connection = self.connect(self.timeout / 2).await?;
        let facts = Facts::ask(&self.target, &mut connection.conn, self.timeout / 2).await?;
        facts.guarantee(&self.target.place(), self.durability, self.consistency)?;
        Ok(connection)
    }
}

/// A connection and its prepared statements.
pub(super) struct Connection {
    pub(super) conn: Conn,
    prepared: HashMap<(u16, Text), Statement>,
}

/// What a statement has done and found.
pub(super) struct Done {
    pub(super) affected: u64,
    pub(super) last_id: Option<u64>,
    pub(super) columns: Option<Arc<[Column]>>,
    pub(super) rows: Vec<Row>,
}

impl Connection {
    /// Executes a statement on a collection, prepared at its first use. `sql` gives its text.
    pub(super) async fn execute(
        &mut self,
        collection: u16,
        text: Text,
        sql: impl FnOnce(&Text) -> Result<String, OpError>,
        values: Vec<Value>,
    ) -> Result<Done, Fault> {
        let key = (collection, text);
        let statement = match self.prepared.get(&key) {
            Some(statement) => statement.clone(),
            None => {
                if self.prepared.len() >= PREPARED {
                    for (_, statement) in std::mem::take(&mut self.prepared) {
                        self.conn.close(statement).await?;
                    }
                }
                let statement = self.conn.prep(sql(&key.1)?).await?;
                self.prepared.insert(key, statement.clone());
                statement
            }
        };
        let result = self.conn.exec_iter(statement, Params::Positional(values)).await?;
        let (affected, last_id, columns) = (result.affected_rows(), result.last_insert_id(), result.columns());
        Ok(Done { affected, last_id, columns, rows: result.collect_and_drop().await? })
    }
}

/// The connections of a session.
pub(super) struct Pool {
    setup: Setup,
    /// One permit for each connection that is idle or missing.
    permits: Semaphore,
    idle: RefCell<Vec<Connection>>,
    backoff: RefCell<Backoff>,
    /// When connecting failed last, until when it is not tried again, and the error meanwhile.
    failed: RefCell<Option<(Instant, Instant, OpError)>>,
    counters: Cell<SessionCounters>,
}

impl Pool {
    /// Waits for a connection. If its operation is dropped before the answer, it is closed.
    pub(super) async fn take(&self) -> Result<(SemaphorePermit<'_>, Connection), OpError> {
        let permit = self.permits.acquire().await.map_err(|_| not_connected())?;
        let idle = self.idle.borrow_mut().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect_again().await?,
        };
        Ok((permit, connection))
    }

    async fn connect_again(&self) -> Result<Connection, OpError> {
        let begun = Instant::now();
        if let Some((.., error)) = self.failed.borrow().as_ref().filter(|(_, until, _)| begun < *until) {
            return Err(error.clone());
        }
        let made = self.setup.connect_again().await;
        let (mut failed, mut backoff) = (self.failed.borrow_mut(), self.backoff.borrow_mut());
        made.inspect(|_| {
            *failed = None;
            backoff.reset();
        })
        .map_err(|error| {
            let error = match error {
                StoreError::NotSupported(lacks) => OpError::new(ErrorKind::Failed, lacks),
                _ => not_connected(),
            };
            // Those that were tried at the same time count as one.
            if failed.as_ref().is_none_or(|(last, ..)| *last < begun) {
                let now = Instant::now();
                *failed = Some((now, now + backoff.next_wait(), error.clone()));
            }
            error
        })
    }

    /// Takes a connection back, unless it broke.
    pub(super) fn give_back(&self, connection: Connection, broke: bool) {
        if broke {
            self.count(|counters| counters.disconnects += 1);
        } else {
            self.idle.borrow_mut().push(connection);
        }
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut SessionCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

/// Begins operations.
pub(crate) struct Responder(Rc<Client>);

impl Respond for Responder {
    type Future = Pin<Box<dyn Future<Output = Result<OwnedReply, OpError>>>>;

    fn respond(&mut self, request: &Request<'_>) -> Self::Future {
        let client = Rc::clone(&self.0);
        match client.job(request) {
            Ok(job) => Box::pin(async move { job::run(&client, job).await }),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn counters(&self) -> SessionCounters {
        self.0.pool.counters.get()
    }
}

pub(crate) type MysqlSession = FutureSession<Responder>;

/// Opens a session. `facts` are those of the server now.
pub(super) async fn open(
    setup: Setup,
    facts: &Facts,
    tables: Arc<Vec<Table>>,
    in_flight: u32,
) -> Result<MysqlSession, StoreError> {
    facts.guarantee(&setup.target.place(), setup.durability, setup.consistency)?;
    let connections = in_flight.max(1) as usize;
    let mut idle = Vec::with_capacity(connections);
    // In batches, because a server's accept queue is short.
    while idle.len() < connections {
        let together = (connections - idle.len()).min(32);
        // Many connections at once may take longer than an operation may.
        let within = setup.timeout.max(Duration::from_secs(1));
        idle.extend(try_join_all((0..together).map(|_| setup.connect(within))).await?);
    }
    let pool = Pool {
        setup,
        permits: Semaphore::new(connections),
        idle: RefCell::new(idle),
        backoff: RefCell::default(),
        failed: RefCell::default(),
        counters: Cell::default(),
    };
    Ok(FutureSession::new(Responder(Rc::new(Client::new(tables, facts, pool)))))
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;
    use crate::net::Address;

    #[test]
    fn connections_that_fail_together_count_as_one_failure() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("mysql://127.0.0.1:{port}/d");
        let mut options = crate::registry::Options::for_test("");
        let (address, _) = Address::of_database(&url, &url, 3306, false, &mut options).unwrap();
        let target = Target { address, user: "u".into(), database: "d".into() };
        let timeout = Duration::from_secs(60);
        let setup = Setup { target, durability: None, consistency: ReadConsistency::Strong, timeout, limits: false };
        let pool = Pool {
            setup,
            permits: Semaphore::new(64),
            idle: RefCell::default(),
            backoff: RefCell::default(),
            failed: RefCell::default(),
            counters: Cell::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let made = runtime.block_on(join_all((0..64).map(|_| pool.take())));
        assert!(made.iter().all(Result::is_err));
        // The second wait is at most 20 ms.
        let wait = pool.backoff.borrow_mut().next_wait();
        assert!(wait <= Duration::from_millis(20), "{wait:?}");
    }
}
