//! Compiles the collections of a study to plans. Counts and relations come first, then fields, then calibration,
//! because each step needs the one before.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use super::bounds;
use super::calibrate;
use super::catalog::{CatalogOptions, FileFacts, Frozen, FrozenCollection};
use super::corpus::Corpus;
use super::error::{DocumentError, suggest};
use super::escape::escaped;
use super::fields;
use super::own::{OwnFile, Source};
use super::plan::{Part, Plan, Segment};
use super::random::seed_of;
use super::relation::{Parents, Relation};
use super::size::Sizes;
use super::template::{self, Piece};
use super::trace::Trace;
use storebench_study::units::{ByteSize, Count, Range};
use storebench_study::workload::{Body, Collection, Field, Size};

/// What is known about all collections while one is compiled.
pub(crate) struct Context<'a> {
    pub(crate) collections: &'a IndexMap<String, Collection>,
    pub(crate) plans: &'a [Plan],
}

pub(crate) fn compile(
    collections: &IndexMap<String, Collection>,
    options: &CatalogOptions<'_>,
) -> Result<(Vec<Plan>, Frozen), DocumentError> {
    if !(options.scale.is_finite() && options.scale > 0.0) {
        return Err(DocumentError::new("scale", format!("the scale is {}; use a number above 0", options.scale)));
    }
    for (name, collection) in collections {
        refuse_contradictions(collection, &format!("collections.{name}"))?;
    }
    let traces = traces(collections, options)?;
    let sized = with_recorded_sizes(collections, &traces);
    let collections = sized.as_ref().unwrap_or(collections);
    let mut plans: Vec<Plan> =
        collections.iter().map(|(name, c)| empty_plan(name, c, seed_of(name, options.seed))).collect();
    for (plan, trace) in plans.iter_mut().zip(&traces) {
        plan.trace.clone_from(trace);
    }
    let mut written = vec![0; plans.len()];
    for position in by_parent(collections)? {
        count_documents(collections, position, &mut plans, &mut written, options)?;
    }
    let mut corpora = Corpora { seed: options.seed, base: options.base_dir, made: HashMap::new() };
    for position in 0..plans.len() {
        let (name, collection) = collections.get_index(position).expect("one plan for each collection");
        let path = format!("collections.{name}");
        if collection.from.is_some() || collection.existing.is_some() {
            continue;
        }
        let context = Context { collections, plans: &plans };
        let made = fields::compile(&context, position, &path)?;
        let sizes =
            collection.size.as_ref().map(|s| Sizes::new(s, options.base_dir, &format!("{path}.size"))).transpose()?;
        let corpus = made.needs_text.then(|| corpora.get(collection, &path)).transpose()?;
        let recorded = traces[position].as_ref().and_then(Sizes::recorded);
        let sizes = match recorded.filter(|_| is_recorded(collection)) {
            Some(recorded) => Some(recorded),
            None => sizes,
        };
        let plan = &mut plans[position];
        plan.fills = made.segments.iter().filter(|s| matches!(s, Segment::Fill(_))).count() as u64;
        plan.fixed_tail = fixed_tail(&made.segments);
        (plan.segments, plan.slots, plan.key) = (made.segments, made.slots, made.key);
        plan.key_plain = plan.key.iter().all(never_escaped);
        (plan.related, plan.key_related) = (made.related, made.key_related);
        (plan.sizes, plan.corpus) = (sizes, corpus);
    }
    bounds::bound_all(&mut plans)?;

    let mut frozen = Frozen::default();
    for position in 0..plans.len() {
        let (name, collection) = collections.get_index(position).expect("one plan for each collection");
        let found = freeze(collection, &mut plans, position, &format!("collections.{name}"))?;
        frozen.collections.insert(name.clone(), found);
    }
    Ok((plans, frozen))
}

/// The traces of the collections that have one. A file is read once.
fn traces(
    collections: &IndexMap<String, Collection>,
    options: &CatalogOptions<'_>,
) -> Result<Vec<Option<Arc<Trace>>>, DocumentError> {
    let mut read: HashMap<&Path, Arc<Trace>> = HashMap::new();
    let mut all = Vec::with_capacity(collections.len());
    for (name, collection) in collections {
        let Some(file) = &collection.trace else {
            all.push(None);
            continue;
        };
        let trace = match read.get(file.as_path()) {
            Some(trace) => Arc::clone(trace),
            None => Trace::read(&options.base_dir.join(file), &format!("collections.{name}.trace"))?,
        };
        read.insert(file, Arc::clone(&trace));
        all.push(Some(trace));
    }
    Ok(all)
}

