//! Entries of PostgreSQL's log.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use crate::lines::{self, open};
use crate::{Error, Finds, seconds_ns};

/// A log entry.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) at_ns: i64,
    pub(crate) client: String,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    /// Its line in the file.
    pub(crate) line: u64,
}

/// What stands between the prefix of a line and its message.
const SEVERITIES: [&str; 12] = [
    "LOG:  ",
    "DETAIL:  ",
    "STATEMENT:  ",
    "ERROR:  ",
    "WARNING:  ",
    "HINT:  ",
    "CONTEXT:  ",
    "FATAL:  ",
    "PANIC:  ",
    "NOTICE:  ",
    "INFO:  ",
    "QUERY:  ",
];

/// Entries of which a part may still come, each by its backend.
#[derive(Default)]
struct Pending {
    entries: HashMap<String, Entry>,
    /// The backend of the last line, and whether it was a detail. Further lines belong to it.
    last: Option<(String, bool)>,
    /// The time zone of the first line.
    zone: Option<String>,
}

/// Calls `each` with the entries of level LOG.
pub(super) fn each(file: &Path, finds: &mut Finds, mut each: impl FnMut(Entry, &mut Finds)) -> Result<(), Error> {
    let uncompressed = file.extension().is_some_and(|ending| ending == "gz" || ending == "zst");
    let name = if uncompressed { file.with_extension("") } else { file.to_owned() };
    if name.extension().is_some_and(|ending| ending == "csv") {
        return of_csv(file, finds, each);
    }
    let mut pending = Pending::default();
    let mut emit = |entry: Entry, finds: &mut Finds| {
        let now = std::mem::replace(&mut finds.line, entry.line);
        each(entry, finds);
        finds.line = now;
    };
    lines::each(file, finds, |text, finds| {
        let text = String::from_utf8_lossy(text);
        if text.starts_with('{') {
            emit(of_json(&text, finds)?, finds);
            return Ok(());
        }
        if let Some(more) = text.strip_prefix('\t') {
            if let Some((client, in_detail)) = &pending.last
                && let Some(entry) = pending.entries.get_mut(client)
            {
                let longer = if *in_detail { entry.detail.get_or_insert_default() } else { &mut entry.message };
                longer.push('\n');
                longer.push_str(more);
            }
            return Ok(());
        }
        // The first severity of the line: a message may contain the text of another one.
        let found = SEVERITIES.iter().filter_map(|severity| Some((text.find(severity)?, *severity))).min();
        let Some((at, severity)) = found else {
            pending.last = None;
            return Ok(());
        };
        let (prefix, message) = (&text[..at], &text[at + severity.len()..]);
        let timed = time(prefix);
        let rest = timed.map_or(prefix, |(_, rest)| rest);
        let client = rest.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(rest, |(inside, _)| inside);
        // `%p-%l` numbers the lines of each process.
        let client = client.trim().split('-').next().unwrap_or_default().to_owned();
        if severity == "DETAIL:  " {
            if let Some(entry) = pending.entries.get_mut(&client) {
                entry.detail = Some(message.to_owned());
            }
            pending.last = Some((client, true));
            return Ok(());
        }
        if let Some(entry) = pending.entries.remove(&client) {
            emit(entry, finds);
        }
        pending.last = None;
        if severity != "LOG:  " {
            return Ok(());
        }
        let Some((at_ns, rest)) = timed else {
            return Err(finds.wrong("the line has no time; set log_line_prefix = '%m [%p] ' in PostgreSQL"));
        };
        same_zone(&mut pending.zone, rest).map_err(|why| finds.wrong(&why))?;
        let entry =
            Entry { at_ns, client: client.clone(), message: message.to_owned(), detail: None, line: finds.line };
        pending.entries.insert(client.clone(), entry);
        pending.last = Some((client, false));
        Ok(())
    })?;
    let mut rest: Vec<Entry> = pending.entries.into_values().collect();
    rest.sort_by_key(|entry| entry.line);
    rest.into_iter().for_each(|entry| emit(entry, finds));
    Ok(())
}

/// Refuses a time zone that changes within a log, as with daylight saving: an hour would come twice.
fn same_zone(known: &mut Option<String>, rest: &str) -> Result<(), String> {
    let zone = rest.trim_start().split([' ', '[']).next().unwrap_or_default();
    if zone.is_empty() || zone.len() > 6 || !zone.starts_with(|c: char| c.is_ascii_alphabetic() || c == '+' || c == '-')
    {
        return Ok(());
    }
    match known {
        Some(first) if first != zone => Err(format!(
            "the time zone changes from {first} to {zone}; set log_timezone = 'UTC', or give the part before and the part \
             after it apart"
        )),
        _ => {
            known.get_or_insert_with(|| zone.to_owned());
            Ok(())
        }
    }
}

fn of_json(text: &str, finds: &Finds) -> Result<Entry, Error> {
    let document: Value = serde_json::from_str(text).map_err(|e| finds.wrong(&format!("it is not JSON: {e}")))?;
    let at = document["timestamp"].as_str().and_then(time).map(|(at_ns, _)| at_ns);
    Ok(Entry {
        at_ns: at.ok_or_else(|| finds.wrong("it has no `timestamp`"))?,
        client: document["pid"].to_string(),
        message: document["message"].as_str().unwrap_or_default().to_owned(),
        detail: document["detail"].as_str().map(str::to_owned),
        line: finds.line,
    })
}

