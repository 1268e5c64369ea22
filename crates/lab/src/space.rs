//! Checks before anything is written whether the data fits on its disks, whether this process may open enough files, and
//! whether a plan ends in reasonable time.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use storebench_engine::store::canonical;
use storebench_results::human::{bytes, count, duration};

/// A plan that takes longer, even with the fastest stores, is considered a mistake.
const LONGEST_S: f64 = 365.0 * 86_400.0;

/// Data that will be written to one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// A description, such as `the database of sqlite`.
    pub what: String,
    /// A file or folder, whether or not it exists.
    pub path: PathBuf,
    /// Estimated size in bytes.
    pub bytes: u64,
}

/// Free space on the disk that holds a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Free {
    /// Identifies the disk.
    pub disk: u64,
    /// Bytes that this user may still write.
    pub bytes: u64,
}

/// The disk that holds a path, or would hold it once it is created. `None` if that is unknown.
pub fn free_at(path: &Path) -> Option<Free> {
    let path = canonical(path);
    let existing = path.ancestors().find(|path| path.exists())?;
    let stat = rustix::fs::statvfs(existing).ok()?;
    // Some file systems report no blocks, such as those served by a process.
    let counts = stat.f_blocks > 0;
    counts.then_some(Free { disk: existing.metadata().ok()?.dev(), bytes: stat.f_bavail.saturating_mul(stat.f_frsize) })
}

/// Refuses data that does not fit. Places on one disk share its free space.
///
/// # Errors
/// Says how much space is needed and free, where, and what to do.
pub fn check_space(needs: &[Need], free_at: &dyn Fn(&Path) -> Option<Free>) -> Result<(), String> {
    let mut disks: BTreeMap<u64, (Free, Vec<&Need>)> = BTreeMap::new();
    for need in needs.iter().filter(|need| need.bytes > 0) {
        if let Some(free) = free_at(&need.path) {
            disks.entry(free.disk).or_insert_with(|| (free, Vec::new())).1.push(need);
        }
    }
    for (free, needs) in disks.values() {
        let all = needs.iter().fold(0_u64, |sum, need| sum.saturating_add(need.bytes));
        if all > free.bytes {
            let each: Vec<String> =
                needs.iter().map(|need| format!("{} for {}", bytes(need.bytes as f64), need.what)).collect();
            let path = needs.first().map(|need| need.path.display().to_string()).unwrap_or_default();
            return Err(format!(
                "not enough disk space: about {} needed ({}), {} free at {path}; nothing was written. Free some space, use \
                 another disk, or continue with --anyway",
                bytes(all as f64),
                each.join(", "),
                bytes(free.bytes as f64)
            ));
        }
    }
    Ok(())
}

/// The most files that this process lets itself open, if the system allows it. Servers that it starts have the same limit.
const OPEN_FILES: u64 = 1 << 16;
/// Files that any work may have open: the standard streams, logs, tables, event loops.
pub const OPEN_FILES_OF_ITSELF: u64 = 48;
/// Files that a thread with sessions may have open besides these: its event loop.
pub const OPEN_FILES_OF_A_WORKER: u64 = 5;

/// Raises this process's own limit of open files, as far as the system allows. Shells set a low one for old programs.
pub fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_some_and(|now| now < most) {
        limit.current = Some(most);
        // If that fails, the limit remains, and is checked.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// How many files this process may have open; `None` if any number.
pub fn open_files_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Refuses work that needs more open files than this process may have.
///
/// # Errors
/// Names the work, both numbers, and what to do; `fewer` says how to need fewer.
pub fn check_open_files(what: &str, need: u64, limit: Option<u64>, fewer: &str) -> Result<(), String> {
    match limit {
        Some(limit) if limit < need => Err(format!(
            "{what} needs up to {} open files, but the system allows this process {} (`ulimit -n`); nothing was started. \
             Raise the limit with `ulimit -n {}`{fewer}",
            count(need),
            count(limit),
            need.next_power_of_two()
        )),
        _ => Ok(()),
    }
}

/// Refuses a plan that would take longer than a year even with the fastest stores.
///
/// # Errors
/// Says how long it would take, and what to do.
pub fn check_time(least_s: f64) -> Result<(), String> {
    if least_s <= LONGEST_S {
        return Ok(());
    }
    Err(format!(
        "this would take at least {}; lower the number of documents or operations, or continue with --anyway",
        duration(least_s * 1e9)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(what: &str, path: &str, bytes: u64) -> Need {
        Need { what: what.to_owned(), path: path.into(), bytes }
    }

    #[test]
    fn too_few_open_files_are_told_with_both_numbers() {
        assert_eq!(check_open_files("a copy", 60, Some(64), ""), Ok(()));
        assert_eq!(check_open_files("a copy", 60, None, ""), Ok(()));
        assert_eq!(
            check_open_files("a copy", 60, Some(12), ", or lower --parallel").unwrap_err(),
            "a copy needs up to 60 open files, but the system allows this process 12 (`ulimit -n`); nothing was started. \
             Raise the limit with `ulimit -n 64`, or lower --parallel"
        );
    }

    /// Two disks: `/a` with 100 GiB free, everything else with 10 GiB.
    fn free(path: &Path) -> Option<Free> {
        let (disk, gib) = if path.starts_with("/a") { (1, 100) } else { (2, 10) };
        (!path.starts_with("/unknown")).then_some(Free { disk, bytes: gib << 30 })
    }

    #[test]
    fn what_shares_a_disk_shares_what_is_free() {
        let fits = [need("the database", "/a/x", 90 << 30), need("the files", "/b/y", 9 << 30)];
        assert_eq!(check_space(&fits, &free), Ok(()));
        let told = check_space(&[need("the database", "/b/x", 6 << 30), need("the files", "/b/y", 5 << 30)], &free);
        let told = told.unwrap_err();
        for part in [
            "11.0 GiB needed",
            "6.00 GiB for the database",
            "5.00 GiB for the files",
            "10.0 GiB free at /b/x",
            "--anyway",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!(check_space(&[need("the database", "/unknown/x", u64::MAX)], &free), Ok(()));
        assert!(check_space(&[need("a", "/a/x", u64::MAX), need("b", "/a/y", u64::MAX)], &free).is_err());
    }

    #[test]
    fn the_disk_below_what_is_not_there_yet_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let there = free_at(folder.path()).unwrap();
        let new = free_at(&folder.path().join("new/deep/x.db")).unwrap();
        assert_eq!(there.disk, new.disk);
        assert!(new.bytes > 0);
    }

    #[test]
    fn a_plan_of_centuries_is_refused_in_years() {
        assert_eq!(check_time(300.0 * 86_400.0), Ok(()));
        let told = check_time(20_161_290.0 * 3_600.0).unwrap_err();
        assert!(told.contains("2,300 years") && told.contains("--anyway"), "{told}");
    }
}
