//! Transactions of a study: <https://www.mongodb.com/docs/manual/core/transactions/>.
//!
//! Each step is sent when the one before has been answered, and then `commitTransaction` or `abortTransaction`, as an
//! application does that decides by what it has read. MongoDB tells transactions apart by a session's ID and a number that
//! rises, not by their connection. So one whose connection was lost stays open, with its locks, until it is aborted.

use storebench_engine::store::{
    ErrorKind, Isolation, OpError, OpKind, OwnedReply, Reply, Step, StepsFound, Transactions,
};

use super::bson::{self, DOCUMENT};
use super::commands::Tails;
use super::wire;

/// What MongoDB can do in transactions.
pub(super) fn offered() -> Transactions {
    Transactions {
        isolation: vec![(Isolation::Snapshot, "readConcern snapshot")],
        steps: Transactions::STEPS_AND_QUERIES,
        rolls_back: true,
        waits_for_nodes: true,
        ..Transactions::default()
    }
}

/// Of a single server.
pub(super) fn none() -> Transactions {
    Transactions {
        remedy: Some("start MongoDB as a replica set, which may have one member: a single server has none"),
        ..Transactions::default()
    }
}

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// So many of its steps are done.
    Steps(usize),
    Committing,
    Aborting,
}

/// What follows an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Step,
    Commit,
    Abort,
    /// It has ended.
    Done,
}

/// A transaction. It is reused with its place, and keeps its memory and its session.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The ID of its session, drawn at random.
    pub(super) session: [u8; 16],
    /// The number of the transaction in that session.
    number: i64,
    steps: Vec<Step>,
    /// `None` once it has ended.
    stage: Option<Stage>,
    contents: bool,
    rolls_back: bool,
    found: StepsFound,
    /// Why it is aborted, or why it could not be committed.
    error: Option<OpError>,
    /// What the commands of a step end with.
    pub(super) tails: Tails,
}

impl Transaction {
    pub(super) fn new(session: [u8; 16]) -> Self {
        Self { session, ..Self::default() }
    }

    /// Whether it has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.stage.is_some()
    }

    pub(super) fn begin(&mut self, steps: &[Step], rolls_back: bool, contents: bool) {
        steps.clone_into(&mut self.steps);
        (self.stage, self.error) = (Some(Stage::Steps(0)), None);
        (self.contents, self.rolls_back) = (contents, rolls_back);
        self.found.begin(contents);
        self.number += 1;
        self.tails = Tails::in_transaction(&|out| self.mark(out), true);
    }

    /// The step to send, whether its contents are wanted, and what its commands end with.
    pub(super) fn step(&self) -> Option<(&Step, bool, &Tails)> {
        match self.stage {
            Some(Stage::Steps(done)) => Some((self.steps.get(done)?, self.contents, &self.tails)),
            _ => None,
        }
    }

    /// The members by which the server knows the transaction.
    fn mark(&self, out: &mut Vec<u8>) {
        bson::nested(out, DOCUMENT, "lsid", |out| bson::uuid(out, "id", self.session));
        bson::int64(out, "txnNumber", self.number);
        bson::boolean(out, "autocommit", false);
    }

    /// Takes the answer to what was sent last.
    pub(super) fn take(&mut self, result: Result<OwnedReply, OpError>) -> Next {
        let next = match self.stage {
            Some(Stage::Steps(done)) => {
                let kind = self.steps.get(done).and_then(|step| step.kind).unwrap_or(OpKind::Read);
                let taken = self.found.add(kind, result.as_ref().map(OwnedReply::as_reply).map_err(Clone::clone));
                if done == 0 {
                    self.tails = Tails::in_transaction(&|out| self.mark(out), false);
                }
                self.stage = Some(Stage::Steps(done + 1));
                if let Err(error) = taken {
                    self.error.get_or_insert(error);
                }
                match self.error {
                    Some(_) => Next::Abort,
                    None if done + 1 < self.steps.len() => Next::Step,
                    None if self.rolls_back => Next::Abort,
                    None => Next::Commit,
                }
            }
            Some(Stage::Committing) => {
                self.error = result.err();
                // One that was refused, or of unknown outcome, may still be open. If it was committed, an abort does nothing.
                match &self.error {
                    Some(error) if error.kind != ErrorKind::Aborted => Next::Abort,
                    _ => Next::Done,
                }
            }
            // Of one that it has aborted by itself the server says that it does not know it (any more).
            Some(Stage::Aborting) => {
                if let Err(error) = result
                    && error.kind == ErrorKind::Refused
                {
                    self.error.get_or_insert(error);
                }
                Next::Done
            }
            None => Next::Done,
        };
        self.stage = match next {
            Next::Step => self.stage,
            Next::Commit => Some(Stage::Committing),
            Next::Abort => Some(Stage::Aborting),
            Next::Done => None,
        };
        next
    }

    /// Builds the message that ends it. `tails` are those of a write outside of transactions.
    pub(super) fn ending(&self, commits: bool, tails: &Tails, out: &mut Vec<u8>) {
        let at = wire::begin(out);
        bson::int32(out, if commits { "commitTransaction" } else { "abortTransaction" }, 1);
        self.mark(out);
        if commits {
            out.extend_from_slice(&tails.write);
        }
        bson::text(out, "$db", "admin");
        bson::end(out, at);
        wire::end(out);
    }

    /// Nobody waits for it any more. Returns whether it will be aborted after the next answer.
    pub(super) fn give_up(&mut self) -> bool {
        if !matches!(self.stage, Some(Stage::Steps(_) | Stage::Aborting)) {
            return false;
        }
        self.error = Some(OpError::new(ErrorKind::Temporary, "abandoned"));
        true
    }

    /// Ends it: nothing of it was sent.
    pub(super) fn end(&mut self) {
        self.stage = None;
    }

    /// Ends it without an answer. `sent`: whether its last message was sent, at least in part. Returns what became of it,
    /// and whether it may still be open in the server.
    pub(super) fn lose(&mut self, sent: bool, error: OpError) -> (OpError, bool) {
        match self.stage.take() {
            Some(Stage::Steps(done)) => (uncommitted(error), sent || done > 0),
            Some(Stage::Aborting) => (self.error.take().unwrap_or_else(|| uncommitted(error)), true),
            Some(Stage::Committing) if !sent => (uncommitted(error), true),
            // If the commit did not reach the server. If it did, an abort does nothing.
            Some(Stage::Committing) => (error, true),
            None => (error, false),
        }
    }

    /// Completes it.
    pub(super) fn complete(&mut self, complete: impl FnOnce(Result<Reply<'_>, OpError>)) {
        complete(match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.found.reply(self.rolls_back)),
        });
    }
}

