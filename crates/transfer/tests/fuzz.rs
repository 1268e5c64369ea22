//! Fuzzes every parser of files and of command-line values. Whatever the input contains, parsing must end with a result
//! or an error, and must not allocate more memory than the input justifies.
//!
//! `STOREBENCH_FUZZ_INPUTS` sets the number of inputs of the soak tests, `STOREBENCH_FUZZ_SEED` the first seed.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "these are tests")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use storebench_engine::Stop;
use storebench_fakes::fuzz::{Mutator, first_seed, inputs};
use storebench_transfer::{
    Begin, ColumnTypes, Columns, CopyRequest, Fields, FileSink, FileSinkOptions, FileSource, FileSourceOptions, Format,
    Infer, Jq, KEY_FIELD, KeyRule, Packing, Records, Renames, Room, Shape, Source, TransferError, ViewKeys, copy,
    infer_columns, settings_of,
};

/// Counts the allocated bytes, now and at most.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are those of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are those of `System`.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are those of `System`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Inputs are at most tens of KiB, but a zstd window may have 128 MiB, and 1,000,000 keys need their space.
const MOST_BYTES: usize = 512 << 20;
/// Inputs of the tests that always run: for cheap parsers, and for those that read a file.
const MANY: u64 = 1_500;
const SOME: u64 = 700;

/// Runs tests one at a time, so that their allocations are not mixed up.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints the seed of a failing input.
struct Under<'a>(&'a str, u64);

impl Drop for Under<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: STOREBENCH_FUZZ_SEED={} STOREBENCH_FUZZ_INPUTS=1 reproduces this input", self.0, self.1);
        }
    }
}

/// Passes inputs to a parser, on an 8 MiB stack.
fn fuzz(name: &str, count: u64, parse: impl Fn(&mut Mutator) + Send) {
    let _alone = alone();
    std::thread::scope(|scope| {
        let work = move || {
            for seed in first_seed(1)..first_seed(1) + count {
                let _under = Under(name, seed);
                let before = HELD.load(Ordering::Relaxed);
                MOST.store(before, Ordering::Relaxed);
                parse(&mut Mutator::new(seed));
                let took = MOST.load(Ordering::Relaxed).saturating_sub(before);
                assert!(took < MOST_BYTES, "{name}: {took} bytes for one input");
            }
        };
        std::thread::Builder::new().stack_size(8 << 20).spawn_scoped(scope, work).unwrap().join().unwrap();
    });
    eprintln!("{name}: {count} inputs");
}

/// Reads a whole source. Returns the number of good and bad records, or the error.
fn read(source: &FileSource, shape: &Shape) -> Result<(usize, usize), TransferError> {
    let mut cx = Context::from_waker(Waker::noop());
    let (mut good, mut broken) = (0, 0);
    for split in source.splits(2)? {
        let Poll::Ready(opened) = source.open(&split, shape).as_mut().poll(&mut cx) else { panic!("files are there") };
        let mut reader = opened?;
        let mut records = Records::new();
        for turn in 0.. {
            assert!(turn < 1_000_000, "endless loop");
            records.clear();
            let room = Room { records: 1_000, bytes: 1 << 20 };
            let Poll::Ready(more) = reader.poll_read(&mut cx, room, &mut records) else { panic!("no waiting") };
            (good, broken) = (good + records.len(), broken + records.bad.drain(..).count());
            for bad in &records.bad {
                let _ = source.place(&split, bad.origin);
            }
            if !more? {
                break;
            }
        }
    }
    Ok((good, broken))
}

/// A folder in memory, if the machine supports it.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn documents() -> String {
    let mut text = String::from("{\"_id\":\"é\",\"t\":\"\\u00e9\\n\",\"l\":[1,[],{}],\"o\":{\"x\":{\"y\":null}}}\n");
    for n in 0..30 {
        text += &format!(
            "{{\"_id\":\"k{n}\",\"n\":{n},\"s\":{}.5,\"yes\":true,\"tags\":[\"a\",\"{n}\"],\"o\":{{\"x\":{n}}}}}\r\n",
            n * 7
        );
    }
    text
}

fn options(path: PathBuf, format: Format, columns: Columns) -> FileSinkOptions {
    FileSinkOptions {
        replace: true,
        folder: false,
        parts: path.with_extension("parts"),
        format,
        columns,
        packing: Packing::Plain,
        key_field: Some(KEY_FIELD.to_owned()),
        fresh: true,
        place: Some(path.into()),
    }
}

