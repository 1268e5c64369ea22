//! Statistics: intervals of configurations and of their ratios over trials, bands within a run, and events on a run's
//! time axis. Each rule names its source.
//!
//! The trial is the unit of observation. Values within a trial (its seconds) depend on each other. They only draw bands
//! on charts and reveal events, and never decide a gate.

mod interval;
mod outliers;
mod series;
#[cfg(test)]
pub(crate) mod simulated;
mod steady;
mod trend;

pub use interval::Estimate;
pub(crate) use interval::{
    CONFIDENCE, MOST_TRIALS, Observed, Uncertain, mean, mean_of_runs, mean_of_trials, paired_ratio, ratio_of_runs,
    ratio_to_known, share_of,
};
pub(crate) use outliers::{median, outlying};
pub use series::{Band, band};
pub(crate) use steady::{CHANGE, STALLED, steadiness};
pub use steady::{SeriesEvent, SeriesEventKind, Steadiness};
pub(crate) use trend::{LEAST_ROUNDS, trend};
