//! Was it the client that was measured?

use super::judge::{Finding, Scene};
use super::model::Level;
use crate::human::{duration, percent};
use crate::results::{ClientUse, TrialResult};

/// Embedded stores: share of the processor time of an operation that is the client's.
const EMBEDDED: (f64, f64) = (0.25, 0.60);
/// Workers of other stores: processor time over time.
const BUSY: (f64, f64) = (0.70, 0.90);
/// Below this the workers of an embedded store mostly wait, and a lighter client changes little.
const MOSTLY_WAITING: f64 = 0.50;
/// Time by which a sleeping thread was woken too late, over the phase.
const STARVED: (f64, f64) = (0.05, 0.25);
/// Time workers were ready but did not run, over their time.
const QUEUED: f64 = 0.20;
/// Workers that wait for a processor no longer than this still measure the store, if slowly: beside a
/// busy neighbour short bursts of work queue long without needing much.
const MOSTLY_QUEUED: f64 = 0.60;
/// Share of the processor time that was wanted and could have been had, but was not given.
const WITHHELD: (f64, f64) = (0.25, 0.75);

/// Whether the client itself was the limit: it filled its threads, or did not get to run.
pub(super) fn client_saturated(scene: &Scene<'_>) -> Option<Finding> {
    if scene.operations() == 0.0 {
        return None;
    }
    let busy = if scene.trial.embedded { embedded(scene) } else { separate(&scene.phase.client) };
    [busy, starved(scene), withheld(scene), queued(scene)].into_iter().flatten().max_by_key(|f| f.level)
}

fn level(value: f64, (caution, invalid): (f64, f64)) -> Level {
    match value {
        _ if value > invalid => Level::Invalid,
        _ if value > caution => Level::Caution,
        _ => Level::Pass,
    }
}

fn embedded(scene: &Scene<'_>) -> Option<Finding> {
    let client = &scene.phase.client;
    let (own, all) = (client.cpu_us_per_op?, client.process_cpu_us_per_op.filter(|us| *us > 0.0)?);
    // The calibration and the phase are different moments: a store that costs nothing shows a
    // little over or under one.
    let share = (own / all).min(1.0);
    let saw = format!(
        "the client's own work is {} of the processor time of an operation ({} of {})",
        percent(share),
        duration(own * 1e3),
        duration(all * 1e3)
    );
    let threshold = format!("caution above {}, invalid above {}", percent(EMBEDDED.0), percent(EMBEDDED.1));
    if scene.scheme() == "null" {
        let advice = "null measures the client itself: take these figures for the client's, not for a store's";
        return Some(Finding::new(Level::Note, saw, threshold, advice));
    }
    let mut found = level(share, EMBEDDED);
    let advice = if client.busiest_worker_share < MOSTLY_WAITING {
        found = found.min(Level::Note);
        "workers mostly waited, so the client was no limit; read processor time per operation with this share in mind"
    } else if scene.scheme() == "memory" {
        found = found.min(Level::Caution);
        "a store this fast is mostly client; compare stores by process_cpu_us_per_op less cpu_us_per_op"
    } else {
        "use larger documents or a heavier mix, or read throughput as that of client and store together"
    };
    Some(Finding::new(found, saw, threshold, advice))
}

fn separate(client: &ClientUse) -> Option<Finding> {
    let share = client.busiest_worker_share;
    Some(Finding::new(
        level(share, BUSY),
        format!("the busiest worker computed {} of its time", percent(share)),
        format!("caution above {}, invalid above {}", percent(BUSY.0), percent(BUSY.1)),
        "raise `workers`, or run on a machine with more or faster cores: the store was not at its limit",
    ))
}

/// A thread that only sleeps is woken late when the process is stopped or throttled.
fn starved(scene: &Scene<'_>) -> Option<Finding> {
    let wall_s = scene.phase.elapsed_ns as f64 / 1e9;
    let share = if wall_s > 0.0 { scene.phase.client.starved_s / wall_s } else { 0.0 };
    let found = level(share, STARVED);
    (found > Level::Pass).then(|| {
        Finding::new(
            found,
            format!("the client was kept from running for {} of the phase", percent(share)),
            format!("caution above {}, invalid above {}", percent(STARVED.0), percent(STARVED.1)),
            "give the client its processors: end what else runs, lift limits (cgroup, cpulimit), then run again",
        )
    })
}

/// Workers that wait for a processor while the process does not even use those it may: somebody
/// else, or a quota, has them. Waiting for each other is not meant.
fn withheld(scene: &Scene<'_>) -> Option<Finding> {
    let client = &scene.phase.client;
    let wall_s = scene.phase.elapsed_ns as f64 / 1e9;
    let got = client.process_cpu_s?.max(client.worker_cpu_s);
    if wall_s <= 0.0 || queued_share(client) <= QUEUED {
        return None;
    }
    let cores = scene.result.environment.cpus_available.max(1) as f64;
    let wanted = ((client.worker_cpu_s + client.run_queue_s) / wall_s).min(cores) * wall_s;
    let share = if wanted > 0.0 { (1.0 - got / wanted).max(0.0) } else { 0.0 };
    let most = if queued_share(client) > MOSTLY_QUEUED { Level::Invalid } else { Level::Caution };
    let found = level(share, WITHHELD).min(most);
    (found > Level::Pass).then(|| {
        Finding::new(
            found,
            format!("the client got {} of the processor time it was ready to use", percent(1.0 - share)),
            format!(
                "caution below {}; invalid below {} while workers waited for it above {} of their time",
                percent(1.0 - WITHHELD.0),
                percent(1.0 - WITHHELD.1),
                percent(MOSTLY_QUEUED)
            ),
            "give the client its processors: end what else runs, lift limits (cgroup, cpulimit), then run again",
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
            Level::Caution,
            format!("workers waited for a processor {} of their time", percent(share)),
            format!("caution above {}", percent(QUEUED)),
            "use fewer `workers` than processors, leaving some to the store, and end what else runs",
        )
    })
}

/// Whether client and store compete for the same processors.
pub(super) fn client_shares_host(trial: &TrialResult) -> Finding {
    let (level, saw) = if trial.embedded {
        (Level::Note, "the store runs within the client's process".to_owned())
    } else if let Some(host) = loopback(&trial.url) {
        (Level::Note, format!("the store is on this machine ({host})"))
    } else {
        (Level::Pass, "the store is on another host".to_owned())
    };
    Finding::new(
        level,
        saw,
        "note when client and store share a machine",
        "client and store share processors, memory and disk: do not read these figures as those of a store with a machine of its own",
    )
}

/// The host of a URL, if it is this one.
fn loopback(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let host = authority.rsplit('@').next()?;
    let name = match host.strip_prefix('[') {
        Some(six) => six.split(']').next()?,
        None => host.split(':').next()?,
    };
    let local = matches!(name, "localhost" | "::1" | "0.0.0.0" | "") || name.starts_with("127.");
    local.then_some(name)
}
