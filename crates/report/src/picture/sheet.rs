//! The elements of a picture: text, lines, dots.

use std::fmt::Write as _;

use storebench_results::stats::Estimate;

use super::scale::Scale;

pub(super) const TEXT: f64 = 12.0;
/// The width of a letter, for fonts that are wider than most: a text that is cut off says something else.
pub(crate) const LETTER: f64 = 7.2;
/// The length of an arrow.
const ARROW: f64 = 7.0;
/// The height of a line with a dot.
pub(crate) const ROW: f64 = 26.0;

/// Where a text is, seen from its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Right,
    Middle,
    Left,
}

/// Elements of SVG. A class such as `c0` has the colour `--c`; `l` is a rule, `t` text, `d` dim text.
#[derive(Debug, Default)]
pub(crate) struct Sheet(String);

impl Sheet {
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// A text at a position.
    pub(crate) fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Right => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::Left => " text-anchor=\"end\"",
        };
        let colour = if class.len() > 1 { " fill=\"var(--c)\" font-weight=\"600\"" } else { "" };
        let _ = write!(
            self.0,
            "<text class=\"{class}\"{colour}{anchor} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escaped(text)
        );
    }

    /// A title.
    pub(crate) fn strong(&mut self, x: f64, y: f64, text: &str) {
        let _ =
            write!(self.0, "<text class=\"t\" font-weight=\"600\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(text));
    }

    /// A rule of an axis.
    pub(crate) fn rule(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = write!(self.0, "<line class=\"l\" x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\"/>");
    }

    /// A line in the colour of a class. `more` are attributes.
    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64), more: &str) {
        let _ = write!(
            self.0,
            "<line class=\"{class}\" stroke=\"var(--c)\" stroke-width=\"2\" x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" \
             y2=\"{y2:.1}\"{more}/>"
        );
    }

    /// The line of an interval. An end that lies beyond the axis is an arrow.
    pub(crate) fn interval(
        &mut self,
        class: &str,
        (from, from_beyond): ((f64, f64), bool),
        (to, to_beyond): ((f64, f64), bool),
        more: &str,
    ) {
        self.line(class, from, to, more);
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        if length < 1.0 {
            return;
        }
        let (along_x, along_y) = ((to.0 - from.0) / length, (to.1 - from.1) / length);
        for (end, beyond, sign) in [(from, from_beyond, -1.0), (to, to_beyond, 1.0)] {
            if !beyond {
                continue;
            }
            let (dx, dy) = (along_x * sign * ARROW, along_y * sign * ARROW);
            let base = (end.0 - dx, end.1 - dy);
            let _ = write!(
                self.0,
                "<polygon class=\"{class}\" fill=\"var(--c)\"{more} points=\"{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\"/>",
                end.0,
                end.1,
                base.0 - dy * 0.7,
                base.1 + dx * 0.7,
                base.0 + dy * 0.7,
                base.1 - dx * 0.7
            );
        }
    }

    /// A dot of a radius. An open one has only a border.
    pub(crate) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, open: bool) {
        let paint = match open {
            // The page's style gives classes a fill.
            true => "style=\"fill:none\" stroke=\"var(--c)\" stroke-width=\"2\"",
            false => "fill=\"var(--c)\"",
        };
        let _ = write!(self.0, "<circle class=\"{class}\" {paint} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>");
    }

    /// A line through points.
    pub(crate) fn path(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            self.0,
            "<polyline class=\"{class}\" style=\"fill:none\" stroke=\"var(--c)\" stroke-width=\"2\" points=\"{}\"/>",
            points.join(" ")
        );
    }

    /// A translucent band between two positions on the x axis.
    pub(crate) fn band(&mut self, class: &str, (from, to): (f64, f64), (top, bottom): (f64, f64)) {
        let _ = write!(
            self.0,
            "<rect class=\"{class}\" fill=\"var(--c)\" fill-opacity=\".18\" x=\"{from:.1}\" width=\"{:.1}\" y=\"{top:.1}\" \
             height=\"{:.1}\"/>",
            (to - from).max(2.0),
            bottom - top
        );
    }

    /// A horizontal axis below a plot, with marks where there is room for their text.
    pub(crate) fn x_axis(&mut self, scale: &Scale, marks: &[(f64, String)], (top, bottom): (f64, f64), rules: bool) {
        let mut taken: Vec<(f64, f64)> = Vec::new();
        if rules {
            marks.iter().map(|(value, _)| scale.at(*value)).for_each(|at| self.rule((at, top), (at, bottom)));
        }
        // The ends of the axis come first.
        let (ends, inner) = marks.split_at(marks.len().min(1));
        let order = ends.iter().chain(inner.last()).chain(inner.iter().take(inner.len().saturating_sub(1)));
        for (value, text) in order {
            let (at, half) = (scale.at(*value), text.chars().count() as f64 * LETTER / 2.0 + 3.0);
            if taken.iter().all(|(from, to)| at + half < *from || at - half > *to) {
                taken.push((at - half, at + half));
                self.text("d", Anchor::Middle, (at, bottom + 17.0), text);
            }
        }
    }

    /// A vertical axis at the left of a plot.
    pub(crate) fn y_axis(&mut self, scale: &Scale, unit: fn(f64) -> String, (left, right): (f64, f64)) {
        for tick in scale.ticks() {
            let at = scale.at(tick);
            self.rule((left, at), (right, at));
            self.text("d", Anchor::Left, (left - 6.0, at + 4.0), &mark(tick, unit));
        }
    }

    /// A dot with its interval on a horizontal axis. Returns the position of its right end.
    pub(crate) fn estimate(&mut self, class: &str, scale: &Scale, figure: &Estimate, y: f64) -> f64 {
        let at = scale.at(figure.value);
        let (low, high) = (figure.low.map_or(at, |low| scale.at(low)), figure.high.map_or(at, |high| scale.at(high)));
        if high > low {
            let beyond = |end: Option<f64>| end.is_some_and(|end| !scale.holds(end));
            self.interval(class, ((low, y), beyond(figure.low)), ((high, y), beyond(figure.high)), "");
        }
        self.dot(class, (at, y), 5.0, false);
        at.max(high)
    }
}

