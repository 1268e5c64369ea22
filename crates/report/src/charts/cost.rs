//! Cost against latency: one point for each configuration.

use crate::data::{Axis, Chart, Kind, Scale, Series, Unit, keys};
use crate::subject::Subject;

/// The cost of a million operations at the measured rate, against their p99.
pub(super) fn charts(subject: &Subject) -> Vec<Chart> {
    let mut chart = Chart {
        kind: Kind::Points,
        ..Chart::lines("cost", "Cost against latency", Axis::new("p99", Unit::Ns, Scale::Log))
    };
    chart.about =
        "The cost of a million operations at the measured rate, without the client's machines, against the p99 at that \
         rate. One point for each configuration. Lower left is better."
            .to_owned();
    for (run, of) in subject.runs.iter().enumerate() {
        let Some(cost) = &of.result.cost else { continue };
        for priced in &cost.configurations {
            let found = of.result.configurations.iter().find(|found| found.configuration == priced.configuration);
            let (Some(at), Some(configuration)) = (priced.measured, found) else { continue };
            let position = subject.position(run, &priced.configuration);
            let label = format!("{} per million {}", cost.sheet.currency, cost.work);
            let axis = chart.axis(Axis::new(&label, Unit::Money, Scale::Linear));
            for (name, figure) in &configuration.figures {
                let phase = name.strip_suffix(".response.p99").or_else(|| name.strip_suffix(".service.p99"));
                let Some(phase) = phase.filter(|phase| !phase.contains('.') && figure.figure.trials > 0) else {
                    continue;
                };
                let line = Series::new(position, String::new(), keys([("phase", phase)]), axis);
                chart.add_estimates(line, vec![Some(figure.figure.value)], &[Some(at.per_million.without_clients)]);
            }
        }
    }
    chart.choose(&[("phase", "phase", None)]);
    vec![chart]
}
