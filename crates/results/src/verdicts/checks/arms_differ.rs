//! `work-differs`, `durability-differs` and `replicas-differ`: did all arms do the same, with the same promises?

use crate::comparability::{COUNTED, DifferenceKind, PER_OPERATION};
use crate::human::percent;
use crate::verdicts::check::{Arms, Check, Finding, Looks};
use crate::verdicts::unlike::{Question, unlike};

pub(super) const WORK: Check =
    Check::new("work-differs", "arms did different work", &[Looks::Arms(work)]).for_the_answer();
pub(super) const DURABILITY: Check =
    Check::new("durability-differs", "arms have different durability", &[Looks::Arms(durability)]).for_the_answer();
pub(super) const REPLICAS: Check =
    Check::new("replicas-differ", "arms keep different numbers of copies", &[Looks::Arms(replicas)]).for_the_answer();

/// Settings that change what is done. Those of the client (workers, connections) do not.
const VARIED_BY: [&str; 20] = [
    "scale",
    "collections",
    "count",
    "load",
    "mix",
    "batch",
    "operations",
    "duration",
    "rate",
    "arrival",
    "streams",
    "think",
    "consistency",
    "draw",
    "collection",
    "limit",
    "popularity",
    "size",
    "compress_to",
    "from",
];

/// Whether arms did different work.
fn work(arms: &Arms<'_>) -> Vec<Finding> {
    let question = Question {
        kinds: &[DifferenceKind::Work, DifferenceKind::Payload],
        varied_by: &VARIED_BY,
        what: "work and documents",
        threshold: &format!(
            "caution above {} for one operation or {} of what is counted, note when the study varies it",
            percent(PER_OPERATION),
            percent(COUNTED)
        ),
        advice: "give all arms the same work, or compare only those that do the same",
    };
    unlike(arms, &question)
}

/// Whether arms promise different things of a write.
fn durability(arms: &Arms<'_>) -> Vec<Finding> {
    let question = Question {
        kinds: &[DifferenceKind::Durability],
        varied_by: &["durability"],
        what: "durability",
        threshold: "caution when durability differs in a phase that writes, note when the study varies it",
        advice: "a synced write and an unsynced one are different work: set `durability` in the study, or state each \
                 arm's beside its figures",
    };
    unlike(arms, &question)
}

/// Whether arms wait for different numbers of nodes.
fn replicas(arms: &Arms<'_>) -> Vec<Finding> {
    let question = Question {
        kinds: &[DifferenceKind::Replicas],
        varied_by: &["durability", "acknowledged_by"],
        what: "nodes that acknowledge",
        threshold: "caution when different numbers of nodes acknowledge, note when the study varies it",
        advice: "each further node adds a round trip and a copy: use the same `acknowledged_by` in every arm",
    };
    unlike(arms, &question)
}

#[cfg(test)]
mod tests {
    use crate::RateResult;
    use crate::verdicts::testing::{CAUTION, NOTE, PASS, all, closed, level, two_arms};

    #[test]
    fn work_that_differs() {
        assert_eq!(level(&two_arms(|_| ()), "work-differs"), PASS);
        assert_eq!(level(&closed(|_| ()), "work-differs"), None);
        let batch = two_arms(|t| t.phases[0].ops[0].batch = 10);
        assert_eq!(level(&batch, "work-differs"), CAUTION);
        assert_eq!(all(&batch, "work-differs")[0].saw, "one and other, load: books in batches of 1,000 against 10");
        let bytes = |share: f64| {
            two_arms(|t| {
                let op = &mut t.phases[1].ops[1];
                op.written_bytes = (op.written_bytes as f64 * share) as u64;
            })
        };
        assert_eq!(level(&bytes(1.05), "work-differs"), PASS);
        assert_eq!(level(&bytes(1.06), "work-differs"), CAUTION);
        let ratio = |ratio: f64| two_arms(|t| t.phases[1].documents.compress_page = Some(ratio));
        assert_eq!(level(&ratio(0.45), "work-differs"), PASS);
        assert_eq!(level(&ratio(0.47), "work-differs"), CAUTION);
    }

    #[test]
    fn work_that_the_study_varies() {
        let mut result = two_arms(|t| {
            t.phases[0].ops[0].batch = 10;
            t.levels = [("phases.load.batch".to_owned(), 10.into())].into();
        });
        assert_eq!(level(&result, "work-differs"), NOTE);
        // What nobody asked for is told beside it.
        result.trials[1].phases[1].ops[0].kind = "page".into();
        let levels: Vec<_> = all(&result, "work-differs").into_iter().map(|v| Some(v.level)).collect();
        assert_eq!(levels, [CAUTION, NOTE]);
        let scaled = two_arms(|t| {
            t.phases[0].ops[0].documents *= 10;
            t.levels = [("scale".to_owned(), 10.into())].into();
        });
        assert_eq!(level(&scaled, "work-differs"), NOTE);
    }

