//! A study as it will run on one store. What the store cannot do is refused at once, or left out and named.

use std::fmt;

use storebench_documents::{Catalog, Documents, json};
use storebench_study::workload::{Body, Collection, CopyDirection, MixEntry, Phase, Study};

use super::indexes::OwnIndex;
use super::plan::ResolvedPhase;
use crate::store::{Capabilities, OpKind, RowsKind, StoreError};

/// What happens to the parts of a study that a store does not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unsupported {
    /// The study is refused.
    #[default]
    Refuse,
    /// They are left out on this store, and the result names them.
    LeaveOut,
}

/// A part of a study that a store does not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The part.
    pub part: StudyPart,
    /// Why, after the words "this store": `does not support …`.
    pub why: String,
}

impl Lack {
    pub(super) fn refusal(&self) -> StoreError {
        StoreError::NotSupported(format!("{}: this store {}", self.part, self.why))
    }
}

/// A part of a study that can be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StudyPart {
    /// The indexes of a collection.
    Indexes(String),
    /// An operation of a mix: its phase and its name.
    Operation(String, String),
    /// A phase.
    Phase(String),
}

impl fmt::Display for StudyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Indexes(of) => write!(f, "the index of `{of}`"),
            Self::Operation(phase, name) => write!(f, "`{name}` of phase `{phase}`"),
            Self::Phase(name) => write!(f, "phase `{name}`"),
        }
    }
}

/// A study, without what was left out on a store.
#[derive(Debug)]
pub struct Fit {
    /// The study without it.
    pub study: Study,
    /// Its phases, with every default filled in.
    pub phases: Vec<ResolvedPhase>,
    /// What was left out.
    pub left_out: Vec<Lack>,
}

impl Fit {
    /// Fits a study to a store.
    ///
    /// # Errors
    /// [`StoreError::NotSupported`] with all that the store does not support, or with why a phase cannot run.
    pub fn of(
        study: &Study,
        catalog: &Catalog,
        can: &Capabilities,
        unsupported: Unsupported,
    ) -> Result<Self, StoreError> {
        let lacks = lacks(study, can);
        let (mut fitted, left_out) = without(study, &lacks);
        let measures = |study: &Study| study.phases.iter().any(|phase| !phase.warm_up && phase.load.is_empty());
        let empty = fitted.phases.is_empty() || measures(study) && !measures(&fitted);
        if !lacks.is_empty() && (empty || unsupported == Unsupported::Refuse) {
            return Err(StoreError::NotSupported(refusal(&lacks, empty)));
        }
        OwnIndex::all(&fitted, can).map_err(StoreError::NotSupported)?;
        reserved_member(study, catalog, can).map_or(Ok(()), |why| Err(StoreError::NotSupported(why)))?;
        // In the complete study, so that a phase draws the same keys on every store.
        let resolve = |phase: &Phase| ResolvedPhase::of(study, phase, catalog, can);
        let phases = fitted.phases.iter().map(resolve).collect::<Result<Vec<_>, _>>()?;
        let runs = |name: &str| fitted.phases.iter().any(|phase| phase.name == name);
        fitted.search = fitted.search.take().filter(|search| runs(&search.phase));
        Ok(Self { study: fitted, phases, left_out })
    }
}

/// How many documents of each collection are looked at before a run.
const LOOKED_AT: u64 = 100;

/// Why the store would refuse the documents of the study: a member that it reserves.
fn reserved_member(study: &Study, catalog: &Catalog, can: &Capabilities) -> Option<String> {
    let written = |of: &&Documents| !of.is_existing() && of.trace().is_none() && of.body() == Body::Json;
    let in_one_of = |documents: &Documents| {
        let step = (documents.count() / LOOKED_AT).max(1) as usize;
        (0..documents.count()).step_by(step).find_map(|index| reserved_in(documents, index, can))
    };
    let mut collections = catalog.iter().filter(|_| !can.reserved_members.is_empty()).filter(written);
    let (of, member) = collections.find_map(|documents| Some((documents.name(), in_one_of(documents)?)))?;
    let remedy = match study.collections.get(of) {
        Some(collection) if collection.from.is_some() => {
            format!("to leave it out of them, write `without = [\"{member}\"]`")
        }
        _ => "rename the field".to_owned(),
    };
    Some(format!("the documents of `{of}` have the top-level field `{member}`, which this store reserves; {remedy}"))
}

