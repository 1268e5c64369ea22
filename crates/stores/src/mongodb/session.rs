//! A session: each operation has a connection to itself while it is in progress.

use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use storebench_engine::store::{
    BatchBuf, Completions, Op, OpError, OpKind, OwnedReply, Request, Session, SessionCounters, Token,
};
use storebench_study::workload::Body;

use super::asked;
use super::commands::{Builder, Collection, Tails};
use super::job::{Begin, Job, Step};
use super::lane::{Awaited, Lane};
use super::wire::{self, garbage};
use crate::asked::{ByNumber, Template};
use crate::connection::{Answers, Link};
use crate::document::collection_of;
use crate::net::{draw, lost};

/// What all operations need.
pub(super) struct Shared {
    pub(super) collections: Vec<Collection>,
    pub(super) tails: Tails,
    pub(super) read_only: bool,
}

/// One operation. Its place is reused, and keeps its memory.
struct Operation {
    token: Token,
    /// `None` while the place is free.
    job: Option<Job>,
    collection: usize,
    lane: usize,
    /// Its connection within the lane.
    line: Option<usize>,
    /// The next message, until a connection takes it.
    message: Vec<u8>,
}

pub(crate) struct MongoSession {
    shared: Shared,
    /// The state of the random generator for revisions (splitmix64).
    revisions: u64,
    /// First the lane for writes, and for reads that must see them. Then the lane for other reads, if it is another
    /// one.
    lanes: Vec<Lane>,
    /// Connections per lane.
    width: usize,
    places: Vec<Operation>,
    free: Vec<usize>,
    in_flight: usize,
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
    /// Takes lanes with equal numbers of connections.
    pub(super) fn new(shared: Shared, lanes: Vec<Lane>, seed: u64) -> Self {
        Self {
            shared,
            revisions: seed,
            width: lanes.first().map_or(1, |lane| lane.lines.len()),
            lanes,
            places: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            requests: 0,
            splits: 0,
            queries: ByNumber::default(),
            scratch: Vec::new(),
        }
    }

    /// Begins an operation in a place. Returns its reply if nothing needs to be sent.
    fn begin(&mut self, place: usize, request: &Request<'_>) -> Result<Option<OwnedReply>, OpError> {
        let Self { shared, revisions, lanes, places, splits, queries, scratch, .. } = self;
        let position = request.collection.position();
        let collection = collection_of(request, &shared.collections, shared.read_only)?;
        let kind = request.op.kind();
        if collection.body == Body::Counter && kind == OpKind::Page {
            return Err(OpError::unsupported());
        }
        let place = &mut places[place];
        place.collection = position;
        place.lane = if kind.writes() { 0 } else { lanes.len() - 1 };
        let limits = &lanes[place.lane].limits;
        let begin = Begin {
            builder: Builder { out: &mut place.message, collection, tails: &shared.tails },
            most_document_bytes: limits.most_document_bytes,
            most_message_bytes: limits.most_message_bytes,
            most_writes: limits.most_writes,
            draw: &mut || draw(revisions).cast_signed(),
            now_ms: now_ms(),
        };
        let with_values;
        let request = match request.op {
            Op::Query { number, text, values } => {
                scratch.clear();
                queries.get(number, || asked::template(text, values))?.write(values, scratch);
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
        out.complete(
            token,
            match &result {
                Ok(reply) => Ok(reply.as_reply()),
                Err(error) => Err(error.clone()),
            },
        );
    }

    fn leave(&mut self, number: usize) {
        let place = &mut self.places[number];
        (place.job, place.line) = (None, None);
        // One long message must not hold its memory forever.
        const LARGE: usize = 4 << 20;
        if place.message.capacity() > LARGE {
            place.message = Vec::new();
        }
        self.free.push(number);
        self.in_flight -= 1;
    }

    /// Ends an operation that will get no answer.
    fn break_off(&mut self, number: usize, error: impl FnOnce(OpKind) -> OpError, out: &mut dyn Completions) {
        if let Some(job) = &mut self.places[number].job {
            let result = job.broken_off(error(job.at_stake()));
            self.end(number, result, out);
        }
    }

    /// Gives waiting operations to idle connections. If no connection is up, they end as *temporary*.
    fn dispatch(&mut self, lane: usize, out: &mut dyn Completions) {
        while !self.lanes[lane].waiting.is_empty() {
            let Some(line) = self.lanes[lane].idle.pop() else { break };
            // It was woken while idle: most likely the server closed it.
            if self.lanes[lane].lines[line].link.was_woken() {
                self.advance(lane * self.width + line, out);
            }
            if !self.lanes[lane].lines[line].link.is_up() {
                continue;
            }
            if let Some(place) = self.lanes[lane].waiting.pop_front() {
                self.send(place, line);
                self.lanes[lane].dirty.push(line);
            }
        }
        if !self.lanes[lane].waiting.is_empty() && !self.lanes[lane].lines.iter().any(|line| line.link.is_up()) {
            while let Some(place) = self.lanes[lane].waiting.pop_front() {
                let error = self.lanes[lane].lines[0].link.not_connected();
                self.break_off(place, |_| error, out);
            }
        }
    }

    /// Puts an operation's message on an idle connection.
    fn send(&mut self, number: usize, line: usize) {
        self.requests = self.requests.wrapping_add(1);
        let place = &mut self.places[number];
        place.line = Some(line);
        wire::number(&mut place.message, self.requests);
        let awaited = Awaited { place: number, request: self.requests };
        let buffer = self.lanes[place.lane].lines[line].link.pipe.request(awaited, true);
        std::mem::swap(buffer, &mut place.message);
    }
}

fn gives_rows(kind: OpKind) -> bool {
    matches!(kind, OpKind::Page | OpKind::Prefix | OpKind::Scan | OpKind::BulkRead | OpKind::Query)
}

impl Answers for MongoSession {
    type Awaited = Awaited;

    fn link(&mut self, number: usize) -> &mut Link<Awaited> {
        &mut self.lanes[number / self.width].lines[number % self.width].link
    }

    fn take(&mut self, number: usize, out: &mut dyn Completions) -> Result<(), String> {
        let (lane, line) = (number / self.width, number % self.width);
        let Self { lanes, places, shared, revisions, .. } = self;
        let pipe = &mut lanes[lane].lines[line].link.pipe;
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
                self.break_off(number, |kind| garbage(kind, what), out);
                return Err(what.into());
            }
        };
        let Operation { job: Some(job), collection, message, .. } = &mut places[number] else {
            return Err("an answer to an operation that has ended".into());
        };
        let collection = &shared.collections[*collection];
        let mut draw = || draw(revisions).cast_signed();
        let step = job.answer(&input[document], message, collection, &shared.tails, &mut draw);
        let length = input.len();
        pipe.consume(length);
        pipe.pop();
        match step {
            Step::Again => self.send(number, line),
            Step::Done { result, elsewhere } => {
                self.lanes[lane].give_back(line, elsewhere);
                self.end(number, result, out);
            }
        }
        Ok(())
    }

