//! Merges by an expression. The document is read, the result is computed, and the result is stored on condition that
//! the document has not changed.
//!
//! An expression may add something (`.n += $new.n`), so no merge may be applied twice. If an answer is lost, it is
//! unknown whether the merge was applied. The document is then read again:
//!
//! - If the expression changes nothing any more, it makes no difference.
//! - If the document has the same revision as before, the merge is retried on condition of that revision. The store
//!   applies at most one of the two.
//! - Otherwise it cannot be known whether the merge was applied before others changed the document. That the document
//!   equals the computed result proves nothing, because others may have stored the same. The record is rejected for
//!   this reason.
//!
//! A revision that is the document itself proves nothing either: it returns when others restore the document.

use storebench_engine::store::{ErrorKind, Op, OpError, OwnedReply};

use super::write_session::{Piece, Step, WriteSession};
use crate::error::TransferError;
use crate::session::{given_up, of_store};

const CAME_SECOND: &str = "other clients changed the document before each attempt to store it";

/// Progress of the merge of one record.
#[derive(Debug, Clone, Default)]
pub(super) struct Merge {
    /// The conditional write to send; `None` if the document must be read first.
    swap: Option<Swap>,
    /// The starting point of a write whose answer was lost, so that it may have been applied.
    doubt: Option<Revision>,
    /// Whether the store answered the latest attempt: others had changed the document.
    came_second: bool,
    /// Whether no attempt is left, and the document is read only to find out whether the store answers, and what it holds.
    last_look: bool,
}

#[derive(Debug, Clone)]
struct Swap {
    from: Revision,
    body: Vec<u8>,
}

/// The state that a merge started from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Revision {
    /// There was no document.
    Absent,
    /// The store's revision of the document.
    Known(Vec<u8>),
    /// The store has no revision, so the document itself serves as one.
    Content(Vec<u8>),
}

impl Revision {
    /// Whether nothing was stored since `before`, if this is the state read afterwards.
    fn proves(&self, before: &Self) -> bool {
        self == before && !matches!(self, Self::Content(_))
    }
}

impl Merge {
    /// The next operation to send.
    pub(super) fn operation<'r>(&'r self, key: &'r str) -> Op<'r> {
        match &self.swap {
            None => Op::Read { key },
            Some(Swap { from: Revision::Absent, body }) => Op::Insert { key, body },
            Some(Swap { from: Revision::Known(expected) | Revision::Content(expected), body }) => {
                Op::CompareAndSwap { key, expected, body }
            }
        }
    }
}

/// What to do after a document was read.
enum Next {
    Store(Swap),
    /// The document does not change.
    Nothing,
    Refuse(OpError),
}

