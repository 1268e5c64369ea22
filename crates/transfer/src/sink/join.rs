//! Parts into one file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_ipc::reader::FileReader;
use parquet::arrow::ArrowSchemaConverter;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use super::encode::{Packer, head};
use super::files::FileSinkOptions;
use super::tables::arrow_file;
use crate::columns::FILE_MARK;
use crate::format::Format;

/// Writes `whole` from parts, in order.
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
        Format::Parquet => row_groups(options, parts, out),
        Format::Arrow => batches(options, parts, out),
    }
}

/// One behind the other, packed or not: members of gzip and frames of zstd may follow each other.
fn lines(options: &FileSinkOptions, parts: &[PathBuf], mut out: File) -> io::Result<()> {
    if parts.is_empty() {
        // What is packed is never empty.
        return Packer::new(out, options.packing)?.finish();
    }
    for part in parts {
        // The kernel copies, or shares the blocks where the file system can.
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

/// Lines as the elements of one list.
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

/// Row groups as they are, without unpacking them.
fn row_groups(options: &FileSinkOptions, parts: &[PathBuf], out: File) -> io::Result<()> {
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

fn batches(options: &FileSinkOptions, parts: &[PathBuf], out: File) -> io::Result<()> {
    let mut out = arrow_file(out, &options.columns.arrow())?;
    for part in parts {
        for batch in FileReader::try_new_buffered(File::open(part)?, None).map_err(io::Error::other)? {
            batch.and_then(|batch| out.write(&batch)).map_err(io::Error::other)?;
        }
    }
    out.into_inner().map_err(io::Error::other)?.sync_all()
}
