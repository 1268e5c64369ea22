//! A table of two columns into Redis, compared with `redis-cli --pipe`, which writes the same keys and values.

use std::io::{BufWriter, Write};
use std::process::Stdio;
use std::time::Instant;

use super::{Documents, Lab, TOPIC};
use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;
use crate::servers::{Server, program};

const ROWS: u64 = 1_000_000;

/// Converts the table to Redis's protocol, as its manual describes.
const AWK: &str = r#"NR > 1 {
    key = "storebench:documents:" $1; value = "{\"value\":\"" $2 "\"}"
    printf "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", length(key), key, length(value), value
}"#;

pub(super) fn measure(options: &Options, lab: &Lab) -> Result<Vec<Figure>, Failure> {
    let server = Server::start("redis", &[])?;
    let documents = Documents::new(options.work(ROWS), "100B")?;
    let (table, protocol) = (lab.path("rows.csv"), lab.path("rows.resp"));
    let (mut rows, mut commands) = (writer(&table)?, writer(&protocol)?);
    rows.write_all(b"_id,value\n")?;
    let mut number = 0_u64;
    documents.each(&mut |key, _| {
        let key = String::from_utf8_lossy(key);
        let value = format!("value {number} of some length as it stands in a table of two columns");
        number += 1;
        writeln!(rows, "{key},{value}")?;
        let (key, value) = (format!("storebench:documents:{key}"), format!("{{\"value\":\"{value}\"}}"));
        write!(commands, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n{value}\r\n", key.len(), value.len())
    })?;
    rows.flush()?;
    commands.flush()?;
    let count = documents.count as f64;
    let mut ours = || {
        let done = lab.copy(&table, &server.url, "--to-collection documents --durability none")?;
        Ok([done.documents / done.wall_s])
    };
    let pipe = |input: Stdio| {
        let mut cli = program("redis", "redis-cli")?;
        cli.args(["-p", &server.port.to_string(), "--pipe"]).stdin(input);
        let output = cli.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !said.contains(&format!("errors: 0, replies: {}", documents.count)) {
            return Err::<(), Failure>(format!("redis-cli did not write all: {said}").into());
        }
        Ok(())
    };
    let mut ready = || {
        let begun = Instant::now();
        pipe(std::fs::File::open(&protocol)?.into())?;
        Ok([count / begun.elapsed().as_secs_f64()])
    };
    let mut converted = || {
        let begun = Instant::now();
        let mut awk = std::process::Command::new("awk");
        let mut awk = awk.args(["-F,", AWK]).arg(&table).stdout(Stdio::piped()).spawn()?;
        let made = awk.stdout.take().ok_or("awk has no standard output")?;
        let piped = pipe(made.into());
        awk.wait()?;
        piped?;
        Ok([count / begun.elapsed().as_secs_f64()])
    };
    let all = interleave::<1>(options.rounds, vec![&mut ours, &mut ready, &mut converted])?;
    let [[ours], [ready], [converted]] = &all[..] else { return Err("three sides give three results".into()) };
    Ok(vec![
        Figure::new(TOPIC, "csv to redis: two columns, one connection", Unit::DocsPerS, ours.clone())
            .beside("redis-cli --pipe of its own protocol", ready.clone())
            .target(Target::RatioAtLeast(1.0)),
        Figure::new(TOPIC, "csv to redis: the same", Unit::DocsPerS, ours.clone())
            .beside("awk makes the protocol for redis-cli --pipe", converted.clone()),
    ])
}

fn writer(path: &std::path::Path) -> Result<BufWriter<std::fs::File>, Failure> {
    Ok(BufWriter::new(std::fs::File::create(path)?))
}
