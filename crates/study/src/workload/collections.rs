//! Collections: what documents there are, how they are keyed, sized and related.

use std::path::PathBuf;

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::existing::ExistingDocuments;
use super::popularity::Popularity;
use crate::units::{ByteSize, Count, Range, UnitError};
use crate::written::{is_default, names, written_as};

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
    /// Your own documents: a JSONL file, plain, `.gz` or `.zst`. Excludes `fields`, `size`,
    /// `compress_to` and `per`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
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

/// Only for the schema: what may be written for a size.
#[cfg(feature = "schema")]
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum SizeWire {
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

#[cfg(feature = "schema")]
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum FanOutWire {
    Range(Range<u64>),
    Table(BinsTable),
}

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

/// One field of a document.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "FieldWire"))]
pub enum Field {
    /// A template over built-in names and other fields: `"{user}-{seq}"`.
    Template(String),
    /// That many random words.
    Words(Range<u64>),
    /// That many sentences of random words.
    Sentences(Range<u64>),
    /// That many lines of the collection's `text_file`.
    Lines(Range<u64>),
    /// Text that fills the document up to its `size`; several such fields share the rest evenly.
    Fill,
    /// Text of this many bytes.
    Text(Range<ByteSize>),
    /// An integer, uniform within the range.
    Integer(Range<i64>),
    /// A decimal number, uniform within the range, with this many digits after the point.
    Decimal {
        /// The range.
        range: Range<f64>,
        /// Digits after the point (0 to 9).
        digits: u8,
    },
    /// A timestamp, RFC 3339 in UTC, uniform between the two (dates or date-times).
    Time {
        /// The earliest, in seconds since 1970.
        from_s: i64,
        /// The latest, in seconds since 1970.
        to_s: i64,
    },
    /// One of these texts, by weight.
    Choice(IndexMap<String, f64>),
    /// True with this probability.
    Bool(f64),
    /// A list of values of one kind.
    List {
        /// The values.
        of: Box<Field>,
        /// How many.
        length: Range<u64>,
    },
    /// An object with its own fields.
    Object(IndexMap<String, Field>),
    /// The key of a document of another collection.
    Ref {
        /// That collection.
        collection: String,
        /// Which of its documents are referred to more often.
        popularity: Popularity,
        /// Only documents that belong to this document's parent.
        same_parent: bool,
    },
    /// Random bytes, written as base64 text; the size is before encoding.
    Bytes(Range<ByteSize>),
    /// An identifier: `uuid` (random, version 4 layout) or `hex` (24 digits), unique per document.
    Id(IdKind),
}

/// The form of an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IdKind {
    /// 36 characters, RFC 9562 version 4 layout.
    Uuid,
    /// 24 hexadecimal digits.
    Hex,
}

/// What may be written for a field: a template, or a table with one kind and its options.
#[derive(Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
struct FieldTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<Range<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentences: Option<Range<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Range<u64>>,
    /// `"fill"` or a size.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextLength>,
    #[serde(skip_serializing_if = "Option::is_none")]
    integer: Option<Range<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decimal: Option<Range<f64>>,
    /// Only with `decimal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    digits: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<Choices>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bool: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<Box<Field>>,
    /// Only with `list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<Range<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<IndexMap<String, Field>>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "ref")]
    reference: Option<String>,
    /// Only with `ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    popularity: Option<Popularity>,
    /// Only with `ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_parent: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<Range<ByteSize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<IdKind>,
}

#[cfg(feature = "schema")]
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum FieldWire {
    Template(String),
    Table(Box<FieldTable>),
}

enum TextLength {
    Fill,
    Bytes(Range<ByteSize>),
}

written_as!(
    TextLength,
    "\"fill\", a size (\"200B\") or a range of sizes",
    text = |text| match text {
        "fill" => Ok(TextLength::Fill),
        size => size
            .parse()
            .map(|s| TextLength::Bytes(Range::exactly(s)))
            .map_err(|e: UnitError| format!("{e}; or \"fill\" for the rest of the document")),
    },
    whole = |n| Ok::<_, String>(TextLength::Bytes(Range::exactly(ByteSize(n)))),
    list = |range| Ok::<_, String>(TextLength::Bytes(range)),
);

impl Serialize for TextLength {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            TextLength::Fill => serializer.serialize_str("fill"),
            TextLength::Bytes(range) => range.serialize(serializer),
        }
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for TextLength {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TextLength".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let range = generator.subschema_for::<Range<ByteSize>>();
        schemars::json_schema!({ "anyOf": [{ "const": "fill" }, range] })
    }
}

/// `["a", "b"]` (equally likely) or `{ a = 3, b = 1 }` (weights).
struct Choices(IndexMap<String, f64>);

impl Choices {
    fn checked(self) -> Result<Self, String> {
        let fits = !self.0.is_empty() && self.0.values().all(|w| w.is_finite() && *w > 0.0);
        fits.then_some(self).ok_or("a choice needs at least one text, each with a weight above 0".into())
    }
}

written_as!(
    Choices,
    "a list of texts or a table of texts and weights",
    list = |texts: Vec<String>| {
        let mut all = IndexMap::new();
        texts.into_iter().for_each(|text| *all.entry(text).or_insert(0.0) += 1.0);
        Choices(all).checked()
    },
    table = |weights| Choices(weights).checked(),
);

impl Serialize for Choices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for Choices {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Choices".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "anyOf": [
            { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            { "type": "object", "additionalProperties": { "type": "number", "exclusiveMinimum": 0 } }
        ] })
    }
}

