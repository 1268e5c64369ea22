//! Couchbase: the driver's own connections compared with the official client.
//!
//! The server is the fake of the tests in this program: a real one was not available, and the client's processor time does
//! not depend on it.

use std::pin::Pin;
use std::sync::Arc;

use couchbase::authenticator::PasswordAuthenticator;
use couchbase::cluster::Cluster;
use couchbase::collection::Collection;
use couchbase::error::Error;
use couchbase::options::cluster_options::{ClusterOptions, CompressionMode, KvOptions, OrphanReporterOptions};
use couchbase::transcoding::{DataType, encode_common_flags};
use storebench_engine::store::{AnyStore, ErrorKind, Op, OpError, OwnedReply, Prepare, Request, Respond, StoreError};
use storebench_fakes::couchbase::{Fake, FakeOptions};

use super::by_crate::{Connect, through_a_crate};
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
    let own = storebench_stores::open(&fake.url())?;
    own.prepare(&subject.layout(), Prepare::Fresh)?;
    let sdk = through_a_crate(&own, ByCrate(fake.url()));
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

/// The official crate as the driver would configure it: one connection to each node, and nothing asked for that is not used.
struct ByCrate(String);

impl Connect for ByCrate {
    type Client = CrateClient;

    async fn connect(&self) -> Result<CrateClient, StoreError> {
        let bad = || StoreError::BadUrl(self.0.clone());
        let (login, place) = self.0.trim_start_matches("couchbase://").split_once('@').ok_or_else(bad)?;
        let ((user, password), (host, bucket)) = login.split_once(':').zip(place.split_once('/')).ok_or_else(bad)?;
        let kv = KvOptions::new().enable_mutation_tokens(false).enable_server_durations(false).num_connections(1);
        let options = ClusterOptions::new(PasswordAuthenticator::new(user, password).into())
            .kv_options(kv)
            .compression_mode(CompressionMode::Disabled)
            .orphan_reporter_options(OrphanReporterOptions::new().enabled(false));
        let connecting = Cluster::connect(format!("couchbase://{host}"), options);
        let cluster = connecting.await.map_err(|e| StoreError::Unreachable(e.to_string()))?;
        let collection = cluster.bucket(bucket).scope("storebench").collection("documents");
        Ok(CrateClient { collection, _cluster: cluster })
    }
}

struct CrateClient {
    collection: Collection,
    /// Its connections close when it is dropped.
    _cluster: Cluster,
}

impl Respond for CrateClient {
    type Future = Pin<Box<dyn Future<Output = Result<OwnedReply, OpError>>>>;

    fn respond(&mut self, request: &Request<'_>) -> Self::Future {
        let collection = self.collection.clone();
        let failed = |e: Error| OpError::new(ErrorKind::Failed, e.to_string());
        match request.op {
            Op::Read { key } => {
                let key = key.to_owned();
                Box::pin(async move {
                    let found = collection.get(key, None).await.map_err(failed)?;
                    Ok(OwnedReply::documents(1).body(found.content_as_raw().0.to_vec()))
                })
            }
            Op::Upsert { key, body } => {
                let (key, body) = (key.to_owned(), body.to_vec());
                Box::pin(async move {
                    let flags = encode_common_flags(DataType::Json);
                    collection.upsert_raw(key, &body, flags, None).await.map_err(failed)?;
                    Ok(OwnedReply::documents(1))
                })
            }
            _ => Box::pin(std::future::ready(Err(OpError::unsupported()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_run() {
        let subject = Subject::new(&study(2_000, 500)).unwrap();
        let fake = Fake::start(FakeOptions::default()).unwrap();
        let own = storebench_stores::open(&fake.url()).unwrap();
        own.prepare(&subject.layout(), Prepare::Fresh).unwrap();
        subject.run(&own, "load").unwrap();
        for store in [through_a_crate(&own, ByCrate(fake.url())), own] {
            for (phase, ..) in PHASES {
                assert!(through_the_engine(&subject, &store, phase).unwrap() > 0.0);
            }
        }
    }
}
