//! The parts of a run: which part this process runs, and how it synchronises with the others.
//!
//! The work of a part is a pure function of the study, the seed and the part. The parts must agree on only four things:
//! that the first part has prepared the store, when a phase begins, which rate a search tries next, and whether to keep
//! a database. Either they exchange messages in a [meeting](Meeting), or the user gives the [times](StartTimes) at
//! which phases begin.

mod folder;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use storebench_engine::measure::{PhaseRecord, merged};
use storebench_engine::store::StoreError;
use storebench_engine::{Event, Observer, PhasePlan, ResolvedPhase, Stop, unix_now_ns};
use storebench_results::Identity;
use storebench_study::Part;
use storebench_study::workload::Study;

pub use folder::SharedFolder;

use super::runner::Configuration;

/// Exchanges messages between the parts of a run.
pub trait Meeting: fmt::Debug + Send + Sync {
    /// Sends a message to all parts, waits for a message from each part, and returns them in the order of parts. All
    /// parts must call it the same number of times. If parts are slow, calls `waits` once with their numbers.
    ///
    /// # Errors
    /// Why messages are missing: a part has ended or was lost, or the user interrupted the run.
    fn exchange(&self, message: &str, stop: &Stop, waits: &mut dyn FnMut(&[u32])) -> Result<Vec<String>, String>;
}

/// The start times of phases that the user gave, in ns since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartTimes {
    /// The first phase.
    pub first_unix_ns: u64,
    /// Later phases, by name.
    pub later_unix_ns: IndexMap<String, u64>,
}

/// How the parts synchronise.
#[derive(Debug, Clone)]
pub enum Agreement {
    /// They exchange messages.
    Meeting(Arc<dyn Meeting>),
    /// They exchange nothing. Phases begin at given times, by the clock of each machine.
    Times(StartTimes),
}

/// The part of a run that this process runs.
#[derive(Debug, Clone)]
pub struct PartRequest {
    /// The part.
    pub part: Part,
    /// How it synchronises with the others.
    pub agreement: Agreement,
}

/// Without a meeting, the pause between the planned end of a phase and the start of the next one. In this time, workers
/// end and the part writes its result.
const BETWEEN_PHASES: Duration = Duration::from_secs(5);
/// Without a meeting, how long before the first phase the other parts start to use the prepared store.
const PREPARED_BEFORE: Duration = Duration::from_secs(2);

/// All parts know the start of a phase at least this long in advance.
const LEAST_NOTICE: Duration = Duration::from_millis(50);

/// The maximum difference between the clocks of parts. If it is greater, the trial fails.
const MOST_SKEW: Duration = Duration::from_secs(1);

/// A message between parts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Message {
    /// The run that the part belongs to.
    Run { identity: String },
    /// The part reached this point at this time.
    Ready { at: String, unix_ns: u64 },
    /// The part's yes or no to a question at this point.
    Says { at: String, yes: bool },
    /// The part's measurement at one rate of a search, and whether the store had settled before it.
    Probe { record: serde_json::Value, rested: Option<bool> },
    /// The part could not complete the trial.
    Failed { why: String },
}

/// This process's part of the run.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) part: Part,
    agreement: Option<Agreement>,
    /// Without a meeting, when phases begin, in ns since 1970.
    starts: Vec<u64>,
    stop: Arc<Stop>,
    /// The current trial.
    trial: u32,
    /// Whether the current trial has failed in any part and all parts know it.
    trial_failed: bool,
    /// Why the other parts are no longer reachable. The run cannot continue then.
    pub(super) alone: Option<String>,
}

impl Parts {
    /// Checks that the run can be divided, and determines when its phases begin.
    ///
    /// # Errors
    /// Why the run cannot be divided, and what to do.
    pub(super) fn of(
        request: Option<&PartRequest>,
        study: &Study,
        configurations: &[Configuration],
        trials: usize,
        stop: &Arc<Stop>,
    ) -> Result<Self, String> {
        let mut parts = Self {
            part: request.map_or(Part::WHOLE, |request| request.part),
            agreement: request.map(|request| request.agreement.clone()),
            starts: Vec::new(),
            stop: Arc::clone(stop),
            trial: 0,
            trial_failed: false,
            alone: None,
        };
        let Some(request) = request else { return Ok(parts) };
        divisible(configurations)?;
        if let Agreement::Times(times) = &request.agreement {
            if trials > 1 {
                return Err(format!(
                    "the study has {trials} trials, but with --start-at only one can run; choose one store with \
                     --store, one value for each factor, repeats=1 and control=false with --set, or omit --start-at and let all parts \
                     share the folder of --out"
                ));
            }
            if let Some(search) = &study.search {
                return Err(format!(
                    "the search in phase `{}` needs the measurements of all parts; omit --start-at and give all parts \
                     the same --out folder",
                    search.phase
                ));
            }
            if let Some((name, _)) = study.collections.iter().find(|(_, of)| !of.indexes.is_empty()) {
                return Err(format!(
                    "the indexes of `{name}` must be built before any part goes on; omit --start-at and give all parts \
                     the same --out folder"
                ));
            }
            parts.starts = configurations.first().map_or(Ok(Vec::new()), |of| starts(times, &of.plans, study))?;
        }
        Ok(parts)
    }

