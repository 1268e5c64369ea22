//! Records from a stream of rows: of a walk over a store, or of a query.

use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::Timestamp;
use storebench_core::engine::{Clock, RealClock};
use storebench_core::keys::Rng;
use storebench_core::store::{AnyStore, LocalFuture, OpKind, RowPage, RowStream, StoreError};

use super::store::TheirExpiry;
use super::{Reader, Room, Unreadable};
use crate::error::TransferError;
use crate::measure;
use crate::records::{Origin, Records};
use crate::retry::{RetryPolicy, Tries};
use crate::session::{self, of_store};
use crate::shape::Maker;
use crate::timer::Timer;
use crate::verify::hash;

/// A stream that is asked, with what came of it.
type Asked = LocalFuture<'static, (Box<dyn RowStream>, RowPage, Result<bool, StoreError>)>;

enum State {
    /// A page is under way.
    Asked(Asked),
    /// It failed for now, and is asked again at this time.
    Waits { stream: Box<dyn RowStream>, page: RowPage, due_ns: u64 },
    /// The page is being handed out.
    Here(Box<dyn RowStream>),
    /// Nothing more will come.
    Ended,
}

/// How rows are read.
pub(super) struct RowOptions<'a> {
    pub(super) store: &'a dyn AnyStore,
    pub(super) retry: &'a RetryPolicy,
    pub(super) maker: Maker<'a>,
    /// Number of the split.
    pub(super) unit: u32,
    /// Whether rows have keys; otherwise their keys are made of their fields.
    pub(super) keyed: bool,
    /// Whether a key may come again, and counts once.
    pub(super) again: bool,
    pub(super) expiry: TheirExpiry,
}

/// Reads the rows of one split.
pub(super) struct RowReader<'a> {
    options: RowOptions<'a>,
    state: State,
    page: RowPage,
    /// When the page came: what is left of lives is counted from then.
    came: Timestamp,
    next: usize,
    clock: Arc<dyn Clock>,
    timer: Timer,
    tries: Tries,
    draw: Rng,
    /// Keys that were given, by their hash: a walk may come by a key again.
    seen: HashSet<u128>,
    read: u64,
    bytes: u64,
    dropped_expiry: u64,
    /// When the page was asked for first.
    asked_ns: u64,
    requests: Vec<measure::Request>,
}

fn ask(mut stream: Box<dyn RowStream>, mut page: RowPage) -> State {
    State::Asked(Box::pin(async move {
        let result = stream.next(&mut page).await;
        (stream, page, result)
    }))
}

impl<'a> RowReader<'a> {
    pub(super) fn new(stream: Box<dyn RowStream>, options: RowOptions<'a>) -> Self {
        let clock = RealClock::new();
        Self {
            asked_ns: clock.now_ns(),
            requests: Vec::new(),
            state: ask(stream, RowPage::default()),
            page: RowPage::default(),
            came: Timestamp::now(),
            next: 0,
            clock: Arc::new(clock),
            timer: Timer::new(),
            tries: Tries::default(),
            draw: Rng::new(u64::from(options.unit)),
            seen: HashSet::new(),
            read: 0,
            bytes: 0,
            dropped_expiry: 0,
            options,
        }
    }

