//! Makes records from what was read.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Expiry, KEY_FIELD, Shape, members};
use crate::jq;
use crate::records::{Mark, Origin, Records};
use crate::sink::RecordOp;

/// Makes records for one thread.
pub(crate) struct Maker<'s> {
    shape: &'s Shape,
    // Borrows from the current text; empty between calls.
    found: Vec<Option<&'static RawValue>>,
    key: String,
    body: Vec<u8>,
    projected: Vec<u8>,
}

/// A record as it was read.
#[derive(Clone, Copy)]
struct Came<'a> {
    /// The record as a file would hold it: the input for jq, and what a reject shows.
    seen: &'a str,
    /// The document, unless a map replaces it.
    document: &'a str,
    /// The key, if the record is from a store.
    key: Option<&'a str>,
    origin: Origin,
}

/// The outcome of filter and map for a record.
enum Said {
    /// The record is dropped.
    Nothing,
    /// The record does not change.
    Same,
    /// The record is replaced, with this key if the new one has none.
    Another(String, Option<String>),
}

impl Maker<'_> {
    /// Adds a record from a file.
    ///
    /// # Errors
    /// Why the text is not a valid record.
    pub(crate) fn text(&mut self, json: &str, origin: Origin, into: &mut Records) -> Result<(), String> {
        self.make(Came { seen: json, document: json, key: None, origin }, into)
    }

    /// Adds a document from a store.
    ///
    /// # Errors
    /// Why the document is not a valid record.
    pub(crate) fn document(
        &mut self,
        key: &str,
        body: &[u8],
        origin: Origin,
        into: &mut Records,
    ) -> Result<(), String> {
        if self.shape.is_plain() {
            into.push(key, body, origin);
            return Ok(());
        }
        let document = std::str::from_utf8(body).map_err(|e| format!("the document is not UTF-8: {e}"))?;
        let mut seen = Cow::Borrowed(document);
        if self.shape.key.takes_out {
            let mut found = Vec::new();
            members::find(document, &self.shape.key.names, &mut found)?;
            match found[0] {
                Some(own) if members::is_text(own, key) => {}
                Some(_) if self.shape.filter.is_some() || self.shape.map.is_some() => {
                    return Err(format!(
                        "its field `{KEY_FIELD}` differs from its key, and jq expects the key there; use --key"
                    ));
                }
                Some(_) => {}
                None => {
                    let mut out = Vec::with_capacity(key.len() + document.len() + 9);
                    members::with_first(document.trim_ascii_start().as_bytes(), KEY_FIELD, key, &mut out);
                    seen = String::from_utf8(out).map_err(|e| e.to_string())?.into();
                }
            }
        }
        self.make(Came { seen: &seen, document, key: Some(key), origin }, into)
    }

    fn make(&mut self, came: Came<'_>, into: &mut Records) -> Result<(), String> {
        let said = self.shape.ask_jq(came)?;
        let (json, kept, carries) = match &said {
            Said::Nothing => {
                into.skip(came.seen.len());
                return Ok(());
            }
            Said::Same => (came.document, came.key.filter(|_| self.shape.keeps_keys), came.key.is_none()),
            Said::Another(json, key) => (json.as_str(), key.as_deref(), true),
        };
        let mut found: Vec<Option<&RawValue>> = std::mem::take(&mut self.found);
        let result = self.add(json, kept, carries, came, &mut found, into);
        found.clear();
        self.found = lengthen(found);
        result
    }

    /// Adds a record after filter and map. `kept` is its key if that is in no field. `carries` says whether the key's
    /// field is not part of the document.
    fn add<'a>(
        &mut self,
        json: &'a str,
        kept: Option<&str>,
        carries: bool,
        came: Came<'_>,
        found: &mut Vec<Option<&'a RawValue>>,
        into: &mut Records,
    ) -> Result<(), String> {
        let shape = self.shape;
        members::find(json, &shape.names, found)?;
        let carried = found.first().copied().flatten().filter(|_| carries && shape.key.takes_out);
        self.key.clear();
        match kept {
            Some(kept) if carried.is_none() => self.key.push_str(kept),
            _ => shape.key.write(found, &shape.copy, came.origin, &mut self.key)?,
        }
        if carried.is_some_and(|key| !key.get().starts_with('"')) {
            into.keys_made_text += 1;
        }
        let mark = shape.mark(found)?;
        if let Some(at) = shape.value {
            let value = value_of(found[at], &shape.names[at])?;
            into.push_shaped(&self.key, value.as_bytes(), came.origin, came.seen.as_bytes());
            into.mark(mark);
            return Ok(());
        }
        let mut document = json;
        if let Some(carried) = carried {
            self.body.clear();
            members::without(json, carried, &mut self.body);
            document = std::str::from_utf8(&self.body).map_err(|e| e.to_string())?;
        }
        if !shape.projection.is_empty() {
            self.projected.clear();
            shape.projection.apply(document, &mut self.projected)?;
            into.push_shaped(&self.key, &self.projected, came.origin, came.seen.as_bytes());
        } else if shape.map.is_some() {
            into.push_shaped(&self.key, document.as_bytes(), came.origin, came.seen.as_bytes());
        } else {
            into.push(&self.key, document.as_bytes(), came.origin);
        }
        into.mark(mark);
        Ok(())
    }
}

