//! Tests the ledger against a model of a store: simulated registers with arbitrary delays, over many seeds.
//!
//! A healthy store applies each operation at one moment between its send and its answer. The ledger must never accuse
//! it, whatever the delays. It must accuse a store with a defect.

use super::*;
use storebench_documents::keys::Rng;

/// The defect of a simulated store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// Acknowledges a write without applying it.
    LosesWrites,
    /// Answers a read with an older state.
    StaleReads,
    /// A deleted document comes back.
    Resurrects,
}

/// An operation in flight.
#[derive(Debug, Clone)]
enum Flight {
    /// `tells` says whether it was acknowledged (or refused); `None` if no answer came within the timeout.
    Write {
        key: u64,
        state: KeyState,
        does: bool,
        tells: Option<bool>,
    },
    /// A write that timed out: it may be applied already, later or never.
    GivenUp {
        key: u64,
        state: KeyState,
    },
    Read {
        key: u64,
        floor: Option<Floor>,
        found: Option<KeyState>,
    },
}

struct Sent {
    flight: Flight,
    effect_at: u64,
    answer_at: u64,
    had_effect: bool,
}

/// Counts of one simulation.
#[derive(Debug, Default)]
struct Outcome {
    followed: u64,
    misread: u64,
    broken: u64,
    example: Option<String>,
    deletes: u64,
    unknown: u64,
}

fn found(state: KeyState) -> FoundAtKey {
    state.as_version().map_or(FoundAtKey::Nothing, FoundAtKey::Version)
}

/// Simulates one writer, with a random number of keys and of operations in flight. The effect and the answer of each
/// operation are both delayed by less than `longest` units of time.
fn simulate(seed: u64, defect: Defect) -> Outcome {
    let mut rng = Rng::stream(seed, 0);
    let keys = 1 + rng.below(6);
    let most = 1 + rng.below(16) as usize;
    let longest = 1 + rng.below(200);
    let unknown_share = rng.below(2) * rng.below(8);
    let mut trial_ledger = TrialLedger::new(seed, keys, None);
    trial_ledger.loaded(0, keys);
    let mut ledger = trial_ledger.split(1, &[keys]).remove(0);
    // The states of each key, oldest first.
    let mut history: Vec<Vec<KeyState>> = vec![vec![KeyState::version(0)]; keys as usize];
    let mut flying: Vec<Sent> = Vec::new();
    let mut outcome = Outcome::default();
    let mut number = 1 << 40;
    let mut sent = 0;
    let mut now = 0;
    while sent < 400 || !flying.is_empty() {
        // Process the effects and answers up to now, in time order.
        while let Some((time, at)) = flying
            .iter()
            .enumerate()
            .map(|(at, f)| (if f.had_effect { f.answer_at } else { f.effect_at }, at))
            .min()
            .filter(|(time, _)| *time <= now)
        {
            let it = &mut flying[at];
            if !it.had_effect {
                it.had_effect = true;
                match &mut it.flight {
                    Flight::Write { key, state, does, .. } => {
                        let lost = defect == Defect::LosesWrites && rng.below(20) == 0;
                        if *does && !lost {
                            history[*key as usize].push(*state);
                        }
                    }
                    Flight::GivenUp { .. } => {}
                    Flight::Read { key, found, .. } => {
                        let past = &mut history[*key as usize];
                        let (last, there) = (past[past.len() - 1], past.iter().rev().find(|state| !state.is_absent()));
                        if defect == Defect::Resurrects && last.is_absent() && rng.below(10) == 0 {
                            past.push(*there.unwrap());
                        }
                        let back = if defect == Defect::StaleReads { rng.below(4) as usize } else { 0 };
                        *found = Some(past[past.len().saturating_sub(1 + back)]);
                    }
                }
                continue;
            }
            assert_eq!(time, it.answer_at);
            match flying.swap_remove(at).flight {
                Flight::Write { key, state, tells: Some(true), .. } => ledger.acknowledged((0, key), state),
                Flight::Write { key, state, tells: Some(false), .. } => ledger.refused((0, key), state),
                Flight::Write { .. } => {}
                Flight::GivenUp { key, state } => {
                    outcome.unknown += 1;
                    ledger.unknown((0, key), state);
                }
                Flight::Read { key, floor, found: state } => {
                    let (Some(floor), Some(state)) = (floor, state) else { continue };
                    outcome.followed += 1;
                    if let Some(misread) = ledger.read((0, key), floor, &found(state)) {
                        outcome.misread += 1;
                        outcome.example.get_or_insert(format!("key {key}: {state} was read, {floor}: {misread:?}"));
                    }
                }
            }
        }
        if sent < 400 && flying.len() < most {
            sent += 1;
            let key = rng.below(keys);
            let effect_at = now + rng.below(longest);
            let answer_at = effect_at + rng.below(longest);
            let flight = if rng.below(2) == 0 || ledger.is_open((0, key)) {
                Flight::Read { key, floor: ledger.floor((0, key)), found: None }
            } else {
                number += 1;
                let deletes = rng.below(3) == 0;
                outcome.deletes += u64::from(deletes);
                let state = if deletes { KeyState::removed(number) } else { KeyState::version(number) };
                ledger.sent((0, key), state);
                let tells = match rng.below(100) {
                    n if n < unknown_share => None,
                    n if n < unknown_share + 10 => Some(false),
                    _ => Some(true),
                };
                // A write of unknown outcome may or may not be applied.
                let does = tells.unwrap_or(rng.below(2) == 0);
                Flight::Write { key, state, does, tells }
            };
            if let Flight::Write { key, state, tells: None, .. } = flight {
                let at = now + rng.below(longest);
                let flight = Flight::GivenUp { key, state };
                flying.push(Sent { flight, effect_at: at, answer_at: at, had_effect: true });
            }
            flying.push(Sent { flight, effect_at, answer_at, had_effect: false });
        }
        now += rng.below(longest / 4 + 2);
    }
    trial_ledger.take_back([ledger]);
    for key in 0..keys {
        let there = *history[key as usize].last().unwrap();
        let fate = trial_ledger.entry((0, key)).fate(&found(there));
        if fate.is_broken() {
            outcome.broken += 1;
            outcome.example.get_or_insert(format!("key {key}: {there} was read back: {fate:?}"));
        }
    }
    outcome
}

