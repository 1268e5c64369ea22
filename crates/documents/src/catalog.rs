//! All collections of a study, and one of them: the interface for the rest of the program.

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
use super::generate::{self, Scope};
use super::plan::{Maker, Part, Plan};
use super::sampled::{self, Sampled};
use super::trace::Trace;
use storebench_study::workload::{Body, Collection};

/// Options for compiling a catalog.
#[derive(Debug, Clone, Copy)]
pub struct CatalogOptions<'a> {
    /// Seed of the study. Equal seeds give equal bytes.
    pub seed: u64,
    /// Multiplies the number of documents, but does not change their shape. 1.0 is the study as written.
    pub scale: f64,
    /// The folder that relative paths in the study start from.
    pub base_dir: &'a Path,
    /// An existing directory for the index files of `from`. They must exist as long as the catalog.
    pub scratch_dir: &'a Path,
}

/// What compiling found by search or read from files, by collection. A run stores it, so that others can tell whether
/// they generate the same bytes.
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
    /// Number of documents, after scale, relation and file.
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
    /// The trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<FileFacts>,
}

/// Identifies a file, to detect that it has changed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FileFacts {
    /// Bytes used (uncompressed, without line ends).
    pub bytes: u64,
    /// Invalid lines that were skipped.
    pub skipped: u64,
    /// xxh3 of the bytes used, in hexadecimal: the text of `text_file`, or the lines of `from`.
    pub xxh3: String,
}

impl FileFacts {
    pub(crate) fn new(bytes: u64, skipped: u64, xxh3: u64) -> Self {
        Self { bytes, skipped, xxh3: format!("{xxh3:016x}") }
    }
}

/// How text was calibrated to compress to the target ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The target ratio, compressed / raw, of zstd level 3 over 32 KiB pages.
    pub target: f64,
    /// The lowest and the highest ratio that these fields can reach.
    pub reachable: (f64, f64),
    /// Share of random characters in the text (0 to 1).
    pub share: f64,
    /// The alphabet of the random characters: `ascii-93` (printable ASCII without `"` and `\`) or `utf8-pairs` (those
    /// and two-byte characters).
    pub characters: String,
}

