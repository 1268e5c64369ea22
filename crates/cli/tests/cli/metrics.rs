//! `--metrics`: a real Prometheus that scrapes a run, a receiver of OTLP, and those that hang, refuse or are taken.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use serde_json::Value;

use crate::common::{Cli, installed};
use crate::server::free_port;

/// A bench that takes some seconds.
const LONG: &str = "bench memory: --docs 2000 --rate 2000 --duration 8s --warm-up 0s --metrics";

/// The answer to a request for this path, with its head.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    // HTTP/1.0 has no chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    String::from_utf8(answer).ok()
}

/// The JSON in an answer.
fn json(answer: &str) -> Value {
    let (begin, end) = (answer.find('{').unwrap(), answer.rfind('}').unwrap());
    serde_json::from_str(&answer[begin..=end]).unwrap_or_else(|e| panic!("{e}: {answer}"))
}

/// Operations that the result of the only run has, however they ended.
fn operations(cli: &Cli) -> f64 {
    let result: Value = serde_json::from_slice(&std::fs::read(cli.run_folder().join("run.json")).unwrap()).unwrap();
    let phases = result["trials"][0]["phases"].as_array().unwrap();
    let ops = phases.iter().flat_map(|phase| phase["ops"].as_object().unwrap().values());
    ops.map(|op| op["count"].as_f64().unwrap() + op["unfinished"].as_f64().unwrap()).sum()
}

/// Ends a process with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn prometheus_scrapes_a_run() {
    let (root, libraries) = installed("prometheus");
    let cli = Cli::new();
    let (port, own) = (free_port(), free_port());
    let config = "global: { scrape_interval: 1s }\nscrape_configs:\n  - job_name: storebench\n    static_configs:\n      - targets: [\"127.0.0.1:PORT\"]\n";
    cli.write("prometheus.yml", &config.replace("PORT", &port.to_string()));
    let program = |name: &str| {
        let mut command = Command::new(format!("{root}/usr/bin/{name}"));
        command.env("LD_LIBRARY_PATH", &libraries).current_dir(cli.folder.path());
        command
    };
    let mut prometheus = Ends(
        program("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"])
            .arg(format!("--web.listen-address=127.0.0.1:{own}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    while !get(own, "/-/ready").is_some_and(|answer| answer.contains(" 200 OK\r\n")) {
        assert!(prometheus.0.try_wait().unwrap().is_none(), "prometheus ended");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let words = format!("{LONG} {port} -q");
    let args: Vec<&str> = words.split(' ').collect();
    let mut run = Ends(cli.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let (mut text, mut types) = (String::new(), Value::Null);
    while run.0.try_wait().unwrap().is_none() {
        // The text of a phase at a rate, with all of its metrics.
        let found = get(port, "/metrics").filter(|text| text.contains("storebench_response_time_seconds_sum"));
        text = found.unwrap_or(text);
        let metadata = json(&get(own, "/api/v1/targets/metadata").unwrap());
        types = if metadata["data"].as_array().is_some_and(|all| all.len() > 8) { metadata } else { types };
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let code = run.0.wait().unwrap().code();
    assert!(matches!(code, Some(0 | 4)), "{code:?}");

    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.to_lowercase().contains("content-type: text/plain; version=0.0.4"), "{head}");
    let mut lint = program("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    lint.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let lint = lint.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&lint.stdout), String::from_utf8_lossy(&lint.stderr));
    assert!(lint.status.success() && said.is_empty(), "{said}");

    for (metric, kind) in [
        ("storebench_operations_total", "counter"),
        ("storebench_service_time_seconds", "histogram"),
        ("storebench_in_flight", "gauge"),
    ] {
        let is = |one: &&Value| one["metric"] == metric && one["type"] == kind;
        assert!(types["data"].as_array().unwrap().iter().any(|one| is(&one)), "{metric} is no {kind}: {types}");
    }
    let asked = |query: &str| {
        let answer = json(&get(own, &format!("/api/v1/query?query={query}")).unwrap());
        let series = answer["data"]["result"].as_array().unwrap();
        assert_eq!(series.len(), 1, "{query}: {answer}");
        let value = |pair: &Value| pair[1].as_str().unwrap().parse::<f64>().unwrap();
        value(&series[0]["value"])
    };
    let counted = asked("max_over_time(sum(storebench_operations_total)%5B10m:1s%5D)");
    assert!(counted > 0.0 && counted <= operations(&cli), "{counted} of {}", operations(&cli));
    let fallen = asked("sum(resets(storebench_operations_total%5B10m%5D))");
    assert_eq!(fallen, 0.0, "a counter fell");
    let p99 = asked(
        "histogram_quantile(0.99,sum%20by%20(le)(last_over_time(storebench_service_time_seconds_bucket%5B10m%5D)))",
    );
    assert!(p99 > 0.0 && p99 < 70.0, "{p99}");
}

/// A receiver of OTLP: its address, and what it gets. It answers each request with this, or hangs.
fn receiver(answer: Option<&'static str>) -> (SocketAddr, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut first, mut length, mut is_json) = (String::new(), 0, false);
            if stream.read_line(&mut first).unwrap_or(0) == 0 {
                continue;
            }
            assert_eq!(first, "POST /v1/metrics HTTP/1.1\r\n");
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                let line = line.trim().to_lowercase();
                length = line.strip_prefix("content-length: ").map_or(length, |text| text.parse().unwrap());
                is_json |= line == "content-type: application/json";
                if line.is_empty() {
                    break;
                }
            }
            assert!(is_json);
            let mut body = vec![0; length];
            // The run ends while a push is under way.
            if stream.read_exact(&mut body).is_err() {
                continue;
            }
            // Before the answer, after which the run may end.
            if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
            match answer {
                Some(answer) => drop(stream.get_mut().write_all(answer.as_bytes())),
                None => kept.push(stream),
            }
        }
    });
    (address, received)
}