    /// Whether this part prepares, compacts and removes the database. Only one part may do so.
    pub(super) fn leads(&self) -> bool {
        self.part.number == 1
    }

    /// Whether the run is divided into parts.
    pub(super) fn are_several(&self) -> bool {
        self.agreement.is_some()
    }

    /// Whether the current trial has failed because of another part.
    pub(super) fn others_failed(&self) -> bool {
        (self.trial_failed || self.alone.is_some()) && !self.stop.asked()
    }

    /// Checks that all parts belong to the same run.
    ///
    /// # Errors
    /// Another part belongs to a different run or cannot be reached.
    pub(super) fn meet(&mut self, identity: &Identity, observer: &mut dyn Observer) -> Result<(), StoreError> {
        let identity = serde_json::json!(identity).to_string();
        let Some(all) = self.exchange(&Message::Run { identity: identity.clone() }, observer)? else { return Ok(()) };
        let other = |message: &Message| !matches!(message, Message::Run { identity: of } if *of == identity);
        match all.iter().position(other) {
            None => Ok(()),
            Some(at) => Err(StoreError::NotSupported(format!(
                "part {} runs another study or another version of Storebench; start all parts with the same study, \
                 overrides, scale and version",
                at + 1
            ))),
        }
    }

    /// Records that a trial begins.
    pub(super) fn trial_begins(&mut self, trial: u32) {
        self.trial = trial;
        self.trial_failed = false;
    }

    /// Waits until every part has reached this point.
    ///
    /// # Errors
    /// A part has failed or cannot be reached.
    pub(super) fn all_at(&mut self, at: &str, observer: &mut dyn Observer) -> Result<(), StoreError> {
        self.ready(at, observer).map(drop)
    }

    /// Checks that the other parts do not use the store yet. Without a meeting, they start to use it at a given time.
    ///
    /// # Errors
    /// It is too late to prepare the store.
    pub(super) fn may_prepare(&self) -> Result<(), StoreError> {
        let before = PREPARED_BEFORE.as_nanos() as u64;
        match self.starts.first() {
            Some(first) if unix_now_ns() > first.saturating_sub(before) => Err(StoreError::NotSupported(format!(
                "part 1 must prepare the store at least {} s before the first phase, when the other parts start to use \
                 it; give a later --start-at, or start part 1 earlier",
                PREPARED_BEFORE.as_secs()
            ))),
            _ => Ok(()),
        }
    }

    /// Waits until the first part has prepared the store.
    ///
    /// # Errors
    /// A part has failed or cannot be reached.
    pub(super) fn prepared(&mut self, observer: &mut dyn Observer) -> Result<(), StoreError> {
        if let Some(first) = self.starts.first().filter(|_| !self.leads()) {
            let left_ns = first.saturating_sub(PREPARED_BEFORE.as_nanos() as u64).saturating_sub(unix_now_ns());
            let until = std::time::Instant::now() + Duration::from_nanos(left_ns);
            while !self.stop.asked() && std::time::Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            return Ok(());
        }
        self.all_at("prepared", observer)
    }

    /// When this phase begins in every part, in ns since 1970.
    ///
    /// # Errors
    /// A part has failed or cannot be reached.
    pub(super) fn begin(
        &mut self,
        phase: &str,
        position: usize,
        observer: &mut dyn Observer,
    ) -> Result<u64, StoreError> {
        if let Some(start) = self.starts.get(position) {
            return Ok(*start);
        }
        // Measure how long a message takes to reach all parts. This depends on how they exchange messages.
        let own = unix_now_ns();
        let ready = self.ready(phase, observer)?;
        let seen = self.ready(&format!("{phase}, seen"), observer)?;
        self.clocks_agree(&seen, own, unix_now_ns())?;
        let latest = |times: Vec<u64>| times.into_iter().max().unwrap_or_else(unix_now_ns);
        let (ready, seen) = (latest(ready), latest(seen));
        let delay = seen.saturating_sub(ready);
        Ok(seen.saturating_add(2 * delay).saturating_add(LEAST_NOTICE.as_nanos() as u64))
    }

