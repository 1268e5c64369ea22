//! Empties the system's page cache for a cold start.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, syncfs};

/// What was dropped from the system's caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// Everything that the system can read again: pages, directories and inodes of every file system.
    Everything,
    /// Only the pages of files below the paths. This is advice: the system keeps what it is just moving.
    Files {
        /// Number of files.
        files: u64,
        /// Number of files that could not be opened. They may still be cached.
        unopened: u64,
    },
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("emptied the system's caches"),
            Self::Files { files, unopened } => {
                let many = |count: u64| if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
                write!(f, "asked the system to drop {} from its page cache", many(*files))?;
                f.write_str("; directories and inodes stay cached")?;
                if *unopened > 0 {
                    write!(f, "; {} could not be opened and may still be cached", many(*unopened))?;
                }
                Ok(())
            }
        }
    }
}

/// Syncs what was written below these paths, then empties the system's caches. As root it drops all caches; otherwise
/// only those of files below these paths. It does not follow links.
///
/// Pages that a process has mapped stay cached, so stop servers first. So does data that exists only in memory (tmpfs),
/// and what a file system or disk caches itself (ZFS, controllers, the host of a virtual machine).
///
/// # Errors
/// Fails if a path cannot be read or synced, or if none of its files can be opened.
pub fn drop_caches(paths: &[PathBuf]) -> Result<Dropped, String> {
    for path in paths {
        let synced = File::open(path).and_then(|file| Ok(syncfs(file)?));
        synced.map_err(|e| format!("cannot drop caches: {} cannot be synced: {e}", path.display()))?;
    }
    // 3: pages, directories and inodes.
    match fs::write("/proc/sys/vm/drop_caches", "3") {
        Ok(()) => Ok(Dropped::Everything),
        Err(refused) => files(paths, &refused),
    }
}

/// Drops one file after another, if the system does not let this process drop all caches.
fn files(paths: &[PathBuf], refused: &io::Error) -> Result<Dropped, String> {
    let (mut files, mut unopened) = (0, 0);
    let mut open = paths.to_vec();
    while let Some(path) = open.pop() {
        // A file removed in the meantime is not cached.
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
            "cannot drop caches: writing /proc/sys/vm/drop_caches failed ({refused}), and none of {unopened} files can \
             be opened; run Storebench as root or as the server's user"
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
    use crate::testing::{root, wait_until};
    use std::process::Command;

    /// Bytes of a file that are cached.
    fn resident(path: &Path) -> u64 {
        let out = Command::new("fincore").args(["-b", "-n", "-o", "RES"]).arg(path).output();
        let out = out.expect("`fincore` of util-linux is needed");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().parse().unwrap()
    }

    fn written() -> (tempfile::TempDir, PathBuf) {
        // On the build's disk: a file that exists only in memory cannot be dropped.
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
        let drop = || files(&[folder.path().to_owned()], &refused).unwrap();
        let dropped = drop();
        assert_eq!(dropped, Dropped::Files { files: 1, unopened: 0 });
        assert_eq!(
            dropped.to_string(),
            "asked the system to drop 1 file from its page cache; directories and inodes stay cached"
        );
        // The system may be moving pages at this very moment, and keeps these.
        wait_until("its pages are gone", || {
            drop();
            resident(&file) == 0
        });
        assert_eq!(fs::read(&file).unwrap().len(), 4 << 20);
    }

    #[test]
    fn everything_is_dropped() {
        if !root() {
            return;
        }
        let (folder, file) = written();
        let drop = || drop_caches(&[folder.path().to_owned()]);
        assert_eq!(drop(), Ok(Dropped::Everything));
        wait_until("its pages are gone", || {
            let _ = drop();
            resident(&file) == 0
        });
        let missing = drop_caches(&[folder.path().join("nothing")]).unwrap_err();
        assert!(missing.contains("nothing cannot be synced"), "{missing}");
    }
}
