//! The first chart of a run as SVG. The page shows it without a script, and `report --picture` writes it for a README or a
//! pull request. Lines are labelled directly, without a legend.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use indexmap::IndexSet;
use storebench_results::answer::answer;
use storebench_results::beside::{Panel, panels};
use storebench_results::human::{count, duration, rate};
use storebench_results::stats::Estimate;
use storebench_results::{FactorSweep, RunResult};
use storebench_study::workload::short_name;

/// Width of the picture, in pixels.
pub(crate) const WIDTH: f64 = 760.0;
pub(crate) const TEXT: f64 = 12.0;
/// The average width of a letter.
pub(crate) const LETTER: f64 = 6.6;
pub(crate) const ROW: f64 = 26.0;
const HEAD: f64 = 30.0;
const FOOT: f64 = 26.0;
/// Curves beside each other, at most.
const MOST_CURVES: usize = 3;
/// An axis is logarithmic if its figures differ by this factor.
const WIDE: f64 = 30.0;
/// Letters of a name, at most.
const LONGEST: usize = 34;

/// Colours as in the page's style sheet, for a picture without a page.
pub(crate) const STYLE: &str = ".t{fill:#1b1f23}.d{fill:#5b646d}.l{stroke:#d9dde1}.ground{fill:#fff}\
    .c0{--c:#0072b2}.c1{--c:#d55e00}.c2{--c:#009e73}.c3{--c:#b3578f}.c4{--c:#8a7400}.c5{--c:#3f9fd6}.c6{--c:#7a4b9a}.c7{--c:#4d4d4d}\
    @media(prefers-color-scheme:dark){.t{fill:#e4e8ec}.d{fill:#98a3ae}.l{stroke:#363d45}.ground{fill:#14171a}\
    .c0{--c:#56a8e8}.c1{--c:#f08a45}.c2{--c:#3ec99b}.c3{--c:#dd8fc0}.c4{--c:#d9c14a}.c5{--c:#8fd3f7}.c6{--c:#b48fd8}.c7{--c:#b8bfc6}}";

/// How a picture is laid out.
#[derive(Debug, Clone, Copy)]
struct Frame {
    width: f64,
    /// Panels or curves beside each other.
    columns: usize,
    /// Letters of a configuration's name, at most.
    letters: usize,
}

const WIDE_FRAME: Frame = Frame { width: WIDTH, columns: 3, letters: LONGEST };
/// For the screen of a phone: panels below each other.
const NARROW_FRAME: Frame = Frame { width: 360.0, columns: 1, letters: 18 };

/// The picture of a run; none if there is nothing to compare.
pub fn picture(result: &RunResult) -> Option<String> {
    drawn(result, true, WIDE_FRAME)
}

/// The same for the page, which has the colours: for wide and for narrow screens.
pub(crate) fn for_page(result: &RunResult) -> Option<String> {
    Some(drawn(result, false, WIDE_FRAME)? + &drawn(result, false, NARROW_FRAME)?)
}

fn drawn(result: &RunResult, alone: bool, frame: Frame) -> Option<String> {
    let stores: IndexSet<&str> = result.configurations.iter().map(|c| c.store.as_str()).collect();
    let hue = |store: &str| stores.get_index_of(store).unwrap_or(0) % 8;
    let curves = curves(result);
    let mut body = String::new();
    let mut height = 0.0;
    if curves.is_empty() {
        let panels = panels(result);
        if panels.is_empty() {
            return None;
        }
        for panels in panels.chunks(frame.columns) {
            height += dots(&mut body, panels, height, frame, hue);
        }
    } else {
        for curves in curves.chunks(frame.columns) {
            height += lines(&mut body, curves, height, frame, hue);
        }
    }
    let top = if alone { 30.0 } else { 0.0 };
    let (width, height, text) = (frame.width, height + top, answer(result).found);
    let class = if frame.columns == 1 { "picture narrow" } else { "picture" };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"0 0 {width} {height:.0}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"{TEXT}\"><title>{}</title>",
        escaped(&text)
    );
    if alone {
        let _ = write!(
            out,
            "<style>{STYLE}</style><rect class=\"ground\" width=\"{width}\" height=\"{height:.0}\"/>\
             <text class=\"t\" x=\"12\" y=\"20\" font-weight=\"600\">{}</text>",
            escaped(&cut(&result.run.title, 100))
        );
    }
    let _ = write!(out, "<g transform=\"translate(0 {top})\">{body}</g></svg>");
    Some(out)
}

