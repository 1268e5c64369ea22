//! One connection with many requests in flight.
//!
//! Each operation is Bind, Execute and Sync of a statement that was prepared when the session
//! opened: one transaction, whose error is its own. Requests are written one after the other without
//! waiting for answers, at most as many as may be in flight; answers come in the same order.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use storebench_core::engine::Clock;
use storebench_core::store::{
    Batch, BulkWrite, Completions, ErrorKind, Op, OpError, OpKind, Request, Session, SessionCounters, SessionOptions,
    StoreError, Token,
};
use storebench_core::workload::Body;
use tokio::io::AsyncWrite;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::bulk::copy_rows;
use super::channel::Lost;
use super::flow::{Entry, Flow, Next, What};
use super::login::{Connected, WITHIN};
use super::output::Output;
use super::setup::{Setup, set_up};
use super::sql::{KINDS, Kind, Table};
use super::wire::{self, Bind, LARGEST_BYTES, oid};
use crate::document::{counter, prefix_end_text, wrong_collection};
use crate::net::{Backoff, not_connected};

/// A statement as the session knows it.
struct Prepared {
    sql: String,
    types: Vec<u32>,
    /// Whether the server has it, or will have it when what is in the output has been read.
    known: bool,
}

/// A query with its limit in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum List {
    From(u32),
    Between(u32),
    Page(String, u32),
}

/// A collection: its table, and the numbers of its statements.
struct Collection {
    table: Table,
    statements: [Option<usize>; KINDS.len()],
    lists: Vec<(List, usize)>,
}

/// A connection that was made anew, and how long the next one would be waited for.
type Made = (Box<Connected>, Backoff);

/// The connection, or what makes it anew.
enum Link {
    Up(Box<Connected>),
    Down(oneshot::Receiver<Made>, AbortHandle, Refusal),
}

/// Why a server that is there is not used: what it can no longer promise.
type Refusal = Arc<Mutex<Option<String>>>;

/// One connection to a PostgreSQL server.
pub(crate) struct PostgresSession {
    link: Link,
    setup: Arc<Setup>,
    handle: Handle,
    flow: Flow,
    prepared: Vec<Prepared>,
    collections: Vec<Collection>,
    output: Output,
    in_flight: usize,
    clock: Arc<dyn Clock>,
    timeout_ns: u64,
    /// Since when the server owes an answer: the last it said, or the first request after it was idle.
    waiting_since_ns: u64,
    /// Whether the connection is to be replaced.
    given_up: bool,
    backoff: Backoff,
}

impl PostgresSession {
    /// Opens a session on these tables. Called within the runtime that will drive it.
    pub(super) async fn open(
        connected: Connected,
        setup: Setup,
        tables: &[Table],
        options: &SessionOptions,
    ) -> Result<Self, StoreError> {
        let waits_for_standbys = setup.promise.waits_for_standbys();
        let mut prepared = Vec::new();
        let collections = tables
            .iter()
            .map(|table| {
                let statements = KINDS.map(|kind| {
                    let (sql, types) = table.statement(kind)?;
                    prepared.push(Prepared { sql, types, known: true });
                    Some(prepared.len() - 1)
                });
                Collection { table: table.clone(), statements, lists: Vec::new() }
            })
            .collect();
        let connected = set_up(connected, &setup, &parses(&prepared), false, WITHIN).await?;
        let seed = connected.process.0.unsigned_abs().into();
        Ok(Self {
            link: Link::Up(Box::new(connected)),
            setup: Arc::new(setup),
            handle: Handle::current(),
            flow: Flow::new(waits_for_standbys),
            prepared,
            collections,
            output: Output::default(),
            in_flight: options.in_flight.max(1) as usize,
            clock: Arc::clone(&options.clock),
            timeout_ns: u64::try_from(options.timeout.as_nanos()).unwrap_or(u64::MAX),
            waiting_since_ns: 0,
            given_up: false,
            backoff: Backoff::new(seed),
        })
    }

