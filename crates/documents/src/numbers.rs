//! Writes numbers, timestamps and identifiers as text, without allocation.

use storebench_study::scramble;
use storebench_study::workload::TimeForm;

use super::random::Rng;

/// Appends an integer, padded with zeros to `width` digits, at most 40.
#[inline]
pub(crate) fn write_u64(n: u64, width: usize, out: &mut Vec<u8>) {
    const ZEROS: [u8; 40] = [b'0'; 40];
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(n).as_bytes();
    if let Some(missing) = width.checked_sub(digits.len()) {
        out.extend_from_slice(&ZEROS[..missing.min(ZEROS.len())]);
    }
    out.extend_from_slice(digits);
}

/// Appends an integer with its sign.
#[inline]
pub(crate) fn write_i64(n: i64, width: usize, out: &mut Vec<u8>) {
    if n < 0 {
        out.push(b'-');
    }
    write_u64(n.unsigned_abs(), width, out);
}

/// Number of decimal digits of `n`.
pub(crate) fn digits_of(n: u64) -> u64 {
    u64::from(n.checked_ilog10().unwrap_or(0)) + 1
}

/// Appends `n / 10^digits` as a JSON number.
pub(crate) fn write_decimal(n: i64, digits: u8, out: &mut Vec<u8>) {
    if digits == 0 {
        return write_i64(n, 0, out);
    }
    let scale = 10u64.pow(u32::from(digits));
    if n < 0 {
        out.push(b'-');
    }
    write_u64(n.unsigned_abs() / scale, 0, out);
    out.push(b'.');
    write_u64(n.unsigned_abs() % scale, usize::from(digits), out);
}

/// Seconds since 1970 of the first and the last timestamp whose year has four digits.
pub(crate) const MOMENTS: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Appends a timestamp as `2018-01-31T12:00:00Z` (20 bytes). Converts days to dates as in Howard Hinnant,
/// "chrono-compatible low-level date algorithms".
pub(crate) fn write_moment(seconds: i64, out: &mut Vec<u8>) {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as u64);
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    write_u64(year.unsigned_abs(), 4, out);
    out.push(b'-');
    write_u64(month as u64, 2, out);
    out.push(b'-');
    write_u64(day as u64, 2, out);
    out.push(b'T');
    write_u64(second / 3_600, 2, out);
    out.push(b':');
    write_u64(second / 60 % 60, 2, out);
    out.push(b':');
    write_u64(second % 60, 2, out);
    out.push(b'Z');
}

/// Appends a timestamp in a form. `rng` gives the milliseconds.
pub(crate) fn write_time(seconds: i64, form: TimeForm, rng: &mut Rng, out: &mut Vec<u8>) {
    write_moment(seconds, out);
    match form {
        TimeForm::Seconds => {}
        TimeForm::Milliseconds => {
            out.pop();
            out.push(b'.');
            write_u64(rng.below(1_000), 3, out);
            out.push(b'Z');
        }
        TimeForm::Date => out.truncate(out.len() - "T12:00:00Z".len()),
    }
}

fn write_hex(n: u64, digits: u32, out: &mut Vec<u8>) {
    for i in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(n >> (4 * i) & 15) as usize]);
    }
}

/// Appends a UUID in the layout of version 4 (RFC 9562). Under one `seed`, each `index` gives a different UUID, because
/// 64 of its bits are a bijection of the index.
pub(crate) fn write_uuid(seed: u64, index: u64, out: &mut Vec<u8>) {
    let unique = scramble(index ^ seed);
    let rest = Rng::of(seed, index, 1).next_u64();
    write_hex(unique >> 32, 8, out);
    out.push(b'-');
    write_hex(unique >> 16 & 0xffff, 4, out);
    out.extend_from_slice(b"-4");
    write_hex(rest & 0xfff, 3, out);
    out.push(b'-');
    write_hex(0x8000 | (rest >> 12 & 0x3fff), 4, out);
    out.push(b'-');
    write_hex(unique & 0xffff, 4, out);
    write_hex(rest >> 26 & 0xffff_ffff, 8, out);
}

/// Appends 24 hexadecimal digits. Under one `seed`, each `index` gives different digits.
pub(crate) fn write_hex_id(seed: u64, index: u64, out: &mut Vec<u8>) {
    write_hex(scramble(index ^ seed), 16, out);
    write_hex(Rng::of(seed, index, 1).next_u64() & 0xffff_ffff, 8, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn integers_print(n: u64, m: i64, width in 0usize..25) {
            prop_assert_eq!(text(|o| write_u64(n, width, o)), format!("{n:0width$}"));
            prop_assert_eq!(text(|o| write_i64(m, 0, o)), m.to_string());
        }

        #[test]
        fn moments_print(seconds in MOMENTS) {
            let expected = jiff::Timestamp::from_second(seconds).unwrap().to_string();
            prop_assert_eq!(text(|o| write_moment(seconds, o)), expected);
        }

        #[test]
        fn decimals_print(n in -(1i64 << 53)..1i64 << 53, digits in 0u8..10) {
            let value: f64 = text(|o| write_decimal(n, digits, o)).parse().unwrap();
            let expected = n as f64 / 10f64.powi(digits.into());
            prop_assert!((value - expected).abs() <= expected.abs() * 1e-12);
        }
    }

    #[test]
    fn identifiers_have_their_layout_and_differ() {
        let mut seen = std::collections::HashSet::new();
        for index in 0..20_000 {
            let id = text(|o| write_uuid(3, index, o));
            assert_eq!(id.len(), 36);
            assert_eq!(&id[14..15], "4");
            assert!("89ab".contains(&id[19..20]), "{id}");
            assert!(seen.insert(id));
            let hex = text(|o| write_hex_id(3, index, o));
            assert_eq!(hex.len(), 24);
            assert!(seen.insert(hex));
        }
    }
}
