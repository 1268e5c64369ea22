//! Who owns the contents of the cache; preparing it, and removing what Storebench created.
//!
//! The marker is the item `PREFIX:marker`. It says whether Storebench found the cache empty, names the collections that
//! Storebench created, and holds a generation. A document is under `PREFIX:GENERATION:COLLECTION:KEY`. So documents of
//! an earlier generation are never found again, even if the server does not list its keys and they could not be removed
//! one by one. Storebench never uses `flush_all`, which would remove everybody's data.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use storebench_engine::store::{Holdings, Layout, Marked, Removal, Site, SiteOutcome, StoreError, Wanted};

use super::control::{Connection, find};
use super::keys::{self, Listed};
use super::settings::Settings;
use crate::connection::Collection;
use crate::existing::refuse_indexes;

/// Storebench's own record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marker {
    /// Whether Storebench found the cache empty.
    pub(super) alone: bool,
    /// Whether everything was removed as far as possible, on a server that does not list keys.
    pub(super) removed: bool,
    pub(super) generation: String,
    /// The collections that Storebench created.
    pub(super) collections: Vec<Marked>,
}

impl Marker {
    fn write(&self) -> String {
        let mut text = format!(
            "storebench\nmade {}\nstate {}\ngeneration {}\n",
            if self.alone { "alone" } else { "beside" },
            if self.removed { "removed" } else { "there" },
            self.generation
        );
        for Marked { name, mark } in &self.collections {
            text += &format!("collection {name} {mark}\n");
        }
        text
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some("storebench") {
            return None;
        }
        let mut marker = Self::default();
        for line in lines {
            let mut words = line.splitn(3, ' ');
            match (words.next()?, words.next()?) {
                ("made", made) => marker.alone = made == "alone",
                ("state", state) => marker.removed = state == "removed",
                ("generation", generation) => marker.generation = generation.to_owned(),
                ("collection", name) => marker.collections.push(Marked::new(name, words.next()?)),
                _ => {}
            }
        }
        Some(marker)
    }
}

/// The collections of a layout.
pub(super) fn collections(settings: &Settings, generation: &str, layout: &Layout) -> Vec<Collection> {
    let prefix = |name: &str| format!("{}:{generation}:{name}:", settings.prefix);
    layout.collections.iter().map(|collection| Collection::of(collection, prefix)).collect()
}

/// Calls `each` with every key. Returns false if the server does not list keys.
pub(super) async fn list(connection: &mut Connection, mut each: impl FnMut(Listed)) -> Result<bool, StoreError> {
    let begun = Instant::now();
    loop {
        connection.send(b"lru_crawler metadump hash\r\n").await?;
        let mut line = connection.line().await?;
        if line.starts_with(b"BUSY") && begun.elapsed() < Duration::from_secs(30) {
            // The server allows only one listing at a time.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        loop {
            if line == b"END" {
                return Ok(true);
            }
            match keys::listed(&line) {
                Some(key) => each(key),
                // `ERROR`, or `CLIENT_ERROR lru crawler disabled`, or `… metadump not allowed`.
                None => return Ok(false),
            }
            line = connection.line().await?;
        }
    }
}

/// The keys with the prefix in a cache.
pub(super) struct Prefix<'c> {
    connection: &'c mut Connection,
    settings: &'c Settings,
    /// The item under the marker's key: its revision, and the marker if it is valid.
    item: Option<(String, Option<Marker>)>,
    /// The generation of the documents' keys.
    pub(super) generation: String,
}

impl<'c> Prefix<'c> {
    pub(super) fn new(connection: &'c mut Connection, settings: &'c Settings) -> Self {
        Self { connection, settings, item: None, generation: String::new() }
    }

