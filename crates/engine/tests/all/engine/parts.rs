//! The parts of a run: together they make the operations that one process would make.

use std::sync::atomic::AtomicU32;
use std::time::{SystemTime, UNIX_EPOCH};

use storebench_engine::measure::merged;
use storebench_study::Part;

use super::*;

/// What a store was asked: the kind of operation, the key, and the document.
type Asked = Vec<(OpKind, String, Vec<u8>)>;

/// Writes down what it is asked.
struct Listed(MemorySession, Arc<Mutex<Asked>>);

impl Session for Listed {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let kind = request.op.kind();
        let add = |key: &str, body: &[u8]| self.1.lock().unwrap().push((kind, key.to_owned(), body.to_vec()));
        match &request.op {
            Op::Read { key } => add(key, &[]),
            Op::Insert { key, body } | Op::Upsert { key, body } => add(key, body),
            Op::BulkWrite { items, .. } => items.iter().for_each(|(key, body)| add(key, body)),
            other => panic!("{other:?}"),
        }
        self.0.submit(request, token, out);
    }
}

/// The plan of one part of a phase.
fn plan(lab: &Lab, store: &Arc<dyn AnyStore>, phase: usize, part: Part) -> Result<PhasePlan, StoreError> {
    PhasePlan::resolve(&lab.study, &lab.study.phases[phase], &lab.catalog, &store.capabilities())?.of_part(part)
}

/// Runs one part of a phase.
fn run_part(
    lab: &Lab,
    store: &Arc<dyn AnyStore>,
    (phase, part): (usize, Part),
    written: &mut Written,
    begin: Option<storebench_engine::Begin<'_>>,
) -> Result<PhaseRecord, StoreError> {
    let context = PhaseContext {
        catalog: Arc::clone(&lab.catalog),
        clock: lab.clock.clone(),
        stop: Arc::clone(&lab.stop),
        seed: 7,
        interval: Duration::from_millis(20),
        begin,
        written,
        companions: Vec::new(),
        gone: &|| false,
        observer: &mut |_: &Event<'_>| {},
    };
    run_phase(store, &plan(lab, store, phase, part)?, context)
}

/// Everything that `parts` parts ask of one store in both phases, and their records of the second.
fn all_parts(lab: &Lab, parts: u32) -> (Asked, Vec<PhaseRecord>) {
    let asked: Arc<Mutex<Asked>> = Arc::default();
    let list = Arc::clone(&asked);
    let store = lab.prepared(Wrapped(MemoryStore::new(), move |inner| Listed(inner, Arc::clone(&list))));
    let mut written: Vec<Written> = (0..parts).map(|_| Written::default()).collect();
    let mut records = Vec::new();
    for phase in 0..2 {
        records.clear();
        for (part, written) in (Part { number: 1, of: parts }).all().zip(&mut written) {
            let record = run_part(lab, &store, (phase, part), written, None).unwrap();
            assert!(record.partial.is_none(), "{:?}", record.partial);
            records.push(record);
        }
    }
    drop(store);
    let mut asked = std::mem::take(&mut *asked.lock().unwrap());
    asked.sort();
    (asked, records)
}

#[test]
fn parts_together_ask_exactly_what_one_process_asks() {
    for streams in ["independent", "disjoint"] {
        let streams = format!("phases.mixed.streams={streams}");
        let lab = Lab::new(&[&streams, "phases.load.workers=8", "phases.mixed.workers=8"]);
        let (one, _) = all_parts(&lab, 1);
        assert_eq!(one.iter().filter(|(kind, ..)| *kind == OpKind::BulkInsert).count(), 2_000);
        for parts in [2, 4, 8] {
            let (together, records) = all_parts(&lab, parts);
            assert!(together == one, "{parts} parts, {streams}");
            let all = merged(records).unwrap();
            assert_eq!((all.operations(), all.workers), (9_000, 8));
            assert_eq!(all.total.ops.iter().map(|op| op.errors() + op.wrong).sum::<u64>(), 0, "{:?}", all.messages);
        }
    }
}

