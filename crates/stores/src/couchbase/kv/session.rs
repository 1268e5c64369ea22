//! A session: one connection to each node of the map.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use storebench_engine::store::{Completions, ErrorKind, Op, OpError, OpKind, Reply, SessionOptions, StoreError};
use tokio::time::{Instant, timeout_at};

use super::super::errors::of_status;
use super::super::features::{Features, KEEPS_NO_EXPIRY};
use super::super::link::GRACE;
use super::super::settings::Settings;
use super::super::topology::Topology;
use super::super::{Ready, durability};
use super::frame::{self, Answer, Request, opcode, status};
use super::login;
use super::request::{Expect, What, Writer};
use super::route::Route;
use super::snappy;
use crate::connection::{Change, Collection, Connect, Dialect, Link, MOST_AGAIN, NONE, Pipelined, Role, again};
use crate::document::{CHANGED, EXISTS};
use crate::net::Host;

/// An awaited answer.
type Awaited = crate::connection::Awaited<Expect>;

/// A session.
pub(crate) type KvSession = Pipelined<Kv>;

/// How a session talks to the nodes.
pub(crate) struct Kv {
    settings: Arc<Settings>,
    writer: Writer,
    route: Route,
    /// The last map that a node sent.
    map: Vec<u8>,
    features: Features,
    /// The most requests in flight on a link.
    window: u32,
    timeout: Duration,
}

/// How a session reconnects to a node.
fn reconnect(settings: &Arc<Settings>, host: &Host, features: Features) -> Connect {
    again((Arc::clone(settings), host.clone()), move |(settings, host)| async move {
        Ok(login::Ready::open(&settings, &host, features).await?.into_stream())
    })
}

/// Connects to all nodes. One that is away does not keep the session from the others.
///
/// # Errors
/// What a node says against it. If no node answers, why the first one does not.
pub(crate) async fn open(
    settings: &Arc<Settings>,
    topology: &Topology,
    ready: &Ready,
    options: &SessionOptions,
) -> Result<KvSession, StoreError> {
    let mut route = Route::default();
    let hosts = route.update(topology);
    let mut connections = connect_all(settings, &hosts, topology.features).await;
    let mut why = None;
    let mut collections = None;
    for connection in &mut connections {
        let found = match connection {
            Ok(node) => numbers(node, ready).await,
            Err(error) => Err(error.clone()),
        };
        match found {
            Ok(found) => {
                collections = Some(found);
                break;
            }
            Err(error) => {
                // A connection on which a question was left open is of no use.
                if matches!(error, StoreError::Unreachable(_)) {
                    *connection = Err(error.clone());
                }
                why = Some(more_telling(why, error));
            }
        }
    }
    let collections = collections.ok_or_else(|| why.unwrap_or_else(no_nodes))?;
    let (window, timeout) = (options.in_flight.max(1), options.timeout);
    let links = connections.into_iter().zip(&hosts).map(|(connection, host)| match connection {
        Ok(ready) => {
            Link::connected(ready.into_stream(), reconnect(settings, host, topology.features), window, timeout)
        }
        Err(_) => Link::connecting(reconnect(settings, host, topology.features), window, timeout),
    });
    let links = links.collect();
    let writer = Writer::new(durability::code(options.durability), timeout, settings.compress);
    let kv = Kv {
        settings: Arc::clone(settings),
        writer,
        route,
        map: Vec::new(),
        features: topology.features,
        window,
        timeout,
    };
    Ok(Pipelined::new(kv, collections, ready.read_only, links))
}

/// An answer of a node tells more than a node that could not be reached. Of two alike, the earlier error.
fn more_telling(before: Option<StoreError>, error: StoreError) -> StoreError {
    let silent = |error: &StoreError| matches!(error, StoreError::Unreachable(_));
    match before {
        Some(before) if !silent(&before) || silent(&error) => before,
        _ => error,
    }
}

/// A connection to each node. Once there is one, the others get only a little more time.
async fn connect_all(settings: &Settings, hosts: &[Host], features: Features) -> Vec<Result<login::Ready, StoreError>> {
    let late = |host: &Host| Err(StoreError::Unreachable(format!("{host} did not answer as soon as another node")));
    let mut connections: Vec<_> = hosts.iter().map(late).collect();
    let connecting = |(place, host)| async move { (place, login::Ready::open(settings, host, features).await) };
    let mut pending: FuturesUnordered<_> = hosts.iter().enumerate().map(connecting).collect();
    let mut deadline = None;
    loop {
        let next = match deadline {
            None => pending.next().await,
            Some(deadline) => timeout_at(deadline, pending.next()).await.unwrap_or(None),
        };
        let Some((place, connection)) = next else { return connections };
        if connection.is_ok() {
            deadline.get_or_insert_with(|| Instant::now() + GRACE);
        }
        connections[place] = connection;
    }
}

