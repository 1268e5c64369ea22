//! Runs that end when their intervals are narrow enough, and controls.

use storebench_results::RunResult;
use storebench_results::answer::answer;
use storebench_results::validity::Severity;

use super::request::ConfigurationRequest;
use super::tests::{memory, quietly, request};

fn ran(head: &str) -> RunResult {
    let text = format!(
        r#"
title = "Rounds"
{head}
[collections.docs]
count = 100
[[phases]]
name = "load"
load = ["docs"]
[[phases]]
name = "reads"
mix = {{ read = 1 }}
operations = 2_000
"#
    );
    let mut request = request(&text, vec![("a", memory()), ("b", memory())], None);
    if request.study.control {
        request.configurations = ConfigurationRequest::with_control(request.configurations);
    }
    quietly(&request).unwrap().result
}

fn severity(result: &RunResult, name: &str) -> Option<Severity> {
    result.checks.iter().find(|check| check.check == name).map(|check| check.severity)
}

#[test]
fn a_run_ends_when_its_intervals_are_narrow_enough() {
    let rounds = |result: &RunResult| result.trials.iter().map(|trial| trial.round).max().unwrap();
    let wide = ran("repeats = { until = \"99%\", at_most = 40 }");
    assert!((12..40).contains(&rounds(&wide)), "{}", rounds(&wide));
    assert_eq!(wide.trials.len(), wide.plan.trials.len(), "nothing is missing");
    assert_eq!(severity(&wide, "wide-intervals"), Some(Severity::Pass));
    assert_eq!(severity(&wide, "partial-run"), None);
    assert!(!answer(&wide).found.contains("did not complete"), "{}", answer(&wide).found);
    let narrow = ran("repeats = { until = \"0.0001%\", at_most = 13 }");
    assert_eq!((rounds(&narrow), narrow.trials.len()), (13, 26));
    assert_eq!(severity(&narrow, "wide-intervals"), Some(Severity::Caution));
}

#[test]
fn the_first_configuration_is_measured_again_in_each_round() {
    let result = ran("repeats = 3\ncontrol = true");
    assert_eq!(result.trials.len(), 9);
    let of_control: Vec<&str> =
        result.trials.iter().filter(|trial| trial.control).map(|trial| trial.configuration.as_str()).collect();
    assert_eq!(of_control, ["a (control)"; 3]);
    let names: Vec<(&str, bool)> =
        result.configurations.iter().map(|of| (of.configuration.as_str(), of.control)).collect();
    assert_eq!(names, [("a", false), ("b", false), ("a (control)", true)]);
    let noise = result.configurations[2].figures["reads.throughput"].to_first.unwrap();
    assert!(noise.low.is_some() && noise.trials == 3, "{noise:?}");
    assert!(severity(&result, "control-differs").is_some());
    let found = answer(&result).found;
    assert!(found.contains("Noise of this machine (a measured twice in each round): reads.throughput "), "{found}");
    assert!(!found.contains("a (control)"), "{found}");
}
