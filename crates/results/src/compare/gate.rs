//! Gates: limits on the change of figures, as `--fail-on` gives them.

use std::str::FromStr;

use indexmap::IndexSet;
use storebench_study::workload::did_you_mean;

use super::error::{CompareError, list};
use super::model::{ComparedFigure, ComparedPair, GateOutcome, GateResult, Judgement};
use crate::human::{count, percent, plural};
use crate::series::LEAST_KNOWN;
use crate::stats::MOST_TRIALS;

/// At most this many phases and operations are listed in the error about a gate that names no figure.
const PLACES_AT_MOST: usize = 12;

/// `read.response.p99 > +5%`: fails if the whole interval of B / A of that figure is beyond the line, passes if none of it
/// is, and is undecided otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// As it was typed.
    pub text: String,
    /// `[PHASE.][OP.]MEASURE`.
    pub path: String,
    /// Whether what is above the line fails; otherwise what is below.
    pub above: bool,
    /// The ratio B / A.
    pub line: f64,
}

/// A gate that cannot be parsed: where, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "--fail-on: {expected}\n  {text}\n  {:at$}^\nexamples: 'read.response.p99 > +5%', 'throughput < -5%' or 'disk > x1.1'",
    "",
    at = *.at
)]
pub struct GateError {
    text: String,
    /// In characters.
    at: usize,
    expected: String,
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let wrong = |at_byte: usize, expected: &str| GateError {
            text: text.to_owned(),
            at: text[..at_byte].chars().count(),
            expected: expected.to_owned(),
        };
        let Some(sign) = text.find(['>', '<']) else {
            let end = text.trim_end().len();
            return Err(wrong(text.find('=').unwrap_or(end), "expected > or < between the figure and the limit"));
        };
        let path = text[..sign].trim();
        if path.is_empty() {
            return Err(wrong(0, "expected the figure: [PHASE.][OP.]MEASURE"));
        }
        if let Some(space) = path.find(char::is_whitespace) {
            let before = text.len() - text.trim_start().len();
            return Err(wrong(before + space, "expected > or < after the figure"));
        }
        let rest = &text[sign + 1..];
        let value = rest.trim();
        let value_at = sign + 1 + (rest.len() - rest.trim_start().len());
        if value.starts_with('=') {
            return Err(wrong(value_at, "expected > or <, without ="));
        }
        let line = line(value).map_err(|(at, expected)| wrong(value_at + at, expected))?;
        Ok(Self { text: text.trim().to_owned(), path: path.to_owned(), above: text[sign..].starts_with('>'), line })
    }
}

/// `+5%`, `-5 %`, `x1.05`: the ratio. An error has the place in bytes.
fn line(value: &str) -> Result<f64, (usize, &'static str)> {
    if let Some(factor) = value.strip_prefix(['x', '×']) {
        let at = value.len() - factor.len();
        return number(factor).filter(|factor| *factor > 0.0).ok_or((at, "expected a factor above 0, such as x1.05"));
    }
    if !value.starts_with(['+', '-', '−']) {
        return Err((0, "expected a change with its sign, such as +5% or -5%, or a factor such as x1.05"));
    }
    let (share, change) = value.strip_suffix('%').map_or((false, value), |change| (true, change.trim_end()));
    let percent = number(&change.replace('−', "-")).ok_or((0, "expected a number of percent"))?;
    if !share {
        return Err((value.len(), "expected % behind the number"));
    }
    if percent <= -100.0 {
        return Err((0, "expected more than -100%"));
    }
    Ok(1.0 + percent / 100.0)
}

/// A plain number. `f64` would also accept `inf` and `1e3`.
fn number(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}

/// Parses a threshold: `2%` is 0.02.
///
/// # Errors
/// It is not a percentage from 0 to below 100.
pub fn parse_threshold(text: &str) -> Result<f64, String> {
    let share = share(text).filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "expected a percentage below 100, such as 2%".to_owned())
}

/// Parses the change that gates must detect: `20%` is 0.2.
///
/// # Errors
/// It is not a percentage above 0.
pub fn parse_change(text: &str) -> Result<f64, String> {
    let share = share(text).filter(|share| *share > 0.0);
    share.ok_or_else(|| "expected a percentage above 0, such as 20%".to_owned())
}

