//! Errors of the study that `bench` builds, in terms of the flags that the user gave.

use indexmap::IndexSet;
use storebench_study::workload::StudyErrors;

use crate::bench_study::COLLECTION;
use crate::failure::Failure;

/// What the messages of a study ask for, and the flag that gives it.
const ASKED: [(&str, &str); 2] = [
    ("add streams = \"disjoint\"", "add --streams disjoint"),
    ("write `bad_lines = \"skip\"`", "give --skip-bad-lines"),
];

/// The errors of the built study. Phases that share a flag have the same error, which is told once.
pub(crate) fn of_study(errors: &StudyErrors) -> Failure {
    let told = errors.0.iter().map(|error| format!("{}: {}", flag_of(&error.key), in_flags(&error.message)));
    let told: Vec<String> = told.collect::<IndexSet<_>>().into_iter().collect();
    Failure::bad_input(told.join("\n"))
}

/// An error of its documents, which begins with the key at fault.
pub(crate) fn of_documents(failure: Failure) -> Failure {
    let message = match failure.message.split_once(": ") {
        Some((key, message)) if key.starts_with("collections.") => format!("{}: {}", flag_of(key), in_flags(message)),
        _ => in_flags(&failure.message),
    };
    Failure { message, ..failure }
}

pub(crate) fn in_flags(message: &str) -> String {
    let message = ASKED.iter().fold(set_by_flags(message), |text, (key, flag)| text.replace(key, flag));
    let message = without_by_flag(&message).unwrap_or(message);
    // Settings of one operation.
    if message.contains(" = \"…\"") {
        return message + "; no flag of `bench` sets that: write a study, and use `run`";
    }
    message
}

/// ``write `without = ["_id"]` `` as the flag that does it: ``give `--without _id` ``.
fn without_by_flag(message: &str) -> Option<String> {
    let (before, rest) = message.split_once("write `without = [\"")?;
    let (field, after) = rest.split_once("\"]`")?;
    Some(format!("{before}give `--without {field}`{after}"))
}

/// `--set phases.NAME.in_flight=3` as the flag that sets it: `--in-flight 3`.
fn set_by_flags(message: &str) -> String {
    let mut parts = message.split("--set phases.");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += &match part.split_once('.').and_then(|(_, rest)| rest.split_once('=')) {
            Some((key, rest)) if key.chars().all(|c| c.is_ascii_lowercase() || c == '_') => {
                format!("--{} {rest}", key.replace('_', "-"))
            }
            _ => format!("--set phases.{part}"),
        };
    }
    out
}

/// The flag that sets a key, or else the key itself.
fn flag_of(key: &str) -> String {
    let parts: Vec<&str> = key.split('.').collect();
    let name = match parts[..] {
        ["phases", _, "mix", ..] => "mix",
        ["collections", COLLECTION, "count"] => "docs",
        ["collections", COLLECTION, "existing", "key"] => "existing-key",
        ["collections", COLLECTION, "existing", "body"] => "existing-body",
        ["phases", _, name, ..] | ["collections", COLLECTION, name, ..] | [name @ "seed"] => name,
        _ => return key.to_owned(),
    };
    format!("--{}", name.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::args::{Args, Verb};
    use crate::bench_study::build;
    use crate::{stores, studies};

    fn refusal(flags: &str) -> String {
        let words = ["storebench", "bench"].into_iter().chain(flags.split_whitespace());
        let Verb::Bench(args) = Args::try_parse_from(words).unwrap().verb else { unreachable!("the verb is bench") };
        let built = build(&args).and_then(|built| {
            stores::open_all(&built.study)?;
            studies::compile(&built.study).map_err(of_documents)
        });
        let failure = built.unwrap_err();
        assert_eq!(failure.code, 2, "{}", failure.message);
        failure.message
    }

    #[test]
    fn errors_name_the_flag_that_was_typed_once() {
        for (flags, told) in [
            ("memory: --workers 0", "--workers: 0 is out of range; use 1 to 1024"),
            ("memory: --in-flight 0", "--in-flight: 0 is out of range; use 1 to 65536"),
            ("memory: --docs 0", "--docs: 0 documents leave nothing to do; use 1 or more"),
            ("memory: --batch 0", "--batch: use 1 to 1,000,000 documents"),
            ("memory: --duration 0s", "--duration: a phase of 0 s measures nothing"),
            ("memory: --check 2", "--check: invalid share 2; use 0 to 1"),
            (
                "memory: --ledger --streams independent",
                "--ledger: a ledger needs one writer for each key; add --streams disjoint",
            ),
            (
                "memory: --mix page=1",
                "--mix: a page needs the indexed field: where = \"…\"; no flag of `bench` sets that: write a study, and \
                 use `run`",
            ),
            (
                "memory: --workers 0 --batch 0",
                "--workers: 0 is out of range; use 1 to 1024\n--batch: use 1 to 1,000,000 documents",
            ),
        ] {
            assert_eq!(refusal(flags), told, "{flags}");
        }
        assert!(refusal("memory: --from nosuch.jsonl").starts_with("--from: "));
        assert!(refusal("memory: --key {nope}").starts_with("--key: "));
    }

    /// Every key that a flag of `bench` sets goes by the name of that flag.
    #[test]
    fn keys_of_phases_and_documents_are_flags() {
        let command = Args::command();
        let bench = command.find_subcommand("bench").unwrap();
        let flags: Vec<String> = bench.get_arguments().filter_map(|flag| flag.get_long().map(str::to_owned)).collect();
        for key in [
            "phases.0.workers",
            "phases.0.connections",
            "phases.0.pin_workers",
            "phases.0.on_disconnect",
            "phases.1.mix.read.where",
            "phases.1.popularity",
            "collections.docs.count",
            "collections.docs.compress_to",
            "collections.docs.existing.key",
            "collections.docs.existing.body",
            "collections.docs.from",
            "seed",
        ] {
            let flag = flag_of(key);
            assert!(flags.iter().any(|known| flag == format!("--{known}")), "{key}: {flag}");
        }
        assert_eq!(flag_of("stores.memory"), "stores.memory");
        assert_eq!(
            in_flags("use --set phases.bench.workers=3 and --set phases.warm-up.in_flight=1, or another server"),
            "use --workers 3 and --in-flight 1, or another server"
        );
    }
}
