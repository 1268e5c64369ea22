//! The command line.

use std::path::PathBuf;

/// Printed for `--help` and after a mistake.
pub(crate) const HELP: &str = "\
storebench-bench: Storebench's own speed and memory, each figure beside its reference in the same run

  --only PART   only figures whose name contains PART; repeatable. Topics: generation, traffic, engine,
                instructions, pacing, memory, embedded, copy, comparing, report, parts, python, peers, servers
  --rounds N    rounds of each figure and its reference, in turns (default 7, at least 1)
  --quick       3 rounds of a tenth of the work: a test run, not valid for conclusions
  --dir DIR     where the embedded stores write, in a folder that is removed afterwards
                (default: the folder of this program); it should be on the disk to be measured
  --json        one JSON document instead of the table
  --keep        keep the counts of `instructions` in dev/bench/instructions.txt, for later comparisons,
                and write docs/efficiency.md from `peers`
  --strict      exit 1 if a target is missed or could not be measured";

/// What to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    /// Hidden: run a phase over this many keys and print the memory that it used. See `memory`.
    Child(u64),
    /// Hidden: run a phase whose instructions are counted. See `instructions`.
    Counted {
        url: String,
        phase: String,
        operations: u64,
    },
    /// Hidden: the server of `peers::stub` in front of a Redis at this port.
    Stub(u16),
    Measure(Options),
}

/// How to measure.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) only: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) json: bool,
    pub(crate) keep: bool,
    pub(crate) strict: bool,
}

/// The hidden arguments with which this program runs itself as a child.
pub(crate) const CHILD: &str = "--child-with-keys";
pub(crate) const COUNTED: &str = "--child-counted";
pub(crate) const STUB: &str = "--child-stub";

impl Options {
    /// Whether a figure was requested, alone or with all figures.
    pub(crate) fn wants(&self, topic: &str, figure: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| format!("{topic} {figure}").contains(part.as_str()))
    }

    /// This amount of work, or a tenth of it with `--quick`.
    pub(crate) fn work(&self, full: u64) -> u64 {
        if self.quick { (full / 10).max(1) } else { full }
    }
}

/// Parses the arguments, without the program's name.
pub(crate) fn read(arguments: &[String]) -> Result<Command, String> {
    let mut options =
        Options { only: Vec::new(), rounds: 0, quick: false, dir: None, json: false, keep: false, strict: false };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--only" => options.only.push(value()?.clone()),
            "--rounds" => options.rounds = number(argument, value()?)?,
            "--dir" => options.dir = Some(value()?.into()),
            "--quick" => options.quick = true,
            "--json" => options.json = true,
            "--keep" => options.keep = true,
            "--strict" => options.strict = true,
            STUB => return Ok(Command::Stub(number(argument, value()?)?)),
            COUNTED => {
                let [url, phase] = [value()?.clone(), value()?.clone()];
                return Ok(Command::Counted { url, phase, operations: number(argument, value()?)? });
            }
            CHILD => return Ok(Command::Child(number(argument, value()?)?)),
            // `cargo bench` adds this.
            "--bench" => {}
            other => return Err(format!("unknown option `{other}`")),
        }
    }
    if options.rounds == 0 {
        options.rounds = if options.quick { 3 } else { 7 };
    }
    Ok(Command::Measure(options))
}

fn number<T: std::str::FromStr + PartialOrd + From<u8>>(argument: &str, text: &str) -> Result<T, String> {
    text.replace('_', "")
        .parse()
        .ok()
        .filter(|n| *n >= T::from(1))
        .ok_or_else(|| format!("{argument} takes an integer from 1, not `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> Result<Command, String> {
        read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_and_mistakes_named() {
        let Ok(Command::Measure(options)) = read_line("--only pacing --only sqlite --rounds 5 --json --strict") else {
            panic!("this line is valid");
        };
        assert_eq!((options.rounds, options.json, options.strict, options.quick), (5, true, true, false));
        assert!(options.wants("pacing", "precise") && options.wants("embedded", "sqlite os"));
        assert!(!options.wants("engine", "write"));
        assert_eq!(options.work(1_000), 1_000);
        let Ok(Command::Measure(options)) = read_line("--quick") else { panic!("this line is valid") };
        assert_eq!((options.rounds, options.work(1_000)), (3, 100));
        assert!(options.wants("engine", "write"));
        assert_eq!(read_line("--child-with-keys 1_000"), Ok(Command::Child(1_000)));
        for (wrong, named) in [("--rounds 0", "`0`"), ("--rounds", "--rounds"), ("--onyl x", "`--onyl`")] {
            assert!(read_line(wrong).is_err_and(|e| e.contains(named)), "{wrong}");
        }
    }
}
