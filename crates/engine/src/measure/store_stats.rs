//! What a store tells about itself while a phase runs, on the phase's own time axis.
//!
//! A thread of its own asks: an answer that takes long delays no operation, and one that never comes
//! holds up nothing, since nobody waits for the thread for long.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Clock;
use crate::store::{AnyStore, Stats};

/// The share of an interval that an embedded store may take to tell its figures: it does so on the
/// processors that its operations need. One that takes longer is asked before the phase only.
const EMBEDDED_SHARE: u32 = 1_000;
/// How long the last answer of a phase is waited for.
const LAST_ANSWER: Duration = Duration::from_secs(2);

/// One answer of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct StatsSample {
    /// When it was asked, in ns from the phase's start; 0 for before.
    pub at_ns: u64,
    /// How long the answer took, in ns.
    pub took_ns: u64,
    /// The figures, each with its unit in the name; those that are no numbers are left out.
    pub figures: Stats,
}

/// What a store told over a phase.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoreStats {
    /// The answers, in order.
    pub samples: Vec<StatsSample>,
    /// Questions that failed.
    pub failed: u64,
    /// What the first of them said.
    pub message: Option<String>,
    /// Whether asking was given up, since the store works on the client's processors and takes long to
    /// answer.
    pub too_slow: bool,
}

/// Asks a store about itself: before a phase, while it runs, and when it has ended.
pub struct StatsSampler {
    asker: Asker,
    first: Answer,
    interval: Duration,
}

impl StatsSampler {
    /// An embedded store is asked at once, before the phase begins: what it takes to answer decides
    /// whether it is asked again.
    pub fn new(store: Arc<dyn AnyStore>, clock: Arc<dyn Clock>, interval: Duration) -> Self {
        let slowest = store.capabilities().embedded.then(|| interval / EMBEDDED_SHARE);
        let asker = Asker { store, clock, start_ns: u64::MAX, slowest, seen: Arc::default() };
        let first = if slowest.is_some() { asker.ask() } else { Answer::GoOn };
        Self { asker, first, interval }
    }

    /// The phase begins at `start_ns` of the clock: asks on a thread of its own, then and at every interval
    /// after it; a beat that comes while an answer is awaited is skipped.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(self, start_ns: u64) -> std::io::Result<Asking> {
        let Self { mut asker, first, interval } = self;
        asker.start_ns = start_ns;
        let (stop, stopped) = mpsc::channel::<()>();
        let seen = Arc::clone(&asker.seen);
        let thread = match first {
            Answer::GoOn => {
                let asking = std::thread::Builder::new().name("store-stats".into());
                Some(asking.spawn(move || asker.run(interval, &stopped))?)
            }
            Answer::NoMore => None,
        };
        Ok(Asking { stop, seen, thread })
    }
}

/// A thread that asks a store until it is stopped.
pub struct Asking {
    stop: mpsc::Sender<()>,
    seen: Arc<Mutex<StoreStats>>,
    thread: Option<JoinHandle<()>>,
}

impl Asking {
    /// Asks once more, ends, and gives what the store has told. A store that does not answer any more is
    /// left to its thread after two seconds.
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

/// Whether there is a point in asking again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    GoOn,
    NoMore,
}

struct Asker {
    store: Arc<dyn AnyStore>,
    clock: Arc<dyn Clock>,
    start_ns: u64,
    /// The longest an answer may take, where that is limited.
    slowest: Option<Duration>,
    seen: Arc<Mutex<StoreStats>>,
}

impl Asker {
    fn run(&self, interval: Duration, stopped: &mpsc::Receiver<()>) {
        let interval_ns = (interval.as_nanos() as u64).max(1);
        // An embedded store has been asked before the phase.
        let mut answer = if self.slowest.is_some() { Answer::GoOn } else { self.ask() };
        while answer == Answer::GoOn {
            let now_ns = self.clock.now_ns();
            let beat = now_ns.saturating_sub(self.start_ns) / interval_ns + 1;
            let wait = Duration::from_nanos((self.start_ns + beat * interval_ns).saturating_sub(now_ns));
            let ended = !matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
            answer = self.ask();
            if ended {
                return;
            }
        }
    }

    fn ask(&self) -> Answer {
        let began_ns = self.clock.now_ns();
        let told = self.store.stats();
        let took_ns = self.clock.now_ns().saturating_sub(began_ns);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Ok(mut figures) => {
                figures.retain(|(_, value)| value.is_finite());
                if figures.is_empty() && seen.samples.is_empty() {
                    return Answer::NoMore;
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
            return Answer::NoMore;
        }
        Answer::GoOn
    }
}
