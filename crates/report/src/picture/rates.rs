//! A rate against a limit of the study: every rate that was tried, and what was found beside the limit.

use indexmap::{IndexMap, IndexSet};
use storebench_results::human::{duration, rate};
use storebench_results::{LimitResult, RunResult};

use super::curves::Labels;
use super::scale::{Scale, alone};
use super::sheet::{Anchor, LETTER, Sheet, cut, mark};
use super::{HEAD, PLOT, Place};

/// What the panels show.
pub(super) const WHAT: &str = "by rate: each dot is a trial, the line is their median";
/// Limits, at most: those that come closest to being missed.
const MOST_LIMITS: usize = 3;

/// One limit.
pub(super) struct RatePanel {
    path: String,
    limit: f64,
    /// By store, with its hue.
    points: IndexMap<String, (usize, Vec<Point>)>,
}

#[derive(Clone, Copy)]
struct Point {
    rate: f64,
    /// None is infinite.
    found: Option<f64>,
    met: bool,
}

/// The limits on times of phases that ran at several rates.
pub(super) fn panels(result: &RunResult, hue: &dyn Fn(&str) -> usize) -> Vec<RatePanel> {
    let mut panels: IndexMap<String, RatePanel> = IndexMap::new();
    let mut add = |store: &str, rate: f64, limit: &LimitResult| {
        if limit.share_within.is_none() || !(rate.is_finite() && rate > 0.0) {
            return;
        }
        let panel = panels.entry(limit.path.clone()).or_insert_with(|| RatePanel {
            path: limit.path.clone(),
            limit: limit.limit,
            points: IndexMap::new(),
        });
        let (_, points) = panel.points.entry(store.to_owned()).or_insert_with(|| (hue(store), Vec::new()));
        points.push(Point { rate, found: limit.found, met: limit.met });
    };
    for trial in &result.trials {
        for probe in trial.searches.iter().flat_map(|search| &search.probes) {
            probe.limits.iter().for_each(|limit| add(&trial.store, probe.rate, limit));
        }
        // A searched phase also runs at the rate that was found.
        let searched = |name: &str| trial.searches.iter().any(|search| search.phase == name);
        for phase in trial.phases.iter().filter(|phase| !searched(&phase.name)) {
            let Some(rates) = &phase.rate else { continue };
            phase.limits.iter().for_each(|limit| add(&trial.store, rates.scheduled_per_s.round(), limit));
        }
    }
    let mut panels: Vec<RatePanel> = panels.into_values().filter(|panel| panel.rates().len() > 1).collect();
    panels.sort_by(|a, b| b.closeness().total_cmp(&a.closeness()));
    panels.truncate(MOST_LIMITS);
    panels
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
        let names = self.points.keys().map(|store| store.chars().count()).max().unwrap_or(0) as f64 * LETTER;
        let (left, right) = (place.x + 56.0, place.x + place.width - names - 18.0);
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
            let at = |point: &Point| (x.at(point.rate), point.found.map_or(top, |found| y.at(found)));
            // Through the middle of what was found at each rate.
            let mut by_rate: Vec<(f64, Vec<f64>)> = Vec::new();
            let mut sorted = points.clone();
            sorted.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            for point in &sorted {
                let (x, y) = at(point);
                match by_rate.last_mut().filter(|(known, _)| *known == x) {
                    Some((_, ys)) => ys.push(y),
                    None => by_rate.push((x, vec![y])),
                }
            }
            let middle: Vec<(f64, f64)> = by_rate
                .into_iter()
                .map(|(x, mut ys)| {
                    ys.sort_by(f64::total_cmp);
                    (x, ys[(ys.len() - 1) / 2].midpoint(ys[ys.len() / 2]))
                })
                .collect();
            sheet.path(&class, middle.iter().copied());
            points.iter().for_each(|point| sheet.dot(&class, at(point), 4.0, !point.met));
            if let Some((_, y)) = middle.last() {
                labels.place(sheet, &class, (right + 8.0, y + 4.0), store);
            }
        }
    }
}
