//! Encodes records into one file.

use std::fs::File;
use std::io::{self, Write};

use storebench_engine::store::ErrorKind;

use super::files::FileSinkOptions;
use super::line::line;
#[cfg(feature = "tables")]
use super::tables::TableEncoder;
use super::{Refusal, Rows};
use crate::columns::Columns;
use crate::format::Format;
use crate::records::Records;
use crate::source::Packing;

/// Writes one file or standard output.
pub(super) enum Encoder<'a> {
    Lines {
        out: Packer,
        key_field: Option<&'a str>,
        lines: Vec<u8>,
    },
    Rows {
        out: Packer,
        columns: &'a Columns,
        delimiter: u8,
        rows: Vec<u8>,
        cells: Rows<'a>,
    },
    #[cfg(feature = "tables")]
    Table(Box<TableEncoder<'a>>),
}

impl<'a> Encoder<'a> {
    /// Encodes a part of a file. Formats whose parts are concatenated as bytes are compressed now, others when joined.
    pub(super) fn part(options: &'a FileSinkOptions, file: File) -> io::Result<Self> {
        let key_field = options.key_field.as_deref();
        Ok(match options.format {
            Format::Jsonl => Self::Lines { out: Packer::new(file, options.packing)?, key_field, lines: Vec::new() },
            Format::Json => Self::Lines { out: Packer::Plain(file), key_field, lines: Vec::new() },
            Format::Csv | Format::Tsv => {
                let mut encoder = Self::rows(options, Packer::Plain(file));
                if options.folder {
                    encoder.head()?;
                }
                encoder
            }
            #[cfg(feature = "tables")]
            Format::Parquet | Format::Arrow => Self::Table(Box::new(TableEncoder::new(file, options)?)),
            #[cfg(not(feature = "tables"))]
            format @ (Format::Parquet | Format::Arrow) => return Err(io::Error::other(format.absent("the target"))),
        })
    }

    /// Encodes to standard output.
    pub(super) fn stdout(options: &'a FileSinkOptions) -> io::Result<Self> {
        let key_field = options.key_field.as_deref();
        Ok(match options.format {
            Format::Jsonl => Self::Lines { out: Packer::Stdout, key_field, lines: Vec::new() },
            Format::Csv | Format::Tsv => Self::rows(options, Packer::Stdout),
            Format::Json | Format::Parquet | Format::Arrow => {
                return Err(io::Error::other(format!(
                    "{} cannot be streamed to standard output; write to a file",
                    options.format
                )));
            }
        })
    }

    fn rows(options: &'a FileSinkOptions, out: Packer) -> Self {
        let (columns, delimiter) = (&options.columns, options.format.delimiter());
        let cells = Rows::new(columns, options.key_field.as_deref(), true);
        Self::Rows { out, columns, delimiter, rows: Vec::new(), cells }
    }

    /// Writes the header row, if the format has one.
    pub(super) fn head(&mut self) -> io::Result<()> {
        match self {
            Self::Rows { out, columns, delimiter, .. } => out.write(&head(columns, *delimiter)?),
            _ => Ok(()),
        }
    }

    /// Adds records. Returns those that this format cannot hold.
    pub(super) fn write(&mut self, records: &Records) -> io::Result<Vec<Refusal>> {
        match self {
            Self::Lines { out, key_field, lines } => {
                lines.clear();
                let refused = refusals(records, |key, body| line(key, body, *key_field, lines));
                out.write(lines)?;
                Ok(refused)
            }
            Self::Rows { out, delimiter, rows, cells, .. } => {
                rows.clear();
                let mut writer = csv::WriterBuilder::new().delimiter(*delimiter).from_writer(rows);
                let mut failed = None;
                let refused = refusals(records, |key, body| {
                    let fields = cells.cells(key, body)?;
                    if let Err(error) = writer.write_record(&fields) {
                        failed.get_or_insert(error);
                    }
                    Ok(())
                });
                let rows = writer.into_inner().map_err(|e| io::Error::other(e.to_string()))?;
                if let Some(error) = failed {
                    return Err(error.into());
                }
                out.write(rows)?;
                Ok(refused)
            }
            #[cfg(feature = "tables")]
            Self::Table(encoder) => encoder.write(records),
        }
    }

    /// Syncs everything to disk.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::Lines { out, .. } | Self::Rows { out, .. } => out.finish(),
            #[cfg(feature = "tables")]
            Self::Table(encoder) => encoder.out.finish(),
        }
    }
}

pub(super) fn refusals(records: &Records, mut write: impl FnMut(&str, &[u8]) -> Result<(), String>) -> Vec<Refusal> {
    let mut refused = Vec::new();
    for (position, (key, body, _)) in records.iter().enumerate() {
        if let Err(why) = write(key, body) {
            refused.push(Refusal { position, kind: ErrorKind::Refused, why, tries: 1 });
        }
    }
    refused
}

/// The header row of a table.
pub(super) fn head(columns: &Columns, delimiter: u8) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(Vec::new());
    writer.write_record(columns.names())?;
    writer.into_inner().map_err(|e| io::Error::other(e.to_string()))
}

/// The output, with compression.
pub(super) enum Packer {
    Plain(File),
    Gzip(flate2::write::GzEncoder<File>),
    Zstd(zstd::stream::write::Encoder<'static, File>),
    Stdout,
}

impl Packer {
    pub(super) fn new(file: File, packing: Packing) -> io::Result<Self> {
        Ok(match packing {
            Packing::Plain => Self::Plain(file),
            Packing::Gzip => Self::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::fast())),
            Packing::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(file, 3)?),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.write_all(bytes),
            Self::Gzip(out) => out.write_all(bytes),
            Self::Zstd(out) => out.write_all(bytes),
            Self::Stdout => io::stdout().lock().write_all(bytes),
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.sync_all(),
            Self::Gzip(out) => out.finish()?.sync_all(),
            Self::Zstd(out) => out.finish()?.sync_all(),
            Self::Stdout => io::stdout().lock().flush(),
        }
    }
}
