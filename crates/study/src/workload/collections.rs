//! Collections: what documents there are, how they are keyed, sized and related.

use std::path::PathBuf;

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::existing::ExistingDocuments;
use super::fields::Field;
use super::queries::QueryTexts;
use crate::units::{ByteSize, Count, Range, UnitError};
use crate::written::{is_default, names, wire, written_as};

/// One collection of documents (a table, bucket collection, partition or key prefix of the store).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Collection {
    /// How many documents. Omit it with `per`, where the relation decides. With `from`, only that many documents from
    /// the start of the file; default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<Count>,
    /// Template of the key; default `{collection}/{index}`. May use `{index}`, `{seq}` (position among siblings),
    /// `{parent}` (index of the parent), `{parent.key}`, and any field of the document; `{index:08}` pads with zeros.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What a document is: JSON (default), opaque bytes (for append and prepend), or a counter.
    #[serde(default, skip_serializing_if = "is_default")]
    pub body: Body,
    /// Size of a complete document in bytes, as sent. Without it, the fields determine the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Share of the bytes (0 to 1) that remains after compression with zstd level 3 over 32 KiB pages of these
    /// documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compress_to: Option<f64>,
    /// A text file whose lines fill the text fields, instead of seeded sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_file: Option<PathBuf>,
    /// The fields, in the order they are written.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub fields: IndexMap<String, Field>,
    /// Documents of this collection belong to documents of another: `per = { users = 3 }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<Per>,
    /// Secondary indexes to create, each a list of fields: `index = [["user"]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub index: Vec<Vec<String>>,
    /// Indexes in the stores' own words, by name. Each has a text in the language of each store. They are built after
    /// the load, and the result has the time and the size of each.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub indexes: IndexMap<String, QueryTexts>,
    /// Your own documents: a JSONL file, plain, `.gz` or `.zst`. Excludes `fields`, `size`,
    /// `compress_to` and `per`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
    /// Recorded traffic: the documents have its keys, all that exist before its first operation, and the sizes that it
    /// first has for them. See the phase's `trace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// Documents that are already in the store. Such a study only reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<super::existing::ExistingWire>"))]
    pub existing: Option<ExistingDocuments>,
    /// `existing`: how many keys are sampled from the store; default 100,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Count>,
    /// What to do with a line of `from` that is not a JSON object: stop the run (default), or skip and count the line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bad_lines: BadLines,
    /// With `from`: top-level members that are left out of each document, such as `["_id"]`. The key may still use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

impl Collection {
    /// Which of these keys it gives: those of documents that Storebench makes, `key`, `from`, and those of indexes.
    pub fn given<'k>(&self, keys: &[&'k str]) -> impl Iterator<Item = &'k str> {
        keys.iter().copied().filter(|key| match *key {
            "count" => self.count.is_some(),
            "key" => self.key.is_some(),
            "size" => self.size.is_some(),
            "compress_to" => self.compress_to.is_some(),
            "text_file" => self.text_file.is_some(),
            "fields" => !self.fields.is_empty(),
            "per" => self.per.is_some(),
            "from" => self.from.is_some(),
            "index" => !self.index.is_empty(),
            "indexes" => !self.indexes.is_empty(),
            _ => false,
        })
    }
}

/// What a document of a collection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    /// A JSON object.
    #[default]
    Json,
    /// Bytes without structure; append and prepend work only on these.
    Bytes,
    /// An integer that the store adds to.
    Counter,
}

names! { Body: Json "json", Bytes "bytes", Counter "counter" }

/// What to do with a line of the user's file that is not a JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BadLines {
    /// Reject the file and name the line.
    #[default]
    Stop,
    /// Skip the line and count it.
    Skip,
}

/// Size of a document in bytes.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "SizeWire"))]
pub enum Size {
    /// Uniform within the range; a single value is a range of one.
    Uniform(Range<ByteSize>),
    /// Log-normal with this median and sigma (of the natural logarithm), clamped to `min` and `max`.
    Lognormal {
        /// The median.
        median: ByteSize,
        /// Standard deviation of the natural logarithm of the size.
        sigma: f64,
        /// Smallest size; default 64 B.
        min: ByteSize,
        /// Largest size; default 16 MiB.
        max: ByteSize,
    },
    /// Sizes drawn from the lines of a sample file (by quantiles, at most 1,024 of them).
    Like(PathBuf),
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct SizeTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    lognormal: Option<LognormalTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    like: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct LognormalTable {
    median: ByteSize,
    sigma: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<ByteSize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<ByteSize>,
}

wire! {
    /// Only for the schema: what may be written for a size.
    SizeWire:
    Range(Range<ByteSize>),
    Table(SizeTable),
}

impl Size {
    fn exactly(bytes: ByteSize) -> Self {
        Self::Uniform(Range::exactly(bytes))
    }

