//! A pipe over a connection that reconnects by itself.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use storebench_engine::store::{ErrorKind, OpError, StoreError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::Pipe;
use super::wake_flag::WakeFlag;
use crate::net::{Backoff, Stream, not_connected};

/// Establishes a connection until requests may be sent.
pub(crate) type Connecting = Pin<Box<dyn Future<Output = Result<Stream, StoreError>>>>;

/// Reconnects a link.
pub(crate) type Connect = Box<dyn Fn() -> Connecting>;

/// Builds a [`Connect`] from `connect` and its input. Each attempt gets a clone of `from`.
pub(crate) fn again<T: Clone + 'static, F>(from: T, connect: impl Fn(T) -> F + 'static) -> Connect
where
    F: Future<Output = Result<Stream, StoreError>> + 'static,
{
    Box::new(move || Box::pin(connect(from.clone())))
}

/// One connection and the requests in flight on it.
pub(crate) struct Link<T> {
    /// Requests and answers.
    pub(crate) pipe: Pipe<T>,
    state: ConnectionState,
    connect: Connect,
    backoff: Backoff,
    disconnects: u64,
    /// The number of successful reads.
    reads: u64,
    /// When an operation was first abandoned without a read since: the value of `reads` then, and the time.
    silence: Option<(u64, Instant)>,
    /// The timeout of an operation.
    timeout: Duration,
    /// What the server can no longer guarantee, found during the last reconnection.
    refusal: Option<String>,
    woken: Arc<WakeFlag>,
    waker: Waker,
    /// The waker that `woken` passes wake-ups to.
    listener: Option<Waker>,
}

enum ConnectionState {
    Up(Stream),
    /// Closed because an answer will not come any more, for this reason. The next turn reports it.
    Silent(&'static str),
    /// Not connected; waiting before the next attempt.
    Down(Pin<Box<Sleep>>),
    Connecting(Connecting),
}

/// The result of [`Link::turn`].
#[derive(Debug)]
pub(crate) enum Turn {
    /// No progress is possible now; the waker is registered.
    Nothing,
    /// The pipe received more bytes.
    Input,
    /// The connection was lost or could not be established, for this reason. The caller takes the awaited
    /// requests with [`Pipe::lose`].
    Lost(String),
    /// The link has reconnected.
    Connected,
}

impl<T> Link<T> {
    /// Creates a link over an existing connection.
    pub(crate) fn connected(stream: Stream, connect: Connect, window: u32, timeout: Duration) -> Self {
        Self::new(ConnectionState::Up(stream), connect, window, timeout)
    }

    /// Creates a link that is still connecting. Requests made meanwhile are sent once it is connected.
    pub(crate) fn connecting(connect: Connect, window: u32, timeout: Duration) -> Self {
        Self::new(ConnectionState::Connecting(connect()), connect, window, timeout)
    }

    fn new(state: ConnectionState, connect: Connect, window: u32, timeout: Duration) -> Self {
        let woken = WakeFlag::new();
        Self {
            pipe: Pipe::new(window),
            state,
            connect,
            backoff: Backoff::default(),
            disconnects: 0,
            reads: 0,
            silence: None,
            timeout,
            refusal: None,
            waker: Waker::from(Arc::clone(&woken)),
            woken,
            listener: None,
        }
    }

    /// Whether requests may be sent now.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, ConnectionState::Up(_))
    }

