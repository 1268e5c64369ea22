//! Tests copies of a prepared store, divided into a given number of parts.

use storebench_engine::store::{
    BatchBuf, Capabilities, CollectionLayout, Completions, Description, Layout, MemoryStore, Namespace, OpKind,
    Prepare, Reply, Session, Store, StoreError, Support, Token, ViewRows,
};
use storebench_study::workload::Body;
use storebench_transfer::{CopyOutcome, Split, ViewSource};

use super::*;

/// A store whose second collection is `books`.
fn prepared() -> Arc<dyn AnyStore> {
    let store = memory();
    let layout = |name: &str| CollectionLayout {
        name: name.into(),
        body: Body::Json,
        indexes: Vec::new(),
        existing: None,
        uses: storebench_engine::store::Uses::ALL,
    };
    store.prepare(&Layout { collections: vec![layout("users"), layout("books")] }, Prepare::Fresh).unwrap();
    store
}

fn copied(lab: &Lab, source: &dyn Source, sink: &dyn Sink, splits: &[Split]) -> CopyOutcome {
    let request = CopyRequest {
        source,
        sink,
        splits: Some(splits),
        shape: &Shape::carried_by("its key"),
        op: "upsert",
        parallel: lab.parallel,
        docs_per_s: None,
        bytes_per_s: None,
        folder: lab.path("copy"),
        rejects: lab.path("rejects.jsonl"),
        settings: BTreeMap::new(),
        begin: Begin::Fresh,
        replace: false,
        verify: true,
        interval: Duration::from_millis(1),
        tasks: None,
        observer: None,
    };
    let outcome = copy(&request, &lab.stop, &mut |_| {}).unwrap();
    storebench_transfer::finish(&request.folder).unwrap();
    assert_eq!(outcome.report.counts.rejected, 0);
    assert!(outcome.report.verified.as_ref().is_some_and(|found| found.equal));
    outcome
}

#[test]
fn a_prepared_store_is_copied_by_its_collections_and_cut_as_asked() {
    let lab = Lab { parallel: 5, ..Lab::new() };
    let text = lines(3_000).replace("\"_id\"", "\"_id\":1,\"its key\"");
    let (first, second) = text.split_at(text.find("{\"_id\":1,\"its key\":\"k001500\"").unwrap());
    let source = files(&[&lab.write("a.jsonl", first), &lab.write("b.jsonl", second)]);
    for (asked, cut) in [(1, 2), (2, 2), (5, 5), (64, 64)] {
        assert_eq!(source.cut(asked).unwrap().len(), cut, "every file is at least one part");
    }
    let store = prepared();
    let options = StoreSinkOptions {
        prepared: Some(CollectionId(1)),
        durability: store
            .capabilities()
            .durability
            .first()
            .map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d)),
        ..StoreSinkOptions::new("books")
    };
    let sink = StoreSink::open(Arc::clone(&store), options).unwrap();
    let splits = source.cut(3).unwrap();
    let outcome = copied(&lab, &source, &sink, &splits);
    assert_eq!((outcome.report.counts.written, outcome.report.splits), (3_000, 3));
    assert!((1..=3).contains(&outcome.at_once), "{} of 3 parts at once", outcome.at_once);
    assert_eq!(outcome.record.workers, 3, "workers without a part do not count");

    let options = StoreSourceOptions { prepared: Some(CollectionId(1)), ..StoreSourceOptions::new("books") };
    let source = StoreSource::open(Arc::clone(&store), options).unwrap();
    let parts = source.cut(16, 3_000, &mut || panic!("the store suggests split points")).unwrap();
    assert_eq!(parts.len(), 16);
    assert_eq!(source.cut(1, 3_000, &mut Vec::new).unwrap().len(), 1);
    let out = lab.path("out");
    let sink = FileSink::open(FileSinkOptions {
        place: Some(out.clone().into()),
        folder: true,
        parts: out.join(".parts"),
        format: Format::Jsonl,
        columns: Columns::default(),
        packing: Packing::Plain,
        key_field: Some("its key".to_owned()),
        fresh: true,
        replace: false,
    })
    .unwrap();
    let outcome = copied(&lab, &source, &sink, &parts);
    assert_eq!((outcome.report.counts.written, outcome.record.workers), (3_000, 5));
    let lines: usize = std::fs::read_dir(&out)
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().lines().count())
        .sum();
    assert_eq!(lines, 3_000);
}

