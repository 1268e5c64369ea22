//! How two configurations differ in the work that they were asked to do and in what they guaranteed. Figures are
//! compared only if these match, or with the difference stated.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use storebench_study::op_kind::OpKind;
use storebench_study::workload::shown_value;

use crate::configurations::is_whole;
use crate::environment::is_encrypted;
use crate::human::{bytes, count, digits, percent, rate};
use crate::plan::PlannedCollection;
use crate::sums::{Figure, Sums};
use crate::{OpResult, PhaseResult, TrialResult};

/// Documents of an operation and their bytes may differ by this share: keys are drawn at random.
pub(crate) const PER_OPERATION: f64 = 0.05;
/// Means and shares of operations that are drawn at random differ by chance. Differences within this many standard errors
/// do not count: two like configurations exceed it once in 16,000 comparisons.
const BY_CHANCE: f64 = 4.0;
/// Operations and documents that a study counts may differ by this share: some may fail.
pub(crate) const COUNTED: f64 = 0.01;
/// Ratios of compressed pages may differ by this much.
pub(crate) const COMPRESSION: f64 = 0.05;
/// An operation's share of the mix may differ by this much: it is drawn at random.
pub(crate) const MIX: f64 = 0.05;
/// Stores of different kinds return documents in their own form, with extra members. The bytes read may differ by this
/// share before they count as a difference.
pub(crate) const OWN_FORM: f64 = 0.50;
/// The fewest operations for a meaningful mean.
const LEAST_OPERATIONS: f64 = 100.0;
/// The fewest operations for a meaningful mix.
const LEAST_OF_A_MIX: f64 = 1_000.0;
/// Timed phases have the same length within this share. Phases that differ more were ended by a count.
const SAME_LENGTH: f64 = 0.01;
/// Settings that change how the client works, not what it asks for.
const OF_THE_CLIENT: [&str; 4] = ["timeout", "retry", "on_disconnect", "pin_workers"];
/// Operations whose answers have rows of queries.
const ROWS: [&str; 2] = ["query", "transaction"];

/// The kind of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DifferenceKind {
    /// What was done: operations, batches, counts, the rate.
    Work,
    /// What an acknowledged write survives.
    Durability,
    /// How many nodes hold a write when it is acknowledged.
    Replicas,
    /// The documents: their size, or how far they can be compressed.
    Payload,
}

impl DifferenceKind {
    fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Durability => "durability",
            Self::Replicas => "replicas",
            Self::Payload => "payload",
        }
    }
}

/// A difference between two configurations that makes their figures incomparable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// What differs.
    pub kind: DifferenceKind,
    /// The phase in which it was seen. Null if it concerns the whole trial.
    pub phase: Option<String>,
    /// The difference in words: `durability os against fsync`.
    pub text: String,
}

impl Difference {
    /// `work, mixed: …`.
    pub(crate) fn place_and_text(&self) -> String {
        let kind = self.kind.name();
        match &self.phase {
            Some(phase) => format!("{kind}, {phase}: {}", self.text),
            None => format!("{kind}: {}", self.text),
        }
    }
}

/// All differences between the trials of two configurations, phase by phase. Warm-ups, phases that ended early, and
/// phases missing from a failed trial are left out: other checks report them. Empty if the two match.
pub(crate) fn differences(a: &[&TrialResult], b: &[&TrialResult]) -> Vec<Difference> {
    let (a, b) = (ComparedTrials::of(a), ComparedTrials::of(b));
    let mut found = DifferenceList::default();
    found.documents(&a, &b);
    found.indexes(&a, &b);
    let names: IndexSet<&str> = a.phases.keys().chain(b.phases.keys()).copied().collect();
    for name in names {
        found.phase = Some(name);
        match (a.phases.get(name), b.phases.get(name)) {
            (Some(x), Some(y)) => {
                if let (Some(p), Some(q)) = (x.first(), y.first()) {
                    found.left_out((&a, p), (&b, q));
                }
                found.phases(x, y, a.scheme() == b.scheme());
                // A searched rate is a result, not a request.
                if !(a.searched(name) && b.searched(name)) {
                    found.rate(x, y);
                }
            }
            (Some(x), None) | (None, Some(x)) if a.kept != b.kept && x.iter().all(|phase| phase.loads) => {}
            (Some(_), None) if b.whole => found.add(DifferenceKind::Work, "done by the first only".to_owned()),
            (None, Some(_)) if a.whole => found.add(DifferenceKind::Work, "done by the second only".to_owned()),
            _ => {}
        }
    }
    found.list
}

