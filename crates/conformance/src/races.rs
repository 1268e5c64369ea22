//! Several threads on one key: their results must add up.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::{Value, json};

use super::Subject;
use super::client::Client;
use super::suite::{Check, Stop, ensure, panic_text};
use storebench_engine::store::OpKind::{Append, CompareAndSwap, Counter, Insert, MergePatch, Read, Upsert};
use storebench_engine::store::{ErrorKind, Op};

const THREADS: usize = 4;

pub(super) const CHECKS: &[Check] = &[
    Check { name: "race: exactly one insert of a key wins", needs: &[Insert, Read], run: inserts },
    Check { name: "race: counters add up", needs: &[Counter], run: counters },
    Check { name: "race: every cas is based on its own revision", needs: &[Upsert, Read, CompareAndSwap], run: swaps },
    Check { name: "race: merges of different members are all kept", needs: &[Upsert, Read, MergePatch], run: merges },
    Check { name: "race: appends are all kept", needs: &[Upsert, Read, Append], run: appends },
];

/// Where the threads wait for each other before each step, so that their operations meet at the store. Unlike a
/// barrier, it lets the others continue when one has failed or panicked.
pub(super) struct Meeting {
    state: Mutex<(usize, usize, u64)>,
    changed: Condvar,
}

impl Meeting {
    fn new() -> Self {
        Self { state: Mutex::new((THREADS, 0, 0)), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, (usize, usize, u64)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all threads that still take part have arrived.
    pub(super) fn meet(&self) {
        let mut state = self.lock();
        let round = state.2;
        state.1 += 1;
        self.go_on_if_all_are_here(&mut state);
        while state.2 == round {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn go_on_if_all_are_here(&self, (present, arrived, round): &mut (usize, usize, u64)) {
        if *arrived >= *present {
            *arrived = 0;
            *round += 1;
            self.changed.notify_all();
        }
    }
}

/// One thread's part in a meeting; dropping it leaves the meeting for good.
struct Seat<'a>(&'a Meeting);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.0 -= 1;
        self.0.go_on_if_all_are_here(&mut state);
    }
}

/// Runs `work` on several threads, each with its own session, and with a meeting that they share.
pub(super) fn together<T: Send>(
    s: &Subject<'_>,
    work: impl Fn(usize, &mut Client, &Meeting) -> Result<T, Stop> + Sync,
) -> Result<Vec<T>, Stop> {
    let meeting = Meeting::new();
    thread::scope(|scope| {
        let (work, meeting) = (&work, &meeting);
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                scope.spawn(move || {
                    let _seat = Seat(meeting);
                    work(number, &mut s.client()?, meeting)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|p| Err(Stop::failed(format!("a session panicked: {}", panic_text(&*p)))))
            })
            .collect()
    })
}

fn inserts(s: &Subject<'_>) -> Result<(), Stop> {
    const KEYS: usize = 50;
    let won = together(s, |number, c, meeting| {
        let body = json!({ "by": number }).to_string();
        (0..KEYS)
            .map(|k| {
                meeting.meet();
                match c.call(s.documents, Op::Insert { key: &format!("k{k}"), body: body.as_bytes() })? {
                    Ok(_) => Ok(true),
                    Err(error) if error.kind == ErrorKind::Conflict => Ok(false),
                    Err(error) => Err(Stop::failed(format!("an insert in a race must win or conflict; got {error}"))),
                }
            })
            .collect::<Result<Vec<bool>, Stop>>()
    })?;
    let mut c = s.client()?;
    for k in 0..KEYS {
        let winners: Vec<usize> =
            won.iter().enumerate().filter(|(_, keys)| keys[k]).map(|(number, _)| number).collect();
        let [winner] = winners[..] else {
            return Err(Stop::failed(format!("of {THREADS} inserts of key k{k}, {} were acknowledged", winners.len())));
        };
        c.holds(s.documents, &format!("k{k}"), &json!({ "by": winner }))?;
    }
    Ok(())
}

