//! Named baselines: copies of `run.json` in one folder each.

use std::path::{Path, PathBuf};

use storebench_study::workload::did_you_mean;

use super::error::{CompareError, list};
use super::sides::{OneRun, Source, different};
use crate::comparability::differences;
use crate::human::plural;
use crate::new_file::write_new;

/// The longest name.
const LONGEST_NAME: usize = 100;

/// A run that was added to a baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Its file.
    pub path: PathBuf,
    /// The runs that the baseline has now.
    pub runs: usize,
    /// The files of the runs that were removed from it.
    pub removed: Vec<PathBuf>,
}

/// The runs of a baseline to keep when another is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All of them.
    All,
    /// None.
    None,
    /// So many, with the added one: the newest.
    Newest(usize),
}

impl Source {
    /// Reads the baseline `NAME` or `NAME#CONFIGURATION` of this folder.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn baseline(dir: &Path, text: &str) -> Result<Self, CompareError> {
        let (name, configuration) =
            text.split_once('#').map_or((text, None), |(name, configuration)| (name, Some(configuration)));
        let runs = runs_of(dir, name)?;
        if runs.is_empty() {
            return Err(CompareError::Baseline(missing(dir, name)));
        }
        different(&runs)?;
        let path = folder_of(dir, name)?.display().to_string();
        Ok(Self::of(&path, Some(name), configuration, runs))
    }
}

/// Adds a run to a baseline: its `run.json`, byte for byte.
///
/// # Errors
/// The run is partial or already in the baseline, the name does not make a file name, or the file cannot be written:
/// what was there before stays.
pub fn save_baseline(source: &Source, dir: &Path, name: &str, keep: Keep) -> Result<Saved, CompareError> {
    let folder = folder_of(dir, name)?;
    let refused = |text: String| Err(CompareError::Baseline(text));
    let [run] = &source.runs[..] else { return refused("save one run at a time".to_owned()) };
    if let Some(configuration) = &source.configuration {
        return refused(format!(
            "a baseline holds whole runs: leave `#{configuration}` out, and name the configuration when you compare"
        ));
    }
    let mut partial: Vec<String> =
        source.configurations()?.iter().flat_map(super::sides::SideConfiguration::partial).collect();
    partial.dedup();
    if !partial.is_empty() {
        return refused(format!("a partial run cannot be a baseline:\n  {}\nrun it again", partial.join("\n  ")));
    }
    let mut before = runs_of(dir, name)?;
    before.sort_by(|a, b| b.run.run.began.cmp(&a.run.run.began));
    if let Some(same) = before.iter().find(|other| other.is(run)) {
        return refused(format!("baseline {name} has this run already: {}", same.file.display()));
    }
    if let (Some(other), true) = (before.first(), keep != Keep::None) {
        fits(run, other, name)?;
    }
    if let Keep::Newest(most) = keep
        && let newer = before.iter().filter(|other| other.run.run.began > run.run.run.began).count()
        && newer >= most
    {
        return refused(format!(
            "baseline {name} has {} that began later than this one, so it would not be among the newest {most}",
            plural(newer as u64, "run")
        ));
    }
    let path = free_name(&folder, &run.run.run.began);
    let failed = |source| CompareError::Write { path: path.clone(), source };
    std::fs::read(&run.file).and_then(|bytes| write_new(&path, &bytes)).map_err(failed)?;
    // Only now: there is always a baseline.
    let kept = match keep {
        Keep::All => before.len(),
        Keep::None => 0,
        Keep::Newest(most) => most.saturating_sub(1).min(before.len()),
    };
    let removed = before.split_off(kept);
    for old in &removed {
        std::fs::remove_file(&old.file).map_err(|e| {
            let text =
                format!("{}: cannot be removed: {e}; the run was saved in {}", old.file.display(), path.display());
            CompareError::Baseline(text)
        })?;
    }
    Ok(Saved { path: path.clone(), runs: kept + 1, removed: removed.into_iter().map(|old| old.file).collect() })
}

/// The runs of a baseline, oldest first.
fn runs_of(dir: &Path, name: &str) -> Result<Vec<OneRun>, CompareError> {
    let folder = folder_of(dir, name)?;
    let unreadable = |e: std::io::Error| CompareError::Baseline(format!("{}: cannot be read: {e}", folder.display()));
    let paths = |entries: std::fs::ReadDir| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>();
    let mut files: Vec<PathBuf> = match std::fs::read_dir(&folder).and_then(paths) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        files => files.map_err(unreadable)?,
    };
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    files.iter().map(|file| OneRun::read(&file.display().to_string())).collect()
}

/// Refuses a run that can never be compared together with the runs of the baseline.
fn fits(run: &OneRun, other: &OneRun, name: &str) -> Result<(), CompareError> {
    let of = |run: &OneRun| Source::of(&run.name, None, None, vec![run.clone()]);
    let (new, old) = (of(run), of(other));
    let (new, old) = (new.configurations()?, old.configurations()?);
    let mut both = old.iter().filter_map(|old| Some((old, new.iter().find(|new| new.name == old.name)?))).peekable();
    let told = |what: &str| {
        let next = "use another name, or --force to replace the baseline";
        Err(CompareError::Baseline(format!("{} does not belong to baseline {name}: {what}; {next}", run.name)))
    };
    if both.peek().is_none() {
        return told("they have no configuration in common");
    }
    for (old, new) in both {
        if let Some(first) = differences(&old.runs[0].whole().0, &new.runs[0].whole().0).first() {
            return told(&first.place_and_text());
        }
    }
    Ok(())
}

/// A file name for a run that began then, which no other has.
fn free_name(folder: &Path, began: &str) -> PathBuf {
    let stem: String = began.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = |more: u32| if more == 1 { format!("{stem}.json") } else { format!("{stem}-{more}.json") };
    (1..).map(|more| folder.join(name(more))).find(|path| !path.exists()).unwrap_or_else(|| folder.join(name(1)))
}

fn folder_of(dir: &Path, name: &str) -> Result<PathBuf, CompareError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || name.len() > LONGEST_NAME || !name.chars().all(fits) {
        return Err(CompareError::Baseline(format!(
            "`{name}` names no baseline: use letters, digits, `-`, `_` and `.`, such as main or v1.2"
        )));
    }
    Ok(dir.join(name))
}

fn missing(dir: &Path, name: &str) -> String {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut there: Vec<String> = files
        .filter_map(|file| file.path().is_dir().then(|| Some(file.file_name().to_str()?.to_owned()))?)
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
