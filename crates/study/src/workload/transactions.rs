//! Transactions: their steps, and operations of a mix with the steps of its transactions.

use super::check::{Problems, collection_named, no_such};
use super::mix::{Draw, MixEntry};
use super::phases::Phase;
use super::queries::Language;
use super::study::Study;
use crate::op_kind::OpKind;

/// The most steps of a transaction.
const MOST_STEPS: usize = 100;

/// What a step may do.
const STEPS: [OpKind; 6] =
    [OpKind::Read, OpKind::Insert, OpKind::Upsert, OpKind::Replace, OpKind::Delete, OpKind::Query];

/// An operation of a mix, or a step of one of its transactions.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// Its name in the mix, or in the steps.
    pub name: &'a str,
    /// What it does.
    pub entry: &'a MixEntry,
    /// For a step: the name of its transaction, and the transaction.
    pub within: Option<(&'a str, &'a MixEntry)>,
}

impl<'a> Operation<'a> {
    /// The single operation, even if `batch` makes it a bulk operation.
    pub fn single(&self) -> Option<OpKind> {
        self.entry.single(self.name)
    }

    /// What it does, in bulk or not.
    pub fn kind(&self) -> Option<OpKind> {
        self.entry.kind(self.name)
    }

    /// Whether it may change what is stored: a transaction, if one of its steps does.
    pub fn writes(&self) -> bool {
        match self.kind() {
            Some(OpKind::Transaction) => {
                self.entry.steps.iter().any(|(name, step)| step.single(name).is_some_and(OpKind::writes))
            }
            kind => kind.is_some_and(OpKind::writes),
        }
    }

    /// Takes problems with it, within its phase.
    pub(super) fn place<'p>(&self, phase: &'p mut Problems<'_>) -> Problems<'p> {
        match self.within {
            None => phase.within(&["mix", self.name]),
            Some((transaction, _)) => phase.within(&["mix", transaction, "steps", self.name]),
        }
    }

    /// The collection that it works on, if that is unambiguous. A step has its transaction's, unless it names one.
    pub fn collection(&self, study: &'a Study, phase: &'a Phase) -> Option<&'a str> {
        let of_transaction = || self.within.and_then(|(_, transaction)| transaction.collection.as_ref());
        let named = self.entry.collection.as_ref().or_else(of_transaction).or(phase.collection.as_ref());
        // A transaction has that of its first step, if nothing else says which.
        let first = || self.entry.steps.values().next().and_then(|step| step.collection.as_ref());
        collection_named(study, named.or_else(first).filter(|_| named.is_some() || study.collections.len() > 1))
    }
}

impl Phase {
    /// The operations of its mix, each transaction before its steps.
    pub fn operations_of_mix(&self) -> impl Iterator<Item = Operation<'_>> + Clone {
        self.mix.iter().flat_map(|(name, entry)| {
            let steps = entry.steps.iter().map(move |(step, of)| Operation {
                name: step.as_str(),
                entry: of,
                within: Some((name.as_str(), entry)),
            });
            std::iter::once(Operation { name, entry, within: None }).chain(steps)
        })
    }

    /// Whether its mix has a transaction that is done on stores of this language; without one, whether it has any.
    pub fn has_transactions_on(&self, language: Option<Language>) -> bool {
        let is_done = |entry: &MixEntry| !entry.is_left_out_on(language);
        self.mix.iter().any(|(name, entry)| entry.kind(name) == Some(OpKind::Transaction) && is_done(entry))
    }
}

/// The step that draws the document of a step.
fn drawer<'a>(transaction: &'a MixEntry, mut name: &'a str) -> &'a str {
    for _ in 0..transaction.steps.len() {
        match transaction.steps.get(name).and_then(|step| step.same_as.as_deref()) {
            Some(earlier) => name = earlier,
            None => break,
        }
    }
    name
}

