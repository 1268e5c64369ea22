//! Collections of documents that are already in the store. Storebench only reads them.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::check::Problems;
use super::study::Study;
use crate::op_kind::OpKind;
use crate::units::Count;
use crate::written::{wire, written_as};

/// The default number of sampled keys.
pub const DEFAULT_SAMPLE: Count = Count(100_000);
/// The most keys that can be sampled. They are held in memory.
const MOST_SAMPLED: u64 = 10_000_000;

/// Where the store keeps documents that Storebench did not make. Written as the name of their table, bucket, database,
/// collection or key prefix, or as a table: `{ name = "orders", key = "id", body = "doc" }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct ExistingDocuments {
    /// What the store calls them.
    pub name: String,
    /// The field or column that holds the key, for stores where that is not fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The field or column that holds the document, for stores where that is not fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

wire! { pub(super) ExistingWire: Name(String), Table(ExistingDocuments) }

impl ExistingDocuments {
    /// The documents of this name, with key and body where the store expects them.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), key: None, body: None }
    }
}

written_as!(
    ExistingDocuments,
    "what the store calls the documents (\"orders\") or { name = \"orders\", key = \"id\", body = \"doc\" }",
    text = |name| Ok::<_, String>(ExistingDocuments::named(name)),
    fields = ExistingDocuments::deserialize,
);

impl Serialize for ExistingDocuments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.key.is_none() && self.body.is_none() {
            return serializer.serialize_str(&self.name);
        }
        Self::serialize(self, serializer)
    }
}

impl Study {
    /// Whether it reads documents that Storebench did not make, and so writes nothing.
    pub fn reads_only(&self) -> bool {
        self.collections.values().any(|c| c.existing.is_some())
    }
}

/// Finds the problems of a study that only reads.
pub(super) fn check(study: &Study, problems: &mut Problems<'_>) {
    for (name, c) in &study.collections {
        let mut at = problems.within(&["collections", name]);
        let Some(existing) = &c.existing else {
            if c.sample.is_some() {
                at.say(&["sample"], "`sample` needs `existing`");
            }
            if study.reads_only() {
                at.say(
                    &[],
                    "the study has collections with `existing` and so writes nothing; use another study for documents \
                     that Storebench makes",
                );
            }
            continue;
        };
        if existing.name.is_empty() {
            at.say(&["existing"], "give the name of the documents in the store: existing = \"…\"");
        }
        for key in c.given(&["count", "key", "size", "compress_to", "text_file", "fields", "per", "from"]) {
            let hint = match key {
                "key" => ", or name the field of the key with existing = { name = \"…\", key = \"…\" }",
                _ => "",
            };
            at.say(
                &[key],
                format!(
                    "`{key}` describes documents that Storebench makes, but with `existing` they exist; remove it{hint}"
                ),
            );
        }
        for key in c.given(&["index", "indexes"]) {
            at.say(
                &[key],
                "Storebench does not create indexes of existing documents; create it in the store, and remove it here",
            );
        }
        if c.sample.is_some_and(|n| n.0 == 0 || n.0 > MOST_SAMPLED) {
            at.say(&["sample"], format!("sample 1 to {MOST_SAMPLED} keys"));
        }
    }
    if !study.reads_only() {
        return;
    }
    let only = "the study reads documents that Storebench did not make (`existing`), so nothing is written";
    for (position, phase) in study.phases.iter().enumerate() {
        let mut at = problems.within(&["phases", &position.to_string()]);
        if !phase.load.is_empty() {
            at.say(&["load"], format!("the phase `{}` loads; {only}", phase.name));
        }
        if phase.consistency_check.is_done() {
            at.say(&["consistency_check"], format!("the phase `{}` judges reads against writes; {only}", phase.name));
        }
        if phase.ledger.is_kept() {
            at.say(&["ledger"], format!("the phase `{}` keeps a ledger of writes; {only}", phase.name));
        }
        for operation in phase.operations_of_mix() {
            let writes = |kind: &OpKind| kind.writes() && *kind != OpKind::Transaction;
            if let Some(kind) = operation.kind().filter(writes) {
                let label = operation.name;
                let on = operation.collection(study, phase).map(|c| format!(" in `{c}`")).unwrap_or_default();
                let does = if kind.name() == label { String::new() } else { format!(", which does {kind}") };
                operation
                    .place(&mut at)
                    .say(&[], format!("the phase `{}` has `{label}`{does}{on}; {only}", phase.name));
            }
        }
    }
}
