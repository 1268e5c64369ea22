//! Control calls: commands outside sessions, one connection for each call.

use std::time::Duration;

use ::bson::{Document, doc};
use storebench_engine::store::StoreError;

use super::bson::{DOCUMENT, Members};
use super::errors::{ServerError, is_ok};
use super::finder::{Deployment, Hello, Role};
use super::url::Target;
use super::wire::{self, Connection};

/// Timeout for making a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Timeout of most commands.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout for building indexes, and for dropping or compacting a collection.
pub(super) const LONG: Duration = Duration::from_secs(24 * 3_600);

/// A connection for control calls.
pub(super) struct ControlConnection<'t> {
    pub(super) target: &'t Target,
    pub(super) hello: Hello,
    /// Whether it is FerretDB 1, tried with 1.24.2. That has no TTL indexes and no `$sample`. Its updates are not atomic:
    /// of concurrent ones of a document, some are lost. It holds a connection to its database for each update of a
    /// command until the command ends, and stands still, for good, once it has none left (50 with PostgreSQL, 100 with
    /// SQLite).
    pub(super) is_ferretdb_1: bool,
    connection: Connection,
}

/// A reply, or what the server said instead.
pub(super) type Answer = Result<Vec<u8>, ServerError>;

impl<'t> ControlConnection<'t> {
    /// Connects to the node that accepts writes.
    ///
    /// # Errors
    /// `Unreachable`, with the reason.
    pub(super) async fn open(target: &'t Target) -> Result<Self, StoreError> {
        let (connection, hello) = target.finder.connect(Role::Primary, CONNECT).await?;
        Ok(Self { target, hello, is_ferretdb_1: false, connection })
    }

    /// The host and the database, as error messages show them.
    pub(super) fn place(&self) -> String {
        format!("{}/{}", self.connection.host(), self.target.database)
    }

    /// Sends one command to a database.
    ///
    /// # Errors
    /// `Unreachable` if the connection breaks or the reply is invalid.
    pub(super) async fn ask(
        &mut self,
        database: &str,
        within: Duration,
        command: Document,
    ) -> Result<Answer, StoreError> {
        self.send(&mut wire::message(database, command), within).await
    }

