//! The steps by which every driver prepares a place and removes its contents.
//!
//! This module decides what may be done, from what a driver found ([`Holdings`]). A driver provides a few primitives
//! ([`Site`]). The steps of [`prepare`]:
//!
//! 1. refuse what the store cannot have ([`Site::check`], names that it does not distinguish);
//! 2. look, and refuse what does not belong to a study ([`Holdings::allow`]);
//! 3. refuse collections that are kept in another form, or whose names are taken there ([`Site::taken`]);
//! 4. if the place must be emptied: remove what is marked ([`Site::unmake`]), and look again;
//! 5. create what is missing and write the marks ([`Site::make`]).
//!
//! If others changed the marks since the look, nothing of theirs is overwritten or removed, and the steps begin again.
//! [`remove`] looks and removes by the same rule.
//!
//! Everything that can be refused is refused before anything is touched.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::{CollectionLayout, Holdings, Layout, Marked, Prepare, StoreError};
use storebench_study::workload::Body;

/// How often [`prepare`] and [`remove`] look again because others changed the marks, or are removing the contents.
const TRIES: usize = 20;
/// How many more times to look at something without a mark before it counts as somebody else's.
const TAKEN: usize = 2;

/// A place that holds collections, reduced to what ownership needs. A driver implements it over one connection or file,
/// and keeps what [`look`](Self::look) found for the calls that follow.
///
/// A store with blocking calls implements it with futures that are ready at once; see [`at_once`].
pub trait Site {
    /// What to use instead of the place, for errors.
    const ANOTHER: &'static str;
    /// What to do about a collection that is kept in another form, besides loading it again.
    const OTHER_FORM: &'static str = "rename the collection";
    /// The name of the marker, if a collection of that name would be the same thing.
    const RESERVED: &'static str = "";

    /// Where it is, for errors.
    fn shown(&self) -> String;

    /// The form in which documents of this kind are kept: the part of a mark before the owner.
    fn form(&self, body: Body) -> String {
        body.name().to_owned()
    }

    /// Whether two names mean the same collection there.
    fn alike(&self, one: &str, other: &str) -> bool {
        one == other
    }

    /// Refuses what the store cannot have, whatever it holds.
    fn check(&self, _layout: &Layout) -> Result<(), StoreError> {
        Ok(())
    }

    /// The error if something else is in the place of the marker.
    fn marker_taken(&self, place: &str) -> StoreError {
        StoreError::NotOurs(format!(
            "{} has something else under `{place}`, which Storebench did not make; nothing was touched. Use {}",
            self.shown(),
            Self::ANOTHER
        ))
    }

    /// Looks at what is there. Changes nothing.
    fn look(&mut self) -> impl Future<Output = Result<Holdings, StoreError>>;

    /// Waits for a moment while others remove the contents, if the store's calls may wait.
    fn rest(&mut self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// What others have under the names of new collections, in words. Changes nothing.
    fn taken(&mut self, found: &Holdings, names: &[&str]) -> impl Future<Output = Result<Option<String>, StoreError>> {
        let theirs = found.theirs.iter().find(|theirs| names.iter().any(|name| self.alike(name, theirs)));
        std::future::ready(Ok(theirs.map(|name| format!("`{name}`"))))
    }

    /// Creates the place if it is missing, the collections that are new, and indexes. Writes the marks.
    ///
    /// A crash between two steps may leave a collection without its mark (it is then reported, and never emptied) or a
    /// mark without its collection (which is created next time), but no document before the mark. Marks are written
    /// only if they are still what [`look`](Self::look) found, as far as the store can tell.
    fn make(&mut self, wanted: &Wanted<'_>) -> impl Future<Output = Result<SiteOutcome, StoreError>>;

    /// Removes collections with their marks. With the last of them, it removes what else Storebench created there.
    /// Called if [`look`](Self::look) found a marker.
    ///
    /// A collection is removed only while its mark is what the look found: a copy that takes it over, or that marks
    /// another one beside it, keeps its data. Otherwise it returns [`SiteOutcome::Changed`], and other collections may be
    /// gone.
    fn unmake(&mut self, removal: &Removal) -> impl Future<Output = Result<SiteOutcome, StoreError>>;
}

/// What must exist afterwards.
#[derive(Debug, Clone)]
pub struct Wanted<'l> {
    /// The collections of the layout.
    pub collections: Vec<WantedCollection<'l>>,
    /// The marks of all collections afterwards.
    pub marked: Vec<Marked>,
    /// Whether Storebench creates the place itself, or created it before.
    pub made: bool,
    /// Whether there is no marker yet.
    pub first: bool,
}

/// A collection that must exist afterwards.
#[derive(Debug, Clone)]
pub struct WantedCollection<'l> {
    /// Its layout.
    pub layout: &'l CollectionLayout,
    /// Its mark.
    pub mark: String,
    /// Its mark before; `None` if it is new.
    pub before: Option<String>,
}

