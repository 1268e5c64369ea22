//! The place of an embedded store, as the steps of [`prepare`](crate::store::prepare) see it.

use super::marker::{index_tables, is_index_of};
use super::{Change, Database, DatabasePlace, EmbeddedStore, FoundDatabase, KeyRange, Opened, Reader};
use crate::store::location::guarded;
use crate::store::{
    CollectionLayout, Holdings, Layout, OpError, Prepare, Removal, Site, SiteOutcome, StoreError, Wanted,
};

pub(super) struct EngineSite<'s, E: DatabasePlace> {
    store: &'s EmbeddedStore<E>,
    /// What it is prepared for; `None` for removing.
    how: Option<Prepare>,
    found: FoundDatabase,
    /// What was opened.
    pub(super) opened: Option<Opened<E::Database>>,
}

impl<'s, E: DatabasePlace> EngineSite<'s, E> {
    pub(super) fn new(store: &'s EmbeddedStore<E>, how: Option<Prepare>) -> Self {
        Self { store, how, found: FoundDatabase::default(), opened: None }
    }

    /// Opens the collections of a layout for reading only.
    pub(super) fn read(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let (engine, place, name) = (&self.store.engine, self.shown(), E::Database::NAME);
        let gone = || StoreError::Unreachable(format!("{place}: no {name} database found"));
        self.find()?;
        if !self.found.database {
            return Err(gone());
        }
        self.store.let_go();
        let found = &self.found;
        let holdings = Holdings { theirs: found.theirs.clone(), ..found.holdings() };
        self.opened = guarded(engine.path(), || {
            let taken = engine.read(found)?.ok_or_else(|| {
                StoreError::Unreachable(format!(
                    "{place}: others change it at the same time; try again when they have finished"
                ))
            })?;
            let tables = engine.tables(&taken.database)?;
            for collection in &layout.collections {
                let name = &collection.name;
                if !holdings.check_form(self, name, collection.body)? && !found.theirs.contains(name) {
                    return Err(holdings.missing(&place, name));
                }
            }
            // An index without its table finds nothing. What is only read may have been created without it.
            let made = |table: &String| found.marker.as_ref().is_some_and(|marker| marker.indexes.contains(table));
            let has_index = |table: &String| made(table) && tables.contains(table);
            Opened::of(engine, taken, layout.collections.iter(), has_index, true, found.foreign.is_none()).map(Some)
        })?;
        Ok(())
    }

    /// Looks, and refuses what is not allowed to any owner.
    fn find(&mut self) -> Result<(), StoreError> {
        self.found = self.store.look()?;
        let place = self.shown();
        if self.how.is_some_and(|how| !how.makes_nothing()) && self.found.theirs.iter().any(|name| name == E::RESERVED)
        {
            return Err(self.marker_taken(E::RESERVED));
        }
        match (&self.found, self.how) {
            (FoundDatabase { damage: Some(damage), .. }, how) if how != Some(Prepare::Discard) => {
                Err(StoreError::Failed(format!("{place}: {damage}")))
            }
            (FoundDatabase { other: true, .. }, Some(how)) if !how.makes_nothing() => Err(self.other()),
            _ => Ok(()),
        }
    }

    /// The error if the place does not hold a database of the engine that something can be added to.
    fn other(&self) -> StoreError {
        StoreError::NotOurs(format!(
            "{} holds {} and is not a {} database, so nothing can be changed in it; nothing was touched. Use another path",
            self.shown(),
            self.found.foreign.as_deref().unwrap_or("something else"),
            E::Database::NAME
        ))
    }

    /// Plans what must exist, after a look at the tables. Changes nothing.
    fn plan(&self, database: &E::Database, wanted: &Wanted<'_>) -> Result<Change, StoreError> {
        let (engine, place) = (&self.store.engine, self.shown());
        let theirs = |table: &str| {
            StoreError::NotOurs(format!(
                "{place} has a {} `{table}` that Storebench did not make; nothing was written. Rename the collection, or \
                 use another path",
                E::TABLE
            ))
        };
        let tables = engine.tables(database)?;
        let has = |table: &String| tables.contains(table);
        let mut marker = self.found.marker.clone().unwrap_or_default();
        (marker.made, marker.collections) = (wanted.made, wanted.marked.clone());
        let mut change = Change::default();
        for planned in &wanted.collections {
            let name = &planned.layout.name;
            if planned.is_new() && has(name) {
                return Err(theirs(name));
            }
            change.documents.push(name.clone());
            for index in index_tables(planned.layout) {
                if !marker.indexes.contains(&index) {
                    if has(&index) {
                        return Err(theirs(&index));
                    }
                    if has(name) && !self.is_empty(database, name)? {
                        return Err(StoreError::NotSupported(format!(
                            "{place}: the collection `{name}` holds documents that the new index `{index}` would not \
                             find; load it again"
                        )));
                    }
                    marker.indexes.push(index.clone());
                }
                change.indexes.push(index);
            }
        }
        Ok(Change { marker: Some(marker), ..change })
    }

