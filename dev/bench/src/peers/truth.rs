//! Response times that clients report, beside those that follow from arithmetic. Requests are due at a fixed rate, the
//! server takes 1 ms for each, and once it freezes for 500 ms. Whoever counts from when a request was due reports what
//! users would have seen. Whoever counts from when it was sent at last leaves out that it waited.

use std::path::Path;
use std::process::Command;

use super::redis::{Ycsb, go, go_ycsb};
use super::stub::{FREEZE, FREEZE_AFTER, SERVICE, Stub};
use super::{TOPIC, bench, load, page, process};
use crate::Failure;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;
use crate::servers::{Server, program};

const SECONDS: u64 = 20;
pub(super) const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// Connections of the clients that wait for each answer.
const THREADS: u64 = 64;

/// What clients reported at a rate.
pub(super) struct Latency {
    pub(super) rate: u64,
    /// In ms.
    pub(super) truth: [f64; 3],
    pub(super) rows: Vec<Reported>,
}

pub(super) struct Reported {
    pub(super) tool: &'static str,
    /// In ms, over the rounds.
    pub(super) values: [Samples; 3],
    pub(super) command: String,
}

impl Latency {
    /// How far each report is from the truth, in percent of it.
    pub(super) fn error(&self, reported: &Reported, at: usize) -> Samples {
        let truth = self.truth[at];
        Samples(reported.values[at].0.iter().map(|value| (value / truth - 1.0) * 100.0).collect())
    }

    pub(super) fn figures(&self) -> Vec<Figure> {
        let [ours, others @ ..] = &self.rows[..] else { return Vec::new() };
        let size = |samples: Samples| Samples(samples.0.into_iter().map(f64::abs).collect());
        let figure = |(at, (name, _)): (usize, &(&str, f64))| {
            let told: Vec<String> =
                others.iter().map(|row| format!("{} {:+.0} %", row.tool, self.error(row, at).median())).collect();
            Figure::new(
                TOPIC,
                format!("latency {}: error of {name}", self.rate),
                Unit::Percent,
                size(self.error(ours, at)),
            )
            .target(Target::AtMost(2.0))
            .note(format!("{:.2} ms by arithmetic; {}", self.truth[at], told.join(", ")))
        };
        PERCENTILES.iter().enumerate().map(figure).collect()
    }
}

/// Response times in ms by arithmetic, for requests that are due at this rate.
fn truth(rate: u64) -> [f64; 3] {
    let [service, begins, lasts] = [SERVICE, FREEZE_AFTER, FREEZE].map(|time| time.as_secs_f64() * 1e3);
    let ends = begins + lasts;
    let response = |number: u64| {
        let at = number as f64 * 1e3 / rate as f64;
        match at {
            // It is being served when the server freezes, and so answered when that is over.
            at if at < begins && at + service > begins => ends - at,
            at if at >= begins && at < ends => ends - at + service,
            _ => service,
        }
    };
    let mut all: Vec<f64> = (0..rate * SECONDS).map(response).collect();
    all.sort_by(f64::total_cmp);
    PERCENTILES.map(|(_, share)| all[((all.len() as f64 * share).ceil() as usize).max(1) - 1])
}

pub(super) fn measure(options: &Options, rate: u64) -> Result<Latency, Failure> {
    let redis = Server::start("redis", &[])?;
    load(&redis.url, &["--durability", "none"])?;
    let (ycsb, go_ycsb) = (Ycsb::build()?, go_ycsb()?);
    // Each run has its own stub, which freezes once.
    let run = |client: &Client<'_>| -> Result<[f64; 3], Failure> {
        let stub = Stub::start(redis.port)?;
        let ended = process::run(&mut (client.command)(stub.port)?, &[0, 4])?;
        let told = (client.read)(&ended.text);
        told.ok_or_else(|| format!("{} did not tell its percentiles: {}", client.tool, ended.text).into())
    };
    let clients = clients(rate, &ycsb, &go_ycsb);
    let mut once: Vec<_> = clients.iter().map(|client| || run(client)).collect();
    let sides = once.iter_mut().map(|once| once as &mut dyn FnMut() -> Result<[f64; 3], Failure>).collect();
    let all = interleave::<3>(if options.quick { 1 } else { options.rounds.min(3) }, sides)?;
    let row = |(client, values): (&Client<'_>, [Samples; 3])| {
        Ok(Reported { tool: client.tool, values, command: page::shown(&(client.command)(6_379)?) })
    };
    let rows = clients.iter().zip(all).map(row).collect::<Result<_, Failure>>()?;
    Ok(Latency { rate, truth: truth(rate), rows })
}

