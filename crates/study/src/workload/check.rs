//! Checks a study beyond its types: references exist, mixes make sense.

use strsim::damerau_levenshtein;

use super::collections::Body;
use super::factors::Database;
use super::fields::Field;
use super::phases::{Draw, Phase, RateSpec, Streams};
use super::study::Study;
use super::transactions::Operation;
use crate::op_kind::OpKind;

/// What is wrong with a study, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Keys and positions from the root: `["phases", "1", "mix", "read"]`.
    pub path: Vec<String>,
    /// What is wrong and what is expected.
    pub message: String,
}

/// Longer texts are not mistyped names.
const LONGEST_NAME: usize = 200;
/// The most collections or phases of a study.
const MOST_PARTS: usize = 1_000;

/// The name closest to `wrong`, if one is close enough to be meant.
pub fn did_you_mean<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing two texts takes memory proportional to the product of their lengths, and nobody mistypes a whole page.
    if wrong.len() > LONGEST_NAME {
        return None;
    }
    names
        .into_iter()
        .filter(|name| name.len() <= LONGEST_NAME)
        .map(|name| (damerau_levenshtein(&wrong.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= 1 + name.len().max(wrong.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// "unknown X `wrong`; did you mean `right`?", or the list of names.
pub(crate) fn no_such<'a>(what: &str, wrong: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match did_you_mean(wrong, names.clone()) {
        Some(name) => format!("unknown {what} `{wrong}`; did you mean `{name}`?"),
        None => {
            let all: Vec<_> = names.into_iter().map(|n| format!("`{n}`")).collect();
            format!("unknown {what} `{wrong}`; expected one of: {}", all.join(", "))
        }
    }
}

struct Checker<'a> {
    study: &'a Study,
    problems: Vec<Problem>,
}

/// Finds all problems, roughly in the order of the file.
pub(crate) fn check(study: &Study) -> Vec<Problem> {
    let mut checker = Checker { study, problems: Vec::new() };
    for (key, parts) in [("collections", study.collections.len()), ("phases", study.phases.len())] {
        if parts > MOST_PARTS {
            checker.say(&[key], format!("a study has at most {MOST_PARTS} {key}, not {parts}"));
        }
    }
    if !checker.problems.is_empty() {
        return checker.problems;
    }
    checker.root();
    for name in study.collections.keys() {
        checker.collection(name);
    }
    for (position, phase) in study.phases.iter().enumerate() {
        checker.phase(position, phase);
    }
    checker.problems.extend(super::existing::check(study));
    for (position, claim) in study.published.iter().enumerate() {
        checker.problems.extend(claim.problems().into_iter().map(|problem| Problem {
            path: ["published".to_owned(), position.to_string()].into_iter().chain(problem.path).collect(),
            message: problem.message,
        }));
    }
    checker.problems.extend(super::copies::check(study));
    checker.problems.extend(super::hosts::check(study));
    checker.problems.extend(super::servers::check(study));
    checker.problems.extend(super::faults::check(study));
    let parts = [super::factors::check(study), super::limits::check(study), super::presets::check(study)];
    checker.problems.extend(parts.into_iter().flatten().map(|(path, message)| Problem { path, message }));
    checker.problems
}

impl Checker<'_> {
    fn say(&mut self, path: &[&str], message: impl Into<String>) {
        self.problems.push(Problem { path: path.iter().map(|p| (*p).to_owned()).collect(), message: message.into() });
    }

    fn root(&mut self) {
        if self.study.collections.is_empty() {
            self.say(&["collections"], "a study needs at least one collection: [collections.NAME]");
        }
        if self.study.phases.is_empty() {
            self.say(&["phases"], "a study needs at least one phase: [[phases]]");
        }
        if self.study.database == Database::Kept {
            for (position, phase) in self.study.phases.iter().enumerate() {
                use OpKind::{Append, Counter, Delete, Insert, Prepend, Touch};
                let changes = [Insert, Delete, Append, Prepend, Counter, Touch];
                if phase.operations_of_mix().any(|of| of.single().is_some_and(|op| changes.contains(&op))) {
                    self.say(
                        &["phases", &position.to_string(), "mix"],
                        "with database = \"kept\" other trials measure what this phase leaves, so it may only read, upsert, \
                         replace and merge; remove the other operations, or use database = \"fresh\"",
                    );
                }
            }
        }
        if self.study.database == Database::Kept {
            let mut entries = self.study.phases.iter().flat_map(Phase::operations_of_mix);
            let writes = entries.any(|of| of.writes());
            for (position, phase) in self.study.phases.iter().enumerate().filter(|_| writes) {
                for name in phase.mix.iter().filter(|(_, entry)| entry.same_on.is_some()).map(|(name, _)| name) {
                    self.say(
                        &["phases", &position.to_string(), "mix", name, "same_on"],
                        "with database = \"kept\" earlier trials may have changed the documents, so answers cannot be \
                         compared; remove `same_on` or the writes, or use database = \"fresh\"",
                    );
                }
            }
        }
        if let Some(problem) = self.study.repeats.problem() {
            self.say(&["repeats"], problem);
        }
        if self.study.control && self.study.stores.0.keys().any(|name| name.ends_with(" (control)")) {
            self.say(&["stores"], "with `control`, a name must not end with ` (control)`; use another one");
        }
        if self.study.data_to_memory.is_some_and(|share| !(share.is_finite() && share > 0.0)) {
            self.say(&["data_to_memory"], "use a ratio of documents to memory above 0, such as 4.5");
        }
        if self.study.seed > 1 << 53 {
            self.say(&["seed"], "use a seed of at most 2^53");
        }
    }

    fn collection(&mut self, name: &str) {
        let study = self.study;
        let c = &study.collections[name];
        let at = ["collections", name];
        let well_formed = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.len() <= 60
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !well_formed {
            self.say(&at, "a collection's name must begin with a letter and have at most 60 letters, digits, - and _");
        }
        if name.starts_with("storebench") {
            self.say(&at, "names that begin with `storebench` are reserved for its own tables");
        }
        match (&c.from, &c.per, c.count) {
            (Some(_), Some(_), _) => self.say(&[at[0], name, "per"], "`from` and `per` exclude each other"),
            (None, Some(_), Some(_)) => {
                self.say(
                    &[at[0], name, "count"],
                    "with `per` the relation decides how many documents there are; remove `count`",
                );
            }
            (None, None, None) if c.existing.is_none() && c.trace.is_none() => {
                self.say(
                    &at,
                    "it needs `count`, `per`, `from` or `trace`, or `existing` for documents that are already in the store",
                );
            }
            _ => {}
        }
        if c.count.is_some_and(|n| n.0 == 0) {
            self.say(&[at[0], name, "count"], "0 documents leave nothing to do; use 1 or more");
        }
        if c.count.is_some_and(|n| n.0 > 1 << 53) {
            self.say(&[at[0], name, "count"], "more than 2^53 documents cannot be numbered exactly in JSON");
        }
        if c.from.is_some() {
            for (key, given) in [
                ("fields", !c.fields.is_empty()),
                ("size", c.size.is_some()),
                ("compress_to", c.compress_to.is_some()),
                ("text_file", c.text_file.is_some()),
            ] {
                if given {
                    self.say(
                        &[at[0], name, key],
                        format!("`{key}` describes generated documents, but with `from` they are yours; remove it"),
                    );
                }
            }
        }
        if c.from.is_none() && !c.without.is_empty() {
            self.say(&[at[0], name, "without"], "`without` leaves members out of the documents of `from`; remove it");
        }
        if c.body != Body::Json {
            for (key, given) in
                [("fields", !c.fields.is_empty()), ("index", !c.index.is_empty()), ("from", c.from.is_some())]
            {
                if given {
                    self.say(&[at[0], name, key], format!("`{key}` needs body = \"json\""));
                }
            }
        }
        if let Some(share) = c.compress_to
            && !(share.is_finite() && share > 0.0 && share < 1.0)
        {
            self.say(
                &[at[0], name, "compress_to"],
                format!("invalid share {share}; use above 0 and below 1, such as 0.4"),
            );
        }
        if let Some(per) = &c.per {
            if !study.collections.contains_key(&per.parent) {
                let message = no_such("collection", &per.parent, study.collections.keys().map(String::as_str));
                self.say(&[at[0], name, "per", &per.parent], message);
            } else if self.parents_loop(name) {
                self.say(
                    &[at[0], name, "per"],
                    "the `per` relations of these collections form a cycle; remove one of them",
                );
            }
        }
        for (position, fields) in c.index.iter().enumerate() {
            let position = position.to_string();
            if fields.is_empty() {
                self.say(&[at[0], name, "index", &position], "an index needs at least one field");
            }
            for field in fields {
                if c.from.is_none() && c.existing.is_none() && !c.fields.contains_key(field) {
                    let message = no_such("field", field, c.fields.keys().map(String::as_str));
                    self.say(&[at[0], name, "index", &position], message);
                }
            }
        }
        for (key, message) in super::indexes::check(c) {
            let path = ["collections", name, "indexes"].into_iter().map(str::to_owned).chain(key).collect();
            self.problems.push(Problem { path, message });
        }
        for (field_name, field) in &c.fields {
            self.field(name, field_name, field);
        }
    }

    fn parents_loop(&self, start: &str) -> bool {
        let mut at = start;
        for _ in 0..self.study.collections.len() {
            match self.study.collections.get(at).and_then(|c| c.per.as_ref()) {
                Some(per) if per.parent == start => return true,
                Some(per) => at = &per.parent,
                None => return false,
            }
        }
        true
    }

    fn field(&mut self, collection: &str, name: &str, field: &Field) {
        match field.kind() {
            Field::Ref { collection: target, .. } if !self.study.collections.contains_key(target) => {
                let message = no_such("collection", target, self.study.collections.keys().map(String::as_str));
                self.say(&["collections", collection, "fields", name, "ref"], message);
            }
            Field::List { of, .. } => self.field(collection, name, of),
            Field::Any(all) => {
                for (_, inner) in all {
                    self.field(collection, name, inner);
                }
            }
            Field::Object(fields) => {
                for inner in fields.values() {
                    self.field(collection, name, inner);
                }
            }
            _ => {}
        }
    }

    fn phase(&mut self, position: usize, phase: &Phase) {
        let position = position.to_string();
        let at = |key: &str| ["phases".to_owned(), position.clone(), key.to_owned()];
        let mut say = |key: &str, message: String| {
            self.problems.push(Problem { path: at(key).to_vec(), message });
        };
        if phase.name.is_empty() || phase.name.chars().any(|c| !(c.is_ascii_alphanumeric() || "-_".contains(c))) {
            say("name", format!("invalid phase name `{}`; use letters, digits, - and _", phase.name));
        }
        let earlier = self.study.phases.iter().take_while(|p| !std::ptr::eq(*p, phase));
        if earlier.into_iter().any(|p| p.name == phase.name) {
            say("name", format!("two phases are called `{}`; give each its own name", phase.name));
        }
        let copies = phase.copy.is_some();
        if phase.kind().is_none() {
            let message = format!(
                "the phase `{}` needs `load`, `mix`, `trace`, `copy`, or one of `settle`, `compact` and `restart`",
                phase.name
            );
            say("name", message);
        }
        for (key, why) in super::kinds::unfit(phase) {
            say(key, why);
        }
        for (key, value, most) in [
            ("workers", phase.workers, 1_024),
            ("connections", phase.connections, 65_536),
            ("in_flight", phase.in_flight, 65_536),
        ] {
            if value == 0 || value > most {
                say(key, format!("{value} is out of range; use 1 to {most}"));
            }
        }
        let slots = u64::from(phase.workers) * u64::from(phase.connections) * u64::from(phase.in_flight);
        if slots > 1 << 20 {
            say("in_flight", format!("{slots} operations in flight over all workers; use at most {}", 1 << 20));
        }
        if phase.batch.is_some_and(|b| b == 0 || b > 1_000_000) {
            say("batch", "use 1 to 1,000,000 documents".into());
        }
        if phase.timeout.0.is_zero() {
            say("timeout", "a timeout of 0 fails every operation; use a longer one".into());
        }
        if phase.retry.tries == 0 {
            say("retry", "0 tries send nothing; use 1 for no retry".into());
        }
        if !(0.0..=1.0).contains(&phase.check) {
            say("check", format!("invalid share {}; use 0 to 1", phase.check));
        }
        if phase.ledger.is_kept() && phase.streams != Streams::Disjoint {
            say("ledger", "a ledger needs one writer for each key; add streams = \"disjoint\"".into());
        }
        if phase.ledger.share().is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            say("ledger", "use a share above 0 and at most 1".into());
        }
        if let Some(why) = super::followed::unfit(self.study, phase) {
            say("consistency_check", why);
        }
        if let Some(why) = untraced(self.study, phase) {
            say("trace", why);
        }
        if let Some(why) = changed_before(self.study, phase) {
            say("compare_answers", why);
        }
        if !phase.loads() && !phase.rests() && !copies && phase.trace.is_none() {
            match (phase.duration, phase.operations) {
                (Some(_), Some(_)) => say("operations", "give `duration` or `operations`, not both".into()),
                (None, None) => say("name", format!("the phase `{}` needs `duration` or `operations`", phase.name)),
                (Some(d), None) if d.0.is_zero() => say("duration", "a phase of 0 s measures nothing".into()),
                (None, Some(n)) if n.0 == 0 => say("operations", "0 operations measure nothing".into()),
                _ => {}
            }
        }
        match &phase.rate {
            Some(_) if phase.think.is_some() => {
                say("think", "`think` is for the closed loop; remove it or `rate`".into())
            }
            Some(RateSpec::Ramp(..)) if phase.duration.is_none() => {
                say("rate", "a ramp runs over the phase's `duration`; add one".into());
            }
            _ => {}
        }
        let names: Vec<&str> = self.study.collections.keys().map(String::as_str).collect();
        for collection in &phase.load {
            if !names.contains(&collection.as_str()) {
                say("load", no_such("collection", collection, names.iter().copied()));
            }
        }
        if let Some(collection) = &phase.collection
            && !names.contains(&collection.as_str())
        {
            say("collection", no_such("collection", collection, names.iter().copied()));
        }
        if phase.isolation.is_some() && !phase.has_transactions() {
            self.say(
                &["phases", &position, "isolation"],
                "`isolation` is for transactions; remove it, or add an operation with op = \"transaction\"",
            );
        }
        for operation in phase.operations_of_mix() {
            self.operation(&position, phase, operation);
        }
    }

    fn operation(&mut self, position: &str, phase: &Phase, operation: Operation<'_>) {
        let study = self.study;
        let Operation { name: label, entry, within } = operation;
        let at: Vec<&str> = match within {
            None => vec!["phases", position, "mix", label],
            Some((transaction, _)) => vec!["phases", position, "mix", transaction, "steps", label],
        };
        let with = |key: &'static str| -> Vec<&str> { at.iter().copied().chain([key]).collect() };
        if entry.single(label).is_none() {
            let message = match did_you_mean(label, OpKind::IN_MIX.iter().copied()) {
                Some(name) => format!("unknown operation `{label}`; did you mean `{name}`?"),
                None => format!("unknown operation `{label}`; name the operation: {label} = {{ op = \"read\", … }}"),
            };
            return self.say(&at, message);
        }
        let Some(kind) = entry.kind(label) else {
            return self.say(&at, "this operation has no bulk form; remove `batch`");
        };
        let Some(collection) = operation.collection(study, phase) else {
            return match &entry.collection {
                Some(name) => {
                    let message = no_such("collection", name, study.collections.keys().map(String::as_str));
                    self.say(&with("collection"), message);
                }
                None => self.say(&at, "the study has several collections; name one: collection = \"…\""),
            };
        };
        let c = &study.collections[collection];
        let needs = match kind {
            OpKind::Append | OpKind::Prepend => Some(Body::Bytes),
            OpKind::Counter => Some(Body::Counter),
            OpKind::Page | OpKind::MergePatch => Some(Body::Json),
            _ => None,
        };
        if let Some(body) = needs.filter(|b| *b != c.body) {
            self.say(
                &at,
                format!("`{kind}` needs a collection with body = \"{body}\", but `{collection}` has another body"),
            );
        }
        if matches!(kind, OpKind::Insert | OpKind::BulkInsert)
            && (c.from.is_some() || c.per.is_some() || c.trace.is_some())
        {
            self.say(
                &at,
                format!("`{collection}` cannot grow: its documents come from a file or a trace, or belong to parents; use upsert"),
            );
        }
        match (kind, &entry.field) {
            (OpKind::Page, None) => self.say(&at, "a page needs the indexed field: where = \"…\""),
            (OpKind::Page, Some(field))
                if c.existing.is_none() && !c.index.iter().any(|index| index.first() == Some(field)) =>
            {
                self.say(
                    &with("where"),
                    format!("`{field}` is not indexed; add index = [[\"{field}\"]] to collections.{collection}"),
                );
            }
            (OpKind::Page, Some(_)) => {}
            (OpKind::View, Some(_)) => {}
            (_, Some(_)) => self.say(&at, "`where` works only with page and view"),
            _ => {}
        }
        if entry.draw == Draw::Parents {
            let at = with("draw");
            if kind.inserts() {
                self.say(&at, format!("`draw` has no meaning for {kind}, which makes new documents; remove it"));
            } else if c.per.is_none() {
                self.say(
                    &at,
                    format!(
                        "`{collection}` has no parents to draw from; use a collection with `per`, or remove `draw`"
                    ),
                );
            } else if kind == OpKind::View && entry.field.is_none() {
                self.say(
                    &at,
                    "`draw` has no meaning for a view without `where`, which uses no document's value; remove it",
                );
            } else if phase.ledger.is_kept() && kind.writes() {
                self.say(
                    &at,
                    "with a ledger each key has one writer, which owns documents and not parents; remove `draw` or \
                     `ledger`",
                );
            }
        }
        for (key, given, allowed) in [
            (
                "limit",
                entry.limit.is_some(),
                matches!(kind, OpKind::Page | OpKind::Prefix | OpKind::Scan | OpKind::View),
            ),
            ("upto", entry.upto.is_some(), kind == OpKind::Prefix),
            ("size", entry.size.is_some(), matches!(kind, OpKind::Append | OpKind::Prepend)),
            ("delta", entry.delta.is_some(), kind == OpKind::Counter),
            ("expiry", entry.expiry.is_some(), kind == OpKind::Touch),
            ("view", entry.view.is_some(), kind == OpKind::View),
            ("keys", entry.keys.is_some(), kind == OpKind::View),
            ("start", entry.start.is_some(), kind == OpKind::View),
            ("end", entry.end.is_some(), kind == OpKind::View),
        ] {
            if given && !allowed {
                self.say(&with(key), format!("`{key}` has no meaning for {kind}"));
            }
        }
        for (key, value) in [("limit", entry.limit), ("batch", entry.batch)] {
            if value.is_some_and(|n| n == 0 || n > 1_000_000) {
                self.say(&with(key), "use 1 to 1,000,000");
            }
        }
        for (key, why) in super::queries::check(entry, kind, collection, c) {
            let path = at.iter().map(|part| (*part).to_owned()).chain(key).collect();
            self.problems.push(Problem { path, message: why });
        }
        for (key, why) in super::transactions::check(study, phase, operation, kind) {
            let path = at.iter().map(|part| (*part).to_owned()).chain(key).collect();
            self.problems.push(Problem { path, message: why });
        }
        if kind == OpKind::View && entry.view.is_none() {
            self.say(&at, "a view query needs view = \"design/view\"");
        }
        let range = entry.start.is_some() || entry.end.is_some();
        let ways = usize::from(entry.field.is_some()) + usize::from(entry.keys.is_some()) + usize::from(range);
        if kind == OpKind::View && ways > 1 {
            self.say(&at, "select the rows of the view in one way: by `where`, by `keys`, or by `start` and `end`");
        }
        if phase.consistency_check.is_done()
            && kind.writes()
            && (!super::followed::is_followed(kind) || c.body == Body::Counter)
        {
            self.say(&at, format!("the consistency check follows reads, upserts, replaces, compare-and-swaps and deletes of single documents outside of transactions; it does not know what {kind} leaves in `{collection}`; remove it or `consistency_check`"));
        }
        // The steps of a transaction are followed one by one.
        let follows = ledger_follows(kind) && c.body != Body::Counter || kind == OpKind::Transaction;
        if phase.ledger.is_kept() && kind.writes() && !follows {
            self.say(&at, format!("the ledger follows inserts, upserts, replaces, compare-and-swaps and deletes of documents, single and in bulk; it cannot check what {kind} leaves in `{collection}`"));
        }
    }
}

