//! Documents of a store, in ranges of keys or by the rows of a view.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use storebench_core::engine::Clock;
use storebench_core::keys::Rng;
use storebench_core::store::{
    AnyStore, CollectionId, CollectionLayout, ErrorKind, Existing, Layout, LocalFuture, Namespace, Op, OpError, OpKind,
    OwnedReply, Prepare, Reply, Request, Rows, RowsKind, Session, StoreError, Token, ViewRows, evenly,
};
use storebench_core::workload::Body;

use super::rows::{RowOptions, RowReader};
use super::{Part, Reader, Room, Snapshot, Source, Split, Unreadable, ViewKeys};
use crate::error::TransferError;
use crate::measure::{self, RequestKinds};
use crate::records::{Origin, Records};
use crate::retry::{RetryPolicy, Tries};
use crate::session::{self, SessionRequest, of_store};
use crate::shape::{Maker, Shape, Strip};
use crate::timer::Timer;

/// How a copy names the columns that it reads.
const FROM_COLUMNS: &str =
    "name the columns with --from-key COLUMN and --from-body COLUMN, or read plain columns with --query SQL";
/// A page is about so large.
const PAGE_BYTES: u64 = 1 << 20;
/// Documents of a page, at first and at most.
const FIRST_PAGE: u32 = 100;
const LARGEST_PAGE: u32 = 5_000;
/// Documents of a range's first page, at most: those of the ranges before may have been smaller.
const LARGEST_FIRST_PAGE: u32 = 500;
/// Key ranges for each worker, so that one that ends early finds another.
const RANGES_A_WORKER: u32 = 4;

/// Which documents of a store.
#[derive(Debug, Clone)]
pub struct StoreSourceOptions {
    /// Name of the collection: one that Storebench made, or what the store calls one of somebody else's.
    pub collection: String,
    /// The collection's place in the layout that the store was prepared with: then nothing is looked for.
    pub prepared: Option<CollectionId>,
    /// The field or column that holds the key, in stores where that is not fixed.
    pub key: Option<String>,
    /// The field or column that holds the document, in stores where that is not fixed.
    pub body: Option<String>,
    /// The view whose rows are read, instead of the whole collection.
    pub view: Option<ViewSource>,
    /// The query whose rows are read, instead of a collection, in the store's own language.
    pub query: Option<String>,
    /// What becomes of an expiry where one is seen.
    pub expiry: TheirExpiry,
    /// Whether attachments may be left behind; otherwise a document that has some is rejected.
    pub drop_attachments: bool,
    /// How long a page may take.
    pub timeout: Duration,
    /// How a page that fails is tried again.
    pub retry: RetryPolicy,
}

/// What becomes of the expiry that a document has in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TheirExpiry {
    /// The document does not arrive.
    #[default]
    Rejected,
    /// It stays behind, and is counted.
    Dropped,
    /// The document expires at the same time in the target, whose writer must take expiries.
    Kept,
}

/// Rows of a view: the documents that they stand for.
#[derive(Debug, Clone)]
pub struct ViewSource {
    /// `design/view`.
    pub view: String,
    /// The keys of the rows; none for all rows.
    pub keys: Option<ViewKeys>,
}

/// Documents of one collection.
pub struct StoreSource {
    store: Arc<dyn AnyStore>,
    options: StoreSourceOptions,
    theirs: bool,
    way: Way,
    /// How many documents make a page, as far as is known by now.
    page: AtomicU32,
}

/// How documents are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By a query.
    Query,
    /// By the rows of a view, page after page.
    View,
    /// Parts of the store, in no order of keys.
    Walk,
    /// Ranges of keys, each a stream.
    Ranges,
    /// Ranges of keys, page after page.
    Pages,
}

impl StoreSourceOptions {
    /// A whole collection of Storebench's making.
    pub fn new(collection: impl Into<String>) -> Self {
        Self {
            collection: collection.into(),
            prepared: None,
            key: None,
            body: None,
            view: None,
            query: None,
            expiry: TheirExpiry::default(),
            drop_attachments: false,
            timeout: Duration::from_secs(10),
            retry: RetryPolicy::default(),
        }
    }

    /// The collection as sessions know it.
    fn id(&self) -> CollectionId {
        self.prepared.unwrap_or(CollectionId(0))
    }
}

