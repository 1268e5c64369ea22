//! Making, keeping and removing what Storebench stores in a database.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use storebench_engine::store::{
    CollectionLayout, Holdings, Layout, Prepare, Removal, Site, SiteOutcome, StoreError, Wanted, WantedCollection,
    prepare,
};
use storebench_study::workload::Body;

use super::errors::store_error;
use super::names::{self, Naming};
use super::server::{Contents, INDEX_PREFIX, MARKER_COLLECTION, MARKER_ID, Marker, Server};
use super::target::{Collection, Expiry, Target, index_definition};
use crate::http::{Method, RequestBuf};
use crate::net;

/// How often RavenDB looks for expired documents in a database made here, in seconds, if the licence allows it.
/// RavenDB's own default would miss the shortest expiry worth measuring.
const EXPIRY_EVERY_S: u32 = 5;
/// RavenDB's default, in seconds.
const EXPIRY_DEFAULT_S: u32 = 60;

/// How long to look for the effect of a call that the server answered with an error.
const LOOK_FOR: Duration = Duration::from_secs(30);

/// How many documents one request removes.
const AT_ONCE: usize = 1_000;

/// A database, and what the last look found in it.
pub(super) struct MarkedDatabase<'s> {
    pub(super) server: &'s Server,
    pub(super) replicas: u32,
    /// `None` if it does not exist.
    pub(super) contents: Option<Contents>,
    /// Whether Storebench made it. Set once it is prepared.
    pub(super) made: bool,
}

impl MarkedDatabase<'_> {
    /// Makes or finds the layout. Returns what sessions need to know.
    pub(super) async fn prepare(&mut self, layout: &Layout, how: Prepare) -> Result<Target, StoreError> {
        if how.makes_nothing() {
            return self.as_it_is(layout, how == Prepare::ReadOnly).await;
        }
        prepare(self, layout, how).await?;
        let collections = layout.collections.iter().map(Collection::ours).collect();
        let alone = self.contents.as_ref().is_none_or(|contents| contents.holdings().theirs.is_empty());
        self.server.target(collections, false, self.made && alone).await
    }

    /// Finds what exists, for sessions that only read, or that write into existing collections.
    async fn as_it_is(&mut self, layout: &Layout, read_only: bool) -> Result<Target, StoreError> {
        let server = self.server;
        if let Some(collection) = layout.collections.iter().find(|c| !read_only && c.body != Body::Json) {
            return Err(StoreError::NotSupported(format!(
                "`{}` holds JSON; only collections that Storebench made can hold counters",
                collection.name
            )));
        }
        self.check(layout)?;
        let found = self.look().await?;
        let Some(contents) = &self.contents else {
            return Err(StoreError::Unreachable(format!("{}: no such database; check the name", server.shown())));
        };
        // Documents that Storebench did not make have other ids, so none of them would be found.
        found.check_made(self, layout)?;
        let mut collections = Vec::new();
        let mut indexes = None;
        for collection in &layout.collections {
            let Some(existing) = &collection.existing else {
                collections.push(Collection::ours(collection));
                continue;
            };
            if existing.key.is_some() || existing.body.is_some() {
                return Err(StoreError::NotSupported(
                    "in RavenDB the key is the document's id and the body is the whole document; leave out `key` and \
                     `body`"
                        .into(),
                ));
            }
            let there = contents.collections.iter().find(|(name, _)| name.eq_ignore_ascii_case(&existing.name));
            let (name, _) = there.ok_or_else(|| found.missing(&server.shown(), &existing.name))?;
            if !read_only && found.marked.iter().any(|marked| names::alike(&marked.name, name)) {
                return Err(found.not_theirs(&server.shown(), name));
            }
            let definitions = match &indexes {
                Some(definitions) => definitions,
                None => indexes.insert(server.get("/indexes", "list its indexes").await?),
            };
            collections.push(Collection {
                naming: Naming::theirs(),
                queries: automatic_queries(definitions, name),
                name: name.clone(),
                body: Body::Json,
            });
        }
        server.target(collections, read_only, false).await
    }
}

