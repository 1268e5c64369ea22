//! Which phases the consistency check can follow.

use super::phases::{ConsistencyCheck, KeyShare, Phase, PopularKeys, Streams};
use crate::op_kind::OpKind;

/// The most popular keys that can be followed one by one.
const MOST_KEYS: u64 = 1_000_000;

/// Why the consistency check of a phase is not possible, and what to do.
pub(super) fn unfit(phase: &Phase) -> Option<String> {
    let kinds = || phase.mix.iter().filter_map(|(label, entry)| entry.kind(label));
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
    let reads = kinds().any(|kind| matches!(kind, OpKind::Read | OpKind::CompareAndSwap));
    let writes = kinds().any(|kind| kind != OpKind::Insert && is_followed(kind));
    if !phase.mix.is_empty() && !(reads && writes) {
        return Some(
            "it compares single reads with single writes of the same documents; add `read` and one of `upsert`, \
             `replace`, `cas` and `delete` to the mix"
                .into(),
        );
    }
    None
}

/// Whether it is known what a write leaves. Inserted documents are new, so no other worker knows them.
pub(super) fn is_followed(kind: OpKind) -> bool {
    matches!(kind, OpKind::Insert | OpKind::Upsert | OpKind::Replace | OpKind::CompareAndSwap | OpKind::Delete)
}
