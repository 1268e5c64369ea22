//! Couchbase: the driver's own connections compared with the official client, through the same driver (`client=sdk`).
//!
//! The server is the fake of the tests in this program: no package registry has a real one, and the client's processor time
//! does not depend on it.

use std::sync::Arc;

use storebench_engine::store::{AnyStore, Prepare};
use storebench_fakes::couchbase::{Fake, FakeOptions};

use super::{TOPIC, through_the_engine};
use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;
use crate::subject::Subject;

const PHASES: [(&str, &str, u32); 4] =
    [("set-1", "upsert", 1), ("get-1", "read", 1), ("set-100", "upsert", 100), ("get-100", "read", 100)];

fn study(documents: u64, operations: u64) -> String {
    let phases = PHASES.iter().map(|(name, op, depth)| {
        format!(
            r#"
[[phases]]
name = "{name}"
mix = {{ {op} = 1 }}
popularity = "uniform"
workers = 1
in_flight = {depth}
operations = {operations}
durability = "none"
check = 0
"#
        )
    });
    let phases: String = phases.collect();
    let head = crate::subject::head("Writes and reads", documents, "1KiB");
    format!(
        r#"{head}
[[phases]]
name = "load"
load = ["documents"]
batch = 1_000
workers = 1
durability = "none"
{phases}"#
    )
}

pub(super) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let subject = Subject::new(&study(options.work(50_000), options.work(100_000)))?;
    let fake = Fake::start(FakeOptions::default())?;
    let [own, sdk] = ["own", "sdk"].map(|client| storebench_stores::open(&format!("{}?client={client}", fake.url())));
    let (own, sdk) = (own?, sdk?);
    own.prepare(&subject.layout(), Prepare::Fresh)?;
    sdk.prepare(&subject.layout(), Prepare::Keep)?;
    subject.run(&own, "load")?;
    let mut figures = Vec::new();
    for (phase, _, depth) in PHASES {
        let name = format!("couchbase {}", phase.replace('-', " "));
        if !options.wants(TOPIC, &name) {
            continue;
        }
        let operation = |store: &Arc<dyn AnyStore>| through_the_engine(&subject, store, phase).map(|us| [us]);
        let (mut by_own, mut by_sdk) = (|| operation(&own), || operation(&sdk));
        let all = interleave::<1>(options.rounds, vec![&mut by_own, &mut by_sdk])?;
        let [[by_own], [by_sdk]] = &all[..] else { return Err("two sides give two results".into()) };
        figures.push(
            Figure::new(TOPIC, format!("{name}: CPU of a 1 KiB document"), Unit::Us, by_own.clone())
                .beside("the `couchbase` crate", by_sdk.clone())
                .target(Target::RatioAtMost(if depth == 1 { 1.0 } else { 0.25 })),
        );
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_run() {
        let subject = Subject::new(&study(2_000, 500)).unwrap();
        let fake = Fake::start(FakeOptions::default()).unwrap();
        for client in ["own", "sdk"] {
            let store = storebench_stores::open(&format!("{}?client={client}", fake.url())).unwrap();
            store.prepare(&subject.layout(), Prepare::Fresh).unwrap();
            subject.run(&store, "load").unwrap();
            for (phase, ..) in PHASES {
                assert!(through_the_engine(&subject, &store, phase).unwrap() > 0.0);
            }
        }
    }
}
