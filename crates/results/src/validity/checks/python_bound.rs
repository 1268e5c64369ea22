//! `python-bound`: was it the Python code of a store that was measured?

use crate::human::{count, percent};
use crate::validity::check::{Check, Finding, Looks, Scene, above};
use crate::validity::checks::client_saturated::BUSY;

pub(super) const CHECK: Check =
    Check::new("python-bound", "the Python code of the store was the bottleneck", &[Looks::Phase(look)]);

/// The fewest samples that say something.
pub(super) const SAMPLES: f64 = 50.0;

/// Python runs one thread at a time, which holds its lock. If the lock was never free, Python had no time left, however
/// many workers there were. Waiting for a server, and most native code, do not hold it.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    if scene.scheme() != "python" || scene.operations() == 0.0 {
        return None;
    }
    let figures = &scene.phase.store_stats.figures;
    let during = |name: &str| figures.get(name).map(|figure| figure.last - figure.first);
    let (samples, busy) = (during("python_lock_samples")?, during("python_lock_busy_samples")?);
    if samples < SAMPLES {
        return None;
    }
    let share = busy / samples;
    let (severity, threshold) = above(share, BUSY);
    Some(Finding::new(
        severity,
        format!("Python's lock (GIL) was held in {} of {} samples", percent(share), count(samples as u64)),
        threshold,
        "the store may be faster: lower the rate, move work out of Python, or measure the store through its own driver",
    ))
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, INVALID, PASS, closed, severity};
    use crate::{FigureResult, RunResult};

    fn held(scheme: &str, samples: f64, share: f64) -> RunResult {
        let mut result = closed(|p| {
            let figure = |first: f64, during: f64| FigureResult { first, last: first + during, max: first + during };
            let figures = &mut p.store_stats.figures;
            figures.insert("python_lock_samples".into(), figure(1_000.0, samples));
            figures.insert("python_lock_busy_samples".into(), figure(900.0, samples * share));
            p.client.busiest_worker_share = 0.99;
        });
        result.trials[0].url = format!("{scheme}:books.Store");
        result
    }

    #[test]
    fn python_bound_where_the_lock_is_never_free() {
        for (scheme, samples, share, expected) in [
            ("python", 200.0, 0.70, PASS),
            ("python", 200.0, 0.71, CAUTION),
            ("slow+python", 200.0, 0.91, INVALID),
            ("python", 49.0, 0.91, None),
            ("sqlite", 200.0, 0.91, None),
        ] {
            let result = held(scheme, samples, share);
            assert_eq!(severity(&result, "python-bound"), expected, "{scheme} {samples} {share}");
            if scheme != "sqlite" {
                // Its advice, more workers, would not help.
                assert_eq!(severity(&result, "client-saturated"), None, "{scheme}");
            }
        }
    }
}
