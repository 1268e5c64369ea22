//! A session over HTTP/1.1: as many keep-alive connections as operations may be in flight, each with
//! one request at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::try_join_all;
use storebench_core::store::{
    Completions, ErrorKind, OpError, Reply, Request, Session, SessionCounters, SessionOptions, StoreError, Token,
};

use super::link::{Link, State, Turn, Woken};
use super::{Answer, RequestBuf};
use crate::net::{Host, Stream, Tls, connect, not_connected};

/// What an operation does next.
pub(crate) enum Step<'a> {
    /// It has ended.
    Done(Result<Reply<'a>, OpError>),
    /// Another request was written and is to be sent.
    Send,
}

/// How a driver speaks over HTTP: which requests an operation is made of.
///
/// An operation may take several requests (read a revision, then write); what it remembers from one
/// to the next is its `State`, which is used again by later operations and so keeps its memory.
pub(crate) trait Dialect {
    /// What an operation remembers between its requests.
    type State: Default;

    /// Begins an operation: writes its first request into `out`, or ends it at once. What is needed
    /// of the request after this call is copied into `state`, which holds what an earlier operation
    /// left there.
    fn begin<'a>(&'a mut self, request: &Request<'_>, state: &'a mut Self::State, out: &mut RequestBuf) -> Step<'a>;

    /// Takes the answer to the last request, or why there is none (already of the kind that says
    /// whether this *request* may have been done); ends the operation or writes the next request.
    fn answer<'a>(
        &'a mut self,
        state: &'a mut Self::State,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Step<'a>;

    /// How often a bulk request was cut in two.
    fn splits(&self) -> u64 {
        0
    }
}

/// Where a session's connections lead.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The host.
    pub(crate) host: Host,
    /// How it is encrypted, if it is.
    pub(crate) tls: Option<Tls>,
}

impl Target {
    pub(super) async fn connect(&self, within: Duration) -> Result<Stream, StoreError> {
        connect(&self.host, self.tls.as_ref(), within).await
    }
}

/// One operation.
struct Place<S> {
    token: Token,
    state: S,
    request: RequestBuf,
    link: Option<usize>,
    taken: bool,
}

/// A session whose operations a [`Dialect`] puts into requests.
pub(crate) struct HttpSession<D: Dialect> {
    dialect: D,
    target: Target,
    timeout: Duration,
    common: Arc<[u8]>,
    places: Vec<Place<D::State>>,
    free: Vec<usize>,
    links: Vec<Link>,
    /// Links without a request; the one that was used last is taken first.
    idle: Vec<usize>,
    /// Links with a request that was not written yet.
    dirty: Vec<usize>,
    /// Places whose request waits for a link.
    queue: VecDeque<usize>,
    woken: Arc<Woken>,
    turn: Vec<usize>,
    in_flight: usize,
    disconnects: u64,
}

