//! The checks, each in its own file, in the order in which they run and appear on the page.

mod broken_consistency;
mod client_saturated;
mod client_shares_host;
mod closed_loop_latency;
mod compaction_pending;
mod compressible_payload;
mod configurations_differ;
mod control_differs;
mod data_to_memory_differs;
mod different_answers;
mod drifting_rounds;
mod errors;
mod faults;
mod few_distinct_keys;
mod fits_in_memory;
mod full_scan;
mod limit_not_met;
mod lost_writes;
mod misses;
mod noisy_rounds;
mod not_steady;
mod page;
mod parallelism_not_reached;
mod partial_run;
mod parts_apart;
mod parts_incomplete;
mod python_bound;
mod rate_not_sustained;
mod search_unsure;
mod send_delay;
mod settings_differ;
mod single_run;
mod stolen_time;
mod sync_costs_nothing;
mod too_few_connections;
mod too_short;
mod wide_intervals;
mod wrong_content;

use super::check::Check;

pub(crate) use faults::answered;
pub use page::page;

/// All checks: those of the run first, then by severity, the worst first.
pub(super) const CHECKS: &[Check] = &[
    parts_incomplete::CHECK,
    single_run::CHECK,
    compressible_payload::CHECK,
    different_answers::CHECK,
    configurations_differ::WORK,
    configurations_differ::DURABILITY,
    configurations_differ::REPLICAS,
    settings_differ::CHECK,
    noisy_rounds::CHECK,
    control_differs::CHECK,
    wide_intervals::CHECK,
    drifting_rounds::CHECK,
    client_shares_host::CHECK,
    partial_run::CHECK,
    lost_writes::LOST,
    lost_writes::UNREAD,
    broken_consistency::CHECK,
    sync_costs_nothing::CHECK,
    faults::CHECK,
    wrong_content::CHECK,
    errors::CHECK,
    misses::CHECK,
    client_saturated::CHECK,
    stolen_time::CHECK,
    python_bound::CHECK,
    send_delay::CHECK,
    parts_apart::CHECK,
    too_few_connections::CHECK,
    parallelism_not_reached::CHECK,
    rate_not_sustained::CHECK,
    limit_not_met::CHECK,
    search_unsure::CHECK,
    closed_loop_latency::CHECK,
    not_steady::CHECK,
    full_scan::CHECK,
    few_distinct_keys::CHECK,
    too_short::CHECK,
    compaction_pending::CHECK,
    fits_in_memory::CHECK,
    data_to_memory_differs::CHECK,
];
