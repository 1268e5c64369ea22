//! Searches: ranges of keys, by the copy of the key in each document, and pages of an indexed field.
//!
//! A search sees only what a refresh has published. If it must see all earlier writes, a refresh comes first.

use std::borrow::Cow;

use serde_json::Value;
use storebench_documents::json::Elements;
use storebench_engine::store::{ErrorKind, Op, OpError, OpKind};

use super::dialect::{Field, NO_SOURCE, SearchDialect};
use super::errors::fault;
use super::json::{self, KEY, decode, member_text};
use super::memory::{Awaits, RowsWanted, SearchMemory};
use crate::http::{Answer, Method, Next, RequestBuf, senseless};
use crate::refusals::refused;
use crate::study_queries::key_range;

/// The most rows of one search (`index.max_result_window`).
pub(super) const MOST_ROWS: u32 = 10_000;
/// The longest text that Storebench's indexes hold, in characters: any of it is a term of at most 32,766 bytes.
pub(super) const LONGEST_TERM: usize = 8_191;

impl SearchDialect {
    /// Writes the first request. Returns false if the result is certainly empty.
    pub(super) fn begin_rows(
        &self,
        op: &Op<'_>,
        memory: &mut SearchMemory,
        out: &mut RequestBuf,
    ) -> Result<bool, OpError> {
        let collection = &self.collections[memory.collection];
        let rows = &mut memory.more;
        (rows.last, rows.end, rows.seen) = (None, None, 0);
        rows.query.clear();
        if let Op::Page { field, value, limit } = *op {
            memory.left = limit;
            rows.value =
                serde_json::from_str(value).map_err(|e| refused(format!("`{value}` is not a JSON value: {e}")))?;
            rows.query = term(&collection.fields, field, &rows.value)?;
            field.clone_into(&mut rows.field);
        } else if let Some((start, end, limit)) = key_range(op) {
            (memory.left, rows.end) = (limit, end.map(Cow::into_owned));
            rows.query.push_str(start);
        }
        if memory.kind != Some(OpKind::Page) && !collection.keyed {
            return Err(refused("the index has no copies of keys to sort by, so it cannot be read in key order"));
        }
        // The end of a range may precede its start.
        if memory.left == 0 || rows.end.as_ref().is_some_and(|end| *end <= rows.query) {
            return Ok(false);
        }
        self.begin_search(memory, out).map(|()| true)
    }

    /// Requests the rows, after a refresh if they must have all earlier writes.
    pub(super) fn begin_search(&self, memory: &mut SearchMemory, out: &mut RequestBuf) -> Result<(), OpError> {
        if !self.refreshes {
            return self.ask_rows(memory, out);
        }
        memory.awaits = Awaits::Refresh;
        out.begin(Method::POST).raw(&self.collection(memory).path).raw("_refresh").only_reads();
        Ok(())
    }

    /// Handles the answer to a refresh.
    pub(super) fn refreshed<'a>(
        &self,
        memory: &mut SearchMemory,
        answer: &Answer<'_>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        if !answer.is_success() {
            // Of a user that may not refresh, the server's words name the permission.
            return Err(fault(answer, false));
        }
        let failed = json::member(answer.body, "_shards").and_then(|shards| json::member(shards, "failed"));
        if failed != Some(b"0") {
            let why = format!("not every shard could be refreshed: {}", answer.shown());
            return Err(OpError::new(ErrorKind::Temporary, why));
        }
        self.ask_rows(memory, out)?;
        Ok(None)
    }

    /// Requests the remaining rows. A search that could not ask every shard is an error, not a part of the rows.
    fn ask_rows(&self, memory: &mut SearchMemory, out: &mut RequestBuf) -> Result<(), OpError> {
        memory.awaits = Awaits::Rows;
        let rows = &mut memory.more;
        out.begin(Method::POST).raw(&self.collections[memory.collection].path).only_reads();
        out.raw("_search?allow_partial_search_results=false");
        let body = out.body();
        if memory.kind == Some(OpKind::Query) {
            body.extend_from_slice(&memory.payload);
            return Ok(());
        }
        let page = memory.kind == Some(OpKind::Page);
        // Of a page some were left out, and the next ones may be too. The server refuses what is behind its
        // index.max_result_window.
        rows.asked = memory.left.min(MOST_ROWS).max(if page && rows.seen > 0 { 64 } else { 0 });
        let search = match page {
            true => format!(r#"{{"sort":["_doc"],"from":{},"query":{}"#, rows.seen, rows.query),
            false => range(rows),
        };
        body.extend_from_slice(format!(r#"{search},"size":{},"track_total_hits":false}}"#, rows.asked).as_bytes());
        Ok(())
    }

    /// Handles an answer with rows.
    pub(super) fn rows<'a>(
        &mut self,
        memory: &'a mut SearchMemory,
        answer: &Answer<'_>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        if !answer.is_success() {
            return Err(fault(answer, false));
        }
        if memory.kind == Some(OpKind::Query) {
            return self.query_rows(memory, answer);
        }
        let collection = &self.collections[memory.collection];
        let rows = &mut memory.more;
        let wrong = || senseless(answer, false);
        let (mut count, page) = (0, memory.kind == Some(OpKind::Page));
        for hit in hits(answer)? {
            count += 1;
            let id = member_text(hit, "_id").ok_or_else(wrong)?;
            let source = json::member(hit, "_source").ok_or(NO_SOURCE)?;
            if memory.left > 0 && (!page || matches(source, &rows.field, &rows.value)) {
                memory.left -= 1;
                memory.found.add(&id, decode(collection.body, collection.keyed, source, &mut self.scratch)?);
            }
            if !page {
                // Out of order, the next request would begin at the wrong place.
                if rows.last.as_deref().is_some_and(|last| last >= &*id) {
                    return Err(wrong());
                }
                rows.last = Some(id.into_owned());
            }
        }
        rows.seen += count;
        if memory.left > 0 && count >= rows.asked {
            self.ask_rows(memory, out)?;
            return Ok(None);
        }
        Ok(Some(memory.reply()))
    }
}

