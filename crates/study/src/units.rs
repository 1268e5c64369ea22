//! Values that carry their unit: byte sizes, durations, counts and ranges of them.
//!
//! A study says `size = "2KiB"`, `duration = "3m"`, `words = [2, 5]`; these types parse such values, reject a missing
//! or wrong unit, and print the values in the same form.

#[cfg(feature = "schema")]
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a value with a unit could not be read. The message says what is expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitError(String);

/// Splits `"12.5ms"` into its number and the text that follows.
fn split_number(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn number(digits: &str, whole: &str, example: &str) -> Result<f64, UnitError> {
    let n = digits
        .replace('_', "")
        .parse::<f64>()
        .map_err(|_| UnitError(format!("`{whole}` does not begin with a number; write it like {example}")))?;
    if n.is_finite() { Ok(n) } else { Err(too_many(whole)) }
}

fn too_many(whole: &str) -> UnitError {
    UnitError(format!("`{whole}` is too large; use at most 2^53, which is 9,007,199,254,740,992"))
}

/// The greatest integer up to which all integers are exact in JSON and in figures.
const MOST: u64 = 1 << 53;

/// Rounds to an integer, at most [`MOST`].
fn whole(n: f64, text: &str) -> Result<u64, UnitError> {
    let n = n.round();
    if n <= MOST as f64 { Ok(n as u64) } else { Err(too_many(text)) }
}

fn exact(n: u64) -> Result<u64, UnitError> {
    if n <= MOST { Ok(n) } else { Err(too_many(&n.to_string())) }
}

/// A number of bytes. Written `512`, `"512B"`, `"2KiB"` (1,024 each step) or `"2kB"` (1,000 each step).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

impl ByteSize {
    const UNITS: &[(&str, u64)] = &[
        ("", 1),
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];

    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (digits, unit) = split_number(text);
        let n = number(digits, text, "\"2KiB\" or \"10MB\"")?;
        let scale = Self::UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .map(|(_, scale)| *scale)
            .ok_or_else(|| {
                UnitError(format!("unknown unit of size `{unit}`; use B, KiB, MiB, GiB (1,024) or kB, MB, GB (1,000)"))
            })?;
        whole(n * scale as f64, text).map(Self)
    }
}

impl fmt::Display for ByteSize {
    /// Exact if a binary unit divides the value, otherwise rounded to one decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, scale) in [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= scale {
                return if self.0.is_multiple_of(scale) {
                    write!(f, "{}{name}", self.0 / scale)
                } else {
                    write!(f, "{:.1}{name}", self.0 as f64 / scale as f64)
                };
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// A length of time. Written `"250us"`, `"5ms"`, `"30s"`, `"3m"`, `"2h"`, `"1d"` or `"1m30s"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub Duration);

impl Span {
    /// The span in nanoseconds, saturating at 584 years.
    pub fn ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let mut rest = text.trim();
        let mut total = 0.0;
        if rest.is_empty() {
            return Err(UnitError("empty duration; write it like \"30s\"".into()));
        }
        while !rest.is_empty() {
            let (digits, after) = split_number(rest);
            let n = number(digits, text, "\"30s\" or \"3m\"")?;
            let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let unit = after[..end].trim();
            let seconds = match unit {
                "ns" => 1e-9,
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3_600.0,
                "d" => 86_400.0,
                "" => {
                    return Err(UnitError(format!("`{text}` has no unit; write it like \"{text}s\" or \"{text}ms\"")));
                }
                other => {
                    return Err(UnitError(format!("unknown unit of time `{other}`; use ns, us, ms, s, m, h or d")));
                }
            };
            total += n * seconds;
            rest = &after[end..];
        }
        Duration::try_from_secs_f64(total)
            .map(Self)
            .map_err(|_| UnitError(format!("`{text}` is too long; use a shorter duration")))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        match ns {
            0 => write!(f, "0s"),
            _ if ns < 1_000 => write!(f, "{ns}ns"),
            _ if ns < 1_000_000 => write!(f, "{}us", trim(ns as f64 / 1e3)),
            _ if ns < 1_000_000_000 => write!(f, "{}ms", trim(ns as f64 / 1e6)),
            _ if ns.is_multiple_of(1_000_000_000) && ns >= 60_000_000_000 => {
                let seconds = self.0.as_secs();
                let (h, m, s) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
                for (n, unit) in [(h, 'h'), (m, 'm'), (s, 's')] {
                    if n > 0 {
                        write!(f, "{n}{unit}")?;
                    }
                }
                Ok(())
            }
            _ => write!(f, "{}s", trim(ns as f64 / 1e9)),
        }
    }
}

