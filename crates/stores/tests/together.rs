//! Two copies that begin at the same moment in one place: no mark is lost, and nobody's data.

use std::sync::Barrier;

use crate::common::{Ask, Scheme, layout};
use storebench_engine::store::{CopyId, Owner, Prepare, StoreError};

#[test]
fn of_two_copies_that_begin_at_once_none_loses_its_mark() {
    for scheme in Scheme::ALL {
        for round in 0..40 {
            let folder = tempfile::tempdir().unwrap();
            let url = scheme.url(&folder.path().join("it"));
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
            // Who was refused because the other had it open comes again.
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
