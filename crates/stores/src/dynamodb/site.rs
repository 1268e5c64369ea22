//! Creating, marking and removing Storebench's tables.

use std::time::{Duration, Instant};

use storebench_engine::store::{CollectionLayout, Holdings, Marked, Removal, Site, SiteOutcome, StoreError, Wanted};
use storebench_study::workload::Body;

use super::server::{Found, Server};
use super::table::{Form, Table};
use crate::net;

/// How long a table stays marked as being removed until another removal assumes that the first one was killed.
const ABANDONED: Duration = Duration::from_secs(20);

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
    /// found, so only one of the two succeeds.
    ///
    /// DeleteTable takes no condition. If two removals sent it, the second one could meet a table that was made again
    /// in between. So only the removal whose mark it is sends it, soon after it wrote the mark, and another one takes
    /// the table over only if nothing happened for much longer.
    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        for going in &removal.going {
            let table = self.name(&going.name);
            let mut begun = Instant::now();
            while going.is_removing() && begun.elapsed() < ABANDONED {
                if self.server.mark_of(&table).await? != Found::Marked(going.mark.clone()) {
                    return Ok(SiteOutcome::Changed);
                }
                net::rest().await;
            }
            begun = Instant::now();
            let mine = format!("{} {:016x}", going.removing().mark, fastrand::u64(..));
            let marked = self.server.mark(&table, Some(&going.mark), &mine).await?;
            if marked == SiteOutcome::Changed || begun.elapsed() > ABANDONED / 2 {
                return Ok(SiteOutcome::Changed);
            }
            self.server.remove(&table).await?;
        }
        Ok(SiteOutcome::Done)
    }
}
