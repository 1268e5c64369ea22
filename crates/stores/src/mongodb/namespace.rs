//! The database: who owns it, and making and removing its collections.
//!
//! The marker is the collection `storebench_marker`. It says whether Storebench made the database,
//! and lists the collections that Storebench made in it.

use std::time::{Duration, Instant};

use ::bson::{Bson, Document, doc};
use storebench_engine::store::{
    CollectionLayout, Holdings, Layout, Marked, Removal, Site, SiteOutcome, StoreError, Wanted, several,
};
use storebench_study::workload::Body;

use super::bson::{self, Members};
use super::commands::{Collection, KeyKind};
use super::control::{ControlConnection, LONG, PATIENCE};
use super::encode::{EXPIRY, KEY};
use crate::net;

const MARKER: &str = "storebench_marker";
/// The marker's record of the database itself. No collection has a space in its name.
const DATABASE: &str = "the database";
/// What follows in that record while a removal is about to drop the marker. Whoever adds a mark waits for that, and then
/// looks whether the mark is still there.
const REMOVING: &str = "; removing";
/// How often whoever has added a mark looks whether such a removal has ended, over 5 s. Then it was killed.
const WAITS: usize = 20;
/// A removal drops the marker only if it has looked less than this long ago.
const SOON: Duration = Duration::from_secs(2);
const NAMESPACE_EXISTS: i64 = 48;
/// How often the collections and the marker are read if they do not agree. The marker may be another program's.
const LOOKS: usize = 5;

impl Site for ControlConnection<'_> {
    const ANOTHER: &'static str = "another database";
    const RESERVED: &'static str = MARKER;

    fn shown(&self) -> String {
        self.place()
    }

    fn check(&self, layout: &Layout) -> Result<(), StoreError> {
        let unfit = |field: &&String| field.is_empty() || field.contains(['.', '\0']) || field.starts_with('$');
        let mut fields = layout.collections.iter().flat_map(|collection| collection.indexes.iter().flatten());
        match fields.find(unfit) {
            None => Ok(()),
            Some(field) => Err(StoreError::NotSupported(format!(
                "MongoDB cannot index a top-level field named `{field}` (it reads a `.` as a path and a leading `$` as an \
                 operator); rename the field"
            ))),
        }
    }

    /// The list and the marker are two answers. If other clients make or remove the marker in between, both are read
    /// again.
    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let mut found = Holdings::default();
        for _ in 0..LOOKS {
            let names = list(self, &self.target.database).await?;
            let listed = names.iter().any(|name| name == MARKER);
            found = self.found(names, listed).await?;
            if found.made.is_some() == listed {
                break;
            }
        }
        Ok(found)
    }

    async fn rest(&mut self) {
        net::rest().await;
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        let made = word(wanted.made);
        if wanted.first && mark(self, DATABASE, made).await? == SiteOutcome::Changed {
            return Ok(SiteOutcome::Changed);
        }
        for planned in &wanted.collections {
            let name = planned.name();
            let mut outcome = SiteOutcome::Done;
            if let Some(before) = planned.before.as_deref().filter(|_| planned.marks()) {
                outcome = change_mark(self, &Marked::new(name, before), Some(&planned.mark)).await?;
            } else if planned.is_new() {
                // Create first, then mark: a collection that a crash leaves unmarked is not taken for ours, and not
                // dropped.
                outcome = make(self, name, &planned.mark).await?;
            }
            if outcome == SiteOutcome::Changed {
                return Ok(outcome);
            }
            make_indexes(self, planned.layout, planned.is_new()).await?;
        }
        // A removal that began earlier may have dropped the marker in the meantime, with the marks that it found in it.
        let now = self.when_nobody_removes().await?;
        if now.made.is_none() {
            mark(self, DATABASE, made).await?;
        }
        for planned in wanted.collections.iter().filter(|planned| now.marked_as(planned.name()).is_none()) {
            mark(self, planned.name(), &planned.mark).await?;
        }
        Ok(SiteOutcome::Done)
    }

    /// Removes the marks first. If this is killed, a later collection of the same name is then not taken for ours: what
    /// is left looks foreign, and is reported.
    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        for going in &removal.going {
            if change_mark(self, going, None).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            if let Err(error) = drop_collection(self, &going.name).await {
                // The collection still exists, so restore its mark.
                mark(self, &going.name, &going.mark).await?;
                return Err(error);
            }
        }
        if !removal.left.is_empty() {
            return Ok(SiteOutcome::Done);
        }
        // The marker stays if others have added marks meanwhile. A mark that comes after the last look is written again
        // by whoever added it.
        let now = self.look().await?;
        let Some(new) = now.made.filter(|_| now.marked.is_empty()) else { return Ok(SiteOutcome::Done) };
        let found = Marked::new(DATABASE, word(new));
        let removing = Marked::new(DATABASE, format!("{}{REMOVING}", found.mark));
        if !now.removing && change_mark(self, &found, Some(&removing.mark)).await? == SiteOutcome::Changed {
            return Ok(SiteOutcome::Changed);
        }
        for _ in 0..LOOKS {
            let looked = Instant::now();
            let now = self.look().await?;
            if !now.removing {
                return Ok(SiteOutcome::Changed);
            }
            if !now.marked.is_empty() {
                return change_mark(self, &removing, Some(&found.mark)).await.map(|_| SiteOutcome::Done);
            }
            // Whoever waits for this removal must not have given it up for dead.
            if looked.elapsed() < SOON {
                return drop_collection(self, MARKER).await.map(|()| SiteOutcome::Done);
            }
        }
        Ok(SiteOutcome::Changed)
    }
}

