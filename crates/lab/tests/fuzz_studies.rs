//! Fuzzes everything that people write as text: studies, price sheets, overrides, units, gates. Parsing any input must
//! terminate, accept or reject it, and use no more memory than the text asks for.
//!
//! Inputs are mutated copies of the shipped files, and random bytes. `STOREBENCH_FUZZ_INPUTS` is the number of inputs
//! of the soak test, `STOREBENCH_FUZZ_SEED` its first seed. A failure names the seed of its input.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use storebench_engine::ResolvedPhase;
use storebench_engine::store::{AnyStore, Durability, MemoryStore};
use storebench_lab::plan::{Outline, plan_run};
use storebench_lab::run::{ConfigurationRequest, Links, compile_documents};
use storebench_results::compare::{Gate, parse_threshold};
use storebench_results::cost::PriceSheet;
use storebench_study::units::{ByteSize, Count, Span};
use storebench_study::workload::{LimitPath, Override, Popularity, Study};

// A shared file, not a crate: a dependency would bring the fakes' servers into this crate's tests.
#[path = "../../../dev/fakes/src/fuzz.rs"]
#[allow(unreachable_pub, dead_code, reason = "public in its own crate")]
mod inputs;

use inputs::{Mutator, first_seed};

/// Counts the memory that the program holds, and its peak.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn more(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller's guarantees are those of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are those of `System`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// More than any of these small files can ask for. Most of it is for a plan of ten thousand configurations.
const MOST_BYTES: usize = 512 << 20;
/// Number of inputs of the test that always runs.
const FEW: u64 = 1_500;

/// Texts inserted where something else is expected.
const WORDS: &[&str] = &[
    "0",
    "-1",
    "1",
    "1.5",
    "-0.0",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "1_000_000_000_000_000_000",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "true",
    "\"\"",
    "\"10^18\"",
    "\"1e18\"",
    "\"999999999999TiB\"",
    "\"99999999B\"",
    "\"584y\"",
    "\"999999999999d\"",
    "\"1m30s\"",
    "\"5s5\"",
    "\"µs\"",
    "[]",
    "{}",
    "[[]]",
    "[1, 1000000000000000000]",
    "[0, -1]",
    "\"{\"",
    "\"{index:99999999999}\"",
    "\"{index}\"",
    "\"{parent.key}\"",
    "\"zipf:1e9\"",
    "\"zipf:0.99\"",
    "\"working-set:20%:100%\"",
    "\"latest\"",
    "\"p99\"",
    "'''",
    "\"\"\"",
    "\\",
    "\u{0}",
    "\u{feff}",
    "é",
    "😀",
    "#",
    "=",
    ".",
    ",",
    "\"",
    "\n",
    "\r\n",
    "[[phases]]\n",
    "[factors]\n",
    "[collections.x]\n",
    "[limits]\n",
    "[presets.a]\n",
    "[[published]]\n",
    "\"phases.load.batch\" = ",
    "\"phases.*.workers\" = ",
    "\"store.cache\" = ",
    "scale = ",
    "count = ",
    "size = ",
    "per = ",
    "repeats = ",
    "seed = ",
    "rate = ",
    "words = ",
    "list = ",
    "length = ",
    "bins = ",
    "duration = ",
    "between = ",
    "fsync",
    "design = \"list\"\n",
    "design = \"one-at-a-time\"\n",
    "database = \"kept\"\n",
    "read",
    "update",
    "page",
    "insert",
];

/// Paths of overrides. Some of them exist in the shipped studies.
const PATHS: &[&str] = &[
    "title",
    "seed",
    "repeats",
    "repeat",
    "factors",
    "design",
    "stores",
    "phases.load.batch",
    "phases.load.workers",
    "phases.0.name",
    "phases.1.rate",
    "phases.1.mix",
    "phases.99.rate",
    "phases",
    "phases.load",
    "phases.bench.duration",
    "collections.docs.count",
    "collections.docs.size",
    "collections.docs.fields.name.words",
    "collections.docs",
    "collections..count",
    "limits.'a.b'",
    "factors.\"phases.load.batch\"",
    "search.phase",
    "servers.a.cpus",
    "presets.laptop.scale",
    "",
    ".",
    "a.b.c.d.e.f",
    "published.0.says",
    "flaws",
    "data_to_memory",
    "hosts",
    "links.a",
];

fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "toml") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

struct Seeds {
    studies: Vec<(PathBuf, String)>,
    sheets: Vec<(PathBuf, String)>,
}

