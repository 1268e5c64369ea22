//! Queries of the study: commands that only read.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use storebench_documents::json;
use storebench_engine::store::{Batch, Completions, OpError, Request, StoreError, Token};
use storebench_study::workload::{COLLECTION, param_name};

use super::control::Connection;
use super::errors::op_error;
use super::request::Expect;
use super::resp::{Value, command, word_of};
use super::session::{Awaited, RedisSession};
use crate::connection::{Answers, Collection, Role, Work};
use crate::refusals::{not_supported, refused};

/// A word of a command: text, and the position of the value that follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    text: Vec<u8>,
    value: Option<usize>,
}

/// The words of a query. `{collection}` stands for the beginning of its keys.
pub(super) fn words(text: &str, values: Batch<'_>, collection: &Collection) -> Result<Vec<Word>, OpError> {
    let words: Vec<String> = serde_json::from_str(text)
        .ok()
        .filter(|words: &Vec<String>| !words.is_empty())
        .ok_or_else(|| refused("a query of Redis is a list of texts: the command and its arguments"))?;
    let of = |word: &String| {
        let (prefix, rest) = match word.strip_prefix(COLLECTION) {
            Some(rest) => (collection.prefix.clone(), rest),
            None => (Vec::new(), word.as_str()),
        };
        let named = |name: &str| values.iter().position(|(known, _)| known == name);
        match param_name(rest).and_then(named) {
            Some(position) => Word { text: prefix, value: Some(position) },
            None => Word { text: [prefix.as_slice(), rest.as_bytes()].concat(), value: None },
        }
    };
    let words: Vec<Word> = words.iter().map(of).collect();
    if words[0].value.is_some() {
        return Err(refused("the command of a query cannot be a parameter"));
    }
    Ok(words)
}

/// The value of a parameter as Redis takes it: a text without quotes, anything else as JSON.
fn plain(value: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    match value {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => inner.into(),
        [b'"', ..] => json::text(value).unwrap_or_default().into_owned().into_bytes().into(),
        other => other.into(),
    }
}

impl Word {
    fn with<'a>(&'a self, values: Batch<'a>) -> [std::borrow::Cow<'a, [u8]>; 2] {
        let value = self.value.and_then(|position| values.get(position)).map(|(_, value)| plain(value));
        [self.text.as_slice().into(), value.unwrap_or_default()]
    }
}

impl RedisSession {
    pub(super) fn ask(
        &mut self,
        request: &Request<'_>,
        (number, text, values): (u16, &str, Batch<'_>),
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        if !self.is_ready(0, out) {
            return Err(self.links[0].not_connected());
        }
        let collection = &self.collections[request.collection.position()];
        let reads = &self.dialect.reads;
        let words = self.dialect.queries.get(number, || {
            let words = words(text, values, collection)?;
            match reads.lock().unwrap_or_else(PoisonError::into_inner).contains(&words[0].text) {
                true => Ok(words),
                false => Err(refused("this command was not tried, so it is not known that it only reads")),
            }
        })?;
        let work = self.works.take(request.contents);
        self.works.get(work).pending = 1;
        let awaited = Awaited { role: Role::Rows, expect: Expect::Answer, work, ..Self::awaited(request, token) };
        let buffer = self.links[0].pipe.request(awaited, true);
        command(buffer, words.len());
        for word in words.iter() {
            let [text, value] = word.with(values);
            word_of(buffer, &[&text, &value]);
        }
        self.in_flight += 1;
        Ok(())
    }
}

/// Takes an answer: the elements of an array are rows, nil is none, and anything else is one row.
pub(super) fn answered(awaited: &Awaited, answer: &Value, work: &mut Work) {
    let all = match answer {
        Value::Error(line) => {
            work.error = Some(op_error(line.as_bytes()));
            return;
        }
        Value::Nil => &[],
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut row = Vec::new();
    for value in all {
        work.documents += 1;
        work.bytes += size(value);
        if awaited.contents {
            row.clear();
            push(value, &mut row);
            work.rows.push("", &row);
        }
    }
}

fn size(value: &Value) -> u64 {
    match value {
        Value::Simple(text) | Value::Error(text) => text.len() as u64,
        Value::Bulk(bytes) => bytes.len() as u64,
        Value::Integer(_) => 8,
        Value::Nil => 0,
        Value::Array(all) => all.iter().map(size).sum(),
    }
}

/// Appends a value as JSON. A string that is a JSON object or array is that.
fn push(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Simple(text) | Value::Error(text) => json::push_text(text, out),
        Value::Bulk(bytes)
            if bytes.starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok() =>
        {
            out.extend_from_slice(bytes);
        }
        Value::Bulk(bytes) => json::push_text(&String::from_utf8_lossy(bytes), out),
        Value::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Nil => out.extend_from_slice(b"null"),
        Value::Array(all) => {
            out.push(b'[');
            for (position, one) in all.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                push(one, out);
            }
            out.push(b']');
        }
    }
}

/// The commands that the server has said only read.
pub(super) type Reads = Arc<Mutex<HashSet<Vec<u8>>>>;

/// Tries a command, if the server says that it only reads.
pub(super) async fn try_it(
    connection: &mut Connection,
    collection: &Collection,
    text: &str,
    values: Batch<'_>,
    known_reads: &Reads,
) -> Result<(), StoreError> {
    let words = words(text, values, collection).map_err(not_supported)?;
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.with(values).concat()).collect();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let name = String::from_utf8_lossy(words[0]).into_owned();
    let told = connection.ask(&[b"COMMAND", b"INFO", words[0]]).await?;
    let reads = |flags: &Value| flags.items().iter().any(|flag| flag.text().as_deref() == Some("readonly"));
    let known = match told.items().first() {
        Some(Value::Array(facts)) => Some(facts.get(2).is_some_and(reads)),
        _ => None,
    };
    match known {
        Some(true) => {}
        Some(false) => {
            return Err(StoreError::NotSupported(format!(
                "{name} may write, but a query may only read; use a command that Redis marks as readonly, such as FCALL_RO \
                 or EVAL_RO"
            )));
        }
        None => return Err(StoreError::NotSupported(format!("this server does not know the command {name}"))),
    }
    match connection.call(&words).await? {
        Value::Error(line) => Err(StoreError::NotSupported(format!("{name}: {line}"))),
        _ => {
            known_reads.lock().unwrap_or_else(PoisonError::into_inner).insert(words[0].to_vec());
            Ok(())
        }
    }
}
