//! One connection with many requests in flight.
//!
//! Each operation is Bind, Execute and Sync of a statement that was prepared when the session opened: one transaction
//! with its own error. Requests are written one after another without waiting for answers, up to the in-flight limit.
//! Answers arrive in the same order.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use storebench_engine::store::{
    Batch, BulkWrite, Completions, ErrorKind, Op, OpError, OpKind, Request, Session, SessionCounters, SessionOptions,
    StoreError, Token,
};
use tokio::runtime::Handle;

use super::bulk::copy_rows;
use super::channel::Lost;
use super::encode::{Collection, List, check_size, misfit, put_body};
use super::flow::{Entry, Flow, Next, What};
use super::login::{Connected, WITHIN};
use super::setup::{Setup, set_up};
use super::sql::{Statement, Table};
use super::study_queries;
use super::transaction::Transaction;
use super::wire::{self, Bind, oid};
use crate::connection::{self, Answers, Link};
use crate::document::{collection_of, prefix_end_text};
use crate::net::Stream;
use crate::study_queries::ByNumber;

/// A statement of the session.
struct Prepared {
    sql: String,
    types: Vec<u32>,
    /// Whether the server has prepared it, or will have when it has read the output.
    known: bool,
}

/// What is needed to reconnect.
struct Again {
    setup: Setup,
    /// A Parse of every statement that the server should know.
    parses: RefCell<Vec<u8>>,
    /// The process ID and the secret key for a CancelRequest.
    process: Cell<(i32, i32)>,
}

impl Again {
    async fn connect(&self) -> Result<Stream, StoreError> {
        let connected = self.setup.target.login().await?;
        self.process.set(connected.process);
        let parses = self.parses.borrow().clone();
        set_up(connected, &self.setup, &parses, true, WITHIN).await
    }
}

/// One connection to a PostgreSQL server.
pub(crate) struct PostgresSession {
    pub(super) link: Link<Entry>,
    again: Rc<Again>,
    handle: Handle,
    flow: Flow,
    prepared: Vec<Prepared>,
    collections: Vec<Collection>,
    /// The statements of queries, by the number of the query.
    queries: ByNumber<usize>,
    /// The statements that begin and end transactions.
    controls: Vec<(&'static str, usize)>,
    /// The transaction in progress.
    pub(super) transaction: Option<Transaction>,
    /// The memory of the last one.
    pub(super) spare: Transaction,
    /// The statement that is executed before the next request, under the same Sync.
    pub(super) prelude: Option<usize>,
}

impl PostgresSession {
    /// Opens a session on these tables. Must be called within the runtime that will drive it.
    pub(super) async fn open(
        connected: Connected,
        setup: Setup,
        tables: &[Table],
        options: &SessionOptions,
    ) -> Result<Self, StoreError> {
        let mut prepared = Vec::new();
        let collections = tables
            .iter()
            .map(|table| {
                let mut add = |statement: Option<Statement>| {
                    let (sql, types) = statement?;
                    prepared.push(Prepared { sql, types, known: true });
                    Some(prepared.len() - 1)
                };
                let statements = OpKind::ALL.map(|kind| add(table.statement(kind)));
                let copy = add(table.copy_in());
                Collection { table: table.clone(), statements, copy, lists: Vec::new() }
            })
            .collect();
        let process = connected.process;
        let stream = set_up(connected, &setup, &parses(&prepared), false, WITHIN).await?;
        let flow = Flow::new(setup.guarantee.waits_for_standbys());
        let again = Rc::new(Again { setup, parses: RefCell::default(), process: Cell::new(process) });
        let connect = connection::again(Rc::clone(&again), |again| async move { again.connect().await });
        let link = Link::connected(stream, connect, options.in_flight, options.timeout);
        Ok(Self {
            link,
            again,
            handle: Handle::current(),
            flow,
            prepared,
            collections,
            queries: ByNumber::default(),
            controls: Vec::new(),
            transaction: None,
            spare: Transaction::default(),
            prelude: None,
        })
    }

    /// Appends a request. If it fails, nothing of it remains.
    pub(super) fn encode(
        &mut self,
        request: &Request<'_>,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let position = request.collection.position();
        collection_of(request, &self.collections, false)?;
        match request.op {
            Op::BulkWrite { kind, items } => return self.begin_bulk(position, kind, items, token, out),
            Op::Prefix { prefix, limit } => {
                let end = prefix_end_text(prefix);
                return self.range(request, prefix, end.as_deref(), limit, token);
            }
            Op::Scan { start, end, limit } => return self.range(request, start, end, limit, token),
            Op::Page { field, value, limit } => return self.page(request, field, value, limit, token),
            Op::Query { number, text, values } => return self.query(request, number, text, values, token),
            Op::Transaction { isolation, steps, rolls_back } => {
                return self.begin_transaction(isolation, steps, rolls_back, request.contents, token, out);
            }
            _ => {}
        }
        let Self { link, prelude, collections, .. } = self;
        let bytes = ask(link, *prelude, token, request.op.kind(), What::Write);
        let encoded = collections[position].encode(request, bytes);
        let what = encoded.inspect_err(|_| link.pipe.take_back())?;
        link.pipe.amend(|last| last.what = what);
        Ok(())
    }

