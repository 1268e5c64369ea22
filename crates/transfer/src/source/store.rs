//! Reads documents of a store, by key ranges or by the rows of a view.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use storebench_engine::RealClock;
use storebench_engine::store::{
    Account, AnyStore, CollectionId, CollectionLayout, Existing, Layout, LocalFuture, NAME_COLUMNS, Namespace, OpKind,
    Prepare, Rows, RowsKind, StoreError, evenly,
};
use storebench_study::workload::Body;

use super::pages::{Measured, PageOptions, PageReader, Streamed};
use super::scan::{FIRST_PAGE, LARGEST_PAGE, Scan, Walk};
use super::{Opened, Part, Reader, Snapshot, Source, Split, ViewKeys};
use crate::error::TransferError;
use crate::measure::RequestKinds;
use crate::records::Origin;
use crate::retry::Access;
use crate::session::{self, Asker, of_store};
use crate::shape::{Shape, Strip};

/// How a user of `copy` names the source's columns.
const FROM_COLUMNS: &str = "name the columns with --from-key COLUMN and --from-body COLUMN, or make the key of columns with --key '{a}:{b}', or \
     read plain columns with --query SQL";
/// The sizes of each worker's key ranges, in the order in which they are read. A worker that is done early finds more work,
/// and the smaller the last ranges, the sooner after the first worker the last one is done.
const SIZES: [u32; 4] = [4, 2, 1, 1];

/// Selects documents of a store.
#[derive(Debug, Clone, Default)]
pub struct StoreSourceOptions {
    /// Name of the collection. For an existing collection that Storebench did not create, this is the store's own name.
    pub collection: String,
    /// The collection's index in the layout, if the caller has prepared the store. Then nothing is inspected.
    pub prepared: Option<CollectionId>,
    /// The field or column with the key, for stores that let the user choose it.
    pub key: Option<String>,
    /// The field or column with the document, for stores that let the user choose it.
    pub body: Option<String>,
    /// A view to read instead of the whole collection.
    pub view: Option<ViewSource>,
    /// A query, in the store's own language, to read instead of a collection.
    pub query: Option<String>,
    /// Whether records make their keys of fields. Then a table without a single key column is read by a query of all its
    /// rows.
    pub makes_keys: bool,
    /// What to do with the expiry of a document.
    pub expiry: TheirExpiry,
    /// Whether to drop attachments. If not, documents with attachments are rejected.
    pub drop_attachments: bool,
    /// Timeout and retries of page requests.
    pub access: Access,
}

/// What to do with the expiry that a document has in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TheirExpiry {
    /// Reject the document.
    #[default]
    Rejected,
    /// Drop the expiry, and count it.
    Dropped,
    /// Keep the expiry. The target's writer must accept expiries.
    Kept,
}

/// Selects the documents behind the rows of a view.
#[derive(Debug, Clone)]
pub struct ViewSource {
    /// `design/view`.
    pub view: String,
    /// The keys of the rows; `None` for all rows.
    pub keys: Option<ViewKeys>,
}

/// Documents of one collection.
pub struct StoreSource {
    pub(super) store: Arc<dyn AnyStore>,
    pub(super) options: StoreSourceOptions,
    pub(super) theirs: bool,
    way: Way,
    /// The current number of documents per page, as far as is known.
    pub(super) page: AtomicU32,
}

/// How to read documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With a query.
    Query,
    /// By the rows of a view, page by page.
    View,
    /// By parts of the store, not in key order.
    Walk,
    /// By key ranges, each as a stream.
    Ranges,
    /// By key ranges, page by page.
    Pages,
}

impl StoreSourceOptions {
    /// A whole collection that Storebench created.
    pub fn new(collection: impl Into<String>) -> Self {
        Self { collection: collection.into(), ..Self::default() }
    }

    /// The collection's ID in sessions.
    pub(super) fn id(&self) -> CollectionId {
        self.prepared.unwrap_or(CollectionId(0))
    }
}

