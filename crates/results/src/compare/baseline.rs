//! Named baselines: copies of `run.json` in one folder.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use storebench_study::workload::did_you_mean;

use super::error::{CompareError, list};
use super::sides::Source;

/// The longest name.
const LONGEST_NAME: usize = 100;

/// A baseline that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Where.
    pub path: PathBuf,
    /// Whether another was there before.
    pub replaced: bool,
}

impl Source {
    /// Reads the baseline `NAME` or `NAME#CONFIGURATION` of this folder.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn baseline(dir: &Path, text: &str) -> Result<Self, CompareError> {
        let (name, configuration) =
            text.split_once('#').map_or((text, None), |(name, configuration)| (name, Some(configuration)));
        let path = path_of(dir, name)?;
        if !path.exists() {
            return Err(CompareError::Baseline(missing(dir, name)));
        }
        Self::read(path.display().to_string(), Some(name.to_owned()), &path, configuration)
    }
}

/// Keeps a run as a baseline: its `run.json`, byte for byte, put in place whole.
///
/// # Errors
/// The run is partial, the name does not make a file name, a baseline of this name is there and is not to be replaced, or
/// the file cannot be written: what was there before stays.
pub fn save_baseline(run: &Source, dir: &Path, name: &str, replace: bool) -> Result<Saved, CompareError> {
    let path = path_of(dir, name)?;
    let taken = || {
        let text = format!("{} exists; choose another name, or use --force to overwrite it", path.display());
        Err(CompareError::Baseline(text))
    };
    if !replace && path.exists() {
        return taken();
    }
    if let Some(configuration) = &run.configuration {
        let text = format!(
            "a baseline holds a whole run: leave `#{configuration}` out, and name the configuration when you compare"
        );
        return Err(CompareError::Baseline(text));
    }
    let mut partial: Vec<String> = run.unfinished().map(|why| format!("{}: {why}", run.label())).into_iter().collect();
    for configuration in run.configurations()? {
        let (_, left_out) = configuration.whole();
        partial
            .extend(left_out.into_iter().map(|t| format!("{}, trial {}: {}", configuration.label(), t.trial, t.why)));
    }
    if !partial.is_empty() {
        let text = format!("a partial run cannot be a baseline:\n  {}\nrun it again", partial.join("\n  "));
        return Err(CompareError::Baseline(text));
    }
    let failed = |source| CompareError::Write { path: path.clone(), source };
    let put = || {
        let bytes = std::fs::read(&run.file)?;
        std::fs::create_dir_all(dir)?;
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(&bytes)?;
        file.as_file().sync_data()?;
        let replaced = path.exists();
        let put = if replace { file.persist(&path) } else { file.persist_noclobber(&path) };
        put.map(|_| replaced).map_err(|e| e.error)
    };
    let replaced = match put() {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && !replace => return taken(),
        put => put.map_err(failed)?,
    };
    Ok(Saved { path: path.clone(), replaced })
}

fn path_of(dir: &Path, name: &str) -> Result<PathBuf, CompareError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || name.len() > LONGEST_NAME || !name.chars().all(fits) {
        return Err(CompareError::Baseline(format!(
            "`{name}` names no baseline: use letters, digits, `-`, `_` and `.`, such as main or v1.2"
        )));
    }
    Ok(dir.join(format!("{name}.json")))
}

fn missing(dir: &Path, name: &str) -> String {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut there: Vec<String> = files
        .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
        .filter(|name| !name.starts_with('.'))
        .collect();
    there.sort();
    let none = format!("there is no baseline `{name}` in {}", dir.display());
    if there.is_empty() {
        return format!("{none}, nor any other: keep one with `storebench compare RUN --save-baseline {name}`");
    }
    match did_you_mean(name, there.iter().map(String::as_str)) {
        Some(near) => format!("{none}; did you mean `{near}`?"),
        None => format!("{none}; there are: {}", list(&there)),
    }
}
