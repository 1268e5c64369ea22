//! The times of a single configuration: a line from p50 to p99.9 for each operation, with a dot at p99.

use storebench_results::human::duration;
use storebench_results::side_by_side::Span;

use super::scale::{Scale, alone};
use super::sheet::{Anchor, LETTER, ROW, Sheet, mark, shortened};
use super::{FOOT, Frame, HEAD};

/// Operations, at most.
const MOST: usize = 8;

/// Draws the operations. Returns the height.
pub(super) fn draw(sheet: &mut Sheet, spans: &[Span], frame: Frame) -> f64 {
    let spans = &spans[..spans.len().min(MOST)];
    let one = |name: &str, time: Option<f64>| match time {
        None => format!("{name}: too few ops"),
        Some(ns) if ns.is_finite() => format!("{name} {}", duration(ns)),
        Some(_) => format!("{name} ∞"),
    };
    let text = |span: &Span| match frame.columns {
        1 => one("p99", span.p99),
        _ => format!("{}, {}", one("p50", span.p50), one("p99", span.p99)),
    };
    let longest = spans.iter().map(|span| shortened(&span.name, frame.letters).chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * LETTER + 24.0).clamp(80.0, 270.0);
    let room = spans.iter().map(|span| text(span).chars().count()).max().unwrap_or(0) as f64 * LETTER;
    let (begin, end) = (left, frame.width - room - 28.0);
    let known = spans.iter().flat_map(|span| [span.p50, span.p99, span.p999]).flatten();
    let scale = Scale::of(known.map(alone), begin, end);
    let (head, bottom) = (HEAD, HEAD + spans.len() as f64 * ROW);
    let kinds: Vec<&str> = spans.iter().map(|span| span.time).collect();
    let kind =
        if kinds.iter().all(|kind| *kind == kinds[0]) { format!("{} time", kinds[0]) } else { "time".to_owned() };
    sheet.strong(12.0, 14.0, &format!("{kind}: p50 to p99.9, dot at p99"));
    let marks: Vec<(f64, String)> = scale.ticks().into_iter().map(|tick| (tick, mark(tick, duration))).collect();
    sheet.x_axis(&scale, &marks, (head, bottom), true);
    for (nth, span) in spans.iter().enumerate() {
        let y = head + (nth as f64 + 0.5) * ROW;
        sheet.text("t", Anchor::Left, (left - 12.0, y + 4.0), &shortened(&span.name, frame.letters));
        // An infinite time is an arrow at the end of the axis.
        let known: Vec<f64> = [span.p50, span.p99, span.p999].into_iter().flatten().collect();
        if let (Some(low), Some(high)) = (known.first(), known.last()) {
            let (from, to) = ((scale.at(*low), y), (scale.at(*high), y));
            sheet.interval("c0", (from, false), (to, !high.is_finite()), " opacity=\".5\"");
        }
        if let Some(p99) = span.p99.filter(|ns| ns.is_finite()) {
            sheet.dot("c0", (scale.at(p99), y), 5.0, false);
        }
        sheet.text("t", Anchor::Right, (end + 12.0, y + 4.0), &text(span));
    }
    bottom + FOOT
}
