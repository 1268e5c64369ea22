//! Runs the conformance suite on every embedded driver, with each option that changes its behaviour.

use storebench_engine::store::{Account, CollectionId, CollectionLayout, Layout, Owner, Prepare, Uses};
use storebench_study::workload::Body;

fn conforms(scheme: &str, query: &str) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("{scheme}:{}/store{query}", folder.path().display());
    let store = storebench_stores::open(&url).unwrap();
    crate::report::conforms(&*store);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?} was left behind");
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

/// The same for a hosted store, as `storebench host` runs it, but here on a thread.
fn conforms_hosted(scheme: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (data, at) = (folder.path().join("data"), tempfile::tempdir().unwrap());
    std::fs::create_dir(&data).unwrap();
    let url = format!("{scheme}:{}/store", data.display());
    let inner = storebench_stores::open(&url).unwrap();
    let socket = at.path().join("socket");
    let hosted = storebench_stores::open(&format!("hosted+{url}?socket={}", socket.display())).unwrap();
    assert!(hosted.inspect().unwrap_err().to_string().contains("no process hosts the store"));
    let host = socket.clone();
    std::thread::spawn(move || storebench_stores::host(inner, &host).unwrap());
    while hosted.inspect().is_err() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    crate::report::conforms(&*hosted);
    // What a copy asks before it begins.
    let collection = CollectionLayout {
        name: "only".into(),
        body: Body::Json,
        indexes: Vec::new(),
        existing: None,
        uses: Uses::ALL,
    };
    hosted.prepare(&Layout { collections: vec![collection] }, Prepare::Fresh).unwrap();
    assert_eq!(hosted.collections().unwrap(), ["only"]);
    assert_eq!(hosted.holdings().unwrap().owner_of("only"), Some(Owner::Study));
    assert_eq!(hosted.account(CollectionId(0)).unwrap(), Account::default(), "it counts nothing by itself");
    hosted.close().unwrap();
    hosted.remove().unwrap();
    assert_eq!(std::fs::read_dir(data).unwrap().count(), 0, "something was left behind");
}

#[test]
fn sqlite_hosted() {
    conforms_hosted("sqlite");
}

#[test]
fn fjall_hosted() {
    conforms_hosted("fjall");
}

#[test]
fn redb_hosted() {
    conforms_hosted("redb");
}

#[test]
fn memory() {
    crate::report::conforms(&*storebench_stores::open("memory:").unwrap());
}
