//! A memory store whose sessions fail as a test requires.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use storebench_engine::store::{
    Account, BatchBuf, Capabilities, CollectionId, Completions, Description, Layout, MemorySession, MemoryStore,
    Namespace, Op, OpError, OwnedReply, Prepare, Reject, Reply, Request, SameKeys, Session, SessionCounters,
    SessionOptions, Store, StoreError, Token,
};

/// What happens to a request.
pub(super) enum Fate {
    /// It is applied.
    Done,
    /// It fails, and nothing is applied.
    Fails(OpError),
    /// It fails, and the session's connection is lost.
    Breaks(OpError),
    /// It is applied, and this is the answer.
    DoneBut(OpError),
    /// It is applied. The answer arrives later, and only if the session is polled.
    Late,
    /// It is applied, and there is no answer.
    Silent,
    /// It is not applied, but reported as applied.
    Lies,
    /// These items of a bulk operation are left out, by position. The answer says how many were written.
    Skips(Vec<usize>),
    /// These items of a bulk operation fail, by position; the others are applied.
    Rejects(Vec<(usize, OpError)>),
}

type Decide = dyn FnMut(&Request<'_>) -> Fate + Send;

/// A memory store that decides the fate of each request.
#[derive(Clone)]
pub(super) struct Faulty {
    memory: MemoryStore,
    decide: Arc<Mutex<Decide>>,
    reserved: &'static [&'static str],
    remote: bool,
    same: SameKeys,
    accounts: Arc<Mutex<Vec<Account>>>,
}

impl Faulty {
    pub(super) fn new(decide: impl FnMut(&Request<'_>) -> Fate + Send + 'static) -> Self {
        Self {
            memory: MemoryStore::new(),
            decide: Arc::new(Mutex::new(decide)),
            reserved: &[],
            remote: false,
            same: SameKeys::Exact,
            accounts: Arc::default(),
        }
    }

    /// Is at the other end of a connection.
    pub(super) fn remote(self) -> Self {
        Self { remote: true, ..self }
    }

    /// Sets which keys the store says are one.
    pub(super) fn taking(self, same: SameKeys) -> Self {
        Self { same, ..self }
    }

    /// Sets what the store counts, each time that it is asked. The last one stays.
    pub(super) fn counting(self, accounts: &[Account]) -> Self {
        Self { accounts: Arc::new(Mutex::new(accounts.iter().rev().cloned().collect())), ..self }
    }

    /// Sets the members that the store reserves for itself.
    pub(super) fn reserving(self, reserved: &'static [&'static str]) -> Self {
        Self { reserved, ..self }
    }

    /// The store without its faults.
    pub(super) fn sound(&self) -> MemoryStore {
        self.memory.clone()
    }
}

pub(super) struct FaultySession {
    memory: MemorySession,
    decide: Arc<Mutex<Decide>>,
    late: Vec<(Token, Result<OwnedReply, OpError>)>,
    come: Arc<AtomicBool>,
    counters: SessionCounters,
}

impl FaultySession {
    /// Applies a bulk operation without some of its items.
    fn but(&mut self, request: &Request<'_>, failing: Vec<(usize, OpError)>) -> Result<OwnedReply, OpError> {
        let (Op::BulkWrite { items, .. } | Op::BulkRead { keys: items }) = request.op else {
            return Err(OpError::unsupported());
        };
        let (mut rest, mut positions) = (BatchBuf::new(), Vec::new());
        for (position, (key, body)) in items.iter().enumerate() {
            if !failing.iter().any(|(item, _)| *item == position) {
                rest.push(key, body);
                positions.push(position);
            }
        }
        let op = match request.op {
            Op::BulkWrite { kind, .. } => Op::BulkWrite { kind, items: rest.as_batch() },
            _ => Op::BulkRead { keys: rest.as_batch() },
        };
        let mut answer = None;
        let mut kept = |_: Token, result: Result<Reply<'_>, OpError>| answer = Some(result.map(OwnedReply::from));
        self.memory.submit(&Request { op, ..*request }, Token(0), &mut kept);
        let answer = answer.unwrap()?;
        let reply = answer.as_reply();
        let mut rejects: Vec<Reject> = failing.into_iter().map(|(item, error)| Reject { item, error }).collect();
        rejects.extend(reply.rejects.iter().map(|r| Reject { item: positions[r.item], error: r.error.clone() }));
        let mut rows = BatchBuf::new();
        reply.rows.unwrap_or_default().iter().for_each(|(key, body)| rows.push(key, body));
        let done = if reply.rows.is_some() {
            OwnedReply::default().rows(rows)
        } else {
            OwnedReply::documents(reply.documents)
        };
        Ok(done.rejects(rejects))
    }
}