/// Dots with intervals: a line for each configuration, the best first. Each figure has its own axis. Returns the height.
fn dots(out: &mut String, panels: &[Panel], top: f64, frame: Frame, hue: impl Fn(&str) -> usize) -> f64 {
    let rows = panels.iter().map(|panel| panel.rows.len()).max().unwrap_or(0);
    let longest = panels[0].rows.iter().map(|row| cut(&row.name, frame.letters).chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * LETTER + 24.0).clamp(80.0, 250.0);
    let width = (frame.width - left - 12.0) / panels.len() as f64;
    let head = top + HEAD;
    let bottom = head + rows as f64 * ROW;
    for (nth, row) in panels[0].rows.iter().enumerate() {
        let y = head + (nth as f64 + 0.5) * ROW + 4.0;
        let name = escaped(&cut(&row.name, frame.letters));
        let _ =
            write!(out, "<text class=\"t\" x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{name}</text>", left - 12.0);
    }
    for (nth, panel) in panels.iter().enumerate() {
        let begin = left + nth as f64 * width;
        // A narrow picture draws the interval only.
        let figure = |text: &str| match frame.columns {
            1 => text.split(" [").next().unwrap_or(text).to_owned(),
            _ => text.to_owned(),
        };
        // Figures are to the right of their dots.
        let room =
            panel.rows.iter().map(|row| figure(&row.text).chars().count()).max().unwrap_or(0) as f64 * LETTER + 12.0;
        let end = begin + (width - 16.0 - room).max(60.0);
        let unit = if panel.less { duration as fn(f64) -> String } else { rate };
        let scale = Scale::of(panel.rows.iter().filter_map(|row| row.figure), begin, end);
        // One panel in a row begins its title at the margin.
        let (title_x, title_width) = if panels.len() == 1 { (12.0, frame.width - 12.0) } else { (begin, width) };
        let _ = write!(
            out,
            "<text class=\"t\" x=\"{title_x:.1}\" y=\"{:.1}\" font-weight=\"600\">{}</text>",
            top + 14.0,
            escaped(&cut(&panel.title, (title_width / LETTER) as usize))
        );
        axis(out, &scale, head, bottom, unit);
        for (nth, row) in panel.rows.iter().enumerate() {
            let y = head + (nth as f64 + 0.5) * ROW;
            let class = format!("c{}", hue(&row.store));
            let mut at = begin;
            if let Some(figure) = row.figure {
                at = scale.at(figure.value);
                let (low, high) =
                    (figure.low.map_or(at, |low| scale.at(low)), figure.high.map_or(at, |high| scale.at(high)));
                if high > low {
                    let _ = write!(
                        out,
                        "<line class=\"{class}\" stroke=\"var(--c)\" stroke-width=\"2\" x1=\"{low:.1}\" x2=\"{high:.1}\" \
                         y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
                    );
                }
                let _ =
                    write!(out, "<circle class=\"{class}\" fill=\"var(--c)\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"5\"/>");
                at = at.max(high);
            }
            let _ = write!(
                out,
                "<text class=\"t\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                at + 10.0,
                y + 4.0,
                escaped(&figure(&row.text))
            );
        }
    }
    bottom + FOOT - top
}

/// What one factor does: a line for each store.
struct Curve<'a> {
    title: String,
    of: Vec<&'a FactorSweep>,
}

