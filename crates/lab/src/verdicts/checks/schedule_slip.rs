//! `schedule-slip`: did the client send late though it could have sent?

use crate::human::{duration, percent};
use crate::verdicts::check::{Check, Finding, Group, Looks, Scene};
use crate::verdicts::model::Level;

pub(super) const CHECK: Check =
    Check { name: "schedule-slip", group: Group::Client, page, looks: &[Looks::Phase(look)], warm_ups: false };

/// Lateness below this is no finding, in ns.
const LEAST_NS: f64 = 1e6;
/// Slip p99 over response p99.
const SLIP: (f64, f64) = (0.10, 0.50);

fn page() -> String {
    format!(
        r#"Open loop. Slip is how late the client sent though a slot was free: our fault. Caution
from {least} and {slip} of the response p99, invalid from {least} and {invalid}. Slip alone is never the sign of health;
a client that does not read its answers shows none. What to do: `pacing = "precise"`, fewer workers, a lower rate."#,
        least = duration(LEAST_NS),
        slip = percent(SLIP.0),
        invalid = percent(SLIP.1)
    )
}

/// Whether the client was late though a slot was free: our fault.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    scene.phase.rate.as_ref()?;
    let slip = scene.phase.client.slip_ns.p99? as f64;
    let response = scene.phase.all.response_ns?.p99? as f64;
    let level = if slip >= LEAST_NS && slip >= SLIP.1 * response {
        Level::Invalid
    } else if slip >= LEAST_NS.max(SLIP.0 * response) {
        Level::Caution
    } else {
        Level::Pass
    };
    Some(Finding::new(
        level,
        format!("slip p99 {} of a response p99 of {}", duration(slip), duration(response)),
        format!(
            "caution from 1 ms and {} of the response p99, invalid from 1 ms and {}",
            percent(SLIP.0),
            percent(SLIP.1)
        ),
        "the client sent late though it could have sent: use pacing = \"precise\", fewer workers than processors or a lower rate, and end what else runs",
    ))
}

#[cfg(test)]
mod tests {
    use crate::results::Percentiles;
    use crate::verdicts::testing::{CAUTION, INVALID, PASS, closed, level, open};

    #[test]
    fn schedule_slip() {
        for (slip_ns, response_ns, expected) in [
            (999_999, 1_000_000, PASS),
            (1_000_000, 10_000_001, PASS),
            (1_000_000, 10_000_000, CAUTION),
            (4_999_999, 10_000_000, CAUTION),
            (5_000_000, 10_000_000, INVALID),
            (1_000_000, 1_100_000, INVALID),
        ] {
            let result = open(|p| {
                p.client.slip_ns.p99 = Some(slip_ns);
                p.all.response_ns = Some(Percentiles { p99: Some(response_ns), ..Default::default() });
            });
            assert_eq!(level(&result, "schedule-slip"), expected, "{slip_ns} of {response_ns}");
        }
        assert_eq!(level(&closed(|_| ()), "schedule-slip"), None);
    }
}