    fn is_empty(&self, database: &E::Database, table: &str) -> Result<bool, StoreError> {
        let failed = |e: OpError| StoreError::Failed(format!("{}: cannot read `{table}`: {e}", self.shown()));
        let tables = self.store.engine.collection(database, table, Vec::new())?;
        let reader = database.read(&tables).map_err(failed)?;
        let mut empty = true;
        let first = |_: &str, _: &[u8]| {
            empty = false;
            Ok(true)
        };
        reader.range(KeyRange::From { start: "", end: None }, first).map_err(failed)?;
        Ok(empty)
    }
}

impl<E: DatabasePlace> Site for EngineSite<'_, E> {
    const ANOTHER: &'static str = "another path";
    const RESERVED: &'static str = E::RESERVED;

    fn shown(&self) -> String {
        self.store.engine.path().display().to_string()
    }

    fn check(&self, layout: &Layout) -> Result<(), StoreError> {
        let tables = |c: &CollectionLayout| std::iter::once(c.name.clone()).chain(index_tables(c)).collect::<Vec<_>>();
        match layout.collections.iter().flat_map(tables).find(|name| name.len() > E::NAME_BYTES) {
            None => Ok(()),
            Some(long) => Err(StoreError::NotSupported(format!(
                "{} accepts {} names of at most {} bytes, and `{long}` has {}; shorten the collection's name or its \
                 indexed fields",
                E::Database::NAME,
                E::TABLE,
                E::NAME_BYTES,
                long.len()
            ))),
        }
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        self.find()?;
        Ok(self.found.holdings())
    }

    async fn taken(&mut self, _: &Holdings, names: &[&str]) -> Result<Option<String>, StoreError> {
        let theirs = self.found.theirs.iter().find(|theirs| names.contains(&theirs.as_str()));
        Ok(theirs.map(|name| format!("a {} `{name}`", E::TABLE)))
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        self.store.let_go();
        let engine = &self.store.engine;
        self.opened = guarded(engine.path(), || {
            let Some(taken) = engine.take(&self.found)? else { return Ok(None) };
            let done = self.plan(&taken.database, wanted).and_then(|change| engine.commit(&taken.database, &change));
            if done.is_err() && !self.found.exists {
                engine.undo();
            }
            done?;
            let layouts = wanted.collections.iter().map(|planned| planned.layout);
            Opened::of(engine, taken, layouts, |_| true, false, self.found.foreign.is_none()).map(Some)
        })?;
        Ok(if self.opened.is_some() { SiteOutcome::Done } else { SiteOutcome::Changed })
    }

    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        let Some(mut marker) = self.found.marker.clone() else { return Ok(SiteOutcome::Done) };
        self.store.let_go();
        let engine = &self.store.engine;
        let whole = marker.made && removal.left.is_empty() && self.found.theirs.is_empty();
        if !whole && removal.going.is_empty() && !removal.left.is_empty() {
            return Ok(SiteOutcome::Done);
        }
        if self.found.other && !whole {
            return Err(self.other());
        }
        let done = guarded(engine.path(), || {
            if whole {
                return engine.destroy(&self.found, removal.again);
            }
            let Some(taken) = engine.take(&self.found)? else { return Ok(false) };
            let stays = |index: &String| removal.left.iter().any(|left| is_index_of(index, &left.name));
            let (kept, gone): (Vec<_>, Vec<_>) = marker.indexes.into_iter().partition(stays);
            (marker.collections, marker.indexes) = (removal.left.clone(), kept);
            let removed = removal.going.iter().map(|going| going.name.clone()).chain(gone).collect();
            let marker = (!removal.left.is_empty()).then_some(marker);
            engine.commit(&taken.database, &Change { removed, marker, ..Change::default() }).map(|()| true)
        })?;
        Ok(if done { SiteOutcome::Done } else { SiteOutcome::Changed })
    }
}
