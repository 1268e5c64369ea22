//! A session of a key-value store, with one link, or one link to each node that holds some of the keys.
//!
//! The drivers of such stores share this code. Bulk operations item by item are in `bulk`, operations in steps in `steps`.

use std::task::{Context, Poll};

use storebench_engine::store::{
    BulkWrite, Completions, ErrorKind, Op, OpError, OpKind, Reject, Reply, Request, Session, SessionCounters, Token,
    check_patch,
};

use super::{Answers, Change, Collection, Link, NONE, Works};
use crate::document::collection_of;
use crate::net::lost;
use crate::refusals::check_fits;
use crate::repeats::Rounds;

/// The maximum number of redirections, or of retries of an operation in steps that lost a race. After that the operation
/// fails with a temporary error.
pub(crate) const MOST_AGAIN: u32 = 256;

/// An answer awaited on a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited<E> {
    pub(crate) token: Token,
    pub(crate) kind: OpKind,
    pub(crate) expect: E,
    pub(crate) role: Role,
    pub(crate) contents: bool,
    pub(crate) abandoned: bool,
    pub(crate) collection: u16,
    /// The operation with several requests that it belongs to.
    pub(crate) work: u32,
    pub(crate) item: u32,
}

impl<E> Awaited<E> {
    /// The answer to one of the driver's own requests.
    #[inline]
    pub(crate) fn own(expect: E) -> Self {
        Self {
            token: Token(0),
            kind: OpKind::Read,
            expect,
            role: Role::Own,
            contents: false,
            abandoned: false,
            collection: 0,
            work: NONE,
            item: 0,
        }
    }

    /// Completes an operation on one document. The result may borrow from the input.
    #[inline]
    pub(crate) fn complete(
        &self,
        result: Result<Reply<'_>, OpError>,
        works: &mut Works,
        in_flight: &mut usize,
        out: &mut dyn Completions,
    ) {
        works.give_back(self.work);
        if !self.abandoned {
            *in_flight -= 1;
            out.complete(self.token, result);
        }
    }
}

/// The role of an answer in its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The whole answer. If the request may have to be redirected, an entry of [`Works`] keeps it.
    Whole,
    /// An item of a bulk operation.
    Item,
    /// An answer with several documents.
    Rows,
    /// The step of an operation in steps that only reads.
    Look,
    /// The step that writes.
    Swap,
    /// Belongs to no operation: the driver's own request.
    Own,
}

/// How a driver encodes requests and interprets answers.
pub(crate) trait Dialect: Sized {
    /// The expected form of an answer, and its meaning.
    type Expect: Copy;

    /// The placeholder until the request is made.
    const NOTHING: Self::Expect;
    /// Whether answers come in any order, each with the number of its request.
    const ANY_ORDER: bool = false;
    /// Whether counters are changed as documents are: by reading and writing them, where no request does it at once.
    const COUNTS_IN_STEPS: bool = false;

    /// Writes the number of a request into it. For protocols that answer in any order.
    #[inline]
    fn number(_request: &mut [u8], _number: u32) {}

    /// Appends a request that makes the whole change at once, if one can. If it ends with a conflict, the document is
    /// read, changed and written.
    fn at_once(
        &self,
        _key: &str,
        _change: &Change,
        _collection: &Collection,
        _out: &mut Vec<u8>,
    ) -> Option<Result<Self::Expect, OpError>> {
        None
    }

