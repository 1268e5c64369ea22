//! `lost-writes`: is what was acknowledged still there?

use crate::human::{count, percent};
use crate::results::LedgerResult;
use crate::verdicts::check::{Check, Finding, Group, Looks, Scene};
use crate::verdicts::lost::misread;
use crate::verdicts::model::Level;

pub(super) const CHECK: Check = Check {
    name: "lost-writes",
    short: "acknowledged writes are not there",
    group: Group::Answers,
    page,
    looks: &[Looks::Phase(look)],
    warm_ups: true,
    of_the_answer: false,
};

fn page() -> String {
    "With a ledger: one acknowledged write that is gone, or cannot be read back: invalid, exit
code 1; so is a read that was promised to see every acknowledged write and did not see the same client's own, or went back
behind an earlier one. A note where nothing was written, or not all was read back. Compare with the durability that was
promised."
        .to_owned()
}

/// Whether what was acknowledged is still there.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let ledger = scene.phase.ledger.as_ref()?;
    let told = ledger.confirmed + ledger.lost + ledger.unverifiable;
    let (level, advice) = match () {
        () if ledger.lost > 0 || ledger.unverifiable > 0 => (
            Level::Invalid,
            "the store did not keep what it acknowledged: see `ledger.examples`, and compare with the durability that was promised",
        ),
        () if misread(scene.phase) > 0 => (
            Level::Invalid,
            "reads went back behind what was acknowledged or read before: see `ledger.reads.examples`, and compare with the consistency that was promised",
        ),
        () if ledger.keys == 0 => {
            (Level::Note, "nothing was written, so that nothing was followed: give the phase writes")
        }
        () if told < ledger.keys => (Level::Note, "the others were not read back: the phase ended early"),
        () => (Level::Pass, ""),
    };
    Some(Finding::new(
        level,
        in_a_line(ledger),
        "invalid when a single acknowledged write is lost or cannot be verified; note when none was followed, or not all were read back",
        advice,
    ))
}

/// What became of what was acknowledged, in one line; kinds of which there are none are left out.
fn in_a_line(ledger: &LedgerResult) -> String {
    let mut parts = vec![format!(
        "of {} keys {} are as acknowledged",
        count(ledger.keys),
        count(ledger.confirmed.saturating_sub(ledger.happened + ledger.not_happened))
    )];
    for (number, what) in [
        (ledger.gone, "lost though acknowledged"),
        (ledger.stale, "older than acknowledged"),
        (ledger.torn, "torn or foreign"),
        (ledger.never_written, "never written, refused or deleted, yet there"),
        (ledger.unverifiable, "could not be read"),
        (ledger.happened, "of unknown outcome, and done"),
        (ledger.not_happened, "of unknown outcome, and not done"),
    ] {
        if number > 0 {
            parts.push(format!("{} {what}", count(number)));
        }
    }
    let mut out = parts.join(", ");
    let reads = &ledger.reads;
    if reads.stale + reads.backwards > 0 {
        out.push_str(&format!(
            "; of {} reads {} missed what had been acknowledged, {} went back",
            count(reads.followed),
            count(reads.stale),
            count(reads.backwards)
        ));
    }
    if ledger.share > 0.0 && ledger.share < 1.0 {
        out.push_str(&format!("; {} of all keys are followed", percent(ledger.share)));
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::results::LedgerResult;
    use crate::verdicts::testing::{INVALID, NOTE, PASS, closed, level};
    use crate::verdicts::{exit_code, judge};

    #[test]
    fn lost_writes() {
        let with = |lost, unverifiable| {
            closed(|p| {
                p.ledger = Some(LedgerResult { keys: 9, confirmed: 9, lost, unverifiable, ..Default::default() })
            })
        };
        assert_eq!(level(&closed(|_| ()), "lost-writes"), None);
        assert_eq!(level(&with(0, 0), "lost-writes"), PASS);
        let few =
            |keys, confirmed| closed(|p| p.ledger = Some(LedgerResult { keys, confirmed, ..LedgerResult::default() }));
        assert_eq!(level(&few(0, 0), "lost-writes"), NOTE);
        assert_eq!(level(&few(9, 8), "lost-writes"), NOTE);
        for mut result in [with(1, 0), with(0, 1)] {
            assert_eq!(level(&result, "lost-writes"), INVALID);
            result.verdicts = judge(&result);
            assert_eq!(exit_code(&result), 1);
        }
    }
}
