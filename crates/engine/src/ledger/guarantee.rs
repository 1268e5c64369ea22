//! Which losses a guarantee allows: the only table of durability × fault.
//!
//! A write is acknowledged under a guarantee: a number of nodes hold it, and on some of them it has reached the
//! operating system or the disk. A fault destroys some of that state. A write may be lost if its guarantee does not
//! survive the fault.

use crate::store::{Acknowledged, Durability, Persisted};
use storebench_study::workload::FaultKind;

/// What a fault destroys on the nodes that it hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// Nothing.
    Nothing,
    /// Nothing, but the other nodes cannot reach this one for a while and may continue without it.
    Touch,
    /// The memory of the store's process.
    Memory,
    /// Data that has not been synced to disk.
    Unsynced,
}

fn takes(fault: FaultKind) -> Takes {
    match fault {
        FaultKind::Kill | FaultKind::Restart | FaultKind::RollingRestart => Takes::Memory,
        FaultKind::PowerCut => Takes::Unsynced,
        FaultKind::Pause | FaultKind::Link | FaultKind::Partition => Takes::Touch,
        FaultKind::DiskFull | FaultKind::Limit | FaultKind::Reset => Takes::Nothing,
        // A command can do anything, such as reset a machine.
        FaultKind::Run => Takes::Unsynced,
    }
}

/// A fault, and how many nodes it hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultHit {
    /// The fault.
    pub fault: FaultKind,
    /// Nodes that it hit.
    pub nodes: u32,
    /// All nodes of the store.
    pub of: u32,
}

impl FaultHit {
    /// Whether the fault may lose writes that were acknowledged under this guarantee. In a store of several nodes,
    /// writes that only a minority holds may also be lost, because the other nodes may continue without them.
    pub fn may_lose(self, guarantee: Durability) -> bool {
        let of = self.of.max(1);
        let holders = match guarantee.acknowledged_by {
            Acknowledged::Nodes(nodes) => nodes.clamp(1, of),
            Acknowledged::Majority => of / 2 + 1,
        };
        let all_hit = self.nodes >= holders;
        let left_behind = of > 1 && holders <= of / 2;
        match takes(self.fault) {
            Takes::Nothing => false,
            Takes::Touch => left_behind,
            Takes::Memory => left_behind || (all_hit && guarantee.persisted == Persisted::None),
            Takes::Unsynced => left_behind || (all_hit && guarantee.persisted < Persisted::Disk),
        }
    }
}

/// The guarantee table in Markdown: one row per group of faults that destroy the same state, one column per guarantee,
/// on a store of one node and of three. Faults that hit one node hit one of the three.
pub fn guarantee_table() -> String {
    let disk =
        |nodes| Durability { acknowledged_by: Acknowledged::Nodes(nodes), persisted: Persisted::Disk, on: nodes };
    let columns = [
        ("`none`", Durability::MEMORY, 1),
        ("`os`", Durability::OS, 1),
        ("`fsync`", Durability::FSYNC, 1),
        ("3 nodes: `fsync` of one", Durability::FSYNC, 3),
        ("3 nodes: `majority`", Durability::MAJORITY, 3),
        ("3 nodes: 2 on disk", disk(2), 3),
    ];
    let names =
        |faults: &[FaultKind]| faults.iter().map(|fault| format!("`{}`", fault.name())).collect::<Vec<_>>().join(", ");
    let mut out = String::from("| fault |");
    columns.iter().for_each(|(name, ..)| out += &format!(" {name} |"));
    out += "\n|---|";
    columns.iter().for_each(|_| out += "---|");
    for group in [Takes::Memory, Takes::Unsynced, Takes::Touch, Takes::Nothing] {
        let faults: Vec<FaultKind> = FaultKind::ALL.into_iter().filter(|fault| takes(*fault) == group).collect();
        out += &format!("\n| {} |", names(&faults));
        for (_, guarantee, of) in columns {
            let may = |fault: &FaultKind| {
                let nodes = if fault.hits_all_nodes() { of } else { 1 };
                FaultHit { fault: *fault, nodes, of }.may_lose(guarantee)
            };
            let losing: Vec<FaultKind> = faults.iter().copied().filter(may).collect();
            out += &match losing.len() {
                0 => " keeps |".to_owned(),
                all if all == faults.len() => " may lose |".to_owned(),
                _ => format!(" may lose ({}) |", names(&losing)),
            };
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(fault: FaultKind) -> FaultHit {
        FaultHit { fault, nodes: 1, of: 1 }
    }

    #[test]
    fn one_node_loses_what_its_guarantee_does_not_outlast() {
        use FaultKind::{Kill, PowerCut, Restart, RollingRestart, Run};
        for fault in FaultKind::ALL {
            let expected = match fault {
                Kill | Restart | RollingRestart => [true, false, false],
                PowerCut | Run => [true, true, false],
                _ => [false; 3],
            };
            let [none, os, fsync] = [Durability::MEMORY, Durability::OS, Durability::FSYNC];
            assert_eq!([none, os, fsync].map(|guarantee| alone(fault).may_lose(guarantee)), expected, "{fault:?}");
            // One node is a majority of one.
            assert_eq!(alone(fault).may_lose(Durability::MAJORITY), expected[0], "{fault:?}");
        }
    }

    #[test]
    fn of_several_nodes_those_that_are_left_keep_it() {
        let hit = |fault, nodes| FaultHit { fault, nodes, of: 3 };
        for (fault, nodes, expected) in [
            (FaultKind::Kill, 1, false),
            (FaultKind::Kill, 2, true),
            (FaultKind::RollingRestart, 3, true),
            (FaultKind::PowerCut, 1, false),
            (FaultKind::Partition, 1, false),
        ] {
            assert_eq!(hit(fault, nodes).may_lose(Durability::MAJORITY), expected, "{fault:?} of {nodes}");
        }
        // One node of three has synced it, and the other two may continue without that node.
        for fault in [FaultKind::Kill, FaultKind::Pause, FaultKind::Partition] {
            assert!(hit(fault, 1).may_lose(Durability::FSYNC), "{fault:?}");
        }
        assert!(!hit(FaultKind::DiskFull, 1).may_lose(Durability::FSYNC));
    }

    #[test]
    fn the_table_has_a_row_for_each_fault() {
        let table = guarantee_table();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows.len(), 4);
        for fault in FaultKind::ALL {
            let name = format!("`{}`", fault.name());
            let named = rows.iter().filter(|row| row.split('|').nth(1).unwrap().contains(&name));
            assert_eq!(named.count(), 1, "{name} is in one row");
        }
        assert!(rows[0].contains("| may lose | keeps | keeps |"), "{}", rows[0]);
        assert!(rows[1].contains("| may lose | may lose | keeps |"), "{}", rows[1]);
        // Of three nodes, a rolling restart and a command hit all; the other faults hit one.
        let of_a_majority = |row: &str| row.split('|').nth(6).unwrap().trim().to_owned();
        assert_eq!(of_a_majority(rows[0]), "may lose (`rolling-restart`)");
        assert_eq!(of_a_majority(rows[1]), "may lose (`run`)");
    }
}
