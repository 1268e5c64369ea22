//! `docs/efficiency.md`, from what was measured.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::truth::{Latency, PERCENTILES};
use super::{Measured, process};
use crate::Failure;
use crate::figure::Samples;
use crate::machine::Machine;
use crate::servers::program;

const HEAD: &str = "\
# The client beside its peers

`make bench-peers` measures this page and writes it. Each client is a complete process, as its users start it, doing the same
work on the same server: the same number of connections, the same number of operations in flight, documents of 1 KiB. The
clients take turns within each round. Figures are medians over the rounds, with the smallest and the largest in brackets.

*CPU of an operation* is the processor time of the complete process, in the kernel and outside it, for each operation.
Start and end are subtracted: they are what a run of a tenth of the operations takes, too. Storebench generates a document
that was never generated before for each write, and keeps histograms of service and response times.

*Memory* is the most that was resident, and after it what the process allocated itself. The difference is the program with its
libraries, which the system reads from its file and can drop at any time: Storebench's has every store and format in it.
";

const LATENCY: &str = "\
## Response times against a known truth

The server is a stub that answers each GET after exactly 1 ms and freezes once for 500 ms. Requests are due at a fixed rate
for 20 s. So the percentiles of the response time, counted from when a request was due, follow from arithmetic. *Error* is
what a client reports, over that. A client that waits for each answer sends nothing while the server is frozen, and so
leaves out most of what users would have waited. `redis-benchmark` knows no rate; it has as many clients as make this rate.
";

const MISSED: &str = "\
## What stands in the way

Where a target is missed, this is why, by counts of instructions (`make check-speed`) and profiles of the client:

- **Redis and memcached, 16 and 64 in flight.** The peers do less: `redis-benchmark` sends one block again and again, with other
  digits in the key, and `memcaslap` cuts values out of one block. Storebench draws a key, generates a document, checks what
  kind of answer came, and records two times in histograms. A GET takes about 2,600 instructions outside the kernel: to draw the
  key and write it 460, the request and `send` 380, the protocol 750, completion and bookkeeping 640. A SET takes 1,700 more, and 30 %
  of its time is copying: words from the corpus to the document, and the document to the connection's buffer. To take less,
  documents would have to be generated in that buffer, and keys drawn in batches.
- **One operation in flight on each connection** (pgbench, YCSB, `wrk` with 4 connections). Three quarters and more of the time
  is the kernel's, for one `send`, one `recv` and one `epoll_wait` for each operation. The rest is less than the target asks
  for. To take less, there would have to be fewer system calls, as with io_uring.
- **HTTP servers that take 1 ms.** With few connections, most wake-ups serve one answer, with cold caches. What the client does
  beside that in a second costs as much as 500 requests, most of it a sample of the process each 17 ms, by which a result tells
  whether the client was delayed. With fewer samples, `own_delay_share` would be less certain.
- **Response times.** At 1,000 requests a second, an answer comes just when the next request is sent, and waits for that. After
  the freeze, 10,000 requests wait. Arithmetic answers them at once; the stub and the client take some ms.
";

/// Writes the page.
pub(super) fn write(contests: &[Measured], latencies: &[Latency]) -> Result<(), Failure> {
    let rounds = contests.iter().flat_map(|contest| &contest.rows).map(|row| row.cpu_us.0.len()).max().unwrap_or(0);
    let mut page = format!("{HEAD}\nRounds: {rounds}. {}.\n", Machine::look());
    for server in ["redis", "memcached", "postgres", "mysql", "cassandra", "http"] {
        let of_server: Vec<_> = contests.iter().filter(|contest| contest.name.starts_with(server)).collect();
        if !of_server.is_empty() {
            table(&mut page, server, &of_server)?;
        }
    }
    if !latencies.is_empty() {
        write!(page, "\n{LATENCY}")?;
        for latency in latencies {
            reports(&mut page, latency)?;
        }
    }
    write!(page, "\n{MISSED}")?;
    commands(&mut page, contests, latencies)?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/efficiency.md");
    Ok(std::fs::write(file, page)?)
}

