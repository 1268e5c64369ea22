//! The commands of operations: <https://www.mongodb.com/docs/manual/reference/command/>.

use storebench_engine::store::{Acknowledged, Durability, OpError, Persisted, ReadConsistency, SessionOptions};
use storebench_study::workload::Body;

use super::bson::{self, ARRAY, DOCUMENT};
use super::encode::{self, EXPIRY, KEY, REVISION};
use super::study_queries;
use super::wire;
use crate::document::counter;
use crate::refusals::refused;

/// The type of a collection's keys in MongoDB. Storebench writes text; other programs may use other types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    Text,
    ObjectId,
    Integer,
}

/// What operations need to know about a collection.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    pub(super) name: String,
    pub(super) database: String,
    pub(super) body: Body,
    pub(super) keys: KeyKind,
    /// Whether another program made it. Its documents hold only what the user stores, without a revision.
    pub(super) theirs: bool,
    /// Whether its keys are text that is ordered by a collation instead of by bytes.
    pub(super) collated: bool,
}

/// The final members of commands. They are the same for all operations of a session, except for the database.
#[derive(Debug, Clone, Default)]
pub(super) struct Tails {
    pub(super) write: Vec<u8>,
    read: Vec<u8>,
    /// Of a request for more of a query's documents.
    more: Vec<u8>,
}

impl Tails {
    /// Builds them from the options. The caller checks the durability.
    pub(super) fn of(options: &SessionOptions, read_concern: Option<&str>, router_or_set: bool) -> Self {
        let mut tails = Self::default();
        bson::nested(&mut tails.write, DOCUMENT, "writeConcern", |out| write_concern(options, out));
        if let Some(level) = read_concern {
            bson::nested(&mut tails.read, DOCUMENT, "readConcern", |out| bson::text(out, "level", level));
        }
        if router_or_set && options.consistency == ReadConsistency::StaleOk {
            let mode = "secondaryPreferred";
            bson::nested(&mut tails.read, DOCUMENT, "$readPreference", |out| bson::text(out, "mode", mode));
        }
        tails
    }

    /// Those of a step of a transaction: the members by which the server knows it and, in its first step, what begins it.
    pub(super) fn in_transaction(mark: &dyn Fn(&mut Vec<u8>), first: bool) -> Self {
        let mut tails = Self::default();
        mark(&mut tails.more);
        mark(&mut tails.read);
        if first {
            bson::boolean(&mut tails.read, "startTransaction", true);
            bson::nested(&mut tails.read, DOCUMENT, "readConcern", |out| bson::text(out, "level", "snapshot"));
        }
        tails.write.clone_from(&tails.read);
        tails
    }
}

fn write_concern(options: &SessionOptions, out: &mut Vec<u8>) {
    let Durability { acknowledged_by, persisted, .. } = options.durability;
    match acknowledged_by {
        Acknowledged::Nodes(nodes) => bson::int32(out, "w", i32::try_from(nodes).unwrap_or(i32::MAX)),
        Acknowledged::Majority => bson::text(out, "w", "majority"),
    }
    bson::boolean(out, "j", persisted != Persisted::None);
    if acknowledged_by != Acknowledged::Nodes(1) {
        // Without a timeout, a write would wait forever for a lost node, and hold its connection.
        bson::int64(out, "wtimeout", i64::try_from(options.timeout.as_millis()).unwrap_or(i64::MAX).max(1));
    }
}

/// Appends a key as a value with this name.
pub(super) fn key(out: &mut Vec<u8>, name: &str, key: &str, kind: KeyKind) {
    match kind {
        KeyKind::ObjectId => {
            if let Some(id) = object_id(key) {
                bson::head(out, bson::OBJECT_ID, name);
                out.extend_from_slice(&id);
                return;
            }
        }
        KeyKind::Integer => {
            if let Ok(number) = key.parse() {
                return bson::int64(out, name, number);
            }
        }
        KeyKind::Text => {}
    }
    bson::text(out, name, key);
}

fn object_id(text: &str) -> Option<[u8; 12]> {
    if text.len() != 24 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let number = u128::from_str_radix(text, 16).ok()?;
    number.to_be_bytes().last_chunk().copied()
}

/// Appends the key of a document for another program's collection, in the type of the existing keys.
fn own_key(out: &mut Vec<u8>, text: &str, kind: KeyKind) -> Result<(), OpError> {
    let fits = match kind {
        KeyKind::Text => true,
        KeyKind::ObjectId => object_id(text).is_some(),
        KeyKind::Integer => text.parse::<i64>().is_ok_and(|number| number.to_string() == text),
    };
    if !fits {
        let what = if kind == KeyKind::ObjectId { "object ids" } else { "integers" };
        return Err(refused(format!("invalid key `{text}`: the keys (`_id`) of this collection are {what}")));
    }
    // Like most drivers, use int32 for numbers that fit.
    match text.parse::<i32>() {
        Ok(number) if kind == KeyKind::Integer => bson::int32(out, KEY, number),
        _ => key(out, KEY, text, kind),
    }
    Ok(())
}

