//! Verifies that the target holds what was copied, by counts and sums of both sides, and lists the keys that differ.

mod files;
pub(crate) mod passes;
pub(crate) mod reread;
pub(crate) mod spool;
mod store;
mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::Timestamp;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use storebench_engine::Stop;

pub(crate) use files::FileTarget;
pub(crate) use store::StoreTarget;
pub(crate) use storebench_documents::same as hash;

use crate::error::TransferError;
use crate::source::Split;
use hash::{Odd, Seen};
use passes::Passes;
use sums::{BUCKETS, Sums};

/// Most keys listed as differing.
const NAMED: usize = 20;
/// Approximate number of keys held at once to compare them one by one.
const HELD: u64 = 1_000_000;

/// The content of the target compared with what was written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Verification {
    /// Records written.
    pub written: u64,
    /// Records found in the target, whatever their content.
    pub found: u64,
    /// Buckets of keys (of 4,096) in which the two sides differ.
    pub unequal_buckets: u64,
    /// Keys written more than once with different documents. The target holds one that may stand: the last one, as far as
    /// the order is known.
    pub written_twice: u64,
    /// Records that are not there, and may have expired. Whether they were there before is unknown.
    pub expired: u64,
    /// Values that the target stores in another notation which JSON considers equal, such as `1.0` as `1`, or only the
    /// last of several members with the same name.
    pub changed: Vec<Changed>,
    /// Some of the keys that differ.
    pub differing: Vec<Differing>,
    /// Whether the target holds exactly what was written.
    pub equal: bool,
    /// Parts that were written without keeping sums. Their records were read again from the source, in its current
    /// state.
    pub reread: u64,
}

/// Values of one kind that the target stores in another notation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Changed {
    /// The number of values.
    pub values: u64,
    /// A description of the kind.
    pub what: String,
}

/// A key that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Differing {
    /// The key.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

/// What is known of the order in which records with the same key were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nothing: any of them may stand.
    Unknown,
    /// Within each split it is that of the source, so the last record of one of the splits stands.
    InSplits,
    /// It is that of the source, so the last one stands.
    Whole,
}

/// A target that can be read back.
pub trait Target: Sync {
    /// Passes the key and hash of each of a split's written records that is in the target to `found`. A single file
    /// passes all its records with the first split.
    #[doc(hidden)]
    fn read(
        &self,
        folder: &Path,
        split: &Split,
        stop: &Stop,
        wanted: &dyn Fn(&str) -> bool,
        found: &mut dyn FnMut(&str, Seen),
    ) -> Result<(), TransferError>;

    /// Whether the keys should have been deleted.
    fn deleted(&self) -> bool {
        false
    }

    /// Whether the target keeps each written record separately, even if several have the same key.
    fn keeps_each(&self) -> bool {
        false
    }
}

/// Reads back what was written. `progress` receives the number of splits compared so far. Also returns the splits with
/// records that differ, without those whose records only expired.
///
/// # Errors
/// What can no longer be read. Differences are not errors but part of the result.
pub(crate) fn verify(
    passes: &dyn Passes,
    target: &dyn Target,
    order: Order,
    progress: &mut dyn FnMut(u64),
) -> Result<(Verification, BTreeSet<u32>), TransferError> {
    let (mut ours, mut theirs) = (Sums::new(), Sums::new());
    let (mut report, mut changed) = (Verification::default(), Odd::default());
    let mut unlike: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut done = 0;
    passes.compare(&mut |compared| {
        report.written += compared.written;
        report.found += compared.found;
        changed += compared.changed;
        for (bucket, written, found) in compared.unequal {
            unlike.entry(compared.split).or_default().push(bucket);
            ours.add_to(bucket, written);
            theirs.add_to(bucket, found);
        }
        done += 1;
        progress(done);
    })?;
    changed += ours.changed(&theirs);
    report.changed = changed.told().map(|(values, what)| Changed { values, what }).collect();
    let unequal = ours.unequal(&theirs);
    report.unequal_buckets = unequal.len() as u64;
    let at_once = (BUCKETS as u64 * HELD / report.written.max(1)).clamp(1, BUCKETS as u64) as usize;
    let mut differ = BTreeSet::new();
    let mut rest = unequal.chunks(at_once);
    for buckets in rest.by_ref() {
        differ.append(&mut name_keys(passes, target, order, &buckets.iter().copied().collect(), &mut report)?);
        if report.differing.len() >= NAMED {
            break;
        }
    }
    // What was not looked at may differ.
    let rest: BTreeSet<usize> = rest.flatten().copied().collect();
    let unseen = unlike.into_iter().filter(|(_, buckets)| buckets.iter().any(|at| rest.contains(at)));
    differ.extend(unseen.map(|(split, _)| split));
    // Sums alone do not decide: of a key written twice with different documents, only one is found.
    report.equal = report.differing.is_empty();
    // Others may have expired since they were counted.
    if report.expired > 0 {
        report.found = report.found.min(report.written.saturating_sub(report.expired));
    }
    Ok((report, differ))
}

