//! memcached: `memcaslap` of libmemcached. It has one write in flight per connection, and requests several reads
//! together, as one `get` of several keys.

use std::path::Path;
use std::process::Command;

use super::{COLLECTION, Contest, KEYS, Measured, Side, all, load, ours};
use crate::Failure;
use crate::options::Options;
use crate::servers::{Server, program};

const CONNECTIONS: u64 = 50;
/// Keys of a bulk read.
const BATCH: u64 = 64;

pub(super) fn measure(options: &Options) -> Result<Vec<Measured>, Failure> {
    let server = Server::start("memcached", &["--memory", "1024"])?;
    load(&server.url, &["--durability", "none"])?;
    let folder = tempfile::Builder::new().prefix("storebench-bench-").tempdir()?;
    let (server, folder) = (&server, folder.path());
    let settings = |test: &str| {
        let (set, get) = if test == "set" { (1, 0) } else { (0, 1) };
        let file = folder.join(test);
        std::fs::write(&file, format!("key\n20 20 1\nvalue\n1024 1024 1\ncmd\n0 {set}\n1 {get}"))?;
        Ok::<_, Failure>(file)
    };
    let slap = &|test: &str, depth: u64, count: u64| {
        // Before it reads, it writes what it will read. That is part of both runs, and so subtracted.
        let before = if test == "set" { 0 } else { CONNECTIONS * depth };
        let mut command: Command = program("bench_tools", "memcaslap")?;
        command.args(["-s", &format!("127.0.0.1:{}", server.port), "-T", "1", "-c", &CONNECTIONS.to_string()]);
        command.args(["-w", "1k", "-x", &(count + before).to_string(), "-d", &depth.to_string(), "-F"]);
        command.arg(settings(test)?);
        Ok(command)
    };
    let mut contests = [
        ("memcached set 1", "set", 1, 300_000),
        ("memcached get 1", "get", 1, 300_000),
        ("memcached get 16", "get", 16, 2_000_000),
        ("memcached get 64", "get", 64, 2_000_000),
    ]
    .into_iter()
    .map(|(name, test, depth, operations)| {
        let own = move |count| {
            let mix = if test == "set" { "upsert=1" } else { "read=1" };
            let (connections, depth) = (CONNECTIONS.to_string(), depth.to_string());
            let more = ["--mix", mix, "--durability", "none", "--connections", &connections, "--in-flight", &depth];
            ours(&server.url, &more, count)
        };
        let slap = move |count: u64| slap(test, depth, count);
        Contest {
            name,
            work: format!("{test}, {CONNECTIONS} connections, {depth} in flight on each"),
            sides: vec![
                Side { tool: "storebench", operations, command: Box::new(own), done: None },
                Side { tool: "memcaslap", operations, command: Box::new(slap), done: None },
            ],
            target: 1.0,
            note: (depth > 1).then_some(
                "with several in flight, memcaslap asks for all keys in one request; ours are separate requests, \
                 except in bulk",
            ),
        }
    })
    .collect::<Vec<_>>();
    let own = |count: u64| in_bulk(&server.url, folder, count / BATCH);
    contests.push(Contest {
        name: "memcached get 64 in bulk",
        work: format!(
            "get of {BATCH} keys in one operation, {CONNECTIONS} connections, one operation in flight on each"
        ),
        sides: vec![
            Side { tool: "storebench", operations: 93_750 * BATCH, command: Box::new(own), done: None },
            Side {
                tool: "memcaslap",
                operations: 93_750 * BATCH,
                command: Box::new(|count| slap("get", BATCH, count)),
                done: None,
            },
        ],
        target: 1.0,
        note: Some("in bulk, each document counts"),
    });
    all(options, contests)
}

/// Our bulk reads. `storebench bench` has none, so this is a study.
fn in_bulk(url: &str, folder: &Path, operations: u64) -> Result<Command, Failure> {
    let study = folder.join(format!("bulk-{operations}.toml"));
    std::fs::write(
        &study,
        format!(
            r#"title = "Bulk reads"
seed = 1
[collections.{COLLECTION}]
count = {KEYS}
size = 1024
compress_to = 0.4
[stores]
memcached = "{url}"
[[phases]]
name = "bulk"
workers = 1
connections = {CONNECTIONS}
operations = {operations}
durability = "none"
check = 0.0
mix = {{ read = {{ op = "read", batch = {BATCH} }} }}
"#
        ),
    )?;
    let mut command = Command::new(crate::program::program()?);
    command.arg("run").arg(study).args(["--quiet", "--json", "--out"]);
    command.arg(std::env::temp_dir().join(format!("storebench-bench-{}", std::process::id())));
    Ok(command)
}
