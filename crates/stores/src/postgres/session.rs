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
use storebench_study::workload::Body;
use tokio::runtime::Handle;

use super::bulk::copy_rows;
use super::channel::Lost;
use super::flow::{Entry, Flow, Next, What};
use super::login::{Connected, WITHIN};
use super::setup::{Setup, set_up};
use super::sql::{KINDS, Kind, Table};
use super::study_queries;
use super::transaction::Transaction;
use super::wire::{self, Bind, LARGEST_BYTES, Look, oid};
use crate::connection::{self, Answers, Link};
use crate::document::{collection_of, counter, prefix_end_text, wrong_collection};
use crate::net::Stream;
use crate::study_queries::ByNumber;

/// A statement of the session.
struct Prepared {
    sql: String,
    types: Vec<u32>,
    /// Whether the server has prepared it, or will have when it has read the output.
    known: bool,
}

/// A query whose limit is part of the text.
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
                let statements = KINDS.map(|kind| {
                    let (sql, types) = table.statement(kind)?;
                    prepared.push(Prepared { sql, types, known: true });
                    Some(prepared.len() - 1)
                });
                Collection { table: table.clone(), statements, lists: Vec::new() }
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
        let (op, contents) = (request.op.kind(), request.contents);
        match request.op {
            Op::BulkWrite { kind, items } => return self.begin_bulk(position, kind, items, token, out),
            Op::Prefix { prefix, limit } => {
                let end = prefix_end_text(prefix);
                return self.range(position, prefix, end.as_deref(), limit, contents, op, token);
            }
            Op::Scan { start, end, limit } => {
                return self.range(position, start, end, limit, contents, op, token);
            }
            Op::Page { field, value, limit } => return self.page(position, field, value, limit, contents, token),
            Op::Query { number, text, values } => {
                return self.query(position, number, text, values, contents, token);
            }
            Op::Transaction { isolation, steps, rolls_back } => {
                return self.begin_transaction(isolation, steps, rolls_back, contents, token, out);
            }
            _ => {}
        }
        let Self { link, prelude, collections, .. } = self;
        let bytes = ask(link, *prelude, token, op, What::Write);
        let encoded = collections[position].encode(request, bytes);
        match encoded {
            Ok(what) => {
                link.pipe.amend(|last| last.what = what);
                Ok(())
            }
            Err(error) => {
                link.pipe.take_back();
                Err(error)
            }
        }
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
        collection: usize,
        number: u16,
        text: &str,
        values: Batch<'_>,
        contents: bool,
        token: Token,
    ) -> Result<(), OpError> {
        let Self { queries, prepared, collections, .. } = self;
        let statement = *queries.get(number, || {
            let sql = study_queries::statement(&collections[collection].table, text, values)?;
            prepared.push(Prepared { sql, types: Vec::new(), known: false });
            Ok(prepared.len() - 1)
        })?;
        check_size(values.total_bytes())?;
        let count = u16::try_from(values.len()).map_err(|_| OpError::unsupported())?;
        self.prepare(statement);
        let what = What::Query { contents, statement };
        let bytes = ask(&mut self.link, self.prelude, token, OpKind::Query, what);
        let bind = Bind::text(bytes, statement, count);
        values.iter().fold(bind, |bind, (_, value)| study_queries::bind(bind, value)).run();
        Ok(())
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
        let bytes = self.rows(collection, contents, op, token);
        let bind = Bind::new(bytes, number, if end.is_some() { 2 } else { 1 }).bytes(start.as_bytes());
        match end {
            Some(end) => bind.bytes(end.as_bytes()).run(),
            None => bind.run(),
        }
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
        let bytes = self.rows(collection, contents, OpKind::Page, token);
        Bind::new(bytes, number, 1).json(value.as_bytes()).run();
        Ok(())
    }

    /// The buffer for a request whose answer is rows.
    fn rows(&mut self, collection: usize, contents: bool, op: OpKind, token: Token) -> &mut Vec<u8> {
        let jsonb = self.collections[collection].table.jsonb;
        ask(&mut self.link, None, token, op, What::Rows { contents, jsonb })
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
            let Some(part) = self.flow.bulks[place].next_part(&mut self.flow.splits) else {
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
            let entry = Entry { token: None, op: bulk.op(), what: What::Bulk(place), in_transaction: false };
            let bytes = self.link.pipe.request(entry, true);
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

impl Collection {
    /// Appends a request that is one statement. Returns the meaning of its answer.
    fn encode(&self, request: &Request<'_>, bytes: &mut Vec<u8>) -> Result<What, OpError> {
        let (jsonb, contents) = (self.table.jsonb, request.contents);
        let statement = |kind: Kind| self.statements[kind as usize].ok_or_else(|| misfit(kind, &self.table));
        Ok(match request.op {
            Op::Insert { key, body } => self.write(Kind::Insert, key, body, bytes)?,
            Op::Upsert { key, body } => self.write(Kind::Upsert, key, body, bytes)?,
            Op::Replace { key, body } => self.write(Kind::Replace, key, body, bytes)?,
            Op::Append { key, bytes: added } => self.write(Kind::Append, key, added, bytes)?,
            Op::Prepend { key, bytes: added } => self.write(Kind::Prepend, key, added, bytes)?,
            Op::MergePatch { key, patch } => {
                check_size(patch.len())?;
                Bind::new(bytes, statement(Kind::Merge)?, 2).bytes(key.as_bytes()).json(patch).run();
                What::Write
            }
            Op::Read { key } => {
                Bind::new(bytes, statement(Kind::Read)?, 1).bytes(key.as_bytes()).run();
                What::Read { contents, jsonb }
            }
            Op::Exists { key } => {
                Bind::new(bytes, statement(Kind::Exists)?, 1).bytes(key.as_bytes()).run();
                What::Exists
            }
            Op::Delete { key } => {
                Bind::new(bytes, statement(Kind::Delete)?, 1).bytes(key.as_bytes()).run();
                What::Write
            }
            Op::Counter { key, delta, initial } => {
                let bind = Bind::new(bytes, statement(Kind::Counter)?, 3).bytes(key.as_bytes());
                bind.bytes(&initial.to_be_bytes()).bytes(&delta.to_be_bytes()).run();
                What::Counter
            }
            Op::CompareAndSwap { key, expected, body } => {
                check_size(body.len())?;
                let bind = Bind::new(bytes, statement(Kind::CompareAndSwap)?, 3).bytes(key.as_bytes());
                // No row has the transaction ID 0, so an invalid revision matches none.
                self.body(bind, body)?.bytes(if expected.len() == 4 { expected } else { &[0; 4] }).run();
                What::Swap
            }
            Op::BulkRead { keys } => {
                many_keys(bytes, statement(Kind::BulkRead)?, keys)?;
                What::Rows { contents, jsonb }
            }
            Op::BulkDelete { keys } => {
                many_keys(bytes, statement(Kind::BulkDelete)?, keys)?;
                What::Count
            }
            _ => return Err(OpError::unsupported()),
        })
    }

    fn write(&self, kind: Kind, key: &str, body: &[u8], bytes: &mut Vec<u8>) -> Result<What, OpError> {
        check_size(body.len())?;
        let statement = self.statements[kind as usize].ok_or_else(|| misfit(kind, &self.table))?;
        self.body(Bind::new(bytes, statement, 2).bytes(key.as_bytes()), body)?.run();
        Ok(What::Write)
    }

    fn body<'a>(&self, bind: Bind<'a>, body: &[u8]) -> Result<Bind<'a>, OpError> {
        Ok(match self.table.given.body {
            Body::Json => bind.json(body),
            Body::Bytes => bind.bytes(body),
            Body::Counter => bind.bytes(&counter(body)?.to_be_bytes()),
        })
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
        format!("{bytes} bytes exceed PostgreSQL's limit for one message (1 GiB); make the document smaller"),
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
            "merging into your table needs a function in the session's temporary schema; grant this user \
             TEMPORARY on the database",
        ),
        Kind::CompareAndSwap if !table.read_only => {
            wrong_collection("compare-and-swap needs a table that Storebench made")
        }
        _ if !table.read_only => {
            if let Some(computed) = table.theirs.as_ref().and_then(|theirs| theirs.computed.as_ref()) {
                let text = format!(
                    "cannot insert into {}: its column {computed} is GENERATED ALWAYS AS IDENTITY, so the server accepts no \
                     key; add ?identity=given to the URL to override that, change existing rows with --op replace, merge or \
                     delete, or make it GENERATED BY DEFAULT",
                    table.place
                );
                return OpError::new(ErrorKind::Failed, text);
            }
            let columns = table.theirs.as_ref().map(|theirs| theirs.mandatory.join(", ")).unwrap_or_default();
            let text = format!(
                "cannot insert into {}: its columns {columns} need values and have no defaults; give them \
                 defaults, or change existing rows with --op replace or --op merge",
                table.place
            );
            OpError::new(ErrorKind::Failed, text)
        }
        _ => wrong_collection("this collection was opened for reading only"),
    }
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
            let Look::Whole(tag, bytes) = found else { return Ok(()) };
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
