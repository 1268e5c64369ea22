//! Reads documents of a store page by page. The next page is fetched while the current one is processed.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::task::{Context, Poll};

use jiff::Timestamp;
use storebench_engine::store::{AnyStore, BadRow, BatchBuf, LocalFuture, OpKind, Reject, RowPage, RowStream};
use storebench_engine::{Clock, RealClock};

use super::store::TheirExpiry;
use super::{ReadCounts, Reader, Room, Unreadable};
use crate::error::TransferError;
use crate::measure;
use crate::records::{Origin, Records};
use crate::retry::RetryPolicy;
use crate::session::{self, of_store};
use crate::shape::{Maker, Strip};
use crate::verify::hash;

/// Measured requests that are not recorded yet.
pub(super) type Measured = Rc<RefCell<Vec<measure::Request>>>;

/// A page of rows.
#[derive(Default)]
pub(super) struct Page {
    pub(super) rows: RowPage,
    /// The first row that was not returned by an earlier page.
    pub(super) first: usize,
    /// When the page arrived. Remaining lifetimes are relative to this.
    came: Timestamp,
}

impl Page {
    /// Moves rows that the store could not return as documents to the bad ones.
    pub(super) fn without(&mut self, rejects: &[Reject]) {
        let (RowPage { rows, bad, .. }, first) = (&mut self.rows, self.first);
        let mut kept = BatchBuf::new();
        for (item, (key, body)) in rows.as_batch().iter().enumerate() {
            match rejects.iter().find(|reject| reject.item == item) {
                None => kept.push(key, body),
                // An earlier page returned the rows before the first.
                Some(_) if item < first => self.first = 0,
                Some(reject) => bad.push(BadRow::of(key.as_bytes(), reject.error.message.to_string())),
            }
        }
        *rows = kept;
    }
}

/// Fetches the pages of one split.
pub(super) trait Pages {
    /// Fetches the next page. Returns false if there is none.
    fn next<'a>(&'a mut self, page: &'a mut Page) -> LocalFuture<'a, Result<bool, TransferError>>;
}

/// Rows that a store streams: those of a range, a walk or a query.
pub(super) struct Streamed<'a> {
    pub(super) store: &'a dyn AnyStore,
    pub(super) stream: Box<dyn RowStream>,
    pub(super) retry: &'a RetryPolicy,
    pub(super) clock: RealClock,
    pub(super) measured: Measured,
}

impl Pages for Streamed<'_> {
    fn next<'a>(&'a mut self, page: &'a mut Page) -> LocalFuture<'a, Result<bool, TransferError>> {
        Box::pin(async move {
            let Self { store, stream, retry, clock, measured } = self;
            let asked_ns = clock.now_ns();
            let rows = &mut page.rows;
            let next = async || stream.next(rows).await.map_err(|error| of_store(*store, error));
            let more = session::again(*store, retry, next).await?;
            if more {
                let batch = page.rows.rows.as_batch();
                measured.borrow_mut().push(measure::Request {
                    kind: OpKind::Scan,
                    outcome: Ok(()),
                    service_ns: clock.now_ns() - asked_ns,
                    records: batch.len() as u64,
                    bytes: batch.total_bytes() as u64,
                });
            }
            Ok(more)
        })
    }
}

/// How to convert rows to records.
pub(super) struct PageOptions<'a> {
    pub(super) maker: Maker<'a>,
    /// Removes the store's own members.
    pub(super) strip: Strip,
    /// The number of the split.
    pub(super) unit: u32,
    /// Whether rows have keys. If not, keys are derived from their fields.
    pub(super) keyed: bool,
    /// Whether a key may be returned repeatedly; it then counts once.
    pub(super) again: bool,
    pub(super) expiry: TheirExpiry,
    pub(super) measured: Measured,
}

type Fetched<'a> = (Box<dyn Pages + 'a>, Page, Result<bool, TransferError>);

/// The page after the current one.
enum Fetch<'a> {
    UnderWay(LocalFuture<'a, Fetched<'a>>),
    Here(Box<Fetched<'a>>),
    /// There are no more pages.
    Ended,
}

impl<'a> Fetch<'a> {
    fn of(mut pages: Box<dyn Pages + 'a>, mut page: Page) -> Self {
        page.first = 0;
        Self::UnderWay(Box::pin(async move {
            let result = pages.next(&mut page).await;
            page.came = Timestamp::now();
            (pages, page, result)
        }))
    }

    /// Polls the fetch. An embedded store does all its work here.
    fn poll(self, cx: &mut Context<'_>) -> Self {
        match self {
            Self::UnderWay(mut fetch) => match fetch.as_mut().poll(cx) {
                Poll::Ready(fetched) => Self::Here(Box::new(fetched)),
                Poll::Pending => Self::UnderWay(fetch),
            },
            here => here,
        }
    }
}

