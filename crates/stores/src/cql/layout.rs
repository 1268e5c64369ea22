//! A keyspace: who owns what in it, and making and removing what is ours.
//!
//! A keyspace that Storebench uses has the table [`MARKERS`] with one row, whose text says whether Storebench made the
//! keyspace, and which of its tables Storebench made. It is only written by lightweight transactions, over what the
//! last look found.

use std::collections::BTreeSet;

use storebench_engine::store::{
    Holdings, Layout, Marked, Removal, Site, SiteOutcome, StoreError, Wanted, WantedCollection, several,
};
use storebench_study::workload::Body;
use xxhash_rust::xxh3::xxh3_64;

use super::errors::is_gone;
use super::link::{Link, literal};
use super::settings::{Settings, is_name, quoted, replication_cql, table_name};
use super::table::{column_of, fields};
use crate::marker::{marker, read_marker};
use crate::net;

/// The table that holds the marker.
const MARKERS: &str = "storebench_marker";
/// The only row of it.
const MARKER: &str = "storebench";
/// What the marker calls the place.
const KIND: &str = "keyspace";
/// What a keyspace may contain. System tables of these names list it, with names in columns such as `table_name`.
const KINDS: [&str; 5] = ["tables", "views", "types", "functions", "aggregates"];

/// Whether a marker names the collection of this table.
fn is_marked(found: &Holdings, table: &str) -> bool {
    found.marked.iter().any(|marked| table_name(&marked.name) == table)
}

/// Whether a table is Storebench's: that of a collection, or that of the marker.
pub(super) fn is_ours(found: &Holdings, table: &str) -> bool {
    is_marked(found, table) || (table == MARKERS && found.made.is_some())
}

/// A keyspace, and what the last look found in it.
pub(super) struct Keyspace<'s> {
    link: &'s Link,
    settings: &'s Settings,
    /// Whether the server has storage-attached indexes.
    sai: bool,
    /// Its tables; `None` if there is no keyspace.
    tables: Option<BTreeSet<String>>,
    /// The text of the marker, if there is one.
    marker: Option<String>,
    /// Whether it was created here just now, whatever another client's marker in it says.
    created: bool,
}

impl<'s> Keyspace<'s> {
    pub(super) fn new(link: &'s Link, settings: &'s Settings, sai: bool) -> Self {
        Self { link, settings, sai, tables: None, marker: None, created: false }
    }

    fn has(&self, collection: &str) -> bool {
        self.tables.as_ref().is_some_and(|all| all.contains(&*table_name(collection)))
    }

    fn place(&self, collection: &str) -> String {
        format!("{}.{}", quoted(&self.settings.keyspace), quoted(&table_name(collection)))
    }

