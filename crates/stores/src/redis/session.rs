//! One session: one connection, or one to each primary of a cluster.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use storebench_core::store::{
    Batch, BulkWrite, Completions, ErrorKind, Op, OpError, OpKind, Persisted, Reject, Reply, Request, Session,
    SessionCounters, Token,
};
use storebench_core::workload::Body;

use super::cluster::{self, Range, SLOTS};
use super::connector;
use super::namespace::Collection;
use super::request::{self, Expect};
use super::resp::{command, word};
use super::scripts::{Names, Script};
use super::settings::Settings;
use crate::document::{self, wrong_collection};
use crate::net::{Host, lost};
use crate::pipeline::{Link, NONE, Turn, Works};

/// What is awaited on a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    pub(super) token: Token,
    pub(super) kind: OpKind,
    pub(super) expect: Expect,
    pub(super) role: Role,
    pub(super) contents: bool,
    pub(super) abandoned: bool,
    pub(super) work: u32,
    pub(super) item: u32,
}

/// What an answer is to its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// All of it.
    Whole,
    /// All of it; its request is kept by its work, in case that it must be sent elsewhere.
    Kept,
    /// An item of a bulk operation.
    Item,
    /// One that gives several documents.
    Rows,
    /// A step of a merge: read, then swap.
    Step,
    /// None: the driver's own request.
    Own,
}

/// How writes are acknowledged by replicas.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledge {
    pub(super) replicas: u32,
    pub(super) within_ms: u64,
}

/// Writes of one connection that the primary has done and replicas have not acknowledged yet.
#[derive(Debug, Default)]
pub(super) struct Acks {
    /// Whether a write was sent since the last `WAIT`.
    pub(super) wanted: bool,
    pub(super) held: VecDeque<(Awaited, Option<i64>)>,
}

/// Where the keys of a cluster are.
#[derive(Debug)]
pub(super) struct Route {
    /// Of the links, in their order.
    pub(super) hosts: Vec<Host>,
    /// The link of each slot.
    pub(super) slots: Vec<u16>,
    /// Whether the map has been asked for.
    pub(super) asking: bool,
}

/// One session.
pub(crate) struct RedisSession {
    pub(super) settings: Arc<Settings>,
    pub(super) collections: Vec<Collection>,
    pub(super) read_only: bool,
    pub(super) names: Names,
    pub(super) largest_bytes: u64,
    pub(super) window: u32,
    pub(super) timeout: Duration,
    /// What an acknowledgement promises of the disk.
    pub(super) persisted: Persisted,
    pub(super) acknowledge: Option<Acknowledge>,
    pub(super) links: Vec<Link<Awaited>>,
    pub(super) acks: Vec<Acks>,
    pub(super) route: Option<Route>,
    pub(super) works: Works,
    pub(super) in_flight: usize,
    /// Whether answers have made new requests.
    pub(super) more: bool,
    pub(super) seed: u64,
    pub(super) scratch: Vec<u8>,
}

impl RedisSession {
    /// The link for a key.
    #[inline]
    fn link_of(&self, collection: usize, key: &str) -> usize {
        let Some(route) = &self.route else { return 0 };
        let prefix = &self.collections[collection].prefix;
        let slot = if memchr::memchr(b'{', prefix).is_none() && memchr::memchr(b'{', key.as_bytes()).is_none() {
            // Without a tag the whole key counts, in parts: no copy is made of it.
            let mut state = crc16::State::<crc16::XMODEM>::new();
            state.update(prefix);
            state.update(key.as_bytes());
            state.get() % SLOTS as u16
        } else {
            cluster::slot(&[prefix.as_slice(), key.as_bytes()].concat())
        };
        usize::from(route.slots[usize::from(slot)])
    }

    /// Whether a link can be sent to; one that is down is looked after on the way.
    #[inline]
    fn ready(&mut self, link: usize, out: &mut dyn Completions) -> bool {
        if self.links[link].is_up() {
            return true;
        }
        if self.links[link].was_woken() {
            self.advance(link, out);
        }
        self.links[link].is_up()
    }

