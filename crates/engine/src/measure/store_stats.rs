//! The statistics that a store reports about itself while a phase runs, on the phase's time axis.
//!
//! A separate thread asks the store. A slow answer delays no operation. A missing answer blocks nothing, because the
//! phase does not wait long for that thread.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Clock;
use crate::store::{AnyStore, Stats};

/// An embedded store may spend 1 / this of an interval on its statistics: it uses the processors that its operations
/// need. A slower store is only asked before the phase.
const EMBEDDED_SHARE: u32 = 1_000;
/// How long to wait for the last answer of a phase.
const LAST_ANSWER: Duration = Duration::from_secs(2);

/// One answer of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatsSample {
    /// When the store was asked, in ns from the phase's start; 0 if before.
    pub at_ns: u64,
    /// How long the answer took, in ns.
    pub took_ns: u64,
    /// The figures, each with its unit in the name. Non-finite values are left out.
    pub figures: Stats,
}

/// What a store reported during a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StoreStats {
    /// The answers, in order.
    pub samples: Vec<StatsSample>,
    /// Requests that failed.
    pub failed: u64,
    /// The message of the first failure.
    pub message: Option<String>,
    /// Whether sampling stopped because the store uses the client's processors and answers slowly.
    pub too_slow: bool,
}

/// Asks a store for its statistics: before a phase, while it runs, and when it has ended.
pub struct StatsSampler {
    store: Arc<dyn AnyStore>,
    clock: Arc<dyn Clock>,
    interval: Duration,
    start_ns: u64,
    /// The longest that an answer may take, if limited.
    slowest: Option<Duration>,
    seen: Arc<Mutex<StoreStats>>,
    /// Whether there is a point in asking again.
    goes_on: bool,
}

impl StatsSampler {
    /// Asks an embedded store at once, before the phase begins. How long it takes decides whether it is asked again.
    pub fn new(store: Arc<dyn AnyStore>, clock: Arc<dyn Clock>, interval: Duration) -> Self {
        let slowest = store.capabilities().embedded.then(|| interval / EMBEDDED_SHARE);
        let seen = Arc::default();
        let mut sampler = Self { store, clock, interval, start_ns: u64::MAX, slowest, seen, goes_on: true };
        if slowest.is_some() {
            sampler.ask();
        }
        sampler
    }

    /// Starts asking on a separate thread when the phase begins at `start_ns` of the clock, and then at every interval.
    /// If an answer takes longer than an interval, the intervals in between are skipped.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn start(mut self, start_ns: u64) -> std::io::Result<Asking> {
        self.start_ns = start_ns;
        let (stop, stopped) = mpsc::channel::<()>();
        let seen = Arc::clone(&self.seen);
        let asking = std::thread::Builder::new().name("store-stats".into());
        let thread = if self.goes_on { Some(asking.spawn(move || self.run(&stopped))?) } else { None };
        Ok(Asking { stop, seen, thread })
    }

    fn run(mut self, stopped: &mpsc::Receiver<()>) {
        let interval_ns = (self.interval.as_nanos() as u64).max(1);
        // An embedded store was already asked before the phase.
        if self.slowest.is_none() {
            self.ask();
        }
        while self.goes_on {
            let now_ns = self.clock.now_ns();
            let beat = now_ns.saturating_sub(self.start_ns) / interval_ns + 1;
            let wait = Duration::from_nanos((self.start_ns + beat * interval_ns).saturating_sub(now_ns));
            let ended = !matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
            self.ask();
            if ended {
                return;
            }
        }
    }

    fn ask(&mut self) {
        let began_ns = self.clock.now_ns();
        let told = self.store.stats();
        let took_ns = self.clock.now_ns().saturating_sub(began_ns);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Ok(mut figures) => {
                figures.retain(|(_, value)| value.is_finite());
                if figures.is_empty() && seen.samples.is_empty() {
                    self.goes_on = false;
                    return;
                }
                let at_ns = began_ns.saturating_sub(self.start_ns);
                seen.samples.push(StatsSample { at_ns, took_ns, figures });
            }
            Err(error) => {
                seen.failed += 1;
                seen.message.get_or_insert_with(|| error.to_string());
            }
        }
        if self.slowest.is_some_and(|slowest| Duration::from_nanos(took_ns) > slowest) {
            seen.too_slow = true;
            self.goes_on = false;
        }
    }
}

/// A thread that asks a store until it is stopped.
pub struct Asking {
    stop: mpsc::Sender<()>,
    seen: Arc<Mutex<StoreStats>>,
    thread: Option<JoinHandle<()>>,
}

impl Asking {
    /// Asks once more, stops, and returns what the store reported. If the store does not answer within two seconds, its
    /// thread is abandoned.
    pub fn finish(self) -> StoreStats {
        drop(self.stop);
        let began = std::time::Instant::now();
        let runs = || self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while runs() && began.elapsed() < LAST_ANSWER {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if runs() {
            seen.failed += 1;
            seen.message.get_or_insert_with(|| "no answer when the phase ended".to_owned());
        }
        seen
    }
}
