//! GETs over HTTP: `wrk` and, where the server answers at once, `bombardier`. They fetch the same document from the same
//! server over as many connections.
//!
//! The server is a thread of this program that answers every read with one document of 1 KiB, as CouchDB would, at once or
//! after 1 ms, which its timer makes up to 2 ms. The cost of a real server would only hide the clients.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{COLLECTION, Contest, Measured, Side, all, built, ours};
use crate::Failure;
use crate::options::Options;
use crate::servers::{http, program};

const PATH: &str = "/storebench-docs/doc%2F0000000000";

pub(super) fn measure(options: &Options) -> Result<Vec<Measured>, Failure> {
    let document = format!("{{\"text\":\"{}\"}}", "x".repeat(1_024 - 11));
    let (at_once, late) = (
        http::serve(COLLECTION, &document, Duration::ZERO)?,
        http::serve(COLLECTION, &document, Duration::from_millis(1))?,
    );
    let bombardier = built::go("bombardier", "github.com/codesenberg/bombardier")?;
    let bombardier = &bombardier;
    // The slower the server, the longer it takes until the start of a client, which is subtracted, is small beside the rest.
    let contests = [
        ("http get 4", at_once, 4, 200_000, 4),
        ("http get 16", at_once, 16, 200_000, 4),
        ("http get 64", at_once, 64, 200_000, 4),
        ("http get 4 of 1 ms", late, 4, 30_000, 16),
        ("http get 16 of 1 ms", late, 16, 100_000, 14),
        ("http get 64 of 1 ms", late, 64, 300_000, 12),
    ]
    .into_iter()
    .map(|(name, port, connections, operations, seconds)| {
        let own = move |count| {
            let connections = connections.to_string();
            ours(&format!("couchdb://127.0.0.1:{port}"), &["--mix", "read=1", "--in-flight", &connections], count)
        };
        // It runs for a time, not for a number of requests: about as long as ours does.
        let wrk = move |count: u64| wrk(port, connections, (count * seconds / operations).max(1));
        let mut sides = vec![
            Side { tool: "storebench", operations, command: Box::new(own), done: None },
            Side { tool: "wrk", operations, command: Box::new(wrk), done: Some(requests) },
        ];
        if port == at_once {
            let command = move |count| Ok(by_bombardier(bombardier, port, connections, count));
            sides.push(Side { tool: "bombardier", operations, command: Box::new(command), done: Some(successes) });
        }
        Contest {
            name,
            work: format!(
                "GET, {connections} connections, from a server that answers {}",
                if port == at_once { "at once" } else { "after 1 to 2 ms" }
            ),
            sides,
            target: 0.9,
            note: None,
        }
    })
    .collect();
    all(options, contests)
}

fn wrk(port: u16, connections: u64, seconds: u64) -> Result<Command, Failure> {
    let mut command = program("bench_tools", "wrk")?;
    command.args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s")]);
    command.arg(format!("http://127.0.0.1:{port}{PATH}"));
    Ok(command)
}

/// Requests that `wrk` did, if all succeeded.
fn requests(text: &str) -> Option<f64> {
    if text.contains("Non-2xx") || text.contains("Socket errors") {
        return None;
    }
    let line = text.lines().find(|line| line.contains("requests in"))?;
    line.split_whitespace().next()?.parse().ok().filter(|requests| *requests > 0.0)
}

fn by_bombardier(program: &Path, port: u16, connections: u64, count: u64) -> Command {
    let mut command = Command::new(program);
    command.args(["-c", &connections.to_string(), "-n", &count.to_string(), "-p", "r", "-o", "json"]);
    command.arg(format!("http://127.0.0.1:{port}{PATH}"));
    command
}

/// Requests that `bombardier` did, if all succeeded.
fn successes(text: &str) -> Option<f64> {
    let told: serde_json::Value = serde_json::from_str(text).ok()?;
    let count = |name: &str| told["result"][name].as_f64();
    let failed = ["req1xx", "req3xx", "req4xx", "req5xx", "others"].into_iter().map(count).sum::<Option<f64>>()?;
    count("req2xx").filter(|requests| *requests > 0.0 && failed == 0.0)
}

#[cfg(test)]
mod tests {
    use super::{requests, successes};

    #[test]
    fn requests_of_bombardier_are_read() {
        let told = |ok, failed| {
            successes(&format!(
                r#"{{"result":{{"req1xx":0,"req2xx":{ok},"req3xx":0,"req4xx":0,"req5xx":0,"others":{failed}}}}}"#
            ))
        };
        assert_eq!((told(9, 0), told(9, 1), told(0, 0), successes("")), (Some(9.0), None, None, None));
    }

    #[test]
    fn requests_of_wrk_are_read() {
        let good = "Running 1s test @ http://x\n  1 threads and 4 connections\n  98765 requests in 1.10s, 9.1MB read\n";
        assert_eq!(requests(good), Some(98_765.0));
        assert_eq!((requests(&format!("{good}  Non-2xx or 3xx responses: 3\n")), requests("")), (None, None));
    }
}
