//! Converts the flags of `bench` into the equivalent study for `run`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indexmap::IndexMap;
use storebench_engine::store::OpKind;
use storebench_lab::workers::{Workers, workers_for};
use storebench_machine::Processors;
use storebench_results::{human, redact, without_password};
use storebench_study::toml_document;
use storebench_study::units::{ByteSize, Count, PerSecond, Range, Span, UnitError};
use storebench_study::workload::{
    BadLines, Collection, ExistingDocuments, LedgerSpec, MixEntry, Phase, RateSpec, Size, Stores, Streams, Study,
};
use toml_edit::Item;

use crate::args::BenchArgs;
use crate::bench_flags;
use crate::failure::{Failure, no_such};

/// The only collection.
pub(crate) const COLLECTION: &str = "docs";
const DEFAULT_DOCS: Count = Count(100_000);
const DEFAULT_SIZE: ByteSize = ByteSize(1 << 10);
/// The compressed share of common JSON with zstd. Words drawn from a list would repeat, which flatters stores that
/// compress.
const DEFAULT_COMPRESS_TO: f64 = 0.4;
/// Smaller documents are mostly field names and braces, so their compression cannot be controlled.
const LEAST_COMPRESSED: ByteSize = ByteSize(200);
const DEFAULT_DURATION: Span = Span(Duration::from_secs(30));
/// The longest default warm-up.
const WARM_UP_AT_MOST: Duration = Duration::from_secs(5);

/// Parses a mix of operations, such as `read=50,update=50`.
pub(crate) fn parse_mix(text: &str) -> Result<IndexMap<String, MixEntry>, String> {
    let mut mix = IndexMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
        let (name, weight) = (name.trim(), weight.trim());
        if OpKind::find(name).is_none() {
            return Err(no_such("operation", name, OpKind::IN_MIX.iter().copied()));
        }
        let weight = weight
            .parse::<f64>()
            .ok()
            .filter(|w| w.is_finite() && *w > 0.0)
            .ok_or_else(|| format!("invalid weight `{weight}` for `{name}`; use a number above 0"))?;
        if mix.insert(name.to_owned(), MixEntry::weighing(weight)).is_some() {
            return Err(format!("`{name}` is listed twice; give it one weight"));
        }
    }
    if mix.is_empty() {
        return Err("a mix needs at least one operation, as in read=95,update=5".to_owned());
    }
    Ok(mix)
}

/// Parses a rate, such as `10k` or `0.5`.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let PerSecond(per_s) = text.parse().map_err(|e: UnitError| e.to_string())?;
    if per_s.is_finite() && per_s > 0.0 && per_s <= 1e9 {
        Ok(per_s)
    } else {
        Err("expected operations per second above 0 and up to 1e9, such as 500 or 10k".to_owned())
    }
}

/// A compressed share, such as `0.4`, or `none`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CompressText(Option<f64>);

/// Parses a compressed share.
pub(crate) fn parse_compress_to(text: &str) -> Result<CompressText, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(CompressText(Some(share))),
        _ if text == "none" => Ok(CompressText(None)),
        _ => Err("use a share above 0 and below 1, such as 0.4, or none".to_owned()),
    }
}

/// A number of workers, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WorkersText(Option<u32>);

/// Parses a number of workers.
pub(crate) fn parse_workers(text: &str) -> Result<WorkersText, String> {
    match text.parse() {
        Ok(count) => Ok(WorkersText(Some(count))),
        Err(_) if text == "auto" => Ok(WorkersText(None)),
        Err(_) => Err("use a number, or auto".to_owned()),
    }
}

/// A study, and notes for the user about how it was built.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) study: Study,
    /// The text of the study file.
    pub(crate) text: String,
    pub(crate) notes: Vec<String>,
}

