//! What the script draws: charts as data, written into the page as JSON.

use std::collections::HashMap;

use indexmap::{IndexMap, IndexSet};
use serde::ser::{Serialize, SerializeSeq as _, Serializer};
use storebench_results::stats::Estimate;

/// A number with four significant digits, written as short as it goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rounded = four_digits(self.0);
        match rounded {
            r if !r.is_finite() => serializer.serialize_none(),
            r if r.fract() == 0.0 && r.abs() < 1e15 => serializer.serialize_i64(r as i64),
            r => serializer.serialize_f64(r),
        }
    }
}

/// To four significant digits: what a chart can show, and a third of the bytes.
fn four_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        let unit = 10f64.powi(-digits);
        return (value / unit).round() * unit;
    }
    // By way of text, so that no tail of a binary fraction stays.
    format!("{value:.*}", digits.unsigned_abs() as usize).parse().unwrap_or(value)
}

/// Numbers, null where there is none.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Numbers(pub Vec<Option<f64>>);

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.0.len()))?;
        for value in &self.0 {
            seq.serialize_element(&value.map(Number))?;
        }
        seq.end()
    }
}

impl FromIterator<Option<f64>> for Numbers {
    fn from_iter<I: IntoIterator<Item = Option<f64>>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

/// Places on an x axis: with more digits, since neighbours have to differ.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Places(pub Vec<Option<f64>>);

impl Serialize for Places {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.0.len()))?;
        for value in &self.0 {
            let rounded = value.map(|v| if v.abs() >= 1.0 { (v * 1e3).round() / 1e3 } else { four_digits(v) });
            match rounded.filter(|v| v.is_finite()) {
                Some(v) if v.fract() == 0.0 && v.abs() < 1e15 => seq.serialize_element(&(v as i64))?,
                other => seq.serialize_element(&other)?,
            }
        }
        seq.end()
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

/// What a number is, which says how it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unit {
    /// Seconds on a time axis.
    Seconds,
    /// Nanoseconds.
    Ns,
    /// Each second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// A share, 0 to 1.
    Share,
    /// How many times as much.
    Ratio,
    /// Money of the price sheet.
    Money,
    /// 1 / (1 - q) of a quantile q.
    Quantile,
    /// A plain number.
    Plain,
}

/// How an axis runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scale {
    /// Evenly, from zero where all values are positive.
    Linear,
    /// By powers of ten.
    Log,
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Axis {
    /// What it shows: `ops/s`.
    pub label: String,
    /// Of which kind its numbers are.
    pub unit: Unit,
    /// How it runs at first; the reader may change it.
    pub scale: Scale,
}

impl Axis {
    /// An axis.
    pub(crate) fn new(label: &str, unit: Unit, scale: Scale) -> Self {
        Self { label: label.to_owned(), unit, scale }
    }
}

/// One line, or one cloud of points.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub(crate) struct Series {
    /// What stands in the legend beside the configuration's name: `trial 3`; empty where the configuration says all.
    pub label: String,
    /// Position of its configuration, which has its colour.
    pub configuration: usize,
    /// Under which choices it is shown, by [`Choice::key`]. A choice that it does not name shows it always.
    #[serde(skip)]
    pub keys: IndexMap<String, String>,
    /// The same as positions in [`Choice::values`], in the order of the chart's choices; -1 where it names none. Set by
    /// [`Chart::choose`].
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
    /// What the table says of it in place of its points: a name, and a figure in the unit of its axis (a count for
    /// `operations`).
    #[serde(skip)]
    pub figures: Vec<(&'static str, f64)>,
}

/// Under which choices something is shown.
pub(crate) fn keys<const N: usize>(of: [(&str, &str); N]) -> IndexMap<String, String> {
    of.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A choice of what is shown.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Choice {
    /// As in [`Series::keys`].
    pub key: String,
    /// Its name beside the list.
    pub label: String,
    /// What may be chosen, in order.
    pub values: Vec<String>,
    /// What is chosen at first.
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
    /// Another level, or a slope.
    Change,
    /// The study broke the server, until clients were answered again.
    Fault,
    /// The store worked in the background.
    Work,
    /// A trial ended early here.
    End,
}

/// A moment or a span on the x axis.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Mark {
    /// From here.
    pub at: Number,
    /// To here; none of a moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Number>,
    /// What it is.
    pub label: String,
    /// Of which kind.
    pub kind: MarkKind,
    /// Position of the configuration that it is of; none of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<usize>,
}

