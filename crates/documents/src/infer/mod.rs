//! Reads a sample of documents, and describes a collection that generates documents like them.
//!
//! [`Profile`] is what one pass over the sample finds, in bounded memory. [`Profile::collection`] turns it into the
//! fields of a study. [`compare()`] says how far the generated documents are from the sample.

mod compare;
mod profile;
mod shape;
mod sketch;

use std::path::Path;

use indexmap::IndexMap;
use storebench_study::units::{ByteSize, Count, Spread};
use storebench_study::workload::{Collection, Field};

pub use compare::{ERRORS, Likeness, compare};
pub use profile::{Profile, RandomPart};
use shape::Shaper;

use crate::catalog::{Catalog, CatalogOptions};
use crate::error::DocumentError;

/// The fewest documents that show what varies.
const FEWEST: u64 = 2;
/// Below this number of documents, rare fields and values are not seen.
const FEW: u64 = 1_000;
/// A text is long enough to be shortened by the marker if it is this many times as long.
const LONG: u64 = 4;
/// Names of fields that hold the key of a document.
const KEYS: [&str; 5] = ["_id", "id", "key", "uuid", "_key"];

/// A collection like a sample.
#[derive(Debug, Clone)]
pub struct Inferred {
    /// The collection. It has as many documents as the sample.
    pub collection: Collection,
    /// What it does not reproduce, one sentence each.
    pub notes: Vec<String>,
}

impl Profile {
    /// The collection that generates documents like these. `keeps` uses their own texts where there are few different
    /// ones; otherwise no text of a value is in it.
    ///
    /// # Errors
    /// A sample of one document.
    pub fn collection(&self, keeps: bool) -> Result<Inferred, DocumentError> {
        if self.documents < FEWEST {
            let found = if self.documents == 0 { "no document" } else { "one document" };
            return Err(DocumentError::new(
                "the sample",
                format!("has {found}, which does not show what varies; give a file with a few thousand lines"),
            ));
        }
        let mut shaper = Shaper::new(keeps);
        let mut fields = shaper.fields(&self.root, "", true);
        let mut notes = shaper.notes;
        if self.documents < FEW {
            notes.push(format!("only {} documents, so rare fields and values may be missing", self.documents));
        }
        // The marker that each generated document begins with.
        let digits = u64::from(self.documents.max(2).ilog10()) + 1;
        if !shorten(&mut fields, 10 + digits) {
            notes.push(format!(
                "documents are {} bytes longer, because of the marker `sb`: no text is long enough to make up for it",
                10 + digits
            ));
        }
        let key = KEYS.into_iter().find(|name| matches!(fields.get(*name), Some(Field::Id(_))));
        let collection = Collection {
            count: Some(Count(self.documents)),
            key: key.map(|name| format!("{{{name}}}")),
            fields,
            ..Collection::default()
        };
        let target = self.compressed().map(|share| ((share * 1e3).round() / 1e3).min(0.999));
        let with_target = Collection { compress_to: target, ..collection.clone() };
        match (target, compiled(&with_target)) {
            (None, Ok(_)) => {
                notes.push("the sample is smaller than a page of 32 KiB, so compression is not known".to_owned());
            }
            (Some(_), Ok(_)) => return Ok(Inferred { collection: with_target, notes }),
            (Some(share), Err(error)) if error.path.ends_with("compress_to") => {
                let why = match &error.message {
                    why if why.starts_with("there is no text") => "no field of theirs is free text",
                    why => why,
                };
                notes
                    .push(format!("the sample compresses to {share}, the generated documents to another share: {why}"));
            }
            (_, Err(error)) => return Err(error),
        }
        Ok(Inferred { collection, notes })
    }

    /// What the documents of a collection are made of: `count` of them, read as a sample would be.
    ///
    /// # Errors
    /// A collection that cannot be compiled.
    pub fn of_collection(collection: &Collection, count: u64) -> Result<Self, DocumentError> {
        let catalog = compiled(&Collection { count: Some(Count(count)), ..collection.clone() })?;
        let documents = catalog.get(0);
        let mut profile = Self::default();
        let mut document = Vec::new();
        for index in 0..count {
            document.clear();
            documents.write_document(index, 0, &mut document);
            profile.add_generated(&document);
        }
        profile.finish();
        Ok(profile)
    }
}

fn compiled(collection: &Collection) -> Result<Catalog, DocumentError> {
    let here = Path::new(".");
    let options = CatalogOptions { seed: 1, scale: 1.0, base_dir: here, scratch_dir: here };
    Catalog::compile(&IndexMap::from([("docs".to_owned(), collection.clone())]), &options)
}

