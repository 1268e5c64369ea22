//! A session over HTTP/1.1. It has as many keep-alive connections as operations may be in flight. Each carries one
//! request at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::future::try_join_all;
use storebench_engine::store::{
    Completions, ErrorKind, OpError, Reply, Request, Session, SessionCounters, SessionOptions, StoreError, Token,
    WokenSlots,
};

use super::link::{Link, LinkState};
use super::wire::{Failure, Wire};
use super::{Answer, RequestBuf};
use crate::net::{Address, Host, Secret, Tls, connect, not_connected};

/// The reply of an operation, or its error. `None` if another request was written and must be sent.
pub(crate) type Next<'a> = Result<Option<Reply<'a>>, OpError>;

/// How a driver implements operations as HTTP requests.
///
/// An operation may take several requests (read a revision, then write). Its `State` holds what it remembers between
/// them. Later operations reuse the state and its buffers.
pub(crate) trait Dialect {
    /// What an operation remembers between its requests.
    type State: Default;

    /// Starts an operation: writes its first request into `out`, or completes it at once. Copy what is needed of the
    /// request after this call into `state`, which still holds the values of an earlier operation.
    fn begin<'a>(&'a mut self, request: &Request<'_>, state: &'a mut Self::State, out: &mut RequestBuf) -> Next<'a>;

    /// Handles the answer to the last request, or the error if there is none. The error's kind already says whether
    /// this *request* may have been applied. Completes the operation or writes the next request.
    fn answer<'a>(
        &'a mut self,
        state: &'a mut Self::State,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a>;
}

/// The target of connections.
#[derive(Clone)]
pub(crate) struct Target {
    /// The host.
    pub(super) host: Host,
    /// The TLS settings, if the connection is encrypted.
    pub(super) tls: Option<Tls>,
    /// The headers of every request, as they are sent. They contain the password, so they are never shown.
    pub(super) headers: Arc<[u8]>,
}

impl Target {
    /// The target of an address. Every request has the headers for host, accepted types and authorization.
    pub(crate) fn of(address: &Address) -> Self {
        let none = Self { host: address.host().clone(), tls: address.tls.clone(), headers: [].as_slice().into() };
        let target = none.with("Host", &Self::host_header(address)).with("Accept", "application/json");
        match &address.user {
            Some(user) => {
                let password = address.password.as_ref().map_or("", Secret::expose);
                target.with("Authorization", &format!("Basic {}", BASE64.encode(format!("{user}:{password}"))))
            }
            None => target,
        }
    }

    /// The header `Host`. It names the port only if that is not the usual one of the protocol, as signatures expect.
    pub(crate) fn host_header(address: &Address) -> String {
        let host = address.host().to_string();
        let usual = if address.tls.is_some() { ":443" } else { ":80" };
        host.strip_suffix(usual).map_or_else(|| host.clone(), str::to_owned)
    }

    /// Adds a header to every request. A character that no header may have is left out.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        let value: String = value.chars().filter(|c| !c.is_control()).collect();
        self.headers = [&self.headers, format!("{name}: {value}\r\n").as_bytes()].concat().into();
        self
    }

    pub(super) async fn connect(&self, within: Duration) -> Result<Wire, StoreError> {
        Ok(Wire::new(connect(&self.host, self.tls.as_ref(), within).await?))
    }
}

/// One operation.
struct Operation<S> {
    token: Token,
    state: S,
    request: RequestBuf,
}

/// A session whose operations a [`Dialect`] encodes as requests.
pub(crate) struct HttpSession<D: Dialect> {
    dialect: D,
    target: Target,
    timeout: Duration,
    places: Vec<Operation<D::State>>,
    /// Places without an operation.
    free: Vec<usize>,
    links: Vec<Link>,
    /// Links without a request. The most recently used one is taken first.
    idle: Vec<usize>,
    /// Links with a request that was not written yet.
    dirty: Vec<usize>,
    /// Places whose request is waiting for a link.
    queue: VecDeque<usize>,
    slots: Arc<WokenSlots>,
    turn: Vec<usize>,
    disconnects: u64,
}

