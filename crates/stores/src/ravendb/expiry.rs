//! Times in RavenDB's format.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::SignedDuration;
use jiff::civil::DateTime;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The time `after` from now, by this machine's clock, such as `2026-11-21T23:39:23.4520000Z`. It is at most in the
/// year 9999, like .NET's dates.
pub(super) fn expires_at(after: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    text(now.saturating_add(after))
}

/// The time left until an expiry in RavenDB's format, by this machine's clock. `None` for an invalid time, and for one
/// without a time zone, for which RavenDB would use its server's.
pub(super) fn left(text: &str) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(time(text)?.saturating_sub(now))
}

/// Parses a time, as the duration since 1970.
fn time(text: &str) -> Option<Duration> {
    let (whole, rest) = text.split_at_checked("1970-01-01T00:00:00".len())?;
    // Not a `Timestamp`: its range ends before .NET's last day, which usually stands for never.
    let whole = DateTime::strptime("%Y-%m-%dT%H:%M:%S", whole).ok()?;
    let (digits, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
        None => ("", rest),
    };
    let nanos: i64 = format!("{digits:0<9}").get(..9)?.parse().ok()?;
    let number = |text: &str| text.parse::<i64>().ok();
    let east_minutes = match zone.split_at_checked(1)? {
        ("Z", "") => 0,
        (sign @ ("+" | "-"), offset) => {
            let (hours, minutes) = offset.split_once(':')?;
            (number(hours)? * 60 + number(minutes)?) * if sign == "+" { 1 } else { -1 }
        }
        _ => return None,
    };
    let since =
        whole.duration_since(EPOCH) + SignedDuration::from_nanos(nanos) - SignedDuration::from_mins(east_minutes);
    Some(Duration::try_from(since).unwrap_or_default())
}

fn text(since_1970: Duration) -> String {
    let since = SignedDuration::try_from(since_1970).unwrap_or(SignedDuration::MAX);
    EPOCH.saturating_add(since).strftime("%Y-%m-%dT%H:%M:%S%.3f0000Z").to_string()
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
        for text in [
            "",
            "soon",
            "2030-99-99T99:99:99Z",
            "2030-02-30T00:00:00Z",
            "2030-01-01",
            "2030-01-01T12:00:00",
            "2030-01-01T12:00:00.5",
            "2030-01-01T12:00:00+1",
        ] {
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
