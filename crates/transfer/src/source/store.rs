//! Documents of a store, in ranges of keys or by the rows of a view.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use storebench_engine::RealClock;
use storebench_engine::store::{
    AnyStore, CollectionId, CollectionLayout, Existing, Layout, LocalFuture, Namespace, OpKind, Prepare, Rows,
    RowsKind, StoreError, evenly,
};
use storebench_study::workload::Body;

use super::pages::{Measured, PageOptions, PageReader, Streamed};
use super::scan::{FIRST_PAGE, LARGEST_PAGE, Scan, Walk};
use super::{Part, Reader, Snapshot, Source, Split, ViewKeys};
use crate::error::TransferError;
use crate::measure::RequestKinds;
use crate::records::Origin;
use crate::retry::Access;
use crate::session::{self, Asker, of_store};
use crate::shape::{Shape, Strip};

/// How a copy names the columns that it reads.
const FROM_COLUMNS: &str =
    "name the columns with --from-key COLUMN and --from-body COLUMN, or read plain columns with --query SQL";
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
    /// How pages are asked for.
    pub access: Access,
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
    pub(super) store: Arc<dyn AnyStore>,
    pub(super) options: StoreSourceOptions,
    pub(super) theirs: bool,
    way: Way,
    /// How many documents make a page, as far as is known by now.
    pub(super) page: AtomicU32,
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
            access: Access::default(),
        }
    }

    /// The collection as sessions know it.
    pub(super) fn id(&self) -> CollectionId {
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
            let (store, retry) = (&*self.store, &self.options.access.retry);
            let measured = Measured::default();
            let can = store.capabilities();
            let options = PageOptions {
                maker: shape.maker(),
                strip: Strip::new(can.own_members, can.attachments_member, self.options.drop_attachments),
                unit: split.number,
                keyed: !matches!(rows, Some(Rows::Query(_))),
                again: matches!(rows, Some(Rows::Walk { .. })),
                expiry: self.options.expiry,
                measured: Rc::clone(&measured),
            };
            if let Some(rows) = rows {
                let begin = async || store.rows(rows).await.map_err(|e| of_store(store, e));
                let stream = session::again(store, retry, begin).await?;
                let pages = Streamed { store, stream, retry, clock: RealClock::new(), measured };
                return Ok(Box::new(PageReader::new(Box::new(pages), options)) as Box<dyn Reader + 'a>);
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
            let asker = Asker::open(store, self.options.access).await?;
            let pages = Scan::new(asker, self, walk, measured);
            Ok(Box::new(PageReader::new(Box::new(pages), options)) as Box<dyn Reader + 'a>)
        })
    }

    fn place(&self, _: &Split, _: Origin) -> String {
        self.describe()
    }
}
