//! Where an embedded store is, and errors about that place that a user can act on.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::StoreError;

/// Why a database that is already open cannot be opened.
pub const IN_USE: &str = "another process, or a session that is still open, has this database open; wait until it ends";

/// Reads the path of a URL: the part between `scheme:` and `?`.
///
/// # Errors
/// `BadUrl` if it is empty or looks like a host name.
pub fn path_of(scheme: &str, text: &str, example: &str) -> Result<PathBuf, StoreError> {
    if text.is_empty() {
        return Err(StoreError::BadUrl(format!("`{scheme}:` has no path; write it like {example}")));
    }
    match text.strip_prefix("//") {
        None => Ok(PathBuf::from(text)),
        Some(absolute) if absolute.starts_with('/') => Ok(PathBuf::from(absolute)),
        Some(rest) => Err(StoreError::BadUrl(format!(
            "`{scheme}://{rest}` names a host, but this store is a path on this machine; write {scheme}:{rest} for a \
             relative path, or {scheme}:/{rest} for an absolute one"
        ))),
    }
}

/// Says what an I/O error means for this path and what to do about it.
pub fn io_error(path: &Path, doing: &str, error: &io::Error) -> StoreError {
    StoreError::Unreachable(format!("{}: cannot {doing}: {}", path.display(), io_text(error)))
}

/// An I/O error in words, with a remedy if there is one.
pub fn io_text(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::StorageFull => "the disk is full; free some space or use another path".to_owned(),
        ErrorKind::QuotaExceeded => "the disk quota is used up; free some space or use another path".to_owned(),
        ErrorKind::PermissionDenied => {
            "permission denied; use a path you may write to, or change its permissions".to_owned()
        }
        ErrorKind::ReadOnlyFilesystem => "the file system is mounted read-only; use another path".to_owned(),
        _ => error.to_string(),
    }
}

/// Describes a file that no engine can read. Only its first bytes are read.
pub fn kind_of(path: &Path) -> String {
    use std::io::Read as _;

    let mut first = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(24).read_to_end(&mut first));
    let text = read.ok().and_then(|_| {
        // A character may be cut in two at the end.
        let valid = std::str::from_utf8(&first).map_or_else(|e| e.valid_up_to(), str::len);
        let text = std::str::from_utf8(&first[..valid]).ok().filter(|_| first.len() - valid < 4)?;
        let line = text.lines().next().unwrap_or_default().to_owned();
        (!line.is_empty() && !line.contains(char::is_control)).then_some(line)
    });
    match text {
        Some(line) => format!("a text file that begins with `{line}`"),
        None if first.starts_with(&[0x1f, 0x8b]) => "a gzip file".to_owned(),
        None if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) => "a zstd file".to_owned(),
        None => "a file of another kind".to_owned(),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Checks that the folder that contains `path`, or should contain it, exists.
///
/// # Errors
/// `Unreachable`.
pub fn check_parent(path: &Path) -> Result<(), StoreError> {
    let parent = parent(path);
    let (path, folder) = (path.display(), parent.display());
    match std::fs::metadata(parent) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(StoreError::Unreachable(format!("{path}: {folder} is a file, not a folder; use another path"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(StoreError::Unreachable(format!(
            "{path}: the folder {folder} does not exist; create it with `mkdir -p {folder}` or use another path"
        ))),
        Err(error) => Err(io_error(parent, "read this folder", &error)),
    }
}

/// Syncs the folder that contains `path`, so that a file that was just created there survives a power failure.
///
/// # Errors
/// `Unreachable`.
pub fn sync_parent(path: &Path) -> Result<(), StoreError> {
    let parent = parent(path);
    let synced = std::fs::File::open(parent).and_then(|folder| folder.sync_all());
    synced.map_err(|e| io_error(parent, "sync this folder", &e))
}

/// Runs code in which an engine may panic because its files are damaged, and turns the panic into an error.
///
/// # Errors
/// The errors of `run`; `Failed` if it panics.
pub fn guarded<T>(path: &Path, run: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("no reason given");
        Err(StoreError::Failed(format!(
            "{}: the engine panicked at what it read there ({text}); the files are damaged. Restore them from a \
             copy, or remove them and load again",
            path.display()
        )))
    })
}
