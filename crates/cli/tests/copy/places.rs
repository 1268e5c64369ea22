//! A copy overwrites neither its source nor existing files, and writes no more than the disk can hold.

use std::time::Duration;

use crate::common::Cli;
use crate::common::copies::{begin, by_key, count, documents, log_lines, report};

#[track_caller]
fn refused(cli: &Cli, line: &str, part: &str) {
    let done = cli.run(line);
    assert_eq!(done.code, 2, "{line}: {done:?}");
    assert!(done.err.contains(part), "{line}: {done:?}");
}

#[test]
fn what_is_read_is_not_written() {
    let cli = Cli::new();
    let text = documents(30);
    cli.write("books.jsonl", &text);
    std::fs::create_dir(cli.path("data")).unwrap();
    std::fs::hard_link(cli.path("books.jsonl"), cli.path("data/hard.jsonl")).unwrap();
    std::os::unix::fs::symlink(cli.path("books.jsonl"), cli.path("soft.jsonl")).unwrap();
    for line in [
        "copy books.jsonl books.jsonl --force",
        "copy books.jsonl ./data/../books.jsonl --force --filter .n>3",
        "copy books.jsonl data/hard.jsonl --force",
        "copy soft.jsonl books.jsonl --force",
        "copy data/ data/all.jsonl",
        "copy data/*.jsonl data/all.jsonl",
        "copy data/hard.jsonl data/",
        "copy books.jsonl sqlite:a.db --rejects books.jsonl --force",
    ] {
        refused(&cli, line, "");
        assert_eq!(std::fs::read_to_string(cli.path("books.jsonl")).unwrap(), text, "{line}");
    }
    refused(&cli, "copy books.jsonl books.jsonl --force", "source and target are the same");
    // Tables of one database, under each of its names.
    cli.run("copy books.jsonl sqlite:shop.db").code(0);
    std::fs::hard_link(cli.path("shop.db"), cli.path("hard.db")).unwrap();
    let same = "source and target are the same";
    for target in ["sqlite:shop.db", "sqlite:./shop.db?cache=8MiB", "sqlite:hard.db", "slow+sqlite:shop.db?latency=1us"]
    {
        refused(&cli, &format!("copy sqlite:shop.db {target}"), same);
    }
    refused(&cli, "copy sqlite:shop.db sqlite:shop.db --to-collection BOOKS --filter .n>3", same);
    refused(
        &cli,
        "copy sqlite:shop.db sqlite:shop.db --to-collection books --into-existing --to-key key --to-body body",
        same,
    );
    cli.run("copy sqlite:shop.db sqlite:shop.db --to-collection few --filter .n>20").code(0);
    cli.run("copy sqlite:shop.db out.jsonl --from-collection books").code(0);
    assert_eq!(by_key(&cli.path("out.jsonl")), by_key(&cli.path("books.jsonl")));
}

#[test]
fn a_database_that_cannot_be_opened_twice_is_copied_through_a_file() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(30));
    for store in ["fjall:shop.fjall", "redb:shop.redb", "slow+redb:slow.redb?latency=1us"] {
        cli.run(&format!("copy books.jsonl {store}")).code(0);
        for more in ["", " --dry-run"] {
            refused(&cli, &format!("copy {store} {store} --to-collection few{more}"), "which cannot be opened twice");
        }
        cli.run(&format!("copy {store} few.jsonl --force")).code(0);
        cli.run(&format!("copy few.jsonl {store} --to-collection few")).code(0);
        cli.run(&format!("copy {store} out.jsonl --from-collection few --force")).code(0);
        assert_eq!(by_key(&cli.path("out.jsonl")), by_key(&cli.path("books.jsonl")));
    }
}

#[test]
fn a_file_that_exists_is_overwritten_by_force_only() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(30));
    for target in ["out.jsonl", "out.csv", "out.jsonl.gz", "out.parquet"] {
        cli.write(target, "precious");
        for line in ["", " --dry-run", " --resume", " --restart"] {
            refused(&cli, &format!("copy books.jsonl {target}{line}"), "--force");
        }
        assert_eq!(std::fs::read_to_string(cli.path(target)).unwrap(), "precious");
        assert!(!cli.path("storebench-runs").exists(), "nothing was started");
    }
    cli.run("copy books.jsonl out.jsonl --force").code(0);
    assert_eq!(by_key(&cli.path("out.jsonl")), by_key(&cli.path("books.jsonl")));
    cli.run("copy books.jsonl parts/").code(0);
    refused(&cli, "copy books.jsonl parts/", "--force");
    cli.run("copy books.jsonl parts/ --force").code(0);
    cli.write("bad.jsonl", "precious\n");
    refused(&cli, "copy books.jsonl sqlite:a.db --rejects bad.jsonl", "--force");
    cli.run("copy books.jsonl sqlite:a.db --rejects bad.jsonl --force").code(0);
}

