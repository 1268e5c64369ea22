//! Finds events on the time axis of a run: stalls, changes of level, a slope.

use serde::{Deserialize, Serialize};

use super::interval::mean;
use super::outliers::median;
use super::series::effective_size;

/// Below this share of the median a second is a stall.
pub(crate) const STALLED: f64 = 0.1;
/// Changes smaller than this share of the mean are not events, however certain they are.
pub(crate) const CHANGE: f64 = 0.10;
/// The standard errors that a change of level must exceed. A single difference would need fewer, but here the largest
/// of many is chosen.
const SURE: f64 = 4.0;
/// The standard errors that a slope must exceed.
const SURE_SLOPE: f64 = 2.6;
/// The fewest values on either side of a change.
const SHORTEST: usize = 5;
/// A longer series is averaged down to this many values.
const LONGEST: usize = 600;
/// The most changes of level that are searched for, and the number of values for each.
const MOST_CHANGES: usize = 8;
const VALUES_A_CHANGE: usize = 25;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SeriesEventKind {
    /// Hardly anything was answered for a while.
    Stall,
    /// The level is different from here on.
    Change,
    /// The level rises or falls throughout.
    Slope,
}

/// One event of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeriesEvent {
    /// The kind of the event.
    pub kind: SeriesEventKind,
    /// The number of its first value, from 0.
    pub from: u64,
    /// The number of the first value after it.
    pub to: u64,
    /// The level before it; for a slope, at its start.
    pub before: f64,
    /// The level after it; for a stall, during it; for a slope, at its end.
    pub after: f64,
}

/// The events in a series, and how steady it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Steadiness {
    /// The events, in order of time.
    pub events: Vec<SeriesEvent>,
    /// The change over the whole series by its slope (Theil and Sen), relative to its median.
    pub slope_share: f64,
    /// The effective sample size: how many independent values the series represents.
    pub effective_size: f64,
}

/// Finds events in values at equal distances, such as operations in each second of a run. `None` for fewer than ten
/// values, and if one of them is not finite.
///
/// Stalls are found first and left out of the rest. A change of level is where two means differ most relative to their
/// standard error (binary segmentation: Scott and Knott 1974; Vostrikova 1981; here with backward elimination). The
/// standard error includes the autocorrelation of the residuals. A slope is the median of pairwise slopes by Theil and
/// Sen. It must pass the test of Mann and Kendall, whose variance includes the autocorrelation of the slope's residuals
/// (after Yue and Wang 2004, by the effective size). If there are both, the one with the smaller residual variance is
/// reported.
///
/// A value may be missing: nothing was answered in that second. The others are judged as if it had not been there.
pub(crate) fn steadiness(series: &[Option<f64>]) -> Option<Steadiness> {
    let known: Vec<f64> = series.iter().copied().flatten().collect();
    if known.len() < 2 * SHORTEST || known.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let middle = median(&known);
    let mut found = Steadiness { effective_size: effective_size(&known), ..Steadiness::default() };
    let stalled = |value: &f64| middle > 0.0 && *value < STALLED * middle;
    let mut at = 0;
    while at < series.len() {
        let length = series[at..].iter().take_while(|value| value.as_ref().is_some_and(stalled)).count();
        if length > 0 {
            let after = series[at..at + length].iter().flatten().sum::<f64>() / length as f64;
            let (from, to) = (at as u64, (at + length) as u64);
            found.events.push(SeriesEvent { kind: SeriesEventKind::Stall, from, to, before: middle, after });
        }
        at += length.max(1);
    }
    let calm = series.iter().enumerate().filter_map(|(n, value)| Some((n as u64, (*value)?)));
    let calm: Vec<(u64, f64)> = calm.filter(|(_, value)| !stalled(value)).collect();
    let calm = averaged(&calm);
    if calm.len() < 2 * SHORTEST {
        return Some(found);
    }
    let values: Vec<f64> = calm.iter().map(|(_, value)| *value).collect();
    let line = slope(&values);
    if line.middle != 0.0 {
        found.slope_share = line.per_value * (values.len() - 1) as f64 / line.middle.abs();
    }
    let sloped = line.sure && found.slope_share.abs() >= CHANGE;
    let steps = Steps::find(&values);
    if !steps.places.is_empty() && (!sloped || steps.unexplained <= line.unexplained) {
        let means = steps.means(&values);
        for (nth, place) in steps.places.iter().enumerate() {
            let end = steps.places.get(nth + 1).map_or(series.len() as u64, |next| calm[*next].0);
            found.events.push(SeriesEvent {
                kind: SeriesEventKind::Change,
                from: calm[*place].0,
                to: end,
                before: means[nth],
                after: means[nth + 1],
            });
        }
    } else if sloped {
        let end = (values.len() - 1) as f64;
        found.events.push(SeriesEvent {
            kind: SeriesEventKind::Slope,
            from: 0,
            to: series.len() as u64,
            before: line.middle - line.per_value * end / 2.0,
            after: line.middle + line.per_value * end / 2.0,
        });
    }
    found.events.sort_by_key(|event| event.from);
    Some(found)
}