#[test]
fn the_ledgers_of_parts_read_back_different_keys() {
    let ledger = ["phases.mixed.streams=disjoint", "phases.mixed.ledger=true", "phases.mixed.mix.insert=1"];
    let workers = ["phases.load.workers=4", "phases.mixed.workers=4"];
    let lab = Lab::new(&[&ledger[..], &workers].concat());
    let keys = |records: &[PhaseRecord]| {
        let of = |record: &PhaseRecord| record.ledger.as_ref().map(|of| (of.keys, of.confirmed, of.loaded)).unwrap();
        records.iter().map(of).fold((0, 0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1, sum.2 + of.2))
    };
    let (_, one) = all_parts(&lab, 1);
    let (_, four) = all_parts(&lab, 4);
    assert_eq!(keys(&four), keys(&one));
    let (all, confirmed, loaded) = keys(&one);
    assert!(all == confirmed && all >= 2_000 && loaded > 0, "{all} {confirmed} {loaded}");
}

#[test]
fn the_schedules_of_parts_add_up() {
    for arrival in ["constant", "poisson"] {
        let arrival = format!("phases.mixed.arrival={arrival}");
        let lab = Lab::new(&["phases.mixed.rate=20000", &arrival, "phases.load.workers=4", "phases.mixed.workers=4"]);
        let (_, one) = all_parts(&lab, 1);
        let (_, two) = all_parts(&lab, 2);
        let all = merged(two).unwrap();
        assert_eq!(all.scheduled, one[0].scheduled);
        let (mine, theirs) = (all.scheduled_over_ns.unwrap(), one[0].scheduled_over_ns.unwrap());
        assert!(mine.abs_diff(theirs) <= 1_000_000, "{arrival}: {mine} {theirs}");
    }
}

#[test]
fn workers_that_cannot_be_shared_are_refused_with_a_remedy() {
    let lab = Lab::new(&[]);
    let store = lab.prepared(MemoryStore::new());
    let error = plan(&lab, &store, 1, Part { number: 1, of: 4 }).unwrap_err().to_string();
    assert!(error.contains("3 workers") && error.contains("--set phases.mixed.workers=4"), "{error}");
    assert!(plan(&lab, &store, 1, Part { number: 2, of: 3 }).is_ok());
}

#[test]
fn a_part_begins_when_agreed_and_says_how_late_it_was() {
    let lab = Lab::new(&["phases.mixed.operations=30"]);
    let store = lab.prepared(MemoryStore::new());
    let part = Part { number: 1, of: 3 };
    let now_ns = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    run_part(&lab, &store, (0, part), &mut Written::default(), None).unwrap();
    let asked = AtomicU32::new(0);
    let agreed = now_ns() + 150_000_000;
    let begin = |_: &mut dyn storebench_engine::Observer| {
        asked.fetch_add(1, Ordering::Relaxed);
        Ok(agreed)
    };
    let record = run_part(&lab, &store, (1, part), &mut Written::default(), Some(Box::new(begin))).unwrap();
    assert_eq!((asked.load(Ordering::Relaxed), record.of_part.as_ref().unwrap().agreed_unix_ns), (1, Some(agreed)));
    // Two clocks were read one after the other.
    assert!(record.began_unix_ns + 5_000_000 >= agreed);
    // The time has passed: it begins at once.
    let record = run_part(&lab, &store, (1, part), &mut Written::default(), Some(Box::new(|_| Ok(1)))).unwrap();
    assert!(record.began_unix_ns > agreed && record.operations() == 10);
}

#[test]
fn a_phase_whose_start_cannot_be_agreed_does_not_begin() {
    let lab = Lab::new(&[]);
    let store = lab.prepared(MemoryStore::new());
    let begin = |_: &mut dyn storebench_engine::Observer| Err(StoreError::Failed("part 2 has ended".into()));
    let part = Part { number: 1, of: 3 };
    let error = run_part(&lab, &store, (0, part), &mut Written::default(), Some(Box::new(begin))).unwrap_err();
    assert!(error.to_string().contains("part 2 has ended"), "{error}");
    assert_eq!(counts(&run_part(&lab, &store, (0, part), &mut Written::default(), None).unwrap()), [(7, 0, 0)]);
}
