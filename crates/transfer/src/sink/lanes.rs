//! Batches in flight on one session: tried again, cut in two, given up, each record accounted for.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::Timestamp;
use storebench_documents::keys::Rng;
use storebench_engine::Clock;
use storebench_engine::store::{
    AnyStore, BatchBuf, ErrorKind, Op, OpError, OpKind, OwnedReply, Reply, Request, Session, StoreError, Token,
};
use storebench_study::workload::Body;

use super::merge::Merge;
use super::request::{integer, operation};
use super::reserved::{Fate, Reserved};
use super::store::{StoreSinkOptions, Verb};
use super::{Ended, Refusal, Writer};
use crate::error::TransferError;
use crate::measure;
use crate::records::Records;
use crate::retry::{Tries, is_for_now};
use crate::session::{given_up, of_store};
use crate::shape::Strip;
use crate::timer::Timer;
use crate::verify::hash;

/// So many records that a store fails one after another, with none written between, mean that it takes none.
const FAILED_IN_A_ROW: u64 = 1_000;
/// And so many at the end of a split that the split does not count as done.
const FAILED_AT_THE_END: u64 = 10;

/// A request of many whose outcome is unknown so often is cut in two: one of them may be the reason.
const CUT_AFTER: u32 = 3;
/// One record whose outcome is unknown so often, while the store takes others, is given up. A request of many that the store
/// puts off so often, while it takes others, is cut in two.
const ALONE_AFTER: u32 = 8;

/// Why a piece has its batch.
const STAYS: &str = "a batch stays until all of its pieces are done";

/// Sessions so far: each draws other waits, so that they do not come back at the same moment.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// A batch, or a part of one, that goes to the store as one request.
pub(super) struct Piece {
    /// Which batch.
    pub(super) batch: usize,
    /// Which of its records.
    pub(super) part: Part,
    pub(super) tries: Tries,
    pub(super) step: Step,
}

/// What is done with a piece next.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// What is to be done with its records.
    Do,
    /// An insert has found them there: they are written over.
    Over,
    /// The store has them already, perhaps from an earlier try: they are read and compared.
    Compare,
    /// It is written, and gets its expiry.
    Expire,
    /// A merge by an expression.
    Merge(Merge),
}

/// Which records of a batch.
pub(super) enum Part {
    /// All of them.
    All,
    /// One.
    One(usize),
    /// Some: their positions, and a copy of them that can be sent as it is.
    Some(Vec<usize>, Box<Records>),
}

/// A batch as it was put.
pub(super) struct Batch {
    pub(super) ended: Ended,
    pieces: usize,
    /// What is done with its records.
    pub(super) verb: Verb,
}

impl Piece {
    fn of(batch: usize, part: Part, step: Step) -> Self {
        Self { batch, part, tries: Tries::default(), step }
    }

    /// The position in the batch of one of its records.
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
pub(super) struct Lanes<'a> {
    store: &'a dyn AnyStore,
    pub(super) options: &'a StoreSinkOptions,
    session: Box<dyn Session>,
    clock: Arc<dyn Clock>,
    timer: Timer,
    draw: Rng,
    pub(super) batches: Vec<Option<Batch>>,
    open: usize,
    /// To be sent as soon as there is room.
    pub(super) ready: VecDeque<Piece>,
    /// To be sent at a time.
    waiting: Vec<(u64, Piece)>,
    in_flight: Vec<InFlight>,
    answers: Vec<(u64, Result<OwnedReply, OpError>)>,
    /// Requests at once: fewer while the store says that it is too much.
    window: f64,
    pub(super) failed_in_a_row: u64,
    /// When the store took something last.
    took_ns: Option<u64>,
    last_failure: String,
    token: u64,
    keys: BatchBuf,
    requests: Vec<measure::Request>,
    /// Members that are the store's own.
    own: &'static [&'static str],
    /// Takes them out of what a merge begins with.
    pub(super) strip: Strip,
    /// Looks for members that the store keeps for itself.
    reserved: Reserved,
    /// What the store does.
    can: Vec<OpKind>,
    /// Whether what is upserted is inserted first.
    inserts_first: bool,
}

impl<'a> Lanes<'a> {
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

    /// Sends what may go; says whether something was sent.
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

