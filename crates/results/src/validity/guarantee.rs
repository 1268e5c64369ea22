//! Which losses the guarantees of a trial allow, depending on what was done to its store.

use storebench_engine::ledger::FaultHit;
use storebench_engine::measure::{LedgerReport, READ_BACK_OF_A_COLLECTION};
use storebench_engine::store::{Durability, OpKind};
use storebench_study::workload::FaultKind;

use crate::human::count;
use crate::{PhaseResult, TrialResult};

/// A guarantee that allows a loss, and the fault that it does not survive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// The name of the durability.
    durability: String,
    /// The name of the fault.
    fault: String,
}

impl Allowed {
    /// In words, to follow what was lost.
    pub(crate) fn in_words(&self) -> String {
        format!("as durability `{}` allows after `{}`", self.durability, self.fault)
    }
}

/// The first guarantee for writes of this phase or an earlier one that allows a loss after a fault until the end of the
/// phase. `phase` need not be among the trial's own yet.
pub(crate) fn allowed(trial: &TrialResult, phase: &PhaseResult) -> Option<Allowed> {
    allowed_after(&until(trial, phase), 0)
}

/// The same for what the ledger of the phase found. What a fault took from a single node was seen when every key was read
/// back after it: such a fault allows no loss that is found later.
pub(crate) fn ledger_allowed(trial: &TrialResult, phase: &PhaseResult) -> Option<Allowed> {
    let until = until(trial, phase);
    let earlier = &until[..until.len() - 1];
    let seen = earlier.iter().rposition(|phase| phase.ledger.as_ref().is_some_and(|ledger| whole(ledger, earlier)));
    allowed_after(&until, seen.map_or(0, |seen| seen + 1))
}

/// The phases of a trial until this one.
fn until<'a>(trial: &'a TrialResult, phase: &'a PhaseResult) -> Vec<&'a PhaseResult> {
    trial.phases.iter().take_while(|earlier| !std::ptr::eq(*earlier, phase)).chain([phase]).collect()
}

/// Whether a ledger read back every document, not just a sample of those that `phases` loaded.
fn whole(ledger: &LedgerReport, phases: &[&PhaseResult]) -> bool {
    let loaded = phases.iter().filter(|phase| phase.loads).flat_map(|phase| phase.ops.values());
    let every = loaded.fold(0, |sum: u64, op| sum.saturating_add(op.documents)) <= READ_BACK_OF_A_COLLECTION;
    every && ledger.share >= 1.0 && ledger.unread() == 0
}

/// Faults of one node count from phase `first` on, those of several nodes always: a node that was left behind may take
/// over at any time.
fn allowed_after(until: &[&PhaseResult], first: usize) -> Option<Allowed> {
    let guarantees = until.iter().filter(|phase| writes(phase)).filter_map(|phase| {
        let name = phase.durability.name.as_str();
        Some((name, name.parse::<Durability>().ok()?))
    });
    let of_phase = |(nth, phase): (usize, &&PhaseResult)| {
        hits_of(phase).filter(|hit| nth >= first || hit.of > 1).collect::<Vec<_>>()
    };
    let hit: Vec<FaultHit> = until.iter().enumerate().flat_map(of_phase).collect();
    guarantees.flat_map(|guarantee| hit.iter().map(move |hit| (guarantee, *hit))).find_map(
        |((name, durability), hit)| {
            let allowed = || Allowed { durability: name.to_owned(), fault: hit.fault.name().to_owned() };
            hit.may_lose(durability).then(allowed)
        },
    )
}

fn writes(phase: &PhaseResult) -> bool {
    phase.loads || phase.ops.values().any(|op| op.op_kind().is_some_and(OpKind::writes) && op.count > 0)
}

/// The faults of a phase, and a restart before it.
fn hits_of(phase: &PhaseResult) -> impl Iterator<Item = FaultHit> {
    let restarted = phase.restarted.as_ref().map(|_| FaultHit { fault: FaultKind::Restart, nodes: 1, of: 1 });
    let faults = phase.faults.iter().filter(|fault| fault.began_ns.is_some());
    let faults = faults.map(|of| FaultHit { fault: of.what, nodes: of.nodes.max(1), of: of.of_nodes.max(1) });
    restarted.into_iter().chain(faults)
}

/// Keys of a ledger that are as they were before the latest acknowledged write: lost writes, and nothing worse. No
/// guarantee allows a torn document, or one that nobody wrote.
pub(crate) fn lost_writes(ledger: &LedgerReport) -> u64 {
    ledger.gone + ledger.stale + ledger.resurrected
}

/// Keys that were not read back, in words: nothing is known about them. `None` if all were.
pub(crate) fn unread(ledger: &LedgerReport) -> Option<String> {
    let why = if ledger.unverifiable > 0 {
        "could not be read back"
    } else {
        "were not read back, because the run was stopped"
    };
    (ledger.unread() > 0).then(|| format!("{} of {} keys {why}", count(ledger.unread()), count(ledger.keys)))
}

/// What the workers of a phase saw and no guarantee allows: something that nobody wrote; with strong reads, documents
/// whose operations no order explains; with session reads, reads that broke a promise to their session.
pub(crate) fn broken_promises(phase: &PhaseResult) -> u64 {
    let Some(history) = &phase.history else { return 0 };
    match phase.consistency.name.as_str() {
        "strong" => history.foreign + history.broken.saturating_sub(history.excused),
        "session" => history.never_written() + history.session_broken,
        _ => history.never_written(),
    }
}

/// The numbers of wrong keys and of wrong reads that no guarantee allows.
pub(crate) fn forbidden(trial: &TrialResult, phase: &PhaseResult) -> (u64, u64) {
    let Some(ledger) = &phase.ledger else { return (0, 0) };
    let misread = if phase.consistency.name == "strong" { ledger.reads.stale + ledger.reads.backwards } else { 0 };
    match ledger_allowed(trial, phase) {
        None => (ledger.lost, misread),
        Some(_) => (ledger.lost.saturating_sub(lost_writes(ledger)), misread.saturating_sub(ledger.reads.after_fault)),
    }
}