/// A percentage as a share: `2%` is 0.02.
fn share(text: &str) -> Option<f64> {
    let percent = text.trim().strip_suffix('%')?;
    Some(number(percent.trim_end())? / 100.0)
}

/// Judges each gate on each figure that it names. All of their intervals cover the true ratios with the confidence of
/// one: more gates do not fail more builds by chance.
pub(super) fn judge_gates(
    gates: &[Gate],
    must_detect: Option<f64>,
    pairs: &[ComparedPair],
) -> Result<Vec<GateResult>, CompareError> {
    let mut named = Vec::new();
    for gate in gates {
        if let Some(share) = must_detect.filter(|share| gate.is_beyond(*share)) {
            let what =
                format!("this limit lies beyond the {} that the gate must detect; use one nearer to 1", percent(share));
            return Err(CompareError::NoFigure { gate: gate.text.clone(), what });
        }
        for (pair, number) in pairs.iter().zip(1..) {
            let before = named.len();
            let figures = pair.figures.iter().filter(|figure| names(&gate.path, figure));
            named.extend(figures.map(|figure| (gate, number, pair, figure)));
            // A gate without a figure must not pass.
            if named.len() == before {
                return Err(CompareError::NoFigure { gate: gate.text.clone(), what: no_figure(&gate.path, pair) });
            }
        }
    }
    // Several gates on one figure use the same interval.
    let together: IndexSet<(u32, &str)> = named.iter().map(|(_, pair, _, figure)| (*pair, &*figure.figure)).collect();
    let judged = named.iter().map(|(gate, number, pair, figure)| {
        let judged = gate.judge(figure, pair, together.len(), must_detect);
        GateResult { pair: *number, ..judged }
    });
    Ok(judged.collect())
}

impl Gate {
    fn judge(
        &self,
        figure: &ComparedFigure,
        pair: &ComparedPair,
        together: usize,
        must_detect: Option<f64>,
    ) -> GateResult {
        let ratio = figure.uncertain.map(|ratio| ratio.estimate(together));
        let detectable = figure.uncertain.and_then(|ratio| ratio.detectable(self.line, self.above, together));
        let beyond = |ratio: f64| if self.above { ratio > self.line } else { ratio < self.line };
        let mut rounds = None;
        let (outcome, why) = match (figure.judgement, ratio.and_then(|ratio| Some((ratio.low?, ratio.high?)))) {
            // A missing figure is worse than any value.
            (Judgement::Missing, _) if self.is_worse_if_missing(figure) => {
                (GateOutcome::Failed, Some(figure.word.clone()))
            }
            (Judgement::Missing | Judgement::AtLeast, _) => (GateOutcome::Undecided, Some(figure.word.clone())),
            (_, Some((low, high))) if beyond(low) && beyond(high) => (GateOutcome::Failed, None),
            (_, Some((low, high))) if !beyond(low) && !beyond(high) => (GateOutcome::Passed, None),
            (_, Some(_)) if self.overlooks(detectable, must_detect) => {
                (GateOutcome::TooWeak, must_detect.map(|share| format!("it must detect {}", percent(share))))
            }
            (_, Some(_)) => {
                rounds = figure.uncertain.and_then(|ratio| ratio.trials_to_exclude(self.line, together));
                (GateOutcome::Undecided, Some(what_decides(rounds, pair)))
            }
            (Judgement::OneRun, None) if pair.from_history => {
                let runs = plural(figure.a.trials.into(), "run");
                let why = format!(
                    "the history has {runs} of it since its last change, of {LEAST_KNOWN} that it takes; add more with \
                     `storebench history add`"
                );
                (GateOutcome::Undecided, Some(why))
            }
            (Judgement::OneRun, None) => {
                let why =
                    "cannot tell run-to-run noise; compare several runs on each side, or measure both in one study";
                (GateOutcome::Undecided, Some(why.to_owned()))
            }
            (_, None) if figure.word == "one trial" => {
                (GateOutcome::Undecided, Some("a single trial has no interval; use repeats".to_owned()))
            }
            (_, None) => {
                (GateOutcome::Undecided, Some(format!("{}, so it has no interval; use more rounds", figure.word)))
            }
        };
        let (gate, figure, line) = (self.text.clone(), figure.figure.clone(), self.line);
        GateResult { gate, pair: 0, figure, line, ratio, detectable, outcome, rounds, why }
    }