impl WriteSession<'_> {
    /// Handles the answer to a read or a conditional write.
    pub(super) fn merged(
        &mut self,
        mut piece: Piece,
        answer: Result<OwnedReply, OpError>,
    ) -> Result<(), TransferError> {
        let Step::Merge(merge) = &mut piece.step else { return Ok(()) };
        let swap = merge.swap.take();
        match (swap, answer) {
            (Some(_), Ok(_)) => {
                self.went_well();
                self.expire(&piece, |_| true);
                self.done(&piece);
                Ok(())
            }
            (Some(swap), Err(error)) => match error.kind {
                // Others changed the document: read it again.
                ErrorKind::Conflict | ErrorKind::NotFound => {
                    merge.came_second = true;
                    if error.kind == ErrorKind::Conflict {
                        // The store took a write of another client.
                        self.took_some();
                    }
                    let error = OpError::conflict(CAME_SECOND);
                    self.try_some_again(&piece, &[(0, in_doubt(&piece, error))]);
                    self.done(&piece);
                    Ok(())
                }
                ErrorKind::OutcomeUnknown => {
                    merge.doubt.get_or_insert(swap.from);
                    let came_second = std::mem::take(&mut merge.came_second);
                    self.slow_down_unless(came_second, piece, &error)
                }
                ErrorKind::Temporary => self.later(piece, error),
                _ => self.give_up_merge(piece, error),
            },
            (None, Err(error)) => match error.kind {
                ErrorKind::NotFound => self.found(piece, None),
                ErrorKind::Temporary | ErrorKind::OutcomeUnknown if merge.last_look => {
                    Err(of_store(self.store, given_up(&piece.tries, &error.to_string())))
                }
                ErrorKind::Temporary | ErrorKind::OutcomeUnknown => self.later(piece, error),
                _ => self.give_up_merge(piece, error),
            },
            (None, Ok(reply)) => self.found(piece, Some(&reply)),
        }
    }

    /// Continues with the stored document.
    fn found(&mut self, mut piece: Piece, reply: Option<&OwnedReply>) -> Result<(), TransferError> {
        let next = self.next(&piece, reply);
        let Step::Merge(merge) = &mut piece.step else { return Ok(()) };
        match next {
            Next::Refuse(error) => self.give_up_merge(piece, error),
            Next::Nothing => {
                // The document is as it should be, whoever wrote it.
                if merge.doubt.is_none() {
                    self.batch_mut(&piece).ended.skipped += 1;
                } else {
                    self.expire(&piece, |_| true);
                }
                self.failed_in_a_row = 0;
                self.done(&piece);
                Ok(())
            }
            Next::Store(swap) => match &merge.doubt {
                Some(before) if !swap.from.proves(before) => {
                    let what = "this record may have been merged already, and others have changed the document since";
                    self.give_up_merge(piece, OpError::conflict(what))
                }
                _ if merge.last_look => {
                    // What is stored is what the lost write started from, so that write was not applied.
                    merge.doubt = None;
                    self.give_up_merge(piece, OpError::conflict(CAME_SECOND))
                }
                _ => {
                    merge.swap = Some(swap);
                    self.ready.push_front(piece);
                    Ok(())
                }
            },
        }
    }

    fn next(&mut self, piece: &Piece, reply: Option<&OwnedReply>) -> Next {
        let refuse = |what: String| Next::Refuse(OpError::new(ErrorKind::Refused, what));
        let (Some(by), Some(batch)) = (&self.options.merge, &self.batches[piece.batch]) else { return Next::Nothing };
        let (key, new, _) = batch.ended.sent().get(piece.position(0)).unwrap_or_default();
        let (stored, from) = match reply.map(OwnedReply::as_reply) {
            None if by.absent => (None, Revision::Absent),
            None => return Next::Refuse(OpError::not_found()),
            Some(reply) => {
                let Some(body) = reply.body else { return refuse("the store returned no document".to_owned()) };
                let from = match reply.revision {
                    None => return refuse("the store returned no revision of the document".to_owned()),
                    Some(revision) if revision == body => Revision::Content(revision.to_vec()),
                    Some(revision) => Revision::Known(revision.to_vec()),
                };
                match self.strip.apply(body) {
                    Ok(body) => (Some(body), from),
                    Err(_) => return refuse("the stored document has attachments, which it would lose".to_owned()),
                }
            }
        };
        let (stored, new) = match (stored.map(std::str::from_utf8).transpose(), std::str::from_utf8(new)) {
            (Ok(stored), Ok(new)) => (stored, new),
            _ => return refuse("it is not UTF-8".to_owned()),
        };
        match by.expression.merge(stored, new, key) {
            Ok(None) => Next::Nothing,
            Ok(Some(body)) => Next::Store(Swap { from, body }),
            Err(why) => refuse(format!("--merge: {why}")),
        }
    }

    /// Tries again after an attempt that was not answered, and changed nothing.
    fn later(&mut self, mut piece: Piece, error: OpError) -> Result<(), TransferError> {
        if let Step::Merge(merge) = &mut piece.step {
            merge.came_second = false;
        }
        let error = in_doubt(&piece, error);
        self.slow_down(piece, &error)
    }

    /// Reads the document once more after the last attempt, whose answer was lost after others had come first. If the store
    /// answers, the record is refused; otherwise the store is away, and the copy stops.
    pub(super) fn look_once_more(&mut self, mut piece: Piece) {
        if let Step::Merge(merge) = &mut piece.step {
            merge.last_look = true;
        }
        self.ready.push_front(piece);
    }

    fn give_up_merge(&mut self, piece: Piece, error: OpError) -> Result<(), TransferError> {
        let error = in_doubt(&piece, error);
        self.give_up(piece, &error)
    }
}

/// The error of a merge. If an answer was lost before, the record may have been merged, and the error says so.
fn in_doubt(piece: &Piece, error: OpError) -> OpError {
    match &piece.step {
        Step::Merge(merge) if merge.doubt.is_some() => {
            OpError::new(ErrorKind::OutcomeUnknown, format!("an answer was lost, then: {}", error.message))
        }
        _ => error,
    }
}
