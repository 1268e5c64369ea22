//! Transactions of stores that have only conditional writes: all documents are read first, the client does the steps,
//! and all writes are sent at once, on the condition that what was read is unchanged.

use storebench_study::workload::Body;

use super::document::{Effect, effect};
use super::{CollectionId, Op, OpError, OpKind, Reply, Step, StepsFound};

/// A transaction of this kind. It is reused, and keeps its memory.
#[derive(Debug, Default)]
pub struct Optimistic {
    /// The documents that its steps name, each once.
    pub named: Vec<Named>,
    /// The steps, each with the place of its document.
    steps: Vec<(Step, usize)>,
    rolls_back: bool,
    found: StepsFound,
}

/// A document that steps name.
#[derive(Debug, Default)]
pub struct Named {
    /// The collection.
    pub collection: CollectionId,
    /// The key.
    pub key: String,
    /// Whether it must be read: what a step does depends on it, or its transaction is rolled back, for which the store
    /// would otherwise do nothing. A document that is only upserted is written without a condition.
    pub reads: bool,
    /// The revision that was read. `None` if there was no document.
    pub revision: Option<Vec<u8>>,
    /// The document that was read, and later what the steps make of it.
    pub document: Option<Vec<u8>>,
    /// Whether steps changed it.
    pub changed: bool,
}

impl Optimistic {
    /// Starts again. `contents` says whether the documents of reads are wanted.
    pub fn begin(&mut self, steps: &[Step], rolls_back: bool, contents: bool) {
        let Self { named, steps: kept, found, .. } = self;
        self.rolls_back = rolls_back;
        found.begin(contents);
        named.clear();
        kept.clear();
        for step in steps {
            let same = |named: &Named| named.key == step.key && named.collection == step.collection;
            let place = named.iter().position(same).unwrap_or(named.len());
            if place == named.len() {
                named.push(Named { collection: step.collection, key: step.key.clone(), ..Named::default() });
            }
            named[place].reads |= rolls_back || step.kind != Some(OpKind::Upsert);
            kept.push((step.clone(), place));
        }
    }

    /// Does all steps on the documents that were read. Returns whether there is something to write. `body` is the kind
    /// of a collection's documents.
    ///
    /// # Errors
    /// The error of a step that ends it: nothing may be written.
    pub fn run(&mut self, body: impl Fn(CollectionId) -> Body) -> Result<bool, OpError> {
        let mut scratch = Vec::new();
        for (step, place) in &self.steps {
            let (op, named) = (step.request(false)?.op, &mut self.named[*place]);
            let result = match (op, named.document.as_deref()) {
                (Op::Read { .. }, Some(body)) => {
                    Ok(Reply { body: Some(body), bytes: body.len() as u64, ..Reply::written(1) })
                }
                (Op::Read { .. }, None) => Err(OpError::not_found()),
                (op, old) => effect(&op, body(step.collection), old, &mut scratch).map(|effect| {
                    named.document = if let Effect::Put(body) = effect { Some(body.to_vec()) } else { None };
                    named.changed = true;
                    Reply::written(1)
                }),
            };
            self.found.add(op.kind(), result)?;
        }
        // What did not exist and does not exist now needs no write.
        let differs = |named: &Named| named.changed && (named.document.is_some() || named.revision.is_some());
        Ok(!self.rolls_back && self.named.iter().any(differs))
    }

    /// The reply, once everything is written.
    pub fn reply(&self) -> Reply<'_> {
        self.found.reply(self.rolls_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ErrorKind;

    fn run(old: &[u8], steps: &[(OpKind, &str)], rolls_back: bool) -> (Optimistic, Result<bool, OpError>) {
        let step = |(kind, key): &(OpKind, &str)| Step {
            kind: Some(*kind),
            key: (*key).to_owned(),
            body: b"new".to_vec(),
            ..Step::default()
        };
        let mut begun = Optimistic::default();
        begun.begin(&steps.iter().map(step).collect::<Vec<_>>(), rolls_back, true);
        for named in begun.named.iter_mut().filter(|named| named.reads && named.key == "old") {
            (named.revision, named.document) = (Some(b"1".to_vec()), Some(old.to_vec()));
        }
        let result = begun.run(|_| Body::Bytes);
        (begun, result)
    }

    #[test]
    fn a_step_sees_what_earlier_ones_did_and_each_document_is_named_once() {
        use OpKind::{Delete, Insert, Read, Replace, Upsert};
        let all = [
            (Read, "old"),
            (Replace, "old"),
            (Read, "old"),
            (Delete, "old"),
            (Insert, "old"),
            (Upsert, "up"),
            (Read, "no"),
        ];
        let (begun, result) = run(b"before", &all, false);
        assert_eq!(result, Ok(true));
        let reply = begun.reply();
        assert_eq!((reply.steps, reply.documents), (&[1, 1, 1, 1, 1, 1, 0][..], 6));
        let rows: Vec<_> = reply.rows.unwrap().iter().map(|(_, body)| body).collect();
        assert_eq!(rows, [&b"before"[..], b"new"]);
        let named: Vec<_> = begun.named.iter().map(|n| (n.key.as_str(), n.reads, n.changed)).collect();
        assert_eq!(named, [("old", true, true), ("up", false, true), ("no", true, false)]);
        assert_eq!(begun.named[0].document.as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn what_reads_only_fails_or_is_rolled_back_writes_nothing() {
        assert_eq!(run(b"a", &[(OpKind::Read, "old"), (OpKind::Delete, "no")], false).1, Ok(false));
        assert_eq!(run(b"a", &[(OpKind::Insert, "new"), (OpKind::Delete, "new")], false).1, Ok(false));
        assert_eq!(run(b"a", &[(OpKind::Delete, "old"), (OpKind::Delete, "no")], false).1, Ok(true));
        let error = run(b"a", &[(OpKind::Upsert, "new"), (OpKind::Insert, "old")], false).1.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict);
        let (begun, result) = run(b"a", &[(OpKind::Upsert, "new"), (OpKind::Replace, "old")], true);
        assert_eq!((result, begun.reply().documents, begun.reply().steps), (Ok(false), 0, &[1, 1][..]));
        assert!(begun.named.iter().all(|named| named.reads), "what is rolled back costs its reads");
    }
}
