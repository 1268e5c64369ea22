//! `client-saturated`: was it the client that was measured?

use indexmap::IndexMap;

use super::send_delay::LEAST_NS;
use crate::configurations::Trials;
use crate::human::{duration, percent};
use crate::own_delay::{self, OWN, SHOWN};
use crate::validity::check::{Check, Configurations, Finding, Looks, Scene, Severity, above, some};
use crate::{ClientUse, OwnDelay};

pub(super) const CHECK: Check = Check::new(
    "client-saturated",
    "the client was short of CPU",
    &[Looks::Configurations(differs), Looks::Phase(look)],
)
.of_each_client();

/// Embedded stores: the client's share of the CPU time per operation.
pub(super) const EMBEDDED: (f64, f64) = (0.25, 0.60);
/// Other stores: the CPU time of a worker as a share of its time.
pub(super) const BUSY: (f64, f64) = (0.70, 0.90);
/// Below this the workers of an embedded store mostly wait, and a lighter client changes little.
pub(super) const MOSTLY_WAITING: f64 = 0.50;
/// How much too late a sleeping thread was woken, as a share of the phase. Above this, throughput is not the store's.
pub(super) const STARVED: f64 = 0.25;
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
        [busy, stopped(scene), withheld(scene), queued(scene)].into_iter().flatten().max_by_key(|f| f.severity)?;
    // Shares over such a short time say little about the client.
    if (scene.phase.elapsed_ns as f64) < TELLING_NS {
        found.severity = found.severity.min(Severity::Caution);
    }
    Some(found)
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
    let (mut found, threshold) = above(share, EMBEDDED);
    if scene.scheme() == "null" {
        let advice = "null measures the client itself: these figures are the client's, not a store's";
        return Some(Finding::new(Severity::Note, observed, threshold, advice).weighing(share));
    }
    let advice = if client.busiest_worker_share < MOSTLY_WAITING {
        found = found.min(Severity::Note);
        "workers mostly waited, so the client was not the bottleneck; keep this share in mind when you read CPU time per operation"
    } else if scene.scheme() == "memory" {
        found = found.min(Severity::Caution);
        "a store this fast is mostly client; compare stores by process_cpu_us_per_op less cpu_us_per_op"
    } else {
        "use larger documents or a heavier mix, or treat throughput as that of client and store together"
    };
    Some(Finding::new(found, observed, threshold, advice).weighing(share))
}

fn separate(client: &ClientUse) -> Option<Finding> {
    let share = client.busiest_worker_share;
    let (severity, threshold) = above(share, BUSY);
    let observed = format!("the busiest worker was busy {} of the time", percent(share));
    let advice = "raise `workers`, or use a machine with more or faster cores: the store had not reached its limit";
    Some(Finding::new(severity, observed, threshold, advice).weighing(share))
}

/// The shares of percentiles that are above a tenth, with what they are shares of.
fn own(shares: &OwnDelay, times: &str) -> Vec<String> {
    let told = SHOWN.iter().filter_map(|(name, pick)| Some((name, pick(shares)?)));
    told.filter(|(_, share)| *share > OWN)
        .map(|(name, share)| format!("{} of the {times} {name}", percent(share)))
        .collect()
}

/// A thread that only sleeps is woken late when the process is stopped or throttled. Operations wait for the same time.
fn stopped(scene: &Scene<'_>) -> Option<Finding> {
    let phase = scene.phase;
    let mut client = phase.client.clone();
    // What was only sent late is found by `send-delay`.
    client.send_delay_ns = crate::Percentiles::default();
    let shares = own_delay::own_delay(&phase.all, &client);
    let wall_s = phase.elapsed_ns as f64 / 1e9;
    let share = if wall_s > 0.0 { client.starved_s / wall_s } else { 0.0 };
    let found = if share > STARVED {
        Severity::Invalid
    } else if [shares.p50, shares.p99].into_iter().flatten().any(|share| share > OWN) {
        Severity::Caution
    } else if shares.p99_9.is_some_and(|share| share > OWN) {
        Severity::Note
    } else {
        return None;
    };
    let times = if phase.rate.is_some() { "response" } else { "service" };
    let own = own(&shares, times);
    let of = if own.is_empty() { String::new() } else { format!("; the client's own delay is {}", own.join(", ")) };
    Some(Finding::new(
        found,
        format!("the client did not run for {} of the phase{of}", percent(share)),
        format!(
            "caution when more than {} of the p50 or p99 is the client's own delay, note at p99.9; invalid when it did not run for more than {} of the phase",
            percent(OWN),
            percent(STARVED)
        ),
        "free the processors for the client: stop other programs, lift limits (cgroup, cpulimit), and run again",
    ).weighing(share))
}

