//! Runs a fake Couchbase cluster until it is killed: `couchbase-fake --port P [--nodes N] [--replicas R]`.
//!
//! Prints the URL that Storebench opens.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use storebench_fakes::couchbase::{Fake, FakeOptions};

const USAGE: &str = "usage: couchbase-fake [--port P] [--nodes N] [--replicas R] [--vbuckets V]\n       [--lacks collections|durable-writes|keeping-expiry]...";

fn options() -> Option<FakeOptions> {
    let mut options = FakeOptions::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--port" => options.port = value.parse().ok()?,
            "--nodes" => options.nodes = value.parse().ok()?,
            "--replicas" => options.replicas = value.parse().ok()?,
            "--vbuckets" => options.vbuckets = value.parse().ok().filter(|count| *count > 0)?,
            "--lacks" => match value.as_str() {
                "collections" => options.lacks.collections = true,
                "durable-writes" => options.lacks.durable_writes = true,
                "keeping-expiry" => options.lacks.keeping_expiry = true,
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match Fake::start(options) {
        Ok(fake) => {
            println!("{}", fake.url());
            loop {
                std::thread::park();
            }
        }
        Err(error) => {
            eprintln!("couchbase-fake: {error}; choose another --port");
            ExitCode::FAILURE
        }
    }
}
