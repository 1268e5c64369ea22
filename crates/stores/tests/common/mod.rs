//! Helpers that the driver tests share.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use storebench_engine::FakeClock;
use storebench_engine::store::{
    AnyStore, CollectionId, CollectionLayout, Durability, Layout, Op, OpError, ReadConsistency, Reply, Request,
    Session, SessionOptions, Token,
};
use storebench_study::workload::Body;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Sqlite,
    Fjall,
    Redb,
}

impl Scheme {
    pub const ALL: [Self; 3] = [Self::Sqlite, Self::Fjall, Self::Redb];

    pub fn url(self, path: &Path) -> String {
        let name = match self {
            Self::Sqlite => "sqlite",
            Self::Fjall => "fjall",
            Self::Redb => "redb",
        };
        format!("{name}:{}", path.display())
    }
}

/// One collection of JSON, indexed by `user`.
pub fn layout(name: &str) -> Layout {
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

pub fn options() -> SessionOptions {
    SessionOptions {
        durability: Durability::OS,
        consistency: ReadConsistency::Strong,
        timeout: Duration::from_secs(10),
        in_flight: 1,
        clock: Arc::new(FakeClock::new()),
        phase_start: storebench_engine::store::PhaseStart::new(),
    }
}

/// The value of a future that is ready immediately.
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("an embedded store must open immediately"),
    }
}

/// Every file and folder below: name, modification time, size, hash of the bytes.
pub fn snapshot(folder: &Path) -> Vec<(String, SystemTime, usize, u64)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.metadata().unwrap();
            let bytes = if metadata.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            found.push((path.display().to_string(), metadata.modified().unwrap(), bytes.len(), hasher.finish()));
        }
    }
    found.sort();
    found
}

/// A session on collection 0 that returns owned answers.
pub struct Ask(Box<dyn Session>);

impl Ask {
    pub fn new(store: &dyn AnyStore) -> Self {
        Self::with(store, &options())
    }

    pub fn with(store: &dyn AnyStore, options: &SessionOptions) -> Self {
        Self(ready(store.open_any(options)).unwrap())
    }

    pub fn run<T>(&mut self, op: Op<'_>, take: impl FnOnce(Reply<'_>) -> T) -> Result<T, OpError> {
        let request = Request { collection: CollectionId(0), op, contents: true };
        let (mut answer, mut take) = (None, Some(take));
        self.0.submit(&request, Token(7), &mut |token: Token, result: Result<Reply<'_>, OpError>| {
            assert_eq!(token, Token(7));
            answer = Some(result.map(take.take().expect("completed once")));
        });
        answer.expect("an embedded store completes immediately")
    }

    pub fn try_upsert(&mut self, key: &str, body: &[u8]) -> Result<u32, OpError> {
        self.run(Op::Upsert { key, body }, |reply| reply.documents)
    }

    pub fn upsert(&mut self, key: &str, body: &[u8]) {
        assert_eq!(self.try_upsert(key, body), Ok(1));
    }

    pub fn read(&mut self, key: &str) -> Option<Vec<u8>> {
        self.run(Op::Read { key }, |reply| reply.body.map(<[u8]>::to_vec)).ok().flatten()
    }
}
