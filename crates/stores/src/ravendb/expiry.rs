//! The time of day as RavenDB writes it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `2026-11-21T23:39:23.4520000Z` for the time that lies `after` from now, by this machine's clock.
/// The year 9999 bounds it, which .NET's dates do too.
pub(super) fn expires_at(after: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    text(now.saturating_add(after))
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
