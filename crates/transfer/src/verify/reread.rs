//! What a copy wrote while nobody kept sums: read from the source once more.

use std::collections::{BTreeMap, BTreeSet};

use storebench_engine::Stop;

use super::spool::{Spool, path};
use super::{hash, in_parallel};
use crate::copy::CopyRequest;
use crate::error::TransferError;
use crate::runtime::block_on;
use crate::source::{Split, read_to_end};

/// Makes the spools that are missing, from the source; gives how many those were. `rejected` are the places of
/// records that did not arrive, by split.
///
/// # Errors
/// The source cannot be read further.
pub(crate) fn missing_spools(
    request: &CopyRequest<'_>,
    splits: &[Split],
    rejected: &BTreeMap<u32, BTreeSet<String>>,
    stop: &Stop,
) -> Result<u64, TransferError> {
    let missing: Vec<&Split> = splits.iter().filter(|split| !path(&request.folder, split.number).exists()).collect();
    let none = BTreeSet::new();
    let read = |split: &&Split| reread(request, split, rejected.get(&split.number).unwrap_or(&none));
    in_parallel(&missing, request.parallel, stop, read, |()| {})?;
    Ok(missing.len() as u64)
}

fn reread(request: &CopyRequest<'_>, split: &Split, rejected: &BTreeSet<String>) -> Result<(), TransferError> {
    let (own, nulls) = (request.sink.own_members(), request.sink.keeps_nulls());
    let rewritten = request.sink.rewrites();
    // Under another name until it is whole: a spool that is there counts as all of its split.
    let mut spool = Spool::begin(&request.folder, split.number)?;
    block_on(async {
        let mut reader = request.source.open(split, request.shape).await?;
        read_to_end(&mut *reader, request.sink.room(), |chunk| {
            for (key, body, origin) in chunk.records.iter() {
                if rejected.is_empty() || !rejected.contains(&request.source.place(split, origin)) {
                    let sent = rewritten(key, body);
                    spool.add(key, hash::seen(key, sent.as_deref().unwrap_or(body), own, nulls))?;
                }
            }
            Ok(true)
        })
        .await
    })?;
    spool.end()
}
