//! Batches in flight on one session. They are retried, split or given up, and each record is accounted for.

mod accept;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use storebench_documents::keys::Rng;
use storebench_engine::Clock;
use storebench_engine::store::{
    AnyStore, BatchBuf, ErrorKind, Op, OpError, OpKind, OwnedReply, Reply, Request, Session, StoreError, Token,
};

use super::merge::Merge;
use super::request::operation;
use super::reserved::Reserved;
use super::store::{RecordOp, StoreSinkOptions};
use super::untaken::{KEPT_ANOTHER, NOT_TAKEN, not_compared, not_found};
use super::{Ended, Refusal, Writer};
use crate::error::TransferError;
use crate::measure;
use crate::records::Records;
use crate::retry::{Tries, is_for_now};
use crate::session::{given_up, of_store};
use crate::shape::Strip;
use crate::timer::Timer;
use crate::verify::hash;

/// If this many records fail in a row and none is written between them, the store is considered broken.
const FAILED_IN_A_ROW: u64 = 1_000;
/// If this many records fail at the end of a split, the split does not count as done.
const FAILED_AT_THE_END: u64 = 10;

/// A request with several records is halved after this many unknown outcomes: one of the records may be the cause.
const CUT_AFTER: u32 = 3;
/// A single record is given up after this many unknown outcomes, if the store accepts other requests. A request with
/// several records is halved after this many temporary failures, if the store accepts other requests.
const ALONE_AFTER: u32 = 8;

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
    answers: Vec<(u64, Result<OwnedReply, OpError>)>,
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
    own: &'static [&'static str],
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
            timer: Timer::new(),
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
            own: can.own_members,
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
            let (token, answers) = (self.token, &mut self.answers);
            let mut out = |given: Token, result: Result<Reply<'_>, OpError>| {
                answers.push((given.0, result.map(OwnedReply::from)));
            };
            let batch = self.batches[piece.batch].as_ref().expect(STAYS);
            let op = operation(batch, &piece, self.options, self.inserts_first, &mut self.keys);
            let kind = op.kind();
            let contents = matches!(op, Op::Read { .. } | Op::BulkRead { .. });
            let request = Request { collection: self.options.id(), op, contents };
            self.session.submit(&request, Token(token), &mut out);
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
                (Ok(()), self.len(piece) - rejects.len(), all - rejected)
            }
        };
        let service_ns = self.clock.now_ns() - sent_ns;
        self.requests.push(measure::Request {
            kind,
            outcome,
            service_ns,
            records: records as u64,
            bytes: bytes as u64,
        });
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

    fn written(&mut self, piece: Piece, reply: &OwnedReply) -> Result<(), TransferError> {
        let verb = self.verb(&piece);
        let reply = reply.as_reply();
        let (mut again, mut whys) = (Vec::new(), Vec::new());
        let (mut found, mut over) = (Vec::new(), Vec::new());
        for reject in reply.rejects {
            match reject.error.kind {
                ErrorKind::OutcomeUnknown if !verb.repeatable() => self.refuse(&piece, reject.item, &reject.error),
                kind if is_for_now(kind) => {
                    again.push(reject.item);
                    whys.push(reject.error.clone());
                }
                ErrorKind::Conflict if verb == RecordOp::Insert => found.push(reject.item),
                ErrorKind::Conflict if verb == RecordOp::Upsert && matches!(piece.step, Step::Do) => {
                    over.push(reject.item)
                }
                _ => self.refuse(&piece, reject.item, &reject.error),
            }
        }
        if !again.is_empty() {
            self.narrow();
        } else if !reply.rejects.iter().any(|reject| reject.error.kind == ErrorKind::Failed) {
            self.widen();
        }
        if reply.rejects.len() - over.len() < self.len(&piece) {
            self.took_some();
        } else {
            let failed = reply.rejects.iter().find(|reject| reject.error.kind == ErrorKind::Failed);
            if let Some(failed) = failed {
                self.count_failures(reply.rejects.iter().map(|r| r.error.kind), &failed.error)?;
            }
        }
        if verb == RecordOp::Delete {
            let there = reply.documents as usize + reply.rejects.len();
            let absent = self.len(&piece).saturating_sub(there) as u64;
            self.batch_mut(&piece).ended.skipped += absent;
        }
        let is_rejected = |item: usize| reply.rejects.iter().any(|reject| reject.item == item);
        // The store's own count is believed: triggers and rules of a table leave rows out without an error.
        let takes_all = verb.bulk().is_none() || reply.documents as usize + reply.rejects.len() >= self.len(&piece);
        if takes_all {
            self.expire(&piece, |item| !is_rejected(item));
        } else {
            let rest: Vec<usize> = (0..self.len(&piece)).filter(|item| !is_rejected(*item)).collect();
            let mut part = self.part(&piece, &rest);
            part.step = Step::Check;
            part.tries = Tries::default();
            self.add(part);
        }
        // If many keys exist already, inserting first costs more than it saves.
        self.inserts_first &= over.len() * 10 <= self.len(&piece);
        let conflict = reply.rejects.iter().find(|reject| found.contains(&reject.item));
        let words = conflict.map_or_else(Box::default, |reject| reject.error.message.as_ref().into());
        for (items, step) in [(found, Step::Compare(words)), (over, Step::Over)] {
            if !items.is_empty() {
                let mut part = self.part(&piece, &items);
                part.step = step;
                part.tries = Tries::default();
                self.add(part);
            }
        }
        self.try_some_again(&piece, &again, &whys);
        self.done(&piece);
        Ok(())
    }

    /// Handles the documents that blocked an insert. One that an earlier attempt wrote, or a killed copy, is not a
    /// conflict. Reads that failed temporarily are retried.
    fn compared(&mut self, piece: Piece, reply: &OwnedReply) {
        let reply = reply.as_reply();
        let rows = reply.rows.unwrap_or_default();
        let same = self.store.same_keys(self.options.id());
        let stored: HashMap<Cow<'_, str>, &[u8]> = rows.iter().map(|(key, body)| (same.fold(key), body)).collect();
        let length = self.len(&piece);
        let batch = self.batch(&piece);
        let is_same = |item: usize| {
            let (key, body, _) = batch.ended.sent().get(piece.position(item)).unwrap_or_default();
            let hash = |body: &[u8]| hash::of_record(key, body, self.own, true);
            stored.get(&same.fold(key)).map(|stored| *stored == body || hash(stored) == hash(body))
        };
        let absent = match &piece.step {
            Step::Compare(words) => not_found(words),
            _ => NOT_TAKEN.to_owned(),
        };
        let checks = matches!(piece.step, Step::Check);
        let (mut equal, mut again, mut whys, mut refused) = (HashSet::new(), Vec::new(), Vec::new(), Vec::new());
        for item in 0..length {
            let unread = reply.rejects.iter().find(|reject| reject.item == item).map(|reject| &reject.error);
            match (unread, is_same(item)) {
                (Some(error), _) if is_for_now(error.kind) => {
                    again.push(item);
                    whys.push(not_compared(error));
                }
                (Some(error), _) => refused.push((item, not_compared(error))),
                (None, Some(true)) => drop(equal.insert(item)),
                (None, Some(false)) if checks => refused.push((item, OpError::new(ErrorKind::Refused, KEPT_ANOTHER))),
                (None, Some(false)) => {
                    refused.push((item, OpError::conflict("a document with this key already exists and differs")));
                }
                (None, None) => refused.push((item, OpError::new(ErrorKind::Refused, absent.clone()))),
            }
        }
        if !checks {
            self.batch_mut(&piece).ended.there_already += equal.len() as u64;
        }
        self.expire(&piece, |item| equal.contains(&item));
        for (item, error) in refused {
            self.refuse(&piece, item, &error);
        }
        if !again.is_empty() {
            self.narrow();
        }
        self.try_some_again(&piece, &again, &whys);
        self.done(&piece);
    }

    /// Schedules setting the expiry of written records that have one.
    pub(super) fn expire(&mut self, piece: &Piece, is_written: impl Fn(usize) -> bool) {
        let batch = self.batch(piece);
        let has_one =
            |position: usize| self.options.expiry.is_some() || batch.ended.records.mark_of(position).expiry.is_some();
        let positions: Vec<usize> = (0..self.len(piece))
            .filter(|item| batch.verb.expires() && is_written(*item))
            .map(|item| piece.position(item))
            .filter(|position| has_one(*position))
            .collect();
        for position in positions {
            self.add(Piece::of(piece.batch, Part::One(position), Step::Expire));
        }
    }

    /// Handles the failure of a whole request.
    fn failed(&mut self, piece: Piece, error: &OpError) -> Result<(), TransferError> {
        let verb = self.verb(&piece);
        let (many, tries) = (self.len(&piece) > 1, piece.tries.failed + 1);
        let writes = matches!(piece.step, Step::Do | Step::Over);
        match error.kind {
            // The store accepts other requests, so one of these records may be the cause.
            ErrorKind::Temporary if writes && many && tries >= ALONE_AFTER && self.takes_others(&piece) => {
                self.narrow();
                self.halve(&piece);
                Ok(())
            }
            ErrorKind::Temporary => self.slow_down(piece, error),
            // Connections rarely break this often: one of the records probably makes the server fail.
            ErrorKind::OutcomeUnknown if writes && verb.repeatable() && many && tries >= CUT_AFTER => {
                self.narrow();
                self.halve(&piece);
                Ok(())
            }
            ErrorKind::OutcomeUnknown
                if writes && verb.repeatable() && tries >= ALONE_AFTER && self.took_ns > piece.tries.first_ns() =>
            {
                self.give_up(piece, error)
            }
            ErrorKind::OutcomeUnknown if !matches!(piece.step, Step::Do) || verb.repeatable() => {
                self.slow_down(piece, error)
            }
            kind if matches!(piece.step, Step::Expire) && verb != RecordOp::Touch => {
                let why = format!("it was written, but its expiry could not be set: {}", error.message);
                self.give_up(piece, &OpError::new(kind, why))
            }
            // One of the records may be the cause; halving finds it.
            ErrorKind::Refused | ErrorKind::Failed if many => {
                self.halve(&piece);
                Ok(())
            }
            _ if matches!(piece.step, Step::Compare(_) | Step::Check) => self.give_up(piece, &not_compared(error)),
            ErrorKind::Conflict if matches!((verb, &piece.step), (RecordOp::Insert | RecordOp::Upsert, Step::Do)) => {
                let all: Vec<usize> = (0..self.len(&piece)).collect();
                let mut part = self.part(&piece, &all);
                part.step =
                    if verb == RecordOp::Insert { Step::Compare(error.message.as_ref().into()) } else { Step::Over };
                self.add(part);
                self.done(&piece);
                Ok(())
            }
            _ => self.give_up(piece, error),
        }
    }

    /// Replaces a piece by two halves.
    fn halve(&mut self, piece: &Piece) {
        let all: Vec<usize> = (0..self.len(piece)).collect();
        let (first, second) = all.split_at(all.len() / 2);
        // The half added last is sent first.
        for half in [second, first] {
            let part = self.part(piece, half);
            self.add(part);
        }
        self.done(piece);
    }

    /// Refuses all records of a piece.
    pub(super) fn give_up(&mut self, piece: Piece, error: &OpError) -> Result<(), TransferError> {
        // Bulk writes are refused as a whole, one after the other, for the same reason: it is the table, not the records.
        let halved = matches!((&piece.step, &piece.part), (Step::Do | Step::Over, Part::Some(..)));
        let is_same = halved && self.last_failure == error.to_string();
        let kind = if error.kind == ErrorKind::Refused && is_same { ErrorKind::Failed } else { error.kind };
        if error.kind == ErrorKind::Refused {
            self.last_failure = error.to_string();
        }
        self.count_failures((0..self.len(&piece)).map(|_| kind), error)?;
        for position in 0..self.len(&piece) {
            self.refuse(&piece, position, error);
        }
        self.done(&piece);
        Ok(())
    }

    /// Whether the store accepted other requests since the last failure of this piece.
    fn takes_others(&self, piece: &Piece) -> bool {
        piece.tries.failed > 0 && self.took_ns > piece.tries.last_ns()
    }

    pub(super) fn slow_down(&mut self, piece: Piece, error: &OpError) -> Result<(), TransferError> {
        self.slow_down_unless(false, piece, error)
    }

    /// Tries a piece again later. After the last attempt, `looks` makes it read its document once more.
    pub(super) fn slow_down_unless(&mut self, looks: bool, piece: Piece, error: &OpError) -> Result<(), TransferError> {
        self.narrow();
        let others = self.takes_others(&piece);
        let since = self.took_ns > piece.tries.first_ns();
        let (many, cut) = (self.len(&piece) > 1, matches!(piece.part, Part::Some(..)));
        match self.put_off(piece) {
            None => Ok(()),
            // The store accepted others, so one of these records may be the cause. The last one of a halved piece is.
            Some(mut piece) if many && since => {
                piece.tries.begin_again(ALONE_AFTER, self.clock.now_ns());
                self.halve(&piece);
                Ok(())
            }
            Some(piece) if looks => {
                self.look_once_more(piece);
                Ok(())
            }
            Some(piece) if !many && (others || cut && since) => self.give_up(piece, error),
            Some(piece) => Err(of_store(self.store, given_up(&piece.tries, &error.to_string()))),
        }
    }

    /// Stops the copy if the store fails everything (a full disk), instead of rejecting the rest of the source.
    fn count_failures(&mut self, kinds: impl Iterator<Item = ErrorKind>, error: &OpError) -> Result<(), TransferError> {
        let failed = kinds.filter(|kind| *kind == ErrorKind::Failed).count() as u64;
        self.failed_in_a_row += failed;
        if failed > 0 {
            self.last_failure = error.to_string();
        }
        let most = FAILED_IN_A_ROW.max(self.options.may_fail.saturating_add(1));
        if self.failed_in_a_row < most { Ok(()) } else { Err(self.fails()) }
    }

    fn fails(&self) -> TransferError {
        let text = format!(
            "{} records failed in a row, so the copy stopped; the last error: {}. Fix the store and continue with --resume; \
             to tolerate bad records, raise --max-errors",
            self.failed_in_a_row, self.last_failure
        );
        of_store(self.store, StoreError::Failed(text))
    }

    /// Retries some records of a piece, which failed for different reasons. If their attempts are used up, each is
    /// refused with its own error.
    pub(super) fn try_some_again(&mut self, piece: &Piece, items: &[usize], whys: &[OpError]) {
        if items.is_empty() {
            return;
        }
        let part = self.part(piece, items);
        match self.put_off(part) {
            None => {
                // In addition to the rest of the piece.
                self.batch_mut(piece).pieces += 1;
            }
            Some(mut part) => {
                // `refuse` counts the last attempt.
                part.tries.failed -= 1;
                for (item, why) in whys.iter().enumerate() {
                    self.refuse(&part, item, why);
                }
            }
        }
    }

    /// Schedules the next attempt of a piece. Returns the piece if that was the last.
    fn put_off(&mut self, mut piece: Piece) -> Option<Piece> {
        let Some(due_ns) = piece.tries.next_ns(&self.options.access.retry, self.clock.now_ns(), &mut self.draw) else {
            return Some(piece);
        };
        self.batch_mut(&piece).ended.retries += 1;
        self.waiting.push((due_ns, piece));
        None
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
        // A record that was sent alone stays so, and is no part of a halved piece.
        if let Part::One(position) = piece.part {
            return Piece {
                batch: piece.batch,
                part: Part::One(position),
                tries: piece.tries,
                step: piece.step.clone(),
            };
        }
        let positions: Vec<usize> = items.iter().map(|item| piece.position(*item)).collect();
        let mut records = Records::new();
        self.batch(piece).ended.sent().pick(positions.iter().copied(), &mut records);
        Piece {
            batch: piece.batch,
            part: Part::Some(positions, Box::new(records)),
            tries: piece.tries,
            step: piece.step.clone(),
        }
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

    fn poll(&mut self, cx: &mut Context<'_>, ended: &mut Vec<Ended>) -> Poll<Result<(), TransferError>> {
        loop {
            let answers = &mut self.answers;
            let mut out = |given: Token, result: Result<Reply<'_>, OpError>| {
                answers.push((given.0, result.map(OwnedReply::from)));
            };
            let _ = self.session.poll(cx, &mut out);
            let now_ns = self.clock.now_ns();
            for late in self.in_flight.iter().filter(|f| f.deadline_ns <= now_ns) {
                if !self.answers.iter().any(|(token, _)| *token == late.token) {
                    self.session.abandon(Token(late.token));
                    let error = OpError::new(ErrorKind::OutcomeUnknown, "no answer within the timeout");
                    self.answers.push((late.token, Err(error)));
                }
            }
            let come = !self.answers.is_empty();
            if let Err(error) = self.settle(ended) {
                return Poll::Ready(Err(error));
            }
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
