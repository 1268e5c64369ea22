//! A session: one connection to each node of the map.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use storebench_engine::store::{Completions, ErrorKind, Op, OpError, OpKind, Reply, SessionOptions, StoreError, Token};
use storebench_study::workload::Body;

use super::super::errors::of_status;
use super::super::settings::Settings;
use super::super::topology::Topology;
use super::super::{Ready, durability};
use super::frame::{self, Answer, Request, opcode, status};
use super::login;
use super::request::{Collection, Expect, What, Writer, leb128};
use super::route::Route;
use crate::connection::{Connect, Dialect, Link, MOST_AGAIN, NONE, Pipelined, Role, again};
use crate::document::{CHANGED, EXISTS};
use crate::net::scram::Salt;
use crate::net::{Host, fresh};

/// An awaited answer.
type Awaited = crate::connection::Awaited<Expect>;

/// A session.
pub(crate) type KvSession = Pipelined<Kv>;

/// How a session talks to the nodes.
pub(crate) struct Kv {
    nodes: Nodes,
    writer: Writer,
    route: Route,
    /// The most requests in flight on a link.
    window: u32,
    timeout: Duration,
}

/// What a connection to a node needs.
#[derive(Clone)]
struct Nodes {
    settings: Arc<Settings>,
    salt: Arc<Salt>,
}

impl Nodes {
    async fn connect(&self, host: &Host) -> Result<login::Ready, StoreError> {
        login::Ready::open(&self.settings, &self.salt, host).await
    }

    /// How a session reconnects to a node.
    fn again(&self, host: &Host) -> Connect {
        again(
            (self.clone(), host.clone()),
            |(nodes, host)| async move { Ok(nodes.connect(&host).await?.into_stream()) },
        )
    }
}

/// Connects to all nodes. One that is away does not keep the session from the others.
///
/// # Errors
/// If no node answers, the error of the first one.
pub(crate) async fn open(
    settings: &Arc<Settings>,
    topology: &Topology,
    ready: &Ready,
    options: &SessionOptions,
) -> Result<KvSession, StoreError> {
    let nodes = Nodes { settings: Arc::clone(settings), salt: Arc::default() };
    let mut route = Route::default();
    let hosts = route.update(topology)?;
    let mut connections = join_all(hosts.iter().map(|host| nodes.connect(host))).await;
    let mut collections = Vec::new();
    match connections.iter_mut().find_map(|connection| connection.as_mut().ok()) {
        None => return Err(connections.into_iter().find_map(Result::err).unwrap_or_else(no_nodes)),
        Some(first) => {
            for (scope, name, body) in &ready.collections {
                let prefix = leb128(first.collection(scope, name).await?);
                collections.push(Collection { prefix, body: *body });
            }
        }
    }
    let (window, timeout) = (options.in_flight.max(1), options.timeout);
    let links = connections.into_iter().zip(&hosts).map(|(connection, host)| match connection {
        Ok(ready) => Link::connected(ready.into_stream(), nodes.again(host), window, timeout, fresh()),
        Err(_) => Link::connecting(nodes.again(host), window, timeout, fresh()),
    });
    let links = links.collect();
    let writer = Writer { level: durability::code(options.durability) };
    Ok(Pipelined::new(Kv { nodes, writer, route, window, timeout }, collections, ready.read_only, links))
}

fn no_nodes() -> StoreError {
    StoreError::Unreachable("the cluster's map names no node with the data service".into())
}

impl Dialect for Kv {
    type Expect = Expect;
    type Collection = Collection;

    const NOTHING: Expect = Expect { what: What::Come, opcode: 0 };

    fn body(collection: &Collection) -> Body {
        collection.body
    }

    #[inline]
    fn single(&self, op: &Op<'_>, collection: &Collection, out: &mut Vec<u8>) -> Result<Expect, OpError> {
        self.writer.single(op, collection, |key| self.route.vbucket(key), out)
    }

    fn look(&self, key: &str, collection: &Collection, out: &mut Vec<u8>) -> Result<Expect, OpError> {
        self.single(&Op::Read { key }, collection, out)
    }

    fn swap(
        &self,
        key: &str,
        revision: &[u8],
        body: &[u8],
        collection: &Collection,
        out: &mut Vec<u8>,
    ) -> Result<Expect, OpError> {
        self.writer.swap(key, revision, body, collection, self.route.vbucket(key), out)
    }

