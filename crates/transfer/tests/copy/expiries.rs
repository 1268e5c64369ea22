//! Tests documents that expire.

use std::sync::Mutex;

use storebench_engine::store::ErrorKind;
use storebench_transfer::Expiry;

use super::faulty::{Fate, Faulty};
use super::*;

type Touched = Arc<Mutex<BTreeMap<String, Vec<Duration>>>>;

/// A store that records expiries, and fails them as `fate` decides.
fn noting(mut fate: impl FnMut(&str) -> Fate + Send + 'static) -> (Arc<dyn AnyStore>, Arc<dyn AnyStore>, Touched) {
    let touched: Touched = Arc::default();
    let inner = Arc::clone(&touched);
    let faulty = Faulty::new(move |request| {
        let Op::Touch { key, expiry } = request.op else { return Fate::Done };
        inner.lock().unwrap().entry(key.to_owned()).or_default().push(expiry);
        fate(key)
    });
    (Arc::new(faulty.sound()), Arc::new(faulty), touched)
}

fn options(store: &Arc<dyn AnyStore>, verb: RecordOp) -> StoreSinkOptions {
    let durability =
        store.capabilities().durability.first().map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d));
    StoreSinkOptions { durability, expires: true, ..sink_options(verb) }
}

fn copy_with(lab: &Lab, text: &str, store: &Arc<dyn AnyStore>, options: StoreSinkOptions) -> CopyReport {
    let sink = StoreSink::open(Arc::clone(store), options).unwrap();
    let projection = Projection { without: Some("ttl".parse().unwrap()), ..Projection::default() };
    let shape = shape().with_expiry("ttl").with_projection(projection);
    lab.copy_shaped(&files(&[&lab.write("a.jsonl", text)]), &sink, &shape).unwrap()
}

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn what_is_written_gets_its_expiry_before_it_counts() {
    for verb in [RecordOp::Upsert, RecordOp::Insert, RecordOp::Replace, RecordOp::Merge] {
        let mut calls = 0;
        let (sound, store, touched) = noting(move |_| {
            calls += 1;
            if calls % 3 == 0 { Fate::Fails(OpError::new(ErrorKind::Temporary, "busy")) } else { Fate::Done }
        });
        if verb != RecordOp::Insert && verb != RecordOp::Upsert {
            let lab = Lab::new();
            lab.copy(&files(&[&lab.write("a.jsonl", lines(500))]), &store_sink(&sound, RecordOp::Upsert)).unwrap();
        }
        let text: String = (0..500)
            .map(|n| {
                format!("{{\"_id\":\"k{n:06}\",\"n\":{n},\"ttl\":{}}}\n", if n % 2 == 0 { "3600" } else { "null" })
            })
            .collect();
        let lab = Lab::new();
        let counts = copy_with(&lab, &text, &store, options(&store, verb)).counts;
        assert_eq!((counts.written, counts.rejected), (500, 0), "{verb:?}");
        let touched = touched.lock().unwrap();
        assert_eq!(touched.len(), 250);
        assert!(touched.values().flatten().all(|expiry| *expiry == HOUR));
        assert!(counts.retries > 0 && contents(&sound).iter().all(|line| !line.contains("ttl")));
    }
}

#[test]
fn a_time_and_a_usual_expiry_are_kept() {
    let (_, store, touched) = noting(|_| Fate::Done);
    let usual = StoreSinkOptions { expiry: Some(Expiry::In(HOUR)), ..options(&store, RecordOp::Upsert) };
    let at = jiff::Timestamp::now() + Duration::from_secs(600);
    let text = format!(
        "{{\"_id\":\"usual\"}}\n{{\"_id\":\"own\",\"ttl\":60}}\n{{\"_id\":\"at\",\"ttl\":\"{at}\"}}\n{{\"_id\":\"past\",\"ttl\":\"2001-01-01T00:00:00Z\"}}\n"
    );
    let lab = Lab::new();
    let counts = copy_with(&lab, &text, &store, usual).counts;
    assert_eq!((counts.written, counts.rejected), (3, 1));
    assert!(lab.rejects()[0].why.contains("has passed"), "{:?}", lab.rejects());
    let touched = touched.lock().unwrap();
    assert_eq!((touched["usual"][0], touched["own"][0]), (HOUR, Duration::from_secs(60)));
    assert!((500..=600).contains(&touched["at"][0].as_secs()), "{touched:?}");
}

