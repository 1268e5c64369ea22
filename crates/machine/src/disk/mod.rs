//! Disks of limited size, and caches of the system.

mod caches;
mod filler;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::device::{BlockUse, Device};
use crate::mounts::{self, Mount};

pub use caches::{Dropped, drop_caches};
pub use filler::Filler;

/// What disks in memory are known by.
const SOURCE: &str = "storebench";
/// How often a disk that is in use is tried to be unmounted in order.
const TRIES: u32 = 20;
const TRY_EVERY: Duration = Duration::from_millis(10);
/// A file system with a journal needs about as much.
const LEAST_LOOP_BYTES: u64 = 8 << 20;

/// Why a limited disk cannot be made or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiskProblem {
    /// Something about a folder or a file.
    #[error("a disk of limited size cannot be had at {}: {why}", .at.display())]
    At {
        /// Where.
        at: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// A command of the system is missing or failed.
    #[error("a disk of limited size cannot be made: `{command}` {why}")]
    Command {
        /// The command.
        command: String,
        /// How it ended.
        why: String,
    },
}

fn at(at: &Path, why: impl std::fmt::Display) -> DiskProblem {
    DiskProblem::At { at: at.to_owned(), why: why.to_string() }
}

/// A file system of limited size. It is unmounted when it is dropped, and what was in it is gone.
#[derive(Debug)]
pub struct LimitedDisk {
    at: PathBuf,
    bytes: u64,
    made_folder: bool,
    /// The file that holds it, where it is not in memory.
    file: Option<PathBuf>,
    device: Option<Device>,
}

impl LimitedDisk {
    /// One in memory. What is written there counts as memory of the control group of whoever writes it.
    ///
    /// # Errors
    /// Where `at` is a folder with something in it, or this process may not mount.
    pub fn tmpfs(at_folder: &Path, bytes: u64) -> Result<Self, DiskProblem> {
        let mut disk = Self::folder(at_folder, bytes)?;
        let options = std::ffi::CString::new(format!("size={bytes},mode=0755")).map_err(|e| at(at_folder, e))?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        if let Err(error) = mount(SOURCE, &disk.at, "tmpfs", flags, options.as_c_str()) {
            let why = match error {
                Errno::PERM => {
                    "mounting needs root; run Storebench as root, or have the data on a disk that is small".into()
                }
                other => format!("it cannot be mounted: {other}"),
            };
            let problem = at(&disk.at, why);
            disk.abandon();
            return Err(problem);
        }
        Ok(disk)
    }

    /// One in a file, `file`, that is made for it and removed with it: ext4, through a loop device, which counts what is
    /// written ([`LimitedDisk::block_use`]). The space of the file is taken at once.
    ///
    /// The journal and the file system's own tables are part of `bytes`. Its pages are in the cache of the system twice:
    /// those of its files, and those of `file`.
    ///
    /// # Errors
    /// Where `at` is a folder with something in it, `file` is there already, this process may not mount, or `mkfs.ext4` or
    /// `mount` is missing or fails.
    pub fn loop_file(at_folder: &Path, file: &Path, bytes: u64) -> Result<Self, DiskProblem> {
        Self::in_file(at_folder, file, bytes, "has_journal")
    }

    /// The same without a journal: nearly all that is written to it is what servers have written. A crash of the machine may
    /// leave it broken.
    ///
    /// # Errors
    /// As of [`LimitedDisk::loop_file`].
    pub fn loop_file_without_journal(at_folder: &Path, file: &Path, bytes: u64) -> Result<Self, DiskProblem> {
        Self::in_file(at_folder, file, bytes, "^has_journal")
    }

    fn in_file(at_folder: &Path, file: &Path, bytes: u64, journal: &str) -> Result<Self, DiskProblem> {
        if bytes < LEAST_LOOP_BYTES {
            return Err(at(
                at_folder,
                format!("{bytes} bytes are too few for ext4; give it {LEAST_LOOP_BYTES} or more"),
            ));
        }
        let mut disk = Self::folder(at_folder, bytes)?;
        match disk.mount_file(file, journal) {
            Ok(()) => Ok(disk),
            Err(problem) => {
                disk.abandon();
                Err(problem)
            }
        }
    }

