//! Who owns a collection, and what may therefore be done at its place: one policy for every driver.
//!
//! A study's collections hold synthetic documents, which the next study may empty. A collection that a copy has written
//! into holds the user's data. Each driver writes the owner into its marker and asks [`Holdings`] what is allowed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Layout, Namespace, Prepare, StoreError};

/// The number of the copy that first wrote into a collection. It stays with the collection even when other copies write
/// into it, so that a resumed copy recognizes its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CopyId(pub u64);

impl CopyId {
    /// Draws a number that no other copy has.
    pub fn draw() -> Self {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        Self(hasher.finish())
    }
}

impl fmt::Display for CopyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for CopyId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

/// The owner of a collection that carries Storebench's marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Owner {
    /// A study created it: it may be emptied and removed.
    Study,
    /// It holds the user's data: a copy wrote into it. `None` if an older Storebench wrote the marker, which does not
    /// say which copy. Then a study may have created it too, and the marker cannot tell.
    User(Option<CopyId>),
}

/// Separates the form of a collection from its owner in a marker.
const OF: &str = "; ";
const STUDY: &str = "study";
/// Replaces the owner while the collection is being removed. A driver may add a number of the removal.
const REMOVING: &str = "removing";
const COPY: &str = "copy ";

fn is_removal(owner: &str) -> bool {
    owner.strip_prefix(REMOVING).is_some_and(|number| number.is_empty() || number.starts_with(' '))
}

impl Owner {
    /// The text for a collection in a driver's marker: its form, then its owner.
    pub fn mark(self, form: &str) -> String {
        match self {
            Self::Study => format!("{form}{OF}{STUDY}"),
            Self::User(Some(copy)) => format!("{form}{OF}{COPY}{copy}"),
            Self::User(None) => form.to_owned(),
        }
    }

    /// Parses the text of [`mark`](Self::mark). A marker without an owner counts as the user's.
    pub fn read(mark: &str) -> (&str, Self) {
        let Some((form, owner)) = mark.split_once(OF) else { return (mark, Self::User(None)) };
        let owner = match owner.strip_prefix(COPY) {
            _ if owner == STUDY || is_removal(owner) => Self::Study,
            copy => Self::User(copy.and_then(|copy| copy.parse().ok())),
        };
        (form, owner)
    }

    /// Whether it holds the user's data.
    pub fn is_user(self) -> bool {
        matches!(self, Self::User(_))
    }
}

impl Prepare {
    /// The owner of a collection afterwards, which depends on the owner before.
    pub fn owner(self, before: Option<Owner>) -> Owner {
        match (self, before) {
            (Self::Copy(_), Some(before @ Owner::User(Some(_)))) => before,
            (Self::Copy(copy), _) => Owner::User(Some(copy)),
            (_, Some(before)) if !self.empties() => before,
            _ => Owner::Study,
        }
    }
}

/// A collection that the marker names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// Its name.
    pub name: String,
    /// Its text in the marker: its form, then its owner.
    pub mark: String,
}

impl Marked {
    /// The collection with this name and mark.
    pub fn new(name: impl Into<String>, mark: impl Into<String>) -> Self {
        Self { name: name.into(), mark: mark.into() }
    }

    /// The form in which its documents are kept.
    pub fn form(&self) -> &str {
        Owner::read(&self.mark).0
    }

    /// Its owner.
    pub fn owner(&self) -> Owner {
        Owner::read(&self.mark).1
    }

    /// The same, marked as being removed: whoever wants to take it over waits, or is refused.
    pub fn removing(&self) -> Self {
        Self::new(&*self.name, format!("{}{OF}{REMOVING}", self.form()))
    }

    /// Whether it is being removed, or a removal was killed.
    pub fn is_removing(&self) -> bool {
        self.mark.split_once(OF).is_some_and(|(_, owner)| is_removal(owner))
    }
}

/// What a driver found at a place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holdings {
    /// Whether there is nothing.
    pub absent: bool,
    /// What is there without a marker, in words.
    pub foreign: Option<String>,
    /// Whether Storebench created the place itself (a file, database, schema or scope); `None` if no marker says so.
    pub made: Option<bool>,
    /// The collections that the marker names.
    pub marked: Vec<Marked>,
    /// What others created, by the names under which a copy reads it.
    pub theirs: Vec<String>,
    /// Whether the whole place is being removed, or such a removal was killed.
    pub removing: bool,
}

/// Names in words: ``the table `a` ``, or ``3 tables (`a` to `c`)``; `None` without a name.
pub fn several(kind: &str, names: &[String]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(format!("the {kind} `{one}`")),
        [first, .., last] => Some(format!("{} {kind}s (`{first}` to `{last}`)", names.len())),
    }
}

