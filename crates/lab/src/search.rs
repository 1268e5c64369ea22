//! The search for the highest rate at which limits hold: which rate to try next, and when it is found.
//!
//! A state machine without clock, store or file. The caller asks [`Search::next`] for a rate, measures it, and says
//! with [`Search::tell`] whether all limits held.
//!
//! # How it goes
//! It begins at `from` and doubles the rate while the limits hold, up to `to`; then it halves the bracket between the
//! highest rate that held and the lowest that failed, on the logarithm, until both are within `within` of each other;
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
//! refuted the search goes on from there: down to the next rate that held, or up again.
//!
//! What is found is therefore a rate and a bracket of two confirmed ends, and no confidence interval.
//!
//! # What the caller does before each probe
//! The probe before may have failed, and then it left something behind. Two things must be gone before the next
//! one, or its failure is counted twice and the search ends too low:
//! - *Drain*: operations that were due and are still in flight end or are given up, so that the next probe does not
//!   queue behind them. A probe that fails leaves as many as rate × time − capacity × time.
//! - *Settle*: the store comes to rest (write queues, flushes, compactions). Else a probe pays for the writes of the
//!   last one, and a store that defers its work looks good in a short probe and bad in the next. For the same reason
//!   a probe should be long enough for the deferred work to begin in it.
//!
//! Every probe should draw other keys and arrivals than the last (a seed of its own): with the same ones the
//! probes that confirm are copies and confirm nothing.

use storebench_results::Why;

/// How much each step goes up while limits hold.
const GROWTH: f64 = 2.0;

/// What is searched, and how closely. Rates are operations a second over all workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SearchSpec {
    /// The first rate to try; if the limits do not hold there, nothing is found.
    pub from: f64,
    /// The highest rate to try.
    pub to: f64,
    /// How close the bracket's ends come: high / low is at most 1 + `within`. From 0.001 to 1; 0.05 is usual.
    pub within: f64,
    /// Further probes at each end of the bracket that must agree with the first; 1 is usual.
    pub confirm: u32,
    /// After so many probes the search ends, found or not.
    pub most_probes: u32,
}

impl SearchSpec {
    fn check(&self) -> Result<(), SearchError> {
        if !(self.from.is_finite() && self.from > 0.0) {
            return Err(SearchError::From(self.from));
        }
        if !(self.to.is_finite() && self.to >= self.from) {
            return Err(SearchError::To { from: self.from, to: self.to });
        }
        // Much below it, the noise of any probe is larger than the bracket.
        if !(0.001..=1.0).contains(&self.within) {
            return Err(SearchError::Within(self.within));
        }
        if self.most_probes == 0 {
            return Err(SearchError::MostProbes);
        }
        // Beyond it, a search never ends in practice; 2c + 1 must also be a number.
        if self.confirm > 100 {
            return Err(SearchError::Confirm(self.confirm));
        }
        Ok(())
    }
}

/// Why a search cannot be made, or a probe not be counted.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub(crate) enum SearchError {
    /// The first rate is no rate.
    #[error("a search from {0} operations a second finds nothing; begin above 0, such as at 100")]
    From(f64),
    /// The highest rate lies below the first.
    #[error("a search from {from} up to {to} operations a second has no room; set `to` to {from} or more")]
    To {
        /// The first rate.
        from: f64,
        /// The highest.
        to: f64,
    },
    /// The width of the bracket.
    #[error("a bracket within {0} of itself cannot be reached; use 0.001 to 1, such as 0.05 for 5 %")]
    Within(f64),
    /// No probes at all.
    #[error("a search of 0 probes finds nothing; allow 1 or more (20 to 40 are usual)")]
    MostProbes,
    /// Too many confirming probes.
    #[error("{0} further probes at one rate take longer than the search; use 0 to 100 (1 or 2 are usual)")]
    Confirm(u32),
    /// A result of a rate that was not the next one.
    #[error("the search did not ask for {told} operations a second but {}; tell it what `next` asks for",
        asked.map_or("is done".to_owned(), |rate| format!("for {rate}")))]
    NotAsked {
        /// What was told.
        told: f64,
        /// What would have been next; none when the search is done.
        asked: Option<f64>,
    },
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Measure this rate, after drain and settle, and tell.
    Probe {
        /// Operations a second.
        rate: f64,
        /// Why this one.
        why: Why,
    },
    /// Nothing; this was found.
    Done(Found),
}

/// One probe that was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProbeMade {
    /// Operations a second.
    pub rate: f64,
    /// Why this rate was tried.
    pub why: Why,
    /// Whether all limits held.
    pub held: bool,
}

/// What a search found. Rates are operations a second.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// The highest rate at which the limits held in most probes. None: they do not hold even at the first rate.
    pub rate: Option<f64>,
    /// The bracket's lower end: the highest rate that is confirmed to hold. The same as `rate` in a search that is
    /// complete.
    pub low: Option<f64>,
    /// The bracket's upper end: the lowest rate that failed in most probes. None where the highest rate of the search held.
    pub high: Option<f64>,
    /// Whether the highest rate of the search held: what the store can do lies beyond.
    pub at_limit: bool,
    /// Whether the search came to its end. If not, its probes ran out: `rate` may rest on one probe, and the
    /// bracket may be wider than was asked for.
    pub complete: bool,
    /// All probes, in order.
    pub probes: Vec<ProbeMade>,
}

