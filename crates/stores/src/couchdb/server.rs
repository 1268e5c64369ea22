//! Control calls to a server: version, databases, Storebench's marker, running tasks.

use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use storebench_engine::store::{SiteOutcome, StoreError};

use crate::http::{Client, Method, Response};
use crate::net::{Host, untold_settings};

/// The marker in each of Storebench's databases. Local documents are not listed, counted or replicated.
const MARKER: &str = "_local/storebench";
/// The text before the owner in a mark.
pub(super) const FORM: &str = "collection";

/// What a server reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Welcome {
    /// Name and version, for the result.
    pub(super) version: String,
    /// Whether it is pouchdb-server.
    pub(super) pouch: bool,
    /// Whether it keeps everything in memory.
    pub(super) in_memory: bool,
    /// The major version of CouchDB.
    pub(super) major: u32,
}

/// The sizes of a database, zero where the server does not report them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sizes {
    pub(super) documents: f64,
    pub(super) deleted: f64,
    pub(super) file_bytes: f64,
    pub(super) active_bytes: f64,
    pub(super) external_bytes: f64,
    pub(super) compacting: bool,
}

/// A Mango index. Its design document has the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) name: String,
    /// Its fields, as paths in selectors.
    pub(super) fields: Vec<String>,
}

impl Index {
    /// The index of a study over these top-level fields.
    pub(super) fn over(fields: &[String]) -> Self {
        let path = |field: &String| field.replace('.', "\\.");
        Self { name: format!("storebench-{}", fields.join("-")), fields: fields.iter().map(path).collect() }
    }

    /// An index that the study defines in CouchDB's words: `{"fields": ["city", {"stars": "desc"}]}`.
    pub(super) fn defined(name: &str, definition: &Value) -> Self {
        let path = |field: &Value| match field {
            Value::Object(directed) => directed.keys().next().cloned(),
            other => other.as_str().map(str::to_owned),
        };
        let fields = definition["fields"].as_array().into_iter().flatten().filter_map(path).collect();
        Self { name: name.to_owned(), fields }
    }
}

/// A server for control calls.
pub(super) struct Server {
    pub(super) client: Client,
    pub(super) host: Host,
}

impl Server {
    /// The path of a database, encoded, followed by `rest`.
    pub(super) fn path(database: &str, rest: &str) -> String {
        format!("/{}/{rest}", utf8_percent_encode(database, NON_ALPHANUMERIC))
    }