    fn lose(&mut self, number: usize, why: &str, out: &mut dyn Completions) {
        let lane = &mut self.lanes[number / self.width];
        let line = number % self.width;
        lane.forget(line);
        let link = &mut lane.lines[line].link;
        let unsent = link.not_connected();
        for (awaited, sent) in link.pipe.lose() {
            self.break_off(awaited.place, |kind| if sent { lost(kind, why) } else { unsent.clone() }, out);
        }
    }

    fn connected(&mut self, number: usize) {
        self.lanes[number / self.width].idle.push(number % self.width);
    }
}

impl Session for MongoSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let number = self.free.pop().unwrap_or_else(|| {
            let message = Vec::new();
            self.places.push(Operation { token, job: None, collection: 0, lane: 0, line: None, message });
            self.places.len() - 1
        });
        self.places[number].token = token;
        self.in_flight += 1;
        match self.begin(number, request) {
            Ok(None) => {
                let lane = self.places[number].lane;
                self.lanes[lane].waiting.push_back(number);
                self.dispatch(lane, out);
            }
            Ok(Some(reply)) => self.end(number, Ok(reply), out),
            Err(error) => self.end(number, Err(error), out),
        }
    }

    fn flush(&mut self) {
        self.lanes.iter_mut().for_each(Lane::flush);
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        for number in 0..self.lanes.len() * self.width {
            if self.link(number).has_news(cx) {
                self.advance(number, out);
            }
        }
        for lane in 0..self.lanes.len() {
            self.dispatch(lane, out);
            self.lanes[lane].flush();
        }
        if self.in_flight == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Closes the operation's connection: a late answer must not be taken for another operation's.
    fn abandon(&mut self, token: Token) {
        let found = self.places.iter().position(|place| place.job.is_some() && place.token == token);
        let Some(number) = found else { return };
        let lane = &mut self.lanes[self.places[number].lane];
        match self.places[number].line {
            None => lane.waiting.retain(|waiting| *waiting != number),
            Some(line) => lane.take_back(line),
        }
        self.leave(number);
    }

    fn counters(&self) -> SessionCounters {
        let lines = self.lanes.iter().flat_map(|lane| &lane.lines);
        SessionCounters { disconnects: lines.map(|line| line.link.disconnects()).sum(), splits: self.splits }
    }
}