impl StoreSource {
    /// Looks for the collection, changing nothing.
    ///
    /// # Errors
    /// It is not there, or the store cannot list documents in the order of their keys.
    pub fn open(store: Arc<dyn AnyStore>, options: StoreSourceOptions) -> Result<Self, TransferError> {
        let can = store.capabilities();
        if options.query.is_some() {
            if !can.rows.contains(&RowsKind::Query) {
                let text = format!("{} has no queries that `--query` could ask", store.describe().url);
                return Err(TransferError::BadInput(text));
            }
            return Ok(Self { store, options, theirs: true, way: Way::Query, page: FIRST_PAGE.into() });
        }
        match &options.view {
            None if can.rows.iter().any(|kind| matches!(kind, RowsKind::Walk | RowsKind::Range)) => {}
            None => session::needs(&*store, OpKind::Scan, "reading a whole collection")?,
            Some(_) => session::needs(&*store, OpKind::View, "--view")?,
        }
        let theirs = if options.prepared.is_some() { false } else { Self::prepare(&*store, &options)? };
        // Only once it is prepared a store tells whether this collection has an order.
        let can = store.capabilities();
        let way = match &options.view {
            Some(_) => Way::View,
            None if can.rows.contains(&RowsKind::Range) => Way::Ranges,
            None if can.supports(OpKind::Scan).is_some() => Way::Pages,
            None => Way::Walk,
        };
        Ok(Self { store, options, theirs, way, page: FIRST_PAGE.into() })
    }

    /// Whether the collection is one that Storebench did not make.
    pub fn is_theirs(&self) -> bool {
        self.theirs
    }

    fn cuts(&self, ranges: u32) -> Result<Vec<String>, TransferError> {
        self.store.cuts(self.options.id(), ranges as usize).map_err(|e| of_store(&*self.store, e))
    }

    /// Its parts, so many where it can be cut. `known` are keys spread evenly over the collection, for a store that
    /// tells none and keeps them in the order of their bytes. A view is cut by the numbers of its rows, of which there
    /// are about `rows`: the last part goes on to the end.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn cut(
        &self,
        parts: u32,
        rows: u64,
        known: &mut dyn FnMut() -> Vec<String>,
    ) -> Result<Vec<Split>, TransferError> {
        if self.options.view.as_ref().is_some_and(|view| view.keys.is_none()) {
            let (rows, pieces) = (rows.min(u32::MAX.into()), u64::from(parts.max(1)).min(rows.max(1)));
            let at = |piece: u64| (rows * piece / pieces) as u32;
            let end = |piece: u64| Some(at(piece + 1)).filter(|_| piece + 1 < pieces);
            let part = |piece: u64| Part::ViewRows { start: at(piece), end: end(piece) };
            return Ok((0..pieces).map(|n| Split { number: n as u32, part: part(n), bytes: None }).collect());
        }
        if !matches!(self.way, Way::Ranges | Way::Pages) {
            return self.splits(parts);
        }
        let mut bounds = if parts > 1 { self.cuts(parts)? } else { Vec::new() };
        if bounds.is_empty() && parts > 1 && self.way == Way::Pages {
            let mut keys = known();
            keys.sort_unstable();
            keys.dedup();
            bounds = evenly(&keys, parts as usize);
        }
        Ok(ranges(bounds))
    }

    /// Looks for the collection; says whether it is somebody else's.
    fn prepare(store: &dyn AnyStore, options: &StoreSourceOptions) -> Result<bool, TransferError> {
        // A server may hold nothing of Storebench's and much of others'.
        let absent = store.inspect().map_err(|e| of_store(store, e))? == Namespace::Absent;
        if absent && store.capabilities().embedded {
            return Err(of_store(store, StoreError::Unreachable("there is nothing to read; is the URL right?".into())));
        }
        let mut theirs = options.key.is_some() || options.body.is_some();
        let mut opened = prepare(store, options, theirs);
        // Where it cannot be reached it was not found out whose it is.
        if let (false, Err(ours)) = (theirs, &opened)
            && !matches!(ours, StoreError::Unreachable(_))
        {
            let ours = ours.to_string();
            theirs = true;
            opened = prepare(store, options, theirs).map_err(|other| match other {
                // It was there a moment ago.
                StoreError::Unreachable(_) | StoreError::Failed(_) => other,
                _ if other.to_string() == ours => StoreError::BadUrl(ours),
                _ => StoreError::BadUrl(format!("{other} (and of Storebench's own making: {ours})")),
            });
        }
        opened.map_err(|e| session::naming_columns(e, FROM_COLUMNS)).map_err(|e| of_store(store, e))?;
        Ok(theirs)
    }
}