/// Whether the sizes of a collection are those of its trace: the study gives none. This is its place holder then.
fn is_recorded(collection: &Collection) -> bool {
    collection.trace.is_some() && collection.size == Some(RECORDED)
}

/// A size that no study can give, because it is smaller than any document.
const RECORDED: Size = Size::Uniform(Range { min: ByteSize(0), max: ByteSize(0) });

/// The collections, where those with a trace that has sizes have a size.
fn with_recorded_sizes(
    collections: &IndexMap<String, Collection>,
    traces: &[Option<Arc<Trace>>],
) -> Option<IndexMap<String, Collection>> {
    let sized = |trace: &Option<Arc<Trace>>| trace.as_ref().is_some_and(|trace| trace.sizes().is_some());
    if !traces.iter().any(sized) {
        return None;
    }
    let mut all = collections.clone();
    for (collection, trace) in all.values_mut().zip(traces) {
        if collection.size.is_none() && collection.existing.is_none() && sized(trace) {
            collection.size = Some(RECORDED);
        }
    }
    Some(all)
}

/// Calibrates, and gathers what compiling found.
fn freeze(
    collection: &Collection,
    plans: &mut [Plan],
    position: usize,
    path: &str,
) -> Result<FrozenCollection, DocumentError> {
    let calibration = match collection.compress_to {
        Some(target) => Some(calibrate::calibrate(plans, position, target, &format!("{path}.compress_to"))?),
        None => None,
    };
    let plan = &plans[position];
    let text = plan.corpus.as_ref().filter(|_| collection.text_file.is_some());
    Ok(FrozenCollection {
        count: plan.count,
        calibration,
        sizes: match &plan.sizes {
            Some(Sizes::Quantiles(all)) => all.clone(),
            _ => Vec::new(),
        },
        text: text.map(|corpus| FileFacts::new(corpus.bytes(), 0, corpus.hash())),
        from: plan.own.as_ref().map(|own| FileFacts::new(own.bytes, own.skipped, own.hash)),
        trace: plan.trace.as_ref().map(|trace| trace.facts().clone()),
    })
}

pub(crate) fn empty_plan(name: &str, collection: &Collection, seed: u64) -> Plan {
    let (body, existing) = (collection.body, collection.existing.is_some());
    Plan { name: name.to_owned(), seed, body, existing, ..Plan::default() }
}

/// Rejects options that exclude each other.
fn refuse_contradictions(collection: &Collection, path: &str) -> Result<(), DocumentError> {
    let refuse = |keys: &[&str], reason: &str| match collection.given(keys).next() {
        Some(key) => Err(DocumentError::new(format!("{path}.{key}"), format!("`{key}` {reason}"))),
        None => Ok(()),
    };
    if collection.trace.is_some() {
        refuse(
            &["count", "key", "per", "from"],
            "cannot be combined with `trace`, which has the keys of the documents; remove one of the two",
        )?;
        if collection.body == Body::Counter {
            return Err(DocumentError::new(format!("{path}.body"), "a trace has no counters; remove `body`"));
        }
    }
    if collection.existing.is_some() {
        return refuse(
            &["count", "fields", "size", "compress_to", "text_file", "per", "index"],
            "cannot be combined with `existing`, because those documents exist and nothing is written; remove it",
        );
    }
    if collection.from.is_some() {
        refuse(
            &["fields", "size", "compress_to", "text_file", "per"],
            "cannot be combined with `from`, which uses the documents of the file unchanged; remove one of the two",
        )?;
        if collection.body != Body::Json {
            return Err(DocumentError::new(format!("{path}.body"), "documents of `from` are JSON; remove `body`"));
        }
        return Ok(());
    }
    if collection.per.is_some() {
        refuse(&["count"], "cannot be combined with `per`, which decides how many documents there are; remove it")?;
    } else if collection.count.is_none() && collection.trace.is_none() {
        return Err(DocumentError::new(
            path,
            "the number of documents is missing; add `count = 100_000`, `per = { parent = 3 }` or `from = \"file.jsonl\"`",
        ));
    }
    if collection.count.is_some_and(|c| c.0 == 0 || c.0 >= 1 << 53) {
        return Err(DocumentError::new(format!("{path}.count"), "use a count from 1 to 2^53"));
    }
    match collection.body {
        Body::Json => {}
        Body::Bytes => {
            refuse(&["fields", "index"], "cannot be combined with `body = \"bytes\"`, which has no fields")?;
            if collection.size.is_none() {
                return Err(DocumentError::new(path, "`body = \"bytes\"` needs a size, such as `size = \"1KiB\"`"));
            }
        }
        Body::Counter => refuse(
            &["fields", "size", "compress_to", "text_file", "index"],
            "cannot be combined with `body = \"counter\"`, which is one integer",
        )?,
    }
    if let Some(target) = collection.compress_to
        && !(target.is_finite() && target > 0.0 && target <= 1.0)
    {
        return Err(DocumentError::new(
            format!("{path}.compress_to"),
            format!(
                "invalid share {target}; use the share of the bytes that remain, above 0 and at most 1, such as 0.4"
            ),
        ));
    }
    Ok(())
}

