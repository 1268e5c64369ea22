//! Control calls: what the server is, its tables, Storebench's marks.

use std::time::Duration;

use serde_json::{Value, json};
use storebench_engine::store::{SiteOutcome, StoreError};

use super::errors::{self, CONDITION, IN_USE, MISSING};
use super::table::{EXPIRES, KEY, MARKER, Table};
use crate::http::aws::Signer;
use crate::http::{Client, Method, Response};
use crate::net::{Host, settled};

/// The attribute of the marker that holds the mark.
const MARK: &str = "sb_mark";
/// How long a table may take to be made or removed.
const CHANGE: Duration = Duration::from_secs(600);
/// The longest wait before a control call is made again. All of them are 6 seconds at most.
const LONGEST_MS: u64 = 3_200;

/// What a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Aws,
    Alternator,
    Dynalite,
    Unknown,
}

impl Kind {
    /// Whether it has TransactGetItems and TransactWriteItems.
    pub(super) fn has_transactions(self) -> bool {
        matches!(self, Self::Aws | Self::Unknown)
    }

    /// Its name, for the result. No server tells its version.
    pub(super) fn version(self) -> &'static str {
        match self {
            Self::Aws => "Amazon DynamoDB",
            Self::Alternator => "ScyllaDB Alternator",
            Self::Dynalite => "dynalite, which is not DynamoDB",
            Self::Unknown => "a server with DynamoDB's interface",
        }
    }
}

/// What a table without a mark may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Marked(String),
    Unmarked,
    Missing,
}

/// A server for control calls.
pub(super) struct Server {
    pub(super) client: Client,
    pub(super) signer: Signer,
    pub(super) host: Host,
    pub(super) prefix: String,
}

impl Server {
    /// Makes a call. The caller checks the status, except those of a rejected key or an overloaded server.
    pub(super) async fn call(&self, operation: &str, body: &Value) -> Result<Response, StoreError> {
        let mut request = self.client.request();
        request.begin(Method::POST).raw("/").body().extend_from_slice(body.to_string().as_bytes());
        let ask = async || {
            self.signer.clone().sign(operation, &mut request);
            self.client.send(&request).await
        };
        let response =
            again(ask, |response: &Response| errors::is_busy(&response.answer()), tokio::time::sleep).await?;
        let answer = response.answer();
        let why = if errors::is_not_allowed(&answer) {
            "rejected the request; check the access key, its secret and its permissions, or set AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY"
        } else if matches!(response.status, 500 | 503) || errors::is_busy(&answer) {
            "is too busy to answer; try again later"
        } else {
            return Ok(response);
        };
        Err(StoreError::Unreachable(format!("{} {why} ({})", self.host, errors::message(&answer))))
    }

    /// Makes a call that succeeds, or fails with one of these errors. Returns its answer if it succeeded.
    async fn ask(&self, operation: &str, body: &Value, usual: &[&str]) -> Result<Option<Value>, StoreError> {
        let response = self.call(operation, body).await?;
        let answer = response.answer();
        if response.is_success() {
            return Ok(Some(response.json()));
        } else if usual.contains(&&*errors::name(&answer)) {
            return Ok(None);
        }
        let of = body["TableName"].as_str().map(|table| format!(" of `{table}`")).unwrap_or_default();
        Err(StoreError::Failed(format!("{}: {operation}{of} failed: {}", self.host, errors::message(&answer))))
    }

    /// Identifies the server by its answer about a table, which needs no other permission, or about all tables.
    ///
    /// # Errors
    /// `Unreachable` if there is no server, if it has no such interface, or if it rejects the key.
    pub(super) async fn kind(&self, is_aws: bool, table: Option<&str>) -> Result<Kind, StoreError> {
        let response = match table {
            Some(table) => self.call("DescribeTable", &json!({ "TableName": table })).await?,
            None => self.call("ListTables", &json!({ "Limit": 1 })).await?,
        };
        let (answer, told) = (response.answer(), response.json());
        if let (Some(table), true) = (table, errors::name(&answer) == "ValidationException") {
            let why = errors::message(&answer);
            return Err(StoreError::Failed(format!("{}: DynamoDB has no table `{table}`: {why}", self.host)));
        }
        if !told["TableNames"].is_array() && !told["Table"].is_object() && errors::name(&answer) != MISSING {
            return Err(StoreError::Unreachable(format!(
                "{} speaks HTTP, but is not DynamoDB ({}); check the port",
                self.host,
                errors::message(&answer)
            )));
        }
        if is_aws {
            return Ok(Kind::Aws);
        }
        // Alternator answers with the nodes of its data center; dynalite as to any GET.
        let response = self.client.call(Method::GET, "/localnodes", None).await?;
        Ok(match response.json() {
            Value::Array(_) if response.is_success() => Kind::Alternator,
            _ if response.answer().body.starts_with(b"healthy: dynamodb.us-east-1.amazonaws.com") => Kind::Dynalite,
            _ => Kind::Unknown,
        })
    }

