//! A database may change owner between a driver's look and its action. The driver then leaves it alone.

use std::path::Path;

use storebench_engine::store::ordered_map::{Change, DatabasePlace, Marker};
use storebench_engine::store::{CopyId, Marked, Owner};

use crate::registry::Options;

/// A marker with the collections of these copies, and the change that creates them.
fn copies(numbers: &[u64]) -> (Marker, Change) {
    let marked = |number: &u64| Marked::new(format!("c{number}"), Owner::User(Some(CopyId(*number))).mark("json"));
    let marker = Marker { made: true, collections: numbers.iter().map(marked).collect(), indexes: Vec::new() };
    let documents = marker.collections.iter().map(|marked| marked.name.clone()).collect();
    (marker.clone(), Change { documents, marker: Some(marker), ..Change::default() })
}

fn what_was_marked_since_the_look_stays<E: DatabasePlace>(engine: impl Fn(&Path) -> E) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it");
    let (slow, quick) = (engine(&path), engine(&path));
    let commit = |found, numbers: &[u64]| {
        let taken = quick.take(&found).unwrap().unwrap();
        quick.commit(&taken.database, &copies(numbers).1).unwrap();
        taken
    };
    let nothing = slow.look(None).unwrap();
    let open = commit(quick.look(None).unwrap(), &[1]);
    // Both while it is open and after it is closed.
    assert!(!matches!(slow.take(&nothing), Ok(Some(_))));
    assert!(!matches!(slow.destroy(&nothing, false), Ok(true)));
    quick.sync(&open.database).unwrap();
    drop(open);
    assert!(matches!(slow.take(&nothing), Ok(None)));
    let one = slow.look(None).unwrap();
    assert_eq!(one.marker, Some(copies(&[1]).0));
    drop(commit(quick.look(None).unwrap(), &[1, 2]));
    assert!(matches!(slow.take(&one), Ok(None)));
    assert!(matches!(slow.destroy(&one, false), Ok(false)));
    let both = slow.look(None).unwrap();
    assert_eq!(both.marker, Some(copies(&[1, 2]).0));
    let mut tables = slow.tables(&slow.take(&both).unwrap().unwrap().database).unwrap();
    tables.retain(|table| table.starts_with('c'));
    tables.sort();
    assert_eq!(tables, ["c1", "c2"]);
    // An engine that saw the database before it was removed does not create it again.
    assert!(quick.destroy(&both, false).unwrap());
    assert!(!path.exists());
    assert!(matches!(slow.take(&both), Ok(None)));
    assert!(!path.exists());
}

#[test]
fn in_a_folder() {
    what_was_marked_since_the_look_stays(|path| {
        crate::fjall::engine(&path.to_string_lossy(), &mut Options::for_test("")).unwrap()
    });
}

#[test]
fn in_a_file() {
    what_was_marked_since_the_look_stays(|path| {
        crate::redb::engine(&path.to_string_lossy(), &mut Options::for_test("")).unwrap()
    });
}

/// fjall's own lock protects a database that another program has open.
#[test]
fn what_another_program_has_open_is_not_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it");
    let engine = crate::fjall::engine(&path.to_string_lossy(), &mut Options::for_test("")).unwrap();
    let taken = engine.take(&engine.look(None).unwrap()).unwrap().unwrap();
    engine.commit(&taken.database, &copies(&[]).1).unwrap();
    drop(taken);
    let found = engine.look(None).unwrap();
    let theirs = fjall::Database::builder(&path).open().unwrap();
    assert!(engine.destroy(&found, false).is_err());
    assert_eq!(engine.look(None).unwrap(), found);
    drop(theirs);
    assert!(engine.destroy(&found, false).unwrap());
    assert!(!path.exists());
}
