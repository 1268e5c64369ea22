//! The ledger of acknowledged writes, on honest and dishonest stores.

use super::*;

/// Drops every hundredth write, but acknowledges it.
struct ForgetfulSession(MemorySession, u64);

impl Session for ForgetfulSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        if matches!(request.op, Op::Upsert { .. }) {
            self.1 += 1;
            if self.1.is_multiple_of(100) {
                return out.complete(token, Ok(Reply::written(1)));
            }
        }
        self.0.submit(request, token, out);
    }
}

#[test]
fn the_ledger_finds_acknowledged_writes_that_are_gone() {
    let ledger = [
        "phases.mixed.ledger=true",
        "phases.mixed.streams=disjoint",
        "phases.mixed.mix={ read = 1, upsert = 1 }",
        "phases.mixed.operations=1_500",
    ];
    let lab = Lab::new(&ledger);
    let honest = lab.prepared(MemoryStore::new());
    lab.run(&honest, 0);
    let report = lab.run(&honest, 1).ledger.unwrap();
    assert!(report.keys > 300);
    assert_eq!((report.confirmed, report.lost, report.unverifiable), (report.keys, 0, 0), "{:?}", report.examples);

    let forgetful = lab.prepared(Wrapped(MemoryStore::new(), |inner| ForgetfulSession(inner, 0)));
    lab.run(&forgetful, 0);
    let report = lab.run(&forgetful, 1).ledger.unwrap();
    // 750 upserts by three workers: each worker's session forgets at least two, and few keys are written again.
    assert!(report.lost > 0 && report.lost <= 9, "{report:?}");
    assert_eq!(report.examples.len() as u64, report.lost);
    assert_eq!(report.stale, report.lost, "an older version is there");
}

/// Answers every read with the state before the last write of its key.
struct LateSession {
    inner: MemorySession,
    before: std::collections::HashMap<String, Vec<u8>>,
}

struct Overheard<'a>(&'a mut dyn Completions, Option<Vec<u8>>);

impl Completions for Overheard<'_> {
    fn complete(&mut self, token: Token, result: Result<Reply<'_>, OpError>) {
        match (&self.1, result) {
            (Some(older), Ok(reply)) => self.0.complete(token, Ok(Reply { body: Some(older), ..reply })),
            (_, result) => self.0.complete(token, result),
        }
    }
}

impl Session for LateSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        match request.op {
            Op::Read { key } => {
                let older = self.before.get(key).cloned();
                self.inner.submit(request, token, &mut Overheard(out, older));
            }
            Op::Upsert { key, .. } => {
                let read = Request { op: Op::Read { key }, contents: true, ..*request };
                let mut found = None;
                self.inner.submit(&read, token, &mut |_: Token, result: Result<Reply<'_>, OpError>| {
                    found = result.ok().and_then(|reply| reply.body.map(<[u8]>::to_vec));
                });
                self.before.extend(found.map(|body| (key.to_owned(), body)));
                self.inner.submit(request, token, out);
            }
            _ => self.inner.submit(request, token, out),
        }
    }
}

#[test]
fn reads_that_do_not_see_what_was_acknowledged_are_told() {
    let lab = Lab::new(&[
        "phases.mixed.ledger=true",
        "phases.mixed.streams=disjoint",
        "phases.mixed.mix={ read = 1, upsert = 1 }",
        "phases.mixed.operations=1_500",
    ]);
    let late = |inner| LateSession { inner, before: Default::default() };
    let store = lab.prepared(Wrapped(MemoryStore::new(), late));
    lab.run(&store, 0);
    let report = lab.run(&store, 1).ledger.unwrap();
    assert!(report.reads.stale > 0, "{report:?}");
    assert!(report.reads.examples[0].contains("had been acknowledged before"), "{:?}", report.reads.examples);
    // The read-back uses another session, which has seen no write.
    assert_eq!((report.lost, report.unverifiable), (0, 0));
}

#[test]
fn a_ledger_follows_inserts_deletes_and_what_was_loaded_and_left_alone() {
    let lab = Lab::new(&[
        "phases.mixed.ledger=true",
        "phases.mixed.streams=disjoint",
        "phases.mixed.mix={ read = 2, insert = 1, delete = 1, replace = 2, cas = 1 }",
        "phases.mixed.operations=1_500",
    ]);
    let memory = MemoryStore::new();
    let store = lab.prepared(memory);
    lab.run(&store, 0);
    let report = lab.run(&store, 1).ledger.unwrap();
    assert_eq!((report.lost, report.unverifiable, report.reads.stale), (0, 0, 0), "{:?}", report.examples);
    assert!(
        report.loaded > 500 && report.confirmed - report.happened - report.not_happened == report.keys,
        "{report:?}"
    );
    // The next phase knows what this one deleted and inserted, and that nothing was written since.
    let again = lab.run(&store, 1).ledger.unwrap();
    assert!(again.keys > report.keys, "{again:?}");
    assert_eq!((again.lost, again.reads.stale), (0, 0), "{:?}", again.examples);
    // Everything is gone.
    let collections = vec![CollectionLayout {
        name: "docs".into(),
        body: storebench_study::workload::Body::Json,
        indexes: Vec::new(),
        existing: None,
        uses: storebench_engine::store::Uses::ALL,
    }];
    store.prepare(&Layout { collections }, Prepare::Fresh).unwrap();
    let report = lab.run(&store, 1).ledger.unwrap();
    assert!(report.gone > 1_000 && report.reads.stale > 0, "{report:?}");
    assert_eq!(report.examples.len(), 20);
}