    fn run(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) -> Result<(), OpError> {
        let collection = request.collection.position();
        let kind = request.op.kind();
        let Some(Collection { body, order, .. }) = self.collections.get(collection) else {
            return Err(OpError::new(ErrorKind::Refused, "the layout has no such collection"));
        };
        let (body, ordered) = (*body, order.is_some());
        if self.read_only && kind.writes() {
            return Err(OpError::new(ErrorKind::Refused, "the store was opened for reading only"));
        }
        match request.op {
            Op::BulkWrite { kind: how, items } => {
                let op = move |key, body| match how {
                    BulkWrite::Insert => Op::Insert { key, body },
                    BulkWrite::Upsert => Op::Upsert { key, body },
                };
                self.bulk(collection, kind, items, op, request.contents, token, out)
            }
            Op::BulkDelete { keys } => {
                self.bulk(collection, kind, keys, |key, _| Op::Delete { key }, request.contents, token, out)
            }
            Op::BulkRead { keys } if self.route.is_some() => {
                self.bulk(collection, kind, keys, |key, _| Op::Read { key }, request.contents, token, out)
            }
            Op::BulkRead { keys } => self.read_many(collection, keys, request.contents, token, out),
            Op::MergePatch { key, patch } => self.merge(collection, body, key, patch, token, out),
            Op::Prefix { .. } | Op::Scan { .. } if ordered => self.range(collection, request, token, out),
            _ => self.single(collection, request, token, out),
        }
    }

    #[inline]
    fn single(
        &mut self,
        collection: usize,
        request: &Request<'_>,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let kind = request.op.kind();
        let mut awaited = Awaited {
            token,
            kind,
            expect: Expect::Ignored,
            role: Role::Whole,
            contents: request.contents,
            abandoned: false,
            work: NONE,
            item: 0,
        };
        let link = match (&self.route, &request.op) {
            (Some(_), op) => match key_of(op) {
                Some(key) => self.link_of(collection, key),
                None => return Err(OpError::unsupported()),
            },
            (None, _) => 0,
        };
        if !self.ready(link, out) {
            // Refused all the same, connected or not, where it always would be.
            self.scratch.clear();
            let collection = &self.collections[collection];
            request::single(&request.op, collection, &self.names, self.largest_bytes, &mut self.scratch)?;
            return Err(self.links[link].not_connected());
        }
        if self.route.is_some() {
            let number = self.works.take(token, kind, request.contents);
            let work = self.works.get(number);
            let collection = &self.collections[collection];
            match request::single(&request.op, collection, &self.names, self.largest_bytes, &mut work.requests) {
                Ok(expect) => awaited.expect = expect,
                Err(error) => {
                    self.works.give_back(number);
                    return Err(error);
                }
            }
            work.ends.push(work.requests.len());
            (awaited.role, awaited.work) = (Role::Kept, number);
            self.links[link].pipe.request(awaited, true).extend_from_slice(&work.requests);
        } else {
            let pipe = &mut self.links[link].pipe;
            let collection = &self.collections[collection];
            let buffer = pipe.request(awaited, true);
            match request::single(&request.op, collection, &self.names, self.largest_bytes, buffer) {
                Ok(expect) => pipe.amend(|last| last.expect = expect),
                Err(error) => {
                    // Nothing was appended.
                    pipe.take_back();
                    return Err(error);
                }
            }
        }
        self.acks[link].wanted |= kind.writes();
        self.in_flight += 1;
        Ok(())
    }

