//! What a run will do, with every trial listed.

use std::fmt;

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};

use storebench_study::workload::FIRST_LOOK;

use crate::human::{bytes, count, duration, percent, workers};
use crate::run_folder::is_zero;

/// The most trials that are listed.
const SHOWN_TRIALS: usize = 40;

/// Everything that a run does.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The study's title.
    pub title: String,
    /// The seed of everything random.
    pub seed: u64,
    /// Factor on the number of documents.
    pub scale: f64,
    /// How often every store is measured, at most.
    pub repeats: u32,
    /// The half width of intervals at which the run ends, as a share: 0.03 for ± 3 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
    /// The documents.
    pub collections: Vec<PlannedCollection>,
    /// What is done in each trial, in this order.
    pub phases: Vec<PlannedPhase>,
    /// Number of the study's own stores, if `--store` replaced them; 0 if not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replaced_stores: usize,
    /// What is compared: every store at every combination of the factors' values.
    pub configurations: Vec<PlannedConfiguration>,
    /// Every trial, in the order they run.
    pub trials: Vec<PlannedTrial>,
    /// Rough estimate of time and disk space.
    pub estimate: Estimate,
}

/// The documents of one collection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedCollection {
    /// Its name.
    pub collection: String,
    /// Number of documents, after scale, relation and file.
    pub count: u64,
    /// Mean size of a document, from a sample.
    pub mean_bytes: u64,
    /// Size of all documents.
    pub total_bytes: u64,
    /// The store's name for them, if they already exist and are only read.
    pub existing: Option<String>,
    /// The most keys that are sampled from those.
    pub sample: Option<u64>,
    /// The file they come from, if they are the user's own.
    pub from: Option<String>,
    /// The target compression ratio of pages with zstd, if one is set.
    pub compress_to: Option<f64>,
    /// The least and greatest ratio that the fields can reach.
    pub reachable: Option<(f64, f64)>,
    /// Secondary indexes.
    pub indexes: Vec<Vec<String>>,
    /// Indexes in the stores' own words: their texts by language, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub own_indexes: IndexMap<String, serde_json::Value>,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedPhase {
    /// Its name.
    pub name: String,
    /// Whether it loads collections.
    pub loads: bool,
    /// Whether it only warms up.
    pub warm_up: bool,
    /// What it does, in words: `load users`, `read 50 %, update 50 %`.
    pub does: String,
    /// Documents that a load or a copy moves.
    pub documents: Option<u64>,
    /// Size of these documents.
    pub bytes: Option<u64>,
    /// Number of operations, if known.
    pub operations: Option<u64>,
    /// How long it sends, if known.
    pub duration_ns: Option<u64>,
    /// The scheduled operations per second as the study gives them, in words. Null in a closed loop.
    pub rate: Option<String>,
    /// Whether the highest rate that meets the study's limits is searched.
    pub searched: bool,
    /// Threads that send operations; for a copy, its tasks.
    pub workers: u32,
    /// Connections of each worker.
    pub connections: u32,
    /// Operations in flight on each connection.
    pub in_flight: u32,
    /// Whether each worker stays on one processor of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pin_workers: bool,
    /// For a copy: the parts into which the work is split.
    pub parts: Option<u32>,
    /// The distribution of requests over keys.
    pub popularity: String,
}

/// One store at one combination of values.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedConfiguration {
    /// Its name: the store, and the values.
    pub configuration: String,
    /// Name of the store.
    pub store: String,
    /// Its URL, without secrets.
    pub url: String,
    /// Values of the factors that concern it, by path.
    pub values: IndexMap<String, serde_json::Value>,
    /// Whether it repeats the first configuration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// What the store does not support, and was therefore left out on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Documents that it loads.
    pub documents: u64,
    /// Rough estimate of time and disk space for one of its trials.
    pub estimate: Estimate,
}

/// A part of the study that was left out on a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The phase, unless it is an index.
    pub phase: Option<String>,
    /// The operation, unless it is the whole phase or an index.
    pub operation: Option<String>,
    /// What, in words: "phase `by-user`", "`scan` of phase `mixed`", "the index of `books`".
    pub what: String,
    /// Why, after the words "the store": `does not support …`.
    pub why: String,
}

/// One configuration measured once.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedTrial {
    /// Number in the order they run, from 1.
    pub trial: u32,
    /// The round it belongs to, from 1.
    pub round: u32,
    /// Name of the configuration.
    pub configuration: String,
    /// Name of the store.
    pub store: String,
    /// Its URL, without secrets.
    pub url: String,
    /// The host that is used, if stores take turns on the study's `hosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// Rough estimate of time and disk space.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The shortest time it may take: phases of known length, and loads and counted phases at the fast end of what
    /// stores do.
    pub least_s: f64,
    /// The longest time it may take, with loads and counted phases at the slow end.
    pub most_s: f64,
    /// The part of `least_s` that loads take.
    pub least_load_s: f64,
    /// The part of `most_s` that loads take, with the waiting after them.
    pub most_load_s: f64,
    /// The assumptions behind both ends.
    pub assumes: String,
    /// Bytes of documents written by one trial.
    pub written_bytes: u64,
    /// Disk space that one store may need: documents, keys, indexes and the store's overhead.
    pub disk_bytes: u64,
    /// The same for all stores together, each with its largest configuration. Rounds take turns, so all stores exist at
    /// the same time.
    pub all_disk_bytes: u64,
    /// Disk space of this machine that copy files need in the folder for temporary files.
    pub files_bytes: u64,
}