/// The client delayed one configuration more than another.
fn differs(configurations: &Configurations<'_>) -> Vec<Finding> {
    /// Phases by name: for each percentile, the configuration and its share.
    type Shares<'a> = IndexMap<(&'a str, &'static str), Vec<(&'a str, Own)>>;
    let mut shares = Shares::new();
    for configuration in &configurations.configurations {
        for (phase, at, share) in means(configuration) {
            shares.entry((phase, at)).or_default().push((configuration.name, share));
        }
    }
    let told: Vec<String> = shares
        .iter()
        .filter_map(|((phase, at), of)| {
            let least = of.iter().copied().reduce(|a, b| if b.1.share < a.1.share { b } else { a })?;
            let most = of.iter().copied().reduce(|a, b| if b.1.share > a.1.share { b } else { a })?;
            // The same short delay is a large share of a short time, but not what makes the difference.
            let matters = (most.1.delay_ns - least.1.delay_ns).abs() >= LEAST_NS;
            (matters && most.1.share - least.1.share > OWN).then(|| {
                let (least_share, most_share) = (percent(least.1.share), percent(most.1.share));
                format!("{phase} {at}: {least_share} on {}, {most_share} on {}", least.0, most.0)
            })
        })
        .collect();
    if told.is_empty() {
        return Vec::new();
    }
    vec![Finding::new(
        Severity::Caution,
        format!("the client's own delay is not the same share of a time on each configuration: {}", some(&told)),
        format!("caution when the shares differ by more than {} of the p50 or p99", percent(OWN)),
        "part of the difference between these times is the client's: run again on a machine with free processors",
    )]
}

/// The client's own delay at a percentile.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    share: f64,
    delay_ns: f64,
}

/// The client's own delay at the p50 and the p99 in each phase: the means over the trials of a configuration.
fn means<'a>(configuration: &Trials<'a>) -> Vec<(&'a str, &'static str, Own)> {
    let mut sums: IndexMap<(&str, &'static str), (Own, u32)> = IndexMap::new();
    let phases = configuration.whole().flat_map(|trial| &trial.phases);
    for phase in phases.filter(|phase| !phase.loads && !phase.warm_up && phase.tasks.is_none()) {
        let shares = own_delay::own_delay(&phase.all, &phase.client);
        let times = phase.all.response_ns.unwrap_or(phase.all.service_ns);
        for ((at, pick), time) in SHOWN.iter().zip([times.p50, times.p99]) {
            if let Some((share, time)) = pick(&shares).zip(time) {
                let (sum, count) = sums.entry((&phase.name, at)).or_default();
                (sum.share, sum.delay_ns) = (sum.share + share, sum.delay_ns + share * time as f64);
                *count += 1;
            }
        }
    }
    let mean =
        |sum: Own, count: u32| Own { share: sum.share / f64::from(count), delay_ns: sum.delay_ns / f64::from(count) };
    sums.into_iter().map(|((phase, at), (sum, count))| (phase, at, mean(sum, count))).collect()
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
    let found = above(share, WITHHELD).0.min(most);
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
            format!(
                "free the processors for the client: stop other programs, lift limits (cgroup, cpulimit){}, and run again",
                if is_pinned(client) { ", or remove `pin_workers`" } else { "" }
            ),
        ).weighing(share)
    })
}

fn is_pinned(client: &ClientUse) -> bool {
    client.worker_use.iter().any(|worker| worker.processor.is_some())
}

fn queued_share(client: &ClientUse) -> f64 {
    let wall_s: f64 = client.worker_use.iter().map(|w| w.wall_ns as f64 / 1e9).sum();
    if wall_s > 0.0 { client.run_queue_s / wall_s } else { 0.0 }
}