impl Holdings {
    /// What is at a place where each collection has its own marker, or is somebody else's. `kind` is what it is there.
    pub fn of_collections(kind: &str, marked: Vec<Marked>, theirs: Vec<String>) -> Self {
        let (made, absent) = ((!marked.is_empty()).then_some(true), marked.is_empty() && theirs.is_empty());
        let foreign = theirs.first().map(|name| format!("the {kind} `{name}`"));
        Self { absent, foreign, made, marked, theirs, removing: false }
    }

    /// The user's collections, in words.
    fn copied(&self) -> Option<String> {
        let users: Vec<&Marked> = self.marked.iter().filter(|marked| marked.owner().is_user()).collect();
        let names: Vec<String> = users.iter().map(|marked| marked.name.clone()).collect();
        let mut text = several("collection", &names)?;
        text += if users.iter().all(|marked| matches!(marked.owner(), Owner::User(Some(_)))) {
            " with data that `storebench copy` wrote"
        } else {
            " that may hold your data: an older Storebench created it and did not record whether for a study or a copy"
        };
        Some(text)
    }

    /// Who owns the place.
    pub fn namespace(&self) -> Namespace {
        match (&self.foreign, self.copied()) {
            (Some(foreign), Some(copied)) => Namespace::Foreign(format!("{foreign} (beside {copied})")),
            (Some(foreign), None) => Namespace::Foreign(foreign.clone()),
            (None, Some(copied)) => Namespace::Copied(copied),
            (None, None) if self.absent => Namespace::Absent,
            (None, None) => Namespace::Ours,
        }
    }

    /// The owner of a collection; `None` if the marker does not name it.
    pub fn owner_of(&self, collection: &str) -> Option<Owner> {
        self.marked_as(collection).map(Marked::owner)
    }

    /// The collection of this name, if the marker names it.
    pub fn marked_as(&self, collection: &str) -> Option<&Marked> {
        self.marked.iter().find(|marked| marked.name == collection)
    }

    /// Whether the place or one of these collections is being removed, or such a removal was killed.
    pub fn is_removing(&self, layout: &Layout) -> bool {
        let mut names = layout.collections.iter().map(|collection| &collection.name);
        self.removing || names.any(|name| self.marked_as(name).is_some_and(Marked::is_removing))
    }

    /// Names of everything that a copy can read.
    pub fn names(&self) -> Vec<String> {
        self.theirs.iter().chain(self.marked.iter().map(|marked| &marked.name)).cloned().collect()
    }

