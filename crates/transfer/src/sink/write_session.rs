//! Batches in flight on one session. They are retried, split or given up, and each record is accounted for.

mod accept;
mod outcomes;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use storebench_documents::keys::Rng;
use storebench_engine::Clock;
use storebench_engine::store::{
    AnyStore, BatchBuf, ErrorKind, Op, OpError, OpKind, OwnedReply, Request, Session, Token,
};

use super::merge::Merge;
use super::request::operation;
use super::reserved::Reserved;
use super::store::{RecordOp, StoreSinkOptions};
use super::{Ended, Refusal, Writer};
use crate::error::TransferError;
use crate::measure;
use crate::records::Records;
use crate::retry::Tries;
use crate::session::{Answer, adding_to, own_members};
use crate::shape::Strip;
use crate::timer::Timer;

/// If this many records fail at the end of a split, the split does not count as done.
const FAILED_AT_THE_END: u64 = 10;

/// Why the batch of a piece exists.
const STAYS: &str = "a batch stays until all of its pieces are done";

/// Number of sessions so far. Each draws different delays, so that they do not retry at the same moment.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// A batch, or part of one, that is sent as one request.
pub(super) struct Piece {
    /// Index of the batch.
    pub(super) batch: usize,
    /// Which of the batch's records.
    pub(super) part: Part,
    pub(super) tries: Tries,
    pub(super) step: Step,
}

/// What to do next with a piece.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Perform the batch's operation.
    Do,
    /// An upsert's insert found the keys in the store: overwrite the documents.
    Over,
    /// The store answered that it already has the keys, perhaps from an earlier attempt: read and compare the documents.
    /// Contains its words.
    Compare(Box<str>),
    /// The store answered that it wrote fewer documents than it was sent: read which it holds.
    Check,
    /// The record is written: set its expiry.
    Expire,
    /// Merge by an expression.
    Merge(Merge),
}

/// A selection of a batch's records.
pub(super) enum Part {
    /// All records.
    All,
    /// One record.
    One(usize),
    /// Some records: their positions, and a copy of them that can be sent.
    Some(Vec<usize>, Box<Records>),
}

/// A batch that was passed to the writer.
pub(super) struct Batch {
    pub(super) ended: Ended,
    pieces: usize,
    /// The operation for its records.
    pub(super) verb: RecordOp,
}

impl Piece {
    fn of(batch: usize, part: Part, step: Step) -> Self {
        Self { batch, part, tries: Tries::default(), step }
    }

    /// The position in the batch of the piece's record number `item`.
    pub(super) fn position(&self, item: usize) -> usize {
        match &self.part {
            Part::All => item,
            Part::One(position) => *position,
            Part::Some(positions, _) => positions[item],
        }
    }
}

struct InFlight {
    token: u64,
    piece: Piece,
    kind: OpKind,
    sent_ns: u64,
    deadline_ns: u64,
}

/// One worker's session.
pub(super) struct WriteSession<'a> {
    pub(super) store: &'a dyn AnyStore,
    pub(super) options: &'a StoreSinkOptions,
    session: Box<dyn Session>,
    clock: Arc<dyn Clock>,
    timer: Timer,
    draw: Rng,
    pub(super) batches: Vec<Option<Batch>>,
    open: usize,
    /// Pieces to send as soon as there is room.
    pub(super) ready: VecDeque<Piece>,
    /// Pieces to send at a given time.
    waiting: Vec<(u64, Piece)>,
    in_flight: Vec<InFlight>,
    answers: Vec<Answer>,
    /// Limit of requests in flight. It shrinks while the store reports overload.
    window: f64,
    pub(super) failed_in_a_row: u64,
    /// When the store last accepted something.
    took_ns: Option<u64>,
    last_failure: String,
    token: u64,
    keys: BatchBuf,
    requests: Vec<measure::Request>,
    /// Members that the store adds to documents itself.
    own: Vec<String>,
    /// Removes these members from the document that a merge starts from.
    pub(super) strip: Strip,
    /// Checks records for members that the store reserves for itself.
    reserved: Reserved,
    /// Operations that the store supports.
    can: Vec<OpKind>,
    /// Whether upserts are tried as inserts first.
    inserts_first: bool,
}

