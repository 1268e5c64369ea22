//! One control group: created, changed while processes run in it, read and removed.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::layout::{Controller, Hierarchy, Version, hierarchies, words};
use super::write::{entry_of, is_busy, lift_disks, number_of, write};
use super::{LimitProblem, Limits};
use crate::device::Device;
use crate::process::Pid;

/// How long killed processes of a group may take to end before the group is left behind.
const END_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The folder of the group in one hierarchy.
#[derive(Debug)]
struct GroupFolder {
    version: Version,
    folder: PathBuf,
    controllers: Vec<Controller>,
}

/// A group of processes with limits. Dropping it kills its processes and removes the group.
///
/// It supports control groups of version 1, version 2, or both at once, as the machine has them. Their limits differ:
///
/// - Disks: version 1 throttles only I/O that bypasses the page cache or that a process itself waits for (`O_DIRECT`,
///   reads that miss the cache, `fsync` of data that was not yet written back). Later write-back is not attributed to
///   any group. Version 2 throttles write-back, too, on file systems that support it (ext4, btrfs, xfs, f2fs).
/// - Memory: version 1 rejects a limit below the memory that is in use and cannot be reclaimed
///   ([`LimitProblem::InUse`]); version 2 kills processes until the limit holds. Both count the group's page cache.
///   Neither allows swap beyond the limit.
/// - Version 2 does not enable controllers below a group that holds processes. If the group of this process holds
///   processes, the limited group is created next to it, in the nearest writable ancestor. It is then outside the
///   limits of this process's group. A controller that was enabled for it stays enabled, because another group may use
///   it meanwhile. Version 1 always creates the group below that of this process.
///
/// Both are tested on real control groups if the machine has them. Version 2 is also tested on folders that imitate it.
#[derive(Debug)]
pub struct Cgroup {
    limits: Limits,
    places: Vec<GroupFolder>,
    /// The disk to limit, or why there is none.
    device: Result<Device, String>,
}

/// What a group has used, and holds now. Zero if the system does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupUse {
    /// Processes killed because the group ran out of memory.
    pub oom_kills: u64,
    /// Current memory, including the page cache, in bytes.
    pub memory_bytes: u64,
    /// Peak memory, in bytes.
    pub memory_peak_bytes: u64,
    /// Periods of 100 ms in which it was active.
    pub periods: u64,
    /// Periods of 100 ms in which it was throttled because its CPU quota was used up.
    pub throttled_periods: u64,
    /// Total throttled time of its processors, in ns.
    pub throttled_ns: u64,
}

impl Cgroup {
    /// Creates a group with these limits. Disk limits apply to the disk that holds `data_folder`.
    ///
    /// All available controllers become part of the group, so that limits can be [set](Cgroup::set) later.
    ///
    /// # Errors
    /// Fails if a requested limit cannot be set. Then nothing is left behind.
    pub fn begin(limits: Limits, data_folder: Option<&Path>) -> Result<Self, LimitProblem> {
        Self::begin_in(&hierarchies(), limits, data_folder.map(Device::disk_of))
    }

    fn begin_in(
        trees: &[Hierarchy],
        limits: Limits,
        device: Option<Result<Device, String>>,
    ) -> Result<Self, LimitProblem> {
        limits.check()?;
        let needed = limits.needed();
        for controller in &needed {
            if !trees.iter().any(|tree| tree.controllers.contains(controller)) {
                return Err(absent(*controller));
            }
        }
        let device = device.unwrap_or_else(|| Err("the server's data folder is unknown; set `data`".into()));
        // If an error occurs below, dropping it removes everything.
        let mut group = Self { limits: Limits::default(), places: Vec::new(), device };
        let id = own_name(trees);
        for tree in trees {
            let of_tree = |controller: &Controller| tree.controllers.contains(controller);
            let needed: Vec<Controller> = needed.iter().copied().filter(of_tree).collect();
            let made = match tree.version {
                Version::One => place_below(tree, &id),
                Version::Two => place_beside(tree, &id, &needed),
            };
            match made {
                Ok(place) => group.places.push(place),
                Err(_) if needed.is_empty() => {}
                Err(problem) => return Err(problem),
            }
        }
        group.set(limits)?;
        Ok(group)
    }

