//! A session of any store, driven from synchronous code.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use storebench_engine::RealClock;
use storebench_engine::store::{
    AnyStore, CollectionId, CollectionLayout, Durability, ErrorKind, Existing, Layout, Op, OpError, OwnedReply,
    PhaseStart, Prepare, ReadConsistency, Reply, Request, Session, SessionCounters, SessionOptions, StoreError, Token,
    first_answer,
};
use storebench_study::workload::Body;

use crate::proxy::{Fault, proxy};
use crate::server::Server;

/// A test fails after this time without an answer. It is far longer than any server needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) type Answer = Result<OwnedReply, OpError>;

/// A layout with one collection of JSON, `documents`.
pub(crate) fn layout() -> Layout {
    let name = "documents".to_owned();
    Layout {
        collections: vec![CollectionLayout {
            name,
            body: Body::Json,
            indexes: Vec::new(),
            existing: None,
            uses: storebench_engine::store::Uses::ALL,
        }],
    }
}

/// The same for existing keys with a prefix.
pub(crate) fn existing(prefix: &str) -> Layout {
    let mut layout = layout();
    layout.collections[0].existing = Some(Existing { name: prefix.to_owned(), key: None, body: None });
    layout
}

pub(crate) fn options(durability: Durability) -> SessionOptions {
    SessionOptions {
        durability,
        consistency: ReadConsistency::Strong,
        timeout: Duration::from_secs(4),
        in_flight: 16,
        clock: Arc::new(RealClock::new()),
        phase_start: PhaseStart::new(),
    }
}

/// A session and its runtime.
pub(crate) struct Driven {
    // In an `Option` so that it can be dropped within the runtime that its sockets belong to.
    session: Option<Box<dyn Session>>,
    runtime: tokio::runtime::Runtime,
    answers: Vec<(Token, Answer)>,
    next: u64,
}

impl Driven {
    pub(crate) fn open(store: &dyn AnyStore, durability: Durability) -> Result<Self, StoreError> {
        Self::open_with(store, &options(durability))
    }

    pub(crate) fn open_with(store: &dyn AnyStore, options: &SessionOptions) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(store.open_any(options))?;
        Ok(Self { session: Some(session), runtime, answers: Vec::new(), next: 1 })
    }

    /// Submits an operation on the first collection.
    pub(crate) fn submit(&mut self, op: Op<'_>) -> Token {
        let token = Token(self.next);
        self.next += 1;
        let (session, answers) = (self.session.as_mut().unwrap(), &mut self.answers);
        let request = Request { collection: CollectionId(0), op, contents: true };
        let mut out = |token, result: Result<Reply<'_>, OpError>| answers.push((token, result.map(OwnedReply::from)));
        self.runtime.block_on(async { session.submit(&request, token, &mut out) });
        token
    }

    /// Flushes, and returns the answers once there are `wanted`.
    pub(crate) fn finish(&mut self, wanted: usize) -> Vec<(Token, Answer)> {
        self.wait(PATIENCE, |answers| answers >= wanted);
        assert_eq!(self.answers.len(), wanted);
        std::mem::take(&mut self.answers)
    }

    /// Flushes and polls until there are enough answers, for at most `at_most`.
    pub(crate) fn wait(&mut self, at_most: Duration, enough: impl Fn(usize) -> bool) {
        let (session, answers) = (self.session.as_mut().unwrap(), &mut self.answers);
        let begun = Instant::now();
        self.runtime.block_on(async {
            session.flush();
            while !enough(answers.len()) && begun.elapsed() < at_most {
                let polled = poll_fn(|cx| {
                    let mut out =
                        |token, result: Result<Reply<'_>, OpError>| answers.push((token, result.map(OwnedReply::from)));
                    let _ = session.poll(cx, &mut out);
                    if enough(answers.len()) { Poll::Ready(()) } else { Poll::Pending }
                });
                let _ = tokio::time::timeout(Duration::from_millis(50), polled).await;
            }
        });
    }

    /// Takes an answer that has already come.
    pub(crate) fn take(&mut self) -> Option<Answer> {
        self.answers.pop().map(|(_, answer)| answer)
    }

    /// Runs one operation.
    pub(crate) fn call(&mut self, op: Op<'_>) -> Answer {
        self.submit(op);
        self.finish(1).pop().unwrap().1
    }

    /// Runs one operation, and repeats it while it fails as *temporary*.
    pub(crate) fn call_again(&mut self, op: Op<'_>) -> Answer {
        let begun = Instant::now();
        loop {
            match self.call(op) {
                Err(error) if error.kind == ErrorKind::Temporary && begun.elapsed() < PATIENCE => {
                    // Gives the session time for background work.
                    self.wait(Duration::from_millis(20), |_| false);
                }
                answer => return answer,
            }
        }
    }

    /// Abandons an operation.
    pub(crate) fn abandon(&mut self, token: Token) {
        let _within = self.runtime.enter();
        self.session.as_mut().unwrap().abandon(token);
    }

    /// Repeats reads with a short timeout until a silent connection was replaced.
    pub(crate) fn give_up_until_replaced(&mut self, timeout: Duration) {
        let begun = Instant::now();
        while self.counters().disconnects == 0 {
            assert!(begun.elapsed() < PATIENCE, "a silent connection is still used");
            let token = self.submit(Op::Read { key: "none" });
            self.wait(timeout, |answers| answers > 0);
            if self.answers.pop().is_none() {
                self.abandon(token);
                self.wait(Duration::from_millis(1), |_| false);
            }
        }
    }

    pub(crate) fn counters(&self) -> SessionCounters {
        self.session.as_ref().unwrap().counters()
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        let _within = self.runtime.enter();
        drop(self.session.take());
    }
}