    fn of_table(table: SizeTable) -> Result<Self, String> {
        match (table.lognormal, table.like) {
            (Some(l), None) => {
                if !(l.sigma.is_finite() && l.sigma >= 0.0 && l.sigma <= 5.0) {
                    return Err(format!("sigma is {}; use 0 to 5", l.sigma));
                }
                let (min, max) = (l.min.unwrap_or(ByteSize(64)), l.max.unwrap_or(ByteSize(16 << 20)));
                if !(min <= l.median && l.median <= max) {
                    return Err(format!(
                        "the median {} is outside {min} to {max}; set `min` and `max` around it",
                        l.median
                    ));
                }
                Ok(Self::Lognormal { median: l.median, sigma: l.sigma, min, max })
            }
            (None, Some(path)) => Ok(Self::Like(path)),
            _ => Err("a size table must have exactly one of `lognormal` and `like`".into()),
        }
    }
}

written_as!(
    Size,
    "a size (\"2KiB\"), a range ([\"1KiB\", \"4KiB\"]), { lognormal = … } or { like = \"file\" }",
    text = |text| text.parse().map(Size::exactly).map_err(|e: UnitError| e),
    whole = |n| Ok::<_, String>(Size::exactly(ByteSize(n))),
    list = |range| Ok::<_, String>(Size::Uniform(range)),
    table = Size::of_table,
);

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (lognormal, like) = match self {
            Size::Uniform(range) => return range.serialize(serializer),
            Size::Lognormal { median, sigma, min, max } => {
                (Some(LognormalTable { median: *median, sigma: *sigma, min: Some(*min), max: Some(*max) }), None)
            }
            Size::Like(path) => (None, Some(path.clone())),
        };
        SizeTable { lognormal, like }.serialize(serializer)
    }
}

/// How many children each document of a parent collection has.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "IndexMap<String, FanOutWire>"))]
pub struct Per {
    /// Name of the parent collection.
    pub parent: String,
    /// Children of one parent.
    pub fan_out: FanOut,
}

/// How many children one parent has.
#[derive(Debug, Clone, PartialEq)]
pub enum FanOut {
    /// Uniform within the range; a single value is a range of one.
    Uniform(Range<u64>),
    /// A histogram: parents that fall in no bin have no children.
    Bins {
        /// The bins, as published.
        bins: Vec<Bin>,
        /// Total number of children. The density within the bins is fitted to it; without it, the density is uniform.
        total: Option<u64>,
    },
}

/// `parents` parents with `least` to `below` children. Written `[n, parents]` (exactly n children)
/// or `[least, below, parents]` (from least up to but not including below).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// The least number of children.
    pub least: u64,
    /// One more than the greatest number of children.
    pub below: u64,
    /// How many parents are in the bin.
    pub parents: u64,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct BinsTable {
    bins: Vec<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Count>,
}

wire! { FanOutWire: Range(Range<u64>), Table(BinsTable) }

impl FanOut {
    fn of_table(table: BinsTable) -> Result<Self, String> {
        let bin = |row: Vec<u64>| match row[..] {
            [n, parents] => Ok(Bin { least: n, below: n.saturating_add(1), parents }),
            [least, below, parents] if least < below => Ok(Bin { least, below, parents }),
            _ => Err(format!("the bin {row:?} is neither [children, parents] nor [least, below, parents]")),
        };
        let bins = table.bins.into_iter().map(bin).collect::<Result<_, _>>()?;
        Ok(Self::Bins { bins, total: table.total.map(|t| t.0) })
    }
}

written_as!(
    FanOut,
    "a number of children, a range [least, greatest] or { bins = […], total = … }",
    whole = |n| Ok::<_, String>(FanOut::Uniform(Range::exactly(n))),
    list = |range| Ok::<_, String>(FanOut::Uniform(range)),
    table = FanOut::of_table,
);

impl Serialize for FanOut {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FanOut::Uniform(range) => range.serialize(serializer),
            FanOut::Bins { bins, total } => BinsTable {
                bins: bins.iter().map(|b| vec![b.least, b.below, b.parents]).collect(),
                total: total.map(Count),
            }
            .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Per {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = IndexMap::<String, FanOut>::deserialize(deserializer)?;
        let mut entries = map.into_iter();
        match (entries.next(), entries.next()) {
            (Some((parent, fan_out)), None) => Ok(Self { parent, fan_out }),
            _ => Err(de::Error::custom("`per` must name exactly one parent collection, such as per = { users = 3 }")),
        }
    }
}

impl Serialize for Per {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        IndexMap::from([(&self.parent, &self.fan_out)]).serialize(serializer)
    }
}
