//! Charts as data, for the script that draws them. The page contains them as JSON.

use std::collections::HashMap;

use indexmap::{IndexMap, IndexSet};
use serde::ser::{Serialize, Serializer};
use storebench_results::stats::Estimate;

/// A number with four significant digits, serialized as short as possible.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(four_digits(self.0), serializer)
    }
}

/// Serializes a number that was rounded; null if it is not finite.
fn serialize<S: Serializer>(rounded: f64, serializer: S) -> Result<S::Ok, S::Error> {
    match rounded {
        r if !r.is_finite() => serializer.serialize_none(),
        r if r.fract() == 0.0 && r.abs() < 1e15 => serializer.serialize_i64(r as i64),
        r => serializer.serialize_f64(r),
    }
}

/// Rounds to four significant digits. A chart cannot show more, and the data is a third of the size.
fn four_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        let unit = 10f64.powi(-digits);
        return (value / unit).round() * unit;
    }
    // Formatting and parsing avoids the trailing digits of a binary fraction.
    format!("{value:.*}", digits.unsigned_abs() as usize).parse().unwrap_or(value)
}

/// Numbers; null if missing.
pub(crate) type Numbers = Vec<Option<Number>>;

fn numbers(values: Vec<Option<f64>>) -> Numbers {
    values.into_iter().map(|value| value.map(Number)).collect()
}

/// A position on an x axis. It has more digits than other numbers, because neighbours must differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Moment(pub f64);

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.0;
        let rounded = if value.abs() >= 1.0 { (value * 1e3).round() / 1e3 } else { four_digits(value) };
        serialize(rounded, serializer)
    }
}

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Lines over x, with bands where series have them.
    Lines,
    /// Points without lines.
    Points,
    /// Counts in cells of x and y.
    Heat,
}

/// The unit of a number, which determines how it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unit {
    /// Seconds on a time axis.
    Seconds,
    /// Nanoseconds.
    Ns,
    /// A rate per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// A share, 0 to 1.
    Share,
    /// A factor, shown as `×1.5`.
    Ratio,
    /// Money in the currency of the price sheet.
    Money,
    /// 1 / (1 - q) of a quantile q.
    Quantile,
    /// A plain number.
    Plain,
}

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scale {
    /// Linear, from zero if all values are positive.
    Linear,
    /// Linear, around the values, where small changes of a level matter.
    Near,
    /// Logarithmic.
    Log,
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Axis {
    /// What it shows: `ops/s`.
    pub label: String,
    /// The unit of its numbers.
    pub unit: Unit,
    /// The initial scale; the reader may change it.
    pub scale: Scale,
}

impl Axis {
    /// Creates an axis.
    pub(crate) fn new(label: &str, unit: Unit, scale: Scale) -> Self {
        Self { label: label.to_owned(), unit, scale }
    }
}

/// One line, or one cloud of points.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub(crate) struct Series {
    /// The text after the configuration's name in the legend: `trial 3`. Empty if the name is enough.
    pub label: String,
    /// Position of its configuration, which determines its colour.
    pub configuration: usize,
    /// The choices under which it is shown, by [`Choice::key`]. A choice that is missing here always shows it.
    #[serde(skip)]
    pub keys: IndexMap<String, String>,
    /// The same as positions in [`Choice::values`], in the order of the chart's choices; -1 if it is missing.
    /// [`Chart::choose`] sets it.
    #[serde(rename = "of")]
    pub chosen: Vec<i32>,
    /// Position of its x values in [`Chart::xs`].
    pub x: usize,
    /// Position of its axis in [`Chart::ys`].
    pub axis: usize,
    /// Values.
    pub y: Numbers,
    /// Lower ends of intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<Numbers>,
    /// Upper ends of intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<Numbers>,
    /// What the table shows instead of its points: a name, and a figure in the unit of its axis (a count for
    /// `operations`).
    #[serde(skip)]
    pub figures: Vec<(&'static str, f64)>,
}

impl Series {
    /// A series of a configuration without points.
    pub(crate) fn new(configuration: usize, label: String, keys: IndexMap<String, String>, axis: usize) -> Self {
        Self { configuration, label, keys, axis, ..Self::default() }
    }
}

/// The choices under which something is shown, as in [`Series::keys`].
pub(crate) fn keys<const N: usize>(of: [(&str, &str); N]) -> IndexMap<String, String> {
    of.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A choice that the reader has.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Choice {
    /// As in [`Series::keys`].
    pub key: String,
    /// Its name beside the list.
    pub label: String,
    /// The possible values, in order.
    pub values: Vec<String>,
    /// The initial value.
    pub chosen: String,
}

/// What a mark on the x axis stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MarkKind {
    /// A phase begins.
    Phase,
    /// Operations all but stopped.
    Stall,
    /// A change of level, or a slope.
    Change,
    /// The study injected a fault; ends when clients were answered again.
    Fault,
    /// The store worked in the background.
    Work,
    /// A trial ended early here.
    End,
    /// A figure became worse.
    Worse,
    /// A figure became better.
    Better,
}

/// A moment or a span on the x axis.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Mark {
    /// Where it begins.
    pub at: Moment,
    /// Where it ends; none for a moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Moment>,
    /// Its text.
    pub label: String,
    /// What it stands for.
    pub kind: MarkKind,
    /// Position of its configuration; none if it applies to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<usize>,
}

