//! A snapshot in the protocol of OpenTelemetry: OTLP 1, as JSON over HTTP.
//!
//! In the JSON of protocol buffers, 64-bit integers are strings; in OTLP, values of enumerations are numbers.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use serde_json::{Value as Json, json};

use super::model::{BOUNDS_NS, Kind, Point, Snapshot, TIMES, Value};

/// Values count from the start of the run, as those of Prometheus do.
const CUMULATIVE: u32 = 2;
/// The port and the path that receivers have by default.
const PORT: u16 = 4318;
const PATH: &str = "/v1/metrics";
/// The most characters of a receiver's reason that are told.
const MOST_CHARS: usize = 300;
/// The most bytes of an answer that are read.
const MOST_BYTES: usize = 64 << 10;

/// A receiver of OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// Without brackets around an IPv6 address.
    host: String,
    port: u16,
    path: String,
}

impl Receiver {
    /// From `HOST[:PORT][/PATH]`.
    pub(super) fn parse(address: &str) -> Option<Self> {
        let uri: Uri = format!("http://{address}").parse().ok()?;
        let authority = uri.authority()?.as_str();
        let host = uri.host()?;
        // With a user or a password before the host, there is no address.
        let port = match authority.strip_prefix(host)? {
            "" => PORT,
            port => port.strip_prefix(':')?.parse().ok().filter(|port| *port != 0)?,
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        (!host.is_empty()).then(|| Self { host, port, path: if path == "/" { PATH } else { path }.to_owned() })
    }

    /// Sends a snapshot once.
    ///
    /// # Errors
    /// In words, if it was not accepted.
    pub(super) async fn send(&self, snapshot: &Snapshot) -> Result<(), String> {
        let stream = tokio::net::TcpStream::connect((&*self.host, self.port)).await.map_err(in_words)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(in_words)?;
        // It ends with the request, and with the runtime at the latest.
        tokio::spawn(connection);
        let request = Request::post(self.path.as_str())
            .header(HOST, self.to_string())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::<Bytes>::from(json(snapshot).to_string()))
            .map_err(in_words)?;
        let answer = sender.send_request(request).await.map_err(in_words)?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("it answers {status}"));
        }
        // An answer that is cut off, or of another kind, rejects nothing.
        let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
        body.ok().and_then(|body| rejection(&body.to_bytes())).map_or(Ok(()), Err)
    }
}

/// What an `ExportMetricsServiceResponse` rejects, in words.
fn rejection(answer: &[u8]) -> Option<String> {
    let answer: Json = serde_json::from_slice(answer).ok()?;
    let partly = &answer["partialSuccess"];
    let rejected = &partly["rejectedDataPoints"];
    let count = rejected.as_i64().or_else(|| rejected.as_str()?.parse().ok()).filter(|count| *count != 0)?;
    let why: String = partly["errorMessage"].as_str().unwrap_or("no reason given").chars().take(MOST_CHARS).collect();
    Some(format!("it rejects {count} data points: {why}"))
}

impl std::fmt::Display for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// An `ExportMetricsServiceRequest`.
pub(super) fn json(snapshot: &Snapshot) -> Json {
    let metrics = snapshot.metrics.iter().map(|(metric, points)| {
        let points: Vec<Json> = points.iter().map(|point| data_point(point, snapshot)).collect();
        let mut data = json!({ "dataPoints": points });
        if metric.kind != Kind::Gauge {
            data["aggregationTemporality"] = CUMULATIVE.into();
        }
        if metric.kind == Kind::Counter {
            data["isMonotonic"] = true.into();
        }
        let kind = if metric.kind == Kind::Counter { "sum" } else { metric.kind.name() };
        json!({ "name": metric.name, "description": metric.help, "unit": metric.unit, kind: data })
    });
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        ("service.name", "storebench"),
        ("service.version", version),
        ("storebench.study", snapshot.study.as_str()),
        ("storebench.run", snapshot.run.as_str()),
    ];
    json!({ "resourceMetrics": [{
        "resource": { "attributes": attributes(resource) },
        "scopeMetrics": [{
            "scope": { "name": "storebench", "version": version },
            "metrics": metrics.collect::<Vec<_>>(),
        }],
    }] })
}

fn data_point(point: &Point, snapshot: &Snapshot) -> Json {
    let mut json = json!({
        "attributes": attributes(point.labels.iter().map(|(name, value)| (*name, value.as_str()))),
        "startTimeUnixNano": snapshot.began_unix_ns.to_string(),
        "timeUnixNano": snapshot.at_unix_ns.to_string(),
    });
    match &point.value {
        Value::Number(number) => json["asDouble"] = (*number).into(),
        Value::Times(times) => {
            let counts = &times[..TIMES - 1];
            json["count"] = counts.iter().sum::<u128>().to_string().into();
            json["sum"] = (times[TIMES - 1] as f64 / 1e9).into();
            json["bucketCounts"] = counts.iter().map(ToString::to_string).collect();
            json["explicitBounds"] = BOUNDS_NS.iter().map(|ns| *ns as f64 / 1e9).collect();
        }
    }
    json
}

