use super::*;
use crate::fixture;

/// A load and a closed loop, with a change.
fn trial(change: impl FnOnce(&mut TrialResult)) -> TrialResult {
    let mut trial = fixture::run_of(&[fixture::load(), fixture::closed_loop()]).trials.remove(0);
    trial.documents = [("books".to_owned(), 20_000)].into();
    for phase in &mut trial.phases {
        phase.ops.values_mut().for_each(|op| op.errors = 0);
    }
    change(&mut trial);
    trial
}

fn of(change: impl FnOnce(&mut TrialResult)) -> Vec<(DifferenceKind, Option<String>, String)> {
    let (same, other) = (trial(|_| ()), trial(change));
    differences(&[&same], &[&other]).into_iter().map(|d| (d.kind, d.phase, d.text)).collect()
}

/// The only difference, in the second phase.
fn one(change: impl FnOnce(&mut PhaseResult)) -> (DifferenceKind, String) {
    let found = of(|t| change(&mut t.phases[1]));
    let [(kind, phase, text)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(phase.as_deref(), Some("mixed"));
    (*kind, text.clone())
}

use DifferenceKind::{Durability, Payload, Replicas, Work};

#[test]
fn how_was_asked_and_what_was_found() {
    let popularity = one(|p| p.settings["popularity"] = "zipf:2".into());
    assert_eq!(popularity, (Work, "popularity uniform against zipf:2".into()));
    let consistency = one(|p| p.consistency.name = "stale-ok".into());
    assert_eq!(consistency, (Work, "consistency strong against stale-ok".into()));
    let misses = one(|p| {
        let read = &mut p.ops["read"];
        (read.misses, read.succeeded, read.documents) = (read.succeeded, 0, 0);
    });
    assert_eq!(misses, (Work, "read finds nothing in 0 % against 100 % of its attempts".into()));
    // A copy has no settings.
    assert_eq!(of(|t| t.phases[1].settings.clear()), []);
    // Client settings do not change the work.
    let (a, b) = (
        trial(|_| ()),
        trial(|t| {
            t.phases[1].settings.insert("timeout".into(), "1s".into());
            t.phases[1].workers += 1;
        }),
    );
    assert_eq!(differences(&[&a], &[&b]), []);
    assert_eq!(client_differences(&[&a], &[&b]), ["workers of mixed: 2 and 3", "timeout of mixed: not set and 1s"]);
    assert!(client_differences(&[&a], &[&a]).is_empty());
}

#[test]
fn indexes_tls_and_query_plans() {
    let collection = |indexes: &[&str]| {
        vec![PlannedCollection {
            collection: "books".into(),
            indexes: indexes.iter().map(|field| vec![(*field).to_owned(), "n".to_owned()]).collect(),
            ..PlannedCollection::default()
        }]
    };
    assert_eq!(index_differences(&collection(&["author"]), &collection(&[])), ["books: author+n and none"]);
    assert!(index_differences(&collection(&["author"]), &collection(&["author"])).is_empty());

    let at = |url: &str| trial(|t| t.url = url.into());
    let (plain, tls) = (at("redis://h"), at("rediss://h"));
    assert_eq!(tls_difference(&[&plain], &[&tls]).unwrap(), "A connects without TLS, B with TLS");
    assert_eq!(tls_difference(&[&plain], &[&plain]), None);

    let answered = |plan: &str, full_scan| {
        trial(|t| {
            t.phases[1].ops["read"].query_plan =
                Some(crate::QueryPlanResult { field: None, plan: plan.into(), full_scan });
        })
    };
    let index = answered("Index Scan using a (cost=0.1..8.5 rows=3) author = 'ann'", false);
    let told = |other: &TrialResult| query_plan_differences(&[&index], &[other]);
    assert!(told(&answered("Index Scan using a (cost=0.2..81 rows=12) author = 'bob 7'", false)).is_empty());
    assert_eq!(told(&answered("Seq Scan", true)), ["read of mixed: an index and a full scan"]);
    assert_eq!(told(&answered("Bitmap Heap Scan (cost=1)", false)), ["read of mixed: another query plan"]);
    let json = |index: &str, value: &str| {
        format!(
            r#"{{"winningPlan":{{"stage":"FETCH","inputStage":{{"stage":"IXSCAN","indexName":"{index}","bounds":["{value}"]}}}}}}"#
        )
    };
    assert_eq!(outline(&json("a_1", "ann")), outline(&json("a_1", "bob")));
    assert_ne!(outline(&json("a_1", "ann")), outline(&json("b_1", "ann")));
    assert_ne!(outline("SEARCH books USING INDEX idx_1 (a=?)"), outline("SEARCH books USING INDEX idx_2 (a=?)"));
}

#[test]
fn what_is_alike_has_no_differences() {
    assert_eq!(of(|_| ()), []);
    let (one, two) = (trial(|_| ()), trial(|t| t.trial = 2));
    assert_eq!(differences(&[&one, &two], &[&two]), []);
    assert_eq!(differences(&[], &[]), []);
    assert_eq!(of(|t| t.phases.clear()).len(), 2);
}

#[test]
fn durability_is_what_is_persisted_and_replicas_who_acknowledges() {
    let named = |name: &str| one(|p| p.durability.name = name.into());
    assert_eq!(named("fsync"), (Durability, "durability os against fsync".into()));
    assert_eq!(named("acknowledged by 2, persisted os on 1"), (Replicas, "acknowledged by 1 against 2".into()));
    let both = of(|t| t.phases[1].durability.name = "majority".into());
    assert_eq!(both.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), [Replicas, Durability]);
    // Nothing is written, so durability does not matter.
    let reads = |name: &str| {
        trial(|t| {
            t.phases[1].durability.name = name.into();
            t.phases[1].ops.shift_remove("update");
        })
    };
    assert_eq!(differences(&[&reads("os")], &[&reads("fsync")]), []);
}

