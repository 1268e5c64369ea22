//! Bundles: one file with a study, its results and where they come from, which others can check and repeat.
//!
//! A bundle is a tar archive compressed with zstd, so that `tar --zstd -xf` opens it. It begins with a manifest of all
//! other files, each with its size and SHA-256. `docs/bundles.md` describes the format. Reading checks everything.

mod claims;
mod inputs;
mod manifest;
mod read;
mod reproduced;
mod signature;
mod tar;
#[cfg(test)]
mod tests;
mod text;
mod write;

pub use inputs::{Input, changed_input, inputs_of};
pub use manifest::{BUNDLE_FORMAT, BundleFile, Manifest, sha256_of};
pub use read::{Bundle, BundleError};
pub use reproduced::{
    Difference, FigurePair, RERUN_FORMAT, RepeatedClaim, Repetition, Reproduction, ReproductionVerdict, reproduction,
};
pub use signature::{Signature, Signed, SigningKey, public_key};
pub use text::rerun_text;
pub use write::{Content, PackedFile, write_bundle};

/// The JSON Schema of the manifest of a bundle.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Manifest).to_value()
}

/// The JSON Schema of the output of `rerun --json`.
#[cfg(feature = "schema")]
pub fn rerun_schema() -> serde_json::Value {
    schemars::schema_for!(Reproduction).to_value()
}