    fn mount_file(&mut self, path: &Path, journal: &str) -> Result<(), DiskProblem> {
        let file = fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(|e| at(path, e))?;
        self.file = Some(fs::canonicalize(path).map_err(|e| at(path, e))?);
        let path = self.file.as_deref().unwrap_or(path);
        // So that a disk that is full is never the one below.
        let taken = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, self.bytes);
        match taken {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP) => file.set_len(self.bytes).map_err(|e| at(path, e))?,
            Err(error) => return Err(at(path, format!("its {} bytes cannot be taken: {error}", self.bytes))),
        }
        drop(file);
        // Nothing is left for root alone, and nothing to be written later that no server has written.
        let lazy = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        command("mkfs.ext4", "e2fsprogs", &["-q", "-F", "-m", "0", "-O", journal, "-E", lazy], &[path])?;
        command("mount", "util-linux", &["-t", "ext4", "-o", "loop,nodev,nosuid"], &[path, &self.at])?;
        self.device = Device::of(&self.at).ok();
        // Some servers want an empty folder.
        let _ = fs::remove_dir(self.at.join("lost+found"));
        Ok(())
    }

    fn folder(folder: &Path, bytes: u64) -> Result<Self, DiskProblem> {
        let made_folder = !folder.exists();
        fs::create_dir_all(folder).map_err(|e| at(folder, e))?;
        let at_folder = fs::canonicalize(folder).map_err(|e| at(folder, e))?;
        if fs::read_dir(&at_folder).map_err(|e| at(folder, e))?.next().is_some() {
            return Err(at(folder, "there is something in it, which would be hidden; give it an empty folder"));
        }
        if mounts::read().iter().any(|mount| mount.point == at_folder) {
            return Err(at(folder, "something is mounted there; unmount it, or give it another folder"));
        }
        Ok(Self { at: at_folder, bytes, made_folder, file: None, device: None })
    }

    fn is_mounted(&self) -> bool {
        let top = mounts::read().into_iter().rfind(|mount| mount.point == self.at);
        top.is_some_and(|mount| is_own(&mount, self.file.as_slice()))
    }

    /// Removes what was made before it could be mounted.
    fn abandon(&mut self) {
        if let Some(file) = self.file.take() {
            let _ = fs::remove_file(file);
        }
        if self.made_folder {
            let _ = fs::remove_dir(&self.at);
        }
    }

    /// Its folder, with no links on the way: for a [`Lease`](crate::Lease), and for data.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// The file that holds it, where it is not in memory: for a [`Lease`](crate::Lease).
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Its size, with what the file system itself needs of it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its block device, where it is not in memory.
    pub fn device(&self) -> Option<Device> {
        self.device
    }

    /// Bytes that can be written yet.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn free_bytes(&self) -> Result<u64, DiskProblem> {
        let stat = rustix::fs::statvfs(&self.at).map_err(|e| at(&self.at, e))?;
        Ok(stat.f_bavail * stat.f_frsize)
    }

    /// What its block device has done since the disk was made; none in memory. What a server has written may come there
    /// only when it is synced.
    pub fn block_use(&self) -> Option<BlockUse> {
        self.device?.block_use().ok()
    }

    /// Takes all the space that is free: from now on the disk is full, until the [`Filler`] is released.
    ///
    /// # Errors
    /// Where its file cannot be made or written.
    pub fn fill(&self) -> Result<Filler, DiskProblem> {
        Filler::begin(&self.at).map_err(|e| at(&self.at, format!("it cannot be filled: {e}")))
    }
}

impl Drop for LimitedDisk {
    fn drop(&mut self) {
        // Somebody may have unmounted it, and mounted something else.
        if self.is_mounted() {
            unmount_in_order(&self.at);
        }
        self.abandon();
    }
}