/// The marker's word for a database that Storebench created, or found.
fn word(new: bool) -> &'static str {
    if new { "new" } else { "found" }
}

impl ControlConnection<'_> {
    /// What is there once no removal is about to drop the marker. A removal that takes too long was killed: the marker
    /// then stays.
    async fn when_nobody_removes(&mut self) -> Result<Holdings, StoreError> {
        let mut waited = 0;
        loop {
            let now = self.look().await?;
            let Some(new) = now.made.filter(|_| now.removing) else { return Ok(now) };
            if waited == WAITS {
                let removing = Marked::new(DATABASE, format!("{}{REMOVING}", word(new)));
                // If somebody else has changed it, the next look says how.
                change_mark(self, &removing, Some(word(new))).await?;
                waited = 0;
                continue;
            }
            waited += 1;
            net::rest().await;
        }
    }

    /// The holdings, from the names of the collections and, if it exists, the marker.
    async fn found(&mut self, names: Vec<String>, marker: bool) -> Result<Holdings, StoreError> {
        let database = &self.target.database;
        let mut found = Holdings::default();
        if marker {
            let command = doc! { "find": MARKER, "filter": {} };
            for record in self.all(database, "read Storebench's marker", command).await? {
                let record = Members::of(&record).ok();
                let text = |name| record.and_then(|r| r.get(name)).and_then(|value| value.as_str());
                match (text(KEY), text("made")) {
                    (Some(DATABASE), made) => {
                        let made = made.unwrap_or_default();
                        found.removing = made.ends_with(REMOVING);
                        found.made = Some(made.strip_suffix(REMOVING).unwrap_or(made) == "new");
                    }
                    (Some(name), Some(mark)) => found.marked.push(Marked::new(name, mark)),
                    _ => {}
                }
            }
        }
        let ours = |name: &String| name == MARKER && found.made.is_some() || found.marked_as(name).is_some();
        found.theirs = names.into_iter().filter(|name| !ours(name)).collect();
        found.absent = found.made.is_none() && found.theirs.is_empty();
        found.foreign = match several("collection", &found.theirs) {
            Some(theirs) => Some(format!("the database `{database}` with {theirs}")),
            None if found.made == Some(false) => {
                Some(format!("the database `{database}`, which another program made, with Storebench's marker"))
            }
            None => None,
        };
        Ok(found)
    }
}

/// A collection that Storebench has made, as operations need it.
pub(super) fn ours(layout: &CollectionLayout, database: &str) -> Collection {
    Collection {
        name: layout.name.clone(),
        database: database.to_owned(),
        body: layout.body,
        keys: KeyKind::Text,
        theirs: false,
        collated: false,
    }
}

/// The collections and views of a database, sorted, without MongoDB's own.
async fn list(control: &mut ControlConnection<'_>, database: &str) -> Result<Vec<String>, StoreError> {
    let command = doc! { "listCollections": 1, "nameOnly": true };
    let found = control.all(database, "list the collections", command).await?;
    let names = found.iter().filter_map(|collection| name_of(collection)).filter(|name| !name.starts_with("system."));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    Ok(names)
}

/// The name of a collection or an index in a list.
fn name_of(document: &[u8]) -> Option<&str> {
    Members::of(document).ok()?.get("name")?.as_str()
}

