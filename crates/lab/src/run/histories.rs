//! Judges what the workers of a phase saw of the documents that its consistency check follows.

use std::collections::{BTreeSet, HashMap};

use indexmap::IndexSet;
use storebench_consistency::{
    ABSENT, Action, BUDGET, EARLIER, History, Operation, Staleness, UNKNOWN, Value, Verdict, judge, staleness,
};
use storebench_documents::Catalog;
use storebench_engine::ResolvedPhase;
use storebench_engine::ledger::FaultHit;
use storebench_engine::measure::{Content, Did, HistoryOperation, HistoryRecord, PhaseRecord};
use storebench_engine::store::ReadConsistency;
use storebench_results::human::count;
use storebench_results::plan::PlannedTrial;
use storebench_results::{FaultResult, FigureResult, HistoryResult, Pass, PhaseResult};
use storebench_study::workload::{CopyDirection, FaultKind};

use super::observe::Journal;
use super::runner::{Configuration, RunState};

/// From so many operations on, judging them takes a while.
const MANY: u64 = 2_000_000;
/// The most deletes of an earlier time that may still take effect on one document. The search takes twice as long for each.
const LATE_DELETES: u64 = 8;
/// How long several nodes may take to agree after a fault, in ns.
const AGREEMENT_NS: u64 = 10_000_000_000;

/// What a key held when the phase began, if that was never read.
const FROM_BEFORE: &str = "\"a version from before\"";
/// The version of a loaded document.
const LOADED: &str = "\"as loaded\"";
/// What was read, if it was no version of the document.
const FOREIGN: &str = "\"not a version of this document\"";
/// Whether such a fault may take writes that this phase or an earlier one acknowledged.
fn may_lose(configuration: &Configuration, position: usize, hit: FaultHit) -> bool {
    let writes = |phase: &&ResolvedPhase| match phase {
        ResolvedPhase::Operations(plan) => plan.recipes.iter().any(|recipe| recipe.label.kind.writes()),
        ResolvedPhase::Copy(copy) => copy.direction == CopyDirection::In,
    };
    let writing = configuration.plans[..=position].iter().filter(writes);
    writing.into_iter().any(|phase| hit.may_lose(phase.guarantees().durability))
}

/// When a fault may have taken acknowledged writes, in ns since the phase began.
#[derive(Debug, Clone, Copy)]
struct Loss {
    from_ns: u64,
    to_ns: u64,
    /// Whether there are several nodes, which may agree later on what is left.
    several: bool,
}

/// The losses of a phase, in order. Each lasts from the fault until the store was ready again.
fn losses(configuration: &Configuration, position: usize, faults: &[FaultResult]) -> Vec<Loss> {
    let loses = |of: &&FaultResult| {
        let hit = FaultHit { fault: of.what, nodes: of.nodes.max(1), of: of.of_nodes.max(1) };
        may_lose(configuration, position, hit)
    };
    let loss = |of: &FaultResult| {
        let several = of.of_nodes > 1;
        // What a command does may come after it has ended.
        let over_ns = of.ready_ns.or(of.mended_ns).filter(|_| of.what != FaultKind::Run).unwrap_or(u64::MAX);
        let to_ns = if several { over_ns.saturating_add(AGREEMENT_NS) } else { over_ns };
        Some(Loss { from_ns: of.began_ns?, to_ns, several })
    };
    let mut all: Vec<Loss> = faults.iter().filter(loses).filter_map(loss).collect();
    all.sort_by_key(|loss| loss.from_ns);
    all
}

/// Documents that the store evicted during a phase, by its own statistics. A restart sets the counter back.
fn evicted(found: &PhaseResult) -> u64 {
    let figures = found.store_stats.figures.iter();
    let evictions = figures.filter(|(name, _)| matches!(name.as_str(), "evictions" | "evicted_keys"));
    let of = |figure: &FigureResult| match figure.last >= figure.first {
        true => figure.last - figure.first,
        false => (figure.max - figure.first).max(0.0) + figure.last,
    };
    evictions.map(|(_, figure)| of(figure)).sum::<f64>() as u64
}

