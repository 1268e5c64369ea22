//! A history in words: for a terminal, for a comment on a pull request, as annotations and as JUnit's XML.

use std::fmt::Write as _;

use super::report::{HistoryChange, HistoryLine, HistoryReport, HistoryRun};
use crate::human::{bytes, digits, duration, listed, minute, plural, rate};
use crate::lines::paragraph;
use crate::stats::Estimate;
use crate::summary::Layout;
use crate::table::ColumnKind::{Count, Text};
use crate::table::{Table, escaped};

/// Runs that a row of bars shows.
const SHOWN: usize = 40;
/// Characters of a hash that are shown.
const COMMIT: usize = 10;

/// The history as text: the answer, what changed, and the lines.
pub fn history_text(report: &HistoryReport, layout: Layout) -> String {
    let mut out = String::new();
    let paint = layout.paint;
    let answer = paragraph("", "", &history_answer(report), layout.width);
    answer.lines().for_each(|line| {
        let _ = writeln!(out, "{}", paint.bold(line));
    });
    let about = history_changes(report);
    if !about.is_empty() {
        out.push('\n');
        about.iter().for_each(|text| out.push_str(&paragraph("- ", "  ", text, layout.width)));
    }
    let _ = write!(out, "\n{}", layout.table(&history_table(report)));
    out.push('\n');
    history_notes(report).iter().for_each(|note| out.push_str(&paragraph("", "", note, layout.width)));
    out
}

/// The same as Markdown.
pub fn history_markdown(report: &HistoryReport) -> String {
    let mut out = format!("**{}**\n\n", escaped(&history_answer(report)));
    history_changes(report).iter().for_each(|text| {
        let _ = writeln!(out, "- {}", escaped(text));
    });
    let _ = write!(out, "\n{}\n", history_table(report).markdown(escaped));
    history_notes(report).iter().for_each(|note| {
        let _ = writeln!(out, "<sub>{}</sub>", escaped(note));
    });
    out
}

/// Each change, and each that was taken back, in words.
pub fn history_changes(report: &HistoryReport) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in &report.lines {
        all.extend(line.changes.iter().map(|change| line.told(change)));
        all.extend(line.taken_back.iter().map(|back| {
            format!(
                "{}: the change at {} that the run of {} showed did not last, and was taken back with that of {}",
                line.name(),
                place(&back.first_after),
                minute(&back.found.began),
                minute(&back.taken_back.began)
            )
        }));
    }
    all
}

/// What the history answers: what has no value any more, and what became worse, or that nothing did and what would have
/// been found.
pub fn history_answer(report: &HistoryReport) -> String {
    let lost: Vec<String> = report.lines.iter().filter_map(HistoryLine::lost).collect();
    let found = || answer_of_changes(report, !lost.is_empty());
    let answer = match lost.as_slice() {
        [] => found(),
        [one] => format!("One figure has no value any more: {one}. {}", found()),
        all => format!("{} figures have no value any more: {}. {}", all.len(), listed(all), found()),
    };
    answer.trim_end().to_owned()
}

/// What became worse, or that nothing did, apart from what is lost.
fn answer_of_changes(report: &HistoryReport, some_lost: bool) -> String {
    let alarms = |line| HistoryLine::alarms(line, report.recent).map(move |change| line.told(change));
    let worse: Vec<Vec<String>> = report.lines.iter().map(|line| alarms(line).collect()).collect();
    let worse: Vec<&[String]> = worse.iter().map(Vec::as_slice).filter(|changes| !changes.is_empty()).collect();
    let rest = not_judged(report);
    match worse.as_slice() {
        [[one]] => return format!("One figure became worse: {one}.{rest}"),
        [[first, again @ ..]] => {
            return format!("One figure became worse {} times, the first time: {first}.{rest}", again.len() + 1);
        }
        [[first, ..], others @ ..] => {
            return format!("{} figures became worse, the first of them: {first}.{rest}", others.len() + 1);
        }
        _ => {}
    }
    let current: Vec<&HistoryLine> = report.lines.iter().filter(|line| line.current && !line.is_lost()).collect();
    if some_lost && current.is_empty() {
        return String::new();
    }
    if report.newest_is_empty() {
        return "The newest run has no figure that counts: see what its checks say.".to_owned();
    }
    if current.iter().all(|line| line.is_too_short()) {
        return format!(
            "No change can be found yet: that takes {} more. Until then it is not known how much runs differ by themselves.",
            plural(report.runs_missing().into(), "run")
        );
    }
    let mut found: Vec<(f64, String)> = current
        .iter()
        .filter_map(|line| {
            let change = (line.detectable? - 1.0).abs();
            Some((change, format!("{} of {}", percent_of(change), line.name())))
        })
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let would = match listed(found.into_iter().map(|(_, text)| text)) {
        none if none.is_empty() => String::new(),
        all => format!(" Within 5 runs, 9 of 10 times, a change for the worse would be found if it is at least {all}."),
    };
    let recent = report.recent.min(report.runs);
    let other = if some_lost { "other " } else { "" };
    format!(
        "No {other}change for the worse was found by the last {recent} of {}.{would}{rest}",
        plural(report.runs.into(), "run")
    )
}