impl Mark {
    /// A mark of one configuration.
    pub(crate) fn new(kind: MarkKind, at: f64, to: Option<f64>, label: String, configuration: usize) -> Self {
        Self { at: Moment(at), to: to.map(Moment), label, kind, configuration: Some(configuration) }
    }
}

/// A level on a y axis: a limit.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Line {
    /// Its value.
    pub at: Number,
    /// Its text.
    pub label: String,
    /// Position of its axis.
    pub axis: usize,
    /// The choices under which it is shown, as in [`Series::keys`].
    #[serde(skip)]
    pub keys: IndexMap<String, String>,
    /// As in [`Series::chosen`].
    #[serde(rename = "of")]
    pub chosen: Vec<i32>,
}

impl Line {
    /// A limit of the study.
    pub(crate) fn limit(at: f64, axis: usize, keys: IndexMap<String, String>) -> Self {
        Self { at: Number(at), label: "limit".to_owned(), axis, keys, chosen: Vec::new() }
    }
}

/// Counts in cells.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Heat {
    /// The choices under which it is shown, as in [`Series::keys`].
    #[serde(skip)]
    pub keys: IndexMap<String, String>,
    /// As in [`Series::chosen`].
    #[serde(rename = "of")]
    pub chosen: Vec<i32>,
    /// Position of its configuration.
    pub configuration: usize,
    /// Where the first column begins, in x.
    pub from: Number,
    /// Width of a column, in x.
    pub step: Number,
    /// Number of columns.
    pub columns: usize,
    /// Cells one after another: column, row, count. Row r has values from `2^(r/4)` to `2^((r+1)/4)`.
    pub cells: Vec<u32>,
}

/// One chart.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Chart {
    /// Unique on the page and stable, because addresses contain it.
    pub id: String,
    /// Its title.
    pub title: String,
    /// A description, which is also the text alternative.
    pub about: String,
    /// How it is drawn.
    pub kind: Kind,
    /// Charts of one group share the cursor and the zoom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Where the visible part of the x axis begins at first. Warm-ups are before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Moment>,
    /// Whether configurations are drawn in panels that share their axes. Otherwise all lines are in one plot.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub panels: bool,
    /// The x axis.
    pub x: Axis,
    /// The y axes that series may have; one is shown at a time.
    pub ys: Vec<Axis>,
    /// Lists of x values. Series with equal x values share a list.
    pub xs: Vec<Vec<Option<Moment>>>,
    /// The position of each list in `xs`, by the bits of its values.
    #[serde(skip)]
    pub(crate) known_xs: HashMap<Vec<u64>, usize>,
    /// Lines or points.
    pub series: Vec<Series>,
    /// Cells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heat: Vec<Heat>,
    /// The choices that the reader has.
    pub choices: Vec<Choice>,
    /// Events on the x axis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// Levels on y axes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
}

impl Chart {
    /// An empty chart of lines.
    pub(crate) fn lines(id: &str, title: &str, x: Axis) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            about: String::new(),
            kind: Kind::Lines,
            group: None,
            from: None,
            panels: false,
            x,
            ys: Vec::new(),
            xs: Vec::new(),
            known_xs: HashMap::new(),
            series: Vec::new(),
            heat: Vec::new(),
            choices: Vec::new(),
            marks: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Whether there is anything to draw.
    pub(crate) fn is_empty(&self) -> bool {
        self.heat.is_empty() && self.series.iter().all(|s| s.y.iter().all(Option::is_none))
    }

    /// The position of an axis in [`Self::ys`]. A new axis is added.
    pub(crate) fn axis(&mut self, axis: Axis) -> usize {
        self.ys.iter().position(|known| *known == axis).unwrap_or_else(|| {
            self.ys.push(axis);
            self.ys.len() - 1
        })
    }

    /// Adds a line through these points.
    pub(crate) fn add(&mut self, line: Series, x: Vec<Option<f64>>, y: Vec<Option<f64>>) {
        let x = self.place(x);
        self.series.push(Series { x, y: numbers(y), ..line });
    }

