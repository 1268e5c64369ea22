//! SQLite compared with a hand-written loop over the same lines, with the same table, statement, batches and
//! durability.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, TransactionBehavior, params};

use super::{Documents, Lab, TOPIC};
use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;

const DOCUMENTS: u64 = 100_000;
/// Documents in one transaction.
const BATCH: usize = 1_000;

pub(super) fn measure(options: &Options, lab: &Lab) -> Result<Vec<Figure>, Failure> {
    let documents = Documents::new(options.work(DOCUMENTS), "1KiB")?;
    let lines = lab.lines(&documents)?;
    let count = documents.count as f64;
    let mut figures = Vec::new();
    for (level, synchronous) in [("os", "normal"), ("fsync", "full")] {
        if !options.wants(TOPIC, &format!("jsonl to sqlite {level}")) {
            continue;
        }
        let fresh = || tempfile::tempdir_in(lab.folder.path());
        let mut ours = || {
            let folder = fresh()?;
            let url = format!("sqlite:{}", folder.path().join("store").display());
            let words = format!("--to-collection documents --durability {level} --batch {BATCH} --batch-bytes 64MiB");
            let done = lab.copy(&lines, &url, &words)?;
            Ok([done.documents / done.seconds])
        };
        let mut hand = || {
            let folder = fresh()?;
            by_hand(&lines, &folder.path().join("store"), synchronous).map(|seconds| [count / seconds])
        };
        let all = interleave::<1>(options.rounds, vec![&mut ours, &mut hand])?;
        let [[ours], [hand]] = &all[..] else { return Err("two sides give two results".into()) };
        figures.push(
            Figure::new(TOPIC, format!("jsonl to sqlite {level}: 1 KiB documents"), Unit::DocsPerS, ours.clone())
                .beside("loop by hand that checks nothing", hand.clone())
                .target(Target::RatioAtLeast(0.95)),
        );
    }
    Ok(figures)
}

/// Seconds from the first line to the last commit. The loop knows where the key is in a line and trusts the rest.
fn by_hand(lines: &Path, store: &Path, synchronous: &str) -> Result<f64, Failure> {
    const BEFORE_KEY: usize = "{\"_id\":\"".len();
    let mut connection = Connection::open(store)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.execute_batch("CREATE TABLE documents (key TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT")?;
    let begun = Instant::now();
    let mut file = BufReader::with_capacity(1 << 20, std::fs::File::open(lines)?);
    let (mut line, mut body) = (Vec::new(), Vec::new());
    let mut more = true;
    while more {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut upsert = transaction.prepare_cached(
                "INSERT INTO documents (key, body) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET body = excluded.body",
            )?;
            for _ in 0..BATCH {
                line.clear();
                if file.read_until(b'\n', &mut line)? == 0 {
                    more = false;
                    break;
                }
                let rest = line.get(BEFORE_KEY..).unwrap_or_default();
                let end = rest.iter().position(|byte| *byte == b'"').ok_or("a line without a key")?;
                body.clear();
                body.push(b'{');
                body.extend_from_slice(rest[end + 2..].trim_ascii_end());
                let text = |bytes| ToSqlOutput::Borrowed(ValueRef::Text(bytes));
                upsert.execute(params![text(&rest[..end]), text(&body)])?;
            }
        }
        transaction.commit()?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_by_hand_stores_keys_and_the_rest_of_the_documents() {
        let folder = tempfile::tempdir().unwrap();
        let (lines, store) = (folder.path().join("l"), folder.path().join("s"));
        std::fs::write(&lines, "{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\",\"n\":2}\n").unwrap();
        assert!(by_hand(&lines, &store, "normal").unwrap() > 0.0);
        let connection = Connection::open(&store).unwrap();
        let row = |key: &str| -> String {
            connection.query_row("SELECT body FROM documents WHERE key = ?1", [key], |row| row.get(0)).unwrap()
        };
        assert_eq!((row("a").as_str(), row("b").as_str()), ("{\"n\":1}", "{\"n\":2}"));
    }
}
