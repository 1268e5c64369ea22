//! Searches for the highest rate at which limits hold: chooses the next rate, and decides when the result is found.
//!
//! A state machine without clock, store or files. The caller asks [`Search::next`] for a rate, measures it, and reports
//! the result with [`Search::tell`].
//!
//! # Algorithm
//! The search starts at `from` and doubles the rate while the limits hold, up to `to`. Then it bisects, on a
//! logarithmic scale, the bracket between the highest rate that met the limits and the lowest that failed, until both
//! are within `within` of each other. Finally it probes both ends again. It doubles first, and from below, because a
//! store takes longest to recover when it is driven far beyond its capacity: backlogs, lagging compactions, dropped
//! connections.
//!
//! # Why both ends are probed again
//! A probe is a sample. Near the edge, a percentile varies around its limit, and a compaction or a neighbour on the
//! machine may fail a probe at any rate. So no end of the bracket rests on one probe: with `confirm = c`, the majority
//! of 2c + 1 probes at that rate decides (as soon as c + 1 agree, so c further probes suffice if they do). Then *up to
//! c wrong probes in a whole search, wherever they fall, do not change the result*; with `c = 0` a single one can. A
//! strict "all must hold" would not be more careful but biased: the more probes, the lower the rate. A majority
//! converges on the rate that holds in half of all probes. If an end is refuted, the search continues from there: down
//! to the next rate that met the limits, or up again.
//!
//! The result is therefore a rate and a bracket with two confirmed ends, not a confidence interval.
//!
//! # Why the rate must then hold for longer
//! The rate was chosen because its probes met the limits, so they say too much good about it. And most probes are too
//! short for what happens rarely: of a store that stalls for 1 s in every 30 s, most probes of 10 s see nothing. So the
//! phase runs once more at the rate, `hold` times as long, and that is the phase of the result. If a limit is missed,
//! the next lower rates have to hold: lower by `within`, then by `within` three times, then `from`. Between one that
//! held and one that did not, the search bisects as before.
//!
//! # What the caller does before each probe
//! The previous probe may have failed and left something behind. Two things must be gone before the next one; otherwise
//! its failure counts twice and the search ends too low:
//! - *Drain*: scheduled operations that are still in flight finish or are given up, so that the next probe does not
//!   queue behind them. A failed probe leaves rate × time − capacity × time of them.
//! - *Settle*: the store comes to rest (write queues, flushes, compactions). Otherwise a probe pays for the writes of
//!   the previous one, and a store that defers its work looks good in a short probe and bad in the next. For the same
//!   reason a probe should be long enough for the deferred work to start in it.
//!
//! Every probe should draw different keys and arrivals (its own seed). With the same ones, the confirming probes are
//! copies and confirm nothing.

use storebench_results::{ProbeReason, ProbeResult, SearchResult};
use storebench_study::workload::RateSearch;

/// The growth of the rate per step while limits hold.
const GROWTH: f64 = 2.0;

/// The next step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Measure this rate, after drain and settle, and report the result.
    Probe {
        /// The number of the probe, counted from 1.
        number: u32,
        /// Operations per second.
        rate: f64,
        /// The reason for this rate.
        why: ProbeReason,
        /// How many times as long as the phase it lasts.
        times: u32,
    },
    /// The search is over, with this result.
    Done(SearchResult),
}

/// The votes on one rate.
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
    /// Probed more than once but undecided. Such a rate is decided before anything else, because a tie cannot be an end
    /// of the bracket.
    fn open(&self, confirm: u32) -> bool {
        self.met + self.failed > 1 && !self.decided(confirm)
    }
}

/// A search in progress. The [module](self) describes the algorithm.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Search<'a> {
    wanted: &'a RateSearch,
    /// By rate, ascending.
    ballots: Vec<Ballot>,
    /// The rates that had to hold for longer, and whether they did, in order.
    holds: Vec<(f64, bool)>,
    probes: Vec<ProbeResult>,
}

impl<'a> Search<'a> {
    /// A new search. Its study must have been checked.
    pub(crate) fn new(wanted: &'a RateSearch) -> Self {
        Self { wanted, ballots: Vec::new(), holds: Vec::new(), probes: Vec::new() }
    }

    /// The result so far, whether or not the search is over.
    pub(crate) fn so_far(&self) -> SearchResult {
        self.found(false)
    }

    /// The next step. It stays the same until [`tell`](Self::tell).
    pub(crate) fn next(&self) -> Step {
        match self.next_rate() {
            Some(_) if self.probes.len() >= self.wanted.most_probes as usize => Step::Done(self.found(false)),
            Some((rate, why)) => {
                let times = if why == ProbeReason::Hold { self.wanted.hold } else { 1 };
                Step::Probe { number: self.probes.len() as u32 + 1, rate, why, times }
            }
            None => Step::Done(self.found(true)),
        }
    }

