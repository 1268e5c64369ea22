//! Scopes, collections, indexes and the marker.
//!
//! A study's collections are collections of one scope. A scope that Storebench made holds a further
//! collection, [`MARKERS`], with one document, [`MARKER`]: it says that the scope is Storebench's, or,
//! in a scope of somebody else's, which of its collections are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use couchbase::error::{Error, ErrorKind as Kind};
use couchbase::options::kv_options::UpsertOptions;
use couchbase::options::query_index_mgmt_options::{
    CreatePrimaryQueryIndexOptions, CreateQueryIndexOptions, GetAllQueryIndexesOptions,
};
use serde_json::{Value, json};
use storebench_core::store::{CollectionLayout, Holdings, Layout, Namespace, Owner, Prepare, StoreError};
use tokio::time::{Instant, sleep, timeout};

use super::errors::store_error;
use super::link::{Link, unwound};
use super::settings::{Settings, is_name};

/// The collection that holds the marker.
const MARKERS: &str = "storebench_marker";
const MARKER: &str = "storebench";
/// The primary index, for pages and scans by key.
const KEY_INDEX: &str = "storebench_keys";
/// How long the parts of a cluster may take to learn of a new collection, and an index to be built.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is in the bucket under the scope's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The scope's collections; none when there is no scope.
    collections: Option<BTreeSet<String>>,
    /// What the marker says: whether Storebench made the scope, and which collections, with their owners.
    marker: Option<(bool, BTreeMap<String, Owner>)>,
}

impl Found {
    /// Names of the collections that Storebench made.
    pub(super) fn made_here(self) -> Vec<String> {
        self.marker.into_iter().flat_map(|(_, made)| made.into_keys()).collect()
    }

    /// Whether Storebench made the scope, and nobody else has put something there.
    fn ours(&self) -> bool {
        self.marker.as_ref().is_some_and(|(scope, _)| *scope) && self.theirs().next().is_none()
    }

    fn theirs(&self) -> impl Iterator<Item = &String> {
        self.collections.iter().flatten().filter(|name| *name != MARKERS && !self.made(name))
    }

    fn made(&self, collection: &str) -> bool {
        self.marker.as_ref().is_some_and(|(_, made)| made.contains_key(collection))
    }

    fn has(&self, collection: &str) -> bool {
        self.collections.as_ref().is_some_and(|all| all.contains(collection))
    }

    pub(super) fn namespace(&self, settings: &Settings) -> Namespace {
        self.holdings(settings).namespace()
    }

    pub(super) fn holdings(&self, settings: &Settings) -> Holdings {
        let foreign = (self.collections.is_some() && !self.ours()).then(|| {
            format!(
                "the scope `{}` of bucket `{}`, with {} collections",
                settings.scope,
                settings.bucket,
                self.collections.iter().flatten().filter(|name| *name != MARKERS).count()
            )
        });
        let marked = self.marker.iter().flat_map(|(_, made)| made).map(|(name, owner)| (name.clone(), *owner));
        Holdings { absent: self.collections.is_none(), foreign, marked: marked.collect() }
    }
}

/// A future of the SDK's in a control call: within a time, with its errors and panics explained.
async fn control<T>(what: &str, calling: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
    match timeout(PATIENCE, unwound(calling)).await {
        Ok(Some(result)) => result.map_err(|e| store_error(what, &e)),
        Ok(None) => Err(StoreError::Failed(format!("{what}: the server answered what is no answer"))),
        Err(_) => Err(StoreError::Unreachable(format!("{what}: no answer within {PATIENCE:?}"))),
    }
}

/// Looks, changing nothing.
pub(super) async fn look(link: &Link, settings: &Settings) -> Result<Found, StoreError> {
    let what = format!("list the collections of bucket `{}`", settings.bucket);
    let scopes = control(&what, link.bucket.collections().get_all_scopes(None)).await?;
    let scope = scopes.iter().find(|scope| scope.name() == settings.scope);
    let Some(scope) = scope else { return Ok(Found { collections: None, marker: None }) };
    let collections: BTreeSet<String> = scope.collections().iter().map(|c| c.name().to_owned()).collect();
    let marker = if collections.contains(MARKERS) { read_marker(link, settings).await? } else { None };
    Ok(Found { collections: Some(collections), marker })
}

