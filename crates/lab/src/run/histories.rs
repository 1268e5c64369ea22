//! Judges what the workers of a phase saw of the documents that its consistency check follows.

use std::collections::{BTreeSet, HashMap};

use storebench_consistency::{ABSENT, Action, BUDGET, History, Operation, UNKNOWN, Value, Verdict, judge};
use storebench_documents::Catalog;
use storebench_engine::ResolvedPhase;
use storebench_engine::ledger::Struck;
use storebench_engine::measure::{Content, Did, HistoryOperation, HistoryRecord, PhaseRecord};
use storebench_engine::store::ReadConsistency;
use storebench_results::human::count;
use storebench_results::plan::PlannedTrial;
use storebench_results::{FaultResult, HistoryResult, Pass};
use storebench_study::workload::CopyDirection;

use super::observe::Journal;
use super::runner::Configuration;

/// From so many operations on, judging them takes a while.
const MANY: usize = 2_000_000;
/// The most deletes of earlier phases that may still arrive at one document.
const LATE_DELETES: u64 = 16;

/// What a key held when the phase began, if that was never read.
const FROM_BEFORE: &str = "\"a version from before\"";
/// The version of a loaded document.
const LOADED: &str = "\"as loaded\"";
/// What was read, if it was no version of the document.
const FOREIGN: &str = "\"not a version of this document\"";
/// The client of writes of earlier phases.
const EARLIER: u32 = u32::MAX;

/// Whether such a fault may take writes that this phase or an earlier one acknowledged.
pub(super) fn may_lose(configuration: &Configuration, position: usize, struck: Struck) -> bool {
    let writes = |phase: &&ResolvedPhase| match phase {
        ResolvedPhase::Operations(plan) => plan.recipes.iter().any(|recipe| recipe.label.kind.writes()),
        ResolvedPhase::Copy(copy) => copy.direction == CopyDirection::In,
    };
    let writing = configuration.plans[..=position].iter().filter(writes);
    writing.into_iter().any(|phase| struck.may_lose(phase.guarantees().durability))
}

/// When faults of a phase may have taken acknowledged writes: from the fault until the store was ready again, in ns since
/// the phase began, in order.
pub(super) fn losses(configuration: &Configuration, position: usize, faults: &[FaultResult]) -> Vec<(u64, u64)> {
    let loses = |of: &&FaultResult| {
        let struck = Struck { fault: of.what, nodes: of.nodes.max(1), of: of.of_nodes.max(1) };
        may_lose(configuration, position, struck)
    };
    let span = |of: &FaultResult| Some((of.began_ns?, of.ready_ns.or(of.mended_ns).unwrap_or(u64::MAX)));
    let mut all: Vec<(u64, u64)> = faults.iter().filter(loses).filter_map(span).collect();
    all.sort_unstable();
    all
}

/// Takes the history out of the record of a phase, judges it, and keeps it in the run folder. `losses` are the times in
/// which faults may have taken acknowledged writes.
pub(super) fn judged(
    record: &mut PhaseRecord,
    catalog: &Catalog,
    losses: &[(u64, u64)],
    planned: &PlannedTrial,
    (store, pass): (&str, Pass),
    journal: &mut Journal<'_>,
) -> Option<HistoryResult> {
    let mut seen = record.history.take()?;
    let (operations, versions_above) = (seen.operations.len(), seen.versions_above);
    if seen.overflowed {
        return Some(HistoryResult { operations: operations as u64, overflowed: true, ..HistoryResult::default() });
    }
    if operations > MANY {
        journal.note(format!("judging {} operations of {}", count(operations as u64), record.name));
    }
    seen.operations.sort_unstable_by_key(|of| (of.collection, of.index, of.sent_ns));
    let strict = record.consistency == ReadConsistency::Strong;
    let groups = || seen.operations.chunk_by(|a, b| (a.collection, a.index) == (b.collection, b.index));
    let mut history = History::default();
    for group in groups() {
        let (initial, operations, values) = of_key(group, &Start::of(&seen, group, strict));
        history.add_key(name(catalog, group), initial, operations, values);
    }
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let report = history.report(BUDGET, threads);
    let mut file = None;
    journal.keep(|folder| {
        file = Some(folder.add_history(planned.trial, store, &record.name, pass, &history)?);
        Ok(())
    });
    let broken: BTreeSet<&str> = report.broken.iter().map(|of| of.key.as_str()).collect();
    let excused: BTreeSet<String> = groups()
        .filter(|_| !losses.is_empty())
        .map(|group| (name(catalog, group), group))
        .filter(|(key, group)| {
            broken.contains(key.as_str()) && is_excused(group, &Start::of(&seen, group, strict), losses)
        })
        .map(|(key, _)| key)
        .collect();
    let foreign = seen.operations.iter().filter(|of| of.did == Did::Read(Content::Foreign)).count() as u64;
    Some(HistoryResult {
        file,
        versions_above,
        lossy: !losses.is_empty(),
        shared: groups().filter(|group| is_shared(group)).count() as u64,
        foreign,
        ..HistoryResult::of(report, &excused)
    })
}

