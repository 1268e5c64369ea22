//! What is done to a store before and after a phase: it is restarted, comes to rest, compacts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use storebench_engine::Clock as _;
use storebench_engine::store::StoreError;
use storebench_machine::folder_use;
use storebench_results::human::duration;
use storebench_results::{RestartedResult, StoreAfter};
use storebench_study::workload::{Phase, RestartSpec};

use super::observe::Journal;
use super::runner::{Configuration, RunState};

/// How often the size of the store's files is checked while it comes to rest.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl RunState<'_> {
    /// Stops and restarts the server of a configuration, if the phase asks for that.
    pub(super) fn restart(
        &self,
        configuration: &Configuration,
        phase: &Phase,
        journal: &mut Journal<'_>,
    ) -> Result<Option<RestartedResult>, StoreError> {
        let Some(how) = phase.restart else { return Ok(None) };
        let Some(server) = &configuration.request.server else {
            return Err(StoreError::NotSupported("the run does not control a server of this store".to_owned()));
        };
        let began = Instant::now();
        server.stop()?;
        let stop_ns = began.elapsed().as_nanos() as u64;
        let dropped = match how {
            RestartSpec::Warm => None,
            RestartSpec::Cold => Some(server.go_cold(&*configuration.store)?.to_string()),
        };
        let started = server.start(&*configuration.store)?;
        let (ready_ns, listening) = (started.ready.as_nanos() as u64, started.listening);
        journal.note(format!(
            "{}: restarted before {}{}, ready after {}",
            configuration.name,
            phase.name,
            dropped.as_ref().map_or_else(String::new, |dropped| format!(" ({dropped})")),
            duration(ready_ns as f64)
        ));
        let listening_ns = listening.map(|after| after.as_nanos() as u64);
        Ok(Some(RestartedResult { stop_ns, dropped, listening_ns, ready_ns }))
    }

    /// Makes the store compact and waits until it rests, if requested; then takes its statistics and disk space.
    /// Failures are only noted, because they do not invalidate the measurement.
    pub(super) fn after(&self, configuration: &Configuration, phase: &Phase, journal: &mut Journal<'_>) -> StoreAfter {
        let mut after = StoreAfter::default();
        let paths = self.data_of(configuration);
        let asked = (phase.settle.is_some() || phase.compact) && !self.stop.asked() && self.parts.leads();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let peak = (asked && !paths.is_empty()).then(|| scope.spawn(|| most(&paths, &over)));
            if asked {
                self.rest(configuration, phase, &mut after, journal);
            }
            over.store(true, Ordering::Relaxed);
            after.disk_peak_bytes = peak.and_then(|peak| peak.join().ok());
        });
        match configuration.store.stats() {
            Ok(stats) => after.stats = stats.into_iter().filter(|(_, v)| v.is_finite()).collect(),
            Err(error) => journal.note(format!("could not read the statistics of {}: {error}", configuration.name)),
        }
        after.disk_bytes = (!paths.is_empty()).then(|| folder_use(&paths).disk_bytes);
        after
    }

    fn rest(&self, configuration: &Configuration, phase: &Phase, after: &mut StoreAfter, journal: &mut Journal<'_>) {
        if phase.compact {
            let began = self.clock.now_ns();
            match configuration.store.compact() {
                Ok(()) => after.compact_ns = Some(self.clock.now_ns().saturating_sub(began)),
                Err(error) => journal.note(format!("could not compact {}: {error}", configuration.name)),
            }
        }
        if let Some(at_most) = phase.settle {
            let began = self.clock.now_ns();
            after.settled = settle(configuration, at_most.0, journal);
            after.settle_ns = Some(self.clock.now_ns().saturating_sub(began));
        }
    }

    /// The data of a configuration's store on this machine, if known.
    fn data_of(&self, configuration: &Configuration) -> Vec<PathBuf> {
        let own = configuration.store.paths();
        let server = configuration.request.server.as_ref().and_then(|server| server.seen()?.1);
        if own.is_empty() { server.into_iter().collect() } else { own }
    }
}

/// Waits until a store rests. Returns whether it does; `None` if the wait failed, which is noted.
pub(super) fn settle(configuration: &Configuration, at_most: Duration, journal: &mut Journal<'_>) -> Option<bool> {
    let failed =
        |error: StoreError| journal.note(format!("could not wait for {} to settle: {error}", configuration.name));
    configuration.store.settle(at_most).map_err(failed).ok()
}

/// The peak size of the files below these paths until `over` is set.
fn most(paths: &[PathBuf], over: &AtomicBool) -> u64 {
    let mut most = 0;
    loop {
        // Read the flag first, so that the last check comes after the end.
        let last = over.load(Ordering::Relaxed);
        most = most.max(folder_use(paths).disk_bytes);
        if last {
            return most;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