    /// Sends a message that is already built.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(super) async fn send(&mut self, message: &mut [u8], within: Duration) -> Result<Answer, StoreError> {
        let place = self.place();
        let reply = self.connection.call(message, within).await.map_err(|broken| {
            StoreError::Unreachable(format!(
                "{place}: the connection failed: {broken}; check that the server is still running"
            ))
        })?;
        let document = Members::of(reply)
            .map_err(|_| StoreError::Unreachable(format!("{place}: the server's answer is not MongoDB's protocol")))?;
        Ok(if is_ok(document) { Ok(reply.to_vec()) } else { Err(ServerError::of(document)) })
    }

    /// Runs one command on the URL's database, which must succeed. `doing` says in errors what was attempted.
    ///
    /// # Errors
    /// As [`Self::ask`], and the server's message if it refuses.
    pub(super) async fn done(
        &mut self,
        doing: &str,
        within: Duration,
        command: Document,
    ) -> Result<Vec<u8>, StoreError> {
        let target = self.target;
        let answer = self.ask(&target.database, within, command).await?;
        let reply = answer.map_err(|told| told.control(&self.place(), doing))?;
        for name in ["writeErrors", "writeConcernError"] {
            if let Some(error) = Members::of(&reply).ok().and_then(|reply| reply.get(name)?.members()) {
                let first = error.get("0").and_then(|first| first.members());
                return Err(ServerError::of(first.unwrap_or(error)).control(&self.place(), doing));
            }
        }
        Ok(reply)
    }

    /// All documents that a query or a list command returns, as bytes.
    ///
    /// # Errors
    /// As [`Self::done`].
    pub(super) async fn all(
        &mut self,
        database: &str,
        doing: &str,
        command: Document,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut found = Vec::new();
        let answer = self.each(database, doing, command, |document| found.push(document.to_vec())).await?;
        answer.map_err(|told| told.control(&self.place(), doing))?;
        Ok(found)
    }

    /// Calls `take` with the bytes of each document that a query or a list command returns. The cursor is read to its end.
    ///
    /// # Errors
    /// As [`Self::done`]. The inner error is what the server said to the command itself.
    pub(super) async fn each(
        &mut self,
        database: &str,
        doing: &str,
        command: Document,
        mut take: impl FnMut(&[u8]),
    ) -> Result<Result<(), ServerError>, StoreError> {
        let mut reply = match self.ask(database, PATIENCE, command).await? {
            Ok(reply) => reply,
            Err(told) => return Ok(Err(told)),
        };
        loop {
            let (cursor, collection) = {
                let cursor = Members::of(&reply).ok().and_then(|d| d.get("cursor")).and_then(|value| value.members());
                let wrong = || StoreError::Failed(format!("{}: cannot {doing}: the answer has no list", self.place()));
                let cursor = cursor.ok_or_else(wrong)?;
                let batch = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch"));
                let batch = batch.and_then(|value| value.members()).ok_or_else(wrong)?;
                batch.filter_map(Result::ok).filter(|(_, v)| v.kind == DOCUMENT).for_each(|(_, v)| take(v.bytes));
                let namespace = cursor.get("ns").and_then(|ns| ns.as_str()).and_then(|ns| ns.split_once('.'));
                let id = cursor.get("id").and_then(|id| id.as_i64()).unwrap_or(0);
                (id, namespace.map_or_else(String::new, |(_, collection)| collection.to_owned()))
            };
            if cursor == 0 {
                return Ok(Ok(()));
            }
            let more = doc! { "getMore": cursor, "collection": collection };
            reply = self.ask(database, PATIENCE, more).await?.map_err(|told| told.control(&self.place(), doing))?;
        }
    }

    /// Closes the cursor of an answer whose rest is not wanted. A server keeps it for minutes, and FerretDB holds a connection
    /// to its database for it.
    pub(super) async fn close_cursor(&mut self, database: &str, reply: &[u8]) {
        let cursor = Members::of(reply).ok().and_then(|reply| reply.get("cursor")?.members());
        let of = |cursor: Members<'_>| {
            let id = cursor.get("id")?.as_i64().filter(|id| *id != 0)?;
            let (_, collection) = cursor.get("ns")?.as_str()?.split_once('.')?;
            Some((id, collection.to_owned()))
        };
        let Some((id, collection)) = cursor.and_then(of) else { return };
        let _ = self.ask(database, PATIENCE, doc! { "killCursors": collection, "cursors": [id] }).await;
    }

    /// The server's name, version and deployment, and whether it is FerretDB 1.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(super) async fn version(&mut self) -> Result<(String, bool), StoreError> {
        let Ok(reply) = self.ask("admin", PATIENCE, doc! { "buildInfo": 1 }).await? else {
            return Ok(("a server that does not report its version".into(), false));
        };
        let told = Members::of(&reply).ok();
        let text = |path: &[&str]| told.and_then(|d| d.at(path)).and_then(|value| value.as_str());
        let version = text(&["version"]).unwrap_or("of unknown version");
        // FerretDB 1 names itself in one member, FerretDB 2 in another.
        let ferret = text(&["ferretdbVersion"]).or_else(|| text(&["ferretdb", "version"]));
        let ferret = ferret.map(|version| version.trim_start_matches('v'));
        let name = match (text(&["process"]), ferret) {
            (Some("nx_27017"), _) => format!("nx-27017, which is not MongoDB (speaks as {version})"),
            (_, Some(ferret)) => format!("FerretDB {ferret}, which is not MongoDB (speaks as {version})"),
            _ => format!("MongoDB {version}"),
        };
        let described = match self.hello.deployment {
            Deployment::Single => name,
            Deployment::ReplicaSet(members) => format!("{name}, replica set of {members}"),
            Deployment::Sharded => format!("{name}, sharded"),
        };
        Ok((described, ferret.is_some_and(|version| version.starts_with("1."))))
    }
}