/// Builds and checks the study of these flags.
pub(crate) fn build(args: &BenchArgs) -> Result<Built, Failure> {
    let mut notes = Vec::new();
    let is_asked_to_load = !args.no_load && args.existing.is_none();
    let loads = is_asked_to_load && !keeps_nothing(&args.url);
    if is_asked_to_load && !loads {
        notes.push("null: keeps nothing, so nothing is loaded".to_owned());
    }
    let workers = workers(args, &mut notes);
    let mut phases = Vec::new();
    if loads {
        phases.push(Phase {
            load: vec![COLLECTION.to_owned()],
            batch: Some(args.batch),
            workers,
            pin_workers: args.pin_workers,
            durability: args.fit.durability,
            timeout: args.timeout,
            on_disconnect: args.on_disconnect.into(),
            ..Phase::named("load")
        });
    }
    let measured = measured(args, workers);
    if let Some(length) = warm_up(args, &measured) {
        // A closed loop, whatever the rate, because it fills caches fastest.
        let warm_up = Phase {
            name: "warm-up".to_owned(),
            warm_up: true,
            duration: Some(length),
            operations: None,
            rate: None,
            // The ledger also follows the writes of the warm-up. If it cannot, the measured phase is refused for that.
            ledger: if measured.streams == Streams::Disjoint { measured.ledger } else { LedgerSpec::default() },
            ..measured.clone()
        };
        phases.push(warm_up);
    }
    phases.push(measured);
    let study = Study {
        title: format!("Quick benchmark of {}", redact(&args.url)),
        question: phases.last().map(|measured| question(args.rate, measured)),
        seed: args.seed,
        collections: IndexMap::from([(COLLECTION.to_owned(), collection(args)?)]),
        stores: Stores::from_urls([args.url.as_str()]),
        phases,
        ..Study::default()
    };
    let study = study.validate("the flags of bench").map_err(|errors| bench_flags::of_study(&errors))?;
    let kept = without_password(&args.url);
    if kept != args.url && args.save_study.is_some() {
        notes.push(
            "the password is left out of the saved study: set STOREBENCH_PASSWORD, or add password_file= to its URL"
                .to_owned(),
        );
    }
    // The user may run the file on another store, so its title names none.
    let saved = Study {
        title: format!("Quick benchmark: {}", study.phases.last().map(mix_in_words).unwrap_or_default()),
        // Its rate may be changed, too.
        question: study.phases.last().map(|measured| question(None, measured)),
        stores: Stores::from_urls([kept]),
        ..study.clone()
    };
    let text = file_of(&saved)
        .map_err(|why| Failure::spoiled(format!("the study of these flags cannot be written as TOML: {why}")))?;
    Ok(Built { study, text, notes })
}

/// The number of workers. Tells how it was chosen, if Storebench chose it.
fn workers(args: &BenchArgs, notes: &mut Vec<String>) -> u32 {
    args.workers.0.unwrap_or_else(|| {
        let Workers { count, why } = workers_for(Processors::look(), [args.url.as_str()], false);
        notes.push(format!("--workers auto is {count}: {why}"));
        count
    })
}

/// What a quick benchmark asks, at a rate that is known. It names no store, because the user may run the study on another
/// one.
fn question(rate: Option<f64>, measured: &Phase) -> String {
    let mix = mix_in_words(measured);
    match rate {
        Some(rate) => format!("How long do operations take at {}/s ({mix})?", human::rate(rate)),
        None if measured.rate.is_some() => format!("How long do operations take at a given rate ({mix})?"),
        None => format!("How many operations per second, and how long does each take ({mix})?"),
    }
}

/// The operations of a phase with their weights: `read 95, update 5`.
fn mix_in_words(phase: &Phase) -> String {
    let parts: Vec<String> = phase.mix.iter().map(|(name, entry)| format!("{name} {}", entry.weight)).collect();
    parts.join(", ")
}

/// The study as a file for people to edit, without values that equal their defaults.
fn file_of(study: &Study) -> Result<String, String> {
    let mut document = toml_document(study)?;
    let phases = document["phases"].as_array_of_tables_mut().into_iter().flat_map(|all| all.iter_mut());
    let defaults = toml_document(&Phase::named(""))?;
    // As a value, because the text of a table leaves out the tables in it.
    let text = |item: &Item| item.clone().into_value().map(|value| value.to_string()).ok();
    for phase in phases {
        phase
            .retain(|key, value| key == "name" || defaults.get(key).is_none_or(|default| text(default) != text(value)));
    }
    Ok(format!("# Written by `storebench bench`. Run it with `storebench run FILE`.\n\n{document}"))
}

fn keeps_nothing(url: &str) -> bool {
    url.split([':', '?']).next().and_then(|schemes| schemes.rsplit('+').next()) == Some("null")
}

fn collection(args: &BenchArgs) -> Result<Collection, Failure> {
    if let Some(name) = &args.existing {
        let documents =
            ExistingDocuments { name: name.clone(), key: args.existing_key.clone(), body: args.existing_body.clone() };
        return Ok(Collection { existing: Some(documents), sample: args.sample, ..Collection::default() });
    }
    let own = args.from.as_deref().map(absolute).transpose()?;
    let made = own.is_none();
    let size = args.size.unwrap_or(DEFAULT_SIZE);
    let compress_to = match args.compress_to {
        Some(CompressText(typed)) => typed,
        None => (made && size >= LEAST_COMPRESSED).then_some(DEFAULT_COMPRESS_TO),
    };
    Ok(Collection {
        count: args.docs.or(made.then_some(DEFAULT_DOCS)),
        key: args.key.clone(),
        size: made.then(|| Size::Uniform(Range::exactly(size))),
        compress_to,
        from: own,
        bad_lines: if args.skip_bad_lines { BadLines::Skip } else { BadLines::Stop },
        without: args.without.clone(),
        ..Collection::default()
    })
}

