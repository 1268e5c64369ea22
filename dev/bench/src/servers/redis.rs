//! Redis: the driver compared with the `redis` crate.

use std::future::Future;
use std::pin::Pin;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use storebench_engine::store::{ErrorKind, Op, OpError, OwnedReply, Prepare, Request, Respond, StoreError};

use super::by_crate::{Connect, through_a_crate};
use super::{Server, TOPIC, through_the_engine};
use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;
use crate::subject::Subject;

const CONNECTIONS: u32 = 50;
const KEYS: u64 = 100_000;
const DEPTHS: [u32; 3] = [1, 16, 64];

/// A study of single writes and reads of 1 KiB at each depth.
fn study(operations: impl Fn(u32) -> u64) -> String {
    let phases: String = DEPTHS
        .iter()
        .flat_map(|depth| [("set", "upsert", *depth), ("get", "read", *depth)])
        .map(|(name, op, depth)| {
            format!(
                r#"
[[phases]]
name = "{name}-{depth}"
mix = {{ {op} = 1 }}
popularity = "uniform"
workers = 1
connections = {CONNECTIONS}
in_flight = {depth}
operations = {}
durability = "none"
"#,
                operations(depth)
            )
        })
        .collect();
    let head = crate::subject::head("Single writes and reads", KEYS, "1KiB");
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

/// About a second of work.
fn operations(options: &Options, depth: u32) -> u64 {
    options.work(if depth == 1 { 300_000 } else { 2_000_000 })
}

pub(super) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let server = Server::start("redis", &[])?;
    let subject = Subject::new(&study(|depth| operations(options, depth)))?;
    let ours = storebench_stores::open(&server.url)?;
    ours.inspect()?;
    ours.prepare(&subject.layout(), Prepare::Fresh)?;
    subject.run(&ours, "load")?;
    let theirs = through_a_crate(&ours, ByCrate(server.url.clone()));
    let mut figures = Vec::new();
    for depth in DEPTHS {
        for test in ["set", "get"] {
            if !options.wants(TOPIC, &format!("redis {test} {depth}")) {
                continue;
            }
            let phase = format!("{test}-{depth}");
            let mut engine = || through_the_engine(&subject, &ours, &phase).map(|us| [us]);
            let mut by_crate = || through_the_engine(&subject, &theirs, &phase).map(|us| [us]);
            let all = interleave::<1>(options.rounds, vec![&mut engine, &mut by_crate])?;
            let [[engine], [by_crate]] = &all[..] else { return Err("two sides give two results".into()) };
            let what = format!("redis {test} {depth}: CPU of a 1 KiB document");
            let figure = Figure::new(TOPIC, what, Unit::Us, engine.clone())
                .beside("`redis` crate", by_crate.clone())
                .target(Target::RatioAtMost(1.0));
            figures.push(if test == "set" {
                figure.note(format!("of ours, {:.2} µs make the document", generation_us(&subject)))
            } else {
                figure
            });
        }
    }
    Ok(figures)
}

/// The cost of generating a unique document, in µs.
fn generation_us(subject: &Subject) -> f64 {
    let (documents, mut body) = (subject.documents(), Vec::with_capacity(2_048));
    let before = storebench_engine::measure::thread_cpu_ns();
    for index in 0..KEYS {
        body.clear();
        documents.write_document(index, 1, &mut body);
        std::hint::black_box(&body);
    }
    (storebench_engine::measure::thread_cpu_ns() - before) as f64 / 1e3 / KEYS as f64
}

/// The `redis` crate with its multiplexed connection, which pipelines by itself.
struct ByCrate(String);

impl Connect for ByCrate {
    type Client = CrateClient;

    async fn connect(&self) -> Result<CrateClient, StoreError> {
        let unreachable = |e: redis::RedisError| StoreError::Unreachable(e.to_string());
        let client = redis::Client::open(self.0.as_str()).map_err(unreachable)?;
        // By default it gives up after half a second, which a busy machine takes now and then.
        let patient = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&patient).await;
        connection.map(CrateClient).map_err(unreachable)
    }
}

/// Answers each request with a future of the crate.
struct CrateClient(MultiplexedConnection);

impl Respond for CrateClient {
    type Future = Pin<Box<dyn Future<Output = Result<OwnedReply, OpError>>>>;

    fn respond(&mut self, request: &Request<'_>) -> Self::Future {
        let mut connection = self.0.clone();
        let failed = |e: redis::RedisError| OpError::new(ErrorKind::Failed, e.to_string());
        let key_of = |key: &str| format!("storebench:documents:{key}");
        match request.op {
            Op::Upsert { key, body } => {
                let command = redis::cmd("SET").arg(key_of(key)).arg(body).to_owned();
                Box::pin(async move {
                    command.query_async::<()>(&mut connection).await.map_err(failed)?;
                    Ok(OwnedReply::documents(1))
                })
            }
            Op::Read { key } => {
                let command = redis::cmd("GET").arg(key_of(key)).to_owned();
                Box::pin(async move {
                    let body: Option<Vec<u8>> = command.query_async(&mut connection).await.map_err(failed)?;
                    body.map(|body| OwnedReply::documents(1).body(body)).ok_or(OpError::not_found())
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
    fn every_side_runs() {
        let server = Server::start("redis", &[]).unwrap();
        let subject = Subject::new(&study(|_| 2_000)).unwrap();
        let ours = storebench_stores::open(&server.url).unwrap();
        ours.prepare(&subject.layout(), Prepare::Fresh).unwrap();
        subject.run(&ours, "load").unwrap();
        let theirs = through_a_crate(&ours, ByCrate(server.url.clone()));
        for phase in ["set-1", "get-1", "set-16", "get-64"] {
            assert!(through_the_engine(&subject, &ours, phase).unwrap() > 0.0);
            assert!(through_the_engine(&subject, &theirs, phase).unwrap() > 0.0);
        }
    }
}
