//! A link between a client and a server that can be made slow, and be broken.
//!
//! It is a TCP proxy of one thread. What a proxy can do is less than what a network can: it ends the client's connection
//! and begins another one, so that segments, their loss and their acknowledgement are the kernel's; a client connects to
//! it at once, whatever the state of the link; and both kernels buffer what a slow link does not take, as they do at the
//! ends of a real one, but twice.

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

/// A proxy between clients and one server. It ends when it is dropped, and all its connections with it.
pub struct Link {
    address: SocketAddr,
    to: SocketAddr,
    counters: Arc<Counters>,
    /// None only while it is dropped.
    orders: Option<UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// What a link has forwarded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Connections that are open.
    pub open: u64,
    /// Connections that were accepted since it began.
    pub begun: u64,
    /// Bytes that were handed to the server.
    pub to_server_bytes: u64,
    /// Bytes that were handed to clients.
    pub to_client_bytes: u64,
}

impl Link {
    /// Begins to listen, and to forward each connection to `to`. `listen` is an address of this machine only; with port 0
    /// it is a free one.
    ///
    /// # Errors
    /// Where it cannot listen, or would for others than this machine.
    pub fn begin(listen: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        if !listen.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a link would listen on {listen}, where others reach it; give an address such as 127.0.0.1:0"),
            ));
        }
        let named = |e: io::Error| {
            io::Error::new(e.kind(), format!("a link cannot listen on {listen}: {e}; port 0 is a free one"))
        };
        let counters = Arc::new(Counters::default());
        let (orders, received) = unbounded_channel();
        let (begun, when_begun) = mpsc::channel();
        let counts = Arc::clone(&counters);
        let thread = thread::Builder::new().name("link".to_owned()).spawn(move || {
            // No timer of tokio's: one of its own is finer.
            match Builder::new_current_thread().enable_io().build_local(LocalOptions::default()) {
                Ok(runtime) => runtime.block_on(run::run(listen, to, counts, received, begun)),
                Err(error) => drop(begun.send(Err(error))),
            }
        })?;
        let address = when_begun.recv().unwrap_or_else(|_| Err(ended())).map_err(named)?;
        Ok(Self { address, to, counters, orders: Some(orders), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server.
    pub fn to(&self) -> SocketAddr {
        self.to
    }

    /// The link is in this state from now on, for connections that are open and for new ones. When this returns, nothing is
    /// forwarded any more as it was before. What was underway arrives in order, when it would have, and at the latest when
    /// it would if it were sent now.
    ///
    /// # Errors
    /// Where it cannot listen any more after connections were refused.
    pub fn set(&self, state: LinkState) -> io::Result<()> {
        let set = self.ask(|answer| Order::Set(state, answer)).unwrap_or_else(|| Err(ended()));
        set.map_err(|e| {
            io::Error::new(e.kind(), format!("the link on {} cannot go on: {e}; begin another one", self.address))
        })
    }

    /// Resets all open connections, at both ends. Nothing of them is forwarded any more. Tells how many there were.
    pub fn reset(&self) -> usize {
        self.ask(Order::Reset).unwrap_or(0)
    }

    /// What it has forwarded until now.
    pub fn counts(&self) -> LinkCounts {
        let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
        LinkCounts {
            open: count(&self.counters.open),
            begun: count(&self.counters.begun),
            to_server_bytes: count(&self.counters.bytes[TO_SERVER]),
            to_client_bytes: count(&self.counters.bytes[TO_CLIENT]),
        }
    }

    /// The processor time that it has used itself.
    pub fn processor_time(&self) -> Duration {
        self.ask(Order::ProcessorTime).unwrap_or_default()
    }

    /// None where the thread has ended.
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