impl Plan {
    /// The phases of a configuration: all, without those that were left out on its store.
    pub fn phases_of<'a>(&'a self, configuration: &str) -> impl Iterator<Item = &'a PlannedPhase> {
        let of = self.configurations.iter().find(|of| of.configuration == configuration);
        let left_out = of.map_or(&[][..], |of| &of.left_out);
        let runs =
            |name: &String| !left_out.iter().any(|out| out.operation.is_none() && out.phase.as_ref() == Some(name));
        self.phases.iter().filter(move |phase| runs(&phase.name))
    }

    /// What was left out, by configuration.
    pub fn left_out(&self) -> Vec<(&str, &[LeftOut])> {
        self.configurations.iter().map(|of| (of.configuration.as_str(), &of.left_out[..])).collect()
    }

    /// `60 trials, 12 min to 1 h 40 min, up to 6.1 GiB of disk`.
    pub fn in_a_line(&self) -> String {
        let e = &self.estimate;
        let at_most = if self.until.is_some() { "at most " } else { "" };
        format!(
            "{at_most}{} trials, {} to {}, up to {} of disk",
            count(self.trials.len() as u64),
            duration(e.least_s * 1e9),
            duration(e.most_s * 1e9),
            bytes(e.all_disk_bytes as f64)
        )
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        writeln!(f, "seed {} · scale {}", self.seed, self.scale)?;
        writeln!(f, "\ndocuments")?;
        for c in &self.collections {
            if let Some(existing) = &c.existing {
                let sample = count(c.sample.unwrap_or_default());
                writeln!(
                    f,
                    "  {}: existing `{existing}` in the store, at most {sample} keys, read only",
                    c.collection
                )?;
                continue;
            }
            let (each, all) = (bytes(c.mean_bytes as f64), bytes(c.total_bytes as f64));
            write!(f, "  {}: {} of {each}, {all} in all", c.collection, count(c.count))?;
            if let Some(from) = &c.from {
                write!(f, ", from {from}")?;
            }
            if let (Some(target), Some((least, most))) = (c.compress_to, c.reachable) {
                write!(f, ", compressing to {target:.2} (these fields reach {least:.2} to {most:.2})")?;
            }
            for index in &c.indexes {
                write!(f, ", index over {}", index.join(" and "))?;
            }
            for name in c.own_indexes.keys() {
                write!(f, ", index `{name}` in each store's own language")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\nphases of each trial")?;
        for p in &self.phases {
            write!(f, "  {}: {}", p.name, p.does)?;
            if let Some(n) = p.documents {
                write!(f, ", {} documents", count(n))?;
            } else if let Some(n) = p.operations {
                write!(f, ", {} operations", count(n))?;
            }
            if let Some(ns) = p.duration_ns {
                write!(f, ", {}", duration(ns as f64))?;
            }
            match (&p.rate, p.parts) {
                (_, Some(parts)) => {
                    let tasks = if p.workers == 1 { "task" } else { "tasks" };
                    write!(f, ", {} {tasks}, {} parts", count(p.workers.into()), count(parts.into()))?;
                }
                (Some(rate), None) => write!(f, ", open loop at {rate}")?,
                (None, None) if p.searched => write!(f, ", open loop at the highest rate that meets the limits")?,
                (None, None) => write!(f, ", closed loop")?,
            }
            if p.parts.is_none() {
                write!(f, ", {}", workers(p.workers, p.connections, p.in_flight))?;
            }
            if !p.loads && p.parts.is_none() {
                write!(f, ", keys {}", p.popularity)?;
            }
            writeln!(f, "{}", if p.warm_up { ", warm-up" } else { "" })?;
        }
        if self.configurations.len() > 1 && self.configurations.iter().any(|a| !a.values.is_empty()) {
            writeln!(f, "\nconfigurations")?;
            for a in &self.configurations {
                let (least, most) = (duration(a.estimate.least_s * 1e9), duration(a.estimate.most_s * 1e9));
                writeln!(f, "  {}: {} documents, {least} to {most} per trial", a.configuration, count(a.documents))?;
            }
        }
        let left_out = self.configurations.iter().flat_map(|of| of.left_out.iter().map(|out| (&of.store, out)));
        let told: IndexSet<(&String, &LeftOut)> = left_out.collect();
        if !told.is_empty() {
            writeln!(f, "\nleft out")?;
            for (store, LeftOut { what, why, .. }) in told {
                writeln!(f, "  on {store}: {what}, because it {why}")?;
            }
        }
        writeln!(f, "\ntrials, in this order")?;
        if let Some(until) = self.until {
            writeln!(
                f,
                "  until every interval is within ± {}, looked at after round {FIRST_LOOK} and each one after it",
                percent(until)
            )?;
        }
        for t in self.trials.iter().take(SHOWN_TRIALS) {
            writeln!(f, "  {}: {} ({}), round {} of {}", t.trial, t.configuration, t.url, t.round, self.repeats)?;
        }
        if self.trials.len() > SHOWN_TRIALS {
            writeln!(f, "  … and {} more; --json lists all of them", count((self.trials.len() - SHOWN_TRIALS) as u64))?;
        }
        let e = &self.estimate;
        writeln!(f, "\ntime   {} to {}, assuming {}", duration(e.least_s * 1e9), duration(e.most_s * 1e9), e.assumes)?;
        writeln!(
            f,
            "disk   about {} for one store ({} of documents written by loads)",
            bytes(e.disk_bytes as f64),
            bytes(e.written_bytes as f64)
        )?;
        if e.all_disk_bytes > e.disk_bytes {
            writeln!(
                f,
                "       about {} for all stores, which exist at the same time",
                bytes(e.all_disk_bytes as f64)
            )?;
        }
        if e.files_bytes > 0 {
            let files = bytes(e.files_bytes as f64);
            writeln!(f, "       and about {files} for copy files, in the folder for temporary files (TMPDIR)")?;
        }
        writeln!(f, "nothing was changed")
    }
}
