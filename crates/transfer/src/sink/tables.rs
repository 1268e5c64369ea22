//! Encodes records into files with typed columns: Parquet and Arrow IPC.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_json::ReaderBuilder;
use arrow_json::reader::Decoder;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use super::encode::refusals;
use super::files::FileSinkOptions;
use super::{Refusal, Rows};
use crate::columns::Columns;
use crate::columns_arrow::FILE_MARK;
use crate::format::Format;
use crate::records::Records;

/// Size up to which a row group is held in memory.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// Rows in a batch when lines are passed in one by one.
const BATCH: usize = 8_192;

/// Encodes records into one file.
pub(super) struct TableEncoder<'a> {
    pub(super) out: TableLines,
    rows: Rows<'a>,
    /// Rows of one batch, as JSON lines.
    lines: Vec<u8>,
}

impl<'a> TableEncoder<'a> {
    pub(super) fn new(file: File, options: &'a FileSinkOptions) -> io::Result<Self> {
        let columns = &options.columns;
        let rows = Rows::new(columns, options.key_field.as_deref(), false);
        Ok(Self { out: TableLines::new(file, columns, options.format, 1 << 20)?, rows, lines: Vec::new() })
    }

    /// Adds records. Returns those that do not fit the columns.
    pub(super) fn write(&mut self, records: &Records) -> io::Result<Vec<Refusal>> {
        let Self { out, rows, lines } = self;
        lines.clear();
        let refused = refusals(records, |key, body| rows.object(key, body, lines));
        out.write(lines)?;
        out.flush()?;
        Ok(refused)
    }
}

/// Converts records to Arrow batches with typed columns.
pub struct RecordBatches<'a> {
    rows: Rows<'a>,
    decoder: Decoder,
    schema: SchemaRef,
    lines: Vec<u8>,
}

impl<'a> RecordBatches<'a> {
    /// Most records of one batch.
    pub const ROWS: usize = 8_192;

    /// `key_field` is the column that receives the key. A value that does not fit its column is in the overflow column. If
    /// there is none, it is an error, and fields without a column are left out.
    ///
    /// # Errors
    /// Arrow has no such columns.
    pub fn new(columns: &'a Columns, key_field: Option<&'a str>) -> Result<Self, ArrowError> {
        let schema = Arc::new(columns.arrow());
        let decoder = ReaderBuilder::new(Arc::clone(&schema)).with_batch_size(Self::ROWS).build_decoder()?;
        let rows = Rows::new(columns, key_field, false).once();
        Ok(Self { rows, decoder, schema, lines: Vec::new() })
    }

    /// The batch of these records, at most [`ROWS`](Self::ROWS).
    ///
    /// # Errors
    /// The key of a document that does not fit the columns, and why.
    pub fn of(&mut self, records: &Records) -> Result<RecordBatch, ArrowError> {
        self.lines.clear();
        for (key, body, _) in records.iter().take(Self::ROWS) {
            self.rows
                .object(key, body, &mut self.lines)
                .map_err(|why| ArrowError::InvalidArgumentError(format!("document `{key}`: {why}")))?;
        }
        let mut lines = &*self.lines;
        while !lines.is_empty() {
            lines = &lines[self.decoder.decode(lines)?..];
        }
        Ok(self.decoder.flush()?.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&self.schema))))
    }
}

enum Out {
    Parquet(ArrowWriter<File>),
    Arrow(FileWriter<File>),
}

/// Writes JSON lines to a file with typed columns.
pub struct TableLines {
    out: Out,
    decoder: Decoder,
    /// Rows in a batch.
    batch: usize,
}

impl TableLines {
    /// Creates a Parquet file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn parquet(file: File, columns: &Columns) -> io::Result<Self> {
        Self::new(file, columns, Format::Parquet, BATCH)
    }

    fn new(file: File, columns: &Columns, format: Format, batch: usize) -> io::Result<Self> {
        let schema = Arc::new(columns.arrow());
        let out = match format {
            Format::Arrow => Out::Arrow(arrow_file(file, &schema)?),
            _ => Out::Parquet(parquet_file(file, &schema)?),
        };
        let decoder = ReaderBuilder::new(schema).with_batch_size(batch).build_decoder().map_err(io::Error::other)?;
        Ok(Self { out, decoder, batch })
    }

    /// Adds lines, all of which must fit the columns.
    ///
    /// # Errors
    /// A line does not fit, or the file cannot be written.
    pub fn write(&mut self, mut lines: &[u8]) -> io::Result<()> {
        while !lines.is_empty() {
            let taken = self.decoder.decode(lines).map_err(io::Error::other)?;
            lines = &lines[taken..];
            if taken == 0 || self.decoder.len() >= self.batch {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(batch) = self.decoder.flush().map_err(io::Error::other)? else { return Ok(()) };
        match &mut self.out {
            Out::Parquet(out) => out.write(&batch).map_err(io::Error::other),
            Out::Arrow(out) => out.write(&batch).map_err(io::Error::other),
        }
    }

    /// Ends the file and syncs it to disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        let file = match self.out {
            Out::Parquet(out) => out.into_inner().map_err(io::Error::other)?,
            Out::Arrow(out) => out.into_inner().map_err(io::Error::other)?,
        };
        file.sync_all()
    }
}

fn parquet_file(file: File, schema: &Arc<Schema>) -> io::Result<ArrowWriter<File>> {
    let level = ZstdLevel::try_new(3).map_err(io::Error::other)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .build();
    ArrowWriter::try_new(file, Arc::clone(schema), Some(properties)).map_err(io::Error::other)
}

/// An Arrow IPC file, compressed with LZ4, as other tools write it.
pub(super) fn arrow_file(file: File, schema: &Schema) -> io::Result<FileWriter<File>> {
    IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::LZ4_FRAME))
        .and_then(|options| FileWriter::try_new_with_options(file, schema, options))
        .map_err(io::Error::other)
}

/// Copies the row groups of the parts without decompressing them.
pub(super) fn row_groups(options: &FileSinkOptions, parts: &[PathBuf], out: File) -> io::Result<()> {
    let schema = options.columns.arrow();
    let types = ArrowSchemaConverter::new().convert(&schema).map_err(io::Error::other)?;
    let mark = KeyValue::new(FILE_MARK.to_owned(), options.columns.mark());
    let properties = Arc::new(WriterProperties::builder().set_key_value_metadata(Some(vec![mark])).build());
    let mut out = SerializedFileWriter::new(out, types.root_schema_ptr(), properties).map_err(io::Error::other)?;
    for part in parts {
        let part = File::open(part)?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&part).map_err(io::Error::other)?;
        for group in metadata.row_groups() {
            let mut written = out.next_row_group().map_err(io::Error::other)?;
            for column in group.columns() {
                let close = ColumnCloseResult {
                    bytes_written: column.compressed_size() as u64,
                    rows_written: group.num_rows() as u64,
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                written.append_column(&part, close).map_err(io::Error::other)?;
            }
            written.close().map_err(io::Error::other)?;
        }
    }
    out.into_inner().map_err(io::Error::other)?.sync_all()
}

/// Copies the batches of the parts.
pub(super) fn batches(options: &FileSinkOptions, parts: &[PathBuf], out: File) -> io::Result<()> {
    let mut out = arrow_file(out, &options.columns.arrow())?;
    for part in parts {
        for batch in FileReader::try_new_buffered(File::open(part)?, None).map_err(io::Error::other)? {
            batch.and_then(|batch| out.write(&batch)).map_err(io::Error::other)?;
        }
    }
    out.into_inner().map_err(io::Error::other)?.sync_all()
}