    /// Whether the figure is missing in B only, and not because too few operations were attempted there.
    fn is_worse_if_missing(&self, figure: &ComparedFigure) -> bool {
        figure.none_in_a.is_empty() && self.above == (figure.better == "less") && !figure.too_few
    }

    /// Whether the smallest change that the gate could have detected is greater than what it must detect.
    fn overlooks(&self, detectable: Option<f64>, must_detect: Option<f64>) -> bool {
        let Some(most) = must_detect.map(|share| self.change(share)) else { return false };
        detectable.is_none_or(|ratio| if self.above { ratio > most } else { ratio < most })
    }

    /// A change by this share, as a ratio in the gate's direction. Twice the time is half the rate.
    fn change(&self, share: f64) -> f64 {
        if self.above { 1.0 + share } else { 1.0 / (1.0 + share) }
    }

    /// Whether the limit allows a change by this share.
    fn is_beyond(&self, share: f64) -> bool {
        let change = self.change(share);
        if self.above { self.line >= change } else { self.line <= change }
    }
}

/// What would decide a gate whose limit is inside the interval.
fn what_decides(rounds: Option<u32>, pair: &ComparedPair) -> String {
    let unit = match pair.paired_by_round {
        true => "rounds",
        false if pair.from_history => "runs of B",
        false => "runs on each side",
    };
    match rounds {
        Some(rounds) => {
            format!("the limit is inside the interval; about {} {unit} would decide it", count(rounds.into()))
        }
        None => format!("the limit is so near to B/A that {} {unit} would not decide it", count(MOST_TRIALS.into())),
    }
}

/// Whether a path names a figure: the path is the end of its name, and contains the complete measure.
fn names(path: &str, figure: &ComparedFigure) -> bool {
    ends(path, &figure.measure)
        && (ends(&figure.figure, path) || figure.also.as_deref().is_some_and(|name| ends(name, path)))
}

/// Whether a dotted name ends with `end`, at a dot.
fn ends(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn no_figure(path: &str, pair: &ComparedPair) -> String {
    let none = format!("{} and {} have no figure `{path}` in common", pair.a.label(), pair.b.label());
    if ends(path, "cost") {
        return format!("{none}: they have no costs");
    }
    match other_times(path, pair).as_slice() {
        [] => {}
        [near] => {
            let why = if path.contains("response.") { ": a closed loop has service times only" } else { "" };
            return format!("{none}{why}; use `{near}`");
        }
        [response, service, ..] => {
            return format!(
                "{none}; use `{response}` for what clients wait (open loops), or `{service}` for what the store needs"
            );
        }
    }
    let names = |figure: &ComparedFigure| {
        let op = figure.op.as_ref().map(|op| format!("{op}.{}", figure.measure));
        [Some(figure.measure.clone()), op, Some(figure.figure.clone()), figure.also.clone()].into_iter().flatten()
    };
    let candidates: IndexSet<String> = pair.figures.iter().flat_map(names).collect();
    if let Some(near) = did_you_mean(path, candidates.iter().map(String::as_str)) {
        return format!("{none}; did you mean `{near}`?");
    }
    let measures: IndexSet<&String> = pair.figures.iter().map(|figure| &figure.measure).collect();
    let places: IndexSet<String> = pair.figures.iter().map(ComparedFigure::place).collect();
    let (measures, mut places): (Vec<_>, Vec<_>) = (measures.into_iter().collect(), places.into_iter().collect());
    let more = places.len().saturating_sub(PLACES_AT_MOST);
    places.truncate(PLACES_AT_MOST);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{none}; there are {} of {}{rest}", list(&measures), list(&places))
}

/// Figures whose paths differ only in the kind of time: the path names no kind, or names the response time of a closed loop.
/// Response times come first, so that a load, which has none, does not make another phase be judged by its service times.
fn other_times(path: &str, pair: &ComparedPair) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for kind in ["response", "service"] {
        let near = pair.figures.iter().find_map(|figure| {
            let (of, percentile) = figure.measure.split_once('.').filter(|(of, _)| *of == kind)?;
            let before = path.strip_suffix(percentile).filter(|before| before.is_empty() || before.ends_with('.'))?;
            let before = before.strip_suffix("response.").filter(|_| of == "service").unwrap_or(before);
            let near = format!("{before}{}", figure.measure);
            names(&near, figure).then_some(near)
        });
        found.extend(near);
    }
    found
}
