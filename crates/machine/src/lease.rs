//! Files that list what this process has started, so that the next process can clean up after a kill.

#[cfg(feature = "powercut")]
mod leftover;
mod own;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::process::{Pid, Tree};
#[cfg(all(test, feature = "powercut"))]
pub(crate) use leftover::remove as remove_folder;
use own::OwnFolder;

/// What a process of Storebench has started and would clean up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    /// The process that started it.
    owner: Pid,
    /// A description.
    what: String,
    /// The processes. Their descendants are found when they are killed.
    processes: Vec<Pid>,
    /// Files that are useless without the processes: sockets.
    files: Vec<PathBuf>,
    /// Mount points.
    mounts: Vec<PathBuf>,
    /// Folders of control groups.
    cgroups: Vec<PathBuf>,
    /// Folders of file systems that this process serves: the mount point and the folder behind it.
    folders: Vec<PathBuf>,
    /// Names of networks of nodes.
    networks: Vec<String>,
    /// The boot in which its processes were started.
    boot: String,
}

/// The identifier of the current boot; empty if the system does not report it.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

impl Content {
    /// Whether it was written since the last boot. After a reboot, process numbers and start times belong to other
    /// processes.
    fn began_since(&self, boot: &str) -> bool {
        self.boot == boot
    }

    /// Whether this build can remove everything that it names. If not, the lease is left to a build that can.
    fn can_be_cleared(&self) -> bool {
        (cfg!(feature = "netns") || self.networks.is_empty())
            && (cfg!(feature = "powercut") || (self.mounts.is_empty() && self.folders.is_empty()))
    }

    /// Removes the places that another lease names.
    fn leave(&mut self, other: &Self) {
        self.mounts.retain(|mount| !other.mounts.contains(mount));
        self.files.retain(|file| !other.files.contains(file));
        self.folders.retain(|folder| !other.folders.contains(folder));
        self.cgroups.retain(|folder| !other.cgroups.contains(folder));
        self.networks.retain(|name| !other.networks.contains(name));
    }
}

/// A file that exists as long as what it names.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    content: Content,
}

/// What an earlier process of Storebench left, now cleaned up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// A description.
    pub what: String,
    /// How many of its processes were running.
    pub processes: usize,
}

/// The folder of leases: `$XDG_RUNTIME_DIR/storebench`, or `/tmp/storebench-UID`. Both are gone after a reboot, and so
/// are the processes.
pub fn leases_folder() -> PathBuf {
    // After `sudo -E` it is still that of the previous user, who could replace the folder in it.
    let own = |dir: &Path| fs::metadata(dir).map_or(true, |found| found.uid() == rustix::process::getuid().as_raw());
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute() && own(Path::new(dir))) {
        Some(dir) => PathBuf::from(dir).join("storebench"),
        None => std::env::temp_dir().join(format!("storebench-{}", rustix::process::getuid().as_raw())),
    }
}

impl Lease {
    /// Creates a lease in this folder, described by `what`. Nothing is started yet.
    ///
    /// # Errors
    /// Fails if the folder cannot be created or written, or belongs to another user.
    pub fn begin(folder: &Path, what: &str) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // A user who may write there could have other users' processes killed.
        OwnFolder::open(folder)?;
        let owner = Pid::own().ok_or_else(|| io::Error::other("cannot read this process's entry in /proc"))?;
        let content = Content {
            owner,
            what: what.to_owned(),
            processes: Vec::new(),
            files: Vec::new(),
            mounts: Vec::new(),
            cgroups: Vec::new(),
            folders: Vec::new(),
            networks: Vec::new(),
            boot: boot(),
        };
        for number in 0u32.. {
            let path = folder.join(format!("{}-{number}.lease", owner.number));
            match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(_) => {
                    let lease = Self { path, content };
                    lease.write()?;
                    return Ok(lease);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("there are too many leases"))
    }

