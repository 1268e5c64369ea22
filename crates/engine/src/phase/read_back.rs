//! Reads acknowledged writes back, at the end of a phase that kept a ledger.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use super::caller::Caller;
use super::checked::key_text;
use super::clock::{Clock, RealClock};
use super::plan::PhasePlan;
use super::stop::Stop;
use crate::ledger::{FoundAtKey, Key, TrialLedger};
use crate::measure::{LedgerReport, READ_BACK_OF_A_COLLECTION};
use crate::store::{AnyStore, CollectionId, ErrorKind, ReadConsistency, SessionOptions};
use storebench_documents::Catalog;
use storebench_study::Part;

/// The most keys that the report describes.
const EXAMPLES: usize = 20;
/// Reads in flight.
const IN_FLIGHT: u32 = 16;
/// How long to keep trying without any answer: a store may have to recover first.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// The keys to read, and how many of them were never written: all written keys, and a sample of the others of each
/// collection. Each part of a run reads its own keys, because only it knows what was written there.
fn keys(trial_ledger: &TrialLedger, catalog: &Catalog, part: Part) -> (Vec<Key>, u64) {
    let mut keys: Vec<Key> = trial_ledger.entries().map(|(key, _)| key).collect();
    keys.sort_unstable();
    let written = keys.len();
    for collection in 0..catalog.iter().count() {
        let Some(count) = trial_ledger.documents(collection) else { continue };
        let (first, every) = (u64::from(part.number - 1), u64::from(part.of));
        let own = count.saturating_sub(first).div_ceil(every);
        let asked = own.min(READ_BACK_OF_A_COLLECTION);
        // Evenly spread, including the first and the last.
        let spread = |nth: u64| (u128::from(nth) * u128::from(own - 1) / u128::from((asked - 1).max(1))) as u64;
        let indexes = (0..asked).map(|nth| spread(nth) * every + first);
        keys.extend(indexes.map(|index| (collection, index)).filter(|key| !trial_ledger.knows(*key)));
    }
    let loaded = (keys.len() - written) as u64;
    (keys, loaded)
}

/// How long to wait for the replicas to agree before a store without strong reads is accused.
const AGREEMENT: Duration = Duration::from_secs(10);

/// Reads back every key of the ledger, with the strongest reads of the store, and settles open writes in it.
pub(super) fn read_back(
    store: &Arc<dyn AnyStore>,
    plan: &PhasePlan,
    catalog: &Catalog,
    clock: &RealClock,
    (stop, gone): (&Stop, &dyn Fn() -> bool),
    trial_ledger: &mut TrialLedger,
) -> LedgerReport {
    let consistency = store.capabilities().default_consistency();
    let options = SessionOptions { consistency, in_flight: IN_FLIGHT, ..plan.session_options(clock) };
    let (mut left, loaded) = keys(trial_ledger, catalog, plan.part);
    let mut report = LedgerReport { loaded, share: trial_ledger.share(), ..LedgerReport::default() };
    let mut broken = Vec::new();
    // Whether a wrong state may still become right, as replicas catch up.
    let may_agree = consistency != ReadConsistency::Strong;
    let began_ns = clock.now_ns();
    // When the store last answered.
    let heard_ns = Cell::new(clock.now_ns());
    let silent = || clock.now_ns().saturating_sub(heard_ns.get()) >= PATIENCE.as_nanos() as u64;
    let mut scratch = Vec::new();
    // Why keys could not be read: the last error.
    let mut why = String::new();
    while !left.is_empty() && !stop.asked() {
        let mut again: Vec<Key> = Vec::new();
        let waits = may_agree && clock.now_ns().saturating_sub(began_ns) < AGREEMENT.as_nanos() as u64;
        match Caller::open(&**store, &options) {
            Err(error) => {
                why = error.to_string();
                again.clone_from(&left);
            }
            Ok(mut caller) => {
                let mut asked = left.iter();
                let mut ended = 0;
                let next = |key: &mut Vec<u8>| {
                    // A store that accepts connections and never answers would cost a timeout for every few keys.
                    if stop.asked() || silent() {
                        return None;
                    }
                    let (collection, index) = *asked.next()?;
                    catalog.get(collection).write_key(index, key);
                    Some(CollectionId(collection as u16))
                };
                caller.read_all(
                    IN_FLIGHT as usize,
                    || stop.asked(),
                    next,
                    |nth, result| {
                        let key = left[nth];
                        ended += 1;
                        let found = match result {
                            Ok(reply) => {
                                let body = reply.body.unwrap_or_default();
                                match catalog.get(key.0).check(key.1, body, &mut scratch) {
                                    Ok(version) => FoundAtKey::Version(version),
                                    Err(mismatch) => FoundAtKey::Other(mismatch.to_string()),
                                }
                            }
                            Err(error) if error.kind == ErrorKind::NotFound => FoundAtKey::Nothing,
                            Err(error) => {
                                why = error.to_string();
                                again.push(key);
                                return;
                            }
                        };
                        heard_ns.set(clock.now_ns());
                        let entry = trial_ledger.entry(key);
                        let fate = entry.fate(&found);
                        if fate.is_broken() && waits {
                            again.push(key);
                            return;
                        }
                        report.count(fate);
                        if fate.is_broken() {
                            broken.push((key, fate, entry.acknowledged, found.clone()));
                        }
                        trial_ledger.found(key, &found);
                    },
                );
                // Keys that were not requested.
                again.extend(left.iter().skip(ended));
            }
        }
        left = again;
        if left.is_empty() || silent() || gone() {
            break;
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
    report.keys += left.len() as u64;
    // The store is not to blame for keys that nobody wanted to read any more.
    report.unverifiable = if stop.asked() { 0 } else { left.len() as u64 };
    broken.sort_by_key(|(key, ..)| *key);
    let named = |(collection, index): Key| key_text(catalog.get(collection), index);
    for (key, fate, acknowledged, found) in broken.into_iter().take(EXAMPLES) {
        let saw = match found {
            FoundAtKey::Nothing => "no document was found".to_owned(),
            FoundAtKey::Version(version) => format!("version {version} was found"),
            FoundAtKey::Other(what) => what,
        };
        report.examples.push(format!("{}: {fate}: {acknowledged} was acknowledged; {saw}", named(key)));
    }
    let room = EXAMPLES - report.examples.len();
    let unread = if stop.asked() { "reading back was interrupted" } else { &why };
    report
        .examples
        .extend(left.into_iter().take(room).map(|key| format!("{}: could not be read: {unread}", named(key))));
    report
}
