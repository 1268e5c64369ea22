//! The database: whose it is, making and removing collections in it.
//!
//! The marker is the collection `storebench_marker`. It says whether Storebench made the database,
//! and names the collections that Storebench made in it.

use storebench_core::store::{CollectionLayout, Holdings, Layout, Namespace, Owner, Prepare, StoreError};
use storebench_core::workload::Body;

use super::bson::{self, ARRAY, DOCUMENT, Members};
use super::commands::{Collection, KeyKind};
use super::control::{Desk, LONG, PATIENCE};
use super::encode::{EXPIRY, KEY};

pub(super) const MARKER: &str = "storebench_marker";
/// The marker's record of the database itself. No collection has a space in its name.
const DATABASE: &str = "the database";
const NAMESPACE_EXISTS: i64 = 48;

/// What is in a database.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Whether Storebench made the database; none without its marker.
    made: Option<bool>,
    /// Collections made here, each with what its documents are and with its owner.
    ours: Vec<(String, String, Owner)>,
    /// Collections and views that Storebench did not make.
    theirs: Vec<String>,
}

impl Contents {
    pub(super) fn namespace(&self, database: &str) -> Namespace {
        self.holdings(database).namespace()
    }

    pub(super) fn holdings(&self, database: &str) -> Holdings {
        Holdings {
            absent: self.made.is_none() && self.theirs.is_empty(),
            foreign: match (self.made, self.theirs.as_slice()) {
                (None | Some(true), []) => None,
                (_, []) => Some(format!("a database `{database}` that others made, with Storebench's marker")),
                (_, [one]) => Some(format!("the database `{database}` with the collection `{one}`")),
                (_, [first, .., last]) => Some(format!(
                    "the database `{database}` with {} collections (`{first}` to `{last}`)",
                    self.theirs.len()
                )),
            },
            marked: self.ours.iter().map(|(name, _, owner)| (name.clone(), *owner)).collect(),
        }
    }

    /// Names of all collections.
    pub(super) fn names(&self) -> Vec<String> {
        self.theirs.iter().map(String::as_str).chain(self.made_here()).map(str::to_owned).collect()
    }

    /// Names of the collections that Storebench made.
    pub(super) fn made_here(&self) -> impl Iterator<Item = &str> {
        self.ours.iter().map(|(name, ..)| name.as_str())
    }
}

fn format_of(body: Body) -> &'static str {
    match body {
        Body::Json => "json",
        Body::Bytes => "bytes",
        Body::Counter => "counter",
    }
}

/// Looks at what is there, changing nothing.
pub(super) async fn look(desk: &mut Desk<'_>) -> Result<Contents, StoreError> {
    let database = desk.target.database.clone();
    let names = list(desk, &database).await?;
    let mut contents = Contents::default();
    if names.iter().any(|name| name == MARKER) {
        let command = |out: &mut Vec<u8>| {
            bson::text(out, "find", MARKER);
            bson::nested(out, DOCUMENT, "filter", |_| {});
        };
        for record in desk.all(&database, "read Storebench's marker", command).await? {
            let record = Members::of(&record).ok();
            let text = |name| record.and_then(|r| r.get(name)).and_then(|value| value.as_str());
            match (text(KEY), text("made")) {
                (Some(DATABASE), made) => contents.made = Some(made == Some("new")),
                (Some(name), Some(made)) => {
                    let (format, owner) = Owner::read(made);
                    contents.ours.push((name.to_owned(), format.to_owned(), owner));
                }
                _ => {}
            }
        }
    }
    let ours =
        |name: &String| name == MARKER && contents.made.is_some() || contents.made_here().any(|made| made == name);
    contents.theirs = names.iter().filter(|name| !ours(name)).cloned().collect();
    Ok(contents)
}

/// The collections and views of a database, without MongoDB's own, in order.
async fn list(desk: &mut Desk<'_>, database: &str) -> Result<Vec<String>, StoreError> {
    let command = |out: &mut Vec<u8>| {
        bson::int32(out, "listCollections", 1);
        bson::boolean(out, "nameOnly", true);
    };
    let found = desk.all(database, "list the collections", command).await?;
    let name = |document: &Vec<u8>| Some(Members::of(document).ok()?.get("name")?.as_str()?.to_owned());
    let mut names: Vec<String> = found.iter().filter_map(name).filter(|name| !name.starts_with("system.")).collect();
    names.sort_unstable();
    Ok(names)
}

fn not_ours(place: &str, what: &str) -> StoreError {
    StoreError::NotOurs(format!(
        "{place} holds {what}, which Storebench did not make; nothing was touched. Use another database, or \
         --into-existing to add collections beside what is there"
    ))
}

