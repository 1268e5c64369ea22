//! Operations of a mix: what each does, to which documents, and how often.

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::{self, value::MapDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fields::Field;
use super::queries::{Language, QueryTexts, RowCount, SameOn};
use crate::op_kind::OpKind;
use crate::units::{ByteSize, Span};
use crate::written::{is_default, wire, written_as};

/// One kind of operation in a mix. Written as its weight, or as a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct MixEntry {
    /// The operation; default: the entry's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<OpKind>,
    /// How often, relative to the others; default 1.
    #[serde(default = "weight_one")]
    pub weight: f64,
    /// The collection; default: the phase's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// `page`: the indexed field; `view`: the field that is the key of the view. The query asks for the value of a
    /// document drawn by popularity.
    #[serde(skip_serializing_if = "Option::is_none", rename = "where")]
    pub field: Option<String>,
    /// For collections with `per`: whether documents are drawn, or parents that have any; default: documents.
    #[serde(default, skip_serializing_if = "is_default")]
    pub draw: Draw,
    /// `page`, `prefix`, `scan`, `view`: the maximum number of documents; default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Makes it a bulk operation of this many documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// `prefix`: the key is cut before this placeholder of the key template; default: the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upto: Option<String>,
    /// `append`, `prepend`: bytes added; default 16 B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<ByteSize>,
    /// `counter`: what is added; default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<i64>,
    /// `touch`: how long the document lives from then on; default 1 h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Span>,
    /// `view`: `design/view`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// `view`: the keys asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<serde_json::Value>>,
    /// `view`: the first key asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<serde_json::Value>,
    /// `view`: the last key asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<serde_json::Value>,
    /// `query`: its text in the language of each store, such as `text.postgres = "select … where city = $city"`.
    /// `{collection}` stands for the store's own name of the collection. `text.couchdb = false` leaves the query out on
    /// such stores, whose work then differs.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub text: QueryTexts,
    /// `query`: values of its parameters. `"{docs.city}"` is the value of a field of a document of `docs`, drawn by
    /// popularity, and `"{docs.key}"` its key. Other kinds of fields are generated for each operation.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub params: IndexMap<String, Field>,
    /// `query`: how many rows an answer must have, such as `[1, 100]`. Answers with other numbers count as wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowCount>,
    /// `query`: on which stores it must have the same answers: `"all"`, or a list of languages. They are compared before
    /// the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_on: Option<SameOn>,
    /// `query`: whether `same_on` also compares the order of the rows.
    #[serde(default, skip_serializing_if = "is_default")]
    pub same_order: bool,
    /// Stores that leave the operation out, by the languages of their queries: `["couchdb", "ravendb"]`. Their work then
    /// differs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_on: Vec<Language>,
    /// `transaction`: its steps, in order, each a read, insert, upsert, replace, delete or query:
    /// `steps = { look = { op = "read" }, change = { op = "replace", same_as = "look" } }`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "IndexMap<String, MixWire>"))]
    pub steps: IndexMap<String, MixEntry>,
    /// `transaction`: the share (0 to 1) that is rolled back after its last step instead of committed; default 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rollback: f64,
    /// In a step: works on the document of this earlier step instead of drawing one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
}

fn weight_one() -> f64 {
    1.0
}

wire! { pub(super) MixWire: Weight(f64), Table(Box<MixEntry>) }

impl MixEntry {
    /// The languages whose stores leave the operation out.
    pub fn left_out_on(&self) -> impl Iterator<Item = Language> {
        Language::ALL.into_iter().filter(|language| self.is_left_out_on(Some(*language)))
    }

    /// Whether stores of this language leave the operation out.
    pub fn is_left_out_on(&self, language: Option<Language>) -> bool {
        language.is_some_and(|language| {
            self.not_on.contains(&language) || self.text.get(&language) == Some(&serde_json::Value::Bool(false))
        })
    }

    /// An entry of this weight with all defaults.
    pub fn weighing(weight: f64) -> Self {
        let fields = MapDeserializer::<_, de::value::Error>::new([("weight", weight)].into_iter());
        Self::deserialize(fields).expect("every key has a default")
    }

    /// The single operation of an entry of this name, even if `batch` makes it a bulk operation.
    pub fn single(&self, name: &str) -> Option<OpKind> {
        self.op.or_else(|| OpKind::find(name))
    }

    /// What an entry of this name does, in bulk or not. `None` if the operation is unknown, or has no bulk form but
    /// needs one.
    pub fn kind(&self, name: &str) -> Option<OpKind> {
        let single = self.single(name)?;
        if self.batch.is_some() { single.bulk() } else { Some(single) }
    }

    fn checked(self) -> Result<Self, String> {
        let fits = self.weight.is_finite() && self.weight > 0.0;
        let wrong = format!("a weight of {}; use a number above 0, or remove the operation", self.weight);
        fits.then_some(self).ok_or(wrong)
    }

    fn of_fields<'de, D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error> {
        Self::deserialize(fields)?.checked().map_err(de::Error::custom)
    }
}

written_as!(
    MixEntry,
    "a weight (50) or a table ({ op = \"read\", weight = 50 })",
    number = |weight| MixEntry::weighing(weight).checked(),
    fields = MixEntry::of_fields,
);

impl Serialize for MixEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::weighing(self.weight) {
            return serializer.serialize_f64(self.weight);
        }
        Self::serialize(self, serializer)
    }
}

/// What an operation of a mix draws to select a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// A document, so that a parent with more documents is selected more often.
    #[default]
    Documents,
    /// A parent that has documents. Its first document is used.
    Parents,
}
