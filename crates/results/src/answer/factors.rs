//! What each factor of a study changes, store by store.

use indexmap::IndexMap;
use serde_json::Value;
use storebench_study::workload::{short_name, short_names, shown_value};

use super::enough::tasks_of;
use super::phases::Figure;
use super::standings::{Standing, alike, best, number_of, ratio, shown, unit};
use super::words::{capital, interval, times, times_inside, with_values};
use crate::configurations::varied;
use crate::human::{count, listed};
use crate::stats::Estimate;
use crate::sweep::{Beyond, Sweep, SweptValue, value_in_words};
use crate::{FactorSweep, PhaseResult, RunResult, TasksResult};

/// What a clause says if an interval includes 1.
const UNCLEAR: &str = "does not clearly change";
/// What it says if it is open where more stops helping.
const OPEN: &str = "where the growth ends is not clear";
/// The most things that the answer says about one store.
const MOST_OF_STORE: usize = 12;

/// What happens on each store as the factors grow or change, a sentence for each store: `Import into raven grows 3.10 times
/// (95 % interval 2.70 to 3.50) from 1 to 4 tasks, to 12.3 k docs/s, and no further; export out of raven …`. `None` if no
/// store has several values.
pub(super) fn by_store(result: &RunResult, figures: &[Figure]) -> Option<String> {
    let mut stores: IndexMap<&str, Vec<(String, String)>> = IndexMap::new();
    for figure in figures {
        let mut own: IndexMap<&str, Vec<&Standing>> = IndexMap::new();
        for standing in &figure.standings {
            own.entry(&standing.store).or_default().push(standing);
        }
        for (store, own) in own {
            let factors = varied(own.iter().map(|of| &of.values));
            for factor in factors.into_iter().filter(|factor| concerns(result, factor, &figure.phase)) {
                let place = Place { result, store, figure, factor };
                if let Some(told) = place.growth().or_else(|| place.change(&own)) {
                    stores.entry(store).or_default().push((place.subject(), told));
                }
            }
        }
    }
    let told: Vec<String> = stores.values().map(|told| sentence(told)).collect();
    let more = if told.iter().any(|told| told.contains(UNCLEAR) || told.contains(OPEN)) {
        " More rounds would tell what is not clear."
    } else {
        ""
    };
    (!told.is_empty()).then(|| told.join(" ") + more)
}

/// Clauses of one store. A clause about the subject of the one before begins with "it".
fn sentence(told: &[(String, String)]) -> String {
    let mut text = String::new();
    let mut before = "";
    for (subject, clause) in told.iter().take(MOST_OF_STORE) {
        let between = if text.is_empty() { "" } else { "; " };
        let subject_again = if subject == before { "it" } else { subject };
        text += &format!("{between}{subject_again} {clause}");
        before = subject;
    }
    let more = told.len().saturating_sub(MOST_OF_STORE);
    let more = if more > 0 { format!("; {} more: see the curves", count(more as u64)) } else { String::new() };
    format!("{}{more}.", capital(&text))
}

/// Whether a factor may change a phase.
fn concerns(result: &RunResult, factor: &str, phase: &str) -> bool {
    match factor.strip_prefix("phases.").and_then(|rest| rest.split('.').next()) {
        None => true,
        Some("*") => !result.phases().any(|of| of.name == phase && (of.loads || of.tasks.is_some())),
        Some(name) => name == phase,
    }
}

/// A figure of a store, and a factor that may change it.
struct Place<'a> {
    result: &'a RunResult,
    store: &'a str,
    figure: &'a Figure,
    factor: &'a str,
}

