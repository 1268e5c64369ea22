//! Computes how many keys the ledger of a trial follows, and whether they fit in memory.

use storebench_engine::ledger::BYTES_PER_KEY;
use storebench_results::human::{bytes, count, percent};
use storebench_study::workload::Study;

use super::error::LabError;

/// The share of keys that the ledger of a trial follows, if its study sets one: the largest of its phases.
pub(super) fn ledger_share(study: &Study) -> Option<f64> {
    study.phases.iter().filter_map(|phase| phase.ledger.share()).reduce(f64::max)
}

/// Refuses a ledger that needs more than half of the available memory.
pub(super) fn ledger_fits(study: &Study, documents: u64, available: Option<u64>) -> Result<(), LabError> {
    let Some((share, available)) = ledger_share(study).zip(available) else { return Ok(()) };
    let needed = documents as f64 * share * BYTES_PER_KEY as f64;
    let most = available as f64 / 2.0;
    if needed <= most {
        return Ok(());
    }
    let fits = share * most / needed;
    Err(LabError::BadInput(format!(
        "a ledger of {} of {} keys takes {}, which is more than half of the available memory ({}); use \
         ledger = {{ share = {:.2e} }} or less, or ledger = true, which follows about a million keys",
        percent(share),
        count(documents),
        bytes(needed),
        bytes(available as f64),
        fits
    )))
}

#[cfg(test)]
mod tests {
    use storebench_study::workload::{KeyShare, LedgerSpec, Phase};

    use super::*;

    #[test]
    fn a_ledger_beyond_half_of_the_memory_is_refused_and_a_share_proposed() {
        let text =
            "title = \"x\"\ncollections = { docs = { count = 1 } }\n[[phases]]\nname = \"a\"\nload = [\"docs\"]\n";
        let mut study = Study::parse(text, std::path::Path::new("x.toml"), &[]).unwrap();
        assert!(ledger_fits(&study, u64::MAX, Some(1)).is_ok(), "no phase keeps one");
        let with = |share| Phase { ledger: LedgerSpec::Sample(KeyShare { share }), ..Phase::named("steady") };
        study.phases = vec![with(0.25), with(0.5)];
        assert_eq!(ledger_share(&study), Some(0.5));
        assert!(ledger_fits(&study, 1_000, Some(112_000)).is_ok());
        let refused = ledger_fits(&study, 2_000, Some(112_000)).unwrap_err().to_string();
        assert!(
            refused.contains("50 % of 2,000 keys takes 109 KiB") && refused.contains("share = 2.50e-1"),
            "{refused}"
        );
    }
}
