//! A session: one connection, or one to each primary of a cluster, or one to a primary and one to its replica.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{Batch, Completions, Op, OpError, Persisted, Reply, Request, StepsFound, Token};

use super::cluster::{self, Range, SLOTS};
use super::connector;
use super::request::{self, Expect};
use super::resp::full_command;
use super::scripts::{self, Names};
use super::settings::Settings;
use super::study_queries::{Reads, Word};
use super::transactions::Begun;
use crate::connection::{Answers, Collection, Dialect, Link, Pipelined, Role};
use crate::document;
use crate::net::{Host, lost};
use crate::study_queries::ByNumber;

/// An answer awaited on a connection.
pub(super) type Awaited = crate::connection::Awaited<Expect>;

/// A session.
pub(crate) type RedisSession = Pipelined<Redis>;

/// The link to the replica that answers reads.
const REPLICA: usize = 1;

/// How replicas acknowledge writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledge {
    pub(super) replicas: u32,
    pub(super) within_ms: u64,
}

/// The writes of one connection that the primary has applied and replicas have not acknowledged yet.
#[derive(Debug, Default)]
pub(super) struct Acks {
    /// Whether a write was sent since the last `WAIT`.
    pub(super) wanted: bool,
    pub(super) held: VecDeque<(Awaited, Option<i64>)>,
}

/// The routing of a cluster's keys.
#[derive(Debug)]
pub(super) struct Route {
    /// The host of each link.
    pub(super) hosts: Vec<Host>,
    /// The link of each slot.
    pub(super) slots: Vec<u16>,
    /// Whether a request for the slot map is in flight.
    pub(super) asking: bool,
}

/// How a session talks to its servers.
pub(crate) struct Redis {
    pub(super) settings: Arc<Settings>,
    pub(super) names: Names,
    pub(super) largest_bytes: u64,
    pub(super) window: u32,
    pub(super) timeout: Duration,
    /// The durability on disk that an acknowledgement guarantees.
    pub(super) persisted: Persisted,
    pub(super) acknowledge: Option<Acknowledge>,
    /// Pending acknowledgements of each link.
    pub(super) acks: Vec<Acks>,
    pub(super) route: Option<Route>,
    /// Whether the second link leads to a replica, which answers reads.
    pub(super) replica: bool,
    /// The queries so far.
    pub(super) queries: ByNumber<Vec<Word>>,
    /// The commands that only read, by the tries of queries.
    pub(super) reads: Reads,
    /// The transactions in flight, the oldest first.
    pub(super) transactions: VecDeque<Begun>,
    /// What the steps of a transaction found.
    pub(super) found: StepsFound,
}

impl Dialect for Redis {
    type Expect = Expect;

    const NOTHING: Expect = Expect::Ignored;

    #[inline]
    fn single(&self, op: &Op<'_>, collection: &Collection, out: &mut Vec<u8>) -> Result<Expect, OpError> {
        request::single(op, collection, &self.names, self.largest_bytes, out)
    }

    fn take(session: &mut RedisSession, link: usize, out: &mut dyn Completions) -> Result<(), String> {
        session.take_answers(link, out).map_err(|garbage| format!("received `{}`, not a Redis answer", garbage.0))
    }

    #[inline]
    fn link_of(&self, collection: &Collection, key: &str) -> usize {
        let Some(route) = &self.route else { return 0 };
        let prefix = &collection.prefix;
        let slot = if memchr::memchr(b'{', prefix).is_none() && memchr::memchr(b'{', key.as_bytes()).is_none() {
            // Without a tag, the whole key is hashed, in parts, to avoid a copy.
            let mut state = crc16::State::<crc16::XMODEM>::new();
            state.update(prefix);
            state.update(key.as_bytes());
            state.get() % SLOTS as u16
        } else {
            cluster::slot(&[prefix.as_slice(), key.as_bytes()].concat())
        };
        usize::from(route.slots[usize::from(slot)])
    }

    #[inline]
    fn link_for(&self, op: &Op<'_>, collection: &Collection, key: &str) -> usize {
        match op {
            Op::Read { .. } | Op::Exists { .. } if self.replica => REPLICA,
            _ => self.link_of(collection, key),
        }
    }

    #[inline]
    fn is_spread(&self) -> bool {
        self.route.is_some()
    }

    #[inline]
    fn other(
        session: &mut RedisSession,
        request: &Request<'_>,
        token: Token,
        out: &mut dyn Completions,
    ) -> Option<Result<(), OpError>> {
        match request.op {
            Op::BulkRead { keys } if !session.dialect.is_spread() => Some(session.read_many(request, keys, token, out)),
            Op::Prefix { .. } | Op::Scan { .. } => session.range(request, token, out),
            Op::Query { number, text, values } if !session.dialect.is_spread() => {
                Some(session.ask(request, (number, text, values), token, out))
            }
            Op::Transaction { steps, rolls_back, .. } if !session.dialect.is_spread() => {
                Some(session.begin_transaction(request, steps, rolls_back, token, out))
            }
            _ => None,
        }
    }

    #[inline]
    fn wrote(&mut self, link: usize) {
        self.acks[link].wanted = true;
    }

    #[inline]
    fn holds(&mut self, link: usize, awaited: &Awaited, counter: Option<i64>) -> bool {
        let holds = self.acknowledge.is_some();
        if holds {
            self.acks[link].held.push_back((*awaited, counter));
        }
        holds
    }

    fn held(&mut self, link: usize) -> impl Iterator<Item = &mut Awaited> {
        self.acks[link].held.iter_mut().map(|(awaited, _)| awaited)
    }

