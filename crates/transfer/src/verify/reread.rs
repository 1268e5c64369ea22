//! Rebuilds missing spools by reading the source again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use storebench_engine::Stop;

use super::spool::{Spool, path};
use super::{hash, in_parallel};
use crate::copy::CopyRequest;
use crate::error::TransferError;
use crate::rejects::Places;
use crate::source::{Split, read_split};

/// Creates missing spools from the source. Returns how many were missing. `rejected` are the rejected records, by split.
///
/// # Errors
/// The source cannot be read.
pub(crate) fn missing_spools(
    request: &CopyRequest<'_>,
    splits: &[Split],
    rejected: &BTreeMap<u32, Places>,
    stop: &Stop,
) -> Result<u64, TransferError> {
    let missing: Vec<&Split> = splits.iter().filter(|split| !path(&request.folder, split.number).exists()).collect();
    let none = Places::new();
    let read = |split: &&Split| reread(request, split, rejected.get(&split.number).unwrap_or(&none));
    in_parallel(&missing, request.parallel, stop, read, |()| {})?;
    Ok(missing.len() as u64)
}

/// Writes a split's spool from the source, up to damage. `rejected` are its rejected records.
///
/// # Errors
/// The source cannot be read.
pub(crate) fn reread(request: &CopyRequest<'_>, split: &Split, rejected: &Places) -> Result<(), TransferError> {
    let (own, nulls) = (request.sink.own_members(), request.sink.keeps_nulls());
    let (rewritten, same) = (request.sink.rewrites(), request.sink.same_keys());
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    // No record was written earlier.
    let begun = std::fs::metadata(&request.folder).and_then(|folder| folder.created()).ok();
    let begun = begun.and_then(|begun| Timestamp::try_from(begun).ok()).unwrap_or(Timestamp::UNIX_EPOCH);
    // Use another name until it is complete: an existing spool counts as complete.
    let mut spool = Spool::begin(&request.folder, split.number)?;
    let read = read_split(request.source, split, request.shape, request.sink.room(), &mut |records, _| {
        for (position, (key, body, origin)) in records.iter().enumerate() {
            let is_rejected = || rejected.contains(&(request.source.place(split, origin), key.to_owned()));
            if rejected.is_empty() || !is_rejected() {
                let sent = rewritten(key, body);
                let key = &*same.fold(key);
                let expiry = records.mark_of(position).expiry.or(request.sink.expiry());
                let seen = hash::seen(key, sent.as_deref().unwrap_or(body), &own, nulls);
                spool.add(key, seen, expiry.map(|expiry| expiry.gone_from(begun)))?;
            }
        }
        Ok(true)
    });
    match read {
        // What came before the damage was copied, and the copy's report names it.
        Ok(()) | Err(TransferError::Damaged(_)) => spool.end(),
        Err(error) => Err(error),
    }
}
