//! Arguments of `infer`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Describe a collection that generates documents like a sample
///
/// Reads documents of yours, and writes a study: fields, nesting, types, lengths, how many different values there are and
/// how often they repeat, how often fields are missing, and how far documents compress. The study contains numbers and
/// times from the sample, but no texts unless --keep-values is given.
#[derive(Debug, ClapArgs)]
pub(crate) struct InferArgs {
    /// Documents, one JSON object on each line: plain, gzip or zstd
    #[arg(required = true, value_name = "SAMPLE")]
    pub(crate) samples: Vec<PathBuf>,

    /// Name of the collection
    #[arg(long, value_name = "NAME", default_value = "docs")]
    pub(crate) collection: String,

    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE", alias = "out")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite the --output file
    #[arg(long, requires = "output")]
    pub(crate) force: bool,

    /// Use the sample's own texts where a field has at most 64 different ones; these texts are then in the study
    #[arg(long)]
    pub(crate) keep_values: bool,

    /// Compare generated documents with the sample instead of printing the study
    ///
    /// From 10,000 documents on, the generated ones are made from a random tenth of it, as many as the whole sample has:
    /// this shows whether the number of different values is right for ten times as many documents.
    #[arg(long)]
    pub(crate) check: bool,

    /// With --check: load the sample and the generated documents into this store, and compare index sizes and read times
    ///
    /// Indexes are made on up to 16 fields. At the end, Storebench removes what it loaded. Takes one sample file.
    #[arg(long, value_name = "URL", requires = "check")]
    pub(crate) store: Option<String>,

    /// With --check: seed of the random tenth of a large sample from which documents are made
    #[arg(long, value_name = "N", default_value = "1", requires = "check")]
    pub(crate) seed: u64,

    /// Print the comparison as one JSON document
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
}