impl<D: Dialect> HttpSession<D> {
    /// Opens `options.in_flight` connections. Call it within the runtime that will drive them.
    ///
    /// # Errors
    /// Those of [`connect`].
    pub(crate) async fn open(dialect: D, target: Target, options: &SessionOptions) -> Result<Self, StoreError> {
        let connections = options.in_flight.max(1) as usize;
        let timeout = options.timeout;
        let slots = Arc::new(WokenSlots::default());
        let mut links = Vec::with_capacity(connections);
        // Connect in batches, because a server's accept queue is short.
        while links.len() < connections {
            let together = (connections - links.len()).min(32);
            for made in try_join_all((0..together).map(|_| target.connect(timeout))).await? {
                links.push(Link::new(links.len(), made, &slots));
            }
        }
        // Makes the first poll register each link, so that it wakes the session when it is closed.
        links.iter().for_each(Link::wake);
        Ok(Self {
            dialect,
            target,
            timeout,
            places: Vec::new(),
            free: Vec::new(),
            idle: (0..links.len()).rev().collect(),
            links,
            dirty: Vec::new(),
            queue: VecDeque::new(),
            slots,
            turn: Vec::new(),
            disconnects: 0,
        })
    }

    /// Assigns waiting requests to idle links. If no link can become available, they fail as *temporary*.
    fn dispatch(&mut self, out: &mut dyn Completions) {
        while let Some(place) = self.queue.pop_front() {
            if let Err(why) = self.places[place].request.check() {
                self.fail(place, OpError::new(ErrorKind::Refused, why), out);
                continue;
            }
            let Some(link) = self.idle.pop() else {
                self.queue.push_front(place);
                break;
            };
            // It rang while idle. Most likely the server closed it.
            if self.links[link].woken.is_woken() && self.links[link].turn().is_ready() {
                self.queue.push_front(place);
                self.reconnect(link);
                continue;
            }
            self.links[link].place = Some(place);
            self.dirty.push(link);
        }
        if !self.queue.is_empty() && !self.links.iter().any(Link::is_hopeful) {
            while let Some(place) = self.queue.pop_front() {
                self.fail(place, not_connected(), out);
            }
        }
    }

    /// Tells the dialect that there will be no answer. It may still have more to send.
    fn fail(&mut self, number: usize, error: OpError, out: &mut dyn Completions) {
        let place = &mut self.places[number];
        match self.dialect.answer(&mut place.state, Err(error), &mut place.request).transpose() {
            Some(result) => {
                out.complete(place.token, result);
                self.free.push(number);
            }
            None => self.queue.push_back(number),
        }
    }

    /// Handles events on a link.
    fn drive(&mut self, number: usize, out: &mut dyn Completions) {
        // Before the poll, so that later wake-ups set it again.
        self.links[number].woken.reset();
        if let LinkState::Connecting { .. } = self.links[number].state {
            out.arrived();
            return self.connecting(number, out);
        }
        while let Poll::Ready(turn) = self.links[number].turn() {
            out.arrived();
            match turn {
                Ok(()) if self.answered(number, out) => {}
                Ok(()) => return,
                Err(failure) => return self.failed(number, failure, out),
            }
        }
    }

    /// Passes an answer to the dialect. Returns whether the next request of the same operation uses this link.
    fn answered(&mut self, number: usize, out: &mut dyn Completions) -> bool {
        let link = &mut self.links[number];
        link.serves();
        let (Some(place_number), Some(answer)) = (link.place, link.answer()) else { return false };
        let place = &mut self.places[place_number];
        let again = match self.dialect.answer(&mut place.state, Ok(answer), &mut place.request).transpose() {
            Some(result) => {
                out.complete(place.token, result);
                false
            }
            None => true,
        };
        link.end();
        let stays = link.is_open();
        // One that cannot be sent is refused when its turn comes.
        if again && stays && place.request.check().is_ok() {
            link.place = Some(place_number);
            link.start(&place.request);
            return true;
        }
        if again {
            self.queue.push_front(place_number);
        } else {
            self.free.push(place_number);
        }
        // A last turn registers the idle link for the end of its connection.
        if stays && self.links[number].turn().is_pending() {
            self.idle.push(number);
        } else {
            self.reconnect(number);
        }
        false
    }