#[test]
fn operations_and_their_kinds_batches_and_rates() {
    assert_eq!(one(|p| p.ops[1].kind = "merge".into()), (Work, "update is upsert against merge".into()));
    assert_eq!(one(|p| p.ops[1].collection = "x".into()), (Work, "update of books against x".into()));
    assert_eq!(one(|p| p.ops[1].batch = 9), (Work, "update in batches of 1 against 9".into()));
    let rate = one(|p| p.rate = Some(crate::RateResult { planned: 250.into(), ..Default::default() }));
    assert_eq!(rate, (Work, "no rate against rate 250/s".into()));
    let gone = of(|t| drop(t.phases[1].ops.shift_remove("update")));
    assert!(gone.iter().any(|(.., text)| text == "update by the first only"), "{gone:?}");
    // Each store loads in its own way.
    assert_eq!(of(|t| t.phases[0].ops[0].kind = "bulk-upsert".into()), []);
}

#[test]
fn what_was_searched_or_kept_is_no_other_work() {
    let rated = |rate: u64, searched: bool| {
        trial(|t| {
            t.phases[1].rate = Some(crate::RateResult { planned: rate.into(), ..Default::default() });
            if searched {
                let search = crate::SearchResult { phase: "mixed".into(), ..Default::default() };
                t.searches.push(search);
            }
        })
    };
    assert_eq!(differences(&[&rated(250, true)], &[&rated(500, true)]), []);
    assert_eq!(differences(&[&rated(250, true)], &[&rated(500, false)]).len(), 1);
    let kept = |kept: bool| {
        move |t: &mut TrialResult| {
            t.database_kept = kept;
            t.phases.remove(0);
        }
    };
    assert_eq!(of(kept(true)), []);
    assert_eq!(of(kept(false)).len(), 1);
}

#[test]
fn a_phase_that_is_not_there() {
    let gone = of(|t| drop(t.phases.pop()));
    assert_eq!(gone, [(Work, Some("mixed".into()), "done by the first only".into())]);
    let failed = of(|t| {
        t.phases.pop();
        t.failure = Some(crate::Failure::default());
    });
    assert_eq!(failed, []);
    assert_eq!(of(|t| t.phases[1].partial = Some("interrupted".into())), []);
}

#[test]
fn counts_of_what_is_counted() {
    assert_eq!(of(|t| t.documents["books"] = 20_200), []);
    let more = of(|t| t.documents["books"] = 20_201);
    assert_eq!(more, [(Work, None, "20,000 against 20,201 documents of books".into())]);
    // A timed phase does as many as the store can.
    let twice = |p: &mut PhaseResult| p.ops.values_mut().for_each(|op| op.count *= 2);
    assert_eq!(of(|t| twice(&mut t.phases[1])), []);
    let counted = one(|p| {
        twice(p);
        p.sending_ns = p.sending_ns / 10 * 9;
    });
    assert_eq!(counted, (Work, "12,007 against 24,014 operations".into()));
    let loaded = of(|t| t.phases[0].ops[0].documents = 10_000);
    assert!(loaded.iter().any(|(.., text)| text == "20,000 against 10,000 documents loaded"), "{loaded:?}");
}

#[test]
fn the_mix_that_was_drawn() {
    assert_eq!(of(|t| (t.phases[1].ops[0].count, t.phases[1].ops[1].count) = (6_590, 5_410)), []);
    let other = of(|t| (t.phases[1].ops[0].count, t.phases[1].ops[1].count) = (6_700, 5_300));
    assert_eq!(other.len(), 2);
    assert_eq!(other[0].2, "read is 50.0 % against 55.8 % of the operations");
}

#[test]
fn an_index_that_only_one_has() {
    let index = crate::IndexResult { collection: "books".into(), name: "by-city".into(), ..Default::default() };
    let one = of(|t| t.indexes = vec![index.clone()]);
    assert_eq!(one, [(Work, None, "only the second has the index `by-city` of `books`".into())]);
    assert_eq!(of(|_| ()), []);
}