    fn patch(
        &self,
        key: &str,
        patch: &Value,
        collection: &Collection,
        out: &mut Vec<u8>,
    ) -> Option<Result<Expect, OpError>> {
        self.writer.patch(key, patch, collection, self.route.vbucket(key), out)
    }

    #[inline]
    fn number(request: &mut [u8], number: u32) {
        frame::number(request, number);
    }

    fn take(session: &mut KvSession, link: usize, out: &mut dyn Completions) -> Result<(), String> {
        session.take_answers(link, out).map_err(|what| format!("received what is not an expected answer: {what}"))
    }

    #[inline]
    fn link_of(&self, _: &Collection, key: &str) -> usize {
        if self.is_spread() { self.route.link(self.route.vbucket(key)) } else { 0 }
    }

    #[inline]
    fn is_spread(&self) -> bool {
        self.route.nodes.len() > 1
    }

    fn own_lost(&mut self, expect: Expect) {
        self.route.asking &= expect.what != What::Map;
    }

    /// The cluster may have given the node's documents to others.
    fn lost(session: &mut KvSession, link: usize, _: &str, _: &mut dyn Completions) {
        session.ask_for_map(link);
    }
}

impl Pipelined<Kv> {
    /// Processes all complete answers.
    fn take_answers(&mut self, link: usize, out: &mut dyn Completions) -> Result<(), &'static str> {
        loop {
            let Self { links, in_flight, works, .. } = self;
            let pipe = &mut links[link].pipe;
            let Some((answer, used)) = frame::answer(pipe.input())? else { return Ok(()) };
            let Some((place, awaited)) = pipe.numbered(answer.number) else {
                return Err("it answers no request that was sent");
            };
            let awaited = *awaited;
            if answer.opcode != awaited.expect.opcode || awaited.expect.what == What::Come {
                return Err("it answers another request");
            }
            if awaited.expect.what == What::Map {
                let map = (answer.status == status::SUCCESS).then(|| answer.value.to_vec());
                self.answered(link, place, used);
                self.take_map(link, map.as_deref());
                continue;
            }
            if answer.status == status::NOT_MY_VBUCKET {
                let map = answer.value.to_vec();
                self.answered(link, place, used);
                self.moved(link, awaited, &map, out);
                continue;
            }
            if !matches!(awaited.expect.what, What::Value | What::Exists) {
                let result = effect(&awaited, &answer).map(|()| None);
                self.answered(link, place, used);
                self.settle(link, awaited, result, out);
                continue;
            }
            let revision = answer.cas.to_be_bytes();
            let result = read(&awaited, &answer, &revision);
            if awaited.role == Role::Look {
                let read = result.map(|_| answer.value.to_vec());
                self.answered(link, place, used);
                match read {
                    Ok(old) => self.next_step(link, awaited, Some((&old, &revision)), out),
                    Err(error) => self.conclude(awaited, Err(error), None, out),
                }
            } else if awaited.kind == OpKind::BulkRead {
                let work = works.get(awaited.work);
                match result {
                    Ok(_) => work.add(awaited.item, answer.value),
                    Err(error) if error.kind == ErrorKind::NotFound => {}
                    Err(error) => work.error = Some(error),
                }
                self.answered(link, place, used);
                self.one_less(awaited.work, out);
            } else {
                if awaited.work != NONE {
                    works.give_back(awaited.work);
                }
                if !awaited.abandoned {
                    *in_flight -= 1;
                    out.complete(awaited.token, result);
                }
                self.answered(link, place, used);
            }
        }
    }

    /// Removes an answer of this length, and what awaited it. An entry behind others only loses its meaning.
    #[inline]
    fn answered(&mut self, link: usize, place: usize, used: usize) {
        let pipe = &mut self.links[link].pipe;
        pipe.consume(used);
        if place > 0 {
            return pipe.replace(place, own(Kv::NOTHING));
        }
        pipe.pop();
        while pipe.front().is_some_and(|(next, _)| next.expect.what == What::Come) {
            pipe.pop();
        }
    }

    /// Sends a request again that reached a node which does not hold its document (any more).
    fn moved(&mut self, from: usize, awaited: Awaited, map: &[u8], out: &mut dyn Completions) {
        self.take_map(from, Some(map).filter(|map| !map.is_empty()));
        let mut target = None;
        if awaited.work != NONE && !awaited.abandoned {
            let work = self.works.get(awaited.work);
            work.again += 1;
            let vbucket = frame::vbucket(work.request(awaited.item)).filter(|_| work.again <= MOST_AGAIN);
            target = vbucket.map(|vbucket| self.dialect.route.link(vbucket)).filter(|link| *link != from);
        }
        let Some(link) = target.filter(|link| !self.links[*link].is_down()) else {
            self.ask_for_map(from);
            let why = "its partition moves to another node, or has none now; nothing was done";
            return self.conclude(awaited, Err(OpError::new(ErrorKind::Temporary, why)), None, out);
        };
        let pipe = &mut self.links[link].pipe;
        pipe.request(awaited, true).extend_from_slice(self.works.get(awaited.work).request(awaited.item));
        pipe.number(|number, request| frame::number(request, number));
        self.more = true;
    }

    /// Requests the map from another node than `but`, or from the only one.
    fn ask_for_map(&mut self, but: usize) {
        let up = (0..self.links.len()).filter(|link| self.links[*link].is_up());
        let other = up.max_by_key(|link| *link != but);
        if let Some(link) = other.filter(|_| !self.dialect.route.asking) {
            self.dialect.route.asking = true;
            let opcode = opcode::GET_CLUSTER_CONFIG;
            let pipe = &mut self.links[link].pipe;
            let out = pipe.request(own(Expect { what: What::Map, opcode }), false);
            Request { opcode, ..Request::default() }.write(out);
            pipe.number(|number, request| frame::number(request, number));
            self.more = true;
        }
    }

    /// Takes over a map, if it can be read and is newer. New nodes start connecting.
    fn take_map(&mut self, link: usize, map: Option<&[u8]>) {
        let Kv { nodes, route, window, timeout, .. } = &mut self.dialect;
        route.asking = false;
        let Some(map) = map else { return };
        let host = &route.nodes[link].name;
        let text = String::from_utf8_lossy(map).replace("$HOST", host);
        let Ok(topology) = Topology::read(text.as_bytes(), host, nodes.settings.address.tls.is_some()) else { return };
        for host in route.update(&topology).unwrap_or_default() {
            self.links.push(Link::connecting(nodes.again(&host), *window, *timeout, fresh()));
        }
    }
}