impl Site for MarkedDatabase<'_> {
    const ANOTHER: &'static str = "another database";
    const RESERVED: &'static str = MARKER_COLLECTION;

    fn shown(&self) -> String {
        self.server.shown()
    }

    /// RavenDB ignores case in names, and `-` is written as `_`.
    fn alike(&self, one: &str, other: &str) -> bool {
        names::alike(one, other)
    }

    fn check(&self, layout: &Layout) -> Result<(), StoreError> {
        layout.collections.iter().try_for_each(check_collection)
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        self.contents = self.server.look().await?;
        let absent = Holdings { absent: true, ..Holdings::default() };
        Ok(self.contents.as_ref().map_or(absent, Contents::holdings))
    }

    async fn rest(&mut self) {
        net::rest().await;
    }

    /// Collections whose name or ids another program uses.
    async fn taken(&mut self, found: &Holdings, names: &[&str]) -> Result<Option<String>, StoreError> {
        let Some(contents) = &self.contents else { return Ok(None) };
        for name in names {
            let mut theirs = contents.collections.iter().filter(|(other, _)| found.theirs.contains(other));
            if let Some((other, count)) = theirs.find(|(other, _)| names::alike(other, name)) {
                return Ok(Some(format!("{count} documents in the collection `{other}`")));
            }
            if let Some(id) = self.server.ids_with_prefix(&format!("{name}/"), 1).await?.first() {
                return Ok(Some(format!("the document `{id}`")));
            }
        }
        Ok(None)
    }

    /// The marker is written before everything that it names.
    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        let mut made = wanted.made;
        match &self.contents {
            // Nobody can tell who made an empty database without a marker.
            Some(_) => made &= !wanted.first,
            None => {
                if let Err(error) = self.server.make_database(self.replicas).await {
                    let there = self.server.stats_if_there().await?.is_some();
                    return if there { Ok(SiteOutcome::Changed) } else { Err(error) };
                }
            }
        }
        self.made = made;
        if wanted.first || wanted.collections.iter().any(WantedCollection::marks) {
            let marker = Marker { made_database: made, collections: wanted.marked.clone(), removing: false };
            let vector = self.contents.as_ref().map_or("", |contents| &contents.vector);
            if self.server.put_marker(&marker, vector).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
        }
        let with_fields = |planned: &WantedCollection<'_>| {
            let layout = planned.layout;
            layout.indexes.iter().map(|fields| index_definition(layout, fields)).collect::<Vec<Value>>()
        };
        let indexes: Vec<Value> = wanted.collections.iter().flat_map(with_fields).collect();
        if !indexes.is_empty() {
            self.server.make_indexes(&indexes).await?;
        }
        Ok(SiteOutcome::Done)
    }

    /// Removes the database, or documents and indexes in one that holds more. The marker goes last, so that what an
    /// interrupted removal leaves is still ours. The marker first says that the database is being removed, since the
    /// removal takes whatever is in it at that time.
    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        let Some(Contents { marker: Some(found), vector, .. }) = &self.contents else {
            return Ok(SiteOutcome::Changed);
        };
        if removal.whole {
            let found = found.clone();
            let removing = Marker { removing: true, ..found.clone() };
            if self.server.put_marker(&removing, vector).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            // Others may have added documents since, or ended this removal and begun again.
            let now = self.look().await?;
            if !now.removing {
                return Ok(SiteOutcome::Changed);
            }
            if now.foreign.is_some() || now.marked != removal.going {
                let vector = self.contents.as_ref().map_or("", |contents| &contents.vector);
                let back = Marker { removing: false, ..found };
                return self.server.put_marker(&back, vector).await.map(|_| SiteOutcome::Changed);
            }
            return self.server.remove_database().await.map(|()| SiteOutcome::Done);
        }
        let mut marker = found.clone();
        let mut vector = vector.clone();
        for going in &removal.going {
            let Some(last) = self.server.remove_documents(&going.name, &marker, vector).await? else {
                return Ok(SiteOutcome::Changed);
            };
            vector = last;
        }
        let of_going = |index: &&String| {
            let collection = index.strip_prefix(INDEX_PREFIX).and_then(|rest| rest.split('/').next());
            collection.is_some_and(|name| removal.takes(name))
        };
        for index in self.contents.iter().flat_map(|contents| &contents.indexes).filter(of_going) {
            self.server.remove_index(index).await?;
        }
        marker.collections.retain(|marked| !removal.takes(&marked.name));
        if marker.collections.is_empty() {
            self.server.remove_marker(&vector).await
        } else {
            self.server.put_marker(&marker, &vector).await
        }
    }
}