/// Ranges of keys that meet at these.
fn ranges(bounds: Vec<String>) -> Vec<Split> {
    let starts = std::iter::once(None).chain(bounds.iter().cloned().map(Some));
    let ends = bounds.iter().cloned().map(Some).chain(std::iter::once(None));
    let parts = starts.zip(ends).map(|(start, end)| Part::Keys { start, end });
    parts.enumerate().map(|(number, part)| Split { number: number as u32, part, bytes: None }).collect()
}

fn prepare(store: &dyn AnyStore, options: &StoreSourceOptions, theirs: bool) -> Result<(), StoreError> {
    let StoreSourceOptions { collection, key, body, .. } = options;
    let existing = theirs.then(|| Existing { name: collection.clone(), key: key.clone(), body: body.clone() });
    let layout = CollectionLayout { name: collection.clone(), body: Body::Json, indexes: Vec::new(), existing };
    store.prepare(&Layout { collections: vec![layout] }, Prepare::ReadOnly)
}

impl Source for StoreSource {
    fn describe(&self) -> String {
        if let Some(query) = &self.options.query {
            return format!(
                "{}, {}",
                self.store.describe().url,
                query.split_whitespace().collect::<Vec<_>>().join(" ")
            );
        }
        let view = self.options.view.as_ref().map(|view| format!(", view {}", view.view)).unwrap_or_default();
        format!("{}, {}{view}", self.store.describe().url, self.options.collection)
    }

    fn fingerprint(&self) -> String {
        let order = (self.way == Way::Ranges).then(|| self.store.range_order(self.options.id())).flatten();
        order.map_or_else(|| self.describe(), |order| format!("{}, keys in the order of {order}", self.describe()))
    }

    fn repeats(&self) -> bool {
        // What was written or removed meanwhile moves all that stand behind it.
        false
    }

    fn repeats_keys(&self, shape: &Shape) -> bool {
        self.options.query.is_some() || self.options.view.is_some() || !shape.is_plain()
    }

    fn store(&self) -> Option<&dyn AnyStore> {
        Some(&*self.store)
    }

    fn requests(&self) -> Option<RequestKinds> {
        let kind = if self.options.view.is_some() { OpKind::View } else { OpKind::Scan };
        Some(RequestKinds { kinds: vec![kind], batch: LARGEST_PAGE })
    }

    fn snapshot(&self) -> Snapshot {
        match self.way {
            Way::Query => Snapshot::Yes("the query sees one moment"),
            Way::View => Snapshot::No(
                "rows of the view are read page after page, by their number: changes made during the copy may or may not \
                 be in it, and what is removed meanwhile can let a row beside it be left out",
            ),
            Way::Walk => {
                Snapshot::No("keys are listed one after another: changes made during the copy may or may not be in it")
            }
            Way::Ranges => Snapshot::No(
                "each range of keys is read as it was when its turn came: changes made during the copy may or may not be \
                 in it",
            ),
            Way::Pages => {
                Snapshot::No("pages are read one after another: changes made during the copy may or may not be in it")
            }
        }
    }

    fn splits(&self, parallel: u32) -> Result<Vec<Split>, TransferError> {
        let all = |parts: Vec<Part>| {
            let split = |(number, part)| Split { number: number as u32, part, bytes: None };
            Ok(parts.into_iter().enumerate().map(split).collect())
        };
        match (self.way, &self.options.view) {
            (Way::Query, _) => return all(vec![Part::Query]),
            (Way::Walk, _) => {
                let parts = self.store.parts().map_err(|e| of_store(&*self.store, e))?;
                return all(parts.into_iter().map(|part| Part::Walk { part }).collect());
            }
            (_, Some(view)) => {
                let keys = view.keys.as_ref().map_or(vec![None], |keys| keys.0.iter().cloned().map(Some).collect());
                return all(keys.into_iter().map(|key| Part::View { key }).collect());
            }
            (_, None) => {}
        }
        let bounds = match parallel {
            0 | 1 => Vec::new(),
            _ => self.cuts(parallel * RANGES_A_WORKER)?,
        };
        Ok(ranges(bounds))
    }

