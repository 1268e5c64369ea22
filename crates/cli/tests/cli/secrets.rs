//! A password appears in nothing that is saved, printed or visible to other users of the machine.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::common::{Cli, holding};

const PASSWORD: &str = "hush-pass-4711";

#[test]
fn a_run_keeps_and_prints_no_password() {
    let cli = Cli::new();
    let study = r#"
title = "Copied from couch://me:PASS@host/db"
question = "Is couch://me:PASS@host as quick?"
stores = { here = "memory:" }
[collections.docs]
count = 100
size = 200
[[phases]]
name = "load"
load = ["docs"]
[[phases]]
name = "reads"
mix = { read = 1 }
operations = 500
"#;
    // The study itself is the user's and stays in its own folder.
    let studies = tempfile::tempdir().unwrap();
    let file = studies.path().join("study.toml");
    std::fs::write(&file, study.replace("PASS", PASSWORD)).unwrap();
    let title = format!("title=see a://me:{PASSWORD}@host?token={PASSWORD}");
    let args = ["run", file.to_str().unwrap(), "--set", title.as_str()];
    let output = cli.command(&args).env("STOREBENCH_PASSWORD", PASSWORD).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() || output.status.code() == Some(4), "{err}");
    assert!(!out.contains(PASSWORD) && !err.contains(PASSWORD), "{out}\n{err}");
    assert!(out.contains("a://me:***@host"), "{out}");
    assert_eq!(holding(cli.folder.path(), PASSWORD), Vec::<String>::new());
    assert!(cli.run_folder().join("study.toml").exists());
}

#[test]
fn errors_hold_no_password() {
    let cli = Cli::new();
    let url = format!("nosuch://me:{PASSWORD}@host/db?password={PASSWORD}");
    for args in [vec!["bench", url.as_str()], vec!["verify", url.as_str(), "none.toml"]] {
        let done = cli.run_args(&args).code(2);
        assert!(!done.err.contains(PASSWORD), "{}", done.err);
    }
}

#[test]
fn the_command_line_that_others_see_holds_no_password() {
    let cli = Cli::new();
    cli.write(
        "long.toml",
        "title = \"x\"\nstores = [\"slow+null:?latency=1ms\"]\n[collections.docs]\ncount = 10\nsize = 200\n[[phases]]\n\
         name = \"bench\"\nmix = { read = 1 }\nduration = \"10m\"\n",
    );
    let title = format!("title=see couch://me:{PASSWORD}@host/db");
    let args = ["run", "long.toml", "--set", title.as_str()];
    let mut child = cli.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("bench,") {
        line.clear();
        assert!(err.read_line(&mut line).unwrap() > 0, "it ended before the phase began");
    }
    let seen = std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let seen = String::from_utf8(seen).unwrap();
    assert!(!seen.contains(PASSWORD), "{seen:?}");
    let words: Vec<&str> = seen.split('\0').filter(|word| !word.is_empty()).collect();
    assert_eq!(words[1..], ["run", "long.toml", "--set", "title=see couch://me:***@host/db"]);
}
