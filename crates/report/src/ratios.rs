//! The ratios B/A of a comparison as SVG: a row for each figure with its interval, and a band for the threshold.

use storebench_results::compare::format::{ratio, value};
use storebench_results::compare::{ComparedFigure, Judgement};
use storebench_results::stats::Estimate;

use crate::picture::scale::Scale;
use crate::picture::sheet::{Anchor, LETTER, ROW, Sheet, shortened, svg};

/// Width of the picture, in pixels, unless its text needs more.
const WIDTH: f64 = 760.0;
/// The same on the screen of a phone.
const NARROW: f64 = 360.0;
/// The most rows of the picture. The rest is in the table.
const MOST: usize = 20;
/// The most characters of a figure's name.
const LONGEST: usize = 34;
/// The same on the screen of a phone, which shows the end of the name.
const LONGEST_NARROW: usize = 21;
/// The axis ends at this ratio and at its reciprocal.
const FURTHEST: f64 = 20.0;
/// Ratios that may have a mark on the axis.
const MARKS: [f64; 16] = [0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 5.0, 10.0, 20.0];

/// The picture; none if no figure has a ratio. Changes come first, the largest before the others.
pub(crate) fn ratios(figures: &[&ComparedFigure], threshold: f64) -> Option<String> {
    let usable = |figure: &ComparedFigure| figure.ratio.filter(|ratio| ratio.value.is_finite() && ratio.value > 0.0);
    let mut rows: Vec<(&ComparedFigure, Option<Estimate>)> =
        figures.iter().map(|figure| (*figure, usable(figure))).collect();
    if rows.iter().all(|(_, ratio)| ratio.is_none()) {
        return None;
    }
    let size = |ratio: &Option<Estimate>| ratio.map_or(f64::INFINITY, |ratio| ratio.value.ln().abs());
    rows.sort_by(|(a, of_a), (b, of_b)| {
        rank(a.judgement).cmp(&rank(b.judgement)).then(size(of_b).total_cmp(&size(of_a)))
    });
    Some(drawn(&rows, threshold, false) + &drawn(&rows, threshold, true))
}

fn drawn(rows: &[(&ComparedFigure, Option<Estimate>)], threshold: f64, narrow: bool) -> String {
    let left_out = rows.len().saturating_sub(MOST);
    let rows = &rows[..rows.len().min(MOST)];
    let (whole, class_of_all) = if narrow { (NARROW, "picture narrow") } else { (WIDTH, "picture") };
    // On a phone there is no room for what all names begin with.
    let phase = rows.first().map_or("", |(figure, _)| figure.phase.as_str());
    let common = narrow && rows.iter().all(|(figure, _)| figure.phase == phase);
    let name = |figure: &ComparedFigure| match figure.figure.strip_prefix(phase).and_then(|rest| rest.strip_prefix('.'))
    {
        Some(rest) if common => shortened(rest, LONGEST_NARROW),
        _ => shortened(&figure.figure, if narrow { LONGEST_NARROW } else { LONGEST }),
    };
    let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0) as f64 * LETTER;
    let left = longest(&mut rows.iter().map(|(figure, _)| name(figure).chars().count())) + 16.0;
    let texts: Vec<String> = rows.iter().map(|(figure, ratio)| told(figure, *ratio, narrow)).collect();
    let right = longest(&mut texts.iter().map(|text| text.chars().count())) + 16.0;
    let (begin, end) = (left, (whole - right).max(left + 100.0));
    let axis = axis_of(rows.iter().filter_map(|(_, ratio)| ratio.as_ref()), threshold, begin, end);
    let (top, bottom) = (42.0, 42.0 + rows.len() as f64 * ROW);
    let mut sheet = Sheet::default();
    sheet.strong(12.0, 14.0, "B/A: green is better, red worse, open undecided");
    sheet.band("same", (axis.at(1.0 - threshold), axis.at(1.0 + threshold)), (top, bottom));
    for mark in marks(&axis) {
        let at = axis.at(mark);
        sheet.rule((at, top), (at, bottom));
        // Above the rows: the first screen may not show the last one.
        sheet.text("d", Anchor::Middle, (at, top - 6.0), &label(mark));
    }
    for (nth, ((figure, ratio), text)) in rows.iter().zip(&texts).enumerate() {
        let (y, class) = (top + (nth as f64 + 0.5) * ROW, class_of(figure.judgement));
        sheet.text("t", Anchor::Left, (left - 12.0, y + 4.0), &name(figure));
        sheet.text("t", Anchor::Right, (end + 12.0, y + 4.0), text);
        let Some(ratio) = ratio else { continue };
        let (low, high) = (ratio.low.unwrap_or(ratio.value), ratio.high.unwrap_or(ratio.value));
        // What lies beyond the axis is an arrow at its end, which needs some length.
        let (mut from, mut to) = (axis.at(low), axis.at(high));
        if ratio.value > axis.high {
            from = from.min(to - 16.0);
        } else if ratio.value < axis.low {
            to = to.max(from + 16.0);
        }
        if to > from {
            sheet.interval(class, ((from, y), low < axis.low), ((to, y), high > axis.high), "");
        }
        if (axis.low..=axis.high).contains(&ratio.value) {
            sheet.dot(class, (axis.at(ratio.value), y), 5.0, class == OPEN);
        }
    }
    if left_out > 0 {
        sheet.text("d", Anchor::Right, (begin, bottom + 18.0), &format!("and {left_out} more in the table"));
    }
    let (width, height) = (end + right, bottom + if left_out > 0 { 28.0 } else { 8.0 });
    svg(class_of_all, (width, height), "B/A of each figure, with its 95 % interval", &sheet.into_text())
}

