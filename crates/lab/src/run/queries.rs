//! Queries of a phase: their first try, their plans, and whether stores answer them alike.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use storebench_documents::Catalog;
use storebench_engine::store::{ErrorKind, Op, Request, SessionOptions, StoreError};
use storebench_engine::{Ask, Caller, PhasePlan, canonical, example_requests, explain_queries};
use storebench_results::{
    AnswerRow, COMPARED_ANSWERS, QueryAnswer, QueryAnswers, QueryPlanResult, RunResult, different_answers,
};
use xxhash_rust::xxh3::xxh3_64;

use super::indexes::before_which;
use super::observe::Journal;
use super::runner::{Configuration, RunState};

/// Maximum length of a stored query plan, in characters.
const QUERY_PLAN_CHARS: usize = 8_000;
/// The maximum number of rows that are kept of an answer.
const ROWS: usize = 100;
/// The maximum length of a row that is kept, in characters.
const ROW_CHARS: usize = 120;
/// How long one answer may take, at least.
const WITHIN: Duration = Duration::from_secs(60);

impl RunState<'_> {
    /// Tries each query, so that it cannot write.
    ///
    /// # Errors
    /// [`StoreError::NotSupported`] if the store refuses a query, or if it may write. Names the phase and the query.
    pub(super) fn try_queries(&self, configuration: &Configuration) -> Result<(), StoreError> {
        let (catalog, seed) = (self.catalog(configuration), configuration.study().seed);
        for plan in configuration.operations() {
            for at in 0..plan.all_recipes() {
                let recipe = plan.recipe(at);
                if !matches!(recipe.ask, Ask::Query(_)) {
                    continue;
                }
                let mut tried = Ok(());
                example_requests(plan, &catalog, seed, at, 1, &mut |request| {
                    tried = configuration.store.try_query(request);
                });
                let name = |why: String| format!("phase `{}`: `{}`: {why}", plan.name, recipe.label.name);
                tried.map_err(|error| error.map_text(name))?;
            }
        }
        Ok(())
    }

    /// The store's plans for the queries of a phase, now that the documents are loaded. If a store cannot explain a
    /// query, that is noted; it does not affect the measurement.
    pub(super) fn query_plans(
        &self,
        configuration: &Configuration,
        plan: &PhasePlan,
        catalog: &Arc<Catalog>,
        journal: &mut Journal<'_>,
    ) -> Vec<Option<QueryPlanResult>> {
        let mut plans = vec![None; plan.recipes.len()];
        for (at, told) in explain_queries(&*configuration.store, plan, catalog, configuration.study().seed) {
            let recipe = plan.recipe(at);
            // A transaction shows the plan of a step that scans, or else of its last query.
            let shown = plan.of_step(at).unwrap_or(at);
            match told {
                Ok(_) if plans[shown].as_ref().is_some_and(|known: &QueryPlanResult| known.full_scan) => {}
                Ok(told) => {
                    plans[shown] = told.map(|told| QueryPlanResult {
                        field: recipe.ask.field().map(str::to_owned),
                        plan: told.plan.chars().take(QUERY_PLAN_CHARS).collect(),
                        full_scan: told.full_scan,
                    });
                }
                Err(error) => journal.note(format!(
                    "{} could not explain `{}` of {}: {error}",
                    configuration.name, recipe.label.name, plan.name
                )),
            }
        }
        plans
    }

    /// Before the first phase with a mix: builds the study's indexes, tries the queries on the loaded documents, records
    /// what those with `same_on` answer, and says how that differs from what other stores answered. The answers are those
    /// of the first trial of each configuration.
    pub(super) fn before_mixes(
        &mut self,
        configuration: &Configuration,
        position: usize,
        at: usize,
        result: &mut RunResult,
        journal: &mut Journal<'_>,
    ) -> Result<(), StoreError> {
        let study = configuration.study();
        let built = before_which(study) == Some(position);
        if built {
            self.build_indexes(configuration, at, result, journal)?;
        }
        let first_mix = study.phases.iter().position(|phase| phase.asks());
        let indexed = built && configuration.indexes().is_ok_and(|all| !all.is_empty());
        if self.stop.asked() || !(indexed || first_mix == Some(position)) {
            return Ok(());
        }
        // Some queries would write only if there are documents.
        self.try_queries(configuration)?;
        let known = result.trials[..at]
            .iter()
            .any(|trial| trial.configuration == configuration.name && !trial.answers.is_empty());
        if known {
            return Ok(());
        }
        let catalog = self.catalog(configuration);
        let mut answers = Vec::new();
        for plan in configuration.operations() {
            answers.extend(self.answers(configuration, plan, &catalog)?);
        }
        result.trials[at].answers = answers;
        for difference in different_answers(result) {
            if difference.configuration == configuration.name {
                journal.note(difference.text);
            }
        }
        Ok(())
    }

    /// What the queries of a phase with `same_on` answer.
    fn answers(
        &self,
        configuration: &Configuration,
        plan: &PhasePlan,
        catalog: &Arc<Catalog>,
    ) -> Result<Vec<QueryAnswers>, StoreError> {
        let compared: Vec<usize> = (0..plan.recipes.len())
            .filter(|at| {
                let entry = plan.mix.get(&plan.recipes[*at].label.name);
                let same_on = entry.and_then(|entry| entry.same_on.as_ref());
                same_on.zip(configuration.capabilities.language).is_some_and(|(on, language)| on.includes(language))
            })
            .collect();
        if compared.is_empty() {
            return Ok(Vec::new());
        }
        let within = WITHIN.max(Duration::from_nanos(plan.timeout_ns));
        // Stale answers would differ without a fault.
        let consistency = configuration.capabilities.default_consistency();
        let options =
            SessionOptions { consistency, timeout: within, in_flight: 1, ..plan.session_options(&self.clock) };
        let mut caller = Caller::open(&*configuration.store, &options)?;
        let mut all = Vec::new();
        for at in compared {
            let label = &plan.recipes[at].label;
            let own = configuration.capabilities.own_members;
            let (mut answers, mut failed) = (Vec::new(), None);
            let seed = configuration.study().seed;
            let begun = Instant::now();
            example_requests(plan, catalog, seed, at, COMPARED_ANSWERS, &mut |request| {
                while failed.is_none() && !self.stop.asked() {
                    let mut again = false;
                    caller.call(&Request { contents: true, ..*request }, |result| match result {
                        Ok(reply) => {
                            let rows = reply.rows.unwrap_or_default();
                            answers.push(answer(request, rows.iter().map(|(_, row)| row), own));
                        }
                        Err(error) if error.kind == ErrorKind::Temporary && begun.elapsed() < within => again = true,
                        Err(error) => failed = Some(error),
                    });
                    if !again {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
            if let Some(error) = failed {
                return Err(StoreError::Failed(format!(
                    "`{}` of {} failed when its answers were to be compared: {error}",
                    label.name, plan.name
                )));
            }
            let ordered = plan.mix.get(&label.name).is_some_and(|entry| entry.same_order);
            all.push(QueryAnswers { phase: plan.name.clone(), query: label.name.clone(), ordered, answers });
        }
        Ok(all)
    }
}

/// An answer in a form that does not depend on the store.
fn answer<'a>(request: &Request<'_>, rows: impl Iterator<Item = &'a [u8]>, own: &[&str]) -> QueryAnswer {
    let mut values = IndexMap::new();
    if let Op::Query { values: given, .. } = request.op {
        let value = |json: &[u8]| serde_json::from_slice(json).unwrap_or_default();
        values.extend(given.iter().map(|(name, json)| (name.to_owned(), value(json))));
    }
    let mut answer = QueryAnswer { values, ..QueryAnswer::default() };
    // A sum does not depend on the order.
    let (mut sum, mut chain) = (0u64, 0u64);
    for row in rows {
        let text = canonical(row, own, false);
        let hash = xxh3_64(text.as_bytes());
        sum = sum.wrapping_add(hash);
        chain = xxh3_64(&[chain.to_le_bytes(), hash.to_le_bytes()].concat());
        if answer.first.len() < ROWS {
            let text = text.chars().take(ROW_CHARS).collect();
            answer.first.push(AnswerRow { hash: format!("{hash:016x}"), text });
        }
        answer.rows += 1;
    }
    (answer.hash, answer.ordered_hash) = (format!("{sum:016x}"), format!("{chain:016x}"));
    answer
}

#[cfg(test)]
mod tests {
    use storebench_engine::store::{Batch, CollectionId};

    use super::*;

    fn of(rows: &[&str]) -> QueryAnswer {
        let op = Op::Query { number: 0, text: "", values: Batch::default() };
        let request = Request { collection: CollectionId(0), op, contents: true };
        answer(&request, rows.iter().map(|row| row.as_bytes()), &["id"])
    }

    #[test]
    fn answers_are_alike_if_only_the_form_differs() {
        let first = of(&[r#"{"a":4,"b":[1.5,"x"],"_id":"k"}"#, r#"{"a":5}"#]);
        let second = of(&[r#"{"b": [1.50, "x"], "@metadata": {}, "id": 7, "a": 4.0}"#, r#"{"a":5}"#]);
        assert_eq!((&first.hash, &first.ordered_hash), (&second.hash, &second.ordered_hash));
        assert_eq!(first.first[0].text, r#"{"a":4,"b":[1.5e0,"x"]}"#);
        for (a, b) in [
            ("3.6666666666666667", "3.66666666666666651864"),
            ("100.0", "100.00000000000001"),
            ("100", "99.99999999999999"),
            ("9007199254740993", "9.007199254740992e15"),
            ("-0.0", "0"),
            (r#"{"doc":"{\"b\":1,\"a\":[2]}"}"#, r#"{"doc":{"a":[2],"b":1.0}}"#),
        ] {
            assert_eq!(of(&[a]).hash, of(&[b]).hash, "{a} {b}");
        }
        let turned = of(&[r#"{"a":5}"#, r#"{"a":4,"b":[1.5,"x"]}"#]);
        assert_eq!(turned.hash, first.hash);
        assert_ne!(turned.ordered_hash, first.ordered_hash);
    }

    #[test]
    fn answers_differ_if_a_row_does() {
        let all = [&[r#"{"a":4}"#][..], &[r#"{"a":"4"}"#], &[], &[r#"{"a":4}"#; 2], &[r#"{"a":4.0001}"#], &["null"]];
        for (i, first) in all.iter().enumerate() {
            for second in &all[i + 1..] {
                assert_ne!(of(first).hash, of(second).hash, "{first:?} {second:?}");
            }
        }
    }
}
