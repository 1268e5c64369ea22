//! INT96 times, as Spark and Hive write them: in UTC. The Parquet reader converts them to nanoseconds in 64 bits, which wrap around
//! before 1677 and after 2262. Times outside of that are taken from a second conversion to microseconds, and a third one to
//! seconds tells where those wrap around too.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type;
use parquet::errors::ParquetError;
use parquet::schema::types::SchemaDescriptor;

use crate::place::Chunks;

/// Reads the columns of a row group that contain INT96 times, converted to coarser units.
pub(super) struct CoarseTimes {
    /// The positions of the columns.
    columns: Vec<usize>,
    micros: ParquetRecordBatchReader,
    seconds: ParquetRecordBatchReader,
}

/// The same rows with coarser times.
pub(super) struct CoarseRows {
    pub(super) rows: RecordBatch,
    /// For each row, where its times are right.
    pub(super) times: Vec<Times>,
}

/// Which conversion holds the times of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    /// Nanoseconds.
    Fine,
    /// Microseconds.
    Coarse,
    /// Neither.
    Outside,
}

impl CoarseTimes {
    /// For a row group; `None` if no column contains INT96 times.
    pub(super) fn open(
        reader: &ParquetRecordBatchReaderBuilder<Chunks>,
        chunks: &Chunks,
        group: usize,
        rows: usize,
    ) -> Result<Option<Self>, ParquetError> {
        let schema = reader.parquet_schema();
        let mut columns: Vec<usize> = leaves(schema).into_iter().map(|leaf| schema.get_column_root_idx(leaf)).collect();
        columns.dedup();
        if columns.is_empty() {
            return Ok(None);
        }
        let by = |unit| {
            with_times(reader, chunks, unit)?
                .with_projection(ProjectionMask::roots(schema, columns.iter().copied()))
                .with_row_groups(vec![group])
                .with_batch_size(rows)
                .build()
        };
        let (micros, seconds) = (by(TimeUnit::Microsecond)?, by(TimeUnit::Second)?);
        Ok(Some(Self { columns, micros, seconds }))
    }

    /// The rows of the next batch, which are `fine` in nanoseconds; `None` if those are all right.
    pub(super) fn next(&mut self, fine: &RecordBatch) -> Result<Option<CoarseRows>, ArrowError> {
        let ended = || ArrowError::ParquetError("columns differ in their number of rows".to_owned());
        let micros = self.micros.next().ok_or_else(ended)??;
        let seconds = self.seconds.next().ok_or_else(ended)??;
        if micros.num_rows() != fine.num_rows() || seconds.num_rows() != fine.num_rows() {
            return Err(ended());
        }
        let mut times = vec![Times::Fine; fine.num_rows()];
        let mut columns = fine.columns().to_vec();
        let mut fields = fine.schema().fields().to_vec();
        for (at, column) in self.columns.iter().enumerate() {
            let wraps = unequal(fine.column(*column), micros.column(at), 1_000);
            let both = unequal(micros.column(at), seconds.column(at), 1_000_000);
            for (row, (wraps, both)) in times.iter_mut().zip(wraps.into_iter().zip(both)) {
                *row = match *row {
                    _ if both => Times::Outside,
                    Times::Fine if wraps => Times::Coarse,
                    known => known,
                };
            }
            columns[*column] = Arc::clone(micros.column(at));
            fields[*column] = Arc::clone(&micros.schema().fields()[at]);
        }
        if times.iter().all(|times| *times == Times::Fine) {
            return Ok(None);
        }
        let schema = Schema::new_with_metadata(fields, fine.schema().metadata().clone());
        Ok(Some(CoarseRows { rows: RecordBatch::try_new(Arc::new(schema), columns)?, times }))
    }
}

/// The positions of INT96 times among the leaves of all columns.
fn leaves(schema: &SchemaDescriptor) -> Vec<usize> {
    (0..schema.num_columns()).filter(|leaf| schema.column(*leaf).physical_type() == Type::INT96).collect()
}

