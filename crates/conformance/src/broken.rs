//! A store with one defect, to show that the suite finds it.

use std::task::{Context, Poll};

use storebench_engine::store::{
    Batch, BatchBuf, BulkWrite, Capabilities, Completions, CopyId, Description, ErrorKind, Isolation, Layout,
    MemorySession, MemoryStore, Namespace, Op, OpError, OpKind, Owner, Prepare, Reply, Request, Session,
    SessionOptions, Step, StepsFound, Store, StoreError, Support, Token, Transactions,
};

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// An insert overwrites.
    InsertOverwrites,
    /// Every 100th write of a session is acknowledged but not done.
    DropsEvery100th,
    /// Rows come in reverse order.
    RowsReversed,
    /// A page, prefix or scan returns everything there is.
    IgnoresLimit,
    /// A compare-and-swap does not compare.
    CasOverwrites,
    /// A bulk insert overwrites what exists and rejects nothing.
    BulkInsertOverwrites,
    /// A bulk insert that meets one conflict does nothing.
    BulkInsertAllOrNothing,
    /// A merge replaces.
    MergeReplaces,
    /// A counter's first operation adds its delta as well.
    CounterAddsAtOnce,
    /// Deleting a missing document succeeds.
    DeletesNothingHappily,
    /// Contents are returned whether or not they are wanted.
    AlwaysContents,
    /// Every 7th operation completes twice.
    CompletesTwice,
    /// Every 50th operation is never answered.
    ForgetsToComplete,
    /// Some replies carry a token that nobody used.
    WrongToken,
    /// A prefix ignores case.
    PrefixIgnoresCase,
    /// Appends are acknowledged, although they are not among its capabilities.
    SilentlyUnsupported,
    /// It guarantees everything at `open`.
    GuaranteesAnything,
    /// Fresh keeps the documents.
    FreshKeeps,
    /// Fresh and keep treat what a copy wrote as a study's.
    FreshTakesCopies,
    /// Into-existing writes into what a copy wrote.
    IntoExistingTakesCopies,
    /// Remove also removes what a copy wrote.
    RemoveTakesCopies,
    /// Remove leaves a study's collection if there is a copy's beside it.
    RemoveLeavesBeside,
    /// Inspect says that a copy's collections are a study's.
    CopiedIsOurs,
    /// A study's collection stays the study's after a copy into it.
    CopyLeavesStudys,
    /// A second copy puts its own number into the marker.
    SecondCopyRenames,
    /// Discard leaves what a copy wrote.
    DiscardKeeps,
    /// A touch is acknowledged and forgotten.
    NeverExpires,
    /// Read-only creates the layout.
    ReadOnlyMakes,
    WriteExistingMakes,
    /// A bulk read answers a repeated key only once.
    AnswersAKeyOnce,
    /// Bulk upserts are applied from the last to the first.
    UpsertsBackwards,
    /// Its index does not find characters beyond U+FFFF.
    SplitsSurrogates,
    /// A session panics at a prepend.
    Panics,
    /// Each poll wakes its caller, although nothing is to come.
    WakesItself,
    /// The steps of a transaction are done one by one, and not undone.
    UndoesNoStep,
    /// Of a transaction, only the last step is done.
    DoesTheLastStep,
}

/// A memory store with a defect.
#[derive(Debug)]
pub(super) struct Broken {
    inner: MemoryStore,
    defect: Defect,
    last_copy: std::sync::Mutex<Option<Owner>>,
}

impl Broken {
    pub(super) fn new(defect: Defect) -> Self {
        Self { inner: MemoryStore::new(), defect, last_copy: std::sync::Mutex::default() }
    }
}

impl Store for Broken {
    type Session = BrokenSession;

    fn describe(&self) -> Description {
        Description { url: format!("broken+memory:?{:?}", self.defect), ..self.inner.describe() }
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        if self.defect == Defect::SilentlyUnsupported {
            capabilities.operations.retain(|(kind, _)| *kind != OpKind::Append);
        }
        if matches!(self.defect, Defect::UndoesNoStep | Defect::DoesTheLastStep) {
            capabilities.operations.push((OpKind::Transaction, Support::Native));
            capabilities.transactions = Transactions {
                isolation: vec![(Isolation::Serializable, "it is not")],
                steps: Transactions::STEPS,
                rolls_back: true,
                waits_for_nodes: true,
                ..Transactions::default()
            };
        }
        capabilities
    }

    fn inspect(&self) -> Result<Namespace, StoreError> {
        match self.inner.inspect()? {
            Namespace::Copied(_) if self.defect == Defect::CopiedIsOurs => Ok(Namespace::Ours),
            found => Ok(found),
        }
    }

    fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError> {
        let owner = self.inner.owner_of(collection)?;
        if self.defect == Defect::SecondCopyRenames && owner.is_some_and(Owner::is_user) {
            return Ok(*self.last_copy.lock().unwrap());
        }
        Ok(owner)
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        if (self.defect, how) == (Defect::WriteExistingMakes, Prepare::WriteExisting) {
            let mut made = layout.clone();
            made.collections.iter_mut().for_each(|collection| collection.existing = None);
            return self.inner.prepare(&made, Prepare::Keep);
        }
        if let Prepare::Copy(copy) = how {
            *self.last_copy.lock().unwrap() = Some(Owner::User(Some(copy)));
        }
        let copied = matches!(self.inner.inspect()?, Namespace::Copied(_));
        let how = match (self.defect, how) {
            (Defect::FreshTakesCopies, Prepare::Fresh | Prepare::Keep) if copied => Prepare::Discard,
            (Defect::IntoExistingTakesCopies, Prepare::IntoExisting) => Prepare::Copy(CopyId(1)),
            (Defect::CopyLeavesStudys, Prepare::Copy(_)) if self.inner.inspect()? == Namespace::Ours => Prepare::Keep,
            (Defect::DiscardKeeps, Prepare::Discard) if copied && layout.collections.len() > 1 => {
                return self.inner.prepare(layout, Prepare::Copy(CopyId(1)));
            }
            (Defect::FreshKeeps, Prepare::Fresh) | (Defect::ReadOnlyMakes, Prepare::ReadOnly) => Prepare::Keep,
            (_, how) => how,
        };
        self.inner.prepare(layout, how)
    }

    async fn open(&self, options: &SessionOptions) -> Result<BrokenSession, StoreError> {
        let mut options = options.clone();
        if self.defect == Defect::GuaranteesAnything {
            options.durability = storebench_engine::store::Durability::MEMORY;
        }
        Ok(BrokenSession { inner: self.inner.open(&options).await?, defect: self.defect, operations: 0, writes: 0 })
    }

    fn remove(&self) -> Result<(), StoreError> {
        let copied = matches!(self.inner.inspect()?, Namespace::Copied(_));
        match self.defect {
            Defect::RemoveLeavesBeside if copied => Ok(()),
            Defect::RemoveTakesCopies if copied => {
                self.inner.prepare(&Layout::default(), Prepare::Discard)?;
                self.inner.remove()
            }
            _ => self.inner.remove(),
        }
    }
}

pub(super) struct BrokenSession {
    inner: MemorySession,
    defect: Defect,
    operations: usize,
    writes: usize,
}

impl BrokenSession {
    /// The operation that is done instead, for defects that amount to another operation.
    fn twisted<'a>(&self, op: Op<'a>) -> Op<'a> {
        match (self.defect, op) {
            (Defect::InsertOverwrites, Op::Insert { key, body }) => Op::Upsert { key, body },
            (Defect::CasOverwrites, Op::CompareAndSwap { key, body, .. }) => Op::Replace { key, body },
            (Defect::MergeReplaces, Op::MergePatch { key, patch }) => Op::Replace { key, body: patch },
            (Defect::BulkInsertOverwrites, Op::BulkWrite { items, .. }) => {
                Op::BulkWrite { kind: BulkWrite::Upsert, items }
            }
            (Defect::SplitsSurrogates, Op::Page { field, value, limit }) if value.contains('😀') => {
                Op::Page { field, value: "\"\u{fffd}\"", limit }
            }
            (Defect::IgnoresLimit, Op::Page { field, value, .. }) => Op::Page { field, value, limit: u32::MAX },
            (Defect::IgnoresLimit, Op::Prefix { prefix, .. }) => Op::Prefix { prefix, limit: u32::MAX },
            (Defect::IgnoresLimit, Op::Scan { start, end, .. }) => Op::Scan { start, end, limit: u32::MAX },
            (Defect::CounterAddsAtOnce, Op::Counter { key, delta, initial }) => {
                Op::Counter { key, delta, initial: initial + delta }
            }
            (_, op) => op,
        }
    }

    /// Whether the operation is acknowledged without being done.
    fn ignored(&mut self, kind: OpKind) -> bool {
        self.writes += usize::from(kind.writes());
        match self.defect {
            Defect::DropsEvery100th => kind.writes() && self.writes.is_multiple_of(100),
            Defect::SilentlyUnsupported => kind == OpKind::Append,
            Defect::NeverExpires => kind == OpKind::Touch,
            _ => false,
        }
    }
}

