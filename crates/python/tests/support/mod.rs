//! The package with the module that was just built, and pytest on it.
#![allow(dead_code, reason = "each test uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The native module, next to this test's binary.
fn module() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let deps = own.parent().unwrap();
    let places = [deps.join("lib_native.so"), deps.parent().unwrap().join("lib_native.so")];
    places.into_iter().find(|place| place.exists()).expect("cargo builds the module before this test")
}

/// The folder of what `servers/install` installs.
pub(crate) fn installed(name: &str) -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers/where");
    let found = Command::new(script).arg(name).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
}

/// Copies the package into a folder, as `pip` would install it, but for the command.
pub(crate) fn copied(into: &Path) {
    for name in ["storebench", "pyspark_storebench"] {
        let from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/python")).join(name);
        let copied = Command::new("cp").arg("-r").arg(from).arg(into).status().unwrap();
        assert!(copied.success());
    }
    std::os::unix::fs::symlink(module(), into.join("storebench/_native.abi3.so")).unwrap();
}

/// pytest on one of the folders of tests, with the package in `folder`, the tools, and more folders of modules.
pub(crate) fn pytest(folder: &Path, tests: &str, more: &[&Path]) -> Command {
    let tools = installed("python-tools");
    let path = [folder, &tools].into_iter().chain(more.iter().copied()).map(|path| path.display().to_string());
    let mut command = Command::new("python3");
    command
        // Without the packages of this machine, of which pyarrow may be one.
        .args(["-S", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(tests))
        .env("PYTHONPATH", path.collect::<Vec<_>>().join(":"))
        .current_dir(folder);
    command
}