impl WantedCollection<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.layout.name
    }

    /// Whether it must be created.
    pub fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// Whether its mark must be written.
    pub fn marks(&self) -> bool {
        self.before.as_ref() != Some(&self.mark)
    }
}

/// How creating or removing went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteOutcome {
    /// Everything is there, or gone.
    Done,
    /// Somebody else changed marks since the look. None of them were overwritten or removed.
    Changed,
}

/// What to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Collections to remove, with the marks that the look found.
    pub going: Vec<Marked>,
    /// Collections in the marker that stay.
    pub left: Vec<Marked>,
    /// Whether the whole place is removed: Storebench created it, and nothing stays.
    pub whole: bool,
    /// Whether the place is created again next.
    pub again: bool,
}

impl Removal {
    fn of(found: &Holdings, discard: bool, again: bool) -> Self {
        let goes = |marked: &Marked| discard || !marked.owner().is_user();
        let (going, left): (Vec<_>, Vec<_>) = found.marked.iter().cloned().partition(goes);
        let whole = found.made == Some(true) && found.foreign.is_none() && left.is_empty();
        Self { going, left, whole, again }
    }

    /// Whether a collection of this name is removed.
    pub fn takes(&self, name: &str) -> bool {
        self.going.iter().any(|going| going.name == name)
    }

    /// Whether everything to remove still has its mark among these.
    pub fn still(&self, marked: &[Marked]) -> bool {
        self.going.iter().all(|going| marked.contains(going))
    }
}

impl<'l> Wanted<'l> {
    fn of<S: Site>(site: &S, found: &Holdings, layout: &'l Layout, how: Prepare) -> Result<Self, StoreError> {
        let mut marked = if how.empties() { Vec::new() } else { found.marked.clone() };
        let mut collections = Vec::new();
        for collection in &layout.collections {
            let kept = marked.iter_mut().find(|marked| marked.name == collection.name);
            let form = site.form(collection.body);
            let before = kept.as_ref().map(|kept| kept.mark.clone());
            if let Some(kept) = &kept {
                check_form(site, kept, &form)?;
            }
            let was = kept.as_ref().map(|kept| kept.owner());
            let owner = how.owner(was);
            let mark = match &before {
                Some(before) if was == Some(owner) => before.clone(),
                _ => owner.mark(&form),
            };
            match kept {
                Some(kept) => kept.mark.clone_from(&mark),
                None => marked.push(Marked::new(&*collection.name, &*mark)),
            }
            collections.push(WantedCollection { layout: collection, mark, before });
        }
        let first = found.made.is_none();
        Ok(Self { collections, marked, made: found.made.unwrap_or(found.foreign.is_none()), first })
    }
}

