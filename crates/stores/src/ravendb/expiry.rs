//! The time of day as RavenDB writes it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `2026-11-21T23:39:23.4520000Z` for the time that lies `after` from now, by this machine's clock.
/// The year 9999 bounds it, which .NET's dates do too.
pub(super) fn expires_at(after: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    text(now.saturating_add(after))
}

/// How long something has left that expires at a time as RavenDB takes them, by this machine's clock. None for
/// what is no such time, or tells no time zone: then RavenDB takes that of its server.
pub(super) fn left(text: &str) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(time(text)?.saturating_sub(now))
}

/// The time that a text says, since 1970.
fn time(text: &str) -> Option<Duration> {
    let (whole, rest) = text.split_at_checked("1970-01-01T00:00:00".len())?;
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| whole.as_bytes()[*at] != *mark) {
        return None;
    }
    let number = |text: &str| text.parse::<i64>().ok();
    let part = |from: usize, to: usize| number(whole.get(from..to)?);
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (digits, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
        None => ("", rest),
    };
    let nanos: u32 = format!("{digits:0<9}").get(..9)?.parse().ok()?;
    let east_minutes = match zone.split_at_checked(1)? {
        ("Z", "") => 0,
        (sign @ ("+" | "-"), offset) => {
            let (hours, minutes) = offset.split_once(':')?;
            (number(hours)? * 60 + number(minutes)?) * if sign == "+" { 1 } else { -1 }
        }
        _ => return None,
    };
    // The way back of what `text` does.
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let seconds = days * 86_400 + part(11, 13)? * 3_600 + (part(14, 16)? - east_minutes) * 60 + part(17, 19)?;
    Some(u64::try_from(seconds).map_or(Duration::ZERO, |seconds| Duration::new(seconds, nanos)))
}

fn text(since_1970: Duration) -> String {
    const LAST_S: u64 = 253_402_300_799;
    let seconds = since_1970.as_secs().min(LAST_S);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days to a date of the Gregorian calendar, in years that begin in March
    // (https://howardhinnant.github.io/date_algorithms.html#civil_from_days).
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}0000Z",
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60,
        since_1970.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for ms in [0, 951_782_400_123, 951_868_799_999, 1_582_934_400_000, 4_107_542_400_001, 253_402_300_799_999] {
            let at = Duration::from_millis(ms);
            assert_eq!(time(&text(at)), Some(at), "{}", text(at));
        }
        let noon = Some(Duration::from_secs(1_893_499_200));
        for text in ["2030-01-01T12:00:00Z", "2030-01-01T14:30:00+02:30", "2030-01-01T07:00:00.000-05:00"] {
            assert_eq!(time(text), noon, "{text}");
        }
        assert_eq!(time("1969-12-31T23:59:59Z"), Some(Duration::ZERO));
        assert_eq!(left("2001-01-01T00:00:00Z"), Some(Duration::ZERO));
        for text in ["", "soon", "2030-01-01", "2030-01-01T12:00:00", "2030-01-01T12:00:00.5", "2030-01-01T12:00:00+1"]
        {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| text(Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.0000000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.0000000Z");
        assert_eq!(at(1_582_934_399), "2020-02-28T23:59:59.0000000Z");
        assert_eq!(at(1_582_934_400), "2020-02-29T00:00:00.0000000Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59.0000000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.0000000Z");
        assert_eq!(text(Duration::MAX).get(..20), Some("9999-12-31T23:59:59."));
    }
}