impl<D: Dialect> HttpSession<D> {
    /// Connects: `options.in_flight` connections, within the runtime that will drive them. `common`
    /// are the headers of every request (see [`common_headers`](super::common_headers)).
    ///
    /// # Errors
    /// Those of [`connect`].
    pub(crate) async fn open(
        dialect: D,
        target: Target,
        common: Arc<[u8]>,
        options: &SessionOptions,
    ) -> Result<Self, StoreError> {
        let connections = options.in_flight.max(1) as usize;
        let timeout = options.timeout;
        let woken = Arc::new(Woken::default());
        let mut links = Vec::with_capacity(connections);
        // Some at a time: a server's queue of connections not yet accepted is short.
        while links.len() < connections {
            let together = (connections - links.len()).min(32);
            for stream in try_join_all((0..together).map(|_| target.connect(timeout))).await? {
                let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), links.len());
                links.push(Link::new(links.len(), seed, stream, &woken));
            }
        }
        // The first poll asks each of them to ring when it is closed.
        links.iter().for_each(Link::ring);
        Ok(Self {
            dialect,
            target,
            timeout,
            common,
            places: Vec::new(),
            free: Vec::new(),
            idle: (0..links.len()).rev().collect(),
            links,
            dirty: Vec::new(),
            queue: VecDeque::new(),
            woken,
            turn: Vec::new(),
            in_flight: 0,
            disconnects: 0,
        })
    }

    fn take_place(&mut self, token: Token) -> usize {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                token,
                state: D::State::default(),
                request: RequestBuf::new(Arc::clone(&self.common)),
                link: None,
                taken: false,
            });
            self.places.len() - 1
        });
        let place = &mut self.places[number];
        (place.token, place.link, place.taken) = (token, None, true);
        self.in_flight += 1;
        number
    }

    fn free_place(&mut self, number: usize) {
        let place = &mut self.places[number];
        place.taken = false;
        place.link = None;
        self.free.push(number);
        self.in_flight -= 1;
    }

    /// Gives waiting requests to idle links; without hope of a link, they end as *temporary*.
    fn dispatch(&mut self, out: &mut dyn Completions) {
        while !self.queue.is_empty() {
            let Some(link) = self.idle.pop() else { break };
            // It rang while it was idle: most likely the server closed it.
            if self.links[link].is_rung() && !matches!(self.links[link].read(), Turn::Waiting) {
                self.reconnect(link);
                continue;
            }
            let Some(place) = self.queue.pop_front() else { break };
            self.assign(place, link);
        }
        if !self.queue.is_empty() && !self.links.iter().any(Link::is_hopeful) {
            while let Some(place) = self.queue.pop_front() {
                self.fail(place, not_connected(), out);
            }
        }
    }

    fn assign(&mut self, place: usize, link: usize) {
        self.places[place].link = Some(link);
        self.links[link].begin(place, self.places[place].request.is_head());
        self.dirty.push(link);
    }

    /// Tells the dialect that there will be no answer; it may have more to send all the same.
    fn fail(&mut self, number: usize, error: OpError, out: &mut dyn Completions) {
        let place = &mut self.places[number];
        place.link = None;
        match self.dialect.answer(&mut place.state, Err(error), &mut place.request) {
            Step::Done(result) => {
                out.complete(place.token, result);
                self.free_place(number);
            }
            Step::Send => {
                place.request.finish();
                self.queue.push_back(number);
            }
        }
    }

    /// Something happened on a link.
    fn drive(&mut self, number: usize, out: &mut dyn Completions) {
        self.links[number].quiet();
        if let State::Connecting { .. } = self.links[number].state {
            return self.connecting(number, out);
        }
        loop {
            let broken = self.go_on_writing(number);
            // What the server said before it closed its end is worth more than that it did.
            match self.links[number].read() {
                Turn::Waiting if broken => {
                    return self.lose(number, "the server closed it while the request was sent", out);
                }
                Turn::Waiting => return,
                // Then read again, so that it rings for what comes next: the answer to the next
                // request, or that the server closed it.
                Turn::Answered if self.answered(number, out) => {}
                Turn::Answered => return,
                Turn::Closed => return self.lose(number, "the server closed it", out),
                Turn::Broken(error) => return self.lose(number, &error.to_string(), out),
                Turn::Garbled(what) => return self.garbled(number, what.0, out),
            }
        }
    }

    /// Writes what is left of a request that is being sent, and what TLS still holds of one that was
    /// taken from us; whether that broke.
    fn go_on_writing(&mut self, number: usize) -> bool {
        let link = &mut self.links[number];
        match link.place {
            Some(place) if link.begun => {
                matches!(link.write(self.places[place].request.bytes()), Turn::Broken(_))
            }
            _ => false,
        }
    }

    /// Hands over an answer; whether the connection stays.
    fn answered(&mut self, number: usize, out: &mut dyn Completions) -> bool {
        let link = &mut self.links[number];
        let Some(place_number) = link.place else { return false };
        let place = &mut self.places[place_number];
        link.serves();
        let whole = link.written == place.request.bytes().len();
        let stays = link.parser.keeps() && whole && !link.parser.surplus(&link.input);
        let answer = Answer::of(&link.parser, &link.input);
        let again = match self.dialect.answer(&mut place.state, Ok(answer), &mut place.request) {
            Step::Done(result) => {
                out.complete(place.token, result);
                false
            }
            Step::Send => {
                place.request.finish();
                true
            }
        };
        link.end();
        place.link = None;
        if !again {
            self.free_place(place_number);
        }
        match (stays, again) {
            (true, true) => {
                self.places[place_number].link = Some(number);
                self.links[number].begin(place_number, self.places[place_number].request.is_head());
                // Written by `drive`, which goes on.
                self.links[number].begun = true;
            }
            (true, false) => self.idle.push(number),
            (false, again) => {
                self.reconnect(number);
                if again {
                    self.queue.push_front(place_number);
                }
            }
        }
        stays
    }

    /// The connection is gone, and with it the answer to what was sent on it.
    fn lose(&mut self, number: usize, why: &str, out: &mut dyn Completions) {
        let written = self.links[number].written;
        let place = self.let_go(number);
        self.reconnect(number);
        let Some(place) = place else { return };
        if written == 0 {
            // Nothing of it was sent: it can go out on another connection.
            self.places[place].link = None;
            self.queue.push_front(place);
            return;
        }
        self.count_loss(number);
        let kind = if self.places[place].request.changes() { ErrorKind::OutcomeUnknown } else { ErrorKind::Temporary };
        let error = OpError::new(kind, format!("the connection was lost before the answer: {why}"));
        self.fail(place, error, out);
    }

    /// What came is no answer: nothing more on this connection can be believed.
    fn garbled(&mut self, number: usize, what: &'static str, out: &mut dyn Completions) {
        let place = self.let_go(number);
        if place.is_some() {
            // Not what was hoped for, but to a request: the next one may fare better.
            self.links[number].serves();
        }
        self.reconnect(number);
        self.count_loss(number);
        let Some(place) = place else { return };
        let kind = if self.places[place].request.changes() { ErrorKind::OutcomeUnknown } else { ErrorKind::Failed };
        self.fail(place, OpError::new(kind, what), out);
    }

    fn let_go(&mut self, number: usize) -> Option<usize> {
        self.idle.retain(|idle| *idle != number);
        self.dirty.retain(|dirty| *dirty != number);
        self.links[number].end()
    }

    fn count_loss(&mut self, number: usize) {
        if !std::mem::replace(&mut self.links[number].counted, true) {
            self.disconnects += 1;
        }
    }

    /// Closes what there is and connects: at once where it had served, else after a wait, since what
    /// takes connections only to close them would be asked without end.
    fn reconnect(&mut self, number: usize) {
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
        link.state = State::Connecting { coming, fresh };
        link.ring();
    }

    fn connecting(&mut self, number: usize, out: &mut dyn Completions) {
        let link = &mut self.links[number];
        match link.poll_connect() {
            Poll::Pending => {}
            Poll::Ready(Ok(stream)) => {
                link.state = State::Open(stream);
                (link.served, link.counted) = (false, false);
                link.end();
                link.ring();
                self.idle.push(number);
            }
            Poll::Ready(Err(_)) => {
                // A server may close what is idle as it likes; not to be let in again is a loss.
                if !std::mem::replace(&mut link.counted, true) {
                    self.disconnects += 1;
                }
                let wait = link.backoff.next_wait();
                self.connect_after(number, Some(wait), false);
            }
        }
        self.dispatch(out);
    }

    /// Sends what was assigned to links.
    fn write_dirty(&mut self) {
        while let Some(number) = self.dirty.pop() {
            let link = &mut self.links[number];
            let Some(place) = link.place else { continue };
            if let Turn::Broken(_) = link.write(self.places[place].request.bytes()) {
                // Looked at in the next poll: an answer may have come before it broke.
                link.ring();
            }
        }
    }
}

