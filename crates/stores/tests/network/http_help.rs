//! Helpers that the tests of drivers over HTTP share: a session that returns owned answers, requests without the driver, and a
//! small fake server.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use storebench_engine::FakeClock;
use storebench_engine::store::{
    AnyStore, CollectionId, CollectionLayout, Durability, Existing, Layout, Op, OpError, OwnedReply, PhaseStart,
    ReadConsistency, Reply, Request, Session, SessionCounters, SessionOptions, StoreError, Token,
};
use storebench_study::workload::Body;

/// A layout with one collection of JSON with this name, indexed by `user`.
pub(super) fn layout(name: &str) -> Layout {
    let indexes = vec![vec!["user".to_owned()]];
    Layout {
        collections: vec![CollectionLayout {
            name: name.into(),
            body: Body::Json,
            indexes,
            existing: None,
            uses: storebench_engine::store::Uses::ALL,
        }],
    }
}

/// A layout that reads an existing database.
pub(super) fn existing(database: &str) -> Layout {
    let existing = Some(Existing { name: database.into(), key: None, body: None });
    Layout {
        collections: vec![CollectionLayout {
            name: "theirs".into(),
            body: Body::Json,
            indexes: Vec::new(),
            existing,
            uses: storebench_engine::store::Uses::ALL,
        }],
    }
}

pub(super) fn options(durability: Durability, in_flight: u32) -> SessionOptions {
    SessionOptions {
        durability,
        consistency: ReadConsistency::Strong,
        timeout: Duration::from_secs(180),
        in_flight,
        clock: Arc::new(FakeClock::new()),
        phase_start: PhaseStart::new(),
    }
}

pub(super) type Ended = Vec<(u64, Result<OwnedReply, OpError>)>;

/// A session on collection 0.
pub(super) struct Ask {
    session: Option<Box<dyn Session>>,
    runtime: tokio::runtime::Runtime,
}

impl Drop for Ask {
    fn drop(&mut self) {
        let _within = self.runtime.enter();
        drop(self.session.take());
    }
}

impl Ask {
    pub(super) fn open(store: &dyn AnyStore, options: &SessionOptions) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = Some(runtime.block_on(store.open_any(options))?);
        Ok(Self { session, runtime })
    }

    /// Opens a session with the first durability level that the store declares.
    pub(super) fn new(store: &dyn AnyStore, in_flight: u32) -> Self {
        let (durability, _) = store.capabilities().durability[0];
        Self::open(store, &options(durability, in_flight)).unwrap()
    }

    /// Submits all operations, flushes once, and polls until all have ended or the time has passed. Abandons the
    /// operations that have not ended.
    pub(super) fn all(&mut self, ops: &[Op<'_>], patience: Duration) -> Ended {
        let mut ended = Ended::new();
        let session = self.session.as_mut().unwrap();
        self.runtime.block_on(async {
            let mut out = |token: Token, result: Result<Reply<'_>, OpError>| {
                ended.push((token.0, result.map(OwnedReply::from)));
            };
            for (number, op) in (0..).zip(ops) {
                let request = Request { collection: CollectionId(0), op: *op, contents: true };
                session.submit(&request, Token(number), &mut out);
            }
            session.flush();
            let done = poll_fn(|cx| match session.poll(cx, &mut out) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => Poll::Pending,
            });
            let _ = tokio::time::timeout(patience, done).await;
        });
        let _within = self.runtime.enter();
        for number in 0..ops.len() as u64 {
            if !ended.iter().any(|(token, _)| *token == number) {
                session.abandon(Token(number));
            }
        }
        ended
    }

    pub(super) fn run(&mut self, op: Op<'_>) -> Result<OwnedReply, OpError> {
        let mut ended = self.all(&[op], Duration::from_secs(180));
        assert_eq!(ended.len(), 1, "{op:?} was not answered once");
        ended.remove(0).1
    }

    pub(super) fn upsert(&mut self, key: &str, body: &str) {
        self.run(Op::Upsert { key, body: body.as_bytes() }).unwrap();
    }

    pub(super) fn read(&mut self, key: &str) -> Option<Value> {
        let reply = self.run(Op::Read { key }).ok()?;
        let mut value: Value = serde_json::from_slice(reply.as_reply().body?).unwrap();
        value.as_object_mut().unwrap().retain(|name, _| !name.starts_with('_'));
        Some(value)
    }

    /// Polls for this long with nothing in flight, as a worker does.
    pub(super) fn wait(&mut self, time: Duration) {
        let session = self.session.as_mut().unwrap();
        self.runtime.block_on(async {
            let forever = poll_fn(|cx| {
                let _ = session.poll(cx, &mut |_: Token, _: Result<Reply<'_>, OpError>| {});
                Poll::<()>::Pending
            });
            let _ = tokio::time::timeout(time, forever).await;
        });
    }

    pub(super) fn counters(&self) -> SessionCounters {
        self.session.as_ref().unwrap().counters()
    }
}

/// Sends a request without the driver. Returns the body of the answer.
pub(super) fn raw(port: u16, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// An answer of a fake server.
pub(super) enum Say {
    /// This status, further headers (each with its line end) and body.
    Answer(u16, &'static str, String),
    /// Raw bytes, followed by the end of the stream.
    Bytes(Vec<u8>),
    /// No answer, but the connection stays open.
    Nothing,
}

/// A server that calls `say` for each answer, with the method and path, and the body.
pub(super) fn fake(say: impl Fn(&str, &str) -> Say + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let say = Arc::new(say);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (say, Ok(mut stream)) = (Arc::clone(&say), stream) else { return };
            thread::spawn(move || {
                while let Some((line, body)) = request(&mut stream) {
                    match say(line.trim_end_matches(" HTTP/1.1"), &body) {
                        Say::Answer(status, headers, text) => {
                            let length = text.len();
                            let text = if line.starts_with("HEAD") { "" } else { &text };
                            let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n");
                            if stream.write_all((head + text).as_bytes()).is_err() {
                                return;
                            }
                        }
                        Say::Bytes(bytes) => {
                            let _ = stream.write_all(&bytes);
                            return;
                        }
                        Say::Nothing => thread::sleep(Duration::from_secs(3600)),
                    }
                }
            });
        }
    });
    port
}

fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let mut room = [0; 16 * 1024];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length:"));
            let length: usize = length.map_or(0, |text| text.trim().parse().unwrap());
            if bytes.len() >= end + 4 + length {
                let body = String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
                return Some((head.lines().next()?.to_owned(), body));
            }
        }
        match stream.read(&mut room) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&room[..n]),
        }
    }
}

/// The answers of an empty CouchDB 3 to the requests of `prepare` and `open`. `None` for other requests.
pub(super) fn couchdb(line: &str) -> Option<Say> {
    let ok = |text: &str| Some(Say::Answer(200, "", text.to_owned()));
    match line {
        "GET /" => ok(r#"{"couchdb":"Welcome","version":"3.3.3","vendor":{"name":"The Apache Software Foundation"}}"#),
        _ if line.starts_with("GET /_all_dbs") => ok("[]"),
        _ if line.starts_with("PUT /storebench") && line.matches('/').count() <= 2 && line.ends_with('/') => {
            ok(r#"{"ok":true}"#)
        }
        _ if line.contains("/_local/storebench") || line.contains("/_index") => ok(r#"{"ok":true}"#),
        _ => None,
    }
}
