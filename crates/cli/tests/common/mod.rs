//! Runs the binary in its own folder.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails here")]
#![allow(dead_code, reason = "each test file uses only some helpers")]

pub(crate) mod copies;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A small study.
pub(crate) const STUDY: &str = r#"title = "Books"
seed = 7
stores = ["sqlite:books.db"]

[collections.books]
count = 3000
size = "300B"
fields = { author = { words = 2 }, text = { text = "fill" } }
index = [["author"]]

[collections.users]
count = 200
fields = { name = { words = 2 } }

[[phases]]
name = "load"
load = ["books", "users"]
batch = 500

[[phases]]
name = "mixed"
mix = { read = { collection = "books", weight = 3 }, update = { collection = "users" } }
operations = 2000
"#;

/// The folder of a program that `servers/install` installs, and the folders of its libraries for LD_LIBRARY_PATH. The
/// second is empty if the machine has all libraries.
#[track_caller]
pub(crate) fn installed(name: &str) -> (String, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers/where");
    let told = |more: &[&str]| {
        let found = Command::new(script).arg(name).args(more).output().unwrap();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        String::from_utf8(found.stdout).unwrap().trim().to_owned()
    };
    (told(&[]), told(&["--libraries"]))
}

/// A folder in which the binary runs.
pub(crate) struct Cli {
    pub(crate) folder: TempDir,
    /// The folder of the leases. Each test has its own, so that no test cleans up after another.
    runtime: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Cli {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), runtime: tempfile::tempdir().unwrap() }
    }

    /// In a folder in memory if the machine has one, for tests that write much and do not test the disk.
    pub(crate) fn in_memory() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Self { folder, ..Self::new() }
    }

    /// With [`STUDY`] in `books.toml`.
    pub(crate) fn with_study() -> Self {
        let cli = Self::new();
        cli.write("books.toml", STUDY);
        cli
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The leases of what was started and not ended.
    #[allow(dead_code, reason = "not all tests start servers")]
    pub(crate) fn leases(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.runtime.path().join("storebench")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The command, for a test to change before it runs.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_storebench"));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null()).env_remove("COLUMNS");
        command.env("XDG_RUNTIME_DIR", self.runtime.path());
        command
    }

    /// Runs the binary with these words, split at spaces.
    pub(crate) fn run(&self, words: &str) -> Done {
        self.run_args(&words.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn run_args(&self, args: &[&str]) -> Done {
        self.run_command(&mut self.command(args))
    }

    /// Runs a command from [`Cli::command`].
    pub(crate) fn run_command(&self, command: &mut Command) -> Done {
        let output = command.output().unwrap();
        Done {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The only run folder.
    pub(crate) fn run_folder(&self) -> PathBuf {
        let mut runs = std::fs::read_dir(self.path("storebench-runs")).unwrap();
        let folder = runs.next().unwrap().unwrap().path();
        assert!(runs.next().is_none(), "more than one run");
        folder
    }
}

impl Done {
    /// What was printed, as one line. Text is wrapped between words, and where depends on its figures.
    #[allow(dead_code, reason = "not all tests look for phrases")]
    pub(crate) fn words(&self) -> String {
        self.out.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Asserts the exit code. A failure shows the output.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        self
    }

    /// Asserts that the run measured. On a machine that also runs other programs, such as other tests, the client may
    /// be descheduled, and the run reports it. These tests accept that.
    #[track_caller]
    pub(crate) fn measured(self) -> Self {
        self.assert_measured();
        self
    }

    /// Like [`Done::measured`], by reference.
    #[track_caller]
    pub(crate) fn assert_measured(&self) {
        assert!(
            self.code == 0
                || self.code == 4 && (self.out.contains("client-saturated") || self.out.contains("send-delay")),
            "exit {}\nstdout: {}\nstderr: {}",
            self.code,
            self.out,
            self.err
        );
    }

    /// The checks that call the measurement invalid, but for `client-saturated`: on a machine that also runs other
    /// programs, the client waits for a processor.
    #[allow(dead_code, reason = "not all tests look for accusations")]
    #[track_caller]
    pub(crate) fn accusations(&self) -> Vec<serde_json::Value> {
        let mut checks = self.json()["checks"].as_array().unwrap().clone();
        checks.retain(|check| check["severity"] == "invalid" && check["check"] != "client-saturated");
        checks
    }

    /// The JSON document on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}

/// Replaces the path of the test's folder, which differs between machines.
pub(crate) fn without_folder(text: &str, folder: &Path) -> String {
    let real = folder.canonicalize().unwrap();
    text.replace(&*real.to_string_lossy(), "[FOLDER]").replace(&*folder.to_string_lossy(), "[FOLDER]")
}

/// The files below a folder that contain this text.
pub(crate) fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        if file.is_dir() {
            found.extend(holding(&file, text));
        } else if std::fs::read(&file).unwrap().windows(text.len()).any(|w| w == text.as_bytes()) {
            found.push(file.display().to_string());
        }
    }
    found
}