/// Up to three decimals, without trailing zeros.
fn trim(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A count. Written `100_000`, `"100k"`, `"2M"` or `"1B"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        whole(thousands(text, "100_000 or \"100k\"")?, text).map(Self)
    }
}

/// A number that may be followed by k, M or B.
fn thousands(text: &str, example: &str) -> Result<f64, UnitError> {
    let (digits, unit) = split_number(text);
    let n = number(digits, text, example)?;
    let scale = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" | "m" => 1e6,
        "B" | "G" | "b" => 1e9,
        other => {
            return Err(UnitError(format!("unknown unit of count `{other}`; use k, M or B")));
        }
    };
    Ok(n * scale)
}

/// Operations per second. Written `250`, `0.5`, `"2k"` or `"1.5M"`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize)]
pub struct PerSecond(pub f64);

impl PerSecond {
    /// Reads the value alone, for fields that are numbers.
    pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Self::deserialize(deserializer).map(|read| read.0)
    }
}

impl FromStr for PerSecond {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim().parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(Self(n)),
            _ => thousands(text, "250 or \"2k\"").map(Self),
        }
    }
}

crate::written::written_as!(
    PerSecond,
    "operations per second such as 250 or \"2k\"",
    number = |n| Ok::<_, UnitError>(PerSecond(n)),
    text = str::parse::<PerSecond>,
);

crate::written::schema!(PerSecond, "PerSecond", |_| {
    json_schema!({ "type": ["number", "string"], "description": "operations per second: 250, 0.5, \"2k\"" })
});

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (i, c) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{c}")?;
        }
        Ok(())
    }
}

/// Values read from a number or a text with a unit.
macro_rules! number_or_text {
    ($type:ident, $schema:literal, $expecting:literal, $from_u64:expr, $as_wire:expr) => {
        $crate::written::written_as!($type, $expecting, whole = $from_u64, text = str::parse::<$type>);
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                ($as_wire)(self, serializer)
            }
        }
        $crate::written::schema!($type, stringify!($type), |_| {
            json_schema!({ "type": ["string", "integer"], "description": $schema })
        });
    };
}

number_or_text!(
    ByteSize,
    "bytes: 512, \"2KiB\" (1,024), \"2kB\" (1,000)",
    "a size such as 512 or \"2KiB\"",
    |n| exact(n).map(ByteSize),
    |v: &ByteSize, s: S| s.serialize_u64(v.0)
);
number_or_text!(
    Span,
    "a length of time: \"250us\", \"5ms\", \"30s\", \"3m\"",
    "a duration with its unit such as \"30s\"",
    |n: u64| Err(UnitError(format!("`{n}` has no unit; write it like \"{n}s\" or \"{n}ms\""))),
    |v: &Span, s: S| s.serialize_str(&v.to_string())
);
number_or_text!(
    Count,
    "a count: 100_000, \"100k\", \"2M\", \"1B\"",
    "a count such as 100_000 or \"100k\"",
    |n| exact(n).map(Count),
    |v: &Count, s: S| s.serialize_u64(v.0)
);

/// Reads one value as `exactly` that, and a list with `of_list`.
macro_rules! one_or_list {
    ($type:ident, $expecting:literal) => {
        impl<'de, T> Deserialize<'de> for $type<T>
        where
            T: Deserialize<'de> + PartialOrd + Copy + fmt::Debug,
        {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct V<T>(std::marker::PhantomData<T>);
                impl<'de, T: Deserialize<'de> + PartialOrd + Copy + fmt::Debug> Visitor<'de> for V<T> {
                    type Value = $type<T>;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<$type<T>, A::Error> {
                        $type::of_list(seq)
                    }
                    fn visit_i64<E: de::Error>(self, n: i64) -> Result<$type<T>, E> {
                        T::deserialize(de::value::I64Deserializer::new(n)).map($type::exactly)
                    }
                    fn visit_u64<E: de::Error>(self, n: u64) -> Result<$type<T>, E> {
                        T::deserialize(de::value::U64Deserializer::new(n)).map($type::exactly)
                    }
                    fn visit_f64<E: de::Error>(self, n: f64) -> Result<$type<T>, E> {
                        T::deserialize(de::value::F64Deserializer::new(n)).map($type::exactly)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type<T>, E> {
                        T::deserialize(de::value::StrDeserializer::new(text)).map($type::exactly)
                    }
                }
                deserializer.deserialize_any(V(std::marker::PhantomData))
            }
        }
    };
}

/// One value, or a range from the first to the last, both included. Written `3` or `[3, 7]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range<T> {
    /// The least value.
    pub min: T,
    /// The greatest value.
    pub max: T,
}

impl<T: Copy> Range<T> {
    /// A range of one value.
    pub fn exactly(value: T) -> Self {
        Self { min: value, max: value }
    }
}

impl<T> Range<T> {
    fn of_list<'de, A: de::SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error>
    where
        T: Deserialize<'de> + PartialOrd + fmt::Debug,
    {
        let wrong = |n: usize| de::Error::invalid_length(n, &"a range [least, greatest]");
        let min = seq.next_element()?.ok_or_else(|| wrong(0))?;
        let max = seq.next_element()?.ok_or_else(|| wrong(1))?;
        if seq.next_element::<de::IgnoredAny>()?.is_some() {
            return Err(wrong(3));
        }
        if min > max {
            return Err(de::Error::custom(format!(
                "the range [{min:?}, {max:?}] runs backwards; write the least value first"
            )));
        }
        Ok(Self { min, max })
    }
}

one_or_list!(Range, "one value or a range [least, greatest]");

impl<T: Serialize + PartialEq> Serialize for Range<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.min == self.max { self.min.serialize(serializer) } else { (&self.min, &self.max).serialize(serializer) }
    }
}