    /// Records the result of the probe that [`next`](Self::next) asked for.
    ///
    /// The search is deterministic, so an interrupted search is resumed by telling it its probes again.
    pub(crate) fn tell(&mut self, probe: ProbeResult) {
        let (rate, met) = (probe.rate, probe.met);
        if probe.why == ProbeReason::Hold {
            self.holds.push((rate, met));
            self.probes.push(probe);
            return;
        }
        let at = self.ballots.partition_point(|ballot| ballot.rate < rate);
        if self.ballots.get(at).is_none_or(|ballot| ballot.rate != rate) {
            self.ballots.insert(at, Ballot { rate, met: 0, failed: 0 });
        }
        let ballot = &mut self.ballots[at];
        *(if met { &mut ballot.met } else { &mut ballot.failed }) += 1;
        self.probes.push(probe);
    }

    /// The bracket: the lowest rate that failed, and the highest rate below it that met the limits. A rate above a
    /// failure does not count, because limits must hold at every lower rate, too.
    fn bracket(&self) -> (Option<&Ballot>, Option<&Ballot>) {
        let end = self.ballots.iter().position(Ballot::fails).unwrap_or(self.ballots.len());
        (self.ballots[..end].iter().rfind(|ballot| ballot.holds()), self.ballots.get(end))
    }

    /// The next rate to try; `None` if everything is known. The search terminates: a new rate lies at least √(1 +
    /// within) from all others (except `to`), so there are finitely many, and each is tried at most 2c + 1 times.
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
            (Some(low), None) if low.rate >= to => again(low, ProbeReason::ConfirmMet).or_else(|| self.next_hold()),
            (Some(low), None) => Some(((low.rate * GROWTH).min(to), ProbeReason::Grow)),
            (Some(low), Some(high)) if high.rate > low.rate * (1.0 + within) => {
                Some((middle(low.rate, high.rate, within), ProbeReason::Bisect))
            }
            (Some(low), Some(high)) => {
                let again = again(low, ProbeReason::ConfirmMet).or_else(|| again(high, ProbeReason::ConfirmFails));
                again.or_else(|| self.next_hold())
            }
        }
    }

    /// The lowest rate that did not hold for longer, and the highest below it that did.
    fn held(&self) -> (Option<f64>, Option<f64>) {
        let failed = self.holds.iter().filter(|(_, met)| !met).map(|(rate, _)| *rate).reduce(f64::min);
        let below = self.holds.iter().filter(|(rate, met)| *met && failed.is_none_or(|failed| *rate < failed));
        (below.map(|(rate, _)| *rate).reduce(f64::max), failed)
    }

    /// The next rate that must hold for longer. `None` if one did, within reach of one that did not.
    fn next_hold(&self) -> Option<(f64, ProbeReason)> {
        let RateSearch { from, within, hold, .. } = *self.wanted;
        let (Some(low), _) = self.bracket() else { return None };
        let rate = match self.held() {
            _ if hold == 0 => return None,
            (None, None) => low.rate,
            (None, Some(failed)) if failed <= from => return None,
            (None, Some(failed)) => {
                let steps = match self.holds.len() {
                    1 => 1,
                    2 => 3,
                    _ => return Some((from, ProbeReason::Hold)),
                };
                let lower = low.rate / (1.0 + within).powi(steps);
                rounded(lower, within, from, failed).unwrap_or(lower).max(from)
            }
            (Some(_), None) => return None,
            (Some(held), Some(failed)) if failed > held * (1.0 + within) => middle(held, failed, within),
            (Some(_), Some(_)) => return None,
        };
        Some((rate, ProbeReason::Hold))
    }

    fn found(&self, complete: bool) -> SearchResult {
        let (low, high) = self.bracket();
        let (rate, fails_at) = match self.held() {
            (None, None) => (low.map(|low| low.rate), high.map(|high| high.rate)),
            (held, failed) => (held, failed.or(high.map(|high| high.rate))),
        };
        SearchResult { phase: self.wanted.phase.clone(), rate, fails_at, complete, probes: self.probes.clone() }
    }
}

/// The logarithmic middle of a bracket, rounded.
fn middle(low: f64, high: f64, within: f64) -> f64 {
    let exact = (low.ln().midpoint(high.ln())).exp();
    rounded(exact, within, low, high).unwrap_or(exact)
}

/// A rate rounded to two more digits than `within` has, so that rates in a report are readable. `None` if it is then not
/// between these.
fn rounded(exact: f64, within: f64, low: f64, high: f64) -> Option<f64> {
    let digits = 2 - within.log10().floor() as i32;
    let shift = 10f64.powi(digits - 1 - exact.log10().floor() as i32);
    let rounded = (exact * shift).round() / shift;
    (rounded > low && rounded < high).then_some(rounded)
}

#[cfg(test)]
mod tests;
