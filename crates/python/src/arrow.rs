//! Tables and streams of rows, through the Arrow PyCapsule interface:
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_json::ReaderBuilder;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt as _;
use pyo3::types::{PyCapsule, PyDict, PyList};
use serde_json::{Map, Value};
use storebench_cli::Outcome;
use storebench_results::Column;

/// Rows of one batch.
const ROWS: usize = 8_192;

/// The name that the interface gives such a capsule.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";
const SCHEMA: &std::ffi::CStr = c"arrow_schema";

fn capsule(py: Python<'_>, rows: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(rows), STREAM)
}

pub(crate) fn failed(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// The schema as the interface wants it.
fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowSchema::try_from(schema).map_err(failed)?, SCHEMA)
}

/// The exception of the package for this exit code of the command line.
pub(crate) fn refused(code: u8, message: &str) -> PyErr {
    Python::attach(|py| {
        let made = py.import("storebench._errors").and_then(|errors| errors.call_method1("of", (code, message)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

/// The exception for an argument that cannot be used.
pub(crate) fn bad_input(message: impl std::fmt::Display) -> PyErr {
    refused(2, &message.to_string())
}

/// The type of a column of a run folder's table.
pub(crate) fn type_of(kind: Column) -> DataType {
    match kind {
        Column::Integer => DataType::Int64,
        Column::Number => DataType::Float64,
        Column::Text => DataType::Utf8,
    }
}

/// A table in memory.
#[pyclass(frozen, module = "storebench")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// A table of JSON rows.
    pub(crate) fn of_rows(columns: &[(String, DataType)], rows: &[Map<String, Value>]) -> Result<Self, ArrowError> {
        let field = |(name, kind): &(String, DataType)| Field::new(name, kind.clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let mut decoder = ReaderBuilder::new(Arc::clone(&schema)).with_batch_size(ROWS).build_decoder()?;
        let mut batches = Vec::new();
        for rows in rows.chunks(ROWS) {
            decoder.serialize(rows)?;
            batches.extend(decoder.flush()?);
        }
        Ok(Self { schema, batches })
    }

    /// A table of columns of equal length.
    pub(crate) fn of_columns(columns: Vec<(&str, ArrayRef)>) -> Result<Self, ArrowError> {
        let batch = RecordBatch::try_from_iter(columns)?;
        Ok(Self { schema: batch.schema(), batches: vec![batch] })
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

#[pymethods]
impl Table {
    /// The rows as an Arrow stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer must accept another schema than the one that it requested.
        let _ = requested_schema;
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        capsule(py, Box::new(RecordBatchIterator::new(batches, Arc::clone(&self.schema))))
    }

    /// The schema, without the rows.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.rows()
    }

    fn __repr__(&self) -> String {
        format!("<storebench.Table: {} rows, columns {}>", self.rows(), self.column_names().join(", "))
    }

    /// The rows as dictionaries.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for batch in &self.batches {
            for row in 0..batch.num_rows() {
                rows.append(dictionary(py, batch.schema_ref().fields(), batch.columns(), row)?)?;
            }
        }
        Ok(rows)
    }
}

/// A row as a dictionary.
fn dictionary<'py>(py: Python<'py>, fields: &Fields, columns: &[ArrayRef], row: usize) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    for (field, column) in fields.iter().zip(columns) {
        values.set_item(field.name(), value(py, column, row)?)?;
    }
    Ok(values)
}

/// One value of a column.
fn value<'py>(py: Python<'py>, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if column.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    match column.data_type() {
        DataType::Int64 => Ok(column.as_primitive::<Int64Type>().value(row).into_pyobject(py)?.into_any()),
        DataType::UInt64 => Ok(column.as_primitive::<UInt64Type>().value(row).into_pyobject(py)?.into_any()),
        DataType::Float64 => Ok(column.as_primitive::<Float64Type>().value(row).into_pyobject(py)?.into_any()),
        DataType::Boolean => Ok(column.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any()),
        DataType::Utf8 => Ok(column.as_string::<i32>().value(row).into_pyobject(py)?.into_any()),
        DataType::Binary => Ok(column.as_binary::<i32>().value(row).into_pyobject(py)?.into_any()),
        DataType::Struct(fields) => Ok(dictionary(py, fields, column.as_struct().columns(), row)?.into_any()),
        DataType::List(_) => {
            let (items, values) = (column.as_list::<i32>().value(row), PyList::empty(py));
            for item in 0..items.len() {
                values.append(value(py, &items, item)?)?;
            }
            Ok(values.into_any())
        }
        other => Err(failed(format!("a column of {other} has no Python value here"))),
    }
}

/// Rows that are made while they are read: once, by a consumer of Arrow or by iterating.
#[pyclass(frozen, module = "storebench")]
pub(crate) struct Stream {
    schema: SchemaRef,
    rows: Mutex<Rows>,
}

/// How far a stream was read.
enum Rows {
    /// Not yet.
    Fresh(Box<dyn RecordBatchReader + Send>),
    /// By iterating, up to this row of this batch.
    Iterated(Box<dyn RecordBatchReader + Send>, Option<(RecordBatch, usize)>),
    /// A consumer of Arrow has it.
    Taken,
}

impl Stream {
    pub(crate) fn of(rows: Box<dyn RecordBatchReader + Send>) -> Self {
        Self { schema: rows.schema(), rows: Mutex::new(Rows::Fresh(rows)) }
    }

    /// The rows, for this thread alone. Python runs while it waits for another one.
    fn rows<'a>(&'a self, py: Python<'_>) -> MutexGuard<'a, Rows> {
        self.rows.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Stream {
    /// The rows as an Arrow stream. They can be read once.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let mut rows = self.rows(py);
        match std::mem::replace(&mut *rows, Rows::Taken) {
            Rows::Fresh(rows) => capsule(py, rows),
            begun => {
                *rows = begun;
                Err(read_already())
            }
        }
    }

    /// The schema, without the rows: it can be read before them.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// The next row, as a dictionary.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let mut state = self.rows(py);
        if let Rows::Fresh(_) = &*state
            && let Rows::Fresh(rows) = std::mem::replace(&mut *state, Rows::Taken)
        {
            *state = Rows::Iterated(rows, None);
        }
        let Rows::Iterated(rows, current) = &mut *state else { return Err(read_already()) };
        while current.as_ref().is_none_or(|(batch, row)| *row >= batch.num_rows()) {
            let Some(next) = py.detach(|| rows.next()) else { return Ok(None) };
            *current = Some((next.map_err(|error| of_reader(&error))?, 0));
        }
        let Some((batch, row)) = current else { return Ok(None) };
        let values = dictionary(py, batch.schema_ref().fields(), batch.columns(), *row)?;
        *row += 1;
        Ok(Some(values))
    }
}

/// The exception of the package for an error of a reader.
fn of_reader(error: &ArrowError) -> PyErr {
    let ArrowError::ExternalError(inner) = error else { return failed(error) };
    match inner.downcast_ref::<Outcome>() {
        Some(outcome) => refused(outcome.code, &outcome.to_string()),
        None => failed(inner),
    }
}

fn read_already() -> PyErr {
    bad_input("these rows have been read; make the stream again")
}
