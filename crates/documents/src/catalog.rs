//! All collections of a study, and one of them: what the rest of the program sees.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::calibrate;
use super::check;
use super::compile;
use super::error::{DocumentError, Mismatch};
use super::escape;
use super::plan::{self, Part, Plan, Scope};
use super::sampled::Sampled;
use storebench_study::workload::{Body, Collection};

/// What a catalog is compiled under.
#[derive(Debug, Clone, Copy)]
pub struct CatalogOptions<'a> {
    /// Seed of the study: equal seeds make equal bytes.
    pub seed: u64,
    /// Multiplies how many documents there are, never their shape. 1.0 as written.
    pub scale: f64,
    /// Where relative paths in the study begin.
    pub base_dir: &'a Path,
    /// An existing directory for the index files of `from`. They are needed while the catalog lives.
    pub scratch_dir: &'a Path,
    /// What an earlier run found by search, to make identical bytes without searching again.
    pub frozen: Option<&'a Frozen>,
}

/// What was found by search or read from files while compiling, by collection. A run keeps it in
/// its manifest; another run given it makes the same bytes, or refuses when a file has changed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Frozen {
    /// One entry for each collection, in the order of the study.
    pub collections: IndexMap<String, FrozenCollection>,
}

/// What was found for one collection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FrozenCollection {
    /// Documents, after scale, relation and file.
    pub count: u64,
    /// The calibration, with `compress_to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Quantiles of the sizes, with `size = { like = … }`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<u64>,
    /// The text read from `text_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<FileFacts>,
    /// The documents read from `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<FileFacts>,
}

/// How a file is known again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FileFacts {
    /// Bytes that were used (unpacked, without line ends).
    pub bytes: u64,
    /// Lines left out as bad.
    #[serde(default)]
    pub skipped: u64,
    /// xxh3 of what was used, in hexadecimal: the text of `text_file`, the lines of `from`. Not known of `from` in runs of
    /// early versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub xxh3: String,
}

/// How text was made to compress to the wanted ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The wanted ratio, compressed / raw, of zstd level 3 over 32 KiB pages.
    pub target: f64,
    /// The least and the greatest ratio that these fields can reach.
    pub reachable: (f64, f64),
    /// Share of random characters in the text (0 to 1).
    pub share: f64,
    /// What random characters are taken from: `ascii-93` (printable ASCII without `"` and `\`) or
    /// `utf8-pairs` (those and two-byte characters).
    pub characters: String,
}

/// What compressors make of a sample of a collection, also as results tell it. Ratios are compressed / raw.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Compression {
    /// Documents in the sample.
    pub sample_documents: u64,
    /// Bytes of the sample.
    pub sample_bytes: u64,
    /// Snappy (raw format), each document by itself.
    pub doc_snappy: f64,
    /// zstd level 3, each 32 KiB page of concatenated documents by itself.
    pub page_zstd3: f64,
    /// zstd level 3 with a window of 128 MiB or more and long-distance matching, over a longer sample; null when none was
    /// asked for.
    pub long_zstd: Option<f64>,
}

/// All collections of a study, compiled. Send and Sync, and cheap to share.
#[derive(Debug, Clone)]
pub struct Catalog {
    documents: Vec<Documents>,
    frozen: Frozen,
}

impl Catalog {
    /// Compiles collections: reads text files and the user's documents once, solves relations,
    /// calibrates compressibility.
    ///
    /// # Errors
    /// Whatever would make documents other than described, with its place in the study.
    pub fn compile(
        collections: &IndexMap<String, Collection>,
        options: &CatalogOptions<'_>,
    ) -> Result<Self, DocumentError> {
        let (plans, frozen) = compile::compile(collections, options)?;
        let plans: Arc<[Plan]> = plans.into();
        let documents = frozen
            .collections
            .values()
            .enumerate()
            .map(|(position, found)| Documents {
                plans: Arc::clone(&plans),
                position,
                calibration: found.calibration.clone(),
                sampled: None,
            })
            .collect();
        Ok(Self { documents, frozen })
    }