fn table(page: &mut String, server: &str, contests: &[&Measured]) -> Result<(), Failure> {
    let name = match server {
        "redis" => "Redis",
        "memcached" => "memcached",
        "postgres" => "PostgreSQL",
        "mysql" => "MariaDB",
        "cassandra" => "Cassandra",
        _ => "HTTP",
    };
    writeln!(page, "\n## {name}\n")?;
    writeln!(
        page,
        "| work | client | CPU of an operation | outside the kernel | Storebench ÷ it | target | operations/s | memory, its own |"
    )?;
    writeln!(page, "|---|---|---|---|---|---|---|---|")?;
    for contest in contests {
        let [ours, ..] = &contest.rows[..] else { continue };
        for (at, row) in contest.rows.iter().enumerate() {
            let ratio: Samples =
                Samples(ours.cpu_us.0.iter().zip(&row.cpu_us.0).map(|(ours, theirs)| ours / theirs).collect());
            let (ratio, target) = match at {
                0 => (String::new(), String::new()),
                _ if ratio.median() <= contest.target => (range(&ratio), format!("≤ {}, met", contest.target)),
                _ => (range(&ratio), format!("≤ {}, **missed**", contest.target)),
            };
            let work = if at == 0 { contest.work.as_str() } else { "" };
            writeln!(
                page,
                "| {work} | {} | {} µs | {:.2} µs | {ratio} | {target} | {:.0} | {:.0}, {:.0} MB |",
                row.tool,
                range(&row.cpu_us),
                row.user_us.median(),
                row.per_s.median(),
                row.peak_mb.median(),
                row.own_mb.median()
            )?;
        }
    }
    let mut notes: Vec<&str> = contests.iter().filter_map(|contest| contest.note).collect();
    notes.sort_unstable();
    notes.dedup();
    for note in notes {
        let mut letters = note.chars();
        let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        writeln!(page, "\n{first}{}.", letters.as_str())?;
    }
    Ok(())
}

fn reports(page: &mut String, latency: &Latency) -> Result<(), Failure> {
    writeln!(page, "\n{} requests a second:\n", latency.rate)?;
    let heads: String = PERCENTILES.iter().map(|(name, _)| format!(" {name} | error |")).collect();
    writeln!(page, "| |{heads}\n|---|---|---|---|---|---|---|")?;
    let truth: String = latency.truth.iter().map(|ms| format!(" {ms:.2} ms | |")).collect();
    writeln!(page, "| by arithmetic |{truth}")?;
    for row in &latency.rows {
        let cells = (0..PERCENTILES.len()).map(|at| {
            let error = latency.error(row, at);
            format!(" {:.2} ms | {:+.1} % |", row.values[at].median(), error.median())
        });
        writeln!(page, "| {} |{}", row.tool, cells.collect::<String>())?;
    }
    Ok(())
}

fn commands(page: &mut String, contests: &[Measured], latencies: &[Latency]) -> Result<(), Failure> {
    writeln!(page, "\n## Versions and commands\n")?;
    for (tool, version) in versions() {
        writeln!(page, "- {tool}: {version}")?;
    }
    writeln!(page, "\n```console")?;
    for row in contests.iter().flat_map(|contest| &contest.rows) {
        writeln!(page, "$ {}", row.command)?;
    }
    for row in latencies.iter().flat_map(|latency| &latency.rows) {
        writeln!(page, "$ {}", row.command)?;
    }
    writeln!(page, "```")?;
    Ok(())
}

/// The version of each client, by itself.
fn versions() -> Vec<(&'static str, String)> {
    let first_line = |command: Result<Command, Failure>, argument: &str| {
        let ended = command.and_then(|mut command| process::run(command.arg(argument), &[0, 1]));
        ended.map_or_else(|e| e.to_string(), |ended| ended.text.lines().next().unwrap_or_default().trim().to_owned())
    };
    vec![
        ("Storebench", first_line(crate::program::program().map(Command::new), "--version")),
        ("redis-benchmark", first_line(program("redis", "redis-benchmark"), "--version")),
        ("memcaslap", first_line(program("bench_tools", "memcaslap"), "--version")),
        ("pgbench", first_line(program("postgres", "pgbench"), "--version")),
        ("wrk", first_line(program("bench_tools", "wrk"), "--version")),
        ("bombardier", "1.2.6, built from `dev/bench/peers/bombardier`".to_owned()),
        ("YCSB", "core 0.17.0, with the binding in `dev/bench/peers/ycsb` and Jedis 5.2.0".to_owned()),
        ("Java", first_line(Ok(Command::new("java")), "-version")),
        ("go-ycsb", "1.0.3, core workload and binding to Redis, started by `dev/bench/peers/go-ycsb`".to_owned()),
        ("Go", first_line(Ok(Command::new("go")), "version")),
    ]
}

/// A command as a reader would type it: programs and files by their names, nothing longer than a line.
pub(super) fn shown(command: &Command) -> String {
    let short = |text: &str| {
        let name = if text.starts_with('/') { text.rsplit('/').next().unwrap_or(text) } else { text };
        if name.chars().count() > 60 { name.chars().take(30).chain("…".chars()).collect() } else { name.to_owned() }
    };
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| short(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// Median, least and greatest.
fn range(samples: &Samples) -> String {
    let places = if samples.median() < 10.0 { 2 } else { 1 };
    format!("{:.places$} ({:.places$}–{:.places$})", samples.median(), samples.least(), samples.greatest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_short() {
        let mut command = Command::new("/a/b/wrk");
        command.args(["-t1", "/tmp/x/y.sql", &"z".repeat(100)]);
        assert_eq!(shown(&command), format!("wrk -t1 y.sql {}…", "z".repeat(30)));
    }
}
