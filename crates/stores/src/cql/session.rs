//! A session: its connections, its statements, and requests that outlive their submission.

use std::cell::Cell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_util::future::{try_join, try_join_all};
use scylla::frame::types::Consistency;
use scylla::statement::prepared::PreparedStatement;
use storebench_engine::store::{
    BatchBuf, Completions, FutureSession, Op, OpError, OpKind, OwnedReply, Request, Respond, Session, SessionCounters,
    StoreError, Token,
};

use super::link::Link;
use super::read_only;
use super::settings::Settings;
use super::table::{Table, Verb};

/// A collection and its statements.
pub(super) struct Target {
    pub(super) table: Table,
    statements: HashMap<Verb, PreparedStatement>,
    pub(super) pages: HashMap<String, PreparedStatement>,
}

impl Target {
    /// A statement for one document, if the session can have it.
    pub(super) fn statement(&self, kind: OpKind, expires: bool) -> Option<&PreparedStatement> {
        self.statements.get(&(kind, expires))
    }
}

/// What all operations of a session share.
pub(super) struct Shared {
    pub(super) link: Link,
    pub(super) targets: Vec<Target>,
    pub(super) read_only: bool,
    pub(super) all_lwt: bool,
    /// Whether an operation has succeeded since the last loss.
    pub(super) connected: Cell<bool>,
    pub(super) disconnects: Cell<u64>,
}

/// A session. Its connections end with it.
pub(crate) struct CqlSession {
    operations: FutureSession<Client>,
    shared: Rc<Shared>,
}

pub(crate) struct Client(Rc<Shared>);

impl CqlSession {
    /// Prepares the statements, reads at one level and writes at another.
    pub(super) async fn new(
        link: Link,
        settings: &Settings,
        tables: &[Table],
        (reads, writes): (Consistency, Consistency),
    ) -> Result<Self, StoreError> {
        let prepare = async |cql: String, level: Consistency| {
            let mut statement = link.prepare(&cql).await?;
            statement.set_consistency(settings.level(level));
            Ok::<_, StoreError>(statement)
        };
        // All at once: there are many, and a server takes some time for each.
        let targets = try_join_all(tables.iter().map(async |table| {
            let statements = table.statements(settings.all_lwt).into_iter().map(async |(verb, cql)| {
                Ok::<_, StoreError>((verb, prepare(cql, if verb.0.writes() { writes } else { reads }).await?))
            });
            let pages = table
                .fields
                .iter()
                .map(async |field| Ok::<_, StoreError>((field.clone(), prepare(table.page(field), reads).await?)));
            let (statements, pages) = try_join(try_join_all(statements), try_join_all(pages)).await?;
            let (statements, pages) = (statements.into_iter().collect(), pages.into_iter().collect());
            Ok::<_, StoreError>(Target { table: table.clone(), statements, pages })
        }))
        .await?;
        let shared = Rc::new(Shared {
            link,
            targets,
            read_only: read_only(tables),
            all_lwt: settings.all_lwt,
            connected: Cell::new(true),
            disconnects: Cell::new(0),
        });
        Ok(Self { operations: FutureSession::new(Client(Rc::clone(&shared))), shared })
    }
}

impl Session for CqlSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        self.operations.submit(request, token, out);
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        self.operations.poll(cx, out)
    }

    fn abandon(&mut self, token: Token) {
        self.operations.abandon(token);
    }

    fn counters(&self) -> SessionCounters {
        SessionCounters { disconnects: self.shared.disconnects.get(), ..SessionCounters::default() }
    }
}

impl Respond for Client {
    type Future = Pin<Box<dyn Future<Output = Result<OwnedReply, OpError>>>>;

    fn respond(&mut self, request: &Request<'_>) -> Self::Future {
        let (shared, collection, contents) = (Rc::clone(&self.0), request.collection, request.contents);
        // Copies what the request lends, and gives the operation the copies.
        macro_rules! keep {
            ($op:expr; $($lent:ident),*) => {{
                $(let $lent = $lent.to_owned();)*
                Box::pin(async move {
                    $(let $lent = &*$lent;)*
                    shared.start(&Request { collection, op: $op, contents }).await
                })
            }};
        }
        macro_rules! keep_batch {
            ($batch:ident => $op:expr) => {{
                let mut kept = BatchBuf::new();
                $batch.iter().for_each(|(key, body)| kept.push(key, body));
                Box::pin(async move {
                    let $batch = kept.as_batch();
                    shared.start(&Request { collection, op: $op, contents }).await
                })
            }};
        }
        match request.op {
            Op::Insert { key, body } => keep!(Op::Insert { key, body }; key, body),
            Op::Upsert { key, body } => keep!(Op::Upsert { key, body }; key, body),
            Op::Replace { key, body } => keep!(Op::Replace { key, body }; key, body),
            Op::Append { key, bytes } => keep!(Op::Append { key, bytes }; key, bytes),
            Op::Prepend { key, bytes } => keep!(Op::Prepend { key, bytes }; key, bytes),
            Op::MergePatch { key, patch } => keep!(Op::MergePatch { key, patch }; key, patch),
            Op::Read { key } => keep!(Op::Read { key }; key),
            Op::Exists { key } => keep!(Op::Exists { key }; key),
            Op::Delete { key } => keep!(Op::Delete { key }; key),
            Op::Touch { key, expiry } => keep!(Op::Touch { key, expiry }; key),
            Op::Counter { key, delta, initial } => keep!(Op::Counter { key, delta, initial }; key),
            Op::CompareAndSwap { key, expected, body } => {
                keep!(Op::CompareAndSwap { key, expected, body }; key, expected, body)
            }
            Op::Page { field, value, limit } => keep!(Op::Page { field, value, limit }; field, value),
            Op::BulkWrite { kind, items } => keep_batch!(items => Op::BulkWrite { kind, items }),
            Op::BulkRead { keys } => keep_batch!(keys => Op::BulkRead { keys }),
            Op::BulkDelete { keys } => keep_batch!(keys => Op::BulkDelete { keys }),
            Op::Prefix { .. } | Op::Scan { .. } | Op::View { .. } | Op::Query { .. } | Op::Transaction { .. } => {
                Box::pin(std::future::ready(Err(OpError::unsupported())))
            }
        }
    }
}