    /// Adds a line through these figures, with their intervals.
    pub(crate) fn add_estimates(&mut self, line: Series, x: Vec<Option<f64>>, y: &[Option<Estimate>]) {
        let ends = |end: fn(&Estimate) -> Option<f64>| y.iter().map(|found| found.as_ref().and_then(end)).collect();
        let line = Series { low: Some(numbers(ends(|e| e.low))), high: Some(numbers(ends(|e| e.high))), ..line };
        self.add(line, x, ends(|e| Some(e.value)));
    }

    /// The position of x values in [`Self::xs`], which many series share.
    fn place(&mut self, values: Vec<Option<f64>>) -> usize {
        let key = values.iter().map(|v| v.map_or(u64::MAX, f64::to_bits)).collect();
        *self.known_xs.entry(key).or_insert_with(|| {
            self.xs.push(values.into_iter().map(|x| x.map(Moment)).collect());
            self.xs.len() - 1
        })
    }

    /// Creates the choices from the keys of series and cells. The choices in `first` come first, each with its key,
    /// label and initial value (by default the first value). Others follow in order of appearance. A key with a
    /// single value is not a choice.
    pub(crate) fn choose(&mut self, first: &[(&str, &str, Option<String>)]) {
        let mut found: IndexMap<String, IndexSet<String>> =
            first.iter().map(|(key, ..)| ((*key).to_owned(), IndexSet::new())).collect();
        for (key, value) in self.series.iter().map(|s| &s.keys).chain(self.heat.iter().map(|h| &h.keys)).flatten() {
            found.entry(key.clone()).or_default().insert(value.clone());
        }
        self.choices = found
            .into_iter()
            .filter(|(_, values)| values.len() > 1)
            .map(|(key, values)| {
                let said = first.iter().find(|(known, ..)| *known == key);
                let chosen = said.and_then(|(.., chosen)| chosen.as_ref()).filter(|chosen| values.contains(*chosen));
                Choice {
                    label: said.map_or_else(|| key.clone(), |(_, label, _)| (*label).to_owned()),
                    chosen: chosen.unwrap_or(&values[0]).clone(),
                    key,
                    values: values.into_iter().collect(),
                }
            })
            .collect();
        let choices = &self.choices;
        let positions = |keys: &IndexMap<String, String>| -> Vec<i32> {
            let of = |choice: &Choice| {
                let at = keys.get(&choice.key).and_then(|value| choice.values.iter().position(|v| v == value));
                at.and_then(|at| i32::try_from(at).ok()).unwrap_or(-1)
            };
            choices.iter().map(of).collect()
        };
        self.series.iter_mut().for_each(|s| s.chosen = positions(&s.keys));
        self.heat.iter_mut().for_each(|h| h.chosen = positions(&h.keys));
        self.lines.iter_mut().for_each(|l| l.chosen = positions(&l.keys));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_true_to_four_digits() {
        let text = |value: f64| serde_json::to_string(&Number(value)).unwrap();
        for (value, shown) in [
            (0.0, "0"),
            (1_234_567.0, "1235000"),
            (0.123_456_789, "0.1235"),
            (1e-9, "1e-9"),
            (12.5, "12.5"),
            (99_999.0, "100000"),
            (-3.0, "-3"),
            (f64::NAN, "null"),
            (f64::INFINITY, "null"),
        ] {
            assert_eq!(text(value), shown, "{value}");
        }
        assert_eq!(serde_json::to_string(&numbers(vec![Some(1.0), None])).unwrap(), "[1,null]");
        // A mark is where its points are.
        let place = 12_346.789_4;
        assert_eq!(serde_json::to_string(&Moment(place)).unwrap(), "12346.789");
        assert_eq!(serde_json::to_string(&vec![Some(Moment(place)), None]).unwrap(), "[12346.789,null]");
    }

    #[test]
    fn a_key_with_one_value_is_no_choice() {
        let mut chart = Chart::lines("x", "X", Axis::new("s", Unit::Seconds, Scale::Linear));
        for (op, percentile) in [("read", "p50"), ("read", "p99")] {
            chart.add(
                Series { keys: keys([("op", op), ("percentile", percentile)]), ..Series::default() },
                vec![],
                vec![],
            );
        }
        chart.choose(&[("percentile", "percentile", Some("p99".to_owned()))]);
        assert_eq!(chart.choices.len(), 1);
        assert_eq!(chart.choices[0].chosen, "p99");
        assert_eq!(chart.series.iter().map(|s| s.chosen[0]).collect::<Vec<_>>(), [0, 1]);
        assert!(chart.is_empty());
    }
}
