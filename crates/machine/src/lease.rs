//! Files that name what this process has started, so that what a kill left behind is found and cleared up.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::powercut::{MARKER, clear_mounts, is_mounted_below};
use super::process::{Pid, Tree};

/// What a process of Storebench has started and would have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    /// Who started it.
    owner: Pid,
    /// What it is, in words.
    what: String,
    /// The processes: those below them are found when they are ended.
    processes: Vec<Pid>,
    /// Files that are of no use without them: sockets.
    files: Vec<PathBuf>,
    /// Where file systems are mounted that this process serves.
    #[serde(default)]
    mounts: Vec<PathBuf>,
    /// Folders of such file systems, with all that is in them.
    #[serde(default)]
    folders: Vec<PathBuf>,
}

/// A file that lasts as long as what it names.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    content: Content,
}

/// What an earlier process of Storebench has left, and that was ended now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// What it is, in words.
    pub what: String,
    /// How many processes of it were running.
    pub processes: usize,
}

/// Where leases are: `$XDG_RUNTIME_DIR/storebench`, or `/tmp/storebench-UID`: both are gone when the machine begins anew, and
/// so are the processes.
pub fn leases_folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        Some(dir) => PathBuf::from(dir).join("storebench"),
        None => std::env::temp_dir().join(format!("storebench-{}", rustix::process::getuid().as_raw())),
    }
}

impl Lease {
    /// A lease in this folder for what `what` names. Nothing is started yet.
    ///
    /// # Errors
    /// Where the folder cannot be made or written, or belongs to somebody else.
    pub fn begin(folder: &Path, what: &str) -> io::Result<Self> {
        use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // Whoever may write there may have processes ended that are not theirs.
        let metadata = fs::metadata(folder)?;
        if metadata.uid() != rustix::process::getuid().as_raw() || metadata.mode() & 0o022 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{} can be written by others; remove it", folder.display()),
            ));
        }
        let owner = Pid::own().ok_or_else(|| io::Error::other("/proc does not tell of this process"))?;
        let content = Content {
            owner,
            what: what.to_owned(),
            processes: Vec::new(),
            files: Vec::new(),
            mounts: Vec::new(),
            folders: Vec::new(),
        };
        for number in 0u32.. {
            let path = folder.join(format!("{}-{number}.lease", owner.number));
            match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
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

    /// The lease names these processes now, and no others.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn processes(&mut self, processes: &[Pid]) -> io::Result<()> {
        self.content.processes = processes.to_vec();
        self.write()
    }

    /// The lease names this file as well.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn file(&mut self, file: PathBuf) -> io::Result<()> {
        self.content.files.push(file);
        self.write()
    }

    /// The lease names this mount of a [`PowerCut`](super::PowerCut) as well: what is left of it is unmounted. It need not be
    /// there yet.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn mount(&mut self, at: &Path) -> io::Result<()> {
        self.content.mounts.push(std::path::absolute(at)?);
        self.write()
    }

    /// The lease names this folder of a [`PowerCut`](super::PowerCut) as well, the one that it is mounted at or the one behind
    /// it: what is left of it is removed with all that is in it, unless something is mounted below it or it is not marked as
    /// one of these.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn folder(&mut self, folder: &Path) -> io::Result<()> {
        self.content.folders.push(std::path::absolute(folder)?);
        self.write()
    }

    /// In one step, so that a kill leaves the old one or the new one.
    fn write(&self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec(&self.content)?)?;
        fs::rename(&new, &self.path)
    }

    /// Ends what leases of this folder name whose owners do not run any more, and removes them. Tells what was ended.
    ///
    /// # Errors
    /// Where the folder cannot be read. One that is not there holds nothing.
    pub fn clear_up(folder: &Path) -> io::Result<Vec<Leftover>> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut all = Vec::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|extension| extension != "lease") {
                continue;
            }
            let Ok(bytes) = fs::read(&path) else { continue };
            // Of one that cannot be read nothing can be known: it may be about to be written.
            let Ok(content) = serde_json::from_slice::<Content>(&bytes) else { continue };
            if content.owner.runs() {
                continue;
            }
            let tree = Tree::of(&content.processes);
            tree.kill();
            for mount in &content.mounts {
                let _ = clear_mounts(mount);
            }
            for file in &content.files {
                let _ = fs::remove_file(file);
            }
            for folder in &content.folders {
                remove_marked(folder);
            }
            let _ = fs::remove_file(&path);
            all.push(Leftover { what: content.what, processes: tree.pids().len() });
        }
        Ok(all)
    }
}

/// Removes a folder of a file system that nobody serves any more, and no other: who wrote the lease may have been mistaken.
pub(crate) fn remove_marked(folder: &Path) {
    let marked = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir())
        && fs::symlink_metadata(folder.join(MARKER)).is_ok_and(|found| found.is_file());
    if marked && is_mounted_below(folder).is_ok_and(|mounted| !mounted) {
        let _ = fs::remove_dir_all(folder);
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
        // As if this process had been killed: its number belongs to a process that began later.
        lease.content.owner.began += 1;
        lease.write().unwrap();
        let left = Lease::clear_up(folder.path()).unwrap();
        assert_eq!(left, [Leftover { what: "a server".into(), processes: 1 }]);
        child.wait().unwrap();
        assert!(!socket.exists() && !lease.path.exists());
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

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(Lease::begin(folder.path(), "x").unwrap_err().to_string().contains("written by others"));
    }
}