/// Positions of the collections, parents before their children.
fn by_parent(collections: &IndexMap<String, Collection>) -> Result<Vec<usize>, DocumentError> {
    let mut order = Vec::new();
    for (name, collection) in collections {
        let mut chain = Vec::new();
        let (mut name, mut collection) = (name, collection);
        loop {
            let position = collections.get_index_of(name).expect("the name comes from the map");
            if order.contains(&position) {
                break;
            }
            if chain.contains(&position) {
                return Err(DocumentError::new(
                    format!("collections.{name}.per"),
                    format!("`{name}` is its own ancestor; give one of its parents a `count`"),
                ));
            }
            chain.push(position);
            let Some(per) = &collection.per else { break };
            (name, collection) = collections.get_key_value(&per.parent).ok_or_else(|| {
                let others = collections.keys().map(String::as_str).filter(|n| n != name);
                DocumentError::new(
                    format!("collections.{name}.per"),
                    format!("unknown collection `{}`{}", per.parent, suggest(&per.parent, others)),
                )
            })?;
        }
        order.extend(chain.into_iter().rev());
    }
    Ok(order)
}

/// Sets the number of documents of a collection. Also sets `written`, the number at scale 1, which relations to it use.
fn count_documents(
    collections: &IndexMap<String, Collection>,
    position: usize,
    plans: &mut [Plan],
    written: &mut [u64],
    options: &CatalogOptions<'_>,
) -> Result<(), DocumentError> {
    let (name, collection) = collections.get_index(position).expect("one plan for each collection");
    let path = format!("collections.{name}");
    let scaled = |count: u64| ((count as f64 * options.scale).round() as u64).max(1);
    if let Some(trace) = &plans[position].trace {
        let count = trace.keys_before();
        (plans[position].count, written[position]) = (count, count);
        return Ok(());
    }
    if collection.existing.is_some() {
        return Ok(());
    }
    if let Some(file) = &collection.from {
        written[position] = read_own(file, collection, name, &mut plans[position], options)?;
        return Ok(());
    }
    if let Some(per) = &collection.per {
        let parent = collections.get_index_of(&per.parent).expect("parents were found before");
        let path = format!("{path}.per");
        let parents = Parents {
            collection: parent,
            count: plans[parent].count,
            written: written[parent],
            seed: plans[parent].seed,
        };
        let relation = Relation::new(&per.fan_out, parents, &path)?;
        let is_parent = collections.values().filter_map(|c| c.per.as_ref()).any(|per| per.parent == *name);
        written[position] = if parents.count == parents.written || !is_parent {
            relation.children
        } else {
            Relation::new(&per.fan_out, Parents { count: parents.written, ..parents }, &path)?.children
        };
        if relation.children == 0 {
            return Err(DocumentError::new(
                path,
                "no parent has a child, so there are no documents; raise the fan-out or the scale",
            ));
        }
        plans[position].count = relation.children;
        plans[position].relation = Some(relation);
    } else if let Some(count) = collection.count {
        plans[position].count = scaled(count.0);
        written[position] = count.0;
        if plans[position].count > 1 << 53 {
            return Err(DocumentError::new(
                format!("{path}.count"),
                "the count times the scale is more than 2^53; lower one of them",
            ));
        }
    }
    Ok(())
}