    /// Whether it is waiting before the next attempt to connect.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.state, ConnectionState::Down(_))
    }

    /// The error of a request that cannot be sent because the link is down. If the server came back with weaker
    /// guarantees, the link refuses to use it, and retrying does not help.
    pub(crate) fn not_connected(&self) -> OpError {
        match &self.refusal {
            Some(why) => OpError::new(ErrorKind::Failed, why.clone()),
            None => not_connected(),
        }
    }

    /// Records that an operation on this link was abandoned. If nothing has been read since another one was abandoned
    /// at least one timeout ago, the connection is considered dead, because no error may ever be reported. It is
    /// then replaced. Returns whether that happened in this call.
    pub(crate) fn abandoned(&mut self) -> bool {
        if !self.is_up() {
            return false;
        }
        let now = Instant::now();
        match self.silence {
            Some((reads, since)) if reads == self.reads => {
                let silent = now.duration_since(since) >= self.timeout;
                if silent {
                    self.give_up_because(
                        "the server sent nothing for twice the timeout, so the connection was replaced",
                    );
                }
                silent
            }
            _ => {
                self.silence = Some((self.reads, now));
                false
            }
        }
    }

    /// Replaces the connection, because an answer will not come any more.
    pub(crate) fn give_up_because(&mut self, why: &'static str) {
        self.state = ConnectionState::Silent(why);
        self.woken.wake_by_ref();
    }

    /// Closes the connection, which still works, and reconnects at once. The caller has taken the awaited requests
    /// with [`Pipe::lose`].
    pub(crate) fn replace(&mut self) {
        self.state = ConnectionState::Connecting((self.connect)());
        self.woken.wake_by_ref();
    }

    /// Sends `bytes` before the connection is closed, if nothing is in flight and the socket accepts them now.
    pub(crate) fn say_goodbye(&mut self, bytes: &[u8]) {
        if let ConnectionState::Up(stream) = &mut self.state
            && self.pipe.is_idle()
        {
            let cx = &mut Context::from_waker(Waker::noop());
            let mut stream = Pin::new(stream);
            let _ = stream.as_mut().poll_write(cx, bytes);
            let _ = stream.poll_flush(cx);
        }
    }

    /// How often an established connection was lost.
    pub(crate) fn disconnects(&self) -> u64 {
        self.disconnects
    }

    /// Whether [`Link::turn`] may make progress. Wakes the task of `cx` when that changes.
    #[inline]
    pub(crate) fn has_news(&mut self, cx: &Context<'_>) -> bool {
        if !self.listener.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.woken.listen(cx.waker());
            self.listener = Some(cx.waker().clone());
        }
        self.woken.take()
    }

    /// Whether it was woken since the last poll. Submits use this, because they also drive a link that is down.
    pub(crate) fn was_woken(&self) -> bool {
        self.woken.take()
    }

    /// Writes what may be written. The next turn reports any error.
    pub(crate) fn flush(&mut self) {
        if let ConnectionState::Up(stream) = &mut self.state
            && write(&mut self.pipe, stream, &mut Context::from_waker(&self.waker)).is_err()
        {
            self.woken.wake_by_ref();
        }
    }

    /// Makes [`Link::has_news`] true, so that the session comes back to this link.
    pub(super) fn wake(&self) {
        self.woken.wake_by_ref();
    }

    /// Makes progress: connects, writes, reads once. Call it until it returns [`Turn::Nothing`].
    pub(crate) fn turn(&mut self) -> Turn {
        let cx = &mut Context::from_waker(&self.waker);
        match &mut self.state {
            ConnectionState::Up(stream) => match exchange(&mut self.pipe, stream, cx) {
                Ok(Read::Nothing) => Turn::Nothing,
                Ok(Read::Bytes) => {
                    self.reads += 1;
                    // Not reset on connecting: a server may accept connections only to close them.
                    self.backoff.reset();
                    Turn::Input
                }
                Ok(Read::End) => self.broke("the server closed the connection".to_owned()),
                Err(why) => self.broke(why),
            },
            ConnectionState::Silent(why) => {
                let why = (*why).to_owned();
                self.broke(why)
            }
            ConnectionState::Down(sleep) => match sleep.as_mut().poll(cx) {
                Poll::Pending => Turn::Nothing,
                Poll::Ready(()) => {
                    self.state = ConnectionState::Connecting((self.connect)());
                    self.turn()
                }
            },
            ConnectionState::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                Poll::Pending => Turn::Nothing,
                Poll::Ready(Ok(stream)) => {
                    self.state = ConnectionState::Up(stream);
                    (self.silence, self.refusal) = (None, None);
                    Turn::Connected
                }
                Poll::Ready(Err(error)) => {
                    let why = error.to_string();
                    self.refusal = matches!(error, StoreError::NotSupported(_)).then(|| why.clone());
                    self.wait();
                    Turn::Lost(why)
                }
            },
        }
    }

    fn broke(&mut self, why: String) -> Turn {
        self.disconnects += 1;
        self.wait();
        Turn::Lost(why)
    }

    /// Drops the connection because its input cannot be trusted. The caller takes the awaited requests with
    /// [`Pipe::lose`].
    pub(crate) fn give_up(&mut self) {
        if self.is_up() {
            self.disconnects += 1;
        }
        self.wait();
    }

    fn wait(&mut self) {
        self.state = ConnectionState::Down(Box::pin(tokio::time::sleep(self.backoff.next_wait())));
        // The next turn registers a waker for the end of the wait.
        self.woken.wake_by_ref();
    }
}