/// The key of a document, with its collection if there are several.
fn name(catalog: &Catalog, group: &[HistoryOperation]) -> String {
    let documents = catalog.get(group[0].collection as usize);
    let mut key = Vec::new();
    documents.write_key(group[0].index, &mut key);
    let key = String::from_utf8_lossy(&key).into_owned();
    if catalog.iter().count() > 1 { format!("{}: {key}", documents.name()) } else { key }
}

/// Whether several connections used a document, of which one wrote and one read.
fn is_shared(group: &[HistoryOperation]) -> bool {
    let several = group.iter().any(|of| of.client != group[0].client);
    let read = group.iter().any(|of| matches!(of.did, Did::Read(_)));
    several && read && group.iter().any(|of| !matches!(of.did, Did::Read(_)))
}

/// What is known about a document when the phase begins.
#[derive(Debug, Clone, Copy)]
struct Start {
    versions_above: u64,
    /// Whether it exists.
    was_there: bool,
    /// How many writes of earlier phases may still arrive.
    unsettled: u64,
    /// Whether reads are strong: then it is one version. Otherwise readers may find several older ones.
    strict: bool,
}

impl Start {
    fn of(seen: &HistoryRecord, group: &[HistoryOperation], strict: bool) -> Self {
        let was_there = seen.complete.get(group[0].collection as usize).copied().unwrap_or(false);
        Self { versions_above: seen.versions_above, was_there, unsettled: seen.unsettled, strict }
    }
}

/// Numbers for the values of a key.
struct Numbers {
    known: HashMap<String, Value>,
    texts: Vec<String>,
}

impl Numbers {
    fn of(&mut self, text: String) -> Value {
        let Self { known, texts } = self;
        *known.entry(text).or_insert_with_key(|text| {
            texts.push(text.clone());
            texts.len() as Value - 1
        })
    }
}

impl Default for Numbers {
    fn default() -> Self {
        Self { known: HashMap::new(), texts: vec!["null".to_owned()] }
    }
}

/// The texts of versions as values of a history. Those of the phase are counted from 1.
fn text_of(version: u64, versions_above: u64) -> String {
    match version.checked_sub(versions_above) {
        Some(own @ 1..) => own.to_string(),
        _ if version == 0 => LOADED.to_owned(),
        _ => format!("\"version {version} from before\""),
    }
}

/// The version that an operation found.
fn found(of: &HistoryOperation) -> Option<u64> {
    match of.did {
        Did::Read(Content::Version(version)) | Did::Swapped(version, _) => Some(version),
        _ => None,
    }
}

/// An operation of an earlier time that may still take effect.
fn late(action: Action) -> Operation {
    Operation { sent_ns: 0, answered_ns: UNKNOWN, action, client: EARLIER }
}

impl Numbers {
    fn operation(&mut self, of: &HistoryOperation, versions_above: u64) -> Operation {
        let mut version = |version: u64| self.of(text_of(version, versions_above));
        let action = match of.did {
            Did::Read(Content::Nothing) => Action::Read(ABSENT),
            Did::Read(Content::Version(read)) => Action::Read(version(read)),
            Did::Read(Content::Foreign) => Action::Read(self.of(FOREIGN.to_owned())),
            Did::Wrote(wrote) => Action::Write(version(wrote)),
            Did::Deleted => Action::Delete,
            Did::Swapped(from, to) => Action::Swap(version(from), version(to)),
        };
        let answered_ns = of.answered_ns.unwrap_or(UNKNOWN);
        Operation { sent_ns: of.sent_ns, answered_ns, action, client: of.client }
    }
}

