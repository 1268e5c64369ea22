//! Queries of the study, in RQL.

use serde_json::Value;
use storebench_engine::store::{Batch, ErrorKind, Explanation, OpError, StoreError};
use storebench_study::workload::COLLECTION;

use super::dialect::{Raven, RavenMemory, Task};
use super::errors::{GARBLED, op_error};
use super::json;
use super::server::Server;
use super::target::Collection;
use crate::http::{Answer, Method, Next, RequestBuf};
use crate::refusals::{not_supported, refused, refused_by_server};
use crate::study_queries::Template;

/// The body of a query's requests. `wait` makes it wait for its index.
pub(super) fn template(
    collection: &Collection,
    text: &str,
    values: Batch<'_>,
    may_index: bool,
    wait: &str,
) -> Result<Template, OpError> {
    let text = text.replace(COLLECTION, &format!("'{}'", collection.name));
    let words: Vec<String> = text.split_whitespace().take(2).map(str::to_ascii_lowercase).collect();
    if !may_index && words != ["from", "index"] {
        return Err(refused(
            "RavenDB creates an index for a query that names none, but nothing may be changed here; begin the query \
             with: from index 'NAME'",
        ));
    }
    let mut template = Template::default();
    template.text(&format!("{{\"Query\":{},\"QueryParameters\":{{", Value::from(text)));
    for (position, (name, _)) in values.iter().enumerate() {
        template.text(&format!("{}\"{name}\":", if position == 0 { "" } else { "," }));
        template.value(position);
    }
    template.text(&format!("}}{wait}}}"));
    Ok(template)
}

impl Raven {
    pub(super) fn ask(
        &mut self,
        number: u16,
        text: &str,
        values: Batch<'_>,
        collection: &Collection,
        state: &mut RavenMemory,
        out: &mut RequestBuf,
    ) -> Result<(), OpError> {
        let (may_index, wait) = (self.target.may_index(), &self.wait);
        let template = self.queries.get(number, || template(collection, text, values, may_index, wait))?;
        state.task = Task::Answer;
        let body = out.begin(Method::POST).only_reads().raw(&self.target.path).raw("/queries").body();
        template.write(values, body);
        Ok(())
    }

    pub(super) fn answer_asked<'a>(&self, state: &'a mut RavenMemory, answer: &Answer<'a>) -> Next<'a> {
        if answer.status != 200 {
            let error = op_error(answer, false);
            let kind = match (answer.status, error.kind) {
                // The index is gone.
                (404, _) => ErrorKind::Failed,
                // RavenDB reports a query that it does not understand as its own fault.
                (500, ErrorKind::Failed) => ErrorKind::Refused,
                (_, kind) => kind,
            };
            return Err(OpError::new(kind, error.message));
        }
        let collection = &self.target.collections[state.collection];
        let mut walk = json::results(answer.body).ok_or(GARBLED)?;
        while walk.element().ok_or(GARBLED)? {
            if walk.peek() != Some(b'{') {
                let row = walk.value().ok_or(GARBLED)?;
                state.found.add("", row);
                continue;
            }
            let row = json::document(&mut walk).ok_or(GARBLED)?;
            state.key.clear();
            if let Some(id) = row.meta("@id")
                && !collection.naming.key(&id, &mut state.key)
            {
                state.key.clear();
            }
            state.body.clear();
            if state.found.contents() {
                row.append_to(&mut state.body);
            }
            state.found.add_measured(&state.key, row.len() as u64, &state.body);
        }
        self.check_fresh(&mut walk)?;
        Ok(Some(state.found.reply()))
    }
}

/// Tries a query. `rest` is the path, `/queries` or `/queries?debug=explain`, which does not run it.
pub(super) async fn post(
    server: &Server,
    collection: &Collection,
    rest: &str,
    (text, values): (&str, Batch<'_>),
    may_index: bool,
) -> Result<Value, StoreError> {
    let body = template(collection, text, values, may_index, "").map_err(not_supported)?.filled(values)?;
    let told = server.call(Method::POST, &server.path(rest), Some(&body), "try a query").await;
    Ok(told.map_err(refused_by_server)?.json())
}

/// By which index RavenDB answers a query.
pub(super) async fn explain(
    server: &Server,
    collection: &Collection,
    asked: (&str, Batch<'_>),
    may_index: bool,
) -> Result<Explanation, StoreError> {
    let words: Vec<&str> = asked.0.split_whitespace().take(3).collect();
    if let [from, index, name] = words[..]
        && from.eq_ignore_ascii_case("from")
        && index.eq_ignore_ascii_case("index")
    {
        return Ok(Explanation { plan: format!("index {name}"), full_scan: false });
    }
    let told = post(server, collection, "/queries?debug=explain", asked, may_index).await?;
    let index = told["IndexName"].as_str();
    let full_scan = index.is_some_and(|index| index.starts_with("collection/"));
    Ok(Explanation { plan: automatic(&told), full_scan })
}

/// Which index RavenDB chooses, by its answer to `debug=explain`.
pub(super) fn automatic(told: &Value) -> String {
    match told["IndexName"].as_str().filter(|name| !name.is_empty()) {
        Some(index) => format!("automatic index {index}"),
        None => "an automatic index that RavenDB creates at the first such query".to_owned(),
    }
}