/// The factors of the figure that the answer is about. Each store has one line: that at the first values of the other
/// factors.
fn curves(result: &RunResult) -> Vec<Curve<'_>> {
    let told = answer(result).phase.unwrap_or_default();
    let mut by_factor: BTreeMap<usize, Curve<'_>> = BTreeMap::new();
    let factors: IndexSet<&str> = result.sweeps.iter().map(|swept| swept.factor.as_str()).collect();
    for swept in result.sweeps.iter().filter(|swept| swept.figure.starts_with(&format!("{told}."))) {
        if swept.sweep.curve.iter().filter(|point| point.figure.is_some()).count() < 3 {
            continue;
        }
        let nth = factors.get_index_of(swept.factor.as_str()).unwrap_or(0);
        let what = if swept.figure.ends_with(".documents") { "documents" } else { "operations" };
        let title = format!("{told}: {what} per second, by {}", short_name(&swept.factor));
        let curve = by_factor.entry(nth).or_insert(Curve { title, of: Vec::new() });
        if !curve.of.iter().any(|known| known.store == swept.store) {
            curve.of.push(swept);
        }
    }
    by_factor.into_values().take(MOST_CURVES).collect()
}

/// A curve for each store, those of each factor on their own axes. Returns the height.
fn lines(out: &mut String, curves: &[Curve<'_>], top: f64, frame: Frame, hue: impl Fn(&str) -> usize) -> f64 {
    let width = (frame.width - 12.0) / curves.len() as f64;
    let bottom = top + HEAD + 200.0;
    for (nth, curve) in curves.iter().enumerate() {
        let begin = 12.0 + nth as f64 * width;
        let names = curve.of.iter().map(|swept| swept.store.chars().count()).max().unwrap_or(0) as f64 * LETTER;
        let (left, right) = (begin + 56.0, begin + width - names - 20.0);
        let points = || curve.of.iter().flat_map(|swept| &swept.sweep.curve);
        let x = Scale::of(points().map(|point| alone(point.value)), left, right);
        let y = Scale::of(points().filter_map(|point| point.figure), bottom, top + HEAD);
        let _ = write!(
            out,
            "<text class=\"t\" x=\"{begin:.1}\" y=\"{:.1}\" font-weight=\"600\">{}</text>",
            top + 14.0,
            escaped(&cut(&curve.title, (width / LETTER) as usize))
        );
        for tick in y.ticks() {
            let at = y.at(tick);
            let _ = write!(
                out,
                "<line class=\"l\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"d\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                at + 4.0,
                rate(tick)
            );
        }
        let values: IndexSet<String> = points().map(|point| point.value.to_string()).collect();
        let mut free = f64::NEG_INFINITY;
        for value in values.iter().filter_map(|value| value.parse::<f64>().ok()) {
            let text = if value.fract() == 0.0 { count(value as u64) } else { value.to_string() };
            let (at, half) = (x.at(value), text.chars().count() as f64 * LETTER / 2.0);
            // A label that would overlap the one before is left out.
            if at - half > free {
                free = at + half + 4.0;
                let _ = write!(
                    out,
                    "<text class=\"d\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                    bottom + 18.0
                );
            }
        }
        let mut taken: Vec<f64> = Vec::new();
        for swept in &curve.of {
            let class = format!("c{}", hue(&swept.store));
            let known: Vec<(f64, Estimate)> =
                swept.sweep.curve.iter().filter_map(|point| Some((point.value, point.figure?))).collect();
            let line: Vec<String> =
                known.iter().map(|(at, figure)| format!("{:.1},{:.1}", x.at(*at), y.at(figure.value))).collect();
            let _ = write!(
                out,
                "<polyline class=\"{class}\" style=\"fill:none\" stroke=\"var(--c)\" stroke-width=\"2\" points=\"{}\"/>",
                line.join(" ")
            );
            for (at, figure) in &known {
                let at = x.at(*at);
                if let (Some(low), Some(high)) = (figure.low, figure.high) {
                    let _ = write!(
                        out,
                        "<line class=\"{class}\" stroke=\"var(--c)\" stroke-width=\"2\" opacity=\".5\" x1=\"{at:.1}\" \
                         x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                        y.at(low),
                        y.at(high)
                    );
                }
                let _ = write!(
                    out,
                    "<circle class=\"{class}\" fill=\"var(--c)\" cx=\"{at:.1}\" cy=\"{:.1}\" r=\"4\"/>",
                    y.at(figure.value)
                );
            }
            if let Some((_, last)) = known.last() {
                let mut at = y.at(last.value) + 4.0;
                while taken.iter().any(|other| (other - at).abs() < TEXT + 2.0) {
                    at += TEXT + 2.0;
                }
                taken.push(at);
                let name = escaped(&swept.store);
                let _ = write!(
                    out,
                    "<text class=\"{class}\" fill=\"var(--c)\" font-weight=\"600\" x=\"{:.1}\" y=\"{at:.1}\">{name}</text>",
                    right + 8.0
                );
            }
        }
    }
    bottom + FOOT - top
}

fn axis(out: &mut String, scale: &Scale, top: f64, bottom: f64, unit: fn(f64) -> String) {
    let mut free = f64::NEG_INFINITY;
    for tick in scale.ticks() {
        let (at, text) = (scale.at(tick), if tick == 0.0 { "0".to_owned() } else { unit(tick) });
        let half = text.chars().count() as f64 * LETTER / 2.0;
        let _ = write!(out, "<line class=\"l\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>");
        if at - half > free {
            free = at + half + 4.0;
            let _ = write!(
                out,
                "<text class=\"d\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                bottom + 16.0
            );
        }
    }
}

fn alone(value: f64) -> Estimate {
    Estimate { value, low: None, high: None, trials: 1 }
}

/// From figures to positions: linear from zero, or logarithmic if the figures are far apart. It contains the intervals,
/// except very wide ones, which are cut so that the figures remain distinguishable.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    begin: f64,
    end: f64,
}