/// A store that has lost every document when it is read back.
#[test]
fn what_may_have_expired_before_it_is_verified_is_not_called_missing() {
    for (expiry, expired) in [(Duration::from_secs(1), 3), (HOUR, 0)] {
        let sound: Arc<Mutex<Option<Arc<dyn AnyStore>>>> = Arc::default();
        let theirs = Arc::clone(&sound);
        let faulty = Faulty::new(move |request| {
            if let Op::BulkRead { keys } = request.op {
                let store = theirs.lock().unwrap().clone().unwrap();
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        let mut call = caller(&*store);
                        keys.iter().for_each(|(key, _)| drop(call(Op::Delete { key })));
                    });
                });
            }
            Fate::Done
        });
        *sound.lock().unwrap() = Some(Arc::new(faulty.sound()));
        let store: Arc<dyn AnyStore> = Arc::new(faulty);
        let usual = StoreSinkOptions { expiry: Some(Expiry::In(expiry)), ..options(&store, RecordOp::Upsert) };
        let lab = Lab { verify: true, ..Lab::new() };
        let report = copy_with(&lab, &lines(3), &store, usual);
        let verified = report.verified.unwrap();
        assert_eq!((verified.written, verified.found, verified.expired), (3, 0, expired));
        assert_eq!(verified.equal, expired == 3, "{verified:?}");
    }
}

#[test]
fn what_expires_while_a_copy_is_broken_shifts_nothing() {
    let mut calls = 0;
    let faulty = Faulty::new(move |_| {
        calls += 1;
        if calls < 350 { Fate::Done } else { Fate::Fails(OpError::new(ErrorKind::Temporary, "gone")) }
    });
    let sound: Arc<dyn AnyStore> = Arc::new(faulty.sound());
    let store: Arc<dyn AnyStore> = Arc::new(faulty);
    // All of the first batches expire before the copy is resumed, and none of the others.
    let at = |after: u64| jiff::Timestamp::now() + Duration::from_secs(after);
    let (soon, late) = (at(3), at(600));
    let text: String = (0..1_000)
        .map(|n| {
            format!("{{\"_id\":\"k{n:03}\",\"op\":\"upsert\",\"ttl\":\"{}\"}}\n", if n < 150 { soon } else { late })
        })
        .collect();
    let mut lab = Lab { parallel: 1, ..Lab::new() };
    let path = lab.write("a.jsonl", text);
    let shape = shape().with_expiry("ttl").with_verb("op");
    let by_record = |store: &Arc<dyn AnyStore>| {
        let options = StoreSinkOptions { by_record: true, ..options(store, RecordOp::Upsert) };
        StoreSink::open(Arc::clone(store), options).unwrap()
    };
    lab.copy_shaped(&files(&[&path]), &by_record(&store), &shape).unwrap_err();
    while jiff::Timestamp::now() <= soon {
        std::thread::sleep(Duration::from_millis(50));
    }
    lab.begin = Begin::Resume;
    let counts = lab.copy_shaped(&files(&[&path]), &by_record(&sound), &shape).unwrap().counts;
    assert_eq!((counts.read, counts.written + counts.rejected), (1_000, 1_000));
    // Only the batch that was in progress, and expired documents.
    let (passed, unknown): (Vec<Rejected>, Vec<Rejected>) =
        lab.rejects().into_iter().partition(|reject| reject.why.contains("has passed"));
    assert!(unknown.len() <= 100 && unknown.iter().all(|reject| reject.error == "outcome-unknown"));
    assert!(passed.iter().all(|reject| reject.key.as_deref() < Some("k150")));
    let keys: std::collections::BTreeSet<String> =
        lab.rejects().into_iter().filter_map(|Rejected { reject, .. }| reject.key).collect();
    let there: std::collections::BTreeSet<String> = contents(&sound)
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["_id"].as_str().unwrap().to_owned())
        .collect();
    let missing = (150..1_000).map(|n| format!("k{n:03}")).find(|key| !keys.contains(key) && !there.contains(key));
    assert_eq!(missing, None);
}