/// Writes what may be written, and flushes what TLS still holds.
pub(crate) fn write<T>(pipe: &mut Pipe<T>, stream: &mut Stream, cx: &mut Context<'_>) -> Result<(), String> {
    if pipe.is_sent() && !stream.is_encrypted() {
        return Ok(());
    }
    let mut stream = Pin::new(stream);
    let mut wrote = false;
    loop {
        let bytes = pipe.sendable();
        if bytes.is_empty() {
            break;
        }
        let offered = bytes.len();
        let Poll::Ready(result) = stream.as_mut().poll_write(cx, bytes) else { break };
        pipe.sent(taken(&result, offered, stream.is_encrypted()));
        match result {
            Ok(0) => return Err("the server accepts no more bytes".to_owned()),
            Ok(_) => wrote = true,
            Err(error) => return Err(error.to_string()),
        }
    }
    if wrote || stream.is_encrypted() {
        match stream.poll_flush(cx) {
            Poll::Ready(Err(error)) => return Err(error.to_string()),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
    }
    Ok(())
}

/// How many of the offered bytes must be assumed to be sent. TLS sends in several steps, and tells only of the error if one
/// fails after others.
fn taken(result: &io::Result<usize>, offered: usize, encrypted: bool) -> usize {
    match result {
        Ok(bytes) => *bytes,
        Err(_) if encrypted => offered,
        Err(_) => 0,
    }
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Nothing now; the waker is registered.
    Nothing,
    Bytes,
    /// The server closed the connection.
    End,
}

/// Writes, then reads once.
///
/// # Errors
/// If the connection is broken.
pub(crate) fn exchange<T>(pipe: &mut Pipe<T>, stream: &mut Stream, cx: &mut Context<'_>) -> Result<Read, String> {
    // A server may say why before it closes the connection, so read before reporting a write error.
    let written = write(pipe, stream, cx);
    if pipe.was_drained() && stream.poll_readable(cx).is_pending() {
        return written.map(|()| Read::Nothing);
    }
    let mut room = ReadBuf::new(pipe.room());
    let read = Pin::new(stream).poll_read(cx, &mut room);
    let bytes = room.filled().len();
    pipe.filled(bytes);
    match read {
        Poll::Ready(Ok(())) => Ok(if bytes > 0 { Read::Bytes } else { Read::End }),
        Poll::Ready(Err(error)) => Err(error.to_string()),
        Poll::Pending => written.map(|()| Read::Nothing),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn what_tls_may_have_sent_before_an_error_counts_as_sent() {
        let error = || Err(io::Error::from(io::ErrorKind::ConnectionReset));
        assert_eq!((taken(&Ok(3), 9, true), taken(&Ok(3), 9, false)), (3, 3));
        assert_eq!((taken(&error(), 9, true), taken(&error(), 9, false)), (9, 0));
        // So a request in it is not taken for one that never left.
        let mut pipe = Pipe::<u32>::new(4);
        pipe.request(1, true).extend_from_slice(b"request");
        let offered = pipe.sendable().len();
        pipe.sent(taken(&error(), offered, true));
        assert_eq!(pipe.lose().collect::<Vec<_>>(), [(1, true)]);
    }

    #[derive(Default)]
    struct Count(AtomicU32);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(in crate::connection) fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    /// A link and the other end of its connection.
    pub(in crate::connection) async fn pair(timeout: Duration) -> (Link<u32>, tokio::net::TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let connect: Connect = Box::new(|| Box::pin(std::future::pending()) as Connecting);
        let link = Link::connected(Stream::Plain(stream), connect, 4, timeout);
        (link, listener.accept().await.unwrap().0)
    }

    fn ask(link: &mut Link<u32>, what: u32) {
        link.pipe.request(what, true).extend_from_slice(b"?");
        link.flush();
    }

    #[test]
    fn a_flush_that_fails_wakes_who_polls() {
        runtime().block_on(async {
            let (mut link, there) = pair(Duration::from_secs(1)).await;
            let count = Arc::new(Count::default());
            let waker = Waker::from(Arc::clone(&count));
            assert!(link.has_news(&Context::from_waker(&waker)));
            // Closing with unread data sends a reset.
            ask(&mut link, 1);
            there.readable().await.unwrap();
            drop(there);
            for what in 2..10 {
                ask(&mut link, what);
            }
            assert_eq!(count.0.load(Ordering::SeqCst), 1);
            assert!(link.has_news(&Context::from_waker(&waker)));
        });
    }

    #[test]
    fn a_connection_that_stays_silent_is_replaced() {
        runtime().block_on(async {
            let (mut link, there) = pair(Duration::ZERO).await;
            let news = async |link: &mut Link<u32>| {
                std::future::poll_fn(|cx| if link.has_news(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
            };
            ask(&mut link, 1);
            link.abandoned();
            assert!(link.is_up(), "only one operation was abandoned");
            assert!(matches!(link.turn(), Turn::Nothing));
            // New input restarts the count.
            news(&mut link).await;
            there.try_write(b"!").unwrap();
            news(&mut link).await;
            assert!(matches!(link.turn(), Turn::Input));
            link.pipe.consume(1);
            link.pipe.pop();
            for what in 2..4 {
                ask(&mut link, what);
                assert!(link.is_up());
                link.abandoned();
            }
            assert!(!link.is_up());
            news(&mut link).await;
            assert!(matches!(link.turn(), Turn::Lost(why) if why.contains("twice the timeout")));
            assert_eq!((link.disconnects(), link.pipe.lose().collect::<Vec<_>>()), (1, vec![(2, true), (3, true)]));
        });
    }

    #[test]
    fn a_server_that_only_closes_is_asked_ever_more_seldom() {
        runtime().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let connect: Connect = Box::new(move || {
                Box::pin(async move { Ok(Stream::Plain(tokio::net::TcpStream::connect(address).await.unwrap())) })
            });
            let mut link: Link<u32> = Link::connecting(connect, 4, Duration::from_secs(1));
            let next = async |link: &mut Link<u32>| loop {
                match link.turn() {
                    Turn::Nothing => {
                        std::future::poll_fn(|cx| if link.has_news(cx) { Poll::Ready(()) } else { Poll::Pending })
                            .await;
                    }
                    other => return other,
                }
            };
            for _ in 0..3 {
                let (there, turn) = futures_util::future::join(listener.accept(), next(&mut link)).await;
                assert!(matches!(turn, Turn::Connected));
                drop(there);
                assert!(matches!(next(&mut link).await, Turn::Lost(_)));
            }
            assert!(link.backoff.next_wait() >= Duration::from_millis(40), "it started again though nothing was read");
        });
    }

    #[cfg(feature = "net")]
    #[test]
    fn what_tls_holds_back_is_sent_in_the_end() {
        use crate::net::{connect, held_reader};

        runtime().block_on(async {
            let bytes = vec![7; 50_000];
            let (host, tls, go) = held_reader(bytes.len(), b"!");
            let stream = connect(&host, Some(&tls), Duration::from_secs(20)).await.unwrap();
            let never: Connect = Box::new(|| Box::pin(std::future::pending()) as Connecting);
            let mut link: Link<u32> = Link::connected(stream, never, 4, Duration::from_secs(1));
            link.pipe.request(1, true).extend_from_slice(&bytes);
            link.flush();
            assert!(link.pipe.sendable().is_empty(), "TLS holds what the socket has not taken");
            go.send(()).unwrap();
            let answered = std::future::poll_fn(|cx| match link.has_news(cx).then(|| link.turn()) {
                Some(Turn::Input) => Poll::Ready(()),
                _ => Poll::Pending,
            });
            tokio::time::timeout(Duration::from_secs(60), answered).await.expect("the end never left");
            assert_eq!(link.pipe.input(), b"!");
        });
    }

    #[test]
    fn a_server_that_guarantees_less_is_not_used_and_says_why() {
        runtime().block_on(async {
            let connect: Connect = Box::new(|| {
                Box::pin(async { Err(StoreError::NotSupported("it came back without a disk".into())) }) as Connecting
            });
            let mut link: Link<u32> = Link::connecting(connect, 4, Duration::ZERO);
            assert_eq!(link.not_connected().kind, ErrorKind::Temporary);
            assert!(matches!(link.turn(), Turn::Lost(_)));
            let error = link.not_connected();
            assert!(error.kind == ErrorKind::Failed && error.message.contains("without a disk"), "{error}");
        });
    }
}
