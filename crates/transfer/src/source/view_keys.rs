//! Keys of a view's rows, with numeric ranges.

use std::fmt;
use std::str::FromStr;

use crate::shape::members::Texts;

/// Most keys; more are probably a mistake. Each key is a part of the copy and is kept in its log.
const MOST: usize = 1_000_000;
/// Most ranges in one key.
const MOST_RANGES: usize = 16;

/// Distinct keys in order, each as JSON text.
///
/// The text form separates keys with `;`. In a key, `((a-b))` stands for each number from a to b, padded to the width
/// of `a`. Inside a string, the number becomes part of the string. Elsewhere it becomes a number, or a string if it is
/// padded with zeros, because JSON has no such numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewKeys(pub Vec<String>);

/// Invalid keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what}; expected JSON keys separated by `;`, with ranges such as [\"20140401\",((00-19))] or \"page-((1-400))\""
)]
pub struct ViewKeysError {
    what: String,
}

impl FromStr for ViewKeys {
    type Err = ViewKeysError;

    fn from_str(text: &str) -> Result<Self, ViewKeysError> {
        let mut keys = Vec::new();
        for part in split(text) {
            if part.matches("((").count() > MOST_RANGES {
                return Err(ViewKeysError { what: format!("a key has more than {MOST_RANGES} ranges") });
            }
            expand(part.trim(), String::new(), false, &mut keys)?;
        }
        for key in &keys {
            serde_json::from_str::<serde::de::IgnoredAny>(key)
                .map_err(|e| ViewKeysError { what: format!("`{key}` is not JSON: {e}") })?;
        }
        let mut seen = std::collections::HashSet::new();
        keys.retain(|key| seen.insert(key.clone()));
        Ok(Self(keys))
    }
}

impl fmt::Display for ViewKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(";"))
    }
}

/// Splits at semicolons outside of strings.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut texts) = (Vec::new(), 0, Texts::default());
    for (at, byte) in text.bytes().enumerate() {
        if texts.is_outside(byte) && byte == b';' {
            parts.push(&text[begin..at]);
            begin = at + 1;
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// Adds the keys that `rest` expands to, each prefixed with `before`.
fn expand(rest: &str, before: String, within: bool, keys: &mut Vec<String>) -> Result<(), ViewKeysError> {
    let wrong = |what: String| Err(ViewKeysError { what });
    let Some(open) = rest.find("((") else {
        if keys.len() >= MOST {
            return wrong(format!("more than {MOST} keys"));
        }
        keys.push(before + rest);
        return Ok(());
    };
    let head = &rest[..open];
    let quotes = head.replace("\\\\", "").replace("\\\"", "").matches('"').count();
    let within = within ^ (quotes % 2 == 1);
    let Some(close) = rest[open..].find("))") else { return wrong(format!("`{rest}` has `((` without `))`")) };
    let range = &rest[open + 2..open + close];
    let bounds = range.split_once('-').and_then(|(from, to)| {
        let (from, to) = (from.trim(), to.trim());
        Some((from.parse::<u64>().ok()?, to.parse::<u64>().ok()?, from.len(), from.len() > 1 && from.starts_with('0')))
    });
    let Some((from, to, width, padded)) = bounds.filter(|(from, to, ..)| from <= to) else {
        return wrong(format!("invalid range of numbers `(({range}))`"));
    };
    if to - from >= MOST as u64 {
        return wrong(format!("`(({range}))` gives more than {MOST} keys"));
    }
    for number in from..=to {
        let number = format!("{number:0width$}");
        let number = if padded && !within { format!("\"{number}\"") } else { number };
        expand(&rest[open + close + 2..], format!("{before}{head}{number}"), within, keys)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        text.parse::<ViewKeys>().unwrap().0
    }

    #[test]
    fn ranges_stand_for_their_numbers() {
        assert_eq!(
            keys(r#"["20140401",((00-19))]"#)[..2],
            [r#"["20140401","00"]"#.to_owned(), r#"["20140401","01"]"#.to_owned()]
        );
        assert_eq!(keys(r#"["20140401",((00-19))]"#).len(), 20);
        assert_eq!(keys("((8-11))"), ["8", "9", "10", "11"]);
        assert_eq!(
            keys(r#""p-((08-11))" ; "a;b";7"#),
            [r#""p-08""#, r#""p-09""#, r#""p-10""#, r#""p-11""#, r#""a;b""#, "7"]
        );
        assert_eq!(keys("[((1-2)),((3-4))]"), ["[1,3]", "[1,4]", "[2,3]", "[2,4]"]);
        assert_eq!(keys("((1-3));2"), ["1", "2", "3"]);
    }

    #[test]
    fn what_is_no_key_is_told() {
        for (text, part) in [
            ("", "is not JSON"),
            ("[1", "is not JSON"),
            ("((1-", "without `))`"),
            ("((9-1))", "invalid range"),
            ("((a-b))", "invalid range"),
            ("((0-99999999))", "more than"),
        ] {
            let error = text.parse::<ViewKeys>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