    /// Appends the request of an operation on one document. On an error, the caller removes what was appended.
    fn single(&self, op: &Op<'_>, collection: &Collection, out: &mut Vec<u8>) -> Result<Self::Expect, OpError>;

    /// Appends the request that reads a document and its revision.
    fn look(&self, key: &str, collection: &Collection, out: &mut Vec<u8>) -> Result<Self::Expect, OpError> {
        self.single(&Op::Read { key }, collection, out)
    }

    /// Appends the request that writes a document if it still has the revision that [`Pipelined::looked`] was
    /// given.
    fn swap(
        &self,
        key: &str,
        revision: &[u8],
        body: &[u8],
        collection: &Collection,
        out: &mut Vec<u8>,
    ) -> Result<Self::Expect, OpError> {
        self.single(&Op::CompareAndSwap { key, expected: revision, body }, collection, out)
    }

    /// Processes all complete answers of a link.
    fn take(session: &mut Pipelined<Self>, link: usize, out: &mut dyn Completions) -> Result<(), String>;

    /// The link for a key.
    #[inline]
    fn link_of(&self, _collection: &Collection, _key: &str) -> usize {
        0
    }

    /// The link for an operation on a key: another one than [`Self::link_of`] if reads may go elsewhere.
    #[inline]
    fn link_for(&self, _op: &Op<'_>, collection: &Collection, key: &str) -> usize {
        self.link_of(collection, key)
    }

    /// Whether there are several nodes, so that a request may be redirected.
    #[inline]
    fn is_spread(&self) -> bool {
        false
    }

    /// Runs an operation that this driver implements itself. `None` for all others.
    #[inline]
    fn other(
        _session: &mut Pipelined<Self>,
        _request: &Request<'_>,
        _token: Token,
        _out: &mut dyn Completions,
    ) -> Option<Result<(), OpError>> {
        None
    }

    /// Called when a write was put on a link.
    #[inline]
    fn wrote(&mut self, _link: usize) {}

    /// Called when a write has succeeded. Returns whether its completion is held back.
    #[inline]
    fn holds(&mut self, _link: usize, _awaited: &Awaited<Self::Expect>, _counter: Option<i64>) -> bool {
        false
    }

    /// The completions held back on a link.
    fn held(&mut self, _link: usize) -> impl Iterator<Item = &mut Awaited<Self::Expect>> {
        std::iter::empty()
    }

    /// Flushes all links.
    #[inline]
    fn send(session: &mut Pipelined<Self>) {
        session.links.iter_mut().for_each(Link::flush);
    }

    /// Called when a link has reconnected. Returns whether there is something to send.
    fn connected(&mut self, _link: usize) -> bool {
        false
    }

    /// Called when one of the driver's own requests will get no answer.
    fn own_lost(&mut self, _expect: Self::Expect) {}

    /// Called when a link was lost, after the operations in flight on it have failed.
    fn lost(_session: &mut Pipelined<Self>, _link: usize, _why: &str, _out: &mut dyn Completions) {}
}

/// One session.
pub(crate) struct Pipelined<D: Dialect> {
    pub(crate) dialect: D,
    pub(crate) collections: Vec<Collection>,
    pub(crate) read_only: bool,
    pub(crate) links: Vec<Link<Awaited<D::Expect>>>,
    pub(crate) works: Works,
    pub(crate) in_flight: usize,
    /// Whether answers have made new requests.
    pub(crate) more: bool,
    pub(crate) scratch: Vec<u8>,
    /// Finds out whether a bulk write has a key twice.
    pub(super) rounds: Rounds,
}

impl<D: Dialect> Pipelined<D> {
    pub(crate) fn new(
        dialect: D,
        collections: Vec<Collection>,
        read_only: bool,
        links: Vec<Link<Awaited<D::Expect>>>,
    ) -> Self {
        Self {
            dialect,
            collections,
            read_only,
            links,
            works: Works::default(),
            in_flight: 0,
            more: false,
            scratch: Vec::new(),
            rounds: Rounds::default(),
        }
    }

    /// The awaited answer of an operation with a single request.
    #[inline]
    pub(crate) fn awaited(request: &Request<'_>, token: Token) -> Awaited<D::Expect> {
        Awaited {
            token,
            kind: request.op.kind(),
            role: Role::Whole,
            contents: request.contents,
            // A layout never has more collections than fit.
            collection: u16::try_from(request.collection.position()).unwrap_or(u16::MAX),
            ..Awaited::own(D::NOTHING)
        }
    }