impl Server {
    async fn target(&self, collections: Vec<Collection>, read_only: bool, ours: bool) -> Result<Target, StoreError> {
        let told = self.record().await?;
        let hidden = told.is_none();
        let record = told.unwrap_or_default();
        let expiration = &record["Expiration"];
        let expires = expiration.is_object() && expiration["Disabled"] != true;
        let may_be_set = ours && !expires && !hidden;
        let every_s = match expiration["DeleteFrequencyInSec"].as_u64() {
            Some(every_s) if expires => u32::try_from(every_s).unwrap_or(u32::MAX),
            None if expires => EXPIRY_DEFAULT_S,
            _ if may_be_set => self.shortest_expiry_s().await?,
            _ => EXPIRY_EVERY_S,
        };
        let members = |name: &str| record["Topology"][name].as_array().map_or(0, Vec::len);
        Ok(Target {
            path: self.path(""),
            collections,
            read_only,
            expiry: Expiry::new(expires, every_s, may_be_set),
            may_expire: expires || hidden,
            ours,
            nodes: members("Members").max(1),
        })
    }

    /// How often the task that removes expired documents may run, in seconds. Since RavenDB 6 this depends on the
    /// licence: without one, or with the free one, every 36 hours.
    async fn shortest_expiry_s(&self) -> Result<u32, StoreError> {
        let response = self.client.call(Method::GET, "/license/status", None).await?;
        let hours = response.json()["MinPeriodForExpirationInHours"].as_u64().unwrap_or(0);
        let seconds = u32::try_from(hours.saturating_mul(3_600)).unwrap_or(u32::MAX);
        Ok(if response.is_success() { seconds.max(EXPIRY_EVERY_S) } else { EXPIRY_EVERY_S })
    }

    async fn make_database(&self, replicas: u32) -> Result<(), StoreError> {
        let path = format!("/admin/databases?name={}&replicationFactor={replicas}", self.database);
        let record = json!({ "DatabaseName": self.database, "Settings": {}, "Disabled": false, "Encrypted": false });
        let made = self.call_or_look(Method::PUT, &path, &record, "create the database", async || {
            Ok(self.stats_if_there().await?.is_some())
        });
        made.await?;
        self.wait_until_served().await
    }

    pub(super) async fn make_indexes(&self, indexes: &[Value]) -> Result<(), StoreError> {
        let body = json!({ "Indexes": indexes });
        let path = self.path("/admin/indexes");
        let made = self.call_or_look(Method::PUT, &path, &body, "create the indexes", async || {
            let told = self.get("/indexes?namesOnly=true", "list its indexes").await?;
            let there = told["Results"].as_array().map_or(&[][..], Vec::as_slice);
            Ok(indexes.iter().all(|index| there.contains(&index["Name"])))
        });
        made.await
    }

