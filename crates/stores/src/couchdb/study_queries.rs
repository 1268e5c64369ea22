//! Queries of the study: `_find` with a selector.

use serde_json::Value;
use storebench_engine::store::{Batch, OpError};

use super::dialect::{CouchDialect, fault};
use super::json;
use super::memory::{Awaits, CouchMemory};
use crate::http::{Answer, Method, Next, RequestBuf, senseless};
use crate::refusals::refused;
use crate::study_queries::{Template, only_member};

/// CouchDB returns 25 rows if a query has no limit. This is the most that it accepts.
const NO_LIMIT: u64 = 1 << 28;

/// The body of a query's requests.
pub(super) fn template(text: &str, values: Batch<'_>, stale: bool) -> Result<Template, OpError> {
    let (_, mut find) = only_member(text, &["find"], "CouchDB")?;
    let Value::Object(members) = &mut find else {
        return Err(refused("write the query as { find = { selector = { … } } }"));
    };
    members.entry("limit").or_insert(NO_LIMIT.into());
    if stale {
        members.entry("update").or_insert(false.into());
    }
    Ok(Template::of(&find, values))
}

impl CouchDialect {
    pub(super) fn ask(
        &mut self,
        number: u16,
        text: &str,
        values: Batch<'_>,
        memory: &mut CouchMemory,
        out: &mut RequestBuf,
    ) -> Result<(), OpError> {
        let stale = self.stale;
        let template = self.queries.get(number, || template(text, values, stale))?;
        memory.awaits = Awaits::Answer;
        out.begin(Method::POST).raw(&self.collections[memory.collection].path).raw("_find").only_reads();
        template.write(values, out.body());
        Ok(())
    }
}

/// Adds the rows of an answer.
pub(super) fn answered<'a>(memory: &'a mut CouchMemory, answer: &Answer<'_>, pouch: bool) -> Next<'a> {
    if !answer.is_success() {
        return Err(match fault(answer, false) {
            // PouchDB calls a query that it does not understand its own fault.
            error if answer.status == 500 && pouch => refused(error.message),
            error => error,
        });
    }
    let rows = json::member(answer.body, "docs").filter(|rows| json::is_array(rows));
    for row in json::elements(rows.ok_or_else(|| senseless(answer, false))?) {
        let id = json::member_text(row, "_id");
        memory.found.add(id.as_deref().unwrap_or_default(), row);
    }
    Ok(Some(memory.found.reply()))
}
