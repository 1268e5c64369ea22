//! Whether what operations found is what they should have found.

use super::clock::Clock;
use super::maker::Task;
use super::slots::{EXAMPLES, Operations};
use crate::measure::Tally;
use crate::store::{ErrorKind, OpKind, Reply};
use storebench_documents::Documents;
use storebench_study::workload::RowCount;

/// The key of a document, for messages.
pub(super) fn key_text(documents: &Documents, index: u64) -> String {
    let mut key = Vec::new();
    documents.write_key(index, &mut key);
    String::from_utf8_lossy(&key).into_owned()
}

impl<C: Clock> Operations<C> {
    /// Counts an answer with a number of rows that the study does not allow.
    #[cold]
    pub(super) fn wrong_rows(&mut self, task: Task, found: u32, allowed: RowCount) {
        let label = &self.plan.recipe(task.recipe).label;
        if self.wrong_examples.len() < EXAMPLES {
            let key = key_text(self.catalog.get(label.collection), task.index);
            self.wrong_examples
                .push(format!("{}, with values of {key}: {found} rows, but the study expects {allowed}", label.name));
        }
    }

    /// Whether an insert of a trace found its document there already. The log may contain inserts that failed, and the
    /// order between clients may differ from that of the log.
    pub(super) fn is_there_already(&self, slot: usize, error: ErrorKind) -> bool {
        error == ErrorKind::Conflict && self.plan.trace.is_some() && self.kind_of(slot) == OpKind::Insert
    }

    /// 1 if the trace explains a miss of the operation, and 0 otherwise: its document did not exist before the trace, or it
    /// is an insert of one that other operations create, too.
    pub(super) fn is_of_new(&self, slot: usize) -> u64 {
        let Some((trace, _)) = &self.plan.trace else { return 0 };
        let index = self.slots[slot].task.index;
        u64::from(match self.kind_of(slot) {
            OpKind::Insert => trace.may_exist(index),
            _ => index >= trace.keys_before(),
        })
    }

    fn kind_of(&self, slot: usize) -> OpKind {
        self.plan.recipes[self.slots[slot].task.recipe].label.kind
    }

    /// Whether each step of a transaction found its document. Only `rows` says how many a query must find.
    pub(super) fn found_by_steps(&self, slot: usize, found: &[u32]) -> bool {
        let mut steps = self.slots[slot].more.steps.iter().zip(found);
        steps.all(|(step, found)| *found > 0 || self.plan.recipe(step.recipe).label.kind == OpKind::Query)
    }

    /// Counts the queries of a transaction that have a number of rows that the study does not allow.
    pub(super) fn check_rows_of_steps(&mut self, slot: usize, found: &[u32]) {
        let recipe = self.slots[slot].task.recipe;
        for (at, found) in found.iter().enumerate() {
            let Some(step) = self.slots[slot].more.steps.get(at).copied() else { return };
            let Some(rows) = self.plan.recipe(step.recipe).ask.rows() else { continue };
            if !rows.allows((*found).into()) {
                self.recorder.ops[recipe].wrong_rows += 1;
                self.wrong_rows(step, *found, rows);
            }
        }
    }

    /// Compares the documents that were read with the expected ones.
    #[cold]
    pub(super) fn check(&mut self, slot: usize, reply: &Reply<'_>) {
        let task = self.slots[slot].task;
        let recipe = &self.plan.recipes[task.recipe];
        let of_task = self.catalog.get(recipe.label.collection);
        let tally = &mut self.recorder.ops[task.recipe];
        let mut compare = |tally: &mut Tally, examples: &mut Vec<String>, documents: &Documents, index, body: &[u8]| {
            tally.checked += 1;
            if let Err(mismatch) = documents.check(index, body, &mut self.scratch) {
                tally.wrong += 1;
                if examples.len() < EXAMPLES {
                    examples.push(format!("{}: {mismatch}", key_text(documents, index)));
                }
            }
        };
        if let Some(body) = reply.body {
            compare(tally, &mut self.wrong_examples, of_task, task.index, body);
        }
        if !reply.steps.is_empty() {
            let read =
                |(step, found): &(&Task, &u32)| **found > 0 && self.plan.recipe(step.recipe).label.kind == OpKind::Read;
            let read = self.slots[slot].more.steps.iter().zip(reply.steps).filter(read);
            for ((step, _), (_, body)) in read.zip(reply.rows.iter().flat_map(|rows| rows.iter())) {
                let recipe = self.plan.recipe(step.recipe);
                if recipe.checkable {
                    let documents = self.catalog.get(recipe.label.collection);
                    compare(tally, &mut self.wrong_examples, documents, step.index, body);
                }
            }
            return;
        }
        for (_, body) in reply.rows.iter().flat_map(|rows| rows.iter()) {
            // A row with a marker says which document it is. The user's own documents have no marker.
            if let Some((index, _)) = of_task.read_marker(body) {
                compare(tally, &mut self.wrong_examples, of_task, index, body);
            }
        }
    }
}
