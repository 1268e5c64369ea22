//! `client-saturated`: was it the client that was measured?

use crate::ClientUse;
use crate::human::{duration, percent};
use crate::validity::check::{Check, Finding, Looks, Scene};
use crate::validity::model::Severity;

pub(super) const CHECK: Check =
    Check::new("client-saturated", "the client was short of CPU", &[Looks::Phase(look)]).of_each_client();

/// Embedded stores: the client's share of the CPU time per operation.
pub(super) const EMBEDDED: (f64, f64) = (0.25, 0.60);
/// Other stores: the CPU time of a worker as a share of its time.
pub(super) const BUSY: (f64, f64) = (0.70, 0.90);
/// Below this the workers of an embedded store mostly wait, and a lighter client changes little.
pub(super) const MOSTLY_WAITING: f64 = 0.50;
/// How much too late a sleeping thread was woken, as a share of the phase. Operations that are scheduled meanwhile
/// wait, and so do those behind them. Half of the time that lies beyond a percentile is enough to make that percentile
/// the client's.
pub(super) const STARVED: (f64, f64) = (0.005, 0.25);
/// This share is enough to spoil the p99.9.
pub(super) const STARVED_TAIL: f64 = 0.0005;
/// A shorter phase, in ns, is not called invalid.
pub(super) const TELLING_NS: f64 = 1e9;
/// The time that workers were ready but did not run, as a share of their time.
pub(super) const QUEUED: f64 = 0.20;
/// Workers that wait for a processor no longer than this share still measure the store, if slowly. Next to a busy
/// neighbour, short bursts of work queue for long without needing much.
pub(super) const MOSTLY_QUEUED: f64 = 0.60;
/// The share of CPU time that the client wanted and could have had, but did not get.
pub(super) const WITHHELD: (f64, f64) = (0.25, 0.75);

/// Whether the client itself was the limit: it filled its threads, or did not get to run.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    if scene.operations() == 0.0 {
        return None;
    }
    let busy = match scene.scheme() {
        // More workers do not help there: `python-bound` looks at it.
        "python" => None,
        _ if scene.trial.embedded => embedded(scene),
        _ => separate(&scene.phase.client),
    };
    let mut found =
        [busy, starved(scene), withheld(scene), queued(scene)].into_iter().flatten().max_by_key(|f| f.severity)?;
    // Shares over such a short time say little about the client.
    if (scene.phase.elapsed_ns as f64) < TELLING_NS {
        found.severity = found.severity.min(Severity::Caution);
    }
    Some(found)
}

fn severity(value: f64, (caution, invalid): (f64, f64)) -> Severity {
    match value {
        _ if value > invalid => Severity::Invalid,
        _ if value > caution => Severity::Caution,
        _ => Severity::Pass,
    }
}

fn embedded(scene: &Scene<'_>) -> Option<Finding> {
    let client = &scene.phase.client;
    let (own, all) = (client.cpu_us_per_op?, client.process_cpu_us_per_op.filter(|us| *us > 0.0)?);
    // The calibration and the phase ran at different times, so a store that costs nothing may show a share slightly
    // below or above 1.
    let share = (own / all).min(1.0);
    let observed = format!(
        "the client's own work is {} of the CPU time of an operation ({} of {})",
        percent(share),
        duration(own * 1e3),
        duration(all * 1e3)
    );
    let threshold = format!("caution above {}, invalid above {}", percent(EMBEDDED.0), percent(EMBEDDED.1));
    if scene.scheme() == "null" {
        let advice = "null measures the client itself: these figures are the client's, not a store's";
        return Some(Finding::new(Severity::Note, observed, threshold, advice));
    }
    let mut found = severity(share, EMBEDDED);
    let advice = if client.busiest_worker_share < MOSTLY_WAITING {
        found = found.min(Severity::Note);
        "workers mostly waited, so the client was not the bottleneck; keep this share in mind when you read CPU time per operation"
    } else if scene.scheme() == "memory" {
        found = found.min(Severity::Caution);
        "a store this fast is mostly client; compare stores by process_cpu_us_per_op less cpu_us_per_op"
    } else {
        "use larger documents or a heavier mix, or treat throughput as that of client and store together"
    };
    Some(Finding::new(found, observed, threshold, advice))
}