    /// Makes a call. The caller checks the status, except those of a rejected user or an overloaded server.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Response, StoreError> {
        let response = self.client.call(method, path, body).await?;
        match response.status {
            401 | 403 if !is_admin_only(&response) => Err(response.rejected_user(&self.host, "couchdb")),
            429 | 503 => Err(response.too_busy(&self.host)),
            _ => Ok(response),
        }
    }

    fn unexpected(&self, doing: &str, response: &Response) -> StoreError {
        let text = format!("{}: cannot {doing}: {}", self.host, response.answer().shown());
        match response.status {
            401 | 403 => StoreError::Unreachable(format!("{text}; use an administrator's user and password")),
            _ => StoreError::Failed(text),
        }
    }

    /// Makes a call that must succeed.
    async fn done(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        doing: &str,
    ) -> Result<Response, StoreError> {
        let response = self.call(method, path, body).await?;
        if response.is_success() { Ok(response) } else { Err(self.unexpected(doing, &response)) }
    }

    /// Identifies the server.
    ///
    /// # Errors
    /// `Unreachable` if there is no server, if it is not CouchDB, or if the password is wrong; `NotSupported` for a
    /// version that is too old.
    pub(super) async fn welcome(&self) -> Result<Welcome, StoreError> {
        let response = self.call(Method::GET, "/", None).await?;
        let value = response.json();
        let version = value["version"].as_str().unwrap_or_default();
        if response.is_success() && value["express-pouchdb"].is_string() {
            let in_memory = value["pouchdb-adapters"].to_string().contains("mem");
            let kept = if in_memory { "in memory" } else { "LevelDB" };
            let version = format!("pouchdb-server {version} ({kept})");
            return Ok(Welcome { version, pouch: true, in_memory, major: 0 });
        }
        if !response.is_success() || !value["couchdb"].is_string() {
            return Err(StoreError::Unreachable(format!(
                "{} speaks HTTP, but is not CouchDB ({}); check the port (CouchDB's default is 5984, with TLS 6984)",
                self.host,
                response.answer().shown()
            )));
        }
        let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        if major < 2 {
            return Err(StoreError::NotSupported(format!(
                "{} is CouchDB {version}, which is too old: Storebench needs 2.0 or later for index queries, and \
                 follows the documentation of 3.x; upgrade the server",
                self.host
            )));
        }
        Ok(Welcome { version: format!("CouchDB {version}"), pouch: false, in_memory: false, major })
    }

    /// The databases whose name begins with `prefix`, sorted. `None` if this user may not list databases.
    pub(super) async fn databases(&self, prefix: &str) -> Result<Option<Vec<String>>, StoreError> {
        let range = |text: &str| utf8_percent_encode(&json!(text).to_string(), NON_ALPHANUMERIC).to_string();
        let end = format!("{prefix}\u{FFF0}");
        let path = format!("/_all_dbs?startkey={}&endkey={}", range(prefix), range(&end));
        let response = self.call(Method::GET, &path, None).await?;
        if matches!(response.status, 401 | 403) {
            return Ok(None);
        }
        let value = response.json();
        let Some(names) = value.as_array().filter(|_| response.is_success()) else {
            return Err(self.unexpected("list its databases", &response));
        };
        // A server without support for ranges returns all databases.
        let mut names: Vec<String> =
            names.iter().filter_map(Value::as_str).filter(|name| name.starts_with(prefix)).map(str::to_owned).collect();
        names.sort_unstable();
        Ok(Some(names))
    }

    /// The mark of a database, if it has Storebench's marker.
    pub(super) async fn mark_of(&self, database: &str) -> Result<Option<String>, StoreError> {
        let response = self.call(Method::GET, &Self::path(database, MARKER), None).await?;
        match response.status {
            200 => Ok(mark_in(&response.json())),
            404 | 401 | 403 => Ok(None),
            _ => Err(self.unexpected(&format!("read Storebench's marker in `{database}`"), &response)),
        }
    }

    /// Creates a database.
    pub(super) async fn create(&self, database: &str) -> Result<SiteOutcome, StoreError> {
        let begun = Instant::now();
        loop {
            let response = self.call(Method::PUT, &Self::path(database, ""), None).await?;
            match response.status {
                200..=299 => return Ok(SiteOutcome::Done),
                // A cluster may still be removing an old database of this name.
                412 | 500 if begun.elapsed() < Duration::from_secs(10) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                412 if self.mark_of(database).await?.is_some() => return Ok(SiteOutcome::Changed),
                _ => return Err(self.unexpected(&format!("create the database `{database}`"), &response)),
            }
        }
    }

    /// Marks a database, if its previous mark still is `before`.
    pub(super) async fn mark(
        &self,
        database: &str,
        before: Option<&str>,
        mark: &str,
    ) -> Result<SiteOutcome, StoreError> {
        let path = Self::path(database, MARKER);
        let mut marker = json!({ "made_by": "storebench", "made_for": mark });
        let there = self.call(Method::GET, &path, None).await?;
        if !there.is_success() && there.status != 404 {
            return Err(self.unexpected(&format!("read Storebench's marker in `{database}`"), &there));
        }
        let there = there.json();
        if mark_in(&there).as_deref() != before {
            return Ok(SiteOutcome::Changed);
        }
        if there["_rev"].is_string() {
            marker["_rev"] = there["_rev"].clone();
        }
        let response = self.call(Method::PUT, &path, Some(&marker)).await?;
        match response.status {
            200..=299 => Ok(SiteOutcome::Done),
            // Changed, or removed with its database.
            404 | 409 => Ok(SiteOutcome::Changed),
            _ => Err(self.unexpected(&format!("write Storebench's marker to `{database}`"), &response)),
        }
    }

    /// Removes a database. A missing one is not an error.
    pub(super) async fn remove(&self, database: &str) -> Result<(), StoreError> {
        let response = self.call(Method::DELETE, &Self::path(database, ""), None).await?;
        match response.status {
            200..=299 | 404 => Ok(()),
            _ => Err(self.unexpected(&format!("remove the database `{database}`"), &response)),
        }
    }

    /// The sizes of a database; `None` if it does not exist.
    pub(super) async fn sizes(&self, database: &str) -> Result<Option<Sizes>, StoreError> {
        let response = self.call(Method::GET, &Self::path(database, ""), None).await?;
        if response.status == 404 {
            return Ok(None);
        }
        let value = response.json();
        if !response.is_success() || !value.is_object() {
            return Err(self.unexpected(&format!("read the sizes of the database `{database}`"), &response));
        }
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        let sizes = &value["sizes"];
        Ok(Some(Sizes {
            documents: number(&value["doc_count"]),
            deleted: number(&value["doc_del_count"]),
            file_bytes: number(if sizes.is_object() { &sizes["file"] } else { &value["disk_size"] }),
            active_bytes: number(&sizes["active"]),
            external_bytes: number(&sizes["external"]),
            compacting: value["compact_running"] == true,
        }))
    }

    /// The design documents of a database: the name of each, and whether it is an index of Mango.
    pub(super) async fn designs(&self, database: &str) -> Result<Vec<(String, bool)>, StoreError> {
        let path = Self::path(database, "_all_docs?startkey=%22_design%2F%22&endkey=%22_design0%22&include_docs=true");
        let response = self.call(Method::GET, &path, None).await?;
        let told = response.json();
        let Some(rows) = told["rows"].as_array().filter(|_| response.is_success()) else {
            return Err(self.unexpected(&format!("list the design documents of `{database}`"), &response));
        };
        let design = |row: &Value| {
            let name = row["id"].as_str()?.strip_prefix("_design/")?;
            Some((name.to_owned(), row["doc"]["language"] == "query"))
        };
        Ok(rows.iter().filter_map(design).collect())
    }

    /// The number of local documents but for Storebench's marker; `None` if the server does not list them, as
    /// pouchdb-server.
    pub(super) async fn locals(&self, database: &str) -> Result<Option<u64>, StoreError> {
        let response = self.call(Method::GET, &Self::path(database, "_local_docs"), None).await?;
        let told = response.json();
        let Some(rows) = told["rows"].as_array().filter(|_| response.is_success()) else { return Ok(None) };
        Ok(Some(rows.iter().filter(|row| row["id"].as_str().is_some_and(|id| id != MARKER)).count() as u64))
    }

    /// Creates an index; `index` is its definition. An existing one is kept. Returns whether there was one.
    pub(super) async fn index(&self, database: &str, name: &str, index: &Value) -> Result<bool, StoreError> {
        let index = json!({ "index": index, "ddoc": name, "name": name, "type": "json" });
        let response = self.call(Method::POST, &Self::path(database, "_index"), Some(&index)).await?;
        if response.is_success() {
            return Ok(response.json()["result"] == "exists");
        }
        Err(match self.unexpected(&format!("create the index `{name}` in `{database}`"), &response) {
            StoreError::Failed(why) if response.status == 400 => StoreError::NotSupported(why),
            other => other,
        })
    }

    /// Requests one row of an index, which waits until the index is up to date.
    pub(super) async fn touch_index(&self, database: &str, index: &Index) -> Result<(), StoreError> {
        // CouchDB uses an index only if the selector has all of its fields.
        let mut selector: Map<String, Value> =
            index.fields.iter().map(|field| (field.clone(), json!({ "$gt": null }))).collect();
        if let Some(first) = index.fields.first() {
            selector.insert(first.clone(), json!({ "$eq": null }));
        }
        let query = json!({ "selector": selector, "use_index": [index.name, index.name], "limit": 1 });
        let doing = format!("wait for the index `{}` in `{database}`", index.name);
        self.done(Method::POST, &Self::path(database, "_find"), Some(&query), &doing).await.map(drop)
    }

    /// The size of an index's file, in bytes, if the server reports it.
    pub(super) async fn index_bytes(&self, database: &str, name: &str) -> Result<Option<u64>, StoreError> {
        let response = self.call(Method::GET, &Self::path(database, &format!("_design/{name}/_info")), None).await?;
        Ok(response.json()["view_index"]["sizes"]["file"].as_u64().filter(|_| response.is_success()))
    }

    /// Removes an index.
    pub(super) async fn drop_index(&self, database: &str, name: &str) -> Result<(), StoreError> {
        // PouchDB needs the whole id of the design document.
        let path = Self::path(database, &format!("_index/_design%2F{name}/json/{name}"));
        let doing = format!("remove the index `{name}` from `{database}`");
        self.done(Method::DELETE, &path, None, &doing).await.map(drop)
    }

    /// The server's running tasks in these databases: the type of each, and its remaining changes. Empty if this user
    /// may not list tasks.
    pub(super) async fn tasks(&self, databases: &[String]) -> Result<Vec<(String, f64)>, StoreError> {
        let response = self.call(Method::GET, "/_active_tasks", None).await?;
        let value = response.json();
        let tasks = value.as_array().map(Vec::as_slice).unwrap_or_default();
        // A cluster reports shards: `shards/00000000-7fffffff/storebench-users.1700000000`.
        let ours = |task: &&Value| {
            let name = task["database"].as_str().unwrap_or_default();
            let name = name.rsplit('/').next().unwrap_or_default().split('.').next().unwrap_or_default();
            databases.iter().any(|database| database == name)
        };
        let left = |task: &Value| {
            let number = |name: &str| task[name].as_f64().unwrap_or_default();
            (number("total_changes") - number("changes_done")).max(0.0)
        };
        Ok(tasks
            .iter()
            .filter(ours)
            .map(|task| (task["type"].as_str().unwrap_or_default().to_owned(), left(task)))
            .collect())
    }

    /// The configuration of the server's node, by section and name.
    ///
    /// # Errors
    /// `NotSupported` if this user may not see it, or if the server has none to show, as pouchdb-server.
    pub(super) async fn configuration(&self) -> Result<Value, StoreError> {
        let response = self.client.call(Method::GET, "/_node/_local/_config", None).await?;
        match response.status {
            200..=299 => Ok(response.json()),
            401 | 403 => Err(untold_settings(true)),
            400..=405 => Err(untold_settings(false)),
            _ => Err(self.unexpected("read its configuration", &response)),
        }
    }

    /// Compacts a database and these of its indexes, and waits until it has finished.
    pub(super) async fn compact(&self, database: &str, designs: &[String]) -> Result<(), StoreError> {
        let mut paths = vec!["_compact".to_owned()];
        paths.extend(designs.iter().map(|design| format!("_compact/{design}")));
        let nothing = json!({});
        for path in paths {
            let response = self.call(Method::POST, &Self::path(database, &path), Some(&nothing)).await?;
            if !response.is_success() && response.status != 404 {
                return Err(self.unexpected(&format!("compact `{database}`"), &response));
            }
        }
        let names = [database.to_owned()];
        loop {
            let compacting = self.sizes(database).await?.is_some_and(|sizes| sizes.compacting);
            let tasks = self.tasks(&names).await?;
            if !compacting && !tasks.iter().any(|(kind, _)| kind.ends_with("compaction")) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Sends any request that only reads. Returns its answer as JSON.
    pub(super) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, StoreError> {
        Ok(self.done(method, path, body, "answer").await?.json())
    }
}

/// The mark in a marker.
fn mark_in(marker: &Value) -> Option<String> {
    let mark = marker["made_for"].as_str().unwrap_or(FORM).to_owned();
    (marker["made_by"] == "storebench").then_some(mark)
}

/// Whether the server accepted the user, but the request requires an administrator.
fn is_admin_only(response: &Response) -> bool {
    let reason = response.json()["reason"].as_str().unwrap_or_default().to_lowercase();
    reason.contains("admin")
}
