//! A file system that forgets, when its power is cut, what was not synced. What it guarantees is said at [`PowerCut`].

mod content;
mod files;
mod mounts;
mod serve;
mod tree;

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fuser::{BackgroundSession, Config, Session, SessionACL};
use rustix::fs::FlockOperation;

use files::Files;
use mounts::told;
use serve::{Served, Shared, lock};
use tree::{Attributes, Tree};

use crate::broken::{Forgotten, Keep};

pub(crate) use files::clear as clear_backing;
pub(crate) use mounts::{clear as clear_mounts, is_mounted_below};

/// A file of this name says that a folder is one of these, with nothing in it that is of use without its process.
pub(crate) const MARKER: &str = ".storebench-power-cut";
/// How long the thread that serves a mount may take to see that it is gone.
const END_WITHIN: Duration = Duration::from_secs(5);

/// What was done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PowerCutUse {
    /// Bytes that were written.
    pub written: u64,
    /// Syncs that were asked for, of files and folders.
    pub syncs: u64,
    /// Bytes of pages that were changed and not synced, which a power cut would forget now.
    pub unsynced: u64,
}

/// A mounted file system that forgets, when its power is cut, what was not synced.
///
/// A store says that a write is durable. [`PowerCut`] shows whether it is: the store has its data on a mount of it, the power
/// is cut ([`PowerCut::power_off`]), the store is killed, and when the power is back ([`PowerOff::power_on`]) there is on the
/// mount what a disk would hold: what was synced, and of the rest nothing, or a random part.
///
/// # The model
///
/// It is that of a file system with an ordered journal of metadata, as ext4 has by default, on a disk whose cache is lost:
///
/// - **Content.** What was written to a file is durable once that file was synced: by fsync(2), fdatasync(2), msync(2) with
///   `MS_SYNC`, or a write to what was opened with `O_SYNC` or `O_DSYNC`; close(2) syncs nothing. Its size
///   belongs to its content: writes beyond the end, ftruncate(2), `O_TRUNC` and fallocate(2) are durable with the next sync of
///   that file, and not before. Data is remembered in pages of 4096 bytes.
/// - **Names.** What was done to names and attributes (create, mkdir, rename, link, symlink, unlink, rmdir, chmod, chown, the
///   times of utimensat) lies in one journal, in order. Any sync of any file or folder makes all of it durable that was done
///   until then, whoever did it.
/// - So a new file whose content was not synced may be there after the cut and be empty, a rename over another file is undone
///   as a whole, and a file that was removed comes back with the content of its last sync.
/// - Pages that a process has changed by way of a mapping are seen by the file system when the kernel writes them back, at the
///   latest with a sync, munmap(2) or the end of the process; what has not arrived when the power is cut is lost.
/// - **The cut.** From then on every request fails with `EIO` and changes nothing. With [`Keep::Nothing`] all that was not
///   durable is forgotten. With [`Keep::Some`] as much of the journal stays as the seed says, always from its beginning, and of
///   each file some of the pages that were written since its sync, in any combination, with a size that fits.
///
/// ## What it forgives
///
/// A folder need not be synced if any file is synced after the change to it: ext4 and XFS forgive that too, others need not.
/// Pages are kept or lost whole: none is torn. With [`Keep::Nothing`] nothing is reordered: a store that orders its writes by luck
/// alone is found by [`Keep::Some`] only. A sync does what it says: no disk lies.
///
/// ## What it does not forgive
///
/// A file that replaces another by rename, or that was cut off to nothing and written again, without a sync of it: ext4 flushes
/// these by a rule of its own (`auto_da_alloc`). sync(2) and syncfs(2) do not reach a file system in user space, so what
/// relies on them alone is forgotten. Nothing becomes durable by the passing of time.
///
/// # What it needs
///
/// Linux with FUSE, and the right to mount: [`PowerCut::available`] tells. It begins empty and ends with its process. What was
/// not synced is remembered in memory: what a synced page held before it was changed, until that file is synced again or is
/// gone for good (nothing for pages that are new or held zeros, but for about fifty bytes), and every change to a name until
/// any sync. A file of a gigabyte that is cut off takes a gigabyte until its next sync.
///
/// Syncs cost next to nothing here, for nothing has to reach a disk, and every request takes some tens of microseconds more:
/// how fast a store is cannot be measured on it.
///
/// The process that serves it must not map files of it, and should not have any open when it ends: it would wait for itself.
///
/// It is unmounted when it is dropped, and all that was on it is gone.
#[derive(Debug)]
pub struct PowerCut {
    at: Folder,
    backing: Folder,
    shared: Arc<Mutex<Shared>>,
    mounted: Mutex<Mounted>,
}

#[derive(Debug, Default)]
struct Mounted {
    session: Option<BackgroundSession>,
    number: u64,
}

/// The time between the cut and the return of the power. When it is dropped the power stays off.
#[derive(Debug)]
#[must_use = "the power is off until `power_on`"]
pub struct PowerOff<'a>(&'a PowerCut);

/// A folder that belongs to one file system as long as it is there.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Whether it was made for this.
    made: bool,
    /// Locked.
    marker: File,
}