    /// Up to which position may be written: as many requests as may be in flight.
    fn limit(&self) -> u64 {
        match self.flow.entries.get(self.in_flight) {
            Some(first_too_many) => first_too_many.begin,
            None => self.output.end(),
        }
    }

    /// The connection broke: ends what was in flight, and connects again.
    fn lose(&mut self, why: &Lost, out: &mut dyn Completions) {
        self.flow.lose(self.output.sent, &why.0, out);
        self.output.clear();
        self.given_up = false;
        let (sender, receiver) = oneshot::channel();
        let (setup, parses) = (Arc::clone(&self.setup), parses(&self.prepared));
        let mut backoff = self.backoff.clone();
        let refusal = Refusal::default();
        let told = Arc::clone(&refusal);
        let task = self.handle.spawn(async move {
            loop {
                tokio::time::sleep(backoff.next_wait()).await;
                let made = match setup.target.login().await {
                    Ok(connected) => set_up(connected, &setup, &parses, true, WITHIN).await,
                    Err(error) => Err(error),
                };
                let why = match made {
                    Ok(connected) => {
                        let _ = sender.send((Box::new(connected), backoff));
                        return;
                    }
                    Err(StoreError::NotSupported(why)) => Some(why),
                    Err(_) => None,
                };
                *told.lock().unwrap_or_else(PoisonError::into_inner) = why;
            }
        });
        self.link = Link::Down(receiver, task.abort_handle(), refusal);
    }

    /// The error of what cannot be sent now.
    fn unsent(&self) -> OpError {
        let refusal = match &self.link {
            Link::Down(_, _, refusal) => refusal.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Link::Up(_) => None,
        };
        refusal.map_or(not_connected(), |why| OpError::new(ErrorKind::Failed, why))
    }

    /// Whether there is a connection; takes one that has just been made.
    fn is_up(&mut self, cx: &mut Context<'_>) -> bool {
        let Link::Down(coming, ..) = &mut self.link else { return true };
        match Pin::new(coming).poll(cx) {
            Poll::Ready(Ok((connected, backoff))) => {
                self.link = Link::Up(connected);
                self.backoff = backoff;
                true
            }
            _ => false,
        }
    }

    /// Writes and reads as long as something moves.
    fn turn(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) {
        while self.is_up(cx) {
            match self.step(cx, out) {
                Ok(true) => {}
                Ok(false) => return,
                Err(why) => return self.lose(&why, out),
            }
        }
    }

    /// Writes what may be written, reads once; says whether something was read.
    fn step(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Result<bool, Lost> {
        if self.given_up {
            return Err(Lost(
                "the server had said nothing for twice the timeout, so the connection was replaced".into(),
            ));
        }
        let limit = self.limit();
        let Link::Up(connected) = &mut self.link else { return Ok(false) };
        let channel = &mut connected.channel;
        let written = self.output.write(channel, cx, limit);
        // What the server said last tells more than that it takes no more.
        match channel.poll_fill(cx) {
            Poll::Pending => {
                written?;
                return Ok(false);
            }
            Poll::Ready(Ok(0)) => return Err(Lost("the server closed the connection".into())),
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) => return Err(error.into()),
        }
        self.waiting_since_ns = self.clock.now_ns();
        self.take(out)?;
        // Not when it was made: a server may take connections only to close them again.
        self.backoff.reset();
        Ok(true)
    }

    /// Takes the messages that were read.
    fn take(&mut self, out: &mut dyn Completions) -> Result<(), Lost> {
        loop {
            let Link::Up(connected) = &mut self.link else { return Ok(()) };
            let channel = &mut connected.channel;
            let Some((tag, range)) = channel.message()? else { return Ok(()) };
            match self.flow.message(tag, channel.body(range), out)? {
                Next::Nothing => {}
                Next::Unprepared(statement) => self.prepared[statement].known = false,
                Next::Bulk(place) => self.go_on(place, out),
            }
        }
    }