/// The client settings in which two configurations differ, phase by phase. The work is the same, but the client's share
/// in the figures is not.
pub(crate) fn client_differences(a: &[&TrialResult], b: &[&TrialResult]) -> Vec<String> {
    let (a, b) = (ComparedTrials::of(a), ComparedTrials::of(b));
    let mut out = Vec::new();
    for (name, x) in &a.phases {
        let (Some(x), Some(y)) = (x.first(), b.phases.get(name).and_then(|y| y.first())) else { continue };
        let counts = |phase: &PhaseResult| [phase.workers, phase.connections, phase.in_flight];
        for ((key, p), q) in ["workers", "connections", "in_flight"].into_iter().zip(counts(x)).zip(counts(y)) {
            if p != q {
                out.push(format!("{key} of {name}: {p} and {q}"));
            }
        }
        let of_client = settings(x, y).filter(|(key, ..)| OF_THE_CLIENT.contains(key));
        out.extend(of_client.map(|(key, p, q)| format!("{key} of {name}: {p} and {q}")));
    }
    out
}

/// The collections whose indexes differ. Indexes speed up queries and slow down writes.
pub(crate) fn index_differences(a: &[PlannedCollection], b: &[PlannedCollection]) -> Vec<String> {
    let shown = |of: &PlannedCollection| {
        let fields = of.indexes.iter().map(|fields| fields.join("+"));
        let own = of.own_indexes.iter().map(|(name, texts)| format!("{name} ({texts})"));
        let mut indexes: Vec<String> = fields.chain(own).collect();
        indexes.sort();
        if indexes.is_empty() { "none".to_owned() } else { indexes.join(", ") }
    };
    let differing = a.iter().filter_map(|of| {
        let other = b.iter().find(|other| other.collection == of.collection)?;
        let (one, two) = (shown(of), shown(other));
        (one != two).then(|| format!("{}: {one} and {two}", of.collection))
    });
    differing.collect()
}

/// That only one of two configurations encrypts its connections, if it is so.
pub(crate) fn tls_difference(a: &[&TrialResult], b: &[&TrialResult]) -> Option<String> {
    let (a, b) = (a.first()?, b.first()?);
    let with = |encrypts| if encrypts { "with TLS" } else { "without TLS" };
    let server = |trial: &TrialResult| trial.url.contains("://");
    let (of_a, of_b) = (is_encrypted(&a.url), is_encrypted(&b.url));
    (server(a) && server(b) && of_a != of_b).then(|| format!("A connects {}, B {}", with(of_a), with(of_b)))
}

/// The operations that the same kind of store answered by another plan: texts and numbers in a plan differ anyway.
pub(crate) fn query_plan_differences(a: &[&TrialResult], b: &[&TrialResult]) -> Vec<String> {
    let (a, b) = (ComparedTrials::of(a), ComparedTrials::of(b));
    if a.scheme() != b.scheme() {
        return Vec::new();
    }
    let mut out = Vec::new();
    for (name, x) in &a.phases {
        let (Some(x), Some(y)) = (x.first(), b.phases.get(name).and_then(|y| y.first())) else { continue };
        for (op, of) in &x.ops {
            let plan = |op: Option<&OpResult>| op.and_then(|op| op.query_plan.clone());
            let (Some(p), Some(q)) = (plan(Some(of)), plan(y.ops.get(op))) else { continue };
            let way = |full_scan| if full_scan { "a full scan" } else { "an index" };
            if p.full_scan != q.full_scan {
                out.push(format!("{op} of {name}: {} and {}", way(p.full_scan), way(q.full_scan)));
            } else if outline(&p.plan) != outline(&q.plan) {
                out.push(format!("{op} of {name}: another query plan"));
            }
        }
    }
    out
}