impl Folder {
    fn take(path: &Path) -> io::Result<Self> {
        let made = !path.exists();
        fs::create_dir_all(path).map_err(|error| told("cannot make", path, &error))?;
        let path = path.canonicalize().map_err(|error| told("cannot find", path, &error))?;
        let mark = path.join(MARKER);
        let entries = fs::read_dir(&path).map_err(|error| told("cannot read", &path, &error))?;
        if !mark.exists() && entries.count() > 0 {
            let path = path.display();
            return Err(io::Error::new(
                io::ErrorKind::DirectoryNotEmpty,
                format!("{path} holds files that do not belong to a power cut; use a separate folder"),
            ));
        }
        let marker = File::create(&mark).map_err(|error| told("cannot write", &mark, &error))?;
        rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            let path = path.display();
            io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("{path} is in use by another process; end it, or name another folder"),
            )
        })?;
        Ok(Self { path, made, marker })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path.join(MARKER));
        let _ = rustix::fs::flock(&self.marker, FlockOperation::Unlock);
        if self.made {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

impl PowerCut {
    /// Whether it can be had on this machine; if not, why, and what to do about it.
    ///
    /// # Errors
    /// Where there is no FUSE, or this process may not mount.
    pub fn available() -> Result<(), String> {
        mounts::available()
    }

    /// Mounts an empty one at `at`, with the content of its files in `backing`, which is on a real disk. Both folders are made
    /// where they are not there; otherwise they are empty, or were left by an earlier one. Its root has the owner and the mode of
    /// the folder `at`.
    ///
    /// # Errors
    /// Where a folder is in use or cannot be used, or the mount is refused: see [`available`](Self::available).
    pub fn mount(at: &Path, backing: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let at = std::path::absolute(at)?;
        if at.parent().is_some_and(Path::exists) {
            mounts::clear_dead(&at)?;
        }
        let at = Folder::take(&at)?;
        let backing = Folder::take(backing)?;
        if at.path.starts_with(&backing.path) || backing.path.starts_with(&at.path) {
            let (at, backing) = (at.path.display(), backing.path.display());
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{at} and {backing} lie one in the other; name folders side by side"),
            ));
        }
        files::clear(&backing.path).map_err(|error| told("cannot clear", &backing.path, &error))?;
        let metadata = fs::metadata(&at.path).map_err(|error| told("cannot read", &at.path, &error))?;
        let now = SystemTime::now();
        let root = Attributes {
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            atime: now,
            mtime: now,
        };
        let tree = Tree::new(Files::new(backing.path.clone()), root);
        let shared = Arc::new(Mutex::new(Shared { tree, session: None }));
        let all = Self { at, backing, shared, mounted: Mutex::default() };
        all.attach()?;
        Ok(all)
    }

    /// Where it is mounted.
    pub fn at(&self) -> &Path {
        &self.at.path
    }

    /// What was done so far.
    pub fn used(&self) -> PowerCutUse {
        let tree = &lock(&self.shared).tree;
        PowerCutUse { written: tree.written, syncs: tree.syncs, unsynced: tree.unsynced() }
    }

    /// Makes durable all that was done so far, as if the machine had been shut down in order: for what was prepared before
    /// the store is put to the test.
    ///
    /// # Errors
    /// Where what processes have changed by way of mappings cannot be collected.
    pub fn settle(&self) -> io::Result<()> {
        let root = File::open(self.at()).map_err(|error| told("cannot open", self.at(), &error))?;
        rustix::fs::syncfs(&root).map_err(|error| told("cannot sync", self.at(), &error.into()))?;
        lock(&self.shared).tree.settle();
        Ok(())
    }

    /// Whether the disk is full from now on: no file grows, and who would have it do so is told that there is no space
    /// (`ENOSPC`). What is there can be written over, read and removed; what is removed gives no space back until the disk is not
    /// full any more.
    pub fn full(&self, full: bool) {
        lock(&self.shared).tree.full = full;
    }

    /// Cuts the power: from now on every request fails and changes nothing. Whoever uses the file system is to be killed before
    /// the power is back (and is best stopped before it goes, so that it does not notice). To cut it while it is off changes nothing.
    pub fn power_off(&self) -> PowerOff<'_> {
        lock(&self.shared).session = None;
        PowerOff(self)
    }

    /// Mounts again, with nothing of what the kernel knew.
    fn attach(&self) -> io::Result<()> {
        let at = self.at();
        let mut mounted = self.mounted.lock().unwrap_or_else(PoisonError::into_inner);
        mounted.number += 1;
        let device = mounts::attach(at)?;
        let served = Served::new(Arc::clone(&self.shared), mounted.number);
        lock(&self.shared).session = Some(mounted.number);
        let session =
            Session::from_fd(served, device, SessionACL::All, Config::default()).and_then(|session| session.spawn());
        match session {
            Ok(session) => mounted.session = Some(session),
            Err(error) => {
                lock(&self.shared).session = None;
                let _ = mounts::detach(at);
                return Err(told("cannot serve", at, &error));
            }
        }
        mounts::read_ahead(at);
        Ok(())
    }

    fn detach(&self) -> io::Result<()> {
        lock(&self.shared).session = None;
        let mut mounted = self.mounted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(session) = mounted.session.take() else { return Ok(()) };
        if let Err(error) = mounts::detach(self.at()) {
            mounted.session = Some(session);
            return Err(error);
        }
        // It ends by itself. Where somebody else has unmounted it before and holds files of it, it does so only with the last of
        // them; it is not answered any more, and can be left.
        let end = Instant::now() + END_WITHIN;
        while !session.guard.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl PowerOff<'_> {
    /// Brings the power back: what was not durable is forgotten but for what `keep` says, and what is left is mounted again at the
    /// same place. Files that are still open from before are of no use any more.
    ///
    /// # Errors
    /// Where it cannot be unmounted or mounted, or the backing files cannot be written: the power stays off.
    pub fn power_on(self, keep: Keep) -> io::Result<Forgotten> {
        self.0.detach()?;
        let backing = &self.0.backing.path;
        let forgotten = lock(&self.0.shared).tree.cut(keep).map_err(|error| told("cannot restore", backing, &error))?;
        self.0.attach()?;
        Ok(forgotten)
    }
}

impl Drop for PowerCut {
    fn drop(&mut self) {
        let _ = self.detach();
        let _ = files::clear(&self.backing.path);
    }
}
