//! The memory store with sessions that fail as a test wants.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use storebench_core::store::{
    Capabilities, Completions, Description, Layout, MemorySession, MemoryStore, Namespace, OpError, OwnedReply,
    Prepare, Reply, Request, Session, SessionOptions, Store, StoreError, Token,
};

/// What becomes of a request.
pub(super) enum Fate {
    /// It is done.
    Done,
    /// It fails, and nothing is done.
    Fails(OpError),
    /// It is done, and the answer is this.
    DoneBut(OpError),
    /// It is done, and nobody says so.
    Silent,
    /// It is not done, and is said to be.
    Lies,
    /// It is done, and said to be when the session is polled next.
    WhenPolled,
}

type Decide = dyn FnMut(&Request<'_>) -> Fate + Send;

/// A memory store whose requests meet a fate.
#[derive(Clone)]
pub(super) struct Faulty {
    memory: MemoryStore,
    decide: Arc<Mutex<Decide>>,
}

impl Faulty {
    pub(super) fn new(decide: impl FnMut(&Request<'_>) -> Fate + Send + 'static) -> Self {
        Self { memory: MemoryStore::new(), decide: Arc::new(Mutex::new(decide)) }
    }

    /// The store without its faults.
    pub(super) fn sound(&self) -> MemoryStore {
        self.memory.clone()
    }
}

pub(super) struct FaultySession {
    memory: MemorySession,
    decide: Arc<Mutex<Decide>>,
    held: Vec<(Token, Result<OwnedReply, OpError>)>,
}

impl Session for FaultySession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let fate = (self.decide.lock().unwrap())(request);
        let mut ignored = |_: Token, _: Result<Reply<'_>, OpError>| {};
        match fate {
            Fate::Done => self.memory.submit(request, token, out),
            Fate::Fails(error) => out.complete(token, Err(error)),
            Fate::DoneBut(error) => {
                self.memory.submit(request, token, &mut ignored);
                out.complete(token, Err(error));
            }
            Fate::Lies => out.complete(token, Ok(Reply::written(1))),
            Fate::Silent => self.memory.submit(request, token, &mut ignored),
            Fate::WhenPolled => {
                let held = &mut self.held;
                let mut hold = |token: Token, result: Result<Reply<'_>, OpError>| {
                    held.push((token, result.map(OwnedReply::from)));
                };
                self.memory.submit(request, token, &mut hold);
            }
        }
    }

    fn poll(&mut self, _: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        for (token, result) in self.held.drain(..) {
            match &result {
                Ok(reply) => out.complete(token, Ok(reply.as_reply())),
                Err(error) => out.complete(token, Err(error.clone())),
            }
        }
        Poll::Pending
    }
}

impl Store for Faulty {
    type Session = FaultySession;
    fn describe(&self) -> Description {
        Store::describe(&self.memory)
    }
    fn capabilities(&self) -> Capabilities {
        Store::capabilities(&self.memory)
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Store::inspect(&self.memory)
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        Store::prepare(&self.memory, layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<FaultySession, StoreError> {
        let memory = Store::open(&self.memory, options).await?;
        Ok(FaultySession { memory, decide: Arc::clone(&self.decide), held: Vec::new() })
    }
    fn remove(&self) -> Result<(), StoreError> {
        Store::remove(&self.memory)
    }
}
