//! When operations are scheduled.
//!
//! A [`Rate`] says how many operations a second are wanted, over all workers, as a function of the
//! time since the phase began. [`Arrivals`] are the scheduled starts of one worker under it: evenly
//! spaced, or a Poisson process. Both are pure: nothing here looks at a clock, sleeps, or knows
//! whether an operation was sent in time; that is the pacer's business.

mod arrivals;
mod curve;
mod rate;

pub use arrivals::{Arrival, Arrivals};
pub use rate::{MAX_RATE_PER_S, Rate, ScheduleError};
