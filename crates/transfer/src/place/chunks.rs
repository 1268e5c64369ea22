//! Random access to a file, for Parquet and Arrow.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use parquet::errors::Result;
use parquet::file::reader::{ChunkReader, Length};

#[cfg(feature = "remote")]
use super::object::Blocks;
use crate::error::TransferError;

/// Random access to a file.
#[derive(Clone)]
pub(crate) enum Chunks {
    Local(Arc<File>),
    #[cfg(feature = "remote")]
    Remote(Box<Blocks>),
}

impl Chunks {
    /// The error of the place where the file is, if that failed. Parquet keeps only the text of errors.
    pub(crate) fn failure(&self) -> Option<TransferError> {
        match self {
            Self::Local(_) => None,
            #[cfg(feature = "remote")]
            Self::Remote(blocks) => blocks.failure(),
        }
    }

    /// The same file as a seekable reader.
    pub(crate) fn seekable(&self) -> Seekable {
        Seekable { chunks: self.clone(), at: 0, input: None }
    }
}

/// A file with a read position that can be moved.
pub(crate) struct Seekable {
    chunks: Chunks,
    at: u64,
    /// Reads on from `at`; `None` until the first read at that position.
    input: Option<Box<dyn Read>>,
}

impl Read for Seekable {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let input = match &mut self.input {
            Some(input) => input,
            None => self.input.insert(self.chunks.get_read(self.at).map_err(io::Error::other)?),
        };
        let read = input.read(into)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Seekable {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.chunks.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        let at = at.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "before the beginning of the file"))?;
        if at != self.at {
            self.input = None;
        }
        self.at = at;
        Ok(at)
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        match self {
            Self::Local(file) => file.len(),
            #[cfg(feature = "remote")]
            Self::Remote(blocks) => blocks.bytes,
        }
    }
}

impl ChunkReader for Chunks {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(match self {
            Self::Local(file) => Box::new(file.get_read(start)?),
            #[cfg(feature = "remote")]
            Self::Remote(blocks) => Box::new(blocks.from(start)),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes> {
        match self {
            Self::Local(file) => file.get_bytes(start, length),
            #[cfg(feature = "remote")]
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
