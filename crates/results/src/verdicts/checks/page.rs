//! `docs/verdicts.md`: written by hand in `page.md`, but for the figures of the checks.

use storebench_engine::ledger::promise_table;

use super::{
    client_saturated as saturated, compressible_payload as payload, few_distinct_keys as keys, fits_in_memory, misses,
    noisy_blocks as blocks, not_steady, parallelism_not_reached as parallelism, rate_not_held as held, regime_differs,
    schedule_slip as slip, search_unsure, too_few_connections as connections, too_short as short,
};
use crate::comparability::{COMPRESSION, COUNTED, MIX, OWN_FORM, PER_OPERATION};
use crate::human::{count, duration, percent};
use crate::slots;
use crate::stats::{CHANGE, CONFIDENCE, STALLED};

const TEXT: &str = include_str!("page.md");

/// The page, in Markdown.
pub fn page() -> String {
    let fill = |text: String, (name, figure): (&str, String)| text.replace(&format!("{{{name}}}"), &figure);
    figures().into_iter().fold(TEXT.to_owned(), fill)
}

/// What stands in braces on the page.
fn figures() -> Vec<(&'static str, String)> {
    vec![
        ("client-saturated.embedded", percent(saturated::EMBEDDED.0)),
        ("client-saturated.embedded-invalid", percent(saturated::EMBEDDED.1)),
        ("client-saturated.waiting", percent(saturated::MOSTLY_WAITING)),
        ("client-saturated.busy", percent(saturated::BUSY.0)),
        ("client-saturated.busy-invalid", percent(saturated::BUSY.1)),
        ("client-saturated.starved-tail", percent(saturated::STARVED_TAIL)),
        ("client-saturated.starved", percent(saturated::STARVED.0)),
        ("client-saturated.starved-invalid", percent(saturated::STARVED.1)),
        ("client-saturated.queued", percent(saturated::QUEUED)),
        ("client-saturated.got", percent(1.0 - saturated::WITHHELD.0)),
        ("client-saturated.got-invalid", percent(1.0 - saturated::WITHHELD.1)),
        ("client-saturated.mostly", percent(saturated::MOSTLY_QUEUED)),
        ("client-saturated.telling", duration(saturated::TELLING_NS)),
        ("schedule-slip.least", duration(slip::LEAST_NS)),
        ("schedule-slip.much", duration(slip::MUCH_NS.0)),
        ("schedule-slip.most", duration(slip::MUCH_NS.1)),
        ("schedule-slip.limit", percent(slip::OF_LIMIT)),
        ("schedule-slip.caution", percent(slip::SLIP.0)),
        ("schedule-slip.invalid", percent(slip::SLIP.1)),
        ("slots.full", percent(slots::FULL)),
        ("parallelism-not-reached.busy", percent(parallelism::BUSY)),
        ("too-few-connections.least", duration(connections::LEAST_NS)),
        ("too-few-connections.wait", percent(connections::SLOT_WAIT)),
        ("too-few-connections.held", percent(connections::NEARLY_HELD)),
        ("too-few-connections.busy", percent(connections::BUSY)),
        ("rate-not-held.held", percent(held::HELD)),
        ("rate-not-held.censored", percent(held::CENSORED)),
        ("search-unsure.late", percent(search_unsure::LATE)),
        ("lost-writes.promises", promise_table()),
        ("misses.misses", percent(misses::MISSES)),
        ("compressible-payload.least", percent(payload::COMPRESSED)),
        ("compressible-payload.repeats", percent(payload::REPEATS)),
        ("few-distinct-keys.keys", count(keys::FEW_KEYS as u64)),
        ("few-distinct-keys.short", count(2 * keys::FEW_KEYS as u64)),
        ("fits-in-memory.fits", percent(fits_in_memory::FITS)),
        ("regime-differs.factor", regime_differs::FACTOR.to_string()),
        ("not-steady.change", percent(CHANGE)),
        ("not-steady.times", percent(not_steady::TIMES)),
        ("not-steady.stalled", percent(STALLED)),
        ("noisy-blocks.trials", blocks::LEAST_TRIALS.to_string()),
        ("noisy-blocks.confidence", percent(CONFIDENCE)),
        ("noisy-blocks.wide", percent(blocks::WIDE)),
        ("noisy-blocks.wild", percent(blocks::WILD)),
        ("noisy-blocks.wide-tail", percent(blocks::WIDE_TAIL)),
        ("noisy-blocks.wild-tail", percent(blocks::WILD_TAIL)),
        ("too-short.length", format!("{} s", short::LONG_ENOUGH_NS / 1e9)),
        ("too-short.operations", count(short::ENOUGH_OPERATIONS as u64)),
        ("too-short.load", duration(short::LOAD_NS)),
        ("too-short.beyond", short::ENOUGH_BEYOND.to_string()),
        ("work-differs.mix", percent(MIX)),
        ("work-differs.counted", percent(COUNTED)),
        ("work-differs.per", percent(PER_OPERATION)),
        ("work-differs.ratio", COMPRESSION.to_string()),
        ("work-differs.form", percent(OWN_FORM)),
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
            assert_eq!(texts[0].trim_end().ends_with("tells it."), check.of_the_answer, "{name}");
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
        assert!(page.lines().all(|line| line.chars().count() <= 120));
    }
}