impl Shape {
    /// Creates a maker for one thread.
    pub(crate) fn maker(&self) -> Maker<'_> {
        Maker { shape: self, found: Vec::new(), key: String::new(), body: Vec::new(), projected: Vec::new() }
    }

    /// Asks filter and map about a record.
    fn ask_jq(&self, came: Came<'_>) -> Result<Said, String> {
        if self.filter.is_none() && self.map.is_none() {
            return Ok(Said::Same);
        }
        // jq accepts more than JSON, so check that this is JSON.
        let mut found = Vec::new();
        members::find(came.seen, &self.names, &mut found)?;
        let mut key = came.key.map(str::to_owned);
        if came.key.is_none() && self.key.takes_out {
            let mut carried = String::new();
            key = self.key.write(&found, &self.copy, came.origin, &mut carried).is_ok().then_some(carried);
        }
        let variable = || [jq::text_or_null(key.as_deref())];
        let input = jq::value(came.seen)?;
        if let Some(filter) = &self.filter
            && !filter.holds(input.clone(), variable()).map_err(|e| format!("--filter: {e}"))?
        {
            return Ok(Said::Nothing);
        }
        let Some(map) = &self.map else { return Ok(Said::Same) };
        let wrong = |e: String| format!("--map: {e}");
        let Some(made) = map.one(input, variable()).map_err(wrong)? else { return Ok(Said::Nothing) };
        if made.first() != Some(&b'{') {
            return Err(wrong("the output is not a JSON object, which a record must be".to_owned()));
        }
        let made = String::from_utf8(made).map_err(|e| wrong(e.to_string()))?;
        Ok(Said::Another(made, key.filter(|_| self.keeps_keys)))
    }

    /// The operation and expiry from the record's own fields.
    fn mark(&self, found: &[Option<&RawValue>]) -> Result<Mark, String> {
        let mut mark = Mark::default();
        if let Some(at) = self.verb {
            let name = &self.names[at];
            let json = found[at].ok_or_else(|| format!("the field `{name}`, which names the operation, is missing"))?;
            let verb =
                serde_json::from_str::<Cow<'_, str>>(json.get()).ok().and_then(|text| RecordOp::of_record(&text));
            mark.verb = Some(verb.ok_or_else(|| {
                let known: Vec<&str> = RecordOp::by_record().map(RecordOp::name).collect();
                let json: String = json.get().chars().take(60).collect();
                format!("the field `{name}` is {json}, which is not an operation; expected {}", known.join(", "))
            })?);
        }
        if let Some((json, at)) = self.expiry.and_then(|at| Some((found[at]?, at))) {
            mark.expiry = Expiry::of_json(json.get()).map_err(|e| format!("the field `{}`: {e}", self.names[at]))?;
        }
        Ok(mark)
    }
}

/// The value of a field, to be written instead of the document.
fn value_of<'a>(found: Option<&'a RawValue>, name: &str) -> Result<Cow<'a, str>, String> {
    let json = found.ok_or_else(|| format!("the field `{name}`, whose value is the document, is missing"))?.get();
    if json.starts_with('"') {
        return serde_json::from_str(json).map(Cow::Owned).map_err(|e| format!("the field `{name}`: {e}"));
    }
    Ok(Cow::Borrowed(json))
}

/// Empties a list so that it can hold borrows of any lifetime. Its memory is kept for the next text.
fn lengthen(found: Vec<Option<&RawValue>>) -> Vec<Option<&'static RawValue>> {
    found.into_iter().map(|_| None).collect()
}
