//! `fits-in-memory`: did reads come from memory?

use indexmap::IndexSet;
use storebench_study::op_kind::OpKind;

use crate::OpResult;
use crate::human::{bytes, digits, percent};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};
use crate::validity::memory::{documents_bytes, is_here, memory_bytes, scale_for};

pub(super) const CHECK: Check = Check::new("fits-in-memory", "the documents fit in memory", &[Looks::Phase(look)]);

/// The data-to-memory ratio below which the system's cache can hold all documents.
pub(super) const FITS: f64 = 1.0;
/// At most this share of the documents that were read came from the disk: then reads came mostly from memory, however
/// large the documents are.
pub(super) const FROM_DISK: f64 = 0.50;
/// The least that is read from a disk for a document, in bytes.
const PAGE_BYTES: f64 = 4_096.0;
/// Stores that always keep everything in memory.
const IN_MEMORY: [&str; 2] = ["memory", "null"];

/// Whether the documents that a phase reads fit into memory.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    if !scene.measures() || !is_here(scene.trial) || IN_MEMORY.contains(&scene.scheme()) {
        return None;
    }
    let memory = memory_bytes(scene.result)?;
    let reads = scene.phase.ops.values().filter(|op| returns_contents(op));
    let read: IndexSet<&str> = reads.map(|op| op.collection.as_str()).collect();
    let documents: f64 = read.iter().filter_map(|name| documents_bytes(scene.result, scene.trial, name)).sum();
    if documents <= 0.0 {
        return None;
    }
    let from_disk = from_disk(scene).filter(|share| *share < FROM_DISK);
    let fits = documents < FITS * memory;
    let threshold = format!(
        "note below {} of the memory; caution above that when less than {} of the documents that were read came from the disk",
        percent(FITS),
        percent(FROM_DISK)
    );
    let observed = format!("documents of {} in a memory of {}", bytes(documents), bytes(memory));
    if let Some(share) = from_disk.filter(|_| !fits) {
        let share = percent(share);
        return Some(Finding::new(
            Severity::Caution,
            format!("{observed}, but at most {share} of the documents that were read came from the disk"),
            threshold,
            "few documents are read often, and those are in memory: use a flatter `popularity` to measure the disk, or state that a hot set is intended",
        ));
    }
    let severity = if fits { Severity::Note } else { Severity::Pass };
    let theirs = read.iter().all(|name| scene.trial.sampled.contains_key(*name));
    let advice = if theirs {
        "reads came from memory: read more of the collection to measure the disk, or state that it fits in memory"
            .to_owned()
    } else {
        let scale = digits(scale_for(scene.result, scene.trial, FITS * memory / documents));
        format!(
            "reads came from memory: measure the disk with --scale {scale} or more, or state that the documents fit in memory"
        )
    };
    Some(Finding::new(severity, observed, threshold, advice))
}

fn returns_contents(op: &OpResult) -> bool {
    op.op_kind().is_some_and(OpKind::returns_contents)
}