/// Makes the layout; gives the collections as operations need them.
pub(super) async fn prepare(desk: &mut Desk<'_>, layout: &Layout, how: Prepare) -> Result<Vec<Collection>, StoreError> {
    check_layout(layout, how)?;
    let contents = look(desk).await?;
    let place = desk.place();
    if how.makes_nothing() {
        return readable(desk, layout, &contents, how == Prepare::WriteExisting).await;
    }
    let database = desk.target.database.clone();
    contents.holdings(&database).allow(&place, "another database", layout, how)?;
    let contents = if how.empties() {
        remove(desk, &contents, true).await?;
        Contents::default()
    } else {
        contents
    };
    // All that could stand in the way is looked at before anything is made.
    for collection in &layout.collections {
        let name = &collection.name;
        if contents.theirs.contains(name) {
            return Err(StoreError::NotOurs(format!(
                "{place} has a collection `{name}` that Storebench did not make; nothing was touched. Rename the \
                 collection, or use another database"
            )));
        }
        check_format(&place, &contents, collection)?;
    }
    if contents.made.is_none() {
        let made = if contents.theirs.is_empty() { "new" } else { "found" };
        mark(desk, DATABASE, made).await?;
    }
    for collection in &layout.collections {
        let before = contents.ours.iter().find(|(made, ..)| *made == collection.name).map(|(.., owner)| *owner);
        let owner = how.owner(before);
        match before {
            None => make(desk, collection, owner).await?,
            Some(before) if before != owner => mark_again(desk, collection, owner).await?,
            Some(_) => {}
        }
        make_indexes(desk, collection).await?;
    }
    Ok(layout.collections.iter().map(|c| ours(c, &database)).collect())
}

fn ours(layout: &CollectionLayout, database: &str) -> Collection {
    Collection {
        name: layout.name.clone(),
        database: database.to_owned(),
        body: layout.body,
        keys: KeyKind::Text,
        theirs: false,
        collated: false,
    }
}

fn check_layout(layout: &Layout, how: Prepare) -> Result<(), StoreError> {
    for collection in &layout.collections {
        if collection.name == MARKER {
            return Err(StoreError::NotSupported(format!(
                "Storebench keeps the collection `{MARKER}` for itself; rename the collection"
            )));
        }
        let Some(existing) = &collection.existing else { continue };
        if how == Prepare::WriteExisting && collection.body != Body::Json {
            return Err(StoreError::NotSupported(format!(
                "`{}` holds JSON; bytes and counters are in collections that Storebench made",
                existing.name
            )));
        }
        if !how.makes_nothing() {
            return Err(StoreError::NotSupported(format!(
                "`{}` is a collection of others, which is only read; nothing was touched",
                existing.name
            )));
        }
        if existing.key.as_ref().is_some_and(|key| key != KEY) || existing.body.is_some() {
            return Err(StoreError::NotSupported(format!(
                "in MongoDB the key of `{}` is `_id` and the document is the document; leave `key` and `body` out",
                existing.name
            )));
        }
    }
    Ok(())
}

fn check_format(place: &str, contents: &Contents, collection: &CollectionLayout) -> Result<(), StoreError> {
    let wanted = format_of(collection.body);
    match contents.ours.iter().find(|(name, ..)| *name == collection.name) {
        Some((name, kept, _)) if kept != wanted => Err(StoreError::NotSupported(format!(
            "{place}: the collection `{name}` is kept as {kept} there and would be {wanted} now; load it anew"
        ))),
        _ => Ok(()),
    }
}

async fn mark(desk: &mut Desk<'_>, name: &str, made: &str) -> Result<(), StoreError> {
    let command = |out: &mut Vec<u8>| {
        bson::text(out, "insert", MARKER);
        bson::nested(out, ARRAY, "documents", |out| {
            bson::nested(out, DOCUMENT, "0", |out| {
                bson::text(out, KEY, name);
                bson::text(out, "made", made);
            });
        });
        majority(out);
    };
    desk.done("write Storebench's marker", PATIENCE, command).await.map(drop)
}

/// Writes another owner into the mark of a collection.
async fn mark_again(desk: &mut Desk<'_>, collection: &CollectionLayout, owner: Owner) -> Result<(), StoreError> {
    let command = |out: &mut Vec<u8>| {
        bson::text(out, "update", MARKER);
        bson::nested(out, ARRAY, "updates", |out| {
            bson::nested(out, DOCUMENT, "0", |out| {
                bson::nested(out, DOCUMENT, "q", |out| bson::text(out, KEY, &collection.name));
                bson::nested(out, DOCUMENT, "u", |out| {
                    bson::nested(out, DOCUMENT, "$set", |out| {
                        bson::text(out, "made", &owner.mark(format_of(collection.body)));
                    });
                });
            });
        });
        majority(out);
    };
    desk.done("write Storebench's marker", PATIENCE, command).await.map(drop)
}

