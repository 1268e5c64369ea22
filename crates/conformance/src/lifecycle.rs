//! Preparing, inspecting, opening and removing.

use std::time::Duration;

use serde_json::json;

use super::Subject;
use super::client::Client;
use super::ownership::{prepare, put};
use super::subject::broken;
use super::suite::{Check, Stop, ensure};
use storebench_engine::store::{
    Acknowledged, Durability, Existing, Namespace, Op, OpKind, Persisted, Prepare, ReadConsistency, SessionOptions,
    StoreError,
};

const NEEDS: &[OpKind] = &[OpKind::Upsert, OpKind::Read];

pub(super) const CHECKS: &[Check] = &[
    Check { name: "inspect: ours once prepared, absent once removed", needs: &[], run: inspect },
    Check { name: "prepare: keep keeps documents", needs: NEEDS, run: keep },
    Check { name: "prepare: keep creates what is missing", needs: NEEDS, run: keep_makes },
    Check { name: "prepare: fresh empties", needs: NEEDS, run: fresh },
    Check { name: "prepare: read-only leaves documents and creates nothing", needs: NEEDS, run: read_only },
    Check { name: "prepare: write-existing creates nothing", needs: &[], run: write_existing },
    Check { name: "remove: removes the documents too", needs: NEEDS, run: remove },
    Check {
        name: "open: declared guarantees open, others are not supported",
        needs: &[OpKind::Upsert],
        run: guarantees,
    },
    Check { name: "control: settle, stats and describe answer", needs: &[OpKind::Upsert], run: control },
];

fn expect_namespace(s: &Subject<'_>, expected: &Namespace, when: &str) -> Result<(), Stop> {
    let got = s.store.inspect().map_err(|e| broken("inspect", &e))?;
    ensure!(got == *expected, "{when}, inspect must say {expected:?}; got {got:?}");
    Ok(())
}

fn inspect(s: &Subject<'_>) -> Result<(), Stop> {
    expect_namespace(s, &Namespace::Ours, "after prepare")?;
    drop(s.client()?);
    expect_namespace(s, &Namespace::Ours, "after a session")?;
    s.store.remove().map_err(|e| broken("remove", &e))?;
    expect_namespace(s, &Namespace::Absent, "after remove")?;
    expect_namespace(s, &Namespace::Absent, "after remove and inspect")?;
    prepare(s, &s.layout, Prepare::Keep)?;
    expect_namespace(s, &Namespace::Ours, "after prepare Keep of nothing")
}

fn keep(s: &Subject<'_>) -> Result<(), Stop> {
    put(s, s.documents)?;
    prepare(s, &s.layout, Prepare::Keep)?;
    s.client()?.holds(s.documents, "a", &json!({"n": 1}))
}

fn keep_makes(s: &Subject<'_>) -> Result<(), Stop> {
    let mut less = s.layout.clone();
    less.collections.truncate(1);
    s.store.prepare(&less, Prepare::Fresh).map_err(|e| broken("prepare Fresh of one collection", &e))?;
    put(s, s.documents)?;
    prepare(s, &s.layout, Prepare::Keep)?;
    let mut c = s.client()?;
    c.holds(s.documents, "a", &json!({"n": 1}))?;
    c.wrote(s.indexed, Op::Upsert { key: "b", body: br#"{"n":2}"# })?;
    c.holds(s.indexed, "b", &json!({"n": 2}))
}

fn fresh(s: &Subject<'_>) -> Result<(), Stop> {
    put(s, s.documents)?;
    prepare(s, &s.layout, Prepare::Fresh)?;
    s.client()?.lacks(s.documents, "a")
}

fn read_only(s: &Subject<'_>) -> Result<(), Stop> {
    put(s, s.documents)?;
    prepare(s, &s.layout, Prepare::ReadOnly)?;
    s.client()?.holds(s.documents, "a", &json!({"n": 1}))?;
    s.store.remove().map_err(|e| broken("remove", &e))?;
    // The store may or may not return an error, but it must not create anything.
    let _ = s.store.prepare(&s.layout, Prepare::ReadOnly);
    expect_namespace(s, &Namespace::Absent, "after prepare ReadOnly of nothing")
}

fn write_existing(s: &Subject<'_>) -> Result<(), Stop> {
    s.store.remove().map_err(|e| broken("remove", &e))?;
    let mut theirs = s.layout.clone();
    for collection in &mut theirs.collections {
        collection.indexes.clear();
        let name = format!("not-there-{}", collection.name);
        collection.existing = Some(Existing { name, key: None, body: None });
    }
    // If a collection is only a key prefix, none is missing.
    let _ = s.store.prepare(&theirs, Prepare::WriteExisting);
    expect_namespace(s, &Namespace::Absent, "after prepare WriteExisting of nothing")
}

fn remove(s: &Subject<'_>) -> Result<(), Stop> {
    put(s, s.documents)?;
    s.store.remove().map_err(|e| broken("remove", &e))?;
    prepare(s, &s.layout, Prepare::Keep)?;
    s.client()?.lacks(s.documents, "a")
}

fn guarantees(s: &Subject<'_>) -> Result<(), Stop> {
    let mut levels = vec![
        Durability::MEMORY,
        Durability::OS,
        Durability::FSYNC,
        Durability::MAJORITY,
        Durability { acknowledged_by: Acknowledged::Nodes(7), persisted: Persisted::Disk, on: 7 },
    ];
    levels.extend(s.capabilities.durability.iter().map(|(durability, _)| *durability));
    for durability in levels {
        let declared = s.capabilities.guarantees(durability).is_some();
        opens(s, &SessionOptions { durability, ..s.options() }, declared, &format!("durability `{durability}`"))?;
    }
    for consistency in [ReadConsistency::StaleOk, ReadConsistency::Session, ReadConsistency::Strong] {
        let declared = s.capabilities.consistency.iter().any(|(offered, _)| *offered == consistency);
        opens(s, &SessionOptions { consistency, ..s.options() }, declared, &format!("consistency `{consistency}`"))?;
    }
    Ok(())
}

fn opens(s: &Subject<'_>, options: &SessionOptions, declared: bool, what: &str) -> Result<(), Stop> {
    match (Client::open(s.store, options, &s.time), declared) {
        (Ok(mut client), true) => client.wrote(s.documents, Op::Upsert { key: "a", body: b"{}" }).map(drop),
        (Err(StoreError::NotSupported(_)), false) => Ok(()),
        (Ok(_), false) => Err(Stop::failed(format!("{what} is not declared, yet a session with it opened"))),
        (Err(error), true) => Err(Stop::failed(format!("{what} is declared, but a session did not open: {error}"))),
        (Err(error), false) => {
            Err(Stop::failed(format!("{what} is not declared and must be refused as NotSupported; got {error:?}")))
        }
    }
}

fn control(s: &Subject<'_>) -> Result<(), Stop> {
    put(s, s.documents)?;
    s.store.settle(Duration::from_secs(60)).map_err(|e| broken("settle", &e))?;
    s.store.stats().map_err(|e| broken("stats", &e))?;
    match s.store.compact() {
        Ok(()) | Err(StoreError::NotSupported(_)) => {}
        Err(error) => return Err(broken("compact", &error)),
    }
    let described = s.store.describe();
    ensure!(
        !described.scheme.is_empty() && !described.url.is_empty(),
        "describe must give a scheme and a URL; got {described:?}"
    );
    s.client()?.holds(s.documents, "a", &json!({"n": 1}))
}
