//! Making, keeping and removing what Storebench stores in a database.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use storebench_core::store::{CollectionLayout, Existing, Layout, Prepare, StoreError};
use storebench_core::workload::Body;

use super::names::{self, Naming};
use super::server::{Contents, INDEX_PREFIX, MARKER_COLLECTION, MARKER_ID, Marker, Server, body_name};
use super::target::{Collection, Expiry, Target, index_definition};
use crate::http::Method;

/// How often RavenDB looks for expired documents in a database made here, in seconds, where its licence
/// allows it. Its own default would let the shortest expiry worth measuring pass unnoticed.
const EXPIRY_EVERY_S: u32 = 5;
/// That default, in seconds.
const EXPIRY_DEFAULT_S: u32 = 60;

/// How long is looked for what a call made that the server answered with an error of its own.
const LOOK_FOR: Duration = Duration::from_secs(5);

/// How many documents are removed with one request.
const AT_ONCE: usize = 1_000;

impl Server {
    /// Makes the layout; gives what sessions need to know.
    pub(super) async fn prepare(&self, layout: &Layout, how: Prepare, replicas: u32) -> Result<Target, StoreError> {
        check_layout(layout, how)?;
        let mut found = self.look().await?;
        if how.makes_nothing() {
            let Some(contents) = &found else {
                return Err(StoreError::Unreachable(format!(
                    "{}: there is no such database; is its name right?",
                    self.shown()
                )));
            };
            return self.as_it_is(layout, contents, how == Prepare::ReadOnly).await;
        }
        if let Some(contents) = &found {
            contents.holdings().allow(&self.shown(), "another database", layout, how)?;
        }
        if how.empties()
            && let Some(contents) = &found
        {
            self.empty(contents, true).await?;
            found = self.look().await?;
        }
        let (contents, made) = match found {
            Some(contents) => (contents, false),
            None => {
                self.make_database(replicas).await?;
                (Contents::default(), true)
            }
        };
        let marker = self.mark(layout, how, &contents, made).await?;
        let indexes: Vec<Value> = layout
            .collections
            .iter()
            .flat_map(|c| c.indexes.iter().map(|fields| index_definition(c, fields)))
            .collect();
        if !indexes.is_empty() {
            self.make_indexes(&indexes).await?;
        }
        let collections = layout.collections.iter().map(Collection::ours).collect();
        let ours = marker.made_database && contents.theirs().next().is_none();
        self.target(collections, false, ours).await
    }

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

    /// How often the task that removes expired documents may look, in seconds. As of RavenDB 6 that is a matter
    /// of the licence: without one, or with the free one, every 36 hours.
    async fn shortest_expiry_s(&self) -> Result<u32, StoreError> {
        let response = self.client.call(Method::Get, "/license/status", None).await?;
        let hours = response.json()["MinPeriodForExpirationInHours"].as_u64().unwrap_or(0);
        let seconds = u32::try_from(hours.saturating_mul(3_600)).unwrap_or(u32::MAX);
        Ok(if response.is_success() { seconds.max(EXPIRY_EVERY_S) } else { EXPIRY_EVERY_S })
    }

    async fn make_database(&self, replicas: u32) -> Result<(), StoreError> {
        let path = format!("/admin/databases?name={}&replicationFactor={replicas}", self.database);
        let record = json!({ "DatabaseName": self.database, "Settings": {}, "Disabled": false, "Encrypted": false });
        let made = self.call_or_look(Method::Put, &path, &record, "make the database", async || {
            Ok(self.stats_if_there().await?.is_some())
        });
        made.await?;
        self.wait_until_served().await
    }

    async fn make_indexes(&self, indexes: &[Value]) -> Result<(), StoreError> {
        let body = json!({ "Indexes": indexes });
        let path = self.path("/admin/indexes");
        let made = self.call_or_look(Method::Put, &path, &body, "make the indexes", async || {
            let told = self.get("/indexes?namesOnly=true", "list its indexes").await?;
            let there = told["Results"].as_array().map_or(&[][..], Vec::as_slice);
            Ok(indexes.iter().all(|index| there.contains(&index["Name"])))
        });
        made.await
    }

