//! A session: each operation has a connection to itself while it is in progress.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use storebench_engine::store::{
    BatchBuf, Completions, Op, OpError, OpKind, OwnedReply, Request, Session, SessionCounters, Token,
};
use storebench_study::workload::Body;

use super::begin::Begin;
use super::commands::{Builder, Collection, Tails};
use super::job::{Job, Step};
use super::node::{Awaited, NodeConnections};
use super::study_queries;
use super::transaction::{Next, Transaction};
use super::wire::{self, garbage};
use crate::connection::{Answers, Link};
use crate::document::collection_of;
use crate::net::lost;
use crate::study_queries::{ByNumber, Template};

/// What all operations need.
pub(super) struct Shared {
    pub(super) collections: Vec<Collection>,
    pub(super) tails: Tails,
    pub(super) read_only: bool,
    /// Whether the servers have transactions.
    pub(super) transactions: bool,
    pub(super) is_ferretdb_1: bool,
    pub(super) orphans: Arc<Orphans>,
}

/// The IDs of sessions whose transactions were open when the last connection to them was closed.
pub(super) type Orphans = Mutex<Vec<[u8; 16]>>;

/// One operation. Its place is reused, and keeps its memory.
#[derive(Default)]
struct Operation {
    /// `None` if nobody waits for it.
    token: Option<Token>,
    /// What is done now: the operation, or a step of a transaction. `None` while the place is free.
    job: Option<Job>,
    transaction: Option<Box<Transaction>>,
    /// When its transaction was given up, or its abort was sent, while that is not answered.
    given_up: Option<Instant>,
    collection: usize,
    node: usize,
    /// Its connection within those to the node.
    connection: Option<usize>,
    /// The next message, until a connection takes it.
    message: Vec<u8>,
}

pub(crate) struct MongoSession {
    shared: Shared,
    /// Draws revisions.
    revisions: fastrand::Rng,
    /// First the connections to the node for writes, and for reads that must see them. Then those to the node for
    /// other reads, if it is another one.
    nodes: Vec<NodeConnections>,
    /// Connections per node.
    width: usize,
    places: Vec<Operation>,
    free: Vec<usize>,
    in_flight: usize,
    /// The number of operations whose `given_up` is set.
    given_up: usize,
    /// The timeout of an operation.
    timeout: Duration,
    /// The number of the last message.
    requests: u32,
    splits: u64,
    /// The queries so far.
    queries: ByNumber<Template>,
    /// The text of a query with its values.
    scratch: Vec<u8>,
}

/// Milliseconds since 1970, by this machine's clock.
pub(super) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

impl MongoSession {
    /// Takes the connections to each node, equally many to each.
    pub(super) fn new(shared: Shared, nodes: Vec<NodeConnections>, timeout: Duration) -> Self {
        Self {
            shared,
            // The keys of the hasher are random in each process, and differ at each call.
            revisions: fastrand::Rng::with_seed(RandomState::new().hash_one(0)),
            width: nodes.first().map_or(1, |node| node.connections.len()),
            nodes,
            places: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            given_up: 0,
            timeout,
            requests: 0,
            splits: 0,
            queries: ByNumber::default(),
            scratch: Vec::new(),
        }
    }

    /// Begins an operation in a place. Returns its reply if nothing needs to be sent.
    fn begin(&mut self, place: usize, request: &Request<'_>) -> Result<Option<OwnedReply>, OpError> {
        let Op::Transaction { steps, rolls_back, .. } = request.op else { return self.build(place, request, None) };
        if !self.shared.transactions || steps.is_empty() {
            return Err(OpError::unsupported());
        }
        let Self { places, revisions, .. } = self;
        let mut half = || u128::from(revisions.u64(..));
        let transaction = places[place]
            .transaction
            .get_or_insert_with(|| Box::new(Transaction::new((half() << 64 | half()).to_le_bytes())));
        transaction.begin(steps, rolls_back, request.contents);
        self.step(place).map(|()| None)
    }

    /// Builds the message of the next step of a transaction.
    fn step(&mut self, number: usize) -> Result<(), OpError> {
        // Taken out, because the message is built beside it.
        let transaction = self.places[number].transaction.take();
        let built = match transaction.as_deref().and_then(Transaction::step) {
            Some((step, contents, tails)) => {
                step.request(contents).and_then(|request| self.build(number, &request, Some(tails)))
            }
            None => Err(OpError::unsupported()),
        };
        let place = &mut self.places[number];
        place.transaction = transaction;
        place.node = 0;
        place.job = place.job.take().map(Job::step);
        built.map(drop)
    }

