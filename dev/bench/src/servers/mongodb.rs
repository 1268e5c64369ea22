//! MongoDB: the driver compared with the official `mongodb` crate.
//!
//! The server is a fake in this program that stores nothing and answers from memory. A real one was not available, and the
//! client's processor time does not depend on it.

use std::pin::Pin;
use std::sync::Arc;

use mongodb::bson::{self, RawDocumentBuf, doc};
use mongodb::options::{ClientOptions, ServerApi, ServerApiVersion};
use storebench_engine::store::{
    AnyStore, BulkWrite, ErrorKind, Op, OpError, OwnedReply, Prepare, Request, Respond, StoreError,
};
use storebench_fakes::mongodb::{Reply, serve, single, usual};

use super::by_crate::{Connect, through_a_crate};
use super::{TOPIC, through_the_engine};
use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;
use crate::subject::Subject;

const DATABASE: &str = "bench";
const COLLECTION: &str = "documents";
const DEPTHS: [u32; 2] = [1, 16];

fn study(documents: u64, reads: u64) -> String {
    let phases: String = DEPTHS
        .iter()
        .map(|depth| {
            format!(
                r#"
[[phases]]
name = "get-{depth}"
mix = {{ read = 1 }}
popularity = "uniform"
workers = 1
in_flight = {depth}
operations = {reads}
check = 0
"#
            )
        })
        .collect();
    let head = crate::subject::head("Loads and reads", documents, "1KiB");
    format!(
        r#"{head}
[[phases]]
name = "load"
load = ["documents"]
batch = 1_000
workers = 1
in_flight = 2
durability = "none"
{phases}"#
    )
}

pub(super) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let documents = options.work(200_000);
    let subject = Subject::new(&study(documents, options.work(100_000)))?;
    let url = start(&subject)?;
    let ours = storebench_stores::open(&url)?;
    ours.inspect()?;
    ours.prepare(&subject.layout(), Prepare::Fresh)?;
    let theirs = through_a_crate(&ours, ByCrate(url));
    let mut figures = Vec::new();
    for (work, phase) in [("load", "load"), ("get 1", "get-1"), ("get 16", "get-16")] {
        if !options.wants(TOPIC, &format!("mongodb {work}")) {
            continue;
        }
        let operation = |store: &Arc<dyn AnyStore>| -> Result<[f64; 1], Failure> {
            let us = through_the_engine(&subject, store, phase)?;
            Ok([if phase == "load" { us / 1_000.0 } else { us }])
        };
        let (mut by_driver, mut by_crate) = (|| operation(&ours), || operation(&theirs));
        let all = interleave::<1>(options.rounds, vec![&mut by_driver, &mut by_crate])?;
        let [[by_driver], [by_crate]] = &all[..] else { return Err("two sides give two results".into()) };
        let what = format!("mongodb {work}: CPU of a 1 KiB document");
        figures.push(
            Figure::new(TOPIC, what, Unit::Us, by_driver.clone())
                .beside("the `mongodb` crate", by_crate.clone())
                .target(Target::RatioAtMost(1.0))
                .note(if phase == "load" {
                    "both generate the documents and convert JSON to BSON, the crate through `bson::Document` as its users do"
                } else {
                    "ours also converts BSON to JSON"
                }),
        );
    }
    Ok(figures)
}

/// Starts the fake, which finds the same document for any key, and returns its URL.
fn start(subject: &Subject) -> Result<String, Failure> {
    let mut body = Vec::new();
    subject.documents().write_document(0, 0, &mut body);
    let mut document = doc! { "_id": "documents/0000000000", "_sb_rev": 5_i64 };
    document.extend(serde_json::from_slice::<bson::Document>(&body)?);
    let port = serve(move |name, command| {
        let ours = command.get_str(name).is_ok_and(|collection| collection == COLLECTION);
        Reply::Answer(match name {
            "find" if ours => {
                let batch = [document.clone()];
                doc! { "ok": 1.0, "cursor": { "id": 0_i64, "ns": "bench.documents", "firstBatch": batch } }
            }
            "insert" | "update" if ours => {
                let items = command.get_array("documents").or_else(|_| command.get_array("updates"));
                doc! { "ok": 1.0, "n": items.map_or(1, |items| items.len() as i32) }
            }
            _ => usual(name, &single()),
        })
    })?;
    Ok(format!("mongodb://127.0.0.1:{port}/{DATABASE}"))
}

/// The official crate, with one connection per session.
struct ByCrate(String);

impl Connect for ByCrate {
    type Client = CrateClient;

    async fn connect(&self) -> Result<CrateClient, StoreError> {
        let unreachable = |e: mongodb::error::Error| StoreError::Unreachable(e.to_string());
        let url = format!("{}?retryWrites=false&retryReads=false", self.0);
        let mut options = ClientOptions::parse(url).await.map_err(unreachable)?;
        // With this the crate greets with `OP_MSG`, the only message that the fake knows.
        options.server_api = Some(ServerApi::builder().version(ServerApiVersion::V1).build());
        let client = mongodb::Client::with_options(options).map_err(unreachable)?;
        Ok(CrateClient(client.database(DATABASE).collection(COLLECTION)))
    }
}

struct CrateClient(mongodb::Collection<RawDocumentBuf>);

impl Respond for CrateClient {
    type Future = Pin<Box<dyn Future<Output = Result<OwnedReply, OpError>>>>;

    fn respond(&mut self, request: &Request<'_>) -> Self::Future {
        let collection = self.0.clone();
        let failed = |e: mongodb::error::Error| OpError::new(ErrorKind::Failed, e.to_string());
        match request.op {
            Op::Read { key } => {
                let key = key.to_owned();
                Box::pin(async move {
                    let found = collection.find_one(doc! { "_id": key }).await.map_err(failed)?;
                    let found = found.ok_or(OpError::not_found())?;
                    Ok(OwnedReply::documents(1).body(found.into_bytes()))
                })
            }
            Op::BulkWrite { kind: BulkWrite::Insert, items } => {
                let count = items.len();
                let documents: Result<Vec<RawDocumentBuf>, OpError> =
                    items.iter().map(|(key, body)| document(key, body)).collect();
                Box::pin(async move {
                    collection.insert_many(documents?).await.map_err(failed)?;
                    Ok(OwnedReply::documents(count as u32))
                })
            }
            _ => Box::pin(std::future::ready(Err(OpError::unsupported()))),
        }
    }
}

fn document(key: &str, body: &[u8]) -> Result<RawDocumentBuf, OpError> {
    let failed = |e: String| OpError::new(ErrorKind::Failed, e);
    let mut document = doc! { "_id": key };
    document.extend(serde_json::from_slice::<bson::Document>(body).map_err(|e| failed(e.to_string()))?);
    RawDocumentBuf::try_from(&document).map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_run() {
        let subject = Subject::new(&study(2_000, 500)).unwrap();
        let url = start(&subject).unwrap();
        let ours = storebench_stores::open(&url).unwrap();
        ours.inspect().unwrap();
        ours.prepare(&subject.layout(), Prepare::Fresh).unwrap();
        let theirs = through_a_crate(&ours, ByCrate(url));
        for phase in ["load", "get-1", "get-16"] {
            assert!(through_the_engine(&subject, &ours, phase).unwrap() > 0.0);
            assert!(through_the_engine(&subject, &theirs, phase).unwrap() > 0.0);
        }
    }
}
