//! `copy` to and from places that are not on this machine.

use std::process::Command;

use crate::common::copies::{killed, log_lines, sorted};
use crate::common::{Cli, Done, holding};
use serde_json::Value;
use storebench_fakes::s3::{ACCESS_KEY, S3, SECRET_KEY};

/// A folder to run in, and an S3 server with a bucket that requires the key.
struct Lab {
    cli: Cli,
    s3: S3,
    _objects: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let objects = tempfile::tempdir().unwrap();
        let s3 = S3::serve(objects.path()).unwrap();
        s3.make_bucket("box").unwrap();
        Self { cli: Cli::new(), s3, _objects: objects }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.cli.command(args);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        self.cli.run_command(&mut self.command(args))
    }
}

fn documents(count: usize) -> String {
    let filler = "lorem ipsum dolor sit amet, ".repeat(18);
    (0..count).map(|n| format!("{{\"_id\":\"k{n:06}\",\"n\":{n},\"text\":\"{n} é {filler}\"}}\n")).collect()
}

#[test]
fn a_copy_to_s3_that_is_killed_leaves_nothing_half_and_goes_on() {
    for key in ["out/books.jsonl.gz", "out/"] {
        let lab = Lab::new();
        lab.cli.write("books.jsonl", &documents(12_000));
        let url = lab.s3.url("box", key);
        let args = ["copy", "books.jsonl", &url, "--verify", "-p", "2", "--rate-docs", "12000"];
        killed(&lab.cli, lab.command(&args), 2);
        let there: Vec<_> =
            std::fs::read_dir(lab.s3.file("box", "out")).into_iter().flatten().map(Result::unwrap).collect();
        if key == "out/" {
            // Complete parts, each in its final form.
            assert!(there.len() >= 2, "{there:?}");
            for part in &there {
                assert!(std::fs::read_to_string(part.path()).unwrap().ends_with("\"}\n"), "{part:?}");
            }
        } else {
            assert!(there.is_empty(), "{there:?}");
        }
        let done = lab.run(&["copy", "books.jsonl", &url, "--verify", "-p", "2", "--resume", "--json"]).code(0);
        assert_eq!(
            (&done.json()["counts"]["written"], &done.json()["verified"]["equal"]),
            (&12_000.into(), &true.into())
        );
        let done = lab.run(&["copy", &url, "back.jsonl", "--force", "-p", "3", "--verify", "--json"]).code(0);
        assert_eq!(done.json()["counts"]["written"], 12_000);
        assert!(sorted(&lab.cli.path("back.jsonl")) == sorted(&lab.cli.path("books.jsonl")), "{key}");
        assert_eq!(lab.s3.open_uploads(), 0);
    }
}

