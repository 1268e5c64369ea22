//! Keys of a table of another program. From a text that is no key of the column, the server would take another one: 7 from
//! `7x`, and `o` from `ö`.

/// Which texts are keys of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    Any,
    /// The collation takes texts for one that differ in more than case, as `o` and `ö` or `a` and `a `. Any text finds
    /// its row. Only those are written of which no two are one but for their case.
    Collated,
    /// `VARCHAR` of this many characters. The server cuts off spaces that are beyond them.
    Within(usize),
    /// `BINARY` of this many bytes. The server fills shorter ones with zeros.
    Fixed(usize),
    Signed,
    Unsigned,
    /// The server reads 7 as 2007.
    Year,
    /// With this many decimals.
    Decimal(usize),
    Float,
    Date,
    Moment,
    Time,
}

impl Keys {
    /// Whether a text is a key, and no other text is the same one but by [`SameKeys`](storebench_engine::store::SameKeys).
    pub(super) fn have(self, key: &str, writes: bool) -> bool {
        let number = |also: &[u8]| {
            key.bytes().all(|byte| byte.is_ascii_digit() || also.contains(&byte))
                && key.parse().is_ok_and(f64::is_finite)
        };
        match self {
            Self::Any => true,
            Self::Collated => !writes || (key.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !key.ends_with(' ')),
            Self::Within(most) => key.chars().count() <= most,
            Self::Fixed(bytes) => key.len() == bytes,
            Self::Signed => key.parse::<i64>().is_ok(),
            Self::Unsigned => key.parse::<u64>().is_ok(),
            Self::Year => key.parse().is_ok_and(|year: u16| year == 0 || year > 1_900),
            Self::Float => number(b"+-.eE"),
            Self::Decimal(most) => {
                let decimals = key.split_once('.').map_or("", |(_, decimals)| decimals);
                number(b"+-.") && decimals.trim_end_matches('0').len() <= most
            }
            Self::Date => shape(key) == "9999-99-99" && key.len() == 10,
            Self::Moment => matches!(&*shape(key), "9999-99-99" | "9999-99-99 99:99:99" | "9999-99-99T99:99:99"),
            Self::Time => matches!(&*shape(key.strip_prefix('-').unwrap_or(key)), "99:99:99" | "999:99:99"),
        }
    }

    /// What a key that is written must be.
    pub(super) fn wanted(self) -> String {
        match self {
            Self::Collated => {
                "printable ASCII without a space at its end, unless the collation of the column ends with _bin".into()
            }
            Self::Within(most) => format!("at most {most} characters"),
            Self::Fixed(bytes) => format!("exactly {bytes} bytes, because the server fills shorter ones with zeros"),
            Self::Year => "a year of four digits".into(),
            _ => "a whole number".into(),
        }
    }
}

/// A text with 9 for each digit, without a fraction of at most six digits. Empty if something else follows a point.
fn shape(key: &str) -> String {
    let (whole, fraction) = key.split_once('.').unwrap_or((key, ""));
    let rounds = fraction.len() > 6 || !fraction.bytes().all(|byte| byte.is_ascii_digit());
    let nine = |c: char| if c.is_ascii_digit() { '9' } else { c };
    if rounds { String::new() } else { whole.chars().map(nine).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_which_the_server_would_make_another_key_are_none() {
        for (keys, ours, others) in [
            (Keys::Signed, &["7", "-7", "007"][..], &["7x", "", " 7", "7.0", "9223372036854775808"][..]),
            (Keys::Unsigned, &["18446744073709551615"], &["-1", "1e3"]),
            (Keys::Year, &["0", "2007"], &["7", "70", "x"]),
            (Keys::Decimal(2), &["1.50", "-1.5", "15", "1.5000"], &["1.505", "1e2", "1.5x", "inf"]),
            (Keys::Float, &["1e2", "-0.5"], &["nan", "infinity", "1e", "7x", "1e999"]),
            (Keys::Date, &["2024-02-30"], &["2024-02-30x", "2024-02-30.5", "20240230"]),
            (Keys::Moment, &["2024-02-30 12:00:00.5", "2024-02-30"], &["2024-02-30 12:00:00+01:00", "2024-02-30 1"]),
            (Keys::Time, &["-838:59:59.999999", "12:00:00"], &["12", "12:00:00.1234567", "--12:00:00"]),
            (Keys::Fixed(3), &["abc"], &["ab", "abcd"]),
            (Keys::Within(3), &["äbc", "a  ", ""], &["abc "]),
        ] {
            for writes in [false, true] {
                assert!(ours.iter().all(|key| keys.have(key, writes)), "{keys:?}");
                let taken = others.iter().find(|key| keys.have(key, writes));
                assert_eq!(taken, None, "{keys:?}");
            }
        }
        for key in ["a b", "É", "a ", "a\t", ""] {
            assert_eq!(Keys::Collated.have(key, true), key == "a b" || key.is_empty(), "{key:?}");
            assert!(Keys::Collated.have(key, false) && Keys::Any.have(key, true));
        }
    }
}
