//! Checks a study beyond its types: references exist, mixes make sense.

use strsim::damerau_levenshtein;

use super::collections::Body;
use super::factors::Database;
use super::fields::Field;
use super::mix::Draw;
use super::phases::{Phase, RateSpec, Streams};
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

/// Takes the problems of one part of a study.
pub(super) struct Problems<'a> {
    pub(super) found: &'a mut Vec<Problem>,
    /// The keys of the part, from the root.
    path: Vec<String>,
}

impl Problems<'_> {
    /// Adds a problem at these keys of the part.
    pub(super) fn say(&mut self, keys: &[&str], message: impl Into<String>) {
        let path = self.within(keys).path;
        self.found.push(Problem { path, message: message.into() });
    }

    /// Takes the problems of a part of this part.
    pub(super) fn within(&mut self, keys: &[&str]) -> Problems<'_> {
        let keys = keys.iter().map(|key| (*key).to_owned());
        Problems { path: self.path.iter().cloned().chain(keys).collect(), found: self.found }
    }
}

/// Collects the problems that a check finds.
pub(super) fn problems_of(check: impl FnOnce(&mut Problems<'_>)) -> Vec<Problem> {
    let mut found = Vec::new();
    check(&mut Problems { found: &mut found, path: Vec::new() });
    found
}

/// Finds all problems, roughly in the order of the file.
pub(crate) fn check(study: &Study) -> Vec<Problem> {
    problems_of(|problems| {
        for (key, parts) in [("collections", study.collections.len()), ("phases", study.phases.len())] {
            if parts > MOST_PARTS {
                problems.say(&[key], format!("a study has at most {MOST_PARTS} {key}, not {parts}"));
            }
        }
        if !problems.found.is_empty() {
            return;
        }
        root(study, problems);
        for name in study.collections.keys() {
            collection(study, name, &mut problems.within(&["collections", name]));
        }
        for (position, of) in study.phases.iter().enumerate() {
            phase(study, of, &mut problems.within(&["phases", &position.to_string()]));
        }
        super::existing::check(study, problems);
        for (position, claim) in study.published.iter().enumerate() {
            claim.check(&mut problems.within(&["published", &position.to_string()]));
        }
        super::copies::check(study, problems);
        super::hosts::check(study, problems);
        super::servers::check(study, problems);
        super::faults::check(study, problems);
        super::factors::check(study, problems);
        super::limits::check(study, problems);
        super::presets::check(study, problems);
    })
}

fn root(study: &Study, problems: &mut Problems<'_>) {
    if study.collections.is_empty() {
        problems.say(&["collections"], "a study needs at least one collection: [collections.NAME]");
    }
    if study.phases.is_empty() {
        problems.say(&["phases"], "a study needs at least one phase: [[phases]]");
    }
    if study.database == Database::Kept {
        for (position, phase) in study.phases.iter().enumerate() {
            use OpKind::{Append, Counter, Delete, Insert, Prepend, Touch};
            let changes = [Insert, Delete, Append, Prepend, Counter, Touch];
            if phase.operations_of_mix().any(|of| of.single().is_some_and(|op| changes.contains(&op))) {
                problems.say(
                    &["phases", &position.to_string(), "mix"],
                    "with database = \"kept\" other trials measure what this phase leaves, so it may only read, upsert, \
                     replace and merge; remove the other operations, or use database = \"fresh\"",
                );
            }
        }
        let mut entries = study.phases.iter().flat_map(Phase::operations_of_mix);
        let writes = entries.any(|of| of.writes());
        for (position, phase) in study.phases.iter().enumerate().filter(|_| writes) {
            for name in phase.mix.iter().filter(|(_, entry)| entry.same_on.is_some()).map(|(name, _)| name) {
                problems.say(
                    &["phases", &position.to_string(), "mix", name, "same_on"],
                    "with database = \"kept\" earlier trials may have changed the documents, so answers cannot be \
                     compared; remove `same_on` or the writes, or use database = \"fresh\"",
                );
            }
        }
    }
    if let Some(problem) = study.repeats.problem() {
        problems.say(&["repeats"], problem);
    }
    if study.control && study.stores.0.keys().any(|name| name.ends_with(" (control)")) {
        problems.say(&["stores"], "with `control`, a name must not end with ` (control)`; use another one");
    }
    if study.data_to_memory.is_some_and(|share| !(share.is_finite() && share > 0.0)) {
        problems.say(&["data_to_memory"], "use a ratio of documents to memory above 0, such as 4.5");
    }
    if study.seed > 1 << 53 {
        problems.say(&["seed"], "use a seed of at most 2^53");
    }
}

fn collection_names(study: &Study) -> impl Iterator<Item = &str> + Clone {
    study.collections.keys().map(String::as_str)
}

fn collection(study: &Study, name: &str, at: &mut Problems<'_>) {
    let c = &study.collections[name];
    let well_formed = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= 60
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !well_formed {
        at.say(&[], "a collection's name must begin with a letter and have at most 60 letters, digits, - and _");
    }
    if name.starts_with("storebench") {
        at.say(&[], "names that begin with `storebench` are reserved for its own tables");
    }
    match (&c.from, &c.per, c.count) {
        (Some(_), Some(_), _) => at.say(&["per"], "`from` and `per` exclude each other"),
        (None, Some(_), Some(_)) => {
            at.say(&["count"], "with `per` the relation decides how many documents there are; remove `count`");
        }
        (None, None, None) if c.existing.is_none() && c.trace.is_none() => at.say(
            &[],
            "it needs `count`, `per`, `from` or `trace`, or `existing` for documents that are already in the store",
        ),
        _ => {}
    }
    if c.count.is_some_and(|n| n.0 == 0) {
        at.say(&["count"], "0 documents leave nothing to do; use 1 or more");
    }
    if c.count.is_some_and(|n| n.0 > 1 << 53) {
        at.say(&["count"], "more than 2^53 documents cannot be numbered exactly in JSON");
    }
    if c.from.is_some() {
        for key in c.given(&["fields", "size", "compress_to", "text_file"]) {
            at.say(&[key], format!("`{key}` describes generated documents, but with `from` they are yours; remove it"));
        }
    }
    if c.from.is_none() && !c.without.is_empty() {
        at.say(&["without"], "`without` leaves members out of the documents of `from`; remove it");
    }
    if c.body != Body::Json {
        for key in c.given(&["fields", "index", "from"]) {
            at.say(&[key], format!("`{key}` needs body = \"json\""));
        }
    }
    if let Some(share) = c.compress_to
        && !(share.is_finite() && share > 0.0 && share < 1.0)
    {
        at.say(&["compress_to"], format!("invalid share {share}; use above 0 and below 1, such as 0.4"));
    }
    if let Some(per) = &c.per {
        if !study.collections.contains_key(&per.parent) {
            at.say(&["per", &per.parent], no_such("collection", &per.parent, collection_names(study)));
        } else if parents_loop(study, name) {
            at.say(&["per"], "the `per` relations of these collections form a cycle; remove one of them");
        }
    }
    for (position, fields) in c.index.iter().enumerate() {
        let position = position.to_string();
        if fields.is_empty() {
            at.say(&["index", &position], "an index needs at least one field");
        }
        for (nth, field) in fields.iter().enumerate() {
            if fields[..nth].contains(field) {
                at.say(&["index", &position], format!("names `{field}` twice; name it once"));
            }
            if field.contains('\0') {
                at.say(&["index", &position], "an index cannot have a field with U+0000 in its name; leave it out");
            } else if c.from.is_none() && c.existing.is_none() && !c.fields.contains_key(field) {
                at.say(&["index", &position], no_such("field", field, c.fields.keys().map(String::as_str)));
            }
        }
    }
    super::indexes::check(c, &mut at.within(&["indexes"]));
    for (name, of) in &c.fields {
        field(study, of, &mut at.within(&["fields", name]));
    }
}

fn parents_loop(study: &Study, start: &str) -> bool {
    let mut at = start;
    for _ in 0..study.collections.len() {
        match study.collections.get(at).and_then(|c| c.per.as_ref()) {
            Some(per) if per.parent == start => return true,
            Some(per) => at = &per.parent,
            None => return false,
        }
    }
    true
}

fn field(study: &Study, of: &Field, at: &mut Problems<'_>) {
    match of.kind() {
        Field::Ref { collection, .. } if !study.collections.contains_key(collection) => {
            at.say(&["ref"], no_such("collection", collection, collection_names(study)));
        }
        Field::List { of, .. } => field(study, of, at),
        Field::Any(all) => all.iter().for_each(|(_, inner)| field(study, inner, at)),
        Field::Object(fields) => fields.values().for_each(|inner| field(study, inner, at)),
        _ => {}
    }
}

fn phase(study: &Study, phase: &Phase, at: &mut Problems<'_>) {
    let mut say = |key: &str, message: String| at.say(&[key], message);
    if phase.name.is_empty() || phase.name.chars().any(|c| !(c.is_ascii_alphanumeric() || "-_".contains(c))) {
        say("name", format!("invalid phase name `{}`; use letters, digits, - and _", phase.name));
    }
    let earlier = study.phases.iter().take_while(|p| !std::ptr::eq(*p, phase));
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
    if let Some(why) = super::followed::unfit(study, phase) {
        say("consistency_check", why);
    }
    if let Some(why) = untraced(study, phase) {
        say("trace", why);
    }
    if let Some(why) = changed_before(study, phase) {
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
        Some(_) if phase.think.is_some() => say("think", "`think` is for the closed loop; remove it or `rate`".into()),
        Some(RateSpec::Ramp(..)) if phase.duration.is_none() => {
            say("rate", "a ramp runs over the phase's `duration`; add one".into());
        }
        _ => {}
    }
    for (position, collection) in phase.load.iter().enumerate() {
        if !study.collections.contains_key(collection) {
            say("load", no_such("collection", collection, collection_names(study)));
        } else if phase.load[..position].contains(collection) {
            say("load", format!("`{collection}` is named twice; name each collection once"));
        }
    }
    if let Some(collection) = &phase.collection
        && !study.collections.contains_key(collection)
    {
        say("collection", no_such("collection", collection, collection_names(study)));
    }
    if phase.isolation.is_some() && !phase.has_transactions_on(None) {
        let why = "`isolation` is for transactions; remove it, or add an operation with op = \"transaction\"";
        say("isolation", why.into());
    }
    for of in phase.operations_of_mix() {
        operation(study, phase, of, at);
    }
}

fn operation(study: &Study, phase: &Phase, operation: Operation<'_>, problems: &mut Problems<'_>) {
    let Operation { name: label, entry, .. } = operation;
    let mut at = operation.place(problems);
    if entry.single(label).is_none() {
        let message = match did_you_mean(label, OpKind::IN_MIX.iter().copied()) {
            Some(name) => format!("unknown operation `{label}`; did you mean `{name}`?"),
            None => format!("unknown operation `{label}`; name the operation: {label} = {{ op = \"read\", … }}"),
        };
        return at.say(&[], message);
    }
    let Some(kind) = entry.kind(label) else {
        return at.say(&[], "this operation has no bulk form; remove `batch`");
    };
    let Some(collection) = operation.collection(study, phase) else {
        return match &entry.collection {
            Some(name) => at.say(&["collection"], no_such("collection", name, collection_names(study))),
            None => at.say(&[], "the study has several collections; name one: collection = \"…\""),
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
        at.say(&[], format!("`{kind}` needs a collection with body = \"{body}\", but `{collection}` has another body"));
    }
    if matches!(kind, OpKind::Insert | OpKind::BulkInsert) && (c.from.is_some() || c.per.is_some() || c.trace.is_some())
    {
        at.say(&[], format!("`{collection}` cannot grow: its documents come from a file or a trace, or belong to parents; use upsert"));
    }
    match (kind, &entry.field) {
        (OpKind::Page, None) => at.say(&[], "a page needs the indexed field: where = \"…\""),
        (OpKind::Page, Some(field))
            if c.existing.is_none() && !c.index.iter().any(|index| index.first() == Some(field)) =>
        {
            at.say(
                &["where"],
                format!("`{field}` is not indexed; add index = [[\"{field}\"]] to collections.{collection}"),
            );
        }
        (OpKind::Page | OpKind::View, Some(_)) => {}
        (_, Some(_)) => at.say(&[], "`where` works only with page and view"),
        _ => {}
    }
    if entry.draw == Draw::Parents {
        if kind.inserts() {
            at.say(&["draw"], format!("`draw` has no meaning for {kind}, which makes new documents; remove it"));
        } else if c.per.is_none() {
            at.say(
                &["draw"],
                format!("`{collection}` has no parents to draw from; use a collection with `per`, or remove `draw`"),
            );
        } else if kind == OpKind::View && entry.field.is_none() {
            at.say(
                &["draw"],
                "`draw` has no meaning for a view without `where`, which uses no document's value; remove it",
            );
        } else if phase.ledger.is_kept() && kind.writes() {
            at.say(
                &["draw"],
                "with a ledger each key has one writer, which owns documents and not parents; remove `draw` or \
                 `ledger`",
            );
        }
    }
    for (key, given, allowed) in [
        ("limit", entry.limit.is_some(), matches!(kind, OpKind::Page | OpKind::Prefix | OpKind::Scan | OpKind::View)),
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
            at.say(&[key], format!("`{key}` has no meaning for {kind}"));
        }
    }
    for (key, value) in [("limit", entry.limit), ("batch", entry.batch)] {
        if value.is_some_and(|n| n == 0 || n > 1_000_000) {
            at.say(&[key], "use 1 to 1,000,000");
        }
    }
    super::queries::check(entry, kind, collection, c, &mut at);
    super::transactions::check(study, phase, operation, kind, &mut at);
    if kind == OpKind::View && entry.view.is_none() {
        at.say(&[], "a view query needs view = \"design/view\"");
    }
    let range = entry.start.is_some() || entry.end.is_some();
    let ways = usize::from(entry.field.is_some()) + usize::from(entry.keys.is_some()) + usize::from(range);
    if kind == OpKind::View && ways > 1 {
        at.say(&[], "select the rows of the view in one way: by `where`, by `keys`, or by `start` and `end`");
    }
    if phase.consistency_check.is_done()
        && kind.writes()
        && (!super::followed::is_followed(kind) || c.body == Body::Counter)
    {
        at.say(&[], format!("the consistency check follows reads, upserts, replaces, compare-and-swaps and deletes of single documents outside of transactions; it does not know what {kind} leaves in `{collection}`; remove it or `consistency_check`"));
    }
    // The steps of a transaction are followed one by one.
    let follows = ledger_follows(kind) && c.body != Body::Counter || kind == OpKind::Transaction;
    if phase.ledger.is_kept() && kind.writes() && !follows {
        at.say(&[], format!("the ledger follows inserts, upserts, replaces, compare-and-swaps and deletes of documents, single and in bulk; it cannot check what {kind} leaves in `{collection}`"));
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
