//! Indexes of the study, as `CREATE INDEX` statements.

use std::time::Duration;

use couchbase::options::query_index_mgmt_options::GetAllQueryIndexesOptions;
use couchbase::options::query_options::QueryOptions;
use storebench_engine::store::{BuiltIndex, OpError, StoreError};
use storebench_study::workload::{COLLECTION, Language, index_name};
use tokio::time::{Instant, sleep};

use super::errors::{query_error, store_error};
use super::link::{Link, unwound};
use super::queries::quoted;

/// How long building an index may take.
const LONG: Duration = Duration::from_secs(24 * 3_600);
/// How soon the state of an index is read again at first, and at most.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const LOOK_LATEST: Duration = Duration::from_secs(1);

/// Where an index is.
pub(super) struct Place<'p> {
    pub(super) link: &'p Link,
    pub(super) bucket: &'p str,
    pub(super) scope: &'p str,
    pub(super) collection: &'p str,
}

impl Place<'_> {
    fn keyspace(&self) -> String {
        [self.bucket, self.scope, self.collection].map(quoted).join(".")
    }

    async fn run(&self, statement: String) -> Result<(), OpError> {
        let scope = self.link.bucket.scope(self.scope);
        let running = scope.query(statement, QueryOptions::new().metrics(false).server_timeout(LONG));
        let result = unwound(async { running.await.map(drop) }).await;
        result.unwrap_or(Ok(())).map_err(|error| query_error(&error))
    }

    /// The state of an index; `None` if there is no such index.
    async fn state(&self, name: &str) -> Result<Option<String>, StoreError> {
        let collection = self.link.bucket.scope(self.scope).collection(self.collection);
        let indexes = collection.query_indexes();
        let asking = async { indexes.get_all_indexes(GetAllQueryIndexesOptions::new()).await };
        let all = unwound(asking).await.unwrap_or_else(|| Ok(Vec::new()));
        let all = all.map_err(|error| store_error("list the indexes", &error))?;
        Ok(all.iter().find(|index| index.name() == name).map(|index| index.state().to_owned()))
    }

    /// Builds an index, unless the collection has one with this name, and waits until it is online.
    pub(super) async fn build(&self, text: &str) -> Result<BuiltIndex, StoreError> {
        let name = index_name(Language::Couchbase, text).map_err(StoreError::NotSupported)?;
        let begun = Instant::now();
        let existed = self.state(&name).await?.is_some();
        if !existed {
            let statement = text.trim_end().trim_end_matches(';').replace(COLLECTION, &self.keyspace());
            self.run(statement).await.map_err(super::not_run)?;
        }
        // A cluster may need a moment to list it.
        let mut pause = LOOK_AGAIN;
        loop {
            match self.state(&name).await?.as_deref() {
                Some("online") => break,
                Some("deferred") => {
                    return Err(StoreError::NotSupported(format!(
                        "the index `{name}` is deferred, so nothing builds it; remove defer_build"
                    )));
                }
                _ if begun.elapsed() >= LONG => {
                    return Err(StoreError::Failed(format!("the index `{name}` is not online after {LONG:?}")));
                }
                _ => sleep(pause).await,
            }
            pause = (pause * 2).min(LOOK_LATEST);
        }
        Ok(BuiltIndex { took: (!existed).then(|| begun.elapsed()), bytes: None })
    }

    /// Removes an index.
    pub(super) async fn drop(&self, text: &str) -> Result<(), StoreError> {
        let name = index_name(Language::Couchbase, text).map_err(StoreError::NotSupported)?;
        self.run(format!("DROP INDEX {} ON {}", quoted(&name), self.keyspace())).await.map_err(super::not_run)
    }
}
