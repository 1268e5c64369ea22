//! Removes mounts and folders that a process has left, but nothing that others have put in their place since.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::powercut::{MARKER, clear_backing, clear_mounts, is_mounted_below};

/// How long a killed process may take to release a folder: its last thread may end later than its first.
const LET_GO_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Unmounts what is mounted at these places, and removes the folders: the mount points and those behind a mount.
pub(super) fn clear(mounts: &[PathBuf], folders: &[PathBuf]) {
    let began = Instant::now();
    while folders.iter().any(|folder| is_in_use(folder)) {
        if began.elapsed() >= LET_GO_WITHIN {
            // Another process now has its file system there.
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    for at in mounts.iter().rev() {
        let _ = clear_mounts(at);
    }
    for folder in folders {
        remove(folder, !mounts.contains(folder));
    }
}

/// The marker file of a file system in its folder. `None` if something is mounted there: it may never answer.
fn mark(folder: &Path) -> Option<File> {
    let plain = is_mounted_below(folder).is_ok_and(|mounted| !mounted)
        && fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir())
        && fs::symlink_metadata(folder.join(MARKER)).is_ok_and(|found| found.is_file());
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let open = || File::options().read(true).custom_flags(flags).open(folder.join(MARKER));
    if plain { open().ok() } else { None }
}

/// A process that has one of these mounted holds a lock on its marker.
fn is_free(mark: &File) -> bool {
    flock(mark, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn is_in_use(folder: &Path) -> bool {
    mark(folder).is_some_and(|mark| !is_free(&mark))
}

/// Removes a marked folder with what a file system has made in it: its marker and, behind a mount, its backing files.
/// Anything else may be the user's data. It stays, and so does the folder.
pub(crate) fn remove(folder: &Path, is_behind: bool) {
    let Some(mark) = mark(folder).filter(is_free) else { return };
    if is_behind && clear_backing(folder).is_err() {
        return;
    }
    let _ = fs::remove_file(folder.join(MARKER));
    drop(mark);
    let _ = fs::remove_dir(folder);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{here, root};
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

    /// A folder with a marker and these files.
    fn marked(folder: PathBuf, files: &[&str]) -> PathBuf {
        fs::create_dir(&folder).unwrap();
        [MARKER].iter().chain(files).for_each(|file| fs::write(folder.join(file), "x").unwrap());
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_the_user_has_put_into_a_folder_stays() {
        let around = tempfile::tempdir().unwrap();
        let path = |name: &str| around.path().join(name);
        let (at, behind) = (marked(path("at"), &["7", "data"]), marked(path("at.backing"), &["1", "27", "data"]));
        fs::create_dir(behind.join("folder")).unwrap();
        let (empty, used) = (marked(path("empty"), &[]), marked(path("empty.backing"), &["1", "2"]));
        let folders = [at.clone(), behind.clone(), empty.clone(), used.clone()];
        clear(&[at.clone(), empty.clone()], &folders);
        assert_eq!(names(&at), ["7", "data"]);
        assert_eq!(names(&behind), ["data", "folder"]);
        assert!(!empty.exists() && !used.exists());
    }

    #[test]
    fn what_another_process_uses_stays() {
        let around = tempfile::tempdir().unwrap();
        let used = marked(around.path().join("used"), &["1"]);
        let mark = File::open(used.join(MARKER)).unwrap();
        flock(&mark, FlockOperation::NonBlockingLockExclusive).unwrap();
        clear(&[], std::slice::from_ref(&used));
        assert_eq!(names(&used).len(), 2);
        drop(mark);
        clear(&[], std::slice::from_ref(&used));
        assert!(!used.exists());
    }

    #[test]
    fn what_others_have_mounted_in_its_place_stays() {
        if !root() {
            return;
        }
        let around = tempfile::tempdir().unwrap();
        let foreign = around.path().canonicalize().unwrap().join("foreign");
        fs::create_dir(&foreign).unwrap();
        let mounted = mount("somebody", &foreign, "tmpfs", MountFlags::empty(), None::<&std::ffi::CStr>);
        if !here(mounted.map_err(|error| error.to_string())) {
            return;
        }
        clear(std::slice::from_ref(&foreign), std::slice::from_ref(&foreign));
        assert!(crate::mounts::read().iter().any(|mount| mount.point == foreign));
        unmount(&foreign, UnmountFlags::empty()).unwrap();
    }
}
