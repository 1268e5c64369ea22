//! Storebench never changes data that it does not own: looking and refusing change nothing, and removing removes only
//! what Storebench created.

use std::path::Path;

use crate::common::{Ask, Scheme, layout, options, snapshot};
use storebench_engine::store::{
    CollectionLayout, CopyId, ErrorKind, Existing, Layout, Namespace, Op, Prepare, StoreError,
};

/// Creates a foreign database at the path, with the engine itself.
fn theirs(scheme: Scheme, path: &Path) {
    match scheme {
        Scheme::Sqlite => {
            let db = rusqlite::Connection::open(path).unwrap();
            db.execute_batch(
                "CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO books VALUES (1, 'Emma')",
            )
            .unwrap();
        }
        Scheme::Fjall => {
            let db = fjall::Database::builder(path).open().unwrap();
            let books = db.keyspace("books", fjall::KeyspaceCreateOptions::default).unwrap();
            books.insert("1", "Emma").unwrap();
            db.persist(fjall::PersistMode::SyncAll).unwrap();
        }
        Scheme::Redb => {
            let db = redb::Database::create(path).unwrap();
            let transaction = db.begin_write().unwrap();
            let books = redb::TableDefinition::<&str, &[u8]>::new("books");
            transaction.open_table(books).unwrap().insert("1", &b"Emma"[..]).unwrap();
            transaction.commit().unwrap();
        }
    }
}

/// Whether the foreign document still exists.
fn theirs_is_there(scheme: Scheme, path: &Path) -> bool {
    match scheme {
        Scheme::Sqlite => {
            let db = rusqlite::Connection::open(path).unwrap();
            db.query_row("SELECT title FROM books", [], |row| row.get::<_, String>(0)).unwrap() == "Emma"
        }
        Scheme::Fjall => {
            let db = fjall::Database::builder(path).open().unwrap();
            let books = db.keyspace("books", fjall::KeyspaceCreateOptions::default).unwrap();
            books.get("1").unwrap().is_some_and(|title| &*title == b"Emma")
        }
        Scheme::Redb => {
            use redb::ReadableDatabase;
            let db = redb::Database::open(path).unwrap();
            let transaction = db.begin_read().unwrap();
            let books = transaction.open_table(redb::TableDefinition::<&str, &[u8]>::new("books")).unwrap();
            books.get("1").unwrap().is_some_and(|title| title.value() == b"Emma")
        }
    }
}

#[test]
fn looking_at_theirs_and_refusing_it_leaves_every_byte_and_time() {
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("theirs");
        theirs(scheme, &path);
        let before = snapshot(folder.path());
        let store = storebench_stores::open(&scheme.url(&path)).unwrap();
        let Namespace::Foreign(what) = store.inspect().unwrap() else {
            panic!("{scheme:?}: foreign data was taken for ours")
        };
        for how in [Prepare::Fresh, Prepare::Keep] {
            let error = store.prepare(&layout("users"), how).unwrap_err();
            assert!(matches!(error, StoreError::NotOurs(_)), "{scheme:?}: {error:?}");
            let text = error.to_string();
            assert!(text.contains(&what) && text.contains("--into-existing"), "{text}");
        }
        store.prepare(&layout("users"), Prepare::ReadOnly).unwrap_err();
        store.remove().unwrap();
        store.close().unwrap();
        assert_eq!(snapshot(folder.path()), before, "{scheme:?}");
    }
}

#[test]
fn a_log_not_yet_merged_is_read_along_without_touching_it() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [live, crashed] = [0, 1].map(|i| folders[i].path().join("their #1%.db"));
    let db = rusqlite::Connection::open(&live).unwrap();
    db.query_row("PRAGMA journal_mode = wal", [], |_| Ok(())).unwrap();
    db.execute_batch("PRAGMA wal_autocheckpoint = 0; CREATE TABLE books (id)").unwrap();
    // Copy the state that a crash would leave. Within this process, SQLite would share the files of the open
    // connection.
    for entry in std::fs::read_dir(folders[0].path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folders[1].path().join(entry.file_name())).unwrap();
    }
    let (path, folder) = (crashed, &folders[1]);
    let before = snapshot(folder.path());
    assert!(before.iter().any(|(name, ..)| name.ends_with(".db-wal")));
    let store = storebench_stores::open(&Scheme::Sqlite.url(&path)).unwrap();
    let Namespace::Foreign(what) = store.inspect().unwrap() else { panic!("foreign data was taken for ours") };
    assert!(what.contains("books"), "{what}");
    assert_eq!(snapshot(folder.path()), before);
}