/// Lines that are not judged, and why.
fn not_judged(report: &HistoryReport) -> String {
    let names = |lines: &mut dyn Iterator<Item = &HistoryLine>| listed(lines.map(HistoryLine::name));
    let short = names(&mut report.lines.iter().filter(|line| line.is_too_short()));
    let without = names(&mut report.without_newest());
    let told = |what: &str, names: String| if names.is_empty() { names } else { format!(" {what}: {names}.") };
    told("Not enough runs yet", short) + &told("Their newest run has no value that counts", without)
}

impl HistoryLine {
    /// `sqlite mixed.throughput`.
    pub fn name(&self) -> String {
        format!("{} {}", self.configuration, self.figure)
    }

    /// A value of it with its unit.
    pub fn shown(&self, value: f64) -> String {
        match self.unit.as_str() {
            "/s" => format!("{}/s", rate(value)),
            "ns" => duration(value),
            "B" => bytes(value),
            _ => digits(value),
        }
    }

    /// That it has no value any more, in words. `None` if it has.
    fn lost(&self) -> Option<String> {
        let last = self.values.last().filter(|_| self.is_lost())?;
        let (runs, since) = (plural(self.without_since.into(), "run"), minute(&last.of.began));
        Some(format!("{} had no value in the last {runs}, since that of {since}", self.name()))
    }

    /// Why it fails the check: what happened to the figure, and a sentence about it.
    fn failures(&self, recent: u32) -> Vec<(&'static str, String)> {
        let lost = self.lost().map(|lost| ("has no value any more", lost));
        lost.into_iter().chain(self.alarms(recent).map(|change| ("became worse", self.told(change)))).collect()
    }

    /// A change in words.
    pub fn told(&self, change: &HistoryChange) -> String {
        let (ratio, verb) = (change.ratio.value, if change.ratio.value < 1.0 { "fell" } else { "rose" });
        let by = match (change.ratio.low, change.ratio.high) {
            (Some(low), Some(high)) => {
                let change = percent_of((ratio - 1.0).abs());
                format!("{verb} by {change} (95 % interval {} to {})", signed(low), signed(high))
            }
            _ => format!("{verb} by {}", percent_of((ratio - 1.0).abs())),
        };
        let between = if change.earliest == change.latest {
            format!("between {} and {}", place(&change.before_earliest), place(&change.first_after))
        } else {
            format!(
                "most likely between {} and {}; after {} and not after {} with 95 % confidence",
                place(&change.last_before),
                place(&change.first_after),
                place(&change.before_earliest),
                place(&change.latest)
            )
        };
        let also = match change.also_changed.as_slice() {
            [] => String::new(),
            all => format!("; there also changed {}", listed(all)),
        };
        let since = match change.runs_since_found {
            _ if change.shown => String::new(),
            1 => "; the run since does not show it".to_owned(),
            several => format!("; the {several} runs since do not show it"),
        };
        format!(
            "{} {by}, from {} to {}, {between}; found with the run of {}{since}{also}",
            self.name(),
            self.shown(change.before),
            self.shown(change.after),
            minute(&change.found.began)
        )
    }
}

impl HistoryChange {
    /// `−9.8 %, c33 – c34`: its size, and the runs between which it was most likely.
    pub fn in_short(&self) -> String {
        let name = |run: &HistoryRun| {
            run.commit.as_deref().map_or_else(|| minute(&run.began), |commit| cut_commit(commit).to_owned())
        };
        format!("{}, {} – {}", signed(self.ratio.value), name(&self.last_before), name(&self.first_after))
    }
}

/// A run by its commit, or by its time if that is unknown.
fn place(run: &HistoryRun) -> String {
    match &run.commit {
        Some(commit) => format!("{} ({})", cut_commit(commit), minute(&run.began)),
        None => format!("the run of {}", minute(&run.began)),
    }
}

/// The beginning of a hash (SHA-1 or SHA-256). What else names a commit may differ at its end only.
fn cut_commit(commit: &str) -> &str {
    let is_hash = [40, 64].contains(&commit.len()) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { &commit[..COMMIT] } else { commit }
}

/// `+5.0 %`, `−4.8 %`.
fn signed(ratio: f64) -> String {
    let sign = if ratio < 1.0 { '−' } else { '+' };
    format!("{sign}{}", percent_of((ratio - 1.0).abs()))
}

/// A share in percent, with one digit behind the point where it is not a whole number.
fn percent_of(share: f64) -> String {
    let tenths = (share * 1_000.0).round();
    if tenths % 10.0 == 0.0 { format!("{:.0} %", tenths / 10.0) } else { format!("{:.1} %", tenths / 10.0) }
}