/// The operations on one key: what it held at first, the operations, and the texts of its values.
///
/// What it held is the version from before the phase that was read first. If it `was_there` it held something in any
/// case. If earlier writes are `unsettled`, each older version that was read may have arrived at any time. If reads are not
/// strong, several older versions may be found, and each was written before the phase.
fn of_key(group: &[HistoryOperation], start: &Start) -> (Value, Vec<Operation>, Vec<String>) {
    let Start { versions_above, was_there, unsettled, strict } = *start;
    let mut numbers = Numbers::default();
    let mut old: Vec<u64> = group.iter().filter_map(found).filter(|version| *version <= versions_above).collect();
    let first = old.first().copied().filter(|_| unsettled == 0 && strict);
    old.sort_unstable();
    old.dedup();
    let initial = match first {
        Some(version) => numbers.of(text_of(version, versions_above)),
        None if was_there => numbers.of(FROM_BEFORE.to_owned()),
        None => ABSENT,
    };
    let mut operations = Vec::with_capacity(group.len());
    if first.is_none() {
        let answered_ns = if unsettled > 0 { UNKNOWN } else { 0 };
        let writes = old.iter().map(|version| Action::Write(numbers.of(text_of(*version, versions_above))));
        operations.extend(writes.map(|action| Operation { answered_ns, ..late(action) }));
    }
    if unsettled > 0 && !was_there {
        let nothing = group.iter().filter(|of| of.did == Did::Read(Content::Nothing)).count() as u64;
        operations.extend((0..nothing.min(unsettled).min(LATE_DELETES)).map(|_| late(Action::Delete)));
    }
    operations.extend(group.iter().map(|of| numbers.operation(of, versions_above)));
    (initial, operations, numbers.texts)
}

/// Whether losses explain a document that is broken: whether it is not broken before the first loss, between two, and
/// after the last one, if any earlier version may be there after a loss, or nothing.
fn is_excused(group: &[HistoryOperation], start: &Start, losses: &[(u64, u64)]) -> bool {
    let is_broken = |(initial, operations): (Value, Vec<Operation>)| {
        matches!(judge(&operations, initial, BUDGET), Verdict::Broken(_))
    };
    let mut from = 0;
    for (nth, end) in losses.iter().map(|(began, _)| *began).chain([u64::MAX]).enumerate() {
        let broken = match nth {
            0 => {
                let (initial, operations, _) = of_key(&until(group, end), start);
                is_broken((initial, operations))
            }
            // A loss that began before the last one was over.
            _ if end < from => false,
            _ => is_broken(after_loss(group, start.versions_above, (from, end))),
        };
        if broken {
            return false;
        }
        from = losses.get(nth).map_or(from, |(_, over)| from.max(*over));
    }
    true
}

/// The operations until a moment. What was answered later may have been done or not.
fn until(group: &[HistoryOperation], end: u64) -> Vec<HistoryOperation> {
    let sent = group.iter().filter(|of| of.sent_ns < end);
    sent.filter_map(|of| match of.answered_ns {
        Some(answered) if answered < end => Some(*of),
        _ if matches!(of.did, Did::Read(_)) => None,
        _ => Some(HistoryOperation { answered_ns: None, ..*of }),
    })
    .collect()
}

