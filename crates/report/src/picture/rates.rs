//! A rate against a limit of the study: every rate that was tried, and what was found beside the limit.

use indexmap::{IndexMap, IndexSet};
use storebench_results::configurations::configuration_of;
use storebench_results::human::{duration, rate};
use storebench_results::{LimitResult, RunResult, TrialResult};
use storebench_study::workload::{short_name, shown_value};

use super::curves::{LONGEST_STORE, Labels};
use super::scale::{Scale, alone};
use super::sheet::{Anchor, LETTER, Sheet, cut, mark, shortened};
use super::{HEAD, PLOT, Place};

/// What the panels show.
pub(super) const WHAT: &str = "by rate: each dot is a trial, the line is their median";
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

/// The store, and the values of its factors other than rates.
fn line_name(result: &RunResult, trial: &TrialResult) -> String {
    let name = configuration_of(trial);
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

    pub(super) fn draw(&self, sheet: &mut Sheet, place: Place) {
        let (top, bottom) = (place.y + HEAD, place.y + HEAD + PLOT);
        let names = self.points.keys().map(|name| shortened(name, LONGEST_STORE).chars().count()).max().unwrap_or(0);
        let left = place.x + 56.0;
        let right = (place.x + place.width - names as f64 * LETTER - 18.0).max(left + 60.0);
        let x = Scale::of_values(self.all().map(|point| point.rate), left, right);
        let figures = self.all().filter_map(|point| point.found).chain([self.limit]).map(alone);
        let y = Scale::of(figures, bottom, top);
        sheet.strong(place.x, place.y + 14.0, &cut(&self.path, (place.width / LETTER) as usize));
        sheet.y_axis(&y, duration, (left, right));
        let mut rates: Vec<f64> = self.rates().iter().filter_map(|rate| rate.parse().ok()).collect();
        rates.sort_by(f64::total_cmp);
        let marks: Vec<(f64, String)> =
            rates.into_iter().map(|value| (value, format!("{}/s", mark(value, rate)))).collect();
        sheet.x_axis(&x, &marks, (top, bottom), false);
        let limit = y.at(self.limit);
        sheet.line("limit", (left, limit), (right, limit), " stroke-dasharray=\"6 4\"");
        let label = if limit - top < 16.0 { limit + 15.0 } else { limit - 5.0 };
        sheet.text("limit", Anchor::Right, (left + 4.0, label), &format!("limit {}", mark(self.limit, duration)));
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
            for part in middle.split(|(_, y)| y.is_none()) {
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
            if let Some(y) = middle.iter().rev().find_map(|(_, y)| *y) {
                labels.place(sheet, &class, (right + 8.0, y + 4.0), &shortened(store, LONGEST_STORE));
            }
        }
    }
}
