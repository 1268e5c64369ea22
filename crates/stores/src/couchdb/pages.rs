//! Pages of keys (`_all_docs`), of an indexed field (`_find`), and of a view.

use storebench_engine::store::{ErrorKind, Op, OpError, OpKind, ViewRows};

use super::dialect::{CouchDialect, decode};
use super::json;
use super::memory::{Awaits, CouchMemory};
use crate::document::prefix_end_text;
use crate::http::{Answer, Method, Next, RequestBuf, senseless, status_error};
use crate::refusals::refused;

/// Sorts after every realistic key. Without an explicit end, PouchDB omits keys after U+00FF.
const LAST: &str = "\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}";

/// A Mango query for documents whose top-level field equals a value of the same type.
pub(super) fn selector(field: &str, value: &str, limit: u32, stale: bool) -> String {
    // An unescaped dot would select a field of a nested object.
    let field = serde_json::Value::from(field.replace('\\', "\\\\").replace('.', "\\."));
    let update = if stale { r#","update":false"# } else { "" };
    format!(r#"{{"selector":{{{field}:{{"$eq":{value}}}}},"limit":{limit}{update}}}"#)
}

impl CouchDialect {
    /// Writes the first request. Returns false if the result is certainly empty.
    pub(super) fn begin_rows(
        &self,
        op: &Op<'_>,
        memory: &mut CouchMemory,
        out: &mut RequestBuf,
    ) -> Result<bool, OpError> {
        memory.awaits = Awaits::Rows;
        let collection = &self.collections[memory.collection];
        let (start, end, limit) = match *op {
            Op::Prefix { prefix, limit } => (prefix, prefix_end_text(prefix), limit),
            Op::Scan { start, end, limit } => (start, end.map(str::to_owned), limit),
            Op::Page { field, value, limit } => {
                (memory.left, memory.more.asked) = (limit, u32::MAX);
                out.begin(Method::POST).raw(&collection.path).raw("_find").only_reads();
                out.body().extend_from_slice(selector(field, value, limit, self.stale).as_bytes());
                return Ok(limit > 0);
            }
            Op::View { view, rows, skip, limit } => {
                (memory.left, memory.more.asked) = (limit, u32::MAX);
                let (design, name) = view.split_once('/').unwrap_or((view, view));
                let method = if matches!(rows, ViewRows::Keys(_)) { Method::POST } else { Method::GET };
                out.begin(method).raw(&collection.path).raw("_design/").segment(design).raw("/_view/").segment(name);
                out.raw("?reduce=false&include_docs=true&limit=").number(u64::from(limit)).only_reads();
                if skip > 0 {
                    out.raw("&skip=").number(u64::from(skip));
                }
                out.raw(if self.stale { "&update=lazy" } else { "" });
                match rows {
                    ViewRows::All => {}
                    ViewRows::Keys(keys) => {
                        let body = out.body();
                        body.extend_from_slice(b"{\"keys\":");
                        body.extend_from_slice(keys.as_bytes());
                        body.push(b'}');
                    }
                    ViewRows::Range { start, end } => {
                        for (name, bound) in [("&startkey=", start), ("&endkey=", end)] {
                            if let Some(bound) = bound {
                                out.raw(name).segment(bound);
                            }
                        }
                    }
                }
                return Ok(limit > 0);
            }
            _ => return Err(OpError::unsupported()),
        };
        // CouchDB refuses a range whose end precedes its start.
        if limit == 0 || end.as_deref().is_some_and(|end| end <= start) {
            return Ok(false);
        }
        memory.key.push_str(start);
        (memory.more.end, memory.left) = (end, limit);
        self.ask_rows(memory, out, false);
        Ok(true)
    }

    /// Requests the remaining rows. If the range includes design documents, which sort among the others, it requests
    /// as many more.
    fn ask_rows(&self, memory: &mut CouchMemory, out: &mut RequestBuf, behind_start: bool) {
        let collection = &self.collections[memory.collection];
        let end = memory.more.end.as_deref();
        let past_designs = memory.key.as_str() < "_design0" && end.is_none_or(|end| end > "_design/");
        let more = if past_designs { collection.designs } else { 0 };
        memory.more.asked = memory.left.saturating_add(more);
        out.begin(Method::GET).raw(&collection.path).raw("_all_docs?include_docs=true&limit=");
        out.number(u64::from(memory.more.asked)).raw("&startkey=").json_segment(&memory.key);
        if behind_start {
            out.raw("&skip=1");
        }
        if let Some(end) = end {
            out.raw("&inclusive_end=false&endkey=").json_segment(end);
        } else if self.pouch {
            out.raw("&endkey=").json_segment(LAST);
        }
    }

    /// Handles an answer with rows.
    pub(super) fn rows<'a>(
        &mut self,
        memory: &'a mut CouchMemory,
        answer: &Answer<'_>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        if !answer.is_success() {
            return Err(status_error(answer, false));
        }
        let rows = self.take_rows(memory, answer)?;
        // Some rows were design documents. The missing ones follow the last row.
        if rows == memory.more.asked && memory.left > 0 {
            self.ask_rows(memory, out, true);
            return Ok(None);
        }
        // A caller that reads page by page would take an empty page for the end.
        if memory.kind == Some(OpKind::View) && memory.found.documents() == 0 && rows >= memory.left.max(1) {
            return Err(OpError::new(
                ErrorKind::Temporary,
                format!("all {rows} documents of a page of the view were removed during the read"),
            ));
        }
        Ok(Some(memory.found.reply()))
    }

    /// Adds the rows of an answer. Returns how many there were.
    fn take_rows(&mut self, memory: &mut CouchMemory, answer: &Answer<'_>) -> Result<u32, OpError> {
        let wrong = || senseless(answer, false);
        let found = json::members(answer.body).find(|member| matches!(member.name, b"rows" | b"docs"));
        let found = found.filter(|member| json::is_array(member.value));
        let json::Member { name, value: rows, .. } = found.ok_or_else(wrong)?;
        let (mut count, kind) = (0, self.collections[memory.collection].body);
        let mut last = None;
        for row in json::elements(rows) {
            count += 1;
            let id = json::member(row, if name == b"rows" { "id" } else { "_id" }).ok_or_else(wrong)?;
            last = Some(id);
            let id = json::text(id).ok_or_else(wrong)?;
            if memory.left == 0 || id.starts_with("_design/") {
                continue;
            }
            let document = match name {
                b"docs" => row,
                _ => match json::member(row, "doc") {
                    Some(document) if document != b"null" => document,
                    null => match without(row, &id) {
                        Some(error) => return Err(error),
                        // For a removed document, CouchDB sends null and PouchDB omits the field.
                        None if null.is_none() && !self.pouch => return Err(wrong()),
                        None => continue,
                    },
                },
            };
            memory.left -= 1;
            // A view's row may refer to another document, which its value names.
            let own = if memory.kind == Some(OpKind::View) { json::member_text(document, "_id") } else { None };
            let body = decode(kind, document, &mut self.scratch)?;
            memory.found.add(own.as_deref().unwrap_or(&id), body);
        }
        if let Some(last) = last {
            memory.key.clear();
            memory.key.push_str(&json::text(last).ok_or_else(wrong)?);
        }
        Ok(count)
    }
}