/// The operations from a loss until a moment, with what may be there after the loss: nothing, or any earlier version that
/// was found.
fn after_loss(group: &[HistoryOperation], versions_above: u64, (from, end): (u64, u64)) -> (Value, Vec<Operation>) {
    let mut numbers = Numbers::default();
    let own: Vec<HistoryOperation> = until(group, end).into_iter().filter(|of| of.sent_ns >= from).collect();
    let mut written: BTreeSet<u64> = BTreeSet::new();
    let mut deletes = 0;
    let mut operations: Vec<Operation> = Vec::new();
    for of in group {
        match of.did {
            Did::Deleted if of.sent_ns < from => deletes += 1,
            Did::Wrote(version) | Did::Swapped(_, version) if of.sent_ns >= from => {
                written.insert(version);
            }
            _ => {}
        }
    }
    let mut before: Vec<u64> = own.iter().filter_map(found).filter(|version| !written.contains(version)).collect();
    before.sort_unstable();
    before.dedup();
    operations.extend(before.iter().map(|version| late(Action::Write(numbers.of(text_of(*version, versions_above))))));
    let nothing = own.iter().filter(|of| of.did == Did::Read(Content::Nothing)).count() as u64;
    operations.extend((0..nothing.min(deletes).min(LATE_DELETES)).map(|_| late(Action::Delete)));
    operations.extend(own.iter().map(|of| numbers.operation(of, versions_above)));
    (ABSENT, operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sent_ns: u64, answered_ns: u64, did: Did) -> HistoryOperation {
        let answered_ns = Some(answered_ns).filter(|ns| *ns != UNKNOWN);
        HistoryOperation { collection: 0, client: 1, index: 7, sent_ns, answered_ns, did }
    }

    fn read(sent_ns: u64, version: u64) -> HistoryOperation {
        of(sent_ns, sent_ns + 1, Did::Read(Content::Version(version)))
    }

    fn nothing(sent_ns: u64) -> HistoryOperation {
        of(sent_ns, sent_ns + 1, Did::Read(Content::Nothing))
    }

    fn wrote(sent_ns: u64, version: u64) -> HistoryOperation {
        of(sent_ns, sent_ns + 1, Did::Wrote(version))
    }

    fn start(was_there: bool, unsettled: bool) -> Start {
        Start { versions_above: 100, was_there, unsettled: u64::from(unsettled) * 9, strict: true }
    }

    /// Whether some order explains the operations of a phase whose versions are above 100.
    fn explained(group: &[HistoryOperation], was_there: bool, unsettled: bool) -> bool {
        let (initial, operations, _) = of_key(group, &start(was_there, unsettled));
        match judge(&operations, initial, BUDGET) {
            Verdict::Linearizable => true,
            Verdict::Broken(_) => false,
            Verdict::Undecided => panic!("undecided"),
        }
    }

    #[test]
    fn what_a_key_held_is_the_older_version_that_was_read_first() {
        assert!(explained(&[read(1, 5), wrote(3, 101), read(5, 101)], true, false));
        assert!(!explained(&[read(1, 5), wrote(3, 101), read(5, 5)], true, false), "stale");
        assert!(!explained(&[read(1, 5), read(3, 4)], true, false), "two versions, and nobody wrote");
        assert!(!explained(&[read(1, 5), nothing(3)], true, false), "lost");
        assert!(explained(&[nothing(1), wrote(3, 101), read(5, 101)], false, false), "deleted before");
        assert!(!explained(&[nothing(1)], true, false), "it was loaded, and nothing was deleted");
        assert!(!explained(&[wrote(1, 101), of(3, 4, Did::Read(Content::Foreign))], true, false));
    }

    #[test]
    fn writes_of_earlier_phases_may_arrive_late() {
        let late = [wrote(1, 101), read(3, 101), read(5, 7), read(7, 7)];
        assert!(explained(&late, true, true));
        assert!(!explained(&late, true, false));
        // Once only.
        assert!(!explained(&[read(1, 7), wrote(3, 101), read(5, 7)], true, true));
        assert!(explained(&[read(1, 7), wrote(3, 101), nothing(5)], false, true), "a delete may arrive late");
        assert!(!explained(&[read(1, 7), wrote(3, 101), nothing(5)], true, true), "nothing was ever deleted");
    }

    #[test]
    fn a_write_of_unknown_outcome_may_have_been_done_or_not() {
        for after in [read(9, 5), read(9, 101)] {
            assert!(explained(&[read(1, 5), of(3, UNKNOWN, Did::Wrote(101)), after], true, false));
        }
        let swaps = [read(1, 5), of(3, 4, Did::Swapped(5, 101)), of(3, 4, Did::Swapped(5, 102))];
        assert!(!explained(&swaps, true, false), "a lost update");
    }

    /// What a store that loses its memory at 10 and is back at 20 shows.
    #[test]
    fn a_loss_excuses_what_it_explains_and_nothing_else() {
        let excused = |group: &[HistoryOperation]| {
            assert!(!explained(group, true, false), "it is broken without a loss");
            is_excused(group, &start(true, false), &[(10, 20)])
        };
        assert!(excused(&[nothing(30)]), "the document that was loaded is lost");
        assert!(excused(&[wrote(1, 101), wrote(3, 102), read(30, 101)]), "the last write is lost");
        assert!(excused(&[wrote(1, 101), nothing(30), wrote(40, 102), read(50, 102)]));
        assert!(
            excused(&[wrote(12, 101), wrote(14, 102), read(30, 5)]),
            "what was acknowledged during the fault is lost"
        );
        assert!(!excused(&[wrote(1, 101), wrote(3, 102), read(5, 101)]), "before the loss");
        assert!(!excused(&[wrote(30, 101), wrote(32, 102), read(40, 101)]), "after the loss");
        assert!(!excused(&[read(30, 5), wrote(32, 102), read(40, 102), read(42, 5)]), "it comes back");
        assert!(!excused(&[of(30, 31, Did::Read(Content::Foreign))]), "no loss makes documents of others");
        // Two losses: what is true between them counts.
        let group = [wrote(1, 101), nothing(30), wrote(32, 102), wrote(34, 103), read(36, 102), nothing(70)];
        assert!(!is_excused(&group, &start(true, false), &[(10, 20), (50, 60)]));
        let group = [wrote(1, 101), nothing(30), wrote(32, 102), read(36, 102), nothing(70)];
        assert!(is_excused(&group, &start(true, false), &[(10, 20), (50, 60)]));
    }

    /// Readers of replicas find one older version after another.
    #[test]
    fn older_versions_are_all_from_before_where_reads_may_be_stale() {
        let group = [read(1, 4), wrote(2, 101), read(9, 5), nothing(12)];
        let (initial, operations, texts) = of_key(&group, &Start { strict: false, ..start(true, false) });
        let found = storebench_consistency::staleness(&operations, initial);
        // The read of 5 and the one that found nothing missed the write.
        assert_eq!((found.reads, found.stale, found.never_written), (3, 2, 0), "{found:?} {texts:?}");
    }
}