/// Unmounts, as soon as nobody uses it, or from sight at least. The loop device goes with the last that uses it.
fn unmount_in_order(at: &Path) {
    for _ in 0..TRIES {
        match unmount(at, UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) => std::thread::sleep(TRY_EVERY),
            _ => return,
        }
    }
    let _ = unmount_now(at);
}

/// Whether this is a disk in memory, or one in one of these files.
fn is_own(mount: &Mount, files: &[PathBuf]) -> bool {
    match mount.kind.as_str() {
        "tmpfs" => mount.source == Path::new(SOURCE),
        "ext4" => {
            let device = mount.source.strip_prefix("/dev").ok().filter(|name| name.components().count() == 1);
            let attached = device.map(|name| Path::new("/sys/block").join(name).join("loop/backing_file"));
            let held = attached.and_then(|path| fs::read_to_string(path).ok());
            held.is_some_and(|held| files.iter().any(|file| file.to_str() == Some(held.trim_end_matches('\n'))))
        }
        _ => false,
    }
}

/// Takes out of sight what is mounted there as a disk in memory or in one of these files, also while it is in use, and
/// nothing that others have mounted.
pub(crate) fn unmount_own(at: &Path, files: &[PathBuf]) {
    let Ok(at) = mounts::place(at) else { return };
    let files: Vec<PathBuf> = files.iter().map(|file| mounts::place(file).unwrap_or_else(|_| file.clone())).collect();
    for mount in mounts::read().iter().rev().filter(|mount| mount.point == at) {
        // What is below another mount cannot be had.
        if !is_own(mount, &files) || unmount_now(&at).is_err() {
            return;
        }
    }
}

