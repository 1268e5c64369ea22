//! The checks as a list, the run, and the report.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::subject::Subject;
use super::time::Time;
use super::{
    bulk, bytes, counters, documents, lifecycle, merge, ownership, pages, queries, races, ranges, revisions, sessions,
    transactions, values,
};
use storebench_engine::FakeClock;
use storebench_engine::store::{AnyStore, ErrorKind, OpKind};

/// Why a check did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The store did not do what the contract says: what was asked, expected and seen.
    Failed(String),
    /// The store says that it cannot do this, and refuses it.
    NotSupported(String),
}

impl Stop {
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }
}

/// Fails the check unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Stop::Failed(format!($($text)+)));
        }
    };
}
pub(super) use ensure;

/// One named guarantee of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// What is guaranteed, as one line: `topic: guarantee`.
    pub name: &'static str,
    /// The operations it needs.
    pub needs: &'static [OpKind],
    pub(super) run: fn(&Subject<'_>) -> Result<(), Stop>,
}

impl Check {
    /// Runs the check on a layout that it prepares from scratch.
    ///
    /// # Errors
    /// What was seen instead, or what the store does not support.
    pub fn run(&self, store: &dyn AnyStore) -> Result<(), Stop> {
        self.run_in(store, &Time::Real)
    }

    fn run_in(&self, store: &dyn AnyStore, time: &Time) -> Result<(), Stop> {
        let subject = Subject::prepare(store, time)?;
        let missing: Vec<OpKind> =
            self.needs.iter().copied().filter(|kind| subject.capabilities.supports(*kind).is_none()).collect();
        if missing.is_empty() {
            return (self.run)(&subject);
        }
        for kind in &missing {
            must_be_refused(&subject, *kind)?;
        }
        let names: Vec<_> = missing.iter().map(|kind| kind.name()).collect();
        Err(Stop::NotSupported(names.join(", ")))
    }
}

/// An operation that the store says it cannot do must be refused, never succeed.
fn must_be_refused(subject: &Subject<'_>, kind: OpKind) -> Result<(), Stop> {
    let mut client = subject.client()?;
    let (collection, op) = subject.example(kind);
    match client.call(collection, op)? {
        Err(error) if error.kind == ErrorKind::Refused => Ok(()),
        other => Err(Stop::failed(format!(
            "{kind} is not among the store's capabilities, so it must be refused; got {other:?}"
        ))),
    }
}

/// Every check, in the order of the report.
pub fn suite() -> Vec<Check> {
    [
        documents::CHECKS,
        values::CHECKS,
        bytes::CHECKS,
        counters::CHECKS,
        revisions::CHECKS,
        merge::CHECKS,
        bulk::CHECKS,
        pages::CHECKS,
        ranges::CHECKS,
        queries::CHECKS,
        transactions::CHECKS,
        sessions::CHECKS,
        races::CHECKS,
        ownership::CHECKS,
        lifecycle::CHECKS,
    ]
    .concat()
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The name of the check.
    pub check: &'static str,
    /// How it ended; `Ok` if as guaranteed.
    pub outcome: Result<(), Stop>,
}

/// What the suite found. Its `Display` is an aligned table, counts last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The store's URL, without secrets.
    pub store: String,
    /// A row for each check, in the order of [`suite`].
    pub rows: Vec<Row>,
}

impl Report {
    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.failed().next().is_none()
    }

    /// The names of the checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.rows.iter().filter(|row| matches!(row.outcome, Err(Stop::Failed(_)))).map(|row| row.check)
    }

    /// How many passed, failed and are not supported.
    pub fn counts(&self) -> (usize, usize, usize) {
        let passed = self.rows.iter().filter(|row| row.outcome.is_ok()).count();
        let failed = self.failed().count();
        (passed, failed, self.rows.len() - passed - failed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.check.chars().count()).max().unwrap_or(0);
        writeln!(f, "conformance of {}", self.store)?;
        for row in &self.rows {
            match &row.outcome {
                Ok(()) => writeln!(f, "  {:width$}  pass", row.check)?,
                Err(Stop::Failed(text)) => writeln!(f, "  {:width$}  FAIL           {text}", row.check)?,
                Err(Stop::NotSupported(text)) => writeln!(f, "  {:width$}  not supported  {text}", row.check)?,
            }
        }
        let (passed, failed, not_supported) = self.counts();
        write!(f, "{passed} passed, {failed} failed, {not_supported} not supported")
    }
}

/// Runs every check. **This empties what studies created in the store, and removes it at the end.** If the store holds
/// what a copy wrote, every check fails.
///
/// Takes some seconds on an embedded store, mostly to wait for an expiry. A check that panics fails. Call it outside
/// any async runtime: it creates a runtime for stores that need one.
pub fn run(store: &dyn AnyStore) -> Report {
    run_in(store, &Time::Real, &mut |_| {})
}

/// The same, reporting each check before it begins.
pub fn run_telling(store: &dyn AnyStore, tell: &mut dyn FnMut(Progress)) -> Report {
    run_in(store, &Time::Real, tell)
}

/// A check that is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Its name.
    pub check: &'static str,
    /// How many checks have ended.
    pub done: usize,
    /// How many checks there are.
    pub of: usize,
}

/// The same with a fake clock, which every wait moves to the time that it waits for. For stores that only wait for the
/// session's clock (embedded stores and decorators over them): nothing really waits.
pub fn run_on_fake_clock(store: &dyn AnyStore, clock: &FakeClock) -> Report {
    run_in(store, &Time::Fake(clock.clone()), &mut |_| {})
}

fn run_in(store: &dyn AnyStore, time: &Time, tell: &mut dyn FnMut(Progress)) -> Report {
    let checks = suite();
    let of = checks.len();
    let rows = checks
        .into_iter()
        .enumerate()
        .map(|(done, check)| {
            tell(Progress { check: check.name, done, of });
            let outcome = catch_unwind(AssertUnwindSafe(|| check.run_in(store, time)))
                .unwrap_or_else(|panic| Err(Stop::failed(format!("panicked: {}", panic_text(&*panic)))));
            Row { check: check.name, outcome }
        })
        .collect();
    // The last check tests removal. This cleans up after a check that failed there.
    let _ = store.remove();
    Report { store: store.describe().url, rows }
}

pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no text")
}
