//! Published claims held against the arms that were measured.
//!
//! What is compared is the *shape* (a ratio, a rise, a peak, a share), never the published figure itself: that came from
//! other hardware and other versions. A claim *matches in shape* when the whole interval of what was found lies where
//! the claim says, *differs here* when it lies wholly elsewhere, and is *undecided* when it straddles or there is
//! no interval, as with a single block; the value is shown then too. It is *not testable at this scale* when the
//! arms or figures are not there, the scale is smaller than the claim needs, or the study says so.
//!
//! # How arms are paired
//! Every arm on one side stands against the arms on the other that are alike in all else (store and remaining
//! factors), within each block. A block is one observation: the pairs of one block are averaged on logarithms before
//! the interval is taken over blocks, since three stores in one block are not three repeats. A block that lacks an arm
//! is left out, so that each block averages the same arms. Where such groups of arms disagree (one surely matches,
//! another surely differs) the claim is undecided, and each is listed: their mean would be true of none of them.
//!
//! No correction is made for the number of claims: of 40 that hold at the very edge of their range, one or two
//! differ by chance.

mod arms;
mod grid;
mod judge;
mod model;
mod table;

pub(crate) use judge::judge_claims;
pub use model::{ClaimPart, ClaimResult, ClaimVerdict};
pub(crate) use table::ClaimTable;

#[cfg(test)]
mod tests;
