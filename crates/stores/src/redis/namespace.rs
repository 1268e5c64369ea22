//! What is in the database: whose it is, making it ready and removing what is ours.
//!
//! The marker is a hash under `PREFIX:marker`. It says whether Storebench found the database empty,
//! and names the collections that Storebench made, with their owners. A document is a string under
//! `PREFIX:COLLECTION:KEY`; the order of a collection, where it is kept, a sorted set under
//! `PREFIX:COLLECTION/order`. A collection's name has neither `:` nor `/`, so that no key is two things.

use storebench_engine::store::{CollectionLayout, Holdings, Layout, Made, Making, Marked, Removal, Site, StoreError};
use storebench_study::workload::Body;

use super::control::Connection;
use super::reach::Reached;
use super::resp::{self, Value};
use super::settings::Settings;

/// Keys looked at or removed in one request.
const PAGE: u32 = 1_000;

/// Writes marks, where they are what they were: ARGV has whether the marker is new, `made`, and for each collection
/// its field, its mark before (empty for none) and its mark.
const MARK: &str = "local key = KEYS[1]
if redis.call('HLEN', key) > 0 and ARGV[1] == 'new' then return 0 end
for i = 3, #ARGV, 3 do
  if (redis.call('HGET', key, ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
end
redis.call('HSET', key, 'made', ARGV[2])
for i = 3, #ARGV, 3 do redis.call('HSET', key, ARGV[i], ARGV[i + 2]) end
return 1";

/// Removes marks, and the marker with the last of them.
const UNMARK: &str = "for i = 1, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
local left = redis.call('HKEYS', KEYS[1])
for i = 1, #left do if string.sub(left[i], 1, 11) == 'collection:' then return 1 end end
return redis.call('DEL', KEYS[1])";

/// A collection as sessions use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collection {
    pub(super) body: Body,
    /// What the keys of its documents begin with.
    pub(super) prefix: Vec<u8>,
    /// The sorted set of its keys, where there is one.
    pub(super) order: Option<Vec<u8>>,
    /// Whether its keys are somebody else's, who may keep other things than strings beside.
    pub(super) theirs: bool,
}

/// The collections of a layout; those that Storebench only reads are where their owner put them.
pub(super) fn collections(settings: &Settings, layout: &Layout) -> Vec<Collection> {
    let collection = |c: &CollectionLayout| match &c.existing {
        Some(existing) => {
            Collection { body: c.body, prefix: existing.name.clone().into_bytes(), order: None, theirs: true }
        }
        None => Collection {
            body: c.body,
            prefix: format!("{}:{}:", settings.prefix, c.name).into_bytes(),
            order: settings.ordered.then(|| format!("{}:{}/order", settings.prefix, c.name).into_bytes()),
            theirs: false,
        },
    };
    layout.collections.iter().map(collection).collect()
}

/// A database, by the keys with the prefix in it.
pub(super) struct Prefix<'r> {
    pub(super) reached: &'r mut Reached,
    pub(super) settings: &'r Settings,
}

impl Site for Prefix<'_> {
    const ANOTHER: &'static str = "another database or another prefix=";

    fn shown(&self) -> String {
        self.settings.address.shown.clone()
    }

    fn form(&self, body: Body) -> String {
        if self.settings.ordered { format!("{} ordered", body.name()) } else { body.name().to_owned() }
    }

    fn check(&self, layout: &Layout) -> Result<(), StoreError> {
        match layout.collections.iter().find(|collection| !collection.indexes.is_empty()) {
            None => Ok(()),
            Some(collection) => Err(StoreError::NotSupported(format!(
                "Redis has no secondary indexes, and the study wants one on `{}`; leave it out",
                collection.name
            ))),
        }
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let mut found = self.marker().await?;
        if found.made == Some(true) {
            return Ok(found);
        }
        let mut keys = 0;
        let mut alive = false;
        for node in self.reached.each() {
            let count = node.number(&[b"DBSIZE"]).await?;
            keys += count;
            // Keys that have expired are counted until somebody looks for them.
            alive = alive || count > 0 && node.ask(&[b"RANDOMKEY"]).await? != Value::Nil;
        }
        let place = match &self.reached.map {
            Some(_) => "a cluster".to_owned(),
            None => format!("database {}", self.settings.database),
        };
        found.absent = found.made.is_none() && !alive;
        if found.made.is_some() {
            found.foreign = Some(format!(
                "{place} with {keys} keys, of which {} collections are Storebench's and the others were there before",
                found.marked.len()
            ));
        } else if alive {
            found.foreign = Some(format!("{place} with {keys} keys and no marker `{}:marker`", self.settings.prefix));
        }
        Ok(found)
    }

    /// Keys of these collections, which exist though Storebench did not make them.
    async fn taken(&mut self, found: &Holdings, names: &[&str]) -> Result<Option<String>, StoreError> {
        if found.foreign.is_none() || names.is_empty() {
            return Ok(None);
        }
        let mut taken = None;
        let settings = self.settings;
        self.each_page(async |_, keys| {
            let of_new = keys.iter().filter_map(|key| collection_of(settings, key)).find(|name| names.contains(name));
            taken = taken.take().or(of_new.map(|name| format!("keys that begin with `{}:{name}`", settings.prefix)));
            Ok(())
        })
        .await?;
        Ok(taken)
    }

    async fn make(&mut self, making: &Making<'_>) -> Result<Made, StoreError> {
        let key = self.marker_key();
        let state: &[u8] = if making.first { b"new" } else { b"there" };
        let made: &[u8] = if making.made { b"alone" } else { b"beside" };
        let marks: Vec<_> = making.collections.iter().filter(|planned| planned.marks()).collect();
        let fields: Vec<String> = marks.iter().map(|planned| field(planned.name())).collect();
        let mut words: Vec<&[u8]> = vec![b"EVAL", MARK.as_bytes(), b"1", &key, state, made];
        for (field, planned) in fields.iter().zip(&marks) {
            let before = planned.before.as_deref().unwrap_or_default();
            words.extend([field.as_bytes(), before.as_bytes(), planned.mark.as_bytes()]);
        }
        let node = self.reached.node_of(&key);
        match node.call(&words).await? {
            Value::Error(line) if line.contains("WRONGTYPE") => Err(StoreError::NotOurs(format!(
                "{} has something else under `{}`, which Storebench did not make; nothing was touched. Use {}",
                self.shown(),
                String::from_utf8_lossy(&key),
                Self::ANOTHER
            ))),
            // Asked again for the usual error.
            Value::Error(_) => node.ask(&words).await.map(|_| Made::Changed),
            value => Ok(if value.number() == Some(1) { Made::Done } else { Made::Changed }),
        }
    }

    /// The marks go last.
    async fn unmake(&mut self, removal: &Removal) -> Result<(), StoreError> {
        let settings = self.settings;
        let ours =
            |key: &&Vec<u8>| collection_of(settings, key).is_some_and(|name| removal.going.iter().any(|g| g == name));
        self.each_page(async |node, keys| {
            let mut requests = Vec::new();
            let mut count = 0;
            for key in keys.iter().filter(ours) {
                resp::command(&mut requests, 2);
                resp::word(&mut requests, b"UNLINK");
                resp::word(&mut requests, key);
                count += 1;
            }
            if count > 0 { node.ask_all(&requests, count).await.map(drop) } else { Ok(()) }
        })
        .await?;
        let key = self.marker_key();
        let fields: Vec<String> = removal.going.iter().map(|name| field(name)).collect();
        let mut words: Vec<&[u8]> = vec![b"EVAL", UNMARK.as_bytes(), b"1", &key];
        words.extend(fields.iter().map(String::as_bytes));
        self.reached.node_of(&key).ask(&words).await.map(drop)
    }
}

