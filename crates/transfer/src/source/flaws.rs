//! Files that are not JSON lines although they are read as such. Each of their lines would be rejected, without a word about
//! the file as a whole.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde_json::Deserializer;

/// Lines that are looked at.
const LINES: usize = 3;

const ARRAY: &str = "it is one JSON array, and not one document on each line; read it with --from-format json";
const SEVERAL_LINES: &str =
    "a document in it takes several lines; write each document on one line, such as with `jq -c .`";
const SEVERAL_ON_ONE: &str =
    "a line in it has several documents; write each document on its own line, such as with `jq -c .`";
const COMMAS: &str = "its lines end with commas; remove them, such as with `sed 's/,$//'`";

/// What is wrong with the beginning of a file, up to a line break or its end; `None` if it may be JSON lines. A line that is
/// wrong by itself is no reason.
pub(super) fn of_lines(head: &str) -> Option<&'static str> {
    let head = head.trim_start_matches('\u{feff}').trim_start();
    let lines: Vec<&str> = head.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES).collect();
    let first = lines.first()?;
    let documents = |text: &str| {
        let mut all = Deserializer::from_str(text).into_iter::<IgnoredAny>();
        let mut ends = Vec::new();
        while let Some(Ok(_)) = all.next() {
            ends.push(all.byte_offset());
        }
        ends
    };
    if first.starts_with("[{") || first.starts_with('[') && documents(first).is_empty() {
        return Some(ARRAY);
    }
    let kind = |line: &&str| {
        let by_comma = line.strip_suffix(',').filter(|line| line.starts_with('{'));
        match (documents(line).len(), by_comma) {
            (1, Some(document)) if documents(document) == [document.len()] => Some(COMMAS),
            (2.., _) if line.starts_with('{') => Some(SEVERAL_ON_ONE),
            _ => None,
        }
    };
    if documents(head).first().is_some_and(|end| *end > first.len()) {
        return Some(SEVERAL_LINES);
    }
    // The last line of an array without its brackets has no comma.
    let but_last = &lines[..lines.len().saturating_sub(1).max(1)];
    let kinds: BTreeSet<_> = but_last.iter().map(kind).collect();
    if kinds.len() == 1 { kinds.into_iter().next().flatten() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_lines_is_told_once() {
        for (head, flaw) in [
            ("[\n  {\"_id\":\"a\"},\n", Some(ARRAY)),
            ("[{\"_id\":\"a\"},{\"_id\":\"b\"}]", Some(ARRAY)),
            ("\u{feff}[\n{", Some(ARRAY)),
            ("{\n \"_id\": \"a\"\n}\n{\n", Some(SEVERAL_LINES)),
            ("{\"_id\": \"a\",\n \"b\": 1}\n", Some(SEVERAL_LINES)),
            ("{\"_id\":1}{\"_id\":2}\n{\"_id\":3} {\"_id\":4}\n", Some(SEVERAL_ON_ONE)),
            ("{\"_id\":1},\n{\"_id\":2},\n{\"_id\":3}\n", Some(COMMAS)),
            ("{\"_id\":1},\n", Some(COMMAS)),
            // Lines that are wrong by themselves are rejected.
            ("", None),
            ("{\"_id\":1}\n", None),
            ("{\"_id\":\"b\"\n{\"_id\":\"c\"}\n", None),
            ("not json\n{\"_id\":\"c\"}\n", None),
            ("[1]\n{\"_id\":\"c\"}\n", None),
            ("{\"_id\":1},\n{\"_id\":2}\n{\"_id\":3}\n", None),
            ("\n\n", None),
        ] {
            assert_eq!(of_lines(head), flaw, "{head}");
        }
    }
}
