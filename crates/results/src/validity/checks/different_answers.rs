//! `different-answers`: do stores answer the same queries alike?

use crate::same_answers::{Compared, compared, different_answers};
use crate::validity::check::{Check, Configurations, Finding, Looks, Severity, some};

pub(super) const CHECK: Check =
    Check::new("different-answers", "stores answer differently", &[Looks::Configurations(look)]).for_the_answer();

/// Whether queries with `same_on`, and replays with `compare_answers`, had the same answers.
fn look(configurations: &Configurations<'_>) -> Vec<Finding> {
    let compared = compared(configurations.result);
    if compared.is_empty() {
        return Vec::new();
    }
    let threshold = "invalid from one answer that differs; caution when there was nothing to compare";
    let different: Vec<String> =
        different_answers(configurations.result).into_iter().map(|difference| difference.text).collect();
    if different.is_empty() {
        let text = |of: &Compared| of.text.clone();
        let empty: Vec<String> = compared.iter().filter(|of| of.nothing).map(text).collect();
        let (severity, observed) = match empty[..] {
            [] => (Severity::Pass, compared.iter().map(text).collect()),
            _ => (Severity::Caution, empty),
        };
        let advice = "nothing was compared: check the text of the query, and that its documents are loaded before the first \
                      mix; replay a trace on two stores, with `workers`, `connections` and `in_flight` of 1 if several \
                      clients write each document";
        return vec![Finding::new(severity, some(&observed), threshold, advice)];
    }
    vec![Finding::new(
        Severity::Invalid,
        some(&different),
        threshold,
        "these stores do different work, so do not compare them: make the texts of the query ask for the same rows, or \
         find out which store is wrong (its own messages, and reading these documents by hand, help)",
    )]
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, INVALID, PASS, all, closed, severity};
    use crate::{AnswerRow, QueryAnswer, QueryAnswers, ReplayAnswers, RunResult};

    fn answer(rows: &[&str]) -> QueryAnswer {
        let first: Vec<AnswerRow> =
            rows.iter().map(|row| AnswerRow { hash: (*row).to_owned(), text: format!("{{{row}}}") }).collect();
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        QueryAnswer {
            values: [("city".to_owned(), "Lima".into())].into_iter().collect(),
            rows: rows.len() as u64,
            hash: sorted.join(","),
            ordered_hash: rows.join(","),
            first,
        }
    }

    /// A run of two stores with these answers.
    fn run(ordered: bool, first: &[&str], second: &[&str]) -> RunResult {
        let mut result = closed(|_| ());
        let mut trial = result.trials[0].clone();
        (trial.trial, trial.configuration) = (2, "postgres".into());
        result.trials[0].configuration = "sqlite".into();
        result.trials.push(trial);
        for (trial, rows) in result.trials.iter_mut().zip([first, second]) {
            let answers = vec![answer(&["same"]), answer(rows)];
            trial.answers = vec![QueryAnswers { phase: "mix".into(), query: "top".into(), ordered, answers }];
        }
        result
    }

    #[test]
    fn answers_that_differ() {
        assert_eq!(severity(&closed(|_| ()), "different-answers"), None);
        let alike = run(false, &["a", "b"], &["b", "a"]);
        assert_eq!(severity(&alike, "different-answers"), PASS);
        assert_eq!(all(&alike, "different-answers")[0].observed, "`top` has the same answers on 2 configurations");
        assert_eq!(severity(&run(true, &["a", "b"], &["b", "a"]), "different-answers"), INVALID);
        let different = run(false, &["a", "b"], &["a", "c"]);
        assert_eq!(severity(&different, "different-answers"), INVALID);
        assert_eq!(
            all(&different, "different-answers")[0].observed,
            "`top` has other answers on postgres than on sqlite (1 of 2): with city = \"Lima\", sqlite has 2 rows and \
             postgres 2; only on sqlite: {b}; only on postgres: {c}"
        );
    }

    #[test]
    fn answers_without_rows_and_to_other_values_show_nothing() {
        let mut result = run(false, &["a"], &["b"]);
        result.trials[0].answers[0].answers[1].values.insert("city".into(), "Oslo".into());
        assert_eq!(severity(&result, "different-answers"), PASS);
        for trial in &mut result.trials {
            trial.answers[0].answers.iter_mut().for_each(|answer| answer.rows = 0);
        }
        assert_eq!(severity(&result, "different-answers"), CAUTION);
    }

    /// Trials that replayed a trace: the configuration, and the hash of its answers unless the trial failed.
    fn replays(trials: &[(&str, Option<&str>)]) -> RunResult {
        let mut result = closed(|_| ());
        let one = result.trials.remove(0);
        for (number, (configuration, hash)) in (1..).zip(trials) {
            let mut trial = one.clone();
            (trial.trial, trial.configuration) = (number, (*configuration).to_owned());
            let answers = |hash: &&str| ReplayAnswers { compared: 9, hash: (*hash).to_owned(), ..Default::default() };
            trial.phases[0].answers = hash.as_ref().map(answers);
            result.trials.push(trial);
        }
        result
    }

    #[test]
    fn replays_are_compared_with_the_first_other_configuration() {
        let observed = |trials: &[(&str, Option<&str>)]| {
            let found = all(&replays(trials), "different-answers");
            (found[0].severity, found[0].observed.clone())
        };
        let (severity, text) = observed(&[("a", Some("1")), ("b", Some("1")), ("a", None), ("b", None)]);
        assert_eq!((Some(severity), text.contains("9 operations of `")), (PASS, true), "{text}");
        // Only the hashes are known if the run was resumed in between.
        let (severity, text) = observed(&[("a", Some("1")), ("b", Some("2"))]);
        assert_eq!((Some(severity), text.contains("run both at once")), (INVALID, true), "{text}");
        // The first trial of b failed before its replay.
        let (severity, text) = observed(&[("b", None), ("a", Some("1")), ("b", Some("2"))]);
        assert_eq!((Some(severity), text.contains("on b than on a")), (INVALID, true), "{text}");
        let (severity, text) = observed(&[("a", Some("1")), ("a", None)]);
        assert_eq!((Some(severity), text.contains("on one configuration only")), (CAUTION, true), "{text}");
    }

    #[test]
    fn other_documents_and_other_factors_are_not_compared() {
        let mut result = run(false, &["a"], &["b"]);
        result.trials[1].documents.insert("docs".into(), 1);
        assert_eq!(severity(&result, "different-answers"), None);
        let mut result = run(false, &["a"], &["b"]);
        result.trials[1].values.insert("phases.mix.workers".into(), 2.into());
        assert_eq!(severity(&result, "different-answers"), None);
    }
}
