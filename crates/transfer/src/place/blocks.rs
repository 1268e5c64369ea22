//! Random access to an object, by blocks. The most recently used blocks are cached.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::object::{Object, Version};
use super::runtime::wait;
use crate::error::TransferError;

/// Bytes of a block.
const BLOCK_BYTES: u64 = 2 << 20;
/// Cached blocks. Several are needed because the columns of a row group are read in turns.
const BLOCKS: usize = 32;

/// An object in blocks. Clones share the cache.
#[derive(Clone)]
pub(crate) struct Blocks {
    object: Object,
    version: Version,
    pub(super) bytes: u64,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    /// Blocks by number, least recently used first.
    blocks: VecDeque<(u64, Bytes)>,
    failure: Option<TransferError>,
}

impl Blocks {
    pub(super) fn new(object: Object, version: Version, bytes: u64) -> Self {
        Self { object, version, bytes, kept: Arc::default() }
    }

    /// The first error.
    pub(super) fn failure(&self) -> Option<TransferError> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).failure.clone()
    }

    /// Reads from this offset on.
    pub(super) fn from(&self, at: u64) -> impl Read + 'static {
        Cursor { blocks: self.clone(), at }
    }

    fn block(&self, number: u64) -> Result<Bytes, TransferError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.blocks.iter().position(|(known, _)| *known == number)
            && let Some(found) = kept.blocks.remove(at)
        {
            kept.blocks.push_back(found.clone());
            return Ok(found.1);
        }
        let start = number * BLOCK_BYTES;
        let range = start..(start + BLOCK_BYTES).min(self.bytes);
        let (object, version) = (self.object.clone(), self.version.clone());
        let block = wait(async move { object.piece(&version, range).await }).inspect_err(|error| {
            kept.failure.get_or_insert_with(|| error.clone());
        })?;
        if kept.blocks.len() == BLOCKS {
            kept.blocks.pop_front();
        }
        kept.blocks.push_back((number, block.clone()));
        Ok(block)
    }
}

struct Cursor {
    blocks: Blocks,
    at: u64,
}

impl Read for Cursor {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.blocks.bytes || into.is_empty() {
            return Ok(0);
        }
        let block = self.blocks.block(self.at / BLOCK_BYTES)?;
        let rest = &block[(self.at % BLOCK_BYTES) as usize..];
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        self.at += length as u64;
        Ok(length)
    }
}
