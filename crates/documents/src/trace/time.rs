//! Times in traces.

/// A number of seconds, such as `1795752129.123456`, in ns. `None` if it is no such number. Up to nine decimals count.
pub fn seconds_ns(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        _ => (1, text),
    };
    let point = memchr::memchr(b'.', digits).unwrap_or(digits.len());
    let (whole, decimals) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
    if whole.is_empty() || whole.len() > 10 || (point < digits.len() && decimals.is_empty()) {
        return None;
    }
    let mut ns: i64 = 0;
    for byte in whole {
        ns = ns * 10 + i64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    for place in 0..9 {
        let digit = decimals.get(place).map_or(Some(0), |byte| byte.is_ascii_digit().then(|| byte - b'0'))?;
        ns = ns.checked_mul(10)?.checked_add(i64::from(digit))?;
    }
    decimals.iter().skip(9).all(u8::is_ascii_digit).then_some(sign * ns)
}

/// A time as text: a number of seconds, or RFC 3339. Without a time zone it is UTC.
pub(super) fn of_text(text: &[u8]) -> Option<i64> {
    seconds_ns(text).or_else(|| {
        let text = std::str::from_utf8(text).ok()?;
        // Such as 5e-06.
        if text.contains(['e', 'E']) && !text.contains([':', 'T']) {
            let seconds: f64 = text.parse().ok().filter(|seconds: &f64| seconds.abs() < 1e10)?;
            return Some((seconds * 1e9).round() as i64);
        }
        let without_zone = || text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
        let at = text.parse::<jiff::Timestamp>().ok().or_else(|| Some(without_zone()?.timestamp()))?;
        i64::try_from(at.as_nanosecond()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact_to_the_nanosecond() {
        assert_eq!(seconds_ns(b"1795752129.123456789"), Some(1_795_752_129_123_456_789));
        assert_eq!(seconds_ns(b"0"), Some(0));
        assert_eq!(seconds_ns(b"1.5"), Some(1_500_000_000));
        assert_eq!(seconds_ns(b"-0.25"), Some(-250_000_000));
        assert_eq!(seconds_ns(b"0.1234567899"), Some(123_456_789), "further decimals are cut");
        for wrong in ["", ".", "1.", ".5", "1e3", "1.2.3", "99999999999", "x", "1.x", "0.123456789x", "1 "] {
            assert_eq!(seconds_ns(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(of_text(b"1970-01-01T00:00:01.5Z"), Some(1_500_000_000));
        assert_eq!(of_text(b"1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(of_text(b"1970-01-01T00:00:02.000001"), Some(2_000_001_000));
        assert_eq!(of_text(b"5e-06"), Some(5_000));
        assert_eq!((of_text(b"yesterday"), of_text(b"1e99")), (None, None));
    }
}
