//! One direction of a connection.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::run::{Conn, Shared, reset_on_close};
use super::state::{OneWay, ns};
use super::timer::now_ns;

/// Bytes per read if nothing delays them.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// Bytes that may be in transit in one direction of a connection. Then the sender has to wait.
const UNDERWAY_BYTES: usize = 4 << 20;
/// Overhead counted for each piece, so that many small pieces do not exceed that memory.
const PIECE_BYTES: usize = 128;
/// With a bandwidth: how far ahead of its turn data may be read. This is more than a timer's lateness.
const AHEAD_NS: u64 = 5_000_000;

/// Bytes in transit.
struct Piece {
    bytes: Vec<u8>,
    /// The part that is not yet written.
    from: usize,
    to: usize,
    /// When they arrive.
    due: u64,
}

/// How a direction ends.
#[derive(Clone, Copy)]
enum End {
    /// An orderly close.
    Fin,
    /// The sender is gone.
    Reset,
}

/// What to do after writing what is due.
enum Next {
    /// Everything is written.
    Read,
    /// More is due at this time.
    At(u64),
    /// The socket takes no more now.
    Blocked,
    /// Check everything again.
    Again,
    Ended,
}

/// Moves bytes from one socket to another.
pub(super) struct Pump {
    link: Rc<Shared>,
    conn: Rc<Conn>,
    way: usize,
    from: OwnedReadHalf,
    into: OwnedWriteHalf,
    underway: VecDeque<Piece>,
    underway_bytes: usize,
    end: Option<(u64, End)>,
    /// When the last of `underway` arrives. Nothing may overtake it.
    last_due: u64,
    /// With a bandwidth: when the last bytes read will have left.
    leaves_at: u64,
    /// The era of the link's state that it has applied.
    era: u64,
    /// For jitter.
    random: fastrand::Rng,
    /// When the timer wakes it.
    wakes_at: u64,
    /// The receiver no longer takes bytes.
    gone: bool,
}

impl Pump {
    pub(super) fn new(link: Rc<Shared>, conn: Rc<Conn>, way: usize, from: OwnedReadHalf, into: OwnedWriteHalf) -> Self {
        Self {
            link,
            conn,
            way,
            from,
            into,
            underway: VecDeque::new(),
            underway_bytes: 0,
            end: None,
            last_due: 0,
            leaves_at: 0,
            era: 0,
            random: fastrand::Rng::with_seed(0),
            wakes_at: 0,
            gone: false,
        }
    }

    /// Runs until there is nothing more to forward.
    pub(super) async fn run(mut self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
        self.conn.sides[self.way].done.set(true);
        // Otherwise dropping it would close the connection, which the receiver must still believe open.
        self.into.forget();
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.conn.woken_by(self.way, cx.waker());
        loop {
            if self.conn.dead.get() {
                reset_on_close(self.from.as_ref());
                reset_on_close(self.into.as_ref());
                return Poll::Ready(());
            }
            if self.conn.sides[self.way].lost.get() {
                return self.swallow(cx);
            }
            let state = self.link.state.get();
            if self.gone || state.stall {
                return Poll::Pending;
            }
            let way = *state.way(self.way);
            if self.era != self.link.era.get() {
                self.begin_era(&way, state.seed);
            }
            let next = if self.underway.is_empty() && self.end.is_none() { Next::Read } else { self.deliver(cx) };
            let mut wake_at = match next {
                Next::Again => continue,
                Next::Ended => return Poll::Ready(()),
                Next::At(at) => at,
                Next::Read | Next::Blocked => u64::MAX,
            };
            let mut may_read = self.end.is_none()
                && self.underway_bytes < UNDERWAY_BYTES
                && (!way.is_plain() || self.underway.is_empty());
            if way.bandwidth.is_some() && self.leaves_at > now_ns() + AHEAD_NS {
                may_read = false;
                wake_at = wake_at.min(self.leaves_at - AHEAD_NS);
            }
            if may_read && self.read(&way, cx).is_ready() {
                continue;
            }
            if wake_at != u64::MAX {
                let now = now_ns();
                if wake_at <= now {
                    continue;
                }
                if self.wakes_at <= now || wake_at < self.wakes_at {
                    self.link.timer.wake_at(wake_at, cx.waker());
                    self.wakes_at = wake_at;
                }
            }
            return Poll::Pending;
        }
    }

    /// Applies a new state of the link. Data in transit keeps its arrival time, but arrives no later than if it were
    /// sent now: the old fault is over.
    fn begin_era(&mut self, way: &OneWay, seed: u64) {
        self.era = self.link.era.get();
        self.random = fastrand::Rng::with_seed(seed.rotate_left(32) ^ (self.conn.number * 2 + self.way as u64));
        self.leaves_at = 0;
        let latest = if way.is_plain() { 0 } else { now_ns() + ns(way.latency) + ns(way.jitter) };
        self.underway.iter_mut().for_each(|piece| piece.due = piece.due.min(latest));
        if let Some((due, _)) = &mut self.end {
            *due = (*due).min(latest);
        }
        self.last_due = self.last_due.min(latest);
    }