const TAKEN: Option<&str> = Some("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");

/// The sum of a metric's series in a push; 0 without any.
fn sum(push: &Value, metric: &str) -> f64 {
    let metrics = push["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let found = metrics.iter().find(|one| one["name"] == metric);
    let points = found.and_then(|one| one["sum"]["dataPoints"].as_array()).into_iter().flatten();
    points.map(|point| point["asDouble"].as_f64().unwrap()).sum()
}

#[test]
fn the_last_push_is_what_the_result_says() {
    let cli = Cli::new();
    let (address, received) = receiver(TAKEN);
    let done = cli.run(&format!(
        "bench memory: --docs 500 --operations 20000 --workers 2 --warm-up 0s -q --metrics otlp+http://{address}"
    ));
    done.assert_measured();
    assert!(!done.err.contains("--metrics"), "{}", done.err);
    let pushes: Vec<Value> = received.try_iter().collect();
    let counts: Vec<f64> = pushes.iter().map(|push| sum(push, "storebench_operations_total")).collect();
    assert!(counts.windows(2).all(|pair| pair[0] <= pair[1]), "{counts:?}");
    assert_eq!(counts.last(), Some(&operations(&cli)));
    let last = &pushes.last().unwrap()["resourceMetrics"][0];
    let attributes = last["resource"]["attributes"].as_array().unwrap();
    let folder = cli.run_folder().file_name().unwrap().to_string_lossy().into_owned();
    for (key, value) in [("service.name", "storebench"), ("storebench.study", "bench"), ("storebench.run", &folder)] {
        let is = |one: &Value| one["key"] == key && one["value"]["stringValue"] == value;
        assert!(attributes.iter().any(is), "{key} is not {value}: {attributes:?}");
    }
}

#[test]
fn a_copy_has_metrics_too() {
    let cli = Cli::new();
    let lines: String = (0..3_000).map(|n| format!("{{\"_id\": \"b{n}\", \"n\": {n}}}\n")).collect();
    cli.write("books.jsonl", &lines);
    let (address, received) = receiver(TAKEN);
    cli.run(&format!("copy books.jsonl sqlite:books.db -q --metrics otlp+http://{address}")).code(0);
    let last = received.try_iter().last().unwrap();
    assert_eq!(sum(&last, "storebench_copied_documents_total"), 3_000.0);
    assert!(sum(&last, "storebench_copied_bytes_total") > 10_000.0);
    assert!(sum(&last, "storebench_operations_total") > 0.0, "its bulk requests: {last}");
}

#[test]
fn who_hangs_or_refuses_does_not_hold_up_the_run() {
    for (answer, says) in [
        (None, "no answer within 2 s"),
        (Some("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), "it answers 503"),
        (
            Some(
                "HTTP/1.1 200 OK\r\nContent-Length: 47\r\n\r\n{\"partialSuccess\":{\"rejectedDataPoints\":\"9\"}}\r\n",
            ),
            "it rejects 9 data points",
        ),
    ] {
        let cli = Cli::new();
        let (address, _received) = receiver(answer);
        let done = cli.run(&format!("bench memory: --docs 100 --operations 100 -q --metrics otlp+http://{address}"));
        done.assert_measured();
        assert!(done.err.contains("pushes to ") && done.err.contains(says), "{}", done.err);
        assert!(done.err.matches("does not take metrics").count() <= 1, "{}", done.err);
    }
    let cli = Cli::new();
    let words: Vec<&str> = "bench memory: --docs 100 --duration 2s -q --metrics 0".split(' ').collect();
    let mut run = cli.command(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let told = lines.find_map(|line| Some(line.unwrap().split_once("metrics at http://")?.1.to_owned())).unwrap();
    let rest = std::thread::spawn(move || lines.count());
    let address: SocketAddr = told.trim_end_matches("/metrics").parse().unwrap();
    // One reader never ends its request, the other never reads its answer.
    let mut silent = TcpStream::connect(address).unwrap();
    silent.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    let mut deaf = TcpStream::connect(address).unwrap();
    deaf.write_all("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000).as_bytes()).unwrap();
    let asked = |host: &str, path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(asked("elsewhere.example", "/metrics").starts_with("HTTP/1.1 421 "));
    assert!(asked("localhost", "/").starts_with("HTTP/1.1 404 "));
    assert!(asked("127.0.0.1", "/metrics").contains("# TYPE storebench_client_memory_bytes gauge"));
    let ended = run.wait().unwrap().code();
    assert!(matches!(ended, Some(0 | 4)), "{ended:?}");
    rest.join().unwrap();
    assert!(TcpStream::connect(address).is_err(), "the endpoint ends with the run");
}

#[test]
fn where_nothing_can_be_served_nothing_is_touched() {
    let cli = Cli::with_study();
    cli.write("books.jsonl", "{\"_id\": \"a\"}\n");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for words in ["run books.toml", "bench sqlite:books.db", "copy books.jsonl sqlite:books.db"] {
        let done = cli.run(&format!("{words} -q --metrics {port}")).code(2);
        assert!(done.err.contains("cannot listen there") && done.err.contains("use a free port"), "{}", done.err);
    }
    for (to, says) in [
        ("nowhere", "invalid address"),
        ("localhost:9464", "otlp+http://HOST:PORT"),
        ("otlp+http://127.0.0.1:0", "otlp+http://HOST:PORT"),
        ("otlp+http://me:hush@here", "otlp+http://me:***@here"),
        ("otlp+https://here:4318", "otlp+http://HOST:PORT"),
        ("http://here:4318", "otlp+http://HOST:PORT"),
    ] {
        let done = cli.run(&format!("run books.toml -q --metrics {to}")).code(2);
        assert!(done.err.contains(says) && !done.err.contains("hush"), "{}", done.err);
    }
    assert!(!cli.path("books.db").exists() && !cli.path("storebench-runs").exists(), "something was started");
}
