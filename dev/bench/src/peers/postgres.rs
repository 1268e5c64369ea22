//! PostgreSQL: `pgbench` with the statements that the driver prepares, the same keys and as many connections.

use std::path::Path;
use std::process::Command;

use super::{Contest, KEYS, Measured, Side, all, load, ours};
use crate::Failure;
use crate::options::Options;
use crate::servers::{Server, program};

const CONNECTIONS: u64 = 8;
/// Keys are decimal numbers of ten digits, which pgbench can generate too.
const FIRST: u64 = 1_000_000_000;

const UPSERT: &str = "INSERT INTO storebench.docs (key, doc) VALUES (:key, :doc) \
    ON CONFLICT (key) DO UPDATE SET doc = EXCLUDED.doc";
const SELECT: &str = "SELECT doc FROM storebench.docs WHERE key = :key";

pub(super) fn measure(options: &Options) -> Result<Vec<Measured>, Failure> {
    let server = Server::start("postgres", &[])?;
    let folder = tempfile::Builder::new().prefix("storebench-bench-").tempdir()?;
    let key = ["--key", "1{index:09}", "--durability", "none"];
    load(&server.url, &key)?;
    let url = server.url.as_str();
    let mut contests = Vec::new();
    for (name, statement, mix) in [("postgres upsert", UPSERT, "upsert=1"), ("postgres select", SELECT, "read=1")] {
        let script = folder.path().join(format!("{}.sql", &mix[..4]));
        std::fs::write(&script, format!("\\set key random({FIRST}, {})\n{statement}\n", FIRST + KEYS - 1))?;
        let own = move |count| {
            let connections = CONNECTIONS.to_string();
            ours(url, &[&key[..], &["--mix", mix, "--connections", &connections]].concat(), count)
        };
        let document = if statement == UPSERT { Some(document()) } else { None };
        contests.push(Contest {
            name,
            work: format!("{}, {CONNECTIONS} connections, one in flight on each", &name["postgres ".len()..]),
            sides: vec![
                Side { tool: "storebench", operations: 160_000, command: Box::new(own), done: None },
                Side {
                    tool: "pgbench -M prepared",
                    operations: 160_000,
                    command: Box::new(move |count| pgbench(url, &script, document.as_deref(), count)),
                    done: None,
                },
            ],
            target: 0.9,
            note: (statement == UPSERT).then_some("ours are unique documents; pgbench sends the same one again"),
        });
    }
    all(options, contests)
}

/// A document of 1 KiB.
fn document() -> String {
    format!("{{\"text\":\"{}\"}}", "x".repeat(1_024 - 11))
}

fn pgbench(url: &str, script: &Path, document: Option<&str>, count: u64) -> Result<Command, Failure> {
    let mut command = program("postgres", "pgbench")?;
    command.env("PGOPTIONS", "-c synchronous_commit=off").args(["-n", "-M", "prepared", "-j", "1"]);
    command.args(["-c", &CONNECTIONS.to_string(), "-t", &(count / CONNECTIONS).to_string()]);
    if let Some(document) = document {
        command.args(["-D", &format!("doc={document}")]);
    }
    command.arg("-f").arg(script).arg(url);
    Ok(command)
}
