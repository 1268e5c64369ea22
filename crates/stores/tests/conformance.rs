//! Every driver against the conformance suite, with each option that changes what it does.
#![allow(missing_docs, clippy::unwrap_used)]

mod report;

fn conforms(scheme: &str, query: &str) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("{scheme}:{}/store{query}", folder.path().display());
    let store = storebench_stores::open(&url).unwrap();
    report::conforms(&*store);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?} is left behind");
}

#[test]
fn sqlite() {
    conforms("sqlite", "");
}

#[test]
fn sqlite_jsonb() {
    conforms("sqlite", "?format=jsonb");
}

#[test]
fn sqlite_rollback_journal() {
    conforms("sqlite", "?journal=delete&cache=1MiB");
}

#[test]
fn fjall() {
    conforms("fjall", "");
}

#[test]
fn fjall_uncompressed() {
    conforms("fjall", "?compression=none&cache=1MiB");
}

#[test]
fn redb() {
    conforms("redb", "");
}

#[test]
fn memory() {
    report::conforms(&*storebench_stores::open("memory:").unwrap());
}
