//! What `copy` refuses so that nothing is lost, and what it reports.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::Cli;
use crate::common::copies::{count, documents, log_lines, report};

const TWO: &str = "{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\",\"n\":2}\n";

fn refused(cli: &Cli, line: &str, part: &str) {
    let done = cli.run(line);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains(part), "{done:?}");
}

#[test]
fn a_store_without_its_scheme_is_not_written_over() {
    let cli = Cli::new();
    cli.write("books.jsonl", TWO);
    assert_eq!(cli.run("copy books.jsonl sqlite:precious.db").code, 0);
    let before = std::fs::read(cli.path("precious.db")).unwrap();
    refused(&cli, "copy books.jsonl precious.db", "sqlite:precious.db");
    assert_eq!(std::fs::read(cli.path("precious.db")).unwrap(), before);
    assert_eq!(cli.run("copy books.jsonl books.txt --to-format jsonl").code, 0);
}

#[test]
fn parts_of_an_earlier_copy_are_not_mixed_with_those_of_this() {
    let cli = Cli::new();
    cli.write("books.jsonl", TWO);
    assert_eq!(cli.run("copy books.jsonl out/").code, 0);
    refused(&cli, "copy books.jsonl out/ -p 1", "earlier copy");
    assert_eq!(cli.run("copy books.jsonl out/2/").code, 0);
    let hidden = std::fs::read_dir(cli.path("out/2")).unwrap().count();
    assert_eq!(hidden, 1, "only the part is left");
}

#[test]
fn pipes_and_devices_are_no_files() {
    let cli = Cli::new();
    cli.write("books.jsonl", TWO);
    let pipe = cli.path("pipe.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused(&cli, "copy pipe.jsonl out.csv", "standard input");
    refused(&cli, "copy books.jsonl pipe.jsonl", "write to `-`");
    // A link is followed, not replaced.
    std::os::unix::fs::symlink(cli.path("real.jsonl"), cli.path("link.jsonl")).unwrap();
    cli.write("real.jsonl", "old\n");
    assert_eq!(cli.run("copy books.jsonl link.jsonl --force").code, 0);
    assert!(cli.path("link.jsonl").is_symlink());
    assert!(std::fs::read_to_string(cli.path("real.jsonl")).unwrap().contains("\"n\":2"));
}

#[test]
fn columns_that_a_record_could_not_tell_apart_are_refused() {
    let cli = Cli::new();
    cli.write("two.csv", "id,name,id\n1,x,2\n");
    refused(&cli, "copy two.csv sqlite:a.db --key id", "two columns `id`");
}

#[test]
fn no_digit_is_lost_in_a_table() {
    let cli = Cli::new();
    cli.write(
        "n.jsonl",
        "{\"_id\":\"a\",\"n\":0.5}\n{\"_id\":\"b\",\"n\":1234567.12345678901234567}\n{\"_id\":\"c\",\"n\":123456789012345678901}\n",
    );
    let done = cli.run("copy n.jsonl n.csv --json");
    assert_eq!((done.code, count(&report(&done), "written"), count(&report(&done), "rejected")), (0, 3, 0), "{done:?}");
    let text = std::fs::read_to_string(cli.path("n.csv")).unwrap();
    assert!(text.contains("1234567.12345678901234567") && text.contains("123456789012345678901"), "{text}");
    let done = cli.run("copy n.jsonl n.parquet --json");
    assert_eq!((done.code, count(&report(&done), "written")), (0, 3), "{done:?}");
    cli.run("copy n.parquet back.jsonl").code(0);
    let back = std::fs::read_to_string(cli.path("back.jsonl")).unwrap();
    assert!(back.contains(":1234567.12345678901234567}") && back.contains(":123456789012345678901}"), "{back}");
    // The summary contains the first reason.
    let told = cli.run("copy n.jsonl again.parquet --no-overflow").code(1);
    assert!(told.out.contains("first rejected record: ") && told.out.contains("line 3"), "{told:?}");
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    let cli = Cli::new();
    cli.write("books.jsonl", TWO);
    refused(&cli, "copy books.jsonl sqlite:a.db --key-field id", "--key");
    refused(&cli, "copy books.jsonl sqlite:a.db --drop-expiry", "--drop-expiry");
    refused(&cli, "copy sqlite:a.db out.jsonl --from-collection books --types n=integer", "--types");
    refused(&cli, "copy books.jsonl - --json", "--json");
    refused(&cli, "copy books.jsonl out.jsonl --infer all", "--infer needs a target with columns");
    refused(&cli, "copy books.jsonl sqlite:a.db --overflow rest", "--overflow needs a target with columns");
}

/// Waits until a condition holds.
fn until(holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "the condition does not hold");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// A copy from standard input that waits for more input.
fn waiting(cli: &Cli, args: &[&str]) -> std::process::Child {
    let mut copy = cli.command(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    copy.stdin.as_mut().unwrap().write_all(TWO.as_bytes()).unwrap();
    copy
}

#[test]
fn two_copies_do_not_write_one_file_at_once() {
    let cli = Cli::new();
    let mut first = waiting(&cli, &["copy", "-", "out.jsonl", "--out", "one"]);
    let parts = || {
        let mut entries = std::fs::read_dir(cli.path(".")).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.file_name().unwrap().to_string_lossy().starts_with(".out.jsonl."))
    };
    until(|| parts().is_some_and(|parts| parts.join("lock").exists()));
    refused(&cli, "copy - out.jsonl --out two", "already running");
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(cli.path("out.jsonl")).unwrap().lines().count(), 2);
}

