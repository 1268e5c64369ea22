//! Ctrl-C: the first asks for an end, the second leaves at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use storebench_engine::Stop;

use crate::failure::Failure;

/// What shells report of a program that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Asks `stop` for an end at the first SIGINT or SIGTERM; ends the process at the second.
pub(crate) fn ask_on_interrupt(stop: &Arc<Stop>) -> Result<(), Failure> {
    let before = Arc::new(AtomicBool::new(false));
    let refused = |e: std::io::Error| Failure::spoiled(format!("cannot catch signals: {e}"));
    for signal in [SIGINT, SIGTERM] {
        // Actions run in the order they were registered: this one looks before the next one sets.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&before))
            .map_err(refused)?;
        signal_hook::flag::register(signal, Arc::clone(&before)).map_err(refused)?;
        let stop = Arc::clone(stop);
        // SAFETY: the action is one atomic store (`Stop::ask`), which a signal handler may do.
        unsafe { signal_hook::low_level::register(signal, move || stop.ask()) }.map_err(refused)?;
    }
    Ok(())
}
