//! Decides when a durable write may be acknowledged.

use super::cluster::Cluster;

/// A durability level of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// In the memory of a majority of the copies.
    Majority,
    /// The same, and on the disk of the active copy.
    MajorityAndPersistOnActive,
    /// On the disk of a majority of the copies.
    PersistToMajority,
}

impl Level {
    /// The level of a durability frame.
    pub(super) fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Majority),
            2 => Some(Self::MajorityAndPersistOnActive),
            3 => Some(Self::PersistToMajority),
            _ => None,
        }
    }
}

/// Whether a durable write is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chance {
    /// Enough copies accept it.
    Now,
    /// Enough copies are in the map, but not all of them accept it now.
    Later,
    /// The map does not have enough copies.
    Never,
}

/// Whether the copies of a vbucket can meet a level.
pub(super) fn chance(cluster: &Cluster, vbucket: u16, level: Level) -> Chance {
    let majority = cluster.map.wanted_copies() / 2 + 1;
    let holders: Vec<usize> = cluster.map.copies(vbucket).collect();
    if holders.len() < majority {
        return Chance::Never;
    }
    let in_memory = |position: usize, node: usize| {
        let node = &cluster.nodes[node];
        node.up && (position == 0 || node.replicates)
    };
    let on_disk = |position: usize, node: usize| in_memory(position, node) && cluster.nodes[node].disk;
    let count = |holds: &dyn Fn(usize, usize) -> bool| {
        holders.iter().enumerate().filter(|(position, node)| holds(*position, **node)).count()
    };
    // The active copy coordinates the write. Without it, the others wait.
    if !in_memory(0, holders[0]) {
        return Chance::Later;
    }
    let met = match level {
        Level::Majority => count(&in_memory) >= majority,
        Level::MajorityAndPersistOnActive => count(&in_memory) >= majority && on_disk(0, holders[0]),
        Level::PersistToMajority => count(&on_disk) >= majority,
    };
    if met { Chance::Now } else { Chance::Later }
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeOptions;
    use super::super::map::Ports;
    use super::*;

    fn cluster(nodes: usize, replicas: usize) -> Cluster {
        Cluster::new(FakeOptions { nodes, replicas, ..FakeOptions::default() }, vec![Ports::default(); nodes])
    }

    #[test]
    fn two_of_three_copies_are_a_majority_and_one_is_not() {
        let mut c = cluster(3, 2);
        assert_eq!(chance(&c, 0, Level::Majority), Chance::Now);
        c.nodes[1].replicates = false;
        assert_eq!(chance(&c, 0, Level::Majority), Chance::Now);
        c.nodes[2].up = false;
        assert_eq!(chance(&c, 0, Level::Majority), Chance::Later);
        c.nodes[0].up = false;
        c.nodes[1].replicates = true;
        c.nodes[2].up = true;
        assert_eq!(chance(&c, 0, Level::Majority), Chance::Later, "the active copy is down");
        assert_eq!(chance(&c, 0, Level::PersistToMajority), Chance::Later, "the active copy is down");
        c.map.holders[0] = vec![0, -1, -1];
        assert_eq!(chance(&c, 0, Level::Majority), Chance::Never);
    }

    #[test]
    fn disks_count_for_the_levels_that_persist() {
        let mut c = cluster(3, 2);
        c.nodes[0].disk = false;
        assert_eq!(chance(&c, 0, Level::Majority), Chance::Now);
        assert_eq!(chance(&c, 0, Level::MajorityAndPersistOnActive), Chance::Later);
        assert_eq!(chance(&c, 0, Level::PersistToMajority), Chance::Now);
        c.nodes[1].disk = false;
        assert_eq!(chance(&c, 0, Level::PersistToMajority), Chance::Later);
    }

    #[test]
    fn one_wanted_replica_without_a_node_for_it_is_never_a_majority() {
        assert_eq!(chance(&cluster(1, 1), 0, Level::Majority), Chance::Never);
        assert_eq!(chance(&cluster(1, 0), 0, Level::Majority), Chance::Now);
    }
}
