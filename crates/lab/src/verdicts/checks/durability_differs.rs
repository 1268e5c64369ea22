//! `durability-differs`: do acknowledged writes of all arms survive the same?

use crate::alike::DifferenceKind;
use crate::verdicts::check::{Arms, Check, Finding, Group, Looks};
use crate::verdicts::unlike::{Question, unlike};

pub(super) const CHECK: Check = Check {
    name: "durability-differs",
    short: "arms promise unlike durability",
    group: Group::Arms,
    page,
    looks: &[Looks::Arms(look)],
    warm_ups: false,
    of_the_answer: true,
};

fn page() -> String {
    "With two arms or more: in a phase that writes, what an acknowledged write survives is not the same in both. Caution:
a store that syncs each write and one that does not are doing different work. A note where the study varies
`durability` itself. What to do: set `durability` in the study, which every store understands, or name each one's
beside its figures."
        .to_owned()
}

/// Whether arms promise different things of a write.
fn look(arms: &Arms<'_>) -> Vec<Finding> {
    unlike(
        arms,
        &Question {
            kinds: &[DifferenceKind::Durability],
            varied_by: &["durability"],
            what: "durability",
            threshold: "caution when durability differs in a phase that writes, note when the study varies it"
                .to_owned(),
            advice: "a write that is synced and one that is not are different work: set `durability` in the study, or \
                     name each one's beside its figures",
        },
    )
}

#[cfg(test)]
mod tests {
    use crate::verdicts::testing::{CAUTION, NOTE, PASS, all, closed, level, two_arms};

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
}
