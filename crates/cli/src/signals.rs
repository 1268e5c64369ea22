//! Ctrl-C: the first one asks the verb to stop, the second one exits immediately.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use storebench_engine::Stop;
use storebench_results::exit::INTERRUPTED;

use crate::failure::Failure;
use crate::in_process;

/// A stop that Ctrl-C asks for; see [`ask_on_interrupt`].
pub(crate) fn stop_on_interrupt() -> Result<Arc<Stop>, Failure> {
    let stop = Arc::new(Stop::new());
    ask_on_interrupt(&stop)?;
    Ok(stop)
}

/// Calls [`Stop::ask`] on the first SIGINT or SIGTERM, and exits the process on the second. If another program calls the
/// verb, signals are its concern.
pub(crate) fn ask_on_interrupt(stop: &Arc<Stop>) -> Result<(), Failure> {
    if in_process::interrupts(stop) {
        return Ok(());
    }
    let before = Arc::new(AtomicBool::new(false));
    let refused = |e: std::io::Error| Failure::spoiled(format!("cannot catch signals: {e}"));
    for signal in [SIGINT, SIGTERM] {
        // Actions run in the order of registration: this one reads the flag before the next one sets it.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&before))
            .map_err(refused)?;
        signal_hook::flag::register(signal, Arc::clone(&before)).map_err(refused)?;
        let stop = Arc::clone(stop);
        // SAFETY: the action is one atomic store (`Stop::ask`), which is async-signal-safe.
        unsafe { signal_hook::low_level::register(signal, move || stop.ask()) }.map_err(refused)?;
    }
    Ok(())
}
