//! `conform`: the suite as a user command.

use std::process::Command;

use crate::common::Cli;

#[test]
fn a_store_that_conforms() {
    let cli = Cli::new();
    let done = cli.run("conform sqlite:check.db").code(0);
    assert!(done.err.starts_with("sqlite:check.db is created for the checks and removed afterwards\n"), "{}", done.err);
    let mut lines = done.out.lines();
    assert!(lines.next().unwrap().starts_with("conformance of sqlite:check.db · SQLite 3."), "{}", done.out);
    let (passed, failed) = (done.out.matches("  pass\n").count(), done.out.matches("  FAIL ").count());
    let not_supported = done.out.matches("  not supported  ").count();
    assert_eq!(lines.last().unwrap(), format!("{passed} passed, 0 failed, {not_supported} not supported"));
    assert!(passed > 30 && failed == 0, "{}", done.out);
    assert_eq!(std::fs::read_dir(cli.folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn what_storebench_made_is_emptied_and_that_is_said_before() {
    let cli = Cli::with_study();
    cli.run("run books.toml -q").measured();
    let done = cli.run("conform sqlite:books.db").code(0);
    assert!(done.err.starts_with("data of earlier studies at sqlite:books.db is deleted; "), "{}", done.err);
    assert!(!cli.path("books.db").exists());
}

#[test]
fn as_json_where_something_fails() {
    let cli = Cli::new();
    // The files of this store cannot grow beyond about a megabyte, so it cannot write large documents.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 2000; exec \"$0\" conform sqlite:small.db --json --quiet"]);
    command.arg(env!("CARGO_BIN_EXE_storebench")).current_dir(cli.folder.path());
    let done = cli.run_command(&mut command).code(1);
    assert!(done.err.is_empty(), "{}", done.err);
    let json = done.json();
    assert_eq!(json["format"], "storebench-conform/1");
    assert_eq!((json["url"].as_str(), json["scheme"].as_str()), (Some("sqlite:small.db"), Some("sqlite")));
    let checks = json["checks"].as_array().unwrap();
    let count = |outcome: &str| checks.iter().filter(|check| check["outcome"] == outcome).count();
    for (counted, outcome) in [("passed", "pass"), ("failed", "fail"), ("not_supported", "not-supported")] {
        assert_eq!(json[counted], count(outcome), "{outcome}");
    }
    assert!(count("pass") > 30, "{checks:?}");
    let large = checks.iter().find(|check| check["check"] == "documents: JSON of 2 bytes to 1 MiB comes back").unwrap();
    assert_eq!(large["outcome"], "fail");
    assert!(large["why"].as_str().unwrap().starts_with("upsert of `size-"), "{large}");
    assert!(checks.iter().all(|check| (check["outcome"] == "pass") == check["why"].is_null()), "{checks:?}");
}

#[test]
fn what_is_somebody_elses_is_refused_and_left() {
    let cli = Cli::new();
    let connection = rusqlite::Connection::open(cli.path("their.db")).unwrap();
    connection.execute_batch("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1), (2)").unwrap();
    drop(connection);
    let before = std::fs::read(cli.path("their.db")).unwrap();
    let done = cli.run("conform sqlite:their.db").code(2);
    assert!(done.out.is_empty());
    insta::assert_snapshot!(done.err);
    assert_eq!(std::fs::read(cli.path("their.db")).unwrap(), before);
}

#[test]
fn what_cannot_be_reached_or_read() {
    let cli = Cli::new();
    let done = cli.run("conform sqlite:nowhere/x.db").code(3);
    assert!(done.out.is_empty() && done.err.contains("mkdir -p nowhere"), "{}", done.err);
    let done = cli.run("conform sqlit:x.db").code(2);
    assert!(done.out.is_empty() && done.err.contains("did you mean `sqlite`?"), "{}", done.err);
}
