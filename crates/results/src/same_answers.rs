//! Whether stores answered the same queries alike.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use crate::human::count;
use crate::{QueryAnswer, QueryAnswers, ReplayAnswers, RunResult, TrialResult};

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

/// Whether the answers of two trials should be the same.
fn alike(a: &TrialResult, b: &TrialResult) -> bool {
    a.values == b.values && a.documents == b.documents
}

/// The first trial whose answers to the operations of a trace can be compared with those of `second`, and those answers.
/// Its configuration is another one.
pub fn replayed_before<'a>(
    trials: &'a [TrialResult],
    second: &TrialResult,
    phase: &str,
) -> Option<(&'a TrialResult, &'a ReplayAnswers)> {
    let earlier = trials.iter().take_while(|first| first.trial != second.trial);
    let others = earlier.filter(|first| first.configuration != second.configuration);
    let answers = |first: &'a TrialResult| first.phases.iter().find(|of| of.name == phase)?.answers.as_ref();
    others.filter(|first| alike(first, second)).filter_map(|first| Some((first, answers(first)?))).next()
}

/// The replays of a run whose answers were recorded, each with those to compare them with.
fn replays(
    result: &RunResult,
) -> impl Iterator<Item = (&TrialResult, &str, &ReplayAnswers, Option<(&TrialResult, &ReplayAnswers)>)> {
    result.trials.iter().flat_map(move |trial| {
        trial.phases.iter().filter_map(move |phase| {
            let answers = phase.answers.as_ref()?;
            Some((trial, phase.name.as_str(), answers, replayed_before(&result.trials, trial, &phase.name)))
        })
    })
}

/// Each trial's answers, with those of the first trial that ran the same query on the same documents.
fn pairs(result: &RunResult) -> Vec<Pair<'_>> {
    let mut all = Vec::new();
    for (at, second) in result.trials.iter().enumerate() {
        for of_second in &second.answers {
            let same = |query: &&QueryAnswers| query.phase == of_second.phase && query.query == of_second.query;
            let earlier = result.trials[..at].iter().filter(|first| alike(first, second));
            let found = earlier.filter_map(|first| Some((first, first.answers.iter().find(same)?))).next();
            all.extend(found.map(|(first, of_first)| Pair { first, second, answers: (of_first, of_second) }));
        }
    }
    all
}

/// A query or a replay whose answers were compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compared {
    /// What was compared, in one sentence.
    pub(crate) text: String,
    /// Whether there was nothing to compare.
    pub(crate) nothing: bool,
}

/// What was compared.
pub(crate) fn compared(result: &RunResult) -> Vec<Compared> {
    queries(result).into_iter().chain(replayed(result)).collect()
}

fn replayed(result: &RunResult) -> Vec<Compared> {
    // Configurations with the same values of factors are compared with each other.
    let mut all: IndexMap<(&str, String), (BTreeSet<&str>, &ReplayAnswers)> = IndexMap::new();
    for (trial, phase, answers, before) in replays(result) {
        let values = serde_json::to_string(&trial.values).unwrap_or_default();
        let (configurations, _) = all.entry((phase, values)).or_insert_with(|| (BTreeSet::new(), answers));
        if let Some((first, _)) = before {
            configurations.extend([first.configuration.as_str(), trial.configuration.as_str()]);
        }
    }
    all.into_iter()
        .map(|((phase, _), (configurations, answers))| {
            let left_out = match answers.left_out {
                0 => String::new(),
                n => {
                    format!("; {} on documents that several clients use and one writes could not be compared", count(n))
                }
            };
            match configurations.len() {
                0 => Compared {
                    text: format!(
                        "`{phase}` was replayed on one configuration only with these documents and values, so there is \
                         nothing to compare with"
                    ),
                    nothing: true,
                },
                n => Compared {
                    text: format!(
                        "{} operations of `{phase}` have the same answers on {n} configurations{left_out}",
                        count(answers.compared)
                    ),
                    nothing: answers.compared == 0,
                },
            }
        })
        .collect()
}

/// The queries whose answers were compared.
fn queries(result: &RunResult) -> Vec<Compared> {
    let mut all: IndexMap<(&str, &str), (BTreeSet<&str>, bool)> = IndexMap::new();
    for Pair { first, second, answers: (of_first, of_second) } in pairs(result) {
        let of_query = all.entry((&of_first.phase, &of_first.query)).or_default();
        of_query.0.extend([first.configuration.as_str(), second.configuration.as_str()]);
        of_query.1 |= of_first.answers.iter().chain(&of_second.answers).any(|answer| answer.rows > 0);
    }
    all.into_iter()
        .map(|((_, query), (configurations, has_rows))| Compared {
            text: match has_rows {
                true => format!("`{query}` has the same answers on {} configurations", configurations.len()),
                false => format!("no answer of `{query}` has a row"),
            },
            nothing: !has_rows,
        })
        .collect()
}

/// Every difference between what configurations with the same documents answered: the first one of each query and each
/// two configurations.
pub fn different_answers(result: &RunResult) -> Vec<DifferentAnswer> {
    let mut all: Vec<DifferentAnswer> = replays(result).filter_map(different_replay).collect();
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

/// How the answers of two replays differ.
fn different_replay(
    (second, phase, answers, before): (&TrialResult, &str, &ReplayAnswers, Option<(&TrialResult, &ReplayAnswers)>),
) -> Option<DifferentAnswer> {
    let (first, others) = before?;
    if answers.hash == others.hash {
        return None;
    }
    let (second, first) = (&second.configuration, &first.configuration);
    let text = if answers.with.as_ref() == Some(first) {
        format!(
            "{} of {} operations of `{phase}` have other answers on {second} than on {first}: {}",
            count(answers.different),
            count(answers.compared),
            answers.examples.join("; ")
        )
    } else {
        // The run was resumed in between: only the hashes are known.
        format!("operations of `{phase}` have other answers on {second} than on {first}; run both at once to see which")
    };
    Some(DifferentAnswer { configuration: second.clone(), text })
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