#[test]
fn a_healthy_register_is_never_accused() {
    let mut all = Outcome::default();
    for seed in 0..3_000 {
        let outcome = simulate(seed, Defect::None);
        assert_eq!((outcome.misread, outcome.broken), (0, 0), "seed {seed}: {:?}", outcome.example);
        all.followed += outcome.followed;
        all.deletes += outcome.deletes;
        all.unknown += outcome.unknown;
    }
    assert!(all.followed > 400_000 && all.deletes > 50_000 && all.unknown > 1_000, "{all:?}");
}

#[test]
fn stores_that_lose_serve_what_is_old_or_bring_back_what_was_deleted_are_accused() {
    for defect in [Defect::LosesWrites, Defect::StaleReads, Defect::Resurrects] {
        let seeds = 2_000;
        let accused = (0..seeds).map(|seed| simulate(seed, defect)).filter(|o| o.misread + o.broken > 0).count();
        // A few seeds escape: those with everything in flight all the time, so that no state is required.
        assert!(accused > seeds as usize * 8 / 10, "{defect:?}: only {accused} of {seeds}");
    }
}

fn loaded() -> Ledger {
    let mut trial_ledger = TrialLedger::new(7, 10, None);
    trial_ledger.loaded(0, 10);
    trial_ledger.split(1, &[10]).remove(0)
}

const KEY: Key = (0, 7);

/// Sends a write and acknowledges it.
fn writes(ledger: &mut Ledger, state: KeyState) {
    ledger.sent(KEY, state);
    ledger.acknowledged(KEY, state);
}

#[test]
fn a_read_that_outlasts_a_delete_and_the_next_upsert_may_find_nothing() {
    let mut ledger = loaded();
    ledger.sent(KEY, KeyState::removed(8));
    let before_the_acknowledgement = ledger.floor(KEY).unwrap();
    ledger.acknowledged(KEY, KeyState::removed(8));
    let after_it = ledger.floor(KEY).unwrap();
    writes(&mut ledger, KeyState::version(9));
    let last = ledger.floor(KEY).unwrap();
    for floor in [before_the_acknowledgement, after_it] {
        assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Nothing), None);
        assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Version(9)), None);
    }
    assert_eq!(ledger.read(KEY, last, &FoundAtKey::Nothing), Some(Misread::Stale));
    assert_eq!(ledger.read(KEY, last, &FoundAtKey::Version(0)), Some(Misread::Stale));
}

#[test]
fn a_read_that_outlasts_an_upsert_and_the_next_delete_may_find_the_document() {
    let mut ledger = loaded();
    writes(&mut ledger, KeyState::removed(8));
    let floor = ledger.floor(KEY).unwrap();
    writes(&mut ledger, KeyState::version(9));
    writes(&mut ledger, KeyState::removed(10));
    assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Version(9)), None);
    assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Nothing), None);
    // A document that was deleted before the read was sent must not be found.
    assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Version(0)), Some(Misread::Stale));
}

#[test]
fn a_refused_delete_explains_nothing() {
    let mut ledger = loaded();
    let floor = ledger.floor(KEY).unwrap();
    ledger.sent(KEY, KeyState::removed(8));
    let during = ledger.floor(KEY).unwrap();
    ledger.refused(KEY, KeyState::removed(8));
    for floor in [floor, during] {
        assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Nothing), Some(Misread::Stale));
        assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Version(0)), None);
    }
}

#[test]
fn what_a_read_has_seen_of_a_delete_under_way_stays_gone() {
    let mut ledger = loaded();
    ledger.sent(KEY, KeyState::removed(8));
    let first = ledger.floor(KEY).unwrap();
    assert_eq!(ledger.read(KEY, first, &FoundAtKey::Nothing), None);
    let second = ledger.floor(KEY).unwrap();
    assert_eq!(ledger.read(KEY, second, &FoundAtKey::Version(0)), Some(Misread::Backwards));
    assert_eq!(ledger.read(KEY, first, &FoundAtKey::Version(0)), None, "that read was sent earlier");
    // The server crashed before it acknowledged the delete, so the delete may be gone.
    ledger.unknown(KEY, KeyState::removed(8));
    let third = ledger.floor(KEY).unwrap();
    assert_eq!(ledger.read(KEY, third, &FoundAtKey::Version(0)), None);
    assert!(ledger.is_open(KEY));
}

#[test]
fn nothing_where_nothing_was_does_not_settle_a_delete() {
    let mut ledger = loaded();
    writes(&mut ledger, KeyState::removed(8));
    ledger.sent(KEY, KeyState::removed(9));
    ledger.unknown(KEY, KeyState::removed(9));
    let floor = ledger.floor(KEY).unwrap();
    assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Nothing), None);
    assert!(ledger.is_open(KEY), "it may be applied later and delete the next document");
}
