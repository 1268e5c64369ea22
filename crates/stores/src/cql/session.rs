//! A session: its connections, its statements, and requests that outlive their submission.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;

use futures_util::future::{try_join, try_join_all};
use scylla::frame::types::Consistency;
use scylla::statement::prepared::PreparedStatement;
use storebench_engine::store::{
    BatchBuf, FutureSession, Op, OpError, OpKind, OwnedReply, Request, Respond, SessionCounters, StoreError,
};

use super::link::Link;
use super::settings::Settings;
use super::study_queries::Prepared;
use super::table::{Table, Verb};

/// A collection and its statements.
pub(super) struct Target {
    pub(super) table: Table,
    /// For one document: those that the session can have.
    pub(super) statements: HashMap<Verb, PreparedStatement>,
    pub(super) pages: HashMap<String, PreparedStatement>,
    /// Queries of the study, by their numbers.
    pub(super) queries: RefCell<HashMap<u16, Rc<Prepared>>>,
}

/// What all operations of a session share.
pub(super) struct Shared {
    pub(super) link: Link,
    pub(super) targets: Vec<Target>,
    pub(super) read_only: bool,
    pub(super) all_lwt: bool,
    /// The level of reads.
    pub(super) reads: Consistency,
    /// Whether an operation has succeeded since the last loss.
    pub(super) connected: Cell<bool>,
    pub(super) disconnects: Cell<u64>,
}

/// Begins operations.
pub(crate) struct Client(Rc<Shared>);

/// A session. Its connections end with it.
pub(crate) type CqlSession = FutureSession<Client>;

/// Opens a session: prepares the statements, reads at one level and writes at another.
pub(super) async fn open(
    link: Link,
    settings: &Settings,
    tables: &[Table],
    (reads, writes): (Consistency, Consistency),
) -> Result<CqlSession, StoreError> {
    let prepare = async |cql: String, level: Consistency| {
        let mut statement = link.prepare(&cql).await?;
        statement.set_consistency(settings.level(level));
        Ok::<_, StoreError>(statement)
    };
    // All at once: there are many, and a server takes some time for each.
    let targets = try_join_all(tables.iter().map(async |table| {
        let statements = table.statements(settings.all_lwt).into_iter().map(async |(verb, cql)| {
            let level = match verb {
                // Of what a lightweight transaction will compare, the last one that was decided.
                (OpKind::Read, true) => settings.serial_reads(),
                (kind, _) if kind.writes() => writes,
                _ => reads,
            };
            Ok::<_, StoreError>((verb, prepare(cql, level).await?))
        });
        let pages = table
            .fields
            .iter()
            .map(async |field| Ok::<_, StoreError>((field.clone(), prepare(table.page(field), reads).await?)));
        let (statements, pages) = try_join(try_join_all(statements), try_join_all(pages)).await?;
        let (statements, pages) = (statements.into_iter().collect(), pages.into_iter().collect());
        Ok::<_, StoreError>(Target { table: table.clone(), statements, pages, queries: RefCell::default() })
    }))
    .await?;
    let shared = Rc::new(Shared {
        link,
        targets,
        read_only: tables.iter().all(|table| table.read_only),
        all_lwt: settings.all_lwt,
        reads: settings.level(reads),
        connected: Cell::new(true),
        disconnects: Cell::new(0),
    });
    Ok(FutureSession::new(Client(shared)))
}

impl Respond for Client {
    type Future = Pin<Box<dyn Future<Output = Result<OwnedReply, OpError>>>>;

    fn respond(&mut self, request: &Request<'_>) -> Self::Future {
        // The operation's own copy of what the request lends: a message, and the batch, which no message has.
        let (shared, message, mut batch) =
            (Rc::clone(&self.0), postcard::to_extend(request, Vec::new()), BatchBuf::new());
        if let Op::BulkWrite { items, .. }
        | Op::BulkDelete { keys: items }
        | Op::BulkRead { keys: items }
        | Op::Query { values: items, .. } = request.op
        {
            items.iter().for_each(|(key, body)| batch.push(key, body));
        }
        Box::pin(async move {
            let message = message.map_err(|_| OpError::unsupported())?;
            let request: Request<'_> = postcard::from_bytes(&message).map_err(|_| OpError::unsupported())?;
            shared.start(&request, batch.as_batch()).await
        })
    }

    fn counters(&self) -> SessionCounters {
        SessionCounters { disconnects: self.0.disconnects.get(), ..SessionCounters::default() }
    }
}