impl RunState<'_> {
    /// Notes that the server was restarted before a phase.
    pub(super) fn restarted(&mut self, configuration: &Configuration, position: usize) {
        if may_lose(configuration, position, FaultHit { fault: FaultKind::Restart, nodes: 1, of: 1 }) {
            self.written.may_be_lost(false);
        }
    }

    /// Judges what the workers of a phase saw, and notes what the phase may have lost.
    pub(super) fn judge_history(
        &mut self,
        configuration: &Configuration,
        (planned, pass): (&PlannedTrial, Pass),
        position: usize,
        catalog: &Catalog,
        (record, found): (&mut PhaseRecord, &mut PhaseResult),
        journal: &mut Journal<'_>,
    ) {
        let losses = losses(configuration, position, &found.faults);
        let store = configuration.request.store_name.as_str();
        let keep = |journal: &mut Journal<'_>, history: &History| {
            let mut file = None;
            journal.keep(|folder| {
                file = Some(folder.add_history(planned.trial, store, &found.name, pass, history)?);
                Ok(())
            });
            file
        };
        let evicted = evicted(found);
        found.history = judged(record, catalog, &losses, evicted, journal, keep);
        if !losses.is_empty() {
            self.written.may_be_lost(losses.iter().any(|loss| loss.several));
        }
        if evicted > 0 {
            self.written.complete.fill(false);
        }
    }
}

