//! Maps Storebench's durability to Couchbase's levels.

use storebench_engine::store::{Acknowledged, Durability, Persisted};

use super::features::NO_DURABLE_WRITES;

const fn durability(acknowledged_by: Acknowledged, persisted: Persisted, on: u32) -> Durability {
    Durability { acknowledged_by, persisted, on }
}

/// In the memory of a majority, and on the disk of the active copy's node.
const MAJORITY_AND_ACTIVE: Durability = durability(Acknowledged::Majority, Persisted::Disk, 1);
/// On the disks of a majority. With 1 or 2 replicas, a majority is two.
const MAJORITY_ON_DISK: Durability = durability(Acknowledged::Majority, Persisted::Disk, 2);
const TWO: Durability = durability(Acknowledged::Nodes(2), Persisted::None, 0);
const TWO_AND_ACTIVE: Durability = durability(Acknowledged::Nodes(2), Persisted::Disk, 1);
const TWO_ON_DISK: Durability = durability(Acknowledged::Nodes(2), Persisted::Disk, 2);

/// The copies of a document that a bucket wants, and the nodes for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Copies {
    /// Wanted besides the active copy.
    pub(super) replicas: u32,
    /// Nodes with the data service.
    pub(super) nodes: u32,
    /// Whether the server has durable writes.
    pub(super) durable_writes: bool,
}

impl Copies {
    /// Why only the level none is available. The majority is that of the wanted copies, whether or not there are nodes
    /// for all of them.
    pub(super) fn why_none(self) -> Option<&'static str> {
        if !self.durable_writes {
            Some(NO_DURABLE_WRITES)
        } else if self.replicas > MOST_REPLICAS {
            Some("the server does not support durable writes in buckets with more than 2 replicas")
        } else if self.nodes < self.replicas.div_ceil(2) + 1 {
            Some("there are fewer nodes than a majority of the copies needs; add nodes, or reduce the replicas")
        } else {
            None
        }
    }
}

/// With more replicas, the server refuses durable writes:
/// <https://docs.couchbase.com/server/current/learn/data/durability.html>.
const MOST_REPLICAS: u32 = 2;

/// What a bucket with these copies can guarantee, and the level for each guarantee. `None` stands for any bucket, if
/// the copies are not known yet. With 1 or 2 replicas a majority of the copies is exactly two, so both ways to ask for
/// it are the same.
pub(super) fn guarantees(copies: Option<Copies>) -> Vec<(Durability, &'static str)> {
    let mut all = vec![(Durability::MEMORY, "level none: in the memory of the active copy")];
    if copies.is_some_and(|copies| copies.why_none().is_some()) {
        return all;
    }
    all.extend([
        (Durability::MAJORITY, "level majority: in the memory of a majority of the copies"),
        (MAJORITY_AND_ACTIVE, "level majorityAndPersistToActive"),
    ]);
    if copies.is_some_and(|copies| copies.replicas == 0) {
        all.push((Durability::FSYNC, "level majorityAndPersistToActive: on the only copy"));
    } else {
        all.extend([
            (TWO, "level majority: with 1 or 2 replicas, a majority is two copies"),
            (TWO_AND_ACTIVE, "level majorityAndPersistToActive: with 1 or 2 replicas, a majority is two copies"),
            (MAJORITY_ON_DISK, "level persistToMajority: with 1 or 2 replicas, a majority is two copies"),
            (TWO_ON_DISK, "level persistToMajority: with 1 or 2 replicas, a majority is two copies"),
        ]);
    }
    all
}

/// The levels as the protocol numbers them.
const NONE: u8 = 0;
const MAJORITY: u8 = 1;
const MAJORITY_AND_PERSIST_ACTIVE: u8 = 2;
const PERSIST_TO_MAJORITY: u8 = 3;

/// The number of the level that gives a guarantee.
pub(super) fn code(durability: Durability) -> u8 {
    match (durability.persisted, durability.on) {
        _ if durability == Durability::MEMORY => NONE,
        (Persisted::Disk, 1) => MAJORITY_AND_PERSIST_ACTIVE,
        (Persisted::Disk, _) => PERSIST_TO_MAJORITY,
        _ => MAJORITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guarantee_has_the_level_that_its_text_names() {
        for copies in [None, Some((0, 1)), Some((1, 2)), Some((2, 2)), Some((2, 3))] {
            let copies = copies.map(|(replicas, nodes)| Copies { replicas, nodes, durable_writes: true });
            for (durability, text) in guarantees(copies) {
                let named = match code(durability) {
                    NONE => "level none",
                    MAJORITY => "level majority",
                    MAJORITY_AND_PERSIST_ACTIVE => "level majorityAndPersistToActive",
                    _ => "level persistToMajority",
                };
                let rest = text.strip_prefix(named).unwrap_or_else(|| panic!("{durability}: {text}"));
                assert!(!rest.starts_with(char::is_alphabetic), "{durability}: {text}");
            }
        }
    }

    #[test]
    fn nothing_durable_is_guaranteed_where_the_server_makes_no_durable_writes() {
        let offered = |replicas, nodes| guarantees(Some(Copies { replicas, nodes, durable_writes: true })).len();
        assert_eq!(offered(3, 4), 1, "of 3 replicas");
        assert_eq!(offered(1, 1), 1, "a majority is two nodes");
        assert_eq!(offered(2, 1), 1, "a majority is two nodes");
        assert!(offered(0, 1) > 1 && offered(1, 2) > 1 && offered(2, 2) > 1);
    }
}
