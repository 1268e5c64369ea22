//! Fields that the folders of files name, as Hive and Spark write them: `year=2024/month=01/part-0.parquet`.

use std::borrow::Cow;

use crate::shape::members::{self, ObjectWriter};

/// What Hive writes for null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The fields of all files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Partitions {
    pub(super) names: Vec<String>,
    /// For each file, the values as JSON.
    values: Vec<Vec<String>>,
}

/// The fields of one file.
#[derive(Clone, Copy)]
pub(super) struct Partition<'a> {
    names: &'a [String],
    values: &'a [String],
}

impl Partitions {
    /// Those of files with these paths; none unless the folders of every file name the same fields. A field is a number if
    /// it is one, written as JSON does, in every file: months from `01` to `12` are texts.
    pub(super) fn of(paths: &[String]) -> Self {
        let all: Vec<Vec<(String, String)>> = paths.iter().map(|path| fields(path)).collect();
        let names = |fields: &[(String, String)]| fields.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let first = all.first().map(|fields| names(fields)).unwrap_or_default();
        let repeats = first.iter().enumerate().any(|(at, name)| first[..at].contains(name));
        if first.is_empty() || repeats || all.iter().any(|fields| names(fields) != first) {
            return Self::default();
        }
        let is_number = |text: &str| text == NULL || text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
        let numbers: Vec<bool> = (0..first.len()).map(|at| all.iter().all(|fields| is_number(&fields[at].1))).collect();
        let json = |(at, (_, value)): (usize, &(String, String))| match value.as_str() {
            NULL => "null".to_owned(),
            number if numbers[at] => number.to_owned(),
            text => serde_json::Value::from(text).to_string(),
        };
        let values = all.iter().map(|fields| fields.iter().enumerate().map(json).collect()).collect();
        Self { names: first, values }
    }

    /// The fields of a file; `None` if there are none.
    pub(super) fn file(&self, number: u32) -> Option<Partition<'_>> {
        let values = self.values.get(number as usize)?;
        Some(Partition { names: &self.names, values })
    }
}

/// The fields that the folders of a path name.
fn fields(path: &str) -> Vec<(String, String)> {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let field = |folder: &str| {
        let (name, value) = folder.split_once('=').filter(|(name, _)| !name.is_empty())?;
        Some((decoded(name), decoded(value)))
    };
    folders.split('/').filter_map(field).collect()
}

/// Decodes `%2F`, as Hive writes characters that a folder cannot have.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                out.push(code);
                rest = &after[2..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

impl Partition<'_> {
    /// The record with these fields, except those that it has itself. What is not an object stays as it is.
    pub(super) fn added_to<'j>(&self, json: &'j str) -> Cow<'j, str> {
        let mut found = Vec::new();
        let Ok(()) = members::find(json, self.names, &mut found) else { return Cow::Borrowed(json) };
        let Ok(own) = members::written(json) else { return Cow::Borrowed(json) };
        let mut out = Vec::with_capacity(json.len() + 64);
        let mut object = ObjectWriter::new(&mut out);
        for (name, value) in own {
            let member = object.raw(name.get());
            member.push(b':');
            member.extend_from_slice(value.get().as_bytes());
        }
        for ((name, value), found) in self.names.iter().zip(self.values).zip(found) {
            if found.is_none() {
                object.add(name, value);
            }
        }
        object.end();
        String::from_utf8(out).map_or(Cow::Borrowed(json), Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_name_fields_if_all_files_agree() {
        let added = |paths: &[&str], json: &str| -> Vec<String> {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            let partitions = Partitions::of(&paths);
            (0..paths.len() as u32)
                .map(|n| partitions.file(n).map_or(json.to_owned(), |file| file.added_to(json).into_owned()))
                .collect()
        };
        assert_eq!(
            added(&["sp/year=2024/month=01/a", "sp/year=2025/month=12/b"], r#"{"n":1}"#),
            [r#"{"n":1,"year":2024,"month":"01"}"#, r#"{"n":1,"year":2025,"month":"12"}"#]
        );
        // A record keeps its own fields.
        assert_eq!(added(&["y=1/z=a%2Fb%3D/a"], r#" { "y" : [1, 2] } "#), [r#"{"y":[1, 2],"z":"a/b="}"#]);
        assert_eq!(added(&["c=__HIVE_DEFAULT_PARTITION__/a", "c=7/b"], "{}"), [r#"{"c":null}"#, r#"{"c":7}"#]);
        for paths in [&["year=2024/a", "b"][..], &["x=1/a", "y=1/b"], &["x=1/x=2/a"], &["a=b.jsonl"], &["=1/a"]] {
            assert!(added(paths, "{}").iter().all(|json| json == "{}"), "{paths:?}");
        }
        assert_eq!(added(&["x=1/a"], "[1]"), ["[1]"]);
        assert_eq!(added(&["x=1/a"], "broken"), ["broken"]);
    }
}