impl Place<'_> {
    fn phases(&self) -> impl Iterator<Item = &PhaseResult> {
        let own = self.result.trials.iter().filter(|trial| trial.store == self.store && !trial.control);
        own.flat_map(|trial| &trial.phases).filter(|phase| phase.name == self.figure.phase)
    }

    /// `import into raven`, `mixed on sqlite`.
    fn subject(&self) -> String {
        let is = |kind: &str| self.phases().any(|phase| phase.ops.values().any(|op| op.kind == kind));
        let way = match () {
            () if is("copy-out") => "out of",
            () if is("copy-in") || self.phases().any(|phase| phase.loads) => "into",
            () => "on",
        };
        format!("{} {way} {}", self.figure.place, self.store)
    }

    /// The factor's name. A factor of the phase needs no name of the phase.
    fn name(&self) -> &str {
        match self.factor.strip_prefix("phases.") {
            Some(_) => short_name(self.factor),
            None => short_names([self.factor]).get(self.factor).copied().unwrap_or(self.factor),
        }
    }

    /// `from 1 to 4 tasks`, `from batch = 1 to 100`.
    fn span(&self, from: f64, to: f64) -> String {
        let (from, to) = (value_in_words(from), value_in_words(to));
        match self.name() {
            name @ ("tasks" | "workers" | "connections") => format!("from {from} to {to} {name}"),
            name => format!("from {name} = {from} to {to}"),
        }
    }

    fn shown(&self, of: &Estimate) -> String {
        shown(self.figure.measure(), of.value)
    }

    /// Values of other factors, if the study crosses them with this one.
    fn beside(&self, others: &IndexMap<String, Value>, crossed: bool) -> String {
        if !crossed || others.is_empty() {
            return String::new();
        }
        with_values(others)
    }

    /// What a numeric factor does to a throughput: the curve with the best figure, if other factors make several.
    fn growth(&self) -> Option<String> {
        let name = self.figure.name();
        let own = |swept: &&FactorSweep| {
            (swept.factor.as_str(), swept.store.as_str(), &swept.figure) == (self.factor, self.store, &name)
        };
        let top =
            |swept: &FactorSweep| swept.sweep.curve.iter().filter_map(|of| Some(of.figure?.value)).fold(0.0, f64::max);
        let all: Vec<&FactorSweep> = self.result.sweeps.iter().filter(own).collect();
        let swept = all.iter().max_by(|a, b| top(a).total_cmp(&top(b)))?;
        let beside = self.beside(&swept.others, all.len() > 1);
        match tasks_of(self.result, swept) {
            Some(tasks) if tasks.at_once < 2 => Some(self.one_task(&tasks, &swept.sweep)),
            Some(tasks) if tasks.at_once < tasks.asked => {
                Some(format!("{}, but at most {} ran at once{beside}", self.grown(&swept.sweep)?, tasks.at_once))
            }
            _ => Some(format!("{}{beside}", self.grown(&swept.sweep)?)),
        }
    }

    /// Why tasks cannot have mattered.
    fn one_task(&self, tasks: &TasksResult, sweep: &Sweep) -> String {
        let figure = sweep.curve.iter().find_map(|of| of.figure).map_or_else(String::new, |of| {
            format!(": {}{}", self.shown(&of), interval(&of, number_of(self.figure.measure())))
        });
        let why = if tasks.parts < 2 { ", because the source gave 1 part only" } else { "" };
        format!("ran 1 task at a time{why}, so that more tasks could not matter{figure}")
    }

    fn grown(&self, sweep: &Sweep) -> Option<String> {
        let measured: Vec<&SweptValue> = sweep.curve.iter().filter(|of| of.figure.is_some()).collect();
        let (first, last) = (*measured.first()?, *measured.last()?);
        let at = |value: f64| measured.iter().copied().find(|of| of.value == value);
        let line = 1.0 + sweep.threshold;
        let spot = sweep.sweet_spot.or(sweep.likely).and_then(at).unwrap_or(last);
        let (by, end) = (spot.speed_up?, last.speed_up?);
        let failed = || listed(sweep.failed.iter().map(|value| value_in_words(*value)));
        let Some(beyond) = sweep.beyond.filter(|_| sweep.sweet_spot.is_some()) else {
            return Some(self.undecided(&measured, if spot.value > first.value { spot } else { last }, line));
        };
        // The sweep judges pairs alone, so that an interval of all of them together may still include 1.
        if spot.value > first.value && by.low.is_some_and(|low| low <= 1.0) {
            return Some(self.undecided(&measured, spot, line));
        }
        if spot.value > first.value {
            let then = match beyond {
                Beyond::Unseen => ", the highest value measured".to_owned(),
                Beyond::Flat => " and no further".to_owned(),
                Beyond::Worse => match sweep.worse_from {
                    Some(from) => format!(" and falls from {} on", value_in_words(from)),
                    None => " and falls after it".to_owned(),
                },
                Beyond::Failed => format!("; {} did not complete", failed()),
                Beyond::Open => "; whether it falls after that is open".to_owned(),
            };
            let (span, to) = (self.span(first.value, spot.value), self.shown(&spot.figure?));
            return Some(format!(
                "grows {} {span}, to {to}{}{then}",
                times(&by),
                if then.starts_with(" and") { "," } else { "" }
            ));
        }
        Some(match beyond {
            Beyond::Worse => {
                let clear = |of: &SweptValue| of.speed_up.and_then(|by| by.high).is_some_and(|high| high < 1.0);
                let worst =
                    Some(last).filter(|last| clear(last)).or_else(|| sweep.worse_from.and_then(at)).unwrap_or(last);
                if worst.speed_up?.high.is_some_and(|high| high >= 1.0) {
                    return Some(self.undecided(&measured, worst, line));
                }
                let span = self.span(first.value, worst.value);
                format!("falls to {} {span}, to {}", times(&worst.speed_up?), self.shown(&worst.figure?))
            }
            Beyond::Flat => {
                format!(
                    "stays at {} {} ({})",
                    self.shown(&first.figure?),
                    self.span(first.value, last.value),
                    times_inside(&end)
                )
            }
            Beyond::Failed => format!(
                "is best at the lowest value, {}: {}; {} did not complete",
                value_in_words(first.value),
                self.shown(&first.figure?),
                failed()
            ),
            Beyond::Open | Beyond::Unseen => format!(
                "does not grow {} ({}), and whether it falls is open: {}",
                self.span(first.value, last.value),
                times_inside(&end),
                self.shown(&first.figure?)
            ),
        })
    }

    /// What the curve of these values shows without saying where more stops helping.
    fn undecided(&self, measured: &[&SweptValue], to: &SweptValue, line: f64) -> String {
        let first = measured.first().copied().unwrap_or(to);
        let (Some(by), Some(figure)) = (to.speed_up, to.figure) else { return "has no ratio".to_owned() };
        let last = value_in_words(to.value);
        let (span, to) = (self.span(first.value, to.value), self.shown(&figure));
        let begins = || {
            let at = |of| format!("{} at {}, ", self.shown(&of), value_in_words(first.value));
            first.figure.map_or_else(String::new, at)
        };
        match (by.low, by.high) {
            (Some(low), _) if low > 1.0 => {
                format!("grows {} {span}, to {to}; {OPEN}", times(&by))
            }
            (_, Some(high)) if high < 1.0 => format!("falls to {} {span}, to {to}", times(&by)),
            (Some(_), Some(_)) => {
                let tried = match measured.len() {
                    ..=2 => String::new(),
                    _ => format!(" (tried: {})", listed(measured.iter().map(|of| value_in_words(of.value)))),
                };
                format!("{UNCLEAR} {span} ({}): {}{to} at {last}{tried}", times_inside(&by), begins())
            }
            _ if by.value > line => {
                format!("grows {} {span}, to {to}, measured too few times to rule out chance", times(&by))
            }
            _ if by.value < 1.0 / line => {
                format!("falls to {} {span}, to {to}, measured too few times to rule out chance", times(&by))
            }
            _ => format!(
                "hardly changes {span} ({}), measured too few times to rule out chance: {to}",
                times_inside(&by)
            ),
        }
    }

    /// What other values change against the first one, where there is no curve: values that are no numbers, and times.
    fn change(&self, own: &[&Standing]) -> Option<String> {
        let mut groups: IndexMap<String, Vec<&Standing>> = IndexMap::new();
        for standing in own.iter().filter(|of| of.values.contains_key(self.factor)) {
            let mut others = standing.values.clone();
            others.shift_remove(self.factor);
            groups.entry(serde_json::to_string(&others).unwrap_or_default()).or_default().push(standing);
        }
        groups.retain(|_, of| of.len() > 1);
        let crossed = groups.len() > 1;
        // The group with the best figure.
        let top = best(groups.values().flatten().copied())?.configuration.clone();
        let mut group = groups.into_values().find(|of| of.iter().any(|of| of.configuration == top))?;
        let value = |of: &Standing| of.values.get(self.factor).cloned().unwrap_or_default();
        if group.iter().all(|of| value(of).is_number()) {
            group.sort_by(|a, b| value(a).as_f64().unwrap_or(0.0).total_cmp(&value(b).as_f64().unwrap_or(0.0)));
        }
        let (first, rest) = group.split_first()?;
        let of_others =
            |(path, value): (&String, &Value)| (*path != self.factor).then(|| (path.clone(), value.clone()));
        let beside = self.beside(&first.values.iter().filter_map(of_others).collect(), crossed);
        let (verb, noun) = match unit(self.figure.measure()) {
            Some(unit) => ("does", format!("as many {unit}")),
            None => ("takes", "as long (p99)".to_owned()),
        };
        let told = rest.iter().map(|of| {
            let at = format!("with {} = {}", self.name(), shown_value(&value(of)));
            match ratio(of, first) {
                _ if of.ops != first.ops => format!("does different operations {at}, so that totals are not compared"),
                None => format!("has no ratio {at}"),
                Some(by) if alike(&by) => format!("does not change {at} ({})", times_inside(&by)),
                Some(by) if by.low.zip(by.high).is_some_and(|(low, high)| low <= 1.0 && high >= 1.0) => {
                    format!("{UNCLEAR} {at} ({})", times_inside(&by))
                }
                Some(by) => {
                    let chance = if by.low.is_none() { ", measured too few times to rule out chance" } else { "" };
                    format!("{verb} {} {noun} {at} ({}){chance}", times(&by), of.shown())
                }
            }
        });
        let told: Vec<String> = told.collect();
        let first_value = shown_value(&value(first));
        Some(format!("{}, against {first_value} ({}){beside}", listed(told), first.shown()))
    }
}