    /// Reads the marker. Reading also protects it from being evicted first.
    pub(super) async fn marker(&mut self) -> Result<Option<Marker>, StoreError> {
        let answer = self.connection.ask(format!("mg {}:marker v c\r\n", self.settings.prefix).as_bytes()).await?;
        self.item = None;
        if answer != "EN" {
            let told = answer.strip_prefix("VA ").and_then(|told| told.trim().split_once(" c"));
            let told = told.and_then(|(size, revision)| Some((size.parse().ok()?, revision.to_owned())));
            let Some((size, revision)) = told.filter(|(size, _)| *size < 1 << 20) else {
                return Err(self.connection.refusal("mg", &answer));
            };
            let text = self.connection.block(size).await?;
            self.item = Some((revision, Marker::read(&String::from_utf8_lossy(&text))));
        }
        let marker = self.item.as_ref().and_then(|(_, marker)| marker.clone());
        self.generation = marker.as_ref().map(|marker| marker.generation.clone()).unwrap_or_default();
        Ok(marker)
    }

    /// Writes the marker if it has not changed since it was read, or still does not exist. Otherwise returns false.
    async fn write(&mut self, marker: &Marker) -> Result<bool, StoreError> {
        let text = marker.write();
        let condition = match &self.item {
            Some((revision, _)) => format!("C{revision}"),
            None => "ME".to_owned(),
        };
        let request = format!("ms {}:marker {} {condition}\r\n{text}\r\n", self.settings.prefix, text.len());
        match self.connection.ask(request.as_bytes()).await? {
            done if done.starts_with("HD") => Ok(true),
            other if ["EX", "NF", "NS"].iter().any(|changed| other.starts_with(changed)) => Ok(false),
            other => {
                let host = &self.connection.host;
                Err(StoreError::Failed(format!("{host}: cannot store the marker: {other}")))
            }
        }
    }

    /// Removes the marker if it has not changed since it was read. Otherwise returns false.
    async fn delete(&mut self) -> Result<bool, StoreError> {
        let Some((revision, _)) = &self.item else { return Ok(true) };
        let request = format!("md {}:marker C{revision}\r\n", self.settings.prefix);
        match self.connection.ask(request.as_bytes()).await? {
            done if done.starts_with("HD") || done.starts_with("NF") => Ok(true),
            changed if changed.starts_with("EX") => Ok(false),
            other => Err(self.connection.refusal("md", &other)),
        }
    }

    /// The documents to remove, each with its revision. `None` if the server does not list keys.
    async fn documents(&mut self, removal: &Removal) -> Result<Option<Vec<Listed>>, StoreError> {
        let prefix = format!("{}:{}:", self.settings.prefix, self.generation).into_bytes();
        // One of these follows the collection's name, see `keys::write`.
        let goes = |key: &[u8]| {
            let rest = key.strip_prefix(prefix.as_slice());
            let name = rest.and_then(|rest| rest.split(|byte| b":;".contains(byte)).next());
            name.is_some_and(|name| removal.going.iter().any(|going| going.name.as_bytes() == name))
        };
        let mut ours = Vec::new();
        let listed = list(self.connection, |listed| {
            if goes(&listed.key) {
                ours.push(listed);
            }
        })
        .await?;
        Ok(listed.then_some(ours))
    }

    /// Removes documents, except those that were written since the listing.
    async fn remove_documents(&mut self, documents: &[Listed]) -> Result<(), StoreError> {
        for page in documents.chunks(500) {
            let mut requests = Vec::new();
            for Listed { key, revision } in page {
                requests.extend_from_slice(b"md ");
                let flag = if keys::write_raw(&mut requests, key) { " b" } else { "" };
                requests.extend_from_slice(format!("{flag} C{revision}\r\n").as_bytes());
            }
            self.connection.send(&requests).await?;
            for _ in page {
                let line = self.connection.line().await?;
                if ![&b"HD"[..], b"NF", b"EX"].iter().any(|told| line.starts_with(told)) {
                    return Err(self.connection.refusal("md", &String::from_utf8_lossy(&line)));
                }
            }
        }
        Ok(())
    }
}