/// Tests a connection that falls silent after some bytes, without being closed.
pub(crate) fn silent_connection_is_replaced(name: &'static str) {
    let server = Server::start(name);
    storebench_stores::open(&server.url).unwrap().prepare(&layout(), Prepare::Fresh).unwrap();
    let port = proxy(server.port, |number| match number {
        1 => Fault::Silent { after: 12_000 },
        _ => Fault::None,
    });
    let store = storebench_stores::open(&format!("{name}://127.0.0.1:{port}")).unwrap();
    store.prepare(&layout(), Prepare::Keep).unwrap();
    let timeout = Duration::from_millis(100);
    let options = SessionOptions { timeout, ..options(Durability::MEMORY) };
    let mut driven = Driven::open_with(&*store, &options).unwrap();
    driven.give_up_until_replaced(timeout);
    driven.call_again(Op::Upsert { key: "a", body: b"{}" }).unwrap();
    assert_eq!(driven.counters().disconnects, 1);
}

/// No driver decides alone how long the user waits for a server that does not answer at all.
#[test]
fn a_server_that_never_answers_is_given_up_at_the_users_timeout() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _local = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let urls = [
        format!("redis://127.0.0.1:{port}"),
        format!("memcached://127.0.0.1:{port}"),
        format!("cassandra://127.0.0.1:{port}"),
        format!("postgres://me@127.0.0.1:{port}/d"),
        format!("mysql://me@127.0.0.1:{port}/d"),
        format!("mongodb://127.0.0.1:{port}/d"),
        format!("couchdb://127.0.0.1:{port}"),
        format!("ravendb://127.0.0.1:{port}/d"),
        format!("opensearch://127.0.0.1:{port}"),
        format!("couchbase://me:p@127.0.0.1:{port}/d"),
        format!("dynamodb://127.0.0.1:{port}"),
        format!("slow+limit+hosted+sqlite:{}/x?rate=1&socket={}", folder.path().display(), socket.display()),
    ];
    for url in urls {
        let store = storebench_stores::open(&url).unwrap();
        let error = first_answer(&store, Duration::from_millis(50)).unwrap_err();
        assert!(
            matches!(&error, StoreError::Unreachable(text) if text.contains("did not answer within 50ms")),
            "{error}"
        );
    }
}