    fn run(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) -> Result<(), OpError> {
        let awaited = Self::awaited(request, token);
        // The steps of a transaction are checked one by one.
        let read_only = self.read_only && awaited.kind != OpKind::Transaction;
        let collection = collection_of(request, &self.collections, read_only)?;
        check_fits(awaited.kind, collection.body)?;
        if let Some(done) = D::other(self, request, token, out) {
            return done;
        }
        match request.op {
            Op::BulkWrite { kind: how, items } => {
                let op = move |key, body| match how {
                    BulkWrite::Insert => Op::Insert { key, body },
                    BulkWrite::Upsert => Op::Upsert { key, body },
                };
                self.bulk(items, op, awaited, out)
            }
            Op::BulkRead { keys } => self.bulk(keys, |key, _| Op::Read { key }, awaited, out),
            Op::BulkDelete { keys } => self.bulk(keys, |key, _| Op::Delete { key }, awaited, out),
            Op::MergePatch { key, patch } => {
                check_patch(patch)?;
                self.in_steps(key, Change::Patch(patch.to_vec()), awaited, out)
            }
            Op::Counter { key, delta, initial } if D::COUNTS_IN_STEPS => {
                self.in_steps(key, Change::Add { delta, initial, sum: initial }, awaited, out)
            }
            ref op => self.single(op, awaited, out),
        }
    }

    #[inline]
    fn single(
        &mut self,
        op: &Op<'_>,
        mut awaited: Awaited<D::Expect>,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let collection = &self.collections[usize::from(awaited.collection)];
        let link = key_of(op).map_or(0, |key| self.dialect.link_for(op, collection, key));
        if !self.is_ready(link, out) {
            // An invalid operation is refused with its own error, whether connected or not.
            self.scratch.clear();
            let collection = &self.collections[usize::from(awaited.collection)];
            self.dialect.single(op, collection, &mut self.scratch)?;
            return Err(self.links[link].not_connected());
        }
        if self.dialect.is_spread() {
            awaited.work = self.works.take(awaited.contents);
        }
        self.append(link, op, awaited, true).inspect_err(|_| self.works.give_back(awaited.work))?;
        self.in_flight += 1;
        Ok(())
    }

    /// Appends one request. If it is refused, nothing of it remains.
    #[inline]
    pub(super) fn append(
        &mut self,
        link: usize,
        op: &Op<'_>,
        mut awaited: Awaited<D::Expect>,
        counts: bool,
    ) -> Result<(), OpError> {
        let collection = &self.collections[usize::from(awaited.collection)];
        let pipe = &mut self.links[link].pipe;
        if self.dialect.is_spread() {
            let work = self.works.get(awaited.work);
            let start = work.requests.len();
            let made = self.dialect.single(op, collection, &mut work.requests);
            work.ends.push(work.requests.len());
            awaited.expect = made?;
            pipe.request(awaited, counts).extend_from_slice(&work.requests[start..]);
        } else {
            let made = self.dialect.single(op, collection, pipe.request(awaited, counts));
            let expect = made.inspect_err(|_| pipe.take_back())?;
            pipe.amend(|last| last.expect = expect);
        }
        pipe.number(|number, request| D::number(request, number));
        if awaited.kind.writes() {
            self.dialect.wrote(link);
        }
        Ok(())
    }

    /// Removes the front of a link, whose answer was `used` bytes long.
    #[inline]
    pub(crate) fn done(&mut self, link: usize, used: usize) {
        let pipe = &mut self.links[link].pipe;
        pipe.consume(used);
        pipe.pop();
    }