    fn open<'a>(
        &'a self,
        split: &'a Split,
        shape: &'a Shape,
    ) -> LocalFuture<'a, Result<Box<dyn Reader + 'a>, TransferError>> {
        Box::pin(async move {
            let rows = match (&split.part, &self.options.query) {
                (Part::Query, Some(query)) => Some(Rows::Query(query)),
                (Part::Walk { part }, _) => Some(Rows::Walk { collection: self.options.id(), part }),
                (Part::Keys { start, end }, _) if self.way == Way::Ranges => {
                    Some(Rows::Range { collection: self.options.id(), start: start.as_deref(), end: end.as_deref() })
                }
                _ => None,
            };
            if let Some(rows) = rows {
                let store = &*self.store;
                let begin = async || store.rows(rows).await.map_err(|e| of_store(store, e));
                let stream = session::again(store, &self.options.retry, begin).await?;
                let options = RowOptions {
                    store: &*self.store,
                    retry: &self.options.retry,
                    maker: shape.maker(),
                    unit: split.number,
                    keyed: !matches!(rows, Rows::Query(_)),
                    again: matches!(rows, Rows::Walk { .. }),
                    expiry: self.options.expiry,
                };
                return Ok(Box::new(RowReader::new(stream, options)) as Box<dyn Reader + 'a>);
            }
            let walk = match (&split.part, &self.options.view) {
                (Part::Keys { start, end }, _) => {
                    Walk::Keys { start: start.as_deref().unwrap_or_default(), end: end.as_deref(), after: None }
                }
                (Part::View { key }, Some(view)) => {
                    let key = key.as_ref().map(|key| format!("[{key}]"));
                    Walk::View { view: &view.view, key, skip: 0, end: None }
                }
                (Part::ViewRows { start, end }, Some(view)) => {
                    Walk::View { view: &view.view, key: None, skip: *start, end: *end }
                }
                _ => return Err(TransferError::BadInput("a store is not read by bytes".into())),
            };
            let request = SessionRequest { durability: None, timeout: self.options.timeout, in_flight: 1 };
            let (session, clock) = session::open_again(&*self.store, &request, &self.options.retry).await?;
            let can = self.store.capabilities();
            let mut scan = Scan {
                session,
                clock,
                source: self,
                timer: Timer::new(),
                walk,
                limit: self.page.load(Ordering::Relaxed).min(LARGEST_FIRST_PAGE),
                page: None,
                next: 0,
                state: State::Idle,
                token: 0,
                tries: Tries::default(),
                draw: Rng::new(u64::from(split.number)),
                maker: shape.maker(),
                strip: Strip::new(can.own_members, can.attachments_member, self.options.drop_attachments),
                embedded: can.embedded,
                unit: split.number,
                read: 0,
                bytes: 0,
                sent_ns: 0,
                here_ns: 0,
                requests: Vec::new(),
            };
            scan.ask();
            Ok(Box::new(scan) as Box<dyn Reader + 'a>)
        })
    }

    fn place(&self, _: &Split, _: Origin) -> String {
        self.describe()
    }
}

enum State {
    /// Nothing is asked for; the range may have ended.
    Idle,
    /// A page is under way, until this time at most.
    Asked { deadline_ns: u64 },
    /// It failed, and is asked for again at this time.
    Waits { due_ns: u64 },
    /// The page is here.
    Here(Result<OwnedReply, OpError>),
    /// Nothing more will come.
    Ended,
}

/// Where a reader is.
enum Walk<'a> {
    /// In a range of keys. Behind a key that was read the next page begins with it.
    Keys { start: &'a str, end: Option<&'a str>, after: Option<String> },
    /// Among the rows of a view with one key (the text of a list of it), or all, up to the row of a number.
    View { view: &'a str, key: Option<String>, skip: u32, end: Option<u32> },
}

impl Walk<'_> {
    /// Rows that a page holds though they were read already.
    fn again(&self) -> u32 {
        match self {
            Walk::Keys { after, .. } => u32::from(after.is_some()),
            Walk::View { .. } => 0,
        }
    }

    /// The key that was read last.
    fn after(&self) -> Option<&str> {
        match self {
            Walk::Keys { after, .. } => after.as_deref(),
            Walk::View { .. } => None,
        }
    }
}