async fn read_marker(link: &Link, settings: &Settings) -> Result<Option<(bool, BTreeMap<String, Owner>)>, StoreError> {
    let collection = link.bucket.scope(&settings.scope).collection(MARKERS);
    let reading = async {
        match collection.get(MARKER, None).await {
            Ok(found) => Ok(Some(found.content_as_raw().0.to_vec())),
            Err(error) if matches!(error.kind(), Kind::DocumentNotFound) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let Some(text) = control("read Storebench's marker", reading).await? else { return Ok(None) };
    let value: Value = serde_json::from_slice(&text).unwrap_or_default();
    if value["made_by"] != "storebench" {
        return Ok(None);
    }
    // A list of names is what older versions wrote.
    let names = value["collections"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut made: BTreeMap<String, Owner> = names.map(|name| (name.to_owned(), Owner::User(None))).collect();
    for (name, mark) in value["collections"].as_object().into_iter().flatten() {
        made.insert(name.clone(), Owner::read(mark.as_str().unwrap_or_default()).1);
    }
    Ok(Some((value["scope"] == true, made)))
}

async fn write_marker(
    link: &Link,
    settings: &Settings,
    scope: bool,
    made: &BTreeMap<String, Owner>,
) -> Result<(), StoreError> {
    let collection = link.bucket.scope(&settings.scope).collection(MARKERS);
    let marks: BTreeMap<&String, String> = made.iter().map(|(name, owner)| (name, owner.mark("collection"))).collect();
    let marker = json!({ "made_by": "storebench", "scope": scope, "collections": marks });
    let writing = collection.upsert(MARKER, &marker, UpsertOptions::new());
    control("write Storebench's marker", writing).await.map(drop)
}

/// Makes the layout ready.
///
/// `key_index`: with a primary index on each collection.
pub(super) async fn prepare(
    link: &Link,
    settings: &Settings,
    layout: &Layout,
    how: Prepare,
    key_index: bool,
) -> Result<(), StoreError> {
    if how.makes_nothing() {
        return check_existing(link, settings, layout, how == Prepare::WriteExisting).await;
    }
    for collection in &layout.collections {
        if !is_name(&collection.name) || collection.name == MARKERS {
            return Err(StoreError::NotSupported(format!(
                "Couchbase takes no collection `{}`: letters, digits, `-` and `_`, at most 30 of them, beginning with a \
                 letter or a digit, and not `{MARKERS}`",
                collection.name
            )));
        }
    }
    let mut found = look(link, settings).await?;
    let foreign = found.collections.is_some() && !found.ours();
    let place = format!("bucket `{}`", settings.bucket);
    found.holdings(settings).allow(&place, "another scope with scope=", layout, how)?;
    if how.empties() && found.ours() {
        drop_scope(link, settings).await?;
        found = Found { collections: None, marker: None };
    }
    if let Some(taken) = layout.collections.iter().find(|c| foreign && found.has(&c.name) && !found.made(&c.name)) {
        return Err(StoreError::NotOurs(format!(
            "the scope `{}` has a collection `{}` that Storebench did not make; rename the study's, or name another scope \
             with scope=",
            settings.scope, taken.name
        )));
    }
    let manager = link.bucket.collections();
    if found.collections.is_none() {
        let making = existing_is_fine(manager.create_scope(&settings.scope, None));
        control(&format!("make the scope `{}`", settings.scope), making).await?;
    }
    let mut made = found.marker.as_ref().map(|(_, made)| made.clone()).unwrap_or_default();
    for collection in &layout.collections {
        let owner = how.owner(made.get(&collection.name).copied());
        made.insert(collection.name.clone(), owner);
    }
    // The marker comes first: what is made after it is known to be ours, wherever this is interrupted.
    if !found.has(MARKERS) {
        create_collection(link, settings, MARKERS).await?;
    }
    let made_scope = found.marker.as_ref().map_or(!foreign, |(scope, _)| *scope);
    write_marker(link, settings, made_scope, &made).await?;
    for collection in layout.collections.iter().filter(|c| !found.has(&c.name)) {
        create_collection(link, settings, &collection.name).await?;
    }
    for collection in &layout.collections {
        usable(link, settings, &collection.name).await?;
        make_indexes(link, settings, collection, key_index).await?;
    }
    Ok(())
}

async fn existing_is_fine(making: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    match making.await {
        Err(error) if matches!(error.kind(), Kind::ScopeExists | Kind::CollectionExists | Kind::IndexExists) => Ok(()),
        result => result,
    }
}

async fn create_collection(link: &Link, settings: &Settings, name: &str) -> Result<(), StoreError> {
    let manager = link.bucket.collections();
    let making = existing_is_fine(manager.create_collection(&settings.scope, name, None, None));
    control(&format!("make the collection `{}.{name}`", settings.scope), making).await
}

/// Waits until the data service knows a collection. (The SDK asks again until it does.)
async fn usable(link: &Link, settings: &Settings, name: &str) -> Result<(), StoreError> {
    let collection = link.bucket.scope(&settings.scope).collection(name);
    let asking = async {
        match collection.exists(MARKER, None).await {
            Err(error) if !matches!(error.kind(), Kind::DocumentNotFound) => Err(error),
            _ => Ok(()),
        }
    };
    control(&format!("wait for the collection `{}.{name}`", settings.scope), asking).await
}

async fn make_indexes(
    link: &Link,
    settings: &Settings,
    layout: &CollectionLayout,
    key_index: bool,
) -> Result<(), StoreError> {
    let collection = link.bucket.scope(&settings.scope).collection(&layout.name);
    let indexes = collection.query_indexes();
    let what = format!("make the indexes of `{}.{}`", settings.scope, layout.name);
    let deadline = Instant::now() + PATIENCE;
    let mut wanted = Vec::new();
    if key_index {
        let options = || CreatePrimaryQueryIndexOptions::new().index_name(KEY_INDEX).ignore_if_exists(true);
        control(&what, until_known(deadline, || indexes.create_primary_index(options()))).await?;
        wanted.push(KEY_INDEX.to_owned());
    }
    for fields in &layout.indexes {
        let name = format!("storebench_{}", fields.join("_"));
        let quoted: Vec<String> = fields.iter().map(|field| format!("`{}`", field.replace('`', "``"))).collect();
        let options = || CreateQueryIndexOptions::new().ignore_if_exists(true);
        let making = until_known(deadline, || indexes.create_index(name.clone(), quoted.clone(), options()));
        control(&what, making).await?;
        wanted.push(name);
    }
    while !wanted.is_empty() {
        let all = control(&what, indexes.get_all_indexes(GetAllQueryIndexesOptions::new())).await?;
        wanted.retain(|name| !all.iter().any(|index| index.name() == name && index.state() == "online"));
        if !wanted.is_empty() && Instant::now() >= deadline {
            return Err(StoreError::Failed(format!(
                "{what}: {} not online after {PATIENCE:?}; look at the index service",
                wanted.join(", ")
            )));
        }
        if !wanted.is_empty() {
            sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

/// Tries again while the query service does not know a collection that was just made.
async fn until_known<F>(deadline: Instant, mut making: impl FnMut() -> F) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>>,
{
    loop {
        match existing_is_fine(making()).await {
            Err(error)
                if matches!(
                    error.kind(),
                    Kind::CollectionNotFound | Kind::ScopeNotFound | Kind::InternalServerFailure
                ) && Instant::now() < deadline =>
            {
                sleep(LOOK_EVERY).await;
            }
            result => return result,
        }
    }
}

/// Checks that what is read, or written as it is, is there.
async fn check_existing(link: &Link, settings: &Settings, layout: &Layout, write: bool) -> Result<(), StoreError> {
    crate::existing::refuse_fields("Couchbase", layout)?;
    let scopes = control("list the collections", link.bucket.collections().get_all_scopes(None)).await?;
    for collection in &layout.collections {
        let (scope, name) = place(settings, collection);
        if write && scope == settings.scope && look(link, settings).await?.made(name) {
            return Err(StoreError::NotSupported(format!(
                "Storebench made the collection `{scope}.{name}`; leave --into-existing out"
            )));
        }
        let known = scopes.iter().find(|s| s.name() == scope);
        if !known.is_some_and(|s| s.collections().iter().any(|c| c.name() == name)) {
            return Err(StoreError::NotSupported(format!(
                "bucket `{}` has no collection `{scope}.{name}`; name one as scope.collection",
                settings.bucket
            )));
        }
    }
    Ok(())
}

/// Scope and name of a collection: one that somebody else made is `scope.collection`, or `collection`
/// of the default scope.
pub(super) fn place<'a>(settings: &'a Settings, layout: &'a CollectionLayout) -> (&'a str, &'a str) {
    match &layout.existing {
        None => (&settings.scope, &layout.name),
        Some(existing) => existing.name.split_once('.').unwrap_or(("_default", &existing.name)),
    }
}

/// Removes what studies made, and only that.
pub(super) async fn remove(link: &Link, settings: &Settings) -> Result<(), StoreError> {
    let found = look(link, settings).await?;
    let Some((scope, made)) = &found.marker else { return Ok(()) };
    let holdings = found.holdings(settings);
    if *scope && holdings.all_removable(false) {
        return drop_scope(link, settings).await;
    }
    let manager = link.bucket.collections();
    let left: BTreeMap<String, Owner> =
        made.iter().filter(|(_, owner)| owner.is_user()).map(|(name, owner)| (name.clone(), *owner)).collect();
    // The marker goes last: until then it says what is ours.
    let markers = left.is_empty().then_some(MARKERS);
    for name in holdings.removable(false).filter(|name| found.has(name)).chain(markers) {
        let what = format!("remove the collection `{}.{name}`", settings.scope);
        control(&what, manager.drop_collection(&settings.scope, name, None)).await?;
    }
    if markers.is_none() { write_marker(link, settings, *scope, &left).await } else { Ok(()) }
}

async fn drop_scope(link: &Link, settings: &Settings) -> Result<(), StoreError> {
    let manager = link.bucket.collections();
    control(&format!("remove the scope `{}`", settings.scope), manager.drop_scope(&settings.scope, None)).await
}
