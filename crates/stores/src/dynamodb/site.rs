//! Creating, marking and removing Storebench's tables.

use storebench_engine::store::{CollectionLayout, Holdings, Marked, Removal, Site, SiteOutcome, StoreError, Wanted};
use storebench_study::workload::Body;

use super::server::{Found, Server};
use super::table::{Form, Table};
use crate::net;

/// The tables whose names begin with the prefix.
pub(super) struct Tables<'s> {
    pub(super) server: &'s Server,
    pub(super) native: bool,
    /// The URL without secrets.
    pub(super) shown: &'s str,
}

impl Tables<'_> {
    fn name(&self, collection: &str) -> String {
        format!("{}{collection}", self.server.prefix)
    }

    /// The table of a collection.
    pub(super) fn table(&self, layout: &CollectionLayout) -> Table {
        let form = if self.native && layout.body == Body::Json { Form::Native } else { Form::Whole(layout.body) };
        // An index over several fields serves pages by the first one.
        let fields = layout.indexes.iter().filter_map(|fields| fields.first()).map(String::as_str);
        Table::ours(self.name(&layout.name), form, fields)
    }
}

impl Site for Tables<'_> {
    const ANOTHER: &'static str = "another ?prefix=";

    fn shown(&self) -> String {
        self.shown.to_owned()
    }

    fn form(&self, body: Body) -> String {
        let native = if self.native && body == Body::Json { " native" } else { "" };
        format!("{}{native}", body.name())
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let (mut marked, mut theirs) = (Vec::new(), Vec::new());
        for name in self.server.tables().await? {
            let Some(collection) = name.strip_prefix(&self.server.prefix) else { continue };
            match self.server.mark_of(&name).await? {
                Found::Marked(mark) => marked.push(Marked::new(collection, mark)),
                Found::Unmarked => theirs.push(name),
                Found::Missing => {}
            }
        }
        Ok(Holdings::of_collections("table", marked, theirs))
    }

    async fn rest(&mut self) {
        net::rest().await;
    }

    async fn taken(&mut self, found: &Holdings, names: &[&str]) -> Result<Option<String>, StoreError> {
        let mut tables = names.iter().map(|name| self.name(name));
        Ok(tables.find(|name| found.theirs.contains(name)).map(|name| format!("the table `{name}`")))
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        for planned in &wanted.collections {
            let table = self.table(planned.layout);
            if planned.is_new() && self.server.create(&table).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            let before = planned.before.as_deref();
            if planned.marks() && self.server.mark(&table.name, before, &planned.mark).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            if planned.layout.uses.expiry && self.server.expires(&table.name).await?.is_none() {
                self.server.set_expires(&table.name).await?;
            }
        }
        Ok(SiteOutcome::Done)
    }

    /// Marks each table as being removed first. A copy that takes it over meanwhile also replaces the mark that was
    /// found, so only one of the two succeeds. DeleteTable takes no condition.
    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        for going in &removal.going {
            let table = self.name(&going.name);
            let now = async || {
                Ok(if let Found::Marked(mark) = self.server.mark_of(&table).await? { Some(mark) } else { None })
            };
            let replace = async |mine: String| self.server.mark(&table, Some(&going.mark), &mine).await;
            if net::mark_removal(going, now, replace).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            self.server.remove(&table).await?;
        }
        Ok(SiteOutcome::Done)
    }
}
