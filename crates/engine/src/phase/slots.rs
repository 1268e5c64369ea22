//! The slots that operations in flight occupy, and what is recorded when an operation ends.

mod endings;

use std::collections::HashMap;
use std::sync::Arc;

use super::checked::key_text;
use super::clock::Clock;
use super::followed::Seen;
use super::maker::{More, Stage, Task};
use super::plan::{Amount, PhasePlan};
use crate::ledger::{Floor, FoundAtKey};
use crate::measure::{Answer, Content, Did, LedgerReads, PartialCause, Recorder, Tally, record};
use crate::store::{Completions, ErrorKind, OpError, OpKind, Reject, Reply, Token};
use storebench_documents::Catalog;
use storebench_documents::keys::Rng;

/// Closed loop: how long a slot rests after an operation that was rejected at once, for instance because there is no
/// connection. Without a rest, the client would measure how fast it can be rejected, and use up its processor.
const REST_NS: u64 = 10_000_000;

/// Distinct failure messages that a worker remembers.
const MESSAGES: usize = 16;
/// Wrong documents that a worker describes.
pub(super) const EXAMPLES: usize = 8;

/// A slot for one operation in flight: a connection has as many as its pipeline is deep. Workers with many of them do not
/// find one in the processor's nearest cache, so what every operation needs comes first, on as few lines as possible.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Slot {
    /// Position of its session.
    pub session: usize,
    /// Distinguishes this operation from earlier ones of the slot, so that a late answer is not taken for its answer.
    pub generation: u32,
    pub in_flight: bool,
    pub stage: Stage,
    pub task: Task,
    /// When the operation was scheduled (open loop) or first sent (closed loop).
    pub scheduled_ns: u64,
    /// When it was first sent.
    pub sent_ns: u64,
    /// When the current request was first sent: of a compare-and-swap, the read or the write.
    pub requested_ns: u64,
    /// When the current try was sent.
    pub tried_ns: u64,
    pub tries: u32,
    /// How late the client sent the operation, by its own fault (open loop).
    pub lag_ns: u64,
    /// For a bulk operation that is retried in part: the results of items in earlier tries.
    pub earlier: Earlier,
    pub more: More,
    /// The revision that compare-and-swap read.
    pub revision: Vec<u8>,
    /// The version of it, if the document is followed.
    pub looked: Option<Content>,
    /// With a ledger: what this read must find.
    pub floor: Option<Floor>,
    /// The same for each document of a bulk read, by index.
    pub floors: Vec<(u64, Floor)>,
}

impl Slot {
    /// Index of the document at position `item` of the batch in flight.
    fn index_of(&self, item: usize) -> u64 {
        self.more.indexes.get(item).copied().unwrap_or(self.task.index + item as u64)
    }
}

/// The results of items of a bulk operation that are not retried.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Documents that were written, removed or read.
    pub documents: u32,
    /// Items that failed for good.
    pub rejected: u64,
    /// How the first of them failed.
    pub first: Option<ErrorKind>,
}

/// How an operation that the ledger follows ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// A write of one document, and whether it was applied, if known.
    Write(Task, Option<bool>),
    /// A read of one document, what it had to find, and what it found.
    Read(Task, Floor, FoundAtKey),
}

/// The longest wait after this many tries: it doubles with each try, up to the cap.
fn longest_wait(first_ns: u64, tries: u32, cap_ns: u64) -> u64 {
    first_ns.saturating_mul(1 << tries.saturating_sub(1).min(63)).min(cap_ns)
}

/// Why a phase cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fatal {
    /// What the store said.
    pub why: String,
    /// `Disconnected` after an unknown outcome or a temporary failure, as a lost connection leaves them.
    pub cause: PartialCause,
}

