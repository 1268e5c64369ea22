//! Transactions of a study. A session has one at a time, and nothing else is in flight meanwhile.
//!
//! BEGIN is sent with the first step, under the same Sync: if it fails, the server skips the step. Each further step is
//! sent when the one before has been answered, and then COMMIT or ROLLBACK, as an application does that decides by what
//! it has read.

use storebench_engine::store::{Completions, ErrorKind, Isolation, OpError, OpKind, Reply, Step, StepsFound, Token};

use super::flow::{Entry, What};
use super::session::PostgresSession;
use super::wire::Bind;
use crate::net::lost;

/// The only answers that a transaction takes are its own, whatever their token.
pub(super) const OWN: Token = Token(u64::MAX);

pub(super) const COMMIT: &str = "COMMIT";
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// The statement that begins a transaction.
pub(super) fn begin(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
        Isolation::Snapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
    }
}

/// The isolations that PostgreSQL guarantees, and how.
pub(super) const ISOLATION: [(Isolation, &str); 3] = [
    (Isolation::ReadCommitted, "BEGIN ISOLATION LEVEL READ COMMITTED, PostgreSQL's own default"),
    (Isolation::Snapshot, "BEGIN ISOLATION LEVEL REPEATABLE READ, which is snapshot isolation in PostgreSQL"),
    (Isolation::Serializable, "BEGIN ISOLATION LEVEL SERIALIZABLE"),
];

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// This many of its steps were sent.
    Steps(usize),
    /// COMMIT was sent.
    Committing,
    /// ROLLBACK was sent.
    #[default]
    RollingBack,
}

/// The transaction of a session. It is reused, and keeps its memory.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// `None` once it has ended.
    token: Option<Token>,
    steps: Vec<Step>,
    stage: Stage,
    contents: bool,
    rolls_back: bool,
    found: StepsFound,
    /// Why it is rolled back, or why it could not be committed.
    error: Option<OpError>,
}

impl Transaction {
    /// Takes the answer to what was sent last.
    fn take(&mut self, result: Result<Reply<'_>, OpError>) {
        let taken = match self.stage {
            Stage::Steps(sent) => {
                let kind = self.steps.get(sent - 1).and_then(|step| step.kind).unwrap_or(OpKind::Read);
                self.found.add(kind, result)
            }
            Stage::Committing => match result {
                Ok(reply) if reply.documents == 0 => Err(OpError::new(
                    ErrorKind::Aborted,
                    "the server answered COMMIT with ROLLBACK: the transaction had failed before",
                )),
                other => other.map(drop),
            },
            Stage::RollingBack => result.map(drop),
        };
        if let Err(error) = taken {
            self.error.get_or_insert(error);
        }
    }

    /// What takes the answers to what was sent last.
    pub(super) fn taking(&mut self) -> impl Completions + '_ {
        |_: Token, result: Result<Reply<'_>, OpError>| self.take(result)
    }

    /// What became of it when its connection was lost. `sent`: whether the last message was sent at least in part.
    fn lost(&self, why: &str, sent: bool) -> OpError {
        match (&self.error, self.stage) {
            (None, Stage::Committing) if sent => lost(OpKind::Transaction, why),
            (Some(error), Stage::RollingBack) => error.clone(),
            _ => OpError::new(ErrorKind::Temporary, format!("{why}; the transaction was not committed")),
        }
    }
}

impl PostgresSession {
    /// Begins a transaction. If it fails, nothing of it was sent.
    pub(super) fn begin_transaction(
        &mut self,
        isolation: Isolation,
        steps: &[Step],
        rolls_back: bool,
        contents: bool,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        // All are prepared first: within a transaction that has failed, nothing can be.
        for text in [begin(isolation), COMMIT, ROLLBACK] {
            let number = self.control(text);
            self.prepare(number);
        }
        let mut transaction = std::mem::take(&mut self.spare);
        steps.clone_into(&mut transaction.steps);
        (transaction.token, transaction.error) = (Some(token), None);
        (transaction.contents, transaction.rolls_back) = (contents, rolls_back);
        transaction.found.begin(contents);
        transaction.stage = Stage::Steps(1);
        self.prelude = Some(self.control(begin(isolation)));
        let sent = match transaction.steps.first() {
            Some(step) => step.request(contents).and_then(|request| self.encode(&request, OWN, out)),
            None => Err(OpError::unsupported()),
        };
        self.prelude = None;
        match sent {
            Ok(()) => self.transaction = Some(transaction),
            Err(_) => self.spare = transaction,
        }
        sent
    }