/// Takes a mount out of sight, also while it is in use. What is no mount is left as it is.
fn unmount_now(at: &Path) -> io::Result<()> {
    Ok(unmount(at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?)
}

fn command(program: &str, package: &str, arguments: &[&str], paths: &[&Path]) -> Result<(), DiskProblem> {
    let mut command = Command::new(program);
    command.args(arguments).args(paths).env("LC_ALL", "C");
    // Users have no such folders in their PATH, and some shells of root neither.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let shown = || {
        let paths = paths.iter().map(|path| path.display().to_string());
        let words: Vec<String> =
            std::iter::once(program).chain(arguments.iter().copied()).map(str::to_owned).chain(paths).collect();
        words.join(" ")
    };
    let failed = |why: String| DiskProblem::Command { command: shown(), why };
    let out = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => failed(format!("is not there; install `{package}`")),
        _ => failed(format!("cannot be run: {error}; it comes with `{package}`")),
    })?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let root = if rustix::process::geteuid().is_root() { "" } else { "; run Storebench as root" };
    Err(failed(format!("has failed ({}): {}{root}", out.status, said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{disks, wait_until};
    use std::fs::File;
    use std::io::Write as _;

    const MIB: u64 = 1 << 20;

    fn write(path: &Path, bytes: u64) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(&vec![7; bytes as usize])?;
        file.sync_all()
    }

    fn is_mounted(at: &Path) -> bool {
        mounts::read().iter().any(|mount| mount.point == at)
    }

    /// Full, with room again, full again; and gone when it is dropped.
    fn full_begins_and_ends(disk: LimitedDisk) {
        let file = disk.at().join("data");
        write(&file, 64 << 10).unwrap();
        let free = disk.free_bytes().unwrap();
        assert!(free > MIB, "{free}");
        for _ in 0..2 {
            let mut filler = disk.fill().unwrap();
            assert!(filler.bytes() > MIB, "{}", filler.bytes());
            let error = write(&disk.at().join("more"), 256 << 10).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert_eq!(fs::read(&file).unwrap().len(), 64 << 10, "what was there stays");
            // What somebody gives back can be taken as well.
            let _ = fs::remove_file(disk.at().join("more"));
            filler.take_more().unwrap();
            write(&disk.at().join("more"), 256 << 10).unwrap_err();
            fs::remove_file(disk.at().join("more")).unwrap();
            filler.release();
            write(&disk.at().join("more"), 256 << 10).unwrap();
            fs::remove_file(disk.at().join("more")).unwrap();
        }
        let at = disk.at().to_owned();
        assert!(is_mounted(&at));
        drop(disk);
        assert!(!is_mounted(&at) && !at.exists());
    }

    #[test]
    fn a_disk_in_memory_is_full_and_has_room_again() {
        if !disks() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let disk = LimitedDisk::tmpfs(&folder.path().join("small"), 8 * MIB).unwrap();
        assert_eq!((disk.bytes(), disk.block_use(), disk.device()), (8 * MIB, None, None));
        assert_eq!(disk.free_bytes().unwrap(), 8 * MIB);
        full_begins_and_ends(disk);
    }

    #[test]
    fn a_disk_in_a_file_is_full_and_has_room_again() {
        if !disks() {
            return;
        }
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = folder.path().join("file");
        let disk = LimitedDisk::loop_file(&folder.path().join("small"), &file, 32 * MIB).unwrap();
        assert_eq!(fs::read_dir(disk.at()).unwrap().count(), 0);
        let before = disk.block_use().unwrap();
        write(&disk.at().join("written"), 4 * MIB).unwrap();
        let after = disk.block_use().unwrap();
        assert!(after.write_bytes - before.write_bytes >= 4 * MIB && after.writes > before.writes, "{after:?}");
        assert!(after.write_bytes - before.write_bytes < 8 * MIB, "{before:?} {after:?}");
        let device = disk.device().unwrap();
        assert!(device.name().unwrap().starts_with("loop"));
        assert_eq!(Device::disk_of(disk.at()), Ok(device));
        full_begins_and_ends(disk);
        assert!(!file.exists());
        let attached = PathBuf::from(format!("/sys/dev/block/{device}/loop/backing_file"));
        // Another test may have the device next.
        let own = || fs::read_to_string(&attached).is_ok_and(|text| text.contains(file.to_str().unwrap()));
        wait_until("the loop device is free", || !own());
    }

    #[test]
    fn a_disk_in_use_goes_out_of_sight_at_least() {
        if !disks() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let disk = LimitedDisk::tmpfs(&folder.path().join("small"), MIB).unwrap();
        let mut held = File::create(disk.at().join("held")).unwrap();
        let filler = disk.fill().unwrap();
        let at = disk.at().to_owned();
        drop(disk);
        assert!(!is_mounted(&at));
        drop(filler);
        held.write_all(b"there is room for it").unwrap();
    }

    #[test]
    fn what_would_hide_or_overwrite_something_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "x").unwrap();
        let hidden = LimitedDisk::tmpfs(folder.path(), MIB).unwrap_err().to_string();
        assert!(hidden.contains("hidden") && other.exists(), "{hidden}");
        let few = LimitedDisk::loop_file(&folder.path().join("a"), &other, MIB).unwrap_err().to_string();
        assert!(few.contains("too few"), "{few}");
        let there = LimitedDisk::loop_file(&folder.path().join("a"), &other, 8 * MIB).unwrap_err().to_string();
        assert!(there.contains("exists") && fs::read(&other).unwrap() == b"x", "{there}");
        assert!(!folder.path().join("a").exists());
        let missing = command("no-such-mkfs", "e2fsprogs", &["-q"], &[Path::new("/x")]).unwrap_err().to_string();
        assert!(missing.contains("`no-such-mkfs -q /x` ") && missing.contains("`e2fsprogs`"), "{missing}");
    }

    #[test]
    fn what_was_mounted_in_its_place_is_not_unmounted() {
        if !disks() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let disk = LimitedDisk::tmpfs(&folder.path().join("small"), MIB).unwrap();
        let at = disk.at().to_owned();
        unmount_now(&at).unwrap();
        mount("somebody", &at, "tmpfs", MountFlags::empty(), None::<&std::ffi::CStr>).unwrap();
        unmount_own(&at, &[]);
        drop(disk);
        assert!(is_mounted(&at));
        unmount_now(&at).unwrap();
    }
}
