//! The processors that this process may use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity};

/// The processors that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processors {
    /// How many threads can run at once: by its affinity and by the limits of its control group.
    pub usable: u32,
    /// How many cores these are. Two threads of one core (SMT) share its units, so a second thread adds far less than a
    /// second core.
    pub cores: u32,
    /// How many NUMA nodes these cores belong to.
    pub nodes: u32,
}

impl Processors {
    /// Looks at this machine. What the system does not tell counts as if each processor were a core, all on one node.
    pub fn look() -> Self {
        Self::of(&places(Path::new(SYSTEM), &allowed()), usable())
    }

    fn of(places: &[Place], usable: u32) -> Self {
        let count = |all: usize| u32::try_from(all).unwrap_or(u32::MAX).max(1);
        let cores = count(places.iter().map(|place| &place.core).collect::<BTreeSet<_>>().len());
        let nodes = count(places.iter().filter_map(|place| place.node).collect::<BTreeSet<_>>().len());
        Self { usable, cores: cores.min(usable.max(1)), nodes }
    }

    /// The processors that this process may use, as the system numbers them, in the order in which threads that need one
    /// each should get them: one of each core, node by node, and only then the second threads of cores.
    pub fn in_order() -> Vec<u32> {
        ordered(places(Path::new(SYSTEM), &allowed()))
    }
}

const SYSTEM: &str = "/sys/devices/system/cpu";

/// How many threads can run at once.
fn usable() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// The processors that this process may use by its affinity.
fn allowed() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(_) => (0..CpuSet::MAX_CPU.min(usable() as usize)).collect(),
    }
}

/// Where a processor is.
struct Place {
    processor: u32,
    /// The processors of its core.
    core: String,
    node: Option<u32>,
}

/// Where these processors are, from files as the kernel has them
/// (<https://docs.kernel.org/admin-guide/cputopology.html>).
fn places(system: &Path, processors: &[usize]) -> Vec<Place> {
    let core_of = |cpu: usize| {
        let file = system.join(format!("cpu{cpu}/topology/thread_siblings_list"));
        std::fs::read_to_string(file).map_or_else(|_| cpu.to_string(), |list| list.trim().to_owned())
    };
    let node_of = |cpu: usize| {
        let names = std::fs::read_dir(system.join(format!("cpu{cpu}"))).into_iter().flatten().flatten();
        let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
        names.find_map(|name| name.strip_prefix("node")?.parse().ok())
    };
    processors.iter().map(|&cpu| Place { processor: cpu as u32, core: core_of(cpu), node: node_of(cpu) }).collect()
}

fn ordered(places: Vec<Place>) -> Vec<u32> {
    let mut of_core = BTreeMap::new();
    let mut all: Vec<(u32, Option<u32>, u32)> = Vec::new();
    for place in places {
        let earlier = of_core.entry(place.core).or_insert(0);
        all.push((*earlier, place.node, place.processor));
        *earlier += 1;
    }
    all.sort_unstable();
    all.into_iter().map(|(.., processor)| processor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_nodes_are_counted_among_allowed_processors() {
        let system = tempfile::tempdir().unwrap();
        for cpu in 0..8 {
            let folder = system.path().join(format!("cpu{cpu}"));
            std::fs::create_dir_all(folder.join("topology")).unwrap();
            std::fs::create_dir(folder.join(format!("node{}", cpu / 2 % 2))).unwrap();
            // Processors 0 and 4 are two threads of one core, and so on.
            std::fs::write(folder.join("topology/thread_siblings_list"), format!("{},{}\n", cpu % 4, cpu % 4 + 4))
                .unwrap();
        }
        let of = |allowed: &[usize], usable| Processors::of(&places(system.path(), allowed), usable);
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7], 8), Processors { usable: 8, cores: 4, nodes: 2 });
        assert_eq!(of(&[0, 4], 2), Processors { usable: 2, cores: 1, nodes: 1 });
        // A control group allows less than the affinity.
        assert_eq!(of(&[0, 1, 2, 3], 2), Processors { usable: 2, cores: 2, nodes: 2 });
        // A system that tells nothing.
        assert_eq!(of(&[8, 9], 2), Processors { usable: 2, cores: 2, nodes: 1 });
        // Cores 0 and 1 are on node 0. The second threads come last.
        let ordered = |allowed: &[usize]| ordered(places(system.path(), allowed));
        assert_eq!(ordered(&[0, 1, 2, 3, 4, 5, 6, 7]), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(ordered(&[0, 2, 3, 4, 5]), [0, 5, 2, 3, 4]);
        assert_eq!(ordered(&[9, 8]), [8, 9]);
    }

    #[test]
    fn this_machine_has_some() {
        let found = Processors::look();
        assert!(found.usable >= 1 && (1..=found.usable).contains(&found.cores) && found.nodes >= 1, "{found:?}");
        assert!(Processors::in_order().len() >= found.cores as usize);
    }
}