/// What a query plan does, without costs, estimates and the query's own values. Of a plan in JSON, the steps and the
/// names of indexes.
fn outline(plan: &str) -> String {
    const KEPT: [&str; 8] = ["stage", "indexName", "index", "name", "#operator", "keyspace", "type", "IndexName"];
    fn steps(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match value {
                        Value::String(text) if KEPT.contains(&name.as_str()) => out.push(format!("{name}={text}")),
                        value => steps(value, out),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| steps(value, out)),
            _ => {}
        }
    }
    if let Ok(plan @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(plan) {
        let mut out = Vec::new();
        steps(&plan, &mut out);
        return out.join(" ");
    }
    let mut out = String::with_capacity(plan.len());
    let (mut quoted, mut in_name) = (false, false);
    for c in plan.chars() {
        match c {
            '\'' => quoted = !quoted,
            _ if quoted => {}
            // Digits that are part of a name stay.
            '0'..='9' | '.' if !in_name => {}
            _ => out.push(c),
        }
        in_name = c.is_alphabetic() || c == '_' || in_name && c.is_ascii_digit();
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The settings in which two phases differ.
fn settings<'a>(x: &'a PhaseResult, y: &'a PhaseResult) -> impl Iterator<Item = (&'a str, String, String)> {
    let shown = |value: Option<&Value>| value.map_or_else(|| "not set".to_owned(), shown_value);
    let names: IndexSet<&String> = x.settings.keys().chain(y.settings.keys()).collect();
    // Copies have no settings.
    let known = !x.settings.is_empty() && !y.settings.is_empty();
    let differing = names.into_iter().filter(move |name| known && x.settings.get(*name) != y.settings.get(*name));
    differing.map(move |name| (name.as_str(), shown(x.settings.get(name)), shown(y.settings.get(name))))
}

/// The trials of one configuration.
struct ComparedTrials<'a> {
    trials: &'a [&'a TrialResult],
    /// Completed phases of all trials, by name.
    phases: IndexMap<&'a str, Vec<&'a PhaseResult>>,
    /// Whether any trial completed. Only then was a missing phase not asked for.
    whole: bool,
    /// Whether every trial measured a database that another one had loaded. A missing load is then no difference.
    kept: bool,
}

impl<'a> ComparedTrials<'a> {
    fn of(trials: &'a [&'a TrialResult]) -> Self {
        let mut phases: IndexMap<&str, Vec<&PhaseResult>> = IndexMap::new();
        let ended = |phase: &&PhaseResult| !phase.warm_up && phase.partial.is_none();
        for phase in trials.iter().flat_map(|trial| &trial.phases).filter(ended) {
            phases.entry(&phase.name).or_default().push(phase);
        }
        let kept = !trials.is_empty() && trials.iter().all(|trial| trial.database_kept);
        Self { trials, phases, whole: trials.iter().any(|trial| is_whole(trial)), kept }
    }

    /// Whether the rate of a phase was searched.
    fn searched(&self, phase: &str) -> bool {
        self.trials.iter().any(|trial| trial.searches.iter().any(|search| search.phase == phase))
    }

    fn name(&self) -> &str {
        self.trials.first().map_or("", |trial| trial.configuration.as_str())
    }

    fn scheme(&self) -> Option<&str> {
        self.trials.first().map(|trial| trial.scheme.as_str())
    }
}

#[derive(Default)]
struct DifferenceList<'a> {
    phase: Option<&'a str>,
    list: Vec<Difference>,
}

