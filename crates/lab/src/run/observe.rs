//! Forwards events, and keeps them in the run folder.

use serde_json::{Value, json};
use storebench_engine::measure::Label;
use storebench_engine::store::SessionCounters;
use storebench_engine::{Event, Observer};
use storebench_results::plan::PlannedTrial;
use storebench_results::{FolderError, RunFolder, RunResult, Secrets};

/// Everything that a run reports and saves. A write error in the folder does not stop the measurement: the first one is
/// kept and reported at the end.
pub(super) struct Journal<'a> {
    observer: &'a mut dyn Observer,
    folder: Option<RunFolder>,
    failed: Option<FolderError>,
    secrets: Secrets,
    place: EventContext,
}

/// The part of the run that an event belongs to.
#[derive(Debug, Clone, Default)]
struct EventContext {
    trial: u32,
    store: String,
    labels: Vec<Label>,
}

impl<'a> Journal<'a> {
    pub(super) fn new(observer: &'a mut dyn Observer, folder: Option<RunFolder>, secrets: Secrets) -> Self {
        Self { observer, folder, failed: None, secrets, place: EventContext::default() }
    }

    /// Sets the trial that the following events belong to.
    pub(super) fn enter(&mut self, trial: u32, store: &str) {
        self.place = EventContext { trial, store: store.to_owned(), labels: Vec::new() };
    }

    /// Reports the start of a trial.
    pub(super) fn began(&mut self, planned: &PlannedTrial, of: usize, configuration: &str) {
        let folder = self.folder.as_ref().map(RunFolder::path);
        let PlannedTrial { trial, round, ref store, .. } = *planned;
        self.observer.event(&Event::TrialBegan { trial, of, round, store, configuration, folder });
    }

    /// Writes a note for the user and the log.
    pub(super) fn note(&mut self, text: String) {
        let text = self.secrets.hide(&text);
        self.event(&Event::Note { text });
    }

    /// Removes secrets from the result before it is saved and shown. Messages of stores may contain them.
    pub(super) fn hide(&self, result: &mut RunResult) {
        let hidden = serde_json::to_value(&*result).and_then(|mut value| {
            self.secrets.hide_value(&mut value);
            serde_json::from_value(value)
        });
        // Format words are unchanged, so the result can be parsed again. If not, the files are still free of secrets.
        if let Ok(hidden) = hidden {
            *result = hidden;
        }
    }

    /// Writes to the folder, if there is one that still works.
    pub(super) fn keep(&mut self, write: impl FnOnce(&mut RunFolder) -> Result<(), FolderError>) {
        if self.failed.is_some() {
            return;
        }
        if let Some(Err(error)) = self.folder.as_mut().map(write) {
            self.observer.event(&Event::Note {
                text: format!("{error}; results are not being saved; the measurement continues"),
            });
            self.failed = Some(error);
        }
    }

    /// Adds a line to the event log.
    pub(super) fn log(&mut self, mut line: Value) {
        line["at"] = jiff::Timestamp::now().to_string().into();
        if self.place.trial > 0 {
            line["trial"] = self.place.trial.into();
            line["store"] = self.place.store.clone().into();
        }
        self.keep(|folder| folder.add_event(&line));
    }

    /// Removes the folder of a run that never began.
    pub(super) fn discard(mut self) {
        if let Some(folder) = self.folder.take() {
            folder.discard();
        }
    }

    /// Ends the log and returns the first write error, if any.
    pub(super) fn finish(mut self) -> Option<FolderError> {
        if let Some(folder) = self.folder.take() {
            let ended = folder.finish();
            return self.failed.or(ended.err());
        }
        self.failed
    }
}

fn connections(counters: SessionCounters) -> Value {
    json!({ "disconnects": counters.disconnects, "splits": counters.splits })
}

impl Observer for Journal<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.observer.event(event);
        let line = match event {
            // The runner logs it with more detail.
            Event::TrialBegan { .. } => return,
            Event::PhaseBegan { phase, labels, loads, operations, duration_ns } => {
                self.place.labels = labels.to_vec();
                json!({
                    "event": "phase-began", "phase": phase, "loads": loads, "operations": operations,
                    "duration_ns": duration_ns,
                })
            }
            Event::Interval { phase, number, to_ns, record, .. } => {
                let ops: serde_json::Map<String, Value> = self
                    .place
                    .labels
                    .iter()
                    .zip(&record.ops)
                    .map(|(label, tally)| {
                        (label.name.clone(), json!({ "ended": tally.ended(), "errors": tally.errors() }))
                    })
                    .collect();
                let mut line =
                    json!({ "event": "interval", "phase": phase, "number": number, "to_ns": to_ns, "ops": ops });
                // There are many intervals, but few lost connections.
                if record.connections != SessionCounters::default() {
                    line["connections"] = connections(record.connections);
                }
                line
            }
            Event::PhaseEnded { phase, operations, elapsed_ns, total, .. } => json!({
                "event": "phase-ended", "phase": phase, "operations": operations, "elapsed_ns": elapsed_ns,
                "connections": connections(total.connections),
            }),
            Event::Note { text } => json!({ "event": "note", "text": text }),
        };
        self.log(line);
    }
}
