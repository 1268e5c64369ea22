//! Whether a server lets a run open as many sessions as its largest phase does.

use std::time::Duration;

use storebench_engine::store::StoreError;
use storebench_engine::{Caller, PhasePlan};
use storebench_results::human::count;
use storebench_study::workload::Phase;

use super::runner::{Configuration, RunState};

/// How long a server may take to notice that sessions are closed.
const SESSIONS_END: Duration = Duration::from_millis(250);
/// Connections for statistics and for reading back, which are open beside those of a phase.
const OTHER_SESSIONS: u64 = 2;

/// Why a phase does not fit a server that let it open so many sessions, and what would fit.
fn too_many_sessions(phase: &Phase, opened: u64, error: StoreError) -> StoreError {
    let (workers, fitting) = (u64::from(phase.workers), opened.saturating_sub(OTHER_SESSIONS));
    if fitting == 0 {
        return error;
    }
    let fewer = match fitting / workers {
        0 => format!("--set phases.{}.workers={fitting} and --set phases.{}.connections=1", phase.name, phase.name),
        each => format!("--set phases.{}.connections={each}", phase.name),
    };
    StoreError::NotSupported(format!(
        "phase `{}` opens {} connections at once, but only {} could be opened: {error}. Nothing was loaded. Use {fewer}, or \
         let the server accept more",
        phase.name,
        count(workers * u64::from(phase.connections)),
        count(opened)
    ))
}

impl RunState<'_> {
    /// Opens as many sessions of a server as its largest phase does, before a load that may take hours: servers limit
    /// their connections.
    pub(super) fn try_sessions(&mut self, configuration: &Configuration) -> Result<(), StoreError> {
        if configuration.capabilities.embedded
            || self.parts.are_several()
            || self.fitting.contains(&configuration.position)
        {
            return Ok(());
        }
        let sessions = |plan: &PhasePlan| u64::from(plan.phase.workers) * u64::from(plan.phase.connections);
        let Some(plan) = configuration.operations().max_by_key(|plan| sessions(plan)) else { return Ok(()) };
        let options = plan.session_options(&self.clock);
        match Caller::open_at_once(&*configuration.store, &options, sessions(plan)) {
            Ok(()) => {
                // A server may notice a little later that they are closed.
                std::thread::sleep(SESSIONS_END);
                self.fitting.insert(configuration.position);
                Ok(())
            }
            Err((opened, error)) => Err(too_many_sessions(&plan.phase, opened, error)),
        }
    }
}
