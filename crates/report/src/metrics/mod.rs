//! Metrics of a run while it measures: an endpoint for Prometheus, or pushes to a receiver of OTLP.
//!
//! They are made of what the engine hands over each interval anyway, on the thread that gathers it; no worker waits. A
//! reader gets the latest snapshot. `model` has the metrics, `series` adds up events, `text` and `otlp`
//! render. Results never come from here.

mod model;
mod otlp;
mod series;
mod text;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::http::uri::Authority;
use hyper::{Request, Response, StatusCode};
use storebench_engine::{Event, Observer, unix_now_ns};
use tokio::sync::watch;

use self::model::Snapshot;
use self::otlp::Receiver;
use self::series::Series;
use crate::http::{Body, body, listen, serve, text as plain, unknown_host};

/// The shortest time between two snapshots during a phase: a study with faults has ten intervals a second.
const EVERY: Duration = Duration::from_millis(500);
/// How long a receiver may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for the last snapshot, which the end of the run waits for.
const FAREWELL: Duration = Duration::from_secs(2);

/// The form of a receiver's URL, for messages.
pub const RECEIVER: &str = "otlp+http://HOST:PORT";

/// Where metrics go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// To whoever asks this address for `/metrics`.
    Serve(SocketAddr),
    /// To this receiver of OTLP.
    Push(Receiver),
}

impl Destination {
    /// A receiver, from `otlp+http://HOST[:PORT][/PATH]`; `None` if the text is not a URL.
    ///
    /// # Errors
    /// In words, if it is another URL.
    pub fn of_url(text: &str) -> Option<Result<Self, String>> {
        let (scheme, address) = text.split_once("://")?;
        let receiver = Some(address).filter(|_| scheme == "otlp+http").and_then(Receiver::parse);
        Some(receiver.map(Self::Push).ok_or_else(|| {
            format!("not the URL of a receiver; expected {RECEIVER}, without TLS and without a password")
        }))
    }
}

/// What became of pushes.
#[derive(Debug, Default)]
struct Pushes {
    all: u64,
    failed: u64,
    /// Why the last one failed.
    why: String,
    told: bool,
}

/// The metrics of a run, and the observer that counts them.
#[derive(Debug)]
pub struct Metrics {
    to: String,
    series: Series,
    latest: watch::Sender<Arc<Snapshot>>,
    published: Option<Instant>,
    pushes: Arc<Mutex<Pushes>>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Starts to serve or to push. `study` is the name of what is run.
    ///
    /// # Errors
    /// The port is in use, or the address does not belong to this machine. A receiver may be away.
    pub fn start(destination: &Destination, study: &str) -> std::io::Result<Self> {
        let series = Series::new(study, unix_now_ns());
        let (latest, seen) = watch::channel(Arc::new(series.snapshot(unix_now_ns())));
        let (stop, stopped) = watch::channel(false);
        let pushes = Arc::new(Mutex::new(Pushes::default()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let (to, thread) = match destination {
            Destination::Serve(address) => {
                let (listener, address) = listen(*address)?;
                let answers = move |request: &Request<Incoming>| answer(request, address, &seen);
                let work = async move { serve(listener, stopped, answers).await };
                (format!("http://{address}/metrics"), thread.spawn(move || runtime.block_on(work))?)
            }
            Destination::Push(receiver) => {
                let work = push(receiver.clone(), seen, stopped, Arc::clone(&pushes));
                let work = move || {
                    runtime.block_on(work);
                    // The name of a receiver may still be looked up.
                    runtime.shutdown_background();
                };
                (receiver.to_string(), thread.spawn(work)?)
            }
        };
        Ok(Self { to, series, latest, published: None, pushes, stop, thread: Some(thread) })
    }

    /// The URL of the endpoint, or the receiver.
    pub fn destination(&self) -> &str {
        &self.to
    }

    /// Sets what a copy has done: documents and bytes written, records rejected.
    pub fn copied(&mut self, documents: u64, bytes: u64, rejected: u64) {
        self.series.copied = Some([documents, bytes, rejected]);
        self.publish_if_due();
    }

    /// A message when a push has failed for the first time.
    pub fn complaint(&self) -> Option<String> {
        let mut pushes = lock(&self.pushes);
        if pushes.failed == 0 || std::mem::replace(&mut pushes.told, true) {
            return None;
        }
        Some(format!("--metrics: {} does not take metrics: {}; the run continues", self.to, pushes.why))
    }

    /// Ends it after the last snapshot was published. Returns how many pushes failed, in words, if any did.
    pub fn end(&mut self) -> Option<String> {
        self.publish();
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let pushes = lock(&self.pushes);
        let Pushes { all, failed, why, .. } = &*pushes;
        (*failed > 0)
            .then(|| format!("--metrics: {failed} of {all} pushes to {} failed; the last failure: {why}", self.to))
    }

    fn publish_if_due(&mut self) {
        if self.published.is_none_or(|last| last.elapsed() >= EVERY) {
            self.publish();
        }
    }

    fn publish(&mut self) {
        self.published = Some(Instant::now());
        self.latest.send_replace(Arc::new(self.series.snapshot(unix_now_ns())));
    }
}

impl Observer for Metrics {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::TrialBegan { round, store, configuration, folder, .. } => {
                let name = folder.and_then(|folder| folder.file_name());
                self.series.run = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                self.series.trial(*round, store, configuration);
            }
            Event::PhaseBegan { phase, labels, .. } => {
                self.series.begin(phase, labels);
                self.publish();
            }
            Event::Interval { record, now, .. } => {
                self.series.interval(record, *now);
                self.publish_if_due();
            }
            Event::PhaseEnded { total, store, .. } => {
                self.series.end(total, *store);
                self.publish();
            }
            Event::Note { .. } => {}
        }
    }
}

