//! Reading back what was acknowledged, at the end of a phase that kept a ledger.

use std::sync::Arc;

use super::caller::Caller;
use super::clock::RealClock;
use super::plan::PhasePlan;
use super::stop::Stop;
use crate::documents::Catalog;
use crate::ledger::Ledger;
use crate::measure::LedgerReport;
use crate::store::{AnyStore, CollectionId, ErrorKind, Op, PhaseStart, Request, SessionOptions};

/// Lost keys that are described.
const EXAMPLES: usize = 20;

pub(super) fn read_back(
    store: &Arc<dyn AnyStore>,
    plan: &PhasePlan,
    catalog: &Catalog,
    clock: &RealClock,
    stop: &Stop,
    ledgers: impl Iterator<Item = Ledger>,
) -> LedgerReport {
    let options = SessionOptions {
        durability: plan.durability,
        consistency: plan.consistency,
        timeout: std::time::Duration::from_nanos(plan.timeout_ns),
        in_flight: 1,
        clock: Arc::new(clock.clone()),
        phase_start: PhaseStart::new(),
    };
    let mut report = LedgerReport::default();
    let mut caller = match Caller::open(&**store, &options) {
        Ok(caller) => caller,
        Err(e) => {
            // What was measured is kept all the same; nothing of what was written is confirmed.
            report.keys = ledgers.map(|l| l.entries().count() as u64).sum();
            report.unverifiable = report.keys;
            report.examples.push(format!("the store could not be read: {e}"));
            return report;
        }
    };
    let (mut key, mut scratch) = (Vec::new(), Vec::new());
    for ledger in ledgers {
        for ((collection, index), entry) in ledger.entries() {
            report.keys += 1;
            if stop.asked() {
                report.unverifiable += 1;
                continue;
            }
            let documents = catalog.get(collection);
            key.clear();
            documents.write_key(index, &mut key);
            let key = std::str::from_utf8(&key).expect("keys are made of text");
            let request = Request { collection: CollectionId(collection as u16), op: Op::Read { key }, contents: true };
            caller.call(&request, |result| {
                let lost = match result {
                    Ok(reply) => match documents.check(index, reply.body.unwrap_or_default(), &mut scratch) {
                        Ok(found) if entry.allows(found) => None,
                        Ok(found) => Some(format!("version {found} was found")),
                        Err(mismatch) => Some(mismatch.to_string()),
                    },
                    Err(e) if e.kind == ErrorKind::NotFound => Some("no document was found".to_owned()),
                    Err(e) => {
                        report.unverifiable += 1;
                        if report.examples.len() < EXAMPLES {
                            report.examples.push(format!("{key}: could not be read: {e}"));
                        }
                        return;
                    }
                };
                match lost {
                    None => report.confirmed += 1,
                    Some(found) => {
                        report.lost += 1;
                        if report.examples.len() < EXAMPLES {
                            report
                                .examples
                                .push(format!("{key}: version {} was acknowledged; {found}", entry.acknowledged));
                        }
                    }
                }
            });
        }
    }
    if stop.asked() && report.unverifiable > 0 {
        report.examples.push("reading back was interrupted".to_owned());
    }
    report
}
