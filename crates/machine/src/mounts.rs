//! The mount table, from `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The major and minor number of its device, such as `8:0`.
    pub device: String,
    /// The folder of the file system that is visible at the mount point.
    pub(crate) root: PathBuf,
    /// The mount point.
    pub(crate) point: PathBuf,
    /// The file system type.
    pub kind: String,
    /// The source: a device, or a name.
    pub source: PathBuf,
    /// Options of the file system.
    pub(crate) options: Vec<String>,
}

/// The current mounts, latest last.
pub(crate) fn read() -> Vec<Mount> {
    parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

pub(crate) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mount> {
    let (first, last) = line.split_once(" - ")?;
    let mut first = first.split(' ').skip(2);
    let mut last = last.split(' ');
    Some(Mount {
        device: first.next()?.to_owned(),
        root: unescaped(first.next()?),
        point: unescaped(first.next()?),
        kind: last.next()?.to_owned(),
        source: unescaped(last.next()?),
        options: last.next()?.split(',').map(str::to_owned).collect(),
    })
}

/// Decodes spaces and the like, which are written as `\040`.
fn unescaped(text: &str) -> PathBuf {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 4).filter(|_| *byte == b'\\').and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                out.push(escaped);
                at += 4;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

/// The current mount that holds a path, which must contain no links.
pub fn mount_of(path: &Path) -> Option<Mount> {
    holding(&read(), path)
}

fn holding(mounts: &[Mount], path: &Path) -> Option<Mount> {
    let holding = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    // Of several mounts at the same point, the latest hides the others.
    holding.max_by_key(|mount| mount.point.components().count()).cloned()
}

/// What is mounted at a path, which must contain no links. Of several mounts, the visible one.
pub(crate) fn at(path: &Path) -> Option<Mount> {
    read().into_iter().rfind(|mount| mount.point == path)
}

/// Resolves the links in a path without accessing what is mounted there, because it may no longer answer.
pub(crate) fn place(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => Ok(above.canonicalize()?.join(name)),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_and_latest_mount_holds_a_path() {
        let text = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                    28 27 0:25 / /mnt/a\\040b ro shared:3 master:1 - tmpfs none ro,size=4k\n\
                    29 28 0:26 /sub /mnt/a\\040b rw - btrfs /dev/sda1 rw\nnonsense\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 3);
        let held = holding(&mounts, Path::new("/mnt/a b/c")).unwrap();
        assert_eq!((held.kind.as_str(), held.source.as_path()), ("btrfs", Path::new("/dev/sda1")));
        assert_eq!((held.root.as_path(), held.device.as_str()), (Path::new("/sub"), "0:26"));
        assert_eq!(holding(&mounts, Path::new("/mnt/a")).unwrap().kind, "ext4");
        assert_eq!(mounts[1].options, ["ro", "size=4k"]);
        assert_eq!(unescaped("/a\\040b\\134c\\0"), Path::new("/a b\\c\\0"));
        assert!(read().iter().any(|mount| mount.point == Path::new("/proc") && mount.kind == "proc"));
    }
}
