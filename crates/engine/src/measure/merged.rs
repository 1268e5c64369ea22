//! Merges the records of one phase from all parts of a run.
//!
//! Adds histograms bucket by bucket, sums counts, and puts the intervals of all parts on one time axis. So the result
//! is the record that a single process would have made of the same operations.

use std::collections::BTreeMap;

use storebench_documents::keys::Distinct;

use super::ledger::LedgerReport;
use super::phase::{OfPart, Partial, PhaseRecord};
use super::recorder::{Interval, Recorder};

/// The maximum number of messages, and of examples of wrong documents, in a merged record.
const EXAMPLES: usize = 20;

/// Merges records of the same phase, one for each part, in the order of parts. Returns `None` if there are no records.
///
/// The time axis starts when the first part begins. Parts that began later are shifted by whole intervals, rounded to
/// the nearest. So parts that began within half an interval count as simultaneous, and the schedule that they share
/// keeps its length. The first part provides the reports of the store and of the client process about themselves.
pub fn merged(parts: Vec<PhaseRecord>) -> Option<PhaseRecord> {
    let began_unix_ns = parts.iter().map(|part| part.began_unix_ns).min()?;
    let mut all = Merging { began_unix_ns, ..Merging::default() };
    parts.into_iter().for_each(|part| all.add(part));
    all.into_record()
}

/// How much later than the first part a part began, in whole intervals and in ns.
#[derive(Debug, Clone, Copy)]
struct Shift {
    intervals: u64,
    by_ns: u64,
}

impl Shift {
    fn of(record: &PhaseRecord, began_unix_ns: u64) -> Self {
        let after_ns = record.began_unix_ns - began_unix_ns;
        // Use the second to last interval, because the last one may be shorter or longer. Short phases have only one.
        let interval_ns = record.intervals.iter().rev().nth(1).map_or(1_000_000_000, |i| (i.to_ns - i.from_ns).max(1));
        let intervals = (after_ns + interval_ns / 2) / interval_ns;
        Self { intervals, by_ns: intervals * interval_ns }
    }
}

/// The merged record so far.
#[derive(Default)]
struct Merging {
    began_unix_ns: u64,
    intervals: BTreeMap<u64, (u64, u64, Recorder)>,
    distinct: BTreeMap<usize, Distinct>,
    messages: BTreeMap<String, u64>,
    /// The first part's, with what was added to it.
    record: Option<PhaseRecord>,
}

impl Merging {
    fn add(&mut self, mut part: PhaseRecord) {
        let shift = Shift::of(&part, self.began_unix_ns);
        move_on(&mut part, shift);
        self.take_intervals(std::mem::take(&mut part.intervals), part.labels.len(), shift);
        part.partial = named(part.partial.take(), part.of_part.as_ref());
        for (message, count) in std::mem::take(&mut part.messages) {
            *self.messages.entry(message).or_default() += count;
        }
        for (collection, touched) in part.of_part.take().into_iter().flat_map(|of| of.touched) {
            self.distinct.entry(collection).or_default().merge(&touched);
        }
        let Some(all) = &mut self.record else {
            self.record = Some(part);
            return;
        };
        all.sending_ns = all.sending_ns.max(part.sending_ns);
        all.elapsed_ns = all.elapsed_ns.max(part.elapsed_ns);
        all.scheduled = all.scheduled.zip(part.scheduled).map(|(a, b)| a + b);
        all.scheduled_over_ns = all.scheduled_over_ns.max(part.scheduled_over_ns);
        all.workers += part.workers;
        all.worker_use.extend(part.worker_use);
        all.wrong_examples.extend(part.wrong_examples);
        all.wrong_examples.truncate(EXAMPLES);
        match (&mut all.ledger, part.ledger) {
            (Some(all), Some(part)) => all.add(part),
            (all, part) => *all = all.take().or(part),
        }
        all.partial = all.partial.take().or(part.partial);
    }

