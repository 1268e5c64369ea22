//! A link between a client and a server that can be slowed down and broken.
//!
//! It is a TCP proxy with one thread. A proxy can do less than a network. It terminates the client's connection and
//! opens another one, so the kernel controls segments, their loss and their acknowledgement. A client always connects
//! at once, whatever the state of the link. And both kernels buffer what a slow link does not take, as at the ends of a
//! real link, but twice.

mod pump;
mod run;
mod state;
mod timer;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use run::{Counters, Order};
use state::{TO_CLIENT, TO_SERVER};

pub use state::{LinkState, OneWay};

/// A proxy between clients and one server. Dropping it closes all its connections.
pub struct Link {
    address: SocketAddr,
    to: SocketAddr,
    counters: Arc<Counters>,
    /// `None` only while it is dropped.
    orders: Option<UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// What a link has forwarded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Open connections.
    pub open: u64,
    /// Connections accepted since it started.
    pub begun: u64,
    /// Bytes passed to the server.
    pub to_server_bytes: u64,
    /// Bytes passed to clients.
    pub to_client_bytes: u64,
}

impl Link {
    /// Starts to listen and to forward each connection to `to`. `listen` must be a loopback address; port 0 picks a
    /// free port.
    ///
    /// # Errors
    /// Fails if it cannot listen, or if `listen` is reachable from other machines.
    pub fn begin(listen: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        if !listen.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{listen} is reachable from other machines; give a loopback address such as 127.0.0.1:0"),
            ));
        }
        let named = |e: io::Error| {
            io::Error::new(e.kind(), format!("a link cannot listen on {listen}: {e}; use port 0 for a free port"))
        };
        let counters = Arc::new(Counters::default());
        let (orders, received) = unbounded_channel();
        let (begun, when_begun) = mpsc::channel();
        let counts = Arc::clone(&counters);
        let thread = thread::Builder::new().name("link".to_owned()).spawn(move || {
            // Without Tokio's timer: its own has a finer resolution.
            match Builder::new_current_thread().enable_io().build_local(LocalOptions::default()) {
                Ok(runtime) => runtime.block_on(run::run(listen, to, counts, received, begun)),
                Err(error) => drop(begun.send(Err(error))),
            }
        })?;
        let address = when_begun.recv().unwrap_or_else(|_| Err(ended())).map_err(named)?;
        Ok(Self { address, to, counters, orders: Some(orders), thread: Some(thread) })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server.
    pub fn to(&self) -> SocketAddr {
        self.to
    }

    /// Sets the state of the link, for open and new connections. When this returns, the old state no longer applies.
    /// Data in transit keeps its order and its arrival time, but arrives no later than if it were sent now.
    ///
    /// # Errors
    /// Fails if it cannot listen again after connections were refused.
    pub fn set(&self, state: LinkState) -> io::Result<()> {
        let set = self.ask(|answer| Order::Set(state, answer)).unwrap_or_else(|| Err(ended()));
        set.map_err(|e| {
            io::Error::new(e.kind(), format!("the link on {} cannot continue: {e}; start another one", self.address))
        })
    }

    /// Resets all open connections, at both ends, and drops their data in transit. Returns the number of connections.
    pub fn reset(&self) -> usize {
        self.ask(Order::Reset).unwrap_or(0)
    }

    /// What it has forwarded up to now.
    pub fn counts(&self) -> LinkCounts {
        let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
        LinkCounts {
            open: count(&self.counters.open),
            begun: count(&self.counters.begun),
            to_server_bytes: count(&self.counters.bytes[TO_SERVER]),
            to_client_bytes: count(&self.counters.bytes[TO_CLIENT]),
        }
    }

    /// The processor time that it has used.
    pub fn processor_time(&self) -> Duration {
        self.ask(Order::ProcessorTime).unwrap_or_default()
    }

    /// `None` if the thread has ended.
    fn ask<T>(&self, order: impl FnOnce(mpsc::Sender<T>) -> Order) -> Option<T> {
        let (answer, answered) = mpsc::channel();
        self.orders.as_ref()?.send(order(answer)).ok()?;
        answered.recv().ok()
    }
}

fn ended() -> io::Error {
    io::Error::other("its thread has ended")
}

impl Drop for Link {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({} to {}, {:?})", self.address, self.to, self.counts())
    }
}
