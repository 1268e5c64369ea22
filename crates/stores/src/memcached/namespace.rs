//! What is in the cache: whose it is, making it ready and removing what is ours.
//!
//! The marker is the item `PREFIX:marker`. It says whether Storebench found the cache empty, names the
//! collections that Storebench made, and holds a generation. A document is under
//! `PREFIX:GENERATION:COLLECTION:KEY`, so that nothing of an earlier generation is ever found again,
//! even where the server does not list its keys and they could not be removed one by one. Nothing is
//! ever flushed: `flush_all` takes everybody's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use storebench_core::store::{Holdings, Layout, Owner, Prepare, StoreError};
use storebench_core::workload::Body;

use super::control::{Connection, find};
use super::keys::{self, Collection};
use super::meta;
use super::settings::Settings;

/// Storebench's own record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marker {
    /// Whether the cache was empty when Storebench came.
    pub(super) alone: bool,
    /// Whether everything was removed, as far as that could be: the server lists no keys.
    pub(super) removed: bool,
    pub(super) generation: String,
    /// Collections made here, each with what it holds and with its owner.
    pub(super) collections: BTreeMap<String, (String, Owner)>,
}

impl Marker {
    fn write(&self) -> String {
        let mut text = format!(
            "storebench\nmade {}\nstate {}\ngeneration {}\n",
            if self.alone { "alone" } else { "beside" },
            if self.removed { "removed" } else { "there" },
            self.generation
        );
        for (name, (body, owner)) in &self.collections {
            text += &format!("collection {name} {}\n", owner.mark(body));
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
                ("collection", name) => {
                    let (body, owner) = Owner::read(words.next()?);
                    marker.collections.insert(name.to_owned(), (body.to_owned(), owner));
                }
                _ => {}
            }
        }
        Some(marker)
    }
}

/// The collections of a layout; those that Storebench only reads are where their owner put them.
pub(super) fn collections(settings: &Settings, generation: &str, layout: &Layout) -> Vec<Collection> {
    let all = layout.collections.iter().map(|c| match &c.existing {
        Some(existing) => Collection { body: c.body, prefix: existing.name.clone().into_bytes(), ours: false },
        None => {
            let prefix = format!("{}:{generation}:{}:", settings.prefix, c.name);
            Collection { body: c.body, prefix: prefix.into_bytes(), ours: true }
        }
    });
    all.collect()
}

/// The marker, if there is one.
pub(super) async fn marker(connection: &mut Connection, settings: &Settings) -> Result<Option<Marker>, StoreError> {
    let answer = connection.ask(format!("mg {}:marker v\r\n", settings.prefix).as_bytes()).await?;
    if answer == "EN" {
        return Ok(None);
    }
    let size = answer.strip_prefix("VA ").and_then(|size| size.trim().parse().ok()).filter(|size| *size < 1 << 20);
    let Some(size) = size else { return Err(connection.refusal("mg", &answer)) };
    let text = connection.block(size).await?;
    Ok(Marker::read(&String::from_utf8_lossy(&text)))
}

async fn write_marker(connection: &mut Connection, settings: &Settings, marker: &Marker) -> Result<(), StoreError> {
    let text = marker.write();
    let request = format!("ms {}:marker {}\r\n{text}\r\n", settings.prefix, text.len());
    match connection.ask(request.as_bytes()).await? {
        done if done.starts_with("HD") => Ok(()),
        other => Err(StoreError::Failed(format!("{}: the marker could not be stored: {other}", connection.host))),
    }
}