/// At most [`LONGEST`] values, each the mean of neighbours, with the number of the first of them.
fn averaged(values: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let each = values.len().div_ceil(LONGEST);
    values
        .chunks(each.max(1))
        .map(|chunk| (chunk[0].0, chunk.iter().map(|(_, value)| value).sum::<f64>() / chunk.len() as f64))
        .collect()
}

struct Line {
    per_value: f64,
    middle: f64,
    sure: bool,
    /// The residual variance.
    unexplained: f64,
}

fn slope(values: &[f64]) -> Line {
    let n = values.len();
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let mut rises = 0i64;
    for (at, a) in values.iter().enumerate() {
        for (later, b) in values.iter().enumerate().skip(at + 1) {
            slopes.push((b - a) / (later - at) as f64);
            rises += i64::from(b > a) - i64::from(b < a);
        }
    }
    let per_value = median(&slopes);
    let middle = median(values);
    let rest: Vec<f64> =
        values.iter().enumerate().map(|(at, v)| v - per_value * (at as f64 - (n - 1) as f64 / 2.0)).collect();
    let n = n as f64;
    let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0 * (n / effective_size(&rest));
    Line { per_value, middle, sure: rises.abs() as f64 > SURE_SLOPE * variance.sqrt(), unexplained: variance_of(&rest) }
}

/// A series as levels with changes between them.
#[derive(Debug, Default)]
struct Steps {
    /// The first value of each new level.
    places: Vec<usize>,
    /// The residual variance.
    unexplained: f64,
}

impl Steps {
    /// First adds as many changes as there can be, each where it explains most. Then removes the least certain one
    /// until all that are left are certain and large enough. The autocorrelation of the noise is computed from the
    /// residuals of all of them, so that another change does not count as autocorrelation.
    fn find(values: &[f64]) -> Self {
        let mut steps = Self::default();
        for _ in 0..(values.len() / VALUES_A_CHANGE).clamp(1, MOST_CHANGES) {
            let next = steps.segments(values.len()).filter_map(|(from, to)| {
                let (gain, at) = strongest_split(&values[from..to])?;
                Some((gain, from + at))
            });
            let Some((_, at)) = next.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
            steps.places.push(at);
            steps.places.sort_unstable();
        }
        loop {
            let rest = steps.rest(values);
            steps.unexplained = variance_of(&rest);
            let error = (steps.unexplained * values.len() as f64 / effective_size(&rest)).sqrt();
            let least = steps.sureness(values, error).into_iter().enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
            match least {
                Some((nth, sure)) if sure <= SURE => drop(steps.places.remove(nth)),
                _ => return steps,
            }
        }
    }

    fn segments(&self, n: usize) -> impl Iterator<Item = (usize, usize)> {
        let starts = std::iter::once(0).chain(self.places.iter().copied());
        let ends = self.places.iter().copied().chain(std::iter::once(n));
        starts.zip(ends)
    }

    fn means(&self, values: &[f64]) -> Vec<f64> {
        self.segments(values.len()).map(|(from, to)| mean(&values[from..to])).collect()
    }

    fn rest(&self, values: &[f64]) -> Vec<f64> {
        let means = self.means(values);
        let levels = self.segments(values.len()).zip(means);
        levels.flat_map(|((from, to), level)| values[from..to].iter().map(move |value| value - level)).collect()
    }

    /// Each change in standard errors; 0 if it is too small to matter.
    fn sureness(&self, values: &[f64], error: f64) -> Vec<f64> {
        let (means, all) = (self.means(values), mean(values));
        let lengths: Vec<f64> = self.segments(values.len()).map(|(from, to)| (to - from) as f64).collect();
        let sure = |nth: usize| {
            let apart = (means[nth + 1] - means[nth]).abs();
            let (a, b) = (lengths[nth], lengths[nth + 1]);
            if apart < CHANGE * all.abs() { 0.0 } else { apart * (a * b / (a + b)).sqrt() / error }
        };
        (0..self.places.len()).map(sure).collect()
    }
}

