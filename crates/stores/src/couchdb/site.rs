//! Creating, marking and removing Storebench's databases.

use serde_json::json;
use storebench_engine::store::{Holdings, Marked, Removal, Site, SiteOutcome, StoreError, Wanted};
use storebench_study::workload::Body;

use super::server::{FORM, Index, Server};
use crate::http::{collection_of_name, lower_case_name};
use crate::net;

/// The databases whose names begin with the prefix.
pub(super) struct Databases<'s> {
    pub(super) server: &'s Server,
    pub(super) prefix: &'s str,
    /// The URL without secrets.
    pub(super) shown: &'s str,
}

impl Databases<'_> {
    async fn names(&self) -> Result<Vec<String>, StoreError> {
        self.server.databases(self.prefix).await?.ok_or_else(|| {
            StoreError::Unreachable(format!(
                "{} does not let this user list databases; use an administrator's user and password",
                self.server.host
            ))
        })
    }
}

impl Site for Databases<'_> {
    const ANOTHER: &'static str = "another ?prefix=";

    fn shown(&self) -> String {
        self.shown.to_owned()
    }

    fn form(&self, _body: Body) -> String {
        FORM.to_owned()
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let (mut marked, mut theirs) = (Vec::new(), Vec::new());
        for name in self.names().await? {
            match self.server.mark_of(&name).await? {
                Some(mark) => marked.push(Marked::new(collection_of_name(self.prefix, &name), mark)),
                None => theirs.push(name),
            }
        }
        if !theirs.is_empty() {
            // A database that was removed meanwhile looks unmarked. Drop those that no longer exist.
            let now = self.names().await?;
            theirs.retain(|name| now.contains(name));
        }
        Ok(Holdings::of_collections("database", marked, theirs))
    }

    async fn rest(&mut self) {
        net::rest().await;
    }

    async fn taken(&mut self, found: &Holdings, names: &[&str]) -> Result<Option<String>, StoreError> {
        let mut databases = names.iter().map(|name| database_of(self.prefix, name));
        Ok(databases.find(|name| found.theirs.contains(name)).map(|name| format!("the database `{name}`")))
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        for planned in &wanted.collections {
            let database = database_of(self.prefix, planned.name());
            if planned.is_new() && self.server.create(&database).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            let before = planned.before.as_deref();
            if planned.marks() && self.server.mark(&database, before, &planned.mark).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            for fields in &planned.layout.indexes {
                let index = Index::over(fields);
                self.server.index(&database, &index.name, &json!({ "fields": index.fields })).await?;
            }
        }
        Ok(SiteOutcome::Done)
    }

    /// Marks each database as being removed first. A copy that takes it over meanwhile also replaces the mark that was
    /// found, so only one of the two succeeds.
    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        for going in &removal.going {
            let database = database_of(self.prefix, &going.name);
            if self.server.mark(&database, Some(&going.mark), &going.removing().mark).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            self.server.remove(&database).await?;
        }
        Ok(SiteOutcome::Done)
    }
}

/// The database of one of Storebench's collections.
pub(super) fn database_of(prefix: &str, collection: &str) -> String {
    lower_case_name(prefix, collection)
}