struct Scan<'a> {
    session: Box<dyn Session>,
    clock: Arc<dyn Clock>,
    source: &'a StoreSource,
    timer: Timer,
    walk: Walk<'a>,
    limit: u32,
    page: Option<OwnedReply>,
    next: usize,
    state: State,
    token: u64,
    tries: Tries,
    draw: Rng,
    maker: Maker<'a>,
    strip: Strip,
    embedded: bool,
    unit: u32,
    read: u64,
    bytes: u64,
    /// When the page was asked for, and when it was seen to be there.
    sent_ns: u64,
    here_ns: u64,
    requests: Vec<measure::Request>,
}

impl Scan<'_> {
    fn ask(&mut self) {
        self.token += 1;
        let now_ns = self.clock.now_ns();
        self.tries.begin(now_ns);
        self.sent_ns = now_ns;
        let deadline_ns = now_ns + self.source.options.timeout.as_nanos() as u64;
        self.state = State::Asked { deadline_ns };
        let limit = self.asked();
        let op = match &self.walk {
            Walk::Keys { start, end, after } => Op::Scan { start: after.as_deref().unwrap_or(start), end: *end, limit },
            Walk::View { view, key, skip, .. } => {
                let rows = key.as_deref().map_or(ViewRows::All, ViewRows::Keys);
                Op::View { view, rows, skip: *skip, limit }
            }
        };
        let request = Request { collection: self.source.options.id(), op, contents: true };
        let (state, token) = (&mut self.state, self.token);
        let mut out = |given: Token, result: Result<Reply<'_>, OpError>| {
            if given.0 == token {
                *state = State::Here(result.map(OwnedReply::from));
            }
        };
        self.session.submit(&request, Token(token), &mut out);
        self.session.flush();
        self.here_ns = self.clock.now_ns();
    }

    /// Rows of the page that is asked for, at most.
    fn asked(&self) -> u32 {
        match self.walk {
            Walk::View { skip, end: Some(end), .. } => self.limit.min(end.saturating_sub(skip)),
            _ => self.limit + self.walk.again(),
        }
    }

    fn measure(&mut self, outcome: Result<(), ErrorKind>, records: u64, bytes: u64) {
        let kind = if matches!(self.walk, Walk::View { .. }) { OpKind::View } else { OpKind::Scan };
        let service_ns = self.here_ns.saturating_sub(self.sent_ns);
        self.requests.push(measure::Request { kind, outcome, service_ns, records, bytes });
    }

    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransferError>> {
        loop {
            let now_ns = self.clock.now_ns();
            match self.state {
                State::Idle => self.ask(),
                State::Ended | State::Here(Ok(_)) => return Poll::Ready(Ok(())),
                State::Waits { due_ns } if due_ns <= now_ns => self.ask(),
                State::Waits { due_ns } => {
                    // What connects the session again runs while it is polled.
                    let _ = self.session.poll(cx, &mut |_: Token, _: Result<Reply<'_>, OpError>| {});
                    if self.timer.poll(cx, Duration::from_nanos(due_ns - now_ns)).is_pending() {
                        return Poll::Pending;
                    }
                }
                State::Asked { deadline_ns } => {
                    let (state, token) = (&mut self.state, self.token);
                    let mut out = |given: Token, result: Result<Reply<'_>, OpError>| {
                        if given.0 == token {
                            *state = State::Here(result.map(OwnedReply::from));
                        }
                    };
                    let _ = self.session.poll(cx, &mut out);
                    self.here_ns = self.clock.now_ns();
                    if matches!(self.state, State::Here(_)) {
                        continue;
                    }
                    if now_ns >= deadline_ns {
                        self.session.abandon(Token(self.token));
                        self.state =
                            State::Here(Err(OpError::new(ErrorKind::Temporary, "no answer within the timeout")));
                        continue;
                    }
                    let wake_ns = self.session.wake_at_ns().unwrap_or(u64::MAX).min(deadline_ns);
                    if self.timer.poll(cx, Duration::from_nanos(wake_ns.saturating_sub(now_ns))).is_pending() {
                        return Poll::Pending;
                    }
                }
                State::Here(Err(ref error)) => {
                    let kind = error.kind;
                    let again = matches!(error.kind, ErrorKind::Temporary | ErrorKind::OutcomeUnknown);
                    let text = format!("a page of documents could not be read: {error}");
                    let due_ns =
                        self.tries.next_ns(&self.source.options.retry, now_ns, &mut self.draw).filter(|_| again);
                    self.measure(Err(kind), 0, 0);
                    match due_ns {
                        Some(due_ns) => self.state = State::Waits { due_ns },
                        None => {
                            let error =
                                if again { session::given_up(&self.tries, &text) } else { StoreError::Failed(text) };
                            return Poll::Ready(Err(of_store(&*self.source.store, error)));
                        }
                    }
                }
            }
        }
    }

    /// Takes the page that has come, and asks for the next one while this one is handed out.
    fn turn(&mut self) -> Result<(), TransferError> {
        let State::Here(Ok(page)) = std::mem::replace(&mut self.state, State::Idle) else { return Ok(()) };
        self.tries = Tries::default();
        let reply = page.as_reply();
        let rows = reply.rows.unwrap_or_default();
        let asked = self.asked();
        let broken = |why: String| Err(of_store(&*self.source.store, StoreError::Failed(why)));
        let twins = rows.iter().zip(rows.iter().skip(1)).find(|((one, _), (next, _))| one == next);
        if let (true, Walk::Keys { .. }, Some(((key, _), _))) = (self.source.theirs, &self.walk, twins) {
            return broken(format!(
                "the key `{key}` is in several rows; name a column whose values are unique, or read them by --query"
            ));
        }
        let skip = usize::from(rows.get(0).is_some_and(|(first, _)| Some(first) == self.walk.after()));
        self.next = skip;
        let (records, bytes) = (rows.len() - skip, rows.total_bytes() as u64);
        self.bytes += bytes;
        let last = rows.len().checked_sub(1).and_then(|last| rows.get(last)).map(|(key, _)| key.to_owned());
        if last.is_some() && last.as_deref() == self.walk.after() && rows.len() >= asked as usize {
            return broken("the store gives the same page again and again".into());
        }
        let mean = (rows.total_bytes() / rows.len().max(1)).max(1) as u64;
        // A server may leave out of a page what has gone meanwhile: only where nothing new comes is the end.
        let more = if self.embedded { rows.len() >= asked as usize } else { records > 0 };
        self.page = Some(page);
        self.measure(Ok(()), records as u64, bytes);
        match last.filter(|_| more) {
            None => self.state = State::Ended,
            Some(last) => {
                match &mut self.walk {
                    Walk::Keys { after, .. } => *after = Some(last),
                    Walk::View { skip, end, .. } => {
                        *skip += asked;
                        if end.is_some_and(|end| *skip >= end) {
                            self.state = State::Ended;
                            return Ok(());
                        }
                    }
                }
                self.limit = (PAGE_BYTES / mean).clamp(1, u64::from(LARGEST_PAGE)) as u32;
                self.source.page.store(self.limit, Ordering::Relaxed);
                self.ask();
            }
        }
        Ok(())
    }
}

