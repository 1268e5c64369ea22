//! What a cluster is, and what it therefore guarantees.

use std::collections::BTreeSet;

use scylla::frame::types::Consistency;
use scylla::value::CqlValue;
use storebench_engine::store::{Acknowledged, Durability, Persisted, ReadConsistency, StoreError};

use super::link::{Cells, Link, literal};
use super::settings::{Replication, Settings};

/// What a cluster says about itself and about a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// Name and version.
    pub(super) version: String,
    /// Whether it is Cassandra 5 or later, with storage-attached indexes.
    pub(super) sai: bool,
    /// Whether tokens are those of Murmur3, so that ranges can be cut without asking.
    pub(super) murmur: bool,
    pub(super) copies: Copies,
    /// Why nothing is guaranteed to be on disk; `None` if every node syncs its commit log before it acknowledges.
    pub(super) not_synced: Option<&'static str>,
}

/// The replicas of a keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Copies {
    /// In all data centres.
    pub(super) all: u32,
    /// Those of which a quorum is counted: of all of them, or of the named data centre.
    pub(super) near: u32,
}

impl Copies {
    fn quorum(self) -> u32 {
        self.near / 2 + 1
    }
}

/// Why nothing is guaranteed to be on disk.
const PERIODIC: &str = "the server acknowledges writes before it syncs its commit log (commitlog_sync is not batch or \
                        group on every node)";
const UNTOLD: &str = "could not read commitlog_sync from every node";
const UNUSED: &str = "the keyspace has durable_writes = false";

impl Facts {
    /// What a cluster may be: as it is shipped, or syncing its commit logs first; with three replicas, or more if the
    /// URL asks for more.
    pub(super) fn not_asked(settings: &Settings) -> Vec<Self> {
        let all = settings.replication.iter().map(|(_, copies)| copies).sum::<u32>().max(3);
        let of = |not_synced| Self {
            version: String::new(),
            sai: false,
            murmur: true,
            copies: Copies { all, near: all },
            not_synced,
        };
        vec![of(Some(PERIODIC)), of(None)]
    }

    /// Asks the cluster about itself and these keyspaces.
    ///
    /// # Errors
    /// `NotSupported` if the keyspaces guarantee different things.
    pub(super) async fn ask(link: &Link, settings: &Settings, keyspaces: &BTreeSet<&str>) -> Result<Self, StoreError> {
        let local = link.rows("read its version", "SELECT release_version, partitioner FROM system.local").await?;
        let local = local.first().ok_or_else(|| link.garbled("read its version"))?;
        // ScyllaDB's own table. Its `release_version` is that of the Cassandra that it resembles.
        let scylla = link.rows_if_known("SELECT version FROM system.versions").await;
        let scylla = scylla.first().map(|row| row.text(0));
        let major = local.text(0).split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        let sai = scylla.is_none() && major >= 5;
        let version = match scylla {
            Some(version) => format!("ScyllaDB {version}"),
            None => format!("Apache Cassandra {}", local.text(0)),
        };
        let not_synced = why_not_synced(link, scylla.is_some()).await;
        let mut found = Vec::new();
        for keyspace in keyspaces {
            found.push(keyspace_of(link, settings, keyspace, not_synced).await?);
            if found.last() != found.first() {
                return Err(StoreError::NotSupported(format!(
                    "{}: the collections are in keyspaces with different replication or durable_writes ({}); use them \
                     one by one",
                    link.place,
                    keyspaces.iter().copied().collect::<Vec<_>>().join(", ")
                )));
            }
        }
        let (copies, not_synced) = found.pop().unwrap_or((Copies { all: 1, near: 1 }, not_synced));
        Ok(Self { version, sai, murmur: local.text(1).ends_with("Murmur3Partitioner"), copies, not_synced })
    }

    /// What an acknowledgement can guarantee, and the level of each.
    pub(super) fn durability(&self) -> Vec<(Durability, Consistency, &'static str)> {
        let Copies { all, near } = self.copies;
        let quorum = self.copies.quorum();
        let synced = self.not_synced.is_none();
        let persisted = if synced { Persisted::Disk } else { Persisted::None };
        let of = |acknowledged_by, nodes| Durability { acknowledged_by, persisted, on: if synced { nodes } else { 0 } };
        let nodes = |nodes| of(Acknowledged::Nodes(nodes), nodes);
        let mut levels = vec![(nodes(1), Consistency::One, ONE[usize::from(synced)])];
        let by_quorum = QUORUM[usize::from(synced)];
        if near == all {
            levels.push((of(Acknowledged::Majority, quorum), Consistency::Quorum, by_quorum));
        }
        if quorum > 1 {
            levels.push((nodes(quorum), Consistency::Quorum, if near == all { by_quorum } else { LOCAL_QUORUM }));
        }
        if all > quorum {
            levels.push((nodes(all), Consistency::All, "consistency ALL: every replica has acknowledged"));
        }
        levels
    }

    /// The level of reads that have this consistency after writes of a level.
    pub(super) fn read_level(&self, consistency: ReadConsistency, writes: Consistency) -> Consistency {
        match (consistency, writes) {
            _ if self.copies.all == 1 => Consistency::One,
            (ReadConsistency::StaleOk, _) | (_, Consistency::All) => Consistency::One,
            (_, Consistency::Quorum) => Consistency::Quorum,
            _ => Consistency::All,
        }
    }
}