/// The error of a row without a document. `None` if the document was removed meanwhile.
fn without(row: &[u8], id: &str) -> Option<OpError> {
    if let Some(error) = json::member_text(row, "error") {
        let why = format!("the server could not read the document of a row: {error}");
        return Some(OpError::new(ErrorKind::Temporary, why));
    }
    let value = json::member(row, "value")?;
    if let Some(other) = json::member_text(value, "_id").filter(|other| other != id) {
        let why = format!(
            "the view's row of `{id}` refers to the document `{other}`, which does not exist; omit it in the view"
        );
        return Some(refused(why));
    }
    // The document may exist at another revision.
    json::member_text(value, "_rev").map(|revision| {
        let why = format!("the document `{id}` no longer has the revision {revision} that the view's row names");
        OpError::new(ErrorKind::Temporary, why)
    })
}

/// How a page of keys is read, for `explain`.
pub(super) fn shown_range(start: &str, end: Option<&str>, limit: u32) -> String {
    let end = end.map_or_else(String::new, |end| format!(", endkey={end:?} (exclusive)"));
    format!("_all_docs: the primary B-tree from startkey={start:?}{end}, limit={limit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_its_document_is_wrong_unless_that_is_gone() {
        let kind = |row: &str| without(row.as_bytes(), "a").map(|error| error.kind);
        assert_eq!(kind(r#"{"id":"a","key":1,"value":{"rev":"1-a"},"doc":null}"#), None);
        assert_eq!(kind(r#"{"id":"a","key":1,"value":{"n":1},"doc":null}"#), None);
        assert_eq!(kind(r#"{"id":"a","key":1,"value":{"_id":"a"}}"#), None);
        assert_eq!(kind(r#"{"id":"a","key":1,"value":{"_id":"b"},"doc":null}"#), Some(ErrorKind::Refused));
        assert_eq!(kind(r#"{"id":"a","value":{"_id":"a","_rev":"1-a"},"doc":null}"#), Some(ErrorKind::Temporary));
        assert_eq!(kind(r#"{"id":"error","key":1,"value":{},"error":"timeout"}"#), Some(ErrorKind::Temporary));
    }

    #[test]
    fn a_field_with_a_dot_is_one_field() {
        let text = selector("a.b", "\"x\"", 3, false);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["selector"]["a\\.b"]["$eq"], "x");
        assert_eq!(value["limit"], 3);
    }
}
