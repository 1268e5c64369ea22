//! Passes of a phase: a phase whose rate is searched runs several times in one trial.

use std::fmt;

use super::phase::PhaseResult;

/// A pass of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// A warm-up.
    WarmUp,
    /// The result.
    Measured,
    /// This probe of a search, counted from 1.
    Probe(u32),
}

impl Pass {
    /// The pass that a phase is: a probe of a search, a warm-up, or the result.
    pub fn of(probe: Option<u32>, warm_up: bool) -> Self {
        match probe {
            Some(number) => Self::Probe(number),
            None if warm_up => Self::WarmUp,
            None => Self::Measured,
        }
    }

    /// From its name in tables.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "warm-up" => Some(Self::WarmUp),
            "measured" => Some(Self::Measured),
            probe => probe.strip_prefix("probe-")?.parse().ok().map(Self::Probe),
        }
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WarmUp => f.write_str("warm-up"),
            Self::Measured => f.write_str("measured"),
            Self::Probe(number) => write!(f, "probe-{number}"),
        }
    }
}

impl PhaseResult {
    /// The pass that its figures come from.
    pub fn pass(&self) -> Pass {
        Pass::of(self.probe, self.warm_up)
    }
}
