//! MariaDB: `sysbench` with the statements that the driver prepares, the same keys and as many connections.

use std::process::Command;

use super::{Contest, KEYS, Measured, Side, all, built, load, ours};
use crate::Failure;
use crate::options::Options;
use crate::servers::{Server, program};

const CONNECTIONS: u64 = 8;
const OPERATIONS: u64 = 160_000;

pub(super) fn measure(options: &Options) -> Result<Vec<Measured>, Failure> {
    // No disk makes the server wait, so that what differs is the client.
    let server = Server::start("mariadb", &["--option=innodb-flush-log-at-trx-commit=0"])?;
    let key = ["--key", "k{index}", "--durability", "none"];
    load(&server.url, &key)?;
    let (url, port) = (server.url.as_str(), server.port);
    let contest = |(name, statement, mix): (&'static str, &'static str, &'static str)| {
        let own = move |count| {
            let connections = CONNECTIONS.to_string();
            ours(url, &[&key[..], &["--mix", mix, "--connections", &connections]].concat(), count)
        };
        let sysbench = move |count| sysbench(port, statement, count);
        Contest {
            name,
            work: format!("{}, {CONNECTIONS} connections, one in flight on each", &name["mysql ".len()..]),
            sides: vec![
                Side { tool: "storebench", operations: OPERATIONS, command: Box::new(own), done: None },
                Side { tool: "sysbench", operations: OPERATIONS, command: Box::new(sysbench), done: None },
            ],
            target: 1.0,
            note: (statement == "upsert").then_some("ours are unique documents; sysbench sends the same one again"),
        }
    };
    let contests = [("mysql upsert", "upsert", "upsert=1"), ("mysql select", "read", "read=1")].map(contest);
    all(options, contests.into())
}

fn sysbench(port: u16, statement: &str, count: u64) -> Result<Command, Failure> {
    let mut command = program("bench_tools", "sysbench")?;
    command.arg(built::sources("sysbench").join("documents.lua"));
    command.args(["--db-driver=mysql", "--mysql-host=127.0.0.1", &format!("--mysql-port={port}")]);
    command.args(["--mysql-user=storebench", "--mysql-password=storebench", "--mysql-db=storebench"]);
    command.args([&format!("--statement={statement}"), &format!("--keys={KEYS}")]);
    command.args([&format!("--threads={CONNECTIONS}"), &format!("--events={count}"), "--time=0", "run"]);
    Ok(command)
}
