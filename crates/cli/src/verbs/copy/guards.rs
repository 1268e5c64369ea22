//! Checks before a copy writes anything. A target must not be the source, contain it, or be inside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use storebench_engine::store::{
    AnyStore, CollectionLayout, Existing, StoreError, Uses, canonical, first_answer, place_of, same_file,
};
use storebench_results::redact_url;
use storebench_study::workload::Body;
use storebench_transfer::FileLocation;

use super::plan::Plan;
use crate::args::CopyArgs;
use crate::endpoints::{Endpoint, find_files};
use crate::failure::Failure;
use crate::stores;

/// The maximum number of collections listed in an error.
const LISTED: usize = 30;

/// Fills in the only collection of the source if none was named.
///
/// # Errors
/// The store has several collections, lists none, or fails.
pub(super) fn with_collection(args: CopyArgs, from: &Endpoint) -> Result<CopyArgs, Failure> {
    let Endpoint::Store(url, _) = from else { return Ok(args) };
    if args.from_collection.is_some() || args.query.is_some() {
        return Ok(args);
    }
    let ask = |there: &str| {
        let say = "name the collection to read with --from-collection NAME (or use --query)";
        Failure::bad_input(format!("{}: {say}{there}", redact_url(url)))
    };
    answered(&args, [from])?;
    // With a driver of its own, too.
    let mut there = match stores::open_to_read(url)?.collections() {
        Ok(there) => there,
        Err(StoreError::NotSupported(_)) => return Err(ask("")),
        Err(error) => return Err(Failure::of_store(url, &error)),
    };
    there.sort_unstable();
    match there.as_slice() {
        [] => Err(ask("")),
        [one] => Ok(CopyArgs { from_collection: Some(one.clone()), ..args }),
        several => {
            let more = several.len().saturating_sub(LISTED);
            let mut names = several[..several.len() - more].join(", ");
            if more > 0 {
                names += &format!(" and {more} more");
            }
            Err(ask(&format!("; it has: {names}")))
        }
    }
}

/// Refuses stores that do not answer within `--timeout`. Asks with drivers of its own, because those of the plan have no
/// contact yet.
pub(super) fn answered<'a>(args: &CopyArgs, ends: impl IntoIterator<Item = &'a Endpoint>) -> Result<(), Failure> {
    for end in ends {
        if let Endpoint::Store(url, _) = end {
            first_answer(&stores::open(url)?, args.timeout.0).map_err(|error| Failure::of_store(url, &error))?;
        }
    }
    Ok(())
}

/// Refuses a target that is the source, is inside it, contains it, or cannot be opened beside it. Refuses a rejects file
/// that is one of the copied files. `theirs` says that Storebench did not create the source's collection.
///
/// # Errors
/// Names the conflict, and what to do.
pub(super) fn check_places(plan: &Plan, theirs: bool) -> Result<(), Failure> {
    let Plan { args, from, to, to_collection, .. } = plan;
    match (from, to) {
        (Endpoint::Store(_, source), Endpoint::Store(_, target)) if args.query.is_none() => {
            let read = collection(args.from_collection.as_deref(), theirs);
            let written = collection(to_collection.as_deref(), args.into_existing);
            if same_place(source, target) && source.full_name(&read) == target.full_name(&written) {
                return Err(itself(
                    &format!("{}, {}", source.describe().url, read.name),
                    "write into another collection (--to-collection) or another store",
                ));
            }
            if source.capabilities().opened_once && same_place(source, target) {
                return Err(Failure::bad_input(format!(
                    "{}: source and target are one database, which cannot be opened twice; copy the collection into a \
                     file, and the file into the database",
                    source.describe().url
                )));
            }
        }
        (Endpoint::Remote(source), Endpoint::Remote(target)) => {
            let (source, target) = (FileLocation::shown(source), FileLocation::shown(target));
            if source == target {
                return Err(itself(&source, "write to another place"));
            }
            if target.ends_with('/') && source.starts_with(&target) || holds_remote(&source, &target) {
                return Err(within(&source, &target));
            }
        }
        _ => {}
    }
    let (read, written) = (Local::of(from), Local::of(to));
    if let (Some(read), Some(written)) = (&read, &written) {
        read.check(written)?;
    }
    if let Some(rejects) = &args.rejects {
        let is = |end: &Local| end.files.iter().any(|file| same_file(file, rejects)) || end.matches(rejects);
        if read.as_ref().is_some_and(is) || written.as_ref().is_some_and(is) {
            return Err(Failure::bad_input(format!(
                "--rejects {} is among the files that are copied; use a file elsewhere",
                rejects.display()
            )));
        }
    }
    Ok(())
}

