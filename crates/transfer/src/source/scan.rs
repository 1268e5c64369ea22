//! Reads documents of a store with page requests: a range of keys, or the rows of a view.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use storebench_engine::store::{
    BatchBuf, ErrorKind, LocalFuture, Op, OpKind, OwnedReply, Request, StoreError, ViewRows,
};

use super::StoreSource;
use super::pages::{Measured, Page, Pages};
use crate::error::TransferError;
use crate::measure;
use crate::session::{Asker, of_store};

/// Target size of a page.
const PAGE_BYTES: u64 = 1 << 20;
/// Number of documents in the first page, and at most.
pub(super) const FIRST_PAGE: u32 = 100;
pub(super) const LARGEST_PAGE: u32 = 5_000;
/// Most documents in the first page of a range, because documents of earlier ranges may have been smaller. Of documents of
/// 1 KiB, this is a full page, so that a range begins with no smaller one.
const LARGEST_FIRST_PAGE: u32 = 1_100;

/// A page that lacks the key that it begins with is asked for so many times.
const EMPTY_PAGES: u32 = 3;

/// By how much the number of documents in a page may grow from one page to the next.
const GROWTH: u32 = 8;
/// By how much it shrinks after a page that did not come, which may have been too large for the timeout or for an answer.
/// Where keys begin with the kind of a document, the next documents can be a thousand times as large.
const SHRINKING: u32 = 4;

/// The position of a reader.
pub(super) enum Walk<'a> {
    /// In a range of keys. `after` is the last key read; the next page starts with it.
    Keys { start: &'a str, end: Option<&'a str>, after: Option<String> },
    /// In the rows of a view, either with one key (as a JSON list of it) or all, up to row number `end`.
    View { view: &'a str, key: Option<String>, skip: u32, end: Option<u32> },
    /// Everything was read.
    Ended,
}

impl Walk<'_> {
    /// The request for the next page of so many documents, and how many rows it asks for. `None` at the end.
    fn page(&self, documents: u32) -> Option<(Op<'_>, u32)> {
        Some(match self {
            Walk::Ended => return None,
            Walk::Keys { start, end, after } => {
                // The last key of the previous page is returned again.
                let limit = documents + u32::from(after.is_some());
                (Op::Scan { start: after.as_deref().unwrap_or(start), end: *end, limit }, limit)
            }
            Walk::View { view, key, skip, end } => {
                let rows = key.as_deref().map_or(ViewRows::All, ViewRows::Keys);
                let limit = end.map_or(documents, |end| documents.min(end.saturating_sub(*skip)));
                (Op::View { view, rows, skip: *skip, limit }, limit)
            }
        })
    }
}

/// Requests one page after the other.
pub(super) struct Scan<'a> {
    asker: Asker<'a>,
    source: &'a StoreSource,
    walk: Walk<'a>,
    limit: u32,
    /// How many pages in a row did not even have the key that they begin with.
    empty: u32,
    /// Whether the last page had nothing new and was so small that it may not have been the end.
    in_doubt: bool,
    embedded: bool,
    measured: Measured,
}

impl<'a> Scan<'a> {
    pub(super) fn new(asker: Asker<'a>, source: &'a StoreSource, walk: Walk<'a>, measured: Measured) -> Self {
        let limit = source.page.load(Ordering::Relaxed).min(LARGEST_FIRST_PAGE);
        let embedded = source.store.capabilities().embedded;
        Self { asker, source, walk, limit, empty: 0, in_doubt: false, embedded, measured }
    }