/// A client's work is measured on each of its threads.
#[test]
fn a_thread_that_reads_counts_as_work_of_the_client() {
    let lab = Lab { parallel: 1, ..Lab::new() };
    let source = files(&[&lab.write("a.jsonl", lines(20_000).replace("\"_id\"", "\"_id\":1,\"its key\""))]);
    let outcome = copied(&lab, &source, &store_sink(&memory(), RecordOp::Upsert), &source.cut(3).unwrap());
    let used = &outcome.record.worker_use;
    let threads = std::thread::available_parallelism().map_or(1, |all| all.get().min(2));
    assert_eq!((outcome.record.workers, used.len()), (1, threads));
    assert!(used.iter().all(|of| of.cpu_ns > 0 && of.cpu_ns <= of.wall_ns + 20_000_000), "{used:?}");
}

/// A store with a view of this many rows.
struct Viewed(usize);

impl Store for Viewed {
    type Session = Rows;

    fn describe(&self) -> Description {
        Store::describe(&MemoryStore::new())
    }
    fn capabilities(&self) -> Capabilities {
        let mut can = Store::capabilities(&MemoryStore::new());
        can.operations.push((OpKind::View, Support::Native));
        can
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Ok(Namespace::Ours)
    }
    fn prepare(&self, _: &Layout, _: Prepare) -> Result<(), StoreError> {
        panic!("it is prepared")
    }
    async fn open(&self, _: &SessionOptions) -> Result<Rows, StoreError> {
        Ok(Rows(self.0))
    }
    fn remove(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Rows(usize);

impl Session for Rows {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let Op::View { view: "by/n", rows: ViewRows::All, skip, limit } = request.op else {
            panic!("{:?}", request.op)
        };
        assert_eq!(request.collection, CollectionId(1));
        let mut rows = BatchBuf::new();
        for n in (skip as usize..self.0).take(limit as usize) {
            rows.push(&format!("k{n:04}"), format!("{{\"n\":{n}}}").as_bytes());
        }
        let batch = rows.as_batch();
        out.complete(token, Ok(Reply { documents: batch.len() as u32, rows: Some(batch), ..Reply::default() }));
    }
}

/// The view may have fewer or more rows than expected: each row must be returned once.
#[test]
fn a_view_is_cut_by_the_numbers_of_its_rows() {
    for (rows, taken_for, parts) in
        [(1_000, 1_000, 7), (1_000, 600, 7), (1_000, 4_000, 7), (3, 3, 16), (0, 0, 4), (500, 500, 1)]
    {
        let lab = Lab::new();
        let options = StoreSourceOptions {
            prepared: Some(CollectionId(1)),
            view: Some(ViewSource { view: "by/n".to_owned(), keys: None }),
            ..StoreSourceOptions::new("books")
        };
        let source = StoreSource::open(Arc::new(Viewed(rows)), options).unwrap();
        let splits = source.cut(parts, taken_for, &mut Vec::new).unwrap();
        assert_eq!(splits.len() as u64, u64::from(parts).min(taken_for).max(1));
        let store = prepared();
        let options = StoreSinkOptions {
            prepared: Some(CollectionId(1)),
            // A key that is returned twice is refused.
            verb: RecordOp::Insert,
            durability: store
                .capabilities()
                .durability
                .first()
                .map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d)),
            ..StoreSinkOptions::new("books")
        };
        let sink = StoreSink::open(Arc::clone(&store), options).unwrap();
        let outcome = copied(&lab, &source, &sink, &splits);
        let counts = outcome.report.counts;
        assert_eq!((counts.written, counts.there_already), (rows as u64, 0), "{rows} {taken_for} {parts}");
    }
}