/// The largest share of the documents that were read which can have come from the disk: each that is read by its key
/// takes a page at least. `None` if others were read, or if it is not known what the store read from the disk.
fn from_disk(scene: &Scene<'_>) -> Option<f64> {
    let used = scene.phase.resources.as_ref()?.store.as_ref()?;
    // A process whose reads and writes cannot be seen has none at all.
    if used.read_calls + used.write_calls == 0 {
        return None;
    }
    let reads = || scene.phase.ops.values().filter(|op| returns_contents(op));
    // Neighbours may share a page.
    if reads().any(|op| op.kind != "read") {
        return None;
    }
    let read: f64 = reads().map(|op| op.documents as f64).sum();
    (read > 0.0).then(|| used.read_bytes as f64 / PAGE_BYTES / read)
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, NOTE, PASS, all, closed, load, separate};
    use crate::{ResourcesResult, RunResult, SampledResult, StoreUseResult};

    fn severity(result: &RunResult) -> Option<crate::validity::Severity> {
        crate::validity::testing::severity(result, "fits-in-memory")
    }

    /// The fixture has 20,000 documents of 1 KiB.
    fn with(memory_bytes: u64, change: impl FnOnce(&mut RunResult)) -> RunResult {
        let mut result = closed(|_| ());
        result.environment.memory_bytes = Some(memory_bytes);
        change(&mut result);
        result
    }

    #[test]
    fn documents_beside_memory() {
        assert_eq!(severity(&with(20_480_000, |_| ())), PASS);
        let fits = with(20_480_001, |_| ());
        assert_eq!(severity(&fits), NOTE);
        let found = all(&fits, "fits-in-memory");
        assert_eq!(found[0].observed, "documents of 19.5 MiB in a memory of 19.5 MiB");
        assert!(all(&with(204_800_000, |_| ()), "fits-in-memory")[0].advice.contains("--scale 10.0"));
        assert_eq!(severity(&with(30_000_000, |r| r.environment.memory_limit_bytes = Some(1 << 20))), PASS);
        assert_eq!(severity(&closed(|_| ())), None);
    }

    /// Twice the memory, but popular documents are read again and again.
    #[test]
    fn a_hot_set_in_memory_is_not_the_disk() {
        let reading = |bytes_of_each: u64| {
            with(10_240_000, |r| {
                let phase = &mut r.trials[0].phases[0];
                let read: u64 = phase.ops["read"].documents;
                let store =
                    StoreUseResult { read_bytes: read * bytes_of_each, read_calls: read, ..StoreUseResult::default() };
                phase.resources = Some(ResourcesResult { store: Some(store), ..ResourcesResult::default() });
            })
        };
        assert_eq!(severity(&reading(2_048)), PASS);
        let hot = reading(400);
        assert_eq!(severity(&hot), CAUTION);
        assert!(
            all(&hot, "fits-in-memory")[0].observed.contains("at most 9.77 %"),
            "{:?}",
            all(&hot, "fits-in-memory")
        );
        let scanned = with(10_240_000, |r| {
            let phase = &mut r.trials[0].phases[0];
            phase.ops["read"].kind = "scan".into();
            let store = StoreUseResult { read_bytes: 4_096, read_calls: 1, ..StoreUseResult::default() };
            phase.resources = Some(ResourcesResult { store: Some(store), ..ResourcesResult::default() });
        });
        assert_eq!(severity(&scanned), PASS, "neighbours share pages");
        let unknown = with(10_240_000, |r| {
            r.trials[0].phases[0].resources =
                Some(ResourcesResult { store: Some(StoreUseResult::default()), ..ResourcesResult::default() });
        });
        assert_eq!(severity(&unknown), PASS);
    }

    #[test]
    fn the_documents_of_this_configuration_count() {
        let configuration =
            |count: u64| with(20_480_001, |r| r.trials[0].documents = [("books".to_owned(), count)].into());
        assert_eq!(severity(&configuration(20_001)), PASS);
        assert_eq!(severity(&configuration(100)), NOTE);
        let sampled = with(20_480_001, |r| {
            let sampled = SampledResult { keys: 10, mean_bytes: 1_024, ..SampledResult::default() };
            r.trials[0].sampled.insert("books".into(), sampled);
        });
        assert!(!all(&sampled, "fits-in-memory")[0].advice.contains("--scale"));
    }

    #[test]
    fn where_it_has_no_meaning() {
        let memory = |mut result: RunResult| {
            result.environment.memory_bytes = Some(1 << 40);
            severity(&result)
        };
        assert_eq!(memory(separate(closed(|_| ()))), None);
        assert_eq!(memory(load(|_| ())), None);
        assert_eq!(memory(closed(|p| drop(p.ops.shift_remove("read")))), None);
        assert_eq!(severity(&with(1 << 40, |r| r.trials[0].url = "slow+memory:".into())), None);
        let loopback = with(1 << 40, |r| {
            (r.trials[0].embedded, r.trials[0].url) = (false, "redis://127.0.0.1/1".into());
        });
        assert_eq!(severity(&loopback), NOTE);
    }
}
