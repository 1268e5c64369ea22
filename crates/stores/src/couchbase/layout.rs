//! Scopes, collections, indexes and the marker.
//!
//! A study's collections are collections of one scope. A scope that Storebench uses also has the collection [`MARKERS`]
//! with one document, [`MARKER`]. The marker says whether Storebench made the scope, and which of its collections
//! Storebench made.

use std::collections::BTreeSet;
use std::time::Duration;

use couchbase::error::{Error, ErrorKind as Kind};
use couchbase::options::kv_options::{InsertOptions, ReplaceOptions};
use couchbase::options::query_index_mgmt_options::{
    CreatePrimaryQueryIndexOptions, CreateQueryIndexOptions, GetAllQueryIndexesOptions,
};
use storebench_engine::store::{
    CollectionLayout, Holdings, Layout, Marked, Removal, Site, SiteOutcome, StoreError, Wanted, WantedCollection,
};
use storebench_study::workload::Body;
use tokio::time::{Instant, sleep, timeout};

use super::errors::store_error;
use super::features::NO_COLLECTIONS;
use super::link::{Link, unwound};
use super::queries::quoted;
use super::settings::{Settings, is_name};
use crate::marker::{marker, read_marker};
use crate::net;

/// The collection that holds the marker.
const MARKERS: &str = "storebench_marker";
const MARKER: &str = "storebench";
/// What a marker calls the place.
const KIND: &str = "scope";
/// The start of a mark, before its owner.
const FORM: &str = "collection";
/// The primary index, for pages and scans by key.
const KEY_INDEX: &str = "storebench_keys";
/// How long a cluster may take to propagate a new collection, and to build an index.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs a future of the SDK in a control call: with a timeout, and with its errors and panics explained.
async fn control<T>(what: &str, calling: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
    match timeout(PATIENCE, unwound(calling)).await {
        Ok(Some(result)) => result.map_err(|e| store_error(what, &e)),
        Ok(None) => Err(StoreError::Failed(format!("cannot {what}: the server's answer is invalid"))),
        Err(_) => Err(StoreError::Unreachable(format!("cannot {what}: no answer within {PATIENCE:?}"))),
    }
}

/// The scope, and what the last look found in it.
pub(super) struct Scope<'s> {
    link: &'s Link,
    settings: &'s Settings,
    /// Whether each collection gets a primary index.
    key_index: bool,
    /// The scope's collections. `None` if there is no scope.
    collections: Option<BTreeSet<String>>,
    /// What the marker says, and its revision.
    marker: Option<(Holdings, u64)>,
    /// Whether it was removed just now. Not every node may know.
    removed: bool,
    /// Whether it was created here just now, whatever another client's marker in it says.
    created: bool,
}

impl<'s> Scope<'s> {
    pub(super) fn new(link: &'s Link, settings: &'s Settings, key_index: bool) -> Self {
        Self { link, settings, key_index, collections: None, marker: None, removed: false, created: false }
    }

    fn has(&self, collection: &str) -> bool {
        self.collections.as_ref().is_some_and(|all| all.contains(collection))
    }

