//! Whether stores answered the same queries alike.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use crate::{QueryAnswer, QueryAnswers, RunResult, TrialResult};

/// How many answers of each query are compared.
pub const COMPARED_ANSWERS: usize = 20;

/// An answer that differs from what another configuration answered to the same query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferentAnswer {
    /// The configuration that answered later.
    pub configuration: String,
    /// What differs from which other configuration, in one sentence.
    pub text: String,
}

/// What two trials with the same documents and factors answered to one query.
struct Pair<'a> {
    first: &'a TrialResult,
    second: &'a TrialResult,
    /// Of the first and of the second trial.
    answers: (&'a QueryAnswers, &'a QueryAnswers),
}

/// Each trial's answers, with those of the first trial that ran the same query on the same documents.
fn pairs(result: &RunResult) -> Vec<Pair<'_>> {
    let alike = |a: &TrialResult, b: &TrialResult| a.values == b.values && a.documents == b.documents;
    let mut all = Vec::new();
    for (at, second) in result.trials.iter().enumerate() {
        for of_second in &second.answers {
            let same = |query: &&QueryAnswers| query.phase == of_second.phase && query.query == of_second.query;
            let earlier = result.trials[..at].iter().filter(|first| alike(first, second));
            let found = earlier.filter_map(|first| Some((first, first.answers.iter().find(same)?))).next();
            if let Some((first, of_first)) = found {
                all.push(Pair { first, second, answers: (of_first, of_second) });
            }
        }
    }
    all
}

/// A query whose answers were compared.
pub(crate) struct Compared {
    /// Its name.
    pub(crate) query: String,
    /// How many configurations answered it.
    pub(crate) configurations: usize,
    /// Whether any answer had a row.
    pub(crate) has_rows: bool,
}

/// The queries whose answers were compared.
pub(crate) fn compared(result: &RunResult) -> Vec<Compared> {
    let mut all: IndexMap<(&str, &str), (BTreeSet<&str>, bool)> = IndexMap::new();
    for Pair { first, second, answers: (of_first, of_second) } in pairs(result) {
        let of_query = all.entry((&of_first.phase, &of_first.query)).or_default();
        of_query.0.extend([first.configuration.as_str(), second.configuration.as_str()]);
        of_query.1 |= of_first.answers.iter().chain(&of_second.answers).any(|answer| answer.rows > 0);
    }
    all.into_iter()
        .map(|((_, query), (configurations, has_rows))| Compared {
            query: query.to_owned(),
            configurations: configurations.len(),
            has_rows,
        })
        .collect()
}

/// Every difference between what configurations with the same documents answered: the first one of each query and each
/// two configurations.
pub fn different_answers(result: &RunResult) -> Vec<DifferentAnswer> {
    let mut all = Vec::new();
    for Pair { first, second, answers: (of_first, of_second) } in pairs(result) {
        let both = of_first.answers.iter().zip(&of_second.answers);
        let differing: Vec<_> = both.filter_map(|(a, b)| difference(a, b, of_first.ordered, first, second)).collect();
        let Some(text) = differing.first() else { continue };
        all.push(DifferentAnswer {
            configuration: second.configuration.clone(),
            text: format!(
                "`{}` has other answers on {} than on {} ({} of {}): {text}",
                of_first.query,
                second.configuration,
                first.configuration,
                differing.len(),
                of_first.answers.len()
            ),
        });
    }
    all
}

/// How two answers differ.
fn difference(
    a: &QueryAnswer,
    b: &QueryAnswer,
    ordered: bool,
    first: &TrialResult,
    second: &TrialResult,
) -> Option<String> {
    let (first, second) = (&first.configuration, &second.configuration);
    // Documents that already exist are sampled, so values may differ.
    if a.values != b.values || a.hash == b.hash && (!ordered || a.ordered_hash == b.ordered_hash) {
        return None;
    }
    let values: Vec<String> = a.values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let with = if values.is_empty() { String::new() } else { format!("with {}, ", values.join(", ")) };
    if a.hash == b.hash {
        return Some(format!("{with}the rows have another order"));
    }
    let only = |these: &QueryAnswer, those: &QueryAnswer| {
        // Only complete lists tell what is missing.
        let complete = those.rows as usize == those.first.len();
        let missing = these.first.iter().find(|row| !those.first.iter().any(|other| other.hash == row.hash));
        missing.filter(|_| complete).map(|row| row.text.clone())
    };
    let mut text = format!("{with}{first} has {} rows and {second} {}", a.rows, b.rows);
    if let Some(row) = only(a, b) {
        text += &format!("; only on {first}: {row}");
    }
    if let Some(row) = only(b, a) {
        text += &format!("; only on {second}: {row}");
    }
    Some(text)
}
