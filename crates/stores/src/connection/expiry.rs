//! When a document expires, as memcached takes it, and Couchbase too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// These servers take longer times for dates.
const LONGEST_RELATIVE_S: u64 = 30 * 24 * 60 * 60;

/// The expiry in whole seconds from now, at least 1 because 0 would mean never. Beyond 30 days, it is the date in seconds
/// since 1970, at most `latest`. A document never lives shorter than requested.
pub(crate) fn expiry_s(expiry: Duration, latest: u64) -> u64 {
    let seconds = (expiry.as_secs() + u64::from(expiry.subsec_nanos() > 0)).max(1);
    if seconds <= LONGEST_RELATIVE_S {
        return seconds;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    now.saturating_add(seconds).min(latest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_is_a_date() {
        let of = |expiry| expiry_s(expiry, u32::MAX.into());
        assert_eq!((of(Duration::ZERO), of(Duration::from_millis(1_500))), (1, 2));
        let year = Duration::from_secs(365 * 86_400);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(of(year) >= now.as_secs() + year.as_secs() - 1);
        assert_eq!(expiry_s(Duration::from_secs(u64::MAX), 7), 7);
    }
}