    /// Checks that the clocks of the other parts agree with this one. Each part read its clock after this part sent its
    /// message, at `from`, and before this part read the reply, at `to`.
    fn clocks_agree(&self, seen: &[u64], from: u64, to: u64) -> Result<(), StoreError> {
        let off = |at: u64| from.saturating_sub(at).max(at.saturating_sub(to));
        let worst = seen.iter().enumerate().max_by_key(|(_, at)| off(**at));
        match worst.map(|(part, at)| (part + 1, off(*at))).filter(|(_, off)| *off > MOST_SKEW.as_nanos() as u64) {
            Some((part, off)) => Err(StoreError::Failed(format!(
                "the clock of part {part} differs from that of part {} by {:.1} s; synchronise the machines' clocks \
                 (chrony, PTP)",
                self.part.number,
                off as f64 / 1e9
            ))),
            None => Ok(()),
        }
    }

    /// Exchanges the measurements of all parts at one rate of a search. Returns the merged measurement, and whether the
    /// store had settled before it in all parts. Every part gets the same result, and the search depends only on such
    /// results, so all parts try the same rate next. Returns `None` if the run is not divided.
    ///
    /// # Errors
    /// A part has failed or cannot be reached.
    pub(super) fn probed(
        &mut self,
        record: &PhaseRecord,
        rested: Option<bool>,
        observer: &mut dyn Observer,
    ) -> Result<Option<(PhaseRecord, Option<bool>)>, StoreError> {
        if !self.are_several() {
            return Ok(None);
        }
        let unreadable = |e: serde_json::Error| StoreError::Failed(format!("cannot read a part's figures: {e}"));
        // Messages from stores may contain secrets, and no decision depends on them.
        let sent = PhaseRecord { messages: Vec::new(), wrong_examples: Vec::new(), ..record.clone() };
        let record = serde_json::to_value(&sent).map_err(unreadable)?;
        let all = self.exchange(&Message::Probe { record, rested }, observer)?.unwrap_or_default();
        let (mut records, mut rested) = (Vec::new(), Some(true));
        for message in all {
            let Message::Probe { record, rested: of } = message else { return Err(out_of_step()) };
            records.push(PhaseRecord::from_json(record.to_string().as_bytes()).map_err(unreadable)?);
            rested = rested.zip(of).map(|(all, of)| all && of);
        }
        Ok(merged(records).map(|record| (record, rested)))
    }

    /// Reports to the other parts that the trial has failed here.
    pub(super) fn failed(&mut self, why: &str, observer: &mut dyn Observer) {
        if self.are_several() && !self.trial_failed && self.alone.is_none() {
            // If the others are not reachable either, `alone` says so.
            let _ = self.exchange(&Message::Failed { why: why.to_owned() }, observer);
            self.trial_failed = true;
        }
    }

    /// Reports that the trial has ended here without a failure. Returns whether every operation of all parts succeeded
    /// and found its document.
    ///
    /// # Errors
    /// A part has failed or cannot be reached.
    pub(super) fn trial_ended(&mut self, found_all: bool, observer: &mut dyn Observer) -> Result<bool, StoreError> {
        let all = self.says("ended, and found everything", found_all, observer)?;
        Ok(all.into_iter().all(|yes| yes))
    }

    /// Whether any part says yes at this point.
    ///
    /// # Errors
    /// A part has failed or cannot be reached.
    pub(super) fn any(&mut self, at: &str, yes: bool, observer: &mut dyn Observer) -> Result<bool, StoreError> {
        Ok(self.says(at, yes, observer)?.into_iter().any(|yes| yes))
    }

    /// The yes or no of each part. Without a meeting, only that of this part.
    fn says(&mut self, at: &str, yes: bool, observer: &mut dyn Observer) -> Result<Vec<bool>, StoreError> {
        let at = format!("trial {}, {at}", self.trial);
        let Some(all) = self.exchange(&Message::Says { at: at.clone(), yes }, observer)? else { return Ok(vec![yes]) };
        let said = |message: Message| match message {
            Message::Says { at: other, yes } if other == at => Some(yes),
            _ => None,
        };
        all.into_iter().map(said).collect::<Option<_>>().ok_or_else(out_of_step)
    }

