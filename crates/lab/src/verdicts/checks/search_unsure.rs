//! `search-unsure`: is the rate that was found the store's?

use crate::human::{duration, percent, rate};
use crate::results::{ProbeResult, RunResult, SearchResult, TrialResult};
use crate::verdicts::check::{Check, Finding, Group, Looks};
use crate::verdicts::model::Level;

pub(super) const CHECK: Check =
    Check { name: "search-unsure", group: Group::Schedule, page, looks: &[Looks::Trial(look)], warm_ups: false };

/// Our own lateness at a rate that failed, over the limit on time.
const LATE: f64 = 0.10;

fn page() -> String {
    format!(
        "A search for the highest rate that holds the limits did not end with one of the store's own: they do not hold
even at the first rate (caution), the probes ran out before the bracket was narrow (caution), they hold at the highest
rate of the search, so that the store's own lies beyond (a note), or at a rate that failed the client itself was late by
more than {late} of the limit (caution: the store may hold more). What to do: widen `from` and `to`, raise `most_probes` or the phase's
`duration`, give the client more processors.",
        late = percent(LATE)
    )
}

fn look(_: &RunResult, trial: &TrialResult) -> Option<Finding> {
    trial.searches.iter().map(of_search).max_by_key(|found| found.level)
}

fn of_search(search: &SearchResult) -> Finding {
    let failed = || search.probes.iter().filter(|probe| !probe.held);
    let (level, saw) = match (search.rate, failed().find_map(lateness)) {
        (None, _) => (Level::Caution, format!("{}: the limits hold not even at the first rate", search.phase)),
        (Some(found), _) if !search.complete => {
            (Level::Caution, format!("{}: {}/s when the probes ran out", search.phase, rate(found)))
        }
        (Some(found), Some((late, at))) => (
            Level::Caution,
            format!(
                "{}: {}/s, but at {}/s, which failed, the client itself was late by {}",
                search.phase,
                rate(found),
                rate(at),
                duration(late)
            ),
        ),
        (Some(found), None) if search.fails_at.is_none() => (
            Level::Note,
            format!("{}: the limits hold at {}/s, the highest rate of the search", search.phase, rate(found)),
        ),
        (Some(found), None) => (Level::Pass, format!("{}: {}/s", search.phase, rate(found))),
    };
    let threshold = format!(
        "caution without a rate, with probes that ran out, and where the client was late by {} of the limit; note where \
         the highest rate holds",
        percent(LATE)
    );
    Finding::new(
        level,
        saw,
        threshold,
        "widen `from` and `to`, raise `most_probes`, or give the client more processors",
    )
}

/// By how much the client was late at a rate that failed, and that rate; none where that explains nothing.
fn lateness(probe: &ProbeResult) -> Option<(f64, f64)> {
    let slip = probe.slip_p99_ns? as f64;
    let times = probe.limits.iter().filter(|limit| limit.share_within.is_some()).map(|limit| limit.limit);
    let strictest = times.fold(f64::INFINITY, f64::min);
    (slip > LATE * strictest).then_some((slip, probe.rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::LimitResult;
    use crate::verdicts::testing::{CAUTION, NOTE, PASS, level, open};

    fn searched(change: impl FnOnce(&mut SearchResult)) -> RunResult {
        let probe = |rate: f64, held| ProbeResult {
            rate,
            held,
            slip_p99_ns: Some(100_000),
            limits: vec![LimitResult { limit: 2e8, share_within: Some(0.9), held, ..LimitResult::default() }],
            ..ProbeResult::default()
        };
        let mut search = SearchResult {
            phase: "steady".into(),
            rate: Some(1_000.0),
            fails_at: Some(1_050.0),
            complete: true,
            probes: vec![probe(1_000.0, true), probe(1_050.0, false)],
        };
        change(&mut search);
        let mut result = open(|_| {});
        result.trials[0].searches = vec![search];
        result
    }

    #[test]
    fn a_search_is_the_store_s_or_says_why_not() {
        let said = |change: fn(&mut SearchResult)| level(&searched(change), "search-unsure");
        assert_eq!(level(&open(|_| {}), "search-unsure"), None);
        assert_eq!(said(|_| {}), PASS);
        assert_eq!(said(|s| s.rate = None), CAUTION);
        assert_eq!(said(|s| s.complete = false), CAUTION);
        assert_eq!(said(|s| s.fails_at = None), NOTE);
        assert_eq!(said(|s| s.probes[1].slip_p99_ns = Some(30_000_000)), CAUTION);
        assert_eq!(said(|s| s.probes[0].slip_p99_ns = Some(30_000_000)), PASS, "late where it held takes nothing away");
    }
}
