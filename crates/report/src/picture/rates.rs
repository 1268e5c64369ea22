//! A rate against a limit of the study: every rate that was tried, and what was found beside the limit.

use indexmap::{IndexMap, IndexSet};
use storebench_results::human::{cut, duration, plural, rate};
use storebench_results::{ConfigurationResult, LimitResult, RunResult, TrialResult};
use storebench_study::workload::{short_name, shown_value};

use super::curves::{LONGEST_STORE, Labels};
use super::scale::{Scale, alone};
use super::sheet::{Anchor, LETTER, Sheet, mark, shortened};
use super::{HEAD, PLOT, Place};

/// What the panels show.
pub(super) const WHAT: &str = "dot: a trial, filled if within the limit; line: their median";
/// The same of a search.
pub(super) const WHAT_OF_SEARCH: &str = "dot: a rate tried, filled if met; ▾ the answer";
/// The height of the name of an answer.
const ANSWER: f64 = 15.0;
/// Lines of a panel, at most.
const MOST_LINES: usize = 6;
/// Limits, at most: those that come closest to being missed.
const MOST_LIMITS: usize = 3;

/// One limit.
pub(super) struct RatePanel {
    path: String,
    limit: f64,
    /// By store, and the values of factors other than the rate, with the hue of the store.
    points: IndexMap<String, (usize, Vec<Point>)>,
    /// The rates that a search found within the limits, with their names and hues.
    answers: Vec<(usize, f64, String)>,
}

#[derive(Clone, Copy)]
struct Point {
    rate: f64,
    /// None is infinite.
    found: Option<f64>,
    met: bool,
}

/// The limits on times of phases that ran at several planned rates.
pub(super) fn panels(result: &RunResult, hue: &dyn Fn(&str) -> usize) -> Vec<RatePanel> {
    let mut panels: IndexMap<String, RatePanel> = IndexMap::new();
    for trial in result.trials.iter().filter(|trial| !trial.control) {
        let name = line_name(result, trial);
        let mut add = |rate: f64, limit: &LimitResult| {
            if limit.share_within.is_none() || !(rate.is_finite() && rate > 0.0) {
                return;
            }
            let panel = panels.entry(limit.path.clone()).or_insert_with(|| RatePanel {
                path: limit.path.clone(),
                limit: limit.limit,
                points: IndexMap::new(),
                answers: answers(result, &limit.path, hue),
            });
            let (_, points) = panel.points.entry(name.clone()).or_insert_with(|| (hue(&trial.store), Vec::new()));
            points.push(Point { rate, found: limit.found, met: limit.met });
        };
        for probe in trial.searches.iter().flat_map(|search| &search.probes) {
            probe.limits.iter().for_each(|limit| add(probe.rate, limit));
        }
        // A searched phase also runs at the rate that was found.
        let searched = |name: &str| trial.searches.iter().any(|search| search.phase == name);
        for phase in trial.phases.iter().filter(|phase| !searched(&phase.name)) {
            // What was planned, since random arrivals come to another rate in each trial. Ramps and steps have none.
            let Some(rate) = phase.rate.as_ref().and_then(|rate| rate.planned.as_f64()) else { continue };
            phase.limits.iter().for_each(|limit| add(rate, limit));
        }
    }
    let mut panels: Vec<RatePanel> =
        panels.into_values().filter(|panel| panel.rates().len() > 1 && panel.points.len() <= MOST_LINES).collect();
    panels.sort_by(|a, b| b.closeness().total_cmp(&a.closeness()));
    panels.truncate(MOST_LIMITS);
    panels
}

/// What the searches of a limit's phase found, by configuration: `sqlite 13.2 k/s, none in 2 trials`.
fn answers(result: &RunResult, path: &str, hue: &dyn Fn(&str) -> usize) -> Vec<(usize, f64, String)> {
    let phases = result.trials.iter().flat_map(|trial| &trial.searches).map(|search| search.phase.as_str());
    let of_limit = |phase: &&str| path.strip_prefix(phase).is_some_and(|rest| rest.starts_with('.'));
    let Some(phase) = phases.into_iter().find(of_limit) else { return Vec::new() };
    let found = |of: &ConfigurationResult| {
        let found = of.figures.get(&format!("{phase}.rate-within-limits")).filter(|found| found.figure.trials > 0)?;
        let least = if found.at_least { "≥ " } else { "" };
        let none = match found.none_in.len() as u64 {
            0 => String::new(),
            n => format!(", none in {}", plural(n, "trial")),
        };
        let text = format!("{} {least}{}/s{none}", of.configuration, rate(found.figure.value));
        Some((hue(&of.store), found.figure.value, text))
    };
    let mut found: Vec<_> = result.configurations.iter().filter(|of| !of.control).filter_map(found).collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    found
}

/// The store, and the values of its factors other than rates.
fn line_name(result: &RunResult, trial: &TrialResult) -> String {
    let name = trial.configuration.as_str();
    let of = result.configurations.iter().find(|of| of.configuration == name);
    let values = of.into_iter().flat_map(|of| &of.values).filter(|(path, _)| !path.ends_with("rate"));
    let values = values.map(|(path, value)| format!("{}={}", short_name(path), shown_value(value)));
    std::iter::once(trial.store.clone()).chain(values).collect::<Vec<_>>().join(" ")
}

