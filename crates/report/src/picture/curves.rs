//! What one factor does: a line for each store.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use storebench_results::answer::answer;
use storebench_results::human::rate;
use storebench_results::stats::Estimate;
use storebench_results::{FactorSweep, RunResult};
use storebench_study::workload::short_name;

use super::scale::Scale;
use super::sheet::{Anchor, LETTER, Sheet, TEXT, cut, mark};
use super::{HEAD, PLOT, Place};

/// Curves, at most.
const MOST_CURVES: usize = 3;
/// Fewer values make no curve.
const FEWEST_VALUES: usize = 3;

/// The curves of one factor.
pub(super) struct Curve<'a> {
    /// What they show: `insert: documents per second`.
    pub(super) what: String,
    factor: String,
    of: Vec<&'a FactorSweep>,
}

/// The factors of the figure that the answer is about. Each store has one line: that at the first values of the other
/// factors.
pub(super) fn curves(result: &RunResult) -> Vec<Curve<'_>> {
    let told = answer(result).phase.unwrap_or_default();
    let mut by_factor: BTreeMap<usize, Curve<'_>> = BTreeMap::new();
    let factors: IndexSet<&str> = result.sweeps.iter().map(|swept| swept.factor.as_str()).collect();
    for swept in result.sweeps.iter().filter(|swept| swept.figure.starts_with(&format!("{told}."))) {
        if swept.sweep.curve.iter().filter(|point| point.figure.is_some()).count() < FEWEST_VALUES {
            continue;
        }
        let nth = factors.get_index_of(swept.factor.as_str()).unwrap_or(0);
        let unit = if swept.figure.ends_with(".documents") { "documents" } else { "operations" };
        let others = if factors.len() > 1 { ", other factors at their first values" } else { "" };
        let what = format!("{told}: {unit} per second{others}");
        let factor = short_name(&swept.factor).to_owned();
        let curve = by_factor.entry(nth).or_insert(Curve { what, factor, of: Vec::new() });
        if !curve.of.iter().any(|known| known.store == swept.store) {
            curve.of.push(swept);
        }
    }
    by_factor.into_values().take(MOST_CURVES).collect()
}

impl Curve<'_> {
    pub(super) fn draw(&self, sheet: &mut Sheet, place: Place, hue: &dyn Fn(&str) -> usize) {
        let (top, bottom) = (place.y + HEAD, place.y + HEAD + PLOT);
        let names = self.of.iter().map(|swept| swept.store.chars().count()).max().unwrap_or(0) as f64 * LETTER;
        let (left, right) = (place.x + 50.0, place.x + place.width - names - 18.0);
        let points = || self.of.iter().flat_map(|swept| &swept.sweep.curve);
        let x = Scale::of_values(points().map(|point| point.value), left, right);
        let y = Scale::of(points().filter_map(|point| point.figure), bottom, top);
        sheet.strong(left, place.y + 16.0, &cut(&format!("by {}", self.factor), (place.width / LETTER) as usize));
        sheet.y_axis(&y, rate, (left, right));
        let values: IndexSet<String> = points().map(|point| point.value.to_string()).collect();
        let text = |value: f64| if value.fract() == 0.0 { mark(value, rate) } else { value.to_string() };
        let marks: Vec<(f64, String)> =
            values.iter().filter_map(|value| value.parse().ok()).map(|value| (value, text(value))).collect();
        sheet.x_axis(&x, &marks, (top, bottom), false);
        let mut labels = Labels::between(top, bottom);
        for swept in &self.of {
            let class = format!("c{}", hue(&swept.store));
            let known: Vec<(f64, Estimate)> =
                swept.sweep.curve.iter().filter_map(|point| Some((x.at(point.value), point.figure?))).collect();
            sheet.path(&class, known.iter().map(|(at, figure)| (*at, y.at(figure.value))));
            for (at, figure) in &known {
                if let (Some(low), Some(high)) = (figure.low, figure.high) {
                    let (low, high) = (((*at, y.at(low)), !y.holds(low)), ((*at, y.at(high)), !y.holds(high)));
                    sheet.interval(&class, low, high, " opacity=\".5\"");
                }
                sheet.dot(&class, (*at, y.at(figure.value)), 4.0, false);
            }
            if let Some((_, last)) = known.last() {
                labels.place(sheet, &class, (right + 8.0, y.at(last.value) + 4.0), &swept.store);
            }
        }
    }
}

/// Names at the ends of lines, which do not overlap.
#[derive(Debug)]
pub(super) struct Labels {
    top: f64,
    bottom: f64,
    taken: Vec<f64>,
}

impl Labels {
    pub(super) fn between(top: f64, bottom: f64) -> Self {
        Self { top, bottom, taken: Vec::new() }
    }

    /// Writes a name at the free position that is nearest to `y`.
    pub(super) fn place(&mut self, sheet: &mut Sheet, class: &str, (x, y): (f64, f64), name: &str) {
        let height = TEXT + 3.0;
        let free = |at: &f64| {
            (self.top..=self.bottom + 4.0).contains(at) && self.taken.iter().all(|other| (other - at).abs() >= height)
        };
        let nearby = (0..40).flat_map(|nth| {
            let off = f64::from(nth) * height / 3.0;
            [y - off, y + off]
        });
        let y = nearby.into_iter().find(free).unwrap_or(y);
        self.taken.push(y);
        sheet.text(class, Anchor::Right, (x, y), name);
    }
}