    /// Items one after another in one write, each with its own answer.
    #[allow(clippy::too_many_arguments)]
    fn bulk<'b>(
        &mut self,
        collection: usize,
        kind: OpKind,
        items: Batch<'b>,
        op: impl Fn(&'b str, &'b [u8]) -> Op<'b>,
        contents: bool,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        if self.route.is_none() && !items.is_empty() && !self.ready(0, out) {
            return Err(self.links[0].not_connected());
        }
        let number = self.works.take(token, kind, contents);
        self.works.get(number).items = items.len() as u32;
        let mut counts = true;
        for (item, (key, body)) in items.iter().enumerate() {
            let link = self.link_of(collection, key);
            let error = if self.route.is_some() && !self.ready(link, out) {
                // Its place is kept empty: requests are found by the number of their item.
                let work = self.works.get(number);
                work.ends.push(work.requests.len());
                Some(self.links[link].not_connected())
            } else {
                self.item(collection, link, number, item, &op(key, body), std::mem::take(&mut counts)).err()
            };
            let work = self.works.get(number);
            match error {
                Some(error) if kind.writes() => work.rejects.push(Reject { item, error }),
                Some(error) => work.error = Some(error),
                None => {}
            }
            // All of them, so that an item finds its own.
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

    fn item(
        &mut self,
        collection: usize,
        link: usize,
        number: u32,
        item: usize,
        op: &Op<'_>,
        counts: bool,
    ) -> Result<(), OpError> {
        let (collection, work) = (&self.collections[collection], self.works.get(number));
        let mut awaited = Awaited {
            token: work.token,
            kind: work.kind,
            expect: Expect::Ignored,
            role: Role::Item,
            contents: work.contents,
            abandoned: false,
            work: number,
            item: item as u32,
        };
        let pipe = &mut self.links[link].pipe;
        if self.route.is_some() {
            let start = work.requests.len();
            let made = request::single(op, collection, &self.names, self.largest_bytes, &mut work.requests);
            work.ends.push(work.requests.len());
            awaited.expect = made?;
            pipe.request(awaited, counts).extend_from_slice(&work.requests[start..]);
        } else {
            let buffer = pipe.request(awaited, counts);
            match request::single(op, collection, &self.names, self.largest_bytes, buffer) {
                Ok(expect) => pipe.amend(|last| last.expect = expect),
                Err(error) => {
                    pipe.take_back();
                    return Err(error);
                }
            }
        }
        work.pending += 1;
        self.acks[link].wanted |= work.kind.writes();
        Ok(())
    }

    fn read_many(
        &mut self,
        collection: usize,
        keys: Batch<'_>,
        contents: bool,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        if keys.is_empty() {
            let rows = contents.then(Batch::default);
            out.complete(token, Ok(Reply { rows, ..Reply::default() }));
            return Ok(());
        }
        if !self.ready(0, out) {
            return Err(self.links[0].not_connected());
        }
        let number = self.works.take(token, OpKind::BulkRead, contents);
        let work = self.works.get(number);
        if contents {
            keys.iter().for_each(|(key, _)| work.keys.push(key, b""));
        }
        work.pending = 1;
        let awaited = rows(number, token, OpKind::BulkRead, contents, Expect::Many);
        let all = (0..keys.len()).map(|position| keys.get(position).map_or("", |(key, _)| key));
        request::many(&self.collections[collection], all, self.links[0].pipe.request(awaited, true));
        self.in_flight += 1;
        Ok(())
    }

    fn range(
        &mut self,
        collection: usize,
        request: &Request<'_>,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        if !self.ready(0, out) {
            return Err(self.links[0].not_connected());
        }
        let found = &self.collections[collection];
        let Some(order) = found.order.as_deref() else { return Err(OpError::unsupported()) };
        let (start, end, limit) = match request.op {
            Op::Prefix { prefix, limit } => {
                let bounded = document::prefix_end(prefix.as_bytes(), &mut self.scratch);
                (prefix, bounded.then_some(self.scratch.as_slice()), limit)
            }
            Op::Scan { start, end, limit } => (start, end.map(str::as_bytes), limit),
            _ => return Err(OpError::unsupported()),
        };
        let kind = request.op.kind();
        let number = self.works.take(token, kind, request.contents);
        self.works.get(number).pending = 1;
        let awaited = rows(number, token, kind, request.contents, Expect::Rows);
        request::range(
            found,
            order,
            &self.names,
            start.as_bytes(),
            end,
            limit,
            self.links[0].pipe.request(awaited, true),
        );
        self.in_flight += 1;
        Ok(())
    }

