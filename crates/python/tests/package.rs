//! Runs the tests of the Python package: pytest on the package with the module that was just built.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; their helpers are not marked as tests")]

mod support;

use support::{copied, pytest};

#[test]
fn the_package_passes_its_tests() {
    let folder = tempfile::tempdir().unwrap();
    copied(folder.path());
    let tested = pytest(folder.path(), "tests", &[]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&tested.stdout), String::from_utf8_lossy(&tested.stderr));
    assert!(tested.status.success(), "{out}{err}");
    println!("{out}");
}