    /// Four arms of two stores and two rates: each is seen beside the other store at its own rate.
    #[test]
    fn a_factor_hides_no_difference_between_stores() {
        let rate = |rate: u64| Some(RateResult { planned: rate.into(), ..RateResult::default() });
        let mut result = two_arms(|_| ());
        result.trials.extend(result.trials.clone());
        for (at, (store, per_s)) in [("a", 250), ("a", 1_000), ("b", 250), ("b", 1_000)].into_iter().enumerate() {
            let trial = &mut result.trials[at];
            (trial.store, trial.arm) = (store.into(), format!("{store} {per_s}"));
            trial.levels = [("phases.mixed.rate".to_owned(), per_s.into())].into();
            trial.phases[1].rate = rate(per_s);
        }
        assert_eq!(level(&result, "work-differs"), NOTE);
        result.trials[3].phases[1].ops[1].batch = 9;
        let found = all(&result, "work-differs");
        assert_eq!(Some(found[0].level), CAUTION);
        assert_eq!(found[0].saw, "a 1000 and b 1000, mixed: update in batches of 1 against 9");
    }

    #[test]
    fn a_search_ends_where_it_ends() {
        let mut result = two_arms(|t| {
            t.phases[1].rate = Some(RateResult { planned: 812.into(), ..RateResult::default() });
        });
        assert_eq!(level(&result, "work-differs"), CAUTION);
        result.run.study = serde_json::json!({ "search": { "phase": "mixed" } });
        assert_eq!(level(&result, "work-differs"), NOTE);
    }

    #[test]
    fn durability_that_differs() {
        let syncs = two_arms(|t| t.phases.iter_mut().for_each(|p| p.durability.name = "fsync".into()));
        assert_eq!(level(&syncs, "durability-differs"), CAUTION);
        assert_eq!(all(&syncs, "durability-differs")[0].saw, "one and other, load, mixed: durability os against fsync");
        assert_eq!(level(&two_arms(|_| ()), "durability-differs"), PASS);
        assert_eq!(level(&closed(|_| ()), "durability-differs"), None);
    }

    #[test]
    fn durability_that_the_study_varies() {
        let varied = |path: &str| {
            two_arms(|t| {
                t.phases[1].durability.name = "fsync".into();
                t.levels = [(path.to_owned(), "fsync".into())].into();
            })
        };
        let result = varied("phases.mixed.durability");
        assert_eq!(level(&result, "durability-differs"), NOTE);
        assert!(all(&result, "durability-differs")[0].advice.contains("phases.mixed.durability"));
        // The durability of another phase explains nothing.
        assert_eq!(level(&varied("phases.load.durability"), "durability-differs"), CAUTION);
        assert_eq!(level(&varied("phases.mixed.workers"), "durability-differs"), CAUTION);
    }

    #[test]
    fn what_only_reads_has_nothing_to_lose() {
        let result = two_arms(|t| {
            t.phases[1].durability.name = "fsync".into();
            t.phases[1].ops[1].kind = "read".into();
        });
        assert_eq!(level(&result, "durability-differs"), CAUTION);
        let mut reads = result;
        reads.trials.iter_mut().for_each(|t| t.phases[1].ops[1].kind = "read".into());
        assert_eq!(level(&reads, "durability-differs"), PASS);
    }

    #[test]
    fn nodes_that_acknowledge() {
        let named = |name: &str| two_arms(|t| t.phases[1].durability.name = name.into());
        let two = named("acknowledged by 2, persisted os on 1");
        assert_eq!(level(&two, "replicas-differ"), CAUTION);
        assert_eq!(all(&two, "replicas-differ")[0].saw, "one and other, mixed: acknowledged by 1 against 2");
        // Other storage on as many nodes.
        assert_eq!(level(&named("fsync"), "replicas-differ"), PASS);
        assert_eq!(level(&two, "durability-differs"), PASS);
        assert_eq!(level(&closed(|_| ()), "replicas-differ"), None);
    }

    #[test]
    fn nodes_that_the_study_varies() {
        let result = two_arms(|t| {
            t.phases[1].durability.name = "acknowledged by 2, persisted os on 1".into();
            t.levels = [("phases.mixed.durability".to_owned(), "majority".into())].into();
        });
        assert_eq!(level(&result, "replicas-differ"), NOTE);
    }
}