    /// A call that changes what the whole cluster knows. Where the server answers with an error of its own, it
    /// may have failed only to hear of the change that it made: looks for it before giving up.
    async fn call_or_look(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        doing: &str,
        is_done: impl AsyncFn() -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let text = body.to_string();
        let response = self.client.call(method, path, Some(text.as_bytes())).await?;
        if response.is_success() {
            return Ok(());
        }
        let begun = Instant::now();
        let of_its_own = response.status >= 500;
        loop {
            if of_its_own && matches!(is_done().await, Ok(true)) {
                return Ok(());
            }
            if !of_its_own || begun.elapsed() >= LOOK_FOR {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(super::errors::store_error(&self.shown(), doing, &response.answer()))
    }

    /// Writes the marker with what the layout adds, before anything else is written.
    async fn mark(&self, layout: &Layout, how: Prepare, contents: &Contents, made: bool) -> Result<Marker, StoreError> {
        let new = contents.marker.is_none();
        let mut marker = contents.marker.clone().unwrap_or(Marker { made_database: made, collections: Vec::new() });
        let before = marker.clone();
        for collection in &layout.collections {
            let body = body_name(collection.body);
            match marker.collections.iter_mut().find(|(name, ..)| *name == collection.name) {
                Some((_, kept, owner)) if kept == body => *owner = how.owner(Some(*owner)),
                Some((name, kept, _)) => {
                    return Err(StoreError::NotSupported(format!(
                        "{}: the collection `{name}` is kept as {kept} there and would be {body} now; load it anew, \
                         or rename it",
                        self.shown()
                    )));
                }
                None => {
                    self.refuse_theirs(&collection.name, contents).await?;
                    marker.collections.push((collection.name.clone(), body.to_owned(), how.owner(None)));
                }
            }
        }
        if marker != before || new {
            // Nobody else's document is written over: a new marker must not exist, an old one is ours.
            let command = json!({
                "Type": "PUT", "Id": MARKER_ID, "ChangeVector": if new { json!("") } else { Value::Null },
                "Document": marker.document(),
            });
            self.command(&[command], "write Storebench's marker").await?;
        }
        Ok(marker)
    }

    /// Refuses a collection whose name or ids somebody else uses.
    async fn refuse_theirs(&self, name: &str, contents: &Contents) -> Result<(), StoreError> {
        let raven = names::collection(name);
        let taken = contents.collections.iter().find(|(other, _)| other.eq_ignore_ascii_case(&raven));
        let text = match taken {
            Some((other, count)) => format!("{count} documents in the collection `{other}`"),
            None => match self.first_with_prefix(&format!("{name}/")).await? {
                Some(id) => format!("the document `{id}`"),
                None => return Ok(()),
            },
        };
        Err(StoreError::NotOurs(format!(
            "{} has {text} that Storebench did not make; nothing was touched. Rename the collection `{name}`, or use \
             another database",
            self.shown()
        )))
    }

    async fn first_with_prefix(&self, prefix: &str) -> Result<Option<String>, StoreError> {
        Ok(self.ids_with_prefix(prefix, 1).await?.into_iter().next())
    }

    async fn ids_with_prefix(&self, prefix: &str, at_most: usize) -> Result<Vec<String>, StoreError> {
        let mut request = self.client.request();
        request.begin(Method::Get).raw(&self.path("/docs?startsWith=")).segment(prefix);
        request.raw("&metadataOnly=true&pageSize=").number(at_most as u64);
        let response = self.client.send(&mut request).await?;
        if !response.is_success() {
            return Err(super::errors::store_error(&self.shown(), "list documents", &response.answer()));
        }
        let told = response.json();
        let rows = told["Results"].as_array().into_iter().flatten();
        Ok(rows.filter_map(|row| row["@metadata"]["@id"].as_str().map(str::to_owned)).collect())
    }

    async fn command(&self, commands: &[Value], doing: &str) -> Result<(), StoreError> {
        let body = json!({ "Commands": commands });
        self.call(Method::Post, &self.path("/bulk_docs"), Some(&body), doing).await.map(drop)
    }

    /// Removes what studies made, and what copies wrote if `discard`: the database, or documents and indexes in one
    /// that holds more.
    pub(super) async fn empty(&self, contents: &Contents, discard: bool) -> Result<(), StoreError> {
        let Some(marker) = &contents.marker else { return Ok(()) };
        let holdings = contents.holdings();
        if marker.made_database && holdings.all_removable(discard) {
            let body = json!({
                "DatabaseNames": [self.database], "HardDelete": true, "TimeToWaitForConfirmation": "00:00:30",
            });
            let removed =
                self.call_or_look(Method::Delete, "/admin/databases", &body, "remove the database", async || {
                    Ok(self.stats_if_there().await?.is_none())
                });
            return removed.await;
        }
        let going: Vec<&str> = holdings.removable(discard).collect();
        for name in &going {
            loop {
                let ids = self.ids_with_prefix(&format!("{name}/"), AT_ONCE).await?;
                if ids.is_empty() {
                    break;
                }
                let commands: Vec<Value> =
                    ids.iter().map(|id| json!({ "Type": "DELETE", "Id": id, "ChangeVector": null })).collect();
                self.command(&commands, "remove Storebench's documents").await?;
            }
        }
        let of_going = |index: &&String| {
            let collection = index.strip_prefix(INDEX_PREFIX).and_then(|rest| rest.split('/').next());
            collection.is_some_and(|name| going.contains(&name))
        };
        for index in contents.indexes.iter().filter(of_going) {
            let mut request = self.client.request();
            request.begin(Method::Delete).raw(&self.path("/indexes?name=")).segment(index);
            let response = self.client.send(&mut request).await?;
            if !response.is_success() && response.status != 404 {
                return Err(super::errors::store_error(&self.shown(), "remove an index", &response.answer()));
            }
        }
        // The marker goes last: what an interrupted removal leaves is still ours.
        if going.len() < marker.collections.len() {
            let mut left = marker.clone();
            left.collections.retain(|(name, ..)| !going.contains(&name.as_str()));
            let command = json!({
                "Type": "PUT", "Id": MARKER_ID, "ChangeVector": null, "Document": left.document(),
            });
            return self.command(&[command], "write Storebench's marker").await;
        }
        let marker = json!({ "Type": "DELETE", "Id": MARKER_ID, "ChangeVector": null });
        self.command(&[marker], "remove Storebench's marker").await
    }

    /// What is there, for sessions that only read, or that write into it as it is.
    async fn as_it_is(&self, layout: &Layout, contents: &Contents, read_only: bool) -> Result<Target, StoreError> {
        let mut collections = Vec::new();
        let mut indexes = None;
        for collection in &layout.collections {
            let Some(existing) = &collection.existing else {
                self.check_ours(collection, contents)?;
                collections.push(Collection::ours(collection));
                continue;
            };
            let name = self.their_collection(existing, contents)?;
            let ours = contents.marker.iter().flat_map(|marker| &marker.collections);
            if !read_only && ours.map(|(name, ..)| names::collection(name)).any(|ours| ours == name) {
                return Err(StoreError::NotSupported(format!(
                    "{}: Storebench made the collection `{name}`, and names its documents in a way of its own; leave \
                     --into-existing out",
                    self.shown()
                )));
            }
            let definitions = match &indexes {
                Some(definitions) => definitions,
                None => indexes.insert(self.get("/indexes", "list its indexes").await?),
            };
            collections.push(Collection {
                naming: Naming::theirs(),
                queries: automatic_queries(definitions, &name),
                name,
                body: Body::Json,
            });
        }
        self.target(collections, read_only, false).await
    }

    /// Refuses what Storebench did not make: its documents have ids of another kind, of which none would be found.
    fn check_ours(&self, collection: &CollectionLayout, contents: &Contents) -> Result<(), StoreError> {
        let mut ours = contents.marker.iter().flat_map(|marker| &marker.collections);
        let body = body_name(collection.body);
        match ours.find(|(name, ..)| *name == collection.name) {
            Some((_, kept, _)) if kept == body => Ok(()),
            Some((name, kept, _)) => Err(StoreError::NotSupported(format!(
                "{}: the collection `{name}` is kept as {kept} there, and not as {body}; load it anew, or rename it",
                self.shown()
            ))),
            None => Err(self.missing(&collection.name, contents)),
        }
    }

    fn missing(&self, name: &str, contents: &Contents) -> StoreError {
        let there = contents.names();
        StoreError::NotSupported(format!(
            "{}: there is no collection `{name}`; it has: {}",
            self.shown(),
            if there.is_empty() { "none".to_owned() } else { there.join(", ") }
        ))
    }

    fn their_collection(&self, existing: &Existing, contents: &Contents) -> Result<String, StoreError> {
        if existing.key.is_some() || existing.body.is_some() {
            return Err(StoreError::NotSupported(
                "RavenDB's documents have their id as key and themselves as body; leave `key` and `body` out".into(),
            ));
        }
        let there = &contents.collections;
        if let Some((name, _)) = there.iter().find(|(name, _)| name.eq_ignore_ascii_case(&existing.name)) {
            return Ok(name.clone());
        }
        Err(self.missing(&existing.name, contents))
    }
}

/// Queries by the indexes that RavenDB made of a collection by itself. What others defined may put
/// anything under a field's name, so that they are not used.
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
            // In a quoted name of RQL, a quote is written with a backslash.
            let name = name.replace('\'', "\\'");
            // What the index calls the exact form of a field.
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

fn check_layout(layout: &Layout, how: Prepare) -> Result<(), StoreError> {
    for (position, collection) in layout.collections.iter().enumerate() {
        let name = &collection.name;
        if how == Prepare::WriteExisting && collection.body != Body::Json {
            return Err(StoreError::NotSupported(format!(
                "`{name}` holds JSON; counters are in collections that Storebench made"
            )));
        }
        if collection.existing.is_some() && !how.makes_nothing() {
            return Err(StoreError::NotSupported(format!(
                "the collection `{name}` holds what somebody else put there, which is only read"
            )));
        }
        if collection.body == Body::Bytes {
            return Err(StoreError::NotSupported(format!(
                "RavenDB stores JSON documents; bytes, as the collection `{name}` has them, it keeps only attached to \
                 a document"
            )));
        }
        if collection.body == Body::Counter && !collection.indexes.is_empty() {
            return Err(StoreError::NotSupported(format!("the counters of `{name}` have no field to index")));
        }
        if names::alike(name, MARKER_COLLECTION) {
            return Err(StoreError::NotSupported(format!("Storebench keeps the name `{name}` for itself")));
        }
        for fields in &collection.indexes {
            if let Some(field) = fields.iter().find(|field| field.is_empty() || field.chars().any(char::is_control)) {
                return Err(StoreError::NotSupported(format!("RavenDB has no index over a field named {field:?}")));
            }
        }
        let twin = layout.collections[..position].iter().find(|other| names::alike(&other.name, name));
        if let Some(twin) = twin.filter(|_| collection.existing.is_none()) {
            return Err(StoreError::NotSupported(format!(
                "RavenDB does not tell the collections `{}` and `{name}` apart (case does not count there, and `-` is \
                 written `_`); rename one of them",
                twin.name
            )));
        }
    }
    Ok(())
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
