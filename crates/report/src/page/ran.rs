//! What was run, and how to run it again.

use std::collections::HashSet;

use indexmap::IndexSet;
use maud::{Markup, html};
use storebench_results::human::{bytes, count, duration, percent, workers};
use storebench_results::plan::PlannedPhase;
use storebench_results::{
    Guarantee, PhaseResult, ReportedSettings, RunResult, SettingResult, TrialResult, reported_settings,
};

use super::tables::{self, text};
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
        (generators(of))
        h3 { "Machine" }
        (machine(of))
        @if let Some(study) = &run.study {
            details { summary { "Study file" } pre { code { (study) } } }
        }
        details { summary { "All trials" } (trials(of)) }
    }
}

/// The command that repeats the run, from what its result records.
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
    let mut known = HashSet::new();
    for configuration in of.plan.configurations.iter().filter(|configuration| known.insert(&configuration.store)) {
        text += &format!(
            " \\\n    --store {}",
            quoted(&format!("{}={}", configuration.store, configuration.url.replace("hosted+", "")))
        );
    }
    text
}

fn documents(of: &RunResult) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th scope="col" { "collection" } th.number scope="col" { "documents" } th.number scope="col" { "mean size" }
                th.number scope="col" { "zstd, pages" } th.number scope="col" { "snappy, documents" } th scope="col" { "example" }
            } }
            tbody { @for c in &of.documents { tr {
                td.wide { (c.named()) }
                @match &c.existing {
                    Some(existing) => td colspan="5" { "existing data in the store, read-only: " code { (existing) } },
                    None => {
                        td.number { (count(c.count)) }
                        td.number { (bytes(c.mean_bytes as f64)) }
                        td.number { (c.compression.as_ref().map_or("n/a".to_owned(), |x| percent(x.page_zstd3))) }
                        td.number { (c.compression.as_ref().map_or("n/a".to_owned(), |x| percent(x.doc_snappy))) }
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
    let row = |p: &PlannedPhase| {
        vec![
            text(html! { (p.name) @if p.warm_up { span.dim { " warm-up" } } }),
            text(&p.does),
            text(html! {
                @if let Some(ns) = p.duration_ns { (duration(ns as f64)) }
                @else if let Some(n) = p.operations { (count(n)) " operations" }
                @else if let Some(n) = p.documents { (count(n)) " documents" }
            }),
            text(html! {
                @if p.searched { "searched" }
                @else if let Some(rate) = &p.rate { (rate) ", open loop" }
                @else if !p.loads { "as fast as possible, closed loop" }
            }),
            text(html! {
                (workers(p.workers, p.connections, p.in_flight))
                @if p.pin_workers { ", pinned" }
            }),
            text(if !p.loads && p.parts.is_none() { p.popularity.as_str() } else { "" }),
        ]
    };
    plain(["phase", "work", "length", "rate", "concurrency", "key popularity"], of.plan.phases.iter().map(row))
}

/// A table of text that is not sorted.
fn plain<const N: usize>(titles: [&str; N], rows: impl Iterator<Item = Vec<tables::Cell>>) -> Markup {
    html! { div.scroll { (tables::table("", titles.map(|title| (title, false)), rows)) } }
}

/// Versions, and the settings for durability, consistency and isolation.
fn stores(of: &RunResult) -> Markup {
    let mut seen = HashSet::new();
    let first = of.trials.iter().filter(|t| seen.insert((&t.store, &t.version))).collect::<Vec<_>>();
    let rows = first.into_iter().flat_map(|trial| {
        trial.phases.iter().enumerate().map(move |(nth, phase)| {
            let of_trial = [&trial.store, &trial.url, &trial.version].map(|of| text(if nth == 0 { of } else { "" }));
            let guarantee = |of: &Guarantee| {
                let more = of.in_words();
                text(html! { (of.name) span.dim { (more.trim_start_matches(&of.name)) } })
            };
            let isolation = phase.isolation.as_ref().map_or_else(|| text(""), guarantee);
            let of_phase = [text(&phase.name), guarantee(&phase.durability), guarantee(&phase.consistency), isolation];
            of_trial.into_iter().chain(of_phase).collect()
        })
    });
    html! {
        (plain(["store", "URL", "version", "phase", "durability", "consistency", "isolation"], rows))
        @let notes: IndexSet<(&str, &str)> =
            of.trials.iter().flat_map(|t| t.notes.iter().map(|note| (t.store.as_str(), note.as_str()))).collect();
        @for (store, note) in notes { p.dim { (store) ": " (note) } }
        @for of in reported_settings(of) { (settings(&of)) }
    }
}

/// How a store says that it is set up: what was changed comes first.
fn settings(of: &ReportedSettings<'_>) -> Markup {
    let mut rows: Vec<(&String, &SettingResult)> = of.settings.all.iter().collect();
    rows.sort_by_key(|(_, setting)| setting.changed != Some(true));
    let row = |(name, setting): (&String, &SettingResult)| {
        let changed = match setting.changed {
            Some(true) => "changed",
            Some(false) => "as shipped",
            None => "",
        };
        vec![text(name), text(&setting.value), text(changed)]
    };
    let summary = format!("Settings of {}: {}", of.name, of.settings.in_words());
    html! {
        @if rows.is_empty() { p.dim { (summary) } }
        @else { details { summary { (summary) } (plain(["setting", "value", ""], rows.into_iter().map(row))) } }
    }
}

/// Flaws of the published study, and how this one avoids them.
fn flaws(of: &RunResult) -> Markup {
    let flaws = of.run.study["flaws"].as_array().cloned().unwrap_or_default();
    html! {
        @if !flaws.is_empty() {
            h3 { "Known flaws of the original study" }
            ul { @for flaw in &flaws {
                li { (flaw["original"].as_str().unwrap_or_default()) ". " b { "Here: " } (flaw["here"].as_str().unwrap_or_default()) "." }
            } }
        }
    }
}

/// What each part of a merged run did.
fn generators(of: &RunResult) -> Markup {
    let tables = of.trials.iter().flat_map(|trial| {
        let phases = trial.phases.iter().filter(|phase| !phase.warm_up);
        phases.filter_map(move |phase| Some((trial, phase, storebench_results::generators(phase)?)))
    });
    html! {
        @if of.run.parts.is_some() { h3 { "Parts" } }
        @for (trial, phase, table) in tables {
            h4 { (trial.configuration.as_str()) ", " (phase.name) @if of.plan.repeats > 1 { ", round " (trial.round) } }
            div.scroll { (tables::of_figures("sortable", &table)) }
        }
    }
}

fn machine(of: &RunResult) -> Markup {
    let e = &of.environment;
    let maybe = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut rows = vec![
        ("processor", format!("{}, {} of {} processors", maybe(&e.cpu_model), e.cpus_available, e.cpus)),
        ("memory", e.memory_bytes.map_or("unknown".to_owned(), |b| bytes(b as f64))),
        ("system", format!("{}, kernel {}, {}", maybe(&e.os), e.kernel, e.architecture)),
        ("governor", maybe(&e.governor)),
        ("virtualisation", maybe(&e.virtualisation)),
        ("clock", maybe(&e.clock_source)),
        ("load average before", e.load_average_1m.map_or("unknown".to_owned(), |l| format!("{l}"))),
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
    let titles = [
        "trial",
        "round",
        "configuration",
        "began",
        "phase",
        "duration",
        "operations",
        "errors",
        "client CPU/op",
        "send delay p99",
        "in-flight limit in use",
        "ended early",
    ];
    let known = |ns: Option<f64>| ns.map_or_else(|| "n/a".to_owned(), duration);
    let row = |(t, p): (&TrialResult, &PhaseResult)| {
        let failure = t.failure.as_ref().filter(|f| f.during == p.name).map(|failure| &failure.message);
        [
            t.trial.to_string(),
            t.round.to_string(),
            t.configuration.clone(),
            p.began.get(11..19).unwrap_or(&p.began).to_owned(),
            p.name.clone(),
            duration(p.elapsed_ns as f64),
            count(p.ops.values().map(|op| op.count).sum()),
            count(p.ops.values().map(|op| op.errors).sum()),
            known(p.client.cpu_us_per_op.map(|us| us * 1e3)),
            known(p.client.send_delay_ns.p99.map(|ns| ns as f64)),
            percent(p.in_flight_share),
            p.partial.as_ref().or(failure).cloned().unwrap_or_default(),
        ]
        .map(text)
        .into()
    };
    let all = of.trials.iter().flat_map(|t| t.phases.iter().map(move |p| (t, p)));
    html! { div.scroll { (tables::table("sortable trials", titles.map(|title| (title, false)), all.map(row))) } }
}

#[cfg(test)]
mod tests {
    use storebench_results::SettingsResult;

    use super::*;

    #[test]
    fn changed_settings_come_first() {
        let all = [("a", "1", Some(false)), ("b", "2", Some(true)), ("c", "<3>", None)];
        let of = |(name, value, changed): (&str, &str, Option<bool>)| {
            (name.to_owned(), SettingResult { value: value.to_owned(), changed })
        };
        let told = SettingsResult { all: all.into_iter().map(of).collect(), ..SettingsResult::default() };
        let shown = |told: &SettingsResult| {
            settings(&ReportedSettings { name: "pg", kind: "postgres", values: None, settings: told }).into_string()
        };
        let page = shown(&told);
        assert!(page.starts_with("<details><summary>Settings of pg: 1 setting changed (b 2)</summary>"), "{page}");
        let at = |text: &str| page.find(text).unwrap();
        assert!(at("<td>b</td>") < at("<td>a</td>") && at("<td>a</td>") < at("<td>c</td>"), "{page}");
        assert!(page.contains("&lt;3&gt;"), "{page}");
        let unknown = SettingsResult { unknown: Some("no answer".into()), ..SettingsResult::default() };
        assert_eq!(shown(&unknown), r#"<p class="dim">Settings of pg: settings unknown: no answer</p>"#);
    }
}