fn separate(client: &ClientUse) -> Option<Finding> {
    let share = client.busiest_worker_share;
    Some(Finding::new(
        severity(share, BUSY),
        format!("the busiest worker was busy {} of the time", percent(share)),
        format!("caution above {}, invalid above {}", percent(BUSY.0), percent(BUSY.1)),
        "raise `workers`, or use a machine with more or faster cores: the store had not reached its limit",
    ))
}

/// A thread that only sleeps is woken late when the process is stopped or throttled.
fn starved(scene: &Scene<'_>) -> Option<Finding> {
    let wall_s = scene.phase.elapsed_ns as f64 / 1e9;
    let share = if wall_s > 0.0 { scene.phase.client.starved_s / wall_s } else { 0.0 };
    let (found, beyond) = match severity(share, STARVED) {
        Severity::Pass if share > STARVED_TAIL => (Severity::Note, "p99.9"),
        found => (found, "p99"),
    };
    (found > Severity::Pass).then(|| {
        Finding::new(
            found,
            format!(
                "the client was descheduled for {} of the phase: {beyond} and above may be the client's own",
                percent(share)
            ),
            format!(
                "note above {}, caution above {}, invalid above {}",
                percent(STARVED_TAIL),
                percent(STARVED.0),
                percent(STARVED.1)
            ),
            "free the processors for the client: stop other programs, lift limits (cgroup, cpulimit), and run again",
        )
    })
}

/// Workers waited for a processor although the process did not use all that it may: another program, or a quota, has
/// them. Workers that wait for each other do not count.
fn withheld(scene: &Scene<'_>) -> Option<Finding> {
    let client = &scene.phase.client;
    let wall_s = scene.phase.elapsed_ns as f64 / 1e9;
    let got = client.process_cpu_s?.max(client.worker_cpu_s);
    if wall_s <= 0.0 || queued_share(client) <= QUEUED {
        return None;
    }
    let cores = scene.environment.cpus_available.max(1) as f64;
    let wanted = ((client.worker_cpu_s + client.run_queue_s) / wall_s).min(cores) * wall_s;
    let share = if wanted > 0.0 { (1.0 - got / wanted).max(0.0) } else { 0.0 };
    let most = if queued_share(client) > MOSTLY_QUEUED { Severity::Invalid } else { Severity::Caution };
    let found = severity(share, WITHHELD).min(most);
    (found > Severity::Pass).then(|| {
        Finding::new(
            found,
            format!("the client got {} of the CPU time that it could have used", percent(1.0 - share)),
            format!(
                "caution below {}; invalid below {} if workers waited for a processor for more than {} of the time",
                percent(1.0 - WITHHELD.0),
                percent(1.0 - WITHHELD.1),
                percent(MOSTLY_QUEUED)
            ),
            "free the processors for the client: stop other programs, lift limits (cgroup, cpulimit), and run again",
        )
    })
}

fn queued_share(client: &ClientUse) -> f64 {
    let wall_s: f64 = client.worker_use.iter().map(|w| w.wall_ns as f64 / 1e9).sum();
    if wall_s > 0.0 { client.run_queue_s / wall_s } else { 0.0 }
}