fn counters(s: &Subject<'_>) -> Result<(), Stop> {
    const STEPS: usize = 100;
    let counters = s.counters()?;
    let seen = together(s, |_, c, meeting| {
        (0..STEPS)
            .map(|_| {
                meeting.meet();
                let reply = c.ok(counters, Op::Counter { key: "shared", delta: 1, initial: 1 })?;
                reply.as_reply().counter.ok_or_else(|| Stop::failed("a counter replied no value"))
            })
            .collect::<Result<Vec<i64>, Stop>>()
    })?;
    let values: BTreeSet<i64> = seen.into_iter().flatten().collect();
    let total = (THREADS * STEPS) as i64;
    ensure!(
        values.iter().copied().eq(1..=total),
        "{total} increments by 1 must reply 1 to {total}, each once; got {} different values up to {:?}",
        values.len(),
        values.last()
    );
    Ok(())
}

fn swaps(s: &Subject<'_>) -> Result<(), Stop> {
    const ROUNDS: usize = 50;
    s.client()?.wrote(s.documents, Op::Upsert { key: "shared", body: br#"{"n":0}"# })?;
    let bases = together(s, |_, c, meeting| {
        let mut bases = Vec::new();
        for _ in 0..ROUNDS {
            // All read the result of the previous round, then all swap on it.
            meeting.meet();
            let reply = c.ok(s.documents, Op::Read { key: "shared" })?;
            let reply = reply.as_reply();
            let n = number_of(reply.body.unwrap_or_default())?;
            let expected = reply.revision.ok_or_else(|| Stop::failed("a read returned no revision"))?;
            let body = json!({ "n": n + 1 }).to_string();
            meeting.meet();
            match c.call(s.documents, Op::CompareAndSwap { key: "shared", expected, body: body.as_bytes() })? {
                Ok(_) => bases.push((expected.to_vec(), n)),
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) => return Err(Stop::failed(format!("a cas in a race must win or conflict; got {error}"))),
            }
        }
        Ok(bases)
    })?;
    let all: Vec<_> = bases.into_iter().flatten().collect();
    ensure!(!all.is_empty(), "of {THREADS} swaps at once none succeeded, {ROUNDS} times");
    let revisions: BTreeSet<_> = all.iter().map(|(revision, _)| revision).collect();
    let values: BTreeSet<_> = all.iter().map(|(_, n)| n).collect();
    ensure!(
        revisions.len() == all.len() && values.len() == all.len(),
        "{} swaps succeeded on {} different revisions and {} different values: updates were lost",
        all.len(),
        revisions.len(),
        values.len()
    );
    s.client()?.holds(s.documents, "shared", &json!({ "n": all.len() }))
}

fn number_of(body: &[u8]) -> Result<i64, Stop> {
    serde_json::from_slice::<Value>(body)
        .ok()
        .and_then(|value| value.get("n")?.as_i64())
        .ok_or_else(|| Stop::failed(format!("no number in `{}`", super::client::shorten(body))))
}

fn merges(s: &Subject<'_>) -> Result<(), Stop> {
    const EACH: usize = 25;
    s.client()?.wrote(s.documents, Op::Upsert { key: "shared", body: b"{}" })?;
    together(s, |number, c, meeting| {
        for i in 0..EACH {
            meeting.meet();
            let patch = json!({ format!("m{number}-{i}"): i }).to_string();
            c.wrote(s.documents, Op::MergePatch { key: "shared", patch: patch.as_bytes() })?;
        }
        Ok(())
    })?;
    let members = (0..THREADS).flat_map(|number| (0..EACH).map(move |i| (format!("m{number}-{i}"), json!(i))));
    s.client()?.holds(s.documents, "shared", &Value::Object(members.collect()))
}

fn appends(s: &Subject<'_>) -> Result<(), Stop> {
    const EACH: usize = 50;
    let blobs = s.blobs()?;
    s.client()?.wrote(blobs, Op::Upsert { key: "shared", body: b"" })?;
    together(s, |number, c, meeting| {
        let byte = [b'a' + u8::try_from(number).unwrap_or(0)];
        for _ in 0..EACH {
            meeting.meet();
            c.wrote(blobs, Op::Append { key: "shared", bytes: &byte })?;
        }
        Ok(())
    })?;
    let body = s.client()?.read(blobs, "shared")?;
    for byte in b'a'..b'a' + u8::try_from(THREADS).unwrap_or(0) {
        let kept = body.iter().filter(|b| **b == byte).count();
        ensure!(kept == EACH, "{EACH} appends of `{}` were acknowledged, {kept} are there", char::from(byte));
    }
    Ok(())
}
