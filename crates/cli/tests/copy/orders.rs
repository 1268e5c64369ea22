//! Random orders of verbs on one place, with a model of the user's data. The data never changes without the flag that
//! names the loss.
//!
//! `STOREBENCH_ORDERS` sets the number of orders, and `STOREBENCH_ORDERS_SEED` the seed of the first one. A failure
//! prints the seed of its order and the commands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::Cli;
use crate::server::Server;

/// The number of commands in one order.
const STEPS: usize = 9;
/// Collections that copies write into. A study and `bench` use the first two names for their own collections.
const COLLECTIONS: [&str; 3] = ["books", "docs", "cities"];
const FILES: usize = 3;
const RECORDS: usize = 40;
const PARTS: usize = 4;

const STUDY: &str = r#"title = "Small"
seed = 7
stores = ["STORE"]
[collections.books]
count = 40
size = "60B"
[[phases]]
name = "load"
load = ["books"]
[[phases]]
name = "work"
mix = { read = 1, upsert = 1, delete = 1 }
operations = 40
"#;

/// SplitMix64 (Steele, Lea, Flood 2014): enough for a test, and the same everywhere.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % below as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.next(n) == 0
    }
}

/// Records by key.
type Records = BTreeMap<String, Value>;

/// The records of a file. It shares keys with other files, but has its own contents.
fn records(file: usize) -> Records {
    let key = |n: usize| format!("k{:03}", n + file * RECORDS / 2);
    (0..RECORDS).map(|n| (key(n), serde_json::json!({ "file": file, "n": n }))).collect()
}

fn files(number: usize) -> String {
    format!("set{number}-*.jsonl")
}

/// A copy, identified by its arguments, as in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Copy {
    file: usize,
    collection: usize,
}

struct Order<'a> {
    cli: Cli,
    store: &'a str,
    draw: Draw,
    /// The user's data, by collection.
    user: BTreeMap<&'static str, Records>,
    /// Copies that were killed, whose logs may exist.
    unfinished: BTreeSet<Copy>,
    /// Whether something was killed at this place, which may have left it without a marker.
    killed: bool,
    told: Vec<String>,
}

impl<'a> Order<'a> {
    fn new(store: &'a str, seed: u64) -> Self {
        let cli = Cli::in_memory();
        for number in 0..FILES {
            let line = |(key, record): (String, Value)| {
                format!("{{\"_id\":\"{key}\",\"file\":{},\"n\":{}}}\n", record["file"], record["n"])
            };
            let lines: Vec<String> = records(number).into_iter().map(line).collect();
            // Each file is one part of the copy.
            for (part, lines) in lines.chunks(RECORDS / PARTS).enumerate() {
                cli.write(&format!("set{number}-{part}.jsonl"), &lines.concat());
            }
        }
        cli.write("study.toml", &STUDY.replace("STORE", store));
        Self {
            cli,
            store,
            draw: Draw(seed),
            user: BTreeMap::new(),
            unfinished: BTreeSet::new(),
            killed: false,
            told: Vec::new(),
        }
    }