    /// Requests the acknowledgement of new writes, and flushes all links.
    fn send(session: &mut RedisSession) {
        let Redis { acks, acknowledge, .. } = &mut session.dialect;
        for (link, acks) in session.links.iter_mut().zip(acks) {
            // Writes to a node that is still connecting are acknowledged once it is connected.
            if let Some(ack) = acknowledge
                && link.is_up()
                && std::mem::take(&mut acks.wanted)
            {
                let buffer = link.pipe.request(Awaited::own(Expect::Replicas), false);
                let (mut replicas, mut within_ms) = (itoa::Buffer::new(), itoa::Buffer::new());
                let replicas = replicas.format(ack.replicas).as_bytes();
                full_command(buffer, &[b"WAIT", replicas, within_ms.format(ack.within_ms).as_bytes()]);
            }
            link.flush();
        }
    }

    fn connected(&mut self, link: usize) -> bool {
        self.acks[link].wanted
    }

    fn own_lost(&mut self, expect: Expect) {
        if expect == Expect::Slots
            && let Some(route) = &mut self.route
        {
            route.asking = false;
        }
    }

    fn lost(session: &mut RedisSession, link: usize, why: &str, out: &mut dyn Completions) {
        if link == 0 {
            session.dialect.transactions.clear();
        }
        let acks = std::mem::take(&mut session.dialect.acks[link]);
        for (awaited, _) in acks.held {
            session.conclude(awaited, Err(lost(awaited.kind, why)), None, out);
        }
        session.ask_for_map(link);
    }
}

impl Pipelined<Redis> {
    fn read_many(
        &mut self,
        request: &Request<'_>,
        keys: Batch<'_>,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        if keys.is_empty() {
            let rows = request.contents.then(Batch::default);
            out.complete(token, Ok(Reply { rows, ..Reply::default() }));
            return Ok(());
        }
        let link = if self.dialect.replica { REPLICA } else { 0 };
        if !self.is_ready(link, out) {
            return Err(self.links[link].not_connected());
        }
        let number = self.works.take(request.contents);
        let work = self.works.get(number);
        if request.contents {
            keys.iter().for_each(|(key, _)| work.keys.push(key, b""));
        }
        work.pending = 1;
        let awaited = Awaited { role: Role::Rows, expect: Expect::Many, work: number, ..Self::awaited(request, token) };
        let all = (0..keys.len()).map(|position| keys.get(position).map_or("", |(key, _)| key));
        let collection = &self.collections[request.collection.position()];
        request::many(collection, all, self.links[link].pipe.request(awaited, true));
        self.in_flight += 1;
        Ok(())
    }

    fn range(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) -> Option<Result<(), OpError>> {
        let position = request.collection.position();
        self.collections[position].order.as_ref()?;
        if !self.is_ready(0, out) {
            return Some(Err(self.links[0].not_connected()));
        }
        let found = &self.collections[position];
        let order = found.order.as_deref()?;
        let (start, end, limit) = match request.op {
            Op::Prefix { prefix, limit } => {
                let bounded = document::prefix_end(prefix.as_bytes(), &mut self.scratch);
                (prefix, bounded.then_some(self.scratch.as_slice()), limit)
            }
            Op::Scan { start, end, limit } => (start, end.map(str::as_bytes), limit),
            _ => return None,
        };
        let number = self.works.take(request.contents);
        self.works.get(number).pending = 1;
        let awaited = Awaited { role: Role::Rows, expect: Expect::Rows, work: number, ..Self::awaited(request, token) };
        let (names, buffer) = (&self.dialect.names, self.links[0].pipe.request(awaited, true));
        request::range(found, order, names, start.as_bytes(), end, limit, buffer);
        self.in_flight += 1;
        Some(Ok(()))
    }

    /// Requests the slot map from another node than `but`.
    pub(super) fn ask_for_map(&mut self, but: usize) {
        let Some(route) = &mut self.dialect.route else { return };
        let up = (0..self.links.len()).find(|other| *other != but && self.links[*other].is_up());
        if let Some(other) = up.filter(|_| !route.asking) {
            route.asking = true;
            let buffer = self.links[other].pipe.request(Awaited::own(Expect::Slots), false);
            full_command(buffer, &[b"CLUSTER", b"SLOTS"]);
            self.more = true;
        }
    }

    /// Applies a slot map.
    pub(super) fn set_map(&mut self, map: &[Range]) {
        for range in map {
            let link = self.link_to(&range.host);
            if let Some(route) = &mut self.dialect.route {
                route.slots[usize::from(range.first)..=usize::from(range.last)].fill(link as u16);
            }
        }
    }

    /// The link to a node. A new one starts connecting.
    pub(super) fn link_to(&mut self, host: &Host) -> usize {
        let Redis { route: Some(route), settings, persisted, window, timeout, acks, .. } = &mut self.dialect else {
            return 0;
        };
        if let Some(link) = route.hosts.iter().position(|other| other == host) {
            return link;
        }
        route.hosts.push(host.clone());
        let connect = connector::again(settings, host, true, *persisted);
        self.links.push(Link::connecting(connect, *window, *timeout));
        acks.push(Acks::default());
        self.links.len() - 1
    }

    /// Reloads the scripts on a server that lost them.
    pub(super) fn load_scripts(&mut self, link: usize) {
        // Pipelined requests all fail with NOSCRIPT together. The first failure reloads the scripts for all.
        if self.links[link].pipe.awaited().any(|awaited| awaited.expect == Expect::Script) {
            return;
        }
        for text in scripts::needed(self.dialect.settings.ordered) {
            let buffer = self.links[link].pipe.request(Awaited::own(Expect::Script), false);
            full_command(buffer, &[b"SCRIPT", b"LOAD", text.as_bytes()]);
        }
        self.more = true;
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
