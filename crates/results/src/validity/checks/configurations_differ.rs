//! `work-differs`, `durability-differs` and `replicas-differ`: did all configurations do the same work, with the same
//! guarantees?

use crate::comparability::{COUNTED, DifferenceKind, PER_OPERATION};
use crate::human::percent;
use crate::validity::check::{Check, Configurations, Finding, Looks};
use crate::validity::unlike::{Question, unlike};

pub(super) const WORK: Check =
    Check::new("work-differs", "configurations did different work", &[Looks::Configurations(work)]).for_the_answer();
pub(super) const DURABILITY: Check =
    Check::new("durability-differs", "configurations have different durability", &[Looks::Configurations(durability)])
        .for_the_answer();
pub(super) const REPLICAS: Check = Check::new(
    "replicas-differ",
    "configurations keep different numbers of copies",
    &[Looks::Configurations(replicas)],
)
.for_the_answer();

/// Settings that change the work. Those of the client (workers, connections) do not.
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

/// Whether configurations did different work.
fn work(configurations: &Configurations<'_>) -> Vec<Finding> {
    let question = Question {
        kinds: &[DifferenceKind::Work, DifferenceKind::Payload],
        varied_by: &VARIED_BY,
        what: "work and documents",
        threshold: &format!(
            "caution above {} for one operation or {} of what is counted, note when the study varies it",
            percent(PER_OPERATION),
            percent(COUNTED)
        ),
        advice: "give all configurations the same work, or compare only those that do the same",
    };
    unlike(configurations, &question)
}

/// Whether configurations give different guarantees for a write.
fn durability(configurations: &Configurations<'_>) -> Vec<Finding> {
    let question = Question {
        kinds: &[DifferenceKind::Durability],
        varied_by: &["durability"],
        what: "durability",
        threshold: "caution when durability differs in a phase that writes, note when the study varies it",
        advice: "a synced write and an unsynced one are different work: ask for one that \
                 all of them give, such as --durability fsync, or state each \
                 configuration's beside its figures",
    };
    unlike(configurations, &question)
}

/// Whether configurations wait for different numbers of nodes.
fn replicas(configurations: &Configurations<'_>) -> Vec<Finding> {
    let question = Question {
        kinds: &[DifferenceKind::Replicas],
        varied_by: &["durability", "acknowledged_by"],
        what: "number of acknowledging nodes",
        threshold: "caution when different numbers of nodes acknowledge, note when the study varies it",
        advice: "each further node adds a round trip and a copy: use the same `acknowledged_by` in every configuration",
    };
    unlike(configurations, &question)
}

#[cfg(test)]
mod tests {
    use crate::RateResult;
    use crate::validity::testing::{CAUTION, NOTE, PASS, all, closed, severity, two_configurations};

    #[test]
    fn work_that_differs() {
        assert_eq!(severity(&two_configurations(|_| ()), "work-differs"), PASS);
        assert_eq!(severity(&closed(|_| ()), "work-differs"), None);
        let batch = two_configurations(|t| t.phases[0].ops[0].batch = 10);
        assert_eq!(severity(&batch, "work-differs"), CAUTION);
        assert_eq!(
            all(&batch, "work-differs")[0].observed,
            "one and other, load: books in batches of 1,000 against 10"
        );
        let bytes = |share: f64| {
            two_configurations(|t| {
                let op = &mut t.phases[1].ops[1];
                op.written_bytes = (op.written_bytes as f64 * share) as u64;
            })
        };
        assert_eq!(severity(&bytes(1.05), "work-differs"), PASS);
        assert_eq!(severity(&bytes(1.06), "work-differs"), CAUTION);
        let ratio = |ratio: f64| two_configurations(|t| t.phases[1].documents.compress_page = Some(ratio));
        assert_eq!(severity(&ratio(0.45), "work-differs"), PASS);
        assert_eq!(severity(&ratio(0.47), "work-differs"), CAUTION);
    }

    #[test]
    fn work_that_the_study_varies() {
        let mut result = two_configurations(|t| {
            t.phases[0].ops[0].batch = 10;
            t.values = [("phases.load.batch".to_owned(), 10.into())].into();
        });
        assert_eq!(severity(&result, "work-differs"), NOTE);
        // A difference that the study does not vary is reported as well.
        result.trials[1].phases[1].ops[0].kind = "page".into();
        let severities: Vec<_> = all(&result, "work-differs").into_iter().map(|v| Some(v.severity)).collect();
        assert_eq!(severities, [CAUTION, NOTE]);
        let scaled = two_configurations(|t| {
            t.phases[0].ops[0].documents *= 10;
            t.values = [("scale".to_owned(), 10.into())].into();
        });
        assert_eq!(severity(&scaled, "work-differs"), NOTE);
    }

