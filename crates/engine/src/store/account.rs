//! What a store itself says about a collection: how many documents, what it removes by itself, which keys it takes for one.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use storebench_documents::same;

/// What a store itself counts about a collection. Figures that it does not keep are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    /// Documents, without Storebench's marker. Where a store counts no single collection, those of all of them.
    /// Documents whose time had come may count as still there.
    pub documents: Option<u64>,
    /// Documents that the store removed by itself since it started, to free memory.
    pub evicted: Option<u64>,
    /// The setting by which it does so, if it has one and a limit is set: `maxmemory 8 MB with allkeys-lru`.
    pub evicts: Option<String>,
    /// What is stored beside the documents and is not read with them: how many, and what.
    pub beside: Vec<(u64, Cow<'static, str>)>,
}

/// Which keys are one key in a collection: a second document with such a key replaces the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SameKeys {
    /// Only equal ones.
    #[default]
    Exact,
    /// Those that differ only in upper and lower case.
    AnyCase,
    /// The same, only of ASCII letters.
    AnyAsciiCase,
    /// Those that differ only in spaces at their end.
    Padded,
    /// Those that are the same whole number.
    Integer,
    /// Those that are the same UUID.
    Uuid,
    /// Those that are the same number, with or without a fraction.
    Number,
    /// Those that are the same moment, in any offset.
    Moment,
}

impl SameKeys {
    /// The text that stands for a key: the same for all keys that are one, and itself one of these, so that a store finds
    /// the document by it.
    pub fn fold(self, key: &str) -> Cow<'_, str> {
        match self {
            Self::Exact => Cow::Borrowed(key),
            Self::AnyCase => Cow::Owned(key.to_lowercase()),
            Self::AnyAsciiCase => Cow::Owned(key.to_ascii_lowercase()),
            Self::Padded => Cow::Borrowed(key.trim_end_matches(' ')),
            Self::Integer => {
                let (sign, digits) = match key.trim().strip_prefix('-') {
                    Some(digits) => ("-", digits),
                    None => ("", key.trim().trim_start_matches('+')),
                };
                match digits.trim_start_matches('0') {
                    _ if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) => Cow::Borrowed(key),
                    "" => Cow::Borrowed("0"),
                    significant => Cow::Owned(format!("{sign}{significant}")),
                }
            }
            Self::Uuid => {
                let digits: String = key.chars().filter(char::is_ascii_hexdigit).collect();
                if digits.len() != 32 {
                    return Cow::Borrowed(key);
                }
                let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
                parts.join("-").to_ascii_lowercase().into()
            }
            Self::Number => same::number(key).map_or(Cow::Borrowed(key), Cow::Owned),
            Self::Moment => same::moment(key).map_or(Cow::Borrowed(key), Cow::Owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_one_have_the_same_text() {
        for (same, keys, other) in [
            (SameKeys::Exact, ["K1", "K1"], "k1"),
            (SameKeys::AnyCase, ["KÖ1", "kö1"], "ko1"),
            (SameKeys::AnyAsciiCase, ["KÖ1", "kÖ1"], "kö1"),
            (SameKeys::Padded, ["a", "a  "], " a"),
            (SameKeys::Integer, ["1", " +01"], "11"),
            (SameKeys::Integer, ["-0", "000"], "-1"),
            (SameKeys::Integer, ["18446744073709551616", "018446744073709551616"], "1844674407370955161"),
            (SameKeys::Number, ["1", "1.0"], "1.1"),
            (SameKeys::Moment, ["2024-01-01T12:00:00Z", "2024-01-01 13:00:00+01"], "2024-01-01T12:00:01Z"),
            (
                SameKeys::Uuid,
                ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc99-9c0b4ef8-bb6d-6bb9bd380a11}"],
                "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            ),
        ] {
            assert_eq!(same.fold(keys[0]), same.fold(keys[1]), "{same:?}");
            assert_ne!(same.fold(keys[0]), same.fold(other), "{same:?}");
        }
    }
}
