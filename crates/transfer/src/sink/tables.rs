//! Records into files of typed columns: Parquet and Arrow IPC.

use std::fs::File;
use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_json::ReaderBuilder;
use arrow_json::reader::Decoder;
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::encode::refusals;
use super::files::FileSinkOptions;
use super::{Refusal, Rows};
use crate::format::Format;
use crate::records::Records;

/// A row group is held in memory until it is so large.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// Writes one file.
pub(super) struct TableEncoder<'a> {
    out: Out,
    decoder: Decoder,
    rows: Rows<'a>,
    /// Rows of one batch, as lines of JSON.
    lines: Vec<u8>,
}

enum Out {
    Parquet(ArrowWriter<File>),
    Arrow(FileWriter<File>),
}

impl Out {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        match self {
            Self::Parquet(out) => out.write(batch).map_err(io::Error::other),
            Self::Arrow(out) => out.write(batch).map_err(io::Error::other),
        }
    }
}

impl<'a> TableEncoder<'a> {
    pub(super) fn new(file: File, options: &'a FileSinkOptions) -> io::Result<Self> {
        let columns = &options.columns;
        let schema = Arc::new(columns.arrow());
        let out = if options.format == Format::Arrow {
            Out::Arrow(arrow_file(file, &schema)?)
        } else {
            let level = ZstdLevel::try_new(3).map_err(io::Error::other)?;
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(level))
                .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
                .build();
            let out = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties));
            Out::Parquet(out.map_err(io::Error::other)?)
        };
        let decoder = ReaderBuilder::new(schema).with_batch_size(1 << 20).build_decoder().map_err(io::Error::other)?;
        let rows = Rows::new(columns, options.key_field.as_deref(), false);
        Ok(Self { out, decoder, rows, lines: Vec::new() })
    }

    /// Adds records; gives those that do not fit the columns.
    pub(super) fn write(&mut self, records: &Records) -> io::Result<Vec<Refusal>> {
        let Self { rows, lines, .. } = self;
        lines.clear();
        let refused = refusals(records, |key, body| rows.object(key, body, lines));
        let decoded = self.decoder.decode(lines).map_err(io::Error::other)?;
        if decoded < lines.len() {
            return Err(io::Error::other("a batch of so many rows does not fit into a table"));
        }
        if let Some(batch) = self.decoder.flush().map_err(io::Error::other)? {
            self.out.write(&batch)?;
        }
        Ok(refused)
    }

    /// Everything is on disk.
    pub(super) fn finish(self) -> io::Result<()> {
        match self.out {
            Out::Parquet(out) => out.into_inner().map_err(io::Error::other)?.sync_all(),
            Out::Arrow(out) => out.into_inner().map_err(io::Error::other)?.sync_all(),
        }
    }
}

/// A file of Arrow IPC, packed with LZ4 as others write it.
pub(super) fn arrow_file(file: File, schema: &Schema) -> io::Result<FileWriter<File>> {
    IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::LZ4_FRAME))
        .and_then(|options| FileWriter::try_new_with_options(file, schema, options))
        .map_err(io::Error::other)
}
