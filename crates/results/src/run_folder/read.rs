//! Reads a run folder that anyone may have made, moved or damaged.

use std::path::Path;

use serde_json::Value;

use super::folder::{FolderError, RESULT_FILE};
use super::model::{FORMAT, RunResult};

/// Reads a run from its folder, or from the path of its `run.json`.
///
/// # Errors
/// [`FolderError`]: the result cannot be read, is not a result, is damaged, or has another format. Each error names the
/// file and what to do.
pub fn read_run(path: &Path) -> Result<RunResult, FolderError> {
    let file = if path.is_dir() { path.join(RESULT_FILE) } else { path.to_owned() };
    let bytes = std::fs::read(&file).map_err(|source| FolderError::Read { path: file.clone(), source })?;
    read_result(&bytes, &file)
}

/// Reads a result from the bytes of a `run.json`. `file` only appears in errors.
///
/// # Errors
/// As [`read_run`].
pub fn read_result(bytes: &[u8], file: &Path) -> Result<RunResult, FolderError> {
    let corrupt = |what: String| FolderError::Corrupt { path: file.to_owned(), what };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(corrupt(
            "the file is empty: the run was not written, or its copy failed; run or copy it again".into(),
        ));
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|e| {
        corrupt(match e.classify() {
            serde_json::error::Category::Eof => {
                format!("the file ends in the middle of a value at line {}: it was cut off; copy it again", e.line())
            }
            _ => format!(
                "the file is not JSON (line {}, column {}); give the {RESULT_FILE} of a run",
                e.line(),
                e.column()
            ),
        })
    })?;
    let Some(format) = value.get("format").and_then(Value::as_str).map(str::to_owned) else {
        return Err(corrupt(format!(
            "the file has no `format`, so Storebench did not write it; give the {RESULT_FILE} of a run"
        )));
    };
    if format != FORMAT {
        let number = |text: &str| text.strip_prefix("storebench-run/").and_then(|n| n.parse::<u64>().ok());
        let remedy = match (number(&format), number(FORMAT)) {
            (Some(theirs), Some(ours)) if theirs > ours => "a newer Storebench wrote it: update this one",
            (Some(_), _) => "an older Storebench wrote it: read it with that version",
            (None, _) => "Storebench did not write it: give the run.json of a run",
        };
        return Err(FolderError::Format { path: file.to_owned(), format, remedy: remedy.to_owned() });
    }
    serde_json::from_value(value).map_err(|e| {
        corrupt(format!("the file claims format `{format}`, but {e}: it was changed after the run; use the original"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture;

    /// Two configurations in two rounds, so that results over several of them exist too.
    fn whole() -> Vec<u8> {
        let mut result = fixture::swept();
        result.trials.retain(|trial| trial.round < 3 && trial.phases[1].workers < 3);
        serde_json::to_vec_pretty(&fixture::concluded(result)).unwrap()
    }

    fn refusal(bytes: &[u8]) -> String {
        read_result(bytes, Path::new("runs/x/run.json")).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_result_is_refused_by_name() {
        let whole = whole();
        let newer = String::from_utf8(whole.clone()).unwrap().replace(FORMAT, "storebench-run/4");
        for (bytes, says) in [
            (&b""[..], "empty"),
            (b"\x00\xff\xfe garbage", "not JSON"),
            (&whole[..whole.len() / 2], "cut off"),
            (b"{\"a\": 1}", "has no `format`"),
            (b"[1, 2]", "has no `format`"),
            (b"{\"format\": \"other/1\"}", "did not write it"),
            (newer.as_bytes(), "newer Storebench"),
            (b"{\"format\": \"storebench-run/1\"}", "older Storebench"),
            (b"{\"format\": \"storebench-run/3\"}", "missing field"),
            (b"{\"format\": \"storebench-run/3\", \"run\": 7}", "invalid type"),
        ] {
            let text = refusal(bytes);
            assert!(text.contains("runs/x/run.json") && text.contains(says), "{text}");
        }
    }

    #[test]
    fn a_folder_without_a_result_says_what_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let text = read_run(dir.path()).unwrap_err().to_string();
        assert!(text.contains("run.json") && text.contains("run folder"), "{text}");
    }

    #[test]
    fn fields_of_a_later_version_are_passed_over() {
        let mut value: Value = serde_json::from_slice(&whole()).unwrap();
        value["run"]["later"] = 1.into();
        read_result(value.to_string().as_bytes(), Path::new("x")).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Whatever happens to a file, it is read or rejected. A result that is read can be judged, printed and written
        /// again.
        #[test]
        fn a_damaged_result_never_panics(
            cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3usize), 1..6),
        ) {
            thread_local!(static WHOLE: Vec<u8> = whole());
            let mut bytes = WHOLE.with(Clone::clone);
            for (at, byte, what) in cuts {
                let at = at.index(bytes.len());
                match what {
                    0 => bytes[at] = byte,
                    1 => bytes.truncate(at.max(1)),
                    _ => { bytes.remove(at); }
                }
                if bytes.len() < 2 { break; }
            }
            survives(&bytes);
        }

        /// The same with values replaced by other JSON values, which get past the parser.
        #[test]
        fn a_changed_result_never_panics(
            places in proptest::collection::vec((any::<prop::sample::Index>(), 0..8usize), 1..8),
        ) {
            thread_local!(static VALUE: Value = serde_json::from_slice(&whole()).unwrap());
            let mut value = VALUE.with(Clone::clone);
            for (at, what) in places {
                let mut pointers = Vec::new();
                leaves(&value, &mut String::new(), &mut pointers);
                let pointer = &pointers[at.index(pointers.len())];
                let with = [
                    Value::Null, 0.into(), u64::MAX.into(), (-1).into(), 1e300.into(), "".into(),
                    Value::Array(vec![]), serde_json::json!({}),
                ][what].clone();
                if let Some(place) = value.pointer_mut(pointer) {
                    *place = with;
                }
            }
            survives(value.to_string().as_bytes());
        }
    }

    fn survives(bytes: &[u8]) {
        if let Ok(mut result) = read_result(bytes, Path::new("run.json")) {
            let _ = crate::summary::summary(&result, crate::summary::Layout::plain());
            crate::conclude::conclude(&[], &mut result);
            let _ = crate::validity::exit_code(&result);
            let _ = crate::summary::summary(&result, crate::summary::Layout::plain());
            serde_json::to_string(&result).unwrap();
        }
    }

    fn leaves(value: &Value, at: &mut String, out: &mut Vec<String>) {
        let mut into = |key: &str, inner: &Value| {
            let length = at.len();
            at.push('/');
            at.push_str(key);
            leaves(inner, at, out);
            at.truncate(length);
        };
        match value {
            Value::Object(fields) if !fields.is_empty() => fields.iter().for_each(|(k, v)| into(k, v)),
            Value::Array(items) if !items.is_empty() => {
                items.iter().enumerate().for_each(|(i, v)| into(&i.to_string(), v));
            }
            _ => out.push(at.clone()),
        }
    }
}