/// The marker's field of a collection.
fn field(collection: &str) -> String {
    format!("collection:{collection}")
}

impl Prefix<'_> {
    fn marker_key(&self) -> Vec<u8> {
        format!("{}:marker", self.settings.prefix).into_bytes()
    }

    /// What the marker says. Something else under its key is none.
    pub(super) async fn marker(&mut self) -> Result<Holdings, StoreError> {
        let key = self.marker_key();
        let node = self.reached.node_of(&key);
        let mut found = Holdings::default();
        let Value::Array(parts) = (match node.call(&[b"HGETALL", &key]).await? {
            Value::Error(line) if line.starts_with("WRONGTYPE") => return Ok(found),
            // Asked again for the usual error.
            Value::Error(_) => node.ask(&[b"HGETALL", &key]).await?,
            value => value,
        }) else {
            return Ok(found);
        };
        for pair in parts.chunks_exact(2) {
            found.made = found.made.or(Some(false));
            let [Some(name), Some(value)] = [pair[0].text(), pair[1].text()] else { continue };
            match name.strip_prefix("collection:") {
                Some(collection) => found.marked.push(Marked::new(collection, value)),
                None if name == "made" => found.made = Some(value == "alone"),
                None => {}
            }
        }
        Ok(found)
    }

    /// Does something with every page of keys with the prefix, on each node.
    async fn each_page(
        &mut self,
        mut each: impl AsyncFnMut(&mut Connection, Vec<Vec<u8>>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let pattern = format!("{}:*", self.settings.prefix);
        for node in self.reached.each() {
            let mut cursor = 0;
            loop {
                let (next, keys) = node.scan(cursor, pattern.as_bytes(), PAGE, false).await?;
                each(node, keys).await?;
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Refuses to take for somebody else's what Storebench made: its order would miss what is written.
    pub(super) async fn refuse_ours(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let made = self.marker().await?.marked;
        for existing in layout.collections.iter().filter_map(|c| c.existing.as_ref()) {
            let within = |marked: &&Marked| {
                let ours = format!("{}:{}", self.settings.prefix, marked.name);
                ours.starts_with(&existing.name) || existing.name.starts_with(&ours)
            };
            if let Some(marked) = made.iter().find(within) {
                return Err(StoreError::NotSupported(format!(
                    "{}: keys that begin with `{}` may be those of the collection `{}`, which Storebench made; leave \
                     --into-existing out and name the collection",
                    self.shown(),
                    existing.name,
                    marked.name
                )));
            }
        }
        Ok(())
    }
}

/// The collection that a key of ours belongs to.
fn collection_of<'k>(settings: &Settings, key: &'k [u8]) -> Option<&'k str> {
    let rest = key.strip_prefix(settings.prefix.as_bytes())?.strip_prefix(b":")?;
    let end = rest.iter().position(|byte| b":/".contains(byte))?;
    if rest[end] == b'/' && &rest[end..] != b"/order" {
        return None;
    }
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Options;

    #[test]
    fn a_key_belongs_to_one_collection_or_none() {
        let settings = Settings::read("redis://h?prefix=sb", &mut Options::for_test("prefix=sb")).unwrap();
        for (key, expected) in [
            ("sb:a:1", Some("a")),
            ("sb:a:b:c/order", Some("a")),
            ("sb:a/order", Some("a")),
            ("sb:a/other", None),
            ("sb:marker", None),
            ("sb2:a:1", None),
            ("a", None),
        ] {
            assert_eq!(collection_of(&settings, key.as_bytes()), expected, "{key}");
        }
    }
}
