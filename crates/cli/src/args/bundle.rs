//! Arguments of `pack`, `rerun` and `gallery`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::ResultArgs;

const PACK_EXIT_CODES: &str = "\
Exit codes:
  0    packed; with --check, the content matches
  1    the bundle could not be written
  2    invalid input; with --check, the bundle is damaged, or not signed as --trust demands";

const RERUN_EXIT_CODES: &str = "\
Exit codes:
  0    every claim that could be tested matches in shape
  1    a claim differs, or data was lost or wrong
  2    invalid input: a damaged bundle, a store or an input that is missing; nothing was started
  3    store unreachable, or failed before anything was written
  4    measurement invalid (see its checks)
  5    no claim could be tested
  130  interrupted";

/// Pack a run into one file that others can check and repeat
///
/// A bundle holds the study as it was run, hashes of the files that it reads, the machine, the versions and settings of
/// the stores, all results, and the report. Passwords of stores are not in it. Commands of servers are as the study has
/// them. The same run makes the same bytes.
#[derive(Debug, ClapArgs)]
#[command(after_help = PACK_EXIT_CODES)]
pub(crate) struct PackArgs {
    /// Run folder; with --check, a bundle
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,

    /// File to write [default: the name of the run folder, with .sbz]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite the file
    #[arg(long)]
    pub(crate) force: bool,

    /// Also pack the files that the study reads
    ///
    /// Without it, the bundle has their hashes only.
    #[arg(long)]
    pub(crate) with_inputs: bool,

    /// Sign with this Ed25519 key (PEM), as `openssl genpkey -algorithm ed25519` makes it
    #[arg(long, value_name = "FILE")]
    pub(crate) sign: Option<PathBuf>,

    /// Check a bundle instead: whether its content matches, and who signed it
    #[arg(long, conflicts_with_all = ["output", "force", "with_inputs", "sign"])]
    pub(crate) check: bool,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    /// With --check, print the manifest as one JSON document
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
}

/// Whose bundles to accept.
#[derive(Debug, ClapArgs)]
pub(crate) struct TrustArgs {
    /// Refuse a bundle that the owner of this public key did not sign: base64, or a file (PEM)
    #[arg(long, value_name = "PUBKEY")]
    pub(crate) trust: Option<String>,
}

/// Repeat the run of a bundle here, and say whether its result reproduces
///
/// Runs the same study. Each claim of the bundle is then tested here: orders, ratios and curves, never figures of one
/// machine against those of another. Embedded stores get a new folder below --out, wherever they were. Read a study
/// before you run it: `storebench pack --check` verifies where it is from, not what it does.
#[derive(Debug, ClapArgs)]
#[command(after_help = RERUN_EXIT_CODES)]
pub(crate) struct RerunArgs {
    /// The bundle
    #[arg(value_name = "FILE")]
    pub(crate) bundle: PathBuf,

    /// Measure this store in place of the bundle's store of that name; repeatable
    ///
    /// Needed for each store that is a server.
    #[arg(long = "store", value_name = "[NAME=]URL")]
    pub(crate) stores: Vec<String>,

    /// Folder of the study's input files, if the bundle has only their hashes
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) inputs: PathBuf,

    /// Run the study's commands that start, stop and kill servers
    #[arg(long)]
    pub(crate) manage_servers: bool,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Make a static site of a folder of bundles
///
/// One page lists them: question, answer, validity, cost, machine, date, and how to repeat each. It links to a report of
/// each bundle. The pages load nothing from the network.
#[derive(Debug, ClapArgs)]
pub(crate) struct GalleryArgs {
    /// Folder with bundles (*.sbz)
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,

    /// Folder of the site [default: gallery in FOLDER]
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}
