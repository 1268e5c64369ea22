//! Whether two processes do the same run: its parts, and what resumes it.

use serde::Serialize;
use serde_json::{Value, json};

use crate::RunInfo;
use crate::plan::Plan;

/// What all processes of one run have in common, each with the words that tell a user what differs.
#[derive(Debug, Serialize)]
pub struct Identity([(&'static str, Value); 8]);

impl Identity {
    /// The identity of a run.
    pub fn of(run: &RunInfo, plan: &Plan) -> Self {
        Self([
            ("the study", json!(run.study)),
            ("--scale", json!(run.scale)),
            ("--set or --preset", json!(run.overrides)),
            ("the stores or the order of trials", json!(plan.trials)),
            ("--skip-unsupported, or what the stores support", json!(plan.left_out())),
            ("the version of Storebench", json!(run.storebench_version)),
            ("the build of Storebench", json!(run.storebench_commit)),
            ("how documents are generated", json!(run.frozen)),
        ])
    }

    /// What differs in another run.
    pub fn differences(&self, other: &Self) -> impl Iterator<Item = &'static str> {
        self.0.iter().zip(&other.0).filter(|(of, other)| of.1 != other.1).map(|(of, _)| of.0)
    }
}
