//! Runs in parts, each a process of its own, and their merging.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Cli, Done};
use crate::server::Server;
use crate::sshd::Sshd;

const STUDY: &str = r#"title = "Parts"
question = "Are four parts one run?"
seed = 7

[collections.books]
count = 4000
size = "300B"

[[phases]]
name = "load"
load = ["books"]
batch = 100
workers = 4

[[phases]]
name = "mixed"
mix = { read = 3, update = 1 }
streams = "disjoint"
durability = "none"
ledger = true
workers = 4
rate = 500
duration = "2s"
drain = "20s"
check = 1.0
"#;

/// Starts a part of the study on this store.
fn start(cli: &Cli, url: &str, part: &str, more: &[&str]) -> Child {
    let args = ["run", "parts.toml", "--store", url, "--part", part, "--out", "parts", "--json", "--quiet"];
    let mut command = cli.command(&[&args[..], more].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(part: Child) -> Done {
    let output = part.wait_with_output().unwrap();
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn merged(cli: &Cli, parts: &str) -> (Done, serde_json::Value) {
    let done = cli.run(&format!("merge {parts} --json --quiet"));
    let result = serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {}", done.err));
    (done, result)
}

/// Asserts that a merged run has every operation of `STUDY`, and lost nothing.
fn is_whole(done: &Done, result: &serde_json::Value, parts: u64) {
    done.assert_measured();
    let trial = &result["trials"][0];
    assert!(trial["failure"].is_null(), "{}", trial["failure"]);
    let [load, mixed] = &trial["phases"].as_array().unwrap()[..] else { panic!("two phases") };
    assert_eq!(load["documents"]["count"], 4000);
    assert_eq!((&mixed["rate"]["scheduled"], &mixed["workers"]), (&1000.into(), &4.into()));
    let answered: u64 = mixed["ops"].as_object().unwrap().values().map(|op| op["succeeded"].as_u64().unwrap()).sum();
    assert_eq!(answered, 1000);
    let ledger = &mixed["ledger"];
    assert_eq!((&ledger["keys"], &ledger["confirmed"]), (&4000.into(), &4000.into()), "{ledger}");
    assert_eq!(mixed["generators"].as_array().unwrap().len() as u64, parts);
    assert_eq!(result["run"]["parts"]["merged"].as_array().unwrap().len() as u64, parts);
}

#[test]
fn four_processes_on_a_real_server_are_one_run() {
    for name in ["redis", "postgres"] {
        let server = Server::start(name);
        let cli = Cli::new();
        // PostgreSQL has no `os`, and gives more.
        let durability = if name == "postgres" { "durability = \"os\"" } else { "durability = \"none\"" };
        cli.write("parts.toml", &STUDY.replace("durability = \"none\"", durability));
        let running: Vec<Child> = (1..=4).map(|n| start(&cli, &server.url, &format!("{n}/4"), &[])).collect();
        let mut guaranteed = serde_json::Value::Null;
        for part in running {
            let done = ended(part);
            done.assert_measured();
            let result: serde_json::Value = serde_json::from_str(&done.out).unwrap();
            assert_eq!(result["run"]["part"]["of"], 4);
            guaranteed = result["trials"][0]["phases"][1]["durability"].clone();
        }
        let (done, result) = merged(&cli, "parts");
        is_whole(&done, &result, 4);
        // With what was asked for.
        assert_eq!(result["trials"][0]["phases"][1]["durability"], guaranteed);
        // The words of the terminal.
        let text = cli.run("merge parts").out;
        assert!(text.contains("4 of 4 parts") && text.contains("report.html"), "{text}");
        let part = cli.run("report parts/part-2-of-4 --full").out;
        assert!(part.contains("Part 2 of 4: these figures are of this part alone."), "{part}");
        // Neither is a run that could go on.
        let merged = std::fs::read_dir(cli.path("storebench-runs")).unwrap().next().unwrap().unwrap().path();
        for folder in [merged, cli.path("parts/part-2-of-4")] {
            let folder = folder.to_str().unwrap();
            let refused = cli.run_args(&["run", "parts.toml", "--store", &server.url, "--resume", folder]).code(2);
            assert!(refused.err.contains("run every part again, without --resume"), "{}", refused.err);
        }
        // The parts' keys together are all keys.
        let verified = cli.run_args(&["verify", &server.url, "parts.toml"]);
        assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    }
}

#[test]
fn parts_without_a_shared_folder_begin_at_given_times() {
    let server = Server::start("redis");
    let cli = Cli::new();
    cli.write("parts.toml", STUDY);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let (first, mixed) = (format!("@{}", now + 6), format!("mixed=@{}", now + 12));
    let at = ["--start-at", &first, "--start-at", &mixed];
    let running: Vec<Child> = (1..=2).map(|n| start(&cli, &server.url, &format!("{n}/2"), &at)).collect();
    running.into_iter().for_each(|part| ended(part).assert_measured());
    // As if they came from two machines.
    std::fs::create_dir(cli.path("elsewhere")).unwrap();
    std::fs::rename(cli.path("parts/part-2-of-2"), cli.path("elsewhere/second")).unwrap();
    let (done, result) = merged(&cli, "parts/part-1-of-2 elsewhere/second");
    is_whole(&done, &result, 2);
    let late = &result["trials"][0]["phases"][1]["generators"][0]["late_ns"];
    assert!(late.as_u64().is_some_and(|ns| ns < 1_000_000_000), "{late}");
}

#[test]
fn a_part_killed_midway_is_named_and_the_exit_code_says_so() {
    let server = Server::start("redis");
    let cli = Cli::new();
    // A ledger could not be read back completely, which is worse.
    cli.write("parts.toml", &STUDY.replace("duration = \"2s\"", "duration = \"60s\"").replace("ledger = true\n", ""));
    let (first, mut second) = (start(&cli, &server.url, "1/2", &[]), start(&cli, &server.url, "2/2", &[]));
    let events = cli.path("parts/part-2-of-2/events.jsonl.part");
    let began = Instant::now();
    let mixes = || std::fs::read_to_string(&events).is_ok_and(|text| text.contains("\"phase\":\"mixed\""));
    while !mixes() {
        assert!(began.elapsed() < Duration::from_secs(60), "the second phase never began");
        std::thread::sleep(Duration::from_millis(50));
    }
    second.kill().unwrap();
    second.wait().unwrap();
    // The first part finishes its phase before it looks for the other: do not wait a minute for that.
    let interrupted = Command::new("kill").args(["-INT", &first.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    ended(first);
    let (done, result) = merged(&cli, "parts");
    assert_eq!(done.code, 4, "{}", done.err);
    assert!(done.err.contains("part 2"), "{}", done.err);
    let check = result["checks"].as_array().unwrap().iter().find(|check| check["check"] == "parts-incomplete").unwrap();
    assert_eq!(check["severity"], "invalid");
    assert!(check["observed"].as_str().unwrap().contains("part 2 is incomplete: it ended before its run did"));
    // Its folder did not arrive at all.
    std::fs::remove_dir_all(cli.path("parts/part-2-of-2")).unwrap();
    let (done, result) = merged(&cli, "parts");
    assert_eq!((done.code, &result["run"]["parts"]["missing"]), (4, &serde_json::json!([2])));
    assert!(done.err.contains("part 2 of 2 is missing"), "{}", done.err);
}

#[test]
fn what_cannot_be_a_part_is_refused_before_anything_is_touched() {
    let cli = Cli::new();
    cli.write("parts.toml", STUDY);
    let run = "run parts.toml --store sqlite:x.db";
    for (words, says) in [
        (format!("{run} --part 1/2"), "--part needs --out"),
        (format!("{run} --part 3/2 --out parts"), "part 3 of 2 does not exist"),
        (format!("{run} --out parts --start-at @5"), "--part"),
        (format!("{run} --part 1/2 --out parts --start-at 10:00"), "is not a time"),
        (format!("{run} --part 1/2 --out parts --start-at mixed=@5"), "the first phase needs a time"),
        (format!("{run} --part 1/3 --out parts --start-at @5 --start-at mixed=@9"), "--set phases.load.workers=6"),
        ("merge nowhere".to_owned(), "cannot be read"),
    ] {
        let done = cli.run(&words);
        assert_eq!(done.code, 2, "{words}: {}", done.err);
        assert!(done.err.contains(says), "{words}: {}", done.err);
    }
    assert!(!cli.path("x.db").exists() && !cli.path("parts").exists());
}

#[test]
fn a_plan_shows_the_share_of_each_part() {
    let cli = Cli::new();
    cli.write("parts.toml", STUDY);
    let done = cli.run("plan parts.toml --store redis://127.0.0.1:1 --parts 4");
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("each of 4 parts\n  load: 1,000 documents, "), "{}", done.out);
    assert!(done.out.contains("  mixed: 250 operations, up to 125/s, "), "{}", done.out);
    let done = cli.run("plan parts.toml --store redis://127.0.0.1:1 --parts 4 --json");
    let plan: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((&plan["parts"]["of"], &plan["parts"]["phases"][1]["per_s"]), (&4.into(), &125.0.into()));
    let done = cli.run("plan parts.toml --store redis://127.0.0.1:1 --parts 3");
    assert!(done.code == 2 && done.err.contains("--set phases.load.workers=6"), "{}", done.err);
}

fn recipe(name: &str) -> String {
    format!("{}/../../docs/clusters/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A command that finds the program in its PATH.
fn with_program(cli: &Cli, program: &str) -> Command {
    let folder = Path::new(env!("CARGO_BIN_EXE_storebench")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(program);
    command.env("PATH", format!("{}:{path}", folder.display())).current_dir(cli.folder.path()).stdin(Stdio::null());
    command
}

/// The study with its store in it, as the recipes expect.
fn with_store(url: &str) -> String {
    STUDY.replacen("seed = 7", &format!("seed = 7\nstores = [\"{url}\"]"), 1)
}

#[test]
fn the_recipes_of_slurm_and_kubernetes_run() {
    let server = Server::start("redis");
    let job = std::fs::read_to_string(recipe("job.yaml")).unwrap();
    let command = job.lines().find_map(|line| line.trim().strip_prefix("- exec ")).expect("the container's command");
    for slurm in [true, false] {
        let cli = Cli::new();
        cli.write("study.toml", &with_store(&server.url));
        let part = |number: u32| {
            let mut part = with_program(&cli, "sh");
            if slurm {
                part.arg(recipe("slurm.sh")).env("OUT", "shared").env("SLURM_ARRAY_JOB_ID", "77");
                part.env("SLURM_ARRAY_TASK_ID", number.to_string()).env("SLURM_ARRAY_TASK_COUNT", "2");
            } else {
                part.args(["-c", &format!("exec {command}")]).env("OUT", "shared/77").env("PARTS", "2");
                part.env("JOB_COMPLETION_INDEX", (number - 1).to_string());
            }
            part.env("STUDY", "study.toml").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let running = [part(1), part(2)];
        running.into_iter().for_each(|part| ended(part).assert_measured());
        let (done, result) = merged(&cli, "shared/77");
        is_whole(&done, &result, 2);
    }
}

#[test]
fn the_recipe_of_ssh_runs_on_loopback() {
    let program = env!("CARGO_BIN_EXE_storebench");
    let script = format!("#!/bin/sh\nexec {program} \"$@\"\n");
    let Some(sshd) = Sshd::start(&[("storebench", script)]) else { return };
    let server = Server::start("redis");
    let cli = Cli::new();
    cli.write("study.toml", &with_store(&server.url));
    let client = |program: &str, port| format!("{} {}", sshd.client(program), sshd.options(port));
    // The copy program starts the other one.
    let copy = format!("{} -S {}", client("scp", 'P'), sshd.path("ssh").display());
    std::fs::write(sshd.path("ssh"), format!("#!/bin/sh\nexec {} \"$@\"\n", sshd.client("ssh"))).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(sshd.path("ssh")).status().unwrap().success());
    let hosts = "root@127.0.0.1 root@127.0.0.1";
    let output = with_program(&cli, "sh")
        .args([recipe("ssh.sh").as_str(), "study.toml", "parts", hosts, "10", "mixed=18"])
        .env("SSH", client("ssh", 'p'))
        .env("SCP", copy)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let logs = |n: u32| std::fs::read_to_string(cli.path(&format!("parts/part-{n}.log"))).unwrap_or_default();
    assert!(out.contains("2 of 2 parts"), "{out}{err}\n{}\n{}", logs(1), logs(2));
    let (done, result) = merged(&cli, "parts");
    is_whole(&done, &result, 2);
}