fn uncommitted(error: OpError) -> OpError {
    match error.kind {
        ErrorKind::OutcomeUnknown | ErrorKind::Temporary => {
            OpError::new(ErrorKind::Temporary, format!("{}; the transaction was not committed", error.message))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kinds: &[OpKind], rolls_back: bool) -> Transaction {
        let mut transaction = Transaction::new([7; 16]);
        let steps: Vec<Step> = kinds.iter().map(|kind| Step { kind: Some(*kind), ..Step::default() }).collect();
        transaction.begin(&steps, rolls_back, true);
        transaction
    }

    fn result(transaction: &mut Transaction) -> Result<Vec<u32>, ErrorKind> {
        let mut found = Err(ErrorKind::Failed);
        transaction.complete(|reply| found = reply.map(|reply| reply.steps.to_vec()).map_err(|error| error.kind));
        found
    }

    #[test]
    fn steps_follow_one_another_and_then_it_is_committed() {
        let mut transaction = of(&[OpKind::Read, OpKind::Upsert], false);
        assert_eq!(transaction.take(Err(OpError::not_found())), Next::Step);
        assert_eq!(transaction.take(Ok(OwnedReply::documents(1))), Next::Commit);
        assert_eq!(transaction.take(Ok(OwnedReply::documents(0))), Next::Done);
        assert_eq!(result(&mut transaction), Ok(vec![0, 1]));
        assert!(!transaction.is_open());
    }

    #[test]
    fn what_fails_is_aborted_with_its_own_error() {
        let mut transaction = of(&[OpKind::Insert, OpKind::Upsert], false);
        assert_eq!(transaction.take(Err(OpError::conflict("exists"))), Next::Abort);
        let unknown = OpError::new(ErrorKind::Aborted, "the server has aborted it");
        assert_eq!(transaction.take(Err(unknown.clone())), Next::Done);
        assert_eq!(result(&mut transaction), Err(ErrorKind::Conflict));
        let mut transaction = of(&[OpKind::Upsert], true);
        assert_eq!(transaction.take(Ok(OwnedReply::documents(1))), Next::Abort);
        assert_eq!(transaction.take(Err(unknown)), Next::Done);
        assert_eq!(result(&mut transaction), Ok(vec![1]), "it is rolled back, as the study asks");
    }

    #[test]
    fn a_commit_that_fails_is_followed_by_an_abort() {
        let mut transaction = of(&[OpKind::Upsert], false);
        transaction.take(Ok(OwnedReply::documents(1)));
        let unknown = OpError::new(ErrorKind::OutcomeUnknown, "interrupted");
        assert_eq!(transaction.take(Err(unknown)), Next::Abort);
        assert_eq!(transaction.take(Ok(OwnedReply::documents(0))), Next::Done);
        assert_eq!(result(&mut transaction), Err(ErrorKind::OutcomeUnknown));
    }

    #[test]
    fn what_is_given_up_is_aborted_after_the_next_answer() {
        let mut transaction = of(&[OpKind::Upsert, OpKind::Upsert], false);
        assert!(transaction.give_up());
        assert_eq!(transaction.take(Ok(OwnedReply::documents(1))), Next::Abort);
        assert!(transaction.give_up());
        assert_eq!(transaction.take(Ok(OwnedReply::documents(0))), Next::Done);
        let mut transaction = of(&[OpKind::Upsert], false);
        transaction.take(Ok(OwnedReply::documents(1)));
        assert!(!transaction.give_up(), "its commit may have been done");
    }

    #[test]
    fn only_a_commit_that_was_sent_leaves_the_outcome_unknown() {
        let lost = || OpError::new(ErrorKind::OutcomeUnknown, "the connection was lost");
        let mut transaction = of(&[OpKind::Upsert, OpKind::Upsert], false);
        let (error, open) = transaction.lose(true, lost());
        assert_eq!((error.kind, open, transaction.is_open()), (ErrorKind::Temporary, true, false));
        assert!(!of(&[OpKind::Upsert], false).lose(false, lost()).1, "the server has not heard of it");
        for (sent, expected) in [(true, (ErrorKind::OutcomeUnknown, true)), (false, (ErrorKind::Temporary, true))] {
            let mut transaction = of(&[OpKind::Upsert], false);
            transaction.take(Ok(OwnedReply::documents(1)));
            let (error, open) = transaction.lose(sent, lost());
            assert_eq!((error.kind, open), expected, "the commit was sent: {sent}");
        }
        let mut transaction = of(&[OpKind::Insert], false);
        transaction.take(Err(OpError::conflict("exists")));
        let (error, open) = transaction.lose(true, lost());
        assert_eq!((error.kind, open), (ErrorKind::Conflict, true));
    }
}
