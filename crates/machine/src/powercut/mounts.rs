//! Creates, finds and removes mounts.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::mounts::{self, place};
use crate::process::capabilities;

const DEVICE: &str = "/dev/fuse";
/// The file system type that identifies mounts of Storebench.
const FILE_SYSTEM: &str = "fuse.storebench";
/// CAP_SYS_ADMIN, as a bit of the mask in `/proc/self/status`.
const MAY_MOUNT: u64 = 1 << 21;
/// How far the kernel reads ahead, in KiB: the maximum size of one request.
const READ_AHEAD: &str = "1024";

/// An error with the failed action and its path.
pub(super) fn told(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", path.display()))
}

fn device() -> io::Result<OwnedFd> {
    match File::options().read(true).write(true).open(DEVICE) {
        Ok(device) => Ok(device.into()),
        Err(error) => {
            let remedy = match error.kind() {
                io::ErrorKind::NotFound => {
                    "load the kernel module (`modprobe fuse`), or give the container access to the device"
                }
                io::ErrorKind::PermissionDenied => "run as root, and give the container access to the device",
                _ => "the kernel may lack FUSE: `modprobe fuse`",
            };
            Err(io::Error::new(error.kind(), format!("cannot open {DEVICE}: {error}; {remedy}")))
        }
    }
}

/// Mounts at this folder. The holder of the returned descriptor serves the mount; dropping the descriptor makes the
/// mount dead.
pub(super) fn attach(at: &Path) -> io::Result<OwnedFd> {
    let device = device()?;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let options = format!(
        "fd={},rootmode=40000,user_id={user},group_id={group},default_permissions,allow_other",
        device.as_raw_fd()
    );
    let options = CString::new(options)?;
    mount("storebench", at, FILE_SYSTEM, MountFlags::NODEV | MountFlags::NOSUID, options.as_c_str()).map_err(
        |error| {
            let remedy = match error {
                rustix::io::Errno::PERM => "; run as root, in a container with the capability SYS_ADMIN",
                _ => "",
            };
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("cannot mount at {}: {error}{remedy}", at.display()))
        },
    )?;
    Ok(device)
}

/// Unmounts at once. Pending requests fail, and files that are still open only return errors. It is not an error if
/// nothing is mounted. Mounts of others are left alone.
pub(super) fn detach(at: &Path) -> io::Result<()> {
    if !is_own_at(at) {
        return Ok(());
    }
    match unmount(at, UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(told("cannot unmount", at, &error.into())),
    }
}

/// Whether anything is mounted there or below.
pub(crate) fn is_mounted_below(path: &Path) -> io::Result<bool> {
    let path = place(path)?;
    let all = mounts::read();
    if all.is_empty() {
        return Err(io::Error::other("cannot read the mount table in /proc"));
    }
    Ok(all.iter().any(|mount| mount.point.starts_with(&path)))
}

/// Whether the visible mount at a path, which must contain no links, is one of Storebench.
fn is_own_at(path: &Path) -> bool {
    mounts::at(path).is_some_and(|mount| mount.kind == FILE_SYSTEM)
}

/// Removes mounts of Storebench at a path, and returns whether there were any. Mounts of others are left alone.
pub(crate) fn clear(path: &Path) -> io::Result<bool> {
    let path = place(path)?;
    let here = mounts::read().into_iter().rev().filter(|mount| mount.point == path);
    let own = here.take_while(|mount| mount.kind == FILE_SYSTEM).count();
    (0..own).try_for_each(|_| detach(&path))?;
    Ok(own > 0)
}

/// Removes mounts of Storebench that are no longer served. Fails if one is still served.
pub(super) fn clear_dead(at: &Path) -> io::Result<()> {
    loop {
        let path = place(at)?;
        if !is_own_at(&path) {
            return Ok(());
        }
        match fs::metadata(at) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) => detach(&path)?,
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    format!("{} is mounted by another process; end that process, or use another folder", at.display()),
                ));
            }
        }
    }
}

/// Makes the kernel read far ahead. It works without, too.
pub(super) fn read_ahead(at: &Path) {
    if let Some(mount) = mounts::at(at) {
        let _ = fs::write(format!("/sys/class/bdi/{}/read_ahead_kb", mount.device), READ_AHEAD);
    }
}

/// Whether file systems can be mounted here; if not, why, and what to do about it.
pub(super) fn available() -> Result<(), String> {
    device().map_err(|error| error.to_string())?;
    if capabilities().is_some_and(|all| all & MAY_MOUNT == 0) {
        return Err(
            "this process may not mount (CAP_SYS_ADMIN is missing); run as root, in a container with `--cap-add \
                    SYS_ADMIN`"
                .to_owned(),
        );
    }
    // Only an attempt shows whether a sandbox forbids it.
    static TRIES: AtomicU32 = AtomicU32::new(0);
    let number = TRIES.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("storebench-mount-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| told("cannot create", &folder, &error).to_string())?;
    let tried = place(&folder).and_then(|place| {
        let device = attach(&place)?;
        drop(device);
        detach(&place)
    });
    let _ = fs::remove_dir(&folder);
    tried.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_below_is_found() {
        assert!(is_mounted_below(Path::new("/")).unwrap());
        assert!(!is_mounted_below(Path::new("/proc/self")).unwrap());
    }

    #[test]
    fn what_others_have_mounted_is_left_alone() {
        assert!(!clear(Path::new("/proc")).unwrap());
        assert!(Path::new("/proc/self").exists());
    }
}
