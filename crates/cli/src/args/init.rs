//! Arguments of `init` and `completions`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use storebench_study::units::{ByteSize, Count};

/// Write a commented study file for your stores, to change and run
///
/// The study loads documents and then mixes reads with updates. Without STORE, `init` asks for the stores on a
/// terminal, and otherwise compares SQLite with fjall.
#[derive(Debug, ClapArgs)]
pub(crate) struct InitArgs {
    /// URLs of the stores to compare, such as sqlite:books.db (see `storebench stores`)
    #[arg(value_name = "[NAME=]STORE")]
    pub(crate) stores: Vec<String>,

    /// File to write, or `-` for stdout
    #[arg(long, short, value_name = "FILE", default_value = "study.toml")]
    pub(crate) output: PathBuf,

    /// Overwrite the file
    #[arg(long)]
    pub(crate) force: bool,

    /// Use your own documents: a file of JSON lines
    #[arg(long, value_name = "FILE", conflicts_with_all = ["count", "size"])]
    pub(crate) from: Option<PathBuf>,

    /// Number of synthetic documents
    #[arg(long, value_name = "COUNT", default_value = "100k")]
    pub(crate) count: Count,

    /// Size of a synthetic document
    #[arg(long, value_name = "SIZE", default_value = "1KiB")]
    pub(crate) size: ByteSize,

    /// Operations per second (open loop) [default: as fast as the store answers]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Count>,
}

/// Print a shell's completion script
///
/// To use it in this shell only: `source <(storebench completions bash)`. To install it, write the output where your
/// shell looks for completions.
#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Shells with a completion script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}
