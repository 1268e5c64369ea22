//! `work-differs`: did all arms do the same, with the same documents?

use crate::alike::{COMPRESSION, COUNTED, DifferenceKind, MIX, OWN_FORM, PER_OPERATION};
use crate::human::percent;
use crate::verdicts::check::{Arms, Check, Finding, Group, Looks};
use crate::verdicts::unlike::{Question, unlike};

pub(super) const CHECK: Check = Check {
    name: "work-differs",
    short: "arms did unlike work",
    group: Group::Arms,
    page,
    looks: &[Looks::Arms(look)],
    warm_ups: false,
    of_the_answer: true,
};

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

fn page() -> String {
    format!(
        "With two arms or more, phase by phase: other operations, kinds, batches or rates; an operation's share of the mix
that differs by more than {mix}; more than {counted} other counts of documents, or of operations in a phase that ends by
count; more than {counted} more attempts that find nothing; other consistency, popularity, streams, arrivals or pauses; more than {per} other documents or bytes for one operation; documents whose pages compress to a ratio that differs
by more than {ratio}. Stores of different kinds return documents in their own form: what is read may differ by {form}
there. Caution: the figures are of different work. A note, which names the factor, where the study varies it on purpose,
and where a search ends at another rate. Warm-ups and what ended early are left out. What to do: make the study ask the
same of all, or compare only what is alike.",
        mix = percent(MIX),
        counted = percent(COUNTED),
        per = percent(PER_OPERATION),
        ratio = COMPRESSION,
        form = percent(OWN_FORM),
    )
}

/// Whether arms did different work.
fn look(arms: &Arms<'_>) -> Vec<Finding> {
    unlike(
        arms,
        &Question {
            kinds: &[DifferenceKind::Work, DifferenceKind::Payload],
            varied_by: &VARIED_BY,
            what: "work and documents",
            threshold: format!(
                "caution above {} for one operation or {} of what is counted, note when the study varies it",
                percent(PER_OPERATION),
                percent(COUNTED)
            ),
            advice: "these figures are of different work: ask the same of all arms, or compare only what is alike",
        },
    )
}

#[cfg(test)]
mod tests {
    use crate::results::RateResult;
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
}
