//! Pages by an indexed field.
//!
//! RavenDB's indexes hold text: a query for `"1"` also finds the number 1. So the driver checks each document found,
//! and omits those whose field is another JSON value. If that leaves too few, the query continues after them.

use std::io::Write as _;

use serde_json::Value;
use storebench_engine::store::{ErrorKind, OpError};

use super::dialect::{Raven, RavenMemory, Task};
use super::errors::{GARBLED, op_error};
use super::json::{self, Walk};
use super::target::Collection;
use crate::http::{Answer, Method, Next, RequestBuf};
use crate::refusals::refused;

/// What a page looks for, kept between its requests.
#[derive(Debug, Default)]
pub(super) struct Page {
    field: String,
    /// The value, as JSON text.
    text: String,
    value: Value,
    query: String,
    limit: u32,
    /// How many rows of the query were checked.
    seen: u64,
    /// How many rows were requested.
    asked: u64,
}

impl Page {
    /// Whether a member's text is the value. Numbers are compared by value, strings by content.
    fn matches(&self, member: &[u8]) -> bool {
        if member == self.text.as_bytes() {
            return true;
        }
        match (&self.value, member.first()) {
            (Value::String(wanted), Some(b'"')) => json::text(member).is_some_and(|text| text == *wanted),
            (Value::Number(wanted), Some(b'-' | b'0'..=b'9')) => {
                let found: Option<serde_json::Number> = serde_json::from_slice(member).ok();
                found.is_some_and(|found| found == *wanted || found.as_f64() == wanted.as_f64())
            }
            _ => false,
        }
    }
}

impl Raven {
    pub(super) fn start_page<'a>(
        &self,
        field: &str,
        value: &str,
        limit: u32,
        collection: &Collection,
        state: &mut RavenMemory,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let page = &mut state.page;
        page.value = serde_json::from_str(value).map_err(|e| refused(format!("`{value}` is not a JSON value: {e}")))?;
        if page.value.is_array() || page.value.is_object() {
            return Err(refused("the value of a page must be text, a number, true, false or null"));
        }
        page.query.clear();
        page.query.push_str(&collection.query(field, self.target.read_only || !collection.naming.ours)?);
        field.clone_into(&mut page.field);
        value.trim().clone_into(&mut page.text);
        (page.limit, page.seen) = (limit, 0);
        state.task = Task::Page;
        self.ask_page(state, out)?;
        Ok(None)
    }

    fn ask_page(&self, state: &mut RavenMemory, out: &mut RequestBuf) -> Result<(), OpError> {
        let page = &mut state.page;
        page.asked = u64::from(page.limit - state.found.documents().min(page.limit));
        if page.seen > 0 {
            // Some were omitted, and the next ones may be too.
            page.asked = page.asked.max(64);
        }
        let body = out.begin(Method::POST).only_reads().raw(&self.target.path).raw("/queries").body();
        body.extend_from_slice(b"{\"Query\":");
        json::push_text(&page.query, body);
        let written = write!(
            body,
            ",\"QueryParameters\":{{\"v\":{}}},\"Start\":{},\"PageSize\":{}{}}}",
            page.value,
            page.seen,
            page.asked.min(i32::MAX as u64),
            self.wait
        );
        written.map_err(|_| GARBLED)
    }

    pub(super) fn answer_page<'a>(
        &self,
        state: &'a mut RavenMemory,
        answer: &Answer<'a>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        match answer.status {
            200 => {}
            404 => {
                let name = &state.page.query;
                return Err(OpError::new(
                    ErrorKind::Failed,
                    format!("RavenDB no longer has the index of the query `{name}`"),
                ));
            }
            _ => return Err(op_error(answer, false)),
        }
        let collection = &self.target.collections[state.collection];
        let mut walk = json::results(answer.body).ok_or(GARBLED)?;
        let mut rows = 0;
        while walk.element().ok_or(GARBLED)? {
            let document = json::document(&mut walk).ok_or(GARBLED)?;
            rows += 1;
            if state.found.documents() < state.page.limit
                && document.member(&state.page.field).is_some_and(|member| state.page.matches(member))
            {
                state.take_row(collection, &document)?;
            }
        }
        self.check_fresh(&mut walk)?;
        state.page.seen += rows;
        if state.found.documents() < state.page.limit && rows > 0 && rows >= state.page.asked {
            self.ask_page(state, out)?;
            return Ok(None);
        }
        Ok(Some(state.found.reply()))
    }

    /// Refuses rows of an index that is behind, if the query had to wait for it. The rows are already read.
    pub(super) fn check_fresh(&self, walk: &mut Walk<'_>) -> Result<(), OpError> {
        if !self.wait.is_empty() {
            walk.seek("IsStale").ok_or(GARBLED)?;
            if walk.value() != Some(b"false") {
                return Err(OpError::new(
                    ErrorKind::Temporary,
                    "the index was still behind the writes when the wait for it timed out",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_matches_its_own_json_type_only() {
        let matches = |value: &str, member: &str| {
            let value_read = serde_json::from_str(value).unwrap();
            Page { text: value.into(), value: value_read, ..Page::default() }.matches(member.as_bytes())
        };
        for (value, member) in [("1", "1"), ("1", "1.0"), ("\"a\"", "\"\\u0061\""), ("null", "null"), ("-0.5", "-5e-1")]
        {
            assert!(matches(value, member), "{value} {member}");
        }
        for (value, member) in [
            ("1", "\"1\""),
            ("\"1\"", "1"),
            ("true", "\"true\""),
            ("\"true\"", "true"),
            ("\"ann\"", "\"ANN\""),
            ("null", "\"null\""),
            ("9007199254740993", "\"9007199254740993\""),
            ("1", "tru"),
        ] {
            assert!(!matches(value, member), "{value} {member}");
        }
    }
}
