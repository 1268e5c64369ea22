//! A session of a key-value store, with one link, or one link to each node that holds some of the keys.
//!
//! The drivers of such stores share this code: single operations, and bulk operations item by item. Operations in steps
//! are in `steps`.

use std::task::{Context, Poll};

use storebench_engine::store::{
    Batch, BulkWrite, Completions, ErrorKind, Op, OpError, OpKind, Reject, Reply, Request, Session, SessionCounters,
    Token,
};
use storebench_study::workload::Body;

use super::{Answers, Change, Link, NONE, Works};
use crate::document::{collection_of, wrong_collection};
use crate::net::lost;
use crate::repeats::{Rounds, Within};

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
    /// A collection as the driver knows it.
    type Collection;

    /// The placeholder until the request is made.
    const NOTHING: Self::Expect;
    /// Whether answers come in any order, each with the number of its request.
    const ANY_ORDER: bool = false;
    /// Whether counters are changed as documents are: by reading and writing them, where no request does it at once.
    const COUNTS_IN_STEPS: bool = false;

    /// The kind of documents in a collection.
    fn body(collection: &Self::Collection) -> Body;

    /// Writes the number of a request into it. For protocols that answer in any order.
    #[inline]
    fn number(_request: &mut [u8], _number: u32) {}

    /// Appends a request that makes the whole change at once, if one can. If it ends with a conflict, the document is
    /// read, changed and written.
    fn at_once(
        &self,
        _key: &str,
        _change: &Change,
        _collection: &Self::Collection,
        _out: &mut Vec<u8>,
    ) -> Option<Result<Self::Expect, OpError>> {
        None
    }

    /// Appends the request of an operation on one document. On an error, the caller removes what was appended.
    fn single(&self, op: &Op<'_>, collection: &Self::Collection, out: &mut Vec<u8>) -> Result<Self::Expect, OpError>;

    /// Appends the request that reads a document and its revision.
    fn look(&self, key: &str, collection: &Self::Collection, out: &mut Vec<u8>) -> Result<Self::Expect, OpError>;

    /// Appends the request that writes a document if it still has the revision that [`Pipelined::looked`] was
    /// given.
    fn swap(
        &self,
        key: &str,
        revision: &[u8],
        body: &[u8],
        collection: &Self::Collection,
        out: &mut Vec<u8>,
    ) -> Result<Self::Expect, OpError>;

    /// Processes all complete answers of a link.
    fn take(session: &mut Pipelined<Self>, link: usize, out: &mut dyn Completions) -> Result<(), String>;

    /// The link for a key.
    #[inline]
    fn link_of(&self, _collection: &Self::Collection, _key: &str) -> usize {
        0
    }

    /// The link for an operation on a key: another one than [`Self::link_of`] if reads may go elsewhere.
    #[inline]
    fn link_for(&self, _op: &Op<'_>, collection: &Self::Collection, key: &str) -> usize {
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
    pub(crate) collections: Vec<D::Collection>,
    pub(crate) read_only: bool,
    pub(crate) links: Vec<Link<Awaited<D::Expect>>>,
    pub(crate) works: Works,
    pub(crate) in_flight: usize,
    /// Whether answers have made new requests.
    pub(crate) more: bool,
    pub(crate) scratch: Vec<u8>,
    /// Finds out whether a bulk write has a key twice.
    rounds: Rounds,
}

impl<D: Dialect> Pipelined<D> {
    pub(crate) fn new(
        dialect: D,
        collections: Vec<D::Collection>,
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
            expect: D::NOTHING,
            role: Role::Whole,
            contents: request.contents,
            abandoned: false,
            // A layout never has more collections than fit.
            collection: u16::try_from(request.collection.position()).unwrap_or(u16::MAX),
            work: NONE,
            item: 0,
        }
    }

    fn run(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) -> Result<(), OpError> {
        let position = request.collection.position();
        // The steps of a transaction are checked one by one.
        let read_only = self.read_only && request.op.kind() != OpKind::Transaction;
        collection_of(request, &self.collections, read_only)?;
        if let Some(done) = D::other(self, request, token, out) {
            return done;
        }
        let awaited = Self::awaited(request, token);
        match request.op {
            Op::BulkWrite { kind: how, items } => {
                let op = move |key, body| match how {
                    BulkWrite::Insert => Op::Insert { key, body },
                    BulkWrite::Upsert => Op::Upsert { key, body },
                };
                self.bulk(position, items, op, awaited, out)
            }
            Op::BulkRead { keys } => self.bulk(position, keys, |key, _| Op::Read { key }, awaited, out),
            Op::BulkDelete { keys } => self.bulk(position, keys, |key, _| Op::Delete { key }, awaited, out),
            Op::MergePatch { key, patch } => {
                if D::body(&self.collections[position]) != Body::Json {
                    return Err(wrong_collection("merge works on collections of JSON only"));
                }
                let patch = serde_json::from_slice(patch)
                    .map_err(|e| OpError::new(ErrorKind::Refused, format!("the patch is not JSON: {e}")))?;
                self.in_steps(position, key, Change::Patch(patch), awaited, out)
            }
            Op::Counter { key, delta, initial } if D::COUNTS_IN_STEPS => {
                if D::body(&self.collections[position]) != Body::Counter {
                    return Err(wrong_collection("counter works on collections of counters only"));
                }
                self.in_steps(position, key, Change::Add { delta, initial, sum: initial }, awaited, out)
            }
            ref op => self.single(position, op, awaited, out),
        }
    }

    #[inline]
    fn single(
        &mut self,
        position: usize,
        op: &Op<'_>,
        mut awaited: Awaited<D::Expect>,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let link = key_of(op).map_or(0, |key| self.dialect.link_for(op, &self.collections[position], key));
        if !self.is_ready(link, out) {
            // An invalid operation is refused with its own error, whether connected or not.
            self.scratch.clear();
            self.dialect.single(op, &self.collections[position], &mut self.scratch)?;
            return Err(self.links[link].not_connected());
        }
        if self.dialect.is_spread() {
            awaited.work = self.works.take(awaited.token, awaited.kind, awaited.contents);
        }
        if let Err(error) = self.append(link, position, op, awaited, true) {
            if awaited.work != NONE {
                self.works.give_back(awaited.work);
            }
            return Err(error);
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Appends one request. If it is refused, nothing of it remains.
    #[inline]
    fn append(
        &mut self,
        link: usize,
        position: usize,
        op: &Op<'_>,
        mut awaited: Awaited<D::Expect>,
        counts: bool,
    ) -> Result<(), OpError> {
        let (pipe, collection) = (&mut self.links[link].pipe, &self.collections[position]);
        if self.dialect.is_spread() {
            let work = self.works.get(awaited.work);
            let start = work.requests.len();
            let made = self.dialect.single(op, collection, &mut work.requests);
            work.ends.push(work.requests.len());
            awaited.expect = made?;
            pipe.request(awaited, counts).extend_from_slice(&work.requests[start..]);
            pipe.number(|number, request| D::number(request, number));
        } else {
            let buffer = pipe.request(awaited, counts);
            match self.dialect.single(op, collection, buffer) {
                Ok(expect) => {
                    pipe.amend(|last| last.expect = expect);
                    pipe.number(|number, request| D::number(request, number));
                }
                Err(error) => {
                    pipe.take_back();
                    return Err(error);
                }
            }
        }
        if awaited.kind.writes() {
            self.dialect.wrote(link);
        }
        Ok(())
    }

    /// Sends the items one after another in one write. Each has its own answer.
    fn bulk<'b>(
        &mut self,
        position: usize,
        items: Batch<'b>,
        op: impl Fn(&'b str, &'b [u8]) -> Op<'b>,
        awaited: Awaited<D::Expect>,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let spread = self.dialect.is_spread();
        if !spread && !items.is_empty() && !self.is_ready(0, out) {
            return Err(self.links[0].not_connected());
        }
        if D::ANY_ORDER && awaited.kind.writes() {
            self.rounds.arrange(items, Within::Given);
            if self.rounds.ends.len() > 1 {
                return self.bulk_in_rounds(position, items, op, awaited, out);
            }
        }
        let Awaited { token, kind, contents, .. } = awaited;
        let number = self.works.take(token, kind, contents);
        self.works.get(number).items = items.len() as u32;
        for (item, (key, body)) in items.iter().enumerate() {
            let link = self.dialect.link_of(&self.collections[position], key);
            let pushed = if spread && !self.is_ready(link, out) {
                // Leave an empty slot, because requests are found by item number.
                let work = self.works.get(number);
                work.ends.push(work.requests.len());
                Err(self.links[link].not_connected())
            } else {
                let counts = self.works.get(number).pending == 0;
                let awaited = Awaited { role: Role::Item, work: number, item: item as u32, ..awaited };
                self.append(link, position, &op(key, body), awaited, counts)
            };
            let work = self.works.get(number);
            match pushed {
                Ok(()) => work.pending += 1,
                Err(error) if kind.writes() => work.rejects.push(Reject { item, error }),
                Err(error) => work.error = Some(error),
            }
            // Store every key, because answers find theirs by item number.
            if kind == OpKind::BulkRead && contents {
                work.keys.push(key, b"");
            }
        }
        self.in_flight += 1;
        if self.works.get(number).pending == 0 {
            self.finish(number, out);
        }
        Ok(())
    }

    /// Sends the items of a bulk write so that those of one key go one after the other, for servers that do what they have
    /// at once in any order.
    fn bulk_in_rounds<'b>(
        &mut self,
        position: usize,
        items: Batch<'b>,
        op: impl Fn(&'b str, &'b [u8]) -> Op<'b>,
        mut awaited: Awaited<D::Expect>,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let number = self.works.take(awaited.token, awaited.kind, false);
        (awaited.role, awaited.work) = (Role::Item, number);
        let work = self.works.get(number);
        (work.items, work.collection) = (items.len() as u32, position);
        for (item, (key, body)) in items.iter().enumerate() {
            let start = work.requests.len();
            match self.dialect.single(&op(key, body), &self.collections[position], &mut work.requests) {
                Ok(expect) => awaited.expect = expect,
                Err(error) => {
                    work.requests.truncate(start);
                    work.rejects.push(Reject { item, error });
                }
            }
            work.ends.push(work.requests.len());
            work.keys.push(key, b"");
        }
        let Rounds { order, .. } = &self.rounds;
        work.rounds.extend(self.rounds.ranges().rev().map(|round| order[round].to_vec()));
        self.in_flight += 1;
        self.next_round(awaited, out);
        Ok(())
    }

    /// Sends the next items of a bulk write, or completes it.
    fn next_round(&mut self, awaited: Awaited<D::Expect>, out: &mut dyn Completions) {
        let work = self.works.get(awaited.work);
        while work.pending == 0 && !work.abandoned {
            let Some(round) = work.rounds.pop() else { break };
            for item in round {
                let request = work.request(item);
                if request.is_empty() {
                    continue;
                }
                let key = work.keys.as_batch().get(item as usize).map_or("", |(key, _)| key);
                let link = self.dialect.link_of(&self.collections[work.collection], key);
                if !self.links[link].is_up() {
                    let error = self.links[link].not_connected();
                    work.rejects.push(Reject { item: item as usize, error });
                    continue;
                }
                let pipe = &mut self.links[link].pipe;
                pipe.request(Awaited { item, ..awaited }, work.pending == 0).extend_from_slice(request);
                pipe.number(|number, request| D::number(request, number));
                self.dialect.wrote(link);
                work.pending += 1;
                self.more = true;
            }
        }
        if work.pending == 0 {
            self.finish(awaited.work, out);
        }
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
                    Err(error) if error.kind == ErrorKind::NotFound && work.kind == OpKind::BulkDelete => {}
                    Err(error) if awaited.role == Role::Item && work.kind.writes() => {
                        work.rejects.push(Reject { item: awaited.item as usize, error });
                    }
                    Err(error) => work.error = Some(error),
                }
                self.one_less(awaited, out);
            }
            Role::Whole | Role::Look | Role::Swap => {
                if awaited.work != NONE {
                    self.works.give_back(awaited.work);
                }
                if !awaited.abandoned {
                    self.in_flight -= 1;
                    out.complete(awaited.token, result.map(|()| Reply { counter, ..Reply::written(1) }));
                }
            }
            Role::Own => {}
        }
    }

    /// Records that one pending answer has come.
    pub(crate) fn one_less(&mut self, awaited: Awaited<D::Expect>, out: &mut dyn Completions) {
        let work = self.works.get(awaited.work);
        work.pending -= 1;
        if work.pending == 0 {
            self.next_round(awaited, out);
        }
    }

    /// Completes an operation that has no pending answers left.
    fn finish(&mut self, number: u32, out: &mut dyn Completions) {
        let work = self.works.get(number);
        if !work.abandoned {
            self.in_flight -= 1;
            let token = work.token;
            out.complete(token, work.result());
        }
        self.works.give_back(number);
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
