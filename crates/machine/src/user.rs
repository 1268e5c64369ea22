//! Another user of this machine, as whom the commands of a server run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that changes the user. Unlike `su` and `runuser`, it becomes the command instead of waiting for it, so
/// that signals reach the server.
const PROGRAM: &str = "setpriv";

/// The mode of a folder that only its owner may use.
pub(crate) const PRIVATE: u32 = 0o700;

/// A user as whom commands run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
}

impl User {
    /// The user with this name. `None` if commands run as the user of this process, because it may not change the user
    /// or is that user.
    ///
    /// # Errors
    /// Fails if there is no such user, or no program that changes the user.
    pub fn find(name: &str) -> Result<Option<Self>, String> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let user = Self::known(name).ok_or_else(|| {
            format!(
                "there is no user `{name}` on this machine; name another `user`, or create it: useradd --system {name}"
            )
        })?;
        if user.uid == 0 {
            return Ok(None);
        }
        let found = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).output();
        found.map_err(|error| format!("cannot run `{PROGRAM}`: {error}; install util-linux, or remove `user`"))?;
        Ok(Some(user))
    }

    fn known(name: &str) -> Option<Self> {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self::listed(&passwd, name).or_else(|| {
            // Users of a directory service are not in the file.
            let found = Command::new("getent").args(["passwd", "--", name]).stdin(Stdio::null()).output().ok()?;
            Self::listed(&String::from_utf8_lossy(&found.stdout), name)
        })
    }

    /// The user with this name in a text with the format of `/etc/passwd`.
    fn listed(passwd: &str, name: &str) -> Option<Self> {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [its_name, _, uid, gid, _, home, ..] = fields[..] else { return None };
            let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
            (its_name == name).then(|| Self { name: name.to_owned(), uid, gid, home: home.to_owned() })
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A prefix for a program and its arguments, so that the program runs as this user.
    pub(crate) fn prefix(&self) -> [String; 4] {
        [
            PROGRAM.to_owned(),
            format!("--reuid={}", self.uid),
            format!("--regid={}", self.gid),
            "--init-groups".to_owned(),
        ]
    }

    /// The environment variables that name the user.
    pub(crate) fn environment(&self) -> [(&'static str, &str); 3] {
        [("HOME", &self.home), ("USER", &self.name), ("LOGNAME", &self.name)]
    }

    /// A shell of this user, without its arguments.
    pub(crate) fn shell(&self) -> Command {
        let [program, arguments @ ..] = self.prefix();
        let mut command = Command::new(program);
        command.args(arguments).arg("sh").envs(self.environment());
        command
    }

    /// Makes a folder its own, which nobody else may enter: PostgreSQL accepts no other.
    pub(crate) fn take(&self, folder: &Path) -> std::io::Result<()> {
        std::os::unix::fs::chown(folder, Some(self.uid), Some(self.gid))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(PRIVATE))
    }

    /// Whether it can write into a folder: it must be able to enter every folder above, too.
    pub(crate) fn can_write(&self, folder: &Path) -> bool {
        let folder: PathBuf = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let mut command = self.shell();
        command.args(["-c", "test -w \"$0\" && test -x \"$0\""]).arg(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_name() {
        let text = "root:x:0:0:root:/root:/bin/bash\npostgres:x:101:104:PostgreSQL,,,:/var/lib/postgresql:/bin/bash\n";
        let found = User::listed(text, "postgres").unwrap();
        assert_eq!((found.uid, found.gid, found.home.as_str()), (101, 104, "/var/lib/postgresql"));
        assert_eq!(found.prefix(), ["setpriv", "--reuid=101", "--regid=104", "--init-groups"]);
        assert_eq!(User::listed(text, "postgre"), None);
    }

    #[test]
    fn only_root_changes_the_user() {
        let root = rustix::process::geteuid().is_root();
        match User::find("nobody") {
            Ok(user) => assert_eq!(user.is_some(), root),
            Err(why) => panic!("{why}"),
        }
        let none = User::find("nobody-at-all");
        assert_eq!(none.is_err(), root, "{none:?}");
        assert_eq!(User::find("root"), Ok(None));
    }
}
