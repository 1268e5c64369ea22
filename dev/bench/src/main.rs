//! Storebench's own benchmarks: each figure beside its reference, measured in the same run.
//!
//! Run `make bench`, or `target/bench/release/storebench-bench --help` after it has built the program.
//! `docs/benchmarks.md` explains each figure.

mod comparing;
mod consistency;
mod copy;
mod embedded;
mod engine;
mod figure;
mod generation;
mod instructions;
mod json;
#[path = "../../../crates/report/tests/large/study.rs"]
mod large_study;
mod machine;
mod memory;
mod options;
mod pacing;
mod parts;
mod peers;
mod pin;
mod program;
mod python;
mod report;
mod rounds;
mod servers;
mod subject;
mod table;
mod traffic;

use std::io::Write;
use std::process::ExitCode;

use figure::Figure;
use options::{Command, Options};

/// An error that stops a topic. It is printed, and the figures count as not measured.
type Failure = Box<dyn std::error::Error>;

/// A group of figures that are measured together.
struct Topic {
    name: &'static str,
    /// The names of its figures, for `--only` and for figures that could not be measured.
    figures: &'static [&'static str],
    measure: fn(&Options) -> Result<Vec<Figure>, Failure>,
}

const TOPICS: &[Topic] = &[
    Topic { name: "generation", figures: generation::FIGURES, measure: generation::measure },
    Topic { name: traffic::TOPIC, figures: traffic::FIGURES, measure: traffic::measure },
    Topic { name: "engine", figures: engine::FIGURES, measure: engine::measure },
    Topic { name: instructions::TOPIC, figures: instructions::FIGURES, measure: instructions::measure },
    Topic { name: "pacing", figures: pacing::FIGURES, measure: pacing::measure },
    Topic { name: "memory", figures: memory::FIGURES, measure: memory::measure },
    Topic { name: "embedded", figures: embedded::FIGURES, measure: embedded::measure },
    Topic { name: "copy", figures: copy::FIGURES, measure: copy::measure },
    Topic { name: "comparing", figures: comparing::FIGURES, measure: comparing::measure },
    Topic { name: consistency::TOPIC, figures: consistency::FIGURES, measure: consistency::measure },
    Topic { name: report::TOPIC, figures: report::FIGURES, measure: report::measure },
    Topic { name: parts::TOPIC, figures: parts::FIGURES, measure: parts::measure },
    Topic { name: python::TOPIC, figures: python::FIGURES, measure: python::measure },
    Topic { name: peers::TOPIC, figures: peers::FIGURES, measure: peers::measure },
    Topic { name: servers::TOPIC, figures: servers::FIGURES, measure: servers::measure },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match options::read(&arguments) {
        Ok(Command::Help) => print(options::HELP).map(|()| ExitCode::SUCCESS),
        Ok(Command::Child(keys)) => memory::child(keys).map(|()| ExitCode::SUCCESS),
        Ok(Command::Counted { url, phase, operations }) => {
            instructions::child(&url, &phase, operations).map(|()| ExitCode::SUCCESS)
        }
        Ok(Command::Stub(redis)) => peers::stub(redis).map(|()| ExitCode::SUCCESS),
        Ok(Command::Measure(options)) => run(&options),
        Err(message) => {
            tell(&format!("{message}\n\n{}", options::HELP));
            return ExitCode::from(2);
        }
    };
    result.unwrap_or_else(|failure| {
        tell(&format!("{failure}"));
        ExitCode::FAILURE
    })
}

fn run(options: &Options) -> Result<ExitCode, Failure> {
    let before = machine::Machine::look();
    let mut figures = Vec::new();
    for topic in TOPICS {
        let wanted = |name: &&&str| options.wants(topic.name, name);
        if !topic.figures.iter().any(|name| wanted(&name)) {
            continue;
        }
        tell(&format!("{}: measuring", topic.name));
        match (topic.measure)(options) {
            Ok(measured) => figures.extend(measured),
            Err(failure) => {
                let lost = topic.figures.iter().filter(wanted);
                figures.extend(lost.map(|name| Figure::not_measured(topic.name, name, &failure.to_string())));
            }
        }
    }
    if figures.is_empty() {
        return Err(
            format!("no figure has a name with `{}`; see --help for the topics", options.only.join("`, `")).into()
        );
    }
    let report = table::Report { before, after: machine::Machine::look(), rounds: options.rounds, figures };
    print(&if options.json { json::document(&report) } else { report.to_string() })?;
    Ok(if options.strict && !report.all_met() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()).map_err(Into::into)
}

/// Progress and errors, on stderr.
fn tell(text: &str) {
    // If stderr is gone, there is nowhere to report it.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
