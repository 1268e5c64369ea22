//! Money against latency: each arm where it stands.

use std::collections::HashMap;

use crate::data::{Axis, Chart, Kind, Numbers, Scale, Series, Shared, Unit};
use crate::subject::Subject;

/// What a million operations cost at the rate that was measured, beside how long they took.
pub(super) fn charts(subject: &Subject) -> Vec<Chart> {
    let mut chart = Chart {
        kind: Kind::Points,
        ..Chart::lines("cost", "Cost against latency", Axis::new("p99", Unit::Ns, Scale::Log))
    };
    chart.about =
        "What a million operations cost at the rate that was measured, without the client's machines, beside the \
                   p99 at that rate, phase by phase: down and to the left is better."
            .to_owned();
    let mut shared = Shared::default();
    for (run, of) in subject.runs.iter().enumerate() {
        let Some(cost) = &of.result.cost else { continue };
        for priced in &cost.arms {
            let (Some(at), Some(arm)) = (priced.measured, of.result.arms.iter().find(|arm| arm.arm == priced.arm))
            else {
                continue;
            };
            let position = subject.position(run, &priced.arm);
            let axis = chart.axis(Axis::new(
                &format!("{} for a million {}", cost.sheet.currency, cost.work),
                Unit::Money,
                Scale::Linear,
            ));
            for (name, figure) in &arm.figures {
                let phase = name.strip_suffix(".response.p99").or_else(|| name.strip_suffix(".service.p99"));
                let Some(phase) = phase.filter(|phase| !phase.contains('.') && figure.figure.trials > 0) else {
                    continue;
                };
                let x = shared.put(&mut chart, vec![Some(figure.figure.value)]);
                let per_million = at.per_million.without_clients;
                chart.series.push(Series {
                    label: String::new(),
                    arm: position,
                    keys: [("phase".to_owned(), phase.to_owned())].into(),
                    chosen: Vec::new(),
                    x,
                    axis,
                    y: Numbers(vec![Some(per_million.value)]),
                    low: Some(Numbers(vec![per_million.low])),
                    high: Some(Numbers(vec![per_million.high])),
                    figures: Vec::new(),
                });
            }
        }
    }
    chart.choose(&[("phase", "phase")], &HashMap::new());
    vec![chart]
}