    /// A call that changes the state of the whole cluster. If the server answers with an internal error, it may only
    /// have missed the confirmation of its own change. So this looks for the change before it gives up.
    async fn call_or_look(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        doing: &str,
        is_done: impl AsyncFn() -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let response = self.client.call(method, path, Some(body)).await?;
        if response.is_success() {
            return Ok(());
        }
        let begun = Instant::now();
        // What RavenDB cannot compile it has not done.
        let kind = response.json()["Type"].as_str().unwrap_or_default().to_owned();
        let of_its_own =
            response.status >= 500 && !kind.contains("IndexCompilation") && !kind.contains("IndexCreation");
        loop {
            if of_its_own && matches!(is_done().await, Ok(true)) {
                return Ok(());
            }
            if !of_its_own || begun.elapsed() >= LOOK_FOR {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(store_error(&self.shown(), doing, &response.answer()))
    }

    /// Writes the marker over the one with this change vector. If the vector is empty, there must be none yet.
    async fn put_marker(&self, marker: &Marker, vector: &str) -> Result<SiteOutcome, StoreError> {
        self.change_marker(&[marker.put(vector)], "write Storebench's marker").await.map(made)
    }

    async fn remove_marker(&self, vector: &str) -> Result<SiteOutcome, StoreError> {
        let command = json!({ "Type": "DELETE", "Id": MARKER_ID, "ChangeVector": vector });
        self.change_marker(&[command], "remove Storebench's marker").await.map(made)
    }

    /// Runs all commands, or none if the marker is not what the first command expects. Returns the marker's new change
    /// vector. `None` if nothing was done.
    async fn change_marker(&self, commands: &[Value], doing: &str) -> Result<Option<String>, StoreError> {
        let body = json!({ "Commands": commands });
        let response = self.client.call(Method::POST, &self.path("/bulk_docs"), Some(&body)).await?;
        match response.status {
            200..=299 => Ok(Some(response.json()["Results"][0]["@change-vector"].as_str().unwrap_or("").to_owned())),
            409 => Ok(None),
            // Another client is making the same database, which is then loaded again.
            503 => self.wait_until_served().await.map(|()| None),
            _ => Err(store_error(&self.shown(), doing, &response.answer())),
        }
    }

    async fn ids_with_prefix(&self, prefix: &str, at_most: usize) -> Result<Vec<String>, StoreError> {
        let mut request = self.client.request();
        request.begin(Method::GET).raw(&self.path("/docs?startsWith=")).segment(prefix);
        request.raw("&metadataOnly=true&pageSize=").number(at_most as u64);
        self.ids(&request).await
    }

    /// The ids of the documents in an answer.
    pub(super) async fn ids(&self, request: &RequestBuf) -> Result<Vec<String>, StoreError> {
        let response = self.client.send(request).await?;
        if !response.is_success() {
            return Err(store_error(&self.shown(), "list documents", &response.answer()));
        }
        let told = response.json();
        let rows = told["Results"].as_array().into_iter().flatten();
        Ok(rows.filter_map(|row| row["@metadata"]["@id"].as_str().map(str::to_owned)).collect())
    }

    async fn remove_database(&self) -> Result<(), StoreError> {
        let body = json!({
            "DatabaseNames": [self.database], "HardDelete": true, "TimeToWaitForConfirmation": "00:00:30",
        });
        let removed = self.call_or_look(Method::DELETE, "/admin/databases", &body, "remove the database", async || {
            Ok(self.stats_if_there().await?.is_none())
        });
        removed.await
    }

    /// Removes a collection's documents as long as the marker is this one. Returns the marker's last change vector.
    /// `None` if another client changed the marker.
    async fn remove_documents(
        &self,
        collection: &str,
        marker: &Marker,
        mut vector: String,
    ) -> Result<Option<String>, StoreError> {
        loop {
            let ids = self.ids_with_prefix(&format!("{collection}/"), AT_ONCE).await?;
            if ids.is_empty() {
                return Ok(Some(vector));
            }
            let delete = |id: &String| json!({ "Type": "DELETE", "Id": id, "ChangeVector": null });
            let commands: Vec<Value> = [marker.put(&vector)].into_iter().chain(ids.iter().map(delete)).collect();
            match self.change_marker(&commands, "remove Storebench's documents").await? {
                Some(last) => vector = last,
                None => return Ok(None),
            }
        }
    }

    pub(super) async fn remove_index(&self, index: &str) -> Result<(), StoreError> {
        let mut request = self.client.request();
        request.begin(Method::DELETE).raw(&self.path("/indexes?name=")).segment(index);
        let response = self.client.send(&request).await?;
        if response.is_success() || response.status == 404 {
            return Ok(());
        }
        Err(store_error(&self.shown(), "remove an index", &response.answer()))
    }
}

/// The outcome of a change of the marker.
fn made(vector: Option<String>) -> SiteOutcome {
    if vector.is_some() { SiteOutcome::Done } else { SiteOutcome::Changed }
}

/// Queries by the indexes that RavenDB created automatically for a collection. Indexes that users defined are not used,
/// since they may put anything under a field's name.
fn automatic_queries(definitions: &Value, collection: &str) -> Vec<(String, String)> {
    let mut queries: Vec<(String, String)> = Vec::new();
    let of_collection = |index: &&Value| {
        index["Type"] == "AutoMap"
            && index["Maps"][0]
                .as_str()
                .is_some_and(|map| map.split_once(":[").is_some_and(|(name, _)| name.eq_ignore_ascii_case(collection)))
    };
    for index in definitions["Results"].as_array().into_iter().flatten().filter(of_collection) {
        let Some(name) = index["Name"].as_str() else { continue };
        let fields = index["Fields"].as_object().into_iter().flatten().map(|(field, _)| field.as_str());
        for field in fields {
            let (field, exact) = match field.strip_prefix("exact(").and_then(|rest| rest.strip_suffix(')')) {
                Some(field) => (field, true),
                None => (field, false),
            };
            if field.contains(['\'', '\\']) || name.contains('\\') {
                continue;
            }
            // In a quoted name of RQL, a quote is escaped with a backslash.
            let name = name.replace('\'', "\\'");
            // The index's name for the exact form of a field.
            let test = if exact { format!("exact('exact({field})' = $v)") } else { format!("'{field}' = $v") };
            let query = format!("from index '{name}' where {test}");
            match queries.iter_mut().find(|(known, _)| known == field) {
                Some(known) if exact => known.1 = query,
                Some(_) => {}
                None => queries.push((field.to_owned(), query)),
            }
        }
    }
    queries
}

fn check_collection(collection: &CollectionLayout) -> Result<(), StoreError> {
    let name = &collection.name;
    if collection.body == Body::Bytes {
        return Err(StoreError::NotSupported(format!(
            "RavenDB stores JSON documents, and bytes only as attachments to them; the collection `{name}` \
             holds bytes"
        )));
    }
    if collection.body == Body::Counter && !collection.indexes.is_empty() {
        return Err(StoreError::NotSupported(format!("the counters of `{name}` have no field to index")));
    }
    let unfit = |field: &&String| field.is_empty() || field.chars().any(char::is_control);
    match collection.indexes.iter().flatten().find(unfit) {
        Some(field) => Err(StoreError::NotSupported(format!("RavenDB cannot index a field named {field:?}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automatic_indexes_give_queries_exact_ones_first() {
        let definitions = json!({ "Results": [
            { "Name": "Auto/Users/ByNameAndExact('a b')", "Type": "AutoMap", "Maps": ["Users:[<Name:name>]"],
              "Fields": { "name": {}, "a b": {}, "exact(a b)": {} } },
            { "Name": "Auto/Orders/ByDate", "Type": "AutoMap", "Maps": ["Orders:[<Name:date>]"], "Fields": { "date": {} } },
            { "Name": "Theirs", "Type": "Map", "Maps": ["from u in docs.Users select new { u.age }"], "Fields": { "age": {} } },
        ] });
        let mut queries = automatic_queries(&definitions, "users");
        queries.sort();
        let index = r"from index 'Auto/Users/ByNameAndExact(\'a b\')' where";
        assert_eq!(
            queries,
            [
                ("a b".to_owned(), format!("{index} exact('exact(a b)' = $v)")),
                ("name".to_owned(), format!("{index} 'name' = $v")),
            ]
        );
    }
}