fn of_csv(file: &Path, finds: &mut Finds, mut each: impl FnMut(Entry, &mut Finds)) -> Result<(), Error> {
    let mut rows = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(open(file)?);
    let mut row = csv::StringRecord::new();
    loop {
        let more = rows.read_record(&mut row).map_err(|e| Error(format!("{}: {e}", file.display())))?;
        if !more {
            return Ok(());
        }
        finds.line = row.position().map_or(0, csv::Position::line);
        if row.len() < 15 {
            return Err(finds.wrong("it has fewer columns than PostgreSQL's csvlog: the line is torn"));
        }
        let Some((at_ns, _)) = row.get(0).and_then(time) else {
            return Err(finds.wrong("it does not begin with a time"));
        };
        let text = |at: usize| row.get(at).unwrap_or_default().to_owned();
        let detail = Some(text(14)).filter(|detail| !detail.is_empty());
        each(Entry { at_ns, client: text(3), message: text(13), detail, line: finds.line }, finds);
    }
}

/// The first time in a prefix, in ns since 1970 by its own clock, and what follows: `2026-11-27 04:16:16.422 UTC` (%m, %t)
/// or `1795752976.422` (%n). All lines are taken to be of one time zone.
fn time(prefix: &str) -> Option<(i64, &str)> {
    let at = prefix.find(|c: char| c.is_ascii_digit())?;
    let rest = &prefix[at..];
    let seconds = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    if seconds >= 10 {
        return Some((seconds_ns(&rest[..seconds])?, &rest[seconds..]));
    }
    let end = rest.char_indices().find(|(i, c)| *i > 10 && !(c.is_ascii_digit() || ":.".contains(*c))).map(|(i, _)| i);
    let (text, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let at: jiff::civil::DateTime = text.parse().ok()?;
    let at = at.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    Some((i64::try_from(at.as_nanosecond()).ok()?, rest))
}

/// The parameters in a detail: `parameters: $1 = 'a', $2 = NULL`. Quotes within a value are doubled.
pub(super) fn parameters(detail: &str) -> Vec<Option<String>> {
    let prefix = ["parameters: ", "Parameters: "].iter().find_map(|begin| detail.strip_prefix(begin));
    let Some(mut rest) = prefix else { return Vec::new() };
    let mut all = Vec::new();
    while let Some((number, after)) = rest.strip_prefix('$').and_then(|rest| rest.split_once(" = ")) {
        let Some(number) = number.parse::<usize>().ok().filter(|number| (1..=65_535).contains(number)) else { break };
        let (value, after) = match after.strip_prefix('\'') {
            Some(quoted) => {
                let (value, after) = unquoted(quoted, '\'');
                (Some(value), after)
            }
            None => (None, after.strip_prefix("NULL").unwrap_or(after)),
        };
        if all.len() < number {
            all.resize(number, None);
        }
        all[number - 1] = value;
        rest = after.strip_prefix(", ").unwrap_or_default();
    }
    all
}

/// The text up to a quote that is not doubled, and what follows the quote.
fn unquoted(text: &str, quote: char) -> (String, &str) {
    let (mut value, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(quote) {
        value.push_str(&rest[..at]);
        rest = &rest[at + quote.len_utf8()..];
        match rest.strip_prefix(quote) {
            Some(more) => {
                value.push(quote);
                rest = more;
            }
            None => return (value, rest),
        }
    }
    value.push_str(rest);
    (value, "")
}

/// The elements of an array as PostgreSQL prints it: `{a,"b c",NULL}`.
pub(super) fn array(text: &str) -> Vec<String> {
    let Some(mut rest) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else {
        return vec![text.to_owned()];
    };
    let mut all = Vec::new();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (mut value, mut chars) = (String::new(), quoted.char_indices());
            let mut end = quoted.len();
            while let Some((at, c)) = chars.next() {
                match c {
                    '\\' => value.extend(chars.next().map(|(_, c)| c)),
                    '"' => {
                        end = at + 1;
                        break;
                    }
                    c => value.push(c),
                }
            }
            all.push(value);
            rest = &quoted[end..];
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            if &rest[..end] != "NULL" {
                all.push(rest[..end].to_owned());
            }
            rest = &rest[end..];
        }
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_arrays_and_times_are_read_as_postgresql_prints_them() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            parameters("parameters: $1 = 'it''s, $2 = ''x'' ', $2 = NULL, $3 = ''"),
            [some("it's, $2 = 'x' "), None, some("")]
        );
        assert!(parameters("Key (key)=(a) already exists.").is_empty());
        assert_eq!(array(r#"{a,"b \"c\", \\",NULL,7}"#), ["a", "b \"c\", \\", "7"]);
        assert_eq!((array("{}").len(), array("plain")), (0, vec!["plain".to_owned()]));
        let ns = |prefix: &str| time(prefix).map(|(ns, rest)| (ns, rest.to_owned()));
        assert_eq!(ns("1970-01-01 00:00:01.5 UTC [7] "), Some((1_500_000_000, " UTC [7] ".to_owned())));
        assert_eq!(ns("db=x 1970-01-01 00:00:01 CET "), Some((1_000_000_000, " CET ".to_owned())));
        assert_eq!(ns("1795752976.422 [7] "), Some((1_795_752_976_422_000_000, " [7] ".to_owned())));
        assert_eq!((ns("user@db "), ns("1ééééé x ")), (None, None));
    }
}
