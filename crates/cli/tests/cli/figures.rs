//! Every output of a run prints the same value for the same figure, because all use one source.

use std::collections::BTreeMap;

use serde_json::Value;
use storebench_results::human::{bytes, count, duration, rate};

use crate::common::{Cli, Done};

/// Several workers and operations, a warm-up, a bulk operation, and an open loop in which many operations fail or are
/// never answered.
fn study(stores: &str) -> String {
    format!(
        r#"title = "Figures"
seed = 3
stores = {stores}

[collections.books]
count = 2000
size = "300B"

[[phases]]
name = "load"
load = ["books"]
batch = 100
workers = 2

[[phases]]
name = "warm"
mix = {{ read = 1 }}
warm_up = true
duration = "700ms"

[[phases]]
name = "bulk"
mix = {{ read = {{ batch = 5 }}, update = 1 }}
operations = 600
workers = 3

[[phases]]
name = "plain"
mix = {{ read = 1 }}
operations = 400

[[phases]]
name = "steady"
mix = {{ read = 3, update = 1 }}
rate = 1500
duration = "1200ms"
workers = 3
in_flight = 4
timeout = "40ms"
drain = "0s"
"#
    )
}

/// A store that answers 500 operations/s, under a load of 1,500/s. Operations that wait too long time out, and those
/// left at the end have no answer.
const CROWDED: &str = "slow+memory:?latency=2ms&concurrency=1";

/// The values of each figure, each with the places where it appears.
#[derive(Default)]
struct Collected(BTreeMap<[String; 4], BTreeMap<String, Vec<String>>>);

impl Collected {
    fn add(&mut self, of: [&str; 4], value: &str, place: &str) {
        let values = self.0.entry(of.map(str::to_owned)).or_default();
        values.entry(value.to_owned()).or_default().push(place.to_owned());
    }

    #[track_caller]
    fn agree(&self) {
        for (of, values) in &self.0 {
            assert!(values.len() == 1, "{of:?} has several values: {values:#?}");
        }
    }

    /// The only value, and the number of places where it appears.
    #[track_caller]
    fn of(&self, of: [&str; 4]) -> (&str, usize) {
        let key = of.map(str::to_owned);
        let values = self.0.get(&key).unwrap_or_else(|| panic!("no figure {of:?}; found {:#?}", self.0.keys()));
        let (value, places) = values.first_key_value().unwrap();
        let mut places = places.clone();
        places.dedup();
        (value, places.len())
    }
}

fn time(ns: &Value) -> String {
    ns.as_f64().map_or_else(|| "∞".to_owned(), duration)
}