    /// Replaces the processes that the lease names.
    ///
    /// # Errors
    /// Fails if the lease cannot be written.
    pub fn processes(&mut self, processes: &[Pid]) -> io::Result<()> {
        self.content.processes = processes.to_vec();
        self.write()
    }

    /// Adds a file.
    ///
    /// # Errors
    /// Fails if the lease cannot be written.
    pub fn file(&mut self, file: PathBuf) -> io::Result<()> {
        self.content.files.push(file);
        self.write()
    }

    /// Adds a mount point, which need not exist yet. A leftover mount of a [`PowerCut`](super::PowerCut) is unmounted.
    ///
    /// # Errors
    /// Fails if the lease cannot be written.
    pub fn mount(&mut self, at: &Path) -> io::Result<()> {
        self.content.mounts.push(std::path::absolute(at)?);
        self.write()
    }

    /// Adds the folder of a control group ([`Cgroup::folders`](crate::Cgroup::folders)).
    ///
    /// # Errors
    /// Fails if the lease cannot be written.
    pub fn cgroup(&mut self, folder: PathBuf) -> io::Result<()> {
        self.content.cgroups.push(folder);
        self.write()
    }

    /// Adds a folder of a [`PowerCut`](super::PowerCut): its mount point or the folder behind it. A leftover folder is
    /// removed, unless something is mounted below it or it lacks the marker. Files in it that are not the power cut's
    /// stay, and the folder with them.
    ///
    /// # Errors
    /// Fails if the lease cannot be written.
    pub fn folder(&mut self, folder: &Path) -> io::Result<()> {
        self.content.folders.push(std::path::absolute(folder)?);
        self.write()
    }

    /// Adds a network of nodes, by the name of its middle namespace, which need not exist yet. A leftover network is
    /// removed, and what runs in it is killed.
    ///
    /// # Errors
    /// Fails if the lease cannot be written.
    pub(crate) fn network(&mut self, name: &str) -> io::Result<()> {
        self.content.networks.push(name.to_owned());
        self.write()
    }

