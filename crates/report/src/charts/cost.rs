//! Money against latency: each configuration where it stands.

use crate::data::{Axis, Chart, Kind, Scale, Series, Unit, keys};
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
    for (run, of) in subject.runs.iter().enumerate() {
        let Some(cost) = &of.result.cost else { continue };
        for priced in &cost.configurations {
            let (Some(at), Some(configuration)) = (
                priced.measured,
                of.result
                    .configurations
                    .iter()
                    .find(|configuration| configuration.configuration == priced.configuration),
            ) else {
                continue;
            };
            let position = subject.position(run, &priced.configuration);
            let axis = chart.axis(Axis::new(
                &format!("{} for a million {}", cost.sheet.currency, cost.work),
                Unit::Money,
                Scale::Linear,
            ));
            for (name, figure) in &configuration.figures {
                let phase = name.strip_suffix(".response.p99").or_else(|| name.strip_suffix(".service.p99"));
                let Some(phase) = phase.filter(|phase| !phase.contains('.') && figure.figure.trials > 0) else {
                    continue;
                };
                let line =
                    Series { configuration: position, keys: keys([("phase", phase)]), axis, ..Series::default() };
                chart.add_estimates(line, vec![Some(figure.figure.value)], &[Some(at.per_million.without_clients)]);
            }
        }
    }
    chart.choose(&[("phase", "phase", None)]);
    vec![chart]
}