/// Where the means of the two sides differ most relative to their lengths, and by how much.
fn strongest_split(values: &[f64]) -> Option<(f64, usize)> {
    let n = values.len();
    if n < 2 * SHORTEST {
        return None;
    }
    let total: f64 = values.iter().sum();
    let mut left: f64 = values[..SHORTEST - 1].iter().sum();
    let apart = |at: usize| {
        left += values[at - 1];
        let (a, b) = (at as f64, (n - at) as f64);
        ((left / a - (total - left) / b).abs() * (a * b / (a + b)).sqrt(), at)
    };
    (SHORTEST..=n - SHORTEST).map(apart).max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(apart, _)| *apart > 0.0)
}

fn variance_of(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::simulated::noise;
    use super::*;

    fn series(seed: u64, n: usize, phi: f64, level: impl Fn(usize) -> f64) -> Vec<f64> {
        noise(seed, n, phi).iter().enumerate().map(|(at, noise)| level(at) * (1.0 + 0.05 * noise)).collect()
    }

    fn look(series: &[f64]) -> Option<Steadiness> {
        steadiness(&series.iter().copied().map(Some).collect::<Vec<_>>())
    }

    fn kinds(found: &Steadiness) -> Vec<SeriesEventKind> {
        found.events.iter().map(|event| event.kind).collect()
    }

    #[test]
    fn a_level_that_stays_has_no_events_though_its_noise_remembers() {
        let told =
            (0..100).filter(|seed| !look(&series(*seed, 120, 0.6, |_| 1_000.0)).unwrap().events.is_empty()).count();
        assert!(told <= 3, "{told} of 100");
    }

    #[test]
    fn a_change_of_level_is_found_where_it_is() {
        let found = look(&series(1, 120, 0.3, |at| if at < 70 { 1_000.0 } else { 700.0 })).unwrap();
        assert_eq!(kinds(&found), [SeriesEventKind::Change], "{found:?}");
        let event = &found.events[0];
        assert!(event.from.abs_diff(70) <= 2 && event.to == 120, "{event:?}");
        assert!((event.before - 1_000.0).abs() < 40.0 && (event.after - 700.0).abs() < 40.0, "{event:?}");
    }

    #[test]
    fn a_stall_is_no_change_of_level() {
        let found = look(&series(2, 120, 0.3, |at| if (50..55).contains(&at) { 10.0 } else { 1_000.0 })).unwrap();
        assert_eq!(kinds(&found), [SeriesEventKind::Stall], "{found:?}");
        assert_eq!((found.events[0].from, found.events[0].to), (50, 55));
    }

    #[test]
    fn a_level_that_moves_all_the_time_is_a_slope() {
        let found = look(&series(3, 200, 0.3, |at| 1_000.0 - 2.0 * at as f64)).unwrap();
        assert_eq!(kinds(&found), [SeriesEventKind::Slope], "{found:?}");
        assert!((-0.65..-0.4).contains(&found.slope_share), "{found:?}");
        assert!(found.events[0].before > 930.0 && found.events[0].after < 680.0, "{found:?}");
        // A certain slope, but too small to matter.
        assert!(look(&series(4, 400, 0.0, |at| 1_000.0 + 0.1 * at as f64)).unwrap().events.is_empty());
    }

    #[test]
    fn several_changes_are_told_in_order() {
        let level = |at: usize| [1_000.0, 500.0, 900.0][at / 60];
        let found = look(&series(5, 180, 0.2, level)).unwrap();
        assert_eq!(kinds(&found), [SeriesEventKind::Change; 2], "{found:?}");
        assert!(found.events[0].from.abs_diff(60) <= 2 && found.events[1].from.abs_diff(120) <= 2, "{found:?}");
    }

    #[test]
    fn an_empty_second_does_not_hide_a_change() {
        let mut gaps: Vec<Option<f64>> =
            series(7, 120, 0.3, |at| if at < 70 { 1_000.0 } else { 1_500.0 }).into_iter().map(Some).collect();
        for at in [0, 30, 31, 90] {
            gaps[at] = None;
        }
        let found = steadiness(&gaps).unwrap();
        assert_eq!(kinds(&found), [SeriesEventKind::Change], "{found:?}");
        assert!(found.events[0].from.abs_diff(70) <= 2, "the number of the second counts empty ones: {found:?}");
        assert_eq!(steadiness(&[None; 30]), None);
    }

    #[test]
    fn short_and_long_series() {
        assert_eq!(look(&[1.0; 9]), None);
        assert!(look(&[1_000.0; 30]).unwrap().events.is_empty());
        assert!(look(&[0.0; 30]).unwrap().events.is_empty());
        let long = series(6, 7_200, 0.5, |at| if at < 3_600 { 1_000.0 } else { 500.0 });
        let found = look(&long).unwrap();
        assert_eq!(kinds(&found), [SeriesEventKind::Change]);
        assert!(found.events[0].from.abs_diff(3_600) <= 24, "{found:?}");
    }
}
