//! Concurrent starts in the same place lose no marks and no data.

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use crate::common::{Ask, Scheme, layout};
use storebench_engine::store::{CopyId, Owner, Prepare, StoreError};

/// Within one process, SQLite cannot write to a log whose index is also open read-only. So these stores have no log.
fn url(scheme: Scheme, path: &Path) -> String {
    let option = if scheme == Scheme::Sqlite { "?journal=delete" } else { "" };
    scheme.url(path) + option
}

#[test]
fn of_two_copies_that_begin_at_once_none_loses_its_mark() {
    for scheme in Scheme::ALL {
        for round in 0..40 {
            let folder = tempfile::tempdir().unwrap();
            let url = url(scheme, &folder.path().join("it"));
            let begin = |number: u64| {
                let store = storebench_stores::open(&url).unwrap();
                let how = Prepare::Copy(CopyId(number));
                store.prepare(&layout(&format!("c{number}")), how).map(|()| {
                    Ask::new(&*store).upsert("k", br#"{"user":"a"}"#);
                    store
                })
            };
            let barrier = Barrier::new(2);
            let wait_and_begin = |number| {
                barrier.wait();
                begin(number)
            };
            let told = std::thread::scope(|scope| {
                let other = scope.spawn(|| wait_and_begin(1));
                [wait_and_begin(0), other.join().unwrap()]
            });
            for store in told.iter().flatten() {
                store.close().unwrap();
            }
            // Retry a copy that was refused because the other one had the database open.
            for (number, told) in (0..).zip(told) {
                match told {
                    Ok(_) => {}
                    Err(StoreError::Unreachable(_)) => begin(number).unwrap().close().unwrap(),
                    Err(error) => panic!("{scheme:?} {round}: {error}"),
                }
            }
            let store = storebench_stores::open(&url).unwrap();
            store.remove().unwrap();
            for number in 0..2 {
                let name = format!("c{number}");
                let owner = store.owner_of(&name).unwrap();
                assert_eq!(owner, Some(Owner::User(Some(CopyId(number)))), "{scheme:?} {round}");
                store.prepare(&layout(&name), Prepare::ReadOnly).unwrap();
                assert!(Ask::new(&*store).read("k").is_some(), "{scheme:?} {round}");
                store.close().unwrap();
            }
        }
    }
}

#[test]
fn a_copy_that_begins_during_a_removal_keeps_what_it_wrote() {
    for scheme in Scheme::ALL {
        let mut kept = 0;
        for round in 0..60 {
            let folder = tempfile::tempdir().unwrap();
            let url = url(scheme, &folder.path().join("it"));
            let name = if round % 2 == 0 { "studied" } else { "other" };
            let study = storebench_stores::open(&url).unwrap();
            study.prepare(&layout("studied"), Prepare::Fresh).unwrap();
            study.close().unwrap();
            let barrier = Barrier::new(2);
            let (removed, copied) = std::thread::scope(|scope| {
                let copying = scope.spawn(|| {
                    let store = storebench_stores::open(&url).unwrap();
                    barrier.wait();
                    std::thread::sleep(Duration::from_micros(round * 100));
                    store.prepare(&layout(name), Prepare::Copy(CopyId(1))).map(|()| {
                        Ask::new(&*store).upsert("k", br#"{"user":"a"}"#);
                        store.close().unwrap();
                    })
                });
                barrier.wait();
                std::thread::sleep(Duration::from_micros((60 - round) * 100));
                (study.remove(), copying.join().unwrap())
            });
            for refused in [&removed, &copied].into_iter().filter_map(|told| told.as_ref().err()) {
                let text = refused.to_string();
                let told = ["is removing", "others change", "has this database open", "locked"];
                assert!(told.iter().any(|told| text.contains(told)), "{scheme:?} {round}: {text}");
            }
            if copied.is_ok() {
                kept += 1;
                let store = storebench_stores::open(&url).unwrap();
                assert_eq!(store.owner_of(name).unwrap(), Some(Owner::User(Some(CopyId(1)))), "{scheme:?} {round}");
                store.prepare(&layout(name), Prepare::ReadOnly).unwrap();
                assert!(Ask::new(&*store).read("k").is_some(), "{scheme:?} {round}");
            }
        }
        assert!(kept > 0, "{scheme:?}: no copy succeeded");
    }
}
