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
fn files_that_are_no_json_lines_are_refused_once() {
    let cli = Cli::new();
    for (text, what) in [
        ("[\n  {\"_id\": \"a\"},\n  {\"_id\": \"b\"}\n]\n", "--from-format json"),
        ("{\n  \"_id\": \"a\"\n}\n{\n  \"_id\": \"b\"\n}\n", "takes several lines"),
        ("{\"_id\":1}{\"_id\":2}\n{\"_id\":3}{\"_id\":4}\n", "several documents"),
        ("{\"_id\":1},\n{\"_id\":2},\n{\"_id\":3}\n", "end with commas"),
        ("BZh91AY&SY", "bunzip2"),
        ("PK\u{3}\u{4}\u{14}", "spreadsheet"),
        ("Obj\u{1}", "Avro"),
    ] {
        cli.write("a.jsonl", text);
        refused(&cli, "copy a.jsonl sqlite:a.db", &["a.jsonl: ", what]);
    }
    let tar = [vec![b'a'; 257], b"ustar".to_vec(), vec![0; 250]].concat();
    std::fs::write(cli.path("a.tar"), &tar).unwrap();
    refused(&cli, "copy a.tar sqlite:a.db", &["tar archive"]);
    refused(&cli, "bench memory: --from a.tar", &["tar archive"]);
    refused(&cli, "infer a.tar", &["tar archive"]);
    cli.write("a.csv", "sep=;\n_id;n\n1;2\n");
    refused(&cli, "copy a.csv sqlite:a.db", &["names the separator", "--delimiter ';'"]);
    assert!(!cli.path("a.db").exists(), "nothing was created");
    // Text that begins with the letters of a mark is text.
    for header in ["ORCID", "BZhong", "ORC"] {
        cli.write("text.csv", &format!("{header},n\nx,1\n"));
        cli.run(&format!("copy text.csv {header}.jsonl --key {{{header}}}")).code(0);
    }
}

#[test]
fn rejects_are_counted_by_their_reasons() {
    let cli = Cli::new();
    cli.write("a.tsv", "_id\tn\ta\n1\tx\tu\n2\ty\tu\n3\t1\t\\N\n4\t4\tv\\tw\n");
    let line = "copy a.tsv out.jsonl --force --restart --types n=integer";
    let done = cli.run(line).code(1);
    let words = done.words();
    assert!(
        words.contains("rejected, by reason: 2 column `n`: `…` is not a valid 64-bit integer 1 column `a` is"),
        "{words}"
    );
    let reasons = report(&cli.run(&format!("{line} --json")).code(1))["rejects_by_reason"].clone();
    assert_eq!((&reasons[0]["records"], reasons.as_array().unwrap().len()), (&2.into(), 2), "{reasons}");
    // As COPY writes it.
    cli.write("a.tsv", "_id\tn\ta\n3\t1\t\\N\n4\t4\tv\\tw\n");
    cli.run(&format!("{line} --escapes backslash")).code(0);
    let read = std::fs::read_to_string(cli.path("out.jsonl")).unwrap();
    assert!(read.contains(r#""a":null"#) && read.contains(r#""a":"v\tw""#), "{read}");
}

#[test]
fn tables_of_others_are_copied_by_their_plain_columns_and_by_keys_of_several() {
    let cli = Cli::new();
    let table = rusqlite::Connection::open(cli.path("theirs.db")).unwrap();
    let made = "CREATE TABLE plain (id TEXT PRIMARY KEY, doc JSON); \
                CREATE TABLE both (a INTEGER, b TEXT, n INTEGER, PRIMARY KEY (a, b)); \
                INSERT INTO both VALUES (1, 'x', 5), (1, 'y', 6), (2, 'x', 7);";
    table.execute_batch(made).unwrap();
    cli.write("books.jsonl", &documents(3));
    let done = cli.run("copy books.jsonl sqlite:theirs.db --into-existing --to-collection plain --verify").code(0);
    assert!(done.out.contains("plain (key in id, document in doc)"), "{done:?}");
    let rows: i64 = table.query_row("SELECT count(*) FROM plain", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 3);
    refused(&cli, "copy sqlite:theirs.db out.jsonl --from-collection both", &["--key '{a}:{b}'"]);
    let line = "copy sqlite:theirs.db out.jsonl --from-collection both --key {a}:{b} --verify";
    cli.run(line).code(0);
    let read = std::fs::read_to_string(cli.path("out.jsonl")).unwrap();
    assert!(read.lines().count() == 3 && read.contains(r#"{"_id":"1:y","a":1,"b":"y","n":6}"#), "{read}");
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