#[test]
fn what_chance_explains() {
    let varying = |t: &mut TrialResult, deviation: f64| t.phases[1].ops[1].written_bytes_sd = Some(deviation);
    let larger = |deviation: f64| {
        let [a, mut b] = [trial(|t| varying(t, deviation)), trial(|t| varying(t, deviation))];
        b.phases[1].ops[1].written_bytes = b.phases[1].ops[1].written_bytes / 100 * 106;
        differences(&[&a], &[&b]).len()
    };
    assert_eq!([0.0, 500.0, 1_200.0].map(larger), [1, 1, 0]);
    let missing = |misses: u64, of_all: u64| {
        let few = |t: &mut TrialResult, misses: u64| {
            let op = &mut t.phases[1].ops[0];
            (op.misses, op.succeeded, op.documents, op.read_bytes) = (misses, of_all - misses, of_all - misses, 0);
        };
        differences(&[&trial(|t| few(t, 0))], &[&trial(|t| few(t, misses))]).len()
    };
    assert_eq!([(3, 120), (20, 120), (90, 6_000), (12, 120)].map(|(n, all)| missing(n, all)), [0, 1, 1, 0]);
}

#[test]
fn documents_and_bytes_of_one_operation() {
    let more = of(|t| {
        t.phases[1].ops[0].documents *= 2;
        t.phases[1].ops[0].read_bytes *= 2;
    });
    assert_eq!(more, [(Work, Some("mixed".into()), "1.00 against 2.00 documents for one read".into())]);
    let larger = |share: f64| {
        of(|t| {
            let op = &mut t.phases[1].ops[1];
            op.written_bytes = (op.written_bytes as f64 * share) as u64;
        })
    };
    assert_eq!(larger(1.05), []);
    assert_eq!(larger(1.06)[0].0, Payload);
    let failing = of(|t| {
        t.phases[1].ops[0].documents *= 2;
        t.phases[1].ops[0].errors = 1_000;
    });
    assert_eq!(failing, []);
}

#[test]
fn a_store_s_own_form_of_a_document_is_no_other_document() {
    let read = |scheme: &str, share: f64| {
        of(|t| {
            t.scheme = scheme.into();
            t.phases[1].ops[0].read_bytes = (t.phases[1].ops[0].read_bytes as f64 * share) as u64;
        })
    };
    assert_eq!(read("sqlite", 1.1)[0].0, Payload);
    assert_eq!(read("couchdb", 1.1), []);
    assert_eq!(read("couchdb", 1.6)[0].0, Payload);
}

#[test]
fn how_far_pages_compress() {
    let to = |ratio: f64| of(|t| t.phases[1].documents.compress_page = Some(ratio));
    assert_eq!(to(0.45), []);
    assert_eq!(to(0.47)[0], (Payload, Some("mixed".into()), "pages of documents compress to 41 % against 47 %".into()));
}

/// A store that cannot do an operation of the mix is named.
#[test]
fn what_a_store_leaves_out_is_said_by_its_name() {
    let named = |name: &str, leaves_out: &[&str]| {
        trial(|t| {
            t.configuration = name.into();
            leaves_out.iter().for_each(|op| drop(t.phases[1].ops.shift_remove(*op)));
        })
    };
    let texts = |a: &TrialResult, b: &TrialResult| -> Vec<String> {
        differences(&[a], &[b]).into_iter().map(|found| found.text).collect()
    };
    let (pg, redis) = (named("pg", &[]), named("redis", &["update"]));
    assert!(texts(&pg, &redis).contains(&"redis leaves out update".to_owned()), "{:?}", texts(&pg, &redis));
    assert!(texts(&redis, &pg).contains(&"redis leaves out update".to_owned()), "{:?}", texts(&redis, &pg));
}

/// How many documents a request of a copy holds is up to the store, as the size of a page is. All of them are the work.
#[test]
fn requests_of_a_copy_may_hold_as_many_documents_as_the_store_likes() {
    let copy = |requests: u64, documents: u64| {
        trial(|t| {
            let phase = &mut t.phases[1];
            phase.tasks = Some(crate::TasksResult { asked: 4, at_once: 1, parts: 1 });
            phase.ops.shift_remove("update");
            let op = &mut phase.ops["read"];
            (op.count, op.succeeded, op.documents, op.documents_sd) = (requests, requests, documents, Some(0.0));
            (op.read_bytes, op.read_bytes_sd) = (documents * 2_048, Some(0.0));
        })
    };
    let texts = |a: &TrialResult, b: &TrialResult| -> Vec<String> {
        differences(&[a], &[b]).into_iter().map(|found| found.text).collect()
    };
    assert_eq!(texts(&copy(306, 33_360), &copy(121, 33_360)), [""; 0]);
    assert_eq!(texts(&copy(306, 33_360), &copy(121, 13_000)), ["33,360 against 13,000 documents copied"]);
}

/// A fraction of a byte is no difference.
#[test]
fn what_reads_alike_is_no_difference() {
    let sent = |bytes: u64| {
        trial(|t| {
            let op = &mut t.phases[1].ops["read"];
            (op.written_bytes, op.written_bytes_sd) = (bytes, Some(0.0));
        })
    };
    assert_eq!(differences(&[&sent(600)], &[&sent(1_800)]), []);
    assert_ne!(differences(&[&sent(60_000)], &[&sent(180_000)]), []);
}
