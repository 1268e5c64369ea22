//! Runs the conformance suite, and tells `make test` how it ended.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs::OpenOptions;
use std::io::Write as _;

use storebench_conformance as conformance;
use storebench_engine::store::AnyStore;

/// Runs the conformance suite and prints its table. One that fails fails the test.
///
/// Appends `URL<TAB>N passed, M failed, K not supported` to the file that `STOREBENCH_CONFORMANCE_LOG`
/// names, if any: the last lines of `make test` count the stores from it (`scripts/count-tests.py`).
pub(crate) fn conforms(store: &dyn AnyStore) {
    let report = conformance::run(store);
    println!("{report}");
    if let Some(log) = std::env::var_os("STOREBENCH_CONFORMANCE_LOG") {
        let (passed, failed, not_supported) = report.counts();
        let line = format!("{}\t{passed} passed, {failed} failed, {not_supported} not supported\n", report.store);
        // In one write, so that lines of tests that end together do not mix.
        OpenOptions::new().append(true).create(true).open(log).unwrap().write_all(line.as_bytes()).unwrap();
    }
    assert!(report.passed(), "{report}");
}
