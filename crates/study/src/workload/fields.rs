//! Fields of documents: their kinds, and how they vary from document to document.

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::popularity::Popularity;
use crate::units::{ByteSize, Range, Spread, UnitError};
use crate::written::{schema, wire, written_as};

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
    Text(Spread<ByteSize>),
    /// An integer.
    Integer(Spread<i64>),
    /// A decimal number, with this many digits after the point.
    Decimal {
        /// Its values.
        range: Spread<f64>,
        /// Digits after the point (0 to 9).
        digits: u8,
    },
    /// A timestamp, RFC 3339 in UTC.
    Time {
        /// Its values, in seconds since 1970.
        at_s: Spread<i64>,
        /// How it is written.
        form: TimeForm,
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
        length: Spread<u64>,
    },
    /// An object with its own fields.
    Object(IndexMap<String, Field>),
    /// A value of one of these kinds, by weight.
    Any(Vec<(f64, Field)>),
    /// A field that not every document has, that may be null, or whose values repeat or rise.
    Varied {
        /// What it is.
        of: Box<Field>,
        /// How it varies.
        vary: Vary,
    },
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

/// How a field varies from document to document.
#[derive(Debug, Clone, PartialEq)]
pub struct Vary {
    /// Share of the documents that have the field, above 0 and up to 1.
    pub present: f64,
    /// The name of a group: fields of the same group are in the same documents, as far as their shares allow.
    pub with: Option<String>,
    /// Share of the documents with this field in which it is null.
    pub null: f64,
    /// The number of different values.
    pub distinct: Option<u64>,
    /// Which of the different values are more frequent.
    pub popularity: Popularity,
    /// The value rises with the index of the document; each is off by up to this share of the documents.
    pub rising: Option<f64>,
}

impl Default for Vary {
    fn default() -> Self {
        Self { present: 1.0, with: None, null: 0.0, distinct: None, popularity: Popularity::default(), rising: None }
    }
}

/// How a timestamp is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TimeForm {
    /// `2018-01-31T12:00:00Z`
    #[default]
    Seconds,
    /// `2018-01-31T12:00:00.250Z`
    Milliseconds,
    /// `2018-01-31`
    Date,
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
    integer: Option<Spread<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decimal: Option<Spread<f64>>,
    /// Only with `decimal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    digits: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Vec<String>>,
    /// Only with `time`.
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<TimeForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<Choices>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bool: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<Box<Field>>,
    /// Only with `list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<Spread<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<IndexMap<String, Field>>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "ref")]
    reference: Option<String>,
    /// Only with `ref` or `distinct`.
    #[serde(skip_serializing_if = "Option::is_none")]
    popularity: Option<Popularity>,
    /// Only with `ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_parent: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<Range<ByteSize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<IdKind>,
    /// A value of one of these kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    any: Option<Vec<Field>>,
    /// Only with `any`: the weight of each kind; equal by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<Vec<f64>>,
    /// Share of the documents that have the field: above 0, up to 1 (default).
    #[serde(skip_serializing_if = "Option::is_none")]
    present: Option<f64>,
    /// Only with `present`: the name of a group of fields that are in the same documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    with: Option<String>,
    /// Share of the documents with this field in which it is null (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    null: Option<f64>,
    /// The number of different values.
    #[serde(skip_serializing_if = "Option::is_none")]
    distinct: Option<u64>,
    /// The value rises with the index of the document; each is off by up to this share of the documents, up to 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    rising: Option<f64>,
}

wire! { FieldWire: Template(String), Table(Box<FieldTable>) }

enum TextLength {
    Fill,
    Bytes(Spread<ByteSize>),
}

