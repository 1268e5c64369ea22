//! Data that `copy` wrote is the user's: no other verb deletes it without the flag that names the loss. A resumed copy
//! recognises its target.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::copies::{begin, documents, log_lines};
use crate::common::{Cli, Done};
use crate::server::Server;

const STUDY: &str = r#"title = "Small"
seed = 7
stores = ["STORE"]
[collections.books]
count = 50
size = "100B"
[[phases]]
name = "load"
load = ["books"]
[[phases]]
name = "read"
mix = { read = 1 }
operations = 50
"#;

const PLACES: [&str; 3] = ["sqlite:shop.db", "redb:shop.redb", "fjall:shop"];

/// The number of documents that a copy reads from a collection of a store.
#[track_caller]
fn documents_in(cli: &Cli, store: &str, collection: &str) -> usize {
    cli.run(&format!("copy {store} - --from-collection {collection} -q")).code(0).out.lines().count()
}

#[track_caller]
fn refused(done: Done) {
    let done = done.code(2);
    assert!(done.err.contains("--discard-existing") && done.err.contains("copy"), "{}", done.err);
}

#[test]
fn what_a_copy_wrote_is_taken_by_no_verb_without_the_flag() {
    for store in PLACES {
        let cli = Cli::new();
        cli.write("cities.jsonl", &documents(300));
        cli.write("small.toml", &STUDY.replace("STORE", store));
        cli.run(&format!("copy cities.jsonl {store} -q")).code(0);
        let bench = format!("bench {store} --docs 50 --duration 50ms --warm-up 0s -q");
        for verb in [
            bench.clone(),
            format!("{bench} --remove-after"),
            "run small.toml -q".to_owned(),
            "run small.toml -q --keep".to_owned(),
            "run small.toml -q --remove-after".to_owned(),
            format!("conform {store} -q"),
        ] {
            refused(cli.run(&verb));
            assert_eq!(documents_in(&cli, store, "cities"), 300, "{store} {verb}");
        }
        // Beside the user's data, and removed again.
        cli.run(&format!("{bench} --into-existing --remove-after")).assert_measured();
        cli.run("run small.toml -q --into-existing").assert_measured();
        assert_eq!(documents_in(&cli, store, "cities"), 300, "{store}");
        // A study's collection that a copy wrote into is the user's.
        cli.run(&format!("copy cities.jsonl {store} --to-collection books -q")).code(0);
        let done = cli.run("run small.toml -q --into-existing").code(2);
        assert!(done.err.contains("`books`"), "{}", done.err);
        assert!(documents_in(&cli, store, "books") >= 300, "{store}");
        // With the flag.
        cli.run("run small.toml -q --discard-existing --remove-after").assert_measured();
        assert!(!Path::new(&cli.path(store.split_once(':').unwrap().1)).exists(), "{store}");
    }
}

#[test]
fn a_marker_of_an_older_version_is_read_as_the_users() {
    let cli = Cli::new();
    cli.write("cities.jsonl", &documents(30));
    cli.run("copy cities.jsonl sqlite:shop.db -q").code(0);
    let db = rusqlite::Connection::open(cli.path("shop.db")).unwrap();
    db.execute("UPDATE storebench_marker SET detail = 'json' WHERE kind = 'collection'", []).unwrap();
    drop(db);
    cli.run("copy cities.jsonl fjall:shop -q").code(0);
    let marker = cli.path("shop").join("storebench.marker");
    let text = std::fs::read_to_string(&marker).unwrap();
    let (before, _) = text.split_once("; copy ").unwrap();
    std::fs::write(&marker, format!("{before}\n")).unwrap();
    cli.run("copy cities.jsonl redb:shop.redb -q").code(0);
    let db = redb_marks(&cli.path("shop.redb"), Some("json"));
    assert_eq!(db, "json");
    for store in PLACES {
        let done = cli.run(&format!("bench {store} --docs 50 --duration 50ms --warm-up 0s -q")).code(2);
        assert!(done.err.contains("older Storebench") && done.err.contains("--discard-existing"), "{}", done.err);
        assert_eq!(documents_in(&cli, store, "cities"), 30, "{store}");
        // A copy can write into it, and then marks it as the user's.
        cli.run(&format!("copy cities.jsonl {store} -q")).code(0);
        let done = cli.run(&format!("bench {store} --docs 50 --duration 50ms --warm-up 0s -q")).code(2);
        assert!(!done.err.contains("older Storebench"), "{}", done.err);
        cli.run(&format!("bench {store} --docs 50 --duration 50ms --warm-up 0s -q --discard-existing"))
            .assert_measured();
    }
    assert!(redb_marks(&cli.path("shop.redb"), None).ends_with("; study"));
}