    async fn next(&mut self, page: &mut Page) -> Result<bool, TransferError> {
        let source = self.source;
        let Some(whole) = self.walk.page(self.limit) else { return Ok(false) };
        let after = if let Walk::Keys { after, .. } = &self.walk { after.as_deref() } else { None };
        let rows_of = |reply: &OwnedReply| {
            let rows = reply.as_reply().rows.unwrap_or_default();
            let first = usize::from(rows.get(0).is_some_and(|(first, _)| Some(first) == after));
            (first, (rows.len() - first) as u64, rows.total_bytes() as u64)
        };
        let kind = if matches!(self.walk, Walk::View { .. }) { OpKind::View } else { OpKind::Scan };
        let collection = source.options.id();
        let mut limit = self.limit;
        let (reply, documents, asked) = loop {
            let (documents, asked, failed_with) = (Cell::new(limit), Cell::new(0), Cell::new(None));
            let request = |failed| {
                documents.set((limit / SHRINKING.saturating_pow(failed)).max(1));
                let (op, rows) = self.walk.page(documents.get()).unwrap_or(whole);
                asked.set(rows);
                Request { collection, op, contents: true }
            };
            let answer = self.asker.ask(request, "could not read a page of documents", |answer, service_ns| {
                let (outcome, (_, records, bytes)) = match answer {
                    Ok(reply) => (Ok(()), rows_of(reply)),
                    Err(kind) => (Err(kind), (0, 0, 0)),
                };
                failed_with.set(outcome.err());
                self.measured.borrow_mut().push(measure::Request { kind, outcome, service_ns, records, bytes });
            });
            match answer.await {
                Ok(reply) => break (reply, documents.get(), asked.get()),
                Err(_) if failed_with.get() == Some(ErrorKind::Failed) && documents.get() > 1 => {
                    limit = documents.get() / SHRINKING;
                }
                Err(error) => return Err(error),
            }
        };
        let (first, records, bytes) = rows_of(&reply);
        page.rows.clear();
        let rejects = reply.as_reply().rejects.to_vec();
        (page.first, page.rows.rows) = (first, reply.into_rows());
        let rows = page.rows.rows.as_batch();
        let broken = |why: String| Err(of_store(&*source.store, StoreError::Failed(why)));
        let twins = rows.iter().zip(rows.iter().skip(1)).find(|((one, _), (next, _))| one == next);
        if let (true, Walk::Keys { .. }, Some(((key, _), _))) = (source.theirs, &self.walk, twins) {
            return broken(format!(
                "the key `{key}` is in several rows; name a column whose values are unique, or read them with --query"
            ));
        }
        let last = rows.len().checked_sub(1).and_then(|last| rows.get(last)).map(|(key, _)| key.to_owned());
        if last.is_some() && last.as_deref() == after && rows.len() >= asked as usize {
            return broken("the store returns the same page repeatedly".into());
        }
        // The page begins with a key that the last one ended with, so it is not empty unless that document was deleted.
        self.empty = if rows.is_empty() && after.is_some() && !self.embedded { self.empty + 1 } else { 0 };
        if self.empty > 0 {
            if self.empty < EMPTY_PAGES {
                return Ok(true);
            }
            let key = after.unwrap_or_default().to_owned();
            if self.has(&key).await? {
                return broken(format!(
                    "{EMPTY_PAGES} pages from the key `{key}` on came back empty, although that document is there, so \
                     documents would be missed; check for a proxy or cache in between, and use --resume"
                ));
            }
        }
        // A server may omit documents that were deleted meanwhile, so only a page without new ones is the end. If it was
        // small, it may have had room for nothing else.
        self.in_doubt = !self.embedded && records == 0 && documents < FIRST_PAGE && !self.in_doubt;
        if self.in_doubt {
            self.limit = (documents * GROWTH).min(FIRST_PAGE);
            return Ok(true);
        }
        let more = if self.embedded { rows.len() >= asked as usize } else { records > 0 };
        let mean = (bytes / rows.len().max(1) as u64).max(1);
        match (&mut self.walk, last.filter(|_| more)) {
            (Walk::Keys { after, .. }, Some(last)) => *after = Some(last),
            (Walk::View { skip, end, .. }, Some(_)) if end.is_none_or(|end| *skip + asked < end) => *skip += asked,
            _ => self.walk = Walk::Ended,
        }
        if !matches!(self.walk, Walk::Ended) {
            self.limit = (PAGE_BYTES / mean).clamp(1, u64::from(LARGEST_PAGE.min(GROWTH * documents))) as u32;
            source.page.store(self.limit, Ordering::Relaxed);
        }
        if !rejects.is_empty() {
            page.without(&rejects);
        }
        Ok(true)
    }

    /// Whether a document is in the store now.
    async fn has(&mut self, key: &str) -> Result<bool, TransferError> {
        let mut keys = BatchBuf::new();
        keys.push(key, b"");
        let op = Op::BulkRead { keys: keys.as_batch() };
        let request = Request { collection: self.source.options.id(), op, contents: false };
        let reply = self.asker.ask(|_| request, "could not read a document", |_, _| {}).await?;
        Ok(reply.as_reply().documents > 0)
    }
}

impl Pages for Scan<'_> {
    fn next<'a>(&'a mut self, page: &'a mut Page) -> LocalFuture<'a, Result<bool, TransferError>> {
        Box::pin(Scan::next(self, page))
    }
}