/// Processes `parallel` items at a time, each on a thread, and passes the results to `take` in order.
fn in_parallel<I: Sync, T: Send>(
    items: &[I],
    parallel: u32,
    stop: &Stop,
    work: impl Fn(&I) -> Result<T, TransferError> + Sync,
    mut take: impl FnMut(T),
) -> Result<(), TransferError> {
    for some in items.chunks(parallel.max(1) as usize) {
        if stop.asked() {
            return Err(interrupted());
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = some.iter().map(|item| scope.spawn(|| work(item))).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(&mut take)
            })
        })?;
    }
    Ok(())
}

/// The error of a verification that was to stop.
pub(crate) fn interrupted() -> TransferError {
    TransferError::Target("interrupted during verification; use --resume to verify again".into())
}

/// Reads some buckets again, key by key, and lists the keys that differ. Returns the splits that have
/// one of them, on either side.
fn name_keys(
    passes: &dyn Passes,
    target: &dyn Target,
    order: Order,
    buckets: &BTreeSet<usize>,
    report: &mut Verification,
) -> Result<BTreeSet<u32>, TransferError> {
    let mut differ = BTreeSet::new();
    let mut splits_of: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let mut written: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    // The documents of a key one of which must stand: their hashes, and when they may have expired, in seconds since 1970.
    let mut standing: BTreeMap<String, Vec<(u128, i64)>> = BTreeMap::new();
    let mut found: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    passes.list(buckets, &mut |listed| {
        let keys = listed.written.iter().map(|(key, ..)| key).chain(listed.found.iter().map(|(key, _)| key));
        for key in keys {
            splits_of.entry(key.clone()).or_default().insert(listed.split);
        }
        let mut of_split: BTreeMap<&str, Vec<(u128, i64)>> = BTreeMap::new();
        for (key, seen, gone_s) in &listed.written {
            let last = of_split.entry(key).or_default();
            if order != Order::Unknown {
                last.clear();
            }
            last.push((seen.hash, gone_s.unwrap_or(i64::MAX)));
        }
        for (key, last) in of_split {
            let all = standing.entry(key.to_owned()).or_default();
            if order == Order::Whole {
                all.clear();
            }
            all.extend(last);
        }
        for (key, seen, _) in listed.written {
            written.entry(key).or_default().push(seen);
        }
        for (key, seen) in listed.found {
            found.entry(key).or_default().push(seen);
        }
    })?;
    // After everything was read. Stores that count in seconds may round down.
    let now_s = Timestamp::now().as_second().saturating_add(1);
    let expired = |key: &str| standing.get(key).is_some_and(|all| all.iter().any(|(_, gone_s)| *gone_s <= now_s));
    let stands =
        |key: &str, seen: &Seen| standing.get(key).is_some_and(|all| all.iter().any(|(hash, _)| *hash == seen.hash));
    let records: BTreeMap<String, u64> = written.iter().map(|(key, all)| (key.clone(), all.len() as u64)).collect();
    for all in written.values_mut().chain(found.values_mut()) {
        all.sort_unstable();
        if !target.keeps_each() {
            all.dedup_by_key(|seen| seen.hash);
        }
    }
    let keys: BTreeSet<&String> = written.keys().chain(found.keys()).collect();
    for key in keys {
        let what = match (written.get(key), found.get(key)) {
            (Some(_), None) if target.deleted() => continue,
            (Some(_), Some(_)) if target.deleted() => "is still there",
            (Some(_), None) if expired(key) => {
                report.expired += records.get(key).copied().unwrap_or_default();
                continue;
            }
            (Some(_), None) => "is missing",
            (None, _) => "was not written by this copy",
            (Some(written), Some(found)) if target.keeps_each() => {
                let hashes = |all: &[Seen]| all.iter().map(|seen| seen.hash).collect::<Vec<_>>();
                let (written, found) = (hashes(written), hashes(found));
                let distinct = |hashes: &[u128]| hashes.iter().copied().collect::<BTreeSet<_>>();
                match written == found {
                    true => continue,
                    false if distinct(&written) == distinct(&found) => "occurs more or less often than it was written",
                    false => "differs",
                }
            }
            (Some(written), Some(found)) if found.iter().all(|seen| stands(key, seen)) => {
                report.written_twice += u64::from(written.len() > 1);
                continue;
            }
            (Some(written), Some(found)) if found.iter().all(|seen| written.iter().any(|it| it.hash == seen.hash)) => {
                "holds an earlier record of this key, not the last one"
            }
            (Some(_), Some(_)) => "differs",
        };
        differ.extend(splits_of.get(key).into_iter().flatten());
        if report.differing.len() < NAMED {
            let lost = match (written.get(key), found.get(key)) {
                (Some(written), Some(found)) if !target.deleted() => why(written, found),
                _ => String::new(),
            };
            report.differing.push(Differing { key: key.clone(), what: format!("{what}{lost}") });
        }
    }
    Ok(differ)
}

