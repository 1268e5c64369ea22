//! Small pictures in table cells: a figure with its interval, on an axis that all cells of a column share.

use maud::{Markup, html};
use storebench_results::stats::Estimate;

use crate::subject::Hue;

/// Width and height of a picture, in SVG units.
const WIDTH: f64 = 100.0;
const HEIGHT: f64 = 16.0;

/// The ends of a column's axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    least: f64,
    most: f64,
    log: bool,
}

impl Extent {
    /// An axis from zero; none if there is nothing to compare.
    pub(super) fn from_zero(all: &[Estimate]) -> Option<Self> {
        let most = all.iter().map(|e| e.value.max(e.high.unwrap_or(e.value).min(e.value * 3.0))).fold(0.0, f64::max);
        (all.len() > 1 && most.is_finite() && most > 0.0).then_some(Self { least: 0.0, most, log: false })
    }

    /// A logarithmic axis of ratios, with 1 in the middle.
    pub(super) fn about_one(all: &[Estimate]) -> Option<Self> {
        // An interval is cut at ten times its figure, so that the others remain readable.
        let reach = |e: &Estimate| {
            let (low, high) = (e.low.unwrap_or(e.value), e.high.unwrap_or(e.value));
            e.value.ln().abs().max(low.max(e.value / 10.0).ln().abs()).max(high.min(e.value * 10.0).ln().abs())
        };
        let most = all.iter().filter(|e| e.value > 0.0).map(reach).filter(|r| r.is_finite()).fold(0.05, f64::max) * 1.1;
        (!all.is_empty()).then(|| Self { least: (-most).exp(), most: most.exp(), log: true })
    }

    fn x(&self, value: f64) -> f64 {
        let at = match self.log {
            true => (value.max(1e-300).ln() - self.least.ln()) / (self.most.ln() - self.least.ln()),
            false => (value - self.least) / (self.most - self.least),
        };
        ((at.clamp(0.0, 1.0) * (WIDTH - 4.0) + 2.0) * 10.0).round() / 10.0
    }
}

/// A bar from zero with its interval as a line.
pub(super) fn bar(of: &Estimate, extent: Extent, hue: Hue) -> Markup {
    let x = extent.x(of.value);
    picture(html! {
        rect class=(hue.class("bar")) style=[hue.style()] x="2" y="3" width=((x - 2.0).max(0.5)) height="10" {}
        (whisker(of, extent))
    })
}

/// A point with its interval, and the line of no difference.
pub(super) fn point(of: &Estimate, extent: Extent, hue: Hue) -> Markup {
    let one = extent.x(1.0);
    picture(html! {
        line.one x1=(one) y1="0" x2=(one) y2=(HEIGHT) {}
        (whisker(of, extent))
        circle class=(hue.class("dot")) style=[hue.style()] cx=(extent.x(of.value)) cy="8" r="3.5" {}
    })
}

fn whisker(of: &Estimate, extent: Extent) -> Markup {
    html! {
        @if let (Some(low), Some(high)) = (of.low, of.high) {
            line.whisker x1=(extent.x(low)) y1="8" x2=(extent.x(high)) y2="8" {}
        }
    }
}

fn picture(inner: Markup) -> Markup {
    html! {
        svg.cell viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) width=(WIDTH) height=(HEIGHT) aria-hidden="true" { (inner) }
    }
}
