//! Resources of the client process, the store and the machine, and figures that the store reports, over time.

use indexmap::IndexMap;

use crate::charts::timeline::{Points, Timeline, is_long_enough, line_of, round_at_first};
use crate::data::{Axis, Chart, Scale, Series, Unit};
use crate::recorded::{ResourceRow, StoreRow};
use crate::subject::Subject;

/// Samples are taken several times a second. Each point covers this time.
const STEP_NS: u64 = 1_000_000_000;

const CPU: &str = "processors in use by the client process";
const MEMORY: &str = "memory of the client process";

/// Processors, memory, and the store's own figures.
pub(super) fn charts(subject: &Subject, axis: &Timeline) -> Vec<Chart> {
    if !is_long_enough(subject) {
        return Vec::new();
    }
    let mut chart = axis.chart(subject, "resources", "Resources over time");
    chart.about =
        "Resources of the client process (which includes an embedded store), of the store's processes, its folder and the \
         machine, and the figures that the store reported during phases."
            .to_owned();
    for (run, configuration, trial) in subject.trials() {
        let (label, keys) = line_of(subject, run, trial);
        let of = &subject.runs[run];
        let rows: Vec<&ResourceRow> = of.resources.iter().filter(|row| row.trial == trial.trial).collect();
        let mut lines = process(&rows, axis);
        let seen: Vec<&StoreRow> = of.used.iter().filter(|row| row.trial == trial.trial).collect();
        lines.extend(seen_of(&seen, axis));
        let mut told: IndexMap<&str, Points> = IndexMap::new();
        for row in of.store.iter().filter(|row| row.trial == trial.trial) {
            let (x, y) = told.entry(&row.figure).or_default();
            x.push(Some(axis.at(&row.phase, row.at_ns)));
            y.push(Some(row.value));
        }
        lines.extend(told.into_iter().map(|(figure, (x, y))| (format!("store: {figure}"), unit_of(figure), x, y)));
        for (figure, unit, x, y) in lines {
            let axis = chart.axis(Axis::new(&figure, unit, Scale::Linear));
            let mut keys = keys.clone();
            keys.insert("figure".to_owned(), figure);
            chart.add(Series::new(configuration, label.clone(), keys, axis), x, y);
        }
    }
    let round = round_at_first(subject, &mut chart);
    chart.choose(&[("figure", "figure", None), ("round", "round", round)]);
    vec![chart]
}

type LineOf = (String, Unit, Vec<Option<f64>>, Vec<Option<f64>>);

/// Average processors in use and maximum memory, for each second.
fn process(rows: &[&ResourceRow], axis: &Timeline) -> Vec<LineOf> {
    let (mut x, mut cpu, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    while at < rows.len() {
        let first = rows[at];
        let same = |row: &&&ResourceRow| row.phase == first.phase && row.at_ns / STEP_NS == first.at_ns / STEP_NS;
        let group = rows[at..].iter().take_while(same).count();
        let last = rows[at + group - 1];
        if at > 0 && rows[at - 1].phase != first.phase {
            x.push(Some(axis.at(&first.phase, 0)));
            cpu.push(None);
            memory.push(None);
        }
        let over = last.at_ns.saturating_sub(first.at_ns);
        let more = rows.get(at + group).is_some_and(|next| next.phase == first.phase);
        if !more && at > 0 && rows[at - 1].phase == first.phase && over < STEP_NS / 2 {
            // The rest of a second is too short to represent it.
            at += group;
            continue;
        }
        x.push(Some(axis.at(&first.phase, first.at_ns.midpoint(last.at_ns))));
        cpu.push((over > 0).then(|| last.cpu_ns.saturating_sub(first.cpu_ns) as f64 / over as f64));
        memory.push(rows[at..at + group].iter().map(|row| row.rss_bytes).max().map(|b| b as f64));
        at += group;
    }
    vec![(CPU.to_owned(), Unit::Plain, x.clone(), cpu), (MEMORY.to_owned(), Unit::Bytes, x, memory)]
}

/// A line of observed counters: the sum of these counts over time, or over another count.
struct Seen {
    title: &'static str,
    unit: Unit,
    counts: &'static [&'static str],
    over: Option<&'static str>,
    /// Factor from a count to the line's unit.
    each: f64,
}

