//! CouchDB's protocol compared with `couchrestore`, into the same pouchdb-server with the same number of requests at
//! once.

use std::fmt::Write as _;
use std::io::{BufWriter, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Instant;

use super::{Documents, Lab, TOPIC};
use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;
use crate::servers::{Server, program};

const DOCUMENTS: u64 = 20_000;
/// Requests at once, and documents in each: the defaults of `couchrestore`.
const AT_ONCE: &str = "5";
const BATCH: usize = 500;

pub(super) fn measure(options: &Options, lab: &Lab) -> Result<Vec<Figure>, Failure> {
    let server = Server::start("pouchdb-server", &[])?;
    let documents = Documents::new(options.work(DOCUMENTS), "1KiB")?;
    let lines = lab.lines(&documents)?;
    let backup = lab.path("documents.backup");
    write_backup(&documents, &backup)?;
    let count = documents.count as f64;
    // A new database each time. `couchrestore` asks a database how many documents were deleted in it, which
    // pouchdb-server does not know. It does not ask databases whose names begin with `_`.
    let number = std::cell::Cell::new(0);
    let next = || number.replace(number.get() + 1);
    let mut ours = || {
        let words = format!("--to-collection c{} --in-flight {AT_ONCE} --batch {BATCH} --batch-bytes 64MiB", next());
        let done = lab.copy(&lines, &server.url, &words)?;
        Ok([done.documents / done.wall_s])
    };
    let mut theirs = || {
        let database = format!("_bench{}", next());
        make(server.port, &database)?;
        let mut restore = program("couchbackup", "couchrestore")?;
        restore.args(["--url", &format!("http://127.0.0.1:{}", server.port), "--db", &database]);
        restore.args(["--parallelism", AT_ONCE, "--buffer-size", &BATCH.to_string()]);
        restore.stdin(std::fs::File::open(&backup)?).stdout(Stdio::null()).stderr(Stdio::piped());
        let begun = Instant::now();
        let output = restore.output()?;
        let seconds = begun.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || !said.contains(&format!("total: {}", documents.count)) {
            return Err(format!("couchrestore did not restore all: {}", said.lines().last().unwrap_or_default()).into());
        }
        Ok([count / seconds])
    };
    let all = interleave::<1>(options.rounds, vec![&mut ours, &mut theirs])?;
    let [[ours], [theirs]] = &all[..] else { return Err("two sides give two results".into()) };
    Ok(vec![
        Figure::new(TOPIC, "jsonl to couchdb: 1 KiB documents, 5 requests at once", Unit::DocsPerS, ours.clone())
            .beside("couchrestore", theirs.clone())
            .target(Target::RatioAtLeast(3.0))
            .note("pouchdb-server takes most of the time on both sides; couchrestore keeps revisions, ours makes new ones"),
    ])
}

/// A backup as `couchbackup` writes it: a list of documents with their revisions on each line.
fn write_backup(documents: &Documents, path: &std::path::Path) -> Result<(), Failure> {
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    out.write_all(
        b"{\"name\":\"@cloudant/couchbackup\",\"version\":\"2.11.12\",\"mode\":\"full\",\"attachments\":false}\n",
    )?;
    let mut revision = String::new();
    let mut number = 0;
    documents.each(&mut |key, body| {
        out.write_all(match number % BATCH {
            0 if number == 0 => b"[".as_slice(),
            0 => b"]\n[",
            _ => b",",
        })?;
        number += 1;
        revision.clear();
        let _ = write!(revision, "\",\"_rev\":\"1-{number:032x}\",");
        out.write_all(b"{\"_id\":\"")?;
        out.write_all(key)?;
        out.write_all(revision.as_bytes())?;
        out.write_all(&body[1..])
    })?;
    out.write_all(b"]\n")?;
    out.flush().map_err(Into::into)
}

/// Creates a database.
fn make(port: u16, name: &str) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "PUT /{name} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 201") { Ok(()) } else { Err(format!("no database created: {answer}").into()) }
}
