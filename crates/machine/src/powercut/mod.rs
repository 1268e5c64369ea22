//! A file system that loses unsynced data when its power is cut. [`PowerCut`] describes its guarantees.

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

/// A file of this name marks a folder that belongs to a power cut. The folder's content is useless without its process.
pub(crate) const MARKER: &str = ".storebench-power-cut";
/// How long the thread that serves a mount may take to notice that the mount is gone.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A mounted file system that loses unsynced data when its power is cut.
///
/// A store claims that a write is durable. [`PowerCut`] checks that claim: the store keeps its data on such a mount,
/// the power is cut ([`PowerCut::power_off`]), and the store is killed. When the power is back
/// ([`PowerOff::power_on`]), the mount holds what a disk would hold: everything that was synced, and of the rest
/// nothing or a random part.
///
/// # The model
///
/// It models a file system with an ordered metadata journal, like ext4 by default, on a disk that loses its cache:
///
/// - **Content.** Data written to a file is durable once that file is synced: by fsync(2), fdatasync(2), msync(2) with
///   `MS_SYNC`, or a write to a file opened with `O_SYNC` or `O_DSYNC`. close(2) syncs nothing. The size belongs to the
///   content: writes beyond the end, ftruncate(2), `O_TRUNC` and fallocate(2) become durable with the next sync of that
///   file, not before. Data is tracked in pages of 4096 bytes.
/// - **Names.** Changes to names and attributes (create, mkdir, rename, link, symlink, unlink, rmdir, chmod, chown, the
///   times of utimensat) are in one journal, in order. A sync of any file or folder makes all earlier changes durable,
///   whichever process made them.
/// - So a new file whose content was not synced may exist after the cut and be empty, a rename over another file is
///   undone as a whole, and a removed file comes back with the content of its last sync.
/// - The file system sees pages changed through a mapping when the kernel writes them back: at the latest at a sync, at
///   munmap(2), or when the process ends. What has not arrived before the cut is lost.
/// - **The cut.** From then on every request fails with `EIO` and changes nothing. With [`Keep::Nothing`], everything
///   that was not durable is lost. With [`Keep::Some`], the seed decides how much survives: a prefix of the journal,
///   and for each file any subset of the pages written since its sync, with a matching size.
///
/// ## What it forgives
///
/// A folder need not be synced if any file is synced after the change to it. ext4 and XFS forgive this, too; other file
/// systems may not. Pages survive or are lost as a whole: none is torn. With [`Keep::Nothing`] nothing is reordered, so
/// only [`Keep::Some`] exposes a store whose writes are in order merely by luck. A sync is honest: the disk does not
/// lie.
///
/// ## What it does not forgive
///
/// Replacing a file by rename, or truncating it to zero and writing it again, without syncing it. ext4 flushes these
/// files by a special rule (`auto_da_alloc`). sync(2) and syncfs(2) do not reach a file system in user space, so data
/// that relies only on them is lost. Nothing becomes durable just because time passes.
///
/// # Requirements
///
/// Linux with FUSE, and permission to mount: [`PowerCut::available`] checks this. It starts empty and ends with its
/// process. Unsynced changes are tracked in memory: the old content of each changed page until its file is synced again
/// or is permanently gone, and every change to a name until any sync. A page that is new or held zeros takes only about
/// 50 bytes. A truncated gigabyte takes a gigabyte until the file's next sync.
///
/// Syncs cost almost nothing here, because nothing has to reach a disk, and every request takes some tens of
/// microseconds longer. Do not measure a store's speed on it.
///
/// The process that serves it must not map its files, and should not have any open when it ends: it would wait for
/// itself.
///
/// Dropping it unmounts it and deletes everything on it.
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

/// The time between the power cut and the return of power. If it is dropped, the power stays off.
#[derive(Debug)]
#[must_use = "the power is off until `power_on`"]
pub struct PowerOff<'a>(&'a PowerCut);

/// A folder reserved for one file system while this value lives.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Whether it was created for this.
    made: bool,
    /// Holds the lock.
    marker: File,
}

impl Folder {
    fn take(path: &Path) -> io::Result<Self> {
        let made = !path.exists();
        fs::create_dir_all(path).map_err(|error| told("cannot create", path, &error))?;
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
                format!("{path} is in use by another process; end that process, or use another folder"),
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
    /// Whether this machine supports it; if not, why, and what to do about it.
    ///
    /// # Errors
    /// Fails if there is no FUSE, or this process may not mount.
    pub fn available() -> Result<(), String> {
        mounts::available()
    }

    /// Mounts an empty file system at `at`. The content of its files is stored in `backing`, on a real disk. Both
    /// folders are created if they do not exist; otherwise they must be empty or left over from an earlier power cut.
    /// The root has the owner and the mode of the folder `at`.
    ///
    /// # Errors
    /// Fails if a folder is in use or unusable, or if the mount is refused: see [`available`](Self::available).
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
                format!("{at} and {backing} are nested; use two separate folders"),
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

    /// The mount point.
    pub fn at(&self) -> &Path {
        &self.at.path
    }

    /// Makes everything done so far durable, as a clean shutdown would. Use it after preparing data, before the store
    /// is put to the test.
    ///
    /// # Errors
    /// Fails if changes that processes made through mappings cannot be collected.
    pub fn settle(&self) -> io::Result<()> {
        let root = File::open(self.at()).map_err(|error| told("cannot open", self.at(), &error))?;
        rustix::fs::syncfs(&root).map_err(|error| told("cannot sync", self.at(), &error.into()))?;
        lock(&self.shared).tree.settle();
        Ok(())
    }

    /// Sets whether the disk is full. While it is, files cannot grow, and attempts fail with `ENOSPC`. Existing data
    /// can be overwritten, read and removed, but removing it does not free space until the disk is no longer full.
    pub fn full(&self, full: bool) {
        lock(&self.shared).tree.full = full;
    }

    /// Cuts the power: from now on every request fails and changes nothing. Kill the processes that use the file system
    /// before the power returns; better, stop them before the cut, so that they do not notice it. Cutting the power
    /// again while it is off has no effect.
    pub fn power_off(&self) -> PowerOff<'_> {
        lock(&self.shared).session = None;
        PowerOff(self)
    }

    /// Mounts it again, without any state that the kernel had cached.
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
        // The thread ends by itself. If somebody else has unmounted it before and holds its files open, it ends only
        // when they are closed. It no longer answers requests, so it can be left running.
        let end = Instant::now() + END_WITHIN;
        while !session.guard.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl PowerOff<'_> {
    /// Restores the power: what was not durable is lost, except for what `keep` says, and the rest is mounted again at
    /// the same place. Files opened before the cut can no longer be used.
    ///
    /// # Errors
    /// Fails if it cannot be unmounted or mounted, or if the backing files cannot be written. The power then stays off.
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
