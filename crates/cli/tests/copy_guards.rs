//! What `copy` refuses so that nothing is lost, and what it says first.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::process::Command;

use common::Cli;
use common::copies::{count, report};

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
    assert_eq!(cli.run("copy books.jsonl link.jsonl").code, 0);
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
    assert_eq!((done.code, count(&report(&done), "written"), count(&report(&done), "rejected")), (1, 2, 1), "{done:?}");
    let text = std::fs::read_to_string(cli.path("n.csv")).unwrap();
    assert!(text.contains("1234567.12345678901234567"), "{text}");
    let done = cli.run("copy n.jsonl n.parquet --json");
    assert_eq!((done.code, count(&report(&done), "rejected")), (1, 1), "{done:?}");
    // The first reason stands in the summary.
    let told = cli.run("copy n.jsonl again.csv");
    assert!(told.out.contains("the first that was rejected: ") && told.out.contains("line 3"), "{told:?}");
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    let cli = Cli::new();
    cli.write("books.jsonl", TWO);
    refused(&cli, "copy books.jsonl sqlite:a.db --key-field id", "--key");
    refused(&cli, "copy books.jsonl sqlite:a.db --drop-expiry", "--drop-expiry");
    refused(&cli, "copy sqlite:a.db out.jsonl --from-collection books --types n=integer", "--types");
    refused(&cli, "copy books.jsonl - --json", "--json");
}
