//! `sync-costs-nothing`: does a sync reach a disk?

use std::path::Path;

use crate::environment::{Disk, SYNC_TOO_FAST_NS};
use crate::human::duration;
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};

pub(super) const CHECK: Check =
    Check::new("sync-costs-nothing", "a sync does not reach a disk", &[Looks::Phase(look)]).for_the_answer();

/// No rotating disk does without a cache that forgets, in ns: half a turn at 15,000 rpm.
pub(super) const TOO_FAST_ROTATING_NS: u64 = 2_000_000;
/// File systems in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// Whether a write that counts as synced was on a disk: by the file system of the store's data, and by how long a sync
/// took there before the run. Of servers, only those that the run starts have a known place.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let phase = scene.phase;
    let synced = phase.durability.name == "fsync" || phase.durability.name.contains("disk");
    let writes = phase.ops.values().any(|op| op.written_bytes > 0);
    if !synced || !writes {
        return None;
    }
    let place = match &scene.trial.data_folder {
        Some(folder) => Path::new(folder),
        None if scene.trial.embedded => Path::new(scene.trial.url.split_once(':')?.1.split('?').next()?),
        None => return None,
    };
    let disks = &scene.environment.disks;
    let alike = |disk: &&Disk| place.ends_with(&disk.path) || Path::new(&disk.path).ends_with(place);
    let disk = disks.iter().find(|disk| Path::new(&disk.path) == place).or_else(|| disks.iter().find(alike))?;
    let kind = disk.filesystem.as_deref().unwrap_or("an unknown file system");
    let in_memory = IN_MEMORY.contains(&kind);
    let rotating = disk.rotational == Some(true);
    let took = disk.sync_p50_ns;
    if took.is_none() && !in_memory {
        return None;
    }
    let severity = match took.unwrap_or(0) {
        _ if in_memory => Severity::Caution,
        ..SYNC_TOO_FAST_NS => Severity::Caution,
        // Virtual disks may report that they rotate.
        ..TOO_FAST_ROTATING_NS if rotating => Severity::Note,
        _ => Severity::Pass,
    };
    let takes = took.map_or_else(String::new, |ns| format!(", where a sync of 4 KiB takes {}", duration(ns as f64)));
    let rotates = if rotating { ", on a disk that reports itself as rotating" } else { "" };
    Some(Finding::new(
        severity,
        format!("{} is on {kind}{rotates}{takes}", disk.path),
        format!(
            "caution on a file system in memory and below {} for a sync, note below {} on a rotating disk",
            duration(SYNC_TOO_FAST_NS as f64),
            duration(TOO_FAST_ROTATING_NS as f64)
        ),
        "a cache answers: unless it has its own power, writes that count as synced do not survive a power failure, and cost less than on a disk that keeps them; put the store on a disk, or state this beside the figures",
    ))
}

#[cfg(test)]
mod tests {
    use crate::environment::Disk;
    use crate::validity::testing::{CAUTION, NOTE, PASS, all, closed, separate, severity};
    use crate::{PhaseResult, RunResult};

    fn on(filesystem: &str, rotational: bool, sync_p50_ns: Option<u64>) -> RunResult {
        let mut result = closed(|p| p.durability.name = "fsync".into());
        result.trials[0].url = "sqlite:data/x.db?cache=1".into();
        result.environment.disks = vec![Disk {
            path: "data/x.db".into(),
            filesystem: Some(filesystem.into()),
            rotational: Some(rotational),
            sync_p50_ns,
            ..Disk::default()
        }];
        result
    }

    #[test]
    fn a_sync_that_costs_nothing_is_named() {
        for (filesystem, rotational, sync_p50_ns, expected) in [
            ("ext4", false, Some(20_000), PASS),
            ("ext4", false, Some(19_999), CAUTION),
            ("tmpfs", false, Some(2_000), CAUTION),
            ("tmpfs", false, None, CAUTION),
            ("ext4", true, Some(19_999), CAUTION),
            ("ext4", true, Some(1_999_999), NOTE),
            ("ext4", true, Some(2_000_000), PASS),
            ("ext4", false, None, None),
        ] {
            let result = on(filesystem, rotational, sync_p50_ns);
            assert_eq!(severity(&result, "sync-costs-nothing"), expected, "{filesystem} {sync_p50_ns:?}");
        }
        // Another store's disk, whose path also ends like this one's.
        let mut two = on("ext4", false, Some(500_000));
        let elsewhere = Disk { path: "fast/data/x.db".into(), filesystem: Some("tmpfs".into()), ..Disk::default() };
        two.environment.disks.insert(0, elsewhere);
        assert_eq!(severity(&two, "sync-costs-nothing"), PASS);
        // A colon may be part of a path.
        let mut colon = on("tmpfs", false, Some(2_000));
        colon.trials[0].url = "slow+sqlite:data/a:b.db".into();
        colon.environment.disks[0].path = "data/a:b.db".into();
        assert_eq!(severity(&colon, "sync-costs-nothing"), CAUTION);
        let told = &all(&on("tmpfs", false, Some(2_000)), "sync-costs-nothing")[0].observed;
        assert_eq!(told, "data/x.db is on tmpfs, where a sync of 4 KiB takes 2.00 µs");
    }

    #[test]
    fn where_nothing_is_synced_or_the_disk_is_another_machines() {
        let with = |change: fn(&mut PhaseResult)| {
            let mut result = on("tmpfs", false, None);
            change(&mut result.trials[0].phases[0]);
            severity(&result, "sync-costs-nothing")
        };
        assert_eq!(with(|p| p.durability.name = "os".into()), None);
        assert_eq!(with(|p| p.ops.values_mut().for_each(|op| op.written_bytes = 0)), None);
        assert_eq!(severity(&separate(on("tmpfs", false, None)), "sync-costs-nothing"), None);
        // A server that the run starts: its data is known.
        let mut started = separate(on("tmpfs", false, None));
        started.trials[0].data_folder = Some("data/x.db".into());
        assert_eq!(severity(&started, "sync-costs-nothing"), CAUTION);
    }
}
