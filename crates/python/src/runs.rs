//! Results: documents, tables and histograms of a run folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::UInt64Array;
use arrow_schema::DataType;
use pyo3::prelude::*;
use serde_json::{Map, Value};
use storebench_results::answer::answer;
use storebench_results::configurations::is_whole;
use storebench_results::times::{response, response_of_all, service, service_of_all};
use storebench_results::{OpResult, RESULT_FILE, RunResult, Table as Kind, TrialResult, log_name, merged_log, rows_of};

use crate::arrow::{Table, bad_input, failed, type_of};

fn opened(path: &Path) -> PyResult<RunResult> {
    storebench_results::read_run(path).map_err(bad_input)
}

/// The result of a run as JSON, from its folder or its run.json.
#[pyfunction]
pub(crate) fn read_run(path: PathBuf) -> PyResult<String> {
    serde_json::to_string(&opened(&path)?).map_err(failed)
}

/// What a run says, as JSON: its `question`, what was `found`, how far to `trust` it, what the factors `change`, and the
/// `severity` of its checks.
#[pyfunction]
pub(crate) fn said(path: PathBuf) -> PyResult<String> {
    let result = opened(&path)?;
    let found = answer(&result);
    let said = serde_json::json!({
        "question": result.run.question,
        "found": found.found,
        "trust": found.trust,
        "changes": found.changes,
        "severity": found.severity,
    });
    Ok(said.to_string())
}

/// A table of a run folder: `intervals`, `resources`, `server_resources` or `store_stats`.
#[pyfunction]
pub(crate) fn table(py: Python<'_>, folder: PathBuf, name: &str) -> PyResult<Table> {
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) else {
        let known = Kind::ALL.map(Kind::name).join(", ");
        return Err(bad_input(format!("unknown table `{name}`; expected one of {known}")));
    };
    let file = folder.join(kind.file());
    if !folder.join(RESULT_FILE).exists() {
        return Err(bad_input(format!("{}: no run is here; was it moved or deleted?", folder.display())));
    }
    let read = || -> Result<Table, String> {
        let rows: Vec<Map<String, Value>> = rows_of(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let columns: Vec<_> = kind.columns().into_iter().map(|(name, kind)| (name, type_of(kind))).collect();
        Table::of_rows(&columns, &rows).map_err(|e| format!("{}: {e}", file.display()))
    };
    py.detach(read).map_err(bad_input)
}

/// Each operation of each phase of each trial: counts, rates and percentiles.
#[pyfunction]
pub(crate) fn trials(path: PathBuf) -> PyResult<Table> {
    let result = opened(&path)?;
    let mut rows = Rows::default();
    let factors: BTreeSet<&String> = result.trials.iter().flat_map(|trial| trial.values.keys()).collect();
    for trial in &result.trials {
        for phase in &trial.phases {
            for (name, op) in &phase.ops {
                rows.begin();
                rows.add("trial", DataType::Int64, trial.trial);
                rows.add("round", DataType::Int64, trial.round);
                rows.add("control", DataType::Boolean, trial.control);
                rows.add("configuration", DataType::Utf8, trial.configuration.as_str());
                rows.add("store", DataType::Utf8, trial.store.as_str());
                for factor in &factors {
                    let value =
                        trial.values.get(*factor).map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
                    rows.add(factor, DataType::Utf8, value);
                }
                rows.add("phase", DataType::Utf8, phase.name.as_str());
                rows.add("warm_up", DataType::Boolean, phase.warm_up);
                rows.add("op", DataType::Utf8, name.as_str());
                rows.op(op);
                rows.add("elapsed_ns", DataType::Int64, phase.elapsed_ns);
                rows.add("client_cpu_us_per_op", DataType::Float64, phase.client.cpu_us_per_op);
                rows.add("failure", DataType::Utf8, trial.failure.as_ref().map(|failure| failure.message.as_str()));
            }
        }
    }
    rows.table("trial")
}

/// One row for each part of a merged run in each phase.
#[pyfunction]
pub(crate) fn generators(path: PathBuf) -> PyResult<Table> {
    let result = opened(&path)?;
    let mut rows = Rows::default();
    for trial in &result.trials {
        for phase in &trial.phases {
            for generator in &phase.generators {
                rows.begin();
                rows.add("trial", DataType::Int64, trial.trial);
                rows.add("configuration", DataType::Utf8, trial.configuration.as_str());
                rows.add("phase", DataType::Utf8, phase.name.as_str());
                rows.add("part", DataType::Int64, generator.part);
                rows.add("began_after_ns", DataType::Int64, generator.began_after_ns);
                rows.add("late_ns", DataType::Int64, generator.late_ns);
                rows.add("workers", DataType::Int64, generator.workers);
                rows.add("operations", DataType::Int64, generator.operations);
                rows.add("answered_per_s", DataType::Float64, generator.answered_per_s);
                let response = response_of_all(&generator.all);
                rows.add("service_p99_ns", DataType::Int64, service_of_all(&generator.all).p99);
                rows.add("response_p99_ns", DataType::Int64, response.and_then(|times| times.p99));
                rows.add("client_cpu_us_per_op", DataType::Float64, generator.client.cpu_us_per_op);
            }
        }
    }
    rows.table("part")
}

/// A table in the making. Its columns are in the order in which they first appear.
#[derive(Default)]
struct Rows {
    columns: Vec<(String, DataType)>,
    rows: Vec<Map<String, Value>>,
}

impl Rows {
    fn begin(&mut self) {
        self.rows.push(Map::new());
    }

