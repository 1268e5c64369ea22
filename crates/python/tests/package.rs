//! Runs the tests of the Python package: pytest on the package with the module that was just built.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; their helpers are not marked as tests")]

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
fn installed(name: &str) -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers/where");
    let found = Command::new(script).arg(name).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
}

/// The package as `pip` would install it, but for the command.
fn package(into: &Path) {
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/python/storebench");
    let copied = Command::new("cp").args(["-r", from]).arg(into).status().unwrap();
    assert!(copied.success());
    std::os::unix::fs::symlink(module(), into.join("storebench/_native.abi3.so")).unwrap();
}

#[test]
fn the_package_passes_its_tests() {
    let folder = tempfile::tempdir().unwrap();
    package(folder.path());
    let tools = installed("python-tools");
    let tested = Command::new("python3")
        // Without the packages of this machine, of which pyarrow may be one.
        .args(["-S", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"))
        .env("PYTHONPATH", format!("{}:{}", folder.path().display(), tools.display()))
        .current_dir(folder.path())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&tested.stdout), String::from_utf8_lossy(&tested.stderr));
    assert!(tested.status.success(), "{out}{err}");
    println!("{out}");
}
