//! Control calls: whether the server is RavenDB, what the database holds, and what RavenDB reports about it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use storebench_engine::store::{Holdings, Marked, Stats, StoreError};

use super::errors::store_error;
use super::names;
use crate::http::{Client, Method, Response};
use crate::net::{settled, untold_settings};

/// The id of the marker. Ids of documents in collections contain a `/`.
pub(super) const MARKER_ID: &str = "storebench";
/// The marker's collection.
pub(super) const MARKER_COLLECTION: &str = "StorebenchMarker";
/// The start of the names of our indexes.
pub(super) const INDEX_PREFIX: &str = "Storebench/";
/// The oldest version that this driver supports. Change vectors exist since 4.0, and the measurements here are of 4.1.
const OLDEST: (u64, u64) = (4, 1);

/// A database of a server.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) client: Client,
    /// Host and port, for errors.
    pub(super) place: String,
    pub(super) database: String,
}

/// What Storebench recorded about what it made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marker {
    /// Whether it made the database itself.
    pub(super) made_database: bool,
    pub(super) collections: Vec<Marked>,
    /// Whether a client is about to remove the database.
    pub(super) removing: bool,
}

/// What is in a database.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents {
    pub(super) marker: Option<Marker>,
    /// The marker's change vector.
    pub(super) vector: String,
    /// RavenDB's collections and their numbers of documents, without the marker's.
    pub(super) collections: Vec<(String, u64)>,
    pub(super) indexes: Vec<String>,
}

impl Marker {
    fn read(document: &Value) -> Self {
        let collections = document["collections"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            made_database: document["database"] == "made",
            collections: collections.map(|c| Marked::new(text(&c["name"]), text(&c["body"]))).collect(),
            removing: document["removing"] == true,
        }
    }

    pub(super) fn document(&self) -> Value {
        let collections = self.collections.iter();
        let collections: Vec<Value> =
            collections.map(|marked| json!({ "name": marked.name, "body": marked.mark })).collect();
        json!({
            "about": "Storebench made what is listed here. It may empty and remove what it made for a study",
            "database": if self.made_database { "made" } else { "found" },
            "collections": collections,
            "removing": self.removing,
            "@metadata": { "@collection": MARKER_COLLECTION },
        })
    }

    /// The command that writes the marker over the one with this change vector. If the vector is empty, there must be
    /// none yet.
    pub(super) fn put(&self, vector: &str) -> Value {
        json!({ "Type": "PUT", "Id": MARKER_ID, "ChangeVector": vector, "Document": self.document() })
    }

    fn has(&self, raven_collection: &str) -> bool {
        self.collections.iter().any(|made| names::collection(&made.name).eq_ignore_ascii_case(raven_collection))
    }
}

impl Contents {
    /// Collections that Storebench did not make.
    fn theirs(&self) -> impl Iterator<Item = &(String, u64)> {
        self.collections.iter().filter(|(name, _)| !self.marker.as_ref().is_some_and(|marker| marker.has(name)))
    }

    /// Indexes that somebody defined. Those that RavenDB creates automatically belong to nobody.
    pub(super) fn their_indexes(&self) -> impl Iterator<Item = &String> {
        self.indexes.iter().filter(|name| !name.starts_with(INDEX_PREFIX) && !name.starts_with("Auto/"))
    }

    pub(super) fn holdings(&self) -> Holdings {
        let foreign = self.foreign();
        Holdings {
            absent: self.marker.is_none() && foreign.is_none(),
            foreign,
            made: self.marker.as_ref().map(|marker| marker.made_database),
            marked: self.marker.as_ref().map(|marker| marker.collections.clone()).unwrap_or_default(),
            theirs: self.theirs().map(|(name, _)| name.clone()).collect(),
            removing: self.marker.as_ref().is_some_and(|marker| marker.removing),
        }
    }

    fn foreign(&self) -> Option<String> {
        let theirs: Vec<&(String, u64)> = self.theirs().collect();
        let indexes = self.their_indexes().count();
        if theirs.is_empty() && indexes == 0 {
            return None;
        }
        let documents: u64 = theirs.iter().map(|(_, count)| count).sum();
        let mut text = match theirs.as_slice() {
            [] => format!("a RavenDB database with {indexes} indexes"),
            [(name, _)] => format!("a RavenDB database with {documents} documents in the collection `{name}`"),
            [(first, _), .., (last, _)] => format!(
                "a RavenDB database with {documents} documents in {} collections (`{first}` to `{last}`)",
                theirs.len()
            ),
        };
        if let Some(marker) = &self.marker {
            text += &format!(" beside {} of Storebench's", marker.collections.len());
        }
        Some(text)
    }
}