    /// Runs a statement that changes the schema. Returns false if something that it needs is gone, or if what it would
    /// make exists.
    async fn change(&self, what: &str, statement: String) -> Result<bool, StoreError> {
        match self.link.run(what, &statement).await {
            Ok(()) => Ok(true),
            Err(error) if is_gone(&error) || error.to_string().contains("already existing") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Refuses more replicas than there are nodes: a majority of them could not acknowledge the marker.
    fn check_replication(&self) -> Result<(), StoreError> {
        let nodes = self.link.session.get_cluster_state().get_nodes_info().len();
        let wanted: u32 = self.settings.replication.iter().map(|(_, copies)| copies).sum();
        if wanted as usize <= nodes {
            return Ok(());
        }
        Err(StoreError::NotSupported(format!(
            "{}: {wanted} replicas need as many nodes, but there are {nodes}; nothing was touched. Use a smaller \
             replication=",
            self.link.place
        )))
    }

    async fn read_marker(&self) -> Result<Option<String>, StoreError> {
        let query = format!("SELECT marker FROM {} WHERE id = {}", self.place(MARKERS), literal(MARKER));
        match self.link.rows("read Storebench's marker", query).await {
            Ok(rows) => Ok(rows.first().map(|row| row.text(0).to_owned()).filter(|text| !text.is_empty())),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the marker over the one that was found, or where there was none.
    async fn write_marker(&mut self, made: bool, marked: &[Marked], removing: bool) -> Result<SiteOutcome, StoreError> {
        let text = marker(KIND, made, marked, removing).to_string();
        let before = self.marker.as_deref().map_or_else(|| "null".to_owned(), literal);
        let statement = format!(
            "UPDATE {} SET marker = {} WHERE id = {} IF marker = {before}",
            self.place(MARKERS),
            literal(&text),
            literal(MARKER)
        );
        match self.link.rows("write Storebench's marker", statement).await {
            Ok(rows) if rows.first().and_then(|row| row.is(0)) == Some(true) => {
                self.marker = Some(text);
                Ok(SiteOutcome::Done)
            }
            Ok(_) => Ok(SiteOutcome::Changed),
            Err(error) if is_gone(&error) => Ok(SiteOutcome::Changed),
            Err(error) => Err(error),
        }
    }

    /// Creates a table if it is missing, and the columns and indexes that it lacks.
    async fn make_table(&self, planned: &WantedCollection<'_>) -> Result<(), StoreError> {
        let (name, place) = (planned.name(), self.place(planned.name()));
        // Only names that the driver makes: the server's words are looked for in errors that begin with this.
        let what = format!("create the table {place} and its indexes");
        let wanted: BTreeSet<&String> = planned.layout.indexes.iter().flatten().collect();
        let column = |field: &str| format!("{} text", quoted(&column_of(field)));
        let mut there = wanted.iter().map(|field| (*field).clone()).collect();
        if self.has(name) {
            there = fields(self.link, &self.settings.keyspace, &table_name(name)).await?;
        } else {
            let body = if planned.layout.body == Body::Bytes { "blob" } else { "text" };
            let columns: String = wanted.iter().map(|field| format!(", {}", column(field))).collect();
            let statement = format!("CREATE TABLE {place} (key text PRIMARY KEY, body {body}{columns})");
            self.change(&what, statement).await?;
        }
        for field in wanted {
            if !there.contains(field) {
                if !self.link.rows(&what, format!("SELECT key FROM {place} LIMIT 1")).await?.is_empty() {
                    return Err(StoreError::NotSupported(format!(
                        "{}: the documents of `{name}` were written without an index of `{field}`; Cassandra indexes \
                         columns, not members of JSON, so load the collection again",
                        self.shown()
                    )));
                }
                self.link.run(&what, &format!("ALTER TABLE {place} ADD {}", column(field))).await?;
            }
            let index = quoted(&format!("sb_{:016x}", xxh3_64(format!("{} {field}", table_name(name)).as_bytes())));
            let (on, using) = (quoted(&column_of(field)), if self.sai { " USING 'sai'" } else { "" });
            self.link.run(&what, &format!("CREATE INDEX IF NOT EXISTS {index} ON {place} ({on}){using}")).await?;
        }
        Ok(())
    }

    /// What the marker says.
    fn marked(&self) -> Option<Holdings> {
        read_marker(KIND, self.marker.as_deref()?.as_bytes())
    }

    /// Everything in keyspaces of users: the keyspace, the kind and the name of each thing. Indexes of ScyllaDB are
    /// views.
    async fn contents(&self) -> Result<Vec<(String, &'static str, String)>, StoreError> {
        let mut all = Vec::new();
        for kind in KINDS {
            let query = format!("SELECT keyspace_name, {}_name FROM system_schema.{kind}", kind.trim_end_matches('s'));
            for row in self.link.rows("list what is there", query).await? {
                let (keyspace, name) = (row.text(0), row.text(1));
                let system = keyspace == "system" || keyspace.starts_with("system_");
                let of_index = kind == "views" && name.ends_with("_index");
                if !system && !of_index {
                    all.push((keyspace.to_owned(), kind, name.to_owned()));
                }
            }
        }
        Ok(all)
    }
}

impl Site for Keyspace<'_> {
    const ANOTHER: &'static str = "another ?keyspace=";
    const RESERVED: &'static str = MARKERS;

    fn shown(&self) -> String {
        format!("{}: the keyspace `{}`", self.link.place, self.settings.keyspace)
    }

    fn check(&self, layout: &Layout) -> Result<(), StoreError> {
        match layout.collections.iter().find(|collection| !is_name(&table_name(&collection.name))) {
            None => Ok(()),
            Some(collection) => Err(StoreError::NotSupported(format!(
                "invalid collection name `{}`; begin it with an ASCII letter or a digit",
                collection.name
            ))),
        }
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let keyspace = &self.settings.keyspace;
        let query =
            format!("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = {}", literal(keyspace));
        let exists = !self.link.rows("list the keyspaces", query).await?.is_empty();
        let contents = self.contents().await?;
        let within = || contents.iter().filter(|(of, ..)| of == keyspace);
        let tables = within().filter(|(_, kind, _)| *kind == "tables").map(|(.., name)| name.clone());
        self.tables = exists.then(|| tables.collect());
        self.marker = if self.has(MARKERS) { self.read_marker().await? } else { None };
        let mut found = self.marked().unwrap_or_default();
        let marker = found.clone();
        let is_ours = |kind: &str, name: &str| kind == "tables" && self::is_ours(&marker, name);
        let theirs: Vec<String> =
            within().filter(|(_, kind, name)| !is_ours(kind, name)).map(|(.., name)| name.clone()).collect();
        if exists && (found.made != Some(true) || !theirs.is_empty()) {
            let with = several("object", &theirs).map(|theirs| format!(" with {theirs}")).unwrap_or_default();
            found.foreign = Some(format!("the keyspace `{keyspace}`{with}"));
        }
        let readable = |(of, kind, name): &&(String, &str, String)| {
            matches!(*kind, "tables" | "views") && (of != keyspace || !is_ours(kind, name))
        };
        let readable = contents.iter().filter(readable).map(|(of, _, name)| format!("{of}.{name}")).collect();
        found.theirs = readable;
        found.absent = !exists;
        Ok(found)
    }

    async fn rest(&mut self) {
        net::rest().await;
    }

    async fn taken(&mut self, found: &Holdings, names: &[&str]) -> Result<Option<String>, StoreError> {
        let taken = names.iter().find(|name| self.has(name)).filter(|_| found.foreign.is_some());
        Ok(taken.map(|name| format!("the table {}", self.place(name))))
    }

    /// Writes the marker first: what is made after it is known to be ours, wherever this is interrupted.
    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        let keyspace = &self.settings.keyspace;
        let what = format!("create the keyspace `{keyspace}`");
        if self.tables.is_none() {
            self.check_replication()?;
            let replication = replication_cql(&self.settings.replication);
            let statement = format!("CREATE KEYSPACE {} WITH replication = {replication}", quoted(keyspace));
            self.created = self.change(&what, statement).await?;
        }
        if !self.has(MARKERS) {
            let columns = "(id text PRIMARY KEY, marker text)";
            self.change(&what, format!("CREATE TABLE {} {columns}", self.place(MARKERS))).await?;
        }
        if (wanted.first || wanted.collections.iter().any(WantedCollection::marks))
            && self.write_marker(wanted.made || self.created, &wanted.marked, false).await? == SiteOutcome::Changed
        {
            self.marker = self.read_marker().await?;
            let taken = self.marker.is_some() && self.marked().is_none();
            return if taken { Err(self.marker_taken(&self.place(MARKERS))) } else { Ok(SiteOutcome::Changed) };
        }
        for planned in &wanted.collections {
            self.make_table(planned).await?;
        }
        Ok(SiteOutcome::Done)
    }

    /// Changes the marks first, if they are still what was found: a copy that takes a table over also overwrites its
    /// mark. If this is killed, what is left belongs to a study, and the next one removes it.
    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        let keyspace = self.settings.keyspace.clone();
        let made = self.marked().is_some_and(|marker| marker.made == Some(true));
        if removal.whole {
            if self.write_marker(made, &removal.going, true).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            // Others may have added tables since, or ended this removal and begun again.
            let now = self.look().await?;
            if !now.removing {
                return Ok(SiteOutcome::Changed);
            }
            if now.foreign.is_some() || now.marked != removal.going {
                return self.write_marker(made, &removal.going, false).await.map(|_| SiteOutcome::Changed);
            }
            let statement = format!("DROP KEYSPACE {}", quoted(&keyspace));
            self.change(&format!("remove the keyspace `{keyspace}`"), statement).await?;
            return Ok(SiteOutcome::Done);
        }
        let marks: Vec<Marked> =
            removal.left.iter().cloned().chain(removal.going.iter().map(Marked::removing)).collect();
        if self.write_marker(made, &marks, false).await? == SiteOutcome::Changed {
            return Ok(SiteOutcome::Changed);
        }
        for Marked { name, .. } in removal.going.iter().filter(|going| self.has(&going.name)) {
            let place = self.place(name);
            self.change(&format!("remove the table {place}"), format!("DROP TABLE {place}")).await?;
        }
        // The marker stays if others have added marks meanwhile.
        self.marker = self.read_marker().await?;
        let now = self.marked().map(|marker| marker.marked).unwrap_or_default();
        let left: Vec<Marked> = now.into_iter().filter(|marked| !removal.takes(&marked.name)).collect();
        if !left.is_empty() {
            return self.write_marker(made, &left, false).await;
        }
        // From here on, nobody adds marks.
        if self.write_marker(made, &[], true).await? == SiteOutcome::Changed {
            return Ok(SiteOutcome::Changed);
        }
        self.change("remove Storebench's marker", format!("DROP TABLE {}", self.place(MARKERS))).await?;
        Ok(SiteOutcome::Done)
    }
}
