//! A session: its connections, its statements, and requests that outlive their submission.

use std::cell::Cell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use scylla::statement::prepared::PreparedStatement;
use storebench_engine::store::{
    BatchBuf, Completions, FutureSession, Op, OpError, OwnedReply, Request, Respond, Session, SessionCounters,
    StoreError, Token,
};

use super::Ready;
use super::errors::prepare_error;
use super::link::Link;
use super::settings::{Level, Settings};
use super::table::Table;

/// What a statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Verb {
    Read,
    ReadWithTtl,
    Exists,
    Upsert,
    InsertNew,
    Replace,
    Swap,
    SwapWithTtl,
    Delete,
}

/// A collection and its statements.
pub(super) struct Target {
    pub(super) table: Table,
    pub(super) statements: HashMap<Verb, PreparedStatement>,
    pub(super) pages: HashMap<String, PreparedStatement>,
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
        ready: &Ready,
        (reads, writes): (Level, Level),
    ) -> Result<Self, StoreError> {
        let mut targets = Vec::new();
        let prepare = async |cql: String, level: Level| {
            let mut statement = link.session.prepare(cql).await.map_err(|error| prepare_error(&link.place, error))?;
            statement.set_consistency(settings.level(level));
            Ok::<_, StoreError>(statement)
        };
        for table in ready.tables.iter() {
            let mut texts = vec![(Verb::Read, table.read()), (Verb::Exists, table.exists())];
            if !table.read_only && !ready.read_only {
                texts.extend([
                    (Verb::ReadWithTtl, table.read_with_ttl()),
                    (Verb::Upsert, table.upsert(settings.all_lwt)),
                    (Verb::InsertNew, table.insert_new()),
                    (Verb::Replace, table.replace()),
                    (Verb::Swap, table.swap(false)),
                    (Verb::SwapWithTtl, table.swap(true)),
                    (Verb::Delete, table.delete()),
                ]);
            }
            let (mut statements, mut pages) = (HashMap::new(), HashMap::new());
            for (verb, text) in texts {
                let reads_only = matches!(verb, Verb::Read | Verb::ReadWithTtl | Verb::Exists);
                statements.insert(verb, prepare(text, if reads_only { reads } else { writes }).await?);
            }
            for field in &table.fields {
                pages.insert(field.clone(), prepare(table.page(field), reads).await?);
            }
            targets.push(Target { table: table.clone(), statements, pages });
        }
        let shared = Rc::new(Shared {
            link,
            targets,
            read_only: ready.read_only,
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

    fn flush(&mut self) {
        self.operations.flush();
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
