//! Checks the faults of a study.

use std::time::Duration;

use super::{Fault, FaultKind, RandomFaults};
use crate::workload::Study;
use crate::workload::check::{Problems, no_such};
use crate::workload::phases::Phase;

pub(in crate::workload) fn check(study: &Study, problems: &mut Problems<'_>) {
    for (position, phase) in study.phases.iter().enumerate() {
        let mut at = problems.within(&["phases", &position.to_string()]);
        if let Some(random) = &phase.random_faults {
            check_random(phase, random, &mut at);
        }
        let mut before: Option<Duration> = None;
        for (nth, fault) in phase.faults.iter().enumerate() {
            let mut at = at.within(&["faults", &nth.to_string()]);
            check_time(phase, fault, &mut before, &mut at);
            check_one(study, phase, fault, &mut at);
        }
        for (nth, fault) in phase.random_faults.iter().flat_map(|random| &random.of).enumerate() {
            let mut at = at.within(&["random_faults", "of", &nth.to_string()]);
            if fault.at.is_some() || fault.after.is_some() || fault.when.is_some() {
                at.say(&["do"], "the time of a random fault is drawn; remove `at`, `after` and `when`");
            }
            check_one(study, phase, fault, &mut at);
        }
    }
}

fn check_random(phase: &Phase, random: &RandomFaults, problems: &mut Problems<'_>) {
    if !phase.faults.is_empty() {
        problems.say(&["random_faults"], "give `faults` or `random_faults`, not both");
    }
    if random.of.is_empty() {
        problems.say(&["random_faults"], "no faults to draw from; add of = [{ do = \"kill\" }]");
    }
    if random.every.0 < Duration::from_millis(100) {
        problems.say(
            &["random_faults", "every"],
            "stretches of less than 100 ms leave nothing to measure; use a longer time",
        );
    }
    match phase.duration {
        None => problems
            .say(&["random_faults"], "random faults need the phase's `duration`, which is divided into stretches"),
        Some(duration) if duration.0 < random.every.0 * 2 => problems.say(
            &["random_faults", "every"],
            format!(
                "no fault would happen in {duration}, because the first stretch has none; use less than half of it"
            ),
        ),
        Some(_) => {}
    }
    if let Some(fault) = random.of.iter().find(|fault| fault.lasts.0 > random.every.0 / 2) {
        let message = format!("a `{}` lasts more than half a stretch; make `every` longer", fault.what.name());
        problems.say(&["random_faults", "every"], message);
    }
}

fn check_time(phase: &Phase, fault: &Fault, before: &mut Option<Duration>, problems: &mut Problems<'_>) {
    match [fault.at.is_some(), fault.after.is_some(), fault.when.is_some()].iter().filter(|given| **given).count() {
        0 => problems.say(
            &["do"],
            "the time of the fault is missing; add `at = \"5s\"`, `after` (a number of operations) or `when` (a statistic of the store)",
        ),
        1 => {}
        _ => problems.say(&["after"], "give only one of `at`, `after` and `when`"),
    }
    if let Some(at) = fault.at {
        if phase.duration.is_some_and(|duration| at.0 >= duration.0) {
            problems.say(&["at"], format!("the phase `{}` is over by then; use less than its duration", phase.name));
        }
        if before.is_some_and(|before| at.0 < before) {
            problems.say(
                &["at"],
                "the previous fault is not over by then; use a later time, because faults cannot overlap",
            );
        }
        *before = Some(at.0 + fault.lasts.0);
    }
    if fault.after.is_some_and(|after| phase.operations.is_some_and(|operations| after.0 >= operations.0)) {
        problems.say(&["after"], format!("the phase `{}` is over by then; use less than its operations", phase.name));
    }
}