/// `×1.08 slower, 1.02 ms → 1.10 ms`; the word alone without a ratio.
fn told(figure: &ComparedFigure, of: Option<Estimate>, narrow: bool) -> String {
    match (of, narrow) {
        (None, true) => "none".to_owned(),
        (None, false) => figure.word.clone(),
        (Some(_), true) => format!("×{}", ratio(of)),
        (Some(_), false) => {
            format!("×{} {}, {} → {}", ratio(of), figure.word, value(figure, &figure.a), value(figure, &figure.b))
        }
    }
}

/// The class of what is not decided.
const OPEN: &str = "open";

/// The order of rows: certain changes for the worse first.
fn rank(judgement: Judgement) -> u8 {
    match judgement {
        Judgement::Missing | Judgement::Worse => 0,
        Judgement::Better => 1,
        Judgement::Inconclusive | Judgement::AtLeast | Judgement::OneTrial | Judgement::OneRun => 2,
        Judgement::Unchanged => 3,
    }
}

/// The class of a judgement: green is better and red is worse, everywhere. What is not decided is grey, with an open dot.
pub(crate) fn class_of(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Better => "better",
        Judgement::Worse | Judgement::Missing => "worse",
        Judgement::Inconclusive | Judgement::AtLeast | Judgement::OneTrial | Judgement::OneRun => OPEN,
        Judgement::Unchanged => "same",
    }
}

/// The text of a mark.
fn label(mark: f64) -> String {
    format!("×{mark}")
}

/// A logarithmic axis of ratios around 1.
fn axis_of<'a>(ratios: impl Iterator<Item = &'a Estimate>, threshold: f64, begin: f64, end: f64) -> Scale {
    let (mut low, mut high) = (1.0 - threshold * 2.0, 1.0 + threshold * 2.0);
    for of in ratios {
        // Wide intervals are cut, so that the others remain readable.
        low = low.min(of.value).min(of.low.unwrap_or(of.value).max(of.value / 3.0));
        high = high.max(of.value).max(of.high.unwrap_or(of.value).min(of.value * 3.0));
    }
    Scale::between(low.max(1.0 / FURTHEST) / 1.03, high.min(FURTHEST) * 1.03, begin, end)
}

fn marks(axis: &Scale) -> Vec<f64> {
    // 1 always has a mark. Other marks are placed outwards from it if there is room.
    let half = |mark: f64| label(mark).chars().count() as f64 * LETTER / 2.0;
    let mut kept = vec![1.0];
    let (below, above): (Vec<f64>, Vec<f64>) =
        MARKS.into_iter().filter(|mark| *mark > axis.low && *mark < axis.high).partition(|mark| *mark < 1.0);
    for side in [below.into_iter().rev().collect::<Vec<_>>(), above] {
        let mut last = 1.0;
        for mark in side.into_iter().filter(|mark| *mark != 1.0) {
            if (axis.at(mark) - axis.at(last)).abs() > half(mark) + half(last) + 4.0 {
                last = mark;
                kept.push(mark);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, ratio: Option<(f64, f64, f64)>, judgement: Judgement) -> ComparedFigure {
        let estimate = |(value, low, high): (f64, f64, f64)| serde_json::json!({ "value": value, "low": low, "high": high, "trials": 3 });
        let one = estimate((1e6, 0.9e6, 1.1e6));
        serde_json::from_value(serde_json::json!({
            "figure": name, "phase": "p", "op": null, "measure": "service.p99", "unit": "ns", "better": "less",
            "a": one, "b": one, "ratio": ratio.map(estimate), "judgement": judgement, "word": "slower",
        }))
        .unwrap()
    }

    #[test]
    fn changes_come_first_and_a_wide_interval_does_not_hide_the_others() {
        let same = figure("p.same", Some((1.0, 0.99, 1.01)), Judgement::Unchanged);
        let worse = figure("p.worse", Some((1.5, 1.2, 1e9)), Judgement::Worse);
        let missing = figure("p.missing", None, Judgement::Missing);
        let open = figure("p.open", Some((1.2, 0.9, 1.6)), Judgement::Inconclusive);
        let drawn = ratios(&[&same, &worse, &missing, &open], 0.02).unwrap();
        // Once for each width: only what is not decided has an open dot. The axis has its values above the rows.
        assert_eq!(drawn.matches("<circle class=\"open\" style=\"fill:none\"").count(), 2);
        assert_eq!(drawn.matches("fill:none").count(), 2);
        assert!(drawn.find(">×1<").unwrap() < drawn.find("p.worse").unwrap());
        assert!(drawn.find("p.worse").unwrap() < drawn.find("p.same").unwrap());
        // What B lacks is first, as text.
        assert!(drawn.find("p.missing").unwrap() < drawn.find("p.worse").unwrap());
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        let axis =
            axis_of([Estimate { value: 1.5, low: Some(1.2), high: Some(1e9), trials: 3 }].iter(), 0.02, 0.0, 100.0);
        assert!(axis.high < 5.0 && axis.at(1e9) == 100.0);
        assert!(marks(&axis).contains(&1.0));
        assert!(ratios(&[&missing], 0.02).is_none());
    }
}
