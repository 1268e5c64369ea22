//! What of the written keys is in a store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use storebench_core::engine::Caller;
use storebench_core::store::{
    AnyStore, BatchBuf, CollectionId, ErrorKind, Op, OpError, Request, SessionOptions, StoreError,
};

use super::Target;
use super::hash::{self, Seen};
use super::spool::Spooled;
use crate::error::TransferError;
use crate::session::{self, SessionRequest, of_store};
use crate::source::Split;

/// Keys of one bulk read.
const BATCH: usize = 500;
/// How often, and after how long, a read that fails for now is tried again.
const TRIES: u32 = 20;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// A collection of a store, prepared by the sink that wrote into it.
pub(crate) struct StoreTarget {
    pub(crate) store: Arc<dyn AnyStore>,
    pub(crate) collection: CollectionId,
    pub(crate) deleted: bool,
    pub(crate) timeout: Duration,
}

impl Target for StoreTarget {
    fn read(
        &self,
        folder: &Path,
        split: &Split,
        wanted: &dyn Fn(&str) -> bool,
        found: &mut dyn FnMut(&str, Seen),
    ) -> Result<(), TransferError> {
        let request = SessionRequest { durability: None, timeout: self.timeout, in_flight: 1 };
        let options = session::options(&*self.store, &request)?;
        let mut caller = self.open(&options)?;
        let mut spooled = Spooled::open(folder, split.number)?;
        let mut keys = BatchBuf::new();
        loop {
            keys.clear();
            let mut more = true;
            while keys.len() < BATCH {
                match spooled.next()? {
                    None => {
                        more = false;
                        break;
                    }
                    Some((key, _)) if wanted(key) => keys.push(key, b""),
                    Some(_) => {}
                }
            }
            if !keys.is_empty() {
                self.look(&mut caller, &keys, found)?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn deleted(&self) -> bool {
        self.deleted
    }
}

impl StoreTarget {
    /// Those of these keys that are not there.
    pub(crate) fn missing(&self, wanted: &[&str]) -> Result<Vec<String>, TransferError> {
        let request = SessionRequest { durability: None, timeout: self.timeout, in_flight: 1 };
        let mut caller = self.open(&session::options(&*self.store, &request)?)?;
        let mut missing = Vec::new();
        for part in wanted.chunks(BATCH) {
            let mut keys = BatchBuf::new();
            part.iter().for_each(|key| keys.push(key, b""));
            let mut found = std::collections::HashSet::new();
            self.look(&mut caller, &keys, &mut |key, _| {
                found.insert(key.to_owned());
            })?;
            missing.extend(part.iter().filter(|key| !found.contains(**key)).map(|key| (*key).to_owned()));
        }
        Ok(missing)
    }

    fn open(&self, options: &SessionOptions) -> Result<Caller, TransferError> {
        let mut tried = 1;
        loop {
            match Caller::open(&*self.store, options) {
                Err(StoreError::Unreachable(_)) if tried < TRIES => std::thread::sleep(TRY_AGAIN_AFTER),
                opened => return opened.map_err(|e| of_store(&*self.store, e)),
            }
            tried += 1;
        }
    }

    fn look(
        &self,
        caller: &mut Caller,
        keys: &BatchBuf,
        found: &mut dyn FnMut(&str, Seen),
    ) -> Result<(), TransferError> {
        let op = Op::BulkRead { keys: keys.as_batch() };
        let request = Request { collection: self.collection, op, contents: true };
        let own = self.store.capabilities().own_members;
        for tried in 1.. {
            let mut failed: Option<OpError> = None;
            let mut hashes = Vec::new();
            caller.call(&request, |result| match result {
                Ok(reply) => {
                    // What could not be read is not missing.
                    failed = reply.rejects.first().map(|reject| reject.error.clone());
                    let rows = reply.rows.unwrap_or_default();
                    hashes.extend(rows.iter().map(|(key, body)| (key.to_owned(), hash::seen(key, body, own, true))));
                }
                Err(error) => failed = Some(error),
            });
            match failed {
                None => {
                    // A key that was asked for twice is answered once by some stores, and twice by others.
                    let hashes: std::collections::HashMap<String, Seen> = hashes.into_iter().collect();
                    for (key, _) in keys.as_batch().iter() {
                        if let Some(hash) = hashes.get(key) {
                            found(key, *hash);
                        }
                    }
                    return Ok(());
                }
                Some(e) => {
                    let for_now = matches!(e.kind, ErrorKind::Temporary | ErrorKind::OutcomeUnknown);
                    if for_now && tried < TRIES {
                        std::thread::sleep(TRY_AGAIN_AFTER);
                        continue;
                    }
                    let text = format!("written documents could not be read back: {e}");
                    let error = if for_now { StoreError::Unreachable(text) } else { StoreError::Failed(text) };
                    return Err(of_store(&*self.store, error));
                }
            }
        }
        Ok(())
    }
}