/// Collects the figures of every phase of every trial, and of every configuration, from the result.
fn of_result(result: &Value, to: &mut Collected) {
    let place = "run.json";
    for trial in result["trials"].as_array().unwrap() {
        let configuration = trial["configuration"].as_str().unwrap();
        for phase in trial["phases"].as_array().unwrap().iter().filter(|p| p["warm_up"] == false) {
            let name = phase["name"].as_str().unwrap();
            let mut add = |op: &str, what: &str, value: String, place: &str| {
                to.add([configuration, name, op, what], &value, place)
            };
            for (op, of) in phase["ops"].as_object().unwrap() {
                add(op, "count", count(of["count"].as_u64().unwrap()), place);
                add(op, "errors", count(of["errors"].as_u64().unwrap()), place);
                add(op, "ops/s", rate(of["throughput_per_s"].as_f64().unwrap()), place);
                add(op, "docs/s", rate(of["documents_per_s"].as_f64().unwrap()), place);
                times(of, &mut |what, value| add(op, what, value, place));
            }
            times(&phase["all"], &mut |what, value| add("all", what, value, place));
            let client = &phase["client"];
            add(
                "all",
                "process CPU/op",
                time(&(client["process_cpu_us_per_op"].as_f64().unwrap() * 1e3).into()),
                "client",
            );
            add("all", "memory", bytes(client["rss_max_bytes"].as_f64().unwrap()), "client");
            let store = &phase["resources"]["store"];
            add("all", "process CPU/op", time(&(store["cpu_us_per_op"].as_f64().unwrap() * 1e3).into()), "resources");
            add("all", "memory", bytes(store["rss_max_bytes"].as_f64().unwrap()), "resources");
        }
    }
    for configuration in result["configurations"].as_array().unwrap() {
        for (name, found) in configuration["figures"].as_object().unwrap() {
            let (phase, rest) = name.split_once('.').unwrap();
            let lone = result["trials"][0]["phases"].as_array().unwrap().iter().find(|p| p["name"] == phase).unwrap();
            let ops: Vec<&String> = lone["ops"].as_object().unwrap().keys().collect();
            let (op, measure) = match rest.split_once('.') {
                Some((op, measure)) if ops.iter().any(|known| *known == op) => (op, measure),
                // The figures of a phase with one operation are that operation's.
                _ if ops.len() == 1 => (ops[0].as_str(), rest),
                _ => ("all", rest),
            };
            let value = found["figure"]["value"].clone();
            let some = if found["figure"]["trials"] == 0 { Value::Null } else { value.clone() };
            let number = value.as_f64().unwrap_or(0.0);
            let (op, what, shown) = match measure {
                "throughput" => (op, "ops/s".to_owned(), rate(number)),
                "documents" => (op, "docs/s".to_owned(), rate(number)),
                "store-cpu" => ("all", "process CPU/op".to_owned(), time(&some)),
                "store-memory" => ("all", "memory".to_owned(), bytes(number)),
                "disk" => ("all", "on disk".to_owned(), bytes(number)),
                time_of if time_of.contains(".p") || time_of.ends_with(".max") => {
                    (op, time_of.replacen('.', " ", 1), time(&some))
                }
                _ => continue,
            };
            to.add(
                [configuration["configuration"].as_str().unwrap(), phase, op, &what],
                &shown,
                "configurations of run.json",
            );
        }
    }
}

/// Times such as `response p99`. They cover all attempts if some were not answered.
fn times(of: &Value, add: &mut dyn FnMut(&str, String)) {
    for kind in ["response", "service"] {
        let (all, answered) = (&of[format!("{kind}_of_attempts_ns")], &of[format!("{kind}_ns")]);
        let found = if all.is_null() { answered } else { all };
        if found.is_null() {
            continue;
        }
        for (name, key, fewest) in
            [("p50", "p50", 1), ("p90", "p90", 10), ("p99", "p99", 100), ("p99.9", "p99_9", 1_000), ("max", "max", 1)]
        {
            if found["count"].as_u64().unwrap() >= fewest {
                add(&format!("{kind} {name}"), time(&found[key]));
            }
        }
    }
}

