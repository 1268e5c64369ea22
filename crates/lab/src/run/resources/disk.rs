//! How much was written to the disk of a store's folder, and how much of that was the store's.
//!
//! A disk counts bytes, not who wrote them. So the figure covers all writers, minus the rate observed just before the
//! phase, when there were no requests. Write amplification is given only if most of it can be the store's. It is not
//! given if the disk was as busy before the phase. Nor if the disk wrote many times what the kernel counts for the
//! store's processes: that indicates another writer, or leftovers of an earlier phase. If neither is known, there is no
//! figure either. `docs/statistics.md` explains the thresholds.

use storebench_machine::BlockUse;
use storebench_results::DiskResult;
use storebench_results::human::bytes;

/// The activity of a disk for a while before a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::run) struct DiskIdle {
    /// How long it was observed, in ns.
    pub(in crate::run) span_ns: u64,
    /// Bytes written in that time.
    pub(in crate::run) write_bytes: u64,
}

/// Above this share, other writers wrote as much as the store.
const OTHERS: f64 = 0.5;
/// A file system adds its own writes, several times the store's if every write is small and synced. More than this
/// factor cannot be the store's.
const OF_ITS_OWN: u64 = 8;
/// Any disk that holds a system writes about this much.
const SLACK_BYTES: u64 = 1 << 20;

/// The activity of a disk between two readings. `store` is what the kernel counts for the store's processes, if known.
pub(super) struct DiskSpan {
    pub(super) name: String,
    pub(super) before: BlockUse,
    pub(super) after: BlockUse,
    pub(super) span_ns: u64,
    pub(super) idle: Option<DiskIdle>,
    pub(super) store: Option<u64>,
}

impl DiskSpan {
    /// The result, for this many bytes of documents.
    pub(super) fn result(self, documents_bytes: u64) -> DiskResult {
        let write_bytes = self.after.write_bytes.saturating_sub(self.before.write_bytes);
        let idle = self.idle.filter(|idle| idle.span_ns > 0);
        let others = idle.map(|idle| {
            let share = self.span_ns as f64 / idle.span_ns as f64;
            ((idle.write_bytes as f64 * share) as u64).min(write_bytes)
        });
        let unknown = (documents_bytes > 0).then(|| why_unknown(write_bytes, others, self.store)).flatten();
        let own = write_bytes.saturating_sub(others.unwrap_or(0));
        DiskResult {
            name: self.name,
            read_bytes: self.after.read_bytes.saturating_sub(self.before.read_bytes),
            write_bytes,
            others_write_bytes: others,
            write_amplification: (documents_bytes > 0 && unknown.is_none())
                .then(|| own as f64 / documents_bytes as f64),
            amplification_unknown: unknown,
            flushes: self.after.flushes.saturating_sub(self.before.flushes),
        }
    }
}

fn why_unknown(written: u64, others: Option<u64>, store: Option<u64>) -> Option<String> {
    if written == 0 {
        return None;
    }
    if let Some(others) = others.filter(|others| *others as f64 >= written as f64 * OTHERS) {
        return Some(format!(
            "other writers wrote at least half: {} of {}, by the rate before the phase",
            bytes(others as f64),
            bytes(written as f64)
        ));
    }
    match (others, store) {
        (_, Some(own)) if written > own.saturating_mul(OF_ITS_OWN).saturating_add(SLACK_BYTES) => Some(format!(
            "{} were written to the disk, but only {} by the store's processes",
            bytes(written as f64),
            bytes(own as f64)
        )),
        (None, None) => Some("unknown which processes wrote to the disk".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A phase of 10 s that wrote 2 MiB of documents.
    fn phase(written: u64, idle_per_s: Option<u64>, store: Option<u64>) -> DiskResult {
        let counted = |write_bytes| BlockUse { write_bytes, ..BlockUse::default() };
        let span = DiskSpan {
            name: "sda".into(),
            before: counted(7 * MIB),
            after: counted(7 * MIB + written),
            span_ns: 10_000_000_000,
            idle: idle_per_s.map(|per_s| DiskIdle { span_ns: 500_000_000, write_bytes: per_s / 2 }),
            store,
        };
        span.result(2 * MIB)
    }

    #[test]
    fn what_the_disk_did_before_is_subtracted() {
        let alone = phase(8 * MIB, Some(0), Some(5 * MIB));
        assert_eq!(
            (alone.write_bytes, alone.others_write_bytes, alone.write_amplification),
            (8 * MIB, Some(0), Some(4.0))
        );
        let beside = phase(8 * MIB, Some(MIB / 5), Some(5 * MIB));
        assert_eq!((beside.write_bytes, beside.others_write_bytes), (8 * MIB, Some(MIB / 5 / 2 * 20)));
        assert!((beside.write_amplification.unwrap() - 3.0).abs() < 1e-4, "{beside:?}");
    }

    #[test]
    fn where_others_wrote_as_much_there_is_no_such_figure() {
        // Judged by the disk's activity before the phase.
        let busy = phase(8 * MIB, Some(MIB / 2), Some(8 * MIB));
        assert_eq!((busy.write_amplification, busy.write_bytes), (None, 8 * MIB));
        let why = busy.amplification_unknown.unwrap();
        assert!(why.starts_with("other writers wrote at least half: 5.00 MiB of 8.00 MiB"));
        // A real case: ×1,258 for SQLite on a disk that others were filling.
        let shared = phase(2_516 * MIB, Some(0), Some(5 * MIB));
        assert_eq!(shared.write_amplification, None);
        assert_eq!(
            shared.amplification_unknown.as_deref(),
            Some("2.46 GiB were written to the disk, but only 5.00 MiB by the store's processes")
        );
        // The disk was not observed before, and the store's processes are unknown.
        assert_eq!(phase(8 * MIB, None, None).write_amplification, None);
        assert!(phase(8 * MIB, None, None).amplification_unknown.is_some());
        assert_eq!(phase(8 * MIB, None, Some(5 * MIB)).write_amplification, Some(4.0));
        assert_eq!(phase(8 * MIB, Some(0), None).write_amplification, Some(4.0));
    }

    /// With small synced writes, a file system writes several times their bytes, which the store causes.
    #[test]
    fn what_a_file_system_adds_is_the_stores() {
        assert_eq!(phase(40 * MIB, Some(0), Some(5 * MIB)).write_amplification, Some(20.0));
        // For a small write, the kernel may count whole groups of pages, which is more than reached the disk.
        assert_eq!(phase(4 * MIB, Some(0), Some(400 * MIB)).write_amplification, Some(2.0));
        assert_eq!(phase(0, Some(0), Some(0)).write_amplification, Some(0.0));
    }
}