    /// Goes on after an answer: sends the next step, or COMMIT or ROLLBACK, or completes.
    pub(super) fn next_step(&mut self, out: &mut dyn Completions) {
        let Some(mut transaction) = self.transaction.take() else { return };
        let Stage::Steps(sent) = transaction.stage else {
            let result = match transaction.error.take() {
                Some(error) => Err(error),
                None => Ok(transaction.found.reply(transaction.rolls_back)),
            };
            if let Some(token) = transaction.token.take() {
                out.complete(token, result);
            }
            self.spare = transaction;
            return;
        };
        if transaction.error.is_none() && sent < transaction.steps.len() {
            transaction.stage = Stage::Steps(sent + 1);
            let request = transaction.steps[sent].request(transaction.contents);
            match request.and_then(|request| self.encode(&request, OWN, out)) {
                Ok(()) => return self.transaction = Some(transaction),
                Err(error) => transaction.error = Some(error),
            }
        }
        let commits = transaction.error.is_none() && !transaction.rolls_back;
        transaction.stage = if commits { Stage::Committing } else { Stage::RollingBack };
        let statement = self.control(if commits { COMMIT } else { ROLLBACK });
        let entry = Entry { token: Some(OWN), op: OpKind::Transaction, what: What::Count, in_transaction: true };
        Bind::new(self.link.pipe.request(entry, true), statement, 0).run();
        self.transaction = Some(transaction);
    }

    /// Abandons the transaction, if this is its token. Unless its COMMIT or ROLLBACK was sent already, a ROLLBACK follows the
    /// step in flight, and later requests follow that.
    pub(super) fn abandon_transaction(&mut self, token: Token) {
        let Some(mut transaction) = self.transaction.take_if(|transaction| transaction.token == Some(token)) else {
            return;
        };
        for entry in self.link.pipe.awaited().filter(|entry| entry.in_transaction) {
            (entry.token, entry.in_transaction) = (None, false);
        }
        if matches!(transaction.stage, Stage::Steps(_)) {
            let statement = self.control(ROLLBACK);
            let entry = Entry { token: None, op: OpKind::Transaction, what: What::Count, in_transaction: false };
            Bind::new(self.link.pipe.request(entry, true), statement, 0).run();
            self.link.flush();
        }
        transaction.token = None;
        self.spare = transaction;
    }

    /// Completes the transaction of a lost connection. `sent`: whether its last message was sent at least in part.
    pub(super) fn lose_transaction(&mut self, why: &str, sent: bool, out: &mut dyn Completions) {
        let Some(mut transaction) = self.transaction.take() else { return };
        if let Some(token) = transaction.token.take() {
            out.complete(token, Err(transaction.lost(why, sent)));
        }
        self.spare = transaction;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_commit_that_was_sent_leaves_the_outcome_unknown() {
        let lost = |stage, error: Option<OpError>, sent| {
            Transaction { stage, error, ..Transaction::default() }.lost("gone", sent).kind
        };
        assert_eq!(lost(Stage::Steps(1), None, true), ErrorKind::Temporary);
        assert_eq!(lost(Stage::Committing, None, false), ErrorKind::Temporary);
        assert_eq!(lost(Stage::Committing, None, true), ErrorKind::OutcomeUnknown);
        assert_eq!(lost(Stage::RollingBack, None, true), ErrorKind::Temporary);
        let conflict = Some(OpError::conflict("exists"));
        assert_eq!(lost(Stage::RollingBack, conflict, true), ErrorKind::Conflict);
    }

    #[test]
    fn a_commit_that_the_server_answers_with_rollback_has_not_committed() {
        let mut transaction = Transaction { stage: Stage::Committing, ..Transaction::default() };
        transaction.take(Ok(Reply::written(1)));
        assert_eq!(transaction.error, None);
        transaction.take(Ok(Reply::written(0)));
        assert_eq!(transaction.error.unwrap().kind, ErrorKind::Aborted);
    }
}
