//! The search for the highest rate at which limits hold: which rate to try next, and when it is found.
//!
//! A state machine without clock, store or file. The caller asks [`Search::next`] for a rate, measures it, and says
//! with [`Search::tell`] what came of it.
//!
//! # How it goes
//! It begins at `from` and doubles the rate while the limits hold, up to `to`; then it halves the bracket between the
//! highest rate that met the limits and the lowest that failed, on the logarithm, until both are within `within` of each other;
//! then it probes both ends again. Doubling comes first, and from below, since a store that is driven far beyond its
//! capacity answers for it longest: backlogs, compactions that lag, connections that were dropped.
//!
//! # Why both ends are probed again
//! A probe is a sample. Near the edge a percentile lies now on this side of its limit and now on the other, and
//! anywhere a compaction or a neighbour on the machine may fail one. So no end of the bracket rests on one probe: with
//! `confirm = c` the majority of 2c + 1 probes at that rate decides (as soon as c + 1 agree, so that c further probes
//! suffice where they do). With it, *up to c wrong probes in a whole search, wherever they fall, change nothing in what is
//! found*; with `c = 0` a single one can. A strict "all must hold" would be no more careful but biased: the more one
//! asks, the lower the rate. A majority converges on the rate that holds in half of all probes. Where an end is
//! refuted the search goes on from there: down to the next rate that met them, or up again.
//!
//! What is found is therefore a rate and a bracket of two confirmed ends, and no confidence interval.
//!
//! # What the caller does before each probe
//! The probe before may have failed, and then it left something behind. Two things must be gone before the next
//! one, or its failure is counted twice and the search ends too low:
//! - *Drain*: operations that were scheduled and are still in flight end or are given up, so that the next probe does not
//!   queue behind them. A probe that fails leaves as many as rate × time − capacity × time.
//! - *Settle*: the store comes to rest (write queues, flushes, compactions). Else a probe pays for the writes of the
//!   last one, and a store that defers its work looks good in a short probe and bad in the next. For the same reason
//!   a probe should be long enough for the deferred work to begin in it.
//!
//! Every probe should draw other keys and arrivals than the last (a seed of its own): with the same ones the
//! probes that confirm are copies and confirm nothing.

use storebench_results::{ProbeReason, ProbeResult, SearchResult};
use storebench_study::workload::RateSearch;

/// How much each step goes up while limits hold.
const GROWTH: f64 = 2.0;

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Measure this rate, after drain and settle, and tell.
    Probe {
        /// Which probe it is, counted from 1.
        number: u32,
        /// Operations a second.
        rate: f64,
        /// Why this one.
        why: ProbeReason,
    },
    /// Nothing; this was found.
    Done(SearchResult),
}

/// What is known of one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ballot {
    rate: f64,
    met: u32,
    failed: u32,
}

impl Ballot {
    fn holds(&self) -> bool {
        self.met > self.failed
    }
    fn fails(&self) -> bool {
        self.failed > self.met
    }
    fn decided(&self, confirm: u32) -> bool {
        self.met.max(self.failed) > confirm
    }
    /// Tried again, but not yet decided: such a rate is finished before anything else, since a draw is neither end of
    /// a bracket.
    fn open(&self, confirm: u32) -> bool {
        self.met + self.failed > 1 && !self.decided(confirm)
    }
}

/// A search in progress. See the [module](self) for how it goes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Search<'a> {
    wanted: &'a RateSearch,
    /// By rate, ascending.
    ballots: Vec<Ballot>,
    probes: Vec<ProbeResult>,
}

impl<'a> Search<'a> {
    /// A search that has tried nothing yet, of a study that was checked.
    pub(crate) fn new(wanted: &'a RateSearch) -> Self {
        Self { wanted, ballots: Vec::new(), probes: Vec::new() }
    }

    /// What is known by now, whether or not there is more to do.
    pub(crate) fn so_far(&self) -> SearchResult {
        self.found(false)
    }

