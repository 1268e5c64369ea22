//! Bulk operations that a busy store accepts in parts, under a fake clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::simulated::{STUDY, simulate_text};
use crate::store::{Completions, ErrorKind, Op, OpError, Reject, Reply, Request, Session, Token};

/// How often a key is refused for now before it is accepted.
type Refusals = fn(&str) -> u32;

/// A store that throttles: it accepts part of a bulk operation, and the rest on a later try.
struct Throttled {
    refusals: Refusals,
    /// The key that is refused for good.
    never: &'static str,
    /// How often each key arrived.
    came: Arc<Mutex<BTreeMap<String, u32>>>,
    /// Sizes of the bulk operations.
    sizes: Arc<Mutex<Vec<usize>>>,
}

impl Session for Throttled {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let items = match request.op {
            Op::BulkWrite { items, .. } => items,
            Op::BulkDelete { keys } | Op::BulkRead { keys } => keys,
            _ => unreachable!("only bulk operations are asked for"),
        };
        self.sizes.lock().unwrap().push(items.len());
        let mut came = self.came.lock().unwrap();
        let mut rejects = Vec::new();
        for (item, (key, _)) in items.iter().enumerate() {
            let times = came.entry(key.to_owned()).or_insert(0);
            *times += 1;
            let kind = match () {
                () if key == self.never => ErrorKind::Refused,
                () if *times <= (self.refusals)(key) => ErrorKind::Temporary,
                () => continue,
            };
            rejects.push(Reject { item, error: OpError::new(kind, "busy") });
        }
        let done = items.len() - rejects.len();
        let written = Reply { bytes: 7 * done as u64, ..Reply::written(done) };
        out.complete(token, Ok(Reply { rejects: &rejects, ..written }));
    }
}

struct Seen {
    run: super::simulated::Run,
    came: BTreeMap<String, u32>,
    sizes: Vec<usize>,
}

fn throttled(mix: &str, tries: u32, never: &'static str, refusals: Refusals) -> Seen {
    let text = STUDY.replace("duration = \"10s\"", "operations = 1").replace("{ read = 1 }", mix);
    let retry = format!("phases.phase.retry={{ tries = {tries}, backoff = \"10ms\" }}");
    let (came, sizes) = (Arc::default(), Arc::default());
    let session = Throttled { refusals, never, came: Arc::clone(&came), sizes: Arc::clone(&sizes) };
    let run = simulate_text(&text, &[&retry], 0, |_, _| session);
    let (came, sizes) = (came.lock().unwrap().clone(), sizes.lock().unwrap().clone());
    Seen { run, came, sizes }
}

const UPSERTS: &str = "{ upsert = { batch = 10 } }";
/// Keys are `docs/INDEX`. Sequential keys end in every digit.
const IN_ORDER: &str = "{ upsert = { batch = 10 } }\npopularity = \"sequential\"";

#[test]
fn only_the_items_that_were_refused_for_now_are_tried_again() {
    // Three of ten are accepted on the third try.
    let seen = throttled(IN_ORDER, 5, "", |key| if key.ends_with(['1', '4', '9']) { 2 } else { 0 });
    assert_eq!(seen.sizes, [10, 3, 3]);
    assert_eq!(seen.came.values().sum::<u32>(), 16);
    let tally = &seen.run.record.ops[0];
    assert_eq!((tally.succeeded, tally.errors(), tally.retries), (1, 0, 2));
    assert_eq!((tally.documents, tally.rejected), (10, 0));
    assert!(tally.service.max() > 1, "the waits between tries are part of the operation");
}

#[test]
fn an_operation_whose_tries_run_out_has_failed_once() {
    let seen = throttled(IN_ORDER, 3, "", |key| if key.ends_with('7') { 9 } else { 0 });
    assert_eq!(seen.sizes, [10, 1, 1]);
    let tally = &seen.run.record.ops[0];
    assert_eq!((tally.succeeded, tally.failed_as(ErrorKind::Temporary), tally.retries), (0, 1, 2));
    assert_eq!((tally.documents, tally.rejected), (9, 1));
}

#[test]
fn what_was_refused_for_good_is_not_tried_again_and_not_forgotten() {
    let seen = throttled(IN_ORDER, 3, "docs/5", |key| if key.ends_with('2') { 1 } else { 0 });
    assert_eq!((seen.sizes, seen.came["docs/5"], seen.came["docs/2"]), (vec![10, 1], 1, 2));
    let tally = &seen.run.record.ops[0];
    assert_eq!((tally.succeeded, tally.failed_as(ErrorKind::Refused), tally.errors()), (0, 1, 1));
    assert_eq!((tally.documents, tally.rejected, tally.retries), (9, 1, 1));
}

#[test]
fn keys_drawn_at_random_are_tried_again_by_their_own_names() {
    let seen = throttled(UPSERTS, 2, "", |_| 1);
    assert_eq!(seen.sizes, [10, 10]);
    assert!(seen.came.values().all(|times| times % 2 == 0), "{:?}", seen.came);
    let deletes = throttled("{ delete = { batch = 10 } }", 4, "", |key| u32::from(key.ends_with(['0', '2', '4'])));
    assert_eq!(deletes.run.record.ops[0].succeeded, 1);
    assert_eq!(deletes.run.record.ops[0].documents, 10);
}

#[test]
fn without_retries_nothing_is_tried_again() {
    let seen = throttled(IN_ORDER, 1, "", |key| u32::from(key.ends_with('3')));
    assert_eq!((seen.sizes, seen.run.record.ops[0].failed_as(ErrorKind::Temporary)), (vec![10], 1));
}

#[test]
fn bytes_of_all_parts_are_counted_whatever_becomes_of_the_operation() {
    let reads = IN_ORDER.replace("upsert", "read");
    for never in ["", "docs/5"] {
        let seen = throttled(&reads, 5, never, |key| if key.ends_with(['1', '4', '9']) { 2 } else { 0 });
        let tally = &seen.run.record.ops[0];
        let documents = if never.is_empty() { 10 } else { 9 };
        assert_eq!((tally.documents, tally.bytes_read), (documents, 7 * documents), "{never}");
    }
}

#[test]
fn a_batch_of_more_keys_than_there_are_tells_of_those_that_there_are() {
    let mix = "{ read = { batch = 2_000 } }";
    let seen = throttled(mix, 1, "", |_| 0);
    let tally = &seen.run.record.ops[0];
    assert_eq!((seen.sizes, tally.documents, tally.succeeded, tally.missed), (vec![1_000], 1_000, 1, 0));
}
