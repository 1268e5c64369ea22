//! A phase that copies, with every default filled in.

use std::ops::Deref;

use super::fit::lacks_of_phase;
use super::guarantees::Guarantees;
use super::plan::refused;
use super::recipes::DEFAULT_LOAD_BATCH;
use crate::measure::Label;
use crate::store::{Capabilities, OpKind, StoreError};
use storebench_documents::Catalog;
use storebench_study::workload::{CopyDirection, Phase, Study};

/// A copy as it will run on one store: the phase, with its defaults filled in. The engine itself runs no copies.
#[derive(Debug, Clone)]
pub struct CopyPlan {
    /// The phase.
    pub phase: Phase,
    /// The direction.
    pub direction: CopyDirection,
    /// Its label in the result.
    pub label: Label,
    /// What the store guarantees it.
    pub guarantees: Guarantees,
}

impl Deref for CopyPlan {
    type Target = Phase;

    fn deref(&self) -> &Phase {
        &self.phase
    }
}

impl CopyPlan {
    /// Fills in defaults and refuses what the store cannot do.
    pub(super) fn resolve(
        study: &Study,
        phase: &Phase,
        direction: CopyDirection,
        catalog: &Catalog,
        can: &Capabilities,
    ) -> Result<Self, StoreError> {
        let name = phase.copied(study).ok_or_else(|| refused(phase, "it has no collection; set `collection`"))?;
        let collection = catalog.find(name).ok_or_else(|| refused(phase, format!("unknown collection `{name}`")))?;
        if let Some(lack) = lacks_of_phase(phase, can).into_iter().next() {
            return Err(lack.refusal());
        }
        let (kind, batch) = match (direction, &phase.view) {
            (CopyDirection::In, _) => (OpKind::BulkUpsert, phase.batch.unwrap_or(DEFAULT_LOAD_BATCH)),
            (CopyDirection::Out, Some(_)) => (OpKind::View, 1),
            (CopyDirection::Out, None) => (OpKind::Scan, 1),
        };
        Ok(Self {
            phase: phase.clone(),
            direction,
            label: Label { name: direction.op_name().to_owned(), kind, collection, batch },
            guarantees: Guarantees::resolve(phase, can)?,
        })
    }
}