    /// Handles a request on a link that will get no answer.
    fn failed(&mut self, number: usize, failure: Failure, out: &mut dyn Completions) {
        let Some(place) = self.links[number].end() else { return self.reconnect(number) };
        let changes = self.places[place].request.changes();
        let error = match failure {
            Failure::Unsent => {
                // Send it on another connection.
                self.reconnect(number);
                return self.queue.push_front(place);
            }
            Failure::Lost(why) => {
                let kind = if changes { ErrorKind::OutcomeUnknown } else { ErrorKind::Temporary };
                OpError::new(kind, format!("the connection was lost before the answer: {why}"))
            }
            // Nothing more on this connection can be trusted.
            Failure::Garbled(why) => {
                // The server did answer, so reconnect at once.
                self.links[number].serves();
                let kind = if changes { ErrorKind::OutcomeUnknown } else { ErrorKind::Failed };
                OpError::new(kind, why)
            }
        };
        self.reconnect(number);
        self.count_loss(number);
        self.fail(place, error, out);
    }

    fn count_loss(&mut self, number: usize) {
        if !std::mem::replace(&mut self.links[number].counted, true) {
            self.disconnects += 1;
        }
    }

    /// Closes the connection and reconnects: at once if it had served a request, else after a wait. Without the wait, a
    /// server that accepts connections only to close them would cause an endless loop.
    fn reconnect(&mut self, number: usize) {
        self.idle.retain(|idle| *idle != number);
        self.dirty.retain(|dirty| *dirty != number);
        let link = &mut self.links[number];
        let fresh = link.served || link.backoff.is_reset();
        let wait = (!link.served).then(|| link.backoff.next_wait());
        self.connect_after(number, wait, fresh);
    }

    fn connect_after(&mut self, number: usize, wait: Option<Duration>, fresh: bool) {
        let (target, timeout) = (self.target.clone(), self.timeout);
        let link = &mut self.links[number];
        let coming = Box::pin(async move {
            if let Some(wait) = wait {
                tokio::time::sleep(wait).await;
            }
            target.connect(timeout).await
        });
        link.state = LinkState::Connecting { coming, fresh };
        link.wake();
    }

    fn connecting(&mut self, number: usize, out: &mut dyn Completions) {
        let link = &mut self.links[number];
        match link.poll_connect() {
            Poll::Pending => {}
            Poll::Ready(true) => {
                (link.served, link.counted) = (false, false);
                link.end();
                link.wake();
                self.idle.push(number);
            }
            Poll::Ready(false) => {
                let wait = link.backoff.next_wait();
                // A server may close idle connections at any time. Only a failed reconnection counts as a loss.
                self.count_loss(number);
                self.connect_after(number, Some(wait), false);
            }
        }
        self.dispatch(out);
    }
}

impl<D: Dialect> Session for HttpSession<D> {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let number = self.free.pop().unwrap_or_else(|| {
            let request = RequestBuf::new(Arc::clone(&self.target.headers));
            self.places.push(Operation { token, state: D::State::default(), request });
            self.places.len() - 1
        });
        let place = &mut self.places[number];
        place.token = token;
        if let Some(result) = self.dialect.begin(request, &mut place.state, &mut place.request).transpose() {
            out.complete(token, result);
            return self.free.push(number);
        }
        self.queue.push_back(number);
        self.dispatch(out);
    }

    /// Sends the requests that were assigned to links.
    fn flush(&mut self) {
        while let Some(number) = self.dirty.pop() {
            let link = &mut self.links[number];
            let Some(place) = link.place else { continue };
            link.start(&self.places[place].request);
            link.push();
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        // Register before looking, so that no wake-up in between is missed.
        self.slots.listen(cx.waker());
        let mut turn = std::mem::take(&mut self.turn);
        self.slots.take(&mut turn);
        for number in &turn {
            self.drive(*number, out);
        }
        self.turn = turn;
        self.dispatch(out);
        self.flush();
        if self.free.len() == self.places.len() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Closes the operation's connection, so that a late answer is not taken for another operation's.
    fn abandon(&mut self, token: Token) {
        let is_it = |number: &usize| self.places[*number].token == token && !self.free.contains(number);
        let Some(number) = (0..self.places.len()).find(is_it) else { return };
        match self.links.iter().position(|link| link.place == Some(number)) {
            None => self.queue.retain(|queued| *queued != number),
            Some(link) => {
                self.dirty.retain(|dirty| *dirty != link);
                let unsent = !self.links[link].begun;
                self.links[link].end();
                if unsent {
                    self.idle.push(link);
                } else {
                    self.connect_after(link, None, true);
                }
            }
        }
        self.free.push(number);
    }

    fn counters(&self) -> SessionCounters {
        let splits = self.places.iter().map(|place| place.request.splits).sum();
        SessionCounters { disconnects: self.disconnects, splits }
    }
}
