//! The time line of each phase with faults: answers per second, and the time in which the store was broken.

use indexmap::IndexMap;
use storebench_results::human::{cut, duration, rate};
use storebench_results::{PhaseResult, RunResult};

use super::scale::Scale;
use super::sheet::{Anchor, LETTER, Sheet, mark};
use super::{HEAD, PLOT, Place};

/// What the panels show.
pub(super) const WHAT: &str = "answers per second; red: the store was broken";
/// Phases, at most.
const MOST_PHASES: usize = 6;

/// One phase.
#[derive(Default)]
pub(super) struct FaultPanel {
    title: String,
    length_s: f64,
    most_per_s: f64,
    /// The lines of trials, each with the hue of its store and its length in seconds.
    courses: Vec<(usize, f64, Vec<f64>)>,
    /// When the store was broken, in seconds, and how.
    broken: Vec<(f64, f64, &'static str)>,
}

/// The phases with faults that have a course over time.
pub(super) fn panels(result: &RunResult, hue: &dyn Fn(&str) -> usize) -> Vec<FaultPanel> {
    let mut panels: IndexMap<&str, FaultPanel> = IndexMap::new();
    for trial in result.trials.iter().filter(|trial| !trial.control) {
        for phase in trial.phases.iter().filter(|phase| !phase.faults.is_empty() && !phase.course_per_s.is_empty()) {
            panels.entry(&phase.name).or_default().add(hue(&trial.store), phase);
        }
    }
    let mut panels: Vec<FaultPanel> = panels.into_values().filter(|panel| !panel.broken.is_empty()).collect();
    panels.truncate(MOST_PHASES);
    // One axis for all.
    let most = panels.iter().map(|panel| panel.most_per_s).fold(0.0, f64::max);
    panels.iter_mut().for_each(|panel| panel.most_per_s = most);
    panels
}

impl FaultPanel {
    fn add(&mut self, hue: usize, phase: &PhaseResult) {
        self.length_s = self.length_s.max(phase.elapsed_ns as f64 / 1e9);
        self.most_per_s = phase.course_per_s.iter().copied().fold(self.most_per_s, f64::max);
        self.courses.push((hue, phase.elapsed_ns as f64 / 1e9, phase.course_per_s.clone()));
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (mut longest, mut lasting) = (0, 0);
        for fault in &phase.faults {
            let Some(began) = fault.began_ns else { continue };
            let end = fault.mended_ns.unwrap_or(began).max(began.saturating_add(fault.unavailable_ns));
            let band = (seconds(began), seconds(end), fault.what.name());
            // The faults of the study come at the same times in every trial.
            let same = |(known, _, what): &&mut (f64, f64, &str)| (*known - band.0).abs() < 1.0 && *what == band.2;
            match self.broken.iter_mut().find(same) {
                Some(known) => known.1 = known.1.max(band.1),
                None => self.broken.push(band),
            }
            longest = longest.max(fault.unavailable_ns);
            if fault.first_answer_ns.is_none() {
                lasting = lasting.max(fault.unavailable_ns);
            }
        }
        let outage = match (longest, lasting) {
            (0, _) => "never without an answer".to_owned(),
            (_, 0) => format!("no answer for {}", duration(longest as f64)),
            // No answer ended it.
            (_, ns) => format!("not back in {}", duration(ns as f64)),
        };
        self.title = match self.courses.len() {
            1 => format!("{}: {outage}", phase.name),
            _ => phase.name.clone(),
        };
    }

    pub(super) fn draw(&self, sheet: &mut Sheet, place: Place) {
        let (top, bottom) = (place.y + HEAD, place.y + HEAD + PLOT);
        let (left, right) = (place.x + 50.0, place.x + place.width - 14.0);
        let (x, y) =
            (Scale::up_to(self.length_s, left, right), Scale::up_to(self.most_per_s * 1.05, bottom, top + 14.0));
        sheet.strong(place.x, place.y + 14.0, &cut(&self.title, (place.width / LETTER) as usize));
        for (from, to, _) in &self.broken {
            sheet.band("limit", (x.at(*from), x.at(*to)), (top, bottom));
        }
        sheet.y_axis(&y, rate, (left, right));
        let marks: Vec<(f64, String)> = x.ticks().into_iter().map(|tick| (tick, mark(tick * 1e9, duration))).collect();
        sheet.x_axis(&x, &marks, (top, bottom), false);
        for (hue, length_s, course) in &self.courses {
            let at = |nth: usize| x.at((nth as f64 + 0.5) * length_s / course.len() as f64);
            sheet.path(&format!("c{hue}"), course.iter().enumerate().map(|(nth, value)| (at(nth), y.at(*value))));
        }
        // Each is named. A name without room is in the line below, and without room there, a number stands for it.
        let mut free = [f64::NEG_INFINITY; 2];
        for (nth, (from, _, what)) in self.broken.iter().enumerate() {
            let number = self.broken[..=nth].iter().filter(|(.., other)| other == what).count();
            let again = self.broken.iter().filter(|(.., other)| other == what).count() > 1;
            let name = if again { format!("{what} {number}") } else { (*what).to_owned() };
            for name in [name, number.to_string()] {
                let width = name.chars().count() as f64 * LETTER;
                let at = x.at(*from).min(right - width);
                if let Some(line) = free.iter().position(|free| at > *free) {
                    sheet.text("limit", Anchor::Right, (at, top + 10.0 + line as f64 * 14.0), &name);
                    free[line] = at + width + 6.0;
                    break;
                }
            }
        }
    }
}
