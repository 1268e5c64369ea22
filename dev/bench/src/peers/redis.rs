//! Redis: `redis-benchmark` at three depths of pipelining; YCSB and go-ycsb, which have one operation in flight on each
//! connection.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Contest, KEYS, Measured, Side, all, built, load, ours, process};
use crate::Failure;
use crate::options::Options;
use crate::servers::{Server, program};

/// The number that `redis-benchmark` opens.
const CONNECTIONS: &str = "50";
/// Threads of YCSB and go-ycsb, each with one connection.
const THREADS: u64 = 8;

pub(super) fn measure(options: &Options) -> Result<Vec<Measured>, Failure> {
    let server = Server::start("redis", &[])?;
    let port = server.port.to_string();
    load(&server.url, &["--durability", "none"])?;
    // Reads find what was written here.
    process::run(&mut redis_benchmark(&port, "set", 64, 10 * KEYS)?, &[0])?;
    let (server, port) = (&server, port.as_str());
    let mut contests: Vec<Contest<'_>> = [
        ("redis set 1", "set", 1_u64, 300_000_u64),
        ("redis get 1", "get", 1, 300_000),
        ("redis set 16", "set", 16, 2_000_000),
        ("redis get 16", "get", 16, 2_000_000),
        ("redis set 64", "set", 64, 3_000_000),
        ("redis get 64", "get", 64, 3_000_000),
    ]
    .into_iter()
    .map(|(name, test, depth, operations)| Contest {
        name,
        work: format!("{}, 50 connections, {depth} in flight on each", test.to_uppercase()),
        sides: vec![
            own(&server.url, test, CONNECTIONS, depth, operations),
            Side {
                tool: "redis-benchmark",
                operations,
                command: Box::new(move |count| redis_benchmark(port, test, depth, count)),
                done: None,
            },
        ],
        target: 1.0,
        note: (test == "set").then_some("ours are unique documents; redis-benchmark sends one block again and again"),
    })
    .collect();
    let work = |what: &str| format!("half GET, half SET, 8 connections, one in flight on each; {what}");
    if options.wants(super::TOPIC, "redis ycsb") {
        let peer = Ycsb::build()?;
        process::run(&mut peer.command("-load", port, &[("recordcount", KEYS)]), &[0])?;
        let theirs = || Side {
            tool: "YCSB",
            operations: 400_000,
            command: Box::new({
                let peer = peer.clone();
                move |count| Ok(peer.command("-t", port, &[("recordcount", KEYS), ("operationcount", count)]))
            }),
            done: None,
        };
        for (depth, operations, target) in [(1, 400_000, 0.3), (64, 3_000_000, 0.04)] {
            contests.push(Contest {
                name: "redis ycsb",
                work: work(if depth == 1 {
                    "YCSB does the same"
                } else {
                    "ours has 64 in flight on each, YCSB cannot"
                }),
                sides: vec![own(&server.url, "mixed", "8", depth, operations), theirs()],
                target,
                note: None,
            });
        }
    }
    if options.wants(super::TOPIC, "redis go-ycsb") {
        let peer = go_ycsb()?;
        process::run(&mut go(&peer, "load", port, &[("recordcount", KEYS)]), &[0])?;
        contests.push(Contest {
            name: "redis go-ycsb",
            work: work("go-ycsb does the same"),
            sides: vec![
                own(&server.url, "mixed", "8", 1, 400_000),
                Side {
                    tool: "go-ycsb",
                    operations: 400_000,
                    command: Box::new(move |count| {
                        Ok(go(&peer, "run", port, &[("recordcount", KEYS), ("operationcount", count)]))
                    }),
                    done: None,
                },
            ],
            target: 1.0,
            note: None,
        });
    }
    all(options, contests)
}

fn own<'a>(url: &'a str, test: &'static str, connections: &'static str, depth: u64, operations: u64) -> Side<'a> {
    let mix = match test {
        "set" => "upsert=1",
        "get" => "read=1",
        _ => "read=1,upsert=1",
    };
    let command = move |count| {
        let depth = depth.to_string();
        let more = ["--mix", mix, "--durability", "none", "--connections", connections, "--in-flight", &depth];
        ours(url, &more, count)
    };
    Side { tool: "storebench", operations, command: Box::new(command), done: None }
}

fn redis_benchmark(port: &str, test: &str, depth: u64, count: u64) -> Result<Command, Failure> {
    let mut command = program("redis", "redis-benchmark")?;
    command.args(["-p", port, "-t", test, "-d", "1024", "-q", "-c", CONNECTIONS, "-r", &KEYS.to_string()]);
    command.args(["-n", &count.to_string(), "-P", &depth.to_string()]);
    Ok(command)
}

/// YCSB's core with the binding in `dev/bench/peers/ycsb`.
#[derive(Clone)]
pub(super) struct Ycsb(PathBuf);

impl Ycsb {
    pub(super) fn build() -> Result<Self, Failure> {
        let out = built::folder("ycsb")?;
        let mut build = Command::new("mvn");
        build.args(["-q", "-B", "package", "dependency:copy-dependencies"]).current_dir(built::sources("ycsb"));
        process::run(build.arg(format!("-Dout={}", out.display())), &[0])?;
        Ok(Self(out))
    }

    /// `what` is `-load` or `-t`.
    pub(super) fn command(&self, what: &str, port: &str, more: &[(&str, u64)]) -> Command {
        let mut command = Command::new("java");
        command.arg("-cp").arg(format!("{0}/ycsb-peer-1.jar:{0}/dependency/*", self.0.display()));
        command.args(["site.ycsb.Client", what, "-db", "storebench.StringsOnRedis"]);
        for property in ["workload=site.ycsb.workloads.CoreWorkload", &format!("redis.port={port}")] {
            command.args(["-p", property]);
        }
        for (name, value) in shared().chain(more.iter().copied()) {
            command.args(["-p", &format!("{name}={value}")]);
        }
        command.args(["-p", "readproportion=0.5", "-p", "updateproportion=0.5", "-p", "requestdistribution=uniform"]);
        command.args(["-p", "measurementtype=hdrhistogram", "-p", "hdrhistogram.percentiles=50,99,99.9"]);
        command.args(["-p", "measurement.interval=both"]);
        command
    }
}

/// One field of 1 KiB, whole records.
fn shared<'a>() -> impl Iterator<Item = (&'a str, u64)> {
    [("fieldcount", 1), ("fieldlength", 1_024), ("threadcount", THREADS)].into_iter()
}

/// go-ycsb's core and its binding to Redis, built from `dev/bench/peers/go-ycsb`.
pub(super) fn go_ycsb() -> Result<PathBuf, Failure> {
    built::go("go-ycsb", ".")
}

/// `what` is `load` or `run`.
pub(super) fn go(program: &Path, what: &str, port: &str, more: &[(&str, u64)]) -> Command {
    let mut command = Command::new(program);
    command.args([what, "workload=core", "redis.datatype=string", &format!("redis.addr=127.0.0.1:{port}")]);
    command.args(["readproportion=0.5", "updateproportion=0.5", "requestdistribution=uniform"]);
    command.args(shared().chain(more.iter().copied()).map(|(name, value)| format!("{name}={value}")));
    command
}
