//! A session with its own runtime, and helpers that run operations on it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use storebench_engine::RealClock;
use storebench_engine::store::{
    AnyStore, CollectionId, CollectionLayout, Durability, ErrorKind, Existing, Layout, Op, OpError, OwnedReply,
    PhaseStart, ReadConsistency, Reply, Request, Session, SessionCounters, SessionOptions, StoreError, Token,
};
use storebench_study::workload::Body;

pub(crate) fn layout(name: &str, existing: Option<&str>) -> Layout {
    let existing = existing.map(|name| Existing { name: name.into(), key: None, body: None });
    let indexes = if existing.is_some() { vec![] } else { vec![vec!["user".to_owned()]] };
    Layout {
        collections: vec![CollectionLayout {
            name: name.into(),
            body: Body::Json,
            indexes,
            existing,
            uses: storebench_engine::store::Uses::ALL,
        }],
    }
}

pub(crate) fn options() -> SessionOptions {
    SessionOptions {
        durability: Durability::MEMORY,
        consistency: ReadConsistency::Strong,
        timeout: Duration::from_secs(5),
        in_flight: 2,
        clock: Arc::new(RealClock::new()),
        phase_start: PhaseStart::new(),
    }
}

pub(crate) struct Driven {
    runtime: tokio::runtime::Runtime,
    session: Box<dyn Session>,
    next: u64,
}

impl Driven {
    pub(crate) fn open(store: &dyn AnyStore, options: &SessionOptions) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(store.open_any(options))?;
        Ok(Self { runtime, session, next: 0 })
    }

    pub(crate) fn submit(&mut self, op: Op<'_>, answers: &mut Vec<Result<OwnedReply, OpError>>) {
        let _inside = self.runtime.enter();
        let request = Request { collection: CollectionId(0), op, contents: true };
        self.next += 1;
        let mut out = |_: Token, result: Result<Reply<'_>, OpError>| answers.push(result.map(OwnedReply::from));
        self.session.submit(&request, Token(self.next), &mut out);
    }

    /// Waits for `wanted` answers.
    pub(crate) fn wait(&mut self, wanted: usize, answers: &mut Vec<Result<OwnedReply, OpError>>) {
        let session = &mut self.session;
        session.flush();
        let all = poll_fn(|cx| {
            let mut out = |_: Token, result: Result<Reply<'_>, OpError>| answers.push(result.map(OwnedReply::from));
            let _ = session.poll(cx, &mut out);
            if answers.len() >= wanted { Poll::Ready(()) } else { Poll::Pending }
        });
        self.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), all).await }).unwrap();
    }

    pub(crate) fn run(&mut self, op: Op<'_>) -> Result<OwnedReply, OpError> {
        let mut answers = Vec::new();
        self.submit(op, &mut answers);
        self.wait(1, &mut answers);
        answers.remove(0)
    }

    /// The number of the last submitted operation.
    pub(crate) fn last(&self) -> u64 {
        self.next
    }

    /// Abandons the operation with this number once it is in flight.
    pub(crate) fn abandon(&mut self, number: u64) {
        let _inside = self.runtime.enter();
        self.session.flush();
        self.session.abandon(Token(number));
    }

    /// Lets the session's own tasks run for a while.
    pub(crate) fn pass(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    pub(crate) fn read(&mut self, key: &str) -> Result<String, OpError> {
        let reply = self.run(Op::Read { key })?;
        Ok(String::from_utf8(reply.as_reply().body.unwrap().to_vec()).unwrap())
    }

    /// Reads, and gives up after this time. Returns how it failed; `None` if it was given up.
    pub(crate) fn read_within(&mut self, key: &str, time: Duration) -> Option<ErrorKind> {
        let mut answers: Vec<Result<OwnedReply, OpError>> = Vec::new();
        self.submit(Op::Read { key }, &mut answers);
        let session = &mut self.session;
        session.flush();
        let answered = poll_fn(|cx| {
            let mut out = |_: Token, result: Result<Reply<'_>, OpError>| answers.push(result.map(OwnedReply::from));
            let _ = session.poll(cx, &mut out);
            if answers.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        });
        let _ = self.runtime.block_on(async { tokio::time::timeout(time, answered).await });
        if answers.is_empty() {
            self.abandon(self.next);
        }
        answers.pop()?.err().map(|error| error.kind)
    }

    pub(crate) fn counters(&self) -> SessionCounters {
        self.session.counters()
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        // Dropped within the runtime, as a worker does.
        let _inside = self.runtime.enter();
        self.session = Box::new(storebench_engine::store::NullSession);
    }
}
