//! What one factor does: a line for each store.

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;
use storebench_results::answer::phases_told;
use storebench_results::human::{cut, rate};
use storebench_results::stats::Estimate;
use storebench_results::{FactorSweep, RunResult};
use storebench_study::workload::{short_name, shown_value};

use super::scale::Scale;
use super::sheet::{Anchor, LETTER, Sheet, TEXT, mark};
use super::{HEAD, PLOT, Place};

/// Curves, at most.
const MOST_CURVES: usize = 3;
/// Letters of a store's name beside its line, at most.
pub(super) const LONGEST_STORE: usize = 14;
/// Fewer values make no curve.
const FEWEST_VALUES: usize = 3;

/// The curves of one factor in one phase.
pub(super) struct Curve<'a> {
    /// What they show: `insert: documents per second`.
    pub(super) what: String,
    phase: String,
    unit: &'static str,
    /// `by batch`, or `load by batch` beside other phases.
    title: String,
    /// The values of the other factors.
    others: String,
    of: Vec<&'a FactorSweep>,
    /// Stores without a curve.
    without: Vec<&'a str>,
}

/// The factors of the phases that the answer is about. All lines of a factor are at the same values of the others: those
/// that most stores have, and of these the first in the plan.
pub(super) fn curves(result: &RunResult) -> Vec<Curve<'_>> {
    let phases = phases_told(result);
    let factors: IndexSet<&str> = result.sweeps.iter().map(|swept| swept.factor.as_str()).collect();
    let stores: IndexSet<&str> = result.configurations.iter().map(|of| of.store.as_str()).collect();
    let mut curves = Vec::new();
    for (factor, phase) in factors.iter().flat_map(|factor| phases.iter().map(move |phase| (*factor, phase))) {
        // A setting of another phase is not asked about here.
        let own = factor.strip_prefix("phases.").and_then(|rest| rest.split_once('.')).map(|(own, _)| own);
        if own.is_some_and(|own| own != phase && phases.iter().any(|other| other == own)) {
            continue;
        }
        let usable = |swept: &&FactorSweep| {
            let known = swept.sweep.curve.iter().filter(|point| point.figure.is_some()).count();
            swept.figure.starts_with(&format!("{phase}.")) && known >= FEWEST_VALUES
        };
        let swept: Vec<&FactorSweep> =
            result.sweeps.iter().filter(|swept| swept.factor == factor).filter(usable).collect();
        let Some(figure) = swept.first().map(|swept| swept.figure.as_str()) else { continue };
        let at = |others: &IndexMap<String, Value>| -> Vec<&FactorSweep> {
            swept.iter().copied().filter(|swept| swept.figure == figure && swept.others == *others).collect()
        };
        // Trials are shuffled, and with them the sweeps; configurations are in the order of the plan.
        let others = result.configurations.iter().map(|of| {
            let others = of.values.iter().filter(|(path, _)| *path != factor);
            others.map(|(path, value)| (path.clone(), value.clone())).collect::<IndexMap<String, Value>>()
        });
        let all: Vec<_> = others.map(|others| (at(&others), others)).collect();
        // Backwards, because of several with as many stores, the last one is taken.
        let best = all.into_iter().rev().max_by_key(|(of, _)| of.len());
        let Some((of, others)) = best.filter(|(of, _)| !of.is_empty()) else { continue };
        let unit = if figure.ends_with(".documents") { "documents" } else { "operations" };
        let values: Vec<String> =
            others.iter().map(|(path, value)| format!("{}={}", short_name(path), shown_value(value))).collect();
        let others = values.join(", ");
        let without = stores.iter().copied().filter(|store| of.iter().all(|swept| swept.store != *store)).collect();
        let title = format!("by {}", short_name(factor));
        curves.push(Curve { what: String::new(), phase: phase.clone(), unit, title, others, of, without });
    }
    curves.truncate(MOST_CURVES);
    // The first line names what all curves show. If that is not the same, each curve names its own.
    let differ = |of: for<'a> fn(&'a Curve<'_>) -> &'a str| curves.iter().any(|curve| of(curve) != of(&curves[0]));
    let (phases, units) = (differ(|curve| curve.phase.as_str()), differ(|curve| curve.unit));
    for curve in &mut curves {
        if phases {
            curve.title = format!("{} {}", curve.phase, curve.title);
        }
        if units {
            curve.title = format!("{}: {} per second", curve.title, curve.unit);
        }
        curve.what = match (phases, units) {
            (true, true) => "documents or operations per second".to_owned(),
            (true, false) => format!("{} per second", curve.unit),
            (false, _) => format!("{}: {} per second", curve.phase, curve.unit),
        };
    }
    curves
}

impl Curve<'_> {
    pub(super) fn draw(&self, sheet: &mut Sheet, place: Place, hue: &dyn Fn(&str) -> usize) {
        let (top, bottom) = (place.y + HEAD + 14.0, place.y + HEAD + PLOT);
        let names = self.of.iter().map(|swept| cut(&swept.store, LONGEST_STORE).chars().count()).max().unwrap_or(0);
        let left = place.x + 50.0;
        let right = (place.x + place.width - names as f64 * LETTER - 18.0).max(left + 60.0);
        let points = || self.of.iter().flat_map(|swept| &swept.sweep.curve);
        let x = Scale::of_values(points().map(|point| point.value), left, right);
        let y = Scale::of(points().filter_map(|point| point.figure), bottom, top);
        let letters = (place.width / LETTER) as usize - 1;
        sheet.strong(place.x, place.y + 16.0, &cut(&self.title, letters));
        sheet.text("d", Anchor::Right, (place.x, place.y + 31.0), &cut(&self.others, letters));
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
            // A value without a figure breaks the line.
            for part in swept.sweep.curve.split(|point| point.figure.is_none()) {
                let points = part.iter().filter_map(|point| Some((x.at(point.value), y.at(point.figure?.value))));
                sheet.path(&class, points);
            }
            for (at, figure) in &known {
                if let (Some(low), Some(high)) = (figure.low, figure.high) {
                    let (low, high) = (((*at, y.at(low)), !y.holds(low)), ((*at, y.at(high)), !y.holds(high)));
                    sheet.interval(&class, low, high, " opacity=\".5\"");
                }
                sheet.dot(&class, (*at, y.at(figure.value)), 4.0, false);
            }
            if let Some((_, last)) = known.last() {
                labels.place(sheet, &class, (right + 8.0, y.at(last.value) + 4.0), &cut(&swept.store, LONGEST_STORE));
            }
        }
        if !self.without.is_empty() {
            let text = format!("too few values: {}", self.without.join(", "));
            sheet.text("d", Anchor::Right, (left + 4.0, top + 10.0), &cut(&text, ((right - left) / LETTER) as usize));
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