    /// Builds the first message of an operation. Returns its reply if nothing needs to be sent. `step`: what the
    /// commands end with within a transaction.
    fn build(
        &mut self,
        place: usize,
        request: &Request<'_>,
        step: Option<&Tails>,
    ) -> Result<Option<OwnedReply>, OpError> {
        let Self { shared, revisions, nodes, places, splits, queries, scratch, .. } = self;
        let position = request.collection.position();
        let collection = collection_of(request, &shared.collections, shared.read_only)?;
        let kind = request.op.kind();
        let no_list = collection.body == Body::Counter && kind == OpKind::Page;
        let no_expiry = shared.is_ferretdb_1 && kind == OpKind::Touch;
        if no_list || no_expiry {
            return Err(OpError::unsupported());
        }
        let place = &mut places[place];
        place.collection = position;
        place.node = if kind.writes() { 0 } else { nodes.len() - 1 };
        let limits = &nodes[place.node].limits;
        let begin = Begin {
            builder: Builder {
                out: &mut place.message,
                collection,
                tails: step.unwrap_or(&shared.tails),
                explains: false,
            },
            limits,
            most_updates: if shared.is_ferretdb_1 { 1 } else { limits.most_writes },
            draw: &mut || revisions.i64(..),
            now_ms: now_ms(),
        };
        let with_values;
        let request = match request.op {
            Op::Query { number, text, values } => {
                scratch.clear();
                queries.get(number, || study_queries::template(text, values))?.write(values, scratch);
                let text = std::str::from_utf8(scratch).map_err(|_| OpError::unsupported())?;
                with_values = Request { op: Op::Query { number, text, values }, ..*request };
                &with_values
            }
            _ => request,
        };
        let (job, cuts) = begin.begin(request)?;
        *splits += cuts as u64;
        place.job = job;
        Ok(match &mut place.job {
            Some(job) => job.without_asking(),
            // Nothing was requested: the reply holds no document.
            None if request.contents && gives_rows(kind) => Some(OwnedReply::documents(0).rows(BatchBuf::new())),
            None => Some(OwnedReply::documents(0)),
        })
    }

    /// Completes an operation and frees its place.
    fn end(&mut self, number: usize, result: Result<OwnedReply, OpError>, out: &mut dyn Completions) {
        let token = self.places[number].token;
        self.leave(number);
        if let Some(token) = token {
            out.complete(token, result.as_ref().map(OwnedReply::as_reply).map_err(Clone::clone));
        }
    }

    /// Completes a transaction and frees its place.
    fn end_transaction(&mut self, number: usize, out: &mut dyn Completions) {
        let token = self.places[number].token;
        self.leave(number);
        let (Some(token), Some(transaction)) = (token, &mut self.places[number].transaction) else { return };
        transaction.complete(|result| out.complete(token, result));
    }

    /// Goes on with a transaction after the answer to its last message. Returns whether another message follows.
    fn go_on(&mut self, number: usize, result: Result<OwnedReply, OpError>) -> bool {
        let place = &mut self.places[number];
        let Some(transaction) = &mut place.transaction else { return false };
        let mut next = transaction.take(result);
        if next == Next::Step {
            let Err(error) = self.step(number) else { return true };
            let Some(transaction) = &mut self.places[number].transaction else { return false };
            next = transaction.take(Err(error));
        }
        if next == Next::Done {
            return false;
        }
        let Operation { transaction: Some(transaction), message, job, .. } = &mut self.places[number] else {
            return false;
        };
        transaction.ending(next == Next::Commit, &self.shared.tails, message);
        *job = Some(Job::ending());
        true
    }

    /// Aborts a transaction whose connection was lost, on the next one that is free. The server would keep its locks for a
    /// minute.
    fn abort(&mut self, number: usize) {
        let Some(transaction) = self.places[number].transaction.take() else { return };
        let undo = self.take_place(None);
        let place = &mut self.places[undo];
        transaction.ending(false, &self.shared.tails, &mut place.message);
        (place.job, place.node, place.given_up) = (Some(Job::ending()), 0, Some(Instant::now()));
        self.given_up += 1;
        self.places[number].transaction = Some(transaction);
        self.nodes[0].waiting.push_back(undo);
    }

