//! A session driven from synchronous code, and psql as an independent check.

use std::future::poll_fn;
use std::process::Command;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use storebench_engine::RealClock;
use storebench_engine::store::{
    AnyStore, Batch, CollectionId, CollectionLayout, Durability, ErrorKind, Layout, Op, OpError, OwnedReply,
    PhaseStart, ReadConsistency, Reply, Request, Session, SessionCounters, SessionOptions, StoreError, Token,
};
use storebench_study::workload::Body;

use crate::server::Server;

/// A layout with one collection of JSON, indexed by `user`.
pub(super) fn layout(name: &str) -> Layout {
    Layout {
        collections: vec![CollectionLayout {
            name: name.into(),
            body: Body::Json,
            indexes: vec![vec!["user".into()]],
            existing: None,
            uses: storebench_engine::store::Uses::ALL,
        }],
    }
}

pub(super) fn options() -> SessionOptions {
    SessionOptions {
        durability: Durability::FSYNC,
        consistency: ReadConsistency::StaleOk,
        timeout: Duration::from_secs(10),
        in_flight: 16,
        clock: Arc::new(RealClock::new()),
        phase_start: PhaseStart::new(),
    }
}

pub(super) type Answer = (Token, Result<OwnedReply, OpError>);

/// A session on collection 0.
pub(super) struct Talk {
    runtime: tokio::runtime::Runtime,
    session: Option<Box<dyn Session>>,
    pub(super) answers: Vec<Answer>,
    next: u64,
}

impl Talk {
    pub(super) fn open(store: &dyn AnyStore, options: &SessionOptions) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(store.open_any(options))?;
        Ok(Self { runtime, session: Some(session), answers: Vec::new(), next: 1_000 })
    }

    /// Starts an operation.
    pub(super) fn begin(&mut self, op: Op<'_>) -> Token {
        let Self { runtime, session, answers, .. } = self;
        let token = Token(self.next);
        self.next += 1;
        let session = session.as_mut().unwrap();
        let mut out = |token: Token, result: Result<Reply<'_>, OpError>| {
            answers.push((token, result.map(OwnedReply::from)));
        };
        runtime.block_on(async {
            session.submit(&Request { collection: CollectionId(0), op, contents: true }, token, &mut out);
            session.flush();
        });
        token
    }

    /// Drives the session until there are `answers_wanted` answers, for at most `at_most`.
    pub(super) fn wait(&mut self, answers_wanted: usize, at_most: Duration) {
        let Self { runtime, session, answers, .. } = self;
        let session = session.as_mut().unwrap();
        runtime.block_on(async {
            let waiting = poll_fn(|cx| {
                let mut out = |token: Token, result: Result<Reply<'_>, OpError>| {
                    answers.push((token, result.map(OwnedReply::from)));
                };
                let _ = session.poll(cx, &mut out);
                if answers.len() >= answers_wanted { Poll::Ready(()) } else { Poll::Pending }
            });
            let _ = tokio::time::timeout(at_most, waiting).await;
        });
    }

    /// Gives the session time for background work.
    pub(super) fn rest(&mut self, duration: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(duration).await });
    }

    /// Runs one operation to completion. Keeps the answers of others.
    pub(super) fn run(&mut self, op: Op<'_>) -> Result<OwnedReply, OpError> {
        let before = self.answers.len();
        let token = self.begin(op);
        self.wait(before + 1, Duration::from_secs(60));
        let at = self.answers.iter().position(|(given, _)| *given == token).expect("no answer within a minute");
        self.answers.remove(at).1
    }

    /// The same, repeated while the session has no connection.
    pub(super) fn run_in_the_end(&mut self, op: Op<'_>) -> Result<OwnedReply, OpError> {
        for _ in 0..1_200 {
            match self.run(op) {
                Err(error) if error.kind == ErrorKind::Temporary => self.rest(Duration::from_millis(50)),
                other => return other,
            }
        }
        panic!("did not reconnect within a minute");
    }

    pub(super) fn upsert(&mut self, key: &str, body: &str) {
        let reply = self.run(Op::Upsert { key, body: body.as_bytes() }).unwrap();
        assert_eq!(reply.as_reply().documents, 1);
    }

    pub(super) fn read(&mut self, key: &str) -> Option<String> {
        let reply = self.run(Op::Read { key }).ok()?;
        reply.as_reply().body.map(|body| String::from_utf8(body.to_vec()).unwrap())
    }

    pub(super) fn abandon(&mut self, token: Token) {
        let _within = self.runtime.enter();
        self.session.as_mut().unwrap().abandon(token);
    }

    pub(super) fn counters(&self) -> SessionCounters {
        self.session.as_ref().unwrap().counters()
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _within = self.runtime.enter();
        drop(self.session.take());
    }
}

/// The keys of a batch of rows.
pub(super) fn keys(rows: Option<Batch<'_>>) -> Vec<String> {
    rows.unwrap().iter().map(|(key, _)| key.to_owned()).collect()
}

/// The psql of the server's package, on its database.
pub(super) fn psql(server: &Server) -> Command {
    server.psql()
}

/// Runs statements. Returns the answer as text.
pub(super) fn sql(server: &Server, statements: &str) -> String {
    let done = psql(server).args(["-c", statements]).output().unwrap();
    assert!(done.status.success(), "{statements}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}
