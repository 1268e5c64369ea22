//! A bulk write split into several messages, and their combined result.

use std::collections::HashSet;

use storebench_engine::store::{ErrorKind, OpError, OpKind, OwnedReply, Reject};

use super::bson::Members;
use super::commands::Builder;
use super::errors::ServerError;
use super::wire::garbage;
use crate::document::NOT_SENT;

/// How many documents a write matched or wrote.
pub(super) fn count(reply: Members<'_>, kind: OpKind) -> Result<u32, OpError> {
    let n = reply.get("n").and_then(|n| n.as_i64()).and_then(|n| u32::try_from(n).ok());
    n.ok_or_else(|| garbage(kind, "it does not say how many documents were written"))
}

/// A bulk operation, split into messages within the server's limits.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    /// Messages still to be sent, in reverse order, each with the positions of its items.
    pub(super) later: Vec<(Vec<u8>, Vec<u32>)>,
    /// The positions of the items in the current message.
    pub(super) items: Vec<u32>,
    pub(super) rejects: Vec<Reject>,
    /// How often a message was full.
    pub(super) cuts: usize,
    documents: u32,
    /// Whether an earlier message was answered.
    answered: bool,
}

impl Bulk {
    /// Takes the answer to a message. Returns `None` if another message follows.
    pub(super) fn take(
        &mut self,
        reply: Members<'_>,
        kind: OpKind,
        builder: &mut Builder<'_>,
    ) -> Result<Option<OwnedReply>, OpError> {
        let mut rejects = self.rejected(reply, kind)?;
        match count(reply, kind) {
            Ok(n) => self.documents += n,
            Err(error) if rejects.is_empty() => return Err(error),
            // It is known of those that the server names, and only of them.
            Err(_) => {
                let first = &rejects[0].error.message;
                let unknown = format!("the server does not say whether it was written; its first error: {first}");
                let error = OpError::new(ErrorKind::OutcomeUnknown, unknown);
                let named: HashSet<usize> = rejects.iter().map(|reject| reject.item).collect();
                let others = self.items.iter().map(|item| *item as usize).filter(|item| !named.contains(item));
                rejects.extend(others.map(|item| Reject { item, error: error.clone() }));
            }
        }
        self.rejects.append(&mut rejects);
        self.answered = true;
        if let Some((message, items)) = self.later.pop() {
            *builder.out = message;
            self.items = items;
            return Ok(None);
        }
        Ok(Some(self.reply()))
    }

    /// The items of the current message that the server rejected.
    pub(super) fn rejected(&self, reply: Members<'_>, kind: OpKind) -> Result<Vec<Reject>, OpError> {
        let mut rejects = Vec::new();
        for error in reply.get("writeErrors").and_then(|value| value.members()).into_iter().flatten() {
            let error = error.ok().and_then(|(_, value)| value.members());
            let error = error.ok_or_else(|| garbage(kind, "a write error is not a document"))?;
            let position = error.get("index").and_then(|index| index.as_i64()).and_then(|i| usize::try_from(i).ok());
            let item = position.and_then(|position| self.items.get(position));
            let item = item.ok_or_else(|| garbage(kind, "a write error names an item outside the request"))?;
            rejects.push(Reject { item: *item as usize, error: ServerError::of(error).operation(kind) });
        }
        Ok(rejects)
    }

    /// Ends the operation with the error of the current message. `own` holds its items that have individual errors.
    pub(super) fn end(&mut self, error: OpError, mut own: Vec<Reject>) -> Result<OwnedReply, OpError> {
        // With a single message, or if no message can have taken effect, the error applies to the whole operation.
        let nothing_done = self.later.is_empty() || error.kind == ErrorKind::Temporary;
        if !self.answered && nothing_done {
            return Err(error);
        }
        // The items were refused together, perhaps because of one of them. Each one is to be retried separately.
        let error = match error.kind {
            ErrorKind::Refused if self.items.len() > 1 => {
                let text = format!("refused together with the other documents of its message: {}", error.message);
                OpError::new(ErrorKind::Temporary, text)
            }
            _ => error,
        };
        let told: HashSet<usize> = own.iter().map(|reject| reject.item).collect();
        self.rejects.append(&mut own);
        let items = std::mem::take(&mut self.items).into_iter().map(|item| item as usize);
        let untold = items.filter(|item| !told.contains(item));
        self.rejects.extend(untold.map(|item| Reject { item, error: error.clone() }));
        let later = std::mem::take(&mut self.later);
        let later = later.into_iter().rev().flat_map(|(_, items)| items);
        self.rejects.extend(later.map(|item| Reject { item: item as usize, error: NOT_SENT }));
        Ok(self.reply())
    }

    /// The combined result of all messages.
    pub(super) fn reply(&mut self) -> OwnedReply {
        OwnedReply::documents(self.documents).rejects(std::mem::take(&mut self.rejects))
    }
}
