//! Who owns the contents of the database; preparing it, and removing what Storebench created.
//!
//! The marker is a hash under `PREFIX:marker`. It says whether Storebench found the database empty, and names the
//! collections that Storebench created, with their owners. A document is a string under `PREFIX:COLLECTION:KEY`. The
//! order of a collection, if it has one, is a sorted set under `PREFIX:COLLECTION/order`. Collection names contain
//! neither `:` nor `/`, so keys are unambiguous.

use storebench_engine::store::{
    CollectionLayout, Holdings, Layout, Marked, Removal, Site, SiteOutcome, StoreError, Wanted,
};
use storebench_study::workload::Body;

use super::reach::Reached;
use super::resp::{self, Value};
use super::settings::Settings;
use crate::connection::Collection;
use crate::existing::refuse_indexes;
use crate::net;

/// The number of keys listed or removed in one request.
const PAGE: u32 = 1_000;

/// Writes marks if the previous ones have not changed. ARGV holds whether the marker is new, `made`, and for each
/// collection its field, its previous mark (empty for none) and its new mark.
const MARK: &str = "local key = KEYS[1]
if redis.call('HLEN', key) > 0 and ARGV[1] == 'new' then return 0 end
for i = 3, #ARGV, 3 do
  if (redis.call('HGET', key, ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
end
redis.call('HSET', key, 'made', ARGV[2])
for i = 3, #ARGV, 3 do redis.call('HSET', key, ARGV[i], ARGV[i + 2]) end
return 1";

/// Removes keys if the marks have not changed. The last call also removes the marks, and the marker with the last
/// mark. KEYS holds the marker and the keys. ARGV holds whether this is the last call, and for each collection its
/// field and its mark.
const UNMARK: &str = "for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1] then return 0 end
end
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
if ARGV[1] ~= 'end' then return 1 end
for i = 2, #ARGV, 2 do redis.call('HDEL', KEYS[1], ARGV[i]) end
local left = redis.call('HKEYS', KEYS[1])
for i = 1, #left do if string.sub(left[i], 1, 11) == 'collection:' then return 1 end end
redis.call('DEL', KEYS[1])
return 1";

/// A collection of a layout.
pub(super) fn collection(settings: &Settings, layout: &CollectionLayout) -> Collection {
    let mut made = Collection::of(layout, |name| format!("{}:{name}:", settings.prefix));
    if settings.ordered && !made.theirs {
        made.order = Some(format!("{}:{}/order", settings.prefix, layout.name).into_bytes());
    }
    made
}

/// The keys with the prefix in a database.
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
        refuse_indexes("Redis", layout)
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let mut found = self.marker().await?;
        if found.made == Some(true) {
            return Ok(found);
        }
        let mut keys = 0;
        let mut alive = false;
        for node in &mut self.reached.nodes {
            let count = node.number(&[b"DBSIZE"]).await?;
            keys += count;
            // DBSIZE counts expired keys until something accesses them.
            alive = alive || count > 0 && node.ask(&[b"RANDOMKEY"]).await? != Value::Nil;
        }
        let place = match &self.reached.map {
            Some(_) => "a cluster".to_owned(),
            None => format!("database {}", self.settings.database),
        };
        found.absent = found.made.is_none() && !alive;
        if found.made.is_some() {
            found.foreign = Some(format!(
                "{place} with {keys} keys; {} collections are Storebench's, and the other keys were there before",
                found.marked.len()
            ));
        } else if alive {
            found.foreign = Some(format!("{place} with {keys} keys and no marker `{}:marker`", self.settings.prefix));
        }
        Ok(found)
    }

    /// Keys of these collections that exist although Storebench did not create them.
    async fn taken(&mut self, found: &Holdings, names: &[&str]) -> Result<Option<String>, StoreError> {
        if found.foreign.is_none() || names.is_empty() {
            return Ok(None);
        }
        let mut taken = None;
        let settings = self.settings;
        self.each_page(async |_: &mut Self, _, keys| {
            let of_new = keys.iter().filter_map(|key| collection_of(settings, key)).find(|name| names.contains(name));
            taken = of_new.map(|name| format!("keys that begin with `{}:{name}`", settings.prefix));
            Ok(taken.is_none())
        })
        .await?;
        Ok(taken)
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        let planned = wanted.collections.iter().filter(|planned| planned.marks());
        let marks = planned.map(|p| (field(p.name()), p.before.as_deref().unwrap_or_default(), p.mark.as_str()));
        self.mark(wanted.first, wanted.made, &marks.collect::<Vec<_>>()).await
    }

    async fn rest(&mut self) {
        net::rest().await;
    }

    /// Removes the marks last. In a cluster, keys and marker may be on different nodes. There the marks first say that
    /// the removal is in progress, so that no copy takes the collections over meanwhile.
    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        let settings = self.settings;
        let cluster = self.reached.map.is_some();
        let removing: Removal;
        let removal = if cluster {
            let going: Vec<Marked> = removal.going.iter().map(Marked::removing).collect();
            let marks = removal.going.iter().zip(&going).map(|(was, is)| (field(&was.name), &*was.mark, &*is.mark));
            let made = self.marker().await?.made == Some(true);
            if self.mark(false, made, &marks.collect::<Vec<_>>()).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            removing = Removal { going, ..removal.clone() };
            &removing
        } else {
            removal
        };
        let mut same = true;
        self.each_page(async |prefix: &mut Self, node, mut keys| {
            keys.retain(|key| collection_of(settings, key).is_some_and(|name| removal.takes(name)));
            let elsewhere = if cluster { std::mem::take(&mut keys) } else { Vec::new() };
            same = prefix.unmark(removal, b"on", &keys).await?;
            if same && !elsewhere.is_empty() {
                let mut requests = Vec::new();
                for key in &elsewhere {
                    resp::full_command(&mut requests, &[b"UNLINK", key]);
                }
                prefix.reached.nodes[node].ask_all(&requests, elsewhere.len()).await?;
            }
            Ok(same)
        })
        .await?;
        let done = same && self.unmark(removal, b"end", &[]).await?;
        Ok(if done { SiteOutcome::Done } else { SiteOutcome::Changed })
    }
}