/// What marks and unmarks must not be lost in an election.
fn majority(out: &mut Vec<u8>) {
    bson::nested(out, DOCUMENT, "writeConcern", |out| bson::text(out, "w", "majority"));
}

async fn make(desk: &mut Desk<'_>, collection: &CollectionLayout, owner: Owner) -> Result<(), StoreError> {
    let name = &collection.name;
    let target = desk.target;
    let command = |out: &mut Vec<u8>| {
        bson::text(out, "create", name);
        majority(out);
    };
    // Made and then marked: what a crash leaves between is not taken for ours, and not dropped.
    if let Err(told) = desk.ask(&target.database, PATIENCE, command).await? {
        return Err(if told.code == NAMESPACE_EXISTS {
            not_ours(&desk.place(), &format!("the collection `{name}`"))
        } else {
            told.control(&desk.place(), &format!("make the collection `{name}`"))
        });
    }
    mark(desk, name, &owner.mark(format_of(collection.body))).await
}

async fn make_indexes(desk: &mut Desk<'_>, collection: &CollectionLayout) -> Result<(), StoreError> {
    let name = &collection.name;
    if let Some(field) =
        collection.indexes.iter().flatten().find(|f| f.is_empty() || f.contains(['.', '\0']) || f.starts_with('$'))
    {
        return Err(StoreError::NotSupported(format!(
            "MongoDB cannot index a top-level field named `{field}` (it reads a `.` as a path and a leading `$` as an \
             operator); rename the field"
        )));
    }
    let command = |out: &mut Vec<u8>| {
        bson::text(out, "createIndexes", name);
        bson::nested(out, ARRAY, "indexes", |out| {
            // Sparse: documents without an expiry have no entry in it and cost nothing.
            bson::nested(out, DOCUMENT, "0", |out| {
                bson::nested(out, DOCUMENT, "key", |out| bson::int32(out, EXPIRY, 1));
                bson::text(out, "name", "storebench_expiry");
                bson::int32(out, "expireAfterSeconds", 0);
                bson::boolean(out, "sparse", true);
            });
            let mut digits = itoa::Buffer::new();
            for (number, fields) in (1_u32..).zip(&collection.indexes) {
                bson::nested(out, DOCUMENT, digits.format(number), |out| {
                    bson::nested(out, DOCUMENT, "key", |out| fields.iter().for_each(|f| bson::int32(out, f, 1)));
                    bson::text(out, "name", &format!("{}_1", fields.join("_1_")));
                });
            }
        });
    };
    desk.done(&format!("make the indexes of `{name}`"), LONG, command).await.map(drop)
}

/// Finds the collections that are to be read, or written as they are.
async fn readable(
    desk: &mut Desk<'_>,
    layout: &Layout,
    contents: &Contents,
    write: bool,
) -> Result<Vec<Collection>, StoreError> {
    let (place, database) = (desk.place(), desk.target.database.clone());
    let mut found = Vec::new();
    for collection in &layout.collections {
        let Some(existing) = &collection.existing else {
            check_format(&place, contents, collection)?;
            if !contents.made_here().any(|name| name == collection.name) {
                return Err(missing(&place, &collection.name, contents));
            }
            found.push(ours(collection, &database));
            continue;
        };
        if write && contents.made_here().any(|made| made == existing.name) {
            return Err(StoreError::NotSupported(format!(
                "{place}: Storebench made the collection `{}`, whose documents have revisions of its own; leave \
                 --into-existing out",
                existing.name
            )));
        }
        let (database, name) =
            if contents.theirs.contains(&existing.name) || contents.made_here().any(|n| n == existing.name) {
                (database.clone(), existing.name.clone())
            } else {
                let (other, name) =
                    existing.name.split_once('.').ok_or_else(|| missing(&place, &existing.name, contents))?;
                if !list(desk, other).await?.iter().any(|there| there == name) {
                    return Err(missing(&place, &existing.name, contents));
                }
                (other.to_owned(), name.to_owned())
            };
        let keys = key_kind(desk, &database, &name).await?;
        let collated = keys == KeyKind::Text && is_collated(desk, &database, &name).await?;
        found.push(Collection { name, database, body: collection.body, keys, theirs: true, collated });
    }
    Ok(found)
}

fn missing(place: &str, name: &str, contents: &Contents) -> StoreError {
    let there = contents.names();
    let there = if there.is_empty() { "nothing".to_owned() } else { there.join(", ") };
    StoreError::NotSupported(format!(
        "{place}: there is no collection `{name}`; it has {there}. One in another database is written \
         database.collection"
    ))
}