    /// The names of all tables.
    pub(super) async fn tables(&self) -> Result<Vec<String>, StoreError> {
        let (mut names, mut after) = (Vec::new(), Value::Null);
        loop {
            let mut body = json!({});
            if after.is_string() {
                body["ExclusiveStartTableName"] = after;
            }
            let told = self.ask("ListTables", &body, &[]).await?.unwrap_or_default();
            let page = told["TableNames"].as_array().into_iter().flatten();
            names.extend(page.filter_map(Value::as_str).map(str::to_owned));
            after = told["LastEvaluatedTableName"].clone();
            if !after.is_string() {
                return Ok(names);
            }
        }
    }

    /// The description of a table; `None` if it does not exist.
    pub(super) async fn describe(&self, table: &str) -> Result<Option<Value>, StoreError> {
        let told = self.ask("DescribeTable", &json!({ "TableName": table }), &[MISSING]).await?;
        Ok(told.map(|mut told| told["Table"].take()))
    }

    /// The attribute by whose time the server removes items of a table.
    pub(super) async fn expires(&self, table: &str) -> Result<Option<String>, StoreError> {
        let response = self.call("DescribeTimeToLive", &json!({ "TableName": table })).await?;
        // A server without it removes nothing.
        let told = &response.json()["TimeToLiveDescription"];
        let is_on = matches!(told["TimeToLiveStatus"].as_str(), Some("ENABLED" | "ENABLING"));
        Ok(told["AttributeName"].as_str().filter(|_| is_on && response.is_success()).map(str::to_owned))
    }

    /// Has the server remove items of one of Storebench's tables when their time has come. A server that cannot leaves
    /// it out, and the table then has no such attribute.
    pub(super) async fn set_expires(&self, table: &str) -> Result<(), StoreError> {
        let how = json!({ "Enabled": true, "AttributeName": EXPIRES });
        let update = json!({ "TableName": table, "TimeToLiveSpecification": how });
        // It is set already, or is no operation of this server.
        let usual = [errors::INVALID, "UnknownOperationException"];
        self.ask("UpdateTimeToLive", &update, &usual).await.map(drop)
    }

    /// Waits until a table is neither being made nor removed. Returns its description, or `None` if it is gone.
    pub(super) async fn rested(&self, table: &str) -> Result<Option<Value>, StoreError> {
        let changes = |of: &Value, name: &str| matches!(of[name].as_str(), Some("CREATING" | "DELETING"));
        let mut told = None;
        let rests = settled(CHANGE, Duration::from_millis(25), async || {
            told = self.describe(table).await?;
            let Some(told) = &told else { return Ok(true) };
            let mut indexes = told["GlobalSecondaryIndexes"].as_array().into_iter().flatten();
            Ok(!changes(told, "TableStatus") && !indexes.any(|index| changes(index, "IndexStatus")))
        });
        if rests.await? {
            return Ok(told);
        }
        let why = format!("`{table}` is still being made or removed after {CHANGE:?}; look at it in the console");
        Err(StoreError::Failed(format!("{}: the table {why}", self.host)))
    }

    /// Reads the mark of a table. Waits for a table that is being made or removed.
    pub(super) async fn mark_of(&self, table: &str) -> Result<Found, StoreError> {
        let key = json!({ KEY: { "S": MARKER } });
        let read = json!({ "TableName": table, "Key": key, "ConsistentRead": true });
        // Neither a table with other keys has one, nor one that is being made or removed.
        for _ in 0..2 {
            let usual = [MISSING, errors::INVALID];
            if let Some(told) = self.ask("GetItem", &read, &usual).await? {
                let mark = told["Item"][MARK]["S"].as_str().map(str::to_owned);
                return Ok(mark.map_or(Found::Unmarked, Found::Marked));
            }
            if self.rested(table).await?.is_none() {
                return Ok(Found::Missing);
            }
        }
        Ok(Found::Unmarked)
    }

