//! What tests of this crate share.

use crate::cgroup::{Limits, available};
use crate::disk::LimitedDisk;

/// Whether the machine has what a test needs; where it has not, the test is counted as skipped by this line.
pub(crate) fn here(has: Result<(), String>) -> bool {
    has.inspect_err(|why| println!("skipped: {why}")).is_ok()
}

/// Whether this process is root's.
pub(crate) fn root() -> bool {
    here(if rustix::process::geteuid().is_root() { Ok(()) } else { Err("it needs root".to_owned()) })
}

/// Whether processors and memory can be limited.
pub(crate) fn groups() -> bool {
    let limits = Limits { cpus: Some(0.5), memory_bytes: Some(1 << 30), ..Limits::default() };
    root() && here(available(&limits, None))
}

/// Whether disks of limited size can be made.
pub(crate) fn disks() -> bool {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("the build's folder can be written");
    let made = LimitedDisk::loop_file(&folder.path().join("at"), &folder.path().join("file"), 16 << 20);
    root() && here(made.map(drop).map_err(|problem| problem.to_string()))
}

/// Waits until something holds, and fails when it does not for a long time.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
