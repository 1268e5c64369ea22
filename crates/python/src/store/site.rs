//! Storebench's marker: a document in a collection of its own.

use std::sync::Mutex;

use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use storebench_engine::store::{Holdings, Marked, Removal, Site, SiteOutcome, StoreError, Wanted, several};

use super::session::bytes_of;
use super::{Class, failed};

/// The collection that holds Storebench's marker, and the key of the marker in it.
const MARKER: (&str, &str) = ("storebench-marker", "marker");

/// The content of the marker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    format: String,
    /// Whether Storebench wrote into a store that was empty.
    made: bool,
    /// Name and mark of each collection.
    collections: Vec<(String, String)>,
}

const FORMAT: &str = "storebench-python-store/1";

/// The steps of preparing and removing. Other processes are not kept out: a class has no way to say that.
pub(super) struct ClassSite<'c> {
    class: &'c Class,
    found: Option<Marker>,
}

/// Keeps out other stores of this process.
pub(super) static CONTROL: Mutex<()> = Mutex::new(());

impl<'c> ClassSite<'c> {
    pub(super) fn new(class: &'c Class) -> Self {
        Self { class, found: None }
    }

    fn marker(&self) -> Result<Option<Marker>, StoreError> {
        let text = Python::attach(|py| {
            let found = self.class.control(py, "read", &[MARKER.0, MARKER.1])?;
            if found.is_none() { Ok(None) } else { bytes_of(&found).map(Some) }
        });
        let Some(text) = text.map_err(failed)? else { return Ok(None) };
        let marker: Result<Marker, _> = serde_json::from_slice(&text);
        marker.ok().filter(|marker| marker.format == FORMAT).map(Some).ok_or_else(|| self.marker_taken(MARKER.0))
    }

    fn write(&self, marker: &Marker) -> Result<(), StoreError> {
        let text = serde_json::to_string(marker).map_err(|e| StoreError::Failed(e.to_string()))?;
        Python::attach(|py| self.class.control(py, "upsert", &[MARKER.0, MARKER.1, &text]).map(drop)).map_err(failed)
    }

    /// Creates a collection if it is not among these.
    fn create(&self, names: &[String], name: &str) -> Result<(), StoreError> {
        if names.iter().any(|there| there == name) {
            return Ok(());
        }
        Python::attach(|py| self.class.control(py, "create", &[name]).map(drop)).map_err(failed)
    }

    fn drop_collection(&self, name: &str) -> Result<(), StoreError> {
        Python::attach(|py| self.class.control(py, "drop", &[name]).map(drop)).map_err(failed)
    }
}

impl Site for ClassSite<'_> {
    const ANOTHER: &'static str = "another store, or another place in it";
    const RESERVED: &'static str = MARKER.0;

    fn shown(&self) -> String {
        self.class.url.clone()
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let names = self.class.collections()?;
        self.found = if names.iter().any(|name| name == MARKER.0) { self.marker()? } else { None };
        let marked = self.found.iter().flat_map(|marker| &marker.collections);
        let marked: Vec<Marked> = marked.map(|(name, mark)| Marked::new(&**name, &**mark)).collect();
        let is_ours = |name: &String| name == MARKER.0 || marked.iter().any(|marked| marked.name == *name);
        let theirs: Vec<String> = names.into_iter().filter(|name| !is_ours(name)).collect();
        Ok(Holdings {
            absent: theirs.is_empty() && self.found.is_none(),
            foreign: several("collection", &theirs),
            made: self.found.as_ref().map(|marker| marker.made),
            marked,
            theirs,
            removing: false,
        })
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        let names = self.class.collections()?;
        let there = names.iter().any(|name| name == MARKER.0);
        // Also changed if others have removed it.
        if self.found != if there { self.marker()? } else { None } {
            return Ok(SiteOutcome::Changed);
        }
        self.create(&names, MARKER.0)?;
        let collections = wanted.marked.iter().map(|marked| (marked.name.clone(), marked.mark.clone())).collect();
        let marker = Marker { format: FORMAT.to_owned(), made: wanted.made, collections };
        if self.found.as_ref() != Some(&marker) {
            self.write(&marker)?;
        }
        // Also what an earlier process marked and then did not create.
        wanted.collections.iter().try_for_each(|planned| self.create(&names, planned.name()))?;
        Ok(SiteOutcome::Done)
    }

    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        let now = self.marker()?.unwrap_or_default();
        let marked: Vec<Marked> = now.collections.iter().map(|(name, mark)| Marked::new(&**name, &**mark)).collect();
        if !removal.still(&marked) {
            return Ok(SiteOutcome::Changed);
        }
        // Dropping may take long. A copy that wants one of these collections meanwhile waits, or is refused.
        let removing: Vec<Marked> = removal.going.iter().map(Marked::removing).collect();
        let mut marker = now;
        for (name, mark) in marker.collections.iter_mut().filter(|(name, _)| removal.takes(name)) {
            *mark = Marked::new(&**name, &**mark).removing().mark;
        }
        self.write(&marker)?;
        let names = self.class.collections()?;
        for going in removal.going.iter().filter(|going| names.contains(&going.name)) {
            self.drop_collection(&going.name)?;
        }
        // What others have marked meanwhile stays.
        let mut marker = self.marker()?.unwrap_or_default();
        marker.collections.retain(|(name, mark)| !removing.contains(&Marked::new(&**name, &**mark)));
        if marker.collections.is_empty() {
            self.drop_collection(MARKER.0)?;
        } else {
            self.write(&marker)?;
        }
        Ok(SiteOutcome::Done)
    }
}
