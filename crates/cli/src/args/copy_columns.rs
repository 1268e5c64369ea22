//! Arguments of `copy` for the columns of files.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use storebench_study::units::Count;

/// Columns of the CSV, TSV, Parquet or Arrow file that is written.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Columns")]
pub(crate) struct ColumnArgs {
    /// Infer the columns of a CSV, TSV, Parquet or Arrow file from this many records, or from `all` [default: 10000]
    #[arg(long, value_name = "RECORDS", value_parser = records, conflicts_with = "schema")]
    pub(crate) infer: Option<u64>,

    /// Read the columns from this file; --dry-run prints one to start from
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,

    /// Name of the overflow column [default: _more]
    ///
    /// It keeps, as JSON, fields that have no column or do not fit its type.
    #[arg(long, value_name = "NAME", conflicts_with = "no_overflow")]
    pub(crate) overflow: Option<String>,

    /// Reject records with fields that have no column or do not fit its type
    #[arg(long)]
    pub(crate) no_overflow: bool,
}

/// Parses a number of records; 0 means all.
fn records(typed: &str) -> Result<u64, String> {
    if typed == "all" {
        return Ok(0);
    }
    let count: Count = typed.parse().map_err(|e| format!("{e}; write a number or `all`"))?;
    if count.0 == 0 {
        Err("inferring columns needs at least 1 record; write a number above 0 or `all`".into())
    } else {
        Ok(count.0)
    }
}