    async fn read_marker(&self) -> Result<Option<(Holdings, u64)>, StoreError> {
        let collection = self.link.bucket.scope(&self.settings.scope).collection(MARKERS);
        let reading = async {
            match collection.get(MARKER, None).await {
                Ok(found) => Ok(Some((found.content_as_raw().0.to_vec(), found.cas()))),
                Err(error) if matches!(error.kind(), Kind::DocumentNotFound) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let found = control("read Storebench's marker", reading).await?;
        Ok(found.and_then(|(text, cas)| Some((read_marker(KIND, &text)?, cas))))
    }

    /// Writes the marker over the one that the look found, or creates it if there was none.
    async fn write_marker(&self, scope: bool, marked: &[Marked], removing: bool) -> Result<SiteOutcome, StoreError> {
        let collection = self.link.bucket.scope(&self.settings.scope).collection(MARKERS);
        let marker = marker(KIND, scope, marked, removing);
        let writing = async {
            let written = match &self.marker {
                Some((_, cas)) => collection.replace(MARKER, &marker, ReplaceOptions::new().cas(*cas)).await,
                None => collection.insert(MARKER, &marker, InsertOptions::new()).await,
            };
            match written {
                Ok(_) => Ok(SiteOutcome::Done),
                Err(error)
                    if matches!(
                        error.kind(),
                        Kind::CasMismatch
                            | Kind::DocumentExists
                            | Kind::DocumentNotFound
                            | Kind::CollectionNotFound
                            | Kind::ScopeNotFound
                    ) =>
                {
                    Ok(SiteOutcome::Changed)
                }
                Err(error) => Err(error),
            }
        };
        control("write Storebench's marker", writing).await
    }

    async fn create_collection(&self, name: &str) -> Result<(), StoreError> {
        let (scope, manager) = (&self.settings.scope, self.link.bucket.collections());
        let making = existing_is_fine(manager.create_collection(scope, name, None, None));
        control(&format!("create the collection `{scope}.{name}`"), making).await
    }

    /// Waits until the data service knows a collection. (The SDK retries until it does.)
    async fn usable(&self, name: &str) -> Result<(), StoreError> {
        let scope = &self.settings.scope;
        let collection = self.link.bucket.scope(scope).collection(name);
        let asking = async {
            match collection.exists(MARKER, None).await {
                Err(error) if !matches!(error.kind(), Kind::DocumentNotFound) => Err(error),
                _ => Ok(()),
            }
        };
        control(&format!("wait for the collection `{scope}.{name}`"), asking).await
    }

    async fn make_indexes(&self, layout: &CollectionLayout) -> Result<(), StoreError> {
        let scope = &self.settings.scope;
        let indexes = self.link.bucket.scope(scope).collection(&layout.name).query_indexes();
        let what = format!("create the indexes of `{scope}.{}`", layout.name);
        let deadline = Instant::now() + PATIENCE;
        let mut wanted = Vec::new();
        if self.key_index && needs_key_index(self.settings, layout) {
            let options = || CreatePrimaryQueryIndexOptions::new().index_name(KEY_INDEX).ignore_if_exists(true);
            control(&what, until_known(deadline, || indexes.create_primary_index(options()))).await?;
            wanted.push(KEY_INDEX.to_owned());
        }
        for fields in &layout.indexes {
            let name = format!("storebench_{}", fields.join("_"));
            let names: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
            let options = || CreateQueryIndexOptions::new().ignore_if_exists(true);
            let making = until_known(deadline, || indexes.create_index(name.clone(), names.clone(), options()));
            control(&what, making).await?;
            wanted.push(name);
        }
        while !wanted.is_empty() {
            let all = control(&what, indexes.get_all_indexes(GetAllQueryIndexesOptions::new())).await?;
            wanted.retain(|name| !all.iter().any(|index| index.name() == name && index.state() == "online"));
            if !wanted.is_empty() && Instant::now() >= deadline {
                return Err(StoreError::Failed(format!(
                    "cannot {what}: {} not online after {PATIENCE:?}; check the index service",
                    wanted.join(", ")
                )));
            }
            if !wanted.is_empty() {
                sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    }

    /// Checks that the existing collections that are to be read or written exist.
    pub(super) async fn check_existing(&mut self, layout: &Layout, write: bool) -> Result<(), StoreError> {
        let found = self.look().await?;
        let scopes = control("list the collections", self.link.bucket.collections().get_all_scopes(None)).await?;
        for collection in &layout.collections {
            let (scope, name) = place(self.settings, collection);
            let shown = self.shown();
            if write && scope == self.settings.scope && found.marked_as(name).is_some() {
                return Err(found.not_theirs(&shown, &format!("{scope}.{name}")));
            }
            let known = scopes.iter().find(|s| s.name() == scope);
            if !known.is_some_and(|s| s.collections().iter().any(|c| c.name() == name)) {
                return Err(StoreError::NotSupported(format!(
                    "{shown} has no collection `{scope}.{name}`; name one as scope.collection"
                )));
            }
        }
        Ok(())
    }
}

impl Site for Scope<'_> {
    const ANOTHER: &'static str = "another scope with scope=";
    const RESERVED: &'static str = MARKERS;

    fn shown(&self) -> String {
        format!("bucket `{}`", self.settings.bucket)
    }

    fn form(&self, _body: Body) -> String {
        FORM.to_owned()
    }

    fn check(&self, layout: &Layout) -> Result<(), StoreError> {
        match layout.collections.iter().find(|collection| !is_name(&collection.name)) {
            None => Ok(()),
            Some(collection) => Err(StoreError::NotSupported(format!(
                "invalid collection name `{}`; use at most 30 letters, digits, `-` and `_`, beginning with a \
                 letter or a digit",
                collection.name
            ))),
        }
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let Settings { bucket, scope, .. } = self.settings;
        (self.collections, self.marker) = (None, None);
        if !std::mem::take(&mut self.removed) {
            let what = format!("list the collections of bucket `{bucket}`");
            let scopes = control(&what, self.link.bucket.collections().get_all_scopes(None)).await?;
            let there = scopes.iter().find(|there| there.name() == scope);
            self.collections = there.map(|scope| scope.collections().iter().map(|c| c.name().to_owned()).collect());
        }
        if self.has(MARKERS) {
            self.marker = self.read_marker().await?;
        }
        let mut found = self.marker.as_ref().map(|(marker, _)| marker.clone()).unwrap_or_default();
        found.absent = self.collections.is_none();
        if let Some(all) = &self.collections {
            let of_others = |name: &&String| *name != MARKERS && found.marked_as(name).is_none();
            if found.made != Some(true) || all.iter().any(|name| of_others(&name)) {
                let count = all.iter().filter(|name| *name != MARKERS).count();
                found.foreign = Some(format!("the scope `{scope}` of bucket `{bucket}`, with {count} collections"));
            }
        }
        Ok(found)
    }

    async fn rest(&mut self) {
        net::rest().await;
    }

    async fn taken(&mut self, found: &Holdings, names: &[&str]) -> Result<Option<String>, StoreError> {
        let taken = names.iter().find(|name| self.has(name)).filter(|_| found.foreign.is_some());
        Ok(taken.map(|name| format!("the collection `{}.{name}`", self.settings.scope)))
    }

    /// Writes the marker first: what is made after it is known to be ours, wherever this is interrupted.
    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        let scope = &self.settings.scope;
        if self.collections.is_none() {
            let manager = self.link.bucket.collections();
            let creating = async {
                match manager.create_scope(scope, None).await {
                    Err(error) if matches!(error.kind(), Kind::ScopeExists) => Ok(false),
                    result => result.map(|()| true),
                }
            };
            self.created = control(&format!("create the scope `{scope}`"), creating).await?;
        }
        if !self.has(MARKERS) {
            self.create_collection(MARKERS).await?;
        }
        if (wanted.first || wanted.collections.iter().any(WantedCollection::marks))
            && self.write_marker(wanted.made || self.created, &wanted.marked, false).await? == SiteOutcome::Changed
        {
            return match self.read_marker().await? {
                None if wanted.first => Err(self.marker_taken(&format!("{scope}.{MARKERS}"))),
                _ => Ok(SiteOutcome::Changed),
            };
        }
        for planned in wanted.collections.iter().filter(|planned| !self.has(planned.name())) {
            self.create_collection(planned.name()).await?;
        }
        for planned in &wanted.collections {
            self.usable(planned.name()).await?;
            self.make_indexes(planned.layout).await?;
        }
        Ok(SiteOutcome::Done)
    }

    /// Changes the marks first, if they are still what was found: a copy that takes a collection over also overwrites
    /// its mark. If this is killed, what is left belongs to a study, and the next one removes it.
    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        let scope = &self.settings.scope;
        let manager = self.link.bucket.collections();
        let made = self.marker.as_ref().is_some_and(|(marker, _)| marker.made == Some(true));
        if removal.whole {
            if self.write_marker(made, &removal.going, true).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            // Others may have added collections since, or ended this removal and begun again.
            let now = self.look().await?;
            if !now.removing {
                return Ok(SiteOutcome::Changed);
            }
            if now.foreign.is_some() || now.marked != removal.going {
                return self.write_marker(made, &removal.going, false).await.map(|_| SiteOutcome::Changed);
            }
            control(&format!("remove the scope `{scope}`"), manager.drop_scope(scope, None)).await?;
            self.removed = true;
            return Ok(SiteOutcome::Done);
        }
        let marks: Vec<Marked> =
            removal.left.iter().cloned().chain(removal.going.iter().map(Marked::removing)).collect();
        if self.write_marker(made, &marks, false).await? == SiteOutcome::Changed {
            return Ok(SiteOutcome::Changed);
        }
        let drop = async |name: &str| {
            let what = format!("remove the collection `{scope}.{name}`");
            control(&what, manager.drop_collection(scope, name, None)).await
        };
        for going in removal.going.iter().filter(|going| self.has(&going.name)) {
            drop(&going.name).await?;
        }
        // The marker stays if others have added marks meanwhile.
        self.marker = self.read_marker().await?;
        let now = self.marker.iter().flat_map(|(marker, _)| &marker.marked);
        let left: Vec<Marked> = now.filter(|marked| !removal.takes(&marked.name)).cloned().collect();
        if !left.is_empty() {
            return self.write_marker(made, &left, false).await;
        }
        // From here on, nobody adds marks.
        if self.write_marker(made, &[], true).await? == SiteOutcome::Changed {
            return Ok(SiteOutcome::Changed);
        }
        drop(MARKERS).await?;
        Ok(SiteOutcome::Done)
    }
}

async fn existing_is_fine(making: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    match making.await {
        Err(error) if matches!(error.kind(), Kind::ScopeExists | Kind::CollectionExists | Kind::IndexExists) => Ok(()),
        result => result,
    }
}

/// Whether a collection gets a primary index, which takes time at each write.
pub(super) fn needs_key_index(settings: &Settings, collection: &CollectionLayout) -> bool {
    settings.key_index && (collection.uses.key_order || settings.key_index_asked)
}

/// Retries while the query service does not know a collection that was just created.
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

/// Refuses all but the default collection of a server that has no others.
pub(super) fn check_default(settings: &Settings, layout: &Layout) -> Result<(), StoreError> {
    let other = layout.collections.iter().map(|collection| place(settings, collection)).find(|at| *at != DEFAULT);
    let Some((scope, name)) = other else { return Ok(()) };
    Err(StoreError::NotSupported(format!(
        "bucket `{}` cannot have the collection `{scope}.{name}`: {NO_COLLECTIONS}. Only the documents of its default \
         collection can be used, as documents that exist: the collection `_default` of a copy, or existing = \
         \"_default\" in a study",
        settings.bucket
    )))
}

/// The only collection of a server that lacks others.
pub(super) const DEFAULT: (&str, &str) = ("_default", "_default");

/// The scope and the name of a collection. One of another program is `scope.collection`, or `collection` in the default
/// scope.
pub(super) fn place<'a>(settings: &'a Settings, layout: &'a CollectionLayout) -> (&'a str, &'a str) {
    match &layout.existing {
        None => (&settings.scope, &layout.name),
        Some(existing) => existing.name.split_once('.').unwrap_or((DEFAULT.0, &existing.name)),
    }
}