    /// A free place.
    fn take_place(&mut self, token: Option<Token>) -> usize {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(Operation::default());
            self.places.len() - 1
        });
        self.places[number].token = token;
        self.in_flight += usize::from(token.is_some());
        number
    }

    fn leave(&mut self, number: usize) {
        let place = &mut self.places[number];
        (place.job, place.connection) = (None, None);
        self.given_up -= usize::from(place.given_up.take().is_some());
        self.in_flight -= usize::from(place.token.take().is_some());
        // One long message must not hold its memory forever.
        const LARGE: usize = 4 << 20;
        if place.message.capacity() > LARGE {
            place.message = Vec::new();
        }
        self.free.push(number);
    }

    /// Ends an operation that will get no answer. `sent`: whether its last message was sent, at least in part.
    fn break_off(
        &mut self,
        number: usize,
        sent: bool,
        error: impl FnOnce(OpKind) -> OpError,
        out: &mut dyn Completions,
    ) {
        let Operation { job: Some(job), transaction, .. } = &mut self.places[number] else { return };
        let error = error(job.at_stake());
        match transaction.as_deref_mut().filter(|transaction| transaction.is_open()) {
            None => {
                let result = job.broken_off(error);
                self.end(number, result, out);
            }
            Some(transaction) => {
                let (error, open) = transaction.lose(sent, error);
                if open {
                    self.abort(number);
                }
                self.end(number, Err(error), out);
            }
        }
    }

    /// Takes the connections of transactions that were given up, and whose step or abort was not answered for one more
    /// timeout.
    fn take_back_silent(&mut self) {
        for number in 0..self.places.len() {
            let place = &mut self.places[number];
            let silent = place.given_up.is_some_and(|since| since.elapsed() >= self.timeout);
            if let Some(connection) = place.connection.filter(|_| silent) {
                self.nodes[place.node].take_back(connection);
                let open = place.transaction.as_deref_mut().filter(|transaction| transaction.is_open());
                if open.is_some_and(|transaction| transaction.lose(true, OpError::unsupported()).1) {
                    self.abort(number);
                }
                self.leave(number);
            }
        }
    }

    /// Gives waiting operations to idle connections. If no connection is up, they end as *temporary*.
    fn dispatch(&mut self, node: usize, out: &mut dyn Completions) {
        if self.given_up > 0 && !self.nodes[node].waiting.is_empty() && self.nodes[node].idle.is_empty() {
            self.take_back_silent();
        }
        while !self.nodes[node].waiting.is_empty() {
            let Some(connection) = self.nodes[node].idle.pop() else { break };
            // It was woken while idle: most likely the server closed it.
            if self.nodes[node].connections[connection].link.was_woken() {
                self.advance(node * self.width + connection, out);
            }
            if !self.nodes[node].connections[connection].link.is_up() {
                continue;
            }
            if let Some(place) = self.nodes[node].waiting.pop_front() {
                self.send(place, connection);
                self.nodes[node].dirty.push(connection);
            }
        }
        if !self.nodes[node].waiting.is_empty()
            && !self.nodes[node].connections.iter().any(|connection| connection.link.is_up())
        {
            let places = &self.places;
            let (undo, lost) = std::mem::take(&mut self.nodes[node].waiting)
                .into_iter()
                .partition::<VecDeque<_>, _>(|place| places[*place].token.is_none());
            self.nodes[node].waiting = undo;
            for place in lost {
                let error = self.nodes[node].connections[0].link.not_connected();
                self.break_off(place, false, |_| error, out);
            }
        }
    }

    /// Puts an operation's message on an idle connection.
    fn send(&mut self, number: usize, connection: usize) {
        self.requests = self.requests.wrapping_add(1);
        let place = &mut self.places[number];
        place.connection = Some(connection);
        place.given_up = place.given_up.map(|_| Instant::now());
        wire::number(&mut place.message, self.requests);
        let awaited = Awaited { place: number, request: self.requests };
        let buffer = self.nodes[place.node].connections[connection].link.pipe.request(awaited, true);
        std::mem::swap(buffer, &mut place.message);
    }
}

impl Drop for MongoSession {
    fn drop(&mut self) {
        // A free place has no transaction that is open, but the abort of an earlier one may be waiting.
        let undo = |place: &Operation| place.job.is_some() && place.token.is_none();
        let transactions = || self.places.iter().filter_map(|place| place.transaction.as_deref());
        if self.places.iter().any(undo) || transactions().any(Transaction::is_open) {
            let mut orphans = self.shared.orphans.lock().unwrap_or_else(PoisonError::into_inner);
            orphans.extend(transactions().map(|transaction| transaction.session));
        }
    }
}

fn gives_rows(kind: OpKind) -> bool {
    matches!(kind, OpKind::Page | OpKind::Prefix | OpKind::Scan | OpKind::BulkRead | OpKind::Query)
}

impl Answers for MongoSession {
    type Awaited = Awaited;

    fn link(&mut self, number: usize) -> &mut Link<Awaited> {
        &mut self.nodes[number / self.width].connections[number % self.width].link
    }