    fn take_intervals(&mut self, intervals: Vec<Interval>, labels: usize, shift: Shift) {
        for interval in intervals {
            let mut record = interval.record();
            for tally in &mut record.ops {
                tally.answered_at = tally.answered_at.shifted(shift.by_ns);
            }
            let (from_ns, to_ns) = (interval.from_ns + shift.by_ns, interval.to_ns + shift.by_ns);
            let known = self
                .intervals
                .entry(interval.number + shift.intervals)
                .or_insert_with(|| (from_ns, to_ns, Recorder::new(labels)));
            *known = (known.0.min(from_ns), known.1.max(to_ns), std::mem::take(&mut known.2));
            known.2.add(&record);
        }
    }

    fn into_record(self) -> Option<PhaseRecord> {
        let mut record = self.record?;
        record.began_unix_ns = self.began_unix_ns;
        let mut starts: Vec<u64> = self.intervals.values().map(|(from_ns, ..)| *from_ns).collect();
        starts.push(u64::MAX);
        // A part that ended later than another may have a longer last interval. Intervals must not overlap.
        let whole = |(nth, (number, (from_ns, to_ns, seen))): (usize, (&u64, &(u64, u64, Recorder)))| {
            Interval::new(*number, *from_ns, (*to_ns).min(starts[nth + 1]).max(from_ns + 1), seen)
        };
        record.intervals = self.intervals.iter().enumerate().map(whole).collect();
        record.sum_up();
        record.distinct_keys = self.distinct.iter().map(|(c, touched)| (*c, touched.estimate())).collect();
        record.messages = self.messages.into_iter().collect();
        record.messages.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        record.messages.truncate(EXAMPLES);
        Some(record)
    }
}

/// Why a part ended a phase early, with the number of the part.
fn named(partial: Option<Partial>, of: Option<&OfPart>) -> Option<Partial> {
    let number = of.map_or(1, |of| of.part.number);
    partial.map(|p| Partial { why: format!("part {number}: {}", p.why), ..p })
}

/// Shifts the times of a record, except those of its intervals, along the time axis.
fn move_on(record: &mut PhaseRecord, shift: Shift) {
    record.sending_ns += shift.by_ns;
    record.elapsed_ns += shift.by_ns;
    record.resources.iter_mut().for_each(|sample| sample.at_ns += shift.by_ns);
    record.store_stats.samples.iter_mut().for_each(|sample| sample.at_ns += shift.by_ns);
}