/// A level on a y axis: a limit.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Line {
    /// Its value.
    pub at: Number,
    /// What it is.
    pub label: String,
    /// Position of its axis.
    pub axis: usize,
    /// Under which choices it is shown, as those of series.
    #[serde(skip)]
    pub keys: IndexMap<String, String>,
    /// As that of series.
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
    /// Under which choices it is shown.
    #[serde(skip)]
    pub keys: IndexMap<String, String>,
    /// As that of series.
    #[serde(rename = "of")]
    pub chosen: Vec<i32>,
    /// Position of its configuration.
    pub configuration: usize,
    /// Where the first column begins, and how wide each is.
    pub from: Number,
    /// Width of a column, in x.
    pub step: Number,
    /// Columns.
    pub columns: usize,
    /// Cells one behind the other: column, row, count. Row r holds values from `2^(r/4)` to `2^((r+1)/4)`.
    pub cells: Vec<u32>,
}

/// One chart.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Chart {
    /// Unique in the page, and stable: part of its address.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What to see, in words: also the text alternative.
    pub about: String,
    /// How it is drawn.
    pub kind: Kind,
    /// Charts of one group share the cursor and the zoom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Where the x axis begins at first: before it are warm-ups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Number>,
    /// Whether configurations are drawn in panels, which share their axes. Otherwise all lines are in one place.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub panels: bool,
    /// The x axis.
    pub x: Axis,
    /// The y axes that series may have; one is shown at a time.
    pub ys: Vec<Axis>,
    /// x values, each list once.
    pub xs: Vec<Places>,
    /// Where each list of them is, by its bits.
    #[serde(skip)]
    pub(crate) known_xs: HashMap<Vec<u64>, usize>,
    /// Lines or points.
    pub series: Vec<Series>,
    /// Cells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heat: Vec<Heat>,
    /// What the reader may choose.
    pub choices: Vec<Choice>,
    /// What happened on the x axis.
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
        self.heat.is_empty() && self.series.iter().all(|s| s.y.0.iter().all(Option::is_none))
    }

    /// The position of an axis among [`Self::ys`], added where it is new.
    pub(crate) fn axis(&mut self, axis: Axis) -> usize {
        position(&mut self.ys, axis)
    }

    /// Adds a line through these points.
    pub(crate) fn add(&mut self, line: Series, x: Vec<Option<f64>>, y: Vec<Option<f64>>) {
        let x = self.place(x);
        self.series.push(Series { x, y: Numbers(y), ..line });
    }

    /// Adds a line through these figures, with their intervals.
    pub(crate) fn add_estimates(&mut self, line: Series, x: Vec<Option<f64>>, y: &[Option<Estimate>]) {
        let ends = |end: fn(&Estimate) -> Option<f64>| y.iter().map(|found| found.as_ref().and_then(end)).collect();
        let line = Series { low: Some(Numbers(ends(|e| e.low))), high: Some(Numbers(ends(|e| e.high))), ..line };
        self.add(line, x, ends(|e| Some(e.value)));
    }

    /// The position of x values among [`Self::xs`], which many series share.
    fn place(&mut self, values: Vec<Option<f64>>) -> usize {
        let key = values.iter().map(|v| v.map_or(u64::MAX, f64::to_bits)).collect();
        *self.known_xs.entry(key).or_insert_with(|| {
            self.xs.push(Places(values));
            self.xs.len() - 1
        })
    }

    /// Makes the choices of what series and cells have as keys: first these, each with its name and what is shown at first
    /// (else the first value), then others in the order they come. A key with one value only is no choice.
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

fn position<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
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
        assert_eq!(serde_json::to_string(&Numbers(vec![Some(1.0), None])).unwrap(), "[1,null]");
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
