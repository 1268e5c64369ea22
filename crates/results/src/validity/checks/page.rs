//! Makes `docs/validity-checks.md` from the hand-written `page.md` and the figures of the checks.

use storebench_engine::ledger::guarantee_table;

use super::{
    client_saturated as saturated, compressible_payload as payload, data_to_memory_differs, few_distinct_keys as keys,
    fits_in_memory, misses, noisy_rounds as rounds, not_steady, parallelism_not_reached as parallelism, parts_apart,
    python_bound, rate_not_sustained, search_unsure, send_delay, settings_differ, stolen_time, sync_costs_nothing,
    too_few_connections as connections, too_short as short,
};
use crate::comparability::{COMPRESSION, COUNTED, MIX, OWN_FORM, PER_OPERATION};
use crate::environment::SYNC_TOO_FAST_NS;
use crate::human::{count, duration, percent};
use crate::in_flight;
use crate::own_delay::OWN;
use crate::stats::{CHANGE, CONFIDENCE, LEAST_ROUNDS, STALLED};

const TEXT: &str = include_str!("page.md");

/// The page, in Markdown.
pub fn page() -> String {
    let fill = |text: String, (name, figure): (&str, String)| text.replace(&format!("{{{name}}}"), &figure);
    figures().into_iter().fold(TEXT.to_owned(), fill)
}

/// The names that stand in braces on the page, and their values.
fn figures() -> Vec<(&'static str, String)> {
    vec![
        ("client-saturated.embedded", percent(saturated::EMBEDDED.0)),
        ("client-saturated.embedded-invalid", percent(saturated::EMBEDDED.1)),
        ("client-saturated.waiting", percent(saturated::MOSTLY_WAITING)),
        ("client-saturated.busy", percent(saturated::BUSY.0)),
        ("client-saturated.busy-invalid", percent(saturated::BUSY.1)),
        ("own", percent(OWN)),
        ("client-saturated.starved-invalid", percent(saturated::STARVED)),
        ("client-saturated.queued", percent(saturated::QUEUED)),
        ("client-saturated.got", percent(1.0 - saturated::WITHHELD.0)),
        ("client-saturated.got-invalid", percent(1.0 - saturated::WITHHELD.1)),
        ("client-saturated.mostly", percent(saturated::MOSTLY_QUEUED)),
        ("client-saturated.telling", duration(saturated::TELLING_NS)),
        ("python-bound.samples", count(python_bound::SAMPLES as u64)),
        ("send-delay.least", duration(send_delay::LEAST_NS)),
        ("send-delay.most", duration(send_delay::MUCH_NS)),
        ("send-delay.limit", percent(send_delay::OF_LIMIT)),
        ("send-delay.invalid", percent(send_delay::MUCH)),
        ("sync-costs-nothing.least", duration(SYNC_TOO_FAST_NS as f64)),
        ("sync-costs-nothing.rotating", duration(sync_costs_nothing::TOO_FAST_ROTATING_NS as f64)),
        ("drifting-rounds.rounds", LEAST_ROUNDS.to_string()),
        ("fits-in-memory.from-disk", percent(fits_in_memory::FROM_DISK)),
        ("stolen-time.tail", percent(stolen_time::TAIL)),
        ("parts-apart.caution", percent(parts_apart::APART.0)),
        ("parts-apart.invalid", percent(parts_apart::APART.1)),
        ("parts-apart.together", duration(parts_apart::TOGETHER_NS)),
        ("in-flight.full", percent(in_flight::FULL)),
        ("parallelism-not-reached.busy", percent(parallelism::BUSY)),
        ("too-few-connections.least", duration(connections::LEAST_NS)),
        ("too-few-connections.sustained", percent(connections::NEARLY_SUSTAINED)),
        ("too-few-connections.busy", percent(connections::BUSY)),
        ("rate-not-sustained.share", percent(rate_not_sustained::SUSTAINED)),
        ("rate-not-sustained.unfinished", percent(rate_not_sustained::UNFINISHED)),
        ("search-unsure.late", percent(search_unsure::LATE)),
        ("lost-writes.guarantees", guarantee_table()),
        ("misses.misses", percent(misses::MISSES)),
        ("compressible-payload.least", percent(payload::COMPRESSED)),
        ("compressible-payload.repeats", percent(payload::REPEATS)),
        ("different-answers.answers", crate::same_answers::COMPARED_ANSWERS.to_string()),
        ("control-differs.least", percent(crate::sweep::PRACTICAL)),
        ("few-distinct-keys.keys", count(keys::FEW_KEYS as u64)),
        ("few-distinct-keys.short", count(2 * keys::FEW_KEYS as u64)),
        ("fits-in-memory.fits", percent(fits_in_memory::FITS)),
        ("data-to-memory-differs.factor", data_to_memory_differs::FACTOR.to_string()),
        ("not-steady.change", percent(CHANGE)),
        ("not-steady.times", percent(not_steady::TIMES)),
        ("not-steady.stalled", percent(STALLED)),
        ("noisy-rounds.trials", rounds::LEAST_TRIALS.to_string()),
        ("noisy-rounds.confidence", percent(CONFIDENCE)),
        ("noisy-rounds.wide", percent(rounds::WIDE)),
        ("noisy-rounds.wild", percent(rounds::WILD)),
        ("noisy-rounds.wide-tail", percent(rounds::WIDE_TAIL)),
        ("noisy-rounds.wild-tail", percent(rounds::WILD_TAIL)),
        ("too-short.length", format!("{} s", short::LONG_ENOUGH_NS / 1e9)),
        ("too-short.operations", count(short::ENOUGH_OPERATIONS as u64)),
        ("too-short.load", duration(short::LOAD_NS)),
        ("too-short.beyond", short::ENOUGH_BEYOND.to_string()),
        ("work-differs.mix", percent(MIX)),
        ("work-differs.counted", percent(COUNTED)),
        ("work-differs.per", percent(PER_OPERATION)),
        ("work-differs.ratio", COMPRESSION.to_string()),
        ("work-differs.form", percent(OWN_FORM)),
        ("settings-differ.factor", settings_differ::FACTOR.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::CHECKS;
    use super::*;

    #[test]
    fn every_check_has_a_text_of_its_own() {
        let page = page();
        for check in CHECKS {
            let name = format!("**{}.**", check.name);
            let texts: Vec<&str> = page.split("\n\n").filter(|text| text.starts_with(&name)).collect();
            assert!(texts.len() == 1 && texts[0].len() > 60, "{name}: {texts:?}");
            assert_eq!(texts[0].trim_end().ends_with("says so."), check.of_the_answer, "{name}");
            assert!(!check.looks.is_empty(), "{}", check.name);
        }
        assert_eq!(page.matches("\n**").count(), CHECKS.len(), "a text without a check");
    }

    #[test]
    fn every_figure_is_on_the_page_and_no_other_is_asked_for() {
        for (name, figure) in figures() {
            assert!(TEXT.contains(&format!("{{{name}}}")) && !figure.is_empty(), "{name}");
        }
        let page = page();
        assert!(!page.contains(['{', '}']), "{page}");
        let long: Vec<&str> = page.lines().filter(|line| line.chars().count() > 120).collect();
        assert!(long.is_empty(), "{long:#?}");
    }
}