/// Prepares the layout for writing, in one of the ways that create something.
///
/// # Errors
/// `NotOurs` and `NotSupported`, with nothing touched; the errors of the site.
pub async fn prepare<S: Site>(site: &mut S, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
    check_layout(site, layout)?;
    site.check(layout)?;
    let (mut how, mut removing, mut taken) = (how, false, 0);
    for _ in 0..TRIES {
        let found = site.look().await?;
        found.allow(&site.shown(), S::ANOTHER, layout, how)?;
        removing = !how.empties() && found.is_removing(layout);
        if removing {
            site.rest().await;
            continue;
        }
        let wanted = Wanted::of(site, &found, layout, how)?;
        let names = layout.collections.iter().map(|collection| collection.name.as_str());
        let new: Vec<&str> = names.filter(|name| found.marked_as(name).is_none()).collect();
        if let Some(what) = site.taken(&found, &new).await? {
            // Others may be about to mark what they have just created, or to remove what they have unmarked.
            if taken < TAKEN {
                taken += 1;
                site.rest().await;
                continue;
            }
            return Err(StoreError::NotOurs(format!(
                "{} has {what}, which Storebench did not make; nothing was touched. Rename the collection, or use {}",
                site.shown(),
                S::ANOTHER
            )));
        }
        if how.empties() && found.made.is_some() {
            if site.unmake(&Removal::of(&found, true, true)).await? == SiteOutcome::Done {
                // Look again, and empty only once: what others mark from now on is theirs.
                how = Prepare::Keep;
            }
        } else if site.make(&wanted).await? == SiteOutcome::Done {
            return Ok(());
        }
    }
    Err(if removing { removed_by_others(site) } else { changed_by_others(site) })
}

/// Removes what studies created, and only that.
///
/// # Errors
/// The errors of the site.
pub async fn remove<S: Site>(site: &mut S) -> Result<(), StoreError> {
    for _ in 0..TRIES {
        let found = site.look().await?;
        if found.made.is_none() || site.unmake(&Removal::of(&found, false, false)).await? == SiteOutcome::Done {
            return Ok(());
        }
    }
    Err(changed_by_others(site))
}

fn changed_by_others<S: Site>(site: &S) -> StoreError {
    StoreError::Failed(format!(
        "{}: others change its collections at the same time; try again when they have finished",
        site.shown()
    ))
}

fn removed_by_others<S: Site>(site: &S) -> StoreError {
    StoreError::Failed(format!(
        "{}: another run is removing its collections, or was killed while removing them; nothing was touched. Try again \
         when that run has ended. If none is running, run its study again without --keep: that finishes the removal",
        site.shown()
    ))
}

impl Holdings {
    /// Checks that all collections that Storebench should have created exist.
    ///
    /// # Errors
    /// `NotSupported`, naming what exists.
    pub fn check_there<S: Site>(&self, site: &S, layout: &Layout) -> Result<(), StoreError> {
        let mut ours = layout.collections.iter().filter(|collection| collection.existing.is_none());
        match ours.find(|collection| self.marked_as(&collection.name).is_none()) {
            None => Ok(()),
            Some(collection) => Err(self.missing(&site.shown(), &collection.name)),
        }
    }

    /// The same, and that they are kept in the right form.
    ///
    /// # Errors
    /// `NotSupported`.
    pub fn check_made<S: Site>(&self, site: &S, layout: &Layout) -> Result<(), StoreError> {
        self.check_there(site, layout)?;
        let mut ours = layout.collections.iter().filter(|collection| collection.existing.is_none());
        ours.try_for_each(|collection| self.check_form(site, &collection.name, collection.body).map(drop))
    }

    /// Whether Storebench created a collection of this name.
    ///
    /// # Errors
    /// `NotSupported` if it is kept in a form that does not fit this kind of documents.
    pub fn check_form<S: Site>(&self, site: &S, name: &str, body: Body) -> Result<bool, StoreError> {
        let Some(kept) = self.marked_as(name) else { return Ok(false) };
        check_form(site, kept, &site.form(body))?;
        Ok(true)
    }

    /// The error if a collection is to be written as somebody else's, but Storebench created it.
    pub fn not_theirs(&self, place: &str, name: &str) -> StoreError {
        StoreError::NotSupported(format!(
            "{place}: Storebench made the collection `{name}` in its own format; leave out --into-existing"
        ))
    }

