//! Transactions: the documents of their steps, and their requests.

use std::sync::Arc;

use super::maker::{Brief, Maker, More, TRIES, Task};
use super::plan::PhasePlan;
use super::recipes::{Ask, Transaction};
use super::requests::text;
use crate::store::{CollectionId, Isolation, Op, OpKind, Request, Step};

impl Maker {
    /// A transaction with a document for each of its steps; `None` if no key is left for one of them.
    pub(super) fn transaction(&mut self, at: usize, more: &mut More) -> Option<Task> {
        let plan = Arc::clone(&self.plan);
        let Ask::Transaction(transaction) = &plan.recipes[at].ask else { return None };
        // New documents are drawn last: their numbers cannot be given back.
        self.drawn.clear();
        self.drawn.resize(transaction.same_as.len(), None);
        for inserts in [false, true] {
            for (nth, step) in transaction.steps.clone().enumerate() {
                let at = plan.recipes.len() + step;
                let brief = self.briefs[at];
                if transaction.same_as[nth].is_none() && brief.inserts == inserts {
                    let index = self.draw_step(at, brief, &plan, transaction)?;
                    self.drawn[nth] = Some(index);
                }
            }
        }
        for (nth, step) in transaction.steps.clone().enumerate() {
            let at = plan.recipes.len() + step;
            // Earlier steps are complete.
            let index = match transaction.same_as[nth] {
                Some(earlier) => more.steps[earlier].index,
                None => self.drawn[nth].unwrap_or_default(),
            };
            let task = self.numbered(at, self.briefs[at], index, &[]);
            more.steps.push(task);
            // Each step has its own version and its own values.
            self.made += 1;
        }
        let index = more.steps.first()?.index;
        let mut task = Task { recipe: at, index, documents: 1, ..Task::default() };
        task.rolls_back = self.of_share(transaction.rollback);
        task.check = self.briefs[at].checkable && self.of_share(plan.check);
        Some(task)
    }

    /// The document of a step: another one than those that other steps have drawn, if there is one. With a ledger, a step
    /// that writes gets none if there is not.
    fn draw_step(&mut self, at: usize, brief: Brief, plan: &PhasePlan, of: &Transaction) -> Option<u64> {
        let mut index = self.draw(at, brief)?;
        for _ in 0..TRIES {
            if !self.is_drawn(brief, index, plan, of) {
                return Some(index);
            }
            index = self.draw(at, brief)?;
        }
        if !(brief.owns && self.ledger.is_some()) {
            return Some(index);
        }
        // The popular ones are taken: look through the worker's own keys in order.
        let mut own = (0..brief.count.div_ceil(self.workers)).map(|n| n * self.workers + self.worker);
        let free = |index: &u64| {
            *index < brief.count && self.may_take(brief, *index) && !self.is_drawn(brief, *index, plan, of)
        };
        let found = own.find(free);
        self.exhausted = found.is_none();
        found.inspect(|index| self.touch(brief.collection, *index, 1))
    }

    /// Whether a step of this transaction has drawn the document already.
    fn is_drawn(&self, brief: Brief, index: u64, plan: &PhasePlan, of: &Transaction) -> bool {
        of.steps.clone().zip(&self.drawn).any(|(step, drawn)| {
            *drawn == Some(index) && self.briefs[plan.recipes.len() + step].collection == brief.collection
        })
    }

    /// Writes the request of a transaction into the buffers and borrows it from there.
    pub(super) fn request_of_steps(&mut self, task: &Task, tasks: &[Task]) -> Request<'_> {
        if self.steps.len() < tasks.len() {
            self.steps.resize_with(tasks.len(), Step::default);
        }
        for (step, of) in self.steps.iter_mut().zip(tasks) {
            let recipe = self.plan.recipe(of.recipe);
            let kind = recipe.label.kind;
            let documents = self.catalog.get(recipe.label.collection);
            (step.collection, step.kind) = (CollectionId(recipe.label.collection as u16), Some(kind));
            step.key.clear();
            step.body.clear();
            step.values.clear();
            if let Ask::Query(query) = &recipe.ask {
                if *step.text != *query.text {
                    step.text = query.text.as_str().into();
                }
                step.number = of.recipe as u16;
                query.write_values(documents, of.index, of.number, &mut step.values);
                continue;
            }
            self.key.clear();
            documents.write_key(of.index, &mut self.key);
            step.key.push_str(text(&self.key));
            if kind.writes() && kind != OpKind::Delete {
                documents.write_document(of.index, of.version, &mut step.body);
            }
        }
        let isolation = self.plan.guarantees.isolation.map_or(Isolation::ReadCommitted, |(isolation, _)| isolation);
        let op = Op::Transaction { isolation, steps: &self.steps[..tasks.len()], rolls_back: task.rolls_back };
        Request { collection: self.steps[0].collection, op, contents: task.check }
    }
}

/// For each recipe and then each step, whether its document is written, by itself or by a later step of its transaction.
pub(super) fn owned(plan: &PhasePlan) -> Vec<bool> {
    let mut owned: Vec<bool> = (0..plan.all_recipes()).map(|at| plan.recipe(at).label.kind.writes()).collect();
    for recipe in &plan.recipes {
        let Ask::Transaction(transaction) = &recipe.ask else { continue };
        let first = plan.recipes.len() + transaction.steps.start;
        for (step, same_as) in transaction.same_as.iter().enumerate().rev() {
            if let Some(earlier) = same_as {
                owned[first + earlier] |= owned[first + step];
            }
        }
    }
    owned
}