/// The cells of a line of text, which two or more spaces separate.
fn cells(line: &str) -> Vec<&str> {
    line.trim().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// Collects one line of a table of operations. The column `time` says which kind of time the line shows.
fn operations(configuration: &str, phase: &str, titles: &[&str], cells: &[&str], to: &mut Collected, place: &str) {
    let at = |title: &str| titles.iter().position(|t| *t == title);
    let kind = at("time").and_then(|at| cells.get(at)).copied().unwrap_or_default();
    for (title, cell) in titles.iter().zip(cells).filter(|(_, cell)| **cell != "-" && !cell.is_empty()) {
        let what = match *title {
            "p50" | "p90" | "p99" | "p99.9" | "max" => format!("{kind} {title}"),
            "count" | "errors" | "ops/s" | "docs/s" => (*title).to_owned(),
            _ => continue,
        };
        to.add([configuration, phase, cells[at("operation").unwrap()], &what], cell, place);
    }
}

/// Collects one line of a table of configurations.
fn configuration_line(
    phase: &str,
    lone: Option<&str>,
    titles: &[&str],
    cells: &[&str],
    to: &mut Collected,
    place: &str,
) {
    let kind = if titles.iter().any(|title| title.contains("response")) { "response" } else { "service" };
    for (title, cell) in titles.iter().zip(cells).filter(|(_, cell)| **cell != "-") {
        let cell = cell.split(" ±").next().unwrap().split(" [").next().unwrap();
        let (op, what) = match *title {
            "ops/s" | "docs/s" => (lone.unwrap_or("all"), (*title).to_owned()),
            "CPU/op" => ("all", "process CPU/op".to_owned()),
            "memory" => ("all", "memory".to_owned()),
            "on disk" => ("all", "on disk".to_owned()),
            _ => match title.rsplit_once(' ').map_or(("", *title), |(before, last)| (before, last)) {
                (before, percentile) if percentile.starts_with('p') => {
                    let op = before.trim_end_matches("response").trim_end_matches("service").trim();
                    (if op.is_empty() { lone.unwrap_or("all") } else { op }, format!("{kind} {percentile}"))
                }
                _ => continue,
            },
        };
        to.add([cells[0], phase, op, &what], cell, place);
    }
}

/// The operation of a phase, if it has only one.
fn lone<'a>(result: &'a Value, phase: &str) -> Option<&'a str> {
    let of = result["trials"][0]["phases"].as_array().unwrap().iter().find(|p| p["name"] == phase)?;
    let ops = of["ops"].as_object().unwrap();
    (ops.len() == 1).then(|| ops.keys().next().unwrap().as_str())
}

fn of_text(text: &str, result: &Value, to: &mut Collected) {
    let phases = ["load", "bulk", "plain", "steady"];
    let mut configurations =
        result["trials"].as_array().unwrap().iter().map(|trial| trial["configuration"].as_str().unwrap());
    let (mut configuration, mut phase, mut titles): (&str, &str, Vec<&str>) = ("", "", Vec::new());
    let mut operation = String::new();
    for line in text.lines() {
        if line.contains(" · ")
            && result["trials"]
                .as_array()
                .unwrap()
                .iter()
                .any(|t| line.contains(&format!(" · {} · ", t["url"].as_str().unwrap())))
        {
            configuration = configurations.next().unwrap();
        }
        let begins = phases.iter().find(|name| line.starts_with(&format!("{name}: ")) || line == **name);
        if let Some(name) = begins {
            (phase, titles) = (name, Vec::new());
            continue;
        }
        let found = cells(line);
        if matches!(found.first(), Some(&"operation" | &"configuration")) {
            titles = found;
            continue;
        }
        if !line.starts_with("  ") || phase.is_empty() {
            titles.clear();
            continue;
        }
        let tables = titles.first().copied();
        let known = result["trials"]
            .as_array()
            .unwrap()
            .iter()
            .any(|t| Some(&t["configuration"].as_str().unwrap()) == found.first());
        match tables {
            Some("operation") if found.first() == Some(&"service") && titles.contains(&"time") => {
                let skip = titles.iter().position(|title| *title == "time").unwrap();
                let mut line = vec![""; skip];
                line[0] = &operation;
                line.extend(found);
                operations(configuration, phase, &titles, &line, to, "text");
            }
            Some("operation") if found.len() + 1 >= titles.len() => {
                operation = found[0].to_owned();
                operations(configuration, phase, &titles, &found, to, "text");
            }
            Some("configuration") if known => {
                // The first configuration has no ratio to itself.
                let mut titles = titles.clone();
                if found.len() < titles.len() {
                    titles.retain(|title| *title != "vs first");
                }
                configuration_line(phase, lone(result, phase), &titles, &found, to, "text");
            }
            _ => {}
        }
        for (before, what) in
            [("whole process ", "process CPU/op"), ("peak memory ", "memory"), ("on disk ", "on disk")]
        {
            for fact in line.split(" · ").filter_map(|fact| fact.trim().strip_prefix(before)) {
                to.add([configuration, phase, "all", what], fact.trim_end_matches(" CPU/op"), "text");
            }
        }
    }
}