/// Adds a mark, unless one with that name exists.
async fn mark(control: &mut ControlConnection<'_>, name: &str, made: &str) -> Result<SiteOutcome, StoreError> {
    let command = doc! {
        "insert": MARKER,
        "documents": [{ KEY: name, "made": made }],
        "writeConcern": majority(),
    };
    let Err(error) = control.done("write Storebench's marker", PATIENCE, command).await else {
        return Ok(SiteOutcome::Done);
    };
    let now = control.look().await?;
    let there = if name == DATABASE { now.made.is_some() } else { now.marked_as(name).is_some() };
    if there { Ok(SiteOutcome::Changed) } else { Err(error) }
}

/// Replaces or removes a collection's mark, if it is still the one that was found.
async fn change_mark(
    control: &mut ControlConnection<'_>,
    found: &Marked,
    mark: Option<&str>,
) -> Result<SiteOutcome, StoreError> {
    let query = doc! { KEY: &found.name, "made": &found.mark };
    let mut command = match mark {
        Some(mark) => doc! { "update": MARKER, "updates": [{ "q": query, "u": { "$set": { "made": mark } } }] },
        None => doc! { "delete": MARKER, "deletes": [{ "q": query, "limit": 1 }] },
    };
    command.insert("writeConcern", majority());
    let reply = control.done("write Storebench's marker", PATIENCE, command).await?;
    let met = Members::of(&reply).ok().and_then(|reply| reply.get("n")?.as_i64());
    Ok(if met == Some(1) { SiteOutcome::Done } else { SiteOutcome::Changed })
}

/// An election must not undo changes to the marker or to the list of collections.
fn majority() -> Document {
    doc! { "w": "majority" }
}

/// Creates and marks a collection.
async fn make(control: &mut ControlConnection<'_>, name: &str, made: &str) -> Result<SiteOutcome, StoreError> {
    let command = doc! { "create": name, "writeConcern": majority() };
    match control.ask(&control.target.database, PATIENCE, command).await? {
        Ok(_) => mark(control, name, made).await,
        Err(told) if told.code == NAMESPACE_EXISTS => Ok(SiteOutcome::Changed),
        Err(told) => Err(told.control(&control.place(), &format!("create the collection `{name}`"))),
    }
}