    fn push(&mut self, token: Option<Token>, op: OpKind, what: What, begin: u64) {
        if self.flow.is_empty() {
            self.waiting_since_ns = self.clock.now_ns();
        }
        self.flow.entries.push_back(Entry { token, op, what, begin });
    }

    /// Encodes a request; what fails in it leaves nothing behind.
    fn encode(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) -> Result<(), OpError> {
        let position = request.collection.position();
        let Some(collection) = self.collections.get(position) else {
            return Err(OpError::new(ErrorKind::Refused, "the layout has no such collection"));
        };
        let body_kind = collection.table.given.body;
        let jsonb = collection.table.jsonb;
        let contents = request.contents;
        let statement =
            |kind: Kind| collection.statements[kind as usize].ok_or_else(|| misfit(kind, &collection.table));
        let begin = self.output.end();
        let length = self.output.bytes.len();
        let bytes = &mut self.output.bytes;
        let op = request.op.kind();
        let one = |bytes: &mut Vec<u8>, kind: Kind, key: &str| -> Result<(), OpError> {
            Bind::new(bytes, statement(kind)?, 1).bytes(key.as_bytes()).run();
            Ok(())
        };
        let with_body = |bytes: &mut Vec<u8>, kind: Kind, key: &str, body: &[u8]| -> Result<(), OpError> {
            check_size(body.len())?;
            let bind = Bind::new(bytes, statement(kind)?, 2).bytes(key.as_bytes());
            match body_kind {
                Body::Json => bind.json(body).run(),
                Body::Bytes => bind.bytes(body).run(),
                Body::Counter => bind.bytes(&counter(body)?.to_be_bytes()).run(),
            }
            Ok(())
        };
        let what = match request.op {
            Op::Insert { key, body } => with_body(bytes, Kind::Insert, key, body).map(|()| What::Write),
            Op::Upsert { key, body } => with_body(bytes, Kind::Upsert, key, body).map(|()| What::Write),
            Op::Replace { key, body } => with_body(bytes, Kind::Replace, key, body).map(|()| What::Write),
            Op::Append { key, bytes: added } => with_body(bytes, Kind::Append, key, added).map(|()| What::Write),
            Op::Prepend { key, bytes: added } => with_body(bytes, Kind::Prepend, key, added).map(|()| What::Write),
            Op::MergePatch { key, patch } => {
                check_size(patch.len()).and_then(|()| statement(Kind::Merge)).map(|statement| {
                    Bind::new(bytes, statement, 2).bytes(key.as_bytes()).json(patch).run();
                    What::Write
                })
            }
            Op::Read { key } => one(bytes, Kind::Read, key).map(|()| What::Read { contents, jsonb }),
            Op::Exists { key } => one(bytes, Kind::Exists, key).map(|()| What::Exists),
            Op::Delete { key } => one(bytes, Kind::Delete, key).map(|()| What::Write),
            Op::Counter { key, delta, initial } => statement(Kind::Counter).map(|statement| {
                let bind = Bind::new(bytes, statement, 3).bytes(key.as_bytes());
                bind.bytes(&initial.to_be_bytes()).bytes(&delta.to_be_bytes()).run();
                What::Counter
            }),
            Op::CompareAndSwap { key, expected, body } => {
                check_size(body.len()).and_then(|()| statement(Kind::CompareAndSwap)).and_then(|statement| {
                    let bind = Bind::new(bytes, statement, 3).bytes(key.as_bytes());
                    let bind = match body_kind {
                        Body::Json => bind.json(body),
                        Body::Bytes => bind.bytes(body),
                        Body::Counter => bind.bytes(&counter(body)?.to_be_bytes()),
                    };
                    // No row has the transaction 0, so what is no revision of ours matches none.
                    bind.bytes(if expected.len() == 4 { expected } else { &[0; 4] }).run();
                    Ok(What::Swap)
                })
            }
            Op::BulkRead { keys } => statement(Kind::BulkRead).and_then(|statement| {
                many_keys(bytes, statement, keys)?;
                Ok(What::Rows { contents, jsonb })
            }),
            Op::BulkDelete { keys } => statement(Kind::BulkDelete).and_then(|statement| {
                many_keys(bytes, statement, keys)?;
                Ok(What::Count)
            }),
            Op::BulkWrite { kind, items } => return self.begin_bulk(position, kind, items, token, out),
            Op::Prefix { prefix, limit } => {
                let end = prefix_end_text(prefix);
                return self.range(position, prefix, end.as_deref(), limit, contents, op, token);
            }
            Op::Scan { start, end, limit } => {
                return self.range(position, start, end, limit, contents, op, token);
            }
            Op::Page { field, value, limit } => return self.page(position, field, value, limit, contents, token),
            Op::Touch { .. } | Op::View { .. } => Err(OpError::unsupported()),
        };
        match what {
            Ok(what) => self.push(Some(token), op, what, begin),
            Err(error) => {
                self.output.bytes.truncate(length);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The number of a list's statement, which is prepared on the way where it is new.
    fn list(&mut self, collection: usize, list: List) -> Result<usize, OpError> {
        let Collection { table, lists, .. } = &mut self.collections[collection];
        let number = match lists.iter().find(|(known, _)| *known == list) {
            Some((_, number)) => *number,
            None => {
                let (sql, types) = match &list {
                    List::From(limit) => table.range(false, *limit),
                    List::Between(limit) => table.range(true, *limit),
                    List::Page(field, limit) => {
                        table.page(field, *limit).map_err(|text| OpError::new(ErrorKind::Refused, text))?
                    }
                };
                self.prepared.push(Prepared { sql, types, known: false });
                lists.push((list, self.prepared.len() - 1));
                self.prepared.len() - 1
            }
        };
        if !self.prepared[number].known {
            let begin = self.output.end();
            let Prepared { sql, types, known } = &mut self.prepared[number];
            *known = true;
            wire::parse(&mut self.output.bytes, number, sql, types);
            wire::sync(&mut self.output.bytes);
            self.push(None, OpKind::Read, What::Prepare(number), begin);
        }
        Ok(number)
    }

    #[allow(clippy::too_many_arguments)]
    fn range(
        &mut self,
        collection: usize,
        start: &str,
        end: Option<&str>,
        limit: u32,
        contents: bool,
        op: OpKind,
        token: Token,
    ) -> Result<(), OpError> {
        let list = if end.is_some() { List::Between(limit) } else { List::From(limit) };
        let number = self.list(collection, list)?;
        let begin = self.output.end();
        let bind = Bind::new(&mut self.output.bytes, number, if end.is_some() { 2 } else { 1 }).bytes(start.as_bytes());
        match end {
            Some(end) => bind.bytes(end.as_bytes()).run(),
            None => bind.run(),
        }
        let jsonb = self.collections[collection].table.jsonb;
        self.push(Some(token), op, What::Rows { contents, jsonb }, begin);
        Ok(())
    }

    fn page(
        &mut self,
        collection: usize,
        field: &str,
        value: &str,
        limit: u32,
        contents: bool,
        token: Token,
    ) -> Result<(), OpError> {
        // Looked for first, so that the name of the field is copied once only.
        let known = self.collections[collection]
            .lists
            .iter()
            .find(|(list, _)| matches!(list, List::Page(known, l) if known == field && *l == limit))
            .map(|(_, number)| *number)
            .filter(|number| self.prepared[*number].known);
        let number = match known {
            Some(number) => number,
            None => self.list(collection, List::Page(field.to_owned(), limit))?,
        };
        let begin = self.output.end();
        Bind::new(&mut self.output.bytes, number, 1).json(value.as_bytes()).run();
        let jsonb = self.collections[collection].table.jsonb;
        self.push(Some(token), OpKind::Page, What::Rows { contents, jsonb }, begin);
        Ok(())
    }

    fn begin_bulk(
        &mut self,
        collection: usize,
        kind: BulkWrite,
        items: Batch<'_>,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let Collection { table, statements, .. } = &self.collections[collection];
        if statements[Kind::BulkUpsert as usize].is_none() {
            return Err(misfit(Kind::BulkUpsert, table));
        }
        let place = self.flow.take_bulk();
        let bulk = &mut self.flow.bulks[place];
        bulk.items.clear();
        for (key, body) in items.iter() {
            bulk.items.push(key, body);
        }
        bulk.begin(token, kind, collection);
        bulk.copying &= statements[Kind::Copy as usize].is_some();
        self.go_on(place, out);
        Ok(())
    }

    /// Sends the next part of a bulk write, or ends it.
    fn go_on(&mut self, place: usize, out: &mut dyn Completions) {
        loop {
            let Some(part) = self.flow.bulks[place].next_part(&mut self.flow.counters.splits) else {
                return self.flow.end_bulk(place, None, out);
            };
            if part.is_empty() {
                continue;
            }
            let bulk = &self.flow.bulks[place];
            let Collection { table, statements, .. } = &self.collections[bulk.collection];
            let (body_kind, (_, element, _)) = (table.given.body, table.given.types);
            let kind = match (bulk.copying, bulk.kind) {
                (true, _) => Kind::Copy,
                (false, BulkWrite::Insert) => Kind::BulkInsert,
                (false, BulkWrite::Upsert) => Kind::BulkUpsert,
            };
            let Some(statement) = statements[kind as usize] else {
                return self.flow.end_bulk(place, Some(misfit(kind, table)), out);
            };
            let begin = self.output.end();
            let length = self.output.bytes.len();
            let op = bulk.op();
            let bytes = &mut self.output.bytes;
            let result = {
                let items = bulk.part(&part);
                if kind == Kind::Copy {
                    Bind::new(bytes, statement, 0).start();
                    let result = copy_rows(bytes, items, |out, body| put_body(out, body_kind, body));
                    wire::copy_done(bytes);
                    wire::sync(bytes);
                    result
                } else {
                    let mut result = Ok(());
                    Bind::new(bytes, statement, 2)
                        .array(oid::TEXT, part.len(), |out| {
                            items.clone().for_each(|(key, _)| wire::put(out, key.as_bytes()));
                        })
                        .array(element, part.len(), |out| {
                            result = items.clone().try_for_each(|(_, body)| put_body(out, body_kind, body));
                        })
                        .run();
                    result
                }
            };
            match result {
                Ok(()) => return self.push(None, op, What::Bulk(place), begin),
                // As if the server had refused it: the item is found by halves.
                Err(meaning) => {
                    self.output.bytes.truncate(length);
                    let error = wire::ServerError { code: "22000".into(), ..wire::ServerError::default() };
                    let bulk = &mut self.flow.bulks[place];
                    if let Some(error) = bulk.part_failed(&error, meaning, &mut self.flow.counters.splits) {
                        return self.flow.end_bulk(place, Some(error), out);
                    }
                }
            }
        }
    }

    /// Replaces a connection on which nobody waits for what the server is at, once it has said nothing
    /// for twice the timeout: nobody may be there any more.
    fn give_up_stuck(&mut self) {
        let now = self.clock.now_ns();
        if !self.flow.stuck() || now.saturating_sub(self.waiting_since_ns) < self.timeout_ns.saturating_mul(2) {
            return;
        }
        if let Link::Up(connected) = &self.link {
            let (setup, process) = (Arc::clone(&self.setup), connected.process);
            self.handle.spawn(async move { setup.target.cancel(process).await });
        }
        // What is still waited for on it completes with the next poll.
        self.given_up = true;
    }
}

/// A Parse of every statement that the server should know, and a Sync.
fn parses(prepared: &[Prepared]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, Prepared { sql, types, known }) in prepared.iter().enumerate() {
        if *known {
            wire::parse(&mut out, number, sql, types);
        }
    }
    wire::sync(&mut out);
    out
}

fn many_keys(out: &mut Vec<u8>, statement: usize, keys: Batch<'_>) -> Result<(), OpError> {
    check_size(keys.total_bytes() + 4 * keys.len())?;
    let elements = |out: &mut Vec<u8>| keys.iter().for_each(|(key, _)| wire::put(out, key.as_bytes()));
    Bind::new(out, statement, 1).array(oid::TEXT, keys.len(), elements).run();
    Ok(())
}

fn put_body(out: &mut Vec<u8>, kind: Body, body: &[u8]) -> Result<(), OpError> {
    check_size(body.len())?;
    match kind {
        Body::Json => wire::put_json(out, body),
        Body::Bytes => wire::put(out, body),
        Body::Counter => wire::put(out, &counter(body)?.to_be_bytes()),
    }
    Ok(())
}

fn check_size(bytes: usize) -> Result<(), OpError> {
    if bytes <= LARGEST_BYTES {
        return Ok(());
    }
    Err(OpError::new(
        ErrorKind::Refused,
        format!("{bytes} bytes are more than PostgreSQL takes in one message (1 GiB); make the document smaller"),
    ))
}

/// Why a statement does not fit a table.
fn misfit(kind: Kind, table: &Table) -> OpError {
    match kind {
        Kind::Append | Kind::Prepend if table.body != Body::Bytes => {
            wrong_collection("append and prepend work on collections of bytes only")
        }
        Kind::Counter if table.body != Body::Counter => {
            wrong_collection("counter works on collections of counters only")
        }
        Kind::Merge if table.body != Body::Json => wrong_collection("merge works on collections of JSON only"),
        Kind::Merge if !table.read_only => OpError::new(
            ErrorKind::Failed,
            "merging into a table of yours takes a function in the session's temporary schema; grant this user \
             TEMPORARY on the database",
        ),
        Kind::CompareAndSwap if !table.read_only => {
            wrong_collection("compare-and-swap needs a table that Storebench made")
        }
        _ if !table.read_only => {
            let columns = table.theirs.as_ref().map(|theirs| theirs.mandatory.join(", ")).unwrap_or_default();
            let text = format!(
                "{} takes no new row from this: its columns {columns} need values and have no defaults; give them \
                 some, or change rows that are there with --op replace or --op merge",
                table.place
            );
            OpError::new(ErrorKind::Failed, text)
        }
        _ => wrong_collection("this collection was opened for reading only"),
    }
}

impl Session for PostgresSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let cx = &mut Context::from_waker(Waker::noop());
        // An idle connection may have been closed meanwhile, one in use given up: seen here, nothing is sent
        // into the void.
        if self.given_up || self.flow.is_empty() {
            self.turn(cx, out);
        }
        if !self.is_up(cx) {
            return out.complete(token, Err(self.unsent()));
        }
        if let Err(error) = self.encode(request, token, out) {
            out.complete(token, Err(error));
        }
    }

    fn flush(&mut self) {
        let limit = self.limit();
        if let Link::Up(connected) = &mut self.link {
            // An error is met again by the next poll, which can tell of it.
            let _ = self.output.write(&mut connected.channel, &mut Context::from_waker(Waker::noop()), limit);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        self.turn(cx, out);
        if self.flow.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn counters(&self) -> SessionCounters {
        self.flow.counters
    }

    /// The answer is dropped when it comes. A connection whose server is silent for twice the timeout
    /// is replaced, and the server asked to stop what it does there.
    fn abandon(&mut self, token: Token) {
        self.flow.abandon(token);
        self.give_up_stuck();
    }
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        match &mut self.link {
            Link::Down(_, task, _) => task.abort(),
            Link::Up(connected) => {
                // So that the server does not wonder; one that takes it not now sees the socket close.
                let goodbye = [b'X', 0, 0, 0, 4];
                if self.flow.is_empty() {
                    let cx = &mut Context::from_waker(Waker::noop());
                    let _ = Pin::new(&mut connected.channel.stream).poll_write(cx, &goodbye);
                    let _ = Pin::new(&mut connected.channel.stream).poll_flush(cx);
                }
            }
        }
    }
}