/// Finds what is wrong with an entry as a transaction. The steps themselves are checked as other operations are.
pub(super) fn check(study: &Study, phase: &Phase, operation: Operation<'_>, kind: OpKind, problems: &mut Problems<'_>) {
    let mut say = |key: &[&str], why: String| problems.say(key, why);
    let entry = operation.entry;
    if kind != OpKind::Transaction {
        for (key, given) in [("steps", !entry.steps.is_empty()), ("rollback", entry.rollback != 0.0)] {
            if given {
                say(&[key], format!("`{key}` has no meaning for {kind}; it needs op = \"transaction\""));
            }
        }
        if entry.same_as.is_some() && operation.within.is_none() {
            say(&["same_as"], "`same_as` is for steps of a transaction; remove it".into());
        }
        return;
    }
    if entry.steps.is_empty() || entry.steps.len() > MOST_STEPS {
        say(
            &[],
            format!("a transaction has 1 to {MOST_STEPS} steps; write steps = {{ look = {{ op = \"read\" }}, … }}"),
        );
    }
    if !(0.0..=1.0).contains(&entry.rollback) {
        say(&["rollback"], format!("invalid share {}; use 0 to 1", entry.rollback));
    }
    if entry.draw != Draw::Documents {
        say(&["draw"], "each step draws its own document; put `draw` into the steps".into());
    }
    let mut written = Vec::new();
    for (position, (name, step)) in entry.steps.iter().enumerate() {
        let Some(op) = step.single(name) else { continue };
        if !STEPS.contains(&op) || step.batch.is_some() {
            let known = STEPS.map(OpKind::name).join(", ");
            say(&["steps", name], format!("a step is one of {known}, each of one document; put {op} into the mix"));
        }
        if step.weight != 1.0 {
            say(&["steps", name, "weight"], "each step is done once; remove `weight`, or write the step again".into());
        }
        if op.writes() {
            let of = drawer(entry, name);
            if phase.ledger.is_kept() && entry.steps.get(of).is_some_and(|step| step.draw != Draw::Documents) {
                let why = "with a ledger each key has one writer, which owns documents and not parents; remove `draw` of \
                           the step that draws this document, or `ledger`";
                say(&["steps", name], why.into());
            }
            if phase.ledger.is_kept() && written.contains(&of) {
                let why = "with a ledger, a transaction writes each document once; remove this step or `ledger`";
                say(&["steps", name], why.into());
            }
            written.push(of);
        }
        if op.inserts() && entry.rollback > 0.0 {
            let why = "later operations would look for documents whose insert was rolled back; use upsert, or remove \
                       `rollback`";
            say(&["steps", name], why.into());
        }
        if step.text.values().any(|text| text == &serde_json::Value::Bool(false)) {
            let why = "a step cannot be left out on a store; put the query into the mix, or give it a text";
            say(&["steps", name, "text"], why.into());
        }
        if !step.not_on.is_empty() {
            say(&["steps", name, "not_on"], "a step cannot be left out on a store; leave out the transaction".into());
        }
        if step.same_on.is_some() {
            let why =
                "answers are compared outside of transactions; put the query into the mix too, and `same_on` there";
            say(&["steps", name, "same_on"], why.into());
        }
        let Some(same) = &step.same_as else { continue };
        let mut earlier = entry.steps.iter().take(position);
        let at = ["steps", name.as_str(), "same_as"];
        let Some((_, of)) = earlier.clone().find(|(name, _)| *name == same) else {
            let names: Vec<&str> = earlier.by_ref().map(|(name, _)| name.as_str()).collect();
            say(
                &at,
                match names.is_empty() {
                    true => "the first step has no earlier one whose document it could use; remove `same_as`".into(),
                    false => no_such("earlier step", same, names),
                },
            );
            continue;
        };
        let in_step = |name, entry| Operation { name, entry, within: Some((operation.name, operation.entry)) };
        let collection = |name, entry| in_step(name, entry).collection(study, phase);
        if op.inserts() {
            say(&at, "an insert makes a new document; remove `same_as`, or use upsert".into());
        } else if step.draw != Draw::Documents {
            say(&at, "the document is that of another step, so none is drawn; remove `draw`".into());
        } else if collection(name.as_str(), step) != collection(same.as_str(), of) {
            say(&at, format!("`{same}` works on another collection; name a step of the same one"));
        }
    }
}
