//! Creating, marking and removing Storebench's indexes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use storebench_engine::store::{
    CollectionLayout, Holdings, Marked, Prepare, Removal, Site, SiteOutcome, StoreError, Wanted,
};

use super::server::{Server, mark_in, marking, properties};
use crate::http::{collection_of_name, lower_case_name};
use crate::net;

/// The indexes whose names begin with the prefix.
pub(super) struct Indexes<'s> {
    pub(super) server: &'s Server,
    pub(super) prefix: &'s str,
    /// The URL without secrets.
    pub(super) shown: &'s str,
    /// Settings of new indexes.
    pub(super) settings: Value,
    pub(super) how: Prepare,
}

impl Indexes<'_> {
    fn index_of(&self, collection: &str) -> String {
        lower_case_name(self.prefix, collection)
    }

    /// Whether a new index has copies of keys: not what a copy writes, which is the user's data.
    fn keys(&self, layout: &CollectionLayout) -> bool {
        layout.uses.key_order && !matches!(self.how, Prepare::Copy(_))
    }

    /// The fields that an existing index lacks. Documents that are there already would not be found by them.
    async fn missing(&self, index: &str, layout: &CollectionLayout) -> Result<Map<String, Value>, StoreError> {
        let found = self.server.indexes(index, "").await?.unwrap_or_default();
        let known = found.get(index).map(|index| index["mappings"]["properties"].clone()).unwrap_or_default();
        let wanted: BTreeSet<&String> = layout.indexes.iter().flatten().collect();
        let missing = properties(false, wanted.into_iter().filter(|field| known.get(field.as_str()).is_none()));
        if !missing.is_empty() && self.server.has_documents(index).await? {
            let fields: Vec<&str> = missing.keys().map(String::as_str).collect();
            return Err(StoreError::NotSupported(format!(
                "{}: the index `{index}` has documents and no index on {}, and would find only documents that are \
                 written later; load it again",
                self.shown,
                fields.join(", ")
            )));
        }
        Ok(missing)
    }
}

impl Site for Indexes<'_> {
    const ANOTHER: &'static str = "another ?prefix=";

    fn shown(&self) -> String {
        self.shown.to_owned()
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let mut found = Holdings::default();
        let mut theirs = BTreeSet::new();
        for (index, told) in self.server.indexes(&format!("{}*", self.prefix), "_alias").await?.unwrap_or_default() {
            if !index.starts_with(self.prefix) {
                // It was found by an alias.
                let aliases = told["aliases"].as_object().into_iter().flatten().map(|(alias, _)| alias.clone());
                theirs.extend(aliases.filter(|alias| alias.starts_with(self.prefix)));
            } else if let Some(mark) = mark_in(&index, &told["aliases"]) {
                found.marked.push(Marked::new(collection_of_name(self.prefix, &index), mark));
            } else {
                theirs.insert(index);
            }
        }
        found.theirs = theirs.into_iter().collect();
        found.made = (!found.marked.is_empty()).then_some(true);
        found.absent = found.marked.is_empty() && found.theirs.is_empty();
        found.foreign = found.theirs.first().map(|index| format!("the index `{index}`"));
        Ok(found)
    }

    async fn rest(&mut self) {
        net::rest().await;
    }

    async fn taken(&mut self, found: &Holdings, names: &[&str]) -> Result<Option<String>, StoreError> {
        let mut indexes = names.iter().map(|name| self.index_of(name));
        Ok(indexes.find(|name| found.theirs.contains(name)).map(|name| format!("the index `{name}`")))
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        let (mut missing, mut marks) = (Vec::new(), Vec::new());
        for planned in &wanted.collections {
            let index = self.index_of(planned.name());
            if let Some(before) = &planned.before {
                if planned.marks() {
                    marks.extend(marking(&index, before, &planned.mark));
                }
                missing.push((self.missing(&index, planned.layout).await?, index));
            }
        }
        if self.server.change(marks, "mark its indexes").await? == SiteOutcome::Changed {
            return Ok(SiteOutcome::Changed);
        }
        for planned in wanted.collections.iter().filter(|planned| planned.is_new()) {
            let properties = properties(self.keys(planned.layout), planned.layout.indexes.iter().flatten());
            let index = self.index_of(planned.name());
            if self.server.create(&index, &self.settings, &json!(properties), &planned.mark).await?
                == SiteOutcome::Changed
            {
                return Ok(SiteOutcome::Changed);
            }
        }
        for (fields, index) in missing.iter().filter(|(fields, _)| !fields.is_empty()) {
            self.server.map(index, &json!({ "properties": fields })).await?;
        }
        Ok(SiteOutcome::Done)
    }

    /// Marks each index as being removed first. A copy that takes it over meanwhile also replaces the mark that was found,
    /// so only one of the two succeeds. `remove_index` takes no condition.
    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        for going in &removal.going {
            let index = self.index_of(&going.name);
            let now = async || {
                let found = self.server.indexes(&index, "_alias").await?.unwrap_or_default();
                Ok(found.get(&index).and_then(|told| mark_in(&index, &told["aliases"])))
            };
            let replace = async |mine: String| {
                self.server.change(marking(&index, &going.mark, &mine).into(), "mark its indexes").await
            };
            let removes = json!({ "remove_index": { "index": index } });
            if net::mark_removal(going, now, replace).await? == SiteOutcome::Changed
                || self.server.change(vec![removes], "remove its indexes").await? == SiteOutcome::Changed
            {
                return Ok(SiteOutcome::Changed);
            }
        }
        Ok(SiteOutcome::Done)
    }
}
