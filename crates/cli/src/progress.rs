//! Progress on stderr during a run: bars on a terminal, otherwise a line every few seconds.
//!
//! It reads only the events of the engine.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use storebench_engine::measure::Recorder;
use storebench_engine::{Event, Observer};
use storebench_results::human;
use storebench_transfer::Progress as Copied;

use crate::in_process::{self, CallEvent};

/// The shortest time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Where progress goes.
enum ProgressTo {
    /// Nowhere.
    Quiet,
    /// A terminal.
    Bars,
    /// A file or a pipe.
    Lines,
    /// A program that calls the verb in its own process.
    Caller,
}

/// Shows the progress of one run.
pub(crate) struct Progress {
    place: ProgressTo,
    phase: Option<Phase>,
    trials: Trials,
}

/// The pace of trials.
#[derive(Default)]
struct Trials {
    /// When the first trial of this program began.
    first: Option<Instant>,
    /// Trials that began. A resumed run leaves out those that it keeps.
    begun: u32,
}

impl Trials {
    /// A trial begins. Returns about how long the rest of the run takes, judging by the trials before; none before the
    /// second.
    fn begin(&mut self, trial: u32, of: usize, now: Instant) -> Option<Duration> {
        let began = *self.first.get_or_insert(now);
        let done = self.begun;
        self.begun += 1;
        let left = u32::try_from(of).ok()?.checked_sub(trial)? + 1;
        (done > 0).then(|| now.duration_since(began) / done * left)
    }
}

/// The current phase.
struct Phase {
    bar: ProgressBar,
    loads: bool,
    operations: Option<u64>,
    duration_ns: Option<u64>,
    done: u64,
    documents: u64,
    errors: u64,
    to_ns: u64,
    begun: Instant,
    told: Instant,
}

impl Progress {
    /// Progress on stderr, unless `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        let place = match (quiet, std::io::stderr().is_terminal()) {
            _ if in_process::is_called() => ProgressTo::Caller,
            (true, _) => ProgressTo::Quiet,
            (_, true) => ProgressTo::Bars,
            _ => ProgressTo::Lines,
        };
        Self { place, phase: None, trials: Trials::default() }
    }

    /// Shows a message at once.
    pub(crate) fn note(&self, text: &str) {
        match (&self.place, &self.phase) {
            (ProgressTo::Quiet, _) => {}
            (ProgressTo::Bars, Some(phase)) => phase.bar.suspend(|| line(text)),
            _ => line(text),
        }
    }

    /// Shows a message even with `quiet`.
    pub(crate) fn tell(&self, text: &str) {
        match &self.place {
            ProgressTo::Quiet => line(text),
            _ => self.note(text),
        }
    }

    /// Begins a count of known length, or so many steps with names, outside of phases.
    pub(crate) fn begin_count(&mut self, what: &str, total: u64) {
        self.begin(what, true, Some(total), None);
    }

    /// Updates the count.
    pub(crate) fn count(&mut self, done: u64) {
        let Some(phase) = &mut self.phase else { return };
        phase.done = done;
        phase.to_ns = phase.elapsed_ns();
        let text =
            format!("{} documents/s{}", human::rate(done as f64 * 1e9 / phase.to_ns.max(1) as f64), phase.left());
        phase.show(&self.place, done, text);
    }

    /// Updates the number of completed steps; the named step begins.
    pub(crate) fn step(&mut self, done: usize, what: &str) {
        let Some(phase) = &mut self.phase else { return };
        phase.to_ns = phase.elapsed_ns();
        let text =
            if matches!(self.place, ProgressTo::Lines) { format!("{done} done, now {what}") } else { what.to_owned() };
        phase.show(&self.place, done as u64, text);
    }

    /// Updates the progress of a copy.
    pub(crate) fn copied(&mut self, now: &Copied) {
        if self.phase.is_none() {
            self.begin("copy", true, now.total_bytes, None);
        }
        let Some(phase) = &mut self.phase else { return };
        phase.done = now.read_bytes;
        phase.to_ns = phase.elapsed_ns();
        let seconds = (phase.to_ns as f64 / 1e9).max(1e-3);
        let mut text = format!(
            "{} documents, {} documents/s, {}/s, {} of {} parts",
            human::count(now.documents),
            human::rate((now.documents - now.documents_before) as f64 / seconds),
            human::bytes((now.bytes - now.bytes_before) as f64 / seconds),
            human::count(now.splits_done),
            human::count(now.splits)
        );
        if now.rejected > 0 {
            text += &format!(", {} rejected", human::count(now.rejected));
        }
        match now.verified {
            Some((done, all)) => text = format!("verify {} of {} parts", human::count(done), human::count(all)),
            None => text += &phase.left(),
        }
        phase.show(&self.place, now.read_bytes, text);
    }

    /// The count has ended.
    pub(crate) fn end_count(&mut self) {
        if let Some(phase) = self.phase.take() {
            phase.bar.finish_and_clear();
        }
    }

    fn begin(&mut self, name: &str, loads: bool, operations: Option<u64>, duration_ns: Option<u64>) {
        // If both are known, time is the better measure: operations end late when a store is slow.
        let length = duration_ns.map(|ns| ns / 1_000_000).or(operations);
        let bar = match self.place {
            ProgressTo::Bars => ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr()),
            _ => ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden()),
        };
        let template = match length {
            Some(_) => "{prefix:<10} [{bar:30}] {percent:>3} %  {elapsed}  {msg}",
            None => "{prefix:<10} {spinner}  {elapsed}  {msg}",
        };
        // First, because everything else draws.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(name.to_owned());
        if matches!(self.place, ProgressTo::Bars) {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        self.phase = Some(Phase {
            bar,
            loads,
            operations,
            duration_ns,
            done: 0,
            documents: 0,
            errors: 0,
            to_ns: 0,
            begun: Instant::now(),
            told: Instant::now(),
        });
    }

    fn interval(&mut self, to_ns: u64, record: &Recorder) {
        let Some(phase) = &mut self.phase else { return };
        let seconds = to_ns.saturating_sub(phase.to_ns) as f64 / 1e9;
        let documents: u64 = record.ops.iter().map(|op| op.documents).sum();
        phase.done += record.ops.iter().map(|op| op.ended()).sum::<u64>();
        phase.documents += documents;
        phase.errors += record.ops.iter().map(|op| op.errors()).sum::<u64>();
        phase.to_ns = to_ns;
        let text = phase.rates(record.answers(), documents, seconds) + &phase.left();
        let position = phase.duration_ns.map_or(phase.done, |_| to_ns / 1_000_000);
        phase.show(&self.place, position, text);
    }
}

