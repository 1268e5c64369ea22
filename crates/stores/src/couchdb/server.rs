//! Control calls to a server: who it is, its databases, Storebench's marker, what it is busy with.

use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use storebench_engine::store::{Made, StoreError};

use crate::http::{Client, Method, Response};
use crate::net::Host;

/// Where the marker lies in each database of ours. Local documents are not listed, not counted and
/// not replicated.
const MARKER: &str = "_local/storebench";
/// What a mark says before its owner. Markers of older versions say nothing.
pub(super) const FORM: &str = "collection";

/// What a server says of itself.
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

/// A database as its server describes it, zero where it does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sizes {
    pub(super) documents: f64,
    pub(super) deleted: f64,
    pub(super) file_bytes: f64,
    pub(super) active_bytes: f64,
    pub(super) external_bytes: f64,
    pub(super) compacting: bool,
}

/// A server to make control calls to.
pub(super) struct Server {
    client: Client,
    host: Host,
}

impl Server {
    pub(super) fn new(client: Client, host: Host) -> Self {
        Self { client, host }
    }

    /// A path made of encoded parts.
    pub(super) fn path(database: &str, rest: &str) -> String {
        format!("/{}/{rest}", utf8_percent_encode(database, NON_ALPHANUMERIC))
    }

    /// Makes a call whose status the caller looks at; refuses what means a wrong user everywhere.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Response, StoreError> {
        let body = body.map(|body| body.to_string().into_bytes());
        let response = self.client.call(method, path, body.as_deref()).await?;
        match response.status {
            401 | 403 if !is_admin_only(&response) => Err(StoreError::Unreachable(format!(
                "{} does not let this user in ({}); are user and password right? Give them as in \
                 couchdb://user@host, the password in STOREBENCH_PASSWORD",
                self.host,
                response.answer().shown()
            ))),
            429 | 503 => Err(StoreError::Unreachable(format!(
                "{} is too busy to answer ({}); try again later",
                self.host,
                response.answer().shown()
            ))),
            _ => Ok(response),
        }
    }

    fn unexpected(&self, doing: &str, response: &Response) -> StoreError {
        let remedy =
            if matches!(response.status, 401 | 403) { "; give an administrator's user and password" } else { "" };
        let text = format!("{}: cannot {doing}: {}{remedy}", self.host, response.answer().shown());
        if matches!(response.status, 401 | 403) { StoreError::Unreachable(text) } else { StoreError::Failed(text) }
    }

    /// Who it is.
    ///
    /// # Errors
    /// `Unreachable` for nobody, somebody else, or a wrong password; `NotSupported` for a version
    /// that is too old.
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
                "{} answers in HTTP, but is not CouchDB ({}); is the port right? CouchDB's own is 5984, with TLS 6984",
                self.host,
                response.answer().shown()
            )));
        }
        let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        if major < 2 {
            return Err(StoreError::NotSupported(format!(
                "{} is CouchDB {version}, which is too old: Storebench needs 2.0 for index queries, and was written \
                 to the documentation of 3.x; upgrade the server",
                self.host
            )));
        }
        Ok(Welcome { version: format!("CouchDB {version}"), pouch: false, in_memory: false, major })
    }

    /// The databases whose name begins so, in order. None where this user may not list them.
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
        // A server that knows no range gives all of them.
        let mut names: Vec<String> =
            names.iter().filter_map(Value::as_str).filter(|name| name.starts_with(prefix)).map(str::to_owned).collect();
        names.sort_unstable();
        Ok(Some(names))
    }

    /// The mark of a database that carries Storebench's marker.
    pub(super) async fn mark_of(&self, database: &str) -> Result<Option<String>, StoreError> {
        let response = self.call(Method::GET, &Self::path(database, MARKER), None).await?;
        match response.status {
            200 => Ok(mark_in(&response.json())),
            404 | 401 | 403 => Ok(None),
            _ => Err(self.unexpected(&format!("look for Storebench's marker in `{database}`"), &response)),
        }
    }

    /// Makes a database.
    pub(super) async fn create(&self, database: &str) -> Result<Made, StoreError> {
        let begun = Instant::now();
        loop {
            let response = self.call(Method::PUT, &Self::path(database, ""), None).await?;
            match response.status {
                200..=299 => return Ok(Made::Done),
                // A cluster goes on removing the old one for a moment.
                412 | 500 if begun.elapsed() < Duration::from_secs(10) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                412 if self.mark_of(database).await?.is_some() => return Ok(Made::Changed),
                _ => return Err(self.unexpected(&format!("make the database `{database}`"), &response)),
            }
        }
    }

    /// Marks a database, in place of the mark that was there before.
    pub(super) async fn mark(&self, database: &str, before: Option<&str>, mark: &str) -> Result<Made, StoreError> {
        let path = Self::path(database, MARKER);
        let mut marker = json!({ "made_by": "storebench", "made_for": mark });
        let there = self.call(Method::GET, &path, None).await?;
        if !there.is_success() && there.status != 404 {
            return Err(self.unexpected(&format!("look for Storebench's marker in `{database}`"), &there));
        }
        let there = there.json();
        if mark_in(&there).as_deref() != before {
            return Ok(Made::Changed);
        }
        if there["_rev"].is_string() {
            marker["_rev"] = there["_rev"].clone();
        }
        let response = self.call(Method::PUT, &path, Some(&marker)).await?;
        match response.status {
            200..=299 => Ok(Made::Done),
            // Changed, or removed with its database.
            404 | 409 => Ok(Made::Changed),
            _ => Err(self.unexpected(&format!("put Storebench's marker into `{database}`"), &response)),
        }
    }

    /// Removes a database. One that is gone already is no error.
    pub(super) async fn remove(&self, database: &str) -> Result<(), StoreError> {
        let response = self.call(Method::DELETE, &Self::path(database, ""), None).await?;
        match response.status {
            200..=299 | 404 => Ok(()),
            _ => Err(self.unexpected(&format!("remove the database `{database}`"), &response)),
        }
    }

    /// The sizes of a database; none where there is no such database.
    pub(super) async fn sizes(&self, database: &str) -> Result<Option<Sizes>, StoreError> {
        let response = self.call(Method::GET, &Self::path(database, ""), None).await?;
        if response.status == 404 {
            return Ok(None);
        }
        let value = response.json();
        if !response.is_success() || !value.is_object() {
            return Err(self.unexpected(&format!("look at the database `{database}`"), &response));
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

    /// Makes an index over these fields, of this name; one that exists is kept.
    pub(super) async fn index(&self, database: &str, name: &str, fields: &[String]) -> Result<(), StoreError> {
        let index = json!({ "index": { "fields": fields }, "ddoc": name, "name": name, "type": "json" });
        let response = self.call(Method::POST, &Self::path(database, "_index"), Some(&index)).await?;
        if response.is_success() {
            return Ok(());
        }
        Err(self.unexpected(&format!("make the index `{name}` in `{database}`"), &response))
    }

    /// Asks for one row of an index, which waits until the index has all documents.
    pub(super) async fn touch_index(&self, database: &str, field: &str) -> Result<(), StoreError> {
        let query = json!({ "selector": { field.replace('.', "\\."): { "$eq": null } }, "limit": 1 });
        let response = self.call(Method::POST, &Self::path(database, "_find"), Some(&query)).await?;
        if response.is_success() {
            return Ok(());
        }
        Err(self.unexpected(&format!("wait for the index on `{field}` in `{database}`"), &response))
    }

    /// What the server is busy with in these databases: the type of each task and how much is left
    /// of it. Nothing where this user may not ask.
    pub(super) async fn tasks(&self, databases: &[String]) -> Result<Vec<(String, f64)>, StoreError> {
        let response = self.call(Method::GET, "/_active_tasks", None).await?;
        let value = response.json();
        let tasks = value.as_array().map(Vec::as_slice).unwrap_or_default();
        // A cluster names shards: `shards/00000000-7fffffff/storebench-users.1700000000`.
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

    /// Compacts a database and these indexes of it, and waits until it is done.
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

    /// Any request that reads; its answer as JSON.
    pub(super) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, StoreError> {
        let response = self.call(method, path, body).await?;
        if response.is_success() { Ok(response.json()) } else { Err(self.unexpected("answer", &response)) }
    }
}

/// The mark in a marker.
fn mark_in(marker: &Value) -> Option<String> {
    let mark = marker["made_for"].as_str().unwrap_or(FORM).to_owned();
    (marker["made_by"] == "storebench").then_some(mark)
}

/// Whether it let the user in, but not to what only administrators may see.
fn is_admin_only(response: &Response) -> bool {
    let reason = response.json()["reason"].as_str().unwrap_or_default().to_lowercase();
    reason.contains("admin")
}
