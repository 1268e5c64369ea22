//! Stores side by side: dots with intervals, a line for each configuration, the best first.

use storebench_results::human::{cut, duration, plural, rate};
use storebench_results::side_by_side::Panel;

use super::scale::Scale;
use super::sheet::{Anchor, LETTER, ROW, Sheet, mark, shortened};
use super::{FOOT, Frame, HEAD};

/// Panels beside each other, at most: three have no room for their figures.
const MOST_COLUMNS: usize = 2;

/// Draws all panels, each with its own axis. Returns the height.
pub(super) fn draw(sheet: &mut Sheet, panels: &[Panel], frame: Frame, hue: &dyn Fn(&str) -> usize) -> f64 {
    let mut height = 0.0;
    for row in panels.chunks(frame.columns.min(MOST_COLUMNS)) {
        height += draw_row(sheet, row, height, frame, hue);
    }
    let left_out = panels.iter().map(|panel| panel.left_out).max().unwrap_or(0);
    if left_out > 0 {
        let text = format!("and {} more", plural(left_out as u64, "configuration"));
        sheet.text("d", Anchor::Right, (12.0, height + 12.0), &text);
        height += 20.0;
    }
    height
}

fn draw_row(sheet: &mut Sheet, panels: &[Panel], top: f64, frame: Frame, hue: &dyn Fn(&str) -> usize) -> f64 {
    let rows = panels.iter().map(|panel| panel.rows.len()).max().unwrap_or(0);
    let longest =
        panels[0].rows.iter().map(|row| shortened(&row.name, frame.letters).chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * LETTER + 24.0).clamp(80.0, 270.0);
    let width = (frame.width - left - 12.0) / panels.len() as f64;
    // Figures are to the right of their dots. Without room for the text of an interval, its line shows it.
    let figure = |text: &str| match width < 420.0 {
        true => [" [", " (", " ±"].into_iter().fold(text, |text, at| text.split(at).next().unwrap_or(text)).to_owned(),
        false => text.to_owned(),
    };
    let (head, bottom) = (top + HEAD, top + HEAD + rows as f64 * ROW);
    let line = |nth: usize| head + (nth as f64 + 0.5) * ROW;
    for (nth, row) in panels[0].rows.iter().enumerate() {
        sheet.text("t", Anchor::Left, (left - 12.0, line(nth) + 4.0), &shortened(&row.name, frame.letters));
    }
    for (nth, panel) in panels.iter().enumerate() {
        let begin = left + nth as f64 * width;
        let longest = panel.rows.iter().map(|row| figure(&row.text).chars().count()).max().unwrap_or(0);
        let end = begin + (width - 28.0 - longest as f64 * LETTER).max(60.0);
        let unit = if panel.less { duration as fn(f64) -> String } else { rate };
        let scale = Scale::of(panel.rows.iter().filter_map(|row| row.figure), begin, end);
        // A panel alone in its row begins its title at the margin.
        let (at, room) = if panels.len() == 1 { (12.0, frame.width - 12.0) } else { (begin, width) };
        sheet.strong(at, top + 14.0, &cut(&panel.title, (room / LETTER) as usize));
        let marks: Vec<(f64, String)> = scale.ticks().into_iter().map(|tick| (tick, mark(tick, unit))).collect();
        sheet.x_axis(&scale, &marks, (head, bottom), true);
        for (nth, row) in panel.rows.iter().enumerate() {
            let class = format!("c{}", hue(&row.store));
            let end = row.figure.map_or(begin, |figure| sheet.estimate(&class, &scale, &figure, line(nth)));
            sheet.text("t", Anchor::Right, (end + 10.0, line(nth) + 4.0), &figure(&row.text));
        }
    }
    bottom + FOOT - top
}
