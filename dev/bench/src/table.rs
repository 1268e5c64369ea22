//! The table.

use std::fmt;

use crate::figure::{Figure, Outcome, Samples, Target, Unit};
use crate::machine::Machine;

/// Everything that was measured.
pub(crate) struct Report {
    pub(crate) before: Machine,
    pub(crate) after: Machine,
    pub(crate) rounds: usize,
    pub(crate) figures: Vec<Figure>,
}

impl Report {
    /// Whether every target was met.
    pub(crate) fn all_met(&self) -> bool {
        self.figures.iter().all(|f| matches!(f.outcome(), Outcome::Met | Outcome::Told))
    }
}

/// Two or three significant digits, or integers with thousands separators.
fn number(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        m if !m.is_finite() => "-".into(),
        m if m >= 999.5 => {
            let digits = format!("{magnitude:.0}");
            let mut out = if value < 0.0 { String::from("-") } else { String::new() };
            for (i, digit) in digits.chars().enumerate() {
                if i > 0 && (digits.len() - i) % 3 == 0 {
                    out.push(',');
                }
                out.push(digit);
            }
            out
        }
        m if m >= 99.95 => format!("{value:.0}"),
        m if m >= 9.995 => format!("{value:.1}"),
        m if m > 0.0 && m < 0.0995 => {
            // Two significant digits, however small the number.
            let places = (1.0 - m.log10().floor()) as usize;
            format!("{value:.places$}")
        }
        _ => format!("{value:.2}"),
    }
}

fn spread(samples: &Samples, unit: Option<Unit>) -> String {
    let unit = unit.map_or(String::new(), |u| format!(" {}", u.name()));
    let (least, greatest) = (number(samples.least()), number(samples.greatest()));
    let median = number(samples.median());
    if least == greatest { format!("{median}{unit}") } else { format!("{median}{unit} ({least}–{greatest})") }
}

fn target(figure: &Figure) -> String {
    let unit = figure.unit.name();
    match figure.target {
        None => String::new(),
        Some(Target::AtLeast(t)) => format!("≥ {} {unit}", number(t)),
        Some(Target::AtMost(t)) => format!("≤ {} {unit}", number(t)),
        Some(Target::RatioAtLeast(t)) => format!("ratio ≥ {}", number(t)),
        Some(Target::RatioAtMost(t)) => format!("ratio ≤ {}", number(t)),
    }
}

const HEAD: [&str; 6] = ["what", "ours", "reference", "ratio", "target", ""];

fn row(figure: &Figure) -> [String; 6] {
    let check = match figure.outcome() {
        Outcome::Met => "met",
        Outcome::Missed => "*** MISSED ***",
        Outcome::NotMeasured(_) => "*** NOT MEASURED ***",
        Outcome::Told => "",
    };
    let reference = figure
        .reference
        .as_ref()
        .map(|r| format!("{}: {}", r.what, spread(&r.values, Some(figure.unit))))
        .unwrap_or_default();
    [
        format!("  {}", figure.what),
        if figure.ours.0.is_empty() { String::new() } else { spread(&figure.ours, Some(figure.unit)) },
        reference,
        figure.ratio().map(|r| spread(&r, None)).unwrap_or_default(),
        target(figure),
        check.into(),
    ]
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after, rounds, figures } = self;
        writeln!(f, "{before}")?;
        writeln!(
            f,
            "{rounds} rounds, every figure and its reference in each; medians (least–greatest), ratios within rounds"
        )?;
        let (load_before, load_after, cores) = (before.load, after.load, before.cores);
        write!(f, "load {load_before:.1} before, {load_after:.1} after, on {cores} cores")?;
        // This program keeps about one thread busy.
        if load_before > 0.5 {
            write!(f, ": THE MACHINE WAS NOT QUIET; figures of wall time are worse for it")?;
        }
        writeln!(f, "\n")?;
        let rows: Vec<[String; 6]> = figures.iter().map(row).collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([HEAD[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: [usize; 6] = std::array::from_fn(width);
        let line = |f: &mut fmt::Formatter<'_>, cells: [&str; 6]| {
            let mut text = String::new();
            for (cell, width) in cells.iter().zip(widths) {
                text += &format!("{cell:width$}  ");
            }
            writeln!(f, "{}", text.trim_end())
        };
        line(f, HEAD)?;
        let mut topic = "";
        for (figure, row) in figures.iter().zip(&rows) {
            if figure.topic != topic {
                topic = figure.topic;
                writeln!(f, "{topic}")?;
            }
            line(f, std::array::from_fn(|column| row[column].as_str()))?;
            for note in &figure.notes {
                writeln!(f, "      {note}")?;
            }
        }
        writeln!(f)?;
        self.summary(f)
    }
}

impl Report {
    fn summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |outcome: &Outcome| self.figures.iter().filter(|f| f.outcome() == *outcome).count();
        let (met, missed) = (count(&Outcome::Met), count(&Outcome::Missed));
        let lost: Vec<(&Figure, String)> = self
            .figures
            .iter()
            .filter_map(|f| match f.outcome() {
                Outcome::NotMeasured(why) => Some((f, why)),
                _ => None,
            })
            .collect();
        writeln!(f, "{met} of {} targets met", met + missed + lost.len())?;
        for figure in self.figures.iter().filter(|f| f.outcome() == Outcome::Missed) {
            let [what, ours, _, ratio, target, _] = row(figure);
            let what = what.trim();
            let got = match figure.target {
                Some(Target::RatioAtLeast(_) | Target::RatioAtMost(_)) => format!("ratio {ratio}"),
                _ => ours,
            };
            writeln!(f, "*** MISSED *** {} {what}: {got}, should be {target}", figure.topic)?;
        }
        for (figure, why) in lost {
            writeln!(f, "*** NOT MEASURED *** {} {}: {why}", figure.topic, figure.what)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_two_digits_at_least() {
        for (value, text) in [
            (1_234_567.8, "1,234,568"),
            (999.6, "1,000"),
            (123.4, "123"),
            (99.96, "100"),
            (12.34, "12.3"),
            (1.234, "1.23"),
            (0.5, "0.50"),
            (0.0, "0.00"),
            (0.000_388, "0.00039"),
            (0.0499, "0.050"),
            (-1234.0, "-1,234"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn what_is_missed_is_loud() {
        let figure = |value: f64| {
            Figure::new("engine", "write", Unit::Ns, Samples(vec![value, value + 10.0, value + 20.0]))
                .beside("by hand", Samples(vec![300.0; 3]))
                .target(Target::AtMost(500.0))
        };
        let machine = Machine::look();
        let report = |figures| Report { before: machine.clone(), after: machine.clone(), rounds: 3, figures };
        let good = report(vec![figure(400.0)]);
        assert!(good.all_met());
        let text = good.to_string();
        assert!(
            text.contains("410 ns (400–420)") && text.contains("by hand: 300 ns") && text.contains("1.37"),
            "{text}"
        );
        assert!(text.contains("1 of 1 targets met") && !text.contains("MISSED"), "{text}");
        let bad = report(vec![figure(400.0), figure(600.0), Figure::not_measured("embedded", "redb", "disk full")]);
        assert!(!bad.all_met());
        let text = bad.to_string();
        assert!(text.contains("*** MISSED *** engine write: 610 ns (600–620), should be ≤ 500 ns"), "{text}");
        assert!(text.contains("*** NOT MEASURED *** embedded redb: disk full"), "{text}");
        assert!(text.contains("1 of 3 targets met"), "{text}");
    }
}