    /// The error for a collection that does not exist.
    pub fn missing(&self, place: &str, name: &str) -> StoreError {
        let names = self.names();
        let there = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        StoreError::NotSupported(format!("{place}: there is no collection `{name}`; it has: {there}"))
    }
}

/// Refuses a collection that is kept in another form than the wanted one.
fn check_form<S: Site>(site: &S, kept: &Marked, wanted: &str) -> Result<(), StoreError> {
    if kept.form() == wanted {
        return Ok(());
    }
    Err(StoreError::NotSupported(format!(
        "{}: the collection `{}` is kept as {} there, not as {wanted}; load it again, or {}",
        site.shown(),
        kept.name,
        kept.form(),
        S::OTHER_FORM
    )))
}

/// Refuses names that the store does not distinguish, the marker's own name, and collections of others.
fn check_layout<S: Site>(site: &S, layout: &Layout) -> Result<(), StoreError> {
    for (position, collection) in layout.collections.iter().enumerate() {
        let name = &collection.name;
        if collection.existing.is_some() {
            return Err(StoreError::NotOurs(format!(
                "{}: the collection `{name}` belongs to somebody else and can only be read; nothing was touched",
                site.shown()
            )));
        }
        if site.alike(name, S::RESERVED) {
            return Err(StoreError::NotSupported(format!(
                "Storebench keeps the name `{name}` for itself; rename the collection"
            )));
        }
        if let Some(twin) = layout.collections[..position].iter().find(|other| site.alike(&other.name, name)) {
            return Err(StoreError::NotSupported(format!(
                "{} does not distinguish the collections `{}` and `{name}`; rename one of them",
                site.shown(),
                twin.name
            )));
        }
    }
    Ok(())
}

