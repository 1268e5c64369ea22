//! Joins parts into one file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::encode::{Packer, head};
use super::files::FileSinkOptions;
#[cfg(feature = "tables")]
use super::tables::{batches, row_groups};
use crate::format::Format;

/// Writes the parts, in order, to the file `whole`.
pub(super) fn join(options: &FileSinkOptions, parts: &[PathBuf], whole: &Path) -> io::Result<()> {
    let out = File::create(whole)?;
    match options.format {
        Format::Jsonl => lines(options, parts, out),
        Format::Json => array(parts, Packer::new(out, options.packing)?),
        Format::Csv | Format::Tsv => {
            let mut out = Packer::new(out, options.packing)?;
            out.write(&head(&options.columns, options.format.delimiter())?)?;
            rows(parts, out)
        }
        #[cfg(feature = "tables")]
        Format::Parquet => row_groups(options, parts, out),
        #[cfg(feature = "tables")]
        Format::Arrow => batches(options, parts, out),
        #[cfg(not(feature = "tables"))]
        format @ (Format::Parquet | Format::Arrow) => Err(io::Error::other(format.absent("the target"))),
    }
}

/// Concatenates the parts, compressed or not: gzip members and zstd frames may follow each other.
fn lines(options: &FileSinkOptions, parts: &[PathBuf], mut out: File) -> io::Result<()> {
    if parts.is_empty() {
        // A compressed file is never empty.
        return Packer::new(out, options.packing)?.finish();
    }
    for part in parts {
        // The kernel copies the data, or shares blocks if the file system can.
        io::copy(&mut File::open(part)?, &mut out)?;
    }
    out.sync_all()
}

fn rows(parts: &[PathBuf], mut out: Packer) -> io::Result<()> {
    let mut piece = vec![0; 1 << 20];
    for part in parts {
        let mut part = File::open(part)?;
        loop {
            match part.read(&mut piece)? {
                0 => break,
                read => out.write(&piece[..read])?,
            }
        }
    }
    out.finish()
}

/// Makes the lines the elements of one JSON array.
fn array(parts: &[PathBuf], mut out: Packer) -> io::Result<()> {
    let mut between: &[u8] = b"[\n";
    let mut line = Vec::new();
    for part in parts {
        let mut part = BufReader::with_capacity(1 << 18, File::open(part)?);
        loop {
            line.clear();
            if part.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            out.write(between)?;
            out.write(line.trim_ascii_end())?;
            between = b",\n";
        }
    }
    out.write(if between == b"[\n" { b"[]\n" } else { b"\n]\n" })?;
    out.finish()
}
