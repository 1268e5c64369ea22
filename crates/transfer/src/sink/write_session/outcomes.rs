//! What follows from the answer to a request: which records are written, sent again, cut in two, compared or refused.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use storebench_engine::store::{ErrorKind, OpError, OwnedReply, StoreError};

use super::{Part, Piece, Step, WriteSession};
use crate::error::TransferError;
use crate::retry::is_for_now;
use crate::session::{given_up, of_store};
use crate::sink::store::RecordOp;
use crate::sink::untaken::{KEPT_ANOTHER, NOT_TAKEN, not_compared, not_found};
use crate::verify::hash;

/// If this many records fail in a row and none is written between them, the store is considered broken.
const FAILED_IN_A_ROW: u64 = 1_000;

/// A request with several records is halved after this many unknown outcomes: one of the records may be the cause.
const CUT_AFTER: u32 = 3;
/// A single record is given up after this many unknown outcomes, if the store accepts other requests. A request with
/// several records is halved after this many temporary failures, if the store accepts other requests.
const ALONE_AFTER: u32 = 8;

impl WriteSession<'_> {
    /// Handles the answer to a write, of which the store may have rejected some records.
    pub(super) fn written(&mut self, piece: Piece, reply: &OwnedReply) -> Result<(), TransferError> {
        let verb = self.verb(&piece);
        let reply = reply.as_reply();
        let (mut again, mut found, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for reject in reply.rejects {
            match reject.error.kind {
                ErrorKind::OutcomeUnknown if !verb.repeatable() => self.refuse(&piece, reject.item, &reject.error),
                kind if is_for_now(kind) => again.push((reject.item, reject.error.clone())),
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
            self.go_on(&piece, &rest, Step::Check);
        }
        // If many keys exist already, inserting first costs more than it saves.
        self.inserts_first &= over.len() * 10 <= self.len(&piece);
        let conflict = reply.rejects.iter().find(|reject| found.contains(&reject.item));
        let words = conflict.map_or_else(Box::default, |reject| reject.error.message.as_ref().into());
        for (items, step) in [(found, Step::Compare(words)), (over, Step::Over)] {
            if !items.is_empty() {
                self.go_on(&piece, &items, step);
            }
        }
        self.try_some_again(&piece, &again);
        self.done(&piece);
        Ok(())
    }

    /// Handles the documents that blocked an insert. One that an earlier attempt wrote, or a killed copy, is not a
    /// conflict. Reads that failed temporarily are retried.
    pub(super) fn compared(&mut self, piece: Piece, reply: &OwnedReply) {
        let reply = reply.as_reply();
        let rows = reply.rows.unwrap_or_default();
        let same = self.store.same_keys(self.options.id());
        let stored: HashMap<Cow<'_, str>, &[u8]> = rows.iter().map(|(key, body)| (same.fold(key), body)).collect();
        let length = self.len(&piece);
        let batch = self.batch(&piece);
        let own: Vec<&str> = self.own.iter().map(String::as_str).collect();
        let is_same = |item: usize| {
            let (key, body, _) = batch.ended.sent().get(piece.position(item)).unwrap_or_default();
            let hash = |body: &[u8]| hash::of_record(key, body, &own, true);
            stored.get(&same.fold(key)).map(|stored| *stored == body || hash(stored) == hash(body))
        };
        let absent = match &piece.step {
            Step::Compare(words) => not_found(words),
            _ => NOT_TAKEN.to_owned(),
        };
        let checks = matches!(piece.step, Step::Check);
        let (mut equal, mut again, mut refused) = (HashSet::new(), Vec::new(), Vec::new());
        for item in 0..length {
            let unread = reply.rejects.iter().find(|reject| reject.item == item).map(|reject| &reject.error);
            match (unread, is_same(item)) {
                (Some(error), _) if is_for_now(error.kind) => again.push((item, not_compared(error))),
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
        self.try_some_again(&piece, &again);
        self.done(&piece);
    }

    /// Schedules setting the expiry of written records that have one.
    pub(in crate::sink) fn expire(&mut self, piece: &Piece, is_written: impl Fn(usize) -> bool) {
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
    pub(super) fn failed(&mut self, piece: Piece, error: &OpError) -> Result<(), TransferError> {
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
                if writes && verb.repeatable() && tries >= ALONE_AFTER && self.took_ns > piece.tries.first_ns =>
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
                let step =
                    if verb == RecordOp::Insert { Step::Compare(error.message.as_ref().into()) } else { Step::Over };
                let part = self.part(&piece, &all);
                self.add(Piece { step, ..part });
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
    pub(in crate::sink) fn give_up(&mut self, piece: Piece, error: &OpError) -> Result<(), TransferError> {
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
        piece.tries.failed > 0 && self.took_ns > piece.tries.last_ns
    }

    pub(in crate::sink) fn slow_down(&mut self, piece: Piece, error: &OpError) -> Result<(), TransferError> {
        self.slow_down_unless(false, piece, error)
    }

    /// Tries a piece again later. After the last attempt, `looks` makes it read its document once more.
    pub(in crate::sink) fn slow_down_unless(
        &mut self,
        looks: bool,
        piece: Piece,
        error: &OpError,
    ) -> Result<(), TransferError> {
        self.narrow();
        let others = self.takes_others(&piece);
        let since = self.took_ns > piece.tries.first_ns;
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

    pub(super) fn fails(&self) -> TransferError {
        let text = format!(
            "{} records failed in a row, so the copy stopped; the last error: {}. Fix the store and continue with --resume; \
             to tolerate bad records, raise --max-errors",
            self.failed_in_a_row, self.last_failure
        );
        of_store(self.store, StoreError::Failed(text))
    }

    /// Retries some records of a piece, each of which failed with its own error. If their attempts are used up, each is
    /// refused with that error.
    pub(in crate::sink) fn try_some_again(&mut self, piece: &Piece, failed: &[(usize, OpError)]) {
        if failed.is_empty() {
            return;
        }
        let items: Vec<usize> = failed.iter().map(|(item, _)| *item).collect();
        let part = self.part(piece, &items);
        match self.put_off(part) {
            // In addition to the rest of the piece.
            None => self.batch_mut(piece).pieces += 1,
            Some(mut part) => {
                // `refuse` counts the last attempt.
                part.tries.failed -= 1;
                for (item, (_, why)) in failed.iter().enumerate() {
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
}