fn of_markdown(text: &str, result: &Value, to: &mut Collected) {
    let (mut phase, mut titles) = (String::new(), Vec::new());
    let configuration = result["trials"][0]["configuration"].as_str().unwrap();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("**").and_then(|rest| rest.strip_suffix("**")) {
            phase = name.to_owned();
        }
        let Some(inner) = line.strip_prefix("| ").and_then(|rest| rest.strip_suffix(" |")) else { continue };
        let plain = inner.replace('\\', "");
        let found: Vec<String> = plain.split(" | ").map(|cell| cell.trim().to_owned()).collect();
        if matches!(found[0].as_str(), "phase" | "configuration") {
            titles = found;
            continue;
        }
        let (heads, found): (Vec<&str>, Vec<&str>) =
            (titles.iter().map(String::as_str).collect(), found.iter().map(String::as_str).collect());
        match heads.first() {
            _ if found[0].starts_with("---") => {}
            Some(&"phase") => operations(configuration, found[0], &heads, &found, to, "Markdown"),
            Some(&"configuration") => configuration_line(&phase, lone(result, &phase), &heads, &found, to, "Markdown"),
            _ => {}
        }
    }
}

/// The text between the tags.
fn plain(html: &str) -> String {
    let mut text = String::new();
    let mut within = false;
    for c in html.chars() {
        match c {
            '<' => within = true,
            '>' => within = false,
            _ if !within => text.push(c),
            _ => {}
        }
    }
    text.replace("&amp;", "&").trim().to_owned()
}

fn of_page(html: &str, result: &Value, to: &mut Collected) {
    let configuration = result["trials"][0]["configuration"].as_str().unwrap();
    for table in html.split("<figure class=\"table\"").skip(1) {
        let table = table.split("</figure>").next().unwrap();
        let caption = plain(table.split("<figcaption>").nth(1).unwrap_or("").split("</figcaption>").next().unwrap());
        let phase = caption.split(" · ").next().unwrap().trim();
        let inner = |text: &str, tag: &str| -> Vec<String> {
            let opens = format!("<{tag}");
            let parts = text.split(&opens).skip(1);
            parts
                .map(|part| plain(part.split_once('>').unwrap().1.split(&format!("</{tag}>")).next().unwrap()))
                .collect()
        };
        let Some((head, body)) = table.split_once("<tbody>") else { continue };
        let titles = inner(&head.replace("<thead", "<"), "th");
        let heads: Vec<&str> = titles.iter().map(String::as_str).collect();
        for row in body.split("<tr").skip(1) {
            let found = inner(row.split("</tr>").next().unwrap(), "td");
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            match heads.first() {
                Some(&"phase") if heads.get(1) == Some(&"operation") => {
                    operations(configuration, found[0], &heads, &found, to, "page")
                }
                Some(&"configuration") if phase == "on disk" => {
                    for (phase, cell) in heads.iter().zip(&found).skip(1).filter(|(_, cell)| **cell != "-") {
                        to.add([found[0], phase, "all", "on disk"], cell, "page");
                    }
                }
                Some(&"configuration") => configuration_line(phase, lone(result, phase), &heads, &found, to, "page"),
                _ => {}
            }
        }
    }
}

fn everything(stores: &str) -> (Collected, Value, Done, String) {
    let cli = Cli::new();
    cli.write("figures.toml", &study(stores));
    let done = cli.run("run figures.toml --full --out runs");
    assert!(matches!(done.code, 0 | 4), "{}\n{}", done.err, done.out);
    let folder = std::fs::read_dir(cli.path("runs")).unwrap().next().unwrap().unwrap().path();
    let result: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("run.json")).unwrap()).unwrap();
    let html = std::fs::read_to_string(folder.join("report.html")).unwrap();
    let markdown = cli.run(&format!("report {} --markdown", folder.display())).code(0).out;
    let mut all = Collected::default();
    of_result(&result, &mut all);
    of_text(&done.out, &result, &mut all);
    of_markdown(&markdown, &result, &mut all);
    of_page(&html, &result, &mut all);
    (all, result, done, html)
}

