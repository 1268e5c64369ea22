//! Cassandra: `latte`, which is built here, with the statements that the driver prepares and as much in flight. Both
//! are written with the crate `scylla`.

use std::path::Path;
use std::process::Command;

use super::{Contest, KEYS, Measured, Side, all, built, load, ours};
use crate::Failure;
use crate::options::Options;
use crate::servers::Server;

const OPERATIONS: u64 = 100_000;

pub(super) fn measure(options: &Options) -> Result<Vec<Measured>, Failure> {
    let latte = &built::crate_of("latte-cli", "0.29.0", "latte")?;
    let server = Server::start("cassandra", &[])?;
    let key = ["--key", "k{index}", "--durability", "none"];
    load(&server.url, &key)?;
    let (url, port) = (server.url.as_str(), server.port);
    let contest = |(name, function, mix, depth): (&'static str, &'static str, &'static str, u64)| {
        let own = move |count| {
            let depth = depth.to_string();
            ours(url, &[&key[..], &["--mix", mix, "--connections", "1", "--in-flight", &depth]].concat(), count)
        };
        Contest {
            name,
            work: format!("{function}, one connection, {depth} in flight"),
            sides: vec![
                Side { tool: "storebench", operations: OPERATIONS, command: Box::new(own), done: None },
                Side {
                    tool: "latte",
                    operations: OPERATIONS,
                    command: Box::new(move |count| Ok(run(latte, port, function, depth, count))),
                    done: None,
                },
            ],
            target: 0.7,
            note: None,
        }
    };
    let contests = [
        ("cassandra upsert 16", "upsert", "upsert=1", 16),
        ("cassandra read 1", "read", "read=1", 1),
        ("cassandra read 16", "read", "read=1", 16),
    ];
    all(options, contests.map(contest).into())
}

fn run(latte: &Path, port: u16, function: &str, depth: u64, count: u64) -> Command {
    let mut command = Command::new(latte);
    command.args(["run", "--quiet", "--functions", function, "--consistency", "ONE", "--warmup", "1"]);
    command.args(["--duration", &count.to_string(), "--concurrency", &depth.to_string()]);
    command.args(["-P", &format!("keys={KEYS}"), "--output", "/dev/null"]);
    command.arg(built::sources("latte").join("documents.rn")).arg(format!("127.0.0.1:{port}"));
    command
}