written_as!(
    TextLength,
    "\"fill\", a size (\"200B\") or a range of sizes",
    text = |text| match text {
        "fill" => Ok(TextLength::Fill),
        size => size
            .parse()
            .map(|s| TextLength::Bytes(Spread::exactly(s)))
            .map_err(|e: UnitError| format!("{e}; or \"fill\" for the rest of the document")),
    },
    whole = |n| Ok::<_, String>(TextLength::Bytes(Spread::exactly(ByteSize(n)))),
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

schema!(TextLength, "TextLength", |generator| {
    let range = generator.subschema_for::<Spread<ByteSize>>();
    schemars::json_schema!({ "anyOf": [{ "const": "fill" }, range] })
});

/// `["a", "b"]` (equally likely) or `{ a = 3, b = 1 }` (weights).
#[derive(Serialize)]
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

schema!(Choices, "Choices", |_| {
    schemars::json_schema!({ "anyOf": [
        { "type": "array", "items": { "type": "string" }, "minItems": 1 },
        { "type": "object", "additionalProperties": { "type": "number", "exclusiveMinimum": 0 } }
    ] })
});

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
        let (has_time, has_any, is_repeated) = (self.time.is_some(), self.any.is_some(), self.distinct.is_some());
        let vary = Vary {
            present: self.present.unwrap_or(1.0),
            with: self.with,
            null: self.null.unwrap_or(0.0),
            distinct: self.distinct,
            popularity: self.popularity.filter(|_| is_repeated).unwrap_or_default(),
            rising: self.rising,
        };
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
        if let Some(times) = &self.time {
            if !(2..=1_001).contains(&times.len()) {
                return Err(
                    "a time needs a range, such as [\"2018-01-31\", \"2019-01-31T12:00:00Z\"], or up to 1,001 \
                            times"
                        .into(),
                );
            }
            let points = times.iter().map(|time| moment(time)).collect::<Result<Vec<_>, _>>()?;
            let at_s = Spread::through(points).ok_or_else(|| {
                format!("the time range [{}] runs backwards; write the earlier one first", times.join(", "))
            })?;
            kind!("time", Some(Field::Time { at_s, form: self.form.unwrap_or_default() }));
        }
        kind!("choice", self.choice.map(|c| Field::Choice(c.0)));
        kind!("bool", self.bool.map(Field::Bool));
        kind!(
            "list",
            self.list.map(|of| Field::List { of, length: self.length.clone().unwrap_or(Spread::between(0, 5)) })
        );
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
        if let Some(fields) = self.any {
            let weights = self.weights.clone().unwrap_or_else(|| vec![1.0; fields.len()]);
            let fit = weights.len() == fields.len() && weights.iter().all(|w| w.is_finite() && *w > 0.0);
            if fields.is_empty() || !fit {
                return Err("`any` needs at least one kind, and `weights` one number above 0 for each".into());
            }
            kind!("any", Some(Field::Any(weights.into_iter().zip(fields).collect())));
        }
        for (option, given, allowed, kind) in [
            ("digits", self.digits.is_some(), has_decimal, "decimal"),
            ("form", self.form.is_some(), has_time, "time"),
            ("length", self.length.is_some(), has_list, "list"),
            ("popularity", self.popularity.is_some(), has_ref || is_repeated, "ref` or `distinct"),
            ("same_parent", self.same_parent.is_some(), has_ref, "ref"),
            ("weights", self.weights.is_some(), has_any, "any"),
            ("with", vary.with.is_some(), vary.present < 1.0, "present"),
        ] {
            if given && !allowed {
                return Err(format!("`{option}` needs `{kind}`"));
            }
        }
        match (found, &kinds[..]) {
            (Some(field), [_]) => {
                let field = field.checked()?;
                if vary == Vary::default() { Ok(field) } else { vary.checked(field) }
            }
            (_, []) => Err("a field needs a kind: words, sentences, lines, text, integer, decimal, time, choice, \
                            bool, list, object, ref, bytes, id or any"
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
            Field::Integer(r) if r.min() < -EXACT || r.max() > EXACT => {
                Err("use integers within ±2^53, which every store and JSON parser keeps exactly".into())
            }
            Field::Decimal { digits, .. } if *digits > 9 => Err(format!("`digits` is {digits}; use 0 to 9")),
            Field::Decimal { range, .. } if !(range.min().abs() <= 1e12 && range.max().abs() <= 1e12) => {
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
            Field::Time { at_s, form } => {
                let times: Vec<String> = at_s.points().iter().map(|second| rfc3339(*second)).collect();
                let last = times.last().cloned().filter(|_| times.len() == 1);
                t.time = Some(times.into_iter().chain(last).collect());
                t.form = Some(form).filter(|form| *form != TimeForm::default());
            }
            Field::Choice(c) => t.choice = Some(Choices(c)),
            Field::Bool(p) => t.bool = Some(p),
            Field::List { of, length } => (t.list, t.length) = (Some(of), Some(length)),
            Field::Object(o) => t.object = Some(o),
            Field::Ref { collection, popularity, same_parent } => {
                (t.reference, t.popularity, t.same_parent) = (Some(collection), Some(popularity), Some(same_parent));
            }
            Field::Bytes(r) => t.bytes = Some(r),
            Field::Id(kind) => t.id = Some(kind),
            Field::Any(all) => {
                let (weights, fields): (Vec<f64>, Vec<Field>) = all.into_iter().unzip();
                (t.any, t.weights) = (Some(fields), Some(weights));
            }
            Field::Varied { of, vary } => {
                t = of.to_table();
                t.present = Some(vary.present).filter(|share| *share < 1.0);
                t.null = Some(vary.null).filter(|share| *share > 0.0);
                (t.with, t.distinct, t.rising) = (vary.with, vary.distinct, vary.rising);
                t.popularity = Some(vary.popularity).filter(|_| vary.distinct.is_some()).or(t.popularity);
            }
        }
        t
    }

    /// What it is, however it varies.
    pub fn kind(&self) -> &Field {
        match self {
            Field::Varied { of, .. } => of.kind(),
            other => other,
        }
    }

    /// How it varies, if it does.
    pub fn vary(&self) -> Option<&Vary> {
        match self {
            Field::Varied { vary, .. } => Some(vary),
            _ => None,
        }
    }

    /// Whether every document has it, with a value.
    pub fn is_always_there(&self) -> bool {
        self.vary().is_none_or(|vary| vary.present >= 1.0 && vary.null == 0.0)
    }
}

impl Vary {
    /// Rejects what fits no field, or not this one.
    fn checked(self, of: Field) -> Result<Field, String> {
        if !(self.present > 0.0 && self.present <= 1.0) {
            return Err(format!("`present` is {}; use a share above 0, up to 1", self.present));
        }
        if !(0.0..=1.0).contains(&self.null) {
            return Err(format!("`null` is {}; use a share from 0 to 1", self.null));
        }
        if of == Field::Fill {
            return Err("fill text must be in every document; remove `present`, `null` and `distinct`".into());
        }
        let number = matches!(of, Field::Integer(_) | Field::Decimal { .. } | Field::Time { .. });
        let text =
            matches!(of, Field::Words(_) | Field::Sentences(_) | Field::Lines(_) | Field::Text(_) | Field::Bytes(_));
        match self.distinct {
            Some(n) if n == 0 || n > 1 << 53 => return Err(format!("`distinct` is {n}; use 1 to 2^53")),
            Some(_) if !(number || text) => {
                return Err("`distinct` needs words, sentences, lines, text, integer, decimal, time or bytes".into());
            }
            _ => {}
        }
        match self.rising {
            Some(_) if !number => return Err("`rising` needs integer, decimal or time".into()),
            Some(_) if self.distinct.is_some() => return Err("use `rising` or `distinct`, not both".into()),
            Some(share) if !(0.0..=0.5).contains(&share) => {
                return Err(format!("`rising` is {share}; use a share from 0 to 0.5"));
            }
            _ => {}
        }
        Ok(Field::Varied { of: Box::new(of), vary: self })
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