/// The start and end of the first number from this position on.
fn number_from(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let begin = (from..text.len()).find(|at| text[*at].is_ascii_digit())?;
    let more = |b: &u8| b.is_ascii_alphanumeric() || b"._".contains(b);
    Some((begin, begin + text[begin..].iter().take_while(|b| more(b)).count()))
}

/// A mutated copy of a text.
fn changed(text: &str, others: &[(PathBuf, String)], random: &mut Mutator) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let to = (at + 1 + random.below(40)).min(bytes.len());
        match random.below(9) {
            0 if at < bytes.len() => bytes[at] = random.number() as u8,
            1 => drop(bytes.drain(at..to.max(at))),
            2 => {
                let again = bytes[at..to.max(at)].to_vec();
                bytes.splice(at..at, again);
            }
            3 => drop(bytes.splice(at..at, random.of(WORDS).bytes())),
            // Most mistakes of people are wrong values.
            4..=6 => {
                if let Some((begin, end)) = number_from(&bytes, at) {
                    bytes.splice(begin..end, random.of(WORDS).bytes());
                }
            }
            7 => {
                let other = &random.of(others).1;
                let line = random.of(&other.lines().collect::<Vec<_>>()).to_string() + "\n";
                let begin = bytes[..at].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
                bytes.splice(begin..begin, line.into_bytes());
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    bytes
}

/// One input, generated from its seed alone.
fn input(seeds: &Seeds, seed: u64) {
    let random = &mut Mutator::new(seed);
    let bytes = match random.below(20) {
        0 => (0..random.below(400)).map(|_| random.number() as u8).collect(),
        1 => (0..random.below(40)).flat_map(|_| random.of(WORDS).bytes().chain([b' '])).collect(),
        2..=4 => changed(&random.of(&seeds.sheets).1, &seeds.sheets, random),
        _ => changed(&random.of(&seeds.studies).1, &seeds.studies, random),
    };
    let Ok(text) = String::from_utf8(bytes) else { return };
    let file = Path::new("fuzzed.toml");
    let _ = PriceSheet::parse(&text, file).map_err(|errors| errors.to_string());
    values(&text, random);
    let given: Vec<String> =
        (0..random.below(3)).map(|_| format!("{}={}", random.of(PATHS), random.of(WORDS))).collect();
    let overrides = Override::parse_all(&given).unwrap();
    match Study::parse_with(&text, file, &overrides) {
        Err(errors) => assert!(!errors.to_string().is_empty()),
        Ok(study) => study_is_taken(&study, &text, file, &overrides),
    }
}

/// Parses words of a text as single values.
fn values(text: &str, random: &mut Mutator) {
    let words: Vec<&str> = text.split_whitespace().take(2_000).collect();
    for _ in 0..8 {
        let word = if words.is_empty() || random.below(2) == 0 { *random.of(WORDS) } else { *random.of(&words) };
        let word = word.trim_matches(['"', '\'', ',', '[', ']']);
        let _ = (word.parse::<ByteSize>(), word.parse::<Span>(), word.parse::<Count>());
        let _ = (word.parse::<Durability>(), word.parse::<Popularity>(), LimitPath::parse(word));
        let (gate, threshold) = (word.parse::<Gate>(), parse_threshold(word));
        let _ = (gate.map_err(|error| error.to_string()), threshold);
        if let Ok(gate) = format!("{word} > {}", random.of(WORDS)).parse::<Gate>() {
            assert!(gate.line.is_finite());
        }
        for shown in [word.parse::<ByteSize>().map(|v| v.to_string()), word.parse::<Count>().map(|v| v.to_string())] {
            assert!(shown.is_err() || !shown.unwrap().is_empty());
        }
    }
}

/// An accepted study has configurations and a plan, or an error says why not. It can be written and parsed again.
fn study_is_taken(study: &Study, text: &str, file: &Path, overrides: &[Override]) {
    let written = serde_json::to_value(study).unwrap();
    let _ = serde_json::from_value::<Study>(written);
    for (name, preset) in &study.presets {
        let _ = Study::parse_with(text, file, &preset.overrides(name));
    }
    if study.combinations().len() > 40 {
        return;
    }
    let Ok(configurations) = study.configurations(text, file, overrides) else { return };
    let store: Arc<dyn AnyStore> = Arc::new(MemoryStore::new());
    let can = store.capabilities();
    let (mut requests, mut resolved) = (Vec::new(), Vec::new());
    for at in configurations.iter().take(4) {
        let mut study = at.study.clone();
        // Searched sizes and files take time; other tests cover them.
        for collection in study.collections.values_mut() {
            collection.compress_to = None;
            if collection.from.is_some() || collection.text_file.is_some() {
                return;
            }
        }
        let Ok(documents) = compile_documents(&study, at.scale.unwrap_or(1.0), Path::new("/nowhere")) else {
            return;
        };
        // Documents of up to 1 GiB are allowed, and would be generated to measure their size.
        if text.contains("iB") && documents.catalog.iter().any(|of| of.longest_key_bytes() > 4_096) {
            return;
        }
        let resolve =
            |phase| ResolvedPhase::of(&study, phase, &documents.catalog, &can).map_err(|error| error.to_string());
        let Ok(phases) = study.phases.iter().map(resolve).collect::<Result<Vec<_>, _>>() else { return };
        resolved.push(phases);
        requests.push(ConfigurationRequest {
            store_name: "memory".into(),
            store: Arc::clone(&store),
            server: None,
            links: Links::default(),
            host: None,
            values: at.values_of("memory"),
            control: false,
            study,
            documents,
            scale: at.scale.unwrap_or(1.0),
            left_out: Vec::new(),
        });
    }
    let description = store.describe();
    let outline = |(request, phases)| Outline { request, description: &description, phases };
    let resolved: Vec<&[ResolvedPhase]> = resolved.iter().map(Vec::as_slice).collect();
    let outlines: Vec<Outline<'_>> = requests.iter().zip(resolved).map(outline).collect();
    let trials = outlines.len().saturating_mul(study.repeats.most() as usize);
    if trials <= 10_000 {
        let plan = plan_run(study, &outlines);
        assert_eq!(plan.trials.len(), trials.min(plan.trials.len()));
        assert!(!plan.in_a_line().is_empty() && !plan.to_string().is_empty());
    }
}

/// Runs this many inputs, starting at a seed. Returns the slowest, and how long it took.
fn fuzz(first: u64, inputs: u64) -> (u64, Duration) {
    let seeds = Seeds { studies: files("studies"), sheets: files("prices") };
    let mut slowest = (first, Duration::ZERO);
    for seed in first..first.saturating_add(inputs) {
        MOST.store(HELD.load(Ordering::Relaxed), Ordering::Relaxed);
        let (before, began) = (HELD.load(Ordering::Relaxed), Instant::now());
        let found = std::panic::catch_unwind(|| input(&seeds, seed));
        assert!(found.is_ok(), "the input of seed {seed} panics: STOREBENCH_FUZZ_SEED={seed} STOREBENCH_FUZZ_INPUTS=1");
        let taken = MOST.load(Ordering::Relaxed).saturating_sub(before);
        assert!(taken < MOST_BYTES, "the input of seed {seed} takes {taken} bytes of memory");
        if began.elapsed() > slowest.1 {
            slowest = (seed, began.elapsed());
        }
    }
    slowest
}

#[test]
fn whatever_a_study_or_a_sheet_holds_is_taken_or_refused() {
    fuzz(1, FEW);
}

#[test]
#[ignore = "takes as long as STOREBENCH_FUZZ_INPUTS says"]
fn soak_of_studies_and_sheets() {
    let (first, inputs) = (first_seed(1_000_000), inputs::inputs(100_000));
    let (seed, took) = fuzz(first, inputs);
    println!("{inputs} inputs from seed {first}: no panic; the slowest was {seed}, {took:?}");
}

/// Large numbers in a list of values must not allocate anything.
#[test]
fn a_huge_count_in_a_factor_takes_no_memory() {
    let text = r#"title = "Huge"
stores = ["memory:"]
repeats = 2
[collections.docs]
count = 1000
[[phases]]
name = "load"
load = ["docs"]
[factors]
"collections.docs.count" = [1000, 1_000_000_000_000_000, 9_007_199_254_740_991]
"#;
    let file = Path::new("huge.toml");
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let study = Study::parse(text, file, &[]).unwrap();
    study_is_taken(&study, text, file, &[]);
    let taken = MOST.load(Ordering::Relaxed).saturating_sub(before);
    assert!(taken < 256 << 20, "{taken}");
    let beyond = text.replace("9_007_199_254_740_991", "1_000_000_000_000_000_000");
    let study = Study::parse(&beyond, file, &[]).unwrap();
    let message = study.configurations(&beyond, file, &[]).unwrap_err().to_string();
    assert!(message.contains("is too large"), "{message}");
}
