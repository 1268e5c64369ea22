//! GETs over HTTP: `wrk`, which fetches the same document from the same server over as many connections.
//!
//! The server is a thread of this program that answers every read with one document of 1 KiB, as CouchDB would, at once or
//! after 1 ms, which its timer makes up to 2 ms. The cost of a real server would only hide the clients.

use std::process::Command;
use std::time::Duration;

use super::{COLLECTION, Contest, Measured, Side, all, ours};
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
        Contest {
            name,
            work: format!(
                "GET, {connections} connections, from a server that answers {}",
                if port == at_once { "at once" } else { "after 1 to 2 ms" }
            ),
            sides: vec![
                Side { tool: "storebench", operations, command: Box::new(own), done: None },
                Side { tool: "wrk", operations, command: Box::new(wrk), done: Some(requests) },
            ],
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

#[cfg(test)]
mod tests {
    use super::requests;

    #[test]
    fn requests_of_wrk_are_read() {
        let good = "Running 1s test @ http://x\n  1 threads and 4 connections\n  98765 requests in 1.10s, 9.1MB read\n";
        assert_eq!(requests(good), Some(98_765.0));
        assert_eq!((requests(&format!("{good}  Non-2xx or 3xx responses: 3\n")), requests("")), (None, None));
    }
}