/// The collections with their numbers.
async fn numbers(node: &mut login::Ready, ready: &Ready) -> Result<Vec<Collection>, StoreError> {
    let mut collections = Vec::new();
    for (scope, name, body) in &ready.collections {
        let prefix = node.collection(scope, name).await?;
        collections.push(Collection { prefix, body: *body, ..Collection::default() });
    }
    Ok(collections)
}

fn no_nodes() -> StoreError {
    StoreError::Unreachable("the cluster's map names no node with the data service".into())
}

impl Dialect for Kv {
    type Expect = Expect;

    const NOTHING: Expect = Expect { what: What::Nothing, opcode: 0 };
    const ANY_ORDER: bool = true;
    const COUNTS_IN_STEPS: bool = true;

    #[inline]
    fn single(&self, op: &Op<'_>, collection: &Collection, out: &mut Vec<u8>) -> Result<Expect, OpError> {
        self.writer.single(op, false, collection, |key| self.route.vbucket(key), out)
    }

    fn swap(
        &self,
        key: &str,
        revision: &[u8],
        body: &[u8],
        collection: &Collection,
        out: &mut Vec<u8>,
    ) -> Result<Expect, OpError> {
        let op = Op::CompareAndSwap { key, expected: revision, body };
        self.writer.single(&op, true, collection, |key| self.route.vbucket(key), out)
    }

    fn at_once(
        &self,
        key: &str,
        change: &Change,
        collection: &Collection,
        out: &mut Vec<u8>,
    ) -> Option<Result<Expect, OpError>> {
        if !self.features.keeps_expiry {
            return Some(Err(OpError::new(ErrorKind::Refused, KEEPS_NO_EXPIRY)));
        }
        let vbucket = self.route.vbucket(key);
        match change {
            Change::Patch(patch) => self.writer.patch(key, patch, collection, vbucket, out),
            Change::Add { delta, initial, .. } => self.writer.add(key, *delta, *initial, collection, vbucket, out),
        }
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
        if session.dialect.route.uses(link) {
            session.ask_for_map(link);
        }
    }
}