/// An absolute path of --from, because the saved study may be in another folder than the current one.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|e| Failure::bad_input(format!("--from {}: {e}", path.display())))
}

fn measured(args: &BenchArgs, workers: u32) -> Phase {
    let duration = args.duration.or(args.operations.is_none().then_some(DEFAULT_DURATION));
    let streams = match args.streams {
        Some(streams) => streams.into(),
        // A ledger needs a single writer for each key.
        None if args.ledger => Streams::Disjoint,
        None => Streams::default(),
    };
    Phase {
        mix: args.mix.clone().unwrap_or_else(|| default_mix(args)),
        popularity: args.popularity,
        streams,
        workers,
        pin_workers: args.pin_workers,
        connections: args.connections,
        in_flight: args.in_flight,
        rate: args.rate.map(RateSpec::Constant),
        arrival: args.arrival.into(),
        pacing: args.pacing.into(),
        think: args.think,
        duration,
        operations: args.operations,
        durability: args.fit.durability,
        consistency: args.consistency.map(Into::into),
        timeout: args.timeout,
        on_disconnect: args.on_disconnect.into(),
        drain: args.drain,
        check: args.check,
        ledger: LedgerSpec::Kept(args.ledger),
        ..Phase::named("bench")
    }
}

/// The default mix.
fn default_mix(args: &BenchArgs) -> IndexMap<String, MixEntry> {
    let mixed: &[(&str, f64)] =
        if args.existing.is_some() { &[("read", 1.0)] } else { &[("read", 95.0), ("update", 5.0)] };
    mixed.iter().map(|(name, weight)| ((*name).to_owned(), MixEntry::weighing(*weight))).collect()
}

