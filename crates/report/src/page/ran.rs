//! What was run, and how to run it again.

use maud::{Markup, html};
use storebench_lab::human::{bytes, count, duration, percent};
use storebench_lab::results::RunResult;

use super::arms::share;
use crate::recorded::Recorded;
use crate::subject::{Subject, run_names};

pub(super) fn section(subject: &Subject) -> Markup {
    html! {
        section #ran {
            h2 { "What was run" }
            @for (run, name) in subject.runs.iter().zip(run_names(&subject.runs)) {
                @if subject.runs.len() > 1 { h3 { (name) } }
                (of_run(run))
            }
        }
    }
}

fn of_run(run: &Recorded) -> Markup {
    let of = &run.result;
    html! {
        h3 { "Run it again" }
        pre.command { code { (command(of)) } }
        h3 { "Documents" }
        (documents(of))
        h3 { "Phases" }
        (phases(of))
        h3 { "Stores" }
        (stores(of))
        (flaws(of))
        h3 { "Machine" }
        (machine(of))
        @if let Some(study) = &run.study {
            details { summary { "The study" } pre { code { (study) } } }
        }
        details { summary { "Every trial" } (trials(of)) }
    }
}

/// The command that runs it again, by what the result holds.
fn command(of: &RunResult) -> String {
    let kept = || format!("{}/study.toml", of.run.folder.as_deref().unwrap_or("."));
    let mut text = format!("storebench run {}", of.run.study_file.clone().unwrap_or_else(kept));
    let quoted = |word: &str| match word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c)) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let mut preset = false;
    for over in &of.run.overrides {
        match over.strip_prefix("preset=") {
            Some(name) => {
                preset = true;
                text += &format!(" --preset {}", quoted(name));
            }
            None => text += &format!(" --set {}", quoted(over)),
        }
    }
    if of.run.scale != 1.0 && !preset {
        text += &format!(" --scale {}", of.run.scale);
    }
    let mut known: Vec<&str> = Vec::new();
    for arm in &of.plan.arms {
        if !known.contains(&arm.store.as_str()) {
            known.push(&arm.store);
            text +=
                &format!(" \\\n    --store {}", quoted(&format!("{}={}", arm.store, arm.url.replace("hosted+", ""))));
        }
    }
    text
}

fn documents(of: &RunResult) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th scope="col" { "collection" } th.number scope="col" { "documents" } th.number scope="col" { "mean size" }
                th.number scope="col" { "zstd, pages" } th.number scope="col" { "snappy, documents" } th scope="col" { "a document" }
            } }
            tbody { @for c in &of.documents { tr {
                td.wide { (c.named()) }
                @match &c.existing {
                    Some(existing) => td colspan="5" { "what the store holds as " code { (existing) } ", only read" },
                    None => {
                        td.number { (count(c.count)) }
                        td.number { (bytes(c.mean_bytes as f64)) }
                        td.number { (c.compression.as_ref().map_or("-".to_owned(), |x| percent(x.page_zstd3))) }
                        td.number { (c.compression.as_ref().map_or("-".to_owned(), |x| percent(x.doc_snappy))) }
                        td {
                            @if let Some(sample) = &c.sample { code.sample { (sample) } }
                            @else if c.own { span.dim { "the user's own documents are not shown" } }
                        }
                    }
                }
            } } }
        } }
    }
}

fn phases(of: &RunResult) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                @for name in ["phase", "does", "for", "at", "by", "keys"] { th scope="col" { (name) } }
            } }
            tbody { @for p in &of.plan.phases { tr {
                td { (p.name) @if p.warm_up { span.dim { " warm-up" } } }
                td { (p.does) }
                td {
                    @if let Some(ns) = p.duration_ns { (duration(ns as f64)) }
                    @else if let Some(n) = p.operations { (count(n)) " operations" }
                    @else if let Some(n) = p.documents { (count(n)) " documents" }
                }
                td {
                    @if p.searched { "a rate that is searched" }
                    @else if let Some(rate) = &p.rate { (rate) " a second, open loop" }
                    @else if !p.loads { "as fast as it goes, closed loop" }
                }
                td {
                    (count(p.workers.into())) " workers"
                    @if p.connections > 1 { " × " (p.connections) " connections" }
                    @if p.in_flight > 1 { " × " (p.in_flight) " in flight" }
                }
                td { @if !p.loads && p.parts.is_none() { (p.popularity) } }
            } } }
        } }
    }
}

