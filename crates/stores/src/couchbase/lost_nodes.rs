//! Tracks the nodes that a session has lost, so that operations on their documents fail at once.
//!
//! If a node is away, the SDK keeps its operations until the node is back or the caller gives up, and says nothing
//! meanwhile. A session's places would fill with operations that were never sent. So the first operation that ends with
//! its connection marks that node as lost: operations on its documents fail at once. A task then polls the nodes until
//! they answer, and takes the mark away. An operation that was abandoned without an answer also starts the task: the SDK may have lost the
//! node while nothing was in flight, or have reported too early that it was back.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use storebench_engine::store::{OpError, SessionCounters};
use tokio::task::AbortHandle;

use super::link::Link;
use super::management::Management;
use super::settings::Settings;
use super::topology::Topology;
use crate::net::{Backoff, Host, not_connected};

/// The time in which the SDK notices. All connections to a node end at about the same time.
const NOTICED_WITHIN: Duration = Duration::from_millis(20);
/// A node is back if it is connected, and still connected after this time.
const CONFIRMED_AFTER: Duration = Duration::from_millis(50);
/// Timeout for reading the map. Until then the lost nodes stay the same.
const REFRESHED_WITHIN: Duration = Duration::from_secs(1);

/// What the task that polls the nodes and the session share.
#[derive(Debug)]
struct LostState {
    topology: Topology,
    lost: HashSet<String>,
    /// Nodes that left an operation unanswered.
    doubted: HashSet<String>,
    disconnects: u64,
}

/// The lost nodes of one session.
pub(super) struct LostNodes {
    settings: Arc<Settings>,
    link: Arc<Link>,
    state: Arc<Mutex<LostState>>,
    /// Whether `lost` may hold any node. Read without the lock.
    any_lost: Arc<AtomicBool>,
    task: RefCell<Option<AbortHandle>>,
}

impl Drop for LostNodes {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl LostNodes {
    pub(super) fn new(settings: Arc<Settings>, link: Arc<Link>, topology: Topology) -> Rc<Self> {
        Rc::new(Self {
            settings,
            link,
            state: Arc::new(Mutex::new(LostState {
                topology,
                lost: HashSet::new(),
                doubted: HashSet::new(),
                disconnects: 0,
            })),
            any_lost: Arc::default(),
            task: RefCell::new(None),
        })
    }

    /// Refuses an operation on a key whose node is away.
    pub(super) fn pass(&self, key: &str) -> Result<(), OpError> {
        if !self.any_lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.lost.is_empty() {
            self.any_lost.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let node = state.topology.node_of(key).and_then(|node| state.topology.data.get(node));
        if node.is_some_and(|node| state.lost.contains(&node.to_string())) { Err(not_connected()) } else { Ok(()) }
    }

    /// Records that an operation on this key ended with its connection.
    pub(super) fn lost(&self, key: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let node = state.topology.node_of(key).and_then(|node| state.topology.data.get(node).map(Host::to_string));
        let Some(node) = node else { return };
        if !state.lost.insert(node) {
            return;
        }
        state.disconnects += 1;
        self.any_lost.store(true, Ordering::Relaxed);
        drop(state);
        self.watch();
    }

    /// Records that an operation on this key was abandoned without an answer, and checks its node.
    pub(super) fn doubt(&self, key: &str) {
        // A session that ends abandons everything that is left.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let node = state.topology.node_of(key).and_then(|node| state.topology.data.get(node).map(Host::to_string));
        let Some(node) = node else { return };
        if state.lost.contains(&node) {
            return;
        }
        state.doubted.insert(node);
        drop(state);
        self.watch();
    }

    /// Polls the nodes until every lost one is connected again, or is no longer in the map.
    fn watch(&self) {
        let mut task = self.task.borrow_mut();
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (settings, link, state) = (Arc::clone(&self.settings), Arc::clone(&self.link), Arc::clone(&self.state));
        let any_lost = Arc::clone(&self.any_lost);
        *task = Some(
            tokio::spawn(async move {
                let mut backoff = Backoff::new();
                // Until the SDK has noticed too.
                tokio::time::sleep(NOTICED_WITHIN).await;
                loop {
                    tokio::time::sleep(backoff.next_wait()).await;
                    let topology = refreshed(&settings, &state).await;
                    // Checked last, so that the result is still current when it is used. Checked twice, since the SDK
                    // may report a node as connected that it has only just lost, or that accepts connections and drops
                    // them.
                    let mut connected = link.connected().await;
                    if !connected.is_empty() {
                        tokio::time::sleep(CONFIRMED_AFTER).await;
                        let again = link.connected().await;
                        connected.retain(|node| again.contains(node));
                    }
                    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(topology) = topology {
                        state.topology = topology;
                    }
                    let LostState { topology, lost, doubted, disconnects } = &mut *state;
                    for node in doubted.drain().filter(|node| !connected.contains(node)) {
                        *disconnects += u64::from(lost.insert(node));
                    }
                    let in_map = |node: &String| topology.data.iter().any(|other| other.to_string() == *node);
                    lost.retain(|node| in_map(node) && !connected.contains(node));
                    any_lost.store(!lost.is_empty(), Ordering::Relaxed);
                    if lost.is_empty() {
                        return;
                    }
                }
            })
            .abort_handle(),
        );
    }

    pub(super) fn counters(&self) -> SessionCounters {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        SessionCounters { disconnects: state.disconnects, splits: 0 }
    }
}

/// Tells [`LostNodes`] if an operation is abandoned before it is answered.
pub(super) struct Unanswered<'a> {
    lost_nodes: &'a LostNodes,
    key: &'a str,
}

impl<'a> Unanswered<'a> {
    pub(super) fn new(lost_nodes: &'a LostNodes, key: &'a str) -> Self {
        Self { lost_nodes, key }
    }

    /// Records that the operation was answered.
    pub(super) fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.lost_nodes.doubt(self.key);
    }
}

/// The current map, from any node. `None` if no node returns it in time.
async fn refreshed(settings: &Settings, state: &Mutex<LostState>) -> Option<Topology> {
    let known = state.lock().unwrap_or_else(PoisonError::into_inner).topology.clone();
    let management = Management::new(settings, &known).ok()?;
    tokio::time::timeout(REFRESHED_WITHIN, management.topology()).await.ok()?.ok()
}