/// Takes the history out of the record of a phase, judges it, and keeps it.
fn judged(
    record: &mut PhaseRecord,
    catalog: &Catalog,
    losses: &[Loss],
    evicted: u64,
    journal: &mut Journal<'_>,
    keep: impl FnOnce(&mut Journal<'_>, &History) -> Option<String>,
) -> Option<HistoryResult> {
    let mut seen = record.history.take()?;
    let operations = seen.operations.len() as u64;
    if seen.overflowed {
        return Some(HistoryResult { operations, overflowed: true, ..HistoryResult::default() });
    }
    if operations > MANY {
        journal.note(format!("judging {} operations of {}", count(operations), record.name));
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
    let file = keep(journal, &history);
    let parts = |group| parts(group, &Start::of(&seen, group, strict), losses, evicted > 0);
    let explains = !losses.is_empty() || evicted > 0;
    let broken: BTreeSet<&str> = report.broken.iter().map(|of| of.key.as_str()).collect();
    let (mut excused, mut unclear) = (BTreeSet::new(), 0);
    for group in groups().filter(|_| explains) {
        let key = name(catalog, group);
        if !broken.contains(key.as_str()) {
            continue;
        }
        let judged: Vec<_> =
            parts(group).iter().map(|(initial, operations)| judge(operations, *initial, BUDGET)).collect();
        if judged.iter().any(|of| matches!(of, Verdict::Broken(_))) {
            continue;
        }
        unclear += u64::from(judged.contains(&Verdict::Undecided));
        excused.insert(key);
    }
    let missed = |of: &Staleness| of.own_write_missed + of.went_back;
    let session_broken = match explains {
        true => groups().flat_map(parts).map(|(initial, operations)| missed(&staleness(&operations, initial))).sum(),
        false => missed(&report.staleness),
    };
    let found = HistoryResult::of(report, &excused);
    Some(HistoryResult {
        // Not those of an earlier time.
        operations,
        unknown: seen.operations.iter().filter(|of| of.answered_ns.is_none()).count() as u64,
        undecided: found.undecided + unclear,
        file,
        versions_above: seen.versions_above,
        lossy: !losses.is_empty(),
        evicted,
        session_broken,
        shared: groups().filter(|group| is_shared(group)).count() as u64,
        foreign: seen.operations.iter().filter(|of| of.did == Did::Read(Content::Foreign)).count() as u64,
        ..found
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
    /// How many of them remove documents.
    late_deletes: u64,
    /// Whether reads are strong: then it is one version. Otherwise readers may find several older ones.
    strict: bool,
}

impl Start {
    fn of(seen: &HistoryRecord, group: &[HistoryOperation], strict: bool) -> Self {
        let was_there = seen.complete.get(group[0].collection as usize).copied().unwrap_or(false);
        let HistoryRecord { versions_above, unsettled, late_deletes, .. } = *seen;
        Self { versions_above, was_there, unsettled, late_deletes, strict }
    }
}

/// The texts of the values of a key. The position of each is its number.
struct Numbers(IndexSet<String>);

impl Default for Numbers {
    fn default() -> Self {
        Self(IndexSet::from(["null".to_owned()]))
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
    fn of(&mut self, text: String) -> Value {
        self.0.insert_full(text).0 as Value
    }

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

/// How often a document was not found.
fn nothing(group: &[HistoryOperation]) -> u64 {
    group.iter().filter(|of| of.did == Did::Read(Content::Nothing)).count() as u64
}

/// The operations on one key: what it held at first, the operations, and the texts of its values.
///
/// What it held is the version from before the phase that was read first. If it `was_there` it held something in any
/// case. If earlier writes are `unsettled`, each older version that was read may have arrived at any time. If reads are not
/// strong, several older versions may be found, and each was written before the phase.
fn of_key(group: &[HistoryOperation], start: &Start) -> (Value, Vec<Operation>, Vec<String>) {
    let Start { versions_above, was_there, unsettled, late_deletes, strict } = *start;
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
    let before = Operation { answered_ns: if unsettled > 0 { UNKNOWN } else { 0 }, ..late(Action::Delete) };
    if first.is_none() {
        let writes = old.iter().map(|version| Action::Write(numbers.of(text_of(*version, versions_above))));
        operations.extend(writes.map(|action| Operation { action, ..before }));
    }
    if !strict && !was_there {
        // It may have been deleted before.
        operations.push(before);
    }
    let deletes = if was_there { 0 } else { nothing(group).min(late_deletes).min(LATE_DELETES) };
    operations.extend((0..deletes).map(|_| late(Action::Delete)));
    operations.extend(group.iter().map(|of| numbers.operation(of, versions_above)));
    (initial, operations, numbers.0.into_iter().collect())
}

/// The operations on one key before the first loss, between two, and after the last one. Each of these parts must be
/// explained by itself. If the store `evicts`, the document may also vanish at any time.
fn parts(group: &[HistoryOperation], start: &Start, losses: &[Loss], evicts: bool) -> Vec<(Value, Vec<Operation>)> {
    let mut all = Vec::new();
    let end = losses.first().map_or(u64::MAX, |loss| loss.from_ns);
    let first = until(group, end);
    let (initial, operations, _) = of_key(&first, start);
    all.push((nothing(&first), initial, operations));
    let mut from = 0;
    for (nth, loss) in losses.iter().enumerate() {
        from = loss.to_ns.max(from);
        let end = losses.get(nth + 1).map_or(u64::MAX, |next| next.from_ns);
        // Otherwise the next loss begins before this one is over.
        if from < end {
            let (own, initial, operations) = after_loss(group, start, (from, end), loss.several);
            all.push((own, initial, operations));
        }
    }
    let with_evictions = |(nothing, initial, mut operations): (u64, Value, Vec<Operation>)| {
        match nothing {
            _ if !evicts => {}
            0..=LATE_DELETES => operations.extend((0..nothing).map(|_| late(Action::Delete))),
            // Too many to search for. What was found must be explained all the same.
            _ => operations.retain(|of| of.action != Action::Read(ABSENT)),
        }
        (initial, operations)
    };
    all.into_iter().map(with_evictions).collect()
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

/// The operations from the end of a loss until a moment: how often they found nothing, what the key held at first, and the
/// operations.
///
/// A single node holds one earlier version or nothing, and it shows at the first read. Of several nodes, each may still
/// bring an earlier version. Writes without an answer may take effect at any time.
fn after_loss(
    group: &[HistoryOperation],
    start: &Start,
    (from, end): (u64, u64),
    several: bool,
) -> (u64, Value, Vec<Operation>) {
    let above = start.versions_above;
    let mut numbers = Numbers::default();
    let own: Vec<HistoryOperation> = until(group, end).into_iter().filter(|of| of.sent_ns >= from).collect();
    let earlier = || group.iter().filter(|of| of.sent_ns < from);
    let is_late = |of: &HistoryOperation| of.answered_ns.is_none_or(|answered| answered >= from);
    // Each earlier version, and whether its write may still take effect.
    let written = earlier().filter_map(|of| match of.did {
        Did::Wrote(version) | Did::Swapped(_, version) => Some((version, several || is_late(of))),
        _ => None,
    });
    let written: HashMap<u64, bool> = written.collect();
    let arrives = |version: u64| match version <= above {
        true => Some(several || start.unsettled > 0),
        false => written.get(&version).copied(),
    };
    let mut seen: Vec<(u64, bool)> = Vec::new();
    for version in own.iter().filter_map(found) {
        if let Some(late) = arrives(version).filter(|_| !seen.iter().any(|(known, _)| *known == version)) {
            seen.push((version, late));
        }
    }
    let held = seen.iter().find(|(_, late)| !late).map(|(version, _)| *version);
    let initial = held.map_or(ABSENT, |version| numbers.of(text_of(version, above)));
    let mut operations: Vec<Operation> = Vec::new();
    for (version, _) in seen.iter().filter(|(_, late)| *late) {
        operations.push(late(Action::Write(numbers.of(text_of(*version, above)))));
    }
    let deletes = earlier().filter(|of| of.did == Did::Deleted && (several || is_late(of))).count() as u64;
    let deletes = deletes.saturating_add(start.late_deletes).min(nothing(&own)).min(LATE_DELETES);
    operations.extend((0..deletes).map(|_| late(Action::Delete)));
    operations.extend(own.iter().map(|of| numbers.operation(of, above)));
    (nothing(&own), initial, operations)
}

#[cfg(test)]
mod tests {
    use storebench_results::StoreStatsResult;

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
        let late = u64::from(unsettled) * 9;
        Start { versions_above: 100, was_there, unsettled: late, late_deletes: late, strict: true }
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

    /// Whether losses explain it. The store is hit at the first time and back at the second.
    fn excused(group: &[HistoryOperation], losses: &[(u64, u64)], several: bool, evicts: bool) -> bool {
        let losses: Vec<Loss> =
            losses.iter().map(|(from_ns, to_ns)| Loss { from_ns: *from_ns, to_ns: *to_ns, several }).collect();
        parts(group, &start(true, false), &losses, evicts)
            .iter()
            .all(|(initial, operations)| judge(operations, *initial, BUDGET) == Verdict::Linearizable)
    }

    #[test]
    fn a_loss_excuses_what_it_explains_and_nothing_else() {
        let lost = |group: &[HistoryOperation], several| {
            assert!(!explained(group, true, false), "it is broken without a loss");
            excused(group, &[(10, 20)], several, false)
        };
        for several in [false, true] {
            assert!(lost(&[nothing(30)], several), "the document that was loaded is lost");
            assert!(lost(&[wrote(1, 101), wrote(3, 102), read(30, 101)], several), "the last write is lost");
            assert!(lost(&[wrote(1, 101), nothing(30), wrote(40, 102), read(50, 102)], several));
            let during = [wrote(12, 101), wrote(14, 102), read(30, 5)];
            assert!(lost(&during, several), "what was acknowledged during the fault is lost");
            assert!(!lost(&[wrote(1, 101), wrote(3, 102), read(5, 101)], several), "before the loss");
            assert!(!lost(&[wrote(30, 101), wrote(32, 102), read(40, 101)], several), "after the loss");
            let back = [read(30, 5), wrote(32, 102), read(40, 102), read(42, 5)];
            assert!(!lost(&back, several), "it comes back after it was there");
            assert!(!lost(&[of(30, 31, Did::Read(Content::Foreign))], several), "no loss makes other documents");
            assert!(!lost(&[nothing(30), read(40, 999)], several), "nobody wrote it");
        }
        // Several nodes may agree later on what is left.
        let agrees_later = [nothing(30), wrote(32, 102), read(34, 102), read(36, 5)];
        assert!(lost(&agrees_later, true) && !lost(&agrees_later, false));
        // A write that got no answer may arrive after the loss.
        let late = [of(5, UNKNOWN, Did::Wrote(101)), nothing(30), wrote(32, 102), read(40, 101)];
        assert!(lost(&late, false));
        // Two losses: what is true between them counts.
        let group = [wrote(1, 101), nothing(30), wrote(32, 102), wrote(34, 103), read(36, 102), nothing(70)];
        assert!(!excused(&group, &[(10, 20), (50, 60)], false, false));
        let group = [wrote(1, 101), nothing(30), wrote(32, 102), read(36, 102), nothing(70)];
        assert!(excused(&group, &[(10, 20), (50, 60)], false, false));
        assert!(excused(&group, &[(10, 55), (50, 60)], false, false), "they overlap");
    }

    #[test]
    fn an_eviction_explains_that_nothing_is_there() {
        assert!(excused(&[wrote(1, 101), nothing(30), wrote(40, 102), nothing(50)], &[], false, true));
        assert!(!excused(&[wrote(1, 101), wrote(3, 102), read(5, 101)], &[], false, true));
        assert!(!excused(&[wrote(1, 101), nothing(30), read(40, 101)], &[], false, true));
        let often = |last: HistoryOperation| -> Vec<HistoryOperation> {
            (0..50).flat_map(|n| [wrote(n * 10, 101 + n), nothing(n * 10 + 5)]).chain([last]).collect()
        };
        assert!(excused(&often(wrote(900, 999)), &[], false, true));
        assert!(!excused(&often(read(900, 120)), &[], false, true), "stale");
        let figures = |first, last, max| {
            let figures = [("evictions".to_owned(), FigureResult { first, last, max })].into_iter().collect();
            let store_stats = StoreStatsResult { figures, ..StoreStatsResult::default() };
            evicted(&PhaseResult { store_stats, ..PhaseResult::default() })
        };
        assert_eq!((figures(5.0, 9.0, 9.0), figures(5.0, 3.0, 7.0), figures(5.0, 5.0, 5.0)), (4, 5, 0));
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

    /// A lagging session that finds an older version, and then that it was deleted before the phase.
    #[test]
    fn a_delete_before_the_phase_is_no_way_back() {
        let group = [read(1, 5), nothing(9)];
        let (initial, operations, _) = of_key(&group, &Start { strict: false, ..start(false, false) });
        assert_eq!(storebench_consistency::staleness(&operations, initial).went_back, 0);
    }
}
