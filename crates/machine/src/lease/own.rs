//! The folder of leases, trusted only where nobody else can have put anything into it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, open, openat, unlinkat};
use rustix::io::Errno;

/// The folder of leases, held open: what is checked is what is read, whatever its name comes to mean meanwhile.
pub(super) struct OwnFolder(OwnedFd);

impl OwnFolder {
    /// None where it is not there.
    ///
    /// # Errors
    /// Where it is a link or no folder, or somebody else could have written into it: whoever may do so could have any process
    /// ended and any file removed.
    pub(super) fn open(folder: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open(folder, flags, Mode::empty()) {
            Ok(opened) => {
                check(folder, &opened, FileType::Directory)?;
                Ok(Some(Self(opened)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(refused(folder, "is a link, or no folder")),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until no other process clears up here, and keeps the others waiting as long as this lives.
    ///
    /// # Errors
    /// Where the file system has no locks.
    pub(super) fn lock(&self) -> io::Result<()> {
        Ok(flock(&self.0, FlockOperation::LockExclusive)?)
    }

    /// All leases, by their names in it.
    ///
    /// # Errors
    /// Where it cannot be read, or one of them could have been written by somebody else.
    pub(super) fn leases(&self, folder: &Path) -> io::Result<Vec<(OsString, Vec<u8>)>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            let path = folder.join(&name);
            if path.extension().is_none_or(|extension| extension != "lease") {
                continue;
            }
            // Without waiting for whoever might write to a pipe.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = match openat(&self.0, name.as_os_str(), flags, Mode::empty()) {
                Ok(file) => file,
                // Its process has ended meanwhile.
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

    /// Removes a lease of it.
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
        format!("{} {why}, so nothing that it names was touched; look who made it, and remove it", path.display()),
    )
}
