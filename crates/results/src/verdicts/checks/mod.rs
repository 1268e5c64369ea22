//! Every check in a file, and the order in which they are run and stand on the page.

mod arms_differ;
mod client_saturated;
mod client_shares_host;
mod closed_loop_latency;
mod compaction_pending;
mod compressible_payload;
mod errors;
mod faults;
mod few_distinct_keys;
mod fits_in_memory;
mod full_scan;
mod limit_not_held;
mod lost_writes;
mod misses;
mod noisy_blocks;
mod not_steady;
mod page;
mod parallelism_not_reached;
mod partial_run;
mod rate_not_held;
mod regime_differs;
mod schedule_slip;
mod search_unsure;
mod single_run;
mod too_few_connections;
mod too_short;
mod wrong_content;

use super::check::Check;

pub use page::page;

/// All of them: what concerns the run first, then from what is worst.
pub(super) const CHECKS: &[Check] = &[
    single_run::CHECK,
    compressible_payload::CHECK,
    arms_differ::WORK,
    arms_differ::DURABILITY,
    arms_differ::REPLICAS,
    noisy_blocks::CHECK,
    client_shares_host::CHECK,
    partial_run::CHECK,
    lost_writes::CHECK,
    faults::CHECK,
    wrong_content::CHECK,
    errors::CHECK,
    misses::CHECK,
    client_saturated::CHECK,
    schedule_slip::CHECK,
    too_few_connections::CHECK,
    parallelism_not_reached::CHECK,
    rate_not_held::CHECK,
    limit_not_held::CHECK,
    search_unsure::CHECK,
    closed_loop_latency::CHECK,
    not_steady::CHECK,
    full_scan::CHECK,
    few_distinct_keys::CHECK,
    too_short::CHECK,
    compaction_pending::CHECK,
    fits_in_memory::CHECK,
    regime_differs::CHECK,
];
