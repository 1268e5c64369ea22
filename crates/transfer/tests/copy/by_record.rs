//! Tests records that name their own operation.

use storebench_engine::store::ErrorKind;

use super::faulty::{Fate, Faulty};
use super::*;

fn sink(store: &Arc<dyn AnyStore>) -> StoreSink {
    let durability =
        store.capabilities().durability.first().map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d));
    let options = StoreSinkOptions { durability, by_record: true, ..sink_options(RecordOp::Upsert) };
    StoreSink::open(Arc::clone(store), options).unwrap()
}

fn by_field() -> Shape {
    let without = Some("op".parse().unwrap());
    shape().with_verb("op").with_projection(Projection { without, ..Projection::default() })
}

#[test]
fn each_record_is_done_as_it_says_in_the_order_of_its_key() {
    // A model of a store that applies one record after another.
    let mut model: BTreeMap<String, serde_json::Value> = BTreeMap::new();
    let (mut text, mut rejected, mut skipped, mut seed) = (String::new(), 0, 0, 7u64);
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for n in 0..4_000 {
        let key = format!("k{:02}", draw(40));
        let op = ["upsert", "insert", "replace", "delete", "merge"][draw(5) as usize];
        text += &format!("{{\"_id\":\"{key}\",\"op\":\"{op}\",\"n\":{n},\"{op}\":true}}\n");
        let document = serde_json::json!({"n": n, op: true});
        let there = model.contains_key(&key);
        match op {
            "upsert" => drop(model.insert(key, document)),
            "insert" if !there => drop(model.insert(key, document)),
            "replace" if there => drop(model.insert(key, document)),
            "delete" if there => drop(model.remove(&key)),
            "delete" => skipped += 1,
            "merge" if there => {
                let stored = model.get_mut(&key).and_then(|stored| stored.as_object_mut()).unwrap();
                stored.insert("n".into(), n.into());
                stored.insert(op.into(), true.into());
            }
            _ => rejected += 1,
        }
    }
    for busy in [false, true] {
        let mut calls = 0;
        let faulty = Faulty::new(move |_| {
            calls += 1;
            let fails = busy && calls % 3 == 0;
            if fails { Fate::Fails(OpError::new(ErrorKind::Temporary, "busy")) } else { Fate::Done }
        });
        let sound: Arc<dyn AnyStore> = Arc::new(faulty.sound());
        let store: Arc<dyn AnyStore> = Arc::new(faulty);
        let lab = Lab { parallel: 1, ..Lab::new() };
        let report = lab.copy_shaped(&files(&[&lab.write("a.jsonl", &text)]), &sink(&store), &by_field()).unwrap();
        let counts = report.counts;
        assert_eq!((counts.read, counts.rejected, counts.skipped), (4_000, rejected, skipped), "{busy}");
        assert_eq!(counts.written, 4_000 - rejected - skipped);
        let found: BTreeMap<String, serde_json::Value> = contents(&sound)
            .iter()
            .map(|line| {
                let mut document: serde_json::Value = serde_json::from_str(line).unwrap();
                let key = document.as_object_mut().unwrap().remove("_id").unwrap();
                (key.as_str().unwrap().to_owned(), document)
            })
            .collect();
        assert_eq!(found, model, "{busy}");
        let ops: std::collections::BTreeSet<String> =
            lab.rejects().into_iter().map(|Rejected { reject, .. }| reject.op).collect();
        assert_eq!(ops.into_iter().collect::<Vec<_>>(), ["insert", "merge", "replace"]);
        assert!(lab.rejects().iter().all(|reject| reject.record["op"] == reject.op), "as read");
    }
}

#[test]
fn what_names_no_operation_is_rejected() {
    let store = memory();
    let lab = Lab::new();
    let text = "{\"_id\":\"a\",\"op\":\"upsert\"}\n{\"_id\":\"b\",\"op\":\"counter\"}\n{\"_id\":\"c\"}\n{\"_id\":\"d\",\"op\":\"touch\"}\n";
    let report = lab.copy_shaped(&files(&[&lab.write("a.jsonl", text)]), &sink(&store), &by_field()).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (1, 3));
    let why: Vec<String> = lab.rejects().into_iter().map(|Rejected { reject, .. }| reject.why).collect();
    assert!(
        why.iter().any(|why| why.contains("\"counter\"")) && why.iter().any(|why| why.contains("is missing")),
        "{why:?}"
    );
    assert!(why.iter().any(|why| why.contains("it has no expiry")), "{why:?}");
    let options = StoreSinkOptions { by_record: true, ..sink_options(RecordOp::Upsert) };
    assert!(StoreSink::check(&*store, &options, true).unwrap_err().to_string().contains("--op-field"));
}

#[test]
fn a_broken_copy_by_record_does_each_once_or_lists_it() {
    let mut calls = 0;
    let faulty = Faulty::new(move |_| {
        calls += 1;
        if calls < 40 { Fate::Done } else { Fate::Fails(OpError::new(ErrorKind::Temporary, "gone")) }
    });
    let sound: Arc<dyn AnyStore> = Arc::new(faulty.sound());
    let store: Arc<dyn AnyStore> = Arc::new(faulty);
    let text: String = (0..3_000)
        .map(|n| format!("{{\"_id\":\"k{n:04}\",\"op\":\"insert\"}}\n{{\"_id\":\"k{n:04}\",\"op\":\"delete\"}}\n"))
        .collect();
    let mut lab = Lab { parallel: 1, ..Lab::new() };
    let path = lab.write("a.jsonl", text);
    lab.copy_shaped(&files(&[&path]), &sink(&store), &by_field()).unwrap_err();
    lab.begin = Begin::Resume;
    let report = lab.copy_shaped(&files(&[&path]), &sink(&sound), &by_field()).unwrap();
    assert_eq!(report.counts.written + report.counts.rejected + report.counts.skipped, 6_000);
    assert!(lab.rejects().iter().all(|reject| reject.error == "outcome-unknown") && lab.rejects().len() <= 100);
}