/// Creates the indexes that are missing. FerretDB 1 breaks off when it is asked again for several that it has.
async fn make_indexes(
    control: &mut ControlConnection<'_>,
    collection: &CollectionLayout,
    is_new: bool,
) -> Result<(), StoreError> {
    const EXPIRES: &str = "storebench_expiry";
    let name = &collection.name;
    let mut wanted = Vec::new();
    if collection.uses.expiry && !control.is_ferretdb_1 {
        // Sparse: documents without an expiry have no entry in it and cost nothing.
        wanted.push(doc! { "key": { EXPIRY: 1 }, "name": EXPIRES, "expireAfterSeconds": 0, "sparse": true });
    }
    for fields in &collection.indexes {
        let key: Document = fields.iter().map(|field| (field.clone(), Bson::Int32(1))).collect();
        wanted.push(doc! { "key": key, "name": format!("{}_1", fields.join("_1_")) });
    }
    if !is_new && !wanted.is_empty() {
        let command = doc! { "listIndexes": name };
        let doing = format!("list the indexes of `{name}`");
        let found = control.all(&control.target.database, &doing, command).await?;
        let there: Vec<&str> = found.iter().filter_map(|index| name_of(index)).collect();
        wanted.retain(|index| !index.get_str("name").is_ok_and(|name| there.contains(&name)));
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let command = doc! { "createIndexes": name, "indexes": wanted };
    control.done(&format!("create the indexes of `{name}`"), LONG, command).await.map(drop)
}

/// Finds the existing collections that are to be read, or written.
pub(super) async fn readable(
    control: &mut ControlConnection<'_>,
    layout: &Layout,
    write: bool,
) -> Result<Vec<Collection>, StoreError> {
    let found = control.look().await?;
    found.check_made(control, layout)?;
    let (place, database) = (control.place(), control.target.database.clone());
    let mut collections = Vec::new();
    for collection in &layout.collections {
        let Some(existing) = &collection.existing else {
            collections.push(ours(collection, &database));
            continue;
        };
        if write && collection.body != Body::Json {
            return Err(StoreError::NotSupported(format!(
                "`{}` holds JSON; only collections that Storebench made can hold bytes or counters",
                existing.name
            )));
        }
        if existing.key.as_ref().is_some_and(|key| key != KEY) || existing.body.is_some() {
            return Err(StoreError::NotSupported(format!(
                "in MongoDB the key of `{}` is `_id` and the body is the whole document; leave out `key` and `body`",
                existing.name
            )));
        }
        let made = found.marked_as(&existing.name).is_some();
        if write && made {
            return Err(found.not_theirs(&place, &existing.name));
        }
        let (database, name) = if made || found.theirs.contains(&existing.name) {
            (database.clone(), existing.name.clone())
        } else {
            let missing = || {
                let error = found.missing(&place, &existing.name);
                StoreError::NotSupported(format!(
                    "{error}; to name a collection of another database, write database.collection"
                ))
            };
            let (other, name) = existing.name.split_once('.').ok_or_else(missing)?;
            if !list(control, other).await?.iter().any(|there| there == name) {
                return Err(missing());
            }
            (other.to_owned(), name.to_owned())
        };
        let keys = key_kind(control, &database, &name).await?;
        let collated = keys == KeyKind::Text && is_collated(control, &database, &name).await?;
        collections.push(Collection { name, database, body: collection.body, keys, theirs: true, collated });
    }
    Ok(collections)
}

/// The type of the keys in another program's collection. MongoDB orders keys by type first, and takes all numbers for one
/// type. So if the first and the last have the same type, all do; a fraction between integers is found when it is read.
async fn key_kind(control: &mut ControlConnection<'_>, database: &str, name: &str) -> Result<KeyKind, StoreError> {
    let refused = |told: String| {
        let told =
            format!("the keys (`_id`) of `{database}.{name}` {told}; Storebench reads collections whose keys are");
        StoreError::NotSupported(format!("{told} all text, all object ids or all integers"))
    };
    let Some(first) = key_at(control, database, name, 1).await? else { return Ok(KeyKind::Text) };
    let last = key_at(control, database, name, -1).await?.unwrap_or(first);
    match (kind_of(first), kind_of(last)) {
        (Some(one), Some(other)) if one == other => Ok(one),
        _ if first == last => Err(refused(format!("have the type {}", bson::type_name(first)))),
        _ => {
            let (first, last) = (bson::type_name(first), bson::type_name(last));
            Err(refused(format!("have several types: the first is {first}, the last {last}")))
        }
    }
}

/// How keys of a BSON type are written as text. `None` if they cannot be.
fn kind_of(kind: u8) -> Option<KeyKind> {
    match kind {
        bson::STRING => Some(KeyKind::Text),
        bson::OBJECT_ID => Some(KeyKind::ObjectId),
        bson::INT32 | bson::INT64 => Some(KeyKind::Integer),
        _ => None,
    }
}

/// Whether a collection or view has a collation, which then determines the order of its text.
async fn is_collated(control: &mut ControlConnection<'_>, database: &str, name: &str) -> Result<bool, StoreError> {
    let command = doc! { "listCollections": 1, "filter": { "name": name } };
    let found = control.all(database, &format!("look at the options of `{name}`"), command).await?;
    let collated = |told: Members<'_>| {
        // nx-27017 ignores the filter and lists all collections.
        let named = told.get("name").and_then(|found| found.as_str()) == Some(name);
        let locale = told.at(&["options", "collation", "locale"]).and_then(|locale| locale.as_str());
        named && locale.is_some_and(|locale| locale != "simple")
    };
    Ok(found.iter().filter_map(|document| Members::of(document).ok()).any(collated))
}

/// The BSON type of the first key in ascending (1) or descending (-1) order. `None` without documents.
async fn key_at(
    control: &mut ControlConnection<'_>,
    database: &str,
    name: &str,
    order: i32,
) -> Result<Option<u8>, StoreError> {
    let command = doc! {
        "find": name, "filter": {}, "sort": { KEY: order }, "projection": { KEY: 1 }, "limit": 1, "singleBatch": true,
    };
    let first = control.all(database, &format!("read `{database}.{name}`"), command).await?;
    let Some(document) = first.first() else { return Ok(None) };
    match Members::of(document).ok().and_then(|document| document.get(KEY)).map(|value| value.kind) {
        // A document without a key sorts first.
        None => Err(StoreError::NotSupported(format!(
            "documents of `{database}.{name}` have no `_id`, which Storebench needs; keep it in the pipeline of \
             the view, or name the collection behind the view"
        ))),
        kind => Ok(kind),
    }
}

async fn drop_collection(control: &mut ControlConnection<'_>, name: &str) -> Result<(), StoreError> {
    const NOT_THERE: i64 = 26;
    let command = doc! { "drop": name, "writeConcern": majority() };
    match control.ask(&control.target.database, LONG, command).await? {
        Err(told) if told.code != NOT_THERE => {
            Err(told.control(&control.place(), &format!("drop the collection `{name}`")))
        }
        _ => Ok(()),
    }
}
