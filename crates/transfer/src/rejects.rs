//! Records that did not arrive, each with the reason, in a file for people and programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::TransferError;

/// One line of the file: a record that did not arrive.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Reject {
    /// Where the record was in the source.
    pub from: String,
    /// Number of the split.
    pub split: u32,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// The bytes of a key that is not UTF-8, as base64. `key` has U+FFFD in place of what is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// The operation that failed.
    pub op: String,
    /// The kind of failure: `unreadable`, or one of a store's error kinds.
    pub error: String,
    /// The error message.
    pub why: String,
    /// Number of attempts; 0 if it was never sent.
    pub tries: u32,
    /// The record as it was read, digit by digit: JSON, or a string if it is not JSON.
    pub record: Box<RawValue>,
    /// The bytes of a record that is not UTF-8, as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_base64: Option<String>,
}

/// Why some records did not arrive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RejectReason {
    /// How many records.
    pub records: u64,
    /// The kind of failure, as in the file of rejects.
    pub error: String,
    /// The reason. Numbers and quoted texts that differ between the records are `…`.
    pub why: String,
}

/// Places in the source, each with a key.
pub(crate) type Places = BTreeSet<(String, String)>;

/// The file of rejects. It is created when the first record is rejected.
pub(crate) struct Rejects {
    path: PathBuf,
    file: Mutex<Option<BufWriter<File>>>,
    /// The first reject that this process added, as text.
    first: OnceLock<String>,
}

/// Refuses to overwrite an existing file of rejects, unless `replace`: it may be the only trace of another copy's records.
/// A copy that begins refuses this too. To be asked before anything else is changed for it.
///
/// # Errors
/// [`TransferError::BadInput`]: the file exists and is not empty.
pub fn refuse_rejects(path: &Path, replace: bool) -> Result<(), TransferError> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && !replace && found.len() > 0 => Err(TransferError::BadInput(format!(
            "{} exists; move it away, name another file with --rejects, or use --force to overwrite it",
            path.display()
        ))),
        _ => Ok(()),
    }
}

impl Rejects {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: Mutex::new(None), first: OnceLock::new() }
    }

    /// The first reject that this process added: where the record was, and why it did not arrive.
    pub(crate) fn first(&self) -> Option<&str> {
        self.first.get().map(String::as_str)
    }

    /// Adds a record.
    pub(crate) fn add(&self, reject: &Reject) -> Result<(), TransferError> {
        self.first.get_or_init(|| format!("{}: {}", reject.from, reject.why));
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |e: &io::Error| TransferError::write(&self.path, e);
        let out = match &mut *file {
            Some(out) => out,
            None => {
                let opened = OpenOptions::new().create(true).append(true).open(&self.path).map_err(|e| failed(&e))?;
                file.insert(BufWriter::new(opened))
            }
        };
        let mut line = serde_json::to_vec(reject).map_err(|e| failed(&e.into()))?;
        line.push(b'\n');
        out.write_all(&line).map_err(|e| failed(&e))
    }

    /// Makes all added records survive a crash.
    pub(crate) fn sync(&self) -> Result<(), TransferError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(out) = &mut *file else { return Ok(()) };
        out.flush().and_then(|()| out.get_ref().sync_data()).map_err(|e| TransferError::write(&self.path, &e))
    }

    /// Begins with an empty file.
    ///
    /// # Errors
    /// As [`refuse_rejects`], or the file cannot be removed.
    pub(crate) fn begin(&self, replace: bool) -> Result<(), TransferError> {
        refuse_rejects(&self.path, replace)?;
        match std::fs::metadata(&self.path) {
            Ok(found) if found.is_file() && replace => {
                std::fs::remove_file(&self.path).map_err(|e| TransferError::write(&self.path, &e))
            }
            _ => Ok(()),
        }
    }

    /// Place in the source and key of the rejected records that have one, by split. A store has the same place for all
    /// of its records.
    pub(crate) fn places(&self) -> BTreeMap<u32, Places> {
        let mut places: BTreeMap<u32, Places> = BTreeMap::new();
        for Reject { from, split, key, .. } in self.all() {
            places.entry(split).or_default().extend(key.map(|key| (from, key)));
        }
        places
    }

    /// The rejects in the file, counted by their reasons; the most frequent reason is first.
    pub(crate) fn by_reason(&self) -> Vec<RejectReason> {
        let mut reasons: BTreeMap<(String, Vec<String>), (u64, Vec<String>)> = BTreeMap::new();
        for Reject { error, why, .. } in self.all() {
            let mut parts = parts(&why);
            let fixed = parts.iter().map(|part| if varies(part) { VARIES.to_owned() } else { part.clone() });
            let mut fixed: Vec<String> = fixed.collect();
            if reasons.len() >= MOST_REASONS && !reasons.contains_key(&(error.clone(), fixed.clone())) {
                (parts, fixed) = (vec![OTHER.to_owned()], vec![OTHER.to_owned()]);
            }
            let (records, known) = reasons.entry((error, fixed)).or_insert_with(|| (0, parts.clone()));
            *records += 1;
            for (known, part) in known.iter_mut().zip(parts).filter(|(known, part)| *known != part) {
                let quote = part.chars().next().filter(|first| !first.is_ascii_digit());
                *known = quote.map_or(VARIES.to_owned(), |quote| format!("{quote}{VARIES}{quote}"));
            }
        }
        let reason = |((error, _), (records, parts)): (_, (u64, Vec<String>))| RejectReason {
            records,
            error,
            why: parts.concat(),
        };
        let mut reasons: Vec<RejectReason> = reasons.into_iter().map(reason).collect();
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.records));
        reasons
    }

    /// All rejects in the file.
    pub(crate) fn all(&self) -> impl Iterator<Item = Reject> + use<> {
        let lines = File::open(&self.path).into_iter().flat_map(|file| BufReader::new(file).split(b'\n'));
        lines.map_while(Result::ok).filter_map(|line| serde_json::from_slice(&line).ok())
    }

    /// Keeps only the rejects of these splits. Drops those of splits that will be read again, and a line that was cut
    /// off.
    pub(crate) fn keep_only(&self, splits: &BTreeSet<u32>) -> Result<(), TransferError> {
        let failed = |e: &io::Error| TransferError::write(&self.path, e);
        let old = match File::open(&self.path) {
            Ok(old) => BufReader::new(old),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(failed(&e)),
        };
        let mut part = self.path.clone().into_os_string();
        part.push(".part");
        let mut kept = BufWriter::new(File::create(&part).map_err(|e| failed(&e))?);
        for line in old.split(b'\n') {
            let line = line.map_err(|e| failed(&e))?;
            if serde_json::from_slice::<Reject>(&line).is_ok_and(|reject| splits.contains(&reject.split)) {
                kept.write_all(&line).and_then(|()| kept.write_all(b"\n")).map_err(|e| failed(&e))?;
            }
        }
        let kept = kept.into_inner().map_err(|e| failed(e.error()))?;
        kept.sync_all().and_then(|()| std::fs::rename(&part, &self.path)).map_err(|e| failed(&e))
    }
}

