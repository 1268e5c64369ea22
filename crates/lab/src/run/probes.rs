//! The search for the rate of a phase, probe by probe.

use std::time::Duration;

use storebench_documents::schedule::Rate;
use storebench_engine::measure::{Partial, PartialCause, PhaseRecord};
use storebench_engine::store::StoreError;
use storebench_engine::{Amount, PhasePlan};
use storebench_results::plan::PlannedTrial;
use storebench_results::validity::spoiled;
use storebench_results::{PhaseResult, ProbeResult, SearchResult, TrialResult, gather_phase, judge_limits};
use storebench_study::workload::{Limit, LimitPath, RateSearch, RateSpec};

use super::before_and_after::settle;
use super::measure::{Measured, settings_of};
use super::observe::Journal;
use super::runner::{Configuration, RunState};
use crate::search::{Search, Step};

/// How far a probe counts for the result of a search: first whether it met the limits, then how long it lasted.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Standing {
    met: bool,
    times: u32,
    rate: f64,
}

impl RunState<'_> {
    /// Runs a phase at one rate after another. Returns the search, and the phase at the highest rate that met the
    /// limits (at the first rate if none did).
    pub(super) fn search(
        &mut self,
        configuration: &Configuration,
        planned: &PlannedTrial,
        trial: &TrialResult,
        (position, plan): (usize, &PhasePlan),
        wanted: &RateSearch,
        journal: &mut Journal<'_>,
    ) -> Result<(SearchResult, PhaseResult, Option<Partial>), StoreError> {
        let mut search = Search::new(wanted);
        let mut best: Option<(Standing, PhaseResult)> = None;
        // What to show if no rate holds: the longest probe at the first rate, which did not meet the limits.
        let mut lowest: Option<(u32, PhaseResult)> = None;
        let out = loop {
            let (number, rate, why, times) = match search.next() {
                Step::Probe { number, rate, why, times } => (number, rate, why, times),
                Step::Done(found) => break found,
            };
            // Otherwise the leftovers of the previous rate would count against this one.
            let rested = settle(configuration, wanted.rest.0, journal);
            let probe = at_rate(configuration, plan, rate, times);
            // Use different keys and arrivals each time: the same ones would confirm nothing.
            let Measured { mut found, partial, record } =
                self.measure(configuration, planned, position, &probe, Some(number), journal)?;
            // An interrupted probe says nothing about its rate; earlier results stay valid.
            if self.stop.asked() {
                let why = "interrupted before the search ended".to_owned();
                let partial = partial.unwrap_or(Partial { cause: PartialCause::Interrupted, why: why.clone() });
                found.partial.get_or_insert(why);
                return Ok((search.so_far(), found, Some(partial)));
            }
            let pooled = self.parts.probed(&record, rested, journal)?;
            let (judged, partial, rested) = match pooled {
                Some((record, rested)) => (self.judged(configuration, position, &record), record.partial, rested),
                None => (found.clone(), partial, rested),
            };
            let met = partial.is_none() && judged.limits.iter().all(|limit| limit.met);
            journal.note(format!(
                "{} at {}/s{}: limits {}",
                wanted.phase,
                storebench_results::human::rate(rate),
                if times == 1 { String::new() } else { format!(", {times} times as long") },
                if met { "are met" } else { "are not met" }
            ));
            search.tell(ProbeResult {
                rate,
                why,
                times,
                met,
                limits: judged.limits.clone(),
                achieved_per_s: judged.rate.as_ref().map_or(0.0, |r| r.achieved_per_s),
                in_flight_share: judged.in_flight_share,
                send_delay_p99_ns: judged.client.send_delay_ns.p99,
                rested,
            });
            let standing = Standing { met, times, rate };
            let better = best.as_ref().is_none_or(|(before, _)| met && standing >= *before);
            // Lost or wrong documents at any rate must be in the result, whatever rate is found.
            // What a part's own phases did before may decide it.
            let spoiled = self.parts.any("spoiled", spoiled(trial, &judged), journal)?;
            if partial.is_some() || spoiled {
                let out = SearchResult { rate: None, fails_at: None, ..search.so_far() };
                return Ok((out, found, partial));
            }
            if better {
                best = Some((standing, found));
            } else if !met && rate == wanted.from && lowest.as_ref().is_none_or(|(before, _)| times >= *before) {
                lowest = Some((times, found));
            }
        };
        // A rate above the result may have met the limits once by luck. The phase shown must be at the resulting rate.
        match (out.rate, best, lowest) {
            (Some(rate), Some((of, found)), _) if (of.rate / rate - 1.0).abs() < 1e-9 => Ok((out, found, None)),
            (None, _, Some((_, found))) => Ok((out, found, None)),
            (rate, ..) => {
                let again = at_rate(configuration, plan, rate.unwrap_or(wanted.from), 1);
                let Measured { found, partial, .. } =
                    self.measure(configuration, planned, position, &again, None, journal)?;
                Ok((out, found, partial))
            }
        }
    }

    /// What all parts together measured in a probe, as far as a search needs it.
    fn judged(&self, configuration: &Configuration, position: usize, record: &PhaseRecord) -> PhaseResult {
        let documents = &self.documents[configuration.position];
        PhaseResult {
            limits: judge_limits(record, &configuration.study().limits),
            settings: settings_of(&configuration.study().phases[position]),
            ..gather_phase(record, documents, &configuration.capabilities, None)
        }
    }
}

/// A phase in open loop at this rate, this many times as long. The drain is at least as long as the limits on times, so
/// that only slower operations remain unfinished.
fn at_rate(configuration: &Configuration, plan: &PhasePlan, rate: f64, times: u32) -> PhasePlan {
    // Each rate overwrites what the previous one wrote.
    let mut plan = configuration.now(plan, true).into_owned();
    if let Some(duration) = &mut plan.phase.duration {
        duration.0 = duration.0.saturating_mul(times);
        plan.amount = Amount::Duration(duration.ns());
    }
    let limits = configuration.study().limits.iter().filter_map(|(path, limit)| match limit {
        Limit::Time(span) if LimitPath::parse(path).is_some_and(|of| of.phase == plan.phase.name) => Some(span.0),
        _ => None,
    });
    plan.phase.drain.0 = limits.fold(plan.phase.drain.0, Duration::max);
    plan.phase.rate = Some(RateSpec::Constant(rate));
    PhasePlan { drain_ns: plan.phase.drain.ns(), rate: Some((Rate::Constant(rate), plan.phase.arrival)), ..plan }
}
