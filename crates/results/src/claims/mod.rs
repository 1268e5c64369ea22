//! Tests published claims against the configurations that were measured.
//!
//! Claims are compared in *shape* (a ratio, a rise, a peak, a share), never in absolute figures, which came from other
//! hardware and other versions. A claim *matches in shape* if the whole interval lies where the claim says. It *differs
//! here* if the whole interval lies elsewhere. It is *undecided* if the interval straddles, or if there is none, as
//! with a single round; the value is shown all the same. It is *not tested by this run* if configurations or
//! figures are missing, the scale is smaller than the claim needs, or the study says so.
//!
//! # How configurations are paired
//! Within each round, every configuration on one side is paired with those on the other side that share its store and
//! remaining factors. A round is one observation: its pairs are averaged as logarithms before the interval is taken
//! over rounds, since three stores in one round are not three repeats. A round that lacks a configuration is left out,
//! so that each round averages the same configurations. If groups of configurations disagree (one clearly matches,
//! another clearly differs), the claim is undecided and each group is listed: their mean would be true of neither.
//!
//! There is no correction for the number of claims: of 40 that hold at the very edge of their range, one or two differ
//! by chance.

mod configurations;
mod grid;
mod judge;
mod model;
mod table;

pub(crate) use judge::{judge_claims, side_of};
pub use model::{ClaimPart, ClaimResult, ClaimVerdict};
pub(crate) use table::{claim_table, estimate};

#[cfg(test)]
mod tests;
