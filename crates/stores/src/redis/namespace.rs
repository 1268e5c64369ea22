//! What is in the database: whose it is, making it ready and removing what is ours.
//!
//! The marker is a hash under `PREFIX:marker`. It says whether Storebench found the database empty,
//! and names the collections that Storebench made, with their owners. A document is a string under
//! `PREFIX:COLLECTION:KEY`; the order of a collection, where it is kept, a sorted set under
//! `PREFIX:COLLECTION/order`. A collection's name has neither `:` nor `/`, so that no key is two things.

use storebench_core::store::{CollectionLayout, Holdings, Layout, Owner, Prepare, StoreError};
use storebench_core::workload::Body;

use super::reach::Reached;
use super::resp::{self, Value};
use super::settings::Settings;

/// Keys looked at or removed in one request.
const PAGE: u32 = 1_000;

/// A collection as sessions use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Collection {
    pub(super) body: Body,
    /// What the keys of its documents begin with.
    pub(super) prefix: Vec<u8>,
    /// The sorted set of its keys, where there is one.
    pub(super) order: Option<Vec<u8>>,
    /// Whether its keys are somebody else's, who may keep other things than strings beside.
    pub(super) theirs: bool,
}

/// Storebench's own record.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Marker {
    /// Whether the database was empty when Storebench came.
    pub(super) alone: bool,
    /// Collections made here, each with its format and its owner.
    pub(super) collections: Vec<(String, String, Owner)>,
}

fn marker_key(settings: &Settings) -> Vec<u8> {
    format!("{}:marker", settings.prefix).into_bytes()
}

