//! Documents as JSON lines: the bytes are the same for any jobs and ranges.

use std::io::Read as _;
use std::process::Stdio;

use crate::common::{Cli, Done};
use sha2::{Digest, Sha256};

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lines(cli: &Cli, words: &str) -> String {
    let Done { out, err, .. } = cli.run(&format!("generate books.toml {words}")).code(0);
    assert!(err.is_empty(), "{err}");
    out
}

#[test]
fn jobs_and_halves_change_nothing() {
    let cli = Cli::with_study();
    // Large enough for many pieces of work.
    let whole = lines(&cli, "books --scale 10 --count 10000 --jobs 1");
    assert_eq!(whole.lines().count(), 10_000);
    assert_eq!(hash(&lines(&cli, "books --scale 10 --count 10000 --jobs 4")), hash(&whole));
    let halves =
        [lines(&cli, "books --scale 10 --count 5000"), lines(&cli, "books --scale 10 --from 5000 --count 5000")];
    assert_eq!(hash(&halves.concat()), hash(&whole));
    assert_ne!(hash(&lines(&cli, "books --scale 10 --count 10000 --version 3")), hash(&whole));
    assert_ne!(hash(&lines(&cli, "books --scale 10 --count 10000 --set seed=8")), hash(&whole));
}

#[test]
fn a_file_holds_what_stdout_would() {
    let cli = Cli::with_study();
    let out = lines(&cli, "");
    assert_eq!(out.lines().count(), 3_200, "both collections, in order");
    assert_eq!(lines(&cli, "books users"), out);
    assert!(cli.run("generate books.toml --output all.jsonl").code(0).out.is_empty());
    assert_eq!(std::fs::read_to_string(cli.path("all.jsonl")).unwrap(), out);
    let names: Vec<_> = std::fs::read_dir(cli.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no part is left behind: {names:?}");
}

#[test]
fn every_line_is_json_and_keys_are_those_of_the_store() {
    let cli = Cli::with_study();
    let plain = lines(&cli, "users");
    let keyed = lines(&cli, "users --keys");
    for (n, (plain, keyed)) in plain.lines().zip(keyed.lines()).enumerate() {
        let keyed: serde_json::Value = serde_json::from_str(keyed).unwrap();
        assert_eq!(keyed["key"], format!("users/{n}"));
        assert_eq!(keyed["document"], serde_json::from_str::<serde_json::Value>(plain).unwrap());
    }
    assert!(lines(&cli, "users --from 200").is_empty(), "nothing after the last document");
}

#[test]
fn bytes_and_counters_become_json_too() {
    let cli = Cli::new();
    cli.write(
        "books.toml",
        "title = \"Kinds\"\n[collections.blobs]\ncount = 3\nbody = \"bytes\"\nsize = \"50B\"\n\
         [collections.hits]\ncount = 2\nbody = \"counter\"\n[[phases]]\nname = \"load\"\nload = [\"blobs\", \"hits\"]\n",
    );
    let kinds: Vec<serde_json::Value> =
        lines(&cli, "").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(kinds[..3].iter().all(|blob| blob.as_str().is_some_and(|text| text.len() == 50)), "{kinds:?}");
    assert!(kinds[3..].iter().all(serde_json::Value::is_i64), "{kinds:?}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let cli = Cli::with_study();
    let mut child = cli
        .command(&["generate", "books.toml", "--scale", "30"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_is_no_plain_file_is_written_to_and_not_replaced() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    let cli = Cli::with_study();
    let pipe = cli.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let child = cli.command(&["generate", "books.toml", "users", "--output", "pipe"]).spawn().unwrap();
    let text = std::fs::read_to_string(&pipe).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(text, lines(&cli, "users"));
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());

    cli.write("target", "");
    symlink("target", cli.path("link")).unwrap();
    let refused = cli.run("generate books.toml users --output link").code(2);
    assert!(refused.err.contains("link exists") && refused.err.contains("--force"), "{}", refused.err);
    assert_eq!(std::fs::read_to_string(cli.path("target")).unwrap(), "");
    cli.run("generate books.toml users --output link --force").code(0);
    assert!(cli.path("link").is_symlink());
    assert_eq!(std::fs::read_to_string(cli.path("target")).unwrap(), text);
    let folder = cli.run("generate books.toml users --output .").code(2);
    assert!(folder.err.contains("is a folder"), "{}", folder.err);
}

#[test]
fn a_full_disk_is_an_error() {
    let cli = Cli::with_study();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = cli
        .command(&["generate", "books.toml"])
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("stdout cannot be written"), "{err}");
}
