//! `python-bound`: was it the Python code of a store that was measured?

use crate::human::percent;
use crate::validity::check::{Check, Finding, Looks, Scene};
use crate::validity::checks::client_saturated::{BUSY, TELLING_NS};
use crate::validity::model::Severity;

pub(super) const CHECK: Check =
    Check::new("python-bound", "the Python code of the store was the bottleneck", &[Looks::Phase(look)])
        .of_each_client();

/// Python runs one thread at a time. If the process used about one processor, Python had no time left, however many
/// workers there were.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    if scene.scheme() != "python" || scene.operations() == 0.0 {
        return None;
    }
    let wall_s = scene.phase.elapsed_ns as f64 / 1e9;
    let client = &scene.phase.client;
    let used_s = client.process_cpu_s.filter(|_| wall_s > 0.0)? - client.spin_cpu_s;
    let share = used_s / wall_s;
    let mut found = match share {
        _ if share > BUSY.1 => Severity::Invalid,
        _ if share > BUSY.0 => Severity::Caution,
        _ => Severity::Pass,
    };
    if (scene.phase.elapsed_ns as f64) < TELLING_NS {
        found = found.min(Severity::Caution);
    }
    Some(Finding::new(
        found,
        format!("the process used {} of one processor, and Python runs on one at a time", percent(share)),
        format!("caution above {}, invalid above {}", percent(BUSY.0), percent(BUSY.1)),
        "the store may be faster: lower the rate, move work out of Python, or measure the store through its own driver",
    ))
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, INVALID, PASS, closed, severity};

    #[test]
    fn python_bound_where_python_fills_a_processor() {
        for (used, scheme, expected) in [
            (0.70, "python", Some(PASS)),
            (0.71, "python", Some(CAUTION)),
            (0.91, "slow+python", Some(INVALID)),
            (1.50, "python", Some(INVALID)),
            (1.50, "sqlite", None),
        ] {
            let mut result = closed(|p| {
                p.client.process_cpu_s = Some(used * p.elapsed_ns as f64 / 1e9);
                p.client.spin_cpu_s = 0.0;
                p.client.busiest_worker_share = 0.99;
            });
            result.trials[0].url = format!("{scheme}:books.Store");
            assert_eq!(severity(&result, "python-bound"), expected.unwrap_or(None), "{used} {scheme}");
            if scheme != "sqlite" {
                // Its advice, more workers, would not help.
                assert_eq!(severity(&result, "client-saturated"), None, "{scheme}");
            }
        }
    }
}
