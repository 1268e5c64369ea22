//! What reached the disk of a store's folder, and how much of it was the store's.
//!
//! A disk counts bytes, not who wrote them. So the figure is for the disk whoever used it, less what it wrote each second
//! just before the phase, while nobody was asked for anything. As write amplification it stands only where most of it can
//! be the store's: not where the disk was as busy before the phase, and not where it took many times what the kernel
//! counts for the store's own processes, which is what another writer looks like, or what an earlier phase left to be
//! written. Where neither is known there is no such figure either. `docs/statistics.md` has the reasons of the bounds.

use storebench_machine::BlockUse;
use storebench_results::DiskResult;
use storebench_results::human::bytes;

/// A disk for a while before a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::run) struct DiskIdle {
    /// How long it was looked at, in ns.
    pub(in crate::run) span_ns: u64,
    /// Bytes that were written meanwhile.
    pub(in crate::run) write_bytes: u64,
}

/// Others write as much as a store where they have so much of all.
const OTHERS: f64 = 0.5;
/// A file system writes for itself what a store writes, and several times as much where every write is small and synced. More
/// than so many times is not the store's.
const OF_ITS_OWN: u64 = 8;
/// So much is written on any disk that holds a system.
const SLACK_BYTES: u64 = 1 << 20;

/// What a disk did between two looks. `store` is what the kernel counts for the store's processes, where they are known.
pub(super) struct DiskSpan {
    pub(super) name: String,
    pub(super) before: BlockUse,
    pub(super) after: BlockUse,
    pub(super) span_ns: u64,
    pub(super) idle: Option<DiskIdle>,
    pub(super) store: Option<u64>,
}

impl DiskSpan {
    /// The result, for so many bytes of documents.
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
            "others wrote as much: {} of {} by the rate before the phase",
            bytes(others as f64),
            bytes(written as f64)
        ));
    }
    match (others, store) {
        (_, Some(own)) if written > own.saturating_mul(OF_ITS_OWN).saturating_add(SLACK_BYTES) => Some(format!(
            "{} were written to the disk, and {} by the store's processes",
            bytes(written as f64),
            bytes(own as f64)
        )),
        (None, None) => Some("who wrote to the disk was not seen".to_owned()),
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
        // By what the disk did before.
        let busy = phase(8 * MIB, Some(MIB / 2), Some(8 * MIB));
        assert_eq!((busy.write_amplification, busy.write_bytes), (None, 8 * MIB));
        assert!(busy.amplification_unknown.unwrap().starts_with("others wrote as much: 5.00 MiB of 8.00 MiB"));
        // As it was seen: ×1,258 for SQLite on a disk that others filled meanwhile.
        let shared = phase(2_516 * MIB, Some(0), Some(5 * MIB));
        assert_eq!(shared.write_amplification, None);
        assert_eq!(
            shared.amplification_unknown.as_deref(),
            Some("2.46 GiB were written to the disk, and 5.00 MiB by the store's processes")
        );
        // Nothing was looked at before, and nobody knows the store's processes.
        assert_eq!(phase(8 * MIB, None, None).write_amplification, None);
        assert!(phase(8 * MIB, None, None).amplification_unknown.is_some());
        assert_eq!(phase(8 * MIB, None, Some(5 * MIB)).write_amplification, Some(4.0));
        assert_eq!(phase(8 * MIB, Some(0), None).write_amplification, Some(4.0));
    }

    /// Small writes that are synced one by one cost a file system several times their bytes, which is the store's doing.
    #[test]
    fn what_a_file_system_adds_is_the_stores() {
        assert_eq!(phase(40 * MIB, Some(0), Some(5 * MIB)).write_amplification, Some(20.0));
        // The kernel may count whole groups of pages for a small write: more than reached the disk.
        assert_eq!(phase(4 * MIB, Some(0), Some(400 * MIB)).write_amplification, Some(2.0));
        assert_eq!(phase(0, Some(0), Some(0)).write_amplification, Some(0.0));
    }
}