fn collection(name: Option<&str>, theirs: bool) -> CollectionLayout {
    let name = name.unwrap_or_default().to_owned();
    let existing = theirs.then(|| Existing { name: name.clone(), key: None, body: None });
    CollectionLayout { name, body: Body::Json, indexes: Vec::new(), existing, uses: Uses::ALL }
}

/// Whether two stores keep their data in the same place.
fn same_place(a: &Arc<dyn AnyStore>, b: &Arc<dyn AnyStore>) -> bool {
    match (a.paths().first(), b.paths().first()) {
        (Some(a), Some(b)) => same_file(a, b),
        _ => place_of(a, &a.describe().url) == place_of(b, &b.describe().url),
    }
}

fn itself(place: &str, remedy: &str) -> Failure {
    Failure::bad_input(format!(
        "source and target are the same: {place}. `copy` does not change its source; {remedy}, then replace the source \
         with it"
    ))
}

fn within(inner: &str, outer: &str) -> Failure {
    Failure::bad_input(format!(
        "{inner} is inside {outer}: this copy or the next one would read its own output; write elsewhere"
    ))
}

/// Whether a pattern or folder of remote files includes a target.
fn holds_remote(source: &str, target: &str) -> bool {
    if source.ends_with('/') {
        return target.strip_prefix(source).is_some_and(|below| !is_hidden(Path::new(below)));
    }
    source.contains(['*', '?', '[']) && fits(source, Path::new(target))
}

fn is_hidden(below: &Path) -> bool {
    below.components().any(|part| part.as_os_str().to_string_lossy().starts_with(['.', '_']))
}

fn fits(pattern: &str, path: &Path) -> bool {
    let by = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    glob::Pattern::new(pattern).is_ok_and(|pattern| pattern.matches_path_with(path, by))
}

/// A local end of a copy.
struct Local {
    shown: String,
    /// The files that are read or written, as far as they are known. For a store, its files or its folder.
    files: Vec<PathBuf>,
    /// The folder whose files are read, or into which parts are written.
    folder: Option<PathBuf>,
    /// The pattern of the files that are read.
    pattern: Option<String>,
}

impl Local {
    fn of(end: &Endpoint) -> Option<Self> {
        let local = |shown: &str, files| Self { shown: shown.to_owned(), files, folder: None, pattern: None };
        match end {
            Endpoint::Standard | Endpoint::Remote(_) => None,
            Endpoint::Store(url, store) => {
                let files = store.paths();
                (!files.is_empty()).then(|| local(&redact_url(url), files))
            }
            Endpoint::Files(typed) => {
                let path = Path::new(typed);
                if typed.ends_with('/') || path.is_dir() {
                    Some(Self { folder: Some(canonical(path)), ..local(typed, Vec::new()) })
                } else if typed.contains(['*', '?', '[']) && !path.exists() {
                    // If no file matches, it is the name of a target.
                    let files = find_files(typed).map_or_else(|_| vec![path.to_owned()], |found| found.files);
                    Some(Self { pattern: Some(whole_pattern(typed)), ..local(typed, files) })
                } else {
                    Some(local(typed, vec![path.to_owned()]))
                }
            }
        }
    }

    /// Whether reading this source again would include a file with this path.
    fn matches(&self, path: &Path) -> bool {
        let path = canonical(path);
        let below = |folder: &PathBuf| path.strip_prefix(folder).is_ok_and(|below| !is_hidden(below));
        self.folder.as_ref().is_some_and(below) || self.pattern.as_ref().is_some_and(|pattern| fits(pattern, &path))
    }

