//! What a copy wrote is the user's: no study empties, removes or takes it, except with the flag that names the loss.

use serde_json::json;

use super::Subject;
use super::subject::broken;
use super::suite::{Check, Stop, ensure};
use storebench_engine::store::{CollectionId, CopyId, Layout, Namespace, Op, OpKind, Owner, Prepare, StoreError};

const NEEDS: &[OpKind] = &[OpKind::Upsert, OpKind::Read];
const FIRST: CopyId = CopyId(0x00ab_cdef_0123_4567);
const SECOND: CopyId = CopyId(0x0123_4567_89ab_cdef);

pub(super) const CHECKS: &[Check] = &[
    Check { name: "ownership: what a copy wrote is protected from studies", needs: NEEDS, run: |s| tidy(s, stays) },
    Check { name: "ownership: discard removes what a copy wrote", needs: NEEDS, run: |s| tidy(s, discard) },
    Check {
        name: "ownership: a study's collection beside a copy's is removed alone",
        needs: NEEDS,
        run: |s| tidy(s, beside),
    },
    Check {
        name: "ownership: a copy into a study's collection makes it the user's",
        needs: NEEDS,
        run: |s| tidy(s, taken_over),
    },
];

/// Removes the user's data after the check, so that the next one begins without any.
fn tidy(s: &Subject<'_>, check: fn(&Subject<'_>) -> Result<(), Stop>) -> Result<(), Stop> {
    let told = check(s);
    let discarded = s.store.prepare(&s.layout, Prepare::Discard);
    told?;
    discarded.map_err(|e| broken("prepare Discard", &e))
}

pub(super) fn prepare(s: &Subject<'_>, layout: &Layout, how: Prepare) -> Result<(), Stop> {
    s.store.prepare(layout, how).map_err(|e| broken(&format!("prepare {how:?}"), &e))
}

fn remove(s: &Subject<'_>) -> Result<(), Stop> {
    s.store.remove().map_err(|e| broken("remove", &e))
}

/// The layout with only one collection.
fn only(s: &Subject<'_>, collection: CollectionId) -> Layout {
    let mut layout = s.layout.clone();
    layout.collections = vec![layout.collections.swap_remove(collection.position())];
    layout
}

fn name(s: &Subject<'_>, collection: CollectionId) -> String {
    s.layout.collections[collection.position()].name.clone()
}

pub(super) fn put(s: &Subject<'_>, collection: CollectionId) -> Result<(), Stop> {
    s.client()?.wrote(collection, Op::Upsert { key: "a", body: br#"{"n":1}"# }).map(drop)
}

fn holds(s: &Subject<'_>, collection: CollectionId) -> Result<(), Stop> {
    s.client()?.holds(collection, "a", &json!({"n": 1}))
}

fn owned(s: &Subject<'_>, collection: CollectionId, expected: Option<Owner>, when: &str) -> Result<(), Stop> {
    let name = name(s, collection);
    let got = s.store.owner_of(&name).map_err(|e| broken("owner_of", &e))?;
    ensure!(got == expected, "{when}, the owner of `{name}` must be {expected:?}; got {got:?}");
    Ok(())
}

fn is_copied(s: &Subject<'_>, when: &str) -> Result<(), Stop> {
    let got = s.store.inspect().map_err(|e| broken("inspect", &e))?;
    ensure!(matches!(got, Namespace::Copied(_)), "{when}, inspect must say that a copy wrote here; got {got:?}");
    Ok(())
}

fn refused(s: &Subject<'_>) -> Result<(), Stop> {
    for how in [Prepare::Fresh, Prepare::Keep, Prepare::IntoExisting] {
        let told = s.store.prepare(&s.layout, how);
        ensure!(
            matches!(told, Err(StoreError::NotOurs(_))),
            "prepare {how:?} of what a copy wrote must be refused as not ours; got {told:?}"
        );
    }
    Ok(())
}

fn stays(s: &Subject<'_>) -> Result<(), Stop> {
    remove(s)?;
    prepare(s, &s.layout, Prepare::Copy(FIRST))?;
    put(s, s.documents)?;
    is_copied(s, "after a copy")?;
    refused(s)?;
    remove(s)?;
    is_copied(s, "after remove")?;
    owned(s, s.documents, Some(Owner::User(Some(FIRST))), "after remove")?;
    prepare(s, &s.layout, Prepare::Copy(SECOND))?;
    holds(s, s.documents)?;
    owned(s, s.documents, Some(Owner::User(Some(FIRST))), "after a second copy")?;
    prepare(s, &s.layout, Prepare::ReadOnly)?;
    holds(s, s.documents)
}

fn discard(s: &Subject<'_>) -> Result<(), Stop> {
    remove(s)?;
    prepare(s, &s.layout, Prepare::Copy(FIRST))?;
    put(s, s.documents)?;
    prepare(s, &s.layout, Prepare::Discard)?;
    s.client()?.lacks(s.documents, "a")?;
    owned(s, s.documents, Some(Owner::Study), "after discard")?;
    let got = s.store.inspect().map_err(|e| broken("inspect", &e))?;
    ensure!(got == Namespace::Ours, "after discard, inspect must say Ours; got {got:?}");
    prepare(s, &s.layout, Prepare::Fresh)
}

fn beside(s: &Subject<'_>) -> Result<(), Stop> {
    remove(s)?;
    let (copied, studied) = (only(s, s.documents), only(s, s.indexed));
    prepare(s, &copied, Prepare::Copy(FIRST))?;
    put(s, CollectionId(0))?;
    prepare(s, &studied, Prepare::IntoExisting)?;
    put(s, CollectionId(0))?;
    owned(s, s.indexed, Some(Owner::Study), "after a study beside a copy")?;
    remove(s)?;
    owned(s, s.indexed, None, "after remove")?;
    owned(s, s.documents, Some(Owner::User(Some(FIRST))), "after remove")?;
    is_copied(s, "after remove")?;
    prepare(s, &copied, Prepare::ReadOnly)?;
    holds(s, CollectionId(0))?;
    prepare(s, &studied, Prepare::IntoExisting)?;
    s.client()?.lacks(CollectionId(0), "a")
}

fn taken_over(s: &Subject<'_>) -> Result<(), Stop> {
    owned(s, s.documents, Some(Owner::Study), "after prepare Fresh")?;
    put(s, s.documents)?;
    prepare(s, &s.layout, Prepare::Copy(FIRST))?;
    owned(s, s.documents, Some(Owner::User(Some(FIRST))), "after a copy")?;
    refused(s)?;
    remove(s)?;
    prepare(s, &s.layout, Prepare::ReadOnly)?;
    holds(s, s.documents)
}
