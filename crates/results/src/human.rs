//! Figures for people: three digits and a unit.

use crate::stats::Estimate;

/// `850 ns`, `12.3 µs`, `4.56 ms`, `1.02 s`, `3 m 20 s`.
pub fn duration(ns: f64) -> String {
    match ns {
        _ if ns < 999.5 => format!("{ns:.0} ns"),
        _ if ns < 999.5e3 => format!("{} µs", digits(ns / 1e3)),
        _ if ns < 999.5e6 => format!("{} ms", digits(ns / 1e6)),
        _ if ns < 120e9 => format!("{} s", digits(ns / 1e9)),
        _ => {
            let seconds = (ns / 1e9).round() as u64;
            match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
                (0, m, 0) => format!("{m} m"),
                (0, m, s) => format!("{m} m {s} s"),
                (h, m, _) if h < 48 => format!("{h} h {m} m"),
                (h, ..) if h < 2 * 365 * 24 => format!("{} d {} h", h / 24, h % 24),
                // A year too few or too many says nothing more.
                (h, ..) => match h / (365 * 24) {
                    years if years < 1_000 => format!("{years} years"),
                    years => format!("{} years", count((years + 50) / 100 * 100)),
                },
            }
        }
    }
}

/// Three significant digits, no exponent: `0.123`, `1.23`, `12.3`, `123`, `1,234`.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if size < 0.9995 => format!("{value:.3}"),
        _ if size < 9.995 => format!("{value:.2}"),
        _ if size < 99.95 => format!("{value:.1}"),
        _ => count(value.round() as u64),
    }
}

/// A number as people write it: whole as it is, else three digits.
pub(crate) fn number(value: f64) -> String {
    if value == value.trunc() && (0.0..1e15).contains(&value) { count(value as u64) } else { digits(value) }
}

/// `12,345`.
pub fn count(n: u64) -> String {
    storebench_study::units::Count(n).to_string()
}

/// Per second: `812`, `12.3 k`, `4.56 M`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        _ if per_second < 9_999.5 => digits(per_second),
        _ if per_second < 999.5e3 => format!("{} k", digits(per_second / 1e3)),
        _ => format!("{} M", digits(per_second / 1e6)),
    }
}

/// `512 B`, `2.2 KiB`, `7.5 GiB`.
pub fn bytes(n: f64) -> String {
    let mut size = n;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size < 1_023.5 {
            return if unit == "B" { format!("{size:.0} B") } else { format!("{} {unit}", digits(size)) };
        }
        size /= 1_024.0;
    }
    format!("{} TiB", digits(size))
}

/// A share from 0 to 1 as `12.3 %`. Something small is not shown as nothing.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p > 0.0 && p < 0.01 => "<0.01 %".to_owned(),
        // Not quite all must not look like all.
        p if p > 99.9 && p < 100.0 => format!("{:.2} %", (p * 100.0).floor() / 100.0),
        p if p == p.trunc() => format!("{p:.0} %"),
        p if p < 0.9995 => format!("{p:.2} %"),
        p => format!("{} %", digits(p)),
    }
}

/// `1 request`, `2 requests`.
pub fn plural(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A time to the minute: `2026-11-25 10:15`.
pub fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

/// The start of a text of more than `most` characters, with `…`; a shorter one as it is.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn listed<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<T> = all.into_iter().collect();
    let all: Vec<&str> = all.iter().map(T::as_ref).collect();
    match &all[..] {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

/// The first of these, and the number of the others: `a, b and 3 more`.
pub fn some_of(all: impl IntoIterator<Item = String>, most: usize) -> String {
    listed(first_of(all, most, |more| format!("{} more", count(more))))
}

/// The first of these texts, and what `rest` says about the number of the others, if there are any.
pub(crate) fn first_of(
    all: impl IntoIterator<Item = String>,
    most: usize,
    rest: impl Fn(u64) -> String,
) -> Vec<String> {
    let mut all: Vec<String> = all.into_iter().collect();
    let more = all.len().saturating_sub(most);
    all.truncate(most);
    all.extend((more > 0).then(|| rest(more as u64)));
    all
}

/// In place of an interval [so wide](is_beyond).
pub(crate) const BEYOND: &str = "(interval over 1,000-fold)";

/// Half of an interval's width, relative to the value: `± 3 %`; `(interval over 1,000-fold)`.
pub fn half_width(half: f64) -> String {
    match half < 999.0 {
        true => format!("± {}", percent(half)),
        false => BEYOND.to_owned(),
    }
}

/// Whether the ends of an interval are more than tenfold apart: such an interval says nothing of use.
pub(crate) fn is_useless(of: &Estimate) -> bool {
    of.low.zip(of.high).is_some_and(|(low, high)| !(high.is_finite() && high <= low * 10.0))
}

/// How many operations a client has under way at most: `2 workers × 4 connections, 8 operations at a time on each`.
pub fn workers(workers: u32, connections: u32, in_flight: u32) -> String {
    let mut text = plural(workers.into(), "worker");
    if connections > 1 {
        text += &format!(" × {} connections", count(connections.into()));
    }
    match in_flight {
        0 | 1 => text,
        several => format!("{text}, {} operations at a time on each", count(several.into())),
    }
}

/// Whether an end of an interval is more than a thousandfold away from the value, so that its digits are of no use.
pub(crate) fn is_beyond(of: &Estimate) -> bool {
    of.low.zip(of.high).is_some_and(|(low, high)| {
        !high.is_finite() || high > of.value.abs() * 1_000.0 || of.value > low.abs() * 1_000.0
    })
}

/// `×1.23 [1.20, 1.26]`; without an interval `×1.23`; `×1.23 (interval over 1,000-fold)`.
pub fn ratio(ratio: &Estimate) -> String {
    match (ratio.low, ratio.high) {
        _ if is_beyond(ratio) => format!("×{} {BEYOND}", digits(ratio.value)),
        (Some(low), Some(high)) => format!("×{} [{}, {}]", digits(ratio.value), digits(low), digits(high)),
        _ => format!("×{}", digits(ratio.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        assert_eq!(duration(0.0), "0 ns");
        assert_eq!(duration(12_345.0), "12.3 µs");
        assert_eq!(duration(999_700.0), "1.00 ms");
        assert_eq!(duration(1.5e9), "1.50 s");
        assert_eq!(duration(200e9), "3 m 20 s");
        assert_eq!(rate(812.4), "812");
        assert_eq!(rate(12_345.0), "12.3 k");
        assert_eq!(bytes(2_253.0), "2.20 KiB");
        assert_eq!(percent(0.00001), "<0.01 %");
        assert_eq!(percent(0.99999), "99.99 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.125), "12.5 %");
        assert_eq!(half_width(0.03), "± 3 %");
        assert_eq!(half_width(63_338.01), BEYOND);
        assert_eq!(half_width(f64::INFINITY), BEYOND);
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(workers(2, 1, 1), "2 workers");
        assert_eq!(workers(1, 4, 1), "1 worker × 4 connections");
        assert_eq!(workers(2, 1, 8), "2 workers, 8 operations at a time on each");
    }
}
