//! Merges the parts of a run into one ordinary run.
//!
//! First, the records of each phase are [merged]. Then the code for a run of one process computes the figures. So every
//! figure covers all operations, and none is averaged over parts.

mod generators;
mod parts;

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use storebench_engine::measure::{PhaseRecord, merged};
use storebench_engine::store::Capabilities;
use storebench_study::workload::Claim;

use crate::bottleneck::Bottleneck;
use crate::conclude::conclude;
use crate::own_delay::own_delay;
use crate::run_folder::{PartRow, judge_again};
use crate::validity::PREPARE;
use crate::{
    Failure, FailureKind, FigureRow, FolderError, Pass, PhaseResult, ResourcesResult, RunFolder, RunInfo, RunResult,
    Secrets, TrialResult, gather_phase,
};

use generators::{all_clients, generators};
use parts::{Parts, ReadPart};

/// Why parts cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A folder cannot be read, or the merged run cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The folders are not the parts of one run.
    #[error("{0}")]
    BadInput(String),
}

/// Merges the parts in these folders. Each folder is that of a part, or contains folders of parts. Writes the merged
/// run to a new folder in `runs_dir`, named after the run and the date.
///
/// The result names each part that is missing or ended early, and marks the affected trials as incomplete.
///
/// # Errors
/// A folder is not a part, two folders are the same part, or the parts belong to different runs. In these cases,
/// nothing is written.
pub fn merge(folders: &[PathBuf], runs_dir: &Path) -> Result<(RunResult, PathBuf), MergeError> {
    let parts = Parts::read(folders)?;
    let first = parts.first();
    let mut folder = RunFolder::create(runs_dir, &first.result.run.name, Secrets::default())?;
    if let Some(text) = first.study_text() {
        folder.write_study(&text)?;
    }
    let mut result = RunResult { run: run_info(&parts, &folder), ..first.result.clone() };
    result.trials = Vec::new();
    for planned in &first.result.plan.trials {
        result.trials.extend(merged_trial(&parts, planned.trial, &mut folder)?);
    }
    let published: Vec<Claim> =
        result.run.study.get("published").and_then(|all| serde_json::from_value(all.clone()).ok()).unwrap_or_default();
    conclude(&published, &mut result);
    folder.write_result(&result)?;
    let path = folder.finish()?;
    Ok((result, path))
}

fn run_info(parts: &Parts, folder: &RunFolder) -> RunInfo {
    let first = &parts.first().result.run;
    let began = parts.all().map(|part| &part.result.run.began).min().cloned();
    // `None` if any part has no end time.
    let ended: Option<Vec<&String>> = parts.all().map(|part| part.result.run.ended.as_ref()).collect();
    RunInfo {
        began: began.unwrap_or_default(),
        ended: ended.and_then(|all| all.into_iter().max().cloned()),
        interrupted: parts.all().any(|part| part.result.run.interrupted),
        part: None,
        parts: Some(parts.described()),
        folder: Some(folder.path().display().to_string()),
        ..first.clone()
    }
}