/// Everything that changes when an operation ends.
pub(super) struct Operations<C> {
    pub(super) plan: Arc<PhasePlan>,
    pub(super) catalog: Arc<Catalog>,
    pub clock: C,
    pub open_loop: bool,
    /// Whether more than counts and times is noted of an operation: for the ledger, a consistency check, or a trace.
    pub watched: bool,
    /// When the phase began.
    start_ns: u64,
    pub slots: Vec<Slot>,
    /// Free slots and since when, the longest free first.
    pub free: std::collections::VecDeque<(usize, u64)>,
    pub in_flight: usize,
    /// Slots that send again (a retry, or the second request of an operation), and when.
    pub again: Vec<(usize, u64)>,
    pub recorder: Box<Recorder>,
    /// The last reading of the clock.
    pub last_ns: u64,
    /// Whether the clock was read since the last read of a socket, so that what completes now has that time.
    together: bool,
    /// When an operation was last sent.
    pub last_sent_ns: u64,
    /// Whether nothing was sent or answered in this turn.
    pub idle: bool,
    /// No operation in flight times out before this.
    pub next_timeout_ns: u64,
    rng: Rng,
    pub(super) scratch: Vec<u8>,
    /// Documents that a bulk read found: index and version.
    rows: Vec<(u64, u64)>,
    pub messages: HashMap<String, u64>,
    pub wrong_examples: Vec<String>,
    /// Endings that the ledger must learn of.
    pub endings: Vec<Ending>,
    /// What reads during the phase found, judged by the ledger.
    pub reads: LedgerReads,
    /// What operations on documents that are followed did.
    pub seen: Seen,
    /// What operations of a trace were answered, by number, if answers are compared.
    pub answers: Vec<(u32, Answer)>,
    /// The first of this worker's connections, counted over all workers.
    first_client: u32,
    /// Why this phase cannot continue.
    pub fatal: Option<Fatal>,
}

impl<C: Clock> Operations<C> {
    pub(super) fn new(plan: Arc<PhasePlan>, catalog: Arc<Catalog>, clock: C, worker: u32, seed: u64) -> Self {
        let connections = plan.connections as usize;
        let count = connections * plan.in_flight as usize;
        // Neighbouring slots belong to different sessions, so that all of them are used early.
        let slots = (0..count).map(|i| Slot { session: i % connections, ..Slot::default() }).collect();
        let last_ns = clock.now_ns();
        Self {
            open_loop: plan.is_open_loop(),
            start_ns: last_ns,
            slots,
            free: (0..count).map(|i| (i, 0)).collect(),
            in_flight: 0,
            again: Vec::new(),
            watched: plan.ledger || plan.followed.is_some() || plan.answers.is_some(),
            recorder: Box::new(Recorder::new(plan.recipes.len())),
            last_ns,
            together: false,
            last_sent_ns: 0,
            idle: true,
            next_timeout_ns: u64::MAX,
            rng: Rng::stream(seed ^ 0x6261_636b_6f66_6621, u64::from(worker)),
            scratch: Vec::new(),
            rows: Vec::new(),
            messages: HashMap::new(),
            wrong_examples: Vec::new(),
            endings: Vec::new(),
            reads: LedgerReads::default(),
            seen: Seen::of(&plan),
            answers: Vec::new(),
            first_client: worker.saturating_mul(plan.connections),
            fatal: None,
            plan,
            catalog,
            clock,
        }
    }