/// The length of the warm-up. The duration of a phase with a number of operations is unknown, so it has a warm-up only
/// if one is asked for.
fn warm_up(args: &BenchArgs, measured: &Phase) -> Option<Span> {
    let length = args.warm_up.or_else(|| {
        let sixth = measured.duration?.0 / 6;
        // Whole milliseconds, because the length is printed.
        Some(Span(Duration::from_millis(sixth.min(WARM_UP_AT_MOST).as_millis() as u64)))
    })?;
    (!length.0.is_zero()).then_some(length)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Verb};

    fn built(flags: &str) -> Result<Built, Failure> {
        let words = ["storebench", "bench"].into_iter().chain(flags.split_whitespace());
        match Args::try_parse_from(words).unwrap().verb {
            Verb::Bench(args) => build(&args),
            _ => unreachable!("the verb is bench"),
        }
    }

    #[test]
    fn the_saved_study_is_the_study_that_runs() {
        for flags in [
            "sqlite:a.db",
            "sqlite:a.db --docs 2M --size 2KiB --mix read=50,update=50 --rate 10k --arrival poisson --duration 30s \
             --workers 4 --connections 2 --in-flight 3 --popularity zipf:0.99 --durability fsync --consistency strong \
             --compress-to 0.4 --warm-up 3s --pacing precise --timeout 5s --drain 2s --seed 7 --check 0.5 --ledger --on-disconnect end \
             --pin-workers --key doc-{index:08}",
            "redb:a.redb --from some.jsonl --key {a}-{b} --operations 5k --think 5ms --no-load",
            "null: --docs 1B --streams disjoint --batch 7",
            "sqlite:theirs.db --existing orders --sample 5k --mix read=3,scan=1",
            "sqlite:theirs.db --existing orders --existing-key id --existing-body doc",
        ] {
            let built = built(flags).unwrap();
            let again = Study::parse(&built.text, Path::new("saved.toml"), &[]).unwrap_or_else(|e| panic!("{e}"));
            let (title, question) = (built.study.title.clone(), built.study.question.clone());
            assert_eq!(Study { title, question, ..again }, built.study, "{}", built.text);
        }
    }

    #[test]
    fn workers_can_be_chosen_by_storebench() {
        let Built { study, notes, text } = built("sqlite:a.db --workers auto").unwrap();
        let cores = Processors::look().cores;
        assert_eq!(study.phases.iter().map(|phase| phase.workers).collect::<Vec<_>>(), [cores; 3]);
        assert!(notes[0].starts_with(&format!("--workers auto is {cores}: ")), "{notes:?}");
        assert_eq!(Study::parse(&text, Path::new("saved.toml"), &[]).unwrap().phases[2].workers, cores);
        let words = "storebench bench sqlite:a.db --workers many".split_whitespace();
        assert!(Args::try_parse_from(words).unwrap_err().to_string().contains("use a number, or auto"));
    }

    #[test]
    fn the_title_holds_no_secret() {
        let title = built("slow+memory://me:hush@host?latency=1ms&password=hush").unwrap().study.title;
        assert_eq!(title, "Quick benchmark of slow+memory://me:***@host?latency=1ms&password=***");
    }

    /// The file may be run on another store.
    #[test]
    fn the_saved_title_names_no_store() {
        for (flags, title) in [
            ("sqlite:shop.db", "Quick benchmark: read 95, update 5"),
            ("sqlite:shop.db --mix read=3,scan=1", "Quick benchmark: read 3, scan 1"),
        ] {
            let built = built(flags).unwrap();
            let saved = Study::parse(&built.text, Path::new("saved.toml"), &[]).unwrap();
            assert_eq!(
                (saved.title.as_str(), built.study.title.as_str()),
                (title, "Quick benchmark of sqlite:shop.db")
            );
        }
    }

    /// The rate of the file may be changed when it is run.
    #[test]
    fn the_saved_question_names_no_rate() {
        let built = built("memory: --rate 1k").unwrap();
        assert!(built.study.question.as_ref().unwrap().contains("at 1,000/s"), "{:?}", built.study.question);
        let again = Study::parse(&built.text, Path::new("saved.toml"), &["phases.bench.rate=2k".to_owned()]).unwrap();
        assert_eq!(again.question.unwrap(), "How long do operations take at a given rate (read 95, update 5)?");
    }

    #[test]
    fn the_saved_study_holds_no_secret() {
        let built = built("slow+memory://me:hush@host?latency=1ms --save-study x.toml").unwrap();
        assert!(built.text.contains("slow+memory://me@host?latency=1ms") && !built.text.contains("hush"));
        assert!(built.notes.iter().any(|note| note.contains("STOREBENCH_PASSWORD")), "{:?}", built.notes);
        assert_eq!(built.study.stores.0["slow+memory"], "slow+memory://me:hush@host?latency=1ms");
    }

    #[test]
    fn null_is_not_loaded() {
        let names = |flags| built(flags).unwrap().study.phases.into_iter().map(|p| p.name).collect::<Vec<_>>();
        assert_eq!(names("null:"), ["warm-up", "bench"]);
        assert_eq!(names("slow+null:?latency=1ms --warm-up 0s"), ["bench"]);
        assert_eq!(names("sqlite:null.db"), ["load", "warm-up", "bench"]);
        assert_eq!(names("sqlite:a.db --no-load --operations 10"), ["bench"]);
    }

    #[test]
    fn documents_of_others_are_only_read() {
        let study = built("sqlite:theirs.db --existing orders").unwrap().study;
        assert_eq!(study.phases.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["warm-up", "bench"]);
        assert_eq!(study.phases[1].mix.keys().collect::<Vec<_>>(), ["read"]);
        let failure = built("sqlite:theirs.db --existing orders --mix read=1,update=1").unwrap_err();
        for part in ["`bench`", "`update`", "nothing is written"] {
            assert!(failure.message.contains(part), "{}", failure.message);
        }
        let words = "storebench bench sqlite:a.db --existing orders --docs 5".split_whitespace();
        assert!(Args::try_parse_from(words).is_err());
    }

    #[test]
    fn a_contradiction_names_its_key() {
        let failure = built("sqlite:a.db --ledger --streams independent").unwrap_err();
        assert!(failure.message.contains("ledger") && failure.code == 2, "{}", failure.message);
        assert!(built("sqlite:a.db --mix page=1").unwrap_err().message.contains("index"));
    }

    #[test]
    fn documents_do_not_repeat_unless_asked_to() {
        let to = |flags: &str| built(flags).unwrap().study.collections[COLLECTION].compress_to;
        assert_eq!(to("memory:"), Some(0.4));
        assert_eq!(to("memory: --size 64KiB"), Some(0.4));
        assert_eq!(to("memory: --size 100B"), None);
        assert_eq!(to("memory: --compress-to none"), None);
        assert_eq!(to("memory: --compress-to 0.6 --size 100B"), Some(0.6));
        assert_eq!(to("memory: --from x.jsonl"), None);
        assert!(parse_compress_to("1.5").is_err());
    }

    #[test]
    fn mixes_and_rates_are_read() {
        assert_eq!(parse_mix("read=95, update=5").unwrap().keys().collect::<Vec<_>>(), ["read", "update"]);
        for (wrong, says) in
            [("raed=1", "did you mean `read`"), ("read=0", "above 0"), ("read=1,read=2", "twice"), (" , ", "at least")]
        {
            let text = parse_mix(wrong).unwrap_err();
            assert!(text.contains(says), "{text}");
        }
        assert_eq!((parse_rate("10k"), parse_rate("0.5")), (Ok(10_000.0), Ok(0.5)));
        for wrong in ["0", "-1", "inf", "fast"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
