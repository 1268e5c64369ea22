//! A phase that copies, with every default filled in.

use std::ops::Deref;

use super::plan::{DEFAULT_LOAD_BATCH, Guarantees};
use crate::measure::Label;
use crate::store::{Capabilities, OpKind, RowsKind, StoreError};
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
        let refuse = |what: String| StoreError::NotSupported(format!("phase `{}`: {what}", phase.name));
        let name = phase.copied(study).ok_or_else(|| refuse("it has no collection; set `collection`".to_owned()))?;
        let collection = catalog.find(name).ok_or_else(|| refuse(format!("unknown collection `{name}`")))?;
        let streams = can.rows.iter().any(|kind| matches!(kind, RowsKind::Walk | RowsKind::Range));
        let lacks = |kind: OpKind| can.supports(kind).is_none();
        let (kind, batch) = match (direction, &phase.view) {
            (CopyDirection::In, _) if lacks(OpKind::BulkUpsert) => {
                return Err(refuse("this store cannot do `bulk-upsert`, which a copy into it needs".to_owned()));
            }
            (CopyDirection::Out, Some(view)) if lacks(OpKind::View) => {
                return Err(refuse(format!("this store has no views, but the phase reads `{view}`; remove `view`")));
            }
            (CopyDirection::Out, None) if lacks(OpKind::Scan) && !streams => {
                return Err(refuse("this store cannot list its documents, which a copy out of it needs".to_owned()));
            }
            (CopyDirection::In, _) => (OpKind::BulkUpsert, phase.batch.unwrap_or(DEFAULT_LOAD_BATCH)),
            (CopyDirection::Out, Some(_)) => (OpKind::View, 1),
            (CopyDirection::Out, None) => (OpKind::Scan, 1),
        };
        Ok(Self {
            phase: phase.clone(),
            direction,
            label: Label { name: direction.op_name().to_owned(), kind, collection, batch },
            guarantees: Guarantees::resolve(study, phase, can)?,
        })
    }
}