    /// Sets the start of the phase. All slots are free from then on.
    pub(super) fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.free.iter_mut().for_each(|(_, since)| *since = start_ns);
    }

    pub(super) fn now(&mut self) -> u64 {
        self.last_ns = self.clock.now_ns();
        self.last_ns
    }

    /// Called when a session has returned: what another one completes came at another time.
    #[inline]
    pub(super) fn returned(&mut self) {
        self.together = false;
    }

    pub(super) fn token(&self, slot: usize) -> Token {
        Token(u64::from(self.slots[slot].generation) << 32 | slot as u64)
    }

    /// Marks a slot as sent.
    #[inline]
    pub(super) fn sent(&mut self, slot: usize, now_ns: u64) {
        let s = &mut self.slots[slot];
        s.generation = s.generation.wrapping_add(1);
        s.in_flight = true;
        s.tries += 1;
        s.tried_ns = now_ns;
        if s.tries == 1 {
            s.requested_ns = now_ns;
            if s.stage != Stage::Swap {
                s.sent_ns = now_ns;
            }
        }
        self.in_flight += 1;
        self.idle = false;
        self.last_sent_ns = now_ns;
        self.next_timeout_ns = self.next_timeout_ns.min(now_ns.saturating_add(self.plan.timeout_ns));
    }

    /// The slot that has been free longest, moved to the front. If all slots rest, the one whose rest ends first.
    pub(super) fn rested(&mut self, now_ns: u64) -> Option<(usize, u64)> {
        let front = self.free.front().copied()?;
        if front.1 <= now_ns {
            return Some(front);
        }
        let soonest = (0..self.free.len()).min_by_key(|at| self.free[*at].1)?;
        self.free.swap(0, soonest);
        self.free.front().copied()
    }

    /// A slot that sends again and whose time has come.
    #[inline]
    pub(super) fn next_again(&mut self) -> Option<usize> {
        if self.again.is_empty() {
            return None;
        }
        let position = self.again.iter().position(|(_, at)| *at <= self.last_ns)?;
        Some(self.again.swap_remove(position).0)
    }

    fn release(&mut self, slot: usize, now_ns: u64) {
        self.free.push_back((slot, now_ns));
    }

    /// Gives up operations in flight that have timed out, and lists them for their sessions.
    pub(super) fn expire(&mut self, now_ns: u64, abandon: &mut Vec<(usize, Token)>) {
        if now_ns < self.next_timeout_ns {
            return;
        }
        self.next_timeout_ns = u64::MAX;
        for slot in 0..self.slots.len() {
            if !self.slots[slot].in_flight {
                continue;
            }
            let deadline = self.slots[slot].tried_ns.saturating_add(self.plan.timeout_ns);
            if deadline > now_ns {
                self.next_timeout_ns = self.next_timeout_ns.min(deadline);
                continue;
            }
            abandon.push((self.slots[slot].session, self.token(slot)));
            self.slots[slot].in_flight = false;
            self.in_flight -= 1;
            self.recorder.ops[self.slots[slot].task.recipe].timed_out += 1;
            self.fail(slot, now_ns, OpError::new(ErrorKind::OutcomeUnknown, "no answer within the timeout"));
        }
    }

    /// Counts operations that are still in flight as unfinished, with their age, and drops them.
    pub(super) fn count_unfinished_in_flight(&mut self, now_ns: u64, abandon: &mut Vec<(usize, Token)>) {
        let waiting: Vec<usize> = self.again.drain(..).map(|(slot, _)| slot).collect();
        for slot in 0..self.slots.len() {
            // The last try of an operation that waits for a retry was not applied.
            let mut done = Some(false);
            if self.slots[slot].in_flight {
                done = self.lost(slot);
                abandon.push((self.slots[slot].session, self.token(slot)));
                self.slots[slot].in_flight = false;
                self.in_flight -= 1;
                if self.slots[slot].stage != Stage::Look {
                    self.recorder.ops[self.slots[slot].task.recipe].unfinished_sent += 1;
                }
            } else if !waiting.contains(&slot) {
                continue;
            }
            self.end_write(slot, done);
            let earlier = std::mem::take(&mut self.slots[slot].earlier);
            let s = &self.slots[slot];
            self.recorder.ops[s.task.recipe].documents += u64::from(earlier.documents);
            let (recipe, age) = (s.task.recipe, now_ns.saturating_sub(s.scheduled_ns));
            self.count_unfinished(recipe, age);
            self.release(slot, now_ns);
        }
    }

    /// Counts one operation that was scheduled `age_ns` ago and has not ended.
    pub(super) fn count_unfinished(&mut self, recipe: usize, age_ns: u64) {
        let tally = &mut self.recorder.ops[recipe];
        tally.unfinished += 1;
        record(&mut tally.response, age_ns);
        record(&mut tally.unfinished_age, age_ns);
    }

    /// Fails an operation for good, or retries it.
    #[cold]
    fn fail(&mut self, slot: usize, now_ns: u64, error: OpError) {
        let s = &mut self.slots[slot];
        let recipe = s.task.recipe;
        self.recorder.ops[recipe].conflicts += u64::from(error.kind == ErrorKind::Aborted);
        if matches!(error.kind, ErrorKind::Temporary | ErrorKind::Aborted) && self.may_try_again(slot) {
            return self.try_again(slot, now_ns);
        }
        let done = if error.kind == ErrorKind::OutcomeUnknown { self.lost(slot) } else { Some(false) };
        self.end_write(slot, done);
        self.count_failed(slot, now_ns, error.kind);
        self.note_no_answer(slot, Some(error.kind));
        let message = format!("{}: {error}", self.plan.recipes[recipe].label.name);
        self.end_load(&message, error.kind);
        self.remember(message);
        let at_once = now_ns.saturating_sub(self.slots[slot].tried_ns) < REST_NS;
        let rests = !self.open_loop && error.kind == ErrorKind::Temporary && at_once;
        self.release(slot, if rests { now_ns + REST_NS } else { now_ns });
    }

    /// Whether a write that will get no answer was applied: unknown, unless it has only read so far or is never
    /// committed.
    fn lost(&self, slot: usize) -> Option<bool> {
        let s = &self.slots[slot];
        if s.stage == Stage::Look || s.task.rolls_back { Some(false) } else { None }
    }

    fn may_try_again(&self, slot: usize) -> bool {
        self.slots[slot].tries < self.plan.retry.tries
    }

    /// Schedules another try of the operation, after a wait with full jitter.
    fn try_again(&mut self, slot: usize, now_ns: u64) {
        let s = &self.slots[slot];
        let bound = longest_wait(self.plan.retry.backoff.ns(), s.tries, self.plan.retry.cap.ns());
        let wait = self.rng.below(bound.max(1));
        self.recorder.ops[s.task.recipe].retries += 1;
        self.again.push((slot, now_ns.saturating_add(wait)));
    }

    /// Ends a load that left documents out, and says why: nothing can be measured on it.
    fn end_load(&mut self, message: &str, kind: ErrorKind) {
        if self.plan.amount == Amount::Load && self.fatal.is_none() {
            let lost = matches!(kind, ErrorKind::OutcomeUnknown | ErrorKind::Temporary);
            let cause = if lost { PartialCause::Disconnected } else { PartialCause::Failed };
            self.fatal = Some(Fatal { why: format!("the load ended early: {message}"), cause });
        }
    }

    fn remember(&mut self, message: String) {
        if self.messages.len() < MESSAGES || self.messages.contains_key(&message) {
            *self.messages.entry(message).or_insert(0) += 1;
        }
    }

    #[inline]
    fn succeed(&mut self, slot: usize, now_ns: u64, reply: &Reply<'_>) {
        let s = &self.slots[slot];
        let recipe = s.task.recipe;
        let kind = self.plan.recipes[recipe].label.kind;
        if self.watched && (kind == OpKind::Read || s.stage == Stage::Look) {
            self.see_read(slot, reply);
        }
        let s = &mut self.slots[slot];
        if s.stage == Stage::Look {
            match reply.revision {
                Some(revision) => {
                    s.revision.clear();
                    s.revision.extend_from_slice(revision);
                    s.stage = Stage::Swap;
                    s.tries = 0;
                    self.again.push((slot, now_ns));
                }
                None => self.fail(slot, now_ns, OpError::new(ErrorKind::Failed, "the read returned no revision")),
            }
            return;
        }
        if !reply.rejects.is_empty() {
            return self.reject(slot, now_ns, reply);
        }
        let in_part = s.earlier.first.is_some();
        if self.watched {
            match reply.steps {
                [] => self.end_write(slot, Some(true)),
                found if self.plan.ledger => self.end_steps(slot, Some(true), found),
                _ => {}
            }
        }
        let s = &mut self.slots[slot];
        if in_part {
            s.earlier.documents += reply.documents;
            self.recorder.ops[recipe].bytes_read += reply.bytes;
            return self.fail_in_part(slot, now_ns);
        }
        let asked = s.task.documents;
        let earlier = std::mem::take(&mut s.earlier);
        let documents = earlier.documents + reply.documents;
        let rows = self.plan.recipes[recipe].ask.rows();
        // An operation that should have found documents, and did not find all of them, has missed.
        let found = match kind {
            OpKind::BulkRead | OpKind::BulkDelete => documents >= asked,
            // Only `rows` says how many it must have.
            OpKind::Query => true,
            OpKind::Transaction => self.found_by_steps(slot, reply.steps),
            _ => documents > 0 || kind.writes(),
        };
        let is_new = if found { 0 } else { self.is_of_new(slot) };
        let tally = self.answered(slot, now_ns);
        if found {
            tally.succeeded += 1
        } else {
            tally.missed += 1;
            tally.missed_new += is_new;
        }
        tally.add_answer(documents.into(), reply.bytes);
        if let Some(rows) = rows {
            tally.checked += 1;
            if !rows.allows(documents.into()) {
                tally.wrong += 1;
                self.wrong_rows(self.slots[slot].task, documents, rows);
            }
        }
        if self.slots[slot].task.check {
            self.check(slot, reply);
        }
        if !reply.steps.is_empty() {
            self.check_rows_of_steps(slot, reply.steps);
        }
        if self.watched {
            self.note_answer(slot, found, reply);
            if let Some(floor) = self.slots[slot].floor {
                self.follow(slot, floor, reply);
            }
            if !self.slots[slot].floors.is_empty() {
                self.follow_bulk(slot, reply);
            }
        }
        self.release(slot, now_ns);
    }

    /// Counts an operation whose document does not exist, or exists already (`insert` of a trace).
    fn miss(&mut self, slot: usize, now_ns: u64) {
        let s = &self.slots[slot];
        let kind = self.plan.recipes[s.task.recipe].label.kind;
        debug_assert!(kind != OpKind::Exists, "exists answers zero documents, not `not found`");
        if let Some(floor) = s.floor {
            self.endings.push(Ending::Read(s.task, floor, FoundAtKey::Nothing));
        }
        let looks = matches!(kind, OpKind::Read | OpKind::Replace | OpKind::CompareAndSwap | OpKind::Delete);
        if looks && self.is_followed(slot) {
            self.see(slot, Did::Read(Content::Nothing), true);
        }
        self.end_write(slot, Some(false));
        let is_new = self.is_of_new(slot);
        let tally = self.answered(slot, now_ns);
        tally.missed += 1;
        tally.missed_new += is_new;
        self.note_no_answer(slot, None);
        self.release(slot, now_ns);
    }

    /// Handles a bulk operation of which some items failed. Items with a temporary failure are retried alone. If other
    /// items failed for good, or no tries are left, the operation counts as failed, once, with the kind of the first
    /// failure.
    #[cold]
    fn reject(&mut self, slot: usize, now_ns: u64, reply: &Reply<'_>) {
        let task = self.slots[slot].task;
        let label = self.plan.recipes[task.recipe].label.clone();
        let for_now = |reject: &&Reject| reject.error.kind == ErrorKind::Temporary;
        let again = reply.rejects.iter().filter(for_now).count();
        let retries = again > 0 && self.may_try_again(slot);
        let for_good = || reply.rejects.iter().filter(|r| !(retries && for_now(r)));
        for reject in for_good() {
            self.remember(format!("{}: {}", label.name, reject.error));
        }
        if let Some(first) = for_good().next() {
            let key = key_text(self.catalog.get(label.collection), self.slots[slot].index_of(first.item));
            let message = format!("{}: {key}: {}", label.name, first.error);
            self.end_load(&message, first.error.kind);
        }
        self.end_items(slot, reply.rejects, retries);
        let s = &mut self.slots[slot];
        s.earlier.documents += reply.documents;
        s.earlier.rejected += for_good().count() as u64;
        s.earlier.first = s.earlier.first.or_else(|| for_good().next().map(|reject| reject.error.kind));
        // Counts the bytes that this part read, whatever becomes of the rest.
        self.recorder.ops[task.recipe].bytes_read += reply.bytes;
        if retries {
            let s = &mut self.slots[slot];
            let items: Vec<u64> = reply.rejects.iter().filter(for_now).map(|r| s.index_of(r.item)).collect();
            s.more.indexes = items;
            return self.try_again(slot, now_ns);
        }
        self.fail_in_part(slot, now_ns);
    }

    /// Ends a bulk operation that has failed in part, after its last try.
    fn fail_in_part(&mut self, slot: usize, now_ns: u64) {
        let first = self.slots[slot].earlier.first;
        self.count_failed(slot, now_ns, first.unwrap_or(ErrorKind::Failed));
        self.release(slot, now_ns);
    }

    /// Counts a failed operation, with the results of its items in earlier tries.
    fn count_failed(&mut self, slot: usize, now_ns: u64, kind: ErrorKind) {
        let s = &mut self.slots[slot];
        let earlier = std::mem::take(&mut s.earlier);
        let tally = &mut self.recorder.ops[s.task.recipe];
        tally.failed[kind as usize] += 1;
        tally.documents += u64::from(earlier.documents);
        tally.rejected += earlier.rejected;
        record(&mut tally.failed_time, now_ns.saturating_sub(s.scheduled_ns).max(1));
    }

    /// Records the times of an operation that was answered now, and returns its tally.
    #[inline]
    fn answered(&mut self, slot: usize, now_ns: u64) -> &mut Tally {
        let s = &self.slots[slot];
        let tally = &mut self.recorder.ops[s.task.recipe];
        tally.answered_at.at(now_ns.saturating_sub(self.start_ns));
        record(&mut tally.service, now_ns - s.sent_ns);
        if self.open_loop {
            record(&mut tally.response, now_ns.saturating_sub(s.scheduled_ns));
        }
        tally
    }
}

