//! What the store declares.

use storebench_engine::store::{Capabilities, Durability, OpKind, ReadConsistency, RowsKind, Support};
use storebench_study::workload::Language;

use super::json::KEY;
use super::server::Welcome;
use super::store::Ready;

/// The capabilities, as far as it is known what was prepared, and on which server. `replicated` is the level that the
/// replicas of the URL give.
pub(super) fn of(
    ready: Option<&Ready>,
    welcome: Option<&Welcome>,
    refresh: &str,
    replicated: Option<Durability>,
) -> Capabilities {
    let durability = durability(ready.and_then(|ready| ready.theirs_async), replicated);
    let mut operations = operations(refresh);

    let mut why_not = Vec::new();
    let mut lacks = |kinds: &[OpKind], why| {
        operations.retain(|(kind, _)| !kinds.contains(kind));
        why_not.extend(kinds.iter().map(|kind| (*kind, why)));
    };
    if let Some(ready) = ready {
        if ready.collections.iter().any(|prepared| !prepared.keyed) {
            let why = "its indexes have no copies of keys to sort by: only a study that reads in key order makes them";
            lacks(&[OpKind::Prefix, OpKind::Scan], why);
        }
        if ready.collections.iter().any(|prepared| !prepared.behind.by_key) {
            let why = "a key does not name one document: there are several indexes, or routing is required";
            lacks(&[OpKind::Read, OpKind::Exists, OpKind::BulkRead], why);
        }
    }
    Capabilities {
        operations,
        why_not,
        shipped_durability: durability[0].0,
        durability,
        consistency: vec![
            (ReadConsistency::StaleOk, "reads by key as strong; a search sees what the last refresh has published"),
            (ReadConsistency::Session, "same as strong"),
            (
                ReadConsistency::Strong,
                "reads by key see each write; an index is refreshed before a search, unless writes wait for a refresh",
            ),
        ],
        indexes: true,
        language: Some(Language::Opensearch),
        gives_up_at_timeout: true,
        own_members: &[KEY],
        reserved_members: &[KEY, "_id", "_index", "_source", "_routing", "_ignored", "_seq_no", "_version"],
        unique_names: true,
        rows: if welcome.is_none_or(Welcome::has_points_in_time) { &[RowsKind::Walk] } else { &[] },
        notes: vec![
            "A search sees only what a refresh has published, once a second by default. This is apart from durability.",
            "Documents of an index that is read in key order have the member `storebench_key`, which the driver adds \
             and removes. Indexes that copies write into do not have it.",
            "Fields that a study indexes are mapped as keywords, others only if it says how; the rest is only stored. A \
             document whose indexed field is an object is refused, and so is one with an empty name at its top. Numbers \
             are found as they are written: 7 does not find 7.0.",
            "Bytes are stored as base64 in a JSON document, which makes them a third larger. Counters are stored as a \
             number in a JSON document.",
            "Routing of documents is not copied. A copy out reads shard by shard, so one worker reads an index of \
             one shard.",
            "Tested only against OpenSearch 2.19. For other versions and for Elasticsearch, the driver follows their \
             documentation.",
        ],
        ..Capabilities::default()
    }
}

/// `theirs_async` says whether the log of an index of others is `async`, which stays as it is.
fn durability(theirs_async: Option<bool>, replicated: Option<Durability>) -> Vec<(Durability, &'static str)> {
    const SYNCED: &str = "index.translog.durability=request: synced to disk by each copy before the answer";
    const LATER: &str =
        "index.translog.durability=async, for all sessions of the index: synced every 5 s, lost in a crash before";
    const COUNTED: &str =
        "wait_for_active_shards, and each answer names as many copies, which have all synced it to disk";
    let mut levels = vec![(Durability::FSYNC, SYNCED), (Durability::MEMORY, LATER)];
    match theirs_async {
        Some(true) => drop(levels.remove(0)),
        Some(false) => levels.truncate(1),
        None => levels.extend(replicated.map(|level| (level, COUNTED))),
    }
    levels
}

fn operations(refresh: &str) -> Vec<(OpKind, Support)> {
    let loops =
        "reads the document, changes it and writes it with its _seq_no; starts over if another write came first";
    let searches = "with consistency strong, refreshes the index before the search, which sees only what is published";
    let supports = |kind| match kind {
        OpKind::Touch | OpKind::Transaction | OpKind::View => None,
        OpKind::Replace | OpKind::Append | OpKind::Prepend | OpKind::Counter | OpKind::MergePatch => {
            Some(Support::Approximated(loops))
        }
        OpKind::Page | OpKind::Prefix | OpKind::Scan | OpKind::Query if refresh == "false" => {
            Some(Support::Approximated(searches))
        }
        _ => Some(Support::Native),
    };
    OpKind::ALL.into_iter().filter_map(|kind| supports(kind).map(|support| (kind, support))).collect()
}