impl DifferenceList<'_> {
    fn add(&mut self, kind: DifferenceKind, text: String) {
        self.list.push(Difference { kind, phase: self.phase.map(str::to_owned), text });
    }

    /// Adds a difference, unless its two sides read alike: less than the last digit is no difference to anybody.
    fn add_seen(&mut self, kind: DifferenceKind, p: &str, q: &str, text: String) {
        if p != q {
            self.add(kind, text);
        }
    }

    /// Compares the number of documents that phases drew from or loaded.
    fn documents(&mut self, a: &ComparedTrials<'_>, b: &ComparedTrials<'_>) {
        let counts = |configuration: &ComparedTrials<'_>| -> BTreeMap<String, u64> {
            let of = configuration.trials.iter().map(|trial| &trial.documents).find(|documents| !documents.is_empty());
            of.map(|documents| documents.iter().map(|(name, n)| (name.clone(), *n)).collect()).unwrap_or_default()
        };
        let (x, y) = (counts(a), counts(b));
        for (name, n) in &x {
            if let Some(m) = y.get(name).filter(|m| apart(*n as f64, **m as f64, COUNTED)) {
                self.add(DifferenceKind::Work, format!("{} against {} documents of {name}", count(*n), count(*m)));
            }
        }
    }

    /// Indexes in the stores' own words that only one of the two has.
    fn indexes(&mut self, a: &ComparedTrials<'_>, b: &ComparedTrials<'_>) {
        let of = |configuration: &ComparedTrials<'_>| -> BTreeSet<String> {
            let all = configuration.trials.iter().flat_map(|trial| &trial.indexes);
            all.map(|index| format!("the index `{}` of `{}`", index.name, index.collection)).collect()
        };
        let (x, y) = (of(a), of(b));
        for (whole, more, less, which) in [(b.whole, &x, &y, "first"), (a.whole, &y, &x, "second")] {
            for index in more.difference(less).filter(|_| whole) {
                self.add(DifferenceKind::Work, format!("only the {which} has {index}"));
            }
        }
    }

    fn phases(&mut self, a: &[&PhaseResult], b: &[&PhaseResult], same_scheme: bool) {
        let (Some(x), Some(y)) = (a.first(), b.first()) else { return };
        self.guarantee(x, y);
        let reads = |phase: &PhaseResult| {
            phase.ops.values().filter_map(OpResult::op_kind).any(|kind| !kind.writes() || kind == OpKind::Transaction)
        };
        let (p, q) = (&x.consistency.name, &y.consistency.name);
        if p != q && (reads(x) || reads(y)) {
            self.add(DifferenceKind::Work, format!("consistency {p} against {q}"));
        }
        if let (Some(p), Some(q)) = (&x.isolation, &y.isolation)
            && p.name != q.name
        {
            self.add(DifferenceKind::Work, format!("isolation {} against {}", p.name, q.name));
        }
        for (key, p, q) in settings(x, y).filter(|(key, ..)| !OF_THE_CLIENT.contains(key)) {
            self.add(DifferenceKind::Work, format!("{key} {p} against {q}"));
        }
        self.operations(x, y);
        self.amounts(a, b);
        let names: IndexSet<&String> = x.ops.keys().filter(|name| y.ops.contains_key(*name)).collect();
        for name in names {
            self.operation(name, a, b, same_scheme);
        }
        let page = |phases: &[&PhaseResult]| mean(phases.iter().filter_map(|p| p.documents.compress_page));
        if let (Some(p), Some(q)) = (page(a), page(b))
            && (p - q).abs() > COMPRESSION
        {
            let text = format!("pages of documents compress to {} against {}", percent(p), percent(q));
            self.add(DifferenceKind::Payload, text);
        }
    }

    /// Compares durability, if something is written.
    fn guarantee(&mut self, x: &PhaseResult, y: &PhaseResult) {
        let writes = |phase: &PhaseResult| phase.ops.values().any(|op| op.op_kind().is_none_or(OpKind::writes));
        let (p, q) = (&x.durability.name, &y.durability.name);
        if p == q || !writes(x) && !writes(y) {
            return;
        }
        let (left, right) = (guaranteed(p), guaranteed(q));
        if left.0 != right.0 {
            self.add(DifferenceKind::Replicas, format!("acknowledged by {} against {}", left.0, right.0));
        }
        if left.1 != right.1 {
            self.add(DifferenceKind::Durability, format!("durability {p} against {q}"));
        }
    }

    /// Compares operations and their batches. A load uses the fastest way of its store, so its kind may differ.
    fn operations(&mut self, x: &PhaseResult, y: &PhaseResult) {
        let loads = x.loads && y.loads;
        for (name, op) in &x.ops {
            let Some(other) = y.ops.get(name) else { continue };
            if op.kind != other.kind && !loads {
                self.add(DifferenceKind::Work, format!("{name} is {} against {}", op.kind, other.kind));
            }
            if op.collection != other.collection {
                self.add(DifferenceKind::Work, format!("{name} of {} against {}", op.collection, other.collection));
            }
            if op.batch != other.batch {
                let text =
                    format!("{name} in batches of {} against {}", count(op.batch.into()), count(other.batch.into()));
                self.add(DifferenceKind::Work, text);
            }
        }
    }

    /// Operations of the mix that only one of the two did. It is named, unless both have one name.
    fn left_out(&mut self, (a, x): (&ComparedTrials<'_>, &PhaseResult), (b, y): (&ComparedTrials<'_>, &PhaseResult)) {
        let only = |x: &PhaseResult, y: &PhaseResult| {
            let names = x.ops.keys().filter(|name| !y.ops.contains_key(*name));
            names.cloned().collect::<Vec<_>>().join(", ")
        };
        let named = a.name() != b.name();
        for (names, other, which) in [(only(x, y), b, "first"), (only(y, x), a, "second")] {
            if !names.is_empty() {
                let text = match named {
                    true => format!("{} leaves out {names}", other.name()),
                    false => format!("{names} by the {which} only"),
                };
                self.add(DifferenceKind::Work, text);
            }
        }
    }

    /// Compares the requested rates.
    fn rate(&mut self, a: &[&PhaseResult], b: &[&PhaseResult]) {
        let (Some(x), Some(y)) = (a.first(), b.first()) else { return };
        let planned = |phase: &PhaseResult| phase.rate.as_ref().map(|rate| rate.planned.clone());
        let said = |planned: Option<Value>| match planned {
            None => "no rate".to_owned(),
            Some(Value::String(text)) => format!("rate {text}"),
            Some(given) => given.as_f64().map_or_else(|| format!("rate {given}"), |r| format!("rate {}/s", rate(r))),
        };
        let (p, q) = (planned(x), planned(y));
        if p != q {
            self.add(DifferenceKind::Work, format!("{} against {}", said(p), said(q)));
        }
    }

    /// Compares how much was done, if that was counted rather than timed, and the mix.
    fn amounts(&mut self, a: &[&PhaseResult], b: &[&PhaseResult]) {
        // As in a load, the store decides how a copy splits its requests.
        let loads = a.iter().chain(b).all(|phase| phase.loads || phase.tasks.is_some());
        let lengths = || a.iter().chain(b).map(|phase| phase.sending_ns as f64);
        let (least, most) = (lengths().fold(f64::INFINITY, f64::min), lengths().fold(0.0, f64::max));
        let total = |phases: &[&PhaseResult], of: fn(&OpResult) -> f64| {
            mean(phases.iter().map(|phase| phase.ops.values().map(of).sum::<f64>())).unwrap_or(0.0)
        };
        let done: fn(&OpResult) -> f64 = |op| op.count as f64;
        // Batches of a load may differ; its documents may not.
        let moved = if a.iter().any(|phase| phase.tasks.is_some()) { "documents copied" } else { "documents loaded" };
        let (what, of): (_, fn(&OpResult) -> f64) =
            if loads { (moved, |op| op.documents as f64) } else { ("operations", done) };
        let (p, q) = (total(a, of), total(b, of));
        if (loads || apart(least, most, SAME_LENGTH)) && apart(p, q, COUNTED) {
            let text = format!("{} against {} {what}", count(p.round() as u64), count(q.round() as u64));
            self.add(DifferenceKind::Work, text);
        }
        let (all_a, all_b) = (total(a, done), total(b, done));
        if loads || all_a < LEAST_OF_A_MIX || all_b < LEAST_OF_A_MIX {
            return;
        }
        let share = |phases: &[&PhaseResult], name: &str, all: f64| {
            mean(phases.iter().map(|phase| phase.ops.get(name).map_or(0.0, done))).unwrap_or(0.0) / all
        };
        let names = a.first().into_iter().flat_map(|phase| phase.ops.keys());
        for name in names.filter(|name| b.first().is_some_and(|phase| phase.ops.contains_key(*name))) {
            let (p, q) = (share(a, name, all_a), share(b, name, all_b));
            let squared = |share: f64, of_one: f64, trials: usize| share * (1.0 - share) / (of_one * trials as f64);
            if (p - q).abs() > MIX && beyond_chance(p - q, squared(p, all_a, a.len()) + squared(q, all_b, b.len())) {
                let text = format!("{name} is {} against {} of the operations", percent(p), percent(q));
                self.add(DifferenceKind::Work, text);
            }
        }
    }

    /// Compares the documents and bytes of one operation.
    fn operation(&mut self, name: &str, a: &[&PhaseResult], b: &[&PhaseResult], same_scheme: bool) {
        let (x, y) = (Sums::of(name, a), Sums::of(name, b));
        let counted = a.iter().chain(b).all(|phase| phase.loads);
        // Loads and replays send the same in every configuration.
        let is_drawn = !counted && !a.iter().chain(b).any(|phase| phase.settings.contains_key("trace"));
        let beyond_chance = |difference, variance| !is_drawn || beyond_chance(difference, variance);
        let few = |sums: &Sums| sums.succeeded + sums.missed < if counted { 1.0 } else { LEAST_OPERATIONS };
        // Operations that failed in part have documents but do not count as successes.
        let failing = |sums: &Sums| sums.errors > COUNTED * sums.succeeded;
        if few(&x) || few(&y) || failing(&x) || failing(&y) {
            return;
        }
        let missed = |sums: &Sums| sums.missed / (sums.succeeded + sums.missed);
        let (p, q) = (missed(&x), missed(&y));
        let squared = |share: f64, sums: &Sums| share * (1.0 - share) / (sums.succeeded + sums.missed);
        if (p - q).abs() > COUNTED && beyond_chance(p - q, squared(p, &x) + squared(q, &y)) {
            let (p, q) = (percent(p), percent(q));
            self.add(DifferenceKind::Work, format!("{name} finds nothing in {p} against {q} of its attempts"));
            return;
        }
        let error = |figure: Figure, sums: &Sums| figure.error(sums.succeeded);
        let surely = |p: f64, q: f64, figure: fn(&Sums) -> Figure| {
            beyond_chance(p - q, (p * error(figure(&x), &x)).powi(2) + (q * error(figure(&y), &y)).powi(2))
        };
        let per = |sums: &Sums| sums.documents.sum / sums.succeeded;
        let (p, q) = (per(&x), per(&y));
        // Different batches are already reported. The store decides how many documents a request of a copy holds; those of
        // the whole copy are compared.
        let split = counted || a.iter().chain(b).all(|phase| phase.tasks.is_some());
        if !split && x.batch == y.batch && apart(p, q, PER_OPERATION) && surely(p, q, |sums| sums.documents) {
            let (p, q) = (digits(p), digits(q));
            self.add_seen(DifferenceKind::Work, &p, &q, format!("{p} against {q} documents for one {name}"));
        }
        let written: fn(&Sums) -> Figure = |sums| sums.written;
        let read: fn(&Sums) -> Figure = |sums| sums.read;
        // Each store has its own form of the values in a row: a number may take 1 byte or 8.
        let rows = a.iter().any(|phase| phase.ops.get(name).is_some_and(|op| ROWS.contains(&op.kind.as_str())));
        let form = if same_scheme {
            PER_OPERATION
        } else if rows {
            f64::INFINITY
        } else {
            OWN_FORM
        };
        let unit = x.unit();
        for (figure, verb, tolerance) in [(written, "sends", PER_OPERATION), (read, "returns", form)] {
            let (p, q) = (figure(&x).sum / x.each(), figure(&y).sum / y.each());
            if p > 0.0 && q > 0.0 && apart(p, q, tolerance) && surely(p, q, figure) {
                let (p, q) = (bytes(p), bytes(q));
                let kind = if unit == "document" { DifferenceKind::Payload } else { DifferenceKind::Work };
                self.add_seen(kind, &p, &q, format!("{name} {verb} {p} against {q} for one {unit}"));
            }
        }
    }
}

/// Who acknowledges a write under a durability's name, and what is persisted where: see `Durability` in
/// `storebench-study`.
fn guaranteed(name: &str) -> (&str, &str) {
    let long = || name.strip_prefix("acknowledged by ")?.split_once(", persisted ");
    match name {
        "none" => ("1", "none on 0"),
        "os" => ("1", "os on 1"),
        "fsync" => ("1", "disk on 1"),
        "majority" => ("majority", "none on 0"),
        // An unknown name counts as a difference in what is persisted.
        other => long().unwrap_or(("1", other)),
    }
}

/// Whether a difference with this variance is more than chance.
fn beyond_chance(difference: f64, variance: f64) -> bool {
    difference.abs() > BY_CHANCE * variance.sqrt()
}

/// Whether two figures differ by more than a share of the smaller.
fn apart(a: f64, b: f64, share: f64) -> bool {
    // Sums have rounding errors.
    (a - b).abs() > share * a.min(b) * (1.0 + 1e-9)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0u32, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}

#[cfg(test)]
#[path = "comparability_tests.rs"]
mod tests;
