//! Were the documents and keys worth asking for?

use super::judge::{Finding, Scene};
use super::model::Level;
use crate::human::{count, percent};
use crate::results::RunResult;

/// Documents that zstd over pages leaves less of than this are unlike real ones.
const COMPRESSED: f64 = 0.25;
/// How far below the pages' ratio a long window may come before text that repeats is behind it.
const REPEATS: f64 = 0.10;
/// Fewer keys than this stay in any cache.
const FEW_KEYS: f64 = 1_000.0;
/// Distinct keys over operations.
const FEW_FOR_OPERATIONS: f64 = 0.01;

/// Whether a store that compresses, or a disk that does, gains more than it would on real documents.
pub(super) fn compressible_payload(result: &RunResult) -> Vec<Finding> {
    let threshold = format!(
        "caution below {}, or where a long window finds {} of the bytes again",
        percent(COMPRESSED),
        percent(REPEATS)
    );
    result
        .documents
        .iter()
        .filter_map(|c| {
            let found = c.compression.as_ref()?;
            let mut saw = format!(
                "{}: zstd over 32 KiB pages leaves {}, snappy by document {}",
                c.collection,
                percent(found.page_zstd3),
                percent(found.doc_snappy)
            );
            if let Some(long) = found.long_zstd {
                saw += &format!(", zstd with a long window {}", percent(long));
            }
            let small = found.page_zstd3 < COMPRESSED;
            let repeats = found.long_zstd.is_some_and(|long| long < found.page_zstd3 - REPEATS);
            Some(match (c.own, small || repeats) {
                (true, _) => Finding::new(
                    Level::Note,
                    format!("{saw}; they are your own"),
                    threshold.clone(),
                    "your documents are what they are: compare only with runs on the same file",
                ),
                (false, true) if !small => Finding::new(
                    Level::Caution,
                    saw,
                    threshold.clone(),
                    "the text repeats from document to document, which stores that compress large blocks gain from: set `compress_to` (0.4 is common for JSON), whose text never repeats, or use `from` with your own documents",
                ),
                (false, true) => Finding::new(
                    Level::Caution,
                    saw,
                    threshold.clone(),
                    "stores that compress look better than they are: set `compress_to` (0.4 is common for JSON), or use `from` with your own documents",
                ),
                (false, false) => Finding::new(Level::Pass, saw, threshold.clone(), ""),
            })
        })
        .collect()
}

/// Whether the same few keys were asked for again and again. Short phases touch few keys whatever is
/// drawn, so half the operations is the bound there.
pub(super) fn few_distinct_keys(scene: &Scene<'_>) -> Option<Finding> {
    let operations = scene.operations();
    if !scene.measures() || operations == 0.0 {
        return None;
    }
    let keys = scene.phase.documents.distinct_keys as f64;
    let least = FEW_KEYS.min(operations / 2.0).max(FEW_FOR_OPERATIONS * operations);
    let level = if keys < least { Level::Caution } else { Level::Pass };
    Some(Finding::new(
        level,
        format!("{} distinct keys in {} operations", count(keys as u64), count(operations as u64)),
        format!(
            "caution below {} keys (half of the operations, if that is less) or {} of the operations",
            count(FEW_KEYS as u64),
            percent(FEW_FOR_OPERATIONS)
        ),
        "a cache answers most of this: use more documents or a flatter `popularity`, or say that a hot set was meant",
    ))
}