    /// Decides whether the place may be prepared in this way. `place` is its name, and `another` is what to use
    /// instead.
    ///
    /// # Errors
    /// `NotOurs`: preparing would empty, remove or write into something that is not a study's.
    pub fn allow(&self, place: &str, another: &str, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let refused = |text: String| Err(StoreError::NotOurs(format!("{place} {text}")));
        match (how, self.namespace()) {
            (Prepare::Fresh | Prepare::Keep | Prepare::Discard, Namespace::Foreign(what)) => refused(format!(
                "holds {what}, which Storebench did not make; nothing was touched. Use {another}, or --into-existing \
                 to add to it"
            )),
            (Prepare::Fresh | Prepare::Keep, Namespace::Copied(what)) => refused(copied(&what, another)),
            (Prepare::IntoExisting, _) => {
                let mut names = layout.collections.iter().map(|collection| collection.name.as_str());
                match names.find(|name| self.owner_of(name).is_some_and(Owner::is_user)) {
                    None => Ok(()),
                    Some(name) => refused(format!(
                        "has the collection `{name}` with data that `storebench copy` (or an older Storebench) wrote; \
                         nothing was touched. Rename the study's collection, or use {another}"
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Why a study does not touch what a copy wrote, and what to do. To be printed after the name of the place.
pub fn copied(what: &str, another: &str) -> String {
    format!(
        "holds {what}; nothing was touched. Use {another}, add --into-existing to write beside it, or \
         --discard-existing to delete it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::CollectionLayout;
    use storebench_study::workload::Body;

    const COPY: CopyId = CopyId(0xab);
    const MODES: [Prepare; 5] =
        [Prepare::Fresh, Prepare::Keep, Prepare::IntoExisting, Prepare::Discard, Prepare::Copy(CopyId(7))];

    fn holdings(foreign: bool, marked: &[(&str, Owner)]) -> Holdings {
        Holdings {
            absent: !foreign && marked.is_empty(),
            foreign: foreign.then(|| "3 tables".to_owned()),
            marked: marked.iter().map(|(name, owner)| Marked::new(*name, owner.mark("json"))).collect(),
            ..Holdings::default()
        }
    }

    fn layout(name: &str) -> Layout {
        Layout {
            collections: vec![CollectionLayout {
                name: name.into(),
                body: Body::Json,
                indexes: Vec::new(),
                existing: None,
                uses: crate::store::Uses::ALL,
            }],
        }
    }

    #[test]
    fn every_copy_draws_a_number_of_its_own() {
        let drawn: std::collections::HashSet<CopyId> = (0..1_000).map(|_| CopyId::draw()).collect();
        assert_eq!(drawn.len(), 1_000);
    }

    #[test]
    fn a_mark_comes_back_and_an_old_one_is_the_users() {
        for owner in [Owner::Study, Owner::User(Some(COPY)), Owner::User(None)] {
            for form in ["json", "json ordered", "collection of counters"] {
                assert_eq!(Owner::read(&owner.mark(form)), (form, owner));
            }
        }
        assert_eq!(Owner::Study.mark("json"), "json; study");
        assert_eq!(Owner::User(Some(COPY)).mark("json"), "json; copy 00000000000000ab");
        let removing = Marked::new("a", "json ordered; study").removing();
        assert_eq!((&*removing.mark, removing.owner()), ("json ordered; removing", Owner::Study));
        let numbered = Marked::new("a", "json; removing 07");
        assert!(
            numbered.is_removing() && numbered.owner() == Owner::Study && numbered.removing().mark == "json; removing"
        );
        assert!(removing.is_removing() && !Marked::new("a", "json; study").is_removing());
        for old_or_odd in ["json", "json; somebody", "json; removingx", "json; copy ?"] {
            assert_eq!(Owner::read(old_or_odd), ("json", Owner::User(None)), "{old_or_odd}");
        }
    }

    #[test]
    fn a_copy_makes_a_collection_the_users_for_good() {
        let copied = Owner::User(Some(COPY));
        for how in MODES {
            let of_copy = matches!(how, Prepare::Copy(_));
            let new = if of_copy { Owner::User(Some(CopyId(7))) } else { Owner::Study };
            assert_eq!(how.owner(None), new, "{how:?}");
            assert_eq!(how.owner(Some(Owner::Study)), new, "{how:?}");
            // An emptied collection belongs to a study: this needs the flag that allows it, see below.
            assert_eq!(how.owner(Some(copied)), if how.empties() { Owner::Study } else { copied }, "{how:?}");
        }
    }

    #[test]
    fn a_study_empties_nothing_that_a_copy_wrote_but_with_the_flag() {
        let copied = [("a", Owner::User(Some(COPY)))];
        let old = [("a", Owner::User(None))];
        let beside = [("a", Owner::User(Some(COPY))), ("b", Owner::Study)];
        let study = [("a", Owner::Study)];
        for (what, found, allowed) in [
            ("nothing", holdings(false, &[]), [true; 5]),
            ("a study's", holdings(false, &study), [true; 5]),
            ("a copy's", holdings(false, &copied), [false, false, false, true, true]),
            ("an older version's", holdings(false, &old), [false, false, false, true, true]),
            ("both", holdings(false, &beside), [false, false, false, true, true]),
            ("somebody's", holdings(true, &[]), [false, false, true, false, true]),
            ("somebody's and a copy's", holdings(true, &copied), [false, false, false, false, true]),
            ("somebody's and a study's", holdings(true, &study), [false, false, true, false, true]),
        ] {
            for (how, allowed) in MODES.into_iter().zip(allowed) {
                let told = found.allow("here", "another path", &layout("a"), how);
                assert_eq!(told.is_ok(), allowed, "{what} {how:?} {told:?}");
                assert!(told.is_ok() || matches!(told, Err(StoreError::NotOurs(_))), "{told:?}");
            }
        }
        // A separate collection beside the user's.
        assert!(holdings(false, &copied).allow("here", "another path", &layout("c"), Prepare::IntoExisting).is_ok());
        // The flag is named only if it helps.
        for (found, named) in [(holdings(false, &copied), true), (holdings(true, &copied), false)] {
            let Err(StoreError::NotOurs(text)) = found.allow("here", "another path", &layout("a"), Prepare::Fresh)
            else {
                panic!("allowed")
            };
            assert_eq!(text.contains("--discard-existing"), named, "{text}");
        }
    }

    #[test]
    fn whose_a_place_is() {
        let both = holdings(false, &[("a", Owner::User(Some(COPY))), ("b", Owner::Study), ("c", Owner::User(None))]);
        assert!(matches!(both.namespace(), Namespace::Copied(text) if text.contains("2 collections (`a` to `c`)")));
        let beside = holdings(true, &[("b", Owner::Study)]);
        assert!(matches!(beside.namespace(), Namespace::Foreign(text) if text == "3 tables"));
        let study = holdings(false, &[("b", Owner::Study)]);
        assert_eq!(study.namespace(), Namespace::Ours);
        assert_eq!(holdings(false, &[]).namespace(), Namespace::Absent);
    }
}