/// Why the trace of a phase does not fit its collection.
fn untraced(study: &Study, phase: &Phase) -> Option<String> {
    let trace = phase.trace.as_ref()?;
    let shown = trace.display();
    let Some(name) = collection_named(study, phase.collection.as_ref()) else {
        return Some("the study has several collections; name the one of the trace: collection = \"…\"".into());
    };
    let collection = &study.collections[name];
    match &collection.trace {
        Some(same) if same == trace => None,
        Some(other) => {
            Some(format!("the documents of `{name}` have the keys of {}; use the same trace for both", other.display()))
        }
        None => Some(format!(
            "`{name}` needs the keys of the trace: write trace = \"{shown}\" in collections.{name}, instead of `count`"
        )),
    }
}

/// Why the answers of a phase cannot be compared between stores: each store holds other documents by then.
fn changed_before(study: &Study, phase: &Phase) -> Option<String> {
    let mut before = study.phases.iter().take_while(|earlier| earlier.name != phase.name);
    let writes = |earlier: &&Phase| earlier.trace.is_some() || earlier.operations_of_mix().any(|of| of.writes());
    let changing = before.find(writes);
    let changing = changing.filter(|_| phase.compare_answers)?;
    Some(format!(
        "each store may hold other documents after `{}`; set compare_answers in that phase or before it only",
        changing.name
    ))
}