    /// What to do next; the same until [`tell`](Self::tell).
    pub(crate) fn next(&self) -> Step {
        match self.next_rate() {
            Some(_) if self.probes.len() >= self.wanted.most_probes as usize => Step::Done(self.found(false)),
            Some((rate, why)) => Step::Probe { number: self.probes.len() as u32 + 1, rate, why },
            None => Step::Done(self.found(true)),
        }
    }

    /// What came of the probe that [`next`](Self::next) asked for.
    ///
    /// A search for the same that is told the same goes the same way, so one that was interrupted is taken up by telling
    /// it its probes again.
    pub(crate) fn tell(&mut self, probe: ProbeResult) {
        let (rate, met) = (probe.rate, probe.met);
        let at = self.ballots.partition_point(|ballot| ballot.rate < rate);
        if self.ballots.get(at).is_none_or(|ballot| ballot.rate != rate) {
            self.ballots.insert(at, Ballot { rate, met: 0, failed: 0 });
        }
        let ballot = &mut self.ballots[at];
        *(if met { &mut ballot.met } else { &mut ballot.failed }) += 1;
        self.probes.push(probe);
    }

    /// The highest rate that met the limits below the lowest that failed, and that one. What met them above a failure counts for
    /// nothing: limits must hold at every lower rate too.
    fn bracket(&self) -> (Option<&Ballot>, Option<&Ballot>) {
        let end = self.ballots.iter().position(Ballot::fails).unwrap_or(self.ballots.len());
        (self.ballots[..end].iter().rfind(|ballot| ballot.holds()), self.ballots.get(end))
    }

    /// The rate to try next; none when all is known. It ends by itself: a new rate lies at least √(1 + within) from
    /// all others (`to` excepted), so there are finitely many, and each is tried 2c + 1 times at most.
    fn next_rate(&self) -> Option<(f64, ProbeReason)> {
        let RateSearch { from, to, within, confirm, .. } = *self.wanted;
        let again = |ballot: &Ballot, why| (!ballot.decided(confirm)).then_some((ballot.rate, why));
        if let Some(open) = self.ballots.iter().find(|ballot| ballot.open(confirm)) {
            let first = self.probes.iter().rfind(|probe| probe.rate == open.rate);
            return first.map(|probe| (open.rate, probe.why));
        }
        match self.bracket() {
            (None, None) => Some((from, ProbeReason::First)),
            (None, Some(high)) => again(high, ProbeReason::ConfirmFails),
            (Some(low), None) if low.rate >= to => again(low, ProbeReason::ConfirmMet),
            (Some(low), None) => Some(((low.rate * GROWTH).min(to), ProbeReason::Grow)),
            (Some(low), Some(high)) if high.rate > low.rate * (1.0 + within) => {
                Some((middle(low.rate, high.rate, within), ProbeReason::Bisect))
            }
            (Some(low), Some(high)) => {
                again(low, ProbeReason::ConfirmMet).or_else(|| again(high, ProbeReason::ConfirmFails))
            }
        }
    }

    fn found(&self, complete: bool) -> SearchResult {
        let (low, high) = self.bracket();
        SearchResult {
            phase: self.wanted.phase.clone(),
            rate: low.map(|low| low.rate),
            fails_at: high.map(|high| high.rate),
            complete,
            probes: self.probes.clone(),
        }
    }
}

/// The middle of a bracket on the logarithm, with no more digits than `within` is worth (two more than it has), so
/// that the rates in a report can be read.
fn middle(low: f64, high: f64, within: f64) -> f64 {
    let exact = (low.ln().midpoint(high.ln())).exp();
    let digits = 2 - within.log10().floor() as i32;
    let shift = 10f64.powi(digits - 1 - exact.log10().floor() as i32);
    let rounded = (exact * shift).round() / shift;
    if rounded > low && rounded < high { rounded } else { exact }
}

#[cfg(test)]
mod tests;
