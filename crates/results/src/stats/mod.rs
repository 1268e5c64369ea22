//! How sure a figure is: intervals of configurations and of their ratios over trials, bands within a run, and what
//! happened on a run's time axis. Each rule names its source.
//!
//! The trial is the unit. What lies within a trial (its seconds) is dependent, so it draws bands on charts
//! and finds events, and gates nothing.

mod interval;
mod outliers;
mod series;
#[cfg(test)]
mod simulated;
mod steady;

pub use interval::Estimate;
pub(crate) use interval::{CONFIDENCE, geometric_mean, paired_ratio, unpaired_ratio};
pub(crate) use outliers::outlying;
pub use series::{Band, band};
pub(crate) use steady::{CHANGE, STALLED, steadiness};
pub use steady::{SeriesEvent, SeriesEventKind, Steadiness};