impl Session for BrokenSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        self.operations += 1;
        let kind = request.op.kind();
        assert!(self.defect != Defect::Panics || kind != OpKind::Prepend, "a panic on purpose");
        if self.defect == Defect::ForgetsToComplete && self.operations.is_multiple_of(50) {
            return;
        }
        if let Op::Transaction { steps, rolls_back, .. } = request.op
            && matches!(self.defect, Defect::UndoesNoStep | Defect::DoesTheLastStep)
        {
            return self.one_by_one(steps, rolls_back, request.contents, token, out);
        }
        if self.ignored(kind) {
            return out.complete(token, Ok(Reply::written(1)));
        }
        let op = self.twisted(request.op);
        let mut items = BatchBuf::new();
        let op = match (self.defect, op) {
            (Defect::AnswersAKeyOnce, Op::BulkRead { keys }) => {
                let distinct: std::collections::BTreeSet<&str> = keys.iter().map(|(key, _)| key).collect();
                distinct.into_iter().for_each(|key| items.push(key, b""));
                Op::BulkRead { keys: items.as_batch() }
            }
            (Defect::UpsertsBackwards, Op::BulkWrite { kind: kind @ BulkWrite::Upsert, items: given }) => {
                items = reverse(given);
                Op::BulkWrite { kind, items: items.as_batch() }
            }
            (_, op) => op,
        };
        let contents = request.contents || self.defect == Defect::AlwaysContents;
        let twice = self.defect == Defect::CompletesTwice && self.operations.is_multiple_of(7);
        if let (Defect::BulkInsertAllOrNothing, Op::BulkWrite { kind: BulkWrite::Insert, items }) = (self.defect, op)
            && self.any_exists(request, items)
        {
            return out.complete(token, Err(OpError::conflict("one of the keys exists")));
        }
        if let (Defect::PrefixIgnoresCase, Op::Prefix { prefix, limit }) = (self.defect, op) {
            return self.prefix_of_any_case(request, prefix, limit, token, out);
        }
        let token = match self.defect {
            Defect::WrongToken if self.operations.is_multiple_of(70) => Token(token.0 ^ 1),
            _ => token,
        };
        let defect = self.defect;
        let mut reversed = BatchBuf::new();
        let request = Request { op, contents, ..*request };
        self.inner.submit(&request, token, &mut |token: Token, result: Result<Reply<'_>, OpError>| {
            let result = match result {
                Err(error) if defect == Defect::DeletesNothingHappily && error.kind == ErrorKind::NotFound => {
                    if kind == OpKind::Delete { Ok(Reply::written(1)) } else { Err(error) }
                }
                Ok(Reply { rows: Some(rows), .. }) if defect == Defect::RowsReversed => {
                    reversed = reverse(rows);
                    result.map(|reply| Reply { rows: Some(reversed.as_batch()), ..reply })
                }
                result => result,
            };
            if twice {
                out.complete(token, result.clone());
            }
            out.complete(token, result);
        });
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        if self.defect == Defect::WakesItself {
            cx.waker().wake_by_ref();
        }
        self.inner.poll(cx, out)
    }
}

impl BrokenSession {
    /// Does the steps of a transaction as if each were alone.
    fn one_by_one(
        &mut self,
        steps: &[Step],
        rolls_back: bool,
        contents: bool,
        token: Token,
        out: &mut dyn Completions,
    ) {
        let mut found = StepsFound::default();
        found.begin(contents);
        let left_out = if self.defect == Defect::DoesTheLastStep { steps.len() - 1 } else { 0 };
        for (nth, step) in steps.iter().enumerate() {
            let request = step.request(contents).expect("steps are operations");
            let mut ended = Ok(());
            let mut add = |_: Token, result: Result<Reply<'_>, OpError>| ended = found.add(request.op.kind(), result);
            match nth < left_out {
                true => add(token, Ok(Reply::written(1))),
                false => self.inner.submit(&request, token, &mut add),
            }
            if let Err(error) = ended {
                return out.complete(token, Err(error));
            }
            // Others run in between.
            std::thread::yield_now();
        }
        out.complete(token, Ok(found.reply(rolls_back)));
    }

    fn any_exists(&mut self, request: &Request<'_>, items: Batch<'_>) -> bool {
        let mut found = 0;
        for (key, _) in items.iter() {
            let request = Request { op: Op::Exists { key }, ..*request };
            self.inner.submit(&request, Token(0), &mut |_: Token, result: Result<Reply<'_>, OpError>| {
                found += result.map_or(0, |reply| reply.documents);
            });
        }
        found > 0
    }

    fn prefix_of_any_case(
        &mut self,
        request: &Request<'_>,
        prefix: &str,
        limit: u32,
        token: Token,
        out: &mut dyn Completions,
    ) {
        let everything = Request { op: Op::Prefix { prefix: "", limit: u32::MAX }, contents: true, ..*request };
        let mut rows = BatchBuf::new();
        self.inner.submit(&everything, token, &mut |_: Token, result: Result<Reply<'_>, OpError>| {
            let all = result.expect("memory scans").rows.expect("contents were wanted");
            let prefix = prefix.to_lowercase();
            for (key, body) in all.iter().filter(|(key, _)| key.to_lowercase().starts_with(&prefix)) {
                if rows.len() < limit as usize {
                    rows.push(key, body);
                }
            }
        });
        let bytes = rows.as_batch().iter().map(|(_, body)| body.len() as u64).sum();
        let documents = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let rows = request.contents.then(|| rows.as_batch());
        out.complete(token, Ok(Reply { documents, bytes, rows, ..Reply::default() }));
    }
}

fn reverse(rows: Batch<'_>) -> BatchBuf {
    let mut reversed = BatchBuf::new();
    for (key, body) in (0..rows.len()).rev().filter_map(|i| rows.get(i)) {
        reversed.push(key, body);
    }
    reversed
}
