//! `data-to-memory-differs`: is the data-to-memory ratio the one that the study's finding needs?

use crate::human::{bytes, digits};
use crate::validity::check::{Check, Finding, Looks, Severity};
use crate::validity::memory::{documents_bytes, is_here, memory_bytes, scale_for};
use crate::{RunResult, TrialResult};

pub(super) const CHECK: Check =
    Check::new("data-to-memory-differs", "the data-to-memory ratio differs from the study's", &[Looks::Trial(look)])
        .for_the_answer();

/// The data-to-memory ratio may differ from the study's by up to this factor.
pub(super) const FACTOR: f64 = 2.0;

/// Whether the data-to-memory ratio is the study's.
fn look(result: &RunResult, trial: &TrialResult) -> Option<Finding> {
    let asked = result.run.study["data_to_memory"].as_f64().filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
    let memory = memory_bytes(result).filter(|_| is_here(trial))?;
    let made = result.documents.iter().filter(|c| c.is_of(trial.configuration.as_str()));
    let documents: f64 = made.filter_map(|c| documents_bytes(result, trial, &c.collection)).sum();
    if documents <= 0.0 {
        return None;
    }
    let found = documents / memory;
    let times = asked / found;
    let varied = trial.values.keys().any(|path| path == "scale" || path.ends_with(".count"));
    let severity = match (!(1.0 / FACTOR..=FACTOR).contains(&times), varied) {
        (false, _) => Severity::Pass,
        (true, true) => Severity::Note,
        (true, false) => Severity::Caution,
    };
    Some(Finding::new(
        severity,
        format!(
            "{} of documents, {} of memory: a data-to-memory ratio of {}; the study has {}",
            bytes(documents),
            bytes(memory),
            digits(found),
            digits(asked)
        ),
        format!("caution beyond a factor of {FACTOR}, note if the study varies it"),
        format!(
            "the study's finding may not hold at this ratio; use --scale {} to match it",
            digits(scale_for(result, trial, times))
        ),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::RunResult;
    use crate::validity::testing::{CAUTION, NOTE, PASS, all, closed, separate};

    fn severity(result: &RunResult) -> Option<crate::validity::Severity> {
        crate::validity::testing::severity(result, "data-to-memory-differs")
    }

    /// The fixture has 20.48 MB of documents.
    fn with(ratio: serde_json::Value, memory_bytes: u64) -> RunResult {
        let mut result = closed(|_| ());
        result.run.study = json!({ "data_to_memory": ratio });
        result.environment.memory_bytes = Some(memory_bytes);
        result
    }

    #[test]
    fn documents_as_large_as_the_study_has_them() {
        assert_eq!(severity(&with(json!(2.0), 10_240_000)), PASS);
        assert_eq!(severity(&with(json!(2.0), 20_480_000)), PASS);
        assert_eq!(severity(&with(json!(2.0), 20_500_000)), CAUTION);
        assert_eq!(severity(&with(json!(2.0), 5_120_000)), PASS);
        assert_eq!(severity(&with(json!(2), 5_000_000)), CAUTION);
        let small = with(json!(10), 20_480_000);
        assert!(all(&small, "data-to-memory-differs")[0].advice.contains("--scale 10.0 "), "{small:?}");
    }

    #[test]
    fn where_it_has_no_meaning() {
        for ratio in [json!(null), json!("2"), json!(0), json!(-1)] {
            assert_eq!(severity(&with(ratio.clone(), 1 << 40)), None, "{ratio}");
        }
        assert_eq!(severity(&closed(|_| ())), None);
        let mut away = separate(closed(|_| ()));
        away.run.study = json!({ "data_to_memory": 2 });
        away.environment.memory_bytes = Some(1 << 40);
        assert_eq!(severity(&away), None);
    }

    #[test]
    fn what_the_study_varies() {
        let mut scaled = with(json!(2.0), 1 << 40);
        scaled.trials[0].values.insert("scale".into(), json!(0.01));
        assert_eq!(severity(&scaled), NOTE);
    }
}
