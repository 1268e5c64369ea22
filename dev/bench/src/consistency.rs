//! How fast a history of many clients is judged.

use std::time::Instant;

use storebench_consistency::{Action, BUDGET, History, Operation};
use storebench_engine::measure::rss_bytes;

use crate::Failure;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;

pub(crate) const TOPIC: &str = "consistency";
pub(crate) const FIGURES: &[&str] = &["judging"];

/// Clients that use a key at the same time.
const CLIENTS: u32 = 16;
const EACH: u64 = 1_000;

/// The history of a register that works, of [`EACH`] operations: half reads, a tenth deletes, if `deletes`.
fn register(seed: u64, deletes: bool, mut add: impl FnMut(Operation)) {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut free = [0u64; CLIENTS as usize];
    let (mut now, mut value, mut next) = (0, 0, 1);
    for _ in 0..EACH {
        let client = draw(u64::from(CLIENTS)) as usize;
        now = now.max(free[client]) + 1 + draw(200);
        let sent_ns = free[client].max(now.saturating_sub(draw(800)));
        let answered_ns = now + draw(800);
        free[client] = answered_ns + 1;
        let action = match draw(10) {
            0..=4 => Action::Read(value),
            5 if deletes => {
                value = 0;
                Action::Delete
            }
            _ => {
                value = next;
                next += 1;
                Action::Write(value)
            }
        };
        add(Operation { sent_ns, answered_ns, action, client: client as u32 });
    }
}

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    if !options.wants(TOPIC, "judging") {
        return Ok(Vec::new());
    }
    let keys = options.work(100_000).max(100);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut figures = Vec::new();
    for (what, deletes) in [("reads and writes", false), ("reads, writes and deletes", true)] {
        let mut history = History::default();
        for key in 0..keys {
            let name = format!("key-{key}");
            register(key, deletes, |operation| history.push(&name, operation));
        }
        let begun = Instant::now();
        let report = history.report(BUDGET, threads);
        let seconds = begun.elapsed().as_secs_f64();
        if report.linearizable != report.keys {
            return Err(format!("a correct history was not found linearizable: {report:?}").into());
        }
        // Of 100 million operations, whatever was measured.
        let scaled = seconds * 1e8 / report.operations as f64;
        figures.push(
            Figure::new(TOPIC, format!("judging: {what}, 100 M operations"), Unit::Ms, Samples(vec![scaled * 1e3]))
                .target(Target::AtMost(60_000.0))
                .note(format!(
                    "{} operations on {keys} keys, {CLIENTS} clients at each, {threads} threads",
                    report.operations
                ))
                .note(format!("{:.1} GB resident", rss_bytes() as f64 / 1e9)),
        );
    }
    Ok(figures)
}