/// Reads `2006-01-01` or `2006-01-01T12:00:00Z` as seconds since 1970.
fn moment(text: &str) -> Result<i64, String> {
    let remedy = || format!("invalid date `{text}`; write it like \"2018-01-31\" or \"2018-01-31T12:00:00Z\"");
    if let Ok(date) = text.parse::<jiff::civil::Date>()
        && text.len() == 10
    {
        return date.to_zoned(jiff::tz::TimeZone::UTC).map(|z| z.timestamp().as_second()).map_err(|_| remedy());
    }
    text.parse::<jiff::Timestamp>().map(|t| t.as_second()).map_err(|_| remedy())
}

fn rfc3339(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map(|t| t.to_string()).unwrap_or_default()
}

impl FieldTable {
    fn into_field(self) -> Result<Field, String> {
        let mut kinds = Vec::new();
        let mut found = None;
        macro_rules! kind {
            ($name:literal, $value:expr) => {
                if let Some(field) = $value {
                    kinds.push($name);
                    found = Some(field);
                }
            };
        }
        let (has_decimal, has_list, has_ref) = (self.decimal.is_some(), self.list.is_some(), self.reference.is_some());
        kind!("words", self.words.map(Field::Words));
        kind!("sentences", self.sentences.map(Field::Sentences));
        kind!("lines", self.lines.map(Field::Lines));
        kind!(
            "text",
            self.text.map(|t| match t {
                TextLength::Fill => Field::Fill,
                TextLength::Bytes(range) => Field::Text(range),
            })
        );
        kind!("integer", self.integer.map(Field::Integer));
        kind!("decimal", self.decimal.map(|range| Field::Decimal { range, digits: self.digits.unwrap_or(2) }));
        if let Some((from, to)) = &self.time {
            let (from_s, to_s) = (moment(from)?, moment(to)?);
            if from_s > to_s {
                return Err(format!("the time range [{from}, {to}] runs backwards; write the earlier one first"));
            }
            kind!("time", Some(Field::Time { from_s, to_s }));
        }
        kind!("choice", self.choice.map(|c| Field::Choice(c.0)));
        kind!("bool", self.bool.map(Field::Bool));
        kind!("list", self.list.map(|of| Field::List { of, length: self.length.unwrap_or(Range { min: 0, max: 5 }) }));
        kind!("object", self.object.map(Field::Object));
        kind!(
            "ref",
            self.reference.map(|collection| Field::Ref {
                collection,
                popularity: self.popularity.unwrap_or_default(),
                same_parent: self.same_parent.unwrap_or(false),
            })
        );
        kind!("bytes", self.bytes.map(Field::Bytes));
        kind!("id", self.id.map(Field::Id));
        for (option, given, allowed, kind) in [
            ("digits", self.digits.is_some(), has_decimal, "decimal"),
            ("length", self.length.is_some(), has_list, "list"),
            ("popularity", self.popularity.is_some(), has_ref, "ref"),
            ("same_parent", self.same_parent.is_some(), has_ref, "ref"),
        ] {
            if given && !allowed {
                return Err(format!("`{option}` needs `{kind}`"));
            }
        }
        match (found, &kinds[..]) {
            (Some(field), [_]) => field.checked(),
            (_, []) => Err("a field needs a kind: words, sentences, lines, text, integer, decimal, time, choice, \
                            bool, list, object, ref, bytes or id"
                .into()),
            (_, several) => Err(format!("a field has one kind, not {}", several.join(" and "))),
        }
    }
}

impl Field {
    /// Rejects values that no document can hold.
    fn checked(self) -> Result<Self, String> {
        const EXACT: i64 = 1 << 53;
        match &self {
            Field::Integer(r) if r.min < -EXACT || r.max > EXACT => {
                Err("use integers within ±2^53, which every store and JSON parser keeps exactly".into())
            }
            Field::Decimal { digits, .. } if *digits > 9 => Err(format!("`digits` is {digits}; use 0 to 9")),
            Field::Decimal { range, .. } if !(range.min.abs() <= 1e12 && range.max.abs() <= 1e12) => {
                Err("use decimals within ±1e12".into())
            }
            Field::Bool(p) if !(0.0..=1.0).contains(p) => Err(format!("the probability {p} is not within 0 to 1")),
            _ => Ok(self),
        }
    }

    fn to_table(&self) -> FieldTable {
        let mut t = FieldTable::default();
        match self.clone() {
            Field::Template(_) => {}
            Field::Words(r) => t.words = Some(r),
            Field::Sentences(r) => t.sentences = Some(r),
            Field::Lines(r) => t.lines = Some(r),
            Field::Fill => t.text = Some(TextLength::Fill),
            Field::Text(r) => t.text = Some(TextLength::Bytes(r)),
            Field::Integer(r) => t.integer = Some(r),
            Field::Decimal { range, digits } => (t.decimal, t.digits) = (Some(range), Some(digits)),
            Field::Time { from_s, to_s } => t.time = Some((rfc3339(from_s), rfc3339(to_s))),
            Field::Choice(c) => t.choice = Some(Choices(c)),
            Field::Bool(p) => t.bool = Some(p),
            Field::List { of, length } => (t.list, t.length) = (Some(of), Some(length)),
            Field::Object(o) => t.object = Some(o),
            Field::Ref { collection, popularity, same_parent } => {
                (t.reference, t.popularity, t.same_parent) = (Some(collection), Some(popularity), Some(same_parent));
            }
            Field::Bytes(r) => t.bytes = Some(r),
            Field::Id(kind) => t.id = Some(kind),
        }
        t
    }
}

written_as!(
    Field,
    "a template (\"{user}\") or a table with a kind ({ words = 2 })",
    text = |text: &str| Ok::<_, String>(Field::Template(text.to_owned())),
    table = FieldTable::into_field,
);

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Field::Template(text) => serializer.serialize_str(text),
            other => other.to_table().serialize(serializer),
        }
    }
}
