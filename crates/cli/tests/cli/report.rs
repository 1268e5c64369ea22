//! `report`: the page of a run, checked as text and in a real browser; Markdown; several runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex};

use serde_json::Value;

use crate::common::Cli;

/// Two stores at two rates, for long enough to draw charts over time.
const STUDY: &str = r#"title = "Books at two rates"
question = "Which store answers a reader sooner?"
seed = 7
database = "kept"
stores = { first = "memory:", second = "sqlite:second.db" }

[collections.books]
count = 2000
size = "300B"

[[phases]]
name = "load"
load = ["books"]
batch = 500

[[phases]]
name = "steady"
mix = { read = 3, update = 1 }
rate = 200
duration = "3500ms"
# On a busy machine, answers may be late.
drain = "20s"

[factors]
"phases.steady.rate" = [200, 400]

[limits]
"steady.response.p99" = "2s"
"#;

/// A folder of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The folder of a program, according to `servers/where`, which installs it if it is missing.
fn installed(name: &str) -> PathBuf {
    crate::common::installed(name).0.into()
}

/// One run that all tests share.
static RUN: LazyLock<Cli> = LazyLock::new(|| {
    let cli = Cli::new();
    cli.write("books.toml", STUDY);
    cli.run("run books.toml -q").measured();
    cli
});

/// A browser uses an entire processor, so only one runs at a time.
static BROWSER: Mutex<()> = Mutex::new(());

/// Runs one check of `report/tests/look.mjs` on a page.
#[track_caller]
fn look(check: &str, page: &str) {
    let tools = installed("report-tools");
    let browser = installed("chromium").join("chromium");
    let _alone = BROWSER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    let done = Command::new("node")
        .arg(repository("report/tests/look.mjs"))
        .args([check, page])
        .env("REPORT_TOOLS", tools)
        .env("CHROMIUM", browser)
        .env("SHOTS", shots)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[track_caller]
fn look_at_run(check: &str) {
    look(check, RUN.run_folder().join("report.html").to_str().unwrap());
}

macro_rules! looks {
    ($($check:ident)*) => { $(
        #[test]
        fn $check() {
            look_at_run(stringify!($check));
        }
    )* };
}

mod in_a_browser {
    use super::look_at_run;

    looks! { quiet first_screen bottleneck panels points hover legend zoom choose sort dark print narrow keyboard noscript exports }
}

fn page_of(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("report.html")).unwrap()
}