/// One of the driver's own requests.
fn own(expect: Expect) -> Awaited {
    Awaited {
        token: Token(0),
        kind: OpKind::Read,
        expect,
        role: Role::Own,
        contents: false,
        abandoned: false,
        collection: 0,
        work: NONE,
        item: 0,
    }
}

/// Interprets the answer to a write.
fn effect(awaited: &Awaited, answer: &Answer<'_>) -> Result<(), OpError> {
    Err(match (awaited.expect.what, answer.status) {
        (_, status::SUCCESS) => return Ok(()),
        (What::Made, status::KEY_EXISTS | status::NOT_STORED) => EXISTS,
        (_, status::KEY_NOT_FOUND | status::NOT_STORED) => OpError::not_found(),
        (_, status::KEY_EXISTS) => CHANGED,
        // Nothing was done: a member to be removed does not exist, or the document is not an object.
        (What::Patched, paths) if status::PATHS.contains(&paths) => CHANGED,
        (_, status) => of_status(awaited.kind, status),
    })
}

/// Interprets the answer to a read.
fn read<'a>(awaited: &Awaited, answer: &Answer<'a>, revision: &'a [u8]) -> Result<Reply<'a>, OpError> {
    match (awaited.expect.what, answer.status) {
        (What::Value, status::SUCCESS) => Ok(Reply {
            bytes: answer.value.len() as u64,
            body: awaited.contents.then_some(answer.value),
            revision: Some(revision),
            ..Reply::written(1)
        }),
        // The first four bytes say whether it is what remains of a deleted document.
        (What::Exists, status::SUCCESS) => Ok(Reply::written(usize::from(answer.extras.starts_with(&[0; 4])))),
        (What::Exists, status::KEY_NOT_FOUND) => Ok(Reply::default()),
        (_, status::KEY_NOT_FOUND) => Err(OpError::not_found()),
        (_, status) => Err(of_status(OpKind::Read, status)),
    }
}