/// Appends the members of a document: its key, its revision (in Storebench's own collections), and its body. A
/// replacement also includes the key: MongoDB would take it from the query, but nx-27017 does not.
pub(super) fn members(
    out: &mut Vec<u8>,
    collection: &Collection,
    key: &str,
    body: &[u8],
    revision: i64,
) -> Result<(), OpError> {
    if collection.theirs {
        own_key(out, key, collection.keys)?;
    } else {
        bson::text(out, KEY, key);
        bson::int64(out, REVISION, revision);
    }
    match collection.body {
        Body::Json => encode::members(body, out)?,
        Body::Bytes => bson::binary(out, "b", [body, b""]),
        Body::Counter => bson::int64(out, "n", counter(body)?),
    }
    Ok(())
}

/// Builds messages for one collection into one buffer.
pub(super) struct Builder<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) collection: &'a Collection,
    pub(super) tails: &'a Tails,
    /// Whether queries are explained instead of run.
    pub(super) explains: bool,
}

/// The document that an update applies to.
pub(super) struct Which<'a> {
    pub(super) key: &'a str,
    /// Update it only at this revision.
    pub(super) revision: Option<i64>,
    /// Create it if it does not exist.
    pub(super) upsert: bool,
}

impl Builder<'_> {
    fn message(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> Result<(), OpError>) -> Result<(), OpError> {
        let at = wire::begin(self.out);
        fill(self.out)?;
        bson::text(self.out, "$db", &self.collection.database);
        bson::end(self.out, at);
        wire::end(self.out);
        Ok(())
    }

    fn write(&mut self, name: &str, fill: impl FnOnce(&mut Vec<u8>) -> Result<(), OpError>) -> Result<(), OpError> {
        let (collection, tails) = (self.collection, self.tails);
        self.message(|out| {
            bson::text(out, name, &collection.name);
            fill(out)?;
            out.extend_from_slice(&tails.write);
            Ok(())
        })
    }

    fn query(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> Result<(), OpError>) -> Result<(), OpError> {
        let (explains, tails) = (self.explains, self.tails);
        self.message(|out| {
            if explains {
                bson::nested(out, DOCUMENT, "explain", fill)?;
                bson::text(out, "verbosity", "queryPlanner");
            } else {
                fill(out)?;
                out.extend_from_slice(&tails.read);
            }
            Ok(())
        })
    }

    pub(super) fn insert(&mut self, key: &str, body: &[u8], revision: i64) -> Result<(), OpError> {
        let collection = self.collection;
        self.write("insert", |out| one(out, "documents", |out| members(out, collection, key, body, revision)))
    }

    /// Replaces a document by the members that `fill` writes.
    pub(super) fn replace(
        &mut self,
        which: &Which<'_>,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        let keys = self.collection.keys;
        self.write("update", |out| one(out, "updates", |out| update(out, which, keys, fill)))
    }

    /// Sets when a document expires, in ms since 1970. This draws a new revision: a client that read the document
    /// before, to write it back with its expiry, must start again.
    pub(super) fn touch(&mut self, which: &Which<'_>, at_ms: i64, revision: i64) -> Result<(), OpError> {
        self.replace(which, |out| {
            bson::nested(out, DOCUMENT, "$set", |out| {
                bson::int64(out, REVISION, revision);
                bson::date(out, EXPIRY, at_ms);
            });
            Ok(())
        })
    }

    pub(super) fn increment(&mut self, key: &str, delta: i64, revision: i64) -> Result<(), OpError> {
        self.write("findAndModify", |out| {
            bson::nested(out, DOCUMENT, "query", |out| bson::text(out, KEY, key));
            bson::nested(out, DOCUMENT, "update", |out| {
                bson::nested(out, DOCUMENT, "$inc", |out| bson::int64(out, "n", delta));
                bson::nested(out, DOCUMENT, "$set", |out| bson::int64(out, REVISION, revision));
            });
            bson::boolean(out, "new", true);
            Ok(())
        })
    }

    pub(super) fn delete(&mut self, key: &str) -> Result<(), OpError> {
        let kind = self.collection.keys;
        self.write("delete", |out| {
            one(out, "deletes", |out| {
                bson::nested(out, DOCUMENT, "q", |out| self::key(out, KEY, key, kind));
                bson::int32(out, "limit", 1);
                Ok(())
            })
        })
    }

    /// Reads one document, or only whether it exists.
    pub(super) fn read(&mut self, key: &str, exists: bool) -> Result<(), OpError> {
        let collection = self.collection;
        self.query(|out| {
            bson::text(out, "find", &collection.name);
            bson::nested(out, DOCUMENT, "filter", |out| self::key(out, KEY, key, collection.keys));
            if exists {
                bson::nested(out, DOCUMENT, "projection", |out| bson::int32(out, KEY, 1));
            }
            bson::int32(out, "limit", 1);
            bson::boolean(out, "singleBatch", true);
            Ok(())
        })
    }

    /// A query, in key order if `sorted`.
    pub(super) fn find(
        &mut self,
        sorted: bool,
        limit: u32,
        filter: impl FnOnce(&mut Vec<u8>) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        let collection = self.collection;
        self.query(|out| {
            bson::text(out, "find", &collection.name);
            bson::nested(out, DOCUMENT, "filter", filter)?;
            if sorted {
                bson::nested(out, DOCUMENT, "sort", |out| bson::int32(out, KEY, 1));
            }
            bson::int64(out, "limit", i64::from(limit));
            // One more than the limit, so that the server sees the end of the query and keeps no cursor open.
            bson::int64(out, "batchSize", i64::from(limit).saturating_add(1).min(i64::from(i32::MAX)));
            Ok(())
        })
    }

    /// A query of the study, whose text has its values already.
    pub(super) fn ask(&mut self, text: &str) -> Result<(), OpError> {
        let collection = self.collection;
        self.query(|out| study_queries::command(&collection.name, text, out))
    }

    pub(super) fn more(&mut self, cursor: i64) -> Result<(), OpError> {
        let (collection, tails) = (self.collection, self.tails);
        self.message(|out| {
            bson::int64(out, "getMore", cursor);
            bson::text(out, "collection", &collection.name);
            out.extend_from_slice(&tails.more);
            Ok(())
        })
    }

    /// Begins a command whose items follow in a document sequence.
    pub(super) fn bulk(&mut self, name: &str, sequence: &str) -> usize {
        let at = wire::begin(self.out);
        bson::text(self.out, name, &self.collection.name);
        bson::boolean(self.out, "ordered", false);
        self.out.extend_from_slice(&self.tails.write);
        bson::text(self.out, "$db", &self.collection.database);
        bson::end(self.out, at);
        wire::begin_sequence(self.out, sequence)
    }
}