    /// Works through answers that have come.
    fn settle(&mut self, ended: &mut Vec<Ended>) -> Result<(), TransferError> {
        for (token, answer) in std::mem::take(&mut self.answers) {
            let Some(at) = self.in_flight.iter().position(|f| f.token == token) else { continue };
            let InFlight { piece, kind, sent_ns, .. } = self.in_flight.swap_remove(at);
            self.measure(&piece, kind, sent_ns, &answer);
            match (&piece.step, answer) {
                (Step::Merge(_), answer) => self.merged(piece, answer)?,
                (Step::Compare, Ok(reply)) => self.compared(piece, &reply),
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
        // What only looks, or gives what was written its expiry, has written nothing.
        let verb = self.verb(piece);
        let counts = match piece.step {
            Step::Do | Step::Over | Step::Merge(_) => true,
            Step::Expire => verb == Verb::Touch,
            Step::Compare => false,
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

    /// Everything of a request was done.
    pub(super) fn went_well(&mut self) {
        self.widen();
        self.took_some();
    }

    /// One more at once for each window that went well.
    fn widen(&mut self) {
        self.window = (self.window + 1.0 / self.window.max(1.0)).min(f64::from(self.options.in_flight));
    }

    fn narrow(&mut self) {
        self.window = (self.window / 2.0).max(1.0);
    }

    /// The store has taken something.
    fn took_some(&mut self) {
        self.failed_in_a_row = 0;
        self.took_ns = Some(self.clock.now_ns());
    }

    fn verb(&self, piece: &Piece) -> Verb {
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
                ErrorKind::Conflict if verb == Verb::Insert => found.push(reject.item),
                ErrorKind::Conflict if verb == Verb::Upsert && matches!(piece.step, Step::Do) => over.push(reject.item),
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
        if verb == Verb::Delete {
            let there = reply.documents as usize + reply.rejects.len();
            let absent = self.len(&piece).saturating_sub(there) as u64;
            self.batch_mut(&piece).ended.skipped += absent;
        }
        self.expire(&piece, |item| !reply.rejects.iter().any(|reject| reject.item == item));
        // Where much is there already, trying the insert first costs more than it saves.
        self.inserts_first &= over.len() * 10 <= self.len(&piece);
        for (items, step) in [(found, Step::Compare), (over, Step::Over)] {
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

    /// What was in an insert's way: what an earlier try of ours, or of a copy that was killed, has written is
    /// no conflict. What could not be read for now is read again.
    fn compared(&mut self, piece: Piece, reply: &OwnedReply) {
        let reply = reply.as_reply();
        let rows = reply.rows.unwrap_or_default();
        let stored: HashMap<&str, &[u8]> = rows.iter().collect();
        let length = self.len(&piece);
        let batch = self.batch(&piece);
        let same = |item: usize| {
            let (key, body, _) = batch.ended.sent().get(piece.position(item)).unwrap_or_default();
            let hash = |body: &[u8]| hash::of_record(key, body, self.own, true);
            Some(stored.get(key).is_some_and(|stored| *stored == body || hash(stored) == hash(body)))
                .filter(|same| *same || stored.contains_key(key))
        };
        let (mut equal, mut again, mut whys, mut refused) = (HashSet::new(), Vec::new(), Vec::new(), Vec::new());
        for item in 0..length {
            let unread = reply.rejects.iter().find(|reject| reject.item == item).map(|reject| &reject.error);
            match (unread, same(item)) {
                (Some(error), _) if is_for_now(error.kind) => {
                    again.push(item);
                    whys.push(not_compared(error));
                }
                (Some(error), _) => refused.push((item, not_compared(error))),
                (None, Some(true)) => drop(equal.insert(item)),
                (None, Some(false)) => {
                    refused.push((item, OpError::conflict("a document with this key exists already, and is another")));
                }
                (None, None) => refused.push((
                    item,
                    OpError::conflict("a document with this key was in the way, and was gone when it was read"),
                )),
            }
        }
        self.batch_mut(&piece).ended.there_already += equal.len() as u64;
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

    /// What is written gets its expiry, where it has one.
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

    /// A whole request has failed.
    fn failed(&mut self, piece: Piece, error: &OpError) -> Result<(), TransferError> {
        let verb = self.verb(&piece);
        let (many, tries) = (self.len(&piece) > 1, piece.tries.failed + 1);
        let writes = matches!(piece.step, Step::Do | Step::Over);
        match error.kind {
            // The store takes others meanwhile: one of these may be the reason.
            ErrorKind::Temporary if writes && many && tries >= ALONE_AFTER && self.takes_others(&piece) => {
                self.narrow();
                self.halve(&piece);
                Ok(())
            }
            ErrorKind::Temporary => self.slow_down(piece, error),
            // A connection is seldom lost so often: the server has no sense for one of the records.
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
            kind if matches!(piece.step, Step::Expire) && verb != Verb::Touch => {
                let why = format!("it is written, but could not be given its expiry: {}", error.message);
                self.give_up(piece, &OpError::new(kind, why))
            }
            // One of many may be the reason: halves find it.
            ErrorKind::Refused | ErrorKind::Failed if many => {
                self.halve(&piece);
                Ok(())
            }
            _ if matches!(piece.step, Step::Compare) => self.give_up(piece, &not_compared(error)),
            ErrorKind::Conflict if matches!((verb, &piece.step), (Verb::Insert | Verb::Upsert, Step::Do)) => {
                let all: Vec<usize> = (0..self.len(&piece)).collect();
                let mut part = self.part(&piece, &all);
                part.step = if verb == Verb::Insert { Step::Compare } else { Step::Over };
                self.add(part);
                self.done(&piece);
                Ok(())
            }
            _ => self.give_up(piece, error),
        }
    }

    /// Puts two halves in the place of a piece.
    fn halve(&mut self, piece: &Piece) {
        let all: Vec<usize> = (0..self.len(piece)).collect();
        let (first, second) = all.split_at(all.len() / 2);
        // The one that is added last goes first.
        for half in [second, first] {
            let part = self.part(piece, half);
            self.add(part);
        }
        self.done(piece);
    }

    /// Refuses all records of a piece.
    pub(super) fn give_up(&mut self, piece: Piece, error: &OpError) -> Result<(), TransferError> {
        self.count_failures((0..self.len(&piece)).map(|_| error.kind), error)?;
        for position in 0..self.len(&piece) {
            self.refuse(&piece, position, error);
        }
        self.done(&piece);
        Ok(())
    }

    /// Whether the store takes other requests than this one, which has just failed: it took some since it failed before.
    fn takes_others(&self, piece: &Piece) -> bool {
        piece.tries.failed > 0 && self.took_ns > piece.tries.last_ns()
    }

    pub(super) fn slow_down(&mut self, piece: Piece, error: &OpError) -> Result<(), TransferError> {
        self.narrow();
        let others = self.takes_others(&piece);
        let since = self.took_ns > piece.tries.first_ns();
        let (many, cut) = (self.len(&piece) > 1, matches!(piece.part, Part::Some(..)));
        match self.put_off(piece) {
            None => Ok(()),
            // The store took others: one of these may be the reason, and of what was cut the one that is left is.
            Some(mut piece) if many && since => {
                piece.tries.begin_again(ALONE_AFTER, self.clock.now_ns());
                self.halve(&piece);
                Ok(())
            }
            Some(piece) if !many && (others || cut && since) => self.give_up(piece, error),
            Some(piece) => Err(of_store(self.store, given_up(&piece.tries, &error.to_string()))),
        }
    }

    /// A store that fails everything (a full disk) is not asked to fail the rest of the source, too.
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
            "{} records failed one after another, so the copy has ended; the last: {}. Mend the store and continue with \
             --resume; where it is the records that it fails, let as many be rejected by --max-errors",
            self.failed_in_a_row, self.last_failure
        );
        of_store(self.store, StoreError::Failed(text))
    }

    /// Tries some records of a piece again, each of which failed for a reason of its own; those whose tries are
    /// used up are refused for it.
    pub(super) fn try_some_again(&mut self, piece: &Piece, items: &[usize], whys: &[OpError]) {
        if items.is_empty() {
            return;
        }
        let part = self.part(piece, items);
        match self.put_off(part) {
            None => {
                // Beside what is left of the piece.
                self.batch_mut(piece).pieces += 1;
            }
            Some(mut part) => {
                // Its last try is counted where it is refused.
                part.tries.failed -= 1;
                for (item, why) in whys.iter().enumerate() {
                    self.refuse(&part, item, why);
                }
            }
        }
    }

    /// Puts a piece off until its next try; gives it back where that was the last.
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

    /// Some records of a piece as one of its own.
    fn part(&self, piece: &Piece, items: &[usize]) -> Piece {
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

    /// Takes a batch, with whose records this is done.
    pub(super) fn put_as(&mut self, verb: Verb, records: Records) {
        let batch = self.batches.iter().position(Option::is_none).unwrap_or_else(|| {
            self.batches.push(None);
            self.batches.len() - 1
        });
        let (mut steps, mut refused, mut expired) = (Vec::new(), Vec::new(), Vec::new());
        let (mut changed, mut without_own) = (Vec::new(), 0);
        let mut refuse = |position, why| refused.push(Refusal { position, kind: ErrorKind::Refused, why, tries: 0 });
        for position in 0..records.len() {
            match self.first_step(verb, &records, position) {
                Ok(Some(Step::Do)) if verb.body() == Body::Json && verb != Verb::Delete => {
                    let (key, body, _) = records.get(position).unwrap_or_default();
                    match self.reserved.fate(key, body) {
                        Fate::AsIs => steps.push((position, Step::Do)),
                        Fate::As(body, lost) => {
                            changed.push((position, body));
                            without_own += u64::from(lost);
                            steps.push((position, Step::Do));
                        }
                        Fate::Rejected(why) => refuse(position, why),
                    }
                }
                Ok(Some(step)) => steps.push((position, step)),
                Ok(None) => expired.push(position),
                Err(why) => refuse(position, why),
            }
        }
        let whole = refused.is_empty() && expired.is_empty();
        let changed = (!changed.is_empty()).then(|| replaced(&records, changed));
        let ended = Ended { records, changed, without_own, refused, expired, ..Ended::default() };
        self.batches[batch] = Some(Batch { ended, pieces: 0, verb });
        let first = self.ready.len();
        if !verb.many() {
            let one = |(position, step)| Piece::of(batch, Part::One(position), step);
            self.ready.extend(steps.into_iter().map(one));
        } else if whole {
            self.ready.push_back(Piece::of(batch, Part::All, Step::Do));
        } else if !steps.is_empty() {
            let some: Vec<usize> = steps.into_iter().map(|(position, _)| position).collect();
            let part = self.part(&Piece::of(batch, Part::All, Step::Do), &some);
            self.ready.push_back(part);
        }
        if let Some(batch) = &mut self.batches[batch] {
            batch.pieces = self.ready.len() - first;
        }
        self.open += 1;
        self.send();
    }

    /// Whether the store does what a record asks for.
    fn can(&self, verb: Verb) -> bool {
        let by_expression = verb == Verb::Merge && self.options.merge.is_some();
        by_expression || self.can.contains(&verb.kind())
    }

    /// How a record begins; none where its source has it no more.
    ///
    /// # Errors
    /// Why it does not.
    fn first_step(&self, verb: Verb, records: &Records, position: usize) -> Result<Option<Step>, String> {
        let expiry = records.mark_of(position).expiry.or(self.options.expiry).filter(|_| verb != Verb::Delete);
        let now = expiry.map(|_| Timestamp::now()).unwrap_or_default();
        if expiry.is_some_and(|expiry| expiry.gone_at(now)) {
            return Ok(None);
        }
        let wrong = expiry.and_then(|expiry| expiry.wrong_at(now));
        match verb {
            _ if !self.can(verb) => Err("this store cannot do it".to_owned()),
            _ if wrong.is_some() => Err(wrong.unwrap_or_default()),
            Verb::Counter if integer(records.get(position).unwrap_or_default().1).is_none() => {
                Err("not a 64-bit integer; name the field that holds it with --value".to_owned())
            }
            Verb::Touch if expiry.is_none() => {
                Err("it has no expiry; give those that have none one by --expiry".to_owned())
            }
            Verb::Touch => Ok(Some(Step::Expire)),
            Verb::Merge if self.options.merge.is_some() => Ok(Some(Step::Merge(Merge::default()))),
            _ => Ok(Some(Step::Do)),
        }
    }

    /// When something has to be looked at though nothing has come.
    fn wake_ns(&self) -> u64 {
        let deadlines = self.in_flight.iter().map(|f| f.deadline_ns);
        let due = self.waiting.iter().map(|(due_ns, _)| *due_ns);
        deadlines.chain(due).chain(self.session.wake_at_ns()).min().unwrap_or(u64::MAX)
    }
}

/// Why an insert in whose way a document stands was not compared with it.
fn not_compared(error: &OpError) -> OpError {
    let what = "a document with this key exists already, and could not be read to compare it";
    OpError::new(error.kind, format!("{what}: {}", error.message))
}

/// The records with other bodies at some positions, in ascending order.
fn replaced(records: &Records, bodies: Vec<(usize, Vec<u8>)>) -> Records {
    let (mut all, mut bodies) = (Records::new(), bodies.into_iter().peekable());
    for (position, (key, body, origin)) in records.iter().enumerate() {
        let other = bodies.next_if(|(at, _)| *at == position);
        all.push(key, other.as_ref().map_or(body, |(_, other)| other), origin);
        all.mark(records.mark_of(position));
    }
    all
}

impl Writer for Lanes<'_> {
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
            // A session that had nothing under way has to be polled again to hear of the answer.
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
#[path = "lanes_tests.rs"]
mod tests;