/// Merges a trial of all parts. Returns `None` if no part began it.
fn merged_trial(parts: &Parts, number: u32, folder: &mut RunFolder) -> Result<Option<TrialResult>, MergeError> {
    let of_parts: Vec<(&ReadPart, &TrialResult)> =
        parts.all().filter_map(|part| Some((part, part.result.trials.iter().find(|t| t.trial == number)?))).collect();
    let Some((_, first)) = of_parts.first() else { return Ok(None) };
    let mut trial = TrialResult { phases: Vec::new(), ..(*first).clone() };
    trial.failure = failure(parts, &of_parts);
    if trial.failure.is_none()
        && let Some((part, other)) = of_parts.iter().find(|(_, other)| other.searches != first.searches)
    {
        trial.failure = Some(incomplete(
            other.searches.first().map_or("search", |search| &search.phase),
            format!("part {} searched different rates than part {}", part.part.number, of_parts[0].0.part.number),
        ));
    }
    // Those of the part that came furthest: what it found counts, even if another part failed earlier.
    let all_phases = of_parts.iter().map(|(_, trial)| &trial.phases).max_by_key(|phases| phases.len());
    let all_phases = all_phases.map_or(&[][..], Vec::as_slice);
    for (nth, phase) in all_phases.iter().enumerate() {
        if let Some(why) =
            nth.checked_sub(1).and_then(|before| too_early(&of_parts, &all_phases[before].name, &phase.name))
        {
            // The early part missed documents that another part had not written yet.
            trial.failure.get_or_insert_with(|| incomplete(&phase.name, why));
            break;
        }
        let of_phase: Vec<(&ReadPart, &PhaseResult)> =
            of_parts.iter().filter_map(|(part, _)| Some((*part, part.phase(number, &phase.name)?))).collect();
        let (found, unread) = merged_phase(&trial, &of_phase, folder)?;
        if let (Some(number), None) = (unread, &trial.failure) {
            let why = format!("the record of part {number} is missing; copy its run folder again");
            trial.failure = Some(incomplete(&phase.name, why));
        }
        trial.phases.extend(found);
    }
    // Add the other probes of a search to the tables and logs.
    for row in parts.first().rows.iter().filter(|row| row.trial == number) {
        let shown = trial.phases.iter().any(|phase| phase.name == row.phase && phase.pass().to_string() == row.pass);
        if shown {
            continue;
        }
        let records: Vec<PhaseRecord> = of_parts.iter().filter_map(|(part, _)| part.record(row)).collect();
        if let (Some(record), Some(pass)) = (merged(records), Pass::parse(&row.pass)) {
            folder.add_phase(number, &trial.store, pass, &record, [])?;
        }
    }
    Ok(Some(trial))
}

fn incomplete(during: &str, message: String) -> Failure {
    Failure { kind: FailureKind::OtherPart, during: during.to_owned(), message }
}

/// Why a trial is incomplete, if it is. A missing part comes first, because it explains why the others failed.
fn failure(parts: &Parts, of_parts: &[(&ReadPart, &TrialResult)]) -> Option<Failure> {
    if let Some(missing) = parts.missing().next() {
        return Some(incomplete("merge", format!("part {missing} of {} is missing", parts.of)));
    }
    let began = |part: &&ReadPart| of_parts.iter().any(|(other, _)| other.part == part.part);
    if let Some(never) = parts.all().find(|part| !began(part)) {
        return Some(incomplete(PREPARE, format!("part {} did not begin this trial", never.part.number)));
    }
    let failed = of_parts.iter().filter_map(|(part, trial)| Some((part, trial.failure.as_ref()?)));
    let of_own = failed.clone().find(|(_, failure)| failure.kind != FailureKind::OtherPart);
    if let Some((part, failure)) = of_own.or_else(|| failed.clone().next()) {
        return Some(Failure { message: format!("part {}: {}", part.part.number, failure.message), ..failure.clone() });
    }
    let most = of_parts.iter().map(|(_, trial)| trial.phases.len()).max().unwrap_or(0);
    let short = of_parts.iter().find(|(_, trial)| trial.phases.len() < most);
    let ended = of_parts.iter().find(|(part, _)| part.result.run.ended.is_none());
    let (part, trial) = short.or(ended)?;
    let during = trial.phases.last().map_or(PREPARE, |phase| &phase.name);
    Some(incomplete(during, format!("part {} ended early, after phase `{during}`", part.part.number)))
}

/// Why a phase began too early: a part began it before another part ended the previous phase.
fn too_early(of_parts: &[(&ReadPart, &TrialResult)], before: &str, phase: &str) -> Option<String> {
    let spans = |name| of_parts.iter().filter_map(move |(part, trial)| Some((part, span(trial, name)?)));
    let (early, (began, _)) = spans(phase).min_by_key(|(_, (began, _))| *began)?;
    let (late, (_, ended)) = spans(before).max_by_key(|(_, (_, ended))| *ended)?;
    // Parts that run one after another on purpose are a matter for `parts-apart`.
    (began < ended && late.part != early.part && !one_after_the_other(of_parts, before)).then(|| {
        format!(
            "part {} began phase `{phase}` before part {} ended `{before}`; give a later time with --start-at",
            early.part.number, late.part.number
        )
    })
}

/// When a part began and ended a phase.
fn span(trial: &TrialResult, phase: &str) -> Option<(Timestamp, Timestamp)> {
    let found = trial.phases.iter().find(|of| of.name == phase)?;
    let began: Timestamp = found.began.parse().ok()?;
    Some((began, began.checked_add(Duration::from_nanos(found.elapsed_ns)).ok()?))
}