#[cfg(feature = "schema")]
impl<T: JsonSchema> JsonSchema for Range<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("RangeOf{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 2, "maxItems": 2 }] })
    }
}

/// The most points of a [`Spread`].
const MOST_POINTS: usize = 1_001;

/// How values are spread: one value, a range, or several values of which each two neighbours have equally many documents
/// between them. Written `3`, `[3, 7]` or `[3, 4, 7, 90]`: a third of the documents each from 3 to 4, from 4 to 7, and
/// from 7 to 90.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread<T>(Vec<T>);

impl<T: Copy> Spread<T> {
    /// A single value.
    pub fn exactly(value: T) -> Self {
        Self(vec![value])
    }

    /// From the first to the second, both included.
    pub fn between(min: T, max: T) -> Self {
        Self(vec![min, max])
    }

    /// Through these points, which must not fall. `None` if there are none or too many, or if one falls.
    pub fn through(points: Vec<T>) -> Option<Self>
    where
        T: PartialOrd,
    {
        let rises = points.windows(2).all(|two| two[0] <= two[1]);
        ((1..=MOST_POINTS).contains(&points.len()) && rises).then_some(Self(points))
    }

    /// The least value.
    pub fn min(&self) -> T {
        self.0[0]
    }

    /// The greatest value.
    pub fn max(&self) -> T {
        self.0[self.0.len() - 1]
    }