/// The hits of a search.
pub(super) fn hits<'a>(answer: &Answer<'a>) -> Result<Elements<'a>, OpError> {
    let hits = json::member(answer.body, "hits").and_then(|hits| json::member(hits, "hits"));
    Ok(json::elements(hits.filter(|hits| json::is_array(hits)).ok_or_else(|| senseless(answer, false))?))
}

/// The beginning of a search for the keys of a range that follow the last one.
fn range(rows: &RowsWanted) -> String {
    let (from, first) = match &rows.last {
        Some(last) => ("gt", last),
        None => ("gte", &rows.query),
    };
    let end = rows.end.as_ref().map_or_else(String::new, |end| format!(r#","lt":{}"#, Value::from(end.as_str())));
    let first = Value::from(first.as_str());
    format!(r#"{{"sort":["{KEY}"],"query":{{"range":{{"{KEY}":{{"{from}":{first}{end}}}}}}}"#)
}

/// The query of documents whose field has this value. Indexes hold text: they have `1` and `"1"` as the same.
pub(super) fn term(fields: &[Field], field: &str, value: &Value) -> Result<String, OpError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return Err(refused("OpenSearch finds text, numbers, true and false; it indexes no null")),
    };
    let Some(field) = fields.iter().find(|known| known.name == field) else {
        return Err(refused(format!(
            "the field `{field}` is not indexed as it is; declare an index on it, or map it as a keyword"
        )));
    };
    if text.chars().count() > field.longest {
        let (field, longest) = (&field.asked, field.longest);
        return Err(refused(format!("`{field}` indexes texts of up to {longest} characters (ignore_above)")));
    }
    Ok(format!(r#"{{"term":{{{}:{}}}}}"#, Value::from(field.asked.as_str()), Value::from(text)))
}

/// Whether the field of a document has this value.
fn matches(document: &[u8], field: &str, value: &Value) -> bool {
    let Some(found) = field_value(document, field) else { return false };
    match (value, &found) {
        (Value::Number(wanted), Value::Number(found)) => wanted == found || wanted.as_f64() == found.as_f64(),
        _ => found == *value,
    }
}

fn field_value(document: &[u8], field: &str) -> Option<Value> {
    let found = json::members(document).find(|member| {
        member.name == field.as_bytes() || storebench_documents::json::name(member.name).as_deref() == Some(field)
    })?;
    serde_json::from_slice(found.value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_matches_its_own_json_type_only() {
        let matches = |value: &str, member: &str| {
            let document = format!(r#"{{"x":0,"f\u002e":{member}}}"#);
            matches(document.as_bytes(), "f.", &serde_json::from_str(value).unwrap())
        };
        for (value, member) in [("1", "1"), ("1", "1.0"), ("\"a\"", "\"\\u0061\""), ("true", "true")] {
            assert!(matches(value, member), "{value} {member}");
        }
        for (value, member) in [("1", "\"1\""), ("\"1\"", "1"), ("true", "\"true\""), ("1", "[1]"), ("1", "tru")] {
            assert!(!matches(value, member), "{value} {member}");
        }
    }

    #[test]
    fn a_range_continues_after_its_last_key() {
        let mut rows = RowsWanted { query: "a\"".into(), end: Some("b".into()), ..RowsWanted::default() };
        let asked = |rows: &RowsWanted| serde_json::from_str::<Value>(&format!("{}}}", range(rows))).unwrap();
        assert_eq!(asked(&rows)["query"]["range"][KEY], serde_json::json!({ "gte": "a\"", "lt": "b" }));
        (rows.last, rows.end) = (Some("aa".into()), None);
        assert_eq!(asked(&rows)["query"]["range"][KEY], serde_json::json!({ "gt": "aa" }));
    }
}
