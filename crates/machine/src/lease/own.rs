//! The folder of leases. It is trusted only if nobody else can have written to it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, open, openat, unlinkat};
use rustix::io::Errno;

/// The folder of leases, held open: what is checked is what is read, even if the path is replaced meanwhile.
pub(super) struct OwnFolder(OwnedFd);

impl OwnFolder {
    /// Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Fails if it is a link or not a folder, or if another user could have written to it. Such a user could make
    /// Storebench kill any process and remove any file.
    pub(super) fn open(folder: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open(folder, flags, Mode::empty()) {
            Ok(opened) => {
                check(folder, &opened, FileType::Directory)?;
                Ok(Some(Self(opened)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(refused(folder, "is a link or not a folder")),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until no other process cleans up here. Others wait as long as this value lives.
    ///
    /// # Errors
    /// Fails if the file system does not support locks.
    pub(super) fn lock(&self) -> io::Result<()> {
        Ok(flock(&self.0, FlockOperation::LockExclusive)?)
    }

    /// All leases, with their file names.
    ///
    /// # Errors
    /// Fails if the folder cannot be read, or if another user could have written one of the leases.
    pub(super) fn leases(&self, folder: &Path) -> io::Result<Vec<(OsString, Vec<u8>)>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            let path = folder.join(&name);
            if path.extension().is_none_or(|extension| extension != "lease") {
                continue;
            }
            // Do not wait for a writer if it is a pipe.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = match openat(&self.0, name.as_os_str(), flags, Mode::empty()) {
                Ok(file) => file,
                // Its process has ended in the meantime.
                Err(Errno::NOENT) => continue,
                Err(Errno::LOOP) => return Err(refused(&path, "is a link")),
                Err(error) => return Err(refused(&path, &format!("cannot be opened ({error})"))),
            };
            check(&path, &file, FileType::RegularFile)?;
            let mut bytes = Vec::new();
            File::from(file).read_to_end(&mut bytes)?;
            all.push((name, bytes));
        }
        Ok(all)
    }

    /// Removes a lease from the folder.
    pub(super) fn remove(&self, name: &OsStr) {
        let _ = unlinkat(&self.0, name, AtFlags::empty());
    }
}

fn check(path: &Path, opened: impl AsFd, kind: FileType) -> io::Result<()> {
    let stat = fstat(opened)?;
    if FileType::from_raw_mode(stat.st_mode) != kind {
        return Err(refused(path, "is not a regular file"));
    }
    if stat.st_uid != rustix::process::getuid().as_raw() {
        return Err(refused(path, &format!("belongs to another user ({})", stat.st_uid)));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(refused(path, "can be written by others"));
    }
    Ok(())
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{} {why}, so nothing that it names was touched; check who created it, then remove it", path.display()),
    )
}