const fn seen(title: &'static str, unit: Unit, counts: &'static [&'static str], each: f64) -> Seen {
    Seen { title, unit, counts, over: None, each }
}

const SEEN: [Seen; 8] = [
    seen(
        "processors in use by the store's processes",
        Unit::Plain,
        &["store.cpu_user_ns_total", "store.cpu_system_ns_total"],
        1e-9,
    ),
    seen("bytes written to the store's disk per second", Unit::Bytes, &["disk.write_bytes_total"], 1.0),
    seen("bytes read from the store's disk per second", Unit::Bytes, &["disk.read_bytes_total"], 1.0),
    Seen {
        over: Some("host.cpu_all_ns_total"),
        ..seen("machine: processors in use", Unit::Share, &["host.cpu_busy_ns_total"], 1.0)
    },
    seen("machine: CPU pressure (some task waited)", Unit::Share, &["host.cpu_pressure_ns_total"], 1e-9),
    seen("machine: disk pressure (some task waited)", Unit::Share, &["host.disk_pressure_ns_total"], 1e-9),
    seen("machine: memory pressure (some task waited)", Unit::Share, &["host.memory_pressure_ns_total"], 1e-9),
    seen("voluntary context switches of the store per second", Unit::PerSecond, &["store.waits_total"], 1.0),
];

/// Levels, which are drawn as they are.
const LEVELS: [(&str, &str, Unit); 4] = [
    ("store.rss_bytes", "memory of the store's processes", Unit::Bytes),
    ("folder.disk_bytes", "bytes in the store's folder", Unit::Bytes),
    ("store.threads", "threads of the store's processes", Unit::Plain),
    ("host.available_bytes", "machine: available memory", Unit::Bytes),
];

/// Lines of the store's processes, its folder and the machine.
fn seen_of(rows: &[&StoreRow], axis: &Timeline) -> Vec<LineOf> {
    let of = |figure: &str| -> Vec<(&str, u64, f64)> {
        let rows = rows.iter().filter(|row| row.figure == figure);
        rows.map(|row| (row.phase.as_str(), row.at_ns, row.value)).collect()
    };
    let mut lines: Vec<LineOf> = Vec::new();
    for line in SEEN {
        let mut counts = of(line.counts[0]);
        for more in &line.counts[1..] {
            counts.iter_mut().zip(of(more)).for_each(|(sum, more)| sum.2 += more.2);
        }
        let over = line.over.map(of);
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for (nth, pair) in counts.windows(2).enumerate() {
            let [(phase, from, before), (same, to, after)] = pair else { continue };
            if phase != same {
                x.push(Some(axis.at(same, 0)));
                y.push(None);
                continue;
            }
            let span = match &over {
                Some(over) => over.get(nth + 1).zip(over.get(nth)).map_or(0.0, |(after, before)| after.2 - before.2),
                None => to.saturating_sub(*from) as f64 / 1e9,
            };
            x.push(Some(axis.at(phase, from.midpoint(*to))));
            y.push((span > 0.0).then(|| (after - before) * line.each / span));
        }
        lines.push((line.title.to_owned(), line.unit, x, y));
    }
    for (figure, title, unit) in LEVELS {
        let points = of(figure).into_iter().map(|(phase, at, value)| (Some(axis.at(phase, at)), Some(value)));
        let (x, y) = points.unzip();
        lines.push((title.to_owned(), unit, x, y));
    }
    // A line that is never above zero was not observed, or does not exist.
    lines.retain(|(_, _, _, y)| y.iter().flatten().any(|value| *value > 0.0));
    lines
}

/// The unit of a store's figure, which is part of its name.
fn unit_of(figure: &str) -> Unit {
    let ends = |all: &[&str]| all.iter().any(|end| figure.ends_with(end));
    match () {
        () if ends(&["_bytes", "bytes"]) => Unit::Bytes,
        () if ends(&["_ns"]) => Unit::Ns,
        () if ends(&["_per_s"]) => Unit::PerSecond,
        () if ends(&["_share"]) => Unit::Share,
        () => Unit::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_rates_within_a_phase_and_levels_stay() {
        let row = |phase: &str, at_s: u64, figure: &str, value: f64| StoreRow {
            pass: String::new(),
            trial: 1,
            phase: phase.to_owned(),
            at_ns: at_s * 1_000_000_000,
            figure: figure.to_owned(),
            value,
        };
        let rows = [
            row("load", 0, "store.cpu_user_ns_total", 1e9),
            row("load", 0, "store.cpu_system_ns_total", 0.0),
            row("load", 0, "folder.disk_bytes", 7.0),
            row("load", 2, "store.cpu_user_ns_total", 3e9),
            row("load", 2, "store.cpu_system_ns_total", 1e9),
            row("load", 2, "folder.disk_bytes", 9.0),
            row("steady", 0, "store.cpu_user_ns_total", 5e9),
            row("steady", 0, "store.cpu_system_ns_total", 1e9),
        ];
        let lines = seen_of(&rows.iter().collect::<Vec<_>>(), &Timeline::default());
        let titles: Vec<&str> = lines.iter().map(|line| line.0.as_str()).collect();
        assert_eq!(titles, ["processors in use by the store's processes", "bytes in the store's folder"]);
        assert_eq!(lines[0].3, [Some(1.5), None], "what lies between two phases belongs to neither");
        assert_eq!(lines[1].3, [Some(7.0), Some(9.0)]);
    }
}
