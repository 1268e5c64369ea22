//! The ledger beside a model of a store: simulated registers with arbitrary delays, many seeds.
//!
//! A healthy store takes effect at one moment between the send of an operation and its answer. Whatever the delays, it is never
//! accused. A store with a defect is.

use super::*;
use storebench_documents::keys::Rng;

/// What a simulated store does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// Acknowledges a write and does not do it.
    LosesWrites,
    /// Answers a read with what was there a while ago.
    StaleReads,
    /// A deleted document comes back.
    Resurrects,
}

/// What is in flight, with the moments of its effect and its answer.
#[derive(Debug, Clone)]
enum Flight {
    /// `tells` how it was answered, where it was within its time.
    Write {
        key: u64,
        state: KeyState,
        does: bool,
        tells: Option<bool>,
    },
    /// A write's time has run out: it may be done already, later or never.
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

/// What came of a simulation.
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

/// One writer, this many keys and operations in flight, each of which takes up to `longest` units of time.
fn simulate(seed: u64, defect: Defect) -> Outcome {
    let mut rng = Rng::stream(seed, 0);
    let keys = 1 + rng.below(6);
    let most = 1 + rng.below(16) as usize;
    let longest = 1 + rng.below(200);
    let unknown_share = rng.below(2) * rng.below(8);
    let mut book = Book::new(seed, keys, None);
    book.loaded(0, keys);
    let mut ledger = book.lend(1, &[keys]).remove(0);
    // What is there, and what was there before: of every key.
    let mut history: Vec<Vec<KeyState>> = vec![vec![KeyState::version(0)]; keys as usize];
    let mut flying: Vec<Sent> = Vec::new();
    let mut outcome = Outcome::default();
    let mut number = 1 << 40;
    let mut sent = 0;
    let mut now = 0;
    while sent < 400 || !flying.is_empty() {
        // Effects and answers up to now, in the order of their times.
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
                // A write of unknown outcome may be done or not.
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
    book.take_back([ledger]);
    for key in 0..keys {
        let there = *history[key as usize].last().unwrap();
        let fate = book.entry((0, key)).fate(&found(there));
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
        let seeds = 300;
        let accused = (0..seeds).map(|seed| simulate(seed, defect)).filter(|o| o.misread + o.broken > 0).count();
        // Few are left where everything is in flight all the time, and nothing has to be found.
        assert!(accused > seeds as usize * 8 / 10, "{defect:?}: only {accused} of {seeds}");
    }
}

fn loaded() -> Ledger {
    let mut book = Book::new(7, 10, None);
    book.loaded(0, 10);
    book.lend(1, &[10]).remove(0)
}

const KEY: Key = (0, 7);

/// A write from its send to its acknowledgement.
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
    // What was deleted before it was sent may not.
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
    assert_eq!(ledger.read(KEY, first, &FoundAtKey::Version(0)), None, "that one was sent before");
    // The server died with it: nobody had said that it was kept.
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
    assert!(ledger.is_open(KEY), "it may be done later, and then takes the next document with it");
}
