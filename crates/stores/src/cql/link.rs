//! Connections to a cluster, and statements of control calls over them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::frame::types::Consistency;
use scylla::policies::load_balancing::{DefaultPolicy, NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::Statement;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row};
use storebench_engine::store::StoreError;

use super::errors::{connect_error, of_preparing, store_error};
use super::settings::Settings;

/// How long connecting, and each control statement, may take. Creating an index takes longest.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a connection may be silent before it counts as lost.
const SILENCE: Duration = Duration::from_secs(5);
/// How often nodes are asked whether they agree about a schema.
const AGREE_EVERY: Duration = Duration::from_millis(50);

/// A client of the cluster. Its tasks belong to the runtime in which it was opened.
pub(super) struct Link {
    pub(super) session: Session,
    /// Where it leads, for errors.
    pub(super) place: String,
}

impl Link {
    /// Connects to the nodes. `silence` is how long a connection may be silent before it counts as lost, and
    /// `timeout` how long a statement may take, if that is limited here.
    pub(super) async fn open(
        settings: &Settings,
        silence: Duration,
        timeout: Option<Duration>,
    ) -> Result<Self, StoreError> {
        let mut balancing = DefaultPolicy::builder().token_aware(true);
        if let Some(name) = &settings.datacenter {
            balancing = balancing.prefer_datacenter(name.clone()).permit_dc_failover(false);
        }
        // The engine does and counts all retries.
        let profile = ExecutionProfile::builder()
            .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
            .load_balancing_policy(balancing.build())
            .consistency(settings.level(Consistency::Quorum))
            .serial_consistency(Some(settings.serial()))
            .request_timeout(timeout)
            .build();
        let mut builder = SessionBuilder::new()
            .known_nodes(settings.address.hosts.iter().map(ToString::to_string))
            .default_execution_profile_handle(profile.into_handle())
            .pool_size(PoolSize::PerHost(std::num::NonZeroUsize::MIN))
            .disallow_shard_aware_port(true)
            .fetch_full_schema_metadata(false)
            .schema_agreement_interval(AGREE_EVERY)
            .refresh_metadata_on_auto_schema_agreement(false)
            .connection_timeout(silence * 2)
            .keepalive_interval(silence)
            .keepalive_timeout(silence)
            .tcp_nodelay(true);
        if let (Some(user), Some(password)) = (&settings.address.user, &settings.address.password) {
            builder = builder.user(user, password.expose());
        }
        if let Some(tls) = &settings.address.tls {
            builder = builder.tls_context(Some(tls.config()?));
        }
        let place = settings.address.shown.clone();
        let built = builder.build().await;
        let session = built.map_err(|error| connect_error(&place, settings.address.tls.is_some(), &error))?;
        Ok(Self { session, place })
    }

    /// The same for control calls.
    pub(super) async fn control(settings: &Settings) -> Result<Self, StoreError> {
        Self::open(settings, SILENCE, Some(PATIENCE)).await
    }

    /// Runs a statement that has no rows, and says in its error what it was for.
    pub(super) async fn run(&self, doing: &str, cql: &str) -> Result<(), StoreError> {
        let done = self.session.query_unpaged(cql, ()).await;
        done.map(drop).map_err(|error| store_error(&self.place, doing, &error))
    }

    /// Prepares a statement.
    pub(super) async fn prepare(&self, cql: &str) -> Result<PreparedStatement, StoreError> {
        let prepared = self.session.prepare(cql).await;
        prepared.map_err(|error| store_error(&self.place, "prepare a statement", &of_preparing(error)))
    }

    /// The rows of a query.
    pub(super) async fn rows(&self, doing: &str, query: impl Into<Statement>) -> Result<Vec<Cells>, StoreError> {
        let answer = self.session.query_unpaged(query, ()).await;
        let answer = answer.map_err(|error| store_error(&self.place, doing, &error))?;
        let read = move || -> Option<Vec<Cells>> {
            let rows = answer.into_rows_result().ok()?;
            rows.rows::<Row>().ok()?.map(|row| row.ok().map(|row| Cells(row.columns))).collect()
        };
        read().ok_or_else(|| self.garbled(doing))
    }

    /// The rows of a query of a table that not every server has; none if it has it not.
    pub(super) async fn rows_if_known(&self, query: impl Into<Statement>) -> Vec<Cells> {
        self.rows("read its system tables", query).await.unwrap_or_default()
    }

    /// The rows of a query by each node, because tables may tell only of the node that answers.
    pub(super) async fn rows_by_node(&self, query: &str) -> Vec<Result<Vec<Cells>, StoreError>> {
        let state = self.session.get_cluster_state();
        join_all(state.get_nodes_info().iter().map(|node| {
            let mut statement = Statement::new(query);
            let target = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(Arc::clone(node)), None);
            statement.set_load_balancing_policy(Some(target));
            self.rows("read its system tables", statement)
        }))
        .await
    }

    /// The error of an answer that cannot be read.
    pub(super) fn garbled(&self, doing: &str) -> StoreError {
        StoreError::Failed(format!("{}: cannot {doing}: the server's answer is invalid", self.place))
    }
}

/// The values of a row.
#[derive(Debug)]
pub(super) struct Cells(Vec<Option<CqlValue>>);

impl Cells {
    pub(super) fn value(&self, column: usize) -> Option<&CqlValue> {
        self.0.get(column)?.as_ref()
    }

    /// A text, or nothing.
    pub(super) fn text(&self, column: usize) -> &str {
        self.value(column).and_then(CqlValue::as_text).map_or("", String::as_str)
    }

    /// A number of any type.
    pub(super) fn number(&self, column: usize) -> Option<f64> {
        Some(match self.value(column)? {
            CqlValue::Int(number) => f64::from(*number),
            CqlValue::BigInt(number) => *number as f64,
            CqlValue::Double(number) => *number,
            CqlValue::Float(number) => f64::from(*number),
            _ => return None,
        })
    }

    pub(super) fn is(&self, column: usize) -> Option<bool> {
        self.value(column).and_then(CqlValue::as_boolean)
    }
}

/// A text as CQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