    /// Writes what is due.
    fn deliver(&mut self, cx: &mut Context<'_>) -> Next {
        let now = now_ns();
        while let Some(piece) = self.underway.front_mut() {
            if piece.due > now {
                return Next::At(piece.due);
            }
            match Pin::new(&mut self.into).poll_write(cx, &piece.bytes[piece.from..piece.to]) {
                Poll::Pending => return Next::Blocked,
                Poll::Ready(Err(_)) => return self.lose_taker(),
                Poll::Ready(Ok(written)) => {
                    self.link.count(self.way, written);
                    self.underway_bytes -= written;
                    piece.from += written;
                    if piece.from == piece.to
                        && let Some(piece) = self.underway.pop_front()
                    {
                        self.underway_bytes -= PIECE_BYTES;
                        self.link.give_back(piece.bytes);
                    }
                }
            }
        }
        match self.end {
            None => Next::Read,
            Some((due, _)) if due > now => Next::At(due),
            Some((_, End::Reset)) => {
                self.conn.reset();
                Next::Again
            }
            // A failed shutdown means that nobody is left to notify.
            Some((_, End::Fin)) => match Pin::new(&mut self.into).poll_shutdown(cx) {
                Poll::Pending => Next::Blocked,
                Poll::Ready(_) => Next::Ended,
            },
        }
    }

    /// Reads once; pending if there is nothing to read.
    fn read(&mut self, way: &OneWay, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = self.link.take_buffer();
        // At most 2 ms worth of data, so that connections take turns and data does not arrive in bursts.
        let most = way.bandwidth.map_or(BUFFER_BYTES, |bandwidth| {
            usize::try_from(bandwidth.get() / 500).unwrap_or(BUFFER_BYTES).clamp(128, BUFFER_BYTES)
        });
        let Poll::Ready(read) = poll_read(&mut self.from, cx, &mut bytes[..most]) else {
            self.link.give_back(bytes);
            return Poll::Pending;
        };
        if let Ok(read) = read
            && read > 0
        {
            if way.is_plain() {
                return self.pass_on(bytes, read, cx);
            }
            let due = self.arrival(way, read);
            self.send_off(bytes, 0, read, due);
            return Poll::Ready(());
        }
        self.link.give_back(bytes);
        let gone = read.is_err() || self.conn.sides[self.way].source_gone.get();
        let due = if way.is_plain() { 0 } else { self.arrival(way, 0) };
        self.end = Some((due, if gone { End::Reset } else { End::Fin }));
        Poll::Ready(())
    }

    /// Writes at once what was read; the rest waits.
    fn pass_on(&mut self, bytes: Vec<u8>, read: usize, cx: &mut Context<'_>) -> Poll<()> {
        let written = match Pin::new(&mut self.into).poll_write(cx, &bytes[..read]) {
            Poll::Pending => 0,
            Poll::Ready(Ok(written)) => written,
            Poll::Ready(Err(_)) => {
                self.link.give_back(bytes);
                self.lose_taker();
                return Poll::Ready(());
            }
        };
        self.link.count(self.way, written);
        if written == read {
            self.link.give_back(bytes);
        } else {
            self.send_off(bytes, written, read, 0);
        }
        Poll::Ready(())
    }

    /// When bytes read now arrive.
    fn arrival(&mut self, way: &OneWay, bytes: usize) -> u64 {
        self.leaves_at = self.link.leaves_at(self.way, way, bytes);
        self.last_due = self.last_due.max(self.leaves_at + way.draw_ns(&mut self.random));
        self.last_due
    }

    fn send_off(&mut self, bytes: Vec<u8>, from: usize, to: usize, due: u64) {
        self.underway_bytes += to - from + PIECE_BYTES;
        // Do not keep a large buffer for a few bytes.
        let piece = if to - from > BUFFER_BYTES / 4 {
            Piece { bytes, from, to, due }
        } else {
            let few = bytes[from..to].to_vec();
            self.link.give_back(bytes);
            Piece { from: 0, to: few.len(), bytes: few, due }
        };
        self.underway.push_back(piece);
    }

    /// Handles a receiver that is gone. The other direction notifies the sender, after delivering its own data.
    fn lose_taker(&mut self) -> Next {
        self.forget_underway();
        let other = &self.conn.sides[1 - self.way];
        if other.lost.get() {
            self.conn.sides[self.way].lost.set(true);
        } else if other.done.get() {
            self.conn.reset();
        } else {
            self.gone = true;
            other.source_gone.set(true);
            other.wake();
        }
        Next::Again
    }

    /// Reads and discards the data.
    fn swallow(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.forget_underway();
        let mut bytes = self.link.take_buffer();
        let ended = loop {
            match poll_read(&mut self.from, cx, &mut bytes) {
                Poll::Pending => break Poll::Pending,
                Poll::Ready(Ok(0) | Err(_)) => break Poll::Ready(()),
                Poll::Ready(Ok(_)) => {}
            }
        };
        self.link.give_back(bytes);
        ended
    }

    fn forget_underway(&mut self) {
        self.underway = VecDeque::new();
        self.underway_bytes = 0;
        self.end = None;
    }
}

/// The number of bytes read; 0 means the end.
fn poll_read(from: &mut OwnedReadHalf, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(bytes);
    ready!(Pin::new(from).poll_read(cx, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().len()))
}