#[test]
fn credentials_come_from_the_environment_and_are_told_nowhere() {
    let lab = Lab::new();
    lab.cli.write("books.jsonl", &documents(100));
    let url = lab.s3.url("box", "books.jsonl");
    let to = ["copy", "books.jsonl", url.as_str()];
    // The metadata service of a cloud machine is not queried, because that would take until a timeout.
    let none =
        lab.cli.run_command(lab.command(&to).env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY"));
    let none = none.code(2);
    assert!(none.err.contains("no credentials found") && none.err.contains("AWS_ACCESS_KEY_ID"), "{none:?}");
    assert_eq!(lab.s3.requests(), 0);
    let wrong = lab.cli.run_command(lab.command(&to).env("AWS_SECRET_ACCESS_KEY", "anothersecret")).code(2);
    assert!(wrong.err.contains("SignatureDoesNotMatch") && wrong.err.contains("AWS_SECRET_ACCESS_KEY"), "{wrong:?}");
    let typed = lab.run(&["copy", "books.jsonl", &format!("{url}&secret_access_key=anothersecret")]).code(2);
    assert!(typed.err.contains("never from the URL"), "{typed:?}");
    lab.run(&to).code(0);
    let back = lab.run(&["copy", &url, "sqlite:b.db", "--verify"]).code(0);
    assert!(back.out.contains("s3://box/books.jsonl → sqlite:b.db, books"), "{back:?}");
    for done in [&none, &wrong, &typed, &back] {
        assert!(!done.err.contains("anothersecret") && !done.out.contains(SECRET_KEY), "{done:?}");
    }
    for secret in [SECRET_KEY, "anothersecret"] {
        assert_eq!(holding(&lab.cli.path("storebench-runs"), secret), [] as [String; 0]);
    }
}

#[test]
fn credentials_that_expire_end_the_copy_and_better_ones_finish_it() {
    let lab = Lab::new();
    lab.cli.write("books.jsonl", &documents(8_000));
    let url = lab.s3.url("box", "out/");
    lab.s3.expire_after(6);
    let args = ["copy", "books.jsonl", &url, "--verify", "-p", "1"];
    let done = lab.run(&args).code(1);
    assert!(done.err.contains("access denied") && done.err.contains("--resume"), "{done:?}");
    assert!(log_lines(&lab.cli) > 1, "no part was done");
    lab.s3.renew();
    let done = lab.run(&[&args[..], &["--resume", "--json"]].concat()).code(0);
    let report: Value = done.json();
    assert_eq!((&report["counts"]["written"], &report["verified"]["equal"]), (&8_000.into(), &true.into()));
    assert!(report["before"]["written"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn what_cannot_be_reached_or_is_not_there_has_its_exit_code() {
    let lab = Lab::new();
    lab.cli.write("books.jsonl", &documents(10));
    let gone = "s3://box/x.jsonl?endpoint=http://127.0.0.1:1";
    let nobody = lab.s3.url("nobody", "x.jsonl");
    let missing = lab.s3.url("box", "missing.jsonl");
    let nothing = lab.s3.url("box", "missing/books-*.jsonl");
    for (ends, code, part) in [
        ([gone, "sqlite:b.db"], 3, "cannot be reached"),
        (["books.jsonl", gone], 3, "cannot be reached"),
        ([&nobody, "sqlite:b.db"], 2, "not found"),
        (["books.jsonl", &nobody], 2, "NoSuchBucket"),
        ([&missing, "sqlite:b.db"], 2, "not found"),
        ([&nothing, "sqlite:b.db"], 2, "no file matches"),
        (["books.jsonl", "http://127.0.0.1:1/x.jsonl"], 2, "is read-only"),
        (["http://127.0.0.1:1/x.jsonl", "sqlite:b.db"], 3, "cannot be reached"),
        (["s3://box/x.jsonl?colour=blue", "sqlite:b.db"], 2, "expected endpoint, region"),
    ] {
        let done = lab.run(&["copy", ends[0], ends[1], "--tries", "2"]).code(code);
        assert!(done.err.contains(part) && done.out.is_empty(), "{ends:?}: {done:?}");
    }
    let dry = lab.run(&["copy", "books.jsonl", &missing, "--dry-run"]).code(0);
    assert!(dry.out.contains("to    s3://box/missing.jsonl\n"), "{dry:?}");
    assert!(!lab.s3.file("box", "missing.jsonl").exists());
}

#[test]
fn a_file_behind_http_goes_into_a_store() {
    let port = storebench_fakes::http::serve(documents(5_000).into_bytes()).unwrap();
    let cli = Cli::new();
    let url = format!("http://127.0.0.1:{port}/ranges/books.jsonl?X-Amz-Signature=verysecret");
    cli.run_args(&["copy", &url, "sqlite:b.db", "-p", "2", "--verify"]).code(0);
    cli.run("copy sqlite:b.db back.jsonl --from-collection books --verify").code(0);
    cli.write("books.jsonl", &documents(5_000));
    assert_eq!(sorted(&cli.path("back.jsonl")), sorted(&cli.path("books.jsonl")));
    assert_eq!(holding(&cli.path("storebench-runs"), "verysecret"), [] as [String; 0]);
}

#[test]
fn a_folder_of_files_is_read_as_one() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(3_000));
    cli.run("copy books.jsonl out/").code(0);
    cli.run("copy out/ back.jsonl").code(0);
    assert_eq!(sorted(&cli.path("back.jsonl")), sorted(&cli.path("books.jsonl")));
    std::fs::create_dir(cli.path("empty")).unwrap();
    assert!(cli.run("copy empty/ back.jsonl").code(2).err.contains("no files in"));
}

#[test]
fn this_machine_is_never_reached_through_a_proxy() {
    let cli = Cli::new();
    let port = storebench_fakes::http::serve(documents(3).into_bytes()).unwrap();
    let copy = |url: &str| {
        let mut command =
            cli.command(&["copy", url, "out.jsonl", "--force", "--restart", "--retry-total", "1s", "--tries", "1"]);
        // Nothing listens there.
        cli.run_command(command.env("HTTP_PROXY", "http://me:secret@127.0.0.1:1").env_remove("NO_PROXY"))
    };
    let done = copy(&format!("http://127.0.0.1:{port}/ranges/a.jsonl")).code(0);
    assert!(!done.err.contains("proxy"), "{done:?}");
    let done = copy("http://data.example/a.jsonl");
    assert!(matches!(done.code, 2 | 3) && done.err.contains("through the proxy 127.0.0.1:1 of HTTP_PROXY"), "{done:?}");
    assert!(!done.err.contains("secret"), "{done:?}");
}
