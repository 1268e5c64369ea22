//! How the values of columns are read.

use std::borrow::Cow;

use serde_json::Value;

use super::settings::quoted;

/// Types that consist of no others, and those that have elements, which are never null.
const PLAIN: &str = "ascii bigint blob boolean date decimal double duration float inet int smallint text time timestamp \
     timeuuid tinyint uuid varint list set map vector frozen";

/// How the value of a column is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
    /// A number as text, because the server's JSON has `null` for NaN and for infinity.
    Float,
    /// JSON in which `null` is NaN or infinity, which is refused: as a value, if no element can be null, and as a key,
    /// if there are maps with numbers as keys.
    Floats {
        values: bool,
        keys: bool,
    },
    /// Milliseconds, because the server's JSON has the same text for a year before 1 and for one after it.
    Moment,
}

impl Form {
    pub(super) fn of(cql_type: &str) -> Self {
        let mut words = cql_type.split(|c: char| !(c.is_alphanumeric() || "_\"".contains(c)));
        let is = |of: &str, word: &str| of.split_whitespace().any(|one| one == word);
        match cql_type {
            "text" | "ascii" => Self::Text,
            "float" | "double" => Self::Float,
            "timestamp" => Self::Moment,
            _ if !cql_type.split(['<', '>', ',', ' ']).any(|word| matches!(word, "float" | "double")) => Self::Json,
            _ => Self::Floats {
                values: words.all(|word| word.parse::<u32>().is_ok() || word.is_empty() || is(PLAIN, word)),
                keys: ["map<float,", "map<double,"].iter().any(|map| cql_type.contains(map)),
            },
        }
    }

    /// In a row that is read as JSON, texts are JSON, too.
    pub(super) fn of_row(cql_type: &str) -> Self {
        match Self::of(cql_type) {
            Self::Text => Self::Json,
            form => form,
        }
    }

    /// The expression that reads a column.
    pub(super) fn read(self, name: &str) -> String {
        match self {
            Self::Text | Self::Moment => quoted(name),
            Self::Float => format!("CAST({} AS text)", quoted(name)),
            Self::Json | Self::Floats { .. } => format!("toJson({})", quoted(name)),
        }
    }

    /// What stands for a value in a statement.
    pub(super) fn given(self) -> &'static str {
        if self == Self::Text { "?" } else { "fromJson(?)" }
    }

    /// The text or the JSON of what was read; `None` if JSON lacks the value.
    pub(super) fn json(self, read: &[u8]) -> Option<Cow<'_, [u8]>> {
        fn has_null(value: &Value, values: bool, keys: bool) -> bool {
            match value {
                Value::Null => values,
                Value::Array(elements) => elements.iter().any(|element| has_null(element, values, keys)),
                Value::Object(members) => {
                    members.iter().any(|(name, member)| keys && name == "null" || has_null(member, values, keys))
                }
                _ => false,
            }
        }
        let exact = match self {
            _ if read == b"null" => true,
            Self::Moment => return moment(read).map(|text| Cow::Owned(text.into_bytes())),
            Self::Float => !matches!(read, b"NaN" | b"Infinity" | b"-Infinity"),
            Self::Floats { values, keys } => {
                serde_json::from_slice(read).is_ok_and(|value| !has_null(&value, values, keys))
            }
            Self::Text | Self::Json => true,
        };
        exact.then_some(Cow::Borrowed(read))
    }
}

/// JSON of the moment so many milliseconds after 1970, as the server writes it, with years before 1 as in ISO 8601.
fn moment(millis: &[u8]) -> Option<String> {
    let millis = i64::from_be_bytes(millis.try_into().ok()?);
    // In eras of 400 years that begin in March, as in the proleptic Gregorian calendar.
    let (days, ms) = (millis.div_euclid(86_400_000) + 719_468, millis.rem_euclid(86_400_000));
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year + month / 10, (month + 2) % 12 + 1);
    let width = if year < 0 { 5 } else { 4 };
    let (s, ms) = (ms / 1_000, ms % 1_000);
    let (hour, minute, second) = (s / 3_600, s / 60 % 60, s % 60);
    Some(format!("\"{year:0width$}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03}Z\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_lacks_are_no_nulls() {
        for (cql_type, exact, other) in [
            ("double", "1.0E10", "-Infinity"),
            ("list<float>", "[1.5]", "[null]"),
            ("frozen<map<text, frozen<list<double>>>>", r#"{"null": [1.5]}"#, r#"{"a": [null]}"#),
            ("vector<float, 2>", "null", "[1.5, null]"),
            ("map<double, text>", r#"{"1.5": "null"}"#, r#"{"null": "a"}"#),
            ("map<float, frozen<address>>", r#"{"1.5": {"zip": null}}"#, r#"{"null": {"zip": 7}}"#),
        ] {
            let form = Form::of(cql_type);
            assert!(form.json(exact.as_bytes()).is_some() && form.json(other.as_bytes()).is_none(), "{cql_type}");
        }
        for may_have_nulls in ["frozen<tuple<double, int>>", "list<int>"] {
            assert!(Form::of(may_have_nulls).json(b"[null]").is_some());
        }
    }

    #[test]
    fn years_before_one_are_no_years_after_it() {
        for (millis, text) in [
            (1_704_164_645_678, "2024-01-02 03:04:05.678Z"),
            (951_782_400_000, "2000-02-29 00:00:00.000Z"),
            (-1, "1969-12-31 23:59:59.999Z"),
            (-62_135_596_800_000, "0001-01-01 00:00:00.000Z"),
            (-62_135_596_800_001, "0000-12-31 23:59:59.999Z"),
            (-70_000_000_000_000, "-0249-10-15 19:33:20.000Z"),
            (253_402_300_800_000, "10000-01-01 00:00:00.000Z"),
            (i64::MAX, "292278994-08-17 07:12:55.807Z"),
            (i64::MIN, "-292275055-05-16 16:47:04.192Z"),
        ] {
            let json = Form::Moment.json(&i64::to_be_bytes(millis)).map(Cow::into_owned);
            assert_eq!(json, Some(format!("\"{text}\"").into_bytes()));
        }
    }
}
