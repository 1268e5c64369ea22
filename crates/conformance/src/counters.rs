//! Counters.

use super::Subject;
use super::client::Client;
use super::suite::{Check, Stop, ensure};
use storebench_engine::store::{CollectionId, ErrorKind, Op, OpKind};

pub(super) const CHECKS: &[Check] = &[
    Check { name: "counter: begins at its initial value", needs: &[OpKind::Counter], run: initial },
    Check { name: "counter: adds and subtracts, below zero too", needs: &[OpKind::Counter], run: adds },
    Check { name: "counter: holds integers of 53 bits", needs: &[OpKind::Counter], run: large },
    Check { name: "counter: reads as a decimal integer", needs: &[OpKind::Counter, OpKind::Read], run: reads },
    Check { name: "counter: a deleted one starts again", needs: &[OpKind::Counter, OpKind::Delete], run: deleted },
    Check { name: "counter: refused on JSON", needs: &[OpKind::Counter], run: on_json },
];

fn step(
    c: &mut Client,
    counters: CollectionId,
    key: &str,
    delta: i64,
    initial: i64,
    expected: i64,
) -> Result<(), Stop> {
    let reply = c.wrote(counters, Op::Counter { key, delta, initial })?;
    let value = reply.as_reply().counter;
    ensure!(
        value == Some(expected),
        "counter `{key}` by {delta}, initially {initial}: expected {expected}, got {value:?}"
    );
    Ok(())
}

fn initial(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, counters) = (s.client()?, s.counters()?);
    step(&mut c, counters, "a", 5, 10, 10)?;
    step(&mut c, counters, "b", 5, 0, 0)?;
    step(&mut c, counters, "c", 5, -3, -3)?;
    step(&mut c, counters, "a", 5, 10, 15)
}

fn adds(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, counters) = (s.client()?, s.counters()?);
    step(&mut c, counters, "a", 1, 0, 0)?;
    step(&mut c, counters, "a", 1, 100, 1)?;
    step(&mut c, counters, "a", 41, 0, 42)?;
    step(&mut c, counters, "a", 0, 0, 42)?;
    step(&mut c, counters, "a", -50, 0, -8)?;
    step(&mut c, counters, "a", 8, 0, 0)
}

fn large(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, counters) = (s.client()?, s.counters()?);
    let max = (1 << 53) - 1;
    step(&mut c, counters, "a", 1, max - 1, max - 1)?;
    step(&mut c, counters, "a", 1, 0, max)?;
    step(&mut c, counters, "a", -2 * max, 0, -max)
}

fn reads(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, counters) = (s.client()?, s.counters()?);
    step(&mut c, counters, "a", 1, -12, -12)?;
    c.holds_bytes(counters, "a", b"-12")?;
    step(&mut c, counters, "a", 20, 0, 8)?;
    c.holds_bytes(counters, "a", b"8")?;
    c.lacks(counters, "b")
}

fn deleted(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, counters) = (s.client()?, s.counters()?);
    step(&mut c, counters, "a", 1, 7, 7)?;
    c.wrote(counters, Op::Delete { key: "a" })?;
    step(&mut c, counters, "a", 1, 3, 3)
}

fn on_json(s: &Subject<'_>) -> Result<(), Stop> {
    s.client()?.fails(ErrorKind::Refused, s.documents, Op::Counter { key: "a", delta: 1, initial: 1 })
}
