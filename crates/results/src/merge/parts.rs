//! Reads and checks the folders of parts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use storebench_engine::measure::PhaseRecord;
use storebench_study::Part;

use crate::run_folder::{PartRow, part_rows};
use crate::{Identity, PartResult, PartsResult, Pass, PhaseResult, RESULT_FILE, RunResult, Table, read_run, rows_of};

use super::MergeError;

/// The parts of one run.
pub(super) struct Parts {
    /// The expected number of parts.
    pub(super) of: u32,
    /// The parts that have a result, by number.
    read: BTreeMap<u32, ReadPart>,
}

/// The run folder of one part.
pub(super) struct ReadPart {
    pub(super) part: Part,
    pub(super) result: RunResult,
    path: PathBuf,
    /// Its records, one row for each pass of a phase.
    pub(super) rows: Vec<PartRow>,
    figures: Vec<Figure>,
}

/// A row of the table `server_resources`.
#[derive(Debug, Deserialize)]
pub(super) struct Figure {
    trial: u32,
    phase: String,
    pass: String,
    pub(super) at_ns: u64,
    pub(super) figure: String,
    pub(super) value: f64,
}

fn bad_input<T>(what: String) -> Result<T, MergeError> {
    Err(MergeError::BadInput(what))
}

impl Parts {
    /// Reads the parts in these folders.
    pub(super) fn read(folders: &[PathBuf]) -> Result<Self, MergeError> {
        let mut read: BTreeMap<u32, ReadPart> = BTreeMap::new();
        let mut of = None;
        for path in folders.iter().flat_map(|folder| folders_of_parts(folder)) {
            let found = ReadPart::read(path)?;
            let (part, path) = (found.part, found.path.display());
            if let Some(known) = read.get(&part.number) {
                return bad_input(format!("part {part} is given twice: {} and {path}", known.path.display()));
            }
            if let Some((_, known)) = read.first_key_value()
                && let Some(what) = identity(&known.result).differences(&identity(&found.result)).next()
            {
                return bad_input(format!(
                    "{path} and {} are parts of different runs: {what} differs; give the parts of one run",
                    known.path.display()
                ));
            }
            if *of.get_or_insert(part.of) != part.of {
                return bad_input(format!("{path} is part {part}, but the run has {} parts", of.unwrap_or(0)));
            }
            read.insert(part.number, found);
        }
        match of {
            Some(of) => Ok(Self { of, read }),
            None => bad_input(format!(
                "{}: no part of a run is here; give the folders that `storebench run --part` wrote, or the folder that \
                 holds them",
                folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
            )),
        }
    }

    /// The first part that has a result.
    pub(super) fn first(&self) -> &ReadPart {
        self.read.values().next().expect("`read` returns at least one part")
    }

    /// The parts that have a result, in order.
    pub(super) fn all(&self) -> impl Iterator<Item = &ReadPart> + Clone {
        self.read.values()
    }

    /// The parts without a result.
    pub(super) fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        (1..=self.of).filter(|number| !self.read.contains_key(number))
    }

    pub(super) fn described(&self) -> PartsResult {
        let describe = |part: &ReadPart| PartResult {
            part: part.part.number,
            folder: part.path.display().to_string(),
            began: part.result.run.began.clone(),
            ended: part.result.run.ended.clone(),
            incomplete: part.incomplete(),
            environment: part.result.environment.clone(),
        };
        PartsResult { of: self.of, missing: self.missing().collect(), merged: self.all().map(describe).collect() }
    }
}

/// The folders of parts at this path: the path itself, or its subfolders whose names begin with `part-`.
fn folders_of_parts(path: &Path) -> Vec<PathBuf> {
    let entries = if path.join(RESULT_FILE).exists() { None } else { std::fs::read_dir(path).ok() };
    let Some(entries) = entries else { return vec![path.to_owned()] };
    let is_part = |path: &PathBuf| {
        let name = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("part-"));
        // A part that was killed before it wrote a result counts as missing.
        name && path.join(RESULT_FILE).exists()
    };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_part).collect();
    found.sort();
    found
}

fn identity(part: &RunResult) -> Identity {
    Identity::of(&part.run, &part.plan)
}

impl ReadPart {
    fn read(path: PathBuf) -> Result<Self, MergeError> {
        let result = read_run(&path)?;
        let Some(part) = result.run.part else {
            return bad_input(format!(
                "{}: this run was not divided into parts; give the folders that `storebench run --part` wrote",
                path.display()
            ));
        };
        let damaged = |e: std::io::Error| MergeError::BadInput(format!("{}: {e}; copy it again", path.display()));
        let rows = part_rows(&path).map_err(damaged)?;
        let figures = rows_of(&path.join(Table::ServerResources.file())).map_err(damaged)?;
        Ok(Self { part, result, rows, figures, path })
    }

    /// The original text of the study.
    pub(super) fn study_text(&self) -> Option<String> {
        std::fs::read_to_string(self.path.join("study.toml")).ok()
    }

    fn incomplete(&self) -> Option<String> {
        if self.result.run.ended.is_none() {
            return Some("it ended before its run did".to_owned());
        }
        if self.result.run.interrupted {
            return Some("it was interrupted".to_owned());
        }
        self.result.trials.iter().find_map(|trial| trial.failure.as_ref()).map(|failure| failure.message.clone())
    }

    /// The part's result for a phase.
    pub(super) fn phase(&self, trial: u32, name: &str) -> Option<&PhaseResult> {
        let of = self.result.trials.iter().find(|of| of.trial == trial)?;
        of.phases.iter().find(|phase| phase.name == name)
    }

    /// The part's record of the same pass as in the row of another part.
    pub(super) fn record(&self, as_in: &PartRow) -> Option<PhaseRecord> {
        let same = |row: &&PartRow| (row.trial, &row.phase, &row.pass) == (as_in.trial, &as_in.phase, &as_in.pass);
        self.rows.iter().find(same)?.record()
    }

    /// The part's record of a phase.
    pub(super) fn record_of(&self, trial: u32, phase: &PhaseResult) -> Option<PhaseRecord> {
        self.rows.iter().find(|row| row.is_of(trial, &phase.name, phase.pass()))?.record()
    }

    /// The resource use of servers that the part sampled during a phase.
    pub(super) fn figures(&self, trial: u32, phase: &PhaseResult) -> Vec<&Figure> {
        let pass: Pass = phase.pass();
        let of = |row: &&Figure| row.trial == trial && row.phase == phase.name && row.pass == pass.to_string();
        self.figures.iter().filter(of).collect()
    }
}