    /// Adds a value to the last row.
    fn add(&mut self, name: &str, kind: DataType, value: impl Into<Value>) {
        if !self.columns.iter().any(|(known, _)| known == name) {
            self.columns.push((name.to_owned(), kind));
        }
        if let Some(row) = self.rows.last_mut() {
            row.insert(name.to_owned(), value.into());
        }
    }

    /// The table. Without rows, it has only this column.
    fn table(mut self, first: &str) -> PyResult<Table> {
        if self.columns.is_empty() {
            self.columns.push((first.to_owned(), DataType::Int64));
        }
        Table::of_rows(&self.columns, &self.rows).map_err(failed)
    }

    fn op(&mut self, op: &OpResult) {
        self.add("kind", DataType::Utf8, op.kind.as_str());
        for (name, count) in [
            ("count", op.count),
            ("succeeded", op.succeeded),
            ("misses", op.misses),
            ("errors", op.errors),
            ("unfinished", op.unfinished),
            ("documents", op.documents),
            ("written_bytes", op.written_bytes),
            ("read_bytes", op.read_bytes),
        ] {
            self.add(name, DataType::Int64, count);
        }
        self.add("throughput_per_s", DataType::Float64, op.throughput_per_s);
        self.add("documents_per_s", DataType::Float64, op.documents_per_s);
        for (series, times) in [("response", response(op)), ("service", Some(service(op)))] {
            self.add(&format!("{series}_mean_ns"), DataType::Float64, times.and_then(|of| of.mean));
            for (quantile, value) in [
                ("p50", times.and_then(|of| of.p50)),
                ("p90", times.and_then(|of| of.p90)),
                ("p99", times.and_then(|of| of.p99)),
                ("p99_9", times.and_then(|of| of.p99_9)),
                ("max", times.and_then(|of| of.max)),
            ] {
                self.add(&format!("{series}_{quantile}_ns"), DataType::Int64, value);
            }
        }
    }
}

/// A histogram of times in ns, with 3 significant digits.
#[pyclass(frozen, module = "storebench")]
pub(crate) struct Histogram(hdrhistogram::Histogram<u64>);

#[pymethods]
impl Histogram {
    /// How many times it holds.
    fn __len__(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }

    /// The time in ns that `percent` (0 to 100) of the times do not exceed. None if it is empty.
    fn percentile(&self, percent: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let given = percent.extract::<f64>().ok().filter(|given| (0.0..=100.0).contains(given));
        let percent = given.ok_or_else(|| bad_input(format!("{percent} is not a percentile; use 0 to 100")))?;
        Ok((!self.0.is_empty()).then(|| self.0.value_at_quantile(percent / 100.0)))
    }

    /// The mean in ns. None if it is empty.
    #[getter]
    fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean())
    }

    /// The greatest time in ns. None if it is empty.
    #[getter]
    fn max(&self) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.max())
    }

    /// Its buckets: `from_ns` and `to_ns` (both included), and `count`. Empty buckets are left out.
    fn buckets(&self) -> PyResult<Table> {
        let (mut from, mut to, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for bucket in self.0.iter_recorded() {
            let value = bucket.value_iterated_to();
            from.push(self.0.lowest_equivalent(value));
            to.push(self.0.highest_equivalent(value));
            counts.push(bucket.count_since_last_iteration());
        }
        let column = |values: Vec<u64>| Arc::new(UInt64Array::from(values)) as arrow_array::ArrayRef;
        Table::of_columns(vec![("from_ns", column(from)), ("to_ns", column(to)), ("count", column(counts))])
            .map_err(failed)
    }

    fn __repr__(&self) -> String {
        format!("<storebench.Histogram of {} times>", self.0.len())
    }
}

/// The times of the answered operations of one name in a phase, over the complete trials of a configuration or one
/// trial: `series` is `response`, `service`, `failed` or `client-queueing`.
#[pyfunction]
#[pyo3(signature = (folder, op, phase, series, trial, configuration))]
pub(crate) fn histogram(
    folder: PathBuf,
    op: &str,
    phase: &str,
    series: &str,
    trial: Option<u32>,
    configuration: Option<&str>,
) -> PyResult<Histogram> {
    let known = ["response", "service", "failed", "client-queueing"];
    if !known.contains(&series) {
        return Err(bad_input(format!("unknown series `{series}`; expected one of {}", known.join(", "))));
    }
    let result = opened(&folder)?;
    let chosen = |of: &&TrialResult| match trial {
        Some(number) => of.trial == number,
        // A control is the same as the first configuration.
        None => is_whole(of) && (configuration.is_some() || !of.control),
    };
    let of_configuration = |of: &&TrialResult| configuration.is_none_or(|name| name == of.configuration.as_str());
    let trials: Vec<_> = result.trials.iter().filter(chosen).filter(of_configuration).collect();
    let names: BTreeSet<&str> = trials.iter().map(|of| of.configuration.as_str()).collect();
    if names.len() > 1 {
        let names: Vec<&str> = names.into_iter().collect();
        return Err(bad_input(format!("the run has several configurations; give one: {}", names.join(", "))));
    }
    let mut all = hdrhistogram::Histogram::new(3).map_err(failed)?;
    let mut found = false;
    for of in trials {
        for of_phase in of.phases.iter().filter(|of| of.name == phase && of.ops.contains_key(op)) {
            found = true;
            let log = folder.join(log_name(of.trial, &of.store, phase, of_phase.pass()));
            let times = merged_log(&log, op, series);
            all.add(times.map_err(|e| bad_input(format!("{}: {e}", log.display())))?).map_err(failed)?;
        }
    }
    match found {
        true => Ok(Histogram(all)),
        false => Err(bad_input(format!("the run has no operation `{op}` in a phase `{phase}`"))),
    }
}
