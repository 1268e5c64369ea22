//! A file that takes all the space of a disk, until it is released.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs, syncfs};
use rustix::io::Errno;

const BLOCK: usize = 4096;

/// All the space that was free on a disk. It is given back when it is released or dropped.
#[derive(Debug)]
pub struct Filler {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Filler {
    pub(super) fn begin(folder: &Path) -> io::Result<Self> {
        let path = folder.join(".storebench-fill");
        let file = File::options().write(true).create_new(true).open(&path)?;
        let mut filler = Self { path, file, bytes: 0 };
        filler.take_more()?;
        Ok(filler)
    }

    /// How much it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes what has become free since: what a server has removed meanwhile to have room, say.
    ///
    /// # Errors
    /// Where it cannot be taken, other than because there is nothing.
    pub fn take_more(&mut self) -> io::Result<()> {
        // What was removed is free to others only once the file system has written that down.
        syncfs(&self.file)?;
        let stat = statvfs(&self.path)?;
        // More than is said to be free may be: file systems set some aside.
        let mut step = (stat.f_bfree * stat.f_frsize).max(BLOCK as u64);
        while step >= BLOCK as u64 {
            match fallocate(&self.file, FallocateFlags::empty(), self.bytes, step) {
                Ok(()) => self.bytes += step,
                Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => step /= 2,
                Err(Errno::INTR) => {}
                // It is written then.
                Err(Errno::OPNOTSUPP) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let block = [0; BLOCK];
        loop {
            match self.file.write_at(&block, self.bytes) {
                Ok(0) => return Ok(()),
                Ok(written) => self.bytes += written as u64,
                Err(error) => match error.kind() {
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => return Ok(()),
                    ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// Gives all of it back.
    pub fn release(self) {}
}

impl Drop for Filler {
    fn drop(&mut self) {
        // The disk may be out of sight: the file is not.
        let _ = self.file.set_len(0);
        let _ = fs::remove_file(&self.path);
    }
}