fn request<'a>(
    source: &'a FileSource,
    sink: &'a FileSink,
    shape: &'a Shape,
    at: &Path,
    begin: Begin,
) -> CopyRequest<'a> {
    CopyRequest {
        replace: true,
        source,
        sink,
        splits: None,
        shape,
        op: "upsert",
        parallel: 1,
        docs_per_s: None,
        bytes_per_s: None,
        folder: at.join("copy"),
        rejects: at.join("rejects.jsonl"),
        settings: BTreeMap::new(),
        begin,
        verify: false,
        interval: Duration::from_secs(1),
        tasks: None,
        observer: None,
    }
}

/// The documents as a file of this format.
fn written(format: Format) -> Vec<u8> {
    let at = folder();
    let input = at.path().join("in.jsonl");
    std::fs::write(&input, documents()).unwrap();
    let source = FileSource::open(&[input], FileSourceOptions::default()).unwrap();
    let shape = Shape::new(None, "fuzz");
    let columns =
        infer_columns(&source, &source.splits(1).unwrap(), &shape, &Infer::new(format, Some(KEY_FIELD))).unwrap();
    let out = at.path().join(format!("out.{format}"));
    let sink = FileSink::open(options(out.clone(), format, columns)).unwrap();
    copy(&request(&source, &sink, &shape, at.path(), Begin::Fresh), &Arc::new(Stop::new()), &mut |_| {}).unwrap();
    std::fs::read(out).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::GzBuilder::new().filename("a").comment("b").write(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn packed(bytes: &[u8]) -> Vec<Vec<u8>> {
    let two = [gzip(bytes), gzip(b"{\"_id\":\"x\"}\n")].concat();
    vec![gzip(bytes), two, zstd::encode_all(bytes, 1).unwrap()]
}

const WORDS: [&[u8]; 22] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\n",
    b"\r\n",
    b"\xef\xbb\xbf",
    b"null",
    b"1e400",
    b"-0.0",
    b"\"_id\":\"a\"",
    b"\"_id\":",
    b"\x00",
    b"\xff",
    b"\t",
    b"[[[[[[[[",
];

/// Reads mutated files of one format through the file system, as the copy does.
fn files(name: &str, count: u64, format: Format, good: Vec<Vec<u8>>, types: &str) {
    let at = folder();
    let path = at.path().join("input");
    let types: ColumnTypes = if types.is_empty() { ColumnTypes::default() } else { types.parse().unwrap() };
    let shape = Shape::new(None, "fuzz");
    fuzz(name, count, |mutator| {
        std::fs::write(&path, mutator.input(&good, &WORDS)).unwrap();
        let options = FileSourceOptions { format: Some(format), types: types.clone(), ..FileSourceOptions::default() };
        let _ = FileSource::open(std::slice::from_ref(&path), options).and_then(|source| read(&source, &shape));
    });
}

fn lines(count: u64) {
    let good = [vec![documents().into_bytes()], packed(documents().as_bytes())].concat();
    files("JSON lines", count, Format::Jsonl, good, "");
}

fn lists(count: u64) {
    let list = written(Format::Json);
    files("JSON lists", count, Format::Json, [packed(&list), vec![list]].concat(), "");
}

fn tables_of_text(count: u64) {
    let table = written(Format::Csv);
    let types = "_id=text,n=integer,s=number,yes=boolean,tags=json,o=json";
    files("CSV", count, Format::Csv, [packed(&table), vec![table]].concat(), types);
    let table = written(Format::Tsv);
    files("TSV", count, Format::Tsv, vec![table, b"_id\tt\n\"a\"\t\"b \"\"c\"\"\"\n".to_vec()], "");
}

fn parquet(count: u64) {
    files("Parquet", count, Format::Parquet, vec![written(Format::Parquet)], "");
}

fn arrow(count: u64) {
    let file = written(Format::Arrow);
    let stream = file[file.iter().position(|byte| *byte == 0xff).unwrap()..].to_vec();
    files("Arrow", count, Format::Arrow, vec![file.clone(), stream.clone(), gzip(&stream), gzip(&file)], "");
}

/// Values typed by users: view keys, types, key rules, field names and schemas.
fn typed(count: u64) {
    const KEYS: [&str; 4] =
        ["[\"20140401\",((00-19))]", "\"p-((08-11))\" ; \"a;b\";7", "((1-3));2", "[((1-2)),((3-4))];\"((1-20))\""];
    const KEY_WORDS: [&[u8]; 9] = [b"((", b"))", b"((0-9))", b"-", b";", b"\"", b"\\", b"[", b"0"];
    // Some expand to a million keys.
    fuzz("view keys", count / 40, |mutator| drop(mutator.text(&KEYS, &KEY_WORDS).parse::<ViewKeys>()));
    const TYPES: [&str; 2] = ["price=number,year=integer,a=b=json", "x=overflow"];
    const RULES: [&str; 4] = ["id", "address.zip", "{user}-{book}", "x/{uuid}{seq}"];
    const NAMES: [&str; 3] = ["a,b.c,d", "old=new,other=another", "a"];
    const TYPED_WORDS: [&[u8]; 8] = [b"{", b"}", b".", b",", b"=", b"text", b"\xc3", b"{seq}"];
    fuzz("types, rules and names", count, |mutator| {
        drop(mutator.text(&TYPES, &TYPED_WORDS).parse::<ColumnTypes>());
        drop(mutator.text(&RULES, &TYPED_WORDS).parse::<KeyRule>());
        let names = mutator.text(&NAMES, &TYPED_WORDS);
        drop((names.parse::<Fields>(), names.parse::<Renames>()));
    });
    const SCHEMAS: [&str; 2] = [
        "{\"columns\": {\"_id\": \"text\", \"n\": \"number\", \"l\": [[\"integer\"]], \"o\": {\"x\": \"boolean\"}}}",
        "from  a\n{\n  \"columns\": {\n    \"a\": \"json\"\n  },\n  \"overflow\": null\n}\nnothing was written\n",
    ];
    const SCHEMA_WORDS: [&[u8]; 8] = [b"{", b"}", b"[", b"]", b"\"text\"", b"null", b"\"columns\":", b"\n}\n"];
    fuzz("schemas", count, |mutator| {
        if let Ok(columns) = Columns::of_schema(&mutator.text(&SCHEMAS, &SCHEMA_WORDS)) {
            assert_eq!(Columns::of_schema(&columns.schema()).as_ref(), Ok(&columns));
            drop(columns.arrow());
        }
    });
}

fn expressions(count: u64) {
    const GOOD: [&str; 6] = [
        ".n += $new.n | .k = $key",
        ".year > 2010 and ((.tags // []) | index(\"new\"))",
        "def f(x): if x then [.[]?, {a: 1}] else empty end; f(.a) as [$b] | \"x\\(.b)\"",
        "reduce .l[] as $x (0; . + $x)",
        "try error(\"a\") catch .",
        ".. | select(type == \"number\")",
    ];
    const WORDS: [&[u8]; 12] =
        [b"(", b")", b"[", b"|", b"$key", b"\"\\(", b"if ", b" end", b"reduce ", b"def f: ", b"..", b"?//"];
    fuzz("jq", count, |mutator| {
        let typed = mutator.text(&GOOD, &WORDS);
        let _ = Jq::of_record(&typed).map_err(|e| e.to_string());
        let _ = Jq::of_merge(&typed).map_err(|e| e.to_string());
    });
}

/// The mutated log of an unfinished copy.
fn logs(count: u64) {
    let at = folder();
    let input = at.path().join("in.jsonl");
    std::fs::write(&input, documents()).unwrap();
    let source = FileSource::open(&[input], FileSourceOptions::default()).unwrap();
    let shape = Shape::new(None, "fuzz");
    let sink = || FileSink::open(options(at.path().join("out.jsonl"), Format::Jsonl, Columns::default())).unwrap();
    copy(&request(&source, &sink(), &shape, at.path(), Begin::Fresh), &Arc::new(Stop::new()), &mut |_| {}).unwrap();
    let log = at.path().join("copy/log.jsonl");
    let good = vec![std::fs::read(&log).unwrap()];
    const WORDS: [&[u8]; 9] = [
        b"\"split\":",
        b"\"done\":",
        b"\"finished\"\n",
        b"\"file\":7",
        b"\"row-group\"",
        b"\"keys\"",
        b"{",
        b"}\n",
        b"null",
    ];
    let sink = sink();
    fuzz("copy logs", count, |mutator| {
        std::fs::write(&log, mutator.input(&good, &WORDS)).unwrap();
        let _ = settings_of(&at.path().join("copy"));
        // A mutated log may name parts that do not exist; resuming must then report an error.
        let request = request(&source, &sink, &shape, at.path(), Begin::Resume);
        let _ = copy(&request, &Arc::new(Stop::new()), &mut |_| {});
    });
}

#[test]
fn texts_of_records() {
    lines(SOME);
    lists(SOME);
    tables_of_text(SOME);
}

#[test]
fn tables_of_bytes() {
    parquet(SOME);
    arrow(SOME);
}

#[test]
fn what_is_typed() {
    typed(MANY * 5);
    expressions(SOME);
}

#[test]
fn logs_of_copies() {
    logs(SOME / 10);
}

#[test]
#[ignore = "soak: as many inputs to each parser as STOREBENCH_FUZZ_INPUTS says"]
fn soak_files() {
    let count = inputs(20_000);
    lines(count);
    lists(count);
    tables_of_text(count);
    parquet(count);
    arrow(count);
    logs(count / 10);
}

#[test]
#[ignore = "soak: as many inputs to each parser as STOREBENCH_FUZZ_INPUTS says"]
fn soak_what_is_typed() {
    let count = inputs(200_000);
    typed(count);
    expressions(count / 100);
}