/// The member of a document that the store reserves. One that the store gives itself, and that repeats the key, is none.
fn reserved_in(documents: &Documents, index: u64, can: &Capabilities) -> Option<String> {
    let (mut key, mut document) = (Vec::new(), Vec::new());
    documents.write_key(index, &mut key);
    documents.write_document(index, 0, &mut document);
    json::members(&document).find_map(|member| {
        let name = json::name(member.name)?;
        let is_key = || json::text(member.value).is_some_and(|text| text.as_bytes() == key);
        let is_own = can.own_members.contains(&&*name) && is_key();
        (can.reserves(&name) && !is_own).then(|| name.into_owned())
    })
}

/// Everything of a study that a store does not support.
fn lacks(study: &Study, can: &Capabilities) -> Vec<Lack> {
    let missing = |collection: &Collection| match collection {
        of if !of.index.is_empty() && !can.indexes => Some("has no secondary indexes"),
        of if !of.indexes.is_empty() && can.language.is_none() => Some("has no indexes in a language of its own"),
        _ => None,
    };
    let of_collection = |(name, collection): (&String, &Collection)| {
        Some(Lack { part: StudyPart::Indexes(name.clone()), why: missing(collection)?.to_owned() })
    };
    let of_phases = study.phases.iter().flat_map(|phase| lacks_of_phase(phase, can));
    study.collections.iter().filter_map(of_collection).chain(of_phases).collect()
}

/// What a store does not support of a phase that copies or has a mix.
pub(super) fn lacks_of_phase(phase: &Phase, can: &Capabilities) -> Vec<Lack> {
    if let Some(direction) = phase.copy {
        let lack = |why| Lack { part: StudyPart::Phase(phase.name.clone()), why };
        return lack_of_copy(phase, direction, can).map(lack).into_iter().collect();
    }
    let lack = |(name, entry): (&String, &MixEntry)| {
        let part = StudyPart::Operation(phase.name.clone(), name.clone());
        Some(Lack { part, why: lack_of_operation(name, entry, can)? })
    };
    phase.mix.iter().filter(|(_, entry)| !entry.is_left_out_on(can.language)).filter_map(lack).collect()
}

fn lack_of_copy(phase: &Phase, direction: CopyDirection, can: &Capabilities) -> Option<String> {
    let lacks = |kind: OpKind| can.supports(kind).is_none();
    let streams = can.rows.iter().any(|kind| matches!(kind, RowsKind::Walk | RowsKind::Range));
    match (direction, &phase.view) {
        (CopyDirection::In, _) if lacks(OpKind::BulkUpsert) => {
            Some("does not support `bulk-upsert`, which a copy into it needs".to_owned())
        }
        (CopyDirection::Out, Some(view)) if lacks(OpKind::View) => Some(format!("has no views, such as `{view}`")),
        (CopyDirection::Out, None) if lacks(OpKind::Scan) && !streams => {
            Some("cannot list its documents, which a copy out of it needs".to_owned())
        }
        _ => None,
    }
}

fn lack_of_operation(name: &str, entry: &MixEntry, can: &Capabilities) -> Option<String> {
    let kind = entry.kind(name)?;
    let of_step = |(step, of): (&String, &MixEntry)| {
        let kind = of.kind(step).filter(|kind| !can.transactions.steps.contains(kind))?;
        Some(format!("does not support `{kind}` in a transaction"))
    };
    match kind {
        OpKind::Query if can.language.is_none() => Some("has no query language".to_owned()),
        OpKind::Transaction if can.transactions.isolation.is_empty() => Some(match can.transactions.remedy {
            Some(remedy) => format!("has no transactions; {remedy}"),
            None => "has no transactions".to_owned(),
        }),
        _ if can.supports(kind).is_none() => Some(can.lacks(kind)),
        OpKind::CompareAndSwap if can.supports(OpKind::Read).is_none() => {
            Some("does not support `read`, which compare-and-swap needs".to_owned())
        }
        OpKind::Transaction => entry.steps.iter().find_map(of_step),
        _ => None,
    }
}

