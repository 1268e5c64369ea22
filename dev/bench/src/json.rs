//! The report as one JSON document, for other programs.

use serde_json::{Value, json};

use crate::figure::{Figure, Outcome, Samples, Target};
use crate::table::Report;

fn samples(samples: &Samples) -> Value {
    json!({
        "median": samples.median(),
        "min": samples.least(),
        "max": samples.greatest(),
        "rounds": samples.0,
    })
}

fn figure(figure: &Figure) -> Value {
    let target = figure.target.map(|target| {
        let (of, bound, value) = match target {
            Target::AtLeast(t) => ("ours", "at_least", t),
            Target::AtMost(t) => ("ours", "at_most", t),
            Target::RatioAtLeast(t) => ("ratio", "at_least", t),
            Target::RatioAtMost(t) => ("ratio", "at_most", t),
        };
        json!({ "of": of, "bound": bound, "value": value })
    });
    let (outcome, why) = match figure.outcome() {
        Outcome::Met => (json!("met"), Value::Null),
        Outcome::Missed => (json!("missed"), Value::Null),
        Outcome::NotMeasured(why) => (json!("not_measured"), json!(why)),
        Outcome::Told => (Value::Null, Value::Null),
    };
    json!({
        "topic": figure.topic,
        "what": figure.what,
        "unit": figure.unit.name(),
        "ours": samples(&figure.ours),
        "reference": figure.reference.as_ref().map(|r| json!({ "what": r.what, "values": samples(&r.values) })),
        "ratio": figure.ratio().map(|r| samples(&r)),
        "target": target,
        "outcome": outcome,
        "why": why,
        "notes": figure.notes,
    })
}

/// Everything that was measured.
pub(crate) fn document(report: &Report) -> String {
    let machine = &report.before;
    let document = json!({
        "format": "storebench-bench/1",
        "machine": {
            "processor": machine.processor,
            "cores": machine.cores,
            "memory_gib": machine.memory_gib,
            "kernel": machine.kernel,
            "profile": machine.profile,
            "load_before": machine.load,
            "load_after": report.after.load,
        },
        "rounds": report.rounds,
        "all_met": report.all_met(),
        "figures": report.figures.iter().map(figure).collect::<Vec<_>>(),
    });
    format!("{document:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Unit;
    use crate::machine::Machine;

    #[test]
    fn a_figure_keeps_its_rounds() {
        let machine = Machine::look();
        let figures = vec![
            Figure::new("memory", "a billion keys", Unit::Mb, Samples(vec![10.0, 30.0]))
                .beside("a thousand", Samples(vec![10.0, 10.0]))
                .target(Target::AtMost(15.0)),
            Figure::not_measured("pacing", "precise", "refused"),
        ];
        let report = Report { before: machine.clone(), after: machine, rounds: 2, figures };
        let value: Value = serde_json::from_str(&document(&report)).unwrap();
        assert_eq!(value["figures"][0]["ours"]["median"], 20.0);
        assert_eq!(value["figures"][0]["ratio"]["rounds"], json!([1.0, 3.0]));
        assert_eq!(value["figures"][0]["outcome"], "missed");
        assert_eq!(value["figures"][0]["target"], json!({ "of": "ours", "bound": "at_most", "value": 15.0 }));
        assert_eq!(value["figures"][1]["outcome"], "not_measured");
        assert_eq!(value["figures"][1]["why"], "refused");
        assert_eq!(value["all_met"], false);
    }
}