#[test]
fn a_document_that_got_no_expiry_is_told() {
    let (sound, store, _) = noting(|key| match key {
        "b" => Fate::Fails(OpError::new(ErrorKind::Failed, "the disk is full")),
        _ => Fate::Done,
    });
    let lab = Lab::new();
    let text = "{\"_id\":\"a\",\"ttl\":60}\n{\"_id\":\"b\",\"ttl\":60}\n";
    let counts = copy_with(&lab, text, &store, options(&store, RecordOp::Upsert)).counts;
    assert_eq!((counts.written, counts.rejected, contents(&sound).len()), (1, 1, 2));
    let reject = &lab.rejects()[0];
    assert!(reject.why.contains("it was written, but its expiry could not be set: the disk is full"), "{reject:?}");
}

#[test]
fn documents_are_touched_without_being_written() {
    let (sound, store, touched) = noting(|_| Fate::Done);
    let lab = Lab::new();
    lab.copy(&files(&[&lab.write("a.jsonl", lines(3))]), &store_sink(&sound, RecordOp::Upsert)).unwrap();
    let before = contents(&sound);
    let text = "{\"_id\":\"k000000\",\"ttl\":60}\n{\"_id\":\"k000001\"}\n{\"_id\":\"other\",\"ttl\":60}\n";
    let lab = Lab::new();
    let counts = copy_with(&lab, text, &store, options(&store, RecordOp::Touch)).counts;
    assert_eq!((counts.written, counts.rejected), (1, 2));
    let mut why: Vec<(String, String)> =
        lab.rejects().into_iter().map(|Rejected { reject, .. }| (reject.error, reject.why)).collect();
    why.sort_unstable();
    assert!(why[0].0 == "not-found" && why[1].1.contains("it has no expiry"), "{why:?}");
    assert_eq!((contents(&sound), touched.lock().unwrap().len()), (before, 2));
}

#[test]
fn expiries_that_cannot_be_are_refused() {
    let store = memory();
    let refused = |options: StoreSinkOptions| StoreSink::check(&*store, &options, false).unwrap_err().to_string();
    let touch = StoreSinkOptions { expires: false, ..options(&store, RecordOp::Touch) };
    assert!(refused(touch).contains("--expiry"));
    for verb in [RecordOp::Delete, RecordOp::Counter, RecordOp::Append, RecordOp::Prepend] {
        assert!(refused(options(&store, verb)).contains("cannot set an expiry"), "{verb:?}");
    }
    let cannot = storebench_stores::open("sqlite:x.db").unwrap();
    let error = StoreSink::check(&*cannot, &options(&cannot, RecordOp::Upsert), false).unwrap_err().to_string();
    assert!(error.contains("cannot do `touch`, which an expiry needs"), "{error}");
    let error = StoreSink::check(&*store, &options(&store, RecordOp::Touch), true).unwrap_err().to_string();
    assert!(error.contains("nothing to verify"), "{error}");
}

#[test]
fn the_last_record_of_a_key_sets_its_expiry() {
    let text: String = (1..=210).map(|n| format!("{{\"_id\":\"k{:02}\",\"ttl\":{}}}\n", n % 70, n * 1_000)).collect();
    let (_, store, touched) = noting(|_| Fate::Done);
    copy_with(&Lab::new(), &text, &store, options(&store, RecordOp::Upsert));
    let touched = touched.lock().unwrap();
    assert_eq!(touched.len(), 70);
    for (key, each) in &*touched {
        let each: Vec<u64> = each.iter().map(Duration::as_secs).collect();
        assert!(each.is_sorted() && each.last() >= Some(&141_000), "{key}: {each:?}");
    }
}