impl LedgerReport {
    /// Adds the report of another part. Parts have different keys.
    fn add(&mut self, other: Self) {
        let Self {
            keys,
            confirmed,
            lost,
            unverifiable,
            examples,
            loaded,
            share: _,
            happened,
            not_happened,
            gone,
            stale,
            torn,
            resurrected,
            never_written,
            reads,
        } = other;
        for (mine, theirs) in [
            (&mut self.keys, keys),
            (&mut self.confirmed, confirmed),
            (&mut self.lost, lost),
            (&mut self.unverifiable, unverifiable),
            (&mut self.loaded, loaded),
            (&mut self.happened, happened),
            (&mut self.not_happened, not_happened),
            (&mut self.gone, gone),
            (&mut self.stale, stale),
            (&mut self.torn, torn),
            (&mut self.resurrected, resurrected),
            (&mut self.never_written, never_written),
        ] {
            *mine += theirs;
        }
        self.examples.extend(examples);
        self.examples.truncate(EXAMPLES);
        self.reads.add(reads);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use storebench_study::{Part, mix64};

    use super::super::phase::{Label, PartialCause};
    use super::super::resources::ResourceSample;
    use super::super::store_stats::StoreStats;
    use super::super::tally::record as note;
    use super::*;
    use crate::store::{Durability, OpKind, ReadConsistency};

    const SECOND: u64 = 1_000_000_000;

    /// One raw measurement: its part, interval, operation, and time in ns.
    type Raw = (u32, u64, usize, u64);

    fn labels() -> Vec<Label> {
        let label = |name: &str, kind| Label { name: name.to_owned(), kind, collection: 0, batch: 1 };
        vec![label("read", OpKind::Read), label("update", OpKind::Upsert)]
    }

    fn recorded(recorder: &mut Recorder, raws: impl IntoIterator<Item = Raw>) {
        for (_, _, op, ns) in raws {
            let tally = &mut recorder.ops[op];
            tally.succeeded += 1;
            for times in [&mut tally.response, &mut tally.service, &mut tally.client_queueing] {
                note(times, ns);
            }
            note(&mut recorder.send_delay, ns / 7);
        }
    }

    /// The record of one part, which began `after_ns` after the first one.
    fn part(number: u32, of: u32, after_ns: u64, raws: &[Raw]) -> PhaseRecord {
        let own = || raws.iter().copied().filter(|(part, ..)| *part == number);
        let intervals: Vec<Interval> = (0..4)
            .map(|at| {
                let mut recorder = Recorder::new(2);
                recorded(&mut recorder, own().filter(|(_, interval, ..)| *interval == at));
                recorder.ops[0].answered_at.at(at * SECOND + 5);
                Interval::new(at, at * SECOND, (at + 1) * SECOND, &recorder)
            })
            .collect();
        let mut touched = Distinct::new();
        (0..1_000).for_each(|key| touched.add(mix64(1, key * u64::from(of) + u64::from(number))));
        let mut record = PhaseRecord {
            name: "mixed".into(),
            warm_up: false,
            loads: false,
            labels: labels(),
            began_unix_ns: 1_767_225_600 * SECOND + after_ns,
            sending_ns: 4 * SECOND,
            elapsed_ns: 4 * SECOND,
            scheduled: Some(own().count() as u64),
            scheduled_over_ns: Some(4 * SECOND),
            workers: 2,
            connections: 1,
            in_flight: 1,
            durability: Durability::OS,
            consistency: ReadConsistency::Strong,
            isolation: None,
            total: Recorder::new(2),
            intervals,
            worker_use: Vec::new(),
            resources: vec![ResourceSample { at_ns: 1, rss_bytes: number.into(), cpu_ns: 1, lateness_ns: 0 }],
            store_stats: StoreStats::default(),
            distinct_keys: vec![(0, touched.estimate())],
            messages: vec![("busy".into(), number.into())],
            wrong_examples: Vec::new(),
            ledger: Some(LedgerReport { keys: 10, confirmed: 9, lost: 1, gone: 1, share: 1.0, ..Default::default() }),
            history: None,
            answers: Vec::new(),
            partial: None,
            of_part: Some(OfPart { part: Part { number, of }, agreed_unix_ns: None, touched: vec![(0, touched)] }),
        };
        record.sum_up();
        record
    }

    /// Writes a record and reads it back, as `merge` does.
    fn read_back(record: &PhaseRecord) -> PhaseRecord {
        PhaseRecord::from_json(&record.to_json().unwrap()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        /// Merged histograms equal those of the pooled raw times, bucket by bucket.
        #[test]
        fn merged_histograms_are_those_of_the_pooled_times(
            raws in proptest::collection::vec(
                (1..=8u32, 0..4u64, 0..2usize, prop_oneof![1..1_000u64, 1..10_000_000_000u64]),
                0..400,
            ),
        ) {
            let parts = (1..=8).map(|number| read_back(&part(number, 8, 0, &raws))).collect();
            let all = merged(parts).unwrap();
            let mut pooled = Recorder::new(2);
            recorded(&mut pooled, raws.iter().copied());
            for (mine, theirs) in all.total.ops.iter().zip(&pooled.ops) {
                prop_assert_eq!(&mine.response, &theirs.response);
                prop_assert_eq!(&mine.service, &theirs.service);
                prop_assert_eq!(&mine.client_queueing, &theirs.client_queueing);
                prop_assert_eq!(mine.succeeded, theirs.succeeded);
            }
            prop_assert_eq!(&all.total.send_delay, &pooled.send_delay);
            for at in 0..4 {
                let mut of_interval = Recorder::new(2);
                recorded(&mut of_interval, raws.iter().copied().filter(|(_, interval, ..)| *interval == at));
                let interval = all.intervals[at as usize].record();
                prop_assert_eq!(&interval.ops[1].response, &of_interval.ops[1].response);
            }
            prop_assert_eq!((all.scheduled, all.workers), (Some(raws.len() as u64), 16));
        }
    }

    #[test]
    fn what_parts_counted_is_added_up() {
        let all = merged((1..=3).map(|number| part(number, 3, 0, &[])).collect()).unwrap();
        let error = all.distinct_keys[0].1 as f64 / 3_000.0 - 1.0;
        assert!(error.abs() < 0.03, "{:?}", all.distinct_keys);
        assert_eq!(all.messages, [("busy".to_owned(), 6)]);
        let ledger = all.ledger.unwrap();
        assert_eq!((ledger.keys, ledger.confirmed, ledger.lost, ledger.share), (30, 27, 3, 1.0));
        assert!(merged(Vec::new()).is_none());
    }

    #[test]
    fn the_part_that_ended_early_is_named() {
        for early in 1..=2 {
            let mut parts: Vec<PhaseRecord> = (1..=2).map(|number| part(number, 2, 0, &[])).collect();
            parts[early - 1].partial = Some(Partial { cause: PartialCause::Failed, why: "the disk is full".into() });
            assert_eq!(merged(parts).unwrap().partial.unwrap().why, format!("part {early}: the disk is full"));
        }
    }

    #[test]
    fn one_part_stays_as_it_is() {
        let raws = [(1, 0, 0, 700), (1, 3, 1, 900)];
        let one = part(1, 1, 0, &raws);
        let same = merged(vec![read_back(&one)]).unwrap();
        assert_eq!(same.total.ops[0].response, one.total.ops[0].response);
        assert_eq!((same.elapsed_ns, same.intervals.len()), (one.elapsed_ns, one.intervals.len()));
        assert_eq!(same.distinct_keys, one.distinct_keys);
    }

    #[test]
    fn parts_are_put_on_one_time_axis() {
        let raws = [(1, 0, 0, 700), (2, 0, 0, 900)];
        // Starts less than half an interval apart count as simultaneous.
        let together = merged(vec![part(1, 2, 0, &raws), part(2, 2, SECOND / 2 - 1, &raws)]).unwrap();
        assert_eq!((together.elapsed_ns, together.intervals.len()), (4 * SECOND, 4));
        assert_eq!(together.intervals[0].record().ops[0].response.len(), 2);
        // Any part may begin first.
        let apart = merged(vec![part(1, 2, 2 * SECOND + 9, &raws), part(2, 2, 0, &raws)]).unwrap();
        assert_eq!((apart.began_unix_ns, apart.elapsed_ns), (1_767_225_600 * SECOND, 6 * SECOND));
        let at = |nth: usize| {
            let interval = &apart.intervals[nth];
            (interval.from_ns, interval.to_ns, interval.record().ops[0].response.len())
        };
        assert_eq!((at(0), at(2), apart.intervals.len()), ((0, SECOND, 1), (2 * SECOND, 3 * SECOND, 1), 6));
        let answered = apart.total.ops[0].answered_at;
        assert_eq!((answered.first_ns, answered.last_ns), (5, 5 * SECOND + 5));
    }

    #[test]
    fn damaged_records_are_refused() {
        let json = String::from_utf8(part(1, 2, 0, &[(1, 0, 0, 700)]).to_json().unwrap()).unwrap();
        // The first bytes of the format.
        let start = json.find("HIST").expect("a histogram in base64");
        let damaged = format!("{}AAAAAAAA{}", &json[..start], &json[start + 8..]);
        assert!(PhaseRecord::from_json(damaged.as_bytes()).unwrap_err().to_string().contains("damaged histogram"));
        assert!(
            PhaseRecord::from_json(json.replace("\"read\",\"kind\":\"read\"", "\"read\",\"kind\":\"x\"").as_bytes())
                .is_err()
        );
        assert!(PhaseRecord::from_json(&json.as_bytes()[..json.len() / 2]).is_err());
    }
}
