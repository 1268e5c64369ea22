//! Tests documents with members that the target reserves for itself.

use storebench_transfer::OwnMembers;

use super::faulty::{Fate, Faulty};
use super::*;

const EXPORT: &str = concat!(
    "{\"_id\":\"a\",\"_rev\":\"1-x\",\"n\":1}\n",
    "{\"_id\":\"b\",\"n\":{\"_rev\":2}}\n",
    "{\"_id\":\"c\",\"\\u005fconflicts\":[],\"n\":3}\n",
    "{\"_id\":\"d\",\"n\":4}\n",
);

fn run(rule: OwnMembers, verb: RecordOp, shape: &Shape) -> (Lab, CopyReport, Vec<String>) {
    let store = Faulty::new(|_| Fate::Done).reserving(&["_*"]);
    let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
    let faulty: Arc<dyn AnyStore> = Arc::new(store);
    let durability =
        faulty.capabilities().durability.first().map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d));
    let options = StoreSinkOptions { own_members: rule, durability, ..sink_options(verb) };
    let lab = Lab { verify: true, ..Lab::new() };
    let sink = StoreSink::open(faulty, options).unwrap();
    let report = lab.copy_shaped(&files(&[&lab.write("a.jsonl", EXPORT)]), &sink, shape).unwrap();
    let there = if report.counts.written > 0 { contents(&sound) } else { Vec::new() };
    (lab, report, there)
}

#[test]
fn they_are_rejected_dropped_or_sent_and_what_is_written_is_verified() {
    for verb in [RecordOp::Upsert, RecordOp::Insert] {
        let (lab, report, there) = run(OwnMembers::Reject, verb, &shape());
        assert_eq!((report.counts.written, report.counts.rejected, report.counts.without_own_members), (2, 2, 0));
        let rejects = lab.rejects();
        assert_eq!((rejects[0].error.as_str(), rejects[0].tries), ("refused", 0));
        assert!(rejects[0].why.contains("`_rev`") && rejects[1].why.contains("`_conflicts`"), "{rejects:?}");
        assert!(rejects.iter().all(|reject| reject.why.contains("--own-members drop")));
        let first: serde_json::Value = serde_json::from_str(EXPORT.lines().next().unwrap()).unwrap();
        assert_eq!(rejects[0].record, first, "the record as it was read");
        assert_eq!(there, [EXPORT.lines().nth(1).unwrap(), EXPORT.lines().nth(3).unwrap()]);
        let (_, report, there) = run(OwnMembers::Drop, verb, &shape());
        assert_eq!((report.counts.written, report.counts.rejected, report.counts.without_own_members), (4, 0, 2));
        assert_eq!(there[0], "{\"_id\":\"a\",\"n\":1}");
        assert_eq!(there[2], "{\"_id\":\"c\",\"n\":3}");
        assert!(report.verified.unwrap().equal);
        let (_, report, there) = run(OwnMembers::Keep, verb, &shape());
        assert_eq!((report.counts.written, there[0].as_str()), (4, EXPORT.lines().next().unwrap()));
    }
}

#[test]
fn a_member_that_only_repeats_the_key_is_no_loss() {
    // The key is a template, so the field stays in the document.
    let shape = |template: &str| Shape::new(Some(template.parse().unwrap()), "test");
    let (_, report, there) = run(OwnMembers::Reject, RecordOp::Upsert, &shape("{_id}"));
    assert_eq!((report.counts.written, report.counts.rejected, report.counts.without_own_members), (2, 2, 0));
    assert_eq!(there[1], "{\"_id\":\"d\",\"n\":4}");
    let (lab, report, _) = run(OwnMembers::Reject, RecordOp::Upsert, &shape("x{_id}"));
    assert_eq!((report.counts.written, report.counts.rejected), (0, 4));
    assert!(lab.rejects()[1].why.contains("`_id`"));
}
