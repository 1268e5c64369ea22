//! What a phase that copies does, with every default filled in.

use super::plan::DEFAULT_LOAD_BATCH;
use crate::documents::Catalog;
use crate::measure::Label;
use crate::store::{Capabilities, OpKind, RowsKind};
use crate::workload::{CopyDirection, Phase, Study};

/// A copy as it will run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyPlan {
    /// Which way.
    pub direction: CopyDirection,
    /// Position of the collection in the study.
    pub collection: usize,
    /// Parts that are to run at once.
    pub tasks: u32,
    /// Parts that the work is to be cut into. A store that cannot be cut so finely has fewer.
    pub parts: u32,
    /// Into the store: documents of one request, at most, where the study says it.
    pub batch: Option<u32>,
    /// Out of the store: the view whose rows are read.
    pub view: Option<String>,
}

impl CopyPlan {
    /// What it is in the result.
    pub(super) fn label(&self, batch: Option<u32>) -> Label {
        let (kind, batch) = match (self.direction, &self.view) {
            (CopyDirection::In, _) => (OpKind::BulkUpsert, batch.unwrap_or(DEFAULT_LOAD_BATCH)),
            (CopyDirection::Out, Some(_)) => (OpKind::View, 1),
            (CopyDirection::Out, None) => (OpKind::Scan, 1),
        };
        Label { name: self.direction.op_name().to_owned(), kind, collection: self.collection, batch }
    }
}

/// The copy of a phase; none where it does something else. Refuses what the store cannot do.
pub(super) fn copy_of(
    study: &Study,
    phase: &Phase,
    catalog: &Catalog,
    can: &Capabilities,
) -> Result<Option<CopyPlan>, String> {
    let Some(direction) = phase.copy else { return Ok(None) };
    let name = phase.copied(study).ok_or("it does not say its collection")?;
    let collection = catalog.find(name).ok_or_else(|| format!("there is no collection `{name}`"))?;
    let streams = can.rows.iter().any(|kind| matches!(kind, RowsKind::Walk | RowsKind::Range));
    let lacks = |kind: OpKind| can.supports(kind).is_none();
    match (direction, &phase.view) {
        (CopyDirection::In, _) if lacks(OpKind::BulkUpsert) => {
            return Err("this store cannot do `bulk-upsert`, which a copy into it needs".to_owned());
        }
        (CopyDirection::Out, Some(view)) if lacks(OpKind::View) => {
            return Err(format!("this store has no views, and `{view}` is to be read; remove `view`"));
        }
        (CopyDirection::Out, None) if lacks(OpKind::Scan) && !streams => {
            return Err("this store cannot list its documents, which a copy out of it needs".to_owned());
        }
        _ => {}
    }
    Ok(Some(CopyPlan {
        direction,
        collection,
        tasks: phase.copy_tasks(),
        parts: phase.copy_parts(),
        batch: phase.batch,
        view: phase.view.clone(),
    }))
}