    /// Its folders, one for each hierarchy, for a [`Lease`](crate::Lease).
    pub fn folders(&self) -> Vec<PathBuf> {
        self.places.iter().map(|place| place.folder.clone()).collect()
    }

    /// Sets new limits, also while processes run in it, and removes those that are not given.
    ///
    /// # Errors
    /// Fails if a limit cannot be set. The limits before it, in the order of [`Limits`], are then set.
    pub fn set(&mut self, limits: Limits) -> Result<(), LimitProblem> {
        limits.check()?;
        let needed = limits.needed();
        for controller in Controller::ALL {
            let before = self.limits;
            let now = match controller {
                Controller::Cpu => Limits { cpus: limits.cpus, ..before },
                Controller::Memory => Limits { memory_bytes: limits.memory_bytes, ..before },
                Controller::Disk => Limits {
                    read_bytes_per_s: limits.read_bytes_per_s,
                    write_bytes_per_s: limits.write_bytes_per_s,
                    ..before
                },
            };
            if now == before {
                continue;
            }
            let place = self.places.iter().find(|place| place.controllers.contains(&controller));
            let Some(place) = place else { return Err(absent(controller)) };
            let device = match &self.device {
                Ok(device) => Some(*device),
                Err(why) if controller == Controller::Disk && needed.contains(&controller) => {
                    return Err(LimitProblem::Disk(why.clone()));
                }
                Err(_) => None,
            };
            let set = |limits| write(&place.folder, place.version, controller, limits, device);
            if let Err(problem) = set(&now) {
                // One of two files may already be written.
                let _ = set(&before);
                return Err(problem);
            }
            self.limits = now;
        }
        Ok(())
    }

    /// A prefix for an `sh -c` command that enters the group before the server's first instruction:
    /// `{enter_command}exec server`. It ends with `&& `, so that nothing is started outside the group.
    pub fn enter_command(&self) -> String {
        // 0 is the writing process: the shell, whose built-in `echo` is not a separate process.
        let enter = |place: &GroupFolder| format!("echo 0 >{} && ", quoted(&place.folder.join("cgroup.procs")));
        self.places.iter().map(enter).collect()
    }

    /// What it has used, and holds now.
    pub fn look(&self) -> GroupUse {
        let mut out = GroupUse::default();
        for place in &self.places {
            let number = |file: &str| number_of(&place.folder, file).unwrap_or(0);
            let entry = |file: &str, name: &str| entry_of(&place.folder, file, name).unwrap_or(0);
            for controller in &place.controllers {
                match (controller, place.version) {
                    (Controller::Cpu, version) => {
                        out.periods = entry("cpu.stat", "nr_periods");
                        out.throttled_periods = entry("cpu.stat", "nr_throttled");
                        out.throttled_ns = match version {
                            Version::One => entry("cpu.stat", "throttled_time"),
                            Version::Two => entry("cpu.stat", "throttled_usec") * 1_000,
                        };
                    }
                    (Controller::Memory, Version::One) => {
                        out.oom_kills = entry("memory.oom_control", "oom_kill");
                        out.memory_bytes = number("memory.usage_in_bytes");
                        out.memory_peak_bytes = number("memory.max_usage_in_bytes");
                    }
                    (Controller::Memory, Version::Two) => {
                        out.oom_kills = entry("memory.events", "oom_kill");
                        out.memory_bytes = number("memory.current");
                        out.memory_peak_bytes = number("memory.peak");
                    }
                    (Controller::Disk, _) => {}
                }
            }
        }
        out
    }