    /// Marks a table, if its previous mark still is `before`.
    pub(super) async fn mark(&self, table: &str, before: Option<&str>, mark: &str) -> Result<SiteOutcome, StoreError> {
        let condition =
            if before.is_some() { format!("{MARK} = :before") } else { format!("attribute_not_exists({KEY})") };
        let item = json!({ KEY: { "S": MARKER }, MARK: { "S": mark } });
        let mut write = json!({ "TableName": table, "Item": item, "ConditionExpression": condition });
        if let Some(before) = before {
            write["ExpressionAttributeValues"] = json!({ ":before": { "S": before } });
        }
        let done = self.ask("PutItem", &write, &[CONDITION, MISSING]).await?;
        Ok(if done.is_some() { SiteOutcome::Done } else { SiteOutcome::Changed })
    }

    /// Creates a table, and waits until it can be used.
    pub(super) async fn create(&self, table: &Table) -> Result<SiteOutcome, StoreError> {
        let attributes = table.keys.iter().chain(table.indexes.iter().map(|index| &index.attribute));
        let named = |of: &super::table::Attribute| json!({ "AttributeName": of.name, "AttributeType": of.kind });
        let attributes: Value = attributes.map(named).collect();
        let mut create = json!({
            "TableName": table.name, "BillingMode": "PAY_PER_REQUEST", "KeySchema": hash(KEY),
            "AttributeDefinitions": attributes,
        });
        if !table.indexes.is_empty() {
            let index = |of: &super::table::Index| {
                let projection = json!({ "ProjectionType": "ALL" });
                json!({ "IndexName": of.name, "KeySchema": hash(&of.attribute.name), "Projection": projection })
            };
            create["GlobalSecondaryIndexes"] = table.indexes.iter().map(index).collect();
        }
        let made = self.ask("CreateTable", &create, &[IN_USE]).await?.is_some();
        let there = made && self.rested(&table.name).await?.is_some();
        Ok(if there { SiteOutcome::Done } else { SiteOutcome::Changed })
    }

    /// Removes a table, and waits until it is gone. A missing one is not an error.
    pub(super) async fn remove(&self, table: &str) -> Result<(), StoreError> {
        // `IN_USE`: it is being removed already.
        self.ask("DeleteTable", &json!({ "TableName": table }), &[IN_USE, MISSING]).await?;
        self.rested(table).await.map(drop)
    }
}

/// Asks again while the server says that it was one request too many, as AWS's clients do: after a wait that is drawn
/// evenly from 0 to a bound, which doubles.
///
/// <https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html>
async fn again<T>(
    mut ask: impl AsyncFnMut() -> Result<T, StoreError>,
    is_busy: impl Fn(&T) -> bool,
    wait: impl AsyncFn(Duration),
) -> Result<T, StoreError> {
    let mut bound_ms = 50;
    loop {
        let told = ask().await?;
        if bound_ms > LONGEST_MS || !is_busy(&told) {
            return Ok(told);
        }
        wait(Duration::from_millis(fastrand::u64(..bound_ms))).await;
        bound_ms *= 2;
    }
}

/// A key schema of only a hash key.
fn hash(name: &str) -> Value {
    json!([{ "AttributeName": name, "KeyType": "HASH" }])
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// The waits of a call to a server that is busy so many times.
    fn waits(busy: usize) -> Vec<u128> {
        let (asked, waits) = (RefCell::new(0), RefCell::new(Vec::new()));
        let ask = async || Ok(asked.replace_with(|asked| *asked + 1) < busy);
        let told = again(ask, |busy: &bool| *busy, async |wait: Duration| waits.borrow_mut().push(wait.as_millis()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(told).unwrap(), busy > 7, "the last answer is told");
        waits.into_inner()
    }

    #[test]
    fn a_control_call_that_is_throttled_is_made_again_with_full_jitter() {
        assert_eq!((waits(0).len(), waits(3).len(), waits(100).len()), (0, 3, 7));
        let all: Vec<Vec<u128>> = (0..500).map(|_| waits(100)).collect();
        for n in 0..7 {
            let bound = 50 << n;
            let of_try: Vec<u128> = all.iter().map(|waits| waits[n]).collect();
            assert!(of_try.iter().all(|wait| *wait < bound), "wait {n}: {of_try:?}");
            assert!(of_try.iter().any(|wait| *wait < bound / 8) && of_try.iter().any(|wait| *wait > bound * 7 / 8));
        }
    }
}