/// Why a study is refused; `empty` if there would be nothing to measure without these parts.
fn refusal(lacks: &[Lack], empty: bool) -> String {
    let mut reasons: Vec<&str> = lacks.iter().map(|lack| lack.why.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let told = |why: &&str| {
        let parts = lacks.iter().filter(|lack| lack.why == *why).map(|lack| lack.part.to_string());
        format!("it {why} ({})", parts.collect::<Vec<_>>().join(", "))
    };
    let reasons: Vec<String> = reasons.iter().map(told).collect();
    let remedy = match empty {
        true => "Without that, nothing is left to measure; use another store",
        false => "To leave that out on this store, and name it in the result: --skip-unsupported",
    };
    format!("this store cannot do all of the study: {}. {remedy}", reasons.join("; "))
}

/// The study without these parts, and those that were left out. A phase whose operations are all left out is left out
/// as a whole.
fn without(study: &Study, lacks: &[Lack]) -> (Study, Vec<Lack>) {
    let mut study = study.clone();
    let mut left_out: Vec<Lack> = Vec::new();
    for lack in lacks {
        let mut part = lack.part.clone();
        match &lack.part {
            StudyPart::Indexes(of) => study.collections.get_mut(of).into_iter().for_each(|collection| {
                collection.index.clear();
                collection.indexes.clear();
            }),
            StudyPart::Operation(of, name) => {
                let Some(phase) = study.phases.iter_mut().find(|phase| phase.name == *of) else { continue };
                phase.mix.shift_remove(name);
                if phase.mix.is_empty() {
                    study.phases.retain(|phase| phase.name != *of);
                    part = StudyPart::Phase(of.clone());
                    left_out.retain(|other| !matches!(&other.part, StudyPart::Operation(phase, _) if phase == of));
                }
            }
            StudyPart::Phase(of) => study.phases.retain(|phase| phase.name != *of),
        }
        left_out.push(Lack { part, why: lack.why.clone() });
    }
    (study, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MemoryStore, Store};
    use storebench_documents::CatalogOptions;

    const STUDY: &str = r#"
        title = "Books"
        stores = ["memory:"]
        [collections.books]
        count = 100
        fields = { author = { words = 1 } }
        index = [["author"]]
        [[phases]]
        name = "load"
        load = ["books"]
        [[phases]]
        name = "list"
        mix = { page = { where = "author" } }
        operations = 10
        [[phases]]
        name = "mixed"
        mix = { read = 1, by-author = { op = "page", where = "author" }, scan = 1 }
        operations = 10
    "#;

    fn fit(lacking: &[OpKind], indexes: bool, unsupported: Unsupported) -> Result<Fit, String> {
        let study = Study::parse(STUDY, std::path::Path::new("books.toml"), &[]).unwrap();
        let folder = std::path::Path::new(".");
        let options = CatalogOptions { seed: 1, scale: 1.0, base_dir: folder, scratch_dir: folder };
        let catalog = Catalog::compile(&study.collections, &options).unwrap();
        let mut can = Capabilities { indexes, ..Store::capabilities(&MemoryStore::new()) };
        can.operations.retain(|(kind, _)| !lacking.contains(kind));
        Fit::of(&study, &catalog, &can, unsupported).map_err(|error| error.to_string())
    }

    #[test]
    fn a_store_that_can_do_everything_runs_the_whole_study() {
        let whole = fit(&[], true, Unsupported::LeaveOut).unwrap();
        assert_eq!((whole.phases.len(), whole.left_out.len()), (3, 0));
    }

    #[test]
    fn a_refusal_names_every_part_and_the_flag_that_leaves_them_out() {
        assert_eq!(
            fit(&[OpKind::Page], false, Unsupported::Refuse).unwrap_err(),
            "this store cannot do all of the study: it does not support `page` (`page` of phase `list`, `by-author` of \
             phase `mixed`); it has no secondary indexes (the index of `books`). To leave that out on this store, and name \
             it in the result: --skip-unsupported"
        );
    }

    #[test]
    fn what_is_left_out_is_named_and_the_rest_draws_the_same_keys() {
        let fitted = fit(&[OpKind::Page], false, Unsupported::LeaveOut).unwrap();
        let left_out: Vec<String> = fitted.left_out.iter().map(|lack| lack.part.to_string()).collect();
        assert_eq!(left_out, ["the index of `books`", "phase `list`", "`by-author` of phase `mixed`"]);
        let names: Vec<&str> = fitted.study.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["load", "mixed"]);
        assert!(fitted.study.collections["books"].index.is_empty());
        let mixed = fitted.phases[1].operations().unwrap();
        assert_eq!(mixed.recipes.iter().map(|of| of.label.name.as_str()).collect::<Vec<_>>(), ["read", "scan"]);
        // Its place in the study is part of the seed of its draws.
        assert_eq!(mixed.number, 2);
    }

    #[test]
    fn a_study_of_which_nothing_would_be_measured_is_refused_without_the_flag() {
        let why = fit(&[OpKind::Page, OpKind::Read, OpKind::Scan], false, Unsupported::LeaveOut).unwrap_err();
        assert!(why.ends_with("nothing is left to measure; use another store"), "{why}");
    }
}