/// Versions, and what durability and consistency were set to.
fn stores(of: &RunResult) -> Markup {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    let first: Vec<_> = of
        .trials
        .iter()
        .filter(|t| {
            let key = (t.store.as_str(), t.version.as_str());
            let new = !seen.contains(&key);
            seen.push(key);
            new
        })
        .collect();
    html! {
        div.scroll { table {
            thead { tr { @for name in ["store", "where", "version", "phase", "an acknowledged write", "a read"] { th scope="col" { (name) } } } }
            tbody { @for trial in first { @for (nth, phase) in trial.phases.iter().enumerate() { tr {
                td { @if nth == 0 { (trial.store) } }
                td { @if nth == 0 { (trial.url) } }
                td { @if nth == 0 { (trial.version) } }
                td { (phase.name) }
                td { (phase.durability.name) @if let Some(means) = &phase.durability.means { span.dim { " " (means) } } }
                td { (phase.consistency.name) @if let Some(means) = &phase.consistency.means { span.dim { " " (means) } } }
            } } } }
        } }
        @for trial in of.trials.iter().take(1) {
            @for note in &trial.notes { p.dim { (trial.store) ": " (note) } }
        }
    }
}

/// What was wrong with the published study, and how this one avoids it.
fn flaws(of: &RunResult) -> Markup {
    let flaws = of.run.study["flaws"].as_array().cloned().unwrap_or_default();
    html! {
        @if !flaws.is_empty() {
            h3 { "What readers found wrong with the original" }
            ul { @for flaw in &flaws {
                li { (flaw["original"].as_str().unwrap_or_default()) ". " b { "Here: " } (flaw["here"].as_str().unwrap_or_default()) "." }
            } }
        }
    }
}

fn machine(of: &RunResult) -> Markup {
    let e = &of.environment;
    let maybe = |value: &Option<String>| value.clone().unwrap_or_else(|| "not known".to_owned());
    let mut rows = vec![
        ("processor", format!("{}, {} of {} processors", maybe(&e.cpu_model), e.cpus_available, e.cpus)),
        ("memory", e.memory_bytes.map_or("not known".to_owned(), |b| bytes(b as f64))),
        ("system", format!("{}, kernel {}, {}", maybe(&e.os), e.kernel, e.architecture)),
        ("governor", maybe(&e.governor)),
        ("virtualisation", maybe(&e.virtualisation)),
        ("clock", maybe(&e.clock_source)),
        ("load before", e.load_average_1m.map_or("not known".to_owned(), |l| format!("{l}"))),
    ];
    if let Some(limit) = e.memory_limit_bytes {
        rows.push(("memory limit", bytes(limit as f64)));
    }
    for disk in &e.disks {
        let free = match (disk.free_bytes, disk.total_bytes) {
            (Some(free), Some(total)) => format!(", {} of {} free", bytes(free as f64), bytes(total as f64)),
            _ => String::new(),
        };
        let kind =
            disk.rotational.map_or("", |r| if r { ", reported as rotating" } else { ", reported as solid state" });
        let row = ("disk", format!("{} on {}{kind}{free}", maybe(&disk.filesystem), maybe(&disk.device)));
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    html! {
        div.scroll { table.facts { tbody { @for (name, value) in rows { tr { th scope="row" { (name) } td { (value) } } } } } }
    }
}

fn trials(of: &RunResult) -> Markup {
    html! {
        div.scroll { table.sortable.trials {
            thead { tr {
                @for name in ["trial", "block", "arm", "began", "phase", "took", "operations", "errors", "client CPU/op", "slip p99", "slots busy", "ended"] {
                    th scope="col" { (name) }
                }
            } }
            tbody { @for t in &of.trials { @for p in &t.phases { tr {
                td { (t.trial) }
                td { (t.block) }
                td { (storebench_lab::arms::arm_of(t)) }
                td { (p.began.get(11..19).unwrap_or(&p.began)) }
                td { (p.name) }
                td { (duration(p.elapsed_ns as f64)) }
                td { (count(p.ops.values().map(|op| op.count).sum())) }
                td { (count(p.ops.values().map(|op| op.errors).sum())) }
                td { (p.client.cpu_us_per_op.map_or("-".to_owned(), |us| duration(us * 1e3))) }
                td { (p.client.slip_ns.p99.map_or("-".to_owned(), |ns| duration(ns as f64))) }
                td { (share(p.slots_busy_share)) }
                td {
                    @if let Some(why) = &p.partial { (why) }
                    @else if let Some(failure) = t.failure.as_ref().filter(|f| f.during == p.name) { (failure.message) }
                }
            } } } }
        } }
    }
}