/// The same file with INT96 times in UTC.
pub(super) fn in_utc(
    reader: ParquetRecordBatchReaderBuilder<Chunks>,
    chunks: &Chunks,
) -> Result<ParquetRecordBatchReaderBuilder<Chunks>, ParquetError> {
    if leaves(reader.parquet_schema()).is_empty() {
        Ok(reader)
    } else {
        with_times(&reader, chunks, TimeUnit::Nanosecond)
    }
}

/// The same file with INT96 times in UTC and in this unit.
fn with_times(
    reader: &ParquetRecordBatchReaderBuilder<Chunks>,
    chunks: &Chunks,
    unit: TimeUnit,
) -> Result<ParquetRecordBatchReaderBuilder<Chunks>, ParquetError> {
    let (schema, times) = (reader.schema(), leaves(reader.parquet_schema()));
    let mut leaf = 0;
    let fields: Vec<FieldRef> =
        schema.fields().iter().map(|field| field_with(field, unit, &times, &mut leaf)).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(reader.metadata()), options)?;
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(chunks.clone(), metadata))
}

/// `leaf` is the position of the field's first leaf, and then of the one after its last.
fn field_with(field: &FieldRef, unit: TimeUnit, times: &[usize], leaf: &mut usize) -> FieldRef {
    let mut of = |field| field_with(field, unit, times, leaf);
    let inner = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect()),
        DataType::List(field) => DataType::List(of(field)),
        DataType::LargeList(field) => DataType::LargeList(of(field)),
        DataType::Map(field, sorted) => DataType::Map(of(field), *sorted),
        _ => {
            *leaf += 1;
            if !times.contains(&(*leaf - 1)) {
                return Arc::clone(field);
            }
            DataType::Timestamp(unit, Some("UTC".into()))
        }
    };
    Arc::new(Field::clone(field).with_data_type(inner))
}

/// Whether a row has a time that is not the same in both units, of which one is `factor` times the other.
fn unequal(fine: &ArrayRef, coarse: &ArrayRef, factor: i64) -> Vec<bool> {
    let within = |offsets: &[i32], items: &[bool]| {
        let row = |ends: &[i32]| items[ends[0] as usize..ends[1] as usize].contains(&true);
        offsets.windows(2).map(row).collect()
    };
    match (fine.data_type(), coarse.data_type()) {
        (DataType::Timestamp(..), DataType::Timestamp(..)) => {
            let (fine, coarse) = (fine.to_data(), coarse.to_data());
            let pairs = fine.buffer::<i64>(0).iter().zip(coarse.buffer::<i64>(0)).take(fine.len());
            let differs =
                |(row, (one, other)): (usize, (&i64, &i64))| fine.is_valid(row) && one.div_euclid(factor) != *other;
            pairs.enumerate().map(differs).collect()
        }
        (DataType::Struct(_), DataType::Struct(_)) => {
            let mut rows = vec![false; fine.len()];
            for (fine, coarse) in fine.as_struct().columns().iter().zip(coarse.as_struct().columns()) {
                rows.iter_mut().zip(unequal(fine, coarse, factor)).for_each(|(row, differs)| *row |= differs);
            }
            rows
        }
        (DataType::List(_), DataType::List(_)) => {
            let (fine, coarse) = (fine.as_list::<i32>(), coarse.as_list::<i32>());
            within(fine.value_offsets(), &unequal(fine.values(), coarse.values(), factor))
        }
        (DataType::Map(..), DataType::Map(..)) => {
            let (fine, coarse) = (fine.as_map(), coarse.as_map());
            let entries = |map: &arrow_array::MapArray| Arc::new(map.entries().clone()) as ArrayRef;
            within(fine.value_offsets(), &unequal(&entries(fine), &entries(coarse), factor))
        }
        _ => vec![false; fine.len()],
    }
}