/// Whether a ledger knows what a write leaves: one version of one document, or none.
fn ledger_follows(kind: OpKind) -> bool {
    use OpKind::{BulkDelete, BulkInsert, BulkUpsert, CompareAndSwap, Delete, Insert, Replace, Upsert};
    matches!(kind, Insert | BulkInsert | Upsert | BulkUpsert | Replace | CompareAndSwap | Delete | BulkDelete)
}

/// Whether phases of a study do one of these operations to a collection, single or in bulk.
pub fn does(study: &Study, phases: &[Phase], ops: &[OpKind], collection: &str) -> bool {
    phases.iter().any(|phase| {
        phase.operations_of_mix().any(|of| {
            of.single().is_some_and(|op| ops.contains(&op)) && of.collection(study, phase) == Some(collection)
        })
    })
}

/// The collection that an entry of a mix works on, if it is unambiguous.
pub fn collection_of<'a>(study: &'a Study, phase: &'a Phase, label: &str) -> Option<&'a str> {
    collection_named(study, phase.mix.get(label).and_then(|e| e.collection.as_ref()).or(phase.collection.as_ref()))
}

/// The collection of this name; without a name, the study's only collection.
pub(super) fn collection_named<'a>(study: &'a Study, named: Option<&'a String>) -> Option<&'a str> {
    match named {
        Some(name) => study.collections.get_key_value(name).map(|(name, _)| name.as_str()),
        None if study.collections.len() == 1 => study.collections.keys().next().map(String::as_str),
        None => None,
    }
}