/// What is known of one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ballot {
    rate: f64,
    held: u32,
    failed: u32,
}

impl Ballot {
    fn holds(&self) -> bool {
        self.held > self.failed
    }
    fn fails(&self) -> bool {
        self.failed > self.held
    }
    fn decided(&self, confirm: u32) -> bool {
        self.held.max(self.failed) > confirm
    }
    /// Tried again, but not yet decided: such a rate is finished before anything else, since a draw is neither end of
    /// a bracket.
    fn open(&self, confirm: u32) -> bool {
        self.held + self.failed > 1 && !self.decided(confirm)
    }
}

/// A search in progress. See the [module](self) for how it goes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Search {
    spec: SearchSpec,
    /// By rate, ascending.
    ballots: Vec<Ballot>,
    probes: Vec<ProbeMade>,
}

impl Search {
    /// A search that has tried nothing yet.
    ///
    /// # Errors
    /// [`SearchError`] for a specification that cannot be searched, with what would do.
    pub(crate) fn new(spec: SearchSpec) -> Result<Self, SearchError> {
        spec.check()?;
        Ok(Self { spec, ballots: Vec::new(), probes: Vec::new() })
    }

    /// What is known by now, whether or not there is more to do.
    pub(crate) fn so_far(&self) -> Found {
        self.found(false)
    }

    /// What to do next; the same until [`tell`](Self::tell).
    pub(crate) fn next(&self) -> Step {
        match self.wanted() {
            Some(_) if self.probes.len() >= self.spec.most_probes as usize => Step::Done(self.found(false)),
            Some((rate, why)) => Step::Probe { rate, why },
            None => Step::Done(self.found(true)),
        }
    }

    /// What came of the probe that [`next`](Self::next) asked for: whether all limits held.
    ///
    /// A search of the same specification that is told the same goes the same way, so one that was interrupted is
    /// taken up by telling it its probes again.
    ///
    /// # Errors
    /// [`SearchError::NotAsked`] where `rate` is not the one asked for; then nothing is counted.
    pub(crate) fn tell(&mut self, rate: f64, held: bool) -> Result<(), SearchError> {
        let (asked, why) = match self.next() {
            Step::Probe { rate, why } => (rate, why),
            Step::Done(_) => return Err(SearchError::NotAsked { told: rate, asked: None }),
        };
        if rate != asked {
            return Err(SearchError::NotAsked { told: rate, asked: Some(asked) });
        }
        let at = self.ballots.partition_point(|ballot| ballot.rate < rate);
        if self.ballots.get(at).is_none_or(|ballot| ballot.rate != rate) {
            self.ballots.insert(at, Ballot { rate, held: 0, failed: 0 });
        }
        let ballot = &mut self.ballots[at];
        *(if held { &mut ballot.held } else { &mut ballot.failed }) += 1;
        self.probes.push(ProbeMade { rate, why, held });
        Ok(())
    }

    /// The highest rate that held below the lowest that failed, and that one. What held above a failure counts for
    /// nothing: limits must hold at every lower rate too.
    fn bracket(&self) -> (Option<&Ballot>, Option<&Ballot>) {
        let end = self.ballots.iter().position(Ballot::fails).unwrap_or(self.ballots.len());
        (self.ballots[..end].iter().rfind(|ballot| ballot.holds()), self.ballots.get(end))
    }

    /// The rate to try next; none when all is known. It ends by itself: a new rate lies at least √(1 + within) from
    /// all others (`to` excepted), so there are finitely many, and each is tried 2c + 1 times at most.
    fn wanted(&self) -> Option<(f64, Why)> {
        let SearchSpec { from, to, within, confirm, .. } = self.spec;
        let again = |ballot: &Ballot, why| (!ballot.decided(confirm)).then_some((ballot.rate, why));
        if let Some(open) = self.ballots.iter().find(|ballot| ballot.open(confirm)) {
            let first = self.probes.iter().rfind(|probe| probe.rate == open.rate);
            return first.map(|probe| (open.rate, probe.why));
        }
        match self.bracket() {
            (None, None) => Some((from, Why::First)),
            (None, Some(high)) => again(high, Why::ConfirmFails),
            (Some(low), None) if low.rate >= to => again(low, Why::ConfirmHolds),
            (Some(low), None) => Some(((low.rate * GROWTH).min(to), Why::Grow)),
            (Some(low), Some(high)) if high.rate > low.rate * (1.0 + within) => {
                Some((middle(low.rate, high.rate, within), Why::Bisect))
            }
            (Some(low), Some(high)) => again(low, Why::ConfirmHolds).or_else(|| again(high, Why::ConfirmFails)),
        }
    }

    fn found(&self, complete: bool) -> Found {
        let (low, high) = self.bracket();
        let below = high.map_or(f64::INFINITY, |high| high.rate);
        let confirmed = |ballot: &&Ballot| ballot.rate < below && ballot.holds() && ballot.decided(self.spec.confirm);
        Found {
            rate: low.map(|low| low.rate),
            low: self.ballots.iter().rfind(confirmed).map(|ballot| ballot.rate),
            high: high.map(|high| high.rate),
            at_limit: low.is_some_and(|low| low.rate >= self.spec.to),
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