/// The lines as a table.
pub fn history_table(report: &HistoryReport) -> Table {
    let mut table = Table::new([
        ("configuration", Text),
        ("figure", Text),
        ("runs", Count),
        ("level", Count),
        ("noise", Count),
        ("would find", Count),
        ("newest on the right", Text),
    ]);
    for line in &report.lines {
        let values: Vec<f64> = line.values.iter().map(|value| value.value).collect();
        let level = line.level.as_ref().map_or_else(String::new, |level: &Estimate| line.shown(level.value));
        table.row([
            line.configuration.clone(),
            line.figure.clone(),
            line.values.len().to_string(),
            level,
            line.noise.map_or_else(String::new, |noise| format!("±{}", percent_of(noise))),
            match line.detectable.filter(|_| line.current) {
                _ if line.is_lost() => "no value".to_owned(),
                Some(ratio) => signed(ratio),
                None if line.current => String::new(),
                None => "ended".to_owned(),
            },
            bars(&values),
        ]);
    }
    table
}

/// Values as a row of bars from the least to the greatest; of many runs the newest.
fn bars(values: &[f64]) -> String {
    let values = &values[values.len().saturating_sub(SHOWN)..];
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    // A figure that hardly varies is a flat line.
    let most = values.iter().copied().fold(0.0, f64::max).max(least * 1.1);
    let scaled: Vec<f64> = values.iter().map(|value| (value - least) / (most - least) * 7.0 + 1.0).collect();
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    scaled.into_iter().map(|bar| BARS[(bar.round() as usize).clamp(1, 8) - 1]).collect()
}

/// What the columns mean, and what is in no line.
pub fn history_notes(report: &HistoryReport) -> Vec<String> {
    let mut notes = vec![format!(
        "noise: how much one run differs from the mean of its time (standard deviation). would find: the smallest change \
         that 5 more runs show in 9 of 10 cases. One false alarm is expected in {} without a change, over all lines.",
        plural(report.false_alarm_every.into(), "run")
    )];
    let invalid: u32 = report.lines.iter().map(|line| line.invalid).sum();
    let without: u32 = report.lines.iter().map(|line| line.without).sum();
    if invalid > 0 {
        notes.push(format!("Left out because a check found them invalid: {}.", plural(invalid.into(), "figure")));
    }
    if without > 0 {
        notes.push(format!("Runs without a value: {}.", plural(without.into(), "figure")));
    }
    if report.other_branches > 0 {
        notes.push(format!("Runs of other branches, not looked at: {}.", report.other_branches));
    }
    if report.without_branch > 0 {
        notes.push(format!("Runs without a branch, not looked at: {}.", report.without_branch));
    }
    let elsewhere = listed(report.not_in_newest().map(HistoryLine::name));
    if !elsewhere.is_empty() {
        notes.push(format!(
            "Lines that go on without the newest run (another machine, another study, or it lacks them): {elsewhere}."
        ));
    }
    for line in report.lines.iter().filter(|line| !line.current) {
        let Some(last) = line.values.last() else { continue };
        notes.push(format!(
            "{} ended with the run of {}: later runs are on another machine, of another study, or lack it. They are not \
             compared.",
            line.name(),
            minute(&last.of.began)
        ));
    }
    notes
}

/// Annotations of GitHub's workflows, one for each figure that became worse or has no value any more.
pub fn history_annotations(report: &HistoryReport) -> String {
    let escape = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let failures =
        report.lines.iter().flat_map(|line| line.failures(report.recent).into_iter().map(move |of| (line, of)));
    failures.map(|(line, (what, told))| format!("::error title={} {what}::{}\n", line.figure, escape(&told))).collect()
}

/// The lines as test cases of JUnit: one that became worse or has no value any more fails, one without enough runs is
/// skipped.
pub fn history_junit(report: &HistoryReport) -> String {
    let mut cases = String::new();
    let (mut failures, mut skipped, mut tests) = (0, 0, 0);
    for line in report.lines.iter().filter(|line| line.current) {
        tests += 1;
        let head = format!(
            "  <testcase classname=\"{}\" name=\"{}\"",
            attribute(&line.configuration),
            attribute(&line.figure)
        );
        let told: Vec<String> = line.failures(report.recent).into_iter().map(|(_, told)| told).collect();
        if let Some(first) = told.first() {
            failures += 1;
            let _ = writeln!(
                cases,
                "{head}>\n    <failure message=\"{}\">{}</failure>\n  </testcase>",
                attribute(first),
                attribute(&told.join("\n"))
            );
        } else if line.is_too_short() || !line.newest_counts {
            skipped += 1;
            let why = match line.newest_counts {
                true => format!("{} more needed", plural(line.runs_missing.into(), "run")),
                false => "its newest run has no value that counts".to_owned(),
            };
            let _ = writeln!(cases, "{head}>\n    <skipped message=\"{}\"/>\n  </testcase>", attribute(&why));
        } else {
            let _ = writeln!(cases, "{head}/>");
        }
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"storebench history\" tests=\"{tests}\" \
         failures=\"{failures}\" skipped=\"{skipped}\" errors=\"0\">\n{cases}</testsuite>\n"
    )
}

/// A text within an attribute or an element of XML.
fn attribute(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control() || *c == '\n').collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