    /// Position of a collection, which is its order in the study.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.documents.iter().position(|d| d.name() == name)
    }

    /// The collection at a position given by [`Self::find`].
    ///
    /// # Panics
    /// When there are not so many collections.
    pub fn get(&self, position: usize) -> &Documents {
        &self.documents[position]
    }

    /// The collections in the order of the study.
    pub fn iter(&self) -> impl Iterator<Item = &Documents> {
        self.documents.iter()
    }

    /// The same catalog, but that a collection of documents that are in a store already has these keys.
    ///
    /// # Panics
    /// When there are not so many collections.
    pub fn with_sampled(&self, position: usize, sampled: Sampled) -> Self {
        let mut catalog = self.clone();
        catalog.documents[position].sampled = Some(Arc::new(sampled));
        catalog
    }

    /// What was found by search, for another run to make identical bytes without searching.
    pub fn frozen(&self) -> Frozen {
        self.frozen.clone()
    }
}

/// One collection: documents as a pure function of seed, index and version. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Documents {
    plans: Arc<[Plan]>,
    position: usize,
    calibration: Option<Calibration>,
    sampled: Option<Arc<Sampled>>,
}

impl Documents {
    fn plan(&self) -> &Plan {
        &self.plans[self.position]
    }

    fn scope(&self, index: u64, version: u64, related: bool) -> Scope<'_> {
        Scope::new(&self.plans, self.position, index, version, related)
    }

    /// The collection's name.
    pub fn name(&self) -> &str {
        &self.plan().name
    }

    /// How many documents there are, after scale, relation and file.
    pub fn count(&self) -> u64 {
        self.sampled.as_ref().map_or(self.plan().count, |sampled| sampled.count())
    }

    /// Whether the documents are somebody else's, in a store already: only their keys are known, and those
    /// once they were sampled.
    pub fn is_existing(&self) -> bool {
        self.plan().existing
    }

    /// What a document is.
    pub fn body(&self) -> Body {
        self.plan().body
    }

    /// Appends the key, in UTF-8. Indexes from the count on are keys of documents inserted later,
    /// where [`Self::can_grow`]; elsewhere they have no meaning.
    pub fn write_key(&self, index: u64, out: &mut Vec<u8>) {
        if let Some(sampled) = &self.sampled {
            return out.extend_from_slice(sampled.key(index).as_bytes());
        }
        plan::write_key(&self.plans, self.position, index, out);
    }

    /// The most bytes a key takes, for stores that limit them. With room for ten times as many
    /// documents as are loaded.
    pub fn longest_key_bytes(&self) -> u64 {
        self.plan().key_bound
    }

    /// Appends the document; version 0 is the document as loaded. Allocates only to grow `out`.
    /// With `from`, appends nothing when the file can no longer be read, with `existing` never anything.
    pub fn write_document(&self, index: u64, version: u64, out: &mut Vec<u8>) {
        self.scope(index, version, self.plan().related).write_document(out);
    }

    /// Whether documents beyond the count can be made: not with `from`, `per` or `existing`.
    pub fn can_grow(&self) -> bool {
        self.plan().own.is_none() && !self.plan().existing && self.plan().relation.is_none()
    }

    /// With `per`: the parent's index and the place among its children, from 0.
    pub fn parent_of(&self, index: u64) -> Option<(u64, u64)> {
        self.plan().relation.as_ref().filter(|r| index < r.children).map(|r| r.parent_of(index))
    }

    /// With `per`: the children of a parent, in the order of their seq. Empty without.
    pub fn children_of(&self, parent: u64) -> std::ops::Range<u64> {
        self.plan().relation.as_ref().map_or(0..0, |r| r.children_of(parent))
    }

    /// With `per`: position of the parent collection.
    pub fn parent_position(&self) -> Option<usize> {
        self.plan().relation.as_ref().map(|r| r.parent_collection)
    }

    /// With `per`: how many parents have documents here. 0 without.
    pub fn parents(&self) -> u64 {
        self.plan().relation.as_ref().map_or(0, |r| r.parents)
    }

    /// With `per`: the first document of one of the [`parents`](Self::parents) that have any. Every number
    /// below stands for another parent, in a seeded order that has nothing to do with how many documents
    /// a parent has.
    #[inline]
    pub fn first_child(&self, number: u64) -> u64 {
        self.plan().relation.as_ref().map_or(0, |r| r.first_child(number))
    }

    /// The value of a field that is the same in every version; nested fields by their path (`a.b`).
    /// None for fields that do not exist, that change with the version, and for whole objects.
    pub fn index_value(&self, index: u64, field: &str) -> Option<Value> {
        let plan = self.plan();
        if let Some(sampled) = &self.sampled {
            return sampled.value(index, field);
        }
        if let Some(own) = &plan.own {
            return own.value(index, field);
        }
        let slot = plan.slots.iter().position(|s| s.path == field && !s.versioned)?;
        self.scope(index, 0, plan.related).slot_value(slot)
    }

    /// Whether [`index_value`](Self::index_value) knows this field. Documents that nobody here makes may
    /// have any.
    pub fn knows_value(&self, field: &str) -> bool {
        let plan = self.plan();
        self.sampled.is_some() || plan.own.is_some() || plan.slots.iter().any(|s| s.path == field && !s.versioned)
    }

    /// The names the key template holds, in order: `index`, `parent.key`, `book`.
    pub fn key_names(&self) -> impl Iterator<Item = &str> {
        self.plan().key.iter().filter_map(|part| compile::part_name(self.plan(), part))
    }

    /// Appends the key up to, not including, the placeholder `upto` (without braces and width); up
    /// to the last placeholder when that is absent or the key holds no such placeholder. A sampled key is
    /// cut after the last place where `upto` itself stands in it, or else after its last sign that is no
    /// letter and no digit.
    pub fn write_key_prefix(&self, index: u64, upto: Option<&str>, out: &mut Vec<u8>) {
        if let Some(sampled) = &self.sampled {
            return out.extend_from_slice(sampled.key_prefix(index, upto).as_bytes());
        }
        let plan = self.plan();
        let named = |wanted: &str| plan.key.iter().position(|p| compile::part_name(plan, p) == Some(wanted));
        let last = || plan.key.iter().rposition(|p| !matches!(p, Part::Literal(_)));
        let end = upto.and_then(named).or_else(last).unwrap_or(plan.key.len());
        let begin = out.len();
        self.scope(index, 0, plan.key_related).write_parts(&plan.key[..end], out);
        escape::unescape_tail(begin, out);
    }

    /// The index and version that a document carries; None for a document without marker: one not
    /// made here, a counter, or version 0 of the user's own.
    pub fn read_marker(&self, body: &[u8]) -> Option<(u64, u64)> {
        if self.is_existing() {
            return None;
        }
        match self.body() {
            Body::Json => check::json_marker(body),
            Body::Bytes => check::bytes_marker(body).map(|(marker, _)| marker),
            Body::Counter => None,
        }
    }

    /// Whether `body` is exactly some version of document `index`; gives that version. JSON is
    /// compared as values: order of fields does not count, nor do fields a store adds (names that
    /// begin with `_`, `@` or `$`). Any integer is a counter of version 0. `scratch` is overwritten.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, index: u64, body: &[u8], scratch: &mut Vec<u8>) -> Result<u64, Mismatch> {
        check::check(self, index, body, scratch)
    }

    pub(crate) fn is_own(&self) -> bool {
        self.plan().own.is_some()
    }

    /// Mean size of a document in bytes, over at most 256 documents and 32 MiB spread evenly.
    pub fn mean_bytes(&self) -> u64 {
        if let Some(sampled) = &self.sampled {
            return sampled.mean_bytes();
        }
        let count = self.count();
        let samples = count.min(256);
        let mut out = Vec::new();
        let (mut taken, mut bytes) = (0u64, 0u64);
        for i in 0..samples {
            // Golden-ratio steps: evenly spread however soon the sample ends.
            let at = ((u128::from(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * u128::from(count)) >> 64) as u64;
            out.clear();
            self.write_document(at, 0, &mut out);
            taken += 1;
            bytes += out.len() as u64;
            if bytes > 32 << 20 {
                break;
            }
        }
        bytes.checked_div(taken).unwrap_or(0)
    }

    /// How compressibility was calibrated, with `compress_to`.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_ref()
    }

    /// Compresses a sample of about `sample_bytes` spread over the collection, and `long_bytes` of
    /// consecutive documents with a long window (not when 0). Takes seconds a GiB and holds
    /// `sample_bytes`, and about 200 MiB for the long window, in memory.
    pub fn measure_compression(&self, sample_bytes: u64, long_bytes: u64) -> Compression {
        calibrate::measure(&self.plans, self.position, sample_bytes, long_bytes)
    }

    /// Lines of `from` that were left out as bad, with `bad_lines = "skip"`.
    pub fn skipped_lines(&self) -> u64 {
        self.plan().own.as_ref().map_or(0, |own| own.skipped)
    }
}