impl Phase {
    fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The rates of an interval.
    fn rates(&self, answers: u64, documents: u64, seconds: f64) -> String {
        if seconds <= 0.0 {
            return String::new();
        }
        let mut text = match self.loads {
            true => format!("{} documents/s", human::rate(documents as f64 / seconds)),
            false => format!("{} operations/s", human::rate(answers as f64 / seconds)),
        };
        if self.errors > 0 {
            text += &format!(", {} errors", human::count(self.errors));
        }
        text
    }

    /// Shows how far it is.
    fn show(&mut self, place: &ProgressTo, position: u64, text: String) {
        match place {
            ProgressTo::Bars => {
                self.bar.set_message(text);
                self.bar.set_position(position);
            }
            ProgressTo::Lines if self.told.elapsed() >= LINE_EVERY => {
                self.told = Instant::now();
                line(&format!("  {}: {text}", human::duration(self.to_ns as f64)));
            }
            ProgressTo::Quiet | ProgressTo::Lines => {}
            ProgressTo::Caller => {
                let of = self.bar.length().filter(|length| *length > 0);
                let share = of.map(|length| (position as f64 / length as f64).min(1.0));
                in_process::tell(|| CallEvent::Progress { what: self.bar.prefix(), share, text });
            }
        }
    }

    /// The remaining time, as the end of a line; empty if unknown.
    fn left(&self) -> String {
        let left_ns = match (self.duration_ns, self.operations) {
            (Some(duration), _) => duration.saturating_sub(self.to_ns) as f64,
            (None, Some(all)) if self.done > 0 => {
                all.saturating_sub(self.done) as f64 * self.to_ns as f64 / self.done as f64
            }
            _ => return String::new(),
        };
        // Less than a second is too short to read.
        if left_ns < 1e9 { String::new() } else { format!(", about {} left", human::duration(left_ns)) }
    }
}

impl Observer for Progress {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::PhaseBegan { phase, loads, operations, duration_ns, .. } => {
                if matches!(self.place, ProgressTo::Lines) {
                    let length = match (duration_ns, operations) {
                        (Some(ns), _) => format!(", {}", human::duration(*ns as f64)),
                        (None, Some(n)) => format!(", {}", human::plural(*n, "operation")),
                        _ => String::new(),
                    };
                    line(&format!("{phase}{length}"));
                }
                self.begin(phase, *loads, *operations, *duration_ns);
            }
            Event::Interval { to_ns, record, .. } => self.interval(*to_ns, record),
            Event::PhaseEnded { phase, operations, elapsed_ns, .. } => {
                self.end_count();
                // No rate: the summary has it, of what succeeded and without the drain.
                let took = human::duration(*elapsed_ns as f64);
                self.note(&format!("{phase}: {} in {took}", human::plural(*operations, "operation")));
            }
            Event::Note { text } => self.note(text),
            Event::TrialBegan { trial, of, .. } => {
                let left = self.trials.begin(*trial, *of, Instant::now());
                if let Some(left) = left {
                    self.note(&format!("about {} left", human::duration(left.as_nanos() as f64)));
                }
            }
        }
    }
}

/// Writes a line to stderr. An unreadable stderr is not an error.
pub(crate) fn line(text: &str) {
    if in_process::tell(|| CallEvent::Message(text.to_owned())) {
        return;
    }
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_pace_of_trials() {
        let mut trials = Trials::default();
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        // A resumed run begins with its third trial, and has kept the fifth.
        assert_eq!(trials.begin(3, 6, at(0)), None);
        assert_eq!(trials.begin(4, 6, at(10)), Some(Duration::from_secs(30)));
        assert_eq!(trials.begin(6, 6, at(60)), Some(Duration::from_secs(30)));
        assert_eq!(trials.begin(7, 6, at(70)), None);
    }
}