fn format_of(body: Body, ordered: bool) -> String {
    let body = match body {
        Body::Json => "json",
        Body::Bytes => "bytes",
        Body::Counter => "counter",
    };
    if ordered { format!("{body} ordered") } else { body.to_owned() }
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

/// The marker, if there is one. Something else under its key is none.
pub(super) async fn marker(reached: &mut Reached, settings: &Settings) -> Result<Option<Marker>, StoreError> {
    let key = marker_key(settings);
    let node = reached.node_of(&key);
    let Value::Array(parts) = (match node.call(&[b"HGETALL", &key]).await? {
        Value::Error(line) if line.starts_with("WRONGTYPE") => return Ok(None),
        // Asked again for the usual error.
        Value::Error(_) => node.ask(&[b"HGETALL", &key]).await?,
        value => value,
    }) else {
        return Ok(None);
    };
    let mut marker = Marker::default();
    for pair in parts.chunks_exact(2) {
        let [Some(name), Some(value)] = [pair[0].text(), pair[1].text()] else { continue };
        match name.strip_prefix("collection:") {
            Some(collection) => {
                let (format, owner) = Owner::read(&value);
                marker.collections.push((collection.to_owned(), format.to_owned(), owner));
            }
            None if name == "made" => marker.alone = value == "alone",
            None => {}
        }
    }
    Ok((!parts.is_empty()).then_some(marker))
}

/// Looks at what is there, changing nothing.
pub(super) async fn inspect(reached: &mut Reached, settings: &Settings) -> Result<Holdings, StoreError> {
    let marker = marker(reached, settings).await?;
    let collections = marker.iter().flat_map(|marker| &marker.collections);
    let marked = collections.map(|(name, _, owner)| (name.clone(), *owner)).collect();
    let holdings = Holdings { absent: false, foreign: None, marked };
    if marker.as_ref().is_some_and(|marker| marker.alone) {
        return Ok(holdings);
    }
    let mut keys = 0;
    let mut alive = false;
    for node in reached.each() {
        let count = node.number(&[b"DBSIZE"]).await?;
        keys += count;
        // Keys that have expired are counted until somebody looks for them.
        alive = alive || count > 0 && node.ask(&[b"RANDOMKEY"]).await? != Value::Nil;
    }
    let place = match &reached.map {
        Some(_) => "a cluster".to_owned(),
        None => format!("database {}", settings.database),
    };
    let foreign = match marker {
        Some(marker) => format!(
            "{place} with {keys} keys, of which {} collections are Storebench's and the others were there before",
            marker.collections.len()
        ),
        None if !alive => return Ok(Holdings { absent: true, ..holdings }),
        None => format!("{place} with {keys} keys and no marker `{}:marker`", settings.prefix),
    };
    Ok(Holdings { foreign: Some(foreign), ..holdings })
}

fn not_ours(settings: &Settings, found: &str) -> StoreError {
    StoreError::NotOurs(format!(
        "{} holds {found}, which Storebench did not make; nothing was touched. Use another database, or \
         --into-existing to add to it",
        settings.address.shown
    ))
}

/// Makes the layout.
pub(super) async fn prepare(
    reached: &mut Reached,
    settings: &Settings,
    layout: &Layout,
    how: Prepare,
) -> Result<(), StoreError> {
    if how == Prepare::WriteExisting {
        return refuse_ours(reached, settings, layout).await;
    }
    if how == Prepare::ReadOnly {
        let made = marker(reached, settings).await?.map(|marker| marker.collections).unwrap_or_default();
        let mut ours = layout.collections.iter().filter(|c| c.existing.is_none());
        return match ours.find(|c| !made.iter().any(|(name, ..)| *name == c.name)) {
            None => Ok(()),
            Some(collection) => Err(StoreError::NotSupported(format!(
                "{} has no collection `{}` that Storebench made; load it first, or say what the keys of yours begin with",
                settings.address.shown, collection.name
            ))),
        };
    }
    if let Some(collection) = layout.collections.iter().find(|c| c.existing.is_some()) {
        return Err(StoreError::NotOurs(format!(
            "collection `{}` names keys that are somebody else's, which are only read; nothing was touched",
            collection.name
        )));
    }
    let found = inspect(reached, settings).await?;
    let mut marker = marker(reached, settings).await?;
    found.allow(&settings.address.shown, "another database", layout, how)?;
    if how.empties() {
        wipe(reached, settings, true).await?;
        marker = None;
    }
    let alone = match &marker {
        Some(marker) => marker.alone,
        None => found.foreign.is_none(),
    };
    let kept = marker.map(|marker| marker.collections).unwrap_or_default();
    let (mut missing, mut marks) = (Vec::new(), Vec::new());
    for collection in &layout.collections {
        let wanted = format_of(collection.body, settings.ordered);
        let found = kept.iter().find(|(name, ..)| *name == collection.name);
        let before = found.map(|(.., owner)| *owner);
        let owner = how.owner(before);
        if before != Some(owner) {
            marks.push((collection.name.clone(), owner.mark(&wanted)));
        }
        match found {
            Some((_, format, _)) if *format == wanted => {}
            Some((name, format, _)) => {
                return Err(StoreError::NotSupported(format!(
                    "collection `{name}` was made as `{format}`, and the study wants `{wanted}`; load it afresh, or use \
                     another prefix="
                )));
            }
            None => missing.push(collection.name.clone()),
        }
    }
    if !alone && !missing.is_empty() {
        refuse_others(reached, settings, &missing).await?;
    }
    write_marker(reached, settings, alone, &marks).await
}

/// Refuses to take for somebody else's what Storebench made: its order would miss what is written.
async fn refuse_ours(reached: &mut Reached, settings: &Settings, layout: &Layout) -> Result<(), StoreError> {
    let made = marker(reached, settings).await?.map(|marker| marker.collections).unwrap_or_default();
    for existing in layout.collections.iter().filter_map(|c| c.existing.as_ref()) {
        let within = |(name, ..): &&(String, String, Owner)| {
            let ours = format!("{}:{name}", settings.prefix);
            ours.starts_with(&existing.name) || existing.name.starts_with(&ours)
        };
        if let Some((name, ..)) = made.iter().find(within) {
            return Err(StoreError::NotSupported(format!(
                "{}: keys that begin with `{}` may be those of the collection `{name}`, which Storebench made; leave \
                 --into-existing out and name the collection",
                settings.address.shown, existing.name
            )));
        }
    }
    Ok(())
}

/// Refuses collections whose keys exist though Storebench did not make them.
async fn refuse_others(reached: &mut Reached, settings: &Settings, missing: &[String]) -> Result<(), StoreError> {
    let pattern = format!("{}:*", settings.prefix);
    for node in reached.each() {
        let mut cursor = 0;
        loop {
            let (next, keys) = node.scan(cursor, pattern.as_bytes(), PAGE, false).await?;
            for key in keys {
                if let Some(name) = collection_of(settings, &key)
                    && missing.iter().any(|collection| collection == name)
                {
                    return Err(not_ours(
                        settings,
                        &format!("keys that begin with `{}:{name}`, but no marker of them", settings.prefix),
                    ));
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(())
}

async fn write_marker(
    reached: &mut Reached,
    settings: &Settings,
    alone: bool,
    collections: &[(String, String)],
) -> Result<(), StoreError> {
    let key = marker_key(settings);
    let names: Vec<String> = collections.iter().map(|(name, _)| format!("collection:{name}")).collect();
    let made: &[u8] = if alone { b"alone" } else { b"beside" };
    let mut words: Vec<&[u8]> = vec![b"HSET", &key, b"made", made];
    for (name, (_, mark)) in names.iter().zip(collections) {
        words.extend([name.as_bytes(), mark.as_bytes()]);
    }
    let node = reached.node_of(&key);
    match node.call(&words).await? {
        Value::Error(line) if line.starts_with("WRONGTYPE") => {
            Err(not_ours(settings, &format!("something else under `{}`", String::from_utf8_lossy(&key))))
        }
        Value::Error(_) => node.ask(&words).await.map(drop),
        _ => Ok(()),
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

/// Removes everything that studies made here, and what copies wrote if `discard`, the marker last, and only that.
pub(super) async fn wipe(reached: &mut Reached, settings: &Settings, discard: bool) -> Result<(), StoreError> {
    let Some(marker) = marker(reached, settings).await? else { return Ok(()) };
    let goes = |owner: Owner| discard || !owner.is_user();
    let going: Vec<&str> =
        marker.collections.iter().filter(|(.., owner)| goes(*owner)).map(|(name, ..)| name.as_str()).collect();
    let ours = |key: &Vec<u8>| collection_of(settings, key).is_some_and(|name| going.contains(&name));
    let pattern = format!("{}:*", settings.prefix);
    for node in reached.each() {
        let mut cursor = 0;
        loop {
            let (next, keys) = node.scan(cursor, pattern.as_bytes(), PAGE, false).await?;
            let mut requests = Vec::new();
            let mut count = 0;
            for key in keys.iter().filter(|key| ours(key)) {
                resp::command(&mut requests, 2);
                resp::word(&mut requests, b"UNLINK");
                resp::word(&mut requests, key);
                count += 1;
            }
            if count > 0 {
                node.ask_all(&requests, count).await?;
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    let key = marker_key(settings);
    if going.len() < marker.collections.len() {
        let fields: Vec<String> = going.iter().map(|name| format!("collection:{name}")).collect();
        let mut words: Vec<&[u8]> = vec![b"HDEL", &key];
        words.extend(fields.iter().map(String::as_bytes));
        return if fields.is_empty() { Ok(()) } else { reached.node_of(&key).ask(&words).await.map(drop) };
    }
    reached.node_of(&key).ask(&[b"UNLINK", &key]).await.map(drop)
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