impl<D: Dialect> Session for HttpSession<D> {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let number = self.take_place(token);
        let place = &mut self.places[number];
        match self.dialect.begin(request, &mut place.state, &mut place.request) {
            Step::Done(result) => {
                out.complete(token, result);
                return self.free_place(number);
            }
            Step::Send => {
                place.request.finish();
            }
        }
        self.queue.push_back(number);
        self.dispatch(out);
    }

    fn flush(&mut self) {
        self.write_dirty();
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        // Registered before looking, so that what wakes in between is not missed.
        self.woken.session.register(cx.waker());
        let mut turn = std::mem::take(&mut self.turn);
        self.woken.swap(&mut turn);
        for number in &turn {
            self.drive(*number, out);
        }
        self.turn = turn;
        self.dispatch(out);
        self.write_dirty();
        if self.in_flight == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Closes the connection it is on: an answer that comes late must not be taken for another's.
    fn abandon(&mut self, token: Token) {
        let found = self.places.iter().position(|place| place.taken && place.token == token);
        let Some(number) = found else { return };
        match self.places[number].link {
            None => self.queue.retain(|queued| *queued != number),
            Some(link) => {
                self.dirty.retain(|dirty| *dirty != link);
                let unsent = self.links[link].written == 0;
                self.links[link].end();
                if unsent {
                    self.idle.push(link);
                } else {
                    self.connect_after(link, None, true);
                }
            }
        }
        self.free_place(number);
    }

    fn counters(&self) -> SessionCounters {
        SessionCounters { disconnects: self.disconnects, splits: self.dialect.splits() }
    }
}