    /// Four configurations of two stores and two rates: each is compared with the other store at the same rate.
    #[test]
    fn a_factor_hides_no_difference_between_stores() {
        let rate = |rate: u64| Some(RateResult { planned: rate.into(), ..RateResult::default() });
        let mut result = two_configurations(|_| ());
        result.trials.extend(result.trials.clone());
        for (at, (store, per_s)) in [("a", 250), ("a", 1_000), ("b", 250), ("b", 1_000)].into_iter().enumerate() {
            let trial = &mut result.trials[at];
            (trial.store, trial.configuration) = (store.into(), format!("{store} {per_s}"));
            trial.values = [("phases.mixed.rate".to_owned(), per_s.into())].into();
            trial.phases[1].rate = rate(per_s);
        }
        assert_eq!(severity(&result, "work-differs"), NOTE);
        result.trials[3].phases[1].ops[1].batch = 9;
        let found = all(&result, "work-differs");
        assert_eq!(Some(found[0].severity), CAUTION);
        assert_eq!(found[0].observed, "a 1000 and b 1000, mixed: update in batches of 1 against 9");
    }

    #[test]
    fn a_search_ends_where_it_ends() {
        let mut result = two_configurations(|t| {
            t.phases[1].rate = Some(RateResult { planned: 812.into(), ..RateResult::default() });
        });
        assert_eq!(severity(&result, "work-differs"), CAUTION);
        result.run.study = serde_json::json!({ "search": { "phase": "mixed" } });
        assert_eq!(severity(&result, "work-differs"), NOTE);
    }

    #[test]
    fn durability_that_differs() {
        let syncs = two_configurations(|t| t.phases.iter_mut().for_each(|p| p.durability.name = "fsync".into()));
        assert_eq!(severity(&syncs, "durability-differs"), CAUTION);
        assert_eq!(
            all(&syncs, "durability-differs")[0].observed,
            "one and other, load, mixed: durability os against fsync"
        );
        assert_eq!(severity(&two_configurations(|_| ()), "durability-differs"), PASS);
        assert_eq!(severity(&closed(|_| ()), "durability-differs"), None);
    }

    #[test]
    fn durability_that_the_study_varies() {
        let varied = |path: &str| {
            two_configurations(|t| {
                t.phases[1].durability.name = "fsync".into();
                t.values = [(path.to_owned(), "fsync".into())].into();
            })
        };
        let result = varied("phases.mixed.durability");
        assert_eq!(severity(&result, "durability-differs"), NOTE);
        assert!(all(&result, "durability-differs")[0].advice.contains("phases.mixed.durability"));
        // The durability of another phase explains nothing.
        assert_eq!(severity(&varied("phases.load.durability"), "durability-differs"), CAUTION);
        assert_eq!(severity(&varied("phases.mixed.workers"), "durability-differs"), CAUTION);
    }

    #[test]
    fn what_only_reads_has_nothing_to_lose() {
        let result = two_configurations(|t| {
            t.phases[1].durability.name = "fsync".into();
            t.phases[1].ops[1].kind = "read".into();
        });
        assert_eq!(severity(&result, "durability-differs"), CAUTION);
        let mut reads = result;
        reads.trials.iter_mut().for_each(|t| t.phases[1].ops[1].kind = "read".into());
        assert_eq!(severity(&reads, "durability-differs"), PASS);
    }

    #[test]
    fn nodes_that_acknowledge() {
        let named = |name: &str| two_configurations(|t| t.phases[1].durability.name = name.into());
        let two = named("acknowledged by 2, persisted os on 1");
        assert_eq!(severity(&two, "replicas-differ"), CAUTION);
        assert_eq!(all(&two, "replicas-differ")[0].observed, "one and other, mixed: acknowledged by 1 against 2");
        // Different persistence on the same number of nodes.
        assert_eq!(severity(&named("fsync"), "replicas-differ"), PASS);
        assert_eq!(severity(&two, "durability-differs"), PASS);
        assert_eq!(severity(&closed(|_| ()), "replicas-differ"), None);
    }

    #[test]
    fn nodes_that_the_study_varies() {
        let result = two_configurations(|t| {
            t.phases[1].durability.name = "acknowledged by 2, persisted os on 1".into();
            t.values = [("phases.mixed.durability".to_owned(), "majority".into())].into();
        });
        assert_eq!(severity(&result, "replicas-differ"), NOTE);
    }
}