impl StoreSource {
    /// Finds the collection, without changing anything.
    ///
    /// # Errors
    /// The collection does not exist, or the store cannot list documents in key order.
    pub fn open(store: Arc<dyn AnyStore>, options: StoreSourceOptions) -> Result<Self, TransferError> {
        let can = store.capabilities();
        if options.query.is_some() {
            if !can.rows.contains(&RowsKind::Query) {
                let text = format!("{} does not support --query", store.describe().url);
                return Err(TransferError::BadInput(text));
            }
            return Ok(Self { store, options, theirs: true, way: Way::Query, page: FIRST_PAGE.into() });
        }
        match &options.view {
            None if can.rows.iter().any(|kind| matches!(kind, RowsKind::Walk | RowsKind::Range)) => {}
            None => session::needs(&*store, OpKind::Scan, "reading a whole collection")?,
            Some(_) => session::needs(&*store, OpKind::View, "--view")?,
        }
        let theirs = match options.prepared {
            Some(_) => false,
            None => match Self::prepare(&*store, &options)? {
                Some(theirs) => theirs,
                None => {
                    let query = Some(all_rows(&options.collection));
                    let options = StoreSourceOptions { query, ..options };
                    return Ok(Self { store, options, theirs: true, way: Way::Query, page: FIRST_PAGE.into() });
                }
            },
        };
        // Only a prepared store knows whether this collection has a key order.
        let can = store.capabilities();
        let way = match &options.view {
            Some(_) => Way::View,
            None if can.rows.contains(&RowsKind::Range) => Way::Ranges,
            None if can.supports(OpKind::Scan).is_some() => Way::Pages,
            None => Way::Walk,
        };
        Ok(Self { store, options, theirs, way, page: FIRST_PAGE.into() })
    }

    /// Whether the collection exists independently of Storebench.
    pub fn is_theirs(&self) -> bool {
        self.theirs
    }

    fn cuts(&self, ranges: u32) -> Result<Vec<String>, TransferError> {
        self.store.cuts(self.options.id(), ranges as usize).map_err(|e| of_store(&*self.store, e))
    }

    /// Divides the source into `parts` splits, if possible. `known` gives keys spread evenly over the collection. It is
    /// used if the store cannot suggest split points and keeps keys in byte order. A view is divided by row numbers, of
    /// which there are about `rows`; the last part extends to the end.
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
            return Ok(splits((0..pieces).map(|piece| Part::ViewRows { start: at(piece), end: end(piece) })));
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

    /// Finds the collection. Returns whether it exists independently of Storebench; `None` if it has no single key column,
    /// and is to be read by a query.
    fn prepare(store: &dyn AnyStore, options: &StoreSourceOptions) -> Result<Option<bool>, TransferError> {
        // A server without Storebench data may still have collections of the user's.
        let absent = store.inspect().map_err(|e| of_store(store, e))? == Namespace::Absent;
        if absent && store.capabilities().embedded {
            return Err(of_store(store, StoreError::Unreachable("there is nothing to read; check the URL".into())));
        }
        let mut theirs = options.key.is_some() || options.body.is_some();
        let mut opened = prepare(store, options, theirs);
        // If the store is unreachable, the collection's owner is still unknown.
        if let (false, Err(ours)) = (theirs, &opened)
            && !matches!(ours, StoreError::Unreachable(_))
        {
            let ours = ours.to_string();
            theirs = true;
            opened = prepare(store, options, theirs).map_err(|other| match other {
                // The store was reachable a moment ago.
                StoreError::Unreachable(_) | StoreError::Failed(_) => other,
                _ if other.to_string() == ours => StoreError::BadUrl(ours),
                _ => StoreError::BadUrl(format!("{other} (as a collection created by Storebench: {ours})")),
            });
        }
        let may_query = options.makes_keys && options.view.is_none() && options.key.is_none() && options.body.is_none();
        if let Err(error) = &opened
            && may_query
            && store.capabilities().rows.contains(&RowsKind::Query)
            && error.to_string().contains(NAME_COLUMNS)
        {
            return Ok(None);
        }
        opened.map_err(|e| session::naming_columns(e, FROM_COLUMNS)).map_err(|e| of_store(store, e))?;
        Ok(Some(theirs))
    }
}

/// The SQL query of all rows of a table, which may be named with its schema.
fn all_rows(table: &str) -> String {
    let names = table.split('.').map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
    format!("SELECT * FROM {}", names.collect::<Vec<_>>().join("."))
}

/// Some of these bounds of equal ranges: those between ranges of [`SIZES`], for so many workers. With fewer ranges than
/// that takes, some are left out.
fn falling(bounds: &[String], workers: u32) -> Vec<String> {
    let sizes = SIZES.into_iter().flat_map(|size| (0..workers).map(move |_| size as usize));
    let all = workers as usize * SIZES.iter().sum::<u32>() as usize;
    let ends = sizes.scan(0, |end, size| {
        *end += size;
        Some(*end * (bounds.len() + 1) / all)
    });
    let mut ends: Vec<usize> = ends.filter(|end| (1..=bounds.len()).contains(end)).collect();
    ends.dedup();
    ends.into_iter().map(|end| bounds[end - 1].clone()).collect()
}

/// Splits for these parts, in order.
fn splits(parts: impl Iterator<Item = Part>) -> Vec<Split> {
    parts.enumerate().map(|(number, part)| Split { number: number as u32, part, bytes: None }).collect()
}

