//! The disk that a folder is on, and the kernel's counters for it.

use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::mounts::mount_of;

/// A block device by its numbers, as in the kernel's files: `8:0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// The major number.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// What a disk or partition has done since it was attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockUse {
    /// Completed read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Completed write requests.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes of the disk's cache.
    pub flushes: u64,
}

/// The unit of the kernel's counters, independent of the disk's sector size.
const SECTOR: u64 = 512;

impl Device {
    fn of_number(number: u64) -> Self {
        Self { major: rustix::fs::major(number), minor: rustix::fs::minor(number) }
    }

    /// The device of the file system that holds a folder. It may be a partition.
    ///
    /// # Errors
    /// Fails if the folder cannot be read or is not on a disk of this machine: in memory, on an overlay, on a network.
    pub fn of(folder: &Path) -> Result<Self, String> {
        let metadata = fs::metadata(folder).map_err(|e| format!("{} cannot be read: {e}", folder.display()))?;
        let device = Self::of_number(metadata.dev());
        if device.major != 0 {
            return Ok(device);
        }
        // File systems that can span disks (btrfs), and those that use no disk, have an anonymous device number.
        let mount = fs::canonicalize(folder).ok().and_then(|folder| mount_of(&folder));
        let Some(mount) = mount else {
            return Err(format!("the file system of {} is unknown", folder.display()));
        };
        let source = fs::metadata(&mount.source).ok().filter(|source| source.file_type().is_block_device());
        source.map(|source| Self::of_number(source.rdev())).ok_or_else(|| {
            format!(
                "{} is on `{}` ({}), which is not a disk; use a folder on a disk, or in a container a folder on a \
                 mounted volume",
                folder.display(),
                mount.kind,
                mount.point.display()
            )
        })
    }

    /// The whole disk that a folder is on. I/O limits apply to whole disks.
    ///
    /// # Errors
    /// As for [`Device::of`].
    pub fn disk_of(folder: &Path) -> Result<Self, String> {
        Self::of(folder)?.whole(Path::new("/sys"))
    }

    fn whole(self, sys: &Path) -> Result<Self, String> {
        let link = sys.join(format!("dev/block/{self}"));
        let own = fs::canonicalize(&link).map_err(|e| format!("{} cannot be read: {e}", link.display()))?;
        if !own.join("partition").exists() {
            return Ok(self);
        }
        let parent = own.parent().map(|parent| parent.join("dev")).unwrap_or_default();
        let text = fs::read_to_string(&parent).map_err(|e| format!("{} cannot be read: {e}", parent.display()))?;
        let numbers = text.trim().split_once(':');
        numbers
            .and_then(|(major, minor)| Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? }))
            .ok_or_else(|| format!("{} says {text:?}, which is not a device number", parent.display()))
    }

    /// Its name, such as `sda` or `loop0`.
    pub fn name(self) -> Option<String> {
        let own: PathBuf = fs::canonicalize(format!("/sys/dev/block/{self}")).ok()?;
        Some(own.file_name()?.to_str()?.to_owned())
    }

    /// What it has done since it was attached.
    ///
    /// # Errors
    /// Fails if the kernel does not report it.
    pub fn block_use(self) -> Result<BlockUse, String> {
        let path = format!("/sys/dev/block/{self}/stat");
        let text = fs::read_to_string(&path).map_err(|e| format!("{path} cannot be read: {e}"))?;
        Ok(block_use(&text))
    }
}

fn block_use(stat: &str) -> BlockUse {
    let numbers: Vec<u64> = stat.split_ascii_whitespace().map(|n| n.parse().unwrap_or(0)).collect();
    // Older kernels report fewer fields.
    let at = |nth: usize| numbers.get(nth).copied().unwrap_or(0);
    BlockUse { reads: at(0), read_bytes: at(2) * SECTOR, writes: at(4), write_bytes: at(6) * SECTOR, flushes: at(15) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_disk_leads_to_the_disk() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("devices/sda");
        fs::create_dir_all(disk.join("sda3")).unwrap();
        fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        fs::write(disk.join("dev"), "8:0\n").unwrap();
        fs::write(disk.join("sda3/partition"), "3\n").unwrap();
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(disk.join(to), sys.path().join("dev/block").join(name)).unwrap();
        };
        link("sda3", "8:3");
        link("", "8:0");
        let whole = Device { major: 8, minor: 0 };
        assert_eq!(Device { major: 8, minor: 3 }.whole(sys.path()), Ok(whole));
        assert_eq!(whole.whole(sys.path()), Ok(whole));
        assert!(Device { major: 9, minor: 9 }.whole(sys.path()).unwrap_err().contains("9:9"));
    }

    #[test]
    fn what_is_on_no_disk_is_said() {
        let refused = Device::disk_of(Path::new("/proc")).unwrap_err();
        assert!(refused.contains("`proc`") && refused.contains("not a disk"), "{refused}");
        assert!(Device::of(Path::new("/no/such/folder")).unwrap_err().contains("/no/such/folder"));
    }

    #[test]
    fn counts_are_read() {
        let stat = "  10  0  80  5  20  1  160  7  0  12  12  3  0  24  1  6  2\n";
        let expected = BlockUse { reads: 10, read_bytes: 80 * 512, writes: 20, write_bytes: 160 * 512, flushes: 6 };
        assert_eq!(block_use(stat), expected);
        assert_eq!(block_use("1 2 3").read_bytes, 3 * 512);
    }
}