fn queued(scene: &Scene<'_>) -> Option<Finding> {
    let share = queued_share(&scene.phase.client);
    (share > QUEUED).then(|| {
        Finding::new(
            Severity::Caution,
            format!("workers waited for a processor {} of the time", percent(share)),
            format!("caution above {}", percent(QUEUED)),
            "use fewer `workers` than processors, leave some for the store, and stop other programs",
        )
    })
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::WorkerUse;

    use crate::RunResult;
    use crate::validity::testing::{CAUTION, INVALID, NOTE, PASS, closed, separate, severity};

    fn embedded(scheme: &str, own_us: f64, all_us: f64, busy: f64) -> RunResult {
        let mut result = closed(|p| {
            p.client.cpu_us_per_op = Some(own_us);
            p.client.process_cpu_us_per_op = Some(all_us);
            p.client.busiest_worker_share = busy;
        });
        result.trials[0].url = format!("{scheme}:x");
        result
    }

    #[test]
    fn client_saturated_on_an_embedded_store() {
        for (own, scheme, busy, expected) in [
            (2.5, "sqlite", 0.9, PASS),
            (2.6, "sqlite", 0.9, CAUTION),
            (6.0, "sqlite", 0.9, CAUTION),
            (6.1, "sqlite", 0.9, INVALID),
            (12.0, "sqlite", 0.9, INVALID),
            (9.0, "sqlite", 0.49, NOTE),
            (9.0, "memory", 0.9, CAUTION),
            (9.0, "slow+memory", 0.9, CAUTION),
            (9.0, "null", 0.9, NOTE),
            (1.0, "null", 0.9, NOTE),
        ] {
            let result = embedded(scheme, own, 10.0, busy);
            assert_eq!(severity(&result, "client-saturated"), expected, "{scheme} {own} {busy}");
        }
        let mut unknown = embedded("sqlite", 1.0, 10.0, 0.9);
        unknown.trials[0].phases[0].client.cpu_us_per_op = None;
        assert_eq!(severity(&unknown, "client-saturated"), None);
    }

    #[test]
    fn client_saturated_beside_a_store_of_its_own() {
        for (busy, expected) in [(0.70, PASS), (0.71, CAUTION), (0.90, CAUTION), (0.91, INVALID)] {
            let result = separate(closed(|p| p.client.busiest_worker_share = busy));
            assert_eq!(severity(&result, "client-saturated"), expected, "{busy}");
        }
    }

    #[test]
    fn client_saturated_when_it_is_kept_from_running() {
        for (late_s, expected) in
            [(0.006, PASS), (0.0061, NOTE), (0.06, NOTE), (0.061, CAUTION), (3.0, CAUTION), (3.1, INVALID)]
        {
            let result = separate(closed(|p| {
                p.client.busiest_worker_share = 0.1;
                p.client.starved_s = late_s;
            }));
            assert_eq!(severity(&result, "client-saturated"), expected, "{late_s}");
        }
        // So short a phase cannot show it.
        let mut short = separate(closed(|p| p.client.starved_s = 0.9));
        short.trials[0].phases[0].elapsed_ns = 999_999_999;
        assert_eq!(severity(&short, "client-saturated"), CAUTION);
        // This applies to every store, including null.
        let mut null = embedded("null", 1.0, 1.0, 0.9);
        null.trials[0].phases[0].client.starved_s = 11.0;
        assert_eq!(severity(&null, "client-saturated"), INVALID);
    }

    #[test]
    fn client_saturated_when_workers_queue_for_processors() {
        let queued = |cpu_s: f64, queue_s: f64, process_s: f64| {
            separate(closed(|p| {
                p.client.worker_use = vec![WorkerUse { wall_ns: 12_000_000_000, ..Default::default() }];
                p.client.busiest_worker_share = 0.1;
                (p.client.worker_cpu_s, p.client.run_queue_s) = (cpu_s, queue_s);
                p.client.process_cpu_s = Some(process_s);
            }))
        };
        assert_eq!(severity(&queued(9.0, 2.4, 9.0), "client-saturated"), PASS);
        // Its own threads take turns on both processors: there are too many workers.
        assert_eq!(severity(&queued(24.0, 24.0, 24.0), "client-saturated"), CAUTION);
        // It got a tenth of a processor, although it was always ready to use one.
        assert_eq!(severity(&queued(1.2, 10.8, 1.2), "client-saturated"), INVALID);
        assert_eq!(severity(&queued(4.0, 8.0, 4.0), "client-saturated"), CAUTION);
        // Short bursts next to a busy neighbour: a fifth of what was wanted, but mostly nothing was wanted.
        assert_eq!(severity(&queued(1.0, 7.2, 1.0), "client-saturated"), CAUTION);
        assert_eq!(severity(&queued(1.0, 7.3, 1.0), "client-saturated"), INVALID);
    }
}