/// The marker of the only collection in a redb file. `new` replaces it first.
fn redb_marks(path: &Path, new: Option<&str>) -> String {
    use redb::{ReadableDatabase, ReadableTable};
    const MARKER: redb::TableDefinition<'_, &str, &str> = redb::TableDefinition::new("storebench_marker");
    let db = redb::Database::open(path).unwrap();
    if let Some(new) = new {
        let transaction = db.begin_write().unwrap();
        transaction.open_table(MARKER).unwrap().insert("collection cities", new).unwrap();
        transaction.commit().unwrap();
    }
    let table = db.begin_read().unwrap().open_table(MARKER).unwrap();
    let rows = table.iter().unwrap().map(Result::unwrap);
    let mut marks = rows.filter(|(key, _)| key.value().starts_with("collection "));
    marks.next().unwrap().1.value().to_owned()
}

const DOCUMENTS: usize = 6_000;

/// Kills a copy when some of its parts are done and others are not.
fn killed(cli: &Cli, to: &str) {
    cli.write("cities.jsonl", &documents(DOCUMENTS));
    let args = ["copy", "cities.jsonl", to, "--rate-docs", "6000", "--batch", "100", "-p", "1", "-q"];
    let mut copy = begin(cli, &args);
    let began = Instant::now();
    while log_lines(cli) < 2 {
        assert!(copy.try_wait().unwrap().is_none(), "it ended before it was killed");
        assert!(began.elapsed() < Duration::from_secs(60), "no part is done");
        std::thread::sleep(Duration::from_millis(2));
    }
    copy.kill().unwrap();
    copy.wait().unwrap();
}

#[track_caller]
fn not_there_any_more(cli: &Cli, to: &str, word: &str) {
    for _ in 0..2 {
        let done = cli.run(&format!("copy cities.jsonl {to} -p 1 -q --resume")).code(1);
        assert!(done.err.contains(word) && done.err.contains("--restart"), "{}", done.err);
    }
    cli.run(&format!("copy cities.jsonl {to} -p 1 -q --restart")).code(0);
    assert_eq!(documents_in(cli, to, "cities"), DOCUMENTS);
}

#[test]
fn a_copy_does_not_go_on_in_a_target_that_was_deleted() {
    for store in PLACES {
        let cli = Cli::new();
        killed(&cli, store);
        let path = cli.path(store.split_once(':').unwrap().1);
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            for suffix in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
            }
        }
        not_there_any_more(&cli, store, "no longer exists");
    }
}

#[test]
fn a_copy_does_not_go_on_in_a_target_that_another_copy_made_again() {
    let cli = Cli::new();
    killed(&cli, "sqlite:shop.db");
    for name in ["shop.db", "shop.db-wal", "shop.db-shm"] {
        let _ = std::fs::remove_file(cli.path(name));
    }
    cli.write("other.jsonl", &documents(10));
    cli.run("copy other.jsonl sqlite:shop.db --to-collection cities -q").code(0);
    not_there_any_more(&cli, "sqlite:shop.db", "was recreated by another copy");
}

#[test]
fn a_copy_does_not_go_on_in_a_snapshot_that_was_restored() {
    let cli = Cli::new();
    // A snapshot of the collection, before the copy.
    cli.write("one.jsonl", &documents(1));
    cli.run("copy one.jsonl sqlite:shop.db --to-collection cities -q").code(0);
    std::fs::copy(cli.path("shop.db"), cli.path("snapshot.db")).unwrap();
    killed(&cli, "sqlite:shop.db");
    for name in ["shop.db-wal", "shop.db-shm"] {
        let _ = std::fs::remove_file(cli.path(name));
    }
    std::fs::copy(cli.path("snapshot.db"), cli.path("shop.db")).unwrap();
    not_there_any_more(&cli, "sqlite:shop.db", "are missing, such as");
}

