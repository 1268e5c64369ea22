//! Transactions of a study.
//!
//! DynamoDB has none that reads and writes. So, as its applications do, this reads all documents at one moment
//! (`TransactGetItems`), and then sends all writes at once (`TransactWriteItems`), on the condition that every document
//! that was read is unchanged. Otherwise DynamoDB cancels them. A transaction of only reads, or one that is rolled back,
//! ends after its reads. One of only upserts reads nothing.
//!
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html>

use storebench_documents::json;
use storebench_engine::store::document::collection_of;
use storebench_engine::store::{ErrorKind, OpError, Optimistic, Step};

use super::dialect::{
    DynamoDialect, IS_NEW, draw, open, push_condition, push_keyed, push_table, push_unchanged, revision_of,
};
use super::item;
use super::memory::{Awaits, DynamoMemory};
use crate::http::aws::push;
use crate::http::{Answer, Next, RequestBuf, senseless};

impl DynamoDialect {
    /// Starts a transaction.
    pub(super) fn begin_transaction(
        &mut self,
        (steps, rolls_back): (&[Step], bool),
        contents: bool,
        memory: &mut DynamoMemory,
        out: &mut RequestBuf,
    ) -> Result<(), OpError> {
        for step in steps {
            collection_of(&step.request(false)?, &self.tables, self.read_only)?;
        }
        memory.more.transaction.begin(steps, rolls_back, contents);
        if !self.ask_items(Awaits::Transaction, memory, out)? {
            self.run_steps(&mut memory.more.transaction)?;
            self.ask_items(Awaits::Commit, memory, out)?;
        }
        Ok(())
    }

    fn run_steps(&self, begun: &mut Optimistic) -> Result<bool, OpError> {
        begun.run(|collection| self.tables[collection.position()].body())
    }

    /// Handles the answer to a request of a transaction.
    pub(super) fn transaction_answer<'a>(
        &mut self,
        memory: &'a mut DynamoMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        if memory.awaits == Awaits::Commit {
            return match answer.and_then(|answer| self.told(&answer, true, [])) {
                Ok([]) => Ok(Some(memory.more.transaction.reply())),
                // What the server says is about the second request.
                Err(error) if memory.tries > 0 => Err(OpError::new(ErrorKind::OutcomeUnknown, error.message)),
                // DynamoDB knows the request by its token: it does it once, and says whether it was done.
                Err(error) if error.kind == ErrorKind::OutcomeUnknown => {
                    memory.tries += 1;
                    self.signer.sign("TransactWriteItems", out);
                    Ok(None)
                }
                Err(error) => Err(error),
            };
        }
        let answer = answer?;
        let [found] = self.told(&answer, false, [b"Responses"])?;
        let mut found = found.map(json::elements).ok_or_else(|| senseless(&answer, false))?;
        for named in memory.more.transaction.named.iter_mut().filter(|named| named.reads) {
            let found = found.next().ok_or_else(|| senseless(&answer, false))?;
            let Some(found) = json::member(found, "Item") else { continue };
            let document = self.body_of(named.collection.position(), found)?;
            named.document = Some(document.to_vec());
            named.revision = Some(revision_of(found).ok_or_else(|| senseless(&answer, false))?);
        }
        if self.run_steps(&mut memory.more.transaction)? {
            self.ask_items(Awaits::Commit, memory, out)?;
            return Ok(None);
        }
        Ok(Some(memory.more.transaction.reply()))
    }

    /// Requests the documents that must be read, or writes what the steps changed. Returns false if there are none.
    fn ask_items(&mut self, awaits: Awaits, memory: &mut DynamoMemory, out: &mut RequestBuf) -> Result<bool, OpError> {
        let reads = awaits == Awaits::Transaction;
        memory.awaits = awaits;
        draw(&mut self.random, &mut memory.revision);
        let body = open(reads, out);
        if !reads {
            item::push(body, &[b"\"ClientRequestToken\":\"", &memory.revision, b"\","]);
        }
        push(body, &["\"TransactItems\":["]);
        for named in memory.more.transaction.named.iter().filter(|named| named.reads || !reads) {
            let table = &self.tables[named.collection.position()];
            let put = named.document.as_ref().filter(|_| named.changed && !reads);
            let action = match put {
                _ if reads => "Get",
                Some(_) => "Put",
                None if named.changed && named.revision.is_some() => "Delete",
                None => "ConditionCheck",
            };
            let before = if body.ends_with(b"[") { "{\"" } else { ",{\"" };
            push(body, &[before, action, "\":{"]);
            if let Some(document) = put {
                push_table(table, body);
                push(body, &[",\"Item\":"]);
                table.push_item(&named.key, &memory.revision, document, body)?;
            } else {
                push_keyed(table, &named.key, body)?;
            }
            match &named.revision {
                _ if reads || !named.reads => {}
                Some(revision) => push_unchanged(revision, body),
                None => push_condition(table, IS_NEW, body),
            }
            push(body, &["}}"]);
        }
        let some = !body.ends_with(b"[");
        body.push(b']');
        self.send(if reads { "TransactGetItems" } else { "TransactWriteItems" }, out);
        Ok(some)
    }
}