/// What the keys of somebody's collection are. MongoDB orders them by type first: where the first and the last are of
/// one type, all are.
async fn key_kind(desk: &mut Desk<'_>, database: &str, name: &str) -> Result<KeyKind, StoreError> {
    let first = key_at(desk, database, name, 1).await?;
    let last = key_at(desk, database, name, -1).await?;
    if first != last {
        return Err(StoreError::NotSupported(format!(
            "the keys (`_id`) of `{database}.{name}` are of several types, of which Storebench would read but one"
        )));
    }
    Ok(first)
}

/// Whether a collection or view has a collation, by which it orders texts then.
async fn is_collated(desk: &mut Desk<'_>, database: &str, name: &str) -> Result<bool, StoreError> {
    let command = |out: &mut Vec<u8>| {
        bson::int32(out, "listCollections", 1);
        bson::nested(out, DOCUMENT, "filter", |out| bson::text(out, "name", name));
    };
    let found = desk.all(database, &format!("look at the options of `{name}`"), command).await?;
    let collated = |told: Members<'_>| {
        // nx-27017 lists all collections, whatever the filter says.
        let named = told.get("name").and_then(|found| found.as_str()) == Some(name);
        let locale = told.at(&["options", "collation", "locale"]).and_then(|locale| locale.as_str());
        named && locale.is_some_and(|locale| locale != "simple")
    };
    Ok(found.iter().filter_map(|document| Members::of(document).ok()).any(collated))
}

/// The type of the first key in ascending (1) or descending (-1) order.
async fn key_at(desk: &mut Desk<'_>, database: &str, name: &str, order: i32) -> Result<KeyKind, StoreError> {
    let command = |out: &mut Vec<u8>| {
        bson::text(out, "find", name);
        bson::nested(out, DOCUMENT, "filter", |_| {});
        bson::nested(out, DOCUMENT, "sort", |out| bson::int32(out, KEY, order));
        bson::nested(out, DOCUMENT, "projection", |out| bson::int32(out, KEY, 1));
        bson::int32(out, "limit", 1);
        bson::boolean(out, "singleBatch", true);
    };
    let first = desk.all(database, &format!("read `{database}.{name}`"), command).await?;
    let Some(document) = first.first() else { return Ok(KeyKind::Text) };
    match Members::of(document).ok().and_then(|document| document.get(KEY)).map(|value| value.kind) {
        // A document without a key is the first of all.
        None => Err(StoreError::NotSupported(format!(
            "documents of `{database}.{name}` have no `_id`, by which Storebench reads; of a view, let its pipeline keep \
             that field, or name the collection behind it"
        ))),
        Some(bson::STRING) => Ok(KeyKind::Text),
        Some(bson::OBJECT_ID) => Ok(KeyKind::ObjectId),
        Some(bson::INT32 | bson::INT64) => Ok(KeyKind::Integer),
        Some(_) => Err(StoreError::NotSupported(format!(
            "the keys (`_id`) of `{database}.{name}` are neither text, object ids nor whole numbers, which is all that \
             Storebench reads by"
        ))),
    }
}

/// Removes what studies made, and what copies wrote if `discard`, and only that.
pub(super) async fn remove(desk: &mut Desk<'_>, contents: &Contents, discard: bool) -> Result<(), StoreError> {
    if contents.made.is_none() {
        return Ok(());
    }
    let going = || contents.ours.iter().filter(|(.., owner)| discard || !owner.is_user());
    for (name, ..) in going() {
        // First, so that after a kill nobody's later collection of this name is taken for ours: what is left looks foreign, and
        // is told of.
        let command = |out: &mut Vec<u8>| {
            bson::text(out, "delete", MARKER);
            bson::nested(out, ARRAY, "deletes", |out| {
                bson::nested(out, DOCUMENT, "0", |out| {
                    bson::nested(out, DOCUMENT, "q", |out| bson::text(out, KEY, name));
                    bson::int32(out, "limit", 1);
                });
            });
            majority(out);
        };
        desk.done("write Storebench's marker", PATIENCE, command).await?;
        drop_collection(desk, name).await?;
    }
    if going().count() < contents.ours.len() {
        return Ok(());
    }
    drop_collection(desk, MARKER).await
}

async fn drop_collection(desk: &mut Desk<'_>, name: &str) -> Result<(), StoreError> {
    const NOT_THERE: i64 = 26;
    let target = desk.target;
    let command = |out: &mut Vec<u8>| {
        bson::text(out, "drop", name);
        majority(out);
    };
    match desk.ask(&target.database, LONG, command).await? {
        Err(told) if told.code != NOT_THERE => {
            Err(told.control(&desk.place(), &format!("drop the collection `{name}`")))
        }
        _ => Ok(()),
    }
}
