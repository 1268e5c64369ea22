//! Tests of what a session sends and how it handles answers. The tests play the servers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use storebench_engine::store::{BatchBuf, BulkWrite, CollectionId, ErrorKind, OwnedReply, Session, StoreError};
use tokio::sync::Notify;

use super::*;
use crate::connection::{Connect, Connecting};
use crate::net::Stream;
use crate::registry::Options;

const PATIENCE: Duration = Duration::from_secs(20);

/// A fake node that sends scripted answers.
struct Node {
    listener: TcpListener,
    stream: Option<TcpStream>,
}

impl Node {
    fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").unwrap(), stream: None }
    }

    fn host(&self) -> Host {
        Host { name: "127.0.0.1".into(), port: self.listener.local_addr().unwrap().port() }
    }

    fn stream(&mut self) -> &mut TcpStream {
        let listener = &self.listener;
        self.stream.get_or_insert_with(|| {
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        })
    }

    /// Takes one command, as text.
    fn take(&mut self) -> String {
        let stream = self.stream();
        let mut line = || {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a command");
                line.push(byte[0]);
            }
            String::from_utf8(line).unwrap().trim_end().to_owned()
        };
        let count: usize = line().strip_prefix('*').expect("an array").parse().unwrap();
        let words = (0..count).map(|_| {
            line();
            line()
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn say(&mut self, text: &str) {
        self.stream().write_all(text.as_bytes()).unwrap();
    }
}

/// A link that connects once the gate opens.
fn gated(node: &Node, gate: &Rc<Notify>) -> Link<Awaited> {
    let (port, gate) = (node.host().port, Rc::clone(gate));
    let connect: Connect = Box::new(move || {
        let gate = Rc::clone(&gate);
        Box::pin(async move {
            gate.notified().await;
            match tokio::net::TcpStream::connect(("127.0.0.1", port)).await {
                Ok(tcp) => Ok(Stream::Plain(tcp)),
                Err(error) => Err(StoreError::Failed(error.to_string())),
            }
        }) as Connecting
    });
    Link::connecting(connect, 16, PATIENCE)
}

/// A link that can never connect.
fn gone() -> Link<Awaited> {
    let connect: Connect =
        Box::new(|| Box::pin(async { Err(StoreError::Unreachable("nobody is there".into())) }) as Connecting);
    Link::connecting(connect, 16, PATIENCE)
}

type Ended = Vec<(u64, Result<OwnedReply, OpError>)>;

fn push(ended: &mut Ended) -> impl FnMut(Token, Result<Reply<'_>, OpError>) {
    |token: Token, result: Result<Reply<'_>, OpError>| ended.push((token.0, result.map(OwnedReply::from)))
}

/// A session and its completed operations.
struct Talk {
    session: RedisSession,
    ended: Ended,
}

impl Talk {
    /// Without `ordered`, the session is that of a cluster with all slots on the first node.
    fn new(links: Vec<(Host, Link<Awaited>)>, ordered: bool, acknowledge: Option<Acknowledge>) -> Self {
        let query = if ordered { "ordered=yes" } else { "" };
        let url = format!("redis://127.0.0.1?{query}");
        let settings = Arc::new(Settings::read(&url, &mut Options::for_test(query)).unwrap());
        let (hosts, links): (Vec<_>, Vec<_>) = links.into_iter().unzip();
        let order = ordered.then(|| b"order".to_vec());
        let dialect = Redis {
            settings,
            names: Names::default(),
            largest_bytes: 1 << 20,
            window: 16,
            timeout: PATIENCE,
            persisted: Persisted::None,
            acknowledge,
            acks: links.iter().map(|_| Acks::default()).collect(),
            route: (!ordered).then(|| Route { hosts, slots: vec![0; SLOTS], asking: false }),
            replica: false,
            queries: Default::default(),
            reads: Default::default(),
            transactions: Default::default(),
            found: Default::default(),
        };
        let collections = vec![Collection { prefix: b"p:".to_vec(), order, ..Collection::default() }];
        let session = RedisSession::new(dialect, collections, false, links);
        Self { session, ended: Vec::new() }
    }

    fn submit(&mut self, token: u64, op: Op<'_>) {
        let request = Request { collection: CollectionId(0), op, contents: true };
        self.session.submit(&request, Token(token), &mut push(&mut self.ended));
    }

    /// Flushes and polls until `enough` holds.
    async fn until(&mut self, enough: impl Fn(&mut Self) -> bool) {
        self.session.flush();
        let begun = Instant::now();
        while !enough(self) {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.ended);
            let polled = std::future::poll_fn(|cx| {
                let _ = self.session.poll(cx, &mut push(&mut self.ended));
                Poll::Ready(())
            });
            polled.await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn up(node: &Node) -> (Host, Link<Awaited>) {
    let host = node.host();
    let tcp = tokio::net::TcpStream::connect((host.name.as_str(), host.port)).await.unwrap();
    let connect: Connect = Box::new(|| Box::pin(std::future::pending()) as Connecting);
    (host, Link::connected(Stream::Plain(tcp), connect, 16, PATIENCE))
}

#[test]
fn a_redirected_item_takes_its_own_request_along() {
    runtime().block_on(async {
        let (mut old, down, mut new) = (Node::new(), Node::new(), Node::new());
        let links = vec![up(&old).await, (down.host(), gone()), up(&new).await];
        let mut talk = Talk::new(links, false, None);
        let slot = cluster::slot(b"p:first");
        let route = talk.session.dialect.route.as_mut().unwrap();
        route.slots[usize::from(slot)] = 1;
        // Pretend that the map was requested already, so that only the items are sent.
        route.asking = true;
        talk.until(|talk| talk.session.links[1].is_down()).await;
        let mut items = BatchBuf::new();
        for key in ["first", "second", "third"] {
            items.push(key, format!("\"{key}\"").as_bytes());
        }
        talk.submit(1, Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() });
        talk.session.flush();
        assert_eq!((old.take().as_str(), old.take().as_str()), ("SET p:second \"second\"", "SET p:third \"third\""));
        old.say(&format!("-MOVED 1 {}\r\n+OK\r\n", new.host()));
        talk.until(|talk| talk.session.works.get(0).pending == 1).await;
        assert_eq!(new.take(), "SET p:second \"second\"");
        new.say("+OK\r\n");
        talk.until(|talk| !talk.ended.is_empty()).await;
        let reply = talk.ended.remove(0).1.unwrap();
        let reply = reply.as_reply();
        assert_eq!((reply.documents, reply.rejects.len(), reply.rejects[0].item), (2, 1, 0));
        assert_eq!(reply.rejects[0].error.kind, ErrorKind::Temporary);
    });
}

#[test]
fn a_write_that_waited_for_its_connection_is_acknowledged_by_replicas() {
    runtime().block_on(async {
        let (mut old, mut new) = (Node::new(), Node::new());
        let gate = Rc::new(Notify::new());
        let links = vec![up(&old).await, (new.host(), gated(&new, &gate))];
        let mut talk = Talk::new(links, false, Some(Acknowledge { replicas: 1, within_ms: 700 }));
        talk.submit(1, Op::Upsert { key: "a", body: b"1" });
        talk.session.flush();
        assert_eq!((old.take().as_str(), old.take().as_str()), ("SET p:a 1", "WAIT 1 700"));
        old.say(&format!("-MOVED 1 {}\r\n:1\r\n", new.host()));
        talk.until(|talk| talk.session.dialect.acks[1].wanted).await;
        // A flush meanwhile must not lose the pending acknowledgement.
        talk.session.flush();
        gate.notify_one();
        talk.until(|talk| talk.session.links[1].is_up() && !talk.session.dialect.acks[1].wanted).await;
        assert_eq!((new.take().as_str(), new.take().as_str()), ("SET p:a 1", "WAIT 1 700"));
        new.say("+OK\r\n:0\r\n");
        talk.until(|talk| !talk.ended.is_empty()).await;
        let error = talk.ended.remove(0).1.unwrap_err();
        assert!(error.kind == ErrorKind::OutcomeUnknown && error.message.contains("0 of 1"), "{error}");
    });
}

#[test]
fn scripts_that_a_server_has_forgotten_are_loaded_once() {
    runtime().block_on(async {
        let mut node = Node::new();
        let mut talk = Talk::new(vec![up(&node).await], true, None);
        for token in 0..3 {
            talk.submit(token, Op::Prefix { prefix: "a", limit: 5 });
        }
        talk.session.flush();
        for _ in 0..3 {
            assert!(node.take().starts_with("EVALSHA"));
        }
        node.say("-NOSCRIPT No matching script.\r\n-NOSCRIPT No matching script.\r\n-NOSCRIPT No matching script.\r\n");
        talk.until(|talk| talk.ended.len() == 3).await;
        let kinds = talk.ended.drain(..).map(|(_, result)| result.unwrap_err().kind);
        assert!(kinds.into_iter().all(|kind| kind == ErrorKind::Temporary));
        talk.submit(3, Op::Prefix { prefix: "a", limit: 5 });
        talk.session.flush();
        for text in scripts::TEXTS {
            assert_eq!(node.take(), format!("SCRIPT LOAD {text}"));
        }
        assert!(node.take().starts_with("EVALSHA"), "loaded more than once");
        node.say(&"$3\r\nsha\r\n".repeat(scripts::TEXTS.len()));
        node.say("*2\r\n$2\r\na1\r\n$2\r\n{}\r\n");
        talk.until(|talk| !talk.ended.is_empty()).await;
        assert_eq!(talk.ended.remove(0).1.unwrap().as_reply().documents, 1);
    });
}