impl RatePanel {
    fn all(&self) -> impl Iterator<Item = &Point> {
        self.points.values().flat_map(|(_, points)| points)
    }

    fn rates(&self) -> IndexSet<String> {
        self.all().map(|point| point.rate.to_string()).collect()
    }

    /// The largest value as a multiple of the limit.
    fn closeness(&self) -> f64 {
        self.all().map(|point| point.found.map_or(f64::INFINITY, |found| found / self.limit)).fold(0.0, f64::max)
    }

    /// How much higher it is than other panels.
    pub(super) fn extra(&self) -> f64 {
        self.answers.len() as f64 * ANSWER
    }

    pub(super) fn is_search(&self) -> bool {
        !self.answers.is_empty()
    }

    pub(super) fn draw(&self, sheet: &mut Sheet, place: Place) {
        let top = place.y + HEAD + self.extra();
        let bottom = top + PLOT;
        let names = self.points.keys().map(|name| shortened(name, LONGEST_STORE).chars().count()).max().unwrap_or(0);
        let left = place.x + 56.0;
        let right = (place.x + place.width - names as f64 * LETTER - 18.0).max(left + 60.0);
        let x = Scale::of_values(self.all().map(|point| point.rate), left, right);
        let figures = self.all().filter_map(|point| point.found).chain([self.limit]).map(alone);
        let y = Scale::of(figures, bottom, top);
        sheet.strong(place.x, place.y + 14.0, &cut(&self.path, (place.width / LETTER) as usize));
        sheet.y_axis(&y, duration, (left, right));
        let mut rates: Vec<f64> = match self.is_search() {
            // A search tries odd rates.
            true => x.round_steps(),
            false => self.rates().iter().filter_map(|rate| rate.parse().ok()).collect(),
        };
        rates.sort_by(f64::total_cmp);
        let marks: Vec<(f64, String)> =
            rates.into_iter().map(|value| (value, format!("{}/s", mark(value, rate)))).collect();
        sheet.x_axis(&x, &marks, (top, bottom), false);
        let limit = y.at(self.limit);
        sheet.line("limit", (left, limit), (right, limit), " stroke-dasharray=\"6 4\"");
        let label = if limit - top < 16.0 { limit + 15.0 } else { limit - 5.0 };
        sheet.text("limit", Anchor::Right, (left + 4.0, label), &format!("limit {}", mark(self.limit, duration)));
        for (nth, (hue, found, text)) in self.answers.iter().enumerate() {
            let (class, at, y) = (format!("c{hue}"), x.at(*found), place.y + HEAD + nth as f64 * ANSWER);
            sheet.line(&class, (at, top), (at, bottom), " stroke-dasharray=\"2 3\"");
            let text = cut(text, ((place.width - 12.0) / LETTER) as usize - 2);
            let width = (text.chars().count() + 2) as f64 * LETTER;
            // To the left of its line if there is no room to the right.
            match at - 4.0 + width > place.x + place.width {
                true => sheet.text(&class, Anchor::Left, ((at + 4.0).max(place.x + width), y), &format!("{text} ▾")),
                false => sheet.text(&class, Anchor::Right, (at - 4.0, y), &format!("▾ {text}")),
            }
        }
        let mut labels = Labels::between(top, bottom);
        for (store, (hue, points)) in &self.points {
            let class = format!("c{hue}");
            // Through the middle of what was found at each rate. An infinite middle breaks the line.
            let mut by_rate: Vec<(f64, Vec<f64>)> = Vec::new();
            let mut sorted = points.clone();
            sorted.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            for point in &sorted {
                let (x, found) = (x.at(point.rate), point.found.unwrap_or(f64::INFINITY));
                match by_rate.last_mut().filter(|(known, _)| *known == x) {
                    Some((_, all)) => all.push(found),
                    None => by_rate.push((x, vec![found])),
                }
            }
            let middle: Vec<(f64, Option<f64>)> = by_rate
                .into_iter()
                .map(|(x, mut all)| {
                    all.sort_by(f64::total_cmp);
                    let middle = all[(all.len() - 1) / 2].midpoint(all[all.len() / 2]);
                    (x, middle.is_finite().then(|| y.at(middle)))
                })
                .collect();
            // A search repeats the rates near its answer, where some tries are within the limit and others not.
            for part in middle.split(|(_, y)| y.is_none()).filter(|_| !self.is_search()) {
                sheet.path(&class, part.iter().filter_map(|(x, y)| Some((*x, (*y)?))));
            }
            for point in points {
                match point.found {
                    Some(found) => sheet.dot(&class, (x.at(point.rate), y.at(found)), 4.0, !point.met),
                    None => {
                        let at = x.at(point.rate);
                        sheet.interval(&class, ((at, top + 14.0), false), ((at, top), true), "");
                        sheet.text(&class, Anchor::Right, (at + 6.0, top + 10.0), "∞");
                    }
                }
            }
            // The answers have names already.
            if self.answers.len() < self.points.len()
                && let Some(y) = middle.iter().rev().find_map(|(_, y)| *y)
            {
                labels.place(sheet, &class, (right + 8.0, y + 4.0), &shortened(store, LONGEST_STORE));
            }
        }
    }
}
