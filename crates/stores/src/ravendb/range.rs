//! Pages by key prefix and key range.
//!
//! RavenDB returns documents in the order of their ids with `startsWith`, and continues after a document with
//! `startAfter`. If that document does not exist, RavenDB 4.1 also skips the next one (measured). So a scan from a key
//! begins with `startsWith` of that key, which finds it exactly, and continues after a document that was found. If no
//! id begins with the key, the scan looks for the next document by the prefixes of ids that sort after it, the longest
//! first.

use std::io::Write as _;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use storebench_engine::store::OpError;

use super::dialect::{Raven, RavenMemory, Task};
use super::errors::{GARBLED, op_error};
use super::json;
use super::names::id_characters;
use super::target::Collection;
use crate::http::{Answer, Method, Next, RequestBuf};
use crate::refusals::refused;

/// The state of a range between its requests.
#[derive(Debug, Default)]
pub(super) struct Range {
    step: Part,
    /// All ids of the range begin with this.
    within: String,
    /// The ids looked for begin with this ([`Part::From`], [`Part::Find`]).
    from: String,
    /// The last id that was found.
    last: String,
    /// The end of a scan, exclusive.
    end: Option<String>,
    /// The prefix of a prefix page in another program's collection.
    prefix: Option<String>,
    limit: u32,
    asked: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Part {
    /// Ids that begin with `from`.
    #[default]
    From,
    /// Ids in the range after `last`.
    Behind,
    /// The first id after all those that begin with this many bytes of `from` and its next byte.
    Find(usize),
}

impl Raven {
    pub(super) fn start_prefix<'a>(
        &self,
        prefix: &str,
        limit: u32,
        collection: &Collection,
        state: &'a mut RavenMemory,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let range = &mut state.range;
        collection.naming.id_prefix(prefix, &mut range.within);
        range.from.clone_from(&range.within);
        range.end = None;
        range.prefix = (!collection.naming.ours).then(|| prefix.to_owned());
        self.start_range(limit, state, out)
    }

    pub(super) fn start_scan<'a>(
        &self,
        start: &str,
        end: Option<&str>,
        limit: u32,
        collection: &Collection,
        state: &'a mut RavenMemory,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        if !collection.naming.ours {
            return Err(refused(
                "RavenDB orders ids by their lower-case form, so documents that Storebench did not make cannot \
                 be scanned in key order; use prefix",
            ));
        }
        let range = &mut state.range;
        collection.naming.id_prefix("", &mut range.within);
        collection.naming.id_prefix(start, &mut range.from);
        range.end = end.map(str::to_owned);
        range.prefix = None;
        if end.is_some_and(|end| end <= start) {
            return Ok(Some(state.found.reply()));
        }
        self.start_range(limit, state, out)
    }

    fn start_range<'a>(&self, limit: u32, state: &'a mut RavenMemory, out: &mut RequestBuf) -> Next<'a> {
        state.task = Task::Range;
        state.range.limit = limit.min(i32::MAX as u32);
        state.range.step = Part::From;
        if limit == 0 {
            return Ok(Some(state.found.reply()));
        }
        self.ask_range(state, out)?;
        Ok(None)
    }

    fn ask_range(&self, state: &mut RavenMemory, out: &mut RequestBuf) -> Result<(), OpError> {
        let range = &mut state.range;
        range.asked = range.limit.saturating_sub(state.found.documents());
        match range.step {
            Part::From | Part::Behind => {
                let begin = if range.step == Part::From { &range.from } else { &range.within };
                out.begin(Method::GET).raw(&self.target.path).raw("/docs?startsWith=").segment(begin);
                if range.step == Part::Behind {
                    out.raw("&startAfter=").segment(&range.last);
                }
                out.raw("&pageSize=").number(u64::from(range.asked));
            }
            Part::Find(length) => {
                let body = out.begin(Method::POST).only_reads().raw(&self.target.path).raw("/multi_get").body();
                body.extend_from_slice(b"{\"Requests\":[");
                let mut comma = "";
                for next in range.behind(length) {
                    let start = utf8_percent_encode(&next, NON_ALPHANUMERIC);
                    write!(
                        body,
                        "{comma}{{\"Url\":\"{}/docs\",\"Query\":\"?startsWith={start}&pageSize=1&metadataOnly=true\",\
                         \"Method\":\"GET\"}}",
                        self.target.path
                    )
                    .map_err(|_| GARBLED)?;
                    comma = ",";
                }
                body.extend_from_slice(b"]}");
            }
        }
        Ok(())
    }

    pub(super) fn answer_range<'a>(
        &self,
        state: &'a mut RavenMemory,
        answer: &Answer<'a>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        if answer.status != 200 {
            return Err(op_error(answer, false));
        }
        if let Part::Find(length) = state.range.step {
            match found(answer.body).ok_or(GARBLED)? {
                // Everything from that id on.
                Some(id) => {
                    if !id.starts_with(&state.range.within) {
                        return Err(GARBLED);
                    }
                    state.range.from = id;
                    state.range.step = Part::From;
                }
                None if !state.range.find_before(length) => return Ok(Some(state.found.reply())),
                None => {}
            }
            self.ask_range(state, out)?;
            return Ok(None);
        }
        let collection = &self.target.collections[state.collection];
        let mut walk = json::results(answer.body).ok_or(GARBLED)?;
        let mut rows = 0;
        while walk.element().ok_or(GARBLED)? {
            let document = json::document(&mut walk).ok_or(GARBLED)?;
            let id = document.meta("@id").ok_or(GARBLED)?;
            rows += 1;
            state.range.last.clear();
            state.range.last.push_str(&id);
            let foreign = state.range.prefix.as_ref().is_some_and(|prefix| !id.starts_with(prefix.as_str()));
            if foreign || !collection.naming.key(&id, &mut state.key) {
                continue;
            }
            if state.range.end.as_ref().is_some_and(|end| state.key.as_slice() >= end.as_bytes()) {
                return Ok(Some(state.found.reply()));
            }
            if state.found.documents() < state.range.limit {
                state.take_row(collection, &document)?;
            }
        }
        let complete = state.range.from == state.range.within || state.range.step == Part::Behind;
        if state.found.documents() >= state.range.limit || (complete && rows < state.range.asked) {
            return Ok(Some(state.found.reply()));
        }
        if rows > 0 {
            state.range.step = Part::Behind;
        } else {
            // Only if a range begins between documents. Then `from` is longer than `within`.
            let length = state.range.from.len();
            if !state.range.find_before(length) {
                return Ok(Some(state.found.reply()));
            }
        }
        self.ask_range(state, out)?;
        Ok(None)
    }
}