impl<'a> WriteSession<'a> {
    pub(super) fn new(
        store: &'a dyn AnyStore,
        session: Box<dyn Session>,
        clock: Arc<dyn Clock>,
        options: &'a StoreSinkOptions,
        inserts_first: bool,
    ) -> Self {
        let can = store.capabilities();
        Self {
            store,
            options,
            session,
            clock,
            timer: Timer::default(),
            draw: Rng::stream(std::process::id().into(), SESSIONS.fetch_add(1, Ordering::Relaxed)),
            batches: Vec::new(),
            open: 0,
            ready: VecDeque::new(),
            waiting: Vec::new(),
            in_flight: Vec::new(),
            answers: Vec::new(),
            window: f64::from(options.in_flight),
            failed_in_a_row: 0,
            took_ns: None,
            last_failure: String::new(),
            token: 0,
            keys: BatchBuf::new(),
            requests: Vec::new(),
            own: own_members(store, options.id()),
            strip: Strip::new(can.own_members, can.attachments_member, false),
            can: can.operations.iter().map(|(kind, _)| *kind).collect(),
            reserved: Reserved::new(can, options.own_members),
            inserts_first,
        }
    }

    /// Sends pieces that are due. Returns whether any was sent.
    fn send(&mut self) -> bool {
        let mut sent = false;
        while (self.in_flight.len() as f64) < self.window.max(1.0) {
            let now_ns = self.clock.now_ns();
            let due = self.waiting.iter().position(|(due_ns, _)| *due_ns <= now_ns);
            let Some(mut piece) = due.map(|at| self.waiting.swap_remove(at).1).or_else(|| self.ready.pop_front())
            else {
                break;
            };
            piece.tries.begin(now_ns);
            self.token += 1;
            let deadline_ns = now_ns + self.options.access.timeout.as_nanos() as u64;
            let token = self.token;
            let batch = self.batches[piece.batch].as_ref().expect(STAYS);
            let op = operation(batch, &piece, self.options, self.inserts_first, &mut self.keys);
            let kind = op.kind();
            let contents = matches!(op, Op::Read { .. } | Op::BulkRead { .. });
            let request = Request { collection: self.options.id(), op, contents };
            self.session.submit(&request, Token(token), &mut adding_to(&mut self.answers));
            self.in_flight.push(InFlight { token, piece, kind, sent_ns: now_ns, deadline_ns });
            sent = true;
        }
        if sent {
            self.session.flush();
        }
        sent
    }

    /// Processes the received answers.
    fn settle(&mut self, ended: &mut Vec<Ended>) -> Result<(), TransferError> {
        for (token, answer) in std::mem::take(&mut self.answers) {
            let Some(at) = self.in_flight.iter().position(|f| f.token == token) else { continue };
            let InFlight { piece, kind, sent_ns, .. } = self.in_flight.swap_remove(at);
            self.measure(&piece, kind, sent_ns, &answer);
            match (&piece.step, answer) {
                (Step::Merge(_), answer) => self.merged(piece, answer)?,
                (Step::Compare(_) | Step::Check, Ok(reply)) => self.compared(piece, &reply),
                (Step::Expire, Ok(_)) => {
                    self.went_well();
                    self.done(&piece);
                }
                (Step::Do | Step::Over, Ok(reply)) => self.written(piece, &reply)?,
                (_, Err(error)) => self.failed(piece, &error)?,
            }
        }
        for batch in &mut self.batches {
            if batch.as_ref().is_some_and(|b| b.pieces == 0) {
                ended.extend(batch.take().map(|b| b.ended));
                self.open -= 1;
            }
        }
        Ok(())
    }

    fn measure(&mut self, piece: &Piece, kind: OpKind, sent_ns: u64, answer: &Result<OwnedReply, OpError>) {
        // Comparing, or setting the expiry of a written document, writes no record.
        let verb = self.verb(piece);
        let counts = match piece.step {
            Step::Do | Step::Over | Step::Merge(_) => true,
            Step::Expire => verb == RecordOp::Touch,
            Step::Compare(_) | Step::Check => false,
        };
        let (outcome, records, bytes) = match answer {
            Err(error) => (Err(error.kind), 0, 0),
            Ok(_) if !counts => (Ok(()), 0, 0),
            Ok(reply) => {
                let sent = self.batch(piece).ended.sent();
                let all = match &piece.part {
                    Part::All => sent.bytes(),
                    Part::One(at) => sent.bytes_of(*at),
                    Part::Some(_, records) => records.bytes(),
                };
                let rejects = reply.as_reply().rejects;
                let rejected: usize = rejects.iter().map(|reject| sent.bytes_of(piece.position(reject.item))).sum();
                (Ok(()), (self.len(piece) - rejects.len()) as u64, (all - rejected) as u64)
            }
        };
        let service_ns = self.clock.now_ns() - sent_ns;
        self.requests.push(measure::Request { kind, outcome, service_ns, records, bytes });
    }

    /// A request succeeded completely.
    pub(super) fn went_well(&mut self) {
        self.widen();
        self.took_some();
    }

    /// Widens the window by one request per successful window.
    fn widen(&mut self) {
        self.window = (self.window + 1.0 / self.window.max(1.0)).min(f64::from(self.options.in_flight));
    }