    /// Waits for a page.
    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransferError>> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Asked(mut asked) => {
                    let Poll::Ready((stream, page, result)) = asked.as_mut().poll(cx) else {
                        self.state = State::Asked(asked);
                        return Poll::Pending;
                    };
                    let now_ns = self.clock.now_ns();
                    match result {
                        Ok(true) => {
                            self.tries = Tries::default();
                            self.came = Timestamp::now();
                            let rows = page.rows.as_batch();
                            self.requests.push(measure::Request {
                                kind: OpKind::Scan,
                                outcome: Ok(()),
                                service_ns: now_ns - self.asked_ns,
                                records: rows.len() as u64,
                                bytes: rows.total_bytes() as u64,
                            });
                            (self.page, self.next, self.state) = (page, 0, State::Here(stream));
                            return Poll::Ready(Ok(()));
                        }
                        Ok(false) => return Poll::Ready(Ok(())),
                        Err(StoreError::Unreachable(error)) => {
                            self.tries.begin(now_ns);
                            match self.tries.next_ns(self.options.retry, now_ns, &mut self.draw) {
                                Some(due_ns) => self.state = State::Waits { stream, page, due_ns },
                                None => {
                                    let error = session::given_up(&self.tries, &error);
                                    return Poll::Ready(Err(of_store(self.options.store, error)));
                                }
                            }
                        }
                        Err(error) => return Poll::Ready(Err(of_store(self.options.store, error))),
                    }
                }
                State::Waits { stream, page, due_ns } => {
                    let left_ns = due_ns.saturating_sub(self.clock.now_ns());
                    if left_ns > 0 && self.timer.poll(cx, Duration::from_nanos(left_ns)).is_pending() {
                        self.state = State::Waits { stream, page, due_ns };
                        return Poll::Pending;
                    }
                    self.state = ask(stream, page);
                }
                State::Here(stream) => {
                    self.asked_ns = self.clock.now_ns();
                    self.state = ask(stream, std::mem::take(&mut self.page));
                }
                State::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Hands out rows of the page; false when there is no more room.
    fn hand_out(&mut self, room: Room, into: &mut Records, bad: &mut Vec<Unreadable>) -> bool {
        for row in self.page.bad.drain(..) {
            if self.options.again && !self.seen.insert(hash::of_key(&row.key)) {
                continue;
            }
            let origin = Origin { unit: self.options.unit, at: self.read };
            self.read += 1;
            let key = Some(row.key).filter(|_| self.options.keyed);
            bad.push(Unreadable { origin, key, why: row.why, text: String::new(), exact: false });
        }
        let rows = self.page.rows.as_batch();
        while let Some((key, body)) = rows.get(self.next) {
            if !into.has_room(room) {
                return false;
            }
            let expiring = &self.page.expiring;
            let expires = expiring.binary_search_by_key(&self.next, |(row, _)| *row).ok().map(|at| expiring[at].1);
            self.next += 1;
            if self.options.again && !self.seen.insert(hash::of_key(key)) {
                continue;
            }
            let origin = Origin { unit: self.options.unit, at: self.read };
            self.read += 1;
            self.bytes += (key.len() + body.len()) as u64;
            let made = if expires.is_some() && self.options.expiry == TheirExpiry::Rejected {
                Err("it expires, which its target cannot; leave that behind with --drop-expiry".to_owned())
            } else if self.options.keyed {
                let before = into.len();
                let made = self.options.maker.document(key, body, origin, into);
                // A filter may have left it out.
                match expires.filter(|_| into.len() > before) {
                    Some(left) if self.options.expiry == TheirExpiry::Kept => {
                        into.expire_last(self.came.checked_add(left).unwrap_or(Timestamp::MAX));
                    }
                    Some(_) => self.dropped_expiry += 1,
                    None => {}
                }
                made
            } else {
                std::str::from_utf8(body)
                    .map_err(|e| format!("the row is not UTF-8: {e}"))
                    .and_then(|json| self.options.maker.text(json, origin, into))
            };
            if let Err(why) = made {
                let text = String::from_utf8_lossy(body);
                let exact = matches!(text, std::borrow::Cow::Borrowed(_));
                let key = self.options.keyed.then(|| key.to_owned());
                bad.push(Unreadable { origin, key, why, text: text.into(), exact });
            }
        }
        true
    }
}

impl Reader for RowReader<'_> {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: Room,
        into: &mut Records,
        bad: &mut Vec<Unreadable>,
    ) -> Poll<Result<bool, TransferError>> {
        loop {
            if matches!(self.state, State::Ended) {
                return Poll::Ready(Ok(false));
            }
            if matches!(self.state, State::Here(_)) && !self.hand_out(room, into, bad) {
                return Poll::Ready(Ok(true));
            }
            match self.drive(cx) {
                Poll::Pending if !into.is_empty() => return Poll::Ready(Ok(true)),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn requests(&mut self, into: &mut Vec<measure::Request>) {
        into.append(&mut self.requests);
    }

    fn dropped_expiry(&self) -> u64 {
        self.dropped_expiry
    }
}
