//! `replicas-differ`: do as many nodes hold an acknowledged write in all arms?

use crate::alike::DifferenceKind;
use crate::verdicts::check::{Arms, Check, Finding, Group, Looks};
use crate::verdicts::unlike::{Question, unlike};

pub(super) const CHECK: Check = Check {
    name: "replicas-differ",
    short: "arms keep unlike numbers of copies",
    group: Group::Arms,
    page,
    looks: &[Looks::Arms(look)],
    warm_ups: false,
    of_the_answer: true,
};

fn page() -> String {
    "With two arms or more: in a phase that writes, a write is acknowledged by one node in one arm and by more in
another. Caution: each further node costs a round trip and a copy of the work. A note where the study varies
`durability` itself. What to do: ask every arm for the same `acknowledged_by`, or compare the arms that have it alike."
        .to_owned()
}

/// Whether arms wait for different numbers of nodes.
fn look(arms: &Arms<'_>) -> Vec<Finding> {
    unlike(
        arms,
        &Question {
            kinds: &[DifferenceKind::Replicas],
            varied_by: &["durability", "acknowledged_by"],
            what: "nodes that acknowledge",
            threshold: "caution when other numbers of nodes acknowledge, note when the study varies it".to_owned(),
            advice: "each further node is a round trip and a copy more: ask every arm for the same `acknowledged_by`",
        },
    )
}

#[cfg(test)]
mod tests {
    use crate::verdicts::testing::{CAUTION, NOTE, PASS, all, closed, level, two_arms};

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
