//! The thread of a link.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::time::ClockId;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinHandle, spawn_local};

use super::pump::{BUFFER_BYTES, Pump};
use super::state::{LinkState, OneWay, TO_CLIENT, TO_SERVER, ns};
use super::timer::{Timer, now_ns};

/// How much unused bandwidth may be used later.
const BURST_NS: u64 = 20_000_000;
/// Number of buffers kept for reuse.
const SPARE_BUFFERS: usize = 16;
/// Number of connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// A request to the link, and where the answer goes.
pub(super) enum Order {
    Set(LinkState, mpsc::Sender<io::Result<()>>),
    Reset(mpsc::Sender<usize>),
    ProcessorTime(mpsc::Sender<Duration>),
}

/// Counters; only the link's thread writes them.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) open: AtomicU64,
    pub(super) begun: AtomicU64,
    pub(super) bytes: [AtomicU64; 2],
}

/// Avoids the cost of an atomic addition.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// State shared by the tasks of a link.
pub(super) struct Shared {
    to: SocketAddr,
    pub(super) state: Cell<LinkState>,
    /// How often the state was set, starting at 1.
    pub(super) era: Cell<u64>,
    pub(super) timer: Timer,
    conns: RefCell<HashMap<u64, Rc<Conn>>>,
    counters: Arc<Counters>,
    /// With a bandwidth: when everything read so far in each direction will have left.
    free_at: [Cell<u64>; 2],
    buffers: RefCell<Vec<Vec<u8>>>,
}

impl Shared {
    pub(super) fn count(&self, way: usize, bytes: usize) {
        add(&self.counters.bytes[way], bytes as u64);
    }

    /// A buffer of [`BUFFER_BYTES`].
    pub(super) fn take_buffer(&self) -> Vec<u8> {
        self.buffers.borrow_mut().pop().unwrap_or_else(|| vec![0; BUFFER_BYTES])
    }

    pub(super) fn give_back(&self, buffer: Vec<u8>) {
        let mut buffers = self.buffers.borrow_mut();
        if buffer.len() == BUFFER_BYTES && buffers.len() < SPARE_BUFFERS {
            buffers.push(buffer);
        }
    }

    /// When these bytes will have left, after all that were read before them on any connection.
    pub(super) fn leaves_at(&self, way: usize, limits: &OneWay, bytes: usize) -> u64 {
        let now = now_ns();
        let Some(bandwidth) = limits.bandwidth else { return now };
        let cost = bytes as u128 * 1_000_000_000 / u128::from(bandwidth.get());
        let free = &self.free_at[way];
        free.set(free.get().max(now.saturating_sub(BURST_NS)) + u64::try_from(cost).unwrap_or(u64::MAX / 4));
        free.get().max(now)
    }

    fn apply(&self, state: LinkState) {
        let before = self.state.replace(state);
        self.era.set(self.era.get() + 1);
        for way in [TO_SERVER, TO_CLIENT] {
            if before.way(way).bandwidth != state.way(way).bandwidth {
                self.free_at[way].set(0);
            }
        }
        for conn in self.conns.borrow().values() {
            conn.lose(&state);
            conn.wake();
        }
    }
}

/// The state of a connection, shared by both directions.
pub(super) struct Conn {
    /// Counted from 0.
    pub(super) number: u64,
    began: u64,
    /// Whether it must be reset.
    pub(super) dead: Cell<bool>,
    pub(super) sides: [Direction; 2],
}

