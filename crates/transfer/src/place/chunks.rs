//! Pieces from anywhere in a file, as Parquet is read.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use parquet::errors::Result;
use parquet::file::reader::{ChunkReader, Length};

use super::object::Blocks;
use crate::error::TransferError;

/// Gives pieces of a file.
#[derive(Clone)]
pub(crate) enum Chunks {
    Local(Arc<File>),
    Remote(Blocks),
}

impl Chunks {
    /// What went wrong, where it was the place's doing: Parquet only keeps texts of errors.
    pub(crate) fn failure(&self) -> Option<TransferError> {
        match self {
            Self::Local(_) => None,
            Self::Remote(blocks) => blocks.failure(),
        }
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        match self {
            Self::Local(file) => file.len(),
            Self::Remote(blocks) => blocks.bytes(),
        }
    }
}

impl ChunkReader for Chunks {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(match self {
            Self::Local(file) => Box::new(file.get_read(start)?),
            Self::Remote(blocks) => Box::new(blocks.from(start)),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes> {
        match self {
            Self::Local(file) => file.get_bytes(start, length),
            Self::Remote(blocks) => {
                let mut piece = Vec::with_capacity(length);
                let read = blocks.from(start).take(length as u64).read_to_end(&mut piece)?;
                if read < length {
                    return Err(parquet::errors::ParquetError::EOF(format!(
                        "{read} bytes of {length} from {start} on"
                    )));
                }
                Ok(piece.into())
            }
        }
    }
}
