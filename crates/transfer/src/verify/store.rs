//! Looks up written keys in a store.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use storebench_engine::Stop;
use storebench_engine::store::{AnyStore, BatchBuf, CollectionId, Op, Request};

use super::hash::{self, Seen};
use super::spool::Spooled;
use super::{Target, interrupted};
use crate::error::TransferError;
use crate::retry::Access;
use crate::runtime::{block_on, unless};
use crate::session::{Asker, own_members};
use crate::source::Split;

/// Keys in one bulk read.
const BATCH: usize = 500;

/// A collection of a store, prepared by the sink that wrote to it.
pub(crate) struct StoreTarget {
    pub(crate) store: Arc<dyn AnyStore>,
    pub(crate) collection: CollectionId,
    pub(crate) deleted: bool,
    pub(crate) access: Access,
}

impl Target for StoreTarget {
    fn read(
        &self,
        folder: &Path,
        split: &Split,
        stop: &Stop,
        wanted: &dyn Fn(&str) -> bool,
        found: &mut dyn FnMut(&str, Seen),
    ) -> Result<(), TransferError> {
        let mut spooled = Spooled::open(folder, split.number)?;
        let read = async {
            let mut asker = Asker::open(&*self.store, self.access).await?;
            let mut keys = BatchBuf::new();
            let mut more = true;
            while more {
                keys.clear();
                while more && keys.len() < BATCH {
                    match spooled.next()? {
                        None => more = false,
                        Some(written) if wanted(written.key) => keys.push(written.key, b""),
                        Some(_) => {}
                    }
                }
                if !keys.is_empty() {
                    self.look(&mut asker, &keys, found).await?;
                }
            }
            Ok(())
        };
        block_on(async { unless(|| stop.asked(), read).await.unwrap_or_else(|| Err(interrupted())) })
    }

    fn deleted(&self) -> bool {
        self.deleted
    }
}

impl StoreTarget {
    /// Those of the given keys that are missing.
    pub(crate) fn missing(&self, wanted: &[&str]) -> Result<Vec<String>, TransferError> {
        let mut missing = Vec::new();
        block_on(async {
            let mut asker = Asker::open(&*self.store, self.access).await?;
            for part in wanted.chunks(BATCH) {
                let mut keys = BatchBuf::new();
                part.iter().for_each(|key| keys.push(key, b""));
                let mut found = HashSet::new();
                self.look(&mut asker, &keys, &mut |key, _| {
                    found.insert(key.to_owned());
                })
                .await?;
                missing.extend(part.iter().filter(|key| !found.contains(**key)).map(|key| (*key).to_owned()));
            }
            Ok(missing)
        })
    }

    async fn look(
        &self,
        asker: &mut Asker<'_>,
        keys: &BatchBuf,
        found: &mut dyn FnMut(&str, Seen),
    ) -> Result<(), TransferError> {
        let op = Op::BulkRead { keys: keys.as_batch() };
        let request = Request { collection: self.collection, op, contents: true };
        let own = own_members(&*self.store, self.collection);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let reply = asker.ask(|_| request, "could not read back the written documents", |_, _| {}).await?;
        let rows = reply.as_reply().rows.unwrap_or_default();
        // For a key requested twice, some stores return one row and others two.
        // A store that takes several keys for one may return another of them.
        let same = self.store.same_keys(self.collection);
        let seen = |(key, body)| {
            let key = same.fold(key);
            let seen = hash::seen(&key, body, &own, true);
            (key, seen)
        };
        let hashes: HashMap<Cow<'_, str>, Seen> = rows.iter().map(seen).collect();
        for (key, _) in keys.as_batch().iter() {
            if let Some(hash) = hashes.get(&same.fold(key)) {
                found(key, *hash);
            }
        }
        Ok(())
    }
}
