//! The page cache of the system, emptied so that the next start is a cold one.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, syncfs};

/// What was dropped from the caches of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// All that the system can read again: pages, folders and inodes of every file system.
    Everything,
    /// The pages of files below the paths, and nothing else.
    Files {
        /// How many files.
        files: u64,
        /// How many could not be opened, and may be in the cache yet.
        unopened: u64,
    },
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("the system's caches were emptied"),
            Self::Files { files, unopened } => {
                write!(f, "{files} files were dropped from the system's cache, but not folders and inodes")?;
                if *unopened > 0 {
                    write!(f, "; {unopened} could not be opened and may be in it yet")?;
                }
                Ok(())
            }
        }
    }
}

/// Empties the caches of the system, after what was written below these paths has been synced: as root all of them, or else
/// for the files below these paths. Links are not followed.
///
/// What a process has mapped stays, so servers have to be stopped before; so does what is in memory only (tmpfs), and what a
/// file system or a disk keeps in caches of its own (ZFS, controllers, the host of a virtual machine).
///
/// # Errors
/// Where a path cannot be read or synced, or none of its files can be opened.
pub fn drop_caches(paths: &[PathBuf]) -> Result<Dropped, String> {
    for path in paths {
        let synced = File::open(path).and_then(|file| Ok(syncfs(file)?));
        synced.map_err(|e| format!("{} cannot be synced before caches are dropped: {e}", path.display()))?;
    }
    // 3: pages, and folders and inodes.
    match fs::write("/proc/sys/vm/drop_caches", "3") {
        Ok(()) => Ok(Dropped::Everything),
        Err(refused) => files(paths, &refused),
    }
}

/// One file after the other, where the system does not let this process drop all.
fn files(paths: &[PathBuf], refused: &io::Error) -> Result<Dropped, String> {
    let (mut files, mut unopened) = (0, 0);
    let mut open = paths.to_vec();
    while let Some(path) = open.pop() {
        // What was removed meanwhile is in no cache.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            open.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if metadata.is_file() {
            match drop_file(&path) {
                Ok(()) => files += 1,
                Err(_) => unopened += 1,
            }
        }
    }
    if files == 0 && unopened > 0 {
        return Err(format!(
            "caches cannot be dropped: /proc/sys/vm/drop_caches says {refused}, and none of {unopened} files can be \
             opened; run Storebench as root or as the user of the server"
        ));
    }
    Ok(Dropped::Files { files, unopened })
}

fn drop_file(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::root;
    use std::process::Command;

    /// Bytes of a file that are in the cache.
    fn resident(path: &Path) -> u64 {
        let out = Command::new("fincore").args(["-b", "-n", "-o", "RES"]).arg(path).output();
        let out = out.expect("`fincore` of util-linux is needed");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().parse().unwrap()
    }

    fn written() -> (tempfile::TempDir, PathBuf) {
        // On the disk that the build is on: what is in memory only cannot be dropped.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        let file = folder.path().join("below/file");
        fs::write(&file, vec![1; 4 << 20]).unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("round")).unwrap();
        assert!(resident(&file) > 1 << 20);
        (folder, file)
    }

    #[test]
    fn files_are_dropped_one_by_one() {
        let (folder, file) = written();
        File::open(&file).unwrap().sync_all().unwrap();
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        let dropped = files(&[folder.path().to_owned()], &refused).unwrap();
        assert_eq!(dropped, Dropped::Files { files: 1, unopened: 0 });
        assert_eq!(dropped.to_string(), "1 files were dropped from the system's cache, but not folders and inodes");
        assert_eq!(resident(&file), 0);
        assert_eq!(fs::read(&file).unwrap().len(), 4 << 20);
    }

    #[test]
    fn everything_is_dropped() {
        if !root() {
            return;
        }
        let (folder, file) = written();
        assert_eq!(drop_caches(&[folder.path().to_owned()]), Ok(Dropped::Everything));
        assert_eq!(resident(&file), 0);
        let missing = drop_caches(&[folder.path().join("nothing")]).unwrap_err();
        assert!(missing.contains("nothing cannot be synced"), "{missing}");
    }
}