/// Workers waited for each other, or for the store's own threads. Fewer workers help only if there are more of them
/// than processors.
fn queued(scene: &Scene<'_>) -> Option<Finding> {
    let share = queued_share(&scene.phase.client);
    let processors = scene.environment.cpus_available.max(1);
    let severity = if u64::from(scene.phase.workers) > processors { Severity::Caution } else { Severity::Note };
    (share > QUEUED).then(|| {
        Finding::new(
            severity,
            format!(
                "workers waited for a processor {} of the time; {} workers, {processors} processors",
                percent(share),
                scene.phase.workers
            ),
            format!("caution above {} with more workers than processors, otherwise note", percent(QUEUED)),
            format!(
                "use fewer `workers` than processors, leave some for the store, and stop other programs{}",
                if is_pinned(&scene.phase.client) {
                    "; or remove `pin_workers`, because others use these processors"
                } else {
                    ""
                }
            ),
        )
        .weighing(share)
    })
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::WorkerUse;

    use crate::validity::testing::{CAUTION, INVALID, NOTE, PASS, all, closed, separate, severity, two_configurations};
    use crate::{Percentiles, RunResult};

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
        let stopped = |starved_s: f64, p50: u64, p99: u64, p99_9: u64| {
            separate(closed(|p| {
                p.client.busiest_worker_share = 0.1;
                p.client.starved_s = starved_s;
                let times = |p50, p99, p99_9| Percentiles {
                    p50: Some(p50),
                    p99: Some(p99),
                    p99_9: Some(p99_9),
                    ..Percentiles::default()
                };
                p.client.stopped_ns = times(p50, p99, p99_9);
                (p.all.service_ns, p.all.service_of_attempts_ns) = (times(100_000, 1_000_000, 2_000_000), None);
            }))
        };
        for (of, expected) in [
            ((0.1, 0, 100_000, 200_000), PASS),
            ((0.1, 0, 100_000, 200_001), NOTE),
            ((0.1, 0, 100_001, 200_001), CAUTION),
            ((0.1, 10_001, 100_000, 200_000), CAUTION),
            ((3.0, 90_000, 1_000_000, 2_000_000), CAUTION),
            ((3.1, 0, 0, 0), INVALID),
        ] {
            let result = stopped(of.0, of.1, of.2, of.3);
            assert_eq!(severity(&result, "client-saturated"), expected, "{of:?}");
        }
        let told = all(&stopped(0.6, 50_000, 1_000_000, 0), "client-saturated").pop().unwrap().observed;
        assert_eq!(
            told,
            "the client did not run for 5 % of the phase; the client's own delay is 50 % of the service p50, 100 % of the service p99"
        );
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
        // The client's threads share both processors. With more workers than processors, the client is the cause.
        let mut turns = queued(24.0, 24.0, 24.0);
        turns.environment.cpus_available = 2;
        assert_eq!(severity(&turns, "client-saturated"), NOTE);
        turns.trials[0].phases[0].workers = 3;
        assert_eq!(severity(&turns, "client-saturated"), CAUTION);
        // It got a tenth of a processor, although it was always ready to use one.
        assert_eq!(severity(&queued(1.2, 10.8, 1.2), "client-saturated"), INVALID);
        assert_eq!(severity(&queued(4.0, 8.0, 4.0), "client-saturated"), CAUTION);
        // Short bursts next to a busy neighbour: a fifth of what was wanted, but mostly nothing was wanted.
        assert_eq!(severity(&queued(1.0, 7.2, 1.0), "client-saturated"), CAUTION);
        assert_eq!(severity(&queued(1.0, 7.3, 1.0), "client-saturated"), INVALID);
    }

    #[test]
    fn client_saturated_when_it_delays_one_configuration_more() {
        let with = |share: f64, slower: f64| {
            let result = two_configurations(|other| {
                let phase = &mut other.phases[1];
                let p99 = phase.all.service_ns.p99.unwrap() as f64;
                phase.all.service_ns.p99 = Some((p99 * slower) as u64);
                phase.client.stopped_ns.p99 = Some((p99 * slower * share) as u64);
            });
            all(&result, "client-saturated").into_iter().filter(|found| found.phase.is_none()).collect::<Vec<_>>()
        };
        assert!(with(0.09, 10.0).is_empty());
        assert!(with(0.25, 0.5).is_empty(), "a short delay");
        let told = with(0.25, 10.0);
        assert!(told[0].observed.contains("p99: 0 % on one, 25.0 % on other"), "{told:?}");
    }
}
