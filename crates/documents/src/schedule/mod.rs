//! When operations are scheduled.
//!
//! A [`Rate`] is the target rate over all workers in operations per second, as a function of the time since the phase
//! began. [`Arrivals`] are the scheduled starts of one worker under it: evenly spaced, or a Poisson process. Both are
//! pure: nothing here reads a clock, sleeps, or knows whether an operation was sent on time. The pacer does that.

mod arrivals;
mod curve;
mod rate;

pub use arrivals::Arrivals;
pub use rate::{MAX_RATE_PER_S, Rate, ScheduleError};