/// Whether any part began a phase after another part had ended it.
fn one_after_the_other(of_parts: &[(&ReadPart, &TrialResult)], phase: &str) -> bool {
    let spans: Vec<_> = of_parts.iter().filter_map(|(_, trial)| span(trial, phase)).collect();
    spans.iter().any(|a| spans.iter().any(|b| b.0 > a.1))
}

/// Merges a phase of all parts. Also returns the first part whose record is missing, if there is one.
fn merged_phase(
    trial: &TrialResult,
    of_parts: &[(&ReadPart, &PhaseResult)],
    folder: &mut RunFolder,
) -> Result<(Option<PhaseResult>, Option<u32>), MergeError> {
    let Some((first_part, first)) = of_parts.first() else { return Ok((None, None)) };
    let (mut records, mut read, mut unread) = (Vec::new(), Vec::new(), None);
    for (part, phase) in of_parts {
        match part.record_of(trial.trial, phase) {
            Some(record) => {
                read.push((*part, *phase));
                records.push(record);
            }
            None => unread = unread.or(Some(part.part.number)),
        }
    }
    let generators = generators(&read, &records);
    let Some(record) = merged(records) else { return Ok((None, unread)) };
    let used = first_part.figures(trial.trial, first);
    let rows =
        used.iter().map(|row| FigureRow { at_ns: row.at_ns, took_ns: None, figure: &row.figure, value: row.value });
    folder.add_phase(trial.trial, &trial.store, first.pass(), &record, rows)?;
    let capabilities = Capabilities { embedded: trial.embedded, ..Capabilities::default() };
    let mut found = gather_phase(&record, &first_part.result.documents, &capabilities, None);
    found.durability = first.durability.clone();
    found.consistency = first.consistency.clone();
    found.isolation = first.isolation.clone();
    if let (Some(rate), Some(planned)) = (&mut found.rate, &first.rate) {
        rate.planned = planned.planned.clone();
    }
    for (op, of_first) in found.ops.values_mut().zip(first.ops.values()) {
        op.query_plan.clone_from(&of_first.query_plan);
    }
    found.client = all_clients(&generators, found.client.send_delay_ns);
    found.all.own_delay_share = own_delay(&found.all, &found.client);
    found.generators = generators;
    found.settings.clone_from(&first.settings);
    found.limits = judge_again(&record, &first.limits);
    found.probe = first.probe;
    found.resources = first.resources.clone().map(|used| of_all_parts(used, &found));
    found.store_after.clone_from(&first.store_after);
    found.bottleneck = Bottleneck::of(&found, trial.embedded, first_part.result.environment.cpus_available as f64);
    if let Some(missing) = unread.filter(|_| found.partial.is_none()) {
        found.partial = Some(format!("the record of part {missing} is missing"));
    }
    Ok((Some(found), unread))
}

/// Relates the store's resource use to the operations of all parts.
fn of_all_parts(mut used: ResourcesResult, phase: &PhaseResult) -> ResourcesResult {
    let operations: u64 = phase.ops.values().map(|op| op.count).sum();
    let written: u64 = phase.ops.values().map(|op| op.written_bytes).sum();
    // Part 1 samples the servers only while its own phase runs.
    if (used.span_ns as f64) < 0.99 * phase.elapsed_ns as f64 {
        if let Some(disk) = &mut used.disk {
            disk.amplification_unknown.get_or_insert_with(|| "part 1 ended before other parts".to_owned());
        }
        return used;
    }
    if let Some(store) = &mut used.store {
        store.cpu_us_per_op = (operations > 0).then(|| store.cpu_s * 1e6 / operations as f64);
    }
    if let Some(disk) = used.disk.as_mut().filter(|disk| written > 0 && disk.amplification_unknown.is_none()) {
        let own = disk.write_bytes.saturating_sub(disk.others_write_bytes.unwrap_or(0));
        disk.write_amplification = Some(own as f64 / written as f64);
    }
    used
}

impl PartRow {
    fn is_of(&self, trial: u32, phase: &str, pass: Pass) -> bool {
        self.trial == trial && self.phase == phase && self.pass == pass.to_string()
    }
}