/// What levels guarantee if commit logs are synced later, and if they are synced before.
const ONE: [&str; 2] = [
    "consistency ONE: in the memory of a replica; its commit log is synced later",
    "consistency ONE: a replica has synced its commit log",
];
const QUORUM: [&str; 2] = [
    "consistency QUORUM: in the memory of a majority of the replicas",
    "consistency QUORUM: a majority of the replicas have synced their commit logs",
];
const LOCAL_QUORUM: &str = "consistency LOCAL_QUORUM: a majority of the replicas in the data centre";

/// The guarantees of reads, in words.
pub(super) const CONSISTENCY: [(ReadConsistency, &str); 3] = [
    (ReadConsistency::StaleOk, "consistency ONE"),
    (ReadConsistency::Session, "same as strong"),
    (
        ReadConsistency::Strong,
        "as many replicas are read as makes a reader meet the last writer: ALL after ONE, QUORUM after QUORUM, ONE \
         after ALL; within the data centre, if one is named. Of two writes the one with the later timestamp stays, and \
         the nodes' clocks give the timestamps",
    ),
];

/// Why a write may be acknowledged before it is synced. Each node tells only its own setting.
async fn why_not_synced(link: &Link, scylla: bool) -> Option<&'static str> {
    let query = if scylla {
        "SELECT value FROM system.config WHERE name = 'commitlog_sync'"
    } else {
        "SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'"
    };
    let mut why = None;
    for rows in link.rows_by_node(query).await {
        // ScyllaDB puts its values in quotes.
        match rows.unwrap_or_default().first().map(|row| row.text(0).trim_matches('"')) {
            Some("batch" | "group") => {}
            Some("periodic") => return Some(PERIODIC),
            _ => why = Some(UNTOLD),
        }
    }
    why
}

/// The replicas of a keyspace, as it has them or as it will get them, and why its writes may not be synced.
async fn keyspace_of(
    link: &Link,
    settings: &Settings,
    name: &str,
    not_synced: Option<&'static str>,
) -> Result<(Copies, Option<&'static str>), StoreError> {
    let query = format!(
        "SELECT replication, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = {}",
        literal(name)
    );
    let rows = link.rows(&format!("read the replication of the keyspace `{name}`"), query).await?;
    let near = |name: &str| settings.datacenter.as_deref().is_none_or(|near| near == name);
    let per_datacenter = match rows.first() {
        Some(row) => replicas(row).ok_or_else(|| {
            StoreError::NotSupported(format!(
                "{}: the replication of the keyspace `{name}` is not a number of replicas",
                link.place
            ))
        })?,
        None => settings.replication.clone(),
    };
    let all = per_datacenter.iter().map(|(_, copies)| copies).sum::<u32>().max(1);
    let counted = per_datacenter.iter().filter(|(name, _)| name.as_deref().is_none_or(near)).map(|(_, copies)| copies);
    let unused = rows.first().and_then(|row| row.is(1)) == Some(false);
    Ok((Copies { all, near: counted.sum::<u32>().max(1) }, if unused { Some(UNUSED) } else { not_synced }))
}

/// The replicas in each data centre; without a name if the strategy knows none. `None` for a strategy that is not
/// known.
fn replicas(row: &Cells) -> Option<Replication> {
    let Some(CqlValue::Map(pairs)) = row.value(0) else { return None };
    let mut all = Vec::new();
    for (name, value) in pairs {
        match (name.as_text()?.as_str(), value.as_text()?) {
            ("class", class) if class.ends_with("LocalStrategy") => all.push((None, 1)),
            ("class", class) if ["SimpleStrategy", "NetworkTopologyStrategy"].iter().any(|it| class.ends_with(it)) => {}
            ("class", _) => return None,
            (name, copies) => all.push(((name != "replication_factor").then(|| name.to_owned()), copies.parse().ok()?)),
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(all: u32, near: u32, not_synced: Option<&'static str>) -> Facts {
        Facts { version: String::new(), sai: true, murmur: true, copies: Copies { all, near }, not_synced }
    }

    fn levels(facts: &Facts) -> Vec<(String, Consistency)> {
        facts.durability().into_iter().map(|(durability, level, _)| (durability.to_string(), level)).collect()
    }

    #[test]
    fn a_level_guarantees_what_its_nodes_have_done() {
        let of = |text: &str, level| (text.to_owned(), level);
        assert_eq!(
            levels(&facts(1, 1, Some(PERIODIC))),
            [of("none", Consistency::One), of("majority", Consistency::Quorum)]
        );
        assert_eq!(
            levels(&facts(3, 3, None)),
            [
                of("fsync", Consistency::One),
                of("acknowledged by majority, persisted disk on 2", Consistency::Quorum),
                of("acknowledged by 2, persisted disk on 2", Consistency::Quorum),
                of("acknowledged by 3, persisted disk on 3", Consistency::All),
            ]
        );
        // A majority of one data centre is not one of all replicas.
        assert_eq!(
            levels(&facts(6, 3, Some(UNTOLD))),
            [
                of("none", Consistency::One),
                of("acknowledged by 2, persisted none", Consistency::Quorum),
                of("acknowledged by 6, persisted none", Consistency::All),
            ]
        );
    }

    #[test]
    fn a_strong_read_meets_the_last_writer() {
        let three = facts(3, 3, Some(PERIODIC));
        let of = |consistency| {
            [Consistency::One, Consistency::Quorum, Consistency::All]
                .map(|writes| three.read_level(consistency, writes))
        };
        assert_eq!(of(ReadConsistency::Strong), [Consistency::All, Consistency::Quorum, Consistency::One]);
        assert_eq!(of(ReadConsistency::StaleOk), [Consistency::One; 3]);
        assert_eq!(facts(1, 1, Some(PERIODIC)).read_level(ReadConsistency::Strong, Consistency::One), Consistency::One);
    }
}
