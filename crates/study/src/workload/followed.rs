//! Which phases the consistency check can follow.

use super::check::{collection_of, does};
use super::phases::{ConsistencyCheck, KeyShare, Phase, PopularKeys, Streams};
use super::study::Study;
use crate::op_kind::OpKind;

/// The most popular keys that can be followed one by one.
const MOST_KEYS: u64 = 1_000_000;

/// What changes documents so that it is not known what a read must find.
const UNKNOWN: [OpKind; 5] = [OpKind::Append, OpKind::Prepend, OpKind::MergePatch, OpKind::Counter, OpKind::Touch];

/// Why the consistency check of a phase is not possible, and what to do.
pub(super) fn unfit(study: &Study, phase: &Phase) -> Option<String> {
    match phase.consistency_check {
        ConsistencyCheck::Of(false) => return None,
        ConsistencyCheck::Share(KeyShare { share }) if !(share > 0.0 && share <= 1.0) => {
            return Some("use a share above 0 and at most 1".into());
        }
        ConsistencyCheck::Popular(PopularKeys { keys }) if keys == 0 || keys > MOST_KEYS => {
            return Some(format!("use 1 to {MOST_KEYS} keys"));
        }
        _ => {}
    }
    if phase.streams == Streams::Disjoint {
        return Some(
            "with streams = \"disjoint\" each document belongs to one worker, so there is nothing to order; use \
             streams = \"independent\", or `ledger`, which follows one writer for each document"
                .into(),
        );
    }
    let of = |collection: &str, fits: fn(OpKind) -> bool| {
        phase.mix.iter().any(|(label, entry)| {
            entry.kind(label).is_some_and(fits) && collection_of(study, phase, label) == Some(collection)
        })
    };
    let reads = |kind| matches!(kind, OpKind::Read | OpKind::CompareAndSwap);
    let writes = |kind| kind != OpKind::Insert && is_followed(kind);
    let mut compared = study.collections.keys().filter(|name| of(name, reads) && of(name, writes)).peekable();
    if !phase.mix.is_empty() && compared.peek().is_none() {
        return Some(
            "it compares single reads with single writes of the same documents; add `read` and one of `upsert`, \
             `replace`, `cas` and `delete` to the mix, on one collection"
                .into(),
        );
    }
    let changed = compared.find(|name| does(study, &study.phases, &UNKNOWN, name))?;
    Some(format!(
        "a phase of this study appends, prepends, merges, counts or touches in `{changed}`: what a read must find there is \
         then not known, or it may expire; use another collection"
    ))
}

/// Whether it is known what a write leaves. Inserted documents are new, so no other worker knows them.
pub(super) fn is_followed(kind: OpKind) -> bool {
    matches!(kind, OpKind::Insert | OpKind::Upsert | OpKind::Replace | OpKind::CompareAndSwap | OpKind::Delete)
}
