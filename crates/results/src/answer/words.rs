//! Ratios, intervals and figures in words.

use storebench_study::workload::{FactorValues, short_names, shown_value};

use crate::human::{digits, listed};
use crate::stats::Estimate;

/// Precedes the ends of an interval. [`named_once`] leaves only the first of a text.
const NAMED: &str = "95 % interval ";

/// The ends of an interval, however wide: `95 % interval 2.70 to 3.50`. `None` without one.
pub(super) fn ends(of: &Estimate, show: impl Fn(f64) -> String) -> Option<String> {
    let (low, high) = of.low.zip(of.high)?;
    (low.is_finite() && high.is_finite() && low < high).then(|| format!("{NAMED}{} to {}", show(low), show(high)))
}

/// The same in parentheses, after a space. Empty without an interval.
pub(super) fn interval(of: &Estimate, show: impl Fn(f64) -> String) -> String {
    ends(of, show).map_or_else(String::new, |ends| format!(" ({ends})"))
}

/// `3.10 times (95 % interval 2.70 to 3.50)`.
pub(super) fn times(ratio: &Estimate) -> String {
    format!("{} times{}", digits(ratio.value), interval(ratio, digits))
}

/// The same within parentheses: `1.01 times, 95 % interval 0.970 to 1.05`.
pub(super) fn times_inside(ratio: &Estimate) -> String {
    let ends = ends(ratio, digits).map_or_else(String::new, |ends| format!(", {ends}"));
    format!("{} times{ends}", digits(ratio.value))
}

/// Values of factors: ` with batch = 100 and compress_to = 0.5`.
pub(super) fn with_values(values: &FactorValues) -> String {
    let names = short_names(values.keys().map(String::as_str).collect::<Vec<_>>());
    let name = |path: &String| names.get(path.as_str()).copied().unwrap_or_default();
    let told = values.iter().map(|(path, value)| format!("{} = {}", name(path), shown_value(value)));
    format!(" with {}", listed(told))
}

/// Says only at the first interval that it is one.
pub(super) fn named_once(text: &str) -> String {
    match text.split_once(NAMED) {
        Some((before, after)) => format!("{before}{NAMED}{}", after.replace(NAMED, "")),
        None => text.to_owned(),
    }
}

/// The text with a capital letter.
pub(super) fn capital(text: &str) -> String {
    let mut all = text.chars();
    all.next().map_or_else(String::new, |first| first.to_uppercase().chain(all).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low: Some(low), high: Some(high), trials: 3 }
    }

    #[test]
    fn the_ends_of_an_interval_are_printed_however_wide() {
        assert_eq!(times(&estimate(3.1, 2.7, 3.5)), "3.10 times (95 % interval 2.70 to 3.50)");
        assert_eq!(times(&estimate(3.1, 0.001, 9_000.0)), "3.10 times (95 % interval 0.001 to 9,000)");
        assert_eq!(times_inside(&estimate(1.01, 0.97, 1.05)), "1.01 times, 95 % interval 0.970 to 1.05");
        // What has no width or no end has no interval.
        assert_eq!(times(&estimate(1.0, 1.0, 1.0)), "1.00 times");
        assert_eq!(times(&estimate(1.0, 0.5, f64::INFINITY)), "1.00 times");
        assert_eq!(times(&Estimate { value: 2.0, low: None, high: None, trials: 1 }), "2.00 times");
    }

    #[test]
    fn only_the_first_interval_is_named() {
        assert_eq!(
            named_once("a (95 % interval 1 to 2), b (95 % interval 3 to 4)"),
            "a (95 % interval 1 to 2), b (3 to 4)"
        );
        assert_eq!(named_once("none"), "none");
    }
}