/// Adjacent key ranges with these bounds.
fn ranges(bounds: Vec<String>) -> Vec<Split> {
    let starts = std::iter::once(None).chain(bounds.iter().cloned().map(Some));
    let ends = bounds.iter().cloned().map(Some).chain(std::iter::once(None));
    splits(starts.zip(ends).map(|(start, end)| Part::Keys { start, end }))
}

fn prepare(store: &dyn AnyStore, options: &StoreSourceOptions, theirs: bool) -> Result<(), StoreError> {
    let StoreSourceOptions { collection, key, body, .. } = options;
    let existing = theirs.then(|| Existing { name: collection.clone(), key: key.clone(), body: body.clone() });
    let layout = CollectionLayout {
        name: collection.clone(),
        body: Body::Json,
        indexes: Vec::new(),
        existing,
        uses: storebench_engine::store::Uses::ALL,
    };
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
        // Concurrent inserts and deletes shift the positions of all later records.
        false
    }

    fn repeats_keys(&self, shape: &Shape) -> bool {
        !matches!(self.way, Way::Ranges | Way::Pages) || !shape.is_plain()
    }

    fn store(&self) -> Option<&dyn AnyStore> {
        Some(&*self.store)
    }

    fn account(&self) -> Option<Account> {
        if matches!(self.way, Way::Query | Way::View) {
            return None;
        }
        let account = self.store.account(self.options.id()).ok()?;
        // A walk lists one collection, but a store without collections counts all keys.
        Some(Account { documents: account.documents.filter(|_| account.evicted.is_none()), ..account })
    }

    fn requests(&self) -> Option<RequestKinds> {
        let kind = if self.options.view.is_some() { OpKind::View } else { OpKind::Scan };
        Some(RequestKinds { kinds: vec![kind], batch: LARGEST_PAGE })
    }

    fn snapshot(&self) -> Snapshot {
        match self.way {
            Way::Query => Snapshot::Yes("the query reads one point in time"),
            Way::View => Snapshot::No(
                "rows of the view are read page by page, by number; changes made during the copy may or may not be included, \
                 and if a row is removed meanwhile, another may be skipped",
            ),
            Way::Walk => {
                Snapshot::No("keys are listed one by one; changes made during the copy may or may not be included")
            }
            Way::Ranges => Snapshot::No(
                "key ranges are read at different times; changes made during the copy may or may not be included",
            ),
            Way::Pages => {
                Snapshot::No("pages are read in turn; changes made during the copy may or may not be included")
            }
        }
    }

    fn splits(&self, parallel: u32) -> Result<Vec<Split>, TransferError> {
        Ok(match (self.way, &self.options.view) {
            (Way::Query, _) => splits([Part::Query].into_iter()),
            (Way::Walk, _) => {
                let parts = self.store.parts().map_err(|e| of_store(&*self.store, e))?;
                splits(parts.into_iter().map(|part| Part::Walk { part }))
            }
            (_, Some(view)) => {
                let keys = view.keys.as_ref().map_or(vec![None], |keys| keys.0.iter().cloned().map(Some).collect());
                splits(keys.into_iter().map(|key| Part::View { key }))
            }
            (_, None) if parallel <= 1 => ranges(Vec::new()),
            (_, None) => ranges(falling(&self.cuts(parallel * SIZES.iter().sum::<u32>())?, parallel)),
        })
    }

    fn open<'a>(&'a self, split: &'a Split, shape: &'a Shape) -> LocalFuture<'a, Opened<'a>> {
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
                _ => return Err(TransferError::BadInput("a store cannot be read by byte offsets".into())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_get_smaller_towards_the_end() {
        let sizes = |bounds: u32, workers| {
            let bounds: Vec<String> = (1..=bounds).map(|at| at.to_string()).collect();
            let cuts = falling(&bounds, workers).into_iter().map(|at| at.parse::<usize>().unwrap());
            let ends: Vec<usize> = [0].into_iter().chain(cuts).chain([bounds.len() + 1]).collect();
            ends.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
        };
        assert_eq!(sizes(15, 2), [4, 4, 2, 2, 1, 1, 1, 1]);
        assert_eq!(sizes(23, 3), [4, 4, 4, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
        // A small collection, and a store that cannot be cut.
        assert_eq!(sizes(7, 2), [2, 2, 1, 1, 1, 1]);
        assert_eq!(sizes(2, 8), [1, 1, 1]);
        assert_eq!(sizes(0, 4), [1]);
        for bounds in 0..80 {
            let sizes = sizes(bounds, 5);
            assert!(
                sizes.iter().all(|size| *size > 0) && sizes.iter().sum::<usize>() == bounds as usize + 1,
                "{sizes:?}"
            );
        }
    }
}