impl Session for FaultySession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let fate = (self.decide.lock().unwrap())(request);
        let mut ignored = |_: Token, _: Result<Reply<'_>, OpError>| {};
        match fate {
            Fate::Done => self.memory.submit(request, token, out),
            Fate::Fails(error) => out.complete(token, Err(error)),
            Fate::Breaks(error) => {
                self.counters.disconnects += 1;
                out.complete(token, Err(error));
            }
            Fate::DoneBut(error) => {
                self.memory.submit(request, token, &mut ignored);
                out.complete(token, Err(error));
            }
            Fate::Late => {
                let late = &mut self.late;
                let mut kept = |token: Token, result: Result<Reply<'_>, OpError>| {
                    late.push((token, result.map(OwnedReply::from)));
                };
                self.memory.submit(request, token, &mut kept);
            }
            Fate::Rejects(failing) => {
                let answer = self.but(request, failing);
                out.complete(token, answer.as_ref().map(OwnedReply::as_reply).map_err(Clone::clone));
            }
            Fate::Lies => {
                let items = match request.op {
                    Op::BulkWrite { items, .. } | Op::BulkDelete { keys: items } => items.len(),
                    _ => 1,
                };
                out.complete(token, Ok(Reply::written(items)));
            }
            Fate::Skips(skipped) => {
                let none = skipped.into_iter().map(|item| (item, OpError::unsupported())).collect();
                let answer = self.but(request, none).map(|answer| answer.rejects(Vec::new()));
                out.complete(token, answer.as_ref().map(OwnedReply::as_reply).map_err(Clone::clone));
            }
            Fate::Silent => self.memory.submit(request, token, &mut ignored),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        if self.late.is_empty() {
            return Poll::Ready(());
        }
        if self.come.swap(false, Ordering::AcqRel) {
            for (token, answer) in self.late.drain(..) {
                out.complete(token, answer.as_ref().map(OwnedReply::as_reply).map_err(Clone::clone));
            }
            return Poll::Ready(());
        }
        // Like a socket, only wake a task that has polled.
        let (waker, come) = (cx.waker().clone(), Arc::clone(&self.come));
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(2));
            come.store(true, Ordering::Release);
            waker.wake();
        });
        Poll::Pending
    }

    fn counters(&self) -> SessionCounters {
        self.counters
    }
}

impl Store for Faulty {
    type Session = FaultySession;
    fn describe(&self) -> Description {
        Store::describe(&self.memory)
    }
    fn capabilities(&self) -> Capabilities {
        let can = Store::capabilities(&self.memory);
        Capabilities { reserved_members: self.reserved, embedded: can.embedded && !self.remote, ..can }
    }
    fn account(&self, _: CollectionId) -> Result<Account, StoreError> {
        let mut accounts = self.accounts.lock().unwrap();
        let last = accounts.len() == 1;
        Ok(if last { accounts.last().cloned() } else { accounts.pop() }.unwrap_or_default())
    }
    fn same_keys(&self, _: CollectionId) -> SameKeys {
        self.same
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Store::inspect(&self.memory)
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        Store::prepare(&self.memory, layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<FaultySession, StoreError> {
        let memory = Store::open(&self.memory, options).await?;
        let decide = Arc::clone(&self.decide);
        Ok(FaultySession {
            memory,
            decide,
            late: Vec::new(),
            come: Arc::default(),
            counters: SessionCounters::default(),
        })
    }
    fn remove(&self) -> Result<(), StoreError> {
        Store::remove(&self.memory)
    }
}