    fn take(&mut self, number: usize, out: &mut dyn Completions) -> Result<(), String> {
        let (node, connection) = (number / self.width, number % self.width);
        let Self { nodes, places, shared, revisions, .. } = self;
        let pipe = &mut nodes[node].connections[connection].link.pipe;
        let all_sent = pipe.sendable().is_empty();
        let (awaited, input) = pipe.look();
        let Some(Awaited { place: number, request }) = awaited.map(|awaited| *awaited) else {
            return Err("the server sent an unrequested message".into());
        };
        let found = match wire::reply(input, request) {
            Ok(Some(_)) if !all_sent => Err("it answers a request that has not been sent yet"),
            found => found,
        };
        let document = match found {
            Ok(Some(document)) => document,
            Ok(None) => return Ok(()),
            Err(what) => {
                pipe.pop();
                self.break_off(number, true, |kind| garbage(kind, what), out);
                return Err(what.into());
            }
        };
        let Operation { job: Some(job), collection, message, transaction, .. } = &mut places[number] else {
            return Err("an answer to an operation that has ended".into());
        };
        let open = transaction.as_deref().filter(|transaction| transaction.is_open());
        let in_transaction = open.is_some();
        let collection = &shared.collections[*collection];
        let mut draw = || revisions.i64(..);
        let tails = open.map_or(&shared.tails, |open| &open.tails);
        let step = job.answer(&input[document], message, collection, tails, &mut draw);
        let length = input.len();
        pipe.consume(length);
        pipe.pop();
        match step {
            Step::Again => self.send(number, connection),
            // Another node knows nothing of the transaction.
            Step::Done { result, elsewhere: false } if in_transaction => match self.go_on(number, result) {
                true => self.send(number, connection),
                false => {
                    self.nodes[node].give_back(connection, false);
                    self.end_transaction(number, out);
                }
            },
            Step::Done { result: Err(error), elsewhere } if in_transaction => {
                self.nodes[node].give_back(connection, elsewhere);
                self.break_off(number, true, |_| error, out);
            }
            Step::Done { result, elsewhere } => {
                self.nodes[node].give_back(connection, elsewhere);
                self.end(number, result, out);
            }
        }
        Ok(())
    }

    fn lose(&mut self, number: usize, why: &str, out: &mut dyn Completions) {
        let node = &mut self.nodes[number / self.width];
        let connection = number % self.width;
        node.forget(connection);
        let link = &mut node.connections[connection].link;
        let unsent = link.not_connected();
        for (awaited, sent) in link.pipe.lose() {
            self.break_off(awaited.place, sent, |kind| if sent { lost(kind, why) } else { unsent.clone() }, out);
        }
    }

    fn connected(&mut self, number: usize) {
        self.nodes[number / self.width].idle.push(number % self.width);
    }
}

impl Session for MongoSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let number = self.take_place(Some(token));
        match self.begin(number, request) {
            Ok(None) => {
                let node = self.places[number].node;
                self.nodes[node].waiting.push_back(number);
                self.dispatch(node, out);
            }
            Ok(Some(reply)) => self.end(number, Ok(reply), out),
            Err(error) => {
                // Nothing of a transaction was sent yet.
                if let Some(transaction) = &mut self.places[number].transaction {
                    transaction.end();
                }
                self.end(number, Err(error), out);
            }
        }
    }

    fn flush(&mut self) {
        self.nodes.iter_mut().for_each(NodeConnections::flush);
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        for number in 0..self.nodes.len() * self.width {
            if self.link(number).has_news(cx) {
                self.advance(number, out);
            }
        }
        for node in 0..self.nodes.len() {
            self.dispatch(node, out);
            self.nodes[node].flush();
        }
        if self.in_flight == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Closes the operation's connection: a late answer must not be taken for another operation's. A transaction keeps it
    /// until it is aborted.
    fn abandon(&mut self, token: Token) {
        let found = self.places.iter().position(|place| place.job.is_some() && place.token == Some(token));
        let Some(number) = found else { return };
        let place = &mut self.places[number];
        let node = &mut self.nodes[place.node];
        match place.connection {
            None => node.waiting.retain(|waiting| *waiting != number),
            // Its connection sends the abort, after the answer to the step: another one might overtake the step.
            Some(_) if place.transaction.as_deref_mut().is_some_and(Transaction::give_up) => {
                (place.token, place.given_up) = (None, Some(Instant::now()));
                self.in_flight -= 1;
                self.given_up += 1;
                return;
            }
            Some(connection) => node.take_back(connection),
        }
        let sent = place.connection.is_some();
        if place.transaction.as_deref_mut().is_some_and(|open| open.lose(sent, OpError::unsupported()).1) {
            self.abort(number);
        }
        self.leave(number);
    }

    fn counters(&self) -> SessionCounters {
        let connections = self.nodes.iter().flat_map(|node| &node.connections);
        SessionCounters {
            disconnects: connections.map(|connection| connection.link.disconnects()).sum(),
            splits: self.splits,
        }
    }
}