    /// Its points; at least one.
    pub fn points(&self) -> &[T] {
        &self.0
    }
}

impl<T> Spread<T> {
    fn of_list<'de, A: de::SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error>
    where
        T: Deserialize<'de> + PartialOrd + fmt::Debug,
    {
        let mut points: Vec<T> = Vec::new();
        while let Some(next) = seq.next_element()? {
            // Not a number is in no order.
            if let Some(last) =
                points.last().filter(|last| (*last).partial_cmp(&next).is_none_or(std::cmp::Ordering::is_gt))
            {
                return Err(de::Error::custom(format!(
                    "{next:?} follows {last:?}, so the range runs backwards; write the least value first"
                )));
            }
            if points.len() == MOST_POINTS {
                return Err(de::Error::custom(format!("use at most {MOST_POINTS} values")));
            }
            points.push(next);
        }
        if points.len() < 2 {
            return Err(de::Error::invalid_length(points.len(), &"a range [least, greatest]"));
        }
        Ok(Self(points))
    }
}

one_or_list!(Spread, "one value, or a list of at least two that do not fall, such as [least, greatest]");

impl<T: Serialize + PartialEq> Serialize for Spread<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(serializer),
            [least, greatest] if least == greatest => least.serialize(serializer),
            points => points.serialize(serializer),
        }
    }
}

#[cfg(feature = "schema")]
impl<T: JsonSchema> JsonSchema for Spread<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("SpreadOf{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 2, "maxItems": MOST_POINTS }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_one_value_or_several_that_do_not_fall() {
        let read = |text: &str| serde_json::from_str::<Spread<i64>>(text);
        for (text, points) in [("3", &[3][..]), ("[3, 7]", &[3, 7]), ("[3, 3, 7, 90]", &[3, 3, 7, 90])] {
            let spread = read(text).unwrap();
            assert_eq!(spread.points(), points);
            assert_eq!(serde_json::from_str::<Spread<i64>>(&serde_json::to_string(&spread).unwrap()).unwrap(), spread);
        }
        for (text, why) in [("[7, 3]", "runs backwards"), ("[3]", "a range"), ("[]", "a range")] {
            assert!(read(text).unwrap_err().to_string().contains(why), "{text}");
        }
        assert_eq!(Spread::through(vec![2, 1]), None);
        assert_eq!(Spread::through(Vec::<i64>::new()), None);
    }

    #[test]
    fn sizes_read_and_print() {
        assert_eq!("2KiB".parse(), Ok(ByteSize(2_048)));
        assert_eq!("2kb".parse(), Ok(ByteSize(2_000)));
        assert_eq!("1.5MiB".parse(), Ok(ByteSize(1_572_864)));
        assert_eq!(ByteSize(2_048).to_string(), "2KiB");
        assert_eq!(ByteSize(2_253).to_string(), "2.2KiB");
        assert!("2 bananas".parse::<ByteSize>().unwrap_err().to_string().contains("bananas"));
    }

    #[test]
    fn durations_read_and_print() {
        for text in ["250us", "5ms", "30s", "3m", "1h30m", "1m30s", "1.5s"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert!("30".parse::<Span>().unwrap_err().to_string().contains("no unit"));
    }

    #[test]
    fn counts_read_and_print() {
        assert_eq!("100k".parse(), Ok(Count(100_000)));
        assert_eq!("1B".parse(), Ok(Count(1_000_000_000)));
        assert_eq!(Count(1_234_567).to_string(), "1,234,567");
    }

    #[test]
    fn ranges_refuse_to_run_backwards() {
        let range: Range<u64> = serde_json::from_str("[3, 7]").unwrap();
        assert_eq!((range.min, range.max), (3, 7));
        assert!(serde_json::from_str::<Range<u64>>("[7, 3]").unwrap_err().to_string().contains("backwards"));
    }
}
