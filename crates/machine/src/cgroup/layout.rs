//! Finds the control groups of this machine: version 1, version 2, or some controllers of each.

use std::fs;
use std::path::{Path, PathBuf};

use crate::mounts::{self, Mount};

/// The controllers that set limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    Cpu,
    Memory,
    Disk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl Controller {
    pub(super) const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Disk];

    pub(super) fn name(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Cpu, _) => "cpu",
            (Self::Memory, _) => "memory",
            (Self::Disk, Version::One) => "blkio",
            (Self::Disk, Version::Two) => "io",
        }
    }
}

/// A hierarchy of control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    /// Its mount point.
    pub(super) top: PathBuf,
    /// The group of this process.
    pub(super) own: PathBuf,
    /// The controllers in it that are used here.
    pub(super) controllers: Vec<Controller>,
}

/// The hierarchies of this machine that have a controller used here.
pub(super) fn hierarchies() -> Vec<Hierarchy> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    from(&mounts::read(), &own)
}

fn from(mounts: &[Mount], own: &str) -> Vec<Hierarchy> {
    let mut out: Vec<Hierarchy> = Vec::new();
    for mount in mounts {
        let version = match mount.kind.as_str() {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => continue,
        };
        let has = |name: &str| match version {
            Version::One => mount.options.iter().any(|option| option == name),
            Version::Two => words(&mount.point.join("cgroup.controllers")).iter().any(|word| word == name),
        };
        let mut controllers: Vec<Controller> =
            Controller::ALL.into_iter().filter(|controller| has(controller.name(version))).collect();
        // The same hierarchy may be mounted twice; a controller is only in one hierarchy.
        controllers.retain(|controller| !out.iter().any(|other| other.controllers.contains(controller)));
        if !controllers.is_empty() {
            out.push(tree(mount, version, controllers, own));
        }
    }
    out
}

/// The hierarchy mounted here, with the group of this process. `own` is the content of `/proc/self/cgroup`.
pub(super) fn tree(mount: &Mount, version: Version, controllers: Vec<Controller>, own: &str) -> Hierarchy {
    let path = own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (names, path) = rest.split_once(':')?;
        let same = match version {
            Version::One => names.split(',').any(|name| controllers.iter().any(|of| of.name(version) == name)),
            Version::Two => names.is_empty(),
        };
        same.then(|| Path::new(path))
    });
    // A group that is not below the root of the mount is not visible, for example in a container.
    let below = path.and_then(|path| path.strip_prefix(&mount.root).ok()).filter(|below| !below.starts_with(".."));
    let own = below.map_or_else(|| mount.point.clone(), |below| mount.point.join(below));
    Hierarchy { version, top: mount.point.clone(), own, controllers }
}

/// The words of a file; empty if it cannot be read.
pub(super) fn words(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_found_where_they_are_mounted() {
        let mounts = mounts::parse(
            "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
             36 31 0:32 / /elsewhere rw - cgroup cgroup rw,memory\n\
             38 31 0:35 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
             40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n",
        );
        let own = "9:name=systemd:/x\n7:blkio:/\n4:memory:/docker/abc/below\n1:cpu,cpuacct:/user.slice\n0::/\n";
        let found = from(&mounts, own);
        let folders: Vec<_> = found.iter().map(|one| (one.own.to_str().unwrap(), one.controllers.as_slice())).collect();
        let expected: [(&str, &[Controller]); 3] = [
            ("/sys/fs/cgroup/cpu,cpuacct/user.slice", &[Controller::Cpu]),
            ("/sys/fs/cgroup/memory/below", &[Controller::Memory]),
            ("/sys/fs/cgroup/blkio/", &[Controller::Disk]),
        ];
        assert_eq!(folders, expected);
    }

    #[test]
    fn version_2_tells_its_controllers_in_a_file() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("cgroup.controllers"), "cpuset cpu io memory pids\n").unwrap();
        let mounts = mounts::parse(&format!("31 1 0:28 / {} rw - cgroup2 cgroup2 rw\n", top.path().display()));
        let found = from(&mounts, "0::/user.slice/user-1000.slice/session-2.scope\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].own, top.path().join("user.slice/user-1000.slice/session-2.scope"));
        assert_eq!(found[0].controllers, Controller::ALL);
        // A group outside the container's cgroup namespace.
        assert_eq!(from(&mounts, "0::/../other\n")[0].own, top.path());
    }
}
