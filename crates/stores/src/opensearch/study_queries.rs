//! Queries of the study, in the query DSL, and the fields that a study maps for them.

use serde_json::{Map, Value, json};
use storebench_engine::store::{Batch, Explanation, OpError, StoreError};
use storebench_study::workload::Body;

use super::dialect::SearchDialect;
use super::json::{decode, member, member_text};
use super::memory::SearchMemory;
use super::rows::{MOST_ROWS, hits};
use super::server::{Server, documents_of, path};
use crate::http::{Answer, Method, Next, RequestBuf};
use crate::refusals::{not_supported, refused, refused_by_server};
use crate::study_queries::{Template, only_member};

/// The body of a query's requests, and whether it has a `size`. If not, it asks for all rows that OpenSearch would show,
/// which are 10 otherwise.
pub(super) fn template(text: &str, values: Batch<'_>) -> Result<(Template, bool), OpError> {
    let (_, mut search) = only_member(text, &["search"], "OpenSearch")?;
    let Value::Object(members) = &mut search else {
        return Err(refused("write the query as { search = { query = { … } } }"));
    };
    let sized = members.contains_key("size");
    members.entry("size").or_insert(MOST_ROWS.into());
    Ok((Template::of(&search, values), sized))
}

impl SearchDialect {
    pub(super) fn begin_query(
        &mut self,
        (number, text): (u16, &str),
        values: Batch<'_>,
        memory: &mut SearchMemory,
        out: &mut RequestBuf,
    ) -> Result<(), OpError> {
        let (template, sized) = self.queries.get(number, || template(text, values))?;
        memory.left = if *sized { u32::MAX } else { MOST_ROWS };
        template.write(values, &mut memory.payload);
        self.begin_search(memory, out)
    }

    /// The rows are the hits, and the aggregations as one more.
    pub(super) fn query_rows<'a>(&mut self, memory: &'a mut SearchMemory, answer: &Answer<'_>) -> Next<'a> {
        let keyed = self.collection(memory).keyed;
        for hit in hits(answer)? {
            let row = member(hit, "_source").or_else(|| member(hit, "fields")).unwrap_or(b"{}");
            let id = member_text(hit, "_id").unwrap_or_default();
            memory.found.add(&id, decode(Body::Json, keyed, row, &mut self.scratch)?);
        }
        if memory.found.documents() >= memory.left {
            return Err(refused(format!(
                "the query found {MOST_ROWS} documents, the most that one search returns, and there may be more; narrow it \
                 down, or give it a `size` if that many are enough"
            )));
        }
        if let Some(groups) = member(answer.body, "aggregations") {
            memory.found.add("", groups);
        }
        Ok(Some(memory.found.reply()))
    }
}

impl Server {
    /// Runs a query once.
    pub(super) async fn try_query(&self, index: &str, text: &str, values: Batch<'_>) -> Result<(), StoreError> {
        let search = template(text, values).map_err(not_supported)?.0.filled(values)?;
        let path = path(index, "_search?allow_partial_search_results=false");
        self.done(Method::POST, &path, Some(&search), "try a query").await.map(drop).map_err(refused_by_server)
    }

    /// The query of Lucene that a query becomes.
    pub(super) async fn plan(&self, index: &str, text: &str, values: Batch<'_>) -> Result<Explanation, StoreError> {
        let search = template(text, values).map_err(not_supported)?.0.filled(values)?;
        let query = search.get("query").cloned().unwrap_or_else(|| json!({ "match_all": {} }));
        let path = path(index, "_validate/query?explain=true");
        let told = self.done(Method::POST, &path, Some(&json!({ "query": query })), "explain a query").await?;
        let plan = told["explanations"][0]["explanation"].as_str().unwrap_or("not told").to_owned();
        Ok(Explanation { full_scan: plan.ends_with("*:*") && !plan.contains(' '), plan })
    }

    /// Maps fields for queries, which are then indexed as documents are written. Returns false if an index of this name
    /// did so before.
    pub(super) async fn map_for_queries(&self, index: &str, name: &str, text: &str) -> Result<bool, StoreError> {
        let fields: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| StoreError::NotSupported(format!("an index is a table of fields: {error}")))?;
        let found = self.indexes(index, "").await?.unwrap_or_default();
        let meta = found.get(index).and_then(|told| told["mappings"]["_meta"].as_object());
        let mut meta = meta.cloned().unwrap_or_default();
        if meta.contains_key(name) {
            return Ok(false);
        }
        if self.has_documents(index).await? {
            return Err(StoreError::NotSupported(format!(
                "`{index}` has documents, which queries would not find by a field that is mapped now; load it again"
            )));
        }
        meta.insert(name.to_owned(), text.into());
        let mapping = json!({ "properties": fields, "_meta": meta });
        // Only Storebench's indexes have this alias.
        self.map(&documents_of(index), &mapping).await.map_err(refused_by_server)?;
        Ok(true)
    }
}