struct Client<'a> {
    tool: &'static str,
    /// By the stub's port.
    command: Box<dyn Fn(u16) -> Result<Command, Failure> + 'a>,
    /// The percentiles that it printed, in ms.
    read: fn(&str) -> Option<[f64; 3]>,
}

fn clients<'a>(rate: u64, ycsb: &'a Ycsb, go_ycsb: &'a Path) -> Vec<Client<'a>> {
    let operations = rate * SECONDS;
    let ours = move |port: u16| {
        let (rate, seconds) = (rate.to_string(), format!("{SECONDS}s"));
        let mut command = bench(&format!("redis://127.0.0.1:{port}"), &["--rate", &rate, "--duration", &seconds])?;
        command.args(["--no-load", "--mix", "read=1", "--check", "0", "--warm-up", "0s", "--pacing", "precise"]);
        command.args(["--workers", "1", "--connections", "64", "--in-flight", "64"]);
        Ok(command)
    };
    let by_ycsb = move |port: u16| {
        let target = ["recordcount", "operationcount", "target", "threadcount"];
        let more: Vec<_> = target.into_iter().zip([1_000, operations, rate, THREADS]).collect();
        let mut command = ycsb.command("-t", &port.to_string(), &more);
        command.args(["-p", "readproportion=1", "-p", "updateproportion=0", "-target", &rate.to_string()]);
        Ok(command)
    };
    let by_go = move |port: u16| {
        let names = ["recordcount", "operationcount", "target", "threadcount"];
        let more: Vec<_> = names.into_iter().zip([1_000, operations, rate, THREADS]).collect();
        let mut command = go(go_ycsb, "run", &port.to_string(), &more);
        command.args(["readproportion=1", "updateproportion=0"]);
        Ok(command)
    };
    // It knows no rate: as many clients as make this rate with 1 ms each.
    let by_redis_benchmark = move |port: u16| {
        let mut command = program("redis", "redis-benchmark")?;
        command.args(["-p", &port.to_string(), "-t", "get", "-c", &(rate / 1_000).to_string()]);
        command.args(["-n", &operations.to_string()]);
        Ok(command)
    };
    vec![
        Client { tool: "storebench", command: Box::new(ours), read: by_result },
        Client { tool: "YCSB, Intended-READ", command: Box::new(by_ycsb), read: by_ycsb_intended },
        Client { tool: "YCSB, READ", command: Box::new(by_ycsb), read: by_ycsb_read },
        Client { tool: "go-ycsb", command: Box::new(by_go), read: by_go_ycsb },
        Client { tool: "redis-benchmark", command: Box::new(by_redis_benchmark), read: by_distribution },
    ]
}

/// Of our result, in JSON.
fn by_result(text: &str) -> Option<[f64; 3]> {
    let result: serde_json::Value = serde_json::from_str(text.get(text.find('{')?..=text.rfind('}')?)?).ok()?;
    let phases = result["trials"][0]["phases"].as_array()?;
    let times = &phases.last()?["all"]["response_ns"];
    let [p50, p99, p99_9] = ["p50", "p99", "p99_9"].map(|name| times[name].as_f64().map(|ns| ns / 1e6));
    Some([p50?, p99?, p99_9?])
}

fn by_ycsb_intended(text: &str) -> Option<[f64; 3]> {
    by_ycsb_of(text, "[Intended-READ]")
}

fn by_ycsb_read(text: &str) -> Option<[f64; 3]> {
    by_ycsb_of(text, "[READ]")
}

