//! How much space a data folder takes.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// What a folder and everything below it takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FolderUse {
    /// Bytes on disk: allocated blocks, so that holes do not count.
    pub disk_bytes: u64,
    /// Total length of its files.
    pub file_bytes: u64,
    /// Number of files.
    pub files: u64,
}

/// Adds up the files at these paths. Files removed meanwhile do not count. Links are not followed.
pub fn folder_use(paths: &[PathBuf]) -> FolderUse {
    let mut out = FolderUse::default();
    let mut open = paths.to_vec();
    while let Some(path) = open.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            open.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if metadata.is_file() {
            out.disk_bytes += metadata.blocks() * 512;
            out.file_bytes += metadata.len();
            out.files += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_and_holes_are_not() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/a"), vec![1; 10_000]).unwrap();
        let file = fs::File::create(folder.path().join("hole")).unwrap();
        file.set_len(1 << 30).unwrap();
        file.sync_all().unwrap();
        fs::File::open(folder.path().join("below/a")).unwrap().sync_all().unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("round")).unwrap();
        let found = folder_use(&[folder.path().to_owned()]);
        assert_eq!((found.files, found.file_bytes), (2, 10_000 + (1 << 30)));
        assert!((10_000..1 << 20).contains(&found.disk_bytes), "{found:?}");
        assert_eq!(folder_use(&[folder.path().join("nothing")]), FolderUse::default());
    }
}
