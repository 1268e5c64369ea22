//! Views, through the HTTP interface of the view engine: the SDK does not support them.
//!
//! The server has views of a bucket's default collection only, and does not return documents with the rows: those are
//! read by key. Views are deprecated since 7.0.

use std::sync::Arc;
use std::time::Duration;

use percent_encoding::NON_ALPHANUMERIC;
use reqwest::{Client, StatusCode};
use serde_json::Value;
use storebench_engine::store::{ErrorKind, Op, OpError, StoreError, ViewRows};

use super::management::client;
use super::settings::Settings;
use super::topology::Topology;

/// The name of the scope and of the collection that have views.
pub(super) const KEPT_IN: &str = "_default";

/// A request to a view.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    design: String,
    view: String,
    /// Names and values of the URL's query.
    query: Vec<(&'static str, String)>,
    /// A JSON array of keys.
    keys: Option<String>,
    limit: u32,
}

impl Asked {
    /// The request of an operation. `None` if it is not a view query.
    pub(super) fn of(op: &Op<'_>) -> Option<Self> {
        let Op::View { view, rows, skip, limit } = *op else { return None };
        let (design, view) = view.split_once('/').unwrap_or((view, view));
        // A node that fails is an error, not a smaller result.
        let mut query =
            vec![("reduce", "false".to_owned()), ("on_error", "stop".to_owned()), ("limit", limit.to_string())];
        query.extend((skip > 0).then(|| ("skip", skip.to_string())));
        let mut keys = None;
        match rows {
            ViewRows::All => {}
            ViewRows::Keys(array) => keys = Some(array.to_owned()),
            ViewRows::Range { start, end } => {
                query.extend(start.map(|start| ("startkey", start.to_owned())));
                query.extend(end.map(|end| ("endkey", end.to_owned())));
            }
        }
        Some(Self { design: design.to_owned(), view: view.to_owned(), query, keys, limit })
    }

    /// Whether this many rows reach the limit, so that there may be more.
    pub(super) fn is_filled_by(&self, rows: usize) -> bool {
        rows > 0 && rows >= self.limit as usize
    }
}

/// The view engine of one bucket.
pub(super) struct Views {
    client: Client,
    /// `http://host:port` of each node.
    nodes: Vec<String>,
    settings: Arc<Settings>,
}

impl Views {
    pub(super) fn new(settings: &Arc<Settings>, topology: &Topology) -> Result<Self, StoreError> {
        let scheme = if settings.address.tls.is_some() { "https" } else { "http" };
        let nodes = topology.views.iter().map(|host| format!("{scheme}://{host}")).collect();
        Ok(Self { client: client(settings)?, nodes, settings: Arc::clone(settings) })
    }

    /// The keys of the rows' documents, in the order of the view. `fresh` waits until the view knows all earlier
    /// writes.
    pub(super) async fn keys(&self, asked: &Asked, fresh: bool, within: Duration) -> Result<Vec<String>, OpError> {
        let mut last = OpError::new(ErrorKind::Refused, "no node of the cluster serves views");
        let encoded = |text: &str| percent_encoding::utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let (bucket, design, view) = (encoded(&self.settings.bucket), encoded(&asked.design), encoded(&asked.view));
        let (user, password) = self.settings.credentials();
        let stale = ("stale", if fresh { "false" } else { "ok" }.to_owned());
        let query: Vec<String> =
            asked.query.iter().chain([&stale]).map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        for node in &self.nodes {
            let url = format!("{node}/{bucket}/_design/{design}/_view/{view}?{}", query.join("&"));
            let request = match &asked.keys {
                None => self.client.get(url),
                Some(keys) => {
                    let request = self.client.post(url).header("Content-Type", "application/json");
                    request.body(format!("{{\"keys\":{keys}}}"))
                }
            };
            let request = request.timeout(within);
            match request.basic_auth(user, Some(password)).send().await {
                Ok(response) => {
                    let status = response.status();
                    let body = response.bytes().await.map_err(|e| lost(node, &e))?;
                    return rows(status, &body);
                }
                // Any node answers for the whole bucket.
                Err(error) => last = lost(node, &error),
            }
        }
        Err(last)
    }
}

fn lost(node: &str, error: &reqwest::Error) -> OpError {
    OpError::new(
        ErrorKind::Temporary,
        format!("{node} (views) gave no answer{}", if error.is_timeout() { " in time" } else { "" }),
    )
}

fn rows(status: StatusCode, body: &[u8]) -> Result<Vec<String>, OpError> {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let told = || {
        let text = |name: &str| answer[name].as_str().unwrap_or_default();
        format!("the view engine answered {status}: {} {}", text("error"), text("reason"))
    };
    match status {
        StatusCode::OK => {}
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(OpError::new(ErrorKind::Refused, told()));
        }
        _ => return Err(OpError::new(ErrorKind::Temporary, told())),
    }
    if answer["errors"].as_array().is_some_and(|errors| !errors.is_empty()) {
        return Err(OpError::new(
            ErrorKind::Temporary,
            format!("the view engine returned only some of the rows: {}", answer["errors"]),
        ));
    }
    let rows = answer["rows"].as_array();
    rows.and_then(|rows| rows.iter().map(|row| row["id"].as_str().map(str::to_owned)).collect())
        .ok_or_else(|| OpError::new(ErrorKind::Temporary, "the view engine's answer is invalid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_both_ends_and_keys_go_in_the_body() {
        let range = ViewRows::Range { start: Some("\"a\""), end: None };
        let asked = Asked::of(&Op::View { view: "by/user", rows: range, skip: 0, limit: 3 }).unwrap();
        assert_eq!((asked.design.as_str(), asked.view.as_str()), ("by", "user"));
        assert_eq!(asked.query[2..], [("limit", "3".to_owned()), ("startkey", "\"a\"".to_owned())]);
        let asked = Asked::of(&Op::View { view: "by/user", rows: ViewRows::Keys("[1]"), skip: 0, limit: 3 }).unwrap();
        assert_eq!(asked.keys.as_deref(), Some("[1]"));
        assert!(asked.is_filled_by(3) && !asked.is_filled_by(2));
        assert_eq!(Asked::of(&Op::Read { key: "a" }), None);
    }

    #[test]
    fn only_whole_answers_count() {
        let rows = |status: u16, body: &str| rows(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        assert_eq!(
            rows(200, r#"{"total_rows":2,"rows":[{"id":"a","key":1},{"id":"b","key":2}]}"#).unwrap(),
            ["a", "b"]
        );
        for (status, body, kind) in [
            (200, "", ErrorKind::Temporary),
            (200, r#"{"rows":[{"key":1}]}"#, ErrorKind::Temporary),
            (200, r#"{"rows":[],"errors":[{"from":"n2","reason":"down"}]}"#, ErrorKind::Temporary),
            (404, r#"{"error":"not_found","reason":"missing"}"#, ErrorKind::Refused),
            (500, "", ErrorKind::Temporary),
        ] {
            assert_eq!(rows(status, body).unwrap_err().kind, kind, "{status} {body}");
        }
    }
}