/// Returns the number of documents at scale 1.
fn read_own(
    file: &Path,
    collection: &Collection,
    name: &str,
    plan: &mut Plan,
    options: &CatalogOptions<'_>,
) -> Result<u64, DocumentError> {
    let path = format!("collections.{name}");
    let key_path = format!("{path}.key");
    for piece in template::parse(&key_template(collection), &key_path)? {
        plan.key.push(match piece {
            Piece::Literal(text) => Part::Literal(escaped(&text)),
            Piece::Name { name: built_in, width } => match built_in.as_str() {
                "index" => Part::Index(width),
                "collection" => Part::Literal(escaped(name)),
                "uuid" => Part::Uuid,
                "seq" | "parent" | "parent.key" => {
                    return Err(DocumentError::new(
                        key_path,
                        format!(
                            "`{{{built_in}}}` needs `per`, which cannot be combined with `from`; use a field of the file"
                        ),
                    ));
                }
                _ if width > 0 => {
                    return Err(DocumentError::new(
                        key_path,
                        format!("`{{{built_in}}}` is a field of the file, which cannot be padded; remove the width"),
                    ));
                }
                _ => Part::Own(built_in),
            },
        });
    }
    let wanted = collection.count.map(|c| c.0);
    let source = Source {
        name,
        seed: plan.seed,
        file: options.base_dir.join(file),
        path: &format!("{path}.from"),
        key: &plan.key,
        // A scale below 1 takes the first part of the file; a scale above 1 cannot add to it.
        count: wanted.map(|count| ((count as f64 * options.scale.min(1.0)).round() as u64).max(1)),
        bad_lines: collection.bad_lines,
        without: &collection.without,
        scratch: options.scratch_dir,
    };
    let mut own = OwnFile::scan(&source)?;
    if let Some(wanted) = source.count.filter(|wanted| *wanted > own.count) {
        return Err(DocumentError::new(
            format!("{path}.count"),
            format!(
                "is {} but {} holds {} documents; lower it, or remove it to take all of them",
                Count(wanted),
                source.file.display(),
                Count(own.count)
            ),
        ));
    }
    let written = wanted.unwrap_or(own.count);
    if wanted.is_none() && options.scale < 1.0 {
        own.count = ((own.count as f64 * options.scale).round() as u64).max(1);
    }
    plan.count = own.count;
    plan.own = Some(own);
    Ok(written)
}

/// The key template as written, or the default.
pub(crate) fn key_template(collection: &Collection) -> String {
    collection.key.clone().unwrap_or_else(|| "{collection}/{index}".to_owned())
}

/// The name of a part in the template; `None` for literal text.
pub(crate) fn part_name<'a>(plan: &'a Plan, part: &'a Part) -> Option<&'a str> {
    match part {
        Part::Literal(_) => None,
        Part::Index(_) => Some("index"),
        Part::Seq(_) => Some("seq"),
        Part::Parent(_) => Some("parent"),
        Part::ParentKey => Some("parent.key"),
        Part::Uuid => Some("uuid"),
        Part::Slot { slot, .. } => Some(&plan.slots[*slot].path),
        Part::Own(path) => Some(path),
    }
}

/// Whether a part of a key never needs escaping.
fn never_escaped(part: &Part) -> bool {
    match part {
        Part::Literal(text) => !text.contains(&b'\\'),
        Part::Index(_) | Part::Seq(_) | Part::Parent(_) | Part::Uuid => true,
        Part::ParentKey | Part::Slot { .. } | Part::Own(_) => false,
    }
}

/// Bytes after the first fill, if they are the same for every document.
fn fixed_tail(segments: &[Segment]) -> Option<usize> {
    let first = segments.iter().position(|s| matches!(s, Segment::Fill(_)))?;
    segments[first..].iter().try_fold(0, |sum, segment| match segment {
        Segment::Literal(text) => Some(sum + text.len()),
        Segment::Fill(_) => Some(sum),
        _ => None,
    })
}

/// Texts, each read or generated once.
struct Corpora<'a> {
    seed: u64,
    base: &'a Path,
    made: HashMap<Option<PathBuf>, Arc<Corpus>>,
}

impl Corpora<'_> {
    fn get(&mut self, collection: &Collection, path: &str) -> Result<Arc<Corpus>, DocumentError> {
        let file = collection.text_file.as_ref().map(|file| self.base.join(file));
        if let Some(corpus) = self.made.get(&file) {
            return Ok(Arc::clone(corpus));
        }
        let corpus = Arc::new(match &file {
            Some(file) => Corpus::file(file, &format!("{path}.text_file"), self.seed)?,
            None => Corpus::sentences(self.seed),
        });
        self.made.insert(file, Arc::clone(&corpus));
        Ok(corpus)
    }
}

/// Whether a field is text that changes with the version.
pub(crate) fn is_text(field: &Field) -> bool {
    matches!(
        field,
        Field::Words(_) | Field::Sentences(_) | Field::Lines(_) | Field::Fill | Field::Text(_) | Field::Bytes(_)
    )
}