    /// The number of a statement that begins or ends transactions.
    pub(super) fn control(&mut self, text: &'static str) -> usize {
        if let Some((_, number)) = self.controls.iter().find(|(known, _)| *known == text) {
            return *number;
        }
        self.prepared.push(Prepared { sql: text.to_owned(), types: Vec::new(), known: false });
        self.controls.push((text, self.prepared.len() - 1));
        self.prepared.len() - 1
    }

    /// The number of a list's statement. A new one is prepared on the way.
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
        self.prepare(number);
        Ok(number)
    }

    /// Prepares a statement that the server does not know yet.
    pub(super) fn prepare(&mut self, number: usize) {
        let Prepared { sql, types, known } = &mut self.prepared[number];
        if std::mem::replace(known, true) {
            return;
        }
        let entry = Entry { token: None, op: OpKind::Read, what: What::Prepare(number), in_transaction: false };
        let bytes = self.link.pipe.request(entry, true);
        wire::parse(bytes, number, sql, types);
        wire::describe(bytes, number);
        wire::sync(bytes);
    }

    fn query(
        &mut self,
        request: &Request<'_>,
        number: u16,
        text: &str,
        values: Batch<'_>,
        token: Token,
    ) -> Result<(), OpError> {
        let Self { queries, prepared, collections, .. } = self;
        let statement = *queries.get(number, || {
            let table = &collections[request.collection.position()].table;
            let sql = study_queries::statement(table, text, values)?;
            prepared.push(Prepared { sql, types: Vec::new(), known: false });
            Ok(prepared.len() - 1)
        })?;
        check_size(values.total_bytes())?;
        let count = u16::try_from(values.len()).map_err(|_| OpError::unsupported())?;
        self.prepare(statement);
        let what = What::Query { contents: request.contents, statement };
        let bytes = ask(&mut self.link, self.prelude, token, OpKind::Query, what);
        let bind = Bind::text(bytes, statement, count);
        values.iter().fold(bind, |bind, (_, value)| study_queries::bind(bind, value)).run();
        Ok(())
    }

    fn range(
        &mut self,
        request: &Request<'_>,
        start: &str,
        end: Option<&str>,
        limit: u32,
        token: Token,
    ) -> Result<(), OpError> {
        let list = if end.is_some() { List::Between(limit) } else { List::From(limit) };
        let number = self.list(request.collection.position(), list)?;
        let bytes = self.rows(request, token);
        let bind = Bind::new(bytes, number, if end.is_some() { 2 } else { 1 }).bytes(start.as_bytes());
        match end {
            Some(end) => bind.bytes(end.as_bytes()).run(),
            None => bind.run(),
        }
        Ok(())
    }

    fn page(
        &mut self,
        request: &Request<'_>,
        field: &str,
        value: &str,
        limit: u32,
        token: Token,
    ) -> Result<(), OpError> {
        let collection = request.collection.position();
        // Searched first, so that the name of the field is copied only once.
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
        let bytes = self.rows(request, token);
        Bind::new(bytes, number, 1).json(value.as_bytes()).run();
        Ok(())
    }

    /// The buffer for a request whose answer is rows.
    fn rows(&mut self, request: &Request<'_>, token: Token) -> &mut Vec<u8> {
        let jsonb = self.collections[request.collection.position()].table.jsonb;
        ask(&mut self.link, None, token, request.op.kind(), What::Rows { contents: request.contents, jsonb })
    }

    fn begin_bulk(
        &mut self,
        collection: usize,
        kind: BulkWrite,
        items: Batch<'_>,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let Collection { table, statements, copy, .. } = &self.collections[collection];
        if statements[OpKind::BulkUpsert as usize].is_none() {
            return Err(misfit(OpKind::BulkUpsert, table));
        }
        let place = self.flow.take_bulk();
        let bulk = &mut self.flow.bulks[place];
        bulk.items.clear();
        for (key, body) in items.iter() {
            bulk.items.push(key, body);
        }
        bulk.begin(token, kind, collection);
        bulk.copying &= copy.is_some();
        self.go_on(place, out);
        Ok(())
    }

