//! Input that is not what it is declared to be: each error names the place and the remedy.

use crate::common::Cli;
use crate::common::copies::{count, documents, rejects, report};

#[track_caller]
fn refused(cli: &Cli, line: &str, parts: &[&str]) {
    let done = cli.run(line);
    assert_eq!(done.code, 2, "{line}: {done:?}");
    for part in parts {
        assert!(done.err.contains(part), "{line}: `{part}`: {done:?}");
    }
}

#[test]
fn files_that_are_something_else_are_told() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(3));
    cli.write("a.jsonl.gz", &documents(3));
    refused(&cli, "copy a.jsonl.gz sqlite:a.db", &["a.jsonl.gz", "its name says gzip"]);
    cli.write("a.csv", "_id;n\n1;2\n");
    refused(&cli, "copy a.csv sqlite:a.db", &["a.csv", "one column and contains `;`", "--delimiter ';'"]);
    assert!(!cli.path("a.db").exists(), "nothing was created");
    cli.run_args(&["copy", "a.csv", "sqlite:c.db", "--delimiter", ";"]).code(0);
    for line in [
        "copy sqlite:books.jsonl out.jsonl",
        "copy sqlite:books.jsonl out.jsonl --from-collection books",
        "copy a.csv sqlite:books.jsonl --delimiter ;",
    ] {
        let done = cli.run(line);
        assert!(matches!(done.code, 2 | 3), "{line}: {done:?}");
        if line.contains("books.jsonl") {
            assert!(done.code == 2 && done.err.contains("a text file that begins with `{\"_id\""), "{line}: {done:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(cli.path("books.jsonl")).unwrap(), documents(3));
    refused(&cli, "copy books.jsonl sqlite:b.db --out /proc/none", &["--out /proc/none", "cannot be written"]);
    assert!(!cli.path("b.db").exists(), "refused before anything is written");
}

#[test]
fn lines_that_are_no_objects_are_rejected_with_their_place() {
    let cli = Cli::new();
    cli.write("a.jsonl", "{\"_id\":\"a\"}\n[1]\n\"text\"\n7\nnull\n{\"_id\":\"b\"}\n");
    let done = cli.run("copy a.jsonl sqlite:a.db --json").code(1);
    let report = report(&done);
    assert_eq!((count(&report, "written"), count(&report, "rejected")), (2, 4));
    let rejects = rejects(&cli, &report);
    for (reject, (line, kind)) in rejects.iter().zip([(2, "a list"), (3, "a string"), (4, "a number"), (5, "null")]) {
        let (from, why) = (reject["from"].as_str().unwrap(), reject["why"].as_str().unwrap());
        assert!(from.ends_with(&format!("line {line}")), "{reject}");
        assert!(why.contains(kind) && why.contains("JSON object"), "{reject}");
    }
}

#[test]
fn the_one_collection_of_a_source_needs_no_name_and_several_are_listed() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(30));
    for url in ["sqlite:shop.db", "redb:shop.redb", "fjall:shop"] {
        cli.run(&format!("copy books.jsonl {url}")).code(0);
        let done = cli.run(&format!("copy {url} out.jsonl --force --json --workers 1")).code(0);
        assert_eq!(count(&report(&done), "written"), 30);
        cli.run(&format!("copy books.jsonl {url} --to-collection films --parallel 1")).code(0);
        refused(&cli, &format!("copy {url} out.jsonl --force"), &["--from-collection", "books, films"]);
    }
}

#[test]
fn columns_are_named_by_the_flags_of_the_verb() {
    let cli = Cli::new();
    let table = rusqlite::Connection::open(cli.path("theirs.db")).unwrap();
    table
        .execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY, doc TEXT); INSERT INTO orders VALUES ('a', '{}')")
        .unwrap();
    drop(table);
    cli.write("books.jsonl", &documents(3));
    for (line, flags, others) in [
        ("copy sqlite:theirs.db out.jsonl", "--from-key COLUMN and --from-body COLUMN", "existing = {"),
        (
            "copy books.jsonl sqlite:theirs.db --into-existing --to-collection orders",
            "--to-key COLUMN and --to-body COLUMN",
            "--from-key",
        ),
        ("bench sqlite:theirs.db --existing orders", "--existing-key COLUMN and --existing-body COLUMN", "--from-key"),
    ] {
        refused(&cli, line, &[flags, "id, doc"]);
        assert!(!cli.run(line).err.contains(others), "{line}");
    }
    cli.write(
        "study.toml",
        "title = \"Theirs\"\nstores = [\"sqlite:theirs.db\"]\n[collections.orders]\nexisting = \"orders\"\n[[phases]]\nname = \"read\"\nmix = { read = 1 }\noperations = 10\n",
    );
    refused(&cli, "run study.toml", &["existing = { name ="]);
}