#[test]
fn every_run_leaves_its_page() {
    let folder = RUN.run_folder();
    let page = page_of(&folder);
    for said in
        ["Books at two rates", "Which store answers a reader sooner?", "met every limit", "second.db", "storebench run"]
    {
        assert!(page.contains(said), "{said}");
    }
    assert!(page.len() < 500_000, "{} bytes", page.len());
    // The page loads nothing: its links lead to places on the page.
    let (text, scripts) = page.split_once("<script").unwrap();
    let text = text.replace("href=\"#", "");
    for wanted in ["src=", "href=", "url(", "@import"] {
        assert!(!text.contains(wanted), "{wanted}");
    }
    // Except the XML namespaces, such as SVG's.
    let named = scripts.replace("http://www.w3.org/", "");
    assert!(!named.contains("http:") && !named.contains("https:"), "an address in the script");
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_comparison_has_a_page() {
    let cli = Cli::new();
    let file = cli.path("compare.html");
    let run = RUN.run_folder();
    let of = |name: &str, rate: u32| format!("{}#{name} rate={rate}", run.display());
    let (a, b, c) = (of("first", 200), of("second", 200), of("second", 400));
    let gates = ["--fail-on", "steady.throughput < -99%", "--fail-on", "steady.read.response.p99 > x1.01"];
    let args = [&["compare", &a, &b, "-o", file.to_str().unwrap(), "--anyway"], &gates[..]].concat();
    // A single trial has no interval, so that both gates are undecided.
    let done = cli.run_args(&args).code(5);
    assert!(done.out.contains("undecided") && done.err.contains("gate undecided"), "{}", done.err);
    look("compared", file.to_str().unwrap());
    look("first_screen", file.to_str().unwrap());
    // Several pairs: each is named by its two sides. Single trials decide nothing.
    let several = cli.path("several.html");
    cli.run_args(&["compare", &a, &b, &c, "--anyway", "-o", several.to_str().unwrap()]).code(0);
    let page = std::fs::read_to_string(&several).unwrap();
    for name in ["second rate=200 against first rate=200", "second rate=400 against first rate=200"] {
        let told = page.split(&format!("<b>{name}</b>: ")).nth(1).expect(name);
        assert!(told.split("</p>").next().unwrap().contains("A and B"), "{:?}", told.get(..200));
    }
    look("first_screen", several.to_str().unwrap());
    let refused = cli.run_args(&["compare", &a, &b, "--anyway", "-o", "-"]).code(2);
    assert!(refused.err.contains("names the file of the page") && !cli.path("-").exists(), "{}", refused.err);
    let again = cli.run_args(&args).code(2);
    assert!(again.err.contains("exists") && again.err.contains("--force"), "{}", again.err);
}

#[test]
fn many_runs_have_an_index() {
    let cli = Cli::new();
    let copied = |name: &str, title: &str, began: &str| {
        let folder = cli.path("runs").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut result: Value =
            serde_json::from_slice(&std::fs::read(RUN.run_folder().join("run.json")).unwrap()).unwrap();
        result["run"]["title"] = title.into();
        result["run"]["began"] = began.into();
        std::fs::write(folder.join("run.json"), result.to_string()).unwrap();
        std::fs::copy(RUN.run_folder().join("report.html"), folder.join("report.html")).unwrap();
    };
    copied("one", "Books", "2026-11-24T10:00:00Z");
    copied("second run", "Books", "2026-11-25T10:00:00Z");
    copied("100% #3", "Others", "2026-11-23T10:00:00Z");
    std::fs::create_dir_all(cli.path("runs/broken")).unwrap();
    std::fs::write(cli.path("runs/broken/run.json"), "{").unwrap();
    assert_eq!(cli.run("report runs").code(0).out, "runs/index.html\n");
    let page = std::fs::read_to_string(cli.path("runs/index.html")).unwrap();
    for said in [
        "3 runs, and 1 folder that cannot be read",
        "./second run/report.html",
        "100%25 %233/report.html",
        "cannot be read:",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let at = |name: &str| page.find(name).unwrap();
    assert!(at(">second run<") < at(">one<") && at(">one<") < at(">100% #3<"), "the latest comes first");
    look("indexed", cli.path("runs/index.html").to_str().unwrap());
    assert!(page.contains("<code>storebench report runs</code>"), "the command that adds later runs");
    assert!(page.len() < 40_000, "{} bytes, without the script of charts", page.len());
    // An index replaces an index, and nothing else.
    cli.run("report runs").code(0);
    std::fs::write(cli.path("runs/index.html"), "mine").unwrap();
    let refused = cli.run("report runs").code(2);
    assert!(refused.err.contains("exists"), "{}", refused.err);
    assert_eq!(std::fs::read(cli.path("runs/index.html")).unwrap(), b"mine");
    assert!(refused.err.contains("--force"), "{}", refused.err);
    cli.run("report runs --force").code(0);
    assert!(std::fs::read_to_string(cli.path("runs/index.html")).unwrap().contains(">second run<"));
    cli.run("report runs -o elsewhere.html").code(0);
    assert!(std::fs::read_to_string(cli.path("elsewhere.html")).unwrap().contains("runs/one/report.html"));
}

/// `bench` and `copy` with an index beside their folders: one configuration has a line, and copies have pages.
#[test]
fn an_index_knows_benches_and_copies() {
    let cli = Cli::new();
    let bench = "bench memory: --docs 500 --duration 3s --warm-up 1s -q";
    let measured = cli.run(bench).measured();
    assert!(!measured.err.contains("older"), "{}", measured.err);
    let page = page_of(&cli.run_folder());
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::Deserializer::from_str(data).into_iter().next().unwrap().unwrap();
    // Charts over time begin with what was measured, not with the load.
    for id in ["throughput-over-time", "resources"] {
        let chart = data["charts"].as_array().unwrap().iter().find(|chart| chart["id"] == id).unwrap();
        let bench = chart["marks"].as_array().unwrap().iter().find(|mark| mark["label"] == "bench").unwrap();
        assert_eq!(chart["from"], bench["at"], "{id}: {}", chart["marks"]);
    }
    look("first_screen", cli.run_folder().join("report.html").to_str().unwrap());
    cli.write("docs.jsonl", "{\"_id\":\"a\"}\n");
    cli.run("copy docs.jsonl sqlite:docs.db -q").code(0);
    cli.run("report storebench-runs").code(0);
    let told = cli.run(&bench.replace(" -q", "")).measured().err;
    let advice =
        "storebench-runs/index.html is older than this run; to update it, run `storebench report storebench-runs`";
    assert!(told.contains(advice), "{told}");
    cli.run("report storebench-runs").code(0);
    let index = std::fs::read_to_string(cli.path("storebench-runs/index.html")).unwrap();
    let of_copy = index.split("<a href=\"./copy-").nth(1).expect("the copy has a link");
    let page = format!("storebench-runs/copy-{}", of_copy.split('"').next().unwrap());
    assert!(std::fs::read_to_string(cli.path(&page)).unwrap().contains("docs.jsonl"), "{page}");
    let (_, courses) = index.split_once("<section id=\"courses\">").expect("figures over time");
    for figure in ["bench: ops/s", "bench: read service p99"] {
        assert!(courses.contains(figure), "{figure}: {}", &courses[..courses.len().min(3_000)]);
    }
}

/// Also without the tables that charts are drawn from.
#[test]
fn a_page_is_made_again_of_what_is_left() {
    let cli = Cli::new();
    let folder = cli.path("run");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(RUN.run_folder().join("run.json"), folder.join("run.json")).unwrap();
    let done = cli.run("report run").code(0);
    assert_eq!(done.out, "run/report.html\n");
    let page = page_of(&folder);
    assert!(page.contains("met every limit") && !page.contains("throughput-over-time"));
    assert_eq!(cli.run("report run/run.json -o other.html").code(0).out, "other.html\n");
    let refused = cli.run("report run/run.json -o other.html").code(2);
    assert!(refused.err.contains("other.html exists") && refused.err.contains("--force"), "{}", refused.err);
    cli.run("report run/run.json -o other.html --force").code(0);
    let printed = cli.run("report run -o -").code(0).out;
    assert!(printed.starts_with("<!DOCTYPE html>") && printed.ends_with("</html>"));
}

#[test]
fn several_runs_are_one_page() {
    let cli = Cli::new();
    let one = RUN.run_folder();
    let folder = cli.path("again");
    std::fs::create_dir(&folder).unwrap();
    for file in std::fs::read_dir(&one).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    let both = [one.to_str().unwrap(), "again", "-o", "both.html"];
    cli.run_args(&[&["report"][..], &both[..]].concat()).code(0);
    let page = std::fs::read_to_string(cli.path("both.html")).unwrap();
    assert!(page.contains("again: first rate=200"), "configurations say of which run they are");
    assert_eq!(page.matches("<h1>").count(), 2);
    look("quiet", cli.path("both.html").to_str().unwrap());
    let refused = cli.run_args(&["report", one.to_str().unwrap(), "again"]).code(2);
    assert!(refused.err.contains("-o FILE"), "{}", refused.err);
}

#[test]
fn a_damaged_run_is_refused_by_name() {
    let cli = Cli::new();
    cli.run("report nothing").code(2);
    let folder = cli.path("run");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(RUN.run_folder().join("run.json"), folder.join("run.json")).unwrap();
    std::fs::write(folder.join("intervals.jsonl.gz"), b"no gzip at all").unwrap();
    let done = cli.run("report run").code(2);
    assert!(done.err.contains("intervals.jsonl.gz") && done.err.contains("copy the run folder again"), "{}", done.err);
    assert!(!folder.join("report.html").exists(), "nothing half-written");
}

#[test]
fn tables_are_written_as_parquet() {
    let cli = Cli::new();
    let folder = cli.path("run");
    std::fs::create_dir(&folder).unwrap();
    for file in std::fs::read_dir(RUN.run_folder()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    let told = cli.run("report run --tables parquet").code(0).out;
    for table in ["intervals", "resources", "server_resources", "store_stats"] {
        let file = format!("parquet/{table}.parquet");
        assert!(told.contains(&file) && folder.join(&file).exists(), "{told}");
    }
    let key = "{trial}/{phase}/{pass}/{op}/{interval}";
    let copy = |from: &str, to: &str| {
        cli.run_args(&["copy", &format!("run/{from}"), to, "--key", key, "--json"]).code(0).json()
    };
    let (before, after) = (copy("intervals.jsonl.gz", "a.jsonl"), copy("parquet/intervals.parquet", "b.jsonl"));
    assert_eq!(before["counts"]["written"], after["counts"]["written"]);
    let lines = |name: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(cli.path(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    for (line, parquet) in lines("a.jsonl").iter().zip(lines("b.jsonl")) {
        for name in ["trial", "phase", "pass", "op", "succeeded", "service_p99_ns"] {
            assert_eq!(line[name], parquet[name], "{name}");
        }
        // One may be an integer and the other a float.
        assert_eq!(line["service_mean_ns"].as_f64(), parquet["service_mean_ns"].as_f64());
    }
    cli.run("report nothing --tables parquet").code(2);
}

#[test]
fn markdown_for_a_comment() {
    let out = RUN.run_args(&["report", RUN.run_folder().to_str().unwrap(), "--markdown"]).code(0).out;
    assert!(out.starts_with("## Books at two rates\n"), "{out}");
    assert!(
        out.contains(
            "**first met every limit (p99 ≤ 2.00 s in steady) up to 400/s, the highest rate tried, measured once "
        ),
        "{out}"
    );
    assert!(out.contains("| first rate=200 |"), "{out}");
    assert!(!out.contains("<script"), "{out}");
}

/// A phase with a rate search is recorded once for each probe. Only one of them is the result, and is on the time axis.
#[test]
fn a_searched_phase_is_drawn_once() {
    let cli = Cli::new();
    let study = STUDY.split("[factors]").next().unwrap().replace("3500ms", "3s").replace("rate = 200", "");
    let search = "[limits]\n\"steady.response.p99\" = \"2s\"\n[search]\nphase = \"steady\"\nfrom = 100\nto = 200\n\
                  within = 0.5\nconfirm = 1\nhold = 1\nrest = \"1ms\"\n";
    cli.write("books.toml", &(study.replace("second = \"sqlite:second.db\"", "") + search));
    cli.run("run books.toml -q").measured();
    let page = page_of(&cli.run_folder());
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::Deserializer::from_str(data).into_iter().next().unwrap().unwrap();
    let charts = data["charts"].as_array().unwrap();
    let search = charts.iter().find(|c| c["id"] == "search-steady").expect("the search has a chart");
    // The first chart, and the one of all tries, mark the answer.
    assert!(page.contains('▾') && search["marks"][0]["label"] == "answer, trial 1", "{search}");
    look("first_screen", cli.run_folder().join("report.html").to_str().unwrap());
    let chart = charts.iter().find(|c| c["id"] == "throughput-over-time").unwrap();
    let series = &chart["series"][0];
    let xs: Vec<f64> = chart["xs"][series["x"].as_u64().unwrap() as usize]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    assert!(xs.windows(2).all(|pair| pair[0] <= pair[1]), "time goes back: {xs:?}");
    let steady = chart["marks"].as_array().unwrap().iter().find(|m| m["label"] == "steady").unwrap();
    let within = |x: &&f64| **x > steady["at"].as_f64().unwrap() && **x < steady["to"].as_f64().unwrap();
    assert_eq!(xs.iter().filter(within).count(), 3, "three seconds of one probe: {xs:?}");
    assert!(charts.iter().any(|c| c["id"] == "heat"), "the probe's histograms are found");
}

/// The answer of a server on this machine to a request.
fn asked(url: &str, request: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.replace("ADDRESS", address).as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_page_follows_a_run_to_its_end() {
    let cli = Cli::new();
    // On a busy machine, a browser may need seconds to start.
    cli.write("books.toml", &STUDY.replace("3500ms", "8s"));
    let mut run = cli
        .command(&["run", "books.toml", "--live", "0"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let told = lines.find_map(|line| Some(line.unwrap().split_once("live report at ")?.1.to_owned())).unwrap();
    // Reads on, so that the rest of the output does not fill the pipe.
    let rest = std::thread::spawn(move || lines.count());
    let get = |host: &str, method: &str, path: &str| {
        asked(&told, &format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    };
    assert!(get("ADDRESS", "POST", "/").starts_with("HTTP/1.1 405 "));
    assert!(get("elsewhere.example", "GET", "/").starts_with("HTTP/1.1 421 "));
    assert!(get("ADDRESS", "GET", "/etc/passwd").starts_with("HTTP/1.1 404 "));
    look("live", &told);
    let ended = run.wait().unwrap().code();
    // A busy machine may spoil the measurement; that does not matter here.
    assert!(matches!(ended, Some(0 | 4)), "{ended:?}");
    rest.join().unwrap();
    let address = told.trim_start_matches("http://").trim_end_matches('/');
    assert!(TcpStream::connect(address).is_err(), "the server ends with the run");
}

#[test]
fn a_page_cannot_be_served_just_anywhere() {
    let cli = Cli::new();
    cli.write("books.toml", STUDY);
    for (at, says) in [("203.0.113.7:8080", "cannot listen there"), ("nowhere", "invalid address")] {
        let done = cli.run(&format!("run books.toml -q --live {at}")).code(2);
        assert!(done.err.contains(says), "{}", done.err);
    }
    assert!(!cli.path("storebench-runs").exists(), "nothing was started");
}

/// Names, titles and errors that a browser would run, or that would end the element around them.
#[test]
fn what_a_study_or_a_store_says_is_text() {
    let cli = Cli::new();
    let markup = "</script><script>globalThis.hacked=1</script><img src=x onerror=globalThis.hacked=2>";
    let study = STUDY
        .replace("Books at two rates", markup)
        .replace("Which store answers a reader sooner?", markup)
        .replace("first =", "\"<img src=x onerror=globalThis.hacked=3>\" =")
        .replace("sqlite:second.db", &format!("sqlite:{}.db", markup.replace('/', "_")))
        .replace("size = \"300B\"", &format!("fields = {{ text = {{ choice = {{ \"{markup}\" = 1 }} }} }}"))
        .replace("3500ms", "1100ms");
    cli.write("books.toml", &study);
    cli.run("run books.toml -q").measured();
    let folder = cli.run_folder();
    let page = page_of(&folder);
    assert_eq!(page.matches("<script").count(), 2, "its own two");
    look("hostile", folder.join("report.html").to_str().unwrap());
    let markdown = cli.run_args(&["report", folder.to_str().unwrap(), "--markdown"]).code(0).out;
    assert!(!markdown.contains("<script") && !markdown.contains("<img"), "{markdown}");
}

/// The first chart as a separate file, drawn without a browser.
#[test]
fn a_picture_is_written() {
    let cli = Cli::new();
    let run = RUN.run_folder();
    let run = run.to_str().unwrap();
    let svg = cli.run_args(&["report", run, "--picture", "-"]).code(0).out;
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>") && svg.contains("first") && svg.contains("second"),
        "{svg}"
    );
    assert!(!svg.contains("http") || svg.matches("http").count() == 1, "only the name space: {svg}");
    assert_eq!(cli.run_args(&["report", run, "--picture", "a.svg"]).code(0).out, "a.svg\n");
    assert_eq!(std::fs::read_to_string(cli.path("a.svg")).unwrap(), svg);
    assert!(cli.run_args(&["report", run, "--picture", "a.svg"]).code(2).err.contains("--force"));
    cli.run_args(&["report", run, "--picture", "a.svg", "--force"]).code(0);
    cli.run("bench memory: --docs 100 --operations 100 --warm-up 0s -q --out one").measured();
    let one = std::fs::read_dir(cli.path("one")).unwrap().next().unwrap().unwrap().path();
    let one = cli.run_args(&["report", one.to_str().unwrap(), "--picture", "-"]).code(0).out;
    assert!(one.contains("p50 to p99.9") && one.contains("bench.read"), "{one}");
    let refused = cli.run_args(&["report", run, "--picture", "b.PNG"]).code(2).err;
    assert!(refused.ends_with("b.PNG: a picture is written as SVG, not as PNG; use --picture b.svg\n"), "{refused}");
    assert_eq!(cli.run_args(&["report", run, "--picture", "b.svg"]).code(0).out, "b.svg\n");
}

#[test]
fn a_report_that_cannot_be_written_is_told_by_the_exit_code() {
    let cli = Cli::new();
    // No file may be larger than 100 KiB, and the page is.
    let program = cli.command(&["bench", "memory:", "--operations", "2000", "--out", "runs"]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""]).arg(program.get_program());
    limited.args(program.get_args()).current_dir(cli.folder.path());
    limited.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = cli.run_command(&mut limited);
    // On a busy machine, the measurement is invalid as well, and that decides the exit code.
    let told = done.code == 1 || done.code == 4 && done.out.contains("client-saturated");
    assert!(told && done.err.contains("no report: ") && done.err.contains("run `storebench report"), "{done:?}");
}