    /// Sends the next part of a bulk write, or ends it.
    fn go_on(&mut self, place: usize, out: &mut dyn Completions) {
        loop {
            let Some(part) = self.flow.bulks[place].next_part(&mut self.flow.splits) else {
                return self.flow.end_bulk(place, None, out);
            };
            if part.is_empty() {
                continue;
            }
            let bulk = &self.flow.bulks[place];
            let op = bulk.op();
            let Collection { table, statements, copy, .. } = &self.collections[bulk.collection];
            let (body_kind, (_, element, _)) = (table.given.body, table.given.types);
            let Some(statement) = (if bulk.copying { *copy } else { statements[op as usize] }) else {
                return self.flow.end_bulk(place, Some(misfit(op, table)), out);
            };
            let entry = Entry { token: None, op, what: What::Bulk(place), in_transaction: false };
            let bytes = self.link.pipe.request(entry, true);
            let result = {
                let items = bulk.part(&part);
                if bulk.copying {
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
                Ok(()) => return,
                // Treated as a refusal by the server: the item is found by halving.
                Err(meaning) => {
                    self.link.pipe.take_back();
                    let error = wire::ServerError { code: "22000".into(), ..wire::ServerError::default() };
                    let bulk = &mut self.flow.bulks[place];
                    if let Some(error) = bulk.part_failed(&error, meaning, &mut self.flow.splits) {
                        return self.flow.end_bulk(place, Some(error), out);
                    }
                }
            }
        }
    }
}

/// The buffer for a request. The token of a transaction's own requests says that they are.
fn ask(link: &mut Link<Entry>, prelude: Option<usize>, token: Token, op: OpKind, what: What) -> &mut Vec<u8> {
    let entry = Entry { token: Some(token), op, what, in_transaction: token == super::transaction::OWN };
    let bytes = link.pipe.request(entry, true);
    if let Some(statement) = prelude {
        Bind::new(bytes, statement, 0).start();
    }
    bytes
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

impl Answers for PostgresSession {
    type Awaited = Entry;

    fn link(&mut self, _: usize) -> &mut Link<Entry> {
        &mut self.link
    }

    fn take(&mut self, _: usize, out: &mut dyn Completions) -> Result<(), String> {
        loop {
            let (entry, input) = self.link.pipe.look();
            let found = wire::look(input).map_err(|garbled| Lost::from(garbled).0)?;
            let Some((tag, bytes)) = found else { return Ok(()) };
            let of_transaction = entry.as_ref().is_some_and(|entry| entry.in_transaction);
            let ended = match self.transaction.as_mut().filter(|_| of_transaction) {
                Some(own) => self.flow.message(entry, tag, &input[5..bytes], &mut own.taking()),
                None => self.flow.message(entry, tag, &input[5..bytes], out),
            };
            let ended = ended.map_err(|lost| lost.0)?;
            self.link.pipe.consume(bytes);
            if !ended {
                continue;
            }
            let Some(entry) = self.link.pipe.pop() else { continue };
            if let Some(own) = self.transaction.as_mut().filter(|_| of_transaction) {
                self.flow.end(&entry, &mut own.taking());
                self.next_step(out);
                continue;
            }
            match self.flow.end(&entry, out) {
                Next::Nothing => {}
                Next::Unprepared(statement) => self.prepared[statement].known = false,
                Next::Bulk(place) => self.go_on(place, out),
            }
        }
    }

    fn lose(&mut self, _: usize, why: &str, out: &mut dyn Completions) {
        let sent = self.flow.lose(self.link.pipe.lose(), why, &self.link.not_connected(), out);
        self.lose_transaction(why, sent, out);
        // The description of their rows was lost, so they are prepared again.
        for statement in self.queries.all().filter(|statement| !self.flow.knows_rows(**statement)) {
            self.prepared[*statement].known = false;
        }
        *self.again.parses.borrow_mut() = parses(&self.prepared);
    }
}

impl Session for PostgresSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        // An idle connection may have been closed meanwhile. This finds out before anything is sent.
        if self.link.pipe.is_idle() && self.link.was_woken() {
            self.advance(0, out);
        }
        if !self.is_ready(0, out) {
            return out.complete(token, Err(self.link.not_connected()));
        }
        if let Err(error) = self.encode(request, token, out) {
            out.complete(token, Err(error));
        }
    }

    fn flush(&mut self) {
        self.link.flush();
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        if self.link.has_news(cx) {
            self.advance(0, out);
        }
        if self.link.pipe.is_idle() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn counters(&self) -> SessionCounters {
        SessionCounters { disconnects: self.link.disconnects(), splits: self.flow.splits }
    }

    /// The answer is dropped when it arrives. A connection whose server is silent for twice the timeout is replaced,
    /// and the server is asked to cancel its work there.
    fn abandon(&mut self, token: Token) {
        self.abandon_transaction(token);
        self.flow.abandon(self.link.pipe.awaited(), token);
        if self.link.abandoned() {
            let (target, process) = (self.again.setup.target.clone(), self.again.process.get());
            self.handle.spawn(async move { target.cancel(process).await });
        }
    }
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        // Ends the session cleanly. A server that cannot take this now sees the socket close.
        self.link.say_goodbye(&[b'X', 0, 0, 0, 4]);
    }
}