impl Site for Prefix<'_> {
    const ANOTHER: &'static str = "another server or another prefix=";

    fn shown(&self) -> String {
        self.settings.address.shown.clone()
    }

    fn check(&self, layout: &Layout) -> Result<(), StoreError> {
        refuse_indexes("memcached", layout)
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let marker = self.marker().await?;
        let there = marker.as_ref().filter(|marker| !marker.removed);
        let mut found = Holdings {
            made: there.map(|marker| marker.alone),
            marked: there.map(|marker| marker.collections.clone()).unwrap_or_default(),
            ..Holdings::default()
        };
        if let Some(marker) = marker.as_ref().filter(|marker| marker.alone) {
            found.absent = marker.removed;
            return Ok(found);
        }
        let stats = self.connection.stats("").await?;
        let mut items: u64 = find(&stats, "curr_items").and_then(|n| n.parse().ok()).unwrap_or(0);
        if items > 0 {
            // Expired items are counted until something accesses them, but they are not listed.
            let mut listed = 0;
            if list(self.connection, |_| listed += 1).await? {
                items = listed;
            }
        }
        found.absent = marker.is_none() && items == 0;
        if marker.is_some() {
            found.foreign = Some(format!("a cache with {items} items, some of which were there before Storebench"));
        } else if items > 0 {
            let prefix = &self.settings.prefix;
            found.foreign = Some(format!("a cache with {items} items and no marker `{prefix}:marker`"));
        }
        Ok(found)
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        if matches!(self.item, Some((_, None))) {
            return Err(self.marker_taken(&format!("{}:marker", self.settings.prefix)));
        }
        // A new generation, so that its keys contain nothing of others.
        let generation = if wanted.first { new_generation() } else { self.generation.clone() };
        let collections = wanted.marked.clone();
        let marker = Marker { alone: wanted.made, removed: false, generation: generation.clone(), collections };
        if !self.write(&marker).await? {
            return Ok(SiteOutcome::Changed);
        }
        self.generation = generation;
        Ok(SiteOutcome::Done)
    }

    /// If the server does not list keys, the marker stays and records the removal. The documents are never found again,
    /// and are evicted when memory is needed.
    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        if removal.going.is_empty() && !removal.left.is_empty() {
            return Ok(SiteOutcome::Done);
        }
        let seen = self.generation.clone();
        let documents = self.documents(removal).await?;
        // Read the marker after the listing: if it has not changed, the list contains no documents of another copy.
        let Some(mut marker) = self.marker().await? else { return Ok(SiteOutcome::Changed) };
        if marker.generation != seen || !removal.still(&marker.collections) {
            return Ok(SiteOutcome::Changed);
        }
        marker.collections.retain(|marked| !removal.takes(&marked.name));
        let stays = !marker.collections.is_empty();
        let done = match documents {
            None if stays => {
                return Err(StoreError::NotSupported(format!(
                    "{} does not list keys, so the data of a study cannot be removed separately from that of a copy; \
                     start it without -X and with its LRU crawler",
                    self.connection.host
                )));
            }
            None => {
                marker.removed = true;
                self.write(&marker).await?
            }
            Some(documents) => {
                self.remove_documents(&documents).await?;
                if stays { self.write(&marker).await? } else { self.delete().await? }
            }
        };
        Ok(if done { SiteOutcome::Done } else { SiteOutcome::Changed })
    }
}

/// Microseconds since 1970, in base 36, so that each generation is new.
fn new_generation() -> String {
    let mut rest = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let mut digits = Vec::new();
    while rest > 0 {
        digits.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize]);
        rest /= 36;
    }
    digits.reverse();
    String::from_utf8(digits).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use storebench_engine::store::Owner;

    use super::*;

    #[test]
    fn a_marker_comes_back() {
        let marker = Marker {
            alone: true,
            removed: false,
            generation: new_generation(),
            collections: [("a", "json", Owner::Study), ("b-c", "counter", Owner::User(None))]
                .map(|(name, body, owner)| Marked::new(name, owner.mark(body)))
                .into(),
        };
        assert_eq!(Marker::read(&marker.write()), Some(marker.clone()));
        let removed = Marker { removed: true, alone: false, ..marker };
        assert_eq!(Marker::read(&removed.write()), Some(removed));
        assert_eq!(Marker::read("something else"), None);
        assert_eq!(new_generation().len(), 10);
    }
}