    fn merge(
        &mut self,
        collection: usize,
        body: Body,
        key: &str,
        patch: &[u8],
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        if body != Body::Json {
            return Err(wrong_collection("merge works on collections of JSON only"));
        }
        let patch = serde_json::from_slice(patch)
            .map_err(|e| OpError::new(ErrorKind::Refused, format!("the patch is not JSON: {e}")))?;
        let link = self.link_of(collection, key);
        if !self.ready(link, out) {
            return Err(self.links[link].not_connected());
        }
        let number = self.works.take(token, OpKind::MergePatch, false);
        let work = self.works.get(number);
        work.collection = collection;
        work.key.push_str(key);
        work.patch = patch;
        work.pending = 1;
        self.in_flight += 1;
        self.step(link, number, None)
    }

    /// The next request of a merge: the read, or the swap of what was read for what it becomes.
    pub(super) fn step(&mut self, link: usize, number: u32, swap: Option<(&[u8], &[u8])>) -> Result<(), OpError> {
        let work = self.works.get(number);
        let op = match swap {
            None => Op::Read { key: &work.key },
            Some((expected, body)) => Op::CompareAndSwap { key: &work.key, expected, body },
        };
        let mut request = std::mem::take(&mut work.requests);
        request.clear();
        let collection = &self.collections[work.collection];
        let made = request::single(&op, collection, &self.names, self.largest_bytes, &mut request);
        work.requests = request;
        let awaited = Awaited { role: Role::Step, ..rows(number, work.token, work.kind, false, made?) };
        work.ends.clear();
        work.ends.push(work.requests.len());
        self.links[link].pipe.request(awaited, true).extend_from_slice(&work.requests);
        self.acks[link].wanted |= swap.is_some();
        Ok(())
    }

    /// Asks for the acknowledgement of what was written, and sends everything.
    fn send(&mut self) {
        for (link, acks) in self.links.iter_mut().zip(&mut self.acks) {
            // Writes to a node that is still being connected to are acknowledged once it is.
            if let Some(ack) = self.acknowledge
                && link.is_up()
                && std::mem::take(&mut acks.wanted)
            {
                let buffer = link.pipe.request(own(Expect::Replicas), false);
                let (mut replicas, mut within_ms) = (itoa::Buffer::new(), itoa::Buffer::new());
                command(buffer, 3);
                word(buffer, b"WAIT");
                word(buffer, replicas.format(ack.replicas).as_bytes());
                word(buffer, within_ms.format(ack.within_ms).as_bytes());
            }
            link.flush();
        }
    }

    /// Moves a link on until it gives nothing more.
    pub(super) fn advance(&mut self, link: usize, out: &mut dyn Completions) {
        loop {
            match self.links[link].turn() {
                Turn::Nothing => return,
                Turn::Connected => self.more |= self.acks[link].wanted,
                Turn::Input => {
                    if let Err(garbage) = self.take_answers(link, out) {
                        self.links[link].give_up();
                        self.lose(link, &format!("`{}` came, which no Redis answers", garbage.0), out);
                    }
                }
                Turn::Lost(why) => self.lose(link, &why, out),
            }
        }
    }

    /// Ends what was in flight on a link that was lost.
    fn lose(&mut self, link: usize, why: &str, out: &mut dyn Completions) {
        self.acks[link].wanted = false;
        for (awaited, _) in std::mem::take(&mut self.acks[link].held) {
            self.conclude(awaited, Err(lost(awaited.kind, why)), None, out);
        }
        for (awaited, sent) in self.links[link].pipe.lose() {
            if awaited.expect == Expect::Slots
                && let Some(route) = &mut self.route
            {
                route.asking = false;
            }
            if awaited.role == Role::Own {
                continue;
            }
            // The first step of a merge only reads.
            let reads = awaited.role == Role::Step && awaited.expect == Expect::Value;
            let kind = if reads { OpKind::Read } else { awaited.kind };
            let error = if sent { lost(kind, why) } else { self.links[link].not_connected() };
            self.conclude(awaited, Err(error), None, out);
        }
        self.ask_for_map(link);
    }