/// A picture of these elements. The title is what screen readers say.
pub(crate) fn svg(class: &str, (width, height): (f64, f64), title: &str, inner: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"{TEXT}\"><title>{}</title>{inner}</svg>",
        escaped(title)
    )
}

/// The text of a mark: `2 ms` rather than `2.00 ms`.
pub(crate) fn mark(value: f64, unit: fn(f64) -> String) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = unit(value);
    let Some((whole, rest)) = text.split_once('.') else { return text };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    match rest[..end].trim_end_matches('0') {
        "" => format!("{whole}{}", &rest[end..]),
        digits => format!("{whole}.{digits}{}", &rest[end..]),
    }
}

/// A name with at most this many letters. Its end stays, where values of factors and measures are.
pub(crate) fn shortened(name: &str, most: usize) -> String {
    let letters = name.chars().count();
    if letters <= most {
        return name.to_owned();
    }
    let begin = most / 3;
    let end = most.saturating_sub(begin + 1);
    name.chars().take(begin).chain(['…']).chain(name.chars().skip(letters - end)).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use storebench_results::human::{duration, rate};

    use super::*;

    #[test]
    fn names_of_users_are_text() {
        assert_eq!(escaped("<script>&\""), "&lt;script&gt;&amp;&quot;");
        assert_eq!(shortened("postgres batch=10000", 18), "postgr…batch=10000");
        assert_eq!(shortened("short", 18), "short");
    }

    #[test]
    fn marks_are_short() {
        assert_eq!(
            (mark(2e6, duration), mark(2.5e6, duration), mark(0.0, duration)),
            ("2 ms".into(), "2.5 ms".into(), "0".into())
        );
        assert_eq!((mark(50e3, rate), mark(800.0, rate)), ("50 k".into(), "800".into()));
    }
}