#[test]
fn adding_beside_theirs_keeps_theirs_and_removing_takes_only_ours() {
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("theirs");
        theirs(scheme, &path);
        let url = scheme.url(&path);
        let store = storebench_stores::open(&url).unwrap();
        store.prepare(&layout("users"), Prepare::IntoExisting).unwrap();
        Ask::new(&*store).upsert("u1", br#"{"user":"a"}"#);
        store.close().unwrap();
        assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(_)), "{scheme:?}");
        assert!(matches!(store.prepare(&layout("users"), Prepare::Fresh), Err(StoreError::NotOurs(_))), "{scheme:?}");
        // A second run adds to the same collections.
        let store = storebench_stores::open(&url).unwrap();
        store.prepare(&layout("users"), Prepare::IntoExisting).unwrap();
        assert_eq!(Ask::new(&*store).read("u1").as_deref(), Some(&br#"{"user":"a"}"#[..]), "{scheme:?}");
        store.close().unwrap();
        assert!(theirs_is_there(scheme, &path), "{scheme:?}");
        store.remove().unwrap();
        assert!(theirs_is_there(scheme, &path), "{scheme:?}");
        let Namespace::Foreign(what) = store.inspect().unwrap() else { panic!("{scheme:?}") };
        assert!(!what.contains("Storebench"), "{what}");
    }
}

#[test]
fn a_collection_named_like_one_of_theirs_is_refused() {
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("theirs");
        theirs(scheme, &path);
        let store = storebench_stores::open(&scheme.url(&path)).unwrap();
        let error = store.prepare(&layout("books"), Prepare::IntoExisting).unwrap_err();
        assert!(matches!(error, StoreError::NotOurs(_)) && error.to_string().contains("books"), "{scheme:?}: {error}");
        assert!(theirs_is_there(scheme, &path), "{scheme:?}");
        store.remove().unwrap();
        assert!(theirs_is_there(scheme, &path), "{scheme:?}");
    }
}

#[test]
fn what_somebody_adds_to_ours_later_survives_fresh_and_remove() {
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ours");
        let store = storebench_stores::open(&scheme.url(&path)).unwrap();
        store.prepare(&layout("users"), Prepare::Fresh).unwrap();
        store.close().unwrap();
        if scheme == Scheme::Fjall {
            std::fs::write(path.join("notes.txt"), "mine").unwrap();
        } else {
            theirs(scheme, &path);
        }
        assert!(matches!(store.prepare(&layout("users"), Prepare::Fresh), Err(StoreError::NotOurs(_))), "{scheme:?}");
        store.remove().unwrap();
        if scheme == Scheme::Fjall {
            assert_eq!(std::fs::read(path.join("notes.txt")).unwrap(), b"mine");
        } else {
            assert!(theirs_is_there(scheme, &path), "{scheme:?}");
        }
    }
}

#[test]
fn files_of_another_kind_are_refused_whatever_is_asked() {
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        if scheme == Scheme::Fjall {
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("a.txt"), "not a database").unwrap();
        } else {
            std::fs::write(&path, "not a database, but long enough to be looked at as one".repeat(200)).unwrap();
        }
        let before = snapshot(folder.path());
        let store = storebench_stores::open(&scheme.url(&path)).unwrap();
        assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(_)), "{scheme:?}");
        for how in [Prepare::Fresh, Prepare::Keep, Prepare::IntoExisting, Prepare::ReadOnly] {
            store.prepare(&layout("users"), how).unwrap_err();
        }
        store.remove().unwrap();
        assert_eq!(snapshot(folder.path()), before, "{scheme:?}");
    }
}

#[test]
fn reading_only_leaves_their_files_alone() {
    for scheme in [Scheme::Sqlite, Scheme::Redb] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("theirs");
        if scheme == Scheme::Sqlite {
            let db = rusqlite::Connection::open(&path).unwrap();
            db.query_row("PRAGMA journal_mode = wal", [], |_| Ok(())).unwrap();
            db.execute_batch("CREATE TABLE books (key TEXT PRIMARY KEY, body); INSERT INTO books VALUES ('1', 'Emma')")
                .unwrap();
        } else {
            theirs(scheme, &path);
        }
        let before = snapshot(folder.path());
        let store = storebench_stores::open(&scheme.url(&path)).unwrap();
        let mut layout = layout("books");
        // In SQLite every table could be Storebench's, so a foreign one must be named explicitly.
        let theirs = Existing { name: "books".into(), key: Some("key".into()), body: Some("body".into()) };
        layout.collections[0].existing = (scheme == Scheme::Sqlite).then_some(theirs);
        store.prepare(&layout, Prepare::ReadOnly).unwrap();
        let mut ask = Ask::new(&*store);
        assert_eq!(ask.read("1").as_deref(), Some(&b"Emma"[..]), "{scheme:?}");
        assert!(ask.try_upsert("2", b"{}").is_err(), "{scheme:?}");
        drop(ask);
        store.close().unwrap();
        assert_eq!(snapshot(folder.path()), before, "{scheme:?}");
    }
}