    /// Asks another node than this one who serves which slots.
    pub(super) fn ask_for_map(&mut self, but: usize) {
        let Some(route) = &mut self.route else { return };
        let up = (0..self.links.len()).find(|other| *other != but && self.links[*other].is_up());
        if let Some(other) = up.filter(|_| !route.asking) {
            route.asking = true;
            let buffer = self.links[other].pipe.request(own(Expect::Slots), false);
            command(buffer, 2);
            word(buffer, b"CLUSTER");
            word(buffer, b"SLOTS");
            self.more = true;
        }
    }

    /// Takes over who serves which slots.
    pub(super) fn set_map(&mut self, map: &[Range]) {
        for range in map {
            let link = self.link_to(&range.host);
            if let Some(route) = &mut self.route {
                route.slots[usize::from(range.first)..=usize::from(range.last)].fill(link as u16);
            }
        }
    }

    /// The link to a node; one that is new is being connected.
    pub(super) fn link_to(&mut self, host: &Host) -> usize {
        let Some(route) = &mut self.route else { return 0 };
        if let Some(link) = route.hosts.iter().position(|other| other == host) {
            return link;
        }
        route.hosts.push(host.clone());
        self.seed = self.seed.wrapping_add(1);
        let connect = connector::again(&self.settings, host, true, self.persisted);
        self.links.push(Link::connecting(connect, self.window, self.timeout, self.seed));
        self.acks.push(Acks::default());
        self.links.len() - 1
    }

    /// Loads the scripts again on a server that has forgotten them.
    pub(super) fn load_scripts(&mut self, link: usize) {
        // What was asked for in one go is answered in one go: the first answer loads them for all.
        if self.links[link].pipe.awaited().any(|awaited| awaited.expect == Expect::Script) {
            return;
        }
        for script in Script::needed(self.settings.ordered) {
            let buffer = self.links[link].pipe.request(own(Expect::Script), false);
            command(buffer, 3);
            word(buffer, b"SCRIPT");
            word(buffer, b"LOAD");
            word(buffer, script.text().as_bytes());
        }
        self.more = true;
    }
}

/// A request of the driver's own.
pub(super) fn own(expect: Expect) -> Awaited {
    Awaited { role: Role::Own, ..rows(NONE, Token(0), OpKind::Read, false, expect) }
}

fn rows(work: u32, token: Token, kind: OpKind, contents: bool, expect: Expect) -> Awaited {
    Awaited { token, kind, expect, role: Role::Rows, contents, abandoned: false, work, item: 0 }
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

impl Session for RedisSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        // An error means that nothing was completed or queued.
        if let Err(error) = self.run(request, token, out) {
            out.complete(token, Err(error));
        }
    }

    fn flush(&mut self) {
        self.send();
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        // Redirections may add links on the way.
        let mut link = 0;
        while link < self.links.len() {
            if self.links[link].has_news(cx) {
                self.advance(link, out);
            }
            link += 1;
        }
        if std::mem::take(&mut self.more) {
            self.send();
        }
        if self.in_flight == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    fn counters(&self) -> SessionCounters {
        SessionCounters { disconnects: self.links.iter().map(Link::disconnects).sum(), splits: 0 }
    }

    fn abandon(&mut self, token: Token) {
        let mut found = None;
        for (link, acks) in self.links.iter_mut().zip(&mut self.acks) {
            let mut here = false;
            let held = acks.held.iter_mut().map(|(awaited, _)| awaited);
            let awaited = held.chain(link.pipe.awaited());
            for awaited in awaited.filter(|a| a.token == token && a.role != Role::Own && !a.abandoned) {
                awaited.abandoned = true;
                found = Some(awaited.work);
                here = true;
            }
            if here {
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

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
