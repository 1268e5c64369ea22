//! The live report: the same page, served on this machine during a run.
//!
//! A viewer must not disturb the measurement. The thread that runs the phases makes the page when nothing is measured:
//! before each trial and each phase. During a phase the server sends a few figures per interval, and only if there is a
//! viewer. The server is read-only and ends with the run.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::HOST;
use hyper::{Request, Response, StatusCode};
use storebench_engine::measure::Recorder;
use storebench_engine::{Event, Observer};
use tokio::sync::{broadcast, watch};

use crate::http::{Body, body, listen, respond, serve, text, unknown_host};
use crate::page::{Life, changing, page};
use crate::recorded::Recorded;
use crate::subject::Subject;

/// The most events that wait for a slow reader. Older ones are dropped.
const WAITING: usize = 64;
/// How long the end of a run waits for readers to fetch the last page.
const FAREWELL: Duration = Duration::from_secs(2);

/// What readers get.
#[derive(Debug, Default)]
struct Made {
    page: Bytes,
    changing: Bytes,
}

#[derive(Debug)]
struct Shared {
    made: Mutex<Made>,
    events: broadcast::Sender<Bytes>,
    /// Accepted `Host` headers. Refusing others prevents DNS rebinding by a page from elsewhere.
    hosts: Vec<String>,
}

/// The server of a run, and the observer that sends it events.
#[derive(Debug)]
pub struct Live {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    folder: Option<PathBuf>,
    place: RunningTrial,
}

/// The trial in progress.
#[derive(Debug, Default)]
struct RunningTrial {
    trial: u32,
    of: usize,
    configuration: String,
    from_ns: u64,
}

impl Live {
    /// Starts the server at this address; port 0 chooses a free port.
    ///
    /// # Errors
    /// The port is in use, or the address does not belong to this machine.
    pub fn start(address: SocketAddr) -> std::io::Result<Self> {
        let (listener, address) = listen(address)?;
        let (events, _) = broadcast::channel(WAITING);
        let hosts = [address.to_string(), format!("localhost:{}", address.port())].into();
        let shared = Arc::new(Shared { made: Mutex::default(), events, hosts });
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = Arc::clone(&shared);
        let answers = move |request: &Request<Incoming>| answer(&serving, request);
        let thread = std::thread::Builder::new()
            .name("live".to_owned())
            .spawn(move || runtime.block_on(serve(listener, stopped, answers)))?;
        Ok(Self { shared, address, thread: Some(thread), stop, folder: None, place: RunningTrial::default() })
    }

    /// Its address: `http://127.0.0.1:8080/`.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Makes the page from the current content of the folder. If the folder cannot be read yet, keeps the old page.
    fn make(&self) {
        let made = self.folder.as_deref().and_then(|folder| made(folder).ok());
        if let Some(made) = made {
            *self.shared.made.lock().unwrap_or_else(PoisonError::into_inner) = made;
        }
    }

    /// Sends an event to readers, if there are any.
    fn tell(&self, event: &str, data: &str) {
        let _ = self.shared.events.send(Bytes::from(format!("event: {event}\ndata: {data}\n\n")));
    }

    /// Ends the server after readers had time to fetch the final page.
    pub fn end(mut self) {
        self.make();
        self.tell("ended", "{}");
        let until = Instant::now() + FAREWELL;
        // On `ended` a reader fetches the page, then closes its stream of events.
        while self.shared.events.receiver_count() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn made(folder: &Path) -> Result<Made, crate::ReportError> {
    let subject = Subject::of(vec![Recorded::open(folder)?]);
    let (html, data) = changing(&subject)?;
    let changing = serde_json::json!({ "html": html, "data": data }).to_string();
    Ok(Made { page: page(&subject, Life::Live)?.into(), changing: changing.into() })
}

impl Observer for Live {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::TrialBegan { trial, of, configuration, folder, .. } => {
                self.place =
                    RunningTrial { trial: *trial, of: *of, configuration: (*configuration).to_owned(), from_ns: 0 };
                self.folder = folder.map(Path::to_owned);
                self.make();
                self.tell("changed", "{}");
            }
            Event::PhaseBegan { .. } => {
                self.place.from_ns = 0;
                self.make();
                self.tell("changed", "{}");
            }
            Event::Interval { phase, to_ns, record, .. } if self.shared.events.receiver_count() > 0 => {
                self.tell("now", &now(&self.place, phase, *to_ns, record));
                self.place.from_ns = *to_ns;
            }
            Event::Interval { to_ns, .. } => self.place.from_ns = *to_ns,
            Event::PhaseEnded { .. } | Event::Note { .. } => {}
        }
    }
}

/// The figures of an interval: answers per second, the p99 of the slowest operation, errors.
fn now(place: &RunningTrial, phase: &str, to_ns: u64, record: &Recorder) -> String {
    let seconds = to_ns.saturating_sub(place.from_ns) as f64 / 1e9;
    let errors: u64 = record.ops.iter().map(storebench_engine::measure::Tally::errors).sum();
    let p99 = record.ops.iter().filter_map(|op| {
        let times = if op.response.is_empty() { &op.service } else { &op.response };
        (!times.is_empty()).then(|| times.value_at_quantile(0.99))
    });
    serde_json::json!({
        "trial": place.trial, "of": place.of, "configuration": place.configuration, "phase": phase, "second": to_ns as f64 / 1e9,
        "per_s": if seconds > 0.0 { record.answers() as f64 / seconds } else { 0.0 }, "p99_ns": p99.max(), "errors": errors,
    })
    .to_string()
}

fn answer(shared: &Arc<Shared>, request: &Request<Incoming>) -> Response<Body> {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !shared.hosts.iter().any(|known| known == host) {
        return unknown_host();
    }
    let made = || shared.made.lock().unwrap_or_else(PoisonError::into_inner);
    match request.uri().path() {
        "/" if made().page.is_empty() => {
            text(StatusCode::SERVICE_UNAVAILABLE, "the run has not started; reload soon\n")
        }
        "/" => body(StatusCode::OK, "text/html; charset=utf-8", made().page.clone()),
        "/changing" => body(StatusCode::OK, "application/json", made().changing.clone()),
        "/events" => events(shared),
        _ => text(StatusCode::NOT_FOUND, "not found; the report is at /\n"),
    }
}

/// The stream of events, until the reader closes it.
fn events(shared: &Shared) -> Response<Body> {
    let heard = stream::unfold(shared.events.subscribe(), |mut events| async {
        loop {
            match events.recv().await {
                Ok(event) => return Some((Ok::<_, Infallible>(Frame::data(event)), events)),
                // A reader that is too slow continues with newer events.
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    });
    respond(StatusCode::OK, "text/event-stream", StreamBody::new(heard).boxed_unsync())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in the result: what was not found was answered, what failed was not.
    #[test]
    fn the_rate_counts_answers() {
        let mut record = Recorder::new(1);
        let tally = &mut record.ops[0];
        (tally.succeeded, tally.missed, tally.failed[0]) = (30, 10, 5);
        let place = RunningTrial { trial: 1, of: 1, configuration: "a".into(), from_ns: 1_000_000_000 };
        let now: serde_json::Value = serde_json::from_str(&now(&place, "reads", 3_000_000_000, &record)).unwrap();
        assert_eq!((now["per_s"].as_f64(), now["errors"].as_u64()), (Some(20.0), Some(5)));
    }
}