    /// Kills all its processes (SIGKILL), and waits a while until it is empty.
    pub(crate) fn kill(&self) {
        let until = Instant::now() + END_WITHIN;
        let folders = self.folders();
        loop {
            folders.iter().for_each(|folder| kill_in(folder));
            if folders.iter().all(|folder| is_empty(folder)) || Instant::now() >= until {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // With a small CPU quota they would end slowly.
        let _ = self.set(Limits::default());
        remove_all(&self.folders());
    }
}

fn absent(controller: Controller) -> LimitProblem {
    let (one, two) = (controller.name(Version::One), controller.name(Version::Two));
    let what = match controller {
        Controller::Cpu => "processors",
        Controller::Memory => "memory",
        Controller::Disk => "the disk",
    };
    let named = if one == two { format!("`{one}`") } else { format!("`{two}` (`{one}` in version 1)") };
    LimitProblem::Missing {
        what,
        why: format!(
            "the cgroup controller {named} is missing; /proc/cgroups and /sys/fs/cgroup list what this machine has, \
             and a container must be given access to it"
        ),
    }
}

fn refused(folder: &Path, error: &io::Error) -> LimitProblem {
    let why = match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "{error}; run Storebench as root, or for version 2 with \
             `systemd-run --user --scope -p Delegate=yes storebench …`"
        ),
        ErrorKind::ReadOnlyFilesystem => {
            format!("{error}; in a container, mount /sys/fs/cgroup writable, or limit the container itself")
        }
        ErrorKind::ResourceBusy => format!(
            "the group itself holds processes, so that groups below it cannot have limits ({error}); move them to a \
             group below it, or run Storebench with `systemd-run --scope -p Delegate=yes storebench …`"
        ),
        _ => error.to_string(),
    };
    LimitProblem::Refused { folder: folder.to_owned(), why }
}

/// An unused name for a group of this process.
fn own_name(trees: &[Hierarchy]) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let name = format!("storebench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // An earlier process with the same number may have left one.
        let taken = |tree: &Hierarchy| {
            tree.own
                .ancestors()
                .take_while(|above| above.starts_with(&tree.top))
                .any(|above| above.join(&name).exists())
        };
        if !trees.iter().any(taken) {
            return name;
        }
    }
}

/// Version 1: below the group of this process.
fn place_below(tree: &Hierarchy, id: &str) -> Result<GroupFolder, LimitProblem> {
    let folder = tree.own.join(id);
    fs::create_dir(&folder).map_err(|e| refused(&tree.own, &e))?;
    Ok(GroupFolder { version: tree.version, folder, controllers: tree.controllers.clone() })
}

/// Version 2: creates the group in the nearest ancestor, starting with the group of this process, that can delegate the
/// needed controllers. An ancestor that can delegate all controllers is preferred.
fn place_beside(tree: &Hierarchy, id: &str, needed: &[Controller]) -> Result<GroupFolder, LimitProblem> {
    let above = || tree.own.ancestors().take_while(|above| above.starts_with(&tree.top));
    for parent in above() {
        if let Ok(place) = place_in(parent, tree, id, &tree.controllers) {
            return Ok(place);
        }
    }
    let mut nearest = None;
    for parent in above() {
        match place_in(parent, tree, id, needed) {
            Ok(place) => return Ok(place),
            // A controller missing in a group above cannot be delegated below.
            Err(problem @ LimitProblem::Missing { .. }) => nearest = Some(problem),
            Err(problem) => nearest = nearest.or(Some(problem)),
        }
    }
    Err(nearest.unwrap_or_else(|| refused(&tree.own, &io::Error::from(ErrorKind::NotFound))))
}