/// Describes the values that stores often change and that differ here; they are the most likely reason.
fn why(written: &[Seen], found: &[Seen]) -> String {
    let ([written], [found]) = (written, found) else { return String::new() };
    let lost: Vec<String> =
        written.odd.lost(found.odd).told().map(|(values, what)| format!("{values} {what}")).collect();
    if lost.is_empty() { String::new() } else { format!("; the target changed {}", lost.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::spool::Spool;
    use super::*;
    use crate::format::Format;
    use crate::shape::Shape;
    use crate::source::Part;

    /// Verifies these written records against a file with this content.
    fn verified(written: &[(&str, &str)], holds: &str) -> Verification {
        let lasting: Vec<_> = written.iter().map(|(key, body)| (*key, *body, None)).collect();
        verified_with_expiry(&lasting, holds)
    }

    fn verified_with_expiry(written: &[(&str, &str, Option<Timestamp>)], holds: &str) -> Verification {
        let folder = tempfile::tempdir().unwrap();
        let split = Split { number: 0, part: Part::File { file: 0 }, bytes: None };
        let mut spool = Spool::create(folder.path(), 0).unwrap();
        for (key, body, gone) in written {
            spool.add(key, hash::seen(key, body.as_bytes(), &[], true), *gone).unwrap();
        }
        spool.end().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, holds).unwrap();
        let (shape, format) = (Shape::carried_by("_id"), Format::Jsonl);
        let target = FileTarget { place: path.into(), folder: false, format, shape };
        let (splits, stop) = ([split], Stop::new());
        let here = passes::Here { folder: folder.path(), splits: &splits, target: &target, parallel: 2, stop: &stop };
        verify(&here, &target, Order::InSplits, &mut |_| {}).unwrap().0
    }

    const A: &str = "{\"_id\":\"a\",\"n\":1}\n";
    const B: &str = "{\"_id\":\"b\"}\n";

    #[test]
    fn a_file_holds_each_record_as_often_as_it_was_written() {
        let (once, twice) = ([("a", "{\"n\":1}"), ("b", "{}")], [("a", "{\"n\":1}"), ("a", "{\"n\":1}"), ("b", "{}")]);
        for (written, holds) in [(&once[..], [A, B, ""]), (&twice, [A, B, A])] {
            let report = verified(written, &holds.concat());
            assert!(report.equal && report.unequal_buckets == 0, "{report:?}");
        }
        for (written, holds, found) in [(&once[..], [A, A, B], 3), (&twice, [A, B, ""], 2), (&twice, [A, B, B], 3)] {
            let report = verified(written, &holds.concat());
            assert!(!report.equal && report.found == found, "{report:?}");
            let told = report.differing.iter().map(|key| key.what.as_str());
            assert!(
                told.clone().count() > 0 && told.clone().all(|what| what.contains("more or less often")),
                "{report:?}"
            );
        }
    }

    #[test]
    fn what_has_expired_is_not_called_missing() {
        let (past, future) = (Some(Timestamp::UNIX_EPOCH), Some(Timestamp::MAX));
        let report = verified_with_expiry(&[("a", "{}", past), ("b", "{}", future)], B);
        assert!(report.equal && report.expired == 1, "{report:?}");
        let report = verified_with_expiry(&[("a", "{}", future), ("b", "{}", past)], B);
        assert!(!report.equal && report.expired == 0 && report.differing[0].what == "is missing", "{report:?}");
        // It was written again, to stay.
        let report = verified_with_expiry(&[("a", "{}", past), ("a", "{}", None)], "");
        assert!(!report.equal && report.expired == 0, "{report:?}");
    }

    /// Otherwise a resume would copy them again, with a new time to live.
    #[test]
    fn parts_whose_records_only_expired_do_not_differ() {
        let folder = tempfile::tempdir().unwrap();
        let splits = [0, 1].map(|number| Split { number, part: Part::File { file: number }, bytes: None });
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, "").unwrap();
        let stop = Stop::new();
        let differing = |first: &str, second: Option<Timestamp>| {
            for (number, key, gone) in [(0, first, Some(Timestamp::UNIX_EPOCH)), (1, "b", second)] {
                let mut spool = Spool::create(folder.path(), number).unwrap();
                spool.add(key, hash::seen(key, b"{}", &[], true), gone).unwrap();
                spool.end().unwrap();
            }
            let (shape, format) = (Shape::carried_by("_id"), Format::Jsonl);
            let target = FileTarget { place: path.clone().into(), folder: false, format, shape };
            let here =
                passes::Here { folder: folder.path(), splits: &splits, target: &target, parallel: 1, stop: &stop };
            verify(&here, &target, Order::InSplits, &mut |_| {}).unwrap().1
        };
        // Also if both are in one bucket.
        let beside = (0..).map(|n| n.to_string()).find(|key| sums::bucket(key) == sums::bucket("b")).unwrap();
        for first in ["a", &beside] {
            assert_eq!(differing(first, None), [1].into());
            assert_eq!(differing(first, Some(Timestamp::UNIX_EPOCH)), [].into());
        }
    }

    #[test]
    fn what_the_target_writes_otherwise_is_named_and_no_difference_where_json_has_none() {
        let report = verified(&[("a", "{\"n\":1.0,\"z\":[-0.0],\"n\":1}")], "{\"_id\":\"a\",\"n\":1,\"z\":[0]}\n");
        let told: Vec<(u64, &str)> = report.changed.iter().map(|c| (c.values, c.what.as_str())).collect();
        assert!(report.equal && told.len() == 3 && told.iter().all(|(values, _)| *values == 1), "{report:?}");
        assert!(told[0].1.contains("1.0 to 1") && told[1].1.contains("-0.0") && told[2].1.contains("last"), "{told:?}");
        for (written, holds, why) in [
            ("{\"n\":1e400}", "null", "1e400"),
            ("{\"n\":12345678901234567890}", "12345678901234567000", "differs"),
            ("{\"n\":9007199254740993}", "9007199254740992", "more digits than a double holds"),
            ("{\"n\":\"\\ud800\"}", "\"\u{FFFD}\"", "surrogate"),
        ] {
            let report = verified(&[("a", written)], &format!("{{\"_id\":\"a\",\"n\":{holds}}}\n"));
            assert!(!report.equal && report.differing[0].what.contains(why), "{written}: {report:?}");
        }
    }

    #[test]
    fn documents_of_one_key_all_stand_in_a_file() {
        let written = [("a", "{\"n\":1}"), ("a", "{\"n\":2}")];
        let other = "{\"_id\":\"a\",\"n\":2}\n";
        assert!(verified(&written, &[other, A].concat()).equal);
        for holds in [other.to_owned(), [other, other].concat()] {
            let report = verified(&written, &holds);
            assert!(!report.equal && report.differing[0].what == "differs", "{report:?}");
        }
    }
}