/// Asserts that the answer shows the same figure of a phase as the tables.
#[track_caller]
fn answered(all: &Collected, text: &str, configuration: &str) {
    let told = text.replace('\n', " ");
    for (phase, op, unit) in [("bulk", "all", "docs/s"), ("plain", "read", "ops/s")] {
        let (before, _) = told.split_once(&format!(" {unit} in {phase}")).unwrap_or_else(|| panic!("{phase}: {told}"));
        let (value, _) = all.of([configuration, phase, op, unit]);
        assert!(before.ends_with(value), "{phase}: {value}: {told}");
    }
}

#[test]
fn one_store_measured_once() {
    let (all, result, done, html) = everything(&format!("{{ crowded = \"{CROWDED}\" }}"));
    all.agree();
    // Some operations of the open loop failed or were not answered, and every table says so.
    let ops = &result["trials"][0]["phases"][4]["ops"];
    let sum = |key: &str| ops["read"][key].as_u64().unwrap() + ops["update"][key].as_u64().unwrap();
    assert!(sum("errors") + sum("unfinished") > 0, "{ops}");
    let endless = "times count operations that failed or were not answered as infinite (∞)";
    assert!(done.out.replace("\n    ", " ").contains(endless) && html.contains(endless), "{}", done.out);
    for op in ["read", "update"] {
        // Text, page, Markdown, the result, and the configurations in it.
        assert_eq!(all.of(["crowded", "steady", op, "response p99"]), ("∞", 5), "{op}");
        assert_eq!(all.of(["crowded", "bulk", op, "docs/s"]).1, 5, "{op}");
    }
    assert!(all.of(["crowded", "steady", "all", "response p99"]).1 >= 3);
    assert!(all.of(["crowded", "load", "all", "memory"]).1 >= 4, "{:?}", all.0.keys());
    assert!(all.of(["crowded", "load", "all", "process CPU/op"]).1 >= 4);
    answered(&all, &done.out, "crowded");
    // Warm-ups are not part of the measured time.
    let phases = result["trials"][0]["phases"].as_array().unwrap();
    let measured: u64 =
        phases.iter().filter(|p| p["warm_up"] == false).map(|p| p["elapsed_ns"].as_u64().unwrap()).sum();
    assert!(html.contains(&format!("of which {} measured", duration(measured as f64))), "{measured}");
    // Progress shows the number of operations and the time. The rate is in the summary, which excludes the drain.
    assert!(done.err.contains("bulk: 600 operations in ") && !done.err.contains("/s)"), "{}", done.err);
}

#[test]
fn stores_beside_each_other() {
    let (all, _, done, _) =
        everything(&format!("{{ crowded = \"{CROWDED}\", file = \"sqlite:file.db\", nothing = \"null:\" }}"));
    all.agree();
    for configuration in ["crowded", "file"] {
        for op in ["read", "update"] {
            // For each store alone, and for the configurations side by side, in each output.
            assert!(all.of([configuration, "steady", op, "response p99"]).1 >= 5, "{configuration} {op}");
        }
        assert!(all.of([configuration, "load", "all", "memory"]).1 >= 4);
        assert!(all.of([configuration, "bulk", "all", "docs/s"]).1 >= 4);
    }
    assert_eq!(all.of(["crowded", "steady", "read", "response p99"]).0, "∞");
    assert!(all.of(["file", "load", "all", "on disk"]).1 >= 3);
    assert!(done.words().contains("times count operations that failed or were not answered"), "{}", done.out);
}
