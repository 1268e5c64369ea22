//! `verify` reads back what was loaded, and finds changes.

use crate::common::Cli;

/// Loads and updates the study's documents on this store.
fn loaded(url: &str) -> Cli {
    let cli = Cli::with_study();
    cli.run(&format!("run books.toml --store {url} -q")).measured();
    cli
}

#[test]
fn a_load_verifies_on_every_store_that_stays() {
    for url in ["sqlite:x.db", "redb:x.redb", "fjall:x.fjall"] {
        let cli = loaded(url);
        let report = cli.run(&format!("verify {url} books.toml --json")).code(0).json();
        assert_eq!(report["format"], "storebench-verify/1");
        assert_eq!(report["collections"][0]["right"], 3_000, "{url}");
        assert_eq!(report["collections"][1]["right"], 200, "{url}");
        assert!(report["collections"][1]["updated"].as_u64().unwrap() > 0, "{url}");
        assert_eq!(report["faults"], serde_json::json!([]));
        let text = cli.run(&format!("verify {url} books.toml")).code(0);
        assert!(text.words().contains("every document is correct"), "{}", text.out);
    }
}

#[test]
fn a_document_changed_removed_or_swapped_by_hand_is_named() {
    let cli = loaded("sqlite:x.db");
    let connection = rusqlite::Connection::open(cli.path("x.db")).unwrap();
    for sql in [
        "UPDATE books SET body = json_set(body, '$.author', 'somebody else') WHERE key = 'books/17'",
        "DELETE FROM books WHERE key = 'books/2999'",
        "UPDATE users SET body = (SELECT body FROM users WHERE key = 'users/5') WHERE key = 'users/6'",
    ] {
        assert_eq!(connection.execute(sql, []).unwrap(), 1, "{sql}");
    }
    connection.close().unwrap();
    let report = cli.run("verify sqlite:x.db books.toml --json").code(1).json();
    let (books, users) = (&report["collections"][0], &report["collections"][1]);
    assert_eq!((&books["right"], &books["wrong"], &books["missing"]), (&2_998.into(), &1.into(), &1.into()));
    assert_eq!((&users["right"], &users["wrong"], &users["missing"]), (&199.into(), &1.into(), &0.into()));
    let faults: Vec<&str> = report["faults"].as_array().unwrap().iter().map(|f| f["key"].as_str().unwrap()).collect();
    assert_eq!(faults, ["books/17", "books/2999", "users/6"]);
    assert!(report["faults"][0]["what"].as_str().unwrap().contains("author"));

    let text = cli.run("verify sqlite:x.db books.toml").code(1);
    for part in ["books/17", "somebody else", "books/2999: not found", "users/6", "3 of 3,200 documents"] {
        assert!(text.out.contains(part), "{part} in {}", text.out);
    }
}

#[test]
fn another_seed_or_scale_does_not_verify() {
    let cli = loaded("sqlite:x.db");
    let report = cli.run("verify sqlite:x.db books.toml --set seed=8 --json").code(1).json();
    assert_eq!(report["collections"][0]["wrong"], 3_000);
    assert_eq!(report["faults"].as_array().unwrap().len(), 20, "at most 20 are listed");
    let report = cli.run("verify sqlite:x.db books.toml --scale 2 --json").code(1).json();
    assert_eq!(report["collections"][0]["missing"], 3_000);
}

#[test]
fn verifying_changes_nothing() {
    let cli = loaded("sqlite:x.db");
    let before = std::fs::read(cli.path("x.db")).unwrap();
    cli.run("verify sqlite:x.db books.toml").code(0);
    assert_eq!(std::fs::read(cli.path("x.db")).unwrap(), before);
}

#[test]
fn there_must_be_something_to_verify() {
    let cli = Cli::with_study();
    for (url, code, says) in [
        ("sqlite:none.db", 2, "sqlite:none.db: there is no such file or folder"),
        ("memory:", 3, "nothing to verify at memory:"),
        ("null:", 2, "keeps nothing"),
        ("sqlit:x.db", 2, "did you mean `sqlite`"),
    ] {
        let done = cli.run(&format!("verify {url} books.toml")).code(code);
        assert!(done.err.contains(says), "{}", done.err);
    }
    assert!(!cli.path("none.db").exists());
    let connection = rusqlite::Connection::open(cli.path("their.db")).unwrap();
    connection.execute_batch("CREATE TABLE theirs (a)").unwrap();
    connection.close().unwrap();
    let done = cli.run("verify sqlite:their.db books.toml").code(2);
    assert!(done.err.contains("no table `books`"), "{}", done.err);
}