    fn ready(&mut self, at: &str, observer: &mut dyn Observer) -> Result<Vec<u64>, StoreError> {
        let at = format!("trial {}, {at}", self.trial);
        let message = Message::Ready { at: at.clone(), unix_ns: unix_now_ns() };
        let Some(all) = self.exchange(&message, observer)? else { return Ok(Vec::new()) };
        let time = |message: Message| match message {
            Message::Ready { at: other, unix_ns } if other == at => Some(unix_ns),
            _ => None,
        };
        all.into_iter().map(time).collect::<Option<_>>().ok_or_else(out_of_step)
    }

    /// Sends a message and returns those of all parts. `None` without a meeting.
    fn exchange(&mut self, message: &Message, observer: &mut dyn Observer) -> Result<Option<Vec<Message>>, StoreError> {
        let Some(Agreement::Meeting(meeting)) = &self.agreement else { return Ok(None) };
        if let Some(why) = &self.alone {
            return Err(StoreError::Failed(why.clone()));
        }
        let text = serde_json::to_string(message).expect("messages have only names as keys");
        let mut tell = |missing: &[u32]| {
            let all: Vec<String> = missing.iter().map(u32::to_string).collect();
            observer.event(&Event::Note { text: format!("waiting for part {}", all.join(", ")) });
        };
        let texts = meeting.exchange(&text, &self.stop, &mut tell).map_err(|why| {
            self.alone = Some(why.clone());
            StoreError::Failed(why)
        })?;
        let mut all = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            let message = serde_json::from_str(text).map_err(|e| {
                StoreError::Failed(format!("cannot read the message of part {}: {e}; use the same version", at + 1))
            })?;
            if let Message::Failed { why } = &message {
                self.trial_failed = true;
                return Err(StoreError::Failed(format!("part {} failed: {why}", at + 1)));
            }
            all.push(message);
        }
        Ok(Some(all))
    }
}

fn out_of_step() -> StoreError {
    StoreError::Failed("the parts are at different points of the run; start all of them again".into())
}

/// Refuses servers and phases that only a single process can run.
fn divisible(configurations: &[Configuration]) -> Result<(), String> {
    for of in configurations {
        let study = of.study();
        if of.request.server.is_some() {
            return Err(format!(
                "the run starts and stops the server of store `{}`, which only one process can do; start the server \
                 yourself and remove it from the study",
                of.request.store_name
            ));
        }
        let not = |phase: &str, what: &str| {
            Err(format!("phase `{phase}` {what}, which only one process can do; run the study without --part"))
        };
        for phase in &study.phases {
            if phase.copy.is_some() {
                return not(&phase.name, "copies files");
            }
            if !study.faults_of(phase).is_empty() {
                return not(&phase.name, "injects faults");
            }
        }
    }
    Ok(())
}

/// When each phase begins: at its given time, or after the previous phase if the length of that is known.
fn starts(times: &StartTimes, plans: &[ResolvedPhase], study: &Study) -> Result<Vec<u64>, String> {
    if let Some(unknown) = times.later_unix_ns.keys().find(|name| study.phases.iter().all(|p| p.name != **name)) {
        let known: Vec<&str> = study.phases.iter().map(|p| p.name.as_str()).collect();
        return Err(format!("--start-at {unknown}=…: the study has no such phase; it has {}", known.join(", ")));
    }
    let mut starts: Vec<u64> = Vec::new();
    let mut before: Option<&PhasePlan> = None;
    for plan in plans {
        let Some(plan) = plan.operations() else { continue };
        let given = times.later_unix_ns.get(&plan.name).copied();
        let after = match (before, starts.last()) {
            (None, _) => Some(times.first_unix_ns),
            (Some(before), Some(began)) => known_length_ns(before).map(|ns| began.saturating_add(ns)),
            _ => None,
        };
        let Some(start) = given.or(after) else {
            let before = before.map_or("", |before| &before.phase.name);
            return Err(format!(
                "phase `{0}` follows `{before}`, which has no fixed length; add --start-at {0}=TIME, or omit \
                 --start-at and give all parts the same --out folder",
                plan.name
            ));
        };
        if starts.last().is_some_and(|before| start <= *before) {
            return Err(format!("--start-at: phase `{}` would begin before the phase that it follows", plan.name));
        }
        starts.push(start);
        before = Some(plan);
    }
    Ok(starts)
}

/// The time from the start of a phase until the next one can begin, if it is known in advance.
fn known_length_ns(plan: &PhasePlan) -> Option<u64> {
    let settles = plan.settle.is_some() || plan.compact;
    // A trace waits for operations that are late.
    let length_ns = plan.duration_ns().filter(|_| !plan.ledger && !settles && plan.trace.is_none())?;
    Some(length_ns.saturating_add(plan.drain_ns).saturating_add(BETWEEN_PHASES.as_nanos() as u64))
}

#[cfg(test)]
mod tests;