#[test]
fn what_came_through_standard_input_is_not_gone_on_with() {
    let cli = Cli::new();
    let args = ["copy", "-", "sqlite:b.db", "--to-collection", "books"];
    let mut first = waiting(&cli, &args);
    until(|| log_lines(&cli) > 0);
    first.kill().unwrap();
    first.wait().unwrap();
    let done = cli.run_args(&[&args[..], &["--resume"]].concat());
    assert!(done.code == 2 && done.err.contains("standard input cannot be resumed"), "{done:?}");
}

#[test]
fn other_arguments_than_those_of_the_copy_that_did_not_end_are_named() {
    let cli = Cli::new();
    let mut first = waiting(&cli, &["copy", "-", "sqlite:b.db", "--to-collection", "books", "--op", "insert"]);
    until(|| log_lines(&cli) > 0);
    refused(&cli, "copy - sqlite:b.db --to-collection books --op insert --restart", "already running");
    first.kill().unwrap();
    first.wait().unwrap();
    refused(&cli, "copy - sqlite:b.db --to-collection films --verify --resume", "another --op, --to-collection;");
}

#[test]
fn a_file_that_changes_during_the_copy_ends_it() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(12_000));
    let args = ["copy", "books.jsonl", "sqlite:b.db", "-p", "2", "--rate-docs", "4000", "--batch", "200"];
    let copy = cli.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until(|| log_lines(&cli) >= 2);
    cli.write("books.jsonl", &documents(12_001));
    let done = copy.wait_with_output().unwrap();
    let err = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && err.contains("changed since the copy began"), "{err}");
    let args = ["copy", "books.jsonl", "sqlite:b.db", "-p", "2", "--resume"];
    let done = cli.run_args(&args);
    assert!(done.code == 2 && done.err.contains("has changed since the copy began"), "{done:?}");
}

#[test]
fn a_dry_run_asks_its_target() {
    let cli = Cli::new();
    cli.write("books.jsonl", TWO);
    let done = cli.run("copy books.jsonl redis://127.0.0.1:1 --dry-run");
    assert!(done.code == 3 && done.err.contains("127.0.0.1:1"), "{done:?}");
}

#[test]
fn an_object_without_members_comes_back_from_parquet() {
    let cli = Cli::new();
    cli.write("a.jsonl", "{\"_id\":\"a\",\"n\":1,\"none\":{}}\n{\"_id\":\"b\",\"n\":2,\"none\":{}}\n");
    cli.run("copy a.jsonl out.parquet").code(0);
    cli.run("copy out.parquet back.jsonl").code(0);
    let back = std::fs::read_to_string(cli.path("back.jsonl")).unwrap();
    assert_eq!(back, std::fs::read_to_string(cli.path("a.jsonl")).unwrap());
}
