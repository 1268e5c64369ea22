//! Loads into embedded stores: through the engine and its driver, compared with a hand-written loop over the same crate
//! with the same schema, batches, durability and documents.

mod fjall;
mod redb;
mod sqlite;

use std::path::{Path, PathBuf};
use std::time::Instant;

use storebench_documents::Documents;
use storebench_engine::measure::process_cpu_ns;
use storebench_engine::store::Prepare;

use crate::Failure;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;
use crate::subject::Subject;

pub(crate) const FIGURES: &[&str] = &["sqlite os", "sqlite fsync", "fjall os", "fjall fsync", "redb os", "redb fsync"];

const TOPIC: &str = "embedded";
/// Documents in one transaction.
const BATCH: u64 = 1_000;

/// What a committed batch survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// The end of the process.
    Os,
    /// A power failure.
    Fsync,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::Fsync => "fsync",
        }
    }
}

/// Loads every document by hand into a new store at this path. The watch runs while documents are generated and
/// written, not while the store is opened or closed.
type ByHand = fn(&Path, Level, &Documents, &mut Watch) -> Result<(), Failure>;

const STORES: [(&str, ByHand); 3] = [("sqlite", sqlite::load), ("fjall", fjall::load), ("redb", redb::load)];

/// How long something took: wall-clock time, and the processor time of all threads.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    began: Option<(Instant, u64)>,
    wall_ns: u64,
    cpu_ns: u64,
}

impl Watch {
    pub(crate) fn start(&mut self) {
        self.began = Some((Instant::now(), process_cpu_ns()));
    }

    pub(crate) fn stop(&mut self) {
        if let Some((wall, cpu)) = self.began.take() {
            self.wall_ns += wall.elapsed().as_nanos() as u64;
            self.cpu_ns += process_cpu_ns() - cpu;
        }
    }

    /// Documents per second, and the processor time of each in µs.
    fn per_document(&self, documents: u64) -> [f64; 2] {
        let documents = documents as f64;
        [documents * 1e9 / self.wall_ns.max(1) as f64, self.cpu_ns as f64 / 1e3 / documents]
    }
}

fn study(documents: u64, level: Level) -> String {
    let head = crate::subject::head("Load", documents, "2KiB");
    format!(
        r#"{head}
[[phases]]
name = "load"
load = ["documents"]
batch = {BATCH}
workers = 1
durability = "{}"
"#,
        level.name()
    )
}

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let dir = folder(options)?;
    let mut figures = Vec::new();
    for (name, by_hand) in STORES {
        for level in [Level::Os, Level::Fsync] {
            let what = format!("{name} {}", level.name());
            if !options.wants(TOPIC, &what) {
                continue;
            }
            let figure = pair(options, &dir, name, level, by_hand);
            figures.push(figure.unwrap_or_else(|e| Figure::not_measured(TOPIC, &what, &e.to_string())));
        }
    }
    Ok(figures)
}

/// The folder of the stores: on a disk, not in a temporary folder that may be in memory.
pub(crate) fn folder(options: &Options) -> Result<PathBuf, Failure> {
    if let Some(dir) = &options.dir {
        return Ok(dir.clone());
    }
    let program = std::env::current_exe()?;
    Ok(program.parent().ok_or("the folder of this program is unknown; give --dir")?.to_owned())
}

fn pair(options: &Options, dir: &Path, name: &str, level: Level, by_hand: ByHand) -> Result<Figure, Failure> {
    let documents = options.work(match level {
        Level::Os => 100_000,
        Level::Fsync => 50_000,
    });
    let subject = Subject::new(&study(documents, level))?;
    let fresh = || tempfile::Builder::new().prefix("storebench-bench-").tempdir_in(dir);
    let mut ours = || {
        let dir = fresh()?;
        through_the_engine(&subject, name, &dir.path().join("store"), documents)
    };
    let mut hand = || {
        let dir = fresh()?;
        let path = dir.path().join("store");
        // On a separate thread, like the engine's worker. The first thread's heap is warm from earlier rounds, so its
        // allocations are cheaper. This alone made up to a third of the speed.
        on_a_thread(|| {
            let mut watch = Watch::default();
            by_hand(&path, level, subject.documents(), &mut watch).map_err(|e| e.to_string())?;
            Ok(watch.per_document(documents))
        })
    };
    let all = interleave::<2>(options.rounds, vec![&mut ours, &mut hand])?;
    let [[ours, ours_cpu], [hand, hand_cpu]] = &all[..] else { return Err("two sides give two results".into()) };
    let cpu_ratio = Samples(ours_cpu.0.iter().zip(&hand_cpu.0).map(|(a, b)| a / b).collect());
    Ok(Figure::new(TOPIC, format!("{name} {}: load", level.name()), Unit::DocsPerS, ours.clone())
        .beside("loop by hand", hand.clone())
        .target(Target::RatioAtLeast(0.9))
        .note(format!(
            "processor time of a document {:.1} µs, by hand {:.1} µs: ratio {:.2} ({:.2}–{:.2})",
            ours_cpu.median(),
            hand_cpu.median(),
            cpu_ratio.median(),
            cpu_ratio.least(),
            cpu_ratio.greatest()
        )))
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result.map_err(Into::into),
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn through_the_engine(subject: &Subject, scheme: &str, path: &Path, documents: u64) -> Result<[f64; 2], Failure> {
    let store = storebench_stores::open(&format!("{scheme}:{}", path.display()))?;
    store.prepare(&subject.layout(), Prepare::Fresh)?;
    let cpu = process_cpu_ns();
    let record = subject.run(&store, "load")?;
    let cpu_ns = process_cpu_ns() - cpu;
    let loaded: u64 = record.total.ops.iter().map(|tally| tally.documents).sum();
    store.close()?;
    if loaded != documents {
        return Err(format!("{loaded} of {documents} documents were loaded").into());
    }
    Ok(Watch { began: None, wall_ns: record.elapsed_ns, cpu_ns }.per_document(documents))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the body under a key with the bare crate.
    type Read = fn(&Path, &str) -> Result<Option<Vec<u8>>, Failure>;

    /// The driver and the loop by hand do the same work: they store the same bytes in the same place.
    #[test]
    fn both_sides_store_the_same() {
        let count = 2_500;
        let reads: [Read; 3] = [sqlite::read, fjall::read, redb::read];
        for ((name, by_hand), read) in STORES.into_iter().zip(reads) {
            for level in [Level::Os, Level::Fsync] {
                let subject = Subject::new(&study(count, level)).unwrap();
                let dir = tempfile::tempdir().unwrap();
                let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
                let [rate, cpu] = through_the_engine(&subject, name, &ours, count).unwrap();
                assert!(rate > 0.0 && cpu > 0.0);
                let mut watch = Watch::default();
                by_hand(&theirs, level, subject.documents(), &mut watch).unwrap();
                assert!(watch.wall_ns > 0 && watch.began.is_none());
                for index in [0, 999, 1_000, count - 1] {
                    let (mut key, mut body) = (Vec::new(), Vec::new());
                    subject.documents().write_key(index, &mut key);
                    subject.documents().write_document(index, 0, &mut body);
                    let key = String::from_utf8(key).unwrap();
                    for path in [&ours, &theirs] {
                        assert_eq!(read(path, &key).unwrap().as_ref(), Some(&body), "{name} {level:?} {key}");
                    }
                }
            }
        }
    }
}
