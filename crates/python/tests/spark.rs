//! Runs the tests of the Spark package: pytest on a standalone cluster, with real stores.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; their helpers are not marked as tests")]

mod support;

use support::{copied, installed, pytest};

#[test]
#[ignore = "soak: Spark is large, and these tests take minutes"]
fn soak_spark_copies_reads_writes_and_generates_load() {
    let folder = tempfile::tempdir().unwrap();
    copied(folder.path());
    let servers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers");
    // Before the tests, which have limits of time.
    for name in ["redis", "postgres"] {
        installed(name);
    }
    let spark = installed("spark");
    let tested = pytest(folder.path(), "spark_tests", &[&spark]).env("STOREBENCH_SERVERS", servers).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&tested.stdout), String::from_utf8_lossy(&tested.stderr));
    assert!(tested.status.success(), "{out}{err}");
    println!("{out}");
}