    fn narrow(&mut self) {
        self.window = (self.window / 2.0).max(1.0);
    }

    /// The store accepted something.
    pub(super) fn took_some(&mut self) {
        self.failed_in_a_row = 0;
        self.took_ns = Some(self.clock.now_ns());
    }

    fn verb(&self, piece: &Piece) -> RecordOp {
        self.batch(piece).verb
    }

    fn len(&self, piece: &Piece) -> usize {
        match &piece.part {
            Part::All => self.batch(piece).ended.records.len(),
            Part::One(_) => 1,
            Part::Some(positions, _) => positions.len(),
        }
    }

    /// Some records of a piece as a new piece.
    fn part(&self, piece: &Piece, items: &[usize]) -> Piece {
        let part = match piece.part {
            // A record that was sent alone stays so, and is no part of a halved piece.
            Part::One(position) => Part::One(position),
            Part::All | Part::Some(..) => {
                let positions: Vec<usize> = items.iter().map(|item| piece.position(*item)).collect();
                let mut records = Records::new();
                self.batch(piece).ended.sent().pick(positions.iter().copied(), &mut records);
                Part::Some(positions, Box::new(records))
            }
        };
        Piece { part, step: piece.step.clone(), ..*piece }
    }

    /// Continues with another step for some records of a piece.
    fn go_on(&mut self, piece: &Piece, items: &[usize], step: Step) {
        let part = self.part(piece, items);
        self.add(Piece { step, tries: Tries::default(), ..part });
    }

    fn add(&mut self, piece: Piece) {
        self.batch_mut(&piece).pieces += 1;
        self.ready.push_front(piece);
    }

    pub(super) fn done(&mut self, piece: &Piece) {
        self.batch_mut(piece).pieces -= 1;
    }

    pub(super) fn batch(&self, piece: &Piece) -> &Batch {
        self.batches[piece.batch].as_ref().expect(STAYS)
    }

    pub(super) fn batch_mut(&mut self, piece: &Piece) -> &mut Batch {
        self.batches[piece.batch].as_mut().expect(STAYS)
    }

    fn refuse(&mut self, piece: &Piece, position: usize, error: &OpError) {
        let refusal = Refusal {
            position: piece.position(position),
            kind: error.kind,
            why: error.message.to_string(),
            tries: piece.tries.failed + 1,
        };
        self.batch_mut(piece).ended.refused.push(refusal);
    }

    /// When to poll again even if no answer arrives.
    fn wake_ns(&self) -> u64 {
        let deadlines = self.in_flight.iter().map(|f| f.deadline_ns);
        let due = self.waiting.iter().map(|(due_ns, _)| *due_ns);
        deadlines.chain(due).chain(self.session.wake_at_ns()).min().unwrap_or(u64::MAX)
    }
}

impl Writer for WriteSession<'_> {
    fn end(&mut self) -> Result<(), TransferError> {
        let most = FAILED_AT_THE_END.max(self.options.may_fail.saturating_add(1));
        if self.failed_in_a_row < most { Ok(()) } else { Err(self.fails()) }
    }

    fn has_room(&self) -> bool {
        self.open < self.options.in_flight as usize && self.ready.len() < self.options.in_flight as usize
    }

    fn put(&mut self, records: Records) -> Result<(), TransferError> {
        self.put_as(self.options.verb, records);
        Ok(())
    }

    fn requests(&mut self, into: &mut Vec<measure::Request>) {
        into.append(&mut self.requests);
    }

    fn disconnects(&self) -> u64 {
        self.session.counters().disconnects
    }

    fn poll(&mut self, cx: &mut Context<'_>, ended: &mut Vec<Ended>) -> Poll<Result<(), TransferError>> {
        loop {
            let _ = self.session.poll(cx, &mut adding_to(&mut self.answers));
            let now_ns = self.clock.now_ns();
            for late in self.in_flight.iter().filter(|f| f.deadline_ns <= now_ns) {
                if !self.answers.iter().any(|(token, _)| *token == late.token) {
                    self.session.abandon(Token(late.token));
                    let error = OpError::new(ErrorKind::OutcomeUnknown, "no answer within the timeout");
                    self.answers.push((late.token, Err(error)));
                }
            }
            let come = !self.answers.is_empty();
            self.settle(ended)?;
            let sent = self.send();
            if self.open == 0 {
                return Poll::Ready(Ok(()));
            }
            // A session that was idle must be polled again to be woken by its answers.
            if come || sent || !self.answers.is_empty() {
                continue;
            }
            let after = self.wake_ns().saturating_sub(self.clock.now_ns());
            if self.timer.poll(cx, Duration::from_nanos(after)).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

#[cfg(test)]
#[path = "write_session_tests.rs"]
mod tests;
