//! Indexes that a study gives in the stores' own words, for one store.

use storebench_study::workload::Study;

use super::queries::as_text;
use crate::store::{Capabilities, CollectionId};

/// An index of a study in the language of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnIndex {
    /// The collection that it is of.
    pub collection: CollectionId,
    /// The name of that collection in the study.
    pub of: String,
    /// Its name in the study.
    pub name: String,
    /// Its text in the store's language; for one that is not text, its JSON text.
    pub text: String,
}

impl OwnIndex {
    /// The indexes of a study for a store, without those that are left out on it. Says which one has no text for the
    /// store.
    pub fn all(study: &Study, can: &Capabilities) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for (position, (of, collection)) in (0..).zip(&study.collections) {
            for (name, texts) in &collection.indexes {
                let Some(language) = can.language else {
                    return Err(format!(
                        "this store has no indexes in a language of its own; remove collections.{of}.indexes.{name}, or use \
                         `index` if it is over fields"
                    ));
                };
                let text = texts.get(&language).ok_or_else(|| {
                    format!(
                        "the index `{name}` of `{of}` has no text for this store; add \
                         collections.{of}.indexes.{name}.{language}, with false for no index"
                    )
                })?;
                if *text != serde_json::Value::Bool(false) {
                    let (of, name) = (of.clone(), name.clone());
                    all.push(Self { collection: CollectionId(position), of, name, text: as_text(text) });
                }
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storebench_study::workload::Language;

    #[test]
    fn each_store_has_the_indexes_of_its_language() {
        let study = Study::parse(
            r#"
            title = "Indexes"
            stores = ["memory:"]
            [collections.first]
            count = 1
            [collections.docs]
            count = 1
            fields = { city = "words(1)" }
            [collections.docs.indexes.by-city]
            postgres = "create index by_city on {collection} ((doc->>'city'))"
            mongodb = { key = { city = 1 } }
            sqlite = false
            [[phases]]
            name = "load"
            load = ["first", "docs"]
            "#,
            std::path::Path::new("indexes.toml"),
            &[],
        )
        .unwrap();
        let all = |language| OwnIndex::all(&study, &Capabilities { language, ..Capabilities::default() });
        let postgres = all(Some(Language::Postgres)).unwrap();
        assert_eq!((postgres.len(), postgres[0].collection, &*postgres[0].name), (1, CollectionId(1), "by-city"));
        assert_eq!(all(Some(Language::Mongodb)).unwrap()[0].text, r#"{"key":{"city":1}}"#);
        assert_eq!(all(Some(Language::Sqlite)).unwrap(), []);
        assert!(all(Some(Language::Couchdb)).unwrap_err().contains("docs.indexes.by-city.couchdb"));
        assert!(all(None).unwrap_err().contains("collections.docs.indexes.by-city"));
    }
}