/// Attributes that are known.
fn attributes<'a>(all: impl IntoIterator<Item = (&'static str, &'a str)>) -> Json {
    let known = all.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::series::tests::running;

    #[test]
    fn addresses_are_read() {
        let parsed = |text| Receiver::parse(text).map(|receiver| (receiver.to_string(), receiver.path));
        let is = |address: &str, path: &str| Some((address.to_owned(), path.to_owned()));
        assert_eq!(parsed("127.0.0.1:4318"), is("127.0.0.1:4318", PATH));
        assert_eq!(parsed("collector"), is("collector:4318", PATH));
        assert_eq!(parsed("[::1]:99/"), is("[::1]:99", PATH));
        assert_eq!(parsed("here:9090/api/v1/otlp/v1/metrics"), is("here:9090", "/api/v1/otlp/v1/metrics"));
        for wrong in ["", ":4318", "me:secret@here", "here:99999", "here:0", "here:", "a b"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_rejected_is_a_failure() {
        for (answer, told) in [
            (r#"{"partialSuccess":{"rejectedDataPoints":"9","errorMessage":"no"}}"#, Some("9 data points: no")),
            (r#"{"partialSuccess":{"rejectedDataPoints":2}}"#, Some("2 data points: no reason given")),
            (r#"{"partialSuccess":{"rejectedDataPoints":"0","errorMessage":"old"}}"#, None),
            (r#"{"partialSuccess":{}}"#, None),
            ("{}", None),
            ("", None),
            ("\u{a}\u{0}", None),
        ] {
            assert_eq!(rejection(answer.as_bytes()), told.map(|told| format!("it rejects {told}")), "{answer}");
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = Receiver::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let answering = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let mut stream = listener.accept().unwrap().0;
            let _ = stream.read(&mut [0; 1 << 16]);
            let body = r#"{"partialSuccess":{"rejectedDataPoints":"9","errorMessage":"no"}}"#;
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let sent = runtime.block_on(to.send(&Snapshot::default()));
        assert_eq!(sent, Err("it rejects 9 data points: no".to_owned()));
        answering.join().unwrap();
    }

    /// Prometheus adds the unit to the name of what is pushed, where the name does not contain it.
    #[test]
    fn names_stay_the_same_in_prometheus() {
        for metric in super::super::model::ALL {
            let kept = match metric.unit {
                "" => true,
                "s" => metric.name.contains("_seconds"),
                "By" => metric.name.contains("_bytes"),
                annotation => annotation.starts_with('{'),
            };
            assert!(kept, "{}", metric.name);
        }
    }

    #[test]
    fn the_json_is_as_the_protocol_says() {
        let mut snapshot = running().snapshot(2_000_000_000);
        snapshot.began_unix_ns = 1_000_000_000;
        let json = json(&snapshot);
        let resource = &json["resourceMetrics"][0];
        let attribute = |of: &Json, key: &str| {
            let found = of["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key);
            found.map(|attribute| attribute["value"]["stringValue"].as_str().unwrap().to_owned())
        };
        assert_eq!(attribute(&resource["resource"], "service.name").as_deref(), Some("storebench"));
        assert_eq!(attribute(&resource["resource"], "storebench.run").as_deref(), Some("books-1"));
        let metrics = resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let named = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
        let sum = &named("storebench_operations_total")["sum"];
        assert_eq!((&sum["aggregationTemporality"], &sum["isMonotonic"]), (&2.into(), &true.into()));
        let point = &sum["dataPoints"][0];
        assert_eq!((&point["asDouble"], &point["startTimeUnixNano"]), (&10.0.into(), &"1000000000".into()));
        assert_eq!((attribute(point, "outcome").as_deref(), attribute(point, "error")), (Some("succeeded"), None));
        let histogram = &named("storebench_service_time_seconds")["histogram"];
        assert_eq!(histogram["aggregationTemporality"], 2);
        let point = &histogram["dataPoints"][0];
        let (counts, bounds) = (point["bucketCounts"].as_array().unwrap(), point["explicitBounds"].as_array().unwrap());
        assert_eq!(counts.len(), bounds.len() + 1);
        assert_eq!((&counts[22], &bounds[22], &point["count"]), (&"1".into(), &0.005.into(), &"1".into()));
        assert_eq!(named("storebench_in_flight")["gauge"]["dataPoints"][0]["asDouble"], 7.0);
    }
}