fn lock(pushes: &Mutex<Pushes>) -> MutexGuard<'_, Pushes> {
    pushes.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(request: &Request<Incoming>, address: SocketAddr, latest: &watch::Receiver<Arc<Snapshot>>) -> Response<Body> {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    // A page from elsewhere must not read what only this machine may, under a name that leads here.
    if address.ip().is_loopback() && !is_local(host) {
        return unknown_host();
    }
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "not found; the metrics are at /metrics\n");
    }
    let latest = Arc::clone(&latest.borrow());
    body(StatusCode::OK, text::MEDIA_TYPE, text::text(&latest).into())
}

/// Whether a `Host` header names this machine's loopback interface, at any port: a tunnel may have another one.
fn is_local(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_matches(['[', ']']);
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Sends each snapshot, or the newest one if the receiver is slow; at the end the last one.
async fn push(
    to: Receiver,
    mut latest: watch::Receiver<Arc<Snapshot>>,
    mut stopped: watch::Receiver<bool>,
    pushes: Arc<Mutex<Pushes>>,
) {
    let mut over = false;
    while !over {
        over = tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => true,
            changed = latest.changed() => changed.is_err(),
        };
        let snapshot = Arc::clone(&latest.borrow_and_update());
        let patience = if over { FAREWELL } else { PATIENCE };
        let sending = tokio::time::timeout(patience, to.send(&snapshot));
        let sent = tokio::select! {
            // The last snapshot contains what this one has.
            _ = stopped.wait_for(|stop| *stop), if !over => continue,
            sent = sending => sent.unwrap_or_else(|_| Err(format!("no answer within {} s", patience.as_secs()))),
        };
        let mut pushes = lock(&pushes);
        pushes.all += 1;
        if let Err(why) = sent {
            (pushes.failed, pushes.why) = (pushes.failed + 1, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value as Json;

    use super::model::{ALL, Kind};
    use super::*;

    const DASHBOARD: &str = include_str!("../../../../docs/grafana-dashboard.json");
    const PAGE: &str = include_str!("../../../../docs/metrics.md");

    /// Names of metrics in a text.
    fn names(text: &str) -> BTreeSet<&str> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("storebench_")).collect()
    }

    /// Every query of a dashboard.
    fn queries<'a>(of: &'a Json, found: &mut Vec<&'a str>) {
        match of {
            Json::Array(all) => all.iter().for_each(|one| queries(one, found)),
            Json::Object(all) => {
                for (key, one) in all {
                    match one.as_str().filter(|_| key == "expr" || key == "query" || key == "definition") {
                        Some(query) => found.push(query),
                        None => queries(one, found),
                    }
                }
            }
            _ => {}
        }
    }

    #[test]
    fn the_dashboard_asks_only_for_metrics_that_exist() {
        let dashboard: Json = serde_json::from_str(DASHBOARD).unwrap();
        let mut found = Vec::new();
        queries(&dashboard, &mut found);
        let asked: BTreeSet<&str> = found.into_iter().flat_map(names).collect();
        assert!(asked.len() > 8, "{asked:?}");
        for name in asked {
            let exists = ALL.iter().any(|metric| match metric.kind {
                Kind::Histogram => {
                    ["_bucket", "_sum", "_count"].iter().any(|end| name == format!("{}{end}", metric.name))
                }
                _ => name == metric.name,
            });
            assert!(exists, "{name} is not a metric");
        }
    }

    #[test]
    fn the_page_has_every_metric_and_no_other() {
        for metric in ALL {
            let row = format!("| `{}` | {} |", metric.name, metric.kind.name());
            assert!(PAGE.contains(&row), "docs/metrics.md has no row `{row}`");
        }
        let rows = PAGE.lines().filter(|line| line.starts_with("| `storebench_")).count();
        assert_eq!(rows, ALL.len());
    }

    #[test]
    fn destinations_are_read() {
        assert!(matches!(Destination::of_url("otlp+http://here:4318"), Some(Ok(Destination::Push(_)))));
        assert_eq!(Destination::of_url("127.0.0.1:9464"), None);
        for wrong in ["otlp+https://here:4318", "http://here:4318", "otlp+http://me:secret@here"] {
            assert!(Destination::of_url(wrong).unwrap().unwrap_err().contains("otlp+http://HOST:PORT"), "{wrong}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "localhost:99", "127.0.0.1:9464", "[::1]:9464", "127.0.0.2"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["", "elsewhere.example:9464", "192.0.2.1", "localhost.example"] {
            assert!(!is_local(host), "{host}");
        }
    }

    /// What cannot be reached is told once, counted, and holds up nothing.
    #[test]
    fn a_receiver_that_is_away_is_told_once() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let to = Destination::of_url(&format!("otlp+http://{nobody}")).unwrap().unwrap();
        let mut metrics = Metrics::start(&to, "books").unwrap();
        assert_eq!(metrics.complaint(), None);
        metrics.publish();
        let first = loop {
            match metrics.complaint() {
                Some(text) => break text,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        assert!(first.contains(&nobody.to_string()) && first.contains("the run continues"), "{first}");
        assert_eq!(metrics.complaint(), None);
        let last = metrics.end().unwrap();
        assert!(last.contains(" pushes to ") && last.contains(&nobody.to_string()), "{last}");
    }
}