/// The result of a future that never waits, such as that of a site with blocking calls.
///
/// # Panics
/// If the future waits.
pub fn at_once<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a site whose calls block never waits"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::store::{CopyId, Owner};

    /// A place in memory, where somebody else adds marks after a look.
    #[derive(Default)]
    struct Fake {
        marks: BTreeMap<String, String>,
        made: Option<bool>,
        theirs: Vec<String>,
        seen: BTreeMap<String, String>,
        /// Marks that somebody else adds after the next looks.
        meanwhile: Vec<(&'static str, Owner)>,
        /// For this many looks, the contents have no mark yet.
        unmarked: usize,
        /// For this many looks, somebody else is removing the place.
        removing: usize,
        calls: Vec<String>,
    }

    impl Site for Fake {
        const ANOTHER: &'static str = "another place";
        const RESERVED: &'static str = "marker";

        fn shown(&self) -> String {
            "here".to_owned()
        }

        fn alike(&self, one: &str, other: &str) -> bool {
            one.eq_ignore_ascii_case(other)
        }

        async fn look(&mut self) -> Result<Holdings, StoreError> {
            self.calls.push("look".to_owned());
            self.seen = self.marks.clone();
            if self.unmarked == 0 {
                self.theirs.clear();
            }
            self.unmarked = self.unmarked.saturating_sub(1);
            let found = Holdings {
                absent: self.made.is_none() && self.theirs.is_empty(),
                foreign: (!self.theirs.is_empty()).then(|| "theirs".to_owned()),
                made: self.made,
                marked: self.marks.iter().map(|(name, mark)| Marked::new(&**name, &**mark)).collect(),
                theirs: self.theirs.clone(),
                removing: self.removing > 0,
            };
            self.removing = self.removing.saturating_sub(1);
            if let Some((name, owner)) = self.meanwhile.pop() {
                self.marks.insert(name.to_owned(), owner.mark("json"));
                self.made = Some(true);
            }
            Ok(found)
        }

        async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
            self.calls.push("make".to_owned());
            if self.seen != self.marks {
                return Ok(SiteOutcome::Changed);
            }
            self.made = Some(wanted.made);
            self.marks = wanted.marked.iter().map(|marked| (marked.name.clone(), marked.mark.clone())).collect();
            Ok(SiteOutcome::Done)
        }

        async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
            let names: Vec<&str> = removal.going.iter().map(|going| going.name.as_str()).collect();
            self.calls.push(format!("unmake {}", names.join(" ")));
            if self.seen != self.marks {
                return Ok(SiteOutcome::Changed);
            }
            self.marks.retain(|name, _| !removal.takes(name));
            if self.marks.is_empty() {
                self.made = None;
            }
            Ok(SiteOutcome::Done)
        }
    }

    fn layout(names: &[&str]) -> Layout {
        let collection = |name: &&str| CollectionLayout {
            name: (*name).to_owned(),
            body: Body::Json,
            indexes: Vec::new(),
            existing: None,
            uses: crate::store::Uses::ALL,
        };
        Layout { collections: names.iter().map(collection).collect() }
    }

    const COPY: Owner = Owner::User(Some(CopyId(1)));

    fn copying(site: &mut Fake, name: &str) -> Result<(), StoreError> {
        at_once(prepare(site, &layout(&[name]), Prepare::Copy(CopyId(1))))
    }

    #[test]
    fn marks_that_others_make_after_the_look_stay() {
        let other = Owner::User(Some(CopyId(2)));
        let mut site = Fake { meanwhile: vec![("b", other), ("c", other)], ..Fake::default() };
        copying(&mut site, "a").unwrap();
        assert_eq!(site.calls.join(" "), "look make look make look make");
        let owners: Vec<_> = site.marks.values().map(|mark| Owner::read(mark).1).collect();
        assert_eq!(owners, [COPY, other, other]);
        // Somebody else never stops changing marks.
        let meanwhile = (0..TRIES).map(|n| ("b", Owner::User(Some(CopyId(n as u64))))).collect();
        let mut site = Fake { meanwhile, ..Fake::default() };
        assert!(matches!(copying(&mut site, "a"), Err(StoreError::Failed(text)) if text.contains("at the same time")));
        assert!(!site.marks.contains_key("a"));
    }

    #[test]
    fn a_copy_waits_for_a_removal_and_a_study_ends_it() {
        let mut site = Fake { removing: 2, ..Fake::default() };
        copying(&mut site, "a").unwrap();
        assert_eq!(site.calls.join(" "), "look look look make");
        // The removal was killed.
        let mut site = Fake { removing: usize::MAX, ..Fake::default() };
        assert!(matches!(copying(&mut site, "a"), Err(StoreError::Failed(text)) if text.contains("is removing")));
        let mut site = Fake { made: Some(true), ..Fake::default() };
        site.marks.insert("a".to_owned(), Marked::new("a", "json; study").removing().mark);
        assert!(copying(&mut site, "a").is_err() && site.calls.iter().all(|call| call == "look"));
        at_once(prepare(&mut site, &layout(&["a"]), Prepare::Fresh)).unwrap();
        assert_eq!(site.marks["a"], "json; study");
    }

    #[test]
    fn what_has_no_mark_yet_is_looked_at_again_before_it_counts_as_somebody_elses() {
        for (unmarked, calls) in [(TAKEN, "look look look make"), (TAKEN + 1, "look look look")] {
            let mut site = Fake { theirs: vec!["a".to_owned()], unmarked, ..Fake::default() };
            let told = at_once(prepare(&mut site, &layout(&["a"]), Prepare::IntoExisting));
            assert_eq!(site.calls.join(" "), calls);
            assert_eq!(matches!(told, Err(StoreError::NotOurs(_))), unmarked > TAKEN, "{told:?}");
        }
    }

    /// A study's collections, and what a copy marks after the first look.
    fn studied(names: &[&str], meanwhile: &'static str) -> Fake {
        let marks = names.iter().map(|name| ((*name).to_owned(), Owner::Study.mark("json"))).collect();
        Fake { marks, made: Some(true), meanwhile: vec![(meanwhile, COPY)], ..Fake::default() }
    }

    #[test]
    fn what_a_copy_marks_while_a_study_empties_is_not_emptied() {
        for (meanwhile, left) in [("b", &["a", "b"][..]), ("a", &["a"])] {
            let mut site = studied(&["a"], meanwhile);
            let told = at_once(prepare(&mut site, &layout(&["a"]), Prepare::Fresh));
            assert!(matches!(told, Err(StoreError::NotOurs(_))), "{told:?}");
            assert_eq!(site.calls.join(", "), "look, unmake a, look");
            assert_eq!(site.marks.into_keys().collect::<Vec<_>>(), left);
        }
    }

    #[test]
    fn what_a_copy_marks_while_a_place_is_removed_stays() {
        for (meanwhile, calls, left) in
            [("c", "look, unmake a b, look, unmake a b", &["c"][..]), ("b", "look, unmake a b, look, unmake a", &["b"])]
        {
            let mut site = studied(&["a", "b"], meanwhile);
            at_once(remove(&mut site)).unwrap();
            assert_eq!(site.calls.join(", "), calls);
            assert_eq!(site.marks.into_keys().collect::<Vec<_>>(), left);
        }
        // Somebody else never stops changing marks.
        let meanwhile = (0..TRIES).map(|n| ("b", Owner::User(Some(CopyId(n as u64))))).collect();
        let mut site = Fake { meanwhile, ..studied(&["a"], "b") };
        assert!(
            matches!(at_once(remove(&mut site)), Err(StoreError::Failed(text)) if text.contains("at the same time"))
        );
        assert!(site.marks.contains_key("a"));
    }

    #[test]
    fn all_is_refused_before_anything_is_touched() {
        let kept = || Fake {
            marks: [("a".to_owned(), "bytes; study".to_owned())].into(),
            made: Some(true),
            ..Fake::default()
        };
        let theirs = || Fake { theirs: vec!["Books".to_owned()], unmarked: usize::MAX, ..Fake::default() };
        for (mut site, names, how, expected) in [
            (kept(), &["a"][..], Prepare::Keep, "kept as bytes there, not as json"),
            (kept(), &["b", "B"], Prepare::Fresh, "does not distinguish the collections `b` and `B`"),
            (kept(), &["Marker"], Prepare::Fresh, "keeps the name `Marker`"),
            (theirs(), &["users", "books"], Prepare::IntoExisting, "has `Books`, which Storebench did not make"),
            (theirs(), &["users"], Prepare::Fresh, "--into-existing"),
        ] {
            let error = at_once(prepare(&mut site, &layout(names), how)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(site.calls.iter().all(|call| call == "look"), "{:?}", site.calls);
        }
        let mut existing = layout(&["a"]);
        existing.collections[0].existing = Some(crate::store::Existing { name: "x".into(), key: None, body: None });
        assert!(at_once(prepare(&mut kept(), &existing, Prepare::Keep)).is_err());
    }

    #[test]
    fn emptying_and_removing_take_what_studies_made() {
        // An older version did not record the owner of `c`.
        let owners = [("a", COPY), ("b", Owner::Study), ("c", Owner::User(None))];
        let marks = || BTreeMap::from(owners.map(|(name, owner)| (name.to_owned(), owner.mark("json"))));
        let mut site = Fake { marks: marks(), made: Some(true), ..Fake::default() };
        at_once(remove(&mut site)).unwrap();
        assert_eq!(site.calls.join(", "), "look, unmake b");
        let mut site = Fake { marks: marks(), made: Some(true), ..Fake::default() };
        at_once(prepare(&mut site, &layout(&["d"]), Prepare::Discard)).unwrap();
        assert_eq!(site.calls.join(", "), "look, unmake a b c, look, make");
        assert_eq!(site.marks, BTreeMap::from([("d".to_owned(), "json; study".to_owned())]));
        at_once(remove(&mut Fake::default())).unwrap();
    }
}