    /// Writes atomically, so that a kill leaves either the old lease or the new one. It waits for a process that cleans
    /// up: either that process sees that the place belongs to this one, or the place is clean before it is used.
    fn write(&self) -> io::Result<()> {
        let folder = self.path.parent().and_then(|folder| OwnFolder::open(folder).transpose()).transpose()?;
        let _locked = folder.map(|folder| folder.lock().map(|()| folder)).transpose()?;
        let new = self.path.with_extension("new");
        // Regardless of the umask: a lease that others may write is not trusted later.
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(&self.content)?)?;
        fs::rename(&new, &self.path)
    }

    /// Cleans up what leases in this folder name if their owners no longer run, and removes those leases. Returns what
    /// was cleaned up.
    ///
    /// Only one process does this at a time. Otherwise another one could create its own disk where the leftover was,
    /// and lose it. For the same reason, anything that a lease of a running process also names stays.
    ///
    /// # Errors
    /// Fails if the folder cannot be read, or if another user could have written to it or to a lease in it. Nothing is
    /// touched then. A missing folder counts as empty.
    pub fn clear_up(folder: &Path) -> io::Result<Vec<Leftover>> {
        let Some(own) = OwnFolder::open(folder)? else { return Ok(Vec::new()) };
        own.lock()?;
        // Skip a lease that cannot be parsed: it may be about to be written.
        let read = |(name, bytes): (_, Vec<u8>)| Some((name, serde_json::from_slice::<Content>(&bytes).ok()?));
        let boot = boot();
        let (running, ended): (Vec<_>, Vec<_>) = own
            .leases(folder)?
            .into_iter()
            .filter_map(read)
            .partition(|(_, content)| content.began_since(&boot) && content.owner.runs());
        let mut all = Vec::new();
        for (name, mut content) in ended {
            running.iter().for_each(|(_, other)| content.leave(other));
            if !content.can_be_cleared() {
                continue;
            }
            if !content.began_since(&boot) {
                content.processes.clear();
            }
            let tree = Tree::of(&content.processes);
            content.processes.iter().for_each(|pid| pid.kill_group());
            tree.kill();
            // A process that waits for a slow disk or has left the tree ends with its group. Then it no longer holds a
            // mount.
            crate::cgroup::clear(&content.cgroups, content.owner.number);
            #[cfg(feature = "netns")]
            crate::netns::clear(&content.networks, content.owner.number);
            #[cfg(feature = "powercut")]
            leftover::clear(&content.mounts, &content.folders);
            for file in &content.files {
                let _ = fs::remove_file(file);
            }
            own.remove(&name);
            all.push(Leftover { what: content.what, processes: tree.pids().len() });
        }
        Ok(all)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{groups, powercuts, wait_until};
    use crate::{Cgroup, Limits, PowerCut};
    use std::process::Command;

    #[test]
    fn what_a_killed_process_left_is_ended_and_what_runs_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::of(child.id()).unwrap();
        let socket = folder.path().join("socket");
        fs::write(&socket, "").unwrap();
        let mut lease = Lease::begin(folder.path(), "a server").unwrap();
        lease.processes(&[pid]).unwrap();
        lease.file(socket.clone()).unwrap();
        assert_eq!(Lease::clear_up(folder.path()).unwrap(), [], "its owner is this process");
        assert!(pid.runs() && socket.exists());
        // As if this process had been killed: its number belongs to a process that started later.
        lease.content.owner.began += 1;
        lease.write().unwrap();
        let left = Lease::clear_up(folder.path()).unwrap();
        assert_eq!(left, [Leftover { what: "a server".into(), processes: 1 }]);
        child.wait().unwrap();
        assert!(!socket.exists() && !lease.path.exists());
    }

    #[test]
    fn what_a_process_has_left_behind_ends_with_its_group() {
        use std::os::unix::process::CommandExt as _;
        let folder = tempfile::tempdir().unwrap();
        set_mode(folder.path(), 0o700);
        let script = "(sleep 600 & echo $! > pid.new; mv pid.new pid); exec sleep 600";
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", script]).current_dir(folder.path()).process_group(0).spawn().unwrap();
        wait_until("it has left one behind", || folder.path().join("pid").exists());
        let left = fs::read_to_string(folder.path().join("pid")).unwrap().trim().parse().unwrap();
        let left = Pid::of(left).unwrap();
        let mut lease = Lease::begin(folder.path(), "a server").unwrap();
        lease.processes(&[Pid::of(child.id()).unwrap()]).unwrap();
        lease.content.owner.began += 1;
        lease.write().unwrap();
        assert_eq!(Lease::clear_up(folder.path()).unwrap().len(), 1);
        child.wait().unwrap();
        wait_until("both have ended", || !left.runs());
    }

    #[test]
    fn processes_of_another_start_of_the_system_are_not_those_of_the_lease() {
        let folder = tempfile::tempdir().unwrap();
        set_mode(folder.path(), 0o700);
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::of(child.id()).unwrap();
        let socket = folder.path().join("socket");
        fs::write(&socket, "").unwrap();
        let mut lease = Lease::begin(folder.path(), "a server").unwrap();
        lease.file(socket.clone()).unwrap();
        lease.processes(&[pid]).unwrap();
        lease.content.boot = "another".into();
        lease.write().unwrap();
        let left = Lease::clear_up(folder.path()).unwrap();
        assert_eq!(left, [Leftover { what: "a server".into(), processes: 0 }]);
        assert!(pid.runs() && !socket.exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_lease_ends_with_what_it_names() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let one = Lease::begin(folder.path(), "one").unwrap();
        let other = Lease::begin(folder.path(), "other").unwrap();
        assert_ne!(one.path, other.path);
        drop((one, other));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// If this variable is set, this is the process to be killed. Its value is the folder.
    const TO_BE_KILLED: &str = "STOREBENCH_TEST_TO_BE_KILLED";

    /// Mounts a disk, makes a group with a process in it and waits for it to end.
    fn to_be_killed(folder: &Path) -> ! {
        let mut lease = Lease::begin(folder, "a server").unwrap();
        let (at, backing) = (folder.join("disk"), folder.join("backing"));
        lease.mount(&at).unwrap();
        [&at, &backing].into_iter().for_each(|folder| lease.folder(folder).unwrap());
        let _disk = PowerCut::mount(&at, &backing).unwrap();
        let group = Cgroup::begin(Limits::default(), None).unwrap();
        for folder in group.folders() {
            lease.cgroup(folder).unwrap();
        }
        // The lease names no processes: the group has them. They also prevent unmounting.
        let script = format!("{}{{ sleep 600 & sleep 600; }}", group.enter_command());
        let mut child = Command::new("sh").args(["-c", &script]).current_dir(&at).spawn().unwrap();
        wait_until("processes are in the group", || group.processes().len() == 3);
        let told = serde_json::json!({ "folders": group.folders(), "processes": group.processes() });
        fs::write(folder.join("told.new"), told.to_string()).unwrap();
        fs::rename(folder.join("told.new"), folder.join("told")).unwrap();
        child.wait().unwrap();
        panic!("it was not killed");
    }

    #[test]
    fn mounts_and_groups_of_a_killed_process_are_cleared_up() {
        if let Some(folder) = std::env::var_os(TO_BE_KILLED) {
            to_be_killed(Path::new(&folder));
        }
        let name = "lease::tests::mounts_and_groups_of_a_killed_process_are_cleared_up";
        if !(powercuts() && groups()) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(TO_BE_KILLED, &folder)
            .spawn()
            .unwrap();
        let said = folder.join("told");
        wait_until("it has made all", || {
            assert!(child.try_wait().unwrap().is_none(), "it has ended by itself");
            said.exists()
        });
        let told: serde_json::Value = serde_json::from_slice(&fs::read(&said).unwrap()).unwrap();
        let groups: Vec<PathBuf> = serde_json::from_value(told["folders"].clone()).unwrap();
        let processes: Vec<u32> = serde_json::from_value(told["processes"].clone()).unwrap();
        let processes: Vec<Pid> = processes.into_iter().map(|number| Pid::of(number).unwrap()).collect();
        let mounted = || crate::mounts::read().iter().any(|mount| mount.point == folder.join("disk"));
        assert!(mounted() && groups.iter().all(|group| group.is_dir()) && !groups.is_empty());
        assert_eq!(Lease::clear_up(&folder).unwrap(), [], "it runs");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(mounted() && processes.iter().all(|pid| pid.runs()), "nobody else clears up");
        assert_eq!(Lease::clear_up(&folder).unwrap().len(), 1);
        assert!(!mounted() && !groups.iter().any(|group| group.exists()), "{groups:?}");
        wait_until("its processes have ended", || !processes.iter().any(|pid| pid.runs()));
        assert!(!folder.join("disk").exists() && !folder.join("backing").exists());
    }

    /// A folder with a lease of a process that has ended, which names somebody's file; and that file.
    fn planted() -> (tempfile::TempDir, PathBuf, PathBuf, PathBuf) {
        let around = tempfile::tempdir().unwrap();
        let (folder, victim) = (around.path().join("leases"), around.path().join("victim"));
        fs::write(&victim, "of somebody").unwrap();
        let mut lease = Lease::begin(&folder, "planted").unwrap();
        lease.file(victim.clone()).unwrap();
        lease.content.owner.began += 1;
        lease.write().unwrap();
        let path = lease.path.clone();
        std::mem::forget(lease);
        (around, folder, path, victim)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }

    fn refuses(folder: &Path, why: &str) {
        let error = Lease::clear_up(folder).unwrap_err();
        let said = error.to_string();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{said}");
        assert!(said.contains(why) && said.contains("remove it") && said.contains("nothing that it names"), "{said}");
    }

    #[test]
    fn nothing_that_somebody_else_may_have_planted_is_done() {
        let (_around, folder, lease, victim) = planted();
        for (path, mode) in [(&folder, 0o777), (&folder, 0o720), (&lease, 0o602), (&lease, 0o620)] {
            let before = fs::metadata(path).unwrap().mode() & 0o7777;
            set_mode(path, mode);
            refuses(&folder, "can be written by others");
            set_mode(path, before);
        }
        let link = folder.with_file_name("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        refuses(&link, "is a link");
        assert!(Lease::begin(&link, "x").unwrap_err().to_string().contains("is a link"));
        let planted = folder.join("1-0.lease");
        std::os::unix::fs::symlink(&lease, &planted).unwrap();
        refuses(&folder, "1-0.lease is a link");
        fs::remove_file(&planted).unwrap();
        assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&planted).status().unwrap().success());
        refuses(&folder, "1-0.lease is not a regular file");
        fs::remove_file(&planted).unwrap();
        assert!(victim.exists() && lease.exists());
        assert_eq!(Lease::clear_up(&folder).unwrap().len(), 1);
        assert!(!victim.exists() && !lease.exists());
        assert_eq!(Lease::clear_up(&folder.join("not there")).unwrap(), []);
    }

    /// The second process reads the leases again after the first has cleaned up. By then the place belongs to the
    /// first.
    #[test]
    fn two_that_clear_up_at_once_do_so_one_after_the_other() {
        let (_around, folder, lease, victim) = planted();
        let first = OwnFolder::open(&folder).unwrap().unwrap();
        first.lock().unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Lease::clear_up(&folder).unwrap());
            wait_until("the second waits, or has not waited", || second.is_finished() || waits_for(&folder));
            assert!(victim.exists(), "it did not wait");
            // The first cleans up, and puts its own file there.
            fs::remove_file(&lease).unwrap();
            fs::write(&victim, "of the first").unwrap();
            drop(first);
            assert_eq!(second.join().unwrap(), []);
        });
        assert_eq!(fs::read_to_string(&victim).unwrap(), "of the first");
    }

    /// Whether a process waits for the lock of this folder.
    fn waits_for(folder: &Path) -> bool {
        let inode = format!(":{} ", fs::metadata(folder).unwrap().ino());
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| line.contains("-> FLOCK") && line.contains(&inode))
    }

    /// Otherwise it would be removed as a leftover of a dead process, if it were added after all leases were read.
    #[test]
    fn what_is_named_while_somebody_clears_up_is_named_behind_that() {
        let (_around, folder, _, victim) = planted();
        let mut own = Lease::begin(&folder, "a server").unwrap();
        let other = OwnFolder::open(&folder).unwrap().unwrap();
        other.lock().unwrap();
        std::thread::scope(|scope| {
            let named = scope.spawn(|| own.file(victim.clone()).unwrap());
            wait_until("it waits, or has not waited", || named.is_finished() || waits_for(&folder));
            assert!(!named.is_finished(), "it did not wait");
            drop(other);
            named.join().unwrap();
        });
        assert_eq!(Lease::clear_up(&folder).unwrap().len(), 1);
        assert!(victim.exists());
    }

    #[test]
    fn what_a_running_process_names_as_well_is_left_alone() {
        let (_around, folder, lease, victim) = planted();
        let mut own = Lease::begin(&folder, "a server").unwrap();
        own.file(victim.clone()).unwrap();
        assert_eq!(Lease::clear_up(&folder).unwrap().len(), 1);
        assert!(victim.exists() && !lease.exists() && own.path.exists());
    }

    #[test]
    fn what_belongs_to_another_user_is_not_done() {
        if !crate::testing::root() {
            return;
        }
        let (_around, folder, lease, victim) = planted();
        for path in [&folder, &lease] {
            std::os::unix::fs::chown(path, Some(65534), None).unwrap();
            refuses(&folder, "belongs to another user (65534)");
            std::os::unix::fs::chown(path, Some(0), None).unwrap();
        }
        assert!(victim.exists() && lease.exists());
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(Lease::begin(folder.path(), "x").unwrap_err().to_string().contains("written by others"));
    }
}
