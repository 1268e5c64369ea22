//! How far this machine's clock may be off.

/// What the kernel knows about its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockState {
    /// Whether a time service (NTP, PTP) keeps it synchronised.
    pub synchronised: bool,
    /// By how much it may be off at most, in ns, if a time service tells.
    pub error_ns: Option<u64>,
}

/// The state of the machine's clock; `None` if the kernel does not report it.
pub fn clock_state() -> Option<ClockState> {
    // SAFETY: all bytes zero is a valid `timex`, and `modes` = 0 only reads.
    let (state, read) = unsafe {
        let mut read: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut read), read)
    };
    if state < 0 {
        return None;
    }
    let synchronised = state != libc::TIME_ERROR && read.status & libc::STA_UNSYNC == 0;
    // In µs, whatever the unit of the other times.
    let error_ns = u64::try_from(read.maxerror).ok().map(|us| us.saturating_mul(1_000)).filter(|_| synchronised);
    Some(ClockState { synchronised, error_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_known_only_of_a_synchronised_clock() {
        // Sandboxes may forbid the call.
        if let Some(state) = clock_state() {
            assert_eq!(state.synchronised, state.error_ns.is_some(), "{state:?}");
        }
    }
}
