//! The size of documents relative to the memory of the machine.

use crate::environment::is_loopback;
use crate::{RunResult, TrialResult};

/// Whether the store's memory is known, because it runs on the machine that is described.
pub(super) fn is_here(trial: &TrialResult) -> bool {
    trial.embedded || trial.here.unwrap_or_else(|| is_loopback(&trial.url))
}

/// The memory that is available to client and store, in bytes.
pub(super) fn memory_bytes(result: &RunResult) -> Option<f64> {
    let environment = &result.environment;
    let sizes = [environment.memory_limit_bytes, environment.memory_bytes];
    sizes.into_iter().flatten().filter(|bytes| *bytes > 0).min().map(|bytes| bytes as f64)
}

/// The size of a collection's documents in this trial, in bytes.
pub(super) fn documents_bytes(result: &RunResult, trial: &TrialResult, collection: &str) -> Option<f64> {
    if let Some(sampled) = trial.sampled.get(collection) {
        return Some(sampled.keys as f64 * sampled.mean_bytes as f64);
    }
    let made = result.documents.iter().find(|c| c.collection == collection && c.is_of(trial.configuration.as_str()))?;
    let count = trial.documents.get(collection).copied().unwrap_or(made.count);
    Some(count as f64 * made.mean_bytes as f64)
}

/// The scale at which documents would be `times` as large.
pub(super) fn scale_for(result: &RunResult, trial: &TrialResult, times: f64) -> f64 {
    let scale = trial.values.get("scale").and_then(serde_json::Value::as_f64).unwrap_or(result.run.scale);
    let scale = scale * times;
    // Two digits exceed the accuracy of the estimate. Rounds up, so that it is enough.
    let step = 10f64.powf(scale.log10().floor() - 1.0);
    if step.is_finite() && step > 0.0 { (scale / step).ceil() * step } else { scale }
}
