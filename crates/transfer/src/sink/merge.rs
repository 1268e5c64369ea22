//! Merges by an expression: a document is read, what becomes of it is computed, and that is stored on
//! condition that nobody was quicker.
//!
//! An expression may add something (`.n += $new.n`), so no merge may be done twice, and an answer that does not
//! come leaves it open whether it was done. The document is then read again. Where the expression has nothing
//! to change any more, it makes no difference. Where the document has the same revision as before, the merge
//! is tried again on condition of it: the store takes one of the two at most. Otherwise it cannot be told
//! whether the merge was done before others changed the document (that it holds what was computed proves
//! nothing: others may have stored the same), and the record is rejected as such. A revision that is the
//! document itself comes back when others restore the document, so it proves nothing either.

use storebench_engine::store::{ErrorKind, Op, OpError, OwnedReply};

use super::lanes::{Lanes, Piece, Step};
use crate::error::TransferError;
use crate::jq::Merged;

/// How far the merge of one record is.
#[derive(Debug, Clone, Default)]
pub(super) struct Merge {
    /// What is to be stored; none where the document is to be read first.
    swap: Option<Swap>,
    /// What may have been stored already, since no answer came.
    doubt: Option<Revision>,
}

#[derive(Debug, Clone)]
struct Swap {
    from: Revision,
    body: Vec<u8>,
}

/// What a merge began with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Revision {
    /// There was no document.
    Absent,
    /// The store's name for what there was.
    Known(Vec<u8>),
    /// The store has no name for it but the document itself.
    Content(Vec<u8>),
}

impl Revision {
    /// Whether nothing was stored since, where this is read again.
    fn proves(&self, before: &Self) -> bool {
        self == before && !matches!(self, Self::Content(_))
    }
}

impl Merge {
    /// What is asked of the store next.
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

/// What follows from a document that was read.
enum Next {
    Store(Swap),
    /// The document stays as it is.
    Nothing,
    Refuse(OpError),
}

impl Lanes<'_> {
    /// Takes the answer to a read or a conditional write.
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
                // Others were quicker: the document is read again.
                ErrorKind::Conflict | ErrorKind::NotFound => {
                    let error = OpError::conflict("others changed the document each time before it could be stored");
                    let error = if merge.doubt.is_some() { unknown(&error) } else { error };
                    self.try_some_again(&piece, &[0], &[error]);
                    self.done(&piece);
                    Ok(())
                }
                ErrorKind::OutcomeUnknown => {
                    merge.doubt.get_or_insert(swap.from);
                    self.slow_down(piece, &error)
                }
                ErrorKind::Temporary => self.slow_down(piece, &error),
                _ => self.give_up_merge(piece, error),
            },
            (None, Err(error)) => match error.kind {
                ErrorKind::NotFound => self.found(piece, None),
                ErrorKind::Temporary | ErrorKind::OutcomeUnknown => self.slow_down(piece, &error),
                _ => self.give_up_merge(piece, error),
            },
            (None, Ok(reply)) => self.found(piece, Some(&reply)),
        }
    }

    /// Goes on from what is stored.
    fn found(&mut self, mut piece: Piece, reply: Option<&OwnedReply>) -> Result<(), TransferError> {
        let next = self.next(&piece, reply);
        let Step::Merge(merge) = &mut piece.step else { return Ok(()) };
        match next {
            Next::Refuse(error) => self.give_up_merge(piece, error),
            Next::Nothing => {
                // What is in doubt is as it should be, whoever did it.
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
                    let what = "the document may have been merged with this record, and others have changed it since";
                    self.give_up_merge(piece, OpError::conflict(what))
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
                let Some(body) = reply.body else { return refuse("the store gave no document".to_owned()) };
                let from = match reply.revision {
                    None => return refuse("the store tells no revision of the document".to_owned()),
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
            Ok(Merged::Same) => Next::Nothing,
            Ok(Merged::Other(body)) => Next::Store(Swap { from, body }),
            Err(why) => refuse(format!("--merge: {why}")),
        }
    }

    /// Refuses the record; where an answer did not come, as one that may have been merged.
    fn give_up_merge(&mut self, piece: Piece, error: OpError) -> Result<(), TransferError> {
        let in_doubt = matches!(&piece.step, Step::Merge(merge) if merge.doubt.is_some());
        self.give_up(piece, &if in_doubt { unknown(&error) } else { error })
    }
}

/// What fails where an earlier try may have done it.
fn unknown(error: &OpError) -> OpError {
    OpError::new(ErrorKind::OutcomeUnknown, format!("an answer was lost, and then: {}", error.message))
}