impl Reader for Scan<'_> {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: Room,
        into: &mut Records,
        bad: &mut Vec<Unreadable>,
    ) -> Poll<Result<bool, TransferError>> {
        loop {
            if let Some(page) = &self.page {
                let rows = page.as_reply().rows.unwrap_or_default();
                while let Some((key, body)) = rows.get(self.next) {
                    if !into.has_room(room) {
                        return Poll::Ready(Ok(true));
                    }
                    let origin = Origin { unit: self.unit, at: self.read };
                    let maker = &mut self.maker;
                    let made = self.strip.apply(body).and_then(|body| maker.document(key, body, origin, into));
                    if let Err(why) = made {
                        let text = String::from_utf8_lossy(body);
                        let exact = matches!(text, std::borrow::Cow::Borrowed(_));
                        bad.push(Unreadable { origin, key: Some(key.to_owned()), why, text: text.into(), exact });
                    }
                    self.next += 1;
                    self.read += 1;
                }
                self.page = None;
            }
            if let State::Ended = self.state {
                return Poll::Ready(Ok(false));
            }
            match self.drive(cx) {
                Poll::Pending if !into.is_empty() => return Poll::Ready(Ok(true)),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {
                    if let Err(error) = self.turn() {
                        return Poll::Ready(Err(error));
                    }
                }
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn requests(&mut self, into: &mut Vec<measure::Request>) {
        into.append(&mut self.requests);
    }

    fn dropped(&self) -> u64 {
        self.strip.dropped
    }
}