/// The state of one direction.
#[derive(Default)]
pub(super) struct Direction {
    /// Nothing arrives any more.
    pub(super) lost: Cell<bool>,
    /// It has nothing more to forward.
    pub(super) done: Cell<bool>,
    /// The sender of this direction no longer takes bytes, so the end of its data is not an orderly close.
    pub(super) source_gone: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Direction {
    pub(super) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

impl Conn {
    /// Sets which task a change of this direction wakes.
    pub(super) fn woken_by(&self, way: usize, waker: &Waker) {
        let mut slot = self.sides[way].waker.borrow_mut();
        if !slot.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }

    pub(super) fn reset(&self) {
        self.dead.set(true);
        self.wake();
    }

    fn wake(&self) {
        self.sides.iter().for_each(Direction::wake);
    }

    fn lose(&self, state: &LinkState) {
        for (way, side) in self.sides.iter().enumerate() {
            if state.way(way).half_open {
                side.lost.set(true);
            }
        }
    }

    fn is_lost(&self) -> bool {
        self.sides.iter().any(|side| side.lost.get())
    }
}

/// Makes the other side see a reset as soon as this socket is closed.
pub(super) fn reset_on_close(socket: &TcpStream) {
    // It fails only if this is not a socket.
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
}

/// An address that stays reserved for the link while nothing listens on it.
struct HeldAddress {
    address: SocketAddr,
    /// Never listens. While nothing else does, connections are refused.
    holds: TcpSocket,
}

impl HeldAddress {
    fn take(address: SocketAddr) -> io::Result<Self> {
        let holds = bound(address)?;
        Ok(Self { address: holds.local_addr()?, holds })
    }

    fn listen(&self) -> io::Result<TcpListener> {
        // Share the address only with sockets that set this option, too, and only briefly.
        self.holds.set_reuseaddr(true)?;
        let listener = bound(self.address).and_then(|socket| socket.listen(BACKLOG));
        self.holds.set_reuseaddr(false)?;
        listener
    }
}

/// A socket bound to this address that does nothing yet.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Runs a link until the sender of orders is dropped. Reports where it listens.
pub(super) async fn run(
    listen: SocketAddr,
    to: SocketAddr,
    counters: Arc<Counters>,
    mut orders: UnboundedReceiver<Order>,
    begun: mpsc::Sender<io::Result<SocketAddr>>,
) {
    let begin = || {
        let place = HeldAddress::take(listen)?;
        let listener = place.listen()?;
        Ok((place, listener, Timer::new()?))
    };
    let (place, listener, timer) = match begin() {
        Ok(all) => all,
        Err(error) => {
            let _ = begun.send(Err(error));
            return;
        }
    };
    let _ = begun.send(Ok(place.address));
    let link = Rc::new(Shared {
        to,
        state: Cell::default(),
        era: Cell::new(1),
        timer,
        conns: RefCell::default(),
        counters,
        free_at: [const { Cell::new(0) }; 2],
        buffers: RefCell::default(),
    });
    let clock = Rc::clone(&link);
    spawn_local(async move { clock.timer.run().await });
    let mut accepting = Some(spawn_local(accept(Rc::clone(&link), listener)));
    while let Some(order) = orders.recv().await {
        match order {
            Order::Set(state, answer) => {
                let listens = listen_or_not(&mut accepting, &link, &place, !state.refuse).await;
                // Apply the state to open connections, even if listening has failed.
                link.apply(state);
                let _ = answer.send(listens);
            }
            Order::Reset(answer) => {
                let conns = link.conns.borrow();
                conns.values().for_each(|conn| conn.reset());
                let _ = answer.send(conns.len());
            }
            Order::ProcessorTime(answer) => {
                let used = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
                let used = Duration::try_from(used).unwrap_or_default();
                let _ = answer.send(used);
            }
        }
    }
}

async fn listen_or_not(
    accepting: &mut Option<JoinHandle<()>>,
    link: &Rc<Shared>,
    place: &HeldAddress,
    listens: bool,
) -> io::Result<()> {
    if listens && accepting.is_none() {
        let listener = place.listen()?;
        *accepting = Some(spawn_local(accept(Rc::clone(link), listener)));
    } else if !listens && let Some(task) = accepting.take() {
        task.abort();
        // Only now is the listener closed.
        let _ = task.await;
    }
    Ok(())
}

async fn accept(link: Rc<Shared>, listener: TcpListener) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Usually all file descriptors are in use; some may be free soon.
            link.timer.sleep_until(now_ns() + 10_000_000).await;
            continue;
        };
        let number = link.counters.begun.load(Ordering::Relaxed);
        let conn = Conn { number, began: now_ns(), dead: Cell::new(false), sides: Default::default() };
        conn.lose(&link.state.get());
        let conn = Rc::new(conn);
        link.conns.borrow_mut().insert(number, Rc::clone(&conn));
        add(&link.counters.begun, 1);
        add(&link.counters.open, 1);
        spawn_local(serve(Rc::clone(&link), conn, client));
    }
}

async fn serve(link: Rc<Shared>, conn: Rc<Conn>, client: TcpStream) {
    let number = conn.number;
    let _ = client.set_nodelay(true);
    match reach(&link, &conn).await {
        Reached::Server(server) => forward(&link, conn, client, server).await,
        Reached::Lost => swallow(&link, &conn, client).await,
        Reached::Reset => reset_on_close(&client),
    }
    link.conns.borrow_mut().remove(&number);
    add(&link.counters.open, 1u64.wrapping_neg());
}

async fn forward(link: &Rc<Shared>, conn: Rc<Conn>, client: TcpStream, server: TcpStream) {
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let there = Pump::new(Rc::clone(link), Rc::clone(&conn), TO_SERVER, from_client, to_server);
    let back = Pump::new(Rc::clone(link), conn, TO_CLIENT, from_server, to_client);
    // Each direction has its own task, so that a wake-up of one does not run the other.
    let back = spawn_local(back.run());
    there.run().await;
    let _ = back.await;
}

/// The result of connecting to the server.
enum Reached {
    Server(TcpStream),
    Lost,
    Reset,
}

/// Connects to the server, at least one round trip after the client did. The link has already answered the client's
/// handshake, which would have taken that long.
async fn reach(link: &Shared, conn: &Conn) -> Reached {
    let mut connect = pin!(connect(link.to));
    let mut connecting = false;
    poll_fn(|cx| {
        conn.woken_by(TO_SERVER, cx.waker());
        if conn.dead.get() {
            return Poll::Ready(Reached::Reset);
        }
        // From here on the server may know about the connection.
        if !connecting {
            if conn.is_lost() {
                return Poll::Ready(Reached::Lost);
            }
            let state = link.state.get();
            if state.stall {
                return Poll::Pending;
            }
            let round_trip = ns(state.to_server.latency) + ns(state.to_client.latency);
            if round_trip > 0 && now_ns() < conn.began + round_trip {
                link.timer.wake_at(conn.began + round_trip, cx.waker());
                return Poll::Pending;
            }
            connecting = true;
        }
        connect.as_mut().poll(cx).map(|server| server.map_or(Reached::Reset, Reached::Server))
    })
    .await
}

/// If the attempt is given up, the server sees a reset, if it saw anything.
async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_zero_linger()?;
    let server = socket.connect(to).await?;
    set_socket_linger(&server, None)?;
    server.set_nodelay(true)?;
    Ok(server)
}

/// Reads and discards the data of a connection that never reached the server.
async fn swallow(link: &Shared, conn: &Conn, client: TcpStream) {
    let reading = async {
        loop {
            let mut bytes = link.take_buffer();
            let read = match client.readable().await {
                Ok(()) => client.try_read(&mut bytes),
                Err(error) => Err(error),
            };
            link.give_back(bytes);
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    };
    let mut reading = pin!(reading);
    poll_fn(|cx| {
        conn.woken_by(TO_SERVER, cx.waker());
        if conn.dead.get() {
            reset_on_close(&client);
            return Poll::Ready(());
        }
        reading.as_mut().poll(cx)
    })
    .await;
}
