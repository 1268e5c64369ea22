//! A bulk write as several messages: what each of them came to.

use std::collections::HashSet;

use storebench_engine::store::{ErrorKind, OpError, OpKind, OwnedReply, Reject};

use super::bson::Members;
use super::commands::Builder;
use super::errors::Told;
use super::wire::garbage;
use crate::document::NOT_SENT;

/// A bulk operation, as messages that are within the server's limits.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    /// Later messages, the last first, each with the positions of its items.
    pub(super) later: Vec<(Vec<u8>, Vec<u32>)>,
    /// Those of the message under way.
    pub(super) items: Vec<u32>,
    pub(super) rejects: Vec<Reject>,
    /// How often a message was full.
    pub(super) cuts: usize,
    documents: u32,
    /// Whether an earlier message has its answer.
    answered: bool,
}

impl Bulk {
    /// Takes the answer to a message; none where another follows.
    pub(super) fn take(
        &mut self,
        reply: Members<'_>,
        kind: OpKind,
        builder: &mut Builder<'_>,
    ) -> Result<Option<OwnedReply>, OpError> {
        let n = reply.get("n").and_then(|n| n.as_i64()).and_then(|n| u32::try_from(n).ok());
        let n = n.ok_or_else(|| garbage(kind, "it does not say how many documents were written"))?;
        let mut rejects = self.rejected(reply, kind)?;
        self.documents += n;
        self.rejects.append(&mut rejects);
        self.answered = true;
        if let Some((message, items)) = self.later.pop() {
            *builder.out = message;
            self.items = items;
            return Ok(None);
        }
        Ok(Some(self.reply()))
    }

    /// The items of the message under way that the server names.
    fn rejected(&self, reply: Members<'_>, kind: OpKind) -> Result<Vec<Reject>, OpError> {
        let mut rejects = Vec::new();
        for error in reply.get("writeErrors").and_then(|value| value.members()).into_iter().flatten() {
            let error = error.ok().and_then(|(_, value)| value.members());
            let error = error.ok_or_else(|| garbage(kind, "an error that is none"))?;
            let position = error.get("index").and_then(|index| index.as_i64()).and_then(|i| usize::try_from(i).ok());
            let item = position.and_then(|position| self.items.get(position));
            let item = item.ok_or_else(|| garbage(kind, "an error of an item that there is not"))?;
            rejects.push(Reject { item: *item as usize, error: Told::of(error).operation(kind) });
        }
        Ok(rejects)
    }

    /// Ends it: the message under way was written, but not acknowledged as it was asked for.
    pub(super) fn unacknowledged(
        &mut self,
        reply: Members<'_>,
        kind: OpKind,
        error: OpError,
    ) -> Result<OwnedReply, OpError> {
        let own = self.rejected(reply, kind).unwrap_or_default();
        self.end(error, own)
    }

    /// Ends it: of the message under way this is all that is known.
    pub(super) fn broken_off(&mut self, error: OpError) -> Result<OwnedReply, OpError> {
        self.end(error, Vec::new())
    }

    /// Ends it: `own` are the items of the message under way that have errors of their own.
    fn end(&mut self, error: OpError, mut own: Vec<Reject>) -> Result<OwnedReply, OpError> {
        // One message, or none that can have done anything: the error is that of the whole.
        let nothing_done = self.later.is_empty() || error.kind == ErrorKind::Temporary;
        if !self.answered && nothing_done {
            return Err(error);
        }
        // Refused together: one of them may be the reason, so they are to be sent again by themselves.
        let error = match error.kind {
            ErrorKind::Refused if self.items.len() > 1 => {
                let text = format!("refused together with other documents of one message: {}", error.message);
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

    /// What all messages came to.
    pub(super) fn reply(&mut self) -> OwnedReply {
        OwnedReply::documents(self.documents).rejects(std::mem::take(&mut self.rejects))
    }
}
