//! One group: made, changed while processes run in it, read and removed.

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

/// How long processes of a group may take to end after they were killed, before it is left.
const END_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A folder of the group in one tree.
#[derive(Debug)]
struct GroupFolder {
    version: Version,
    folder: PathBuf,
    controllers: Vec<Controller>,
}

/// A group of processes with limits. What runs in it is killed when it is dropped, and the group is removed.
///
/// Version 1 and version 2 of control groups are used, also both at once, as the machine has them. Their limits differ:
///
/// - Disks: version 1 slows only what is read and written past the page cache, and what a process itself waits for
///   (`O_DIRECT`, reads that miss the cache, `fsync` of what nobody has written back before). What the kernel writes back
///   later counts for nobody. Version 2 slows write-back too, on file systems that know of it (ext4, btrfs, xfs, f2fs).
/// - Memory: version 1 refuses a limit below what is in use and cannot be taken back ([`LimitProblem::InUse`]); version 2
///   ends processes until it holds. Both count the page cache of the group, and no swap is given beyond the limit.
/// - Version 2 gives controllers only to groups beside processes, not below them: where the group of this process holds
///   processes, the limited one is made beside it, in the nearest group above that can be written, and outside of limits of
///   the group of this process. A controller that was enabled for it stays enabled: another may use it meanwhile. Version 1
///   makes it below the group of this process, always.
///
/// Both are tested on the real thing where the machine has it, and version 2 with folders that imitate it besides.
#[derive(Debug)]
pub struct Cgroup {
    name: String,
    limits: Limits,
    places: Vec<GroupFolder>,
    /// The disk to be limited, or why there is none.
    device: Result<Device, String>,
}

/// What a group has done, and holds. Zero where the system does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupUse {
    /// Processes that were killed because the memory of the group was used up.
    pub oom_kills: u64,
    /// Memory now, with the page cache, in bytes.
    pub memory_bytes: u64,
    /// The most memory that it had, in bytes.
    pub memory_peak_bytes: u64,
    /// Periods of 100 ms in which it had anything to do.
    pub periods: u64,
    /// Periods of 100 ms in which it had to wait because its share of processors was used up.
    pub throttled_periods: u64,
    /// How long its processors had to wait, added up, in ns.
    pub throttled_ns: u64,
}

impl Cgroup {
    /// Makes a group with these limits; `name` is of the server, for messages. A limit of the disk is of the disk that holds
    /// `data_folder`.
    ///
    /// Whatever controllers there are become part of it, so that limits can be [set](Cgroup::set) later.
    ///
    /// # Errors
    /// Where a limit that is asked for cannot be set. Nothing is left then.
    pub fn begin(name: &str, limits: Limits, data_folder: Option<&Path>) -> Result<Self, LimitProblem> {
        Self::begin_in(&hierarchies(), name, limits, data_folder.map(Device::disk_of))
    }

    fn begin_in(
        trees: &[Hierarchy],
        name: &str,
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
        let device =
            device.unwrap_or_else(|| Err("it is not known which folder the server has its data in; say `data`".into()));
        // Nothing of it remains when it is dropped on the way.
        let mut group = Self { name: name.to_owned(), limits: Limits::default(), places: Vec::new(), device };
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

    /// The server's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its limits now.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Its folders, for a [`Lease`](crate::Lease): one for each tree of groups.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.places.iter().map(|place| place.folder.clone()).collect()
    }