    fn check(&self, written: &Self) -> Result<(), Failure> {
        if let Some(one) = self.files.iter().find(|read| written.files.iter().any(|file| same_file(read, file))) {
            // `check_places` has already compared the collections of one database.
            let databases = self.shown.contains(':') && written.shown.contains(':');
            if !databases {
                return Err(itself(&one.display().to_string(), "write to another file"));
            }
        }
        let target =
            written.files.first().cloned().or_else(|| written.folder.as_ref().map(|folder| folder.join("part")));
        if target.is_some_and(|target| self.matches(&target)) || self.folder.is_some() && self.folder == written.folder
        {
            return Err(within(&written.shown, &self.shown));
        }
        let read = self.files.iter().chain(&self.folder).map(|file| canonical(file));
        let holds = |read: &PathBuf| {
            let folders = written.folder.iter().cloned().chain(written.files.iter().map(|file| canonical(file)));
            folders.into_iter().any(|folder| read != &folder && read.starts_with(folder))
        };
        match read.into_iter().find(holds) {
            Some(read) => Err(within(&read.display().to_string(), &written.shown)),
            None => Ok(()),
        }
    }
}

/// A pattern with the canonical path of its leading folder.
fn whole_pattern(typed: &str) -> String {
    let first = typed.find(['*', '?', '[']).unwrap_or(typed.len());
    let (folder, rest) = typed[..first].rfind('/').map_or((".", typed), |at| (&typed[..at.max(1)], &typed[at + 1..]));
    let folder = canonical(Path::new(folder)).display().to_string();
    format!("{}/{rest}", glob::Pattern::escape(folder.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(from: &str, to: &str) -> Result<(), Failure> {
        let end = |text: &str| Local::of(&Endpoint::of(text).unwrap()).unwrap();
        end(from).check(&end(to))
    }

    #[test]
    fn a_target_is_neither_the_source_nor_within_it_nor_around_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir(path("data")).unwrap();
        std::fs::create_dir(path("out")).unwrap();
        for name in ["data/a.jsonl", "data/b.jsonl", "x.db"] {
            std::fs::write(path(name), "").unwrap();
        }
        std::fs::hard_link(path("data/a.jsonl"), path("hard.jsonl")).unwrap();
        std::os::unix::fs::symlink(path("data"), path("link")).unwrap();
        let store = |name: &str| format!("sqlite:{}", path(name));
        for (from, to) in [
            (path("data/a.jsonl"), path("data/../data/a.jsonl")),
            (path("data/a.jsonl"), path("hard.jsonl")),
            (path("data/a.jsonl"), path("link/a.jsonl")),
            (path("data/a.jsonl"), path("data/")),
            (path("data/a.jsonl"), path("link")),
            (path("data/a.jsonl"), store("hard.jsonl")),
            (path("data/"), path("data/all.jsonl")),
            (path("data/"), path("data/out/")),
            (path("data/"), path("data/")),
            (path("data"), store("link/new.db")),
            (path("data/*.jsonl"), path("link/new.jsonl")),
            (path("link/*.jsonl"), path("data/new.jsonl")),
            (path("*/*.jsonl"), path("data/a.jsonl")),
            (store("x.db"), path("x.db")),
            (store("x.db"), format!("{}/", folder.path().display())),
        ] {
            let told = files(&from, &to).unwrap_err();
            assert!(told.code == storebench_results::exit::BAD_INPUT, "{from} → {to}: {told:?}");
        }
        for (from, to) in [
            (path("data/a.jsonl"), path("data/c.jsonl")),
            (path("data/"), path("data/_out/")),
            (path("data/"), path("database.jsonl")),
            (path("data/*.jsonl"), path("data/all.csv")),
            (path("data/*.jsonl"), path("data/deep/all.jsonl")),
            (path("data/"), path("out/")),
            (store("x.db"), path("out/")),
        ] {
            files(&from, &to).unwrap_or_else(|told| panic!("{from} → {to}: {told:?}"));
        }
    }

    #[test]
    fn objects_are_told_apart_by_their_names() {
        let check = |from: &str, to: &str| {
            let args = ["storebench", "copy", from, to];
            let crate::args::Verb::Copy(args) = <crate::args::Args as clap::Parser>::parse_from(args).verb else {
                unreachable!()
            };
            check_places(&Plan::of(*args).unwrap(), false).is_ok()
        };
        for (from, to) in [
            ("s3://b/a.jsonl", "s3://b/a.jsonl?region=x"),
            ("s3://b/data/", "s3://b/data/all.jsonl"),
            ("s3://b/data/*.jsonl", "s3://b/data/all.jsonl"),
            ("s3://b/data/a.jsonl", "s3://b/data/"),
        ] {
            assert!(!check(from, to), "{from} → {to}");
        }
        assert!(check("s3://b/data/a.jsonl", "s3://b/data/b.jsonl") && check("s3://b/data/", "s3://b/out/"));
    }
}
