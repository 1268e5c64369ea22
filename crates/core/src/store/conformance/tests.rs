//! The suite on the stores of this crate, and on stores with one defect each.

use super::{Report, run};
use crate::store::MemoryStore;

fn assert_passes(report: &Report) {
    assert!(report.passed(), "{report}");
}

#[test]
fn memory_conforms() {
    let report = run(&MemoryStore::new());
    assert_passes(&report);
    assert_eq!(report.counts().2, 0, "memory supports all that is checked\n{report}");
}
