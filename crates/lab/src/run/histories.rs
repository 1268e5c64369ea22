//! Judges what the workers of a phase saw of the documents that its consistency check follows.

use std::collections::HashMap;

use storebench_consistency::{ABSENT, Action, BUDGET, History, Operation, UNKNOWN, Value};
use storebench_documents::Catalog;
use storebench_engine::measure::{Content, Did, HistoryOperation, HistoryRecord, PhaseRecord};
use storebench_results::human::count;
use storebench_results::plan::PlannedTrial;
use storebench_results::{FaultResult, HistoryResult, Pass};

use super::observe::Journal;

/// From so many operations on, judging them takes a while.
const MANY: usize = 2_000_000;

/// What a key held when the phase began, if that was never read.
const FROM_BEFORE: &str = "\"a version from before\"";
/// What was read, if it was no version of the document.
const FOREIGN: &str = "\"not a version of this document\"";
/// The client of writes of earlier phases.
const EARLIER: u32 = u32::MAX;

/// Takes the history out of the record of a phase, judges it, and keeps it in the run folder.
pub(super) fn judged(
    record: &mut PhaseRecord,
    catalog: &Catalog,
    faults: &[FaultResult],
    planned: &PlannedTrial,
    (store, pass): (&str, Pass),
    journal: &mut Journal<'_>,
) -> Option<HistoryResult> {
    let seen = record.history.take()?;
    if seen.overflowed {
        let operations = seen.operations.len() as u64;
        return Some(HistoryResult { operations, overflowed: true, ..HistoryResult::default() });
    }
    if seen.operations.len() > MANY {
        journal.note(format!("judging {} operations of {}", count(seen.operations.len() as u64), record.name));
    }
    let history = history_of(seen, catalog);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let report = history.report(BUDGET, threads);
    let mut file = None;
    journal.keep(|folder| {
        file = Some(folder.add_history(planned.trial, store, &record.name, pass, &history)?);
        Ok(())
    });
    let struck: Vec<u64> = faults.iter().filter_map(|fault| fault.began_ns).collect();
    Some(HistoryResult { file, ..HistoryResult::of(report, &struck) })
}

/// The history of each followed document that was used.
fn history_of(seen: HistoryRecord, catalog: &Catalog) -> History {
    let HistoryRecord { mut operations, versions_above, complete, unsettled, .. } = seen;
    operations.sort_unstable_by_key(|of| (of.collection, of.index, of.sent_ns));
    let mut history = History::default();
    for group in operations.chunk_by(|a, b| (a.collection, a.index) == (b.collection, b.index)) {
        let collection = group[0].collection as usize;
        let documents = catalog.get(collection);
        let mut key = Vec::new();
        documents.write_key(group[0].index, &mut key);
        let mut key = String::from_utf8_lossy(&key).into_owned();
        if catalog.iter().count() > 1 {
            key = format!("{}: {key}", documents.name());
        }
        let was_there = complete.get(collection).copied().unwrap_or(false);
        let (initial, operations, values) = of_key(group, versions_above, was_there, unsettled);
        history.add_key(key, initial, operations, values);
    }
    history
}

/// Numbers for the values of a key.
struct Numbers {
    known: HashMap<String, Value>,
    texts: Vec<String>,
}

impl Numbers {
    fn of(&mut self, text: String) -> Value {
        let next = self.texts.len() as Value;
        let number = *self.known.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            next
        });
        number
    }
}

/// The operations on one key: what it held at first, the operations, and the texts of its values.
///
/// What it held is the version from before the phase that was read first. If `was_there` it held something in any case.
/// If earlier writes are `unsettled`, each older version that was read may have arrived at any time.
fn of_key(
    group: &[HistoryOperation],
    versions_above: u64,
    was_there: bool,
    unsettled: bool,
) -> (Value, Vec<Operation>, Vec<String>) {
    let mut numbers = Numbers { known: HashMap::new(), texts: vec!["null".to_owned()] };
    let found = |of: &HistoryOperation| match of.did {
        Did::Read(Content::Version(version)) | Did::Swapped(version, _) => Some(version),
        _ => None,
    };
    let mut old: Vec<u64> = group.iter().filter_map(found).filter(|version| *version <= versions_above).collect();
    let first = old.first().copied().filter(|_| !unsettled);
    old.sort_unstable();
    old.dedup();
    let initial = match first {
        Some(version) => numbers.of(version.to_string()),
        None if was_there => numbers.of(FROM_BEFORE.to_owned()),
        None => ABSENT,
    };
    let mut operations = Vec::with_capacity(group.len());
    if unsettled {
        let earlier = |action| Operation { sent_ns: 0, answered_ns: UNKNOWN, action, client: EARLIER };
        operations.extend(old.iter().map(|version| earlier(Action::Write(numbers.of(version.to_string())))));
        if !was_there {
            operations.push(earlier(Action::Delete));
        }
    }
    for of in group {
        let mut version = |version: u64| numbers.of(version.to_string());
        let action = match of.did {
            Did::Read(Content::Nothing) => Action::Read(ABSENT),
            Did::Read(Content::Version(read)) => Action::Read(version(read)),
            Did::Read(Content::Foreign) => Action::Read(numbers.of(FOREIGN.to_owned())),
            Did::Wrote(wrote) => Action::Write(version(wrote)),
            Did::Deleted => Action::Delete,
            Did::Swapped(from, to) => Action::Swap(version(from), version(to)),
        };
        operations.push(Operation {
            sent_ns: of.sent_ns,
            answered_ns: of.answered_ns.unwrap_or(UNKNOWN),
            action,
            client: of.client,
        });
    }
    (initial, operations, numbers.texts)
}

#[cfg(test)]
mod tests {
    use storebench_consistency::{Verdict, judge};

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

    /// Whether some order explains the operations of a phase whose versions are above 100.
    fn explained(group: &[HistoryOperation], was_there: bool, unsettled: bool) -> bool {
        let (initial, operations, _) = of_key(group, 100, was_there, unsettled);
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
}
