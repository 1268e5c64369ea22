//! How long a sync takes in a folder.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Number of timed syncs, and the bytes written before each.
pub(crate) const SYNCS: usize = 20;
const SYNC_BYTES: usize = 4 << 10;

/// How long it takes to sync 4 KiB of new data in a folder, or next to a file, sorted, in ns. Removes what it wrote.
///
/// # Errors
/// The folder cannot be written to.
pub(crate) fn sync_times(path: &Path) -> io::Result<Vec<u64>> {
    let existing = path.ancestors().find(|above| above.is_dir());
    let folder = existing.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = Removed(folder.join(format!(".storebench-sync-{}", std::process::id())));
    let mut file = File::create_new(&place.0)?;
    let mut times = Vec::with_capacity(SYNCS);
    for n in 0..SYNCS {
        file.write_all(&[n as u8; SYNC_BYTES])?;
        let begun = Instant::now();
        file.sync_data()?;
        times.push(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    times.sort_unstable();
    Ok(times)
}

/// A file that is removed when this value is dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // It may not exist.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let times = sync_times(&dir.path().join("not/yet/there")).unwrap();
        assert_eq!(times.len(), SYNCS);
        assert!(times.is_sorted());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