impl Scale {
    fn of(figures: impl Iterator<Item = Estimate>, begin: f64, end: f64) -> Self {
        let (mut least, mut most, mut lowest, mut highest) = (f64::INFINITY, 0.0_f64, f64::INFINITY, 0.0_f64);
        for figure in figures.filter(|figure| figure.value.is_finite() && figure.value > 0.0) {
            (least, most) = (least.min(figure.value), most.max(figure.value));
            lowest = lowest.min(figure.low.filter(|low| *low > 0.0).unwrap_or(figure.value));
            highest = highest.max(figure.high.filter(|high| high.is_finite()).unwrap_or(figure.value));
        }
        if most <= 0.0 {
            (least, most, lowest, highest) = (1.0, 1.0, 1.0, 1.0);
        }
        let (low, high) = (lowest.max(least / 3.0), highest.min(most * 3.0));
        let log = most / least >= WIDE;
        Self {
            low: if log { low / 1.15 } else { 0.0 },
            high: if log { high * 1.15 } else { high * 1.05 },
            log,
            begin,
            end,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.begin + share * (self.end - self.begin)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let powers = self.low.log10().ceil() as i32..=self.high.log10().floor() as i32;
            return powers.map(|power| 10_f64.powi(power)).collect();
        }
        // Three or four steps of 1, 2 or 5.
        let rough = self.high / 3.5;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|of| of * power).into_iter().find(|step| *step >= rough * 0.8);
        let step = step.unwrap_or(power * 10.0);
        (0..=8).map(|nth| f64::from(nth) * step).take_while(|tick| *tick <= self.high).collect()
    }
}

/// A text with at most this many letters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_hold_what_they_show() {
        let figures = [(10.0, 8.0, 12.0), (100.0, 90.0, 1e9)].map(|(value, low, high)| Estimate {
            value,
            low: Some(low),
            high: Some(high),
            trials: 3,
        });
        let scale = Scale::of(figures.into_iter(), 0.0, 100.0);
        assert!(!scale.log && scale.high < 400.0, "an interval without an end does not hide the figures");
        assert_eq!(scale.at(1e9), 100.0);
        assert_eq!(scale.at(0.0), 0.0);
        assert!(scale.ticks().len() >= 3, "{:?}", scale.ticks());
        let far = Scale::of([alone(1.0), alone(1_000.0)].into_iter(), 0.0, 100.0);
        assert!(far.log);
        assert_eq!(far.ticks(), [1.0, 10.0, 100.0, 1_000.0]);
        // Nothing was measured, or nothing was answered.
        let none = Scale::of(std::iter::empty(), 0.0, 100.0);
        assert!(none.at(f64::INFINITY).is_finite() && none.ticks().iter().all(|tick| tick.is_finite()));
    }

    #[test]
    fn names_of_users_are_text() {
        assert_eq!(escaped("<script>&\""), "&lt;script&gt;&amp;&quot;");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