/// Reads the rows of one split.
pub(super) struct PageReader<'a> {
    options: PageOptions<'a>,
    fetch: Fetch<'a>,
    page: Page,
    next: usize,
    /// Hashes of the keys returned so far, because a walk may return a key repeatedly.
    seen: HashSet<u128>,
    read: u64,
    bytes: u64,
    dropped_expiry: u64,
}

impl<'a> PageReader<'a> {
    pub(super) fn new(pages: Box<dyn Pages + 'a>, options: PageOptions<'a>) -> Self {
        Self {
            options,
            fetch: Fetch::of(pages, Page::default()),
            page: Page::default(),
            next: 0,
            seen: HashSet::new(),
            read: 0,
            bytes: 0,
            dropped_expiry: 0,
        }
    }

    /// Waits for a page and requests the next one. Returns false at the end.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, TransferError>> {
        let (pages, page, result) = match std::mem::replace(&mut self.fetch, Fetch::Ended).poll(cx) {
            Fetch::Here(fetched) => *fetched,
            Fetch::Ended => return Poll::Ready(Ok(false)),
            under_way => {
                self.fetch = under_way;
                return Poll::Pending;
            }
        };
        if !result? {
            return Poll::Ready(Ok(false));
        }
        self.next = page.first;
        let handed_out = std::mem::replace(&mut self.page, page);
        self.fetch = Fetch::of(pages, handed_out).poll(cx);
        Poll::Ready(Ok(true))
    }

    /// Adds rows of the page to `into`. Returns false if there is no more room.
    fn hand_out(&mut self, room: Room, into: &mut Records) -> bool {
        let PageOptions { maker, strip, unit, keyed, again, expiry, .. } = &mut self.options;
        for row in self.page.rows.bad.drain(..) {
            if *again && !self.seen.insert(hash::of_key(&row.key)) {
                continue;
            }
            let origin = Origin { unit: *unit, at: self.read };
            self.read += 1;
            let key = Some(row.key).filter(|_| *keyed);
            let key_bytes = row.key_bytes;
            into.bad.push(Unreadable { origin, key, key_bytes, exact: false, ..Unreadable::of(row.why, b"") });
        }
        self.dropped_expiry += std::mem::take(&mut self.page.rows.unheeded_expiry);
        let rows = self.page.rows.rows.as_batch();
        while let Some((key, body)) = rows.get(self.next) {
            if !into.has_room(room) {
                return false;
            }
            let expiring = &self.page.rows.expiring;
            let expires = expiring.binary_search_by_key(&self.next, |(row, _)| *row).ok().map(|at| expiring[at].1);
            let attached = self.page.rows.attached.binary_search(&self.next).is_ok();
            self.next += 1;
            if *again && !self.seen.insert(hash::of_key(key)) {
                continue;
            }
            let origin = Origin { unit: *unit, at: self.read };
            self.read += 1;
            self.bytes += (key.len() + body.len()) as u64;
            let made = if expires.is_some() && *expiry == TheirExpiry::Rejected {
                Err("it has an expiry, which the target does not support; use --drop-expiry to drop it".to_owned())
            } else if let Err(why) = strip.attached(attached) {
                Err(why)
            } else if *keyed {
                let before = into.len();
                let made = strip.apply(body).and_then(|body| maker.document(key, body, origin, into));
                // A filter may have dropped it.
                match expires.filter(|_| into.len() > before) {
                    Some(left) if *expiry == TheirExpiry::Kept => {
                        into.expire_last(self.page.came.checked_add(left).unwrap_or(Timestamp::MAX));
                    }
                    Some(_) => self.dropped_expiry += 1,
                    None => {}
                }
                made
            } else {
                std::str::from_utf8(body)
                    .map_err(|e| format!("the row is not UTF-8: {e}"))
                    .and_then(|json| maker.text(json, origin, into))
            };
            if let Err(why) = made {
                let key = keyed.then(|| key.to_owned());
                into.bad.push(Unreadable { origin, key, ..Unreadable::of(why, body) });
            }
        }
        true
    }
}

impl Reader for PageReader<'_> {
    fn poll_read(&mut self, cx: &mut Context<'_>, room: Room, into: &mut Records) -> Poll<Result<bool, TransferError>> {
        loop {
            if !self.hand_out(room, into) {
                return Poll::Ready(Ok(true));
            }
            match self.turn(cx) {
                Poll::Pending if !into.is_empty() => return Poll::Ready(Ok(true)),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(true)) => {}
                ended => return ended,
            }
        }
    }

    fn counted(&self) -> ReadCounts {
        ReadCounts { bytes: self.bytes, dropped: self.options.strip.dropped, dropped_expiry: self.dropped_expiry }
    }

    fn requests(&mut self, into: &mut Vec<measure::Request>) {
        into.append(&mut self.options.measured.borrow_mut());
    }
}
