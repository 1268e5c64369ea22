//! Published claims held against the configurations that were measured.
//!
//! What is compared is the *shape* (a ratio, a rise, a peak, a share), never the published figure itself: that came from
//! other hardware and other versions. A claim *matches in shape* when the whole interval of what was found lies where
//! the claim says, *differs here* when it lies wholly elsewhere, and is *undecided* when it straddles or there is
//! no interval, as with a single round; the value is shown then too. It is *not testable at this scale* when the
//! configurations or figures are not there, the scale is smaller than the claim needs, or the study says so.
//!
//! # How configurations are paired
//! Every configuration on one side stands against the configurations on the other that are alike in all else (store and remaining
//! factors), within each round. A round is one observation: the pairs of one round are averaged on logarithms before
//! the interval is taken over rounds, since three stores in one round are not three repeats. A round that lacks a configuration
//! is left out, so that each round averages the same configurations. Where such groups of configurations disagree (one surely matches,
//! another surely differs) the claim is undecided, and each is listed: their mean would be true of none of them.
//!
//! No correction is made for the number of claims: of 40 that hold at the very edge of their range, one or two
//! differ by chance.

mod configurations;
mod grid;
mod judge;
mod model;
mod table;

pub(crate) use judge::judge_claims;
pub use model::{ClaimPart, ClaimResult, ClaimVerdict};
pub(crate) use table::ClaimTable;

#[cfg(test)]
mod tests;