/// Calls `each` with every key. False if the server lists none.
pub(super) async fn list(connection: &mut Connection, mut each: impl FnMut(Vec<u8>)) -> Result<bool, StoreError> {
    let begun = Instant::now();
    loop {
        connection.send(b"lru_crawler metadump hash\r\n").await?;
        let mut line = connection.line().await?;
        if line.starts_with(b"BUSY") && begun.elapsed() < Duration::from_secs(30) {
            // One listing at a time.
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

/// Looks at what is there, changing nothing.
pub(super) async fn inspect(connection: &mut Connection, settings: &Settings) -> Result<Holdings, StoreError> {
    let marker = marker(connection, settings).await?;
    let there = marker.iter().filter(|marker| !marker.removed);
    let collections = there.flat_map(|marker| &marker.collections);
    let marked = collections.map(|(name, (_, owner))| (name.clone(), *owner)).collect();
    let holdings = Holdings { absent: false, foreign: None, marked };
    match &marker {
        Some(marker) if marker.alone => return Ok(Holdings { absent: marker.removed, ..holdings }),
        _ => {}
    }
    let stats = connection.stats("").await?;
    let mut items: u64 = find(&stats, "curr_items").and_then(|n| n.parse().ok()).unwrap_or(0);
    if items > 0 {
        // What has expired is counted until somebody looks for it, but not listed.
        let mut listed = 0;
        if list(connection, |_| listed += 1).await? {
            items = listed;
        }
    }
    let foreign = match marker {
        None if items == 0 => return Ok(Holdings { absent: true, ..holdings }),
        None => format!("a cache of {items} items and no marker `{}:marker`", settings.prefix),
        Some(_) => format!("a cache of {items} items, some of which were there before Storebench"),
    };
    Ok(Holdings { foreign: Some(foreign), ..holdings })
}

/// Makes the layout. Gives the generation of its documents' keys.
pub(super) async fn prepare(
    connection: &mut Connection,
    settings: &Settings,
    layout: &Layout,
    how: Prepare,
) -> Result<String, StoreError> {
    let mut marker = marker(connection, settings).await?;
    if how.makes_nothing() {
        return Ok(marker.map(|marker| marker.generation).unwrap_or_default());
    }
    if let Some(collection) = layout.collections.iter().find(|c| c.existing.is_some()) {
        return Err(StoreError::NotOurs(format!(
            "collection `{}` names keys that are somebody else's, which are only read; nothing was touched",
            collection.name
        )));
    }
    let found = inspect(connection, settings).await?;
    found.allow(&settings.address.shown, "another server", layout, how)?;
    if how.empties() {
        wipe(connection, settings, true).await?;
        marker = None;
    }
    // A generation of its own begins anew, whatever lies there: so nothing of others is in its keys.
    let fresh = || Marker { alone: found.foreign.is_none(), generation: new_generation(), ..Marker::default() };
    let mut marker = marker.filter(|marker| !marker.removed).unwrap_or_else(fresh);
    for collection in &layout.collections {
        let wanted = match collection.body {
            Body::Json => "json",
            Body::Bytes => "bytes",
            Body::Counter => "counter",
        };
        let before = marker.collections.get(&collection.name).map(|(_, owner)| *owner);
        let new = || (wanted.to_owned(), how.owner(None));
        let (made, owner) = marker.collections.entry(collection.name.clone()).or_insert_with(new);
        *owner = how.owner(before);
        if made != wanted {
            return Err(StoreError::NotSupported(format!(
                "collection `{}` was made for {made}, and the study wants {wanted}; load it afresh, or use another \
                 prefix=",
                collection.name
            )));
        }
    }
    write_marker(connection, settings, &marker).await?;
    Ok(marker.generation)
}

/// Microseconds since 1970, in base 36: later than any before.
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

/// Removes everything that studies made here, and what copies wrote if `discard`, and only that. Where the server
/// lists no keys, the marker stays and says so: what it held is never found again, and goes when its room is needed.
pub(super) async fn wipe(connection: &mut Connection, settings: &Settings, discard: bool) -> Result<(), StoreError> {
    let Some(mut marker) = marker(connection, settings).await? else { return Ok(()) };
    let all = marker.clone();
    marker.collections.retain(|_, (_, owner)| owner.is_user() && !discard);
    let stays = !marker.collections.is_empty();
    if stays && marker.collections.len() == all.collections.len() {
        return Ok(());
    }
    let prefix = format!("{}:{}:", settings.prefix, marker.generation).into_bytes();
    // Behind a collection's name stands one of these, see `keys::write`.
    let goes = |key: &[u8]| {
        let name = key.strip_prefix(prefix.as_slice()).and_then(|rest| rest.split(|byte| b":;".contains(byte)).next());
        name.is_some_and(|name| !marker.collections.keys().any(|user| user.as_bytes() == name))
    };
    let mut ours = Vec::new();
    let listed = list(connection, |key| {
        if goes(&key) {
            ours.push(key);
        }
    })
    .await?;
    if stays && !listed {
        return Err(StoreError::NotSupported(format!(
            "{} lists no keys, so what a study wrote beside the data of a copy cannot be removed; start it without -X \
             and with its LRU crawler",
            connection.host
        )));
    }
    for page in ours.chunks(500) {
        let mut requests = Vec::new();
        for key in page {
            requests.extend_from_slice(b"md ");
            let flag: &[u8] = if keys::write_raw(&mut requests, key) { b" b\r\n" } else { b"\r\n" };
            requests.extend_from_slice(flag);
        }
        connection.send(&requests).await?;
        for _ in page {
            let line = connection.line().await?;
            if !line.starts_with(b"HD") && !line.starts_with(b"NF") {
                return Err(connection.refusal("md", &String::from_utf8_lossy(&line)));
            }
        }
    }
    if stays {
        return write_marker(connection, settings, &marker).await;
    }
    if !listed {
        return write_marker(connection, settings, &Marker { removed: true, ..all }).await;
    }
    let answer = connection.ask(format!("md {}:marker\r\n", settings.prefix).as_bytes()).await?;
    match meta::answer(format!("{answer}\r\n").as_bytes()) {
        Ok(Some((meta::Answer::Done(_) | meta::Answer::Missing, _))) => Ok(()),
        _ => Err(connection.refusal("md", &answer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_comes_back() {
        let marker = Marker {
            alone: true,
            removed: false,
            generation: new_generation(),
            collections: [("a", "json", Owner::Study), ("b-c", "counter", Owner::User(None))]
                .map(|(name, body, owner)| (name.to_owned(), (body.to_owned(), owner)))
                .into(),
        };
        assert_eq!(Marker::read(&marker.write()), Some(marker.clone()));
        let removed = Marker { removed: true, alone: false, ..marker };
        assert_eq!(Marker::read(&removed.write()), Some(removed));
        assert_eq!(Marker::read("something else"), None);
        assert_eq!(new_generation().len(), 10);
    }
}