/// RavenDB's message about a database that is being created or loaded.
const LOCKED: &str = "is currently locked because";

impl Server {
    /// A path below that of the database.
    pub(super) fn path(&self, rest: &str) -> String {
        format!("/databases/{}{rest}", self.database)
    }

    /// The location, as error messages show it.
    pub(super) fn shown(&self) -> String {
        format!("{}/{}", self.place, self.database)
    }

    /// A call that must succeed.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        doing: &str,
    ) -> Result<Response, StoreError> {
        let response = self.client.call(method, path, body).await?;
        if response.is_success() {
            return Ok(response);
        }
        Err(store_error(&self.shown(), doing, &response.answer()))
    }

    /// Reads JSON from a path below that of the database.
    pub(super) async fn get(&self, rest: &str, doing: &str) -> Result<Value, StoreError> {
        Ok(self.call(Method::GET, &self.path(rest), None, doing).await?.json())
    }

    /// The server's version, if it is RavenDB and new enough.
    pub(super) async fn version(&self) -> Result<String, StoreError> {
        let place = &self.place;
        let response = self.client.call(Method::GET, "/build/version", None).await?;
        if matches!(response.status, 401 | 403) {
            return Err(store_error(place, "read its version", &response.answer()));
        }
        let told = response.json();
        let (Some(full), Some(product)) = (told["FullVersion"].as_str(), told["ProductVersion"].as_str()) else {
            return Err(StoreError::Unreachable(format!(
                "{place} answers HTTP, but is not RavenDB (it answered {} to /build/version); check the port",
                response.answer().shown()
            )));
        };
        let mut numbers = product.split('.').map_while(|part| part.parse::<u64>().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if version < OLDEST {
            return Err(StoreError::Unreachable(format!(
                "{place} is RavenDB {full}, which is too old for this driver; use {}.{} or newer",
                OLDEST.0, OLDEST.1
            )));
        }
        Ok(format!("RavenDB {full}"))
    }

    /// What the database holds. `None` if it does not exist. Changes nothing.
    pub(super) async fn look(&self) -> Result<Option<Contents>, StoreError> {
        let begun = Instant::now();
        let stats = loop {
            match self.stats_if_there().await {
                // Another client is making it at this moment, or the server is loading it.
                Err(error) if error.to_string().contains(LOCKED) && begun.elapsed() < Duration::from_secs(30) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                told => break told?,
            }
        };
        let Some(stats) = stats else { return Ok(None) };
        let mut contents = Contents::default();
        let indexes = stats["Indexes"].as_array().into_iter().flatten();
        contents.indexes = indexes.filter_map(|index| index["Name"].as_str().map(str::to_owned)).collect();
        if let Some((marker, vector)) = self.marker().await? {
            (contents.marker, contents.vector) = (Some(marker), vector);
        }
        let told = self.get("/collections/stats", "list its collections").await?;
        let collections = told["Collections"].as_object().into_iter().flatten();
        contents.collections = collections
            .map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0)))
            .filter(|(name, count)| *count > 0 && !(name == MARKER_COLLECTION && contents.marker.is_some()))
            .collect();
        Ok(Some(contents))
    }

    /// The marker and its change vector.
    pub(super) async fn marker(&self) -> Result<Option<(Marker, String)>, StoreError> {
        let found = self.client.call(Method::GET, &self.path(&format!("/docs?id={MARKER_ID}")), None).await?;
        match found.status {
            200 => {
                let told = found.json();
                let (document, metadata) = (&told["Results"][0], &told["Results"][0]["@metadata"]);
                let vector = metadata["@change-vector"].as_str().unwrap_or_default();
                // A document with that id in another collection belongs to somebody else.
                let ours = metadata["@collection"] == MARKER_COLLECTION;
                Ok(ours.then(|| (Marker::read(document), vector.to_owned())))
            }
            404 => Ok(None),
            _ => Err(store_error(&self.shown(), "read the marker", &found.answer())),
        }
    }

    /// The database's statistics. `None` if there is no such database.
    pub(super) async fn stats_if_there(&self) -> Result<Option<Value>, StoreError> {
        let response = self.client.call(Method::GET, &self.path("/stats"), None).await?;
        let answer = response.answer();
        let told = response.json();
        let kind = told["Type"].as_str().unwrap_or_default();
        match answer.status {
            200 if told["CountOfDocuments"].is_u64() => Ok(Some(told)),
            // A new server without any database calls itself passive.
            _ if kind.ends_with("DatabaseDoesNotExistException") || kind.ends_with("NodeIsPassiveException") => {
                Ok(None)
            }
            200 => Err(StoreError::Unreachable(format!(
                "{}: the server's answer is not RavenDB's protocol; check for a proxy or another server in between",
                self.shown()
            ))),
            _ => Err(store_error(&self.shown(), "read the statistics of the database", &answer)),
        }
    }

    /// The database's record: its node group, and what expires. `None` if this client may not see it.
    pub(super) async fn record(&self) -> Result<Option<Value>, StoreError> {
        let path = format!("/admin/databases?name={}", self.database);
        let response = self.client.call(Method::GET, &path, None).await?;
        // Only an operator may see it.
        Ok(response.is_success().then(|| response.json()))
    }

    /// The settings of the database and of its server.
    ///
    /// # Errors
    /// `NotSupported` if this client may not see them, or if the server is too old to tell them.
    pub(super) async fn configuration(&self) -> Result<Value, StoreError> {
        let response = self.client.call(Method::GET, &self.path("/admin/configuration/settings"), None).await?;
        if response.is_success() {
            return Ok(response.json());
        }
        let told = response.json();
        let unknown = told["Type"].as_str().is_some_and(|kind| kind.ends_with("RouteNotFoundException"));
        Err(match response.status {
            401 | 403 => untold_settings(true),
            _ if unknown => untold_settings(false),
            400..=405 => untold_settings(false),
            _ => store_error(&self.shown(), "tell its settings", &response.answer()),
        })
    }

    /// Statistics of the database, without those that this client may not see.
    pub(super) async fn figures(&self) -> Result<Stats, StoreError> {
        let Some(stats) = self.stats_if_there().await? else { return Ok(Stats::new()) };
        let mut figures = Stats::new();
        let mut add = |name: &str, value: &Value| {
            if let Some(value) = value.as_f64() {
                figures.push((name.to_owned(), value));
            }
        };
        add("documents", &stats["CountOfDocuments"]);
        add("tombstones", &stats["CountOfTombstones"]);
        add("write_queue_operations", &stats["NumberOfTransactionMergerQueueOperations"]);
        add("disk_bytes", &stats["SizeOnDisk"]["SizeInBytes"]);
        add("temporary_buffers_bytes", &stats["TempBuffersSizeOnDisk"]["SizeInBytes"]);
        let indexes = stats["Indexes"].as_array().map_or(&[][..], Vec::as_slice);
        add("indexes", &Value::from(indexes.len()));
        add("stale_indexes", &Value::from(indexes.iter().filter(|index| index["IsStale"] == true).count()));
        let told = async |rest: &str| {
            let response = self.client.call(Method::GET, &self.path(rest), None).await?;
            Ok::<_, StoreError>(if response.is_success() { response.json() } else { Value::Null })
        };
        let indexed = told("/indexes/stats").await?;
        let each = indexed["Results"].as_array().map_or(&[][..], Vec::as_slice);
        let sum = |value: &dyn Fn(&Value) -> u64| Value::from(each.iter().map(value).sum::<u64>());
        let lag = |index: &Value| {
            let collections = index["Collections"].as_object().into_iter().flatten();
            collections.map(|(_, c)| c["DocumentLag"].as_u64().unwrap_or(0)).sum()
        };
        add("index_lag_documents", &sum(&lag));
        add("index_entries", &sum(&|index| index["EntriesCount"].as_u64().unwrap_or(0)));
        add("index_errors", &sum(&|index| index["ErrorsCount"].as_u64().unwrap_or(0)));
        add("index_disk_bytes", &sum(&|index| index["Memory"]["DiskSize"]["SizeInBytes"].as_u64().unwrap_or(0)));
        let report = told("/debug/storage/report").await?;
        let stores = report["Results"].as_array().into_iter().flatten();
        if let Some(documents) = stores.into_iter().find(|store| store["Type"] == "Documents") {
            let file = &documents["Report"]["DataFile"];
            add("data_file_bytes", &file["AllocatedSpaceInBytes"]);
            add("data_file_used_bytes", &file["UsedSpaceInBytes"]);
            add("data_file_free_bytes", &file["FreeSpaceInBytes"]);
            let journals = documents["Report"]["Journals"].as_array().into_iter().flatten();
            let bytes: u64 = journals.filter_map(|journal| journal["AllocatedSpaceInBytes"].as_u64()).sum();
            add("journal_bytes", &Value::from(bytes));
        }
        let metrics = told("/metrics").await?;
        add("requests_total", &metrics["Requests"]["RequestsPerSec"]["Count"]);
        add("document_puts_total", &metrics["Docs"]["PutsPerSec"]["Count"]);
        add("document_put_bytes_total", &metrics["Docs"]["BytesPutsPerSec"]["Count"]);
        add("documents_indexed_total", &metrics["MapIndexes"]["IndexedPerSec"]["Count"]);
        Ok(figures)
    }

    /// Waits until no index is stale and no write is queued. Returns false if the time ends before.
    pub(super) async fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        settled(at_most, Duration::from_millis(50), async || {
            let Some(stats) = self.stats_if_there().await? else { return Ok(true) };
            let stale = stats["Indexes"].as_array().into_iter().flatten().any(|index| index["IsStale"] == true);
            Ok(!stale && stats["NumberOfTransactionMergerQueueOperations"].as_u64().unwrap_or(0) == 0)
        })
        .await
    }

    /// Compacts documents and indexes. The database is unavailable meanwhile.
    pub(super) async fn compact(&self) -> Result<(), StoreError> {
        let Some(stats) = self.stats_if_there().await? else { return Ok(()) };
        let indexes: Vec<&Value> = stats["Indexes"].as_array().into_iter().flatten().map(|i| &i["Name"]).collect();
        let settings = json!({ "DatabaseName": self.database, "Documents": true, "Indexes": indexes });
        let begun = self.call(Method::POST, "/admin/compact", Some(&settings), "compact the database").await?;
        let Some(operation) = begun.json()["OperationId"].as_u64() else {
            return Err(StoreError::Failed(format!(
                "{}: RavenDB returned no operation number for the compaction",
                self.shown()
            )));
        };
        let path = format!("/operations/state?id={operation}");
        loop {
            let state = self.call(Method::GET, &path, None, "read the state of the compaction").await?.json();
            match state["Status"].as_str() {
                Some("InProgress") => tokio::time::sleep(Duration::from_millis(100)).await,
                Some("Completed") => break,
                other => {
                    let why = state["Result"]["Message"].as_str().unwrap_or("no reason given");
                    return Err(StoreError::Failed(format!(
                        "{}: the compaction ended as {}: {why}",
                        self.shown(),
                        other.unwrap_or("nothing")
                    )));
                }
            }
        }
        self.wait_until_served().await
    }

    /// Waits until the database is loaded, after it was created or compacted.
    pub(super) async fn wait_until_served(&self) -> Result<(), StoreError> {
        let start = Instant::now();
        loop {
            match self.stats_if_there().await {
                Ok(Some(_)) => return Ok(()),
                Ok(None) | Err(_) if start.elapsed() < Duration::from_secs(30) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok(None) => {
                    return Err(StoreError::Failed(format!("{}: RavenDB did not create the database", self.shown())));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use storebench_engine::store::Namespace;

    use super::*;

    #[test]
    fn whose_a_database_is() {
        let marker = |made| Marker {
            made_database: made,
            collections: vec![Marked::new("users-books", "json; study")],
            removing: made,
        };
        let contents = |marker: Option<Marker>, names: &[&str], indexes: &[&str]| Contents {
            marker,
            vector: String::new(),
            collections: names.iter().map(|name| ((*name).to_owned(), 2)).collect(),
            indexes: indexes.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(contents(None, &[], &[]).holdings().namespace(), Namespace::Absent);
        assert_eq!(contents(None, &[], &["Auto/x"]).holdings().namespace(), Namespace::Absent);
        assert_eq!(
            contents(Some(marker(true)), &["users_BOOKS"], &["Storebench/a/0-b"]).holdings().namespace(),
            Namespace::Ours
        );
        for (found, word) in [
            (contents(None, &["Orders"], &[]), "`Orders`"),
            (contents(None, &["A", "B", "C"], &[]), "6 documents in 3 collections"),
            (contents(None, &[], &["Orders/ByDate"]), "1 indexes"),
            (contents(Some(marker(true)), &["Users_books", "Orders"], &[]), "beside 1"),
        ] {
            let Namespace::Foreign(text) = found.holdings().namespace() else { panic!("{found:?}") };
            assert!(text.contains(word), "{text}");
        }
        let read = Marker::read(&marker(true).document());
        assert_eq!(read, marker(true));
    }
}