impl Pipelined<Kv> {
    /// Processes all complete answers.
    fn take_answers(&mut self, link: usize, out: &mut dyn Completions) -> Result<(), &'static str> {
        let mut stale = false;
        loop {
            let Self { links, in_flight, works, .. } = self;
            let pipe = &mut links[link].pipe;
            // Such a connection would answer everything so.
            if stale && pipe.is_idle() {
                return Err("the login, or the choice of the bucket, is no longer valid");
            }
            let Some((answer, used)) = frame::answer(pipe.input())? else { return Ok(()) };
            let number = answer.number;
            stale |= matches!(answer.status, status::NO_BUCKET | status::AUTH_STALE);
            let Some(awaited) = pipe.numbered(number) else {
                return Err("it answers no request that was sent");
            };
            let awaited = *awaited;
            if answer.opcode != awaited.expect.opcode {
                return Err("it answers another request");
            }
            if awaited.expect.what == What::Map {
                let map = if answer.status == status::SUCCESS { answer.value.to_vec() } else { Vec::new() };
                self.answered(link, number, used);
                self.dialect.route.asking = false;
                self.take_map(link, map);
                continue;
            }
            if answer.status == status::NOT_MY_VBUCKET {
                let map = answer.value.to_vec();
                self.answered(link, number, used);
                self.moved(link, awaited, map, out);
                continue;
            }
            if !matches!(awaited.expect.what, What::Value | What::Exists) {
                let result = effect(&awaited, &answer);
                self.answered(link, number, used);
                self.settle(link, awaited, result, out);
                continue;
            }
            let revision = answer.cas.to_be_bytes();
            let is_document = awaited.expect.what == What::Value && answer.status == status::SUCCESS;
            let value = snappy::plain(answer.value, if is_document { answer.datatype } else { 0 })?;
            let answer = Answer { value: &value, ..answer };
            let result = read(&awaited, &answer, &revision);
            if awaited.role == Role::Look {
                let read = result.map(|_| answer.value.to_vec());
                self.answered(link, number, used);
                let read = read.as_deref().map(|old| (old, &revision[..])).map_err(OpError::clone);
                self.looked(link, awaited, read, out);
            } else if awaited.kind == OpKind::BulkRead {
                works.get(awaited.work).read(awaited.item, result.map(|_| answer.value));
                self.answered(link, number, used);
                self.one_less(awaited, out);
            } else {
                awaited.complete(result, works, in_flight, out);
                self.answered(link, number, used);
            }
        }
    }

    /// Removes an answer of this length, and what awaited it.
    #[inline]
    fn answered(&mut self, link: usize, number: u32, used: usize) {
        let pipe = &mut self.links[link].pipe;
        pipe.consume(used);
        pipe.take(number);
    }

    /// Sends a request again that reached a node which does not hold its document (any more).
    fn moved(&mut self, from: usize, awaited: Awaited, map: Vec<u8>, out: &mut dyn Completions) {
        self.take_map(from, map);
        let mut target = None;
        if awaited.work != NONE && !awaited.abandoned {
            let work = self.works.get(awaited.work);
            work.again += 1;
            let vbucket = frame::vbucket(work.request(awaited.item)).filter(|_| work.again <= MOST_AGAIN + work.items);
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
            let out = pipe.request(Awaited::own(Expect { what: What::Map, opcode }), false);
            Request { opcode, ..Request::default() }.write(out);
            pipe.number(|number, request| frame::number(request, number));
            self.more = true;
        }
    }

    /// Takes over a map, if it can be read and is newer. New nodes start connecting.
    fn take_map(&mut self, link: usize, map: Vec<u8>) {
        let Kv { settings, route, map: last, features, window, timeout, .. } = &mut self.dialect;
        // While documents move, many answers have the same map.
        if map.is_empty() || map == *last {
            return;
        }
        let host = &route.nodes[link].name;
        let text = String::from_utf8_lossy(&map).replace("$HOST", host);
        *last = map;
        let Ok(topology) = Topology::read(text.as_bytes(), host, settings.address.tls.is_some()) else { return };
        for host in route.update(&topology) {
            self.links.push(Link::connecting(reconnect(settings, &host, *features), *window, *timeout));
        }
    }
}

/// Interprets the answer to a write. Gives the value of a counter that the server has counted.
fn effect(awaited: &Awaited, answer: &Answer<'_>) -> Result<Option<i64>, OpError> {
    Err(match (awaited.expect.what, answer.status) {
        (What::Counted, status::SUCCESS) => return counted(answer.value).map(Some),
        (_, status::SUCCESS) => return Ok(None),
        // The stored value is negative. The step after this one reads it.
        (What::Counted, status::NO_NUMBER) => CHANGED,
        (What::Made, status::KEY_EXISTS | status::NOT_STORED) => EXISTS,
        (_, status::KEY_NOT_FOUND | status::NOT_STORED) => OpError::not_found(),
        (_, status::KEY_EXISTS) => CHANGED,
        // Nothing was done: a member to be removed does not exist, or the document is not an object.
        (What::Patched, paths) if status::PATHS.contains(&paths) => CHANGED,
        (_, status) => of_status(awaited.kind, status),
    })
}

/// The value of the server's counter, which counts up to 2⁶⁴ - 1.
fn counted(value: &[u8]) -> Result<i64, OpError> {
    let value = value.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    value.and_then(|value| i64::try_from(value).ok()).ok_or_else(|| {
        let value = value.map_or("unknown".to_owned(), |value| value.to_string());
        OpError::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "the server has added, and the counter is now {value}, outside the range of signed 64-bit integers"
            ),
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_that_is_told_is_what_a_node_said_or_that_of_the_first() {
        let (away, said) = (|n: &str| StoreError::Unreachable(n.into()), |n: &str| StoreError::Failed(n.into()));
        let told =
            |errors: Vec<StoreError>| errors.into_iter().fold(None, |why, e| Some(more_telling(why, e))).unwrap();
        assert_eq!(told(vec![away("1"), away("2")]).to_string(), away("1").to_string());
        assert_eq!(told(vec![away("1"), said("2"), away("3"), said("4")]).to_string(), said("2").to_string());
    }
}