fn check_one(study: &Study, phase: &Phase, fault: &Fault, problems: &mut Problems<'_>) {
    use FaultKind::{DiskFull, Kill, Limit, Link, Partition, Pause, PowerCut, Reset, Restart, RollingRestart, Run};
    let options: [(&str, bool, &[FaultKind]); 17] = [
        ("keep", fault.keep.is_some(), &[PowerCut]),
        ("cold", fault.cold, &[Kill, Restart]),
        ("cpus", fault.cpus.is_some(), &[Limit]),
        ("memory", fault.memory.is_some(), &[Limit]),
        ("disk_read", fault.disk_read.is_some(), &[Limit]),
        ("disk_write", fault.disk_write.is_some(), &[Limit]),
        ("latency", fault.latency.is_some(), &[Link]),
        ("jitter", fault.jitter.is_some(), &[Link]),
        ("bandwidth", fault.bandwidth.is_some(), &[Link]),
        ("stall", fault.stall, &[Link]),
        ("half_open", fault.half_open.is_some(), &[Link]),
        ("refuse", fault.refuse, &[Link]),
        ("link", fault.link.is_some(), &[Link, Reset]),
        ("command", fault.command.is_some(), &[Run]),
        ("groups", !fault.groups.is_empty(), &[Partition]),
        ("clients_reach", fault.clients_reach.is_some(), &[Partition]),
        ("one_way", fault.one_way, &[Partition]),
    ];
    for (key, _, kinds) in options.iter().filter(|(_, given, kinds)| *given && !kinds.contains(&fault.what)) {
        let names: Vec<String> = kinds.iter().map(|kind| format!("do = \"{}\"", kind.name())).collect();
        problems.say(&[key], format!("`{key}` is only for {}; remove it", names.join(" and ")));
    }
    if fault.what == Partition {
        check_groups(study, fault, problems);
    }
    if fault.what == Link && !options.iter().any(|(_, given, kinds)| *given && **kinds == [Link]) {
        problems.say(
            &["do"],
            "a link fault needs an effect; add latency = \"50ms\", bandwidth, stall = true, half_open or refuse",
        );
    }
    let sizes = [fault.memory, fault.disk_read, fault.disk_write];
    if fault.what == Limit && fault.cpus.is_none() && sizes.iter().all(Option::is_none) {
        problems.say(&["do"], "a limit needs a value; add memory = \"256MiB\", cpus, disk_read or disk_write");
    }
    if fault.cpus.is_some_and(|cpus| !(0.01..=1e6).contains(&cpus)) {
        problems.say(&["cpus"], "use 0.01 cores or more; 0.5 is half a core");
    }
    for (key, bytes) in [
        ("memory", fault.memory),
        ("disk_read", fault.disk_read),
        ("disk_write", fault.disk_write),
        ("bandwidth", fault.bandwidth),
    ] {
        if bytes.is_some_and(|bytes| bytes.0 == 0) {
            problems.say(&[key], "0 would stop it completely; use do = \"pause\" or stall = true");
        }
    }
    if fault.what == Run && fault.command.as_deref().is_none_or(|command| command.trim().is_empty()) {
        problems.say(&["do"], "the command is missing; add command = \"…\"");
    }
    let has_to_last = matches!(fault.what, Pause | DiskFull | Limit | Link | Partition);
    if has_to_last && fault.lasts.0.is_zero() {
        problems.say(&["do"], "the duration is missing; add `for = \"3s\"`");
    }
    if let Some(server) = &fault.server {
        if !study.servers.contains_key(server) {
            problems.say(&["server"], no_such("server", server, study.servers.keys().map(String::as_str)));
        } else if matches!(fault.what, PowerCut | DiskFull | RollingRestart) || fault.what.is_of_link() {
            problems.say(
                &["server"],
                format!("a `{}` cannot be limited to one server; remove `server`", fault.what.name()),
            );
        }
    }
    if let Some(link) = fault.link.as_ref().filter(|link| !study.links.contains_key(*link)) {
        problems.say(&["link"], no_such("link", link, study.links.keys().map(String::as_str)));
    }
    if phase.loads() || phase.copy.is_some() {
        problems.say(
            &["do"],
            "a load or a copy ends with the first document that cannot be written; use faults in a phase with a `mix`",
        );
    }
    if study.search.as_ref().is_some_and(|search| search.phase == phase.name) {
        problems.say(
            &["do"],
            format!(
                "the rate of `{}` is searched, and the fault would disturb each probe; use another phase",
                phase.name
            ),
        );
    }
}

fn check_groups(study: &Study, fault: &Fault, problems: &mut Problems<'_>) {
    if fault.groups.is_empty() || fault.groups.iter().any(Vec::is_empty) {
        problems.say(&["do"], "a partition needs groups of servers; add groups = [[\"a\"], [\"b\"]]");
    }
    if fault.one_way && fault.groups.len() != 2 {
        problems.say(&["one_way"], "`one_way` needs exactly two groups");
    }
    for name in fault.groups.iter().flatten() {
        match study.servers.get(name) {
            None => problems.say(&["groups"], no_such("server", name, study.servers.keys().map(String::as_str))),
            Some(server) if !server.namespace => {
                problems.say(
                    &["groups"],
                    format!("`{name}` shares the network of this machine; add `namespace = true` to it"),
                );
            }
            Some(_) => {}
        }
    }
}