/// Appends the members of an update or a replacement, which `fill` writes.
pub(super) fn update(
    out: &mut Vec<u8>,
    which: &Which<'_>,
    keys: KeyKind,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), OpError>,
) -> Result<(), OpError> {
    bson::nested(out, DOCUMENT, "q", |out| {
        key(out, KEY, which.key, keys);
        if let Some(revision) = which.revision {
            bson::int64(out, REVISION, revision);
        }
    });
    bson::nested(out, DOCUMENT, "u", fill)?;
    if which.upsert {
        bson::boolean(out, "upsert", true);
    }
    Ok(())
}

/// An array of one document.
fn one(out: &mut Vec<u8>, name: &str, fill: impl FnOnce(&mut Vec<u8>) -> Result<(), OpError>) -> Result<(), OpError> {
    bson::nested(out, ARRAY, name, |out| bson::nested(out, DOCUMENT, "0", fill))
}

/// The filter of a key range: `start` inclusive, `end` exclusive.
pub(super) fn range(out: &mut Vec<u8>, start: &str, end: Option<&str>, keys: KeyKind) {
    if start.is_empty() && end.is_none() && keys != KeyKind::Text {
        return;
    }
    bson::nested(out, DOCUMENT, KEY, |out| {
        if !start.is_empty() || keys == KeyKind::Text {
            key(out, "$gte", start, keys);
        }
        if let Some(end) = end {
            key(out, "$lt", end, keys);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_others_keep_their_type() {
        let mut out = Vec::new();
        key(&mut out, "k", "0102030405060708090a0b0c", KeyKind::ObjectId);
        assert_eq!(out, b"\x07k\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c");
        for odd in ["0102", "zz02030405060708090a0b0c", "ключключключ"] {
            out.clear();
            key(&mut out, "k", odd, KeyKind::ObjectId);
            assert_eq!(out[0], bson::STRING, "{odd}");
        }
        out.clear();
        key(&mut out, "k", "-7", KeyKind::Integer);
        assert_eq!(out[0], bson::INT64);
    }
}