/// How well a sample of a collection compresses, also as stored in results. Ratios are compressed / raw.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Compression {
    /// Documents in the sample.
    pub sample_documents: u64,
    /// Bytes of the sample.
    pub sample_bytes: u64,
    /// Snappy (raw format), each document separately.
    pub doc_snappy: f64,
    /// zstd level 3, each 32 KiB page of concatenated documents separately.
    pub page_zstd3: f64,
    /// zstd level 3 with a window of 128 MiB or more and long-distance matching, over a longer sample; null if not
    /// requested.
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
    /// Anything that would make documents differ from their description, with its place in the study.
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

    /// Position of a collection in the order of the study.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.documents.iter().position(|d| d.name() == name)
    }

    /// The collection at a position given by [`Self::find`].
    ///
    /// # Panics
    /// If there is no collection at this position.
    pub fn get(&self, position: usize) -> &Documents {
        &self.documents[position]
    }

    /// The collections in the order of the study.
    pub fn iter(&self) -> impl Iterator<Item = &Documents> {
        self.documents.iter()
    }

    /// Returns the same catalog with sampled keys for a collection whose documents are already in a store.
    ///
    /// # Panics
    /// If there is no collection at this position.
    pub fn with_sampled(&self, position: usize, sampled: Sampled) -> Self {
        let mut catalog = self.clone();
        catalog.documents[position].sampled = Some(Arc::new(sampled));
        catalog
    }

    /// What was found by search, so that another run can generate identical bytes without searching.
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

    /// The recorded traffic whose keys its documents have.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        self.plan().trace.as_ref()
    }

    /// How many documents there are, after scale, relation and file.
    pub fn count(&self) -> u64 {
        match &self.sampled {
            Some(sampled) if self.plan().trace.is_none() => sampled.count(),
            _ => self.plan().count,
        }
    }

    /// Whether the documents were already in a store and not made by Storebench. Only their keys are known, and only
    /// after sampling.
    pub fn is_existing(&self) -> bool {
        self.plan().existing
    }

    /// What kind of data a document is.
    pub fn body(&self) -> Body {
        self.plan().body
    }

    /// Appends the key in UTF-8. Without `from`, `per`, `existing` and `trace`, indexes from the count on are keys of
    /// documents inserted later; otherwise they have no meaning.
    pub fn write_key(&self, index: u64, out: &mut Vec<u8>) {
        if let (Some(sampled), None) = (&self.sampled, &self.plan().trace) {
            return out.extend_from_slice(sampled.key(index).as_bytes());
        }
        generate::write_key(&self.plans, self.position, index, out);
    }

    /// The maximum length of a key in bytes, for stores that limit it. Includes room for ten times as many documents as
    /// are loaded.
    pub fn longest_key_bytes(&self) -> u64 {
        self.plan().key_bound
    }

    /// Appends the document; version 0 is the document as loaded. Allocates only to grow `out`. Appends nothing with
    /// `existing`, or with `from` if the file can no longer be read.
    pub fn write_document(&self, index: u64, version: u64, out: &mut Vec<u8>) {
        self.scope(index, version, self.plan().related).write_document(out);
    }

    /// With `per`: the children of a parent, in the order of their seq. Otherwise empty.
    pub fn children_of(&self, parent: u64) -> std::ops::Range<u64> {
        self.plan().relation.as_ref().map_or(0..0, |r| r.children_of(parent))
    }

    /// With `per`: how many parents have documents here. Otherwise 0.
    pub fn parents(&self) -> u64 {
        self.plan().relation.as_ref().map_or(0, |r| r.parents)
    }

    /// With `per`: the first document of a parent that has any. Each number below [`parents`](Self::parents) stands for
    /// a different parent, in a seeded order that is independent of how many documents a parent has.
    #[inline]
    pub fn first_child(&self, number: u64) -> u64 {
        self.plan().relation.as_ref().map_or(0, |r| r.first_child(number))
    }

    /// The value of a field that is the same in every version. Nested fields are named by path (`a.b`). `None` for
    /// unknown fields, for fields that change with the version, and for objects.
    pub fn index_value(&self, index: u64, field: &str) -> Option<Value> {
        let plan = self.plan();
        if let Some(sampled) = &self.sampled {
            return sampled.value(index, field);
        }
        if let Some(own) = &plan.own {
            return own.value(index, field);
        }
        self.scope_of(index).slot_value(self.slot_of(field)?)
    }

    /// Whether a generated field may be a list or an object.
    pub(crate) fn is_composite(&self, field: &str) -> bool {
        fn is_composite(maker: &Maker) -> bool {
            match maker {
                Maker::List { .. } | Maker::Object(_) => true,
                Maker::Nullable(_, json) => is_composite(&json.of),
                Maker::Any(all) => all.iter().any(|(json, _)| is_composite(&json.of)),
                _ => false,
            }
        }
        self.plan().slots.iter().any(|slot| slot.path == field && is_composite(&slot.maker))
    }

    /// The slot of a generated field that is the same in every version.
    pub(crate) fn slot_of(&self, field: &str) -> Option<usize> {
        self.plan().slots.iter().position(|s| s.path == field && !s.versioned)
    }

    /// What document `index` is generated from, as it is loaded.
    #[inline]
    pub(crate) fn scope_of(&self, index: u64) -> Scope<'_> {
        self.scope(index, 0, self.plan().related)
    }

    /// Whether [`index_value`](Self::index_value) knows this field, for every document. Documents that Storebench does
    /// not generate may have any field.
    pub fn knows_value(&self, field: &str) -> bool {
        let plan = self.plan();
        let is_plain = |slot| self.scope_of(0).is_plain(slot);
        self.sampled.is_some() || plan.own.is_some() || self.slot_of(field).is_some_and(is_plain)
    }

    /// Appends the key up to, but not including, the placeholder `upto` (without braces and width). Without `upto`, or
    /// if the key has no such placeholder, stops before the last placeholder. A sampled key is cut after the last
    /// occurrence of the text `upto`; without `upto`, after the last character that is neither a letter nor a digit. A
    /// key without either is not cut.
    pub fn write_key_prefix(&self, index: u64, upto: Option<&str>, out: &mut Vec<u8>) {
        if let Some(key) = self.plan().recorded_key(index) {
            let key = std::str::from_utf8(key).unwrap_or_default();
            return out.extend_from_slice(sampled::prefix_of(key, upto).as_bytes());
        }
        if let Some(sampled) = &self.sampled {
            return out.extend_from_slice(sampled::prefix_of(sampled.key(index), upto).as_bytes());
        }
        let plan = self.plan();
        let named = |wanted: &str| plan.key.iter().position(|p| compile::part_name(plan, p) == Some(wanted));
        let last = || plan.key.iter().rposition(|p| !matches!(p, Part::Literal(_)));
        let end = upto.and_then(named).or_else(last).unwrap_or(plan.key.len());
        let begin = out.len();
        self.scope(index, 0, plan.key_related).write_parts(&plan.key[..end], out);
        escape::unescape_tail(begin, out);
    }

    /// The index and version in a document's marker. `None` for a document without a marker: one that Storebench did
    /// not generate, a counter, or version 0 of the user's own documents.
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

    /// Checks that `body` is exactly some version of document `index`, and returns that version. JSON is compared as
    /// values: the order of fields does not matter, and fields that a store adds (names that begin with `_`, `@` or
    /// `$`) are ignored. Any integer is a counter of version 0. `scratch` is overwritten.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, index: u64, body: &[u8], scratch: &mut Vec<u8>) -> Result<u64, Mismatch> {
        check::check(self, index, body, scratch)
    }

    /// The version of document `index` that `body` is, by its marker if it has one: only documents without a marker are
    /// compared as a whole. `scratch` is overwritten.
    ///
    /// # Errors
    /// It is no version of this document.
    pub fn version_of(&self, index: u64, body: &[u8], scratch: &mut Vec<u8>) -> Result<u64, Mismatch> {
        match self.read_marker(body) {
            Some((marked, version)) if marked == index => Ok(version),
            // It may be the user's own document as loaded, or anything else.
            _ => self.check(index, body, scratch),
        }
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
            // Golden-ratio steps are evenly spread wherever the sample ends.
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

    /// Compresses a sample of about `sample_bytes` spread over the collection, and `long_bytes` of consecutive
    /// documents with a long window (skipped if 0). Takes seconds per GiB. Holds `sample_bytes` in memory, and about
    /// 200 MiB for the long window.
    pub fn measure_compression(&self, sample_bytes: u64, long_bytes: u64) -> Compression {
        calibrate::measure(&self.plans, self.position, sample_bytes, long_bytes)
    }

    /// Lines of `from` that were skipped as invalid, with `bad_lines = "skip"`.
    pub fn skipped_lines(&self) -> u64 {
        self.plan().own.as_ref().map_or(0, |own| own.skipped)
    }
}
