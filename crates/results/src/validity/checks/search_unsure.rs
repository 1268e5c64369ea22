//! `search-unsure`: is the rate that was found the store's own limit?

use crate::human::{duration, percent, rate};
use crate::in_flight::FULL;
use crate::validity::check::{Check, Finding, Looks, Severity};
use crate::{ProbeResult, RunResult, SearchResult, TrialResult};

pub(super) const CHECK: Check =
    Check::new("search-unsure", "the rate found may not be the store's limit", &[Looks::Trial(look)]).for_the_answer();

/// The client's send delay at a failed rate, as a share of the limit on time.
pub(super) const LATE: f64 = 0.10;

fn look(_: &RunResult, trial: &TrialResult) -> Option<Finding> {
    trial.searches.iter().map(of_search).max_by_key(|found| found.severity)
}

fn of_search(search: &SearchResult) -> Finding {
    let phase = &search.phase;
    // Only the edge is doubtful: rates far beyond it send late and reach the in-flight limit in any case.
    let mut edge: Vec<&ProbeResult> =
        search.probes.iter().filter(|p| !p.met && search.fails_at.is_none_or(|at| p.rate <= at)).collect();
    edge.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let full = || edge.iter().find(|probe| probe.in_flight_share >= FULL);
    let late = || edge.iter().find_map(|probe| lateness(probe));
    let (severity, observed, advice) = match search.rate {
        None if search.probes.is_empty() || !search.complete && search.fails_at.is_none() => (
            Severity::Caution,
            format!("{phase}: the search ended before it decided about any rate"),
            "run the trial to its end",
        ),
        None => match search.not_held() {
            Some((highest, times)) => (
                Severity::Caution,
                format!(
                    "{phase}: the limits were met in most probes at {}/s, but {} for {times} times as long",
                    rate(highest),
                    if search.complete { "at no rate" } else { "not" }
                ),
                "the store stalls now and then, at any rate: see its slowest intervals, and make probes long enough to see a stall",
            ),
            None => (
                Severity::Caution,
                format!("{phase}: the limits are not met even at the first rate"),
                "lower `from`, or check that the limits are the ones you want",
            ),
        },
        Some(found) if !search.complete => (
            Severity::Caution,
            format!("{phase}: {}/s when the probes ran out, or the run ended", rate(found)),
            "raise `most_probes`, or run the trial to its end",
        ),
        Some(found) => match (full(), late(), search.fails_at) {
            (Some(probe), ..) => (
                Severity::Caution,
                format!(
                    "{phase}: {}/s, but at {}/s, which failed, {} of the in-flight limit was in use",
                    rate(found),
                    rate(probe.rate),
                    percent(probe.in_flight_share)
                ),
                "the bottleneck may be the in-flight limit, not the store: raise `in_flight` or `connections`",
            ),
            (None, Some((late, at)), _) => (
                Severity::Caution,
                format!(
                    "{phase}: {}/s, but at {}/s, which failed, the client itself sent {} late",
                    rate(found),
                    rate(at),
                    duration(late)
                ),
                "give the client more processors, or use fewer workers than processors",
            ),
            _ if !search.is_held() => (
                Severity::Note,
                format!(
                    "{phase}: {}/s met the limits in most probes, which it was chosen by, and not for longer",
                    rate(found)
                ),
                "set `hold` to 1 or more: a store that stalls now and then meets the limits in most short probes",
            ),
            (None, None, None) => (
                Severity::Note,
                format!("{phase}: the limits are met at {}/s, the highest rate of the search", rate(found)),
                "raise `to`: the limits are met at the highest rate tried",
            ),
            (None, None, Some(fails)) => {
                (Severity::Pass, format!("{phase}: {}/s; {}/s fails", rate(found), rate(fails)), "")
            }
        },
    };
    let threshold = format!(
        "caution if no rate was found, the probes ran out, or at the lowest failing rate {} of the in-flight limit was in use \
         or the client was late by {} of the limit; note if the limits are met at the highest rate",
        percent(FULL),
        percent(LATE)
    );
    Finding::new(severity, observed, threshold, advice)
}

/// How late the client was at a failed rate, with that rate. `None` if that explains nothing.
fn lateness(probe: &ProbeResult) -> Option<(f64, f64)> {
    let delay = probe.send_delay_p99_ns? as f64;
    let times = probe.limits.iter().filter(|limit| limit.share_within.is_some()).map(|limit| limit.limit);
    let strictest = times.fold(f64::INFINITY, f64::min);
    (delay > LATE * strictest).then_some((delay, probe.rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validity::testing::{CAUTION, NOTE, PASS, open, severity};
    use crate::{LimitResult, ProbeReason};

    fn searched(change: impl FnOnce(&mut SearchResult)) -> RunResult {
        let probe = |rate: f64, met, why| ProbeResult {
            rate,
            met,
            why,
            send_delay_p99_ns: Some(100_000),
            limits: vec![LimitResult { limit: 2e8, share_within: Some(0.9), met, ..LimitResult::default() }],
            ..ProbeResult::default()
        };
        let mut search = SearchResult {
            phase: "steady".into(),
            rate: Some(1_000.0),
            fails_at: Some(1_050.0),
            complete: true,
            probes: vec![
                probe(1_000.0, true, ProbeReason::Bisect),
                probe(1_050.0, false, ProbeReason::Bisect),
                probe(1_000.0, true, ProbeReason::Hold),
            ],
        };
        change(&mut search);
        let mut result = open(|_| {});
        result.trials[0].searches = vec![search];
        result
    }

    #[test]
    fn a_search_is_the_store_s_or_says_why_not() {
        let said = |change: fn(&mut SearchResult)| severity(&searched(change), "search-unsure");
        assert_eq!(severity(&open(|_| {}), "search-unsure"), None);
        assert_eq!(said(|_| {}), PASS);
        assert_eq!(said(|s| s.rate = None), CAUTION);
        assert_eq!(said(|s| s.probes[1].in_flight_share = 0.94), CAUTION);
        let text = |change: fn(&mut SearchResult)| of_search(&searched(change).trials[0].searches[0]).observed;
        assert!(text(|s| s.probes[1].in_flight_share = 0.94).contains("94 % of the in-flight limit was in use"));
        let ended = text(|s| (s.rate, s.fails_at, s.complete) = (None, None, false));
        assert_eq!(ended, "steady: the search ended before it decided about any rate");
        assert_eq!(said(|s| s.complete = false), CAUTION);
        assert_eq!(said(|s| s.probes.truncate(2)), NOTE, "the rate was chosen by these probes");
        let stalls = text(|s| {
            s.rate = None;
            s.probes[2] = ProbeResult { times: 5, met: false, ..s.probes[2].clone() };
        });
        assert_eq!(stalls, "steady: the limits were met in most probes at 1,000/s, but at no rate for 5 times as long");
        assert_eq!(said(|s| s.fails_at = None), NOTE);
        assert_eq!(said(|s| s.probes[1].send_delay_p99_ns = Some(30_000_000)), CAUTION);
        assert_eq!(
            said(|s| s.probes[0].send_delay_p99_ns = Some(30_000_000)),
            PASS,
            "a late probe that met the limits does not count"
        );
    }
}