#[test]
fn a_copy_does_not_go_on_in_a_table_of_yours_that_was_emptied() {
    let cli = Cli::new();
    let db = rusqlite::Connection::open(cli.path("shop.db")).unwrap();
    db.execute_batch("CREATE TABLE cities (key TEXT PRIMARY KEY, body TEXT)").unwrap();
    drop(db);
    cli.write("cities.jsonl", &documents(DOCUMENTS));
    let args = "copy cities.jsonl sqlite:shop.db --to-collection cities --into-existing --to-key key --to-body body --batch 100 -p 1 -q";
    let words: Vec<&str> = args.split(' ').chain(["--rate-docs", "6000"]).collect();
    let mut copy = begin(&cli, &words);
    while log_lines(&cli) < 2 {
        assert!(copy.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    copy.kill().unwrap();
    copy.wait().unwrap();
    let db = rusqlite::Connection::open(cli.path("shop.db")).unwrap();
    db.execute("DELETE FROM cities", []).unwrap();
    drop(db);
    let done = cli.run(&format!("{args} --resume")).code(1);
    assert!(done.err.contains("are missing, such as"), "{}", done.err);
    cli.run(&format!("{args} --restart")).code(0);
}

#[test]
fn a_copy_into_a_file_does_not_go_on_without_its_parts() {
    let cli = Cli::new();
    killed(&cli, "out.jsonl");
    let mut parts = 0;
    for entry in std::fs::read_dir(cli.folder.path()).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && name.contains("out.jsonl") {
            std::fs::remove_dir_all(entry.path()).unwrap();
            parts += 1;
        }
    }
    assert_eq!(parts, 1, "the folder of the parts");
    let done = cli.run("copy cities.jsonl out.jsonl -p 1 -q --resume");
    assert_ne!(done.code, 0, "{} {}", done.out, done.err);
    assert!(!cli.path("out.jsonl").exists(), "a file with only some of the records is not a copy");
}

#[test]
fn a_copy_does_not_go_on_in_a_postgres_whose_database_was_made_again() {
    let cli = Cli::new();
    let server = Server::start("postgres");
    killed(&cli, &server.url);
    cli.run(&format!("conform {} -q", server.url)).code(2);
    cli.run(&format!(
        "bench {} --docs 10 --duration 50ms --warm-up 0s -q --discard-existing --remove-after",
        server.url
    ))
    .assert_measured();
    not_there_any_more(&cli, &server.url, "no longer exists");
    cli.run(&format!("bench {} --docs 10 --duration 50ms --warm-up 0s -q --remove-after", server.url)).code(2);
    assert_eq!(documents_in(&cli, &server.url, "cities"), DOCUMENTS);
}

#[test]
fn an_sqlite_that_was_killed_with_its_marker_in_the_log_is_known_again() {
    let cli = Cli::new();
    cli.write("small.toml", &STUDY.replace("STORE", "sqlite:shop.db"));
    let bench = "bench sqlite:shop.db --docs 200 --duration 20s --warm-up 0s -q";
    for damage in ["", "without its shm", "with another's shm"] {
        let mut child = begin(&cli, &bench.split(' ').collect::<Vec<_>>());
        let (db, wal, shm) = (cli.path("shop.db"), cli.path("shop.db-wal"), cli.path("shop.db-shm"));
        let began = Instant::now();
        // The log holds the marker and documents, and no checkpoint has moved them yet.
        while std::fs::metadata(&wal).map_or(0, |m| m.len()) < 60_000 {
            assert!(child.try_wait().unwrap().is_none() && began.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        match damage {
            "" => {}
            "without its shm" => std::fs::remove_file(&shm).unwrap(),
            _ => std::fs::write(&shm, vec![7; 32_768]).unwrap(),
        }
        let read = |path: &Path| (std::fs::read(path).unwrap(), std::fs::metadata(path).unwrap().modified().unwrap());
        let before = (read(&db), read(&wal));
        // A command that opens the file and is refused for another reason changes nothing.
        cli.run("bench sqlite:shop.db --durability {exactly=\"none\"} -q").code(2);
        assert!(before == (read(&db), read(&wal)), "{damage}: the refused command changed the files");
        cli.run("run small.toml -q").assert_measured();
        cli.run("run small.toml -q --remove-after").assert_measured();
        assert!(!db.exists(), "{damage}");
    }
}