/// Lines such as `[READ], 99.9PercentileLatency(us), 1234`.
fn by_ycsb_of(text: &str, which: &str) -> Option<[f64; 3]> {
    let value = |percentile: &str| {
        let line = text.lines().find(|line| {
            let mut cells = line.split(", ");
            cells.next() == Some(which)
                && cells.next().is_some_and(|name| {
                    name.trim_start_matches(percentile).starts_with(['t', 'P']) && name.starts_with(percentile)
                })
        })?;
        line.rsplit(", ").next()?.trim().parse::<f64>().ok().map(|us| us / 1e3)
    };
    Some([value("50")?, value("99")?, value("99.9")?])
}

/// A line such as `READ - Takes(s): 20.0, Count: 20000, …, 50th(us): 1100, …`; the last one is of the complete run.
fn by_go_ycsb(text: &str) -> Option<[f64; 3]> {
    let line = text.lines().rfind(|line| line.starts_with("READ ") && line.contains("99.9th(us): "))?;
    let value = |name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}th(us): "))?;
        rest.split(',').next()?.trim().parse::<f64>().ok().map(|us| us / 1e3)
    };
    Some([value("50")?, value("99")?, value("99.9")?])
}

/// Lines such as `99.951% <= 1.103 milliseconds (cumulative count 19990)`: the first that reaches the share.
fn by_distribution(text: &str) -> Option<[f64; 3]> {
    let lines: Vec<(f64, f64)> = text
        .lines()
        .filter_map(|line| {
            let (share, rest) = line.trim().split_once("% <= ")?;
            Some((share.parse().ok()?, rest.split(' ').next()?.parse().ok()?))
        })
        .collect();
    let value = |share: f64| lines.iter().find(|(reached, _)| *reached >= share * 100.0).map(|(_, ms)| *ms);
    let [p50, p99, p99_9] = PERCENTILES.map(|(_, share)| value(share));
    Some([p50?, p99?, p99_9?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_is_arithmetic() {
        // 500 of 20,000 requests meet the frozen server: 2.5 %. The worst 1 % are the first two fifths of them.
        let [p50, p99, p99_9] = truth(1_000);
        assert_eq!(p50, 1.0);
        assert!((p99 - 302.0).abs() < 2.0 && (p99_9 - 482.0).abs() < 2.0, "{p99} {p99_9}");
        let [p50, p99, p99_9] = truth(20_000);
        assert_eq!(p50, 1.0);
        assert!((p99 - 302.0).abs() < 2.0 && (p99_9 - 482.0).abs() < 2.0, "{p99} {p99_9}");
    }

    #[test]
    fn what_clients_print_is_read() {
        let ycsb = "[READ], AverageLatency(us), 1\n[READ], 50thPercentileLatency(us), 1100\n\
                    [READ], 99thPercentileLatency(us), 1200\n[READ], 99.9PercentileLatency(us), 1300\n";
        assert_eq!(by_ycsb_read(ycsb), Some([1.1, 1.2, 1.3]));
        assert_eq!(by_ycsb_intended(ycsb), None);
        let go = "READ   - Takes(s): 1.0, Count: 9, OPS: 9.0, 50th(us): 1100, 90th(us): 1, 95th(us): 1, 99th(us): 1200, \
                  99.9th(us): 1300, 99.99th(us): 1\n";
        assert_eq!(by_go_ycsb(go), Some([1.1, 1.2, 1.3]));
        let redis = "0.000% <= 0.900 milliseconds (cumulative count 1)\n50.000% <= 1.007 milliseconds (cumulative count 3)\n\
                     99.219% <= 1.1 milliseconds (cumulative count 3)\n100.000% <= 1.3 milliseconds (cumulative count 3)\n";
        assert_eq!(by_distribution(redis), Some([1.007, 1.1, 1.3]));
        let ours = r#"{"trials":[{"phases":[{},{"all":{"response_ns":{"p50":1e6,"p99":2e6,"p99_9":3e6}}}]}]}"#;
        assert_eq!(by_result(&format!("{ours}\nsaved\n")), Some([1.0, 2.0, 3.0]));
    }
}