    /// Sets other limits, also while processes run in it, and lifts those that are not among them.
    ///
    /// # Errors
    /// Where one cannot be set. Those before it in the order of [`Limits`] are set then.
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
                // One of two files may have been written.
                let _ = set(&before);
                return Err(problem);
            }
            self.limits = now;
        }
        Ok(())
    }

    /// Moves a process into the group. What it has started before stays where it is, and memory that it has already is not
    /// counted; start it [inside](Cgroup::enter_command) for that.
    ///
    /// # Errors
    /// Where it has ended, or this process may not move it.
    pub fn add(&self, pid: Pid) -> Result<(), LimitProblem> {
        for place in &self.places {
            let file = place.folder.join("cgroup.procs");
            let value = pid.number.to_string();
            fs::write(&file, &value).map_err(|error| {
                let ended = error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error());
                let why = if ended { "the process has ended".to_owned() } else { error.to_string() };
                LimitProblem::File { file, value, why }
            })?;
        }
        Ok(())
    }

    /// What a command for `sh -c` has to begin with, so that it is in the group before its first instruction:
    /// `{enter_command}exec server`. It ends with `&& `: outside of the group nothing is started.
    pub fn enter_command(&self) -> String {
        // 0 is whoever writes: the shell, whose `echo` is no process of its own.
        let enter = |place: &GroupFolder| format!("echo 0 >{} && ", quoted(&place.folder.join("cgroup.procs")));
        self.places.iter().map(enter).collect()
    }

    /// The numbers of the processes that are in it now.
    pub fn processes(&self) -> Vec<u32> {
        self.places.first().map(|place| processes(&place.folder)).unwrap_or_default()
    }

    /// What it has done, and holds.
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

    /// Ends all that is in it at once (SIGKILL), and waits a while until it is empty.
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

    /// How many of its processes were killed because its memory was used up.
    pub fn oom_kills(&self) -> u64 {
        self.look().oom_kills
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A share of a processor that is too small would have them end late.
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
            "the controller {named} of control groups is missing; /proc/cgroups and /sys/fs/cgroup tell what this machine \
             has, and in a container they have to be given to it"
        ),
    }
}

fn refused(folder: &Path, error: &io::Error) -> LimitProblem {
    let why = match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "{error}; run Storebench as root, or with version 2 by `systemd-run --user --scope -p Delegate=yes storebench …`"
        ),
        ErrorKind::ReadOnlyFilesystem => {
            format!("{error}; in a container, have /sys/fs/cgroup mounted to be written, or limit the container itself")
        }
        ErrorKind::ResourceBusy => format!(
            "processes are in the group itself, so that none below may have limits ({error}); move them to a group below \
             it, or run Storebench by `systemd-run --scope -p Delegate=yes storebench …`"
        ),
        _ => error.to_string(),
    };
    LimitProblem::Refused { folder: folder.to_owned(), why }
}

/// A name that no group has, of this process.
fn own_name(trees: &[Hierarchy]) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let name = format!("storebench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // An earlier process of the same number may have left one.
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

/// Version 2: in the nearest group, from that of this process upwards, that can give away what is needed; if there is one,
/// one that gives away all that there is.
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
            // What the groups above lack they cannot give to those below.
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
            "the controller `{name}` is not given to {}; run Storebench as root, or give it to users by \
             `Delegate=cpu memory io` in a drop-in of user@.service",
            parent.display()
        );
        return Err(LimitProblem::Missing { what, why });
    }
    // Processes come from below the same parent: whoever may not write this may not move them.
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

/// For a shell, whatever it holds.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn processes(folder: &Path) -> Vec<u32> {
    words(&folder.join("cgroup.procs")).iter().filter_map(|word| word.parse().ok()).collect()
}

/// Groups that processes of a group have made in it.
fn below(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

fn kill_own(folder: &Path) {
    for number in processes(folder) {
        // 0 is a process that cannot be seen from here.
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

/// Whether none of its processes runs: one that has ended may be listed until it was waited for.
fn is_empty(folder: &Path) -> bool {
    let runs = |number: u32| Pid::of(number).is_some_and(Pid::runs);
    !processes(folder).into_iter().any(runs) && below(folder).all(|folder| is_empty(&folder))
}

/// Kills what is in a group and removes it with all below.
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

/// Removes groups that a process of this number has left, and nothing else: their names say whose they are.
pub(crate) fn clear(folders: &[PathBuf], owner: u32) {
    let ours: Vec<PathBuf> = folders.iter().filter(|folder| is_of(folder, owner)).cloned().collect();
    remove_all(&ours);
}

/// All disks are fast again before anything is killed: what waits for a slow one cannot end.
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