/// Reasons that are counted. Texts of stores may differ in ways that no rule foresees.
const MOST_REASONS: usize = 200;
const OTHER: &str = "other reasons";

/// Stands for what differs between records.
const VARIES: &str = "…";

/// Whether part of a reason may differ between records: a number, or what is in quotes or backticks.
fn varies(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_digit() || c == '`' || c == '"')
}

/// Cuts a reason into what may differ between records and what is between it. A number is a word of its own.
fn parts(why: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut rest, mut before) = (why, ' ');
    while let Some(first) = rest.chars().next() {
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '-');
        let length = match first {
            '`' | '"' => rest[1..].find(first).map(|length| length + 2),
            '0'..='9' => {
                let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                Some(length).filter(|length| !is_word(Some(before)) && !is_word(rest[*length..].chars().next()))
            }
            _ => None,
        };
        match length {
            Some(length) => parts.extend([rest[..length].to_owned(), String::new()]),
            None => parts.last_mut().unwrap_or(&mut String::new()).push(first),
        }
        let (taken, after) = rest.split_at(length.unwrap_or(first.len_utf8()));
        (before, rest) = (taken.chars().next_back().unwrap_or(' '), after);
    }
    parts
}

/// A record for the file: its own text if any parser reads it as JSON, else that text as a string.
pub(crate) fn record(text: &[u8]) -> Box<RawValue> {
    // JSON has line ends only between its values, and the file has a line for each record.
    let on_one_line: Vec<u8> = text.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }).collect();
    serde_json::from_slice::<Value>(&on_one_line)
        .and_then(|_| serde_json::from_slice(&on_one_line))
        .or_else(|_| to_raw_value(&String::from_utf8_lossy(text)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_its_digits_and_members() {
        for (text, kept) in [
            (r#"{"n":12345678901234567890.10,"a":1,"a":2}"#, r#"{"n":12345678901234567890.10,"a":1,"a":2}"#),
            ("{\"a\":\r\n1}", r#"{"a":  1}"#),
            ("{\"a\n", r#""{\"a\n""#),
            // Half of a pair, which many parsers refuse.
            (r#"{"a":"\ud800"}"#, r#""{\"a\":\"\\ud800\"}""#),
        ] {
            assert_eq!(record(text.as_bytes()).get(), kept);
        }
    }

    #[test]
    fn rejects_are_counted_by_their_reasons() {
        let folder = tempfile::tempdir().unwrap();
        let rejects = Rejects::new(folder.path().join("rejects.jsonl"));
        for (error, why) in [
            ("unreadable", "the key holds a list"),
            ("refused", "column `a`: `x1` is not a valid number"),
            ("refused", "column `a`: `y` is not a valid number"),
            ("unreadable", "the key holds a set"),
            ("unreadable", "the key holds a list"),
            ("unreadable", "not UTF-8 from byte 3 of the line on"),
            ("unreadable", "not UTF-8 from byte 17 of the line on"),
            ("unreadable", "not UTF-8 from byte 17 of the line on"),
        ] {
            let reject = Reject {
                from: "a".into(),
                split: 0,
                key: None,
                key_base64: None,
                op: "upsert".into(),
                error: error.into(),
                why: why.into(),
                tries: 0,
                record: record(b"{"),
                record_base64: None,
            };
            rejects.add(&reject).unwrap();
        }
        rejects.sync().unwrap();
        let counted: Vec<_> = rejects.by_reason().into_iter().map(|reason| (reason.records, reason.why)).collect();
        let expected = [
            (3, "not UTF-8 from byte … of the line on"),
            (2, "column `a`: `…` is not a valid number"),
            (2, "the key holds a list"),
            (1, "the key holds a set"),
        ];
        assert_eq!(counted, expected.map(|(records, why)| (records, why.to_owned())));
    }
}