impl Range {
    /// Looks after one byte less of `from` than before. Returns false if nothing is left.
    fn find_before(&mut self, mut length: usize) -> bool {
        while length > self.within.len() {
            length -= 1;
            self.step = Part::Find(length);
            if self.behind(length).next().is_some() {
                return true;
            }
        }
        false
    }

    /// Prefixes of the ids that sort after those with this many bytes of `from` and its next byte.
    fn behind(&self, length: usize) -> impl Iterator<Item = String> + '_ {
        let (common, rest) = self.from.split_at_checked(length).unwrap_or((&self.from, ""));
        let next = rest.chars().next().unwrap_or(char::MAX);
        id_characters().filter(move |c| *c > next).map(move |c| format!("{common}{c}"))
    }
}

/// The first id in the answers of a `multi_get`. `Some(None)` if all of them are empty.
fn found(body: &[u8]) -> Option<Option<String>> {
    let mut walk = json::results(body)?;
    while walk.element()? {
        let answer = walk.value()?;
        let mut inner = json::results(json::member(answer, "Result")?)?;
        if inner.element()? {
            return Some(Some(json::document(&mut inner)?.meta("@id")?.into_owned()));
        }
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_a_key_is_looked_for_byte_by_byte() {
        let mut range = Range { within: "c/".into(), from: "c/x~".into(), ..Range::default() };
        assert!(range.find_before(4));
        // Nothing sorts after `~`.
        assert_eq!(range.step, Part::Find(2));
        assert_eq!(range.behind(2).collect::<Vec<_>>(), ["c/y", "c/z", "c/{", "c/|", "c/}", "c/~"]);
        assert!(!range.find_before(2));
    }

    #[test]
    fn the_first_answer_that_is_not_empty_counts() {
        let body = br#"{"Results":[{"Result":{"Results":[]},"StatusCode":200},{"Result":{"Results":[{"@metadata":{"@id":"c/y1"}}]},"StatusCode":200}]}"#;
        assert_eq!(found(body), Some(Some("c/y1".to_owned())));
        assert_eq!(found(br#"{"Results":[]}"#), Some(None));
        assert_eq!(found(br#"{"Results":[{"StatusCode":400"Result":{"Error":"no"}}]}"#), None);
    }
}