/// Shortens the longest text by this many bytes. Returns whether one is long enough.
fn shorten(fields: &mut IndexMap<String, Field>, bytes: u64) -> bool {
    fn longest<'a>(fields: &'a mut IndexMap<String, Field>, bytes: u64) -> Option<&'a mut Spread<ByteSize>> {
        let mut found: Option<&'a mut Spread<ByteSize>> = None;
        for field in fields.values_mut() {
            let text = match field {
                Field::Text(lengths) => Some(lengths),
                Field::Object(inner) => longest(inner, bytes),
                // Most values are of the first kind, and the others are ends.
                Field::Any(all) => match all.split_first_mut() {
                    Some(((most, Field::Text(lengths)), ends)) if ends.iter().all(|(end, _)| end * 100.0 <= *most) => {
                        Some(lengths)
                    }
                    _ => None,
                },
                _ => None,
            };
            let mean = |of: &Spread<ByteSize>| {
                of.points().iter().map(|point| point.bytes()).sum::<u64>() / of.points().len() as u64
            };
            if let Some(text) = text.filter(|text| mean(text) >= LONG * bytes)
                && found.as_ref().is_none_or(|found| mean(found) < mean(text))
            {
                found = Some(text);
            }
        }
        found
    }
    let Some(lengths) = longest(fields, bytes) else { return false };
    let points = lengths.points().iter().map(|length| ByteSize(length.bytes().saturating_sub(bytes))).collect();
    if let Some(shorter) = Spread::through(points) {
        *lengths = shorter;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    fn words(rng: &mut Rng) -> String {
        (0..20 + rng.below(60)).map(|_| format!("w{:x} ", rng.below(5_000))).collect()
    }

    /// Documents with everything that is told apart.
    fn sample(count: u64) -> Profile {
        let mut profile = Profile::default();
        for index in 0..count {
            let mut rng = Rng::of(7, index, 0);
            let city = ["Lima", "Oslo", "Rome"][if rng.below(10) < 7 { 0 } else { 1 + rng.below(2) as usize }];
            let mut document = serde_json::json!({
                "name": format!("person number {}", rng.below(1 << 40)),
                "city": city,
                "stars": 1 + rng.below(5),
                "price": (rng.unit() * rng.unit() * 1e5).round() / 100.0,
                "at": format!("2020-{:02}-{:02}", 1 + index * 12 / count, 1 + rng.below(28)),
                "tags": (0..rng.below(4)).map(|_| format!("tag-{}", rng.below(300))).collect::<Vec<_>>(),
                "text": words(&mut rng),
                "nested": { "on": rng.below(4) == 0, "n": index },
            });
            if rng.below(50) == 0 {
                document["rare"] = serde_json::json!({ "why": format!("{}", rng.below(1_000_000)) });
                document["also"] = 7.into();
            }
            if rng.below(3) == 0 {
                document["perhaps"] = serde_json::Value::Null;
            } else {
                document["perhaps"] = rng.below(1_000_000).into();
            }
            if rng.below(5) == 0 {
                document["mixed"] = "seven".into();
            } else {
                document["mixed"] = 7.into();
            }
            profile.add_generated(document.to_string().as_bytes());
        }
        profile.finish();
        profile
    }

    #[test]
    fn a_collection_is_like_its_sample() {
        let sample = sample(20_000);
        let Inferred { collection, notes } = sample.collection(false).unwrap();
        let fields = &collection.fields;
        let shown = toml_edit::ser::to_string(&collection).unwrap();
        assert!(!shown.contains("Lima") && !shown.contains("person") && !shown.contains("seven"), "{shown}");
        assert_eq!(fields["stars"], Field::Integer(Spread::between(1, 5)), "{shown}");
        assert!(matches!(&fields["city"], Field::Choice(all) if all.len() == 3), "{shown}");
        assert!(fields["rare"].vary().unwrap().with.is_some(), "{shown}");
        assert_eq!(fields["rare"].vary().unwrap().with, fields["also"].vary().unwrap().with, "{shown}");
        assert!(matches!(fields["mixed"], Field::Any(_)), "{shown}");
        assert!(fields["at"].vary().unwrap().rising.is_some(), "{shown}");
        assert!(notes.iter().any(|note| note.contains("mixed: values of 2 kinds")), "{notes:?}");

        let again: Collection = toml_edit::de::from_str(&shown).unwrap();
        assert_eq!(again, collection);
        let like = Profile::of_collection(&collection, 20_000).unwrap();
        let apart: Vec<_> = compare(&sample, &like).into_iter().filter(|row| !row.is_near).collect();
        assert!(apart.is_empty(), "{apart:#?}\n{shown}");
    }

    /// Ten times as many documents have as many different values as a sample ten times as large.
    #[test]
    fn a_tenth_of_a_sample_is_enough() {
        let small = sample(2_000).collection(false).unwrap();
        let like = Profile::of_collection(&small.collection, 20_000).unwrap();
        let apart = compare(&sample(20_000), &like).into_iter().filter(|row| !row.is_near).collect::<Vec<_>>();
        assert!(apart.len() <= 3, "{apart:#?}");
    }

    #[test]
    fn own_texts_are_used_if_asked_for() {
        let mut profile = Profile::kept();
        for index in 0..1_000 {
            let city = ["Lima \"x\"", "Oslo"][index % 2];
            profile.add_generated(serde_json::json!({ "city": city, "text": "y".repeat(100) }).to_string().as_bytes());
        }
        profile.finish();
        let of = |keeps| toml_edit::ser::to_string(&profile.collection(keeps).unwrap().collection).unwrap();
        assert!(of(true).contains("Oslo") && of(true).contains("Lima"), "{}", of(true));
        assert!(!of(false).contains("Oslo"), "{}", of(false));
    }

    #[test]
    fn a_sample_of_one_document_is_refused() {
        let mut profile = Profile::default();
        assert!(profile.collection(false).unwrap_err().to_string().contains("no document"));
        profile.add_generated(b"{\"a\":1}");
        let error = profile.collection(false).unwrap_err().to_string();
        assert!(error.contains("one document") && error.contains("a few thousand lines"), "{error}");
    }

    #[test]
    fn a_key_comes_from_an_identifier() {
        let mut profile = Profile::default();
        for index in 0..100u64 {
            let id = format!("{:08x}-0000-4000-8000-{:012x}", index * 77, index);
            profile.add_generated(serde_json::json!({ "_id": id, "sb": 1 }).to_string().as_bytes());
        }
        profile.finish();
        let Inferred { collection, notes } = profile.collection(false).unwrap();
        assert_eq!(collection.key.as_deref(), Some("{_id}"));
        assert!(collection.fields.contains_key("sb_") && notes.iter().any(|note| note.contains("`sb_`")), "{notes:?}");
    }
}
