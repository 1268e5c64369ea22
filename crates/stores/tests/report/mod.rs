//! Runs the conformance suite, and reports the result to `make test`.
#![allow(clippy::unwrap_used)]

use std::fs::OpenOptions;
use std::io::Write as _;

use storebench_conformance as conformance;
use storebench_engine::store::AnyStore;

/// Runs the conformance suite. The test fails if a check fails, with those checks alone: logs that cut a long output still
/// show them.
///
/// If `STOREBENCH_CONFORMANCE_LOG` names a file, it appends `URL<TAB>VERSION<TAB>N passed, M failed, K not supported` to it. The
/// last lines of `make test` count the stores from it (`scripts/count-tests.py`).
pub(crate) fn conforms(store: &dyn AnyStore) {
    conforms_but(store, &[]);
}

/// The same on a server with faults of its own: just these checks fail, each with such a message. They are counted as
/// failed, and `docs/stores.md` tells them.
pub(crate) fn conforms_but(store: &dyn AnyStore, faults: &[(&str, &str)]) {
    let report = conformance::run(store);
    if let Some(log) = std::env::var_os("STOREBENCH_CONFORMANCE_LOG") {
        let (passed, failed, not_supported) = report.counts();
        let (url, version) = (&report.store, store.describe().version);
        let line = format!("{url}\t{version}\t{passed} passed, {failed} failed, {not_supported} not supported\n");
        // One write, so that lines of concurrent tests do not interleave.
        OpenOptions::new().append(true).create(true).open(log).unwrap().write_all(line.as_bytes()).unwrap();
    }
    let mut known: Vec<_> = faults.iter().collect();
    let mut failed = Vec::new();
    for row in &report.rows {
        let Err(conformance::Stop::Failed(text)) = &row.outcome else { continue };
        match known.iter().position(|(check, part)| *check == row.check && text.contains(part)) {
            Some(nth) => drop(known.remove(nth)),
            None => failed.push(format!("{}: {text}", row.check)),
        }
    }
    failed.extend(
        known.iter().map(|(check, _)| format!("{check}: passed, so that it is no fault of the server any more")),
    );
    assert!(failed.is_empty(), "{}: {} checks failed\n{}", report.store, failed.len(), failed.join("\n"));
}