#[test]
fn a_session_needs_a_prepared_store() {
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let store = storebench_stores::open(&scheme.url(&folder.path().join("x"))).unwrap();
        assert!(crate::common::ready(store.open_any(&options())).is_err());
        assert_eq!(snapshot(folder.path()).len(), 0);
    }
}

/// A process may be killed while it removes a database. fjall would take the remaining files for parts of the next
/// database, and lose what is written there when it is reopened.
#[test]
fn what_is_left_of_a_database_that_was_removed_is_no_part_of_the_next() {
    for gone in [&["version"][..], &["version", "0.jnl"], &["0.jnl", "version", "keyspaces/1"]] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ours");
        let url = Scheme::Fjall.url(&path);
        let study = |name: &str| {
            let store = storebench_stores::open(&url).unwrap();
            store.prepare(&layout(name), Prepare::Keep).unwrap();
            Ask::new(&*store).upsert("old", br#"{"user":"old"}"#);
            store.close().unwrap();
        };
        ["users", "orders", "visits"].into_iter().for_each(study);
        for name in gone {
            let file = path.join(name);
            if file.is_dir() { std::fs::remove_dir_all(&file).unwrap() } else { std::fs::remove_file(&file).unwrap() }
        }
        for name in ["books", "films", "books"] {
            let store = storebench_stores::open(&url).unwrap();
            store.prepare(&layout(name), Prepare::Copy(CopyId(7))).unwrap();
            let mut ask = Ask::new(&*store);
            assert_eq!(ask.read("old"), None, "{gone:?}");
            ask.upsert(name, br#"{"user":"new"}"#);
            store.close().unwrap();
        }
        let store = storebench_stores::open(&url).unwrap();
        store.prepare(&layout("books"), Prepare::ReadOnly).unwrap();
        assert_eq!(Ask::new(&*store).read("books").as_deref(), Some(&br#"{"user":"new"}"#[..]), "{gone:?}");
        store.close().unwrap();
        // The user's data is never taken for leftovers.
        std::fs::remove_file(path.join("version")).unwrap();
        let before = snapshot(folder.path());
        for how in [Prepare::Copy(CopyId(8)), Prepare::ReadOnly, Prepare::Fresh] {
            let error = store.prepare(&layout("books"), how).unwrap_err();
            assert!(error.to_string().contains("`version`"), "{error}");
        }
        assert_eq!(snapshot(folder.path()), before);
    }
}

#[test]
fn a_table_of_theirs_that_has_the_markers_name_is_not_written_into() {
    use redb::{ReadableDatabase, TableDefinition};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs");
    let table = TableDefinition::<&str, &str>::new("storebench_marker");
    {
        let transaction = redb::Database::create(&path).unwrap();
        let transaction = transaction.begin_write().unwrap();
        transaction.open_table(table).unwrap().insert("row", "theirs").unwrap();
        transaction.commit().unwrap();
    }
    let store = storebench_stores::open(&Scheme::Redb.url(&path)).unwrap();
    for how in [Prepare::Fresh, Prepare::Keep, Prepare::IntoExisting, Prepare::Discard] {
        let error = store.prepare(&layout("users"), how).unwrap_err();
        assert!(matches!(error, StoreError::NotOurs(_)), "{how:?}: {error:?}");
    }
    store.remove().unwrap();
    store.close().unwrap();
    let database = redb::Database::open(&path).unwrap();
    let rows = database.begin_read().unwrap().open_table(table).unwrap();
    assert_eq!(rows.get("row").unwrap().unwrap().value(), "theirs");
}

#[test]
fn a_write_that_a_trigger_of_theirs_ignores_is_refused_in_words_that_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TABLE own (key TEXT PRIMARY KEY, body TEXT); INSERT INTO own (key) VALUES ('null'); \
             CREATE TRIGGER odd BEFORE INSERT ON own BEGIN SELECT RAISE(IGNORE); END;",
        )
        .unwrap();
    let store = storebench_stores::open(&Scheme::Sqlite.url(&path)).unwrap();
    let existing = Some(Existing { name: "own".into(), key: None, body: None });
    let one = layout("own").collections.swap_remove(0);
    let own = CollectionLayout { existing, indexes: Vec::new(), ..one };
    store.prepare(&Layout { collections: vec![own] }, Prepare::WriteExisting).unwrap();
    let mut ask = Ask::new(&*store);
    let error = ask.try_upsert("a", b"{}").unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("a trigger"), "{error}");
    // From NULL comes NULL, so such a document cannot be changed.
    let merge = Op::MergePatch { key: "null", patch: br#"{"a":1}"# };
    let error = ask.run(merge, |reply| reply.documents).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
}