/// Finds nothing at the first read of a key, like a replica that has not received it yet.
struct LaggingSession(MemorySession, Arc<Mutex<std::collections::HashSet<String>>>);

impl Session for LaggingSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        if let Op::Read { key } = request.op
            && self.1.lock().unwrap().insert(key.to_owned())
        {
            return out.complete(token, Err(OpError::not_found()));
        }
        self.0.submit(request, token, out);
    }
}

/// The memory store, declaring weaker reads.
struct Lagging<F>(Wrapped<F>, Vec<ReadConsistency>, Arc<Mutex<Vec<ReadConsistency>>>);

impl<S: Session + 'static, F: Fn(MemorySession) -> S + Send + Sync + 'static> Store for Lagging<F> {
    type Session = S;
    fn describe(&self) -> Description {
        Store::describe(&self.0)
    }
    fn capabilities(&self) -> Capabilities {
        let consistency = self.1.iter().map(|consistency| (*consistency, "as it is")).collect();
        Capabilities { consistency, ..Store::capabilities(&self.0) }
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Store::inspect(&self.0)
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        Store::prepare(&self.0, layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<S, StoreError> {
        self.2.lock().unwrap().push(options.consistency);
        self.0.open(options).await
    }
    fn remove(&self) -> Result<(), StoreError> {
        Store::remove(&self.0)
    }
}

#[test]
fn replicas_that_do_not_agree_yet_are_waited_for_where_no_read_is_strong() {
    let lab = || {
        Lab::new(&[
            "collections.docs.count=30",
            "phases.mixed.ledger=true",
            "phases.mixed.streams=disjoint",
            "phases.mixed.mix={ upsert = 1 }",
            "phases.mixed.operations=90",
        ])
    };
    let run = |offered: Vec<ReadConsistency>, consistency: ReadConsistency| {
        let asked: Arc<Mutex<Vec<ReadConsistency>>> = Arc::default();
        let seen: Arc<Mutex<std::collections::HashSet<String>>> = Arc::default();
        let lagging = move |inner| LaggingSession(inner, Arc::clone(&seen));
        let mut lab = lab();
        lab.study.phases[1].consistency = Some(consistency);
        let store = lab.prepared(Lagging(Wrapped(MemoryStore::new(), lagging), offered, Arc::clone(&asked)));
        lab.run(&store, 0);
        let report = lab.run(&store, 1).ledger.unwrap();
        let last = *asked.lock().unwrap().last().unwrap();
        (report, last)
    };
    let (report, _) = run(vec![ReadConsistency::StaleOk], ReadConsistency::StaleOk);
    assert_eq!((report.lost, report.confirmed, report.keys), (0, 30, 30), "{report:?}");
    // A store with strong reads is read back with them, whatever the phase asked for, and nothing waits.
    let both = vec![ReadConsistency::StaleOk, ReadConsistency::Strong];
    let (report, last) = run(both, ReadConsistency::StaleOk);
    assert_eq!((report.gone, last), (30, ReadConsistency::Strong), "{report:?}");
}

/// A user who does not want to wait for the end must not read that the store lost anything.
#[test]
fn an_interrupted_read_back_accuses_nobody() {
    let lab = Lab::new(&["phases.mixed.ledger=true", "phases.mixed.streams=disjoint", "phases.mixed.operations=1_500"]);
    let store = lab.prepared(MemoryStore::new());
    lab.run(&store, 0);
    let stop = Arc::clone(&lab.stop);
    let record = lab.observed(&store, 1, &mut |event| {
        if matches!(event, Event::Note { text } if text.starts_with("reading back")) {
            stop.ask();
        }
    });
    let report = record.ledger.unwrap();
    assert!(report.keys > 300 && report.unread() == report.keys, "{report:?}");
    assert_eq!((report.lost, report.unverifiable), (0, 0), "{report:?}");
    assert!(report.examples.iter().all(|example| example.contains("interrupted")), "{:?}", report.examples);
}

/// Bulk writes and reads are followed document by document.
#[test]
fn a_ledger_follows_each_document_of_bulk_operations() {
    let lab = || {
        Lab::new(&[
            "collections.docs.count=120",
            "phases.mixed.ledger=true",
            "phases.mixed.streams=disjoint",
            "phases.mixed.popularity=zipf",
            "phases.mixed.mix={ read = { batch = 6 }, upsert = { batch = 5 }, delete = { batch = 2 }, insert = { batch = 3 } }",
            "phases.mixed.operations=1_200",
        ])
    };
    let honest = lab();
    let store = honest.prepared(MemoryStore::new());
    honest.run(&store, 0);
    let report = honest.run(&store, 1).ledger.unwrap();
    assert_eq!((report.lost, report.unverifiable), (0, 0), "{:?}", report.examples);
    assert!(report.reads.followed > 1_000 && report.keys > 500, "{report:?}");
    assert_eq!((report.reads.stale, report.reads.backwards), (0, 0), "{:?}", report.reads.examples);

    let other = lab();
    let forgetful = other.prepared(Wrapped(MemoryStore::new(), |inner| ForgetfulBulkSession(inner, 0)));
    other.run(&forgetful, 0);
    let report = other.run(&forgetful, 1).ledger.unwrap();
    assert!(report.reads.stale > 0, "{report:?}");
}

/// Acknowledges every tenth bulk upsert without doing it.
struct ForgetfulBulkSession(MemorySession, u64);

impl Session for ForgetfulBulkSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        if let Op::BulkWrite { kind: BulkWrite::Upsert, items } = request.op {
            self.1 += 1;
            if self.1.is_multiple_of(10) {
                return out.complete(token, Ok(Reply::written(items.len())));
            }
        }
        self.0.submit(request, token, out);
    }
}
