//! Properties of documents with arbitrary fields.

use indexmap::IndexMap;
use proptest::prelude::*;
use serde_json::Value;
use storebench_documents::{Catalog, CatalogOptions, DocumentError};
use storebench_study::units::{ByteSize, Count, Range, Spread};
use storebench_study::workload::{Collection, Field, IdKind, Size, TimeForm, Vary};

use super::{document, key, value};

fn range(most: u64) -> impl Strategy<Value = Range<u64>> {
    (0..=most, 0..=most).prop_map(|(a, b)| Range { min: a.min(b), max: a.max(b) })
}

fn bytes(most: u64) -> impl Strategy<Value = Range<ByteSize>> {
    range(most).prop_map(|r| Range { min: ByteSize(r.min), max: ByteSize(r.max) })
}

/// One to four points that do not fall.
fn spread<T: Copy + PartialOrd + std::fmt::Debug + 'static>(
    one: impl Strategy<Value = T>,
) -> impl Strategy<Value = Spread<T>> {
    proptest::collection::vec(one, 1..5).prop_map(|mut points| {
        points.sort_by(|a, b| a.partial_cmp(b).unwrap());
        Spread::through(points).unwrap()
    })
}

/// A field that contains no other field. Templates use only built-in names.
fn leaf() -> impl Strategy<Value = Field> {
    prop_oneof![
        Just(Field::Template("{index}".into())),
        Just(Field::Template("a{{\"\\ {uuid} ä {index:12}{collection}".into())),
        range(6).prop_map(Field::Words),
        range(3).prop_map(Field::Sentences),
        spread((0..=70u64).prop_map(ByteSize)).prop_map(Field::Text),
        spread(-(1i64 << 53)..=1 << 53).prop_map(Field::Integer),
        (spread(-1e5..1e5f64), 0u8..=9).prop_map(|(range, digits)| Field::Decimal { range, digits }),
        (spread(-62_167_219_200i64..=253_402_300_799), 0..3).prop_map(|(at_s, form)| Field::Time {
            at_s,
            form: [TimeForm::Seconds, TimeForm::Milliseconds, TimeForm::Date][form as usize],
        }),
        proptest::collection::hash_map("(?s).{0,6}", 0.1..9.0f64, 1..4)
            .prop_map(|all| Field::Choice(all.into_iter().collect())),
        (0.0..=1.0f64).prop_map(Field::Bool),
        bytes(40).prop_map(Field::Bytes),
        Just(Field::Id(IdKind::Uuid)),
        Just(Field::Id(IdKind::Hex)),
        Just(Field::Ref { collection: "other".into(), popularity: "zipf:1".parse().unwrap(), same_parent: false }),
    ]
}

/// A field with what may vary of it.
fn varied((of, present, null, distinct, rises): (Field, f64, f64, Option<u64>, bool)) -> Field {
    let of = of.kind().clone();
    let number = matches!(of, Field::Integer(_) | Field::Decimal { .. } | Field::Time { .. });
    let text = matches!(of, Field::Words(_) | Field::Sentences(_) | Field::Text(_) | Field::Bytes(_));
    let rising = (number && rises).then_some(null / 2.0);
    let distinct = distinct.filter(|_| (number || text) && rising.is_none());
    Field::Varied { of: Box::new(of), vary: Vary { present, null, distinct, rising, ..Vary::default() } }
}

fn field() -> impl Strategy<Value = Field> {
    leaf().prop_recursive(3, 12, 4, |inner| {
        let single = inner.clone().prop_filter("no template", |field| !matches!(field.kind(), Field::Template(_)));
        let always = single.clone().prop_filter("always there", Field::is_always_there);
        let present = inner.clone().prop_filter("present", |field| field.vary().is_none_or(|vary| vary.present >= 1.0));
        prop_oneof![
            (present, spread(0..=4u64)).prop_map(|(of, length)| Field::List { of: Box::new(of), length }),
            proptest::collection::vec((0.1..9.0f64, always), 1..4).prop_map(Field::Any),
            (single, 0.01..=1.0f64, 0.0..=1.0f64, proptest::option::of(1u64..50), any::<bool>()).prop_map(varied),
            proptest::collection::hash_map("[a-z\"\\\\é]{1,4}", inner, 0..4)
                .prop_map(|all| Field::Object(all.into_iter().collect())),
        ]
    })
}

fn fields() -> impl Strategy<Value = IndexMap<String, Field>> {
    proptest::collection::vec(field(), 0..7)
        .prop_map(|all| all.into_iter().enumerate().map(|(i, f)| (format!("f{i}"), f)).collect())
}

fn compiled(fields: &IndexMap<String, Field>, size: Option<u64>, seed: u64) -> Result<Catalog, DocumentError> {
    let empty: Collection = toml_edit::de::from_str("count = 1000").unwrap();
    let collection = Collection {
        count: Some(Count(5_000)),
        fields: fields.clone(),
        size: size.map(|s| Size::Uniform(Range::exactly(ByteSize(s)))),
        ..empty.clone()
    };
    let all = IndexMap::from([("other".to_owned(), empty), ("any".to_owned(), collection)]);
    let dir = std::env::temp_dir();
    let options = CatalogOptions { seed, scale: 1.0, base_dir: &dir, scratch_dir: &dir };
    Catalog::compile(&all, &options)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_fields_make_documents(fields in fields(), seed: u64, picks in proptest::collection::vec((0u64..50_000, 0u64..10_000_000), 20)) {
        let catalog = compiled(&fields, None, seed).unwrap();
        let documents = catalog.get(1);
        // Every document has exactly the minimum size that the error names.
        let least = match compiled(&fields, Some(1), seed) {
            Err(error) => error.message.split("use at least ").nth(1).and_then(|m| m.split(',').next()?.parse().ok()).unwrap(),
            Ok(_) => panic!("a document of one byte"),
        };
        let sized = compiled(&fields, Some(least), seed).unwrap();
        let mut scratch = Vec::new();
        for (index, version) in picks {
            let v = value(documents, index, version);
            let names: Vec<&String> = v.as_object().unwrap().keys().collect();
            prop_assert_eq!(names[0], "sb");
            let all = fields.iter().filter(|(name, field)| field.vary().is_none() || v.get(*name).is_some());
            prop_assert!(names[1..].iter().copied().eq(all.map(|(name, _)| name)));
            let body = document(documents, index, version);
            prop_assert_eq!(documents.check(index, &body, &mut scratch), Ok(version));
            prop_assert_eq!(documents.read_marker(&body), Some((index, version)));
            let again: Value = serde_json::from_str(&v.to_string()).unwrap();
            prop_assert_eq!(documents.check(index, again.to_string().as_bytes(), &mut scratch), Ok(version));
            prop_assert_eq!(document(sized.get(1), index, version).len() as u64, least);
            prop_assert!(key(documents, index).len() as u64 <= documents.longest_key_bytes());
            for (name, field) in &fields {
                if let Some(found) = documents.index_value(index, name) {
                    prop_assert_eq!(&found, v.get(name).unwrap_or(&Value::Null), "{:?}", field);
                }
            }
        }
    }
}
