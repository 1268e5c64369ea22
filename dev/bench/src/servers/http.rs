//! GETs over HTTP through the engine, compared with `wrk`, which fetches the same document from the same server over
//! the same number of connections.
//!
//! The server is a thread of this program that answers every read with one document of 1 KiB, as CouchDB would. The
//! cost of a real server would only hide the clients. Both clients run as fast as they can, so at nearly the same rate,
//! which is reported.

use std::net::TcpListener;
use std::thread;

use super::{TOPIC, child_cpu_us, cpu_us_of_one, program};
use crate::Failure;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;
use crate::subject::Subject;

const CONNECTIONS: [u32; 3] = [4, 16, 64];
const PATH: &str = "/storebench-documents/documents%2F0000000000";

fn study(operations: u64) -> String {
    let phases: String = CONNECTIONS
        .iter()
        .map(|connections| {
            format!(
                r#"
[[phases]]
name = "get-{connections}"
mix = {{ read = 1 }}
popularity = "uniform"
workers = 1
connections = 1
in_flight = {connections}
operations = {operations}
check = 0
"#
            )
        })
        .collect();
    format!(
        r#"
title = "Reads over HTTP"
seed = 435
[collections.documents]
count = 100_000
key = "documents/{{index:010}}"
size = "1KiB"
fields = {{ text = {{ text = "fill" }} }}
{phases}"#
    )
}

pub(super) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let operations = options.work(200_000);
    let subject = Subject::new(&study(operations))?;
    let mut body = Vec::new();
    subject.documents().write_document(0, 0, &mut body);
    let port = serve(&String::from_utf8(body)?)?;
    let store = storebench_stores::open(&format!("couchdb://127.0.0.1:{port}"))?;
    store.inspect()?;
    store.prepare(&subject.layout(), storebench_engine::store::Prepare::ReadOnly)?;
    let mut figures = Vec::new();
    for connections in CONNECTIONS {
        if !options.wants(TOPIC, &format!("http get {connections}")) {
            continue;
        }
        let phase = format!("get-{connections}");
        let mut ours = || {
            let record = subject.run(&store, &phase)?;
            Ok([cpu_us_of_one(&record), record.operations() as f64 * 1e9 / record.elapsed_ns.max(1) as f64])
        };
        let mut theirs = || wrk(port, connections, if options.quick { 1 } else { 3 });
        let all = interleave::<2>(options.rounds, vec![&mut ours, &mut theirs])?;
        let [[ours, rate], [wrk, wrk_rate]] = &all[..] else { return Err("two sides give two results".into()) };
        figures.push(
            Figure::new(TOPIC, format!("http get {connections}: CPU of a 1 KiB document"), Unit::Us, ours.clone())
                .beside("wrk", wrk.clone())
                .target(Target::RatioAtMost(1.5))
                .note(rates(rate, wrk_rate)),
        );
    }
    Ok(figures)
}

fn rates(ours: &Samples, wrk: &Samples) -> String {
    format!("through the engine {:.0} per second, wrk {:.0}", ours.median(), wrk.median())
}

/// Processor time of a request in µs, and requests a second, of `wrk` on one thread.
fn wrk(port: u16, connections: u32, seconds: u32) -> Result<[f64; 2], Failure> {
    let mut command = program("bench_tools", "wrk")?;
    command.args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s")]);
    let (cpu_us, text) = child_cpu_us(command.arg(format!("http://127.0.0.1:{port}{PATH}")))?;
    let line = text.lines().find(|line| line.contains("requests in"));
    let requests = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let requests =
        requests.filter(|requests| *requests > 0.0).ok_or_else(|| format!("wrk reported no requests: {text}"))?;
    if text.contains("Non-2xx") || text.contains("Socket errors") {
        return Err(format!("wrk reported errors: {text}").into());
    }
    Ok([cpu_us / requests, requests / f64::from(seconds)])
}

/// Starts the server and returns its port. It answers as long as this program runs.
fn serve(document: &str) -> Result<u16, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let answer = |headers: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\n{headers}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let members = document.strip_prefix('{').ok_or("a document is a JSON object")?;
    let revision = "1-967a00dff5e02add41819138abb3284d";
    let document = format!(r#"{{"_id":"documents/0000000000","_rev":"{revision}",{members}"#);
    let headers = format!("Server: CouchDB/3.3.3 (Erlang OTP/24)\r\nETag: \"{revision}\"\r\n");
    let answers = Answers {
        welcome: answer("", r#"{"couchdb":"Welcome","version":"3.3.3"}"#),
        databases: answer("", r#"["storebench-documents"]"#),
        marker: answer("", r#"{"made_by":"storebench"}"#),
        information: answer("", r#"{"doc_count":100000}"#),
        document: answer(&headers, &document),
    };
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        let answers: &'static Answers = Box::leak(Box::new(answers));
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            while let Ok((stream, _)) = listener.accept().await {
                // Otherwise a send would wait for an acknowledgement, and the figure would include that.
                let _ = stream.set_nodelay(true);
                tokio::spawn(answers.serve(stream));
            }
        });
    });
    Ok(port)
}

/// What the server answers, head and body.
struct Answers {
    welcome: String,
    databases: String,
    marker: String,
    information: String,
    document: String,
}

impl Answers {
    /// Requests arrive one at a time and complete, because both clients wait for each answer.
    async fn serve(&'static self, stream: tokio::net::TcpStream) {
        let mut request = vec![0; 4_096];
        loop {
            if stream.readable().await.is_err() {
                return;
            }
            let answer = match stream.try_read(&mut request) {
                Ok(0) => return,
                Ok(length) => self.to(&request[..length]),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => return,
            };
            // A drained socket accepts an answer of this size at once.
            if !matches!(stream.try_write(answer.as_bytes()), Ok(written) if written == answer.len()) {
                return;
            }
        }
    }

    fn to(&self, request: &[u8]) -> &str {
        let begins = |path: &str| request.starts_with(path.as_bytes());
        match () {
            () if begins("GET / ") => &self.welcome,
            () if begins("GET /_all_dbs") => &self.databases,
            () if begins("GET /storebench%2Ddocuments/_local") => &self.marker,
            () if begins("GET /storebench%2Ddocuments/ ") => &self.information,
            () => &self.document,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn the_server_answers_a_document_to_any_key() {
        let port = serve(r#"{"text":"x"}"#).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        for _ in 0..2 {
            stream.write_all(format!("GET {PATH} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
            let mut room = [0; 1_000];
            let length = stream.read(&mut room).unwrap();
            let text = String::from_utf8_lossy(&room[..length]);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with(r#","text":"x"}"#), "{text}");
        }
    }
}