    /// Runs a command, and kills it after `kill_after`. Returns its exit code (`None` if it was killed) and stderr.
    fn run(&mut self, words: &str, kill_after: Option<Duration>) -> (Option<i32>, String) {
        let args: Vec<&str> = words.split(' ').collect();
        let err = self.cli.path("stderr");
        let mut command = self.cli.command(&args);
        command.stdout(std::process::Stdio::null()).stderr(std::fs::File::create(&err).unwrap());
        let mut child = command.spawn().unwrap();
        let began = Instant::now();
        let code = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status.code();
            }
            if kill_after.is_some_and(|after| began.elapsed() >= after) {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "`{words}` does not end");
            std::thread::sleep(Duration::from_millis(1));
        };
        let text = std::fs::read_to_string(&err).unwrap();
        let ended = code.map_or("killed".to_owned(), |code| format!("exit {code}"));
        self.told.push(format!("storebench {words}  # {ended}: {}", text.lines().last().unwrap_or_default()));
        (code, text)
    }

    /// Reads a collection from a copy of the place, so that the place is not touched.
    fn read(&self, collection: &str) -> Result<Records, String> {
        let beside = tempfile::tempdir().unwrap();
        let from = match self.store.split_once(':') {
            Some((scheme, name)) if !name.starts_with("//") => {
                for entry in std::fs::read_dir(self.cli.folder.path()).unwrap().flatten() {
                    let file = entry.file_name();
                    // SQLite recreates the index of its log.
                    if file.to_string_lossy().starts_with(name) && !file.to_string_lossy().ends_with("-shm") {
                        copy_all(&entry.path(), &beside.path().join(&file));
                    }
                }
                let path = beside.path().join(name);
                if scheme == "sqlite" {
                    return read_sqlite(&path, collection);
                }
                format!("{scheme}:{}", path.display())
            }
            _ => self.store.to_owned(),
        };
        let done = self.cli.run(&format!("copy {from} - --from-collection {collection} -q"));
        if done.code != 0 {
            return Err(format!("exit {}: {}", done.code, done.err));
        }
        let record = |line: &str| {
            let record: Value = serde_json::from_str(line).unwrap();
            (record["_id"].as_str().unwrap().to_owned(), without_key(record))
        };
        Ok(done.out.lines().map(record).collect())
    }

    #[track_caller]
    fn fail(&self, seed: u64, why: &str) -> ! {
        panic!("{} seed {seed}: {why}\n  {}", self.store, self.told.join("\n  "));
    }

    /// Asserts that all of the user's data is unchanged.
    fn check(&self, seed: u64) {
        for (collection, expected) in &self.user {
            match self.read(collection) {
                Ok(found) if found == *expected => {}
                Ok(found) => self.fail(seed, &difference(collection, expected, &found)),
                Err(error) => self.fail(seed, &format!("`{collection}` cannot be read: {error}")),
            }
        }
    }

    /// Updates the model after a copy that may have been killed, so that some of its records may be there.
    fn copied(&mut self, copy: Copy, code: Option<i32>, resumed: bool, seed: u64) {
        let name = COLLECTIONS[copy.collection];
        let (before, new) = (self.user.get(name).cloned(), records(copy.file));
        if code == Some(0) {
            self.unfinished.remove(&copy);
            // If the copy took over a study's collection, the study's documents are there too. They are now the user's.
            let mut all = before.unwrap_or_else(|| self.read(name).unwrap_or_default());
            let found = self.read(name).unwrap_or_default();
            for (key, record) in new {
                // Parts written before a kill are not written again, so another copy may have overwritten them.
                let stays = resumed && all.contains_key(&key) && all.get(&key) == found.get(&key);
                if !stays {
                    all.insert(key, record);
                }
            }
            self.user.insert(name, all);
            return;
        }
        if code.is_some() {
            return;
        }
        self.killed = true;
        self.unfinished.insert(copy);
        let Ok(found) = self.read(name) else { return };
        for (key, was) in before.iter().flatten() {
            let is = found.get(key);
            if is != Some(was) && !(is.is_some() && is == new.get(key)) {
                self.fail(seed, &format!("`{name}`: {key} was {was} and is {is:?} after a copy that was killed"));
            }
        }
        // It may have been killed before it marked the collection. Then the collection is a study's or does not exist.
        if before.is_some() || found.values().any(|record| record.get("file").is_some()) {
            self.user.insert(name, found);
        }
    }

    fn step(&mut self, seed: u64) {
        let place = self.store;
        let kill = self.draw.one_in(3).then(|| Duration::from_millis(self.draw.next(120) as u64));
        match self.draw.next(10) {
            0..=3 => {
                let mut copy = Copy { file: self.draw.next(FILES), collection: self.draw.next(COLLECTIONS.len()) };
                let how = match self.draw.next(3) {
                    0 if !self.unfinished.is_empty() => {
                        let at = self.draw.next(self.unfinished.len());
                        copy = *self.unfinished.iter().nth(at).unwrap();
                        " --resume"
                    }
                    1 => " --restart",
                    _ => "",
                };
                // Slow enough to be killed in the middle.
                let slow = if kill.is_some() { " --rate-docs 800 --batch 4" } else { "" };
                let (from, into) = (files(copy.file), COLLECTIONS[copy.collection]);
                let words = format!("copy {from} {place} --to-collection {into} -p 2 -q{how}{slow}");
                let (code, _) = self.run(&words, kill);
                if code == Some(0) || code.is_none() {
                    self.copied(copy, code, how == " --resume", seed);
                } else if how == " --restart" && !self.killed {
                    self.fail(seed, "--restart must be possible");
                }
            }
            4..=8 => {
                let discards = self.draw.one_in(6);
                let mut words = match self.draw.next(3) {
                    0 => "run study.toml -q".to_owned(),
                    1 => format!("bench {place} --docs 40 --size 60B --duration 30ms --warm-up 0s -q"),
                    _ => format!("conform {place} -q"),
                };
                let conforms = words.starts_with("conform");
                // The suite takes seconds if it is not refused.
                let kill = if conforms { Some(Duration::from_millis(self.draw.next(400) as u64)) } else { kill };
                if discards {
                    words += " --discard-existing";
                } else if !conforms && self.draw.one_in(3) {
                    words += " --into-existing";
                }
                if !conforms && self.draw.one_in(3) {
                    words += " --remove-after";
                }
                let (code, err) = self.run(&words, kill);
                self.killed |= code.is_none();
                let began = !matches!(code, Some(2 | 3));
                if discards && began {
                    // The user gave up the data. If the command was killed before it deleted it, it is still there.
                    let names: Vec<&'static str> = self.user.keys().copied().collect();
                    for name in names {
                        match (code, self.read(name)) {
                            (None, Ok(found)) if Some(&found) == self.user.get(name) => {}
                            _ => drop(self.user.remove(name)),
                        }
                    }
                }
                let plain = !discards && !words.contains("--into-existing");
                if plain && !self.user.is_empty() && code.is_some() && code != Some(2) {
                    self.fail(seed, "the command must be refused");
                }
                if plain && code == Some(2) && !self.user.is_empty() && !err.contains("--discard-existing") {
                    self.fail(seed, "the refusal names no remedy");
                }
                if plain && self.user.is_empty() && !self.killed && !matches!(code, Some(0 | 4)) {
                    self.fail(seed, "no data of the user is there, but the command is refused");
                }
            }
            _ => {
                let (code, _) = self.run(&format!("verify {place} study.toml"), kill);
                self.killed |= code.is_none();
            }
        }
    }
}

