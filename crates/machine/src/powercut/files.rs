//! The backing files: the content of inode N is in file `N` of the backing folder.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of open backing files. The processes that use them may have more files open than this process may.
const OPEN: usize = 256;

#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    open: HashMap<u64, File>,
}

impl Files {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, open: HashMap::new() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of this inode. It is created if it does not exist.
    pub(super) fn get(&mut self, inode: u64) -> io::Result<&File> {
        if !self.open.contains_key(&inode) {
            if self.open.len() >= OPEN {
                self.open.clear();
            }
            let path = self.folder.join(inode.to_string());
            let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
            self.open.insert(inode, file);
        }
        self.open.get(&inode).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn close(&mut self, inode: u64) {
        self.open.remove(&inode);
    }

    /// An inode that was never read or written has no file.
    pub(super) fn remove(&mut self, inode: u64) {
        self.close(inode);
        let _ = fs::remove_file(self.folder.join(inode.to_string()));
    }

    /// Its allocated blocks of 512 bytes.
    pub(super) fn blocks(&mut self, inode: u64) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = match self.open.get(&inode) {
            Some(file) => file.metadata(),
            None => fs::symlink_metadata(self.folder.join(inode.to_string())),
        };
        metadata.map_or(0, |metadata| metadata.blocks())
    }
}

/// Removes only the files that an earlier file system has left in a backing folder.
pub(crate) fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
