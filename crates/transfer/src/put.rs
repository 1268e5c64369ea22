//! Moves a complete file into place, with or without replacing an existing one.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::TransferError;

/// Moves a file into place on the same file system. Without `replace` an existing file stays, even one that was created
/// a moment ago.
///
/// # Errors
/// The system's error; of kind `AlreadyExists` if a file exists and may not be replaced.
pub fn put_file(from: &Path, to: &Path, replace: bool) -> io::Result<()> {
    if replace {
        return std::fs::rename(from, to);
    }
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => by_reserving(from, to),
        moved => Ok(moved?),
    }
}

/// Replaces a file's content durably (it survives a power failure), or leaves the file unchanged.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> Result<(), TransferError> {
    let new = path.with_extension("new");
    std::fs::write(&new, content)
        .and_then(|()| File::open(&new)?.sync_all())
        .and_then(|()| std::fs::rename(&new, path))
        .map_err(|e| TransferError::write(path, &e))?;
    sync_folder(path)
}

/// Makes renames in a file's folder durable against power failure.
pub(crate) fn sync_folder(path: &Path) -> Result<(), TransferError> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| TransferError::write(folder, &e))
}

/// For file systems without such a rename: reserves the name with an empty file, then replaces that.
fn by_reserving(from: &Path, to: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(to)?;
    std::fs::rename(from, to).inspect_err(|_| {
        // Only cleanup; the rename's error is the one to report.
        let _ = std::fs::remove_file(to);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays_unless_it_may_go() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for put in [|from: &Path, to: &Path| put_file(from, to, false), by_reserving] {
            std::fs::write(&from, "new").unwrap();
            put(&from, &to).unwrap();
            assert!(!from.exists() && std::fs::read(&to).unwrap() == b"new");
            std::fs::write(&from, "newer").unwrap();
            assert_eq!(put(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert!(from.exists() && std::fs::read(&to).unwrap() == b"new");
            put_file(&from, &to, true).unwrap();
            assert_eq!(std::fs::read(&to).unwrap(), b"newer");
            std::fs::remove_file(&to).unwrap();
        }
    }
}