    /// Completes an operation, or an item of one.
    pub(crate) fn conclude(
        &mut self,
        awaited: Awaited<D::Expect>,
        result: Result<(), OpError>,
        counter: Option<i64>,
        out: &mut dyn Completions,
    ) {
        match awaited.role {
            Role::Item | Role::Rows => {
                let work = self.works.get(awaited.work);
                match result {
                    Ok(()) => work.documents += 1,
                    // Missing documents do not count as removed.
                    Err(error) if error.kind == ErrorKind::NotFound && awaited.kind == OpKind::BulkDelete => {}
                    Err(error) if awaited.role == Role::Item && awaited.kind.writes() => {
                        work.rejects.push(Reject { item: awaited.item as usize, error });
                    }
                    Err(error) => work.error = Some(error),
                }
                self.one_less(awaited, out);
            }
            Role::Whole | Role::Look | Role::Swap => {
                let result = result.map(|()| Reply { counter, ..Reply::written(1) });
                awaited.complete(result, &mut self.works, &mut self.in_flight, out);
            }
            Role::Own => {}
        }
    }
}

fn key_of<'a>(op: &Op<'a>) -> Option<&'a str> {
    Some(match *op {
        Op::Insert { key, .. }
        | Op::Upsert { key, .. }
        | Op::Replace { key, .. }
        | Op::Append { key, .. }
        | Op::Prepend { key, .. }
        | Op::Read { key }
        | Op::Exists { key }
        | Op::Delete { key }
        | Op::Touch { key, .. }
        | Op::Counter { key, .. }
        | Op::CompareAndSwap { key, .. } => key,
        _ => return None,
    })
}

impl<D: Dialect> Answers for Pipelined<D> {
    type Awaited = Awaited<D::Expect>;

    #[inline]
    fn link(&mut self, number: usize) -> &mut Link<Self::Awaited> {
        &mut self.links[number]
    }

    fn take(&mut self, link: usize, out: &mut dyn Completions) -> Result<(), String> {
        D::take(self, link, out)
    }

    fn lose(&mut self, link: usize, why: &str, out: &mut dyn Completions) {
        for (awaited, sent) in self.links[link].pipe.lose() {
            if awaited.role == Role::Own {
                self.dialect.own_lost(awaited.expect);
                continue;
            }
            let kind = if awaited.role == Role::Look { OpKind::Read } else { awaited.kind };
            let error = if sent { lost(kind, why) } else { self.links[link].not_connected() };
            self.conclude(awaited, Err(error), None, out);
        }
        D::lost(self, link, why, out);
    }

    fn connected(&mut self, link: usize) {
        self.more |= self.dialect.connected(link);
    }
}

impl<D: Dialect> Session for Pipelined<D> {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        // An error means that nothing was queued or completed.
        if let Err(error) = self.run(request, token, out) {
            out.complete(token, Err(error));
        }
    }

    fn flush(&mut self) {
        D::send(self);
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        // Redirections may add links during the loop.
        let mut link = 0;
        while link < self.links.len() {
            if self.links[link].has_news(cx) {
                self.advance(link, out);
                let link = &mut self.links[link];
                // What is behind an answer that never comes cannot be forgotten before it.
                if D::ANY_ORDER && link.pipe.left_behind().is_some_and(|first| first.abandoned) {
                    link.give_up_because(
                        "an answer did not come although many later ones did, so the connection was replaced",
                    );
                }
            }
            link += 1;
        }
        if std::mem::take(&mut self.more) {
            D::send(self);
        }
        if self.in_flight == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    fn counters(&self) -> SessionCounters {
        SessionCounters { disconnects: self.links.iter().map(Link::disconnects).sum(), splits: 0 }
    }

    fn abandon(&mut self, token: Token) {
        let mut found = None;
        for (number, link) in self.links.iter_mut().enumerate() {
            let mut here = false;
            let awaited = self.dialect.held(number).chain(link.pipe.awaited());
            for awaited in awaited.filter(|a| a.token == token && a.role != Role::Own && !a.abandoned) {
                awaited.abandoned = true;
                found = Some(awaited.work);
                here = true;
            }
            if here {
                if D::ANY_ORDER {
                    link.pipe.overtake(|awaited| awaited.abandoned);
                    self.more = true;
                }
                link.abandoned();
            }
        }
        if let Some(work) = found {
            self.in_flight -= 1;
            if work != NONE {
                self.works.get(work).abandoned = true;
            }
        }
    }
}
