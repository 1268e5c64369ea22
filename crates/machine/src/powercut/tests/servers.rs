//! Kills processes that use the file system, and processes that serve it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::*;
use crate::{Lease, Pid, Tree as Processes};

/// A process that handles one input line at a time and prints a line when it is done.
pub(super) struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    pub(super) fn start(script: &str, args: &[&str]) -> Self {
        let mut command = Command::new("python3");
        command.arg("-c").arg(script).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("these tests need python3");
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    pub(super) fn ask(&mut self, what: &str) -> String {
        writeln!(self.input, "{what}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn tree(&self) -> Processes {
        Processes::of(&[Pid::of(self.child.id()).unwrap()])
    }

    pub(super) fn kill(mut self) {
        self.tree().kill();
        self.child.wait().unwrap();
    }
}

const LOCKS: &str = "
import fcntl, sys
for line in sys.stdin:
    f = open(sys.argv[1], 'r+')
    fcntl.lockf(f, fcntl.LOCK_EX)
    print('locked', flush=True)
";

#[test]
fn files_are_locked_between_processes() {
    use rustix::fs::{FlockOperation, fcntl_lock};
    let Some(place) = TestMount::new() else { return };
    place.write("x", "x");
    let mut worker = Worker::start(LOCKS, &[place.path("x").to_str().unwrap()]);
    assert_eq!(worker.ask(""), "locked");
    let file = place.open("x");
    assert!(fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err());
    worker.kill();
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
}

const ANOTHER_USER: &str = "
import os, sys
os.chdir(sys.argv[1])
os.setgid(4321)
os.setuid(1234)
for line in sys.stdin:
    open('theirs/x', 'w').close()
    try:
        open('ours/x', 'w').close()
        print('may', flush=True)
    except PermissionError:
        print('may not', flush=True)
";

#[test]
fn another_user_may_what_the_modes_say() {
    let Some(place) = TestMount::new() else { return };
    for name in ["ours", "theirs"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    std::os::unix::fs::chown(place.path("theirs"), Some(1234), Some(99)).unwrap();
    fs::set_permissions(place.path("theirs"), fs::Permissions::from_mode(0o2700)).unwrap();
    let mut worker = Worker::start(ANOTHER_USER, &[place.fs.at().to_str().unwrap()]);
    assert_eq!(worker.ask(""), "may not");
    worker.kill();
    let made = fs::metadata(place.path("theirs/x")).unwrap();
    assert_eq!((made.uid(), made.gid()), (1234, 99), "the folder gives its group");
    assert!(!place.path("ours/x").exists());
}

const APPENDS: &str = "
import mmap, os, sys
folder = sys.argv[1]
log = open(folder + '/log', 'ab', buffering=0)
mapped = open(folder + '/mapped', 'r+b')
mapped = mmap.mmap(mapped.fileno(), 0)
print('ready', flush=True)
n = 0
while True:
    n += 1
    mapped[n % len(mapped)] = 2
    log.write(b'%d\\n' % n)
    os.fsync(log.fileno())
    print(n, flush=True)
    log.write(b'not synced')
    log.truncate(log.tell() - 10)
";

/// The power fails while everything is in progress. What the process has reported must survive.
#[test]
fn what_a_killed_process_has_told_of_is_there() {
    let Some(place) = TestMount::new() else { return };
    for round in 0..10 {
        place.write_synced("mapped", [1; 16_384]);
        place.write_synced("log", "");
        place.fs.settle().unwrap();
        let mut worker = Worker::start(APPENDS, &[place.fs.at().to_str().unwrap()]);
        assert_eq!(worker.ask(""), "ready");
        let mut told = 0;
        for _ in 0..20 * (round + 1) {
            told = worker.ask("").parse().unwrap();
        }
        worker.tree().pause();
        let off = place.fs.power_off();
        worker.kill();
        let keep = if round % 2 == 0 { Keep::Nothing } else { Keep::Some(round) };
        off.power_on(keep).unwrap();
        assert_eq!(place.read("mapped"), [1; 16_384], "no page of the mapping was written back");
        let log = place.read("log");
        let lines: Vec<&[u8]> = log.split(|&byte| byte == b'\n').collect();
        for n in 1..=told {
            assert_eq!(lines[n - 1], n.to_string().as_bytes(), "round {round}, told of {told}");
        }
    }
}

/// Every line is a transaction with one row.
const ROWS: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('pragma journal_mode=' + sys.argv[2])
db.execute('pragma synchronous=' + sys.argv[3])
for line in sys.stdin:
    db.execute('create table if not exists x(n integer primary key, filler)')
    db.execute('insert into x(filler) values(randomblob(3000))')
    print(db.execute('select count(*) from x').fetchone()[0], flush=True)
";

const COUNT: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for line in sys.stdin:
    try:
        ok = db.execute('pragma integrity_check').fetchone()[0]
        print(db.execute('select count(*) from x').fetchone()[0] if ok == 'ok' else 'corrupt', flush=True)
    except sqlite3.Error as error:
        print(error, flush=True)
";

/// How many rows a SQLite database holds after a power cut, next to the number it reported.
fn rows_left(place: &TestMount, journal: &str, synchronous: &str, keep: Keep) -> (u64, String) {
    for entry in fs::read_dir(place.fs.at()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    place.fs.settle().unwrap();
    let path = place.path("rows.db");
    let path = path.to_str().unwrap();
    let mut writer = Worker::start(ROWS, &[path, journal, synchronous]);
    let mut told = 0;
    for _ in 0..25 {
        told = writer.ask("").parse().unwrap();
    }
    writer.tree().pause();
    let off = place.fs.power_off();
    writer.kill();
    off.power_on(keep).unwrap();
    let mut reader = Worker::start(COUNT, &[path]);
    let left = reader.ask("");
    reader.kill();
    (told, left)
}

#[test]
fn sqlite_keeps_what_it_has_committed_where_it_syncs() {
    let Some(place) = TestMount::new() else { return };
    for (journal, synchronous) in [("wal", "full"), ("truncate", "full"), ("persist", "full"), ("delete", "extra")] {
        for keep in [Keep::Nothing, Keep::Some(1), Keep::Some(2)] {
            let (told, left) = rows_left(&place, journal, synchronous, keep);
            assert_eq!(left, told.to_string(), "{journal} {synchronous} {keep:?}");
        }
    }
}

/// By default, SQLite commits by removing a file, and does not sync the folder afterwards. `extra` does that.
#[test]
fn sqlite_may_lose_its_last_transaction_by_default_and_no_other() {
    let Some(place) = TestMount::new() else { return };
    let (told, left) = rows_left(&place, "delete", "full", Keep::Nothing);
    assert_eq!(left, (told - 1).to_string());
}

#[test]
fn sqlite_loses_what_it_has_committed_where_it_does_not_sync() {
    let Some(place) = TestMount::new() else { return };
    for (journal, synchronous) in [("delete", "off"), ("wal", "off"), ("wal", "normal")] {
        let (told, left) = rows_left(&place, journal, synchronous, Keep::Nothing);
        assert_ne!(left, told.to_string(), "{journal} {synchronous}");
    }
}

/// Environment variable with the folder for the process below.
const FOLDER: &str = "STOREBENCH_TEST_POWER_CUT";

/// Not a test by itself: the next one runs it in a separate process and gives it a folder.
#[test]
fn serves_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let mut lease = Lease::begin(&folder.join("leases"), "a store on a power cut").unwrap();
    lease.mount(&folder.join("at")).unwrap();
    lease.folder(&folder.join("at")).unwrap();
    lease.folder(&folder.join("backing")).unwrap();
    lease.folder(&folder.join("other")).unwrap();
    let mounted = PowerCut::mount(&folder.join("at"), &folder.join("backing")).unwrap();
    fs::write(mounted.at().join("x"), "x").unwrap();
    fs::write(folder.join("ready"), "").unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

/// Mounts a power cut in another process, and kills that process.
fn leave_a_mount(folder: &Path) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = concat!(module_path!(), "::serves_until_it_is_killed");
    let name = name.split_once("::").unwrap().1;
    command.args([name, "--exact", "--nocapture"]).env(FOLDER, folder).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !folder.join("ready").exists() {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_mounted_below(&folder.join("at")).unwrap());
    assert!(fs::metadata(folder.join("at")).is_err(), "nobody serves it");
}

#[test]
fn what_a_killed_process_has_mounted_is_cleared_up() {
    // Skip if it cannot be mounted.
    if TestMount::new().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("other")).unwrap();
    fs::write(path("other/x"), "not of a power cut").unwrap();
    leave_a_mount(folder.path());
    let left = Lease::clear_up(&path("leases")).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].what, "a store on a power cut");
    assert!(!is_mounted_below(folder.path()).unwrap());
    assert!(!path("at").exists() && !path("backing").exists());
    assert!(path("other/x").exists(), "a folder without the mark is left alone");
}

#[test]
fn a_folder_with_a_mount_in_it_is_not_removed() {
    let Some(place) = TestMount::new() else { return };
    place.write("x", "x");
    // Mark the surrounding folder as if it belonged to a power cut.
    fs::write(place.folder.path().join(MARKER), "").unwrap();
    crate::lease::remove_folder(place.folder.path(), true);
    assert_eq!(place.read("x"), b"x");
}

#[test]
fn a_mount_that_nobody_serves_is_replaced() {
    if TestMount::new().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    leave_a_mount(folder.path());
    let again = PowerCut::mount(&folder.path().join("at"), &folder.path().join("backing")).unwrap();
    assert_eq!(fs::read_dir(again.at()).unwrap().count(), 0);
    drop(again);
    assert!(!is_mounted_below(folder.path()).unwrap());
}