/// The marker's field for a collection.
fn field(collection: &str) -> String {
    format!("collection:{collection}")
}

impl Prefix<'_> {
    fn marker_key(&self) -> Vec<u8> {
        format!("{}:marker", self.settings.prefix).into_bytes()
    }

    /// Reads the marker. A value of another type under its key counts as no marker.
    pub(super) async fn marker(&mut self) -> Result<Holdings, StoreError> {
        let key = self.marker_key();
        let node = self.reached.node_of(&key);
        let mut found = Holdings::default();
        let Value::Array(parts) = (match node.call(&[b"HGETALL", &key]).await? {
            Value::Error(line) if line.starts_with("WRONGTYPE") => return Ok(found),
            // Repeat the command to get the usual error.
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

    /// Runs [`MARK`]. `marks` holds the field, the previous mark and the new mark of each collection.
    async fn mark(
        &mut self,
        first: bool,
        made: bool,
        marks: &[(String, &str, &str)],
    ) -> Result<SiteOutcome, StoreError> {
        let key = self.marker_key();
        let state: &[u8] = if first { b"new" } else { b"there" };
        let made: &[u8] = if made { b"alone" } else { b"beside" };
        let mut words: Vec<&[u8]> = vec![b"EVAL", MARK.as_bytes(), b"1", &key, state, made];
        for (field, before, mark) in marks {
            words.extend([field.as_bytes(), before.as_bytes(), mark.as_bytes()]);
        }
        let node = self.reached.node_of(&key);
        match node.call(&words).await? {
            Value::Error(line) if line.contains("WRONGTYPE") => Err(self.marker_taken(&String::from_utf8_lossy(&key))),
            // Repeat the command to get the usual error.
            Value::Error(_) => node.ask(&words).await.map(|_| SiteOutcome::Changed),
            value => Ok(if value.number() == Some(1) { SiteOutcome::Done } else { SiteOutcome::Changed }),
        }
    }

    /// Runs [`UNMARK`]. Returns false if the marks have changed.
    async fn unmark(&mut self, removal: &Removal, how: &[u8], keys: &[Vec<u8>]) -> Result<bool, StoreError> {
        let marker = self.marker_key();
        let count = (keys.len() + 1).to_string();
        let fields: Vec<String> = removal.going.iter().map(|going| field(&going.name)).collect();
        let mut words: Vec<&[u8]> = vec![b"EVAL", UNMARK.as_bytes(), count.as_bytes(), &marker];
        words.extend(keys.iter().map(Vec::as_slice));
        words.push(how);
        for (field, going) in fields.iter().zip(&removal.going) {
            words.extend([field.as_bytes(), going.mark.as_bytes()]);
        }
        Ok(self.reached.node_of(&marker).number(&words).await? == 1)
    }

    /// Calls `each` with every page of keys with the prefix, on each node, until it returns false.
    async fn each_page(
        &mut self,
        mut each: impl AsyncFnMut(&mut Self, usize, Vec<Vec<u8>>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let pattern = format!("{}:*", self.settings.prefix);
        for node in 0..self.reached.nodes.len() {
            let mut cursor = Some(0);
            while let Some(from) = cursor {
                let connection = &mut self.reached.nodes[node];
                let (next, keys) = connection.scan(from, pattern.as_bytes(), PAGE, false).await?;
                if !each(self, node, keys).await? {
                    return Ok(());
                }
                cursor = next;
            }
        }
        Ok(())
    }

    /// Refuses an existing collection whose keys may be those of a collection that Storebench created. Its order would
    /// miss the new keys.
    pub(super) async fn refuse_ours(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let made = self.marker().await?.marked;
        for existing in layout.collections.iter().filter_map(|c| c.existing.as_ref()) {
            let within = |marked: &&Marked| {
                let ours = format!("{}:{}", self.settings.prefix, marked.name);
                ours.starts_with(&existing.name) || existing.name.starts_with(&ours)
            };
            if let Some(marked) = made.iter().find(within) {
                return Err(StoreError::NotSupported(format!(
                    "{}: keys that begin with `{}` may belong to the collection `{}`, which Storebench created; remove \
                     --into-existing and name the collection",
                    self.shown(),
                    existing.name,
                    marked.name
                )));
            }
        }
        Ok(())
    }
}

/// The collection that a key with the prefix belongs to.
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