impl<C: Clock> Completions for Operations<C> {
    #[inline]
    fn complete(&mut self, token: Token, result: Result<Reply<'_>, OpError>) {
        let slot = (token.0 & 0xffff_ffff) as usize;
        let generation = (token.0 >> 32) as u32;
        if !self.slots.get(slot).is_some_and(|s| s.in_flight && s.generation == generation) {
            return;
        }
        let now = if self.together { self.last_ns } else { self.now() };
        self.slots[slot].in_flight = false;
        self.in_flight -= 1;
        self.idle = false;
        match result {
            Ok(reply) => self.succeed(slot, now, &reply),
            Err(error) if error.kind == ErrorKind::NotFound || self.is_there_already(slot, error.kind) => {
                self.miss(slot, now);
            }
            Err(error) => self.fail(slot, now, error),
        }
    }

    fn arrived(&mut self) {
        self.now();
        self.together = true;
    }
}

#[cfg(test)]
mod tests {
    use super::longest_wait;

    #[test]
    fn waits_between_tries_double_up_to_the_cap_whatever_the_first_is() {
        let second = 1_000_000_000;
        assert_eq!([1, 2, 3, 4].map(|tries| longest_wait(second, tries, 5 * second) / second), [1, 2, 4, 5]);
        // A doubling that overflows gives the cap, not what is left of its lower bits.
        assert_eq!(longest_wait(1 << 32, 33, 10 * second), 10 * second);
        for tries in 1..200 {
            assert!(longest_wait(7, tries, u64::MAX) >= longest_wait(7, tries - 1, u64::MAX));
        }
    }
}