fn place_in(parent: &Path, tree: &Hierarchy, id: &str, needed: &[Controller]) -> Result<GroupFolder, LimitProblem> {
    let given = words(&parent.join("cgroup.controllers"));
    let has = |controller: &Controller| given.iter().any(|name| name == controller.name(Version::Two));
    if let Some(lacking) = needed.iter().find(|controller| !has(controller)) {
        let name = lacking.name(Version::Two);
        let LimitProblem::Missing { what, .. } = absent(*lacking) else { return Err(absent(*lacking)) };
        let why = format!(
            "the controller `{name}` is not delegated to {}; run Storebench as root, or delegate it to users with \
             `Delegate=cpu memory io` in a drop-in of user@.service",
            parent.display()
        );
        return Err(LimitProblem::Missing { what, why });
    }
    // Moving a process requires write access to a common ancestor, and this is one.
    rustix::fs::access(parent.join("cgroup.procs"), rustix::fs::Access::WRITE_OK)
        .map_err(|e| refused(parent, &e.into()))?;
    let folder = parent.join(id);
    fs::create_dir(&folder).map_err(|e| refused(parent, &e))?;
    let control = parent.join("cgroup.subtree_control");
    let mut controllers = Vec::new();
    for controller in tree.controllers.iter().filter(|controller| has(controller)) {
        let name = controller.name(Version::Two);
        let enabled = words(&control).iter().any(|word| word == name);
        match if enabled { Ok(()) } else { fs::write(&control, format!("+{name}")) } {
            Ok(()) => controllers.push(*controller),
            Err(_) if !needed.contains(controller) => {}
            Err(error) => {
                let _ = fs::remove_dir(&folder);
                return Err(refused(parent, &error));
            }
        }
    }
    Ok(GroupFolder { version: Version::Two, folder, controllers })
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn processes(folder: &Path) -> Vec<u32> {
    words(&folder.join("cgroup.procs")).iter().filter_map(|word| word.parse().ok()).collect()
}

/// Child groups that processes of a group have created.
fn below(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

fn kill_own(folder: &Path) {
    for number in processes(folder) {
        // 0 is a process that is not visible from here.
        if number != 0
            && number != std::process::id()
            && let Some(pid) = rustix::process::Pid::from_raw(number.cast_signed())
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn kill_in(folder: &Path) {
    kill_own(folder);
    below(folder).for_each(|folder| kill_in(&folder));
}

/// Whether none of its processes runs. A zombie may be listed until it is waited for.
fn is_empty(folder: &Path) -> bool {
    let runs = |number: u32| Pid::of(number).is_some_and(Pid::runs);
    !processes(folder).into_iter().any(runs) && below(folder).all(|folder| is_empty(&folder))
}

/// Kills the processes of a group and removes it with all its child groups.
fn remove(folder: &Path) -> io::Result<()> {
    let until = Instant::now() + END_WITHIN;
    loop {
        kill_own(folder);
        for below in below(folder) {
            remove(&below)?;
        }
        match fs::remove_dir(folder) {
            Err(error) if is_busy(&error) && Instant::now() < until => std::thread::sleep(LOOK_EVERY),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => return other,
        }
    }
}

/// Removes only groups that the process with this number has left. Their names contain the number.
pub(crate) fn clear(folders: &[PathBuf], owner: u32) {
    let ours: Vec<PathBuf> = folders.iter().filter(|folder| is_of(folder, owner)).cloned().collect();
    remove_all(&ours);
}

/// Removes disk limits before anything is killed: a process that waits for a slow disk cannot end.
fn remove_all(folders: &[PathBuf]) {
    folders.iter().for_each(|folder| lift_disks(folder));
    for folder in folders {
        let _ = remove(folder);
    }
}

fn is_of(folder: &Path, owner: u32) -> bool {
    // `CGROUP_SUPER_MAGIC` and `CGROUP2_SUPER_MAGIC`.
    const KINDS: [u64; 2] = [0x0027_e0eb, 0x6367_7270];
    let named = folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
        let number = name.strip_prefix("storebench-").and_then(|rest| rest.strip_prefix(&format!("{owner}-")));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let direct = folder.is_absolute() && folder.components().all(|part| part != Component::ParentDir);
    let no_link = fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir());
    named && direct && no_link && rustix::fs::statfs(folder).is_ok_and(|fs| KINDS.contains(&(fs.f_type as u64)))
}

#[cfg(test)]
mod tests;