#[test]
fn a_resume_begins_what_was_never_begun() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(300));
    let done = cli.run("copy books.jsonl sqlite:b.db --resume --json").code(0);
    assert_eq!(count(&report(&done), "written"), 300);
    assert!(done.err.contains("starting a new one"), "{done:?}");
    // The state that a kill leaves before the log exists: a locked folder, and parts beside the target.
    let done = cli.run("copy books.jsonl out.jsonl --resume").code(0);
    assert!(done.err.contains("starting a new one"), "{done:?}");
    let folder = std::fs::read_dir(cli.path("storebench-runs")).unwrap().map(|entry| entry.unwrap().path());
    for folder in folder {
        for file in ["log.done.jsonl", "copy.json", "run.json"] {
            let _ = std::fs::remove_file(folder.join(file));
        }
        std::fs::write(folder.join("log.part"), "{").unwrap();
    }
    std::fs::remove_file(cli.path("out.jsonl")).unwrap();
    cli.run("copy books.jsonl out.jsonl --resume").code(0);
    assert_eq!(by_key(&cli.path("out.jsonl")), by_key(&cli.path("books.jsonl")));
    // A finished copy is not started again if that would apply its records twice.
    cli.write("more.jsonl", "{\"_id\":\"k\",\"v\":1}\n");
    let counts = "copy more.jsonl sqlite:c.db --op counter --value v --resume";
    cli.run(counts).code(0);
    refused(&cli, counts, "has finished");
}

/// A log that cannot be read may be that of the copy to resume. Beginning it again would apply its records twice.
#[test]
fn a_resume_beside_a_log_that_cannot_be_read_begins_nothing() {
    let cli = Cli::new();
    cli.write("more.jsonl", "{\"_id\":\"k\",\"v\":1}\n");
    let copy = "copy more.jsonl sqlite:c.db --op counter --value v";
    cli.run(copy).code(0);
    let folder = std::fs::read_dir(cli.path("storebench-runs")).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(folder.join("log.done.jsonl")).unwrap();
    for (first, says) in [
        ("", "the first line cannot be read"),
        ("{", "the first line cannot be read"),
        (r#"{"format":"storebench-copy-log/1","settings":{}}"#, "its format is `storebench-copy-log/1`"),
    ] {
        std::fs::write(folder.join("log.jsonl"), first).unwrap();
        refused(&cli, &format!("{copy} --resume"), says);
        refused(&cli, &format!("{copy} --resume --rejects bad.jsonl"), says);
    }
    // Beside the log of another copy, the message names a second way.
    let other = "copy more.jsonl sqlite:d.db --op counter --value v";
    refused(&cli, &format!("{other} --resume"), "move its folder elsewhere");
    std::fs::rename(&folder, cli.path("elsewhere")).unwrap();
    cli.run(&format!("{other} --resume")).code(0);
    std::fs::rename(cli.path("elsewhere"), &folder).unwrap();
    cli.run(&format!("{copy} --restart")).code(0);
}

#[test]
fn a_copy_begun_without_verify_is_verified_by_its_resume() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(12_000));
    let args = ["copy", "books.jsonl", "sqlite:b.db", "-p", "2"];
    let mut copy = begin(&cli, &[&args[..], &["--rate-docs", "6000"]].concat());
    while log_lines(&cli) < 3 {
        assert!(copy.try_wait().unwrap().is_none(), "it ended too soon");
        std::thread::sleep(Duration::from_millis(1));
    }
    copy.kill().unwrap();
    copy.wait().unwrap();
    let done = cli.run_args(&[&args[..], &["--resume", "--verify", "--json"]].concat()).code(0);
    let report = report(&done);
    let verified = &report["verified"];
    assert_eq!((verified["equal"].as_bool(), verified["written"].as_u64()), (Some(true), Some(12_000)));
    assert!(verified["reread"].as_u64().unwrap() >= 2, "{report}");
}

#[test]
fn what_does_not_fit_is_refused_with_the_figures() {
    let cli = Cli::new();
    // A sparse file of 8 TiB.
    std::fs::File::create(cli.path("large.jsonl")).unwrap().set_len(8 << 40).unwrap();
    for target in ["sqlite:a.db", "out.jsonl", "out/"] {
        refused(&cli, &format!("copy large.jsonl {target} --to-collection books"), "not enough disk space");
        refused(&cli, &format!("copy large.jsonl {target} --to-collection books --dry-run"), "--anyway");
        assert!(!cli.path("a.db").exists() && !cli.path("storebench-runs").exists(), "nothing was written");
    }
    cli.run("copy large.jsonl sqlite:a.db --dry-run --anyway").code(0);
    let bench = "bench sqlite:b.db --docs 100G --size 100B --duration 1s";
    refused(&cli, bench, "not enough disk space");
    assert!(!cli.path("b.db").exists() && !cli.path("storebench-runs").exists());
    refused(&cli, "bench memory: --docs 10 --operations 1000000000000000 --warm-up 0s", "years");
}