fn difference(collection: &str, expected: &Records, found: &Records) -> String {
    let missing: Vec<&String> = expected.keys().filter(|key| !found.contains_key(*key)).collect();
    let more: Vec<&String> = found.keys().filter(|key| !expected.contains_key(*key)).collect();
    let other: Vec<&String> =
        expected.keys().filter(|key| found.get(*key).is_some_and(|f| *f != expected[*key])).collect();
    format!("`{collection}` has changed: missing {missing:?}, more {more:?}, other contents {other:?}")
}

fn copy_all(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().flatten() {
            copy_all(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::copy(from, to).unwrap();
    }
}

/// Removes the key. Whether a document contains its key is not tested here.
fn without_key(mut record: Value) -> Value {
    record.as_object_mut().unwrap().remove("_id");
    record
}

/// Reads with SQLite itself, which merges the log of a killed process.
fn read_sqlite(path: &Path, collection: &str) -> Result<Records, String> {
    let text = |e: rusqlite::Error| e.to_string();
    let db = rusqlite::Connection::open(path).map_err(text)?;
    let mut rows = db.prepare(&format!("SELECT key, body FROM {collection}")).map_err(text)?;
    let rows = rows.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).map_err(text)?;
    rows.map(|row| row.map(|(key, body)| (key, without_key(serde_json::from_str(&body).unwrap()))).map_err(text))
        .collect()
}

fn from_environment(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Plays several orders at a time, `usual` in total by default. `store` gives the place for each seed.
fn play(usual: u64, store: impl Fn(u64) -> String + Sync) {
    let orders = from_environment("STOREBENCH_ORDERS", usual);
    let first = from_environment("STOREBENCH_ORDERS_SEED", 1);
    let (next, told) = (AtomicU64::new(0), Mutex::new((0, 0, 0)));
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= orders {
            return;
        }
        let seed = first + number;
        let store = store(seed);
        let mut order = Order::new(&store, seed);
        for _ in 0..STEPS {
            order.step(seed);
            order.check(seed);
        }
        let mut told = told.lock().unwrap();
        told.0 += order.told.len();
        told.1 += order.told.iter().filter(|line| line.contains("# killed")).count();
        told.2 += order.user.values().map(BTreeMap::len).sum::<usize>();
    };
    std::thread::scope(|scope| {
        // The threads mostly wait for their child processes.
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                next.store(orders, Ordering::Relaxed);
                std::panic::resume_unwind(panic);
            }
        }
    });
    let (steps, killed, kept) = told.into_inner().unwrap();
    println!("{orders} orders of {steps} commands, {killed} of them killed; {kept} records of the user's at the ends");
    // A test that only ever refuses proves nothing.
    assert!(orders < 10 || (killed > 0 && kept > 0));
}

fn embedded(seed: u64) -> String {
    ["sqlite:it.db", "fjall:it", "redb:it.redb"][(seed % 3) as usize].to_owned()
}

#[test]
fn no_order_of_verbs_takes_what_is_the_users() {
    play(24, embedded);
}

#[test]
#[ignore = "soak: 1,000 orders on embedded stores"]
fn soak_1000_orders_of_verbs_on_embedded_stores() {
    play(1_000, embedded);
}

#[test]
#[ignore = "soak: 50 orders on PostgreSQL"]
fn soak_50_orders_of_verbs_on_postgres() {
    let server = Server::start("postgres");
    // Each order has its own schema, so that orders in one database do not conflict.
    play(50, |seed| format!("{}?schema=order{seed}", server.url));
}
