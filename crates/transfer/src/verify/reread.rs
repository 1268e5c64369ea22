//! What a copy wrote while nobody kept sums: read from the source once more.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;

use storebench_core::engine::Stop;

use super::hash;
use super::spool::{Spool, path};
use crate::copy::CopyRequest;
use crate::error::TransferError;
use crate::records::Records;
use crate::source::Split;

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
    for some in missing.chunks(request.parallel.max(1) as usize) {
        if stop.asked() {
            return Err(TransferError::Target("interrupted before everything was verified".into()));
        }
        std::thread::scope(|scope| {
            let read = |split: &Split| reread(request, split, rejected.get(&split.number).unwrap_or(&none));
            let threads: Vec<_> = some.iter().map(|split| scope.spawn(move || read(split))).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
    }
    Ok(missing.len() as u64)
}

fn reread(request: &CopyRequest<'_>, split: &Split, rejected: &BTreeSet<String>) -> Result<(), TransferError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| TransferError::Target(format!("the system gives no event loop: {e}")))?;
    let (own, nulls) = (request.sink.own_members(), request.sink.keeps_nulls());
    let rewritten = request.sink.rewrites();
    // Under another name until it is whole: a spool that is there counts as all of its split.
    let mut spool = Spool::begin(&request.folder, split.number)?;
    runtime.block_on(async {
        let mut reader = request.source.open(split, request.shape).await?;
        let (mut records, mut bad) = (Records::new(), Vec::new());
        let mut more = true;
        while more {
            records.clear();
            bad.clear();
            let room = request.sink.room();
            more = poll_fn(|cx| reader.poll_read(cx, room, &mut records, &mut bad)).await?;
            for (key, body, origin) in records.iter() {
                if rejected.is_empty() || !rejected.contains(&request.source.place(split, origin)) {
                    let sent = rewritten(key, body);
                    spool.add(key, hash::seen(key, sent.as_deref().unwrap_or(body), own, nulls))?;
                }
            }
        }
        Ok::<(), TransferError>(())
    })?;
    spool.end()
}
