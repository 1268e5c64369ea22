//! Spools of keys and hashes that a copy wrote, on disk, one file per split.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::hash::{ODD, Odd, Seen};
use crate::error::TransferError;

/// The folder of spools. Its name contains the format version: other versions find no spools.
pub(crate) const FOLDER: &str = "written-2";

/// The path of a split's spool.
pub(crate) fn path(folder: &Path, split: u32) -> PathBuf {
    folder.join(FOLDER).join(format!("{split:05}"))
}

/// Deletes the spool of a split, if it exists.
pub(crate) fn remove(folder: &Path, split: u32) -> Result<(), TransferError> {
    let path = path(folder, split);
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(TransferError::write(&path, &e)),
        _ => Ok(()),
    }
}

/// Writes the spool of a split.
pub(crate) struct Spool {
    path: PathBuf,
    out: BufWriter<File>,
    /// The final name of a spool that is written under a temporary one.
    whole: Option<PathBuf>,
}

impl Spool {
    /// Creates a spool, replacing an existing one.
    pub(crate) fn create(folder: &Path, split: u32) -> Result<Self, TransferError> {
        Self::at(folder, path(folder, split), None)
    }

    /// Creates a spool that gets its name only when complete.
    pub(crate) fn begin(folder: &Path, split: u32) -> Result<Self, TransferError> {
        let whole = path(folder, split);
        Self::at(folder, whole.with_extension("part"), Some(whole))
    }

    fn at(folder: &Path, path: PathBuf, whole: Option<PathBuf>) -> Result<Self, TransferError> {
        let made = std::fs::create_dir_all(folder.join(FOLDER)).and_then(|()| File::create(&path));
        let out = BufWriter::with_capacity(1 << 16, made.map_err(|e| TransferError::write(&path, &e))?);
        Ok(Self { path, out, whole })
    }

    pub(crate) fn add(&mut self, key: &str, seen: Seen) -> Result<(), TransferError> {
        let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
        self.out
            .write_all(&length.to_le_bytes())
            .and_then(|()| self.out.write_all(key.as_bytes()))
            .and_then(|()| self.out.write_all(&seen.hash.to_le_bytes()))
            .and_then(|()| self.write_odd(seen.odd))
            .map_err(|e| TransferError::write(&self.path, &e))
    }

    /// Writes odd values. Most documents have none, which takes one byte.
    fn write_odd(&mut self, odd: Odd) -> io::Result<()> {
        if odd == Odd::default() {
            return self.out.write_all(&[0]);
        }
        self.out.write_all(&[1])?;
        odd.0.iter().try_for_each(|count| self.out.write_all(&count.to_le_bytes()))
    }

    /// Completes the spool, so that it survives a crash.
    pub(crate) fn end(mut self) -> Result<(), TransferError> {
        let ended = self.out.flush().and_then(|()| self.out.get_ref().sync_data());
        ended
            .and_then(|()| self.whole.as_ref().map_or(Ok(()), |whole| std::fs::rename(&self.path, whole)))
            .map_err(|e| TransferError::write(&self.path, &e))
    }
}

/// Reads the spool of a split.
pub(crate) struct Spooled {
    path: PathBuf,
    input: BufReader<File>,
    key: Vec<u8>,
}

impl Spooled {
    pub(crate) fn open(folder: &Path, split: u32) -> Result<Self, TransferError> {
        let path = path(folder, split);
        let input = File::open(&path).map_err(|e| Self::failed(&path, &e))?;
        Ok(Self { path, input: BufReader::with_capacity(1 << 18, input), key: Vec::new() })
    }

    fn failed(path: &Path, error: &io::Error) -> TransferError {
        TransferError::Target(format!(
            "{}: cannot read what was written, so it cannot be verified: {error}",
            path.display()
        ))
    }

    /// The next key, with its hash and odd values.
    pub(crate) fn next(&mut self) -> Result<Option<(&str, Seen)>, TransferError> {
        let Self { path, input, key } = self;
        let failed = |e: io::Error| Self::failed(path, &e);
        let mut length = [0; 4];
        match input.read(&mut length[..1]).map_err(failed)? {
            0 => return Ok(None),
            _ => input.read_exact(&mut length[1..]).map_err(failed)?,
        }
        key.resize(u32::from_le_bytes(length) as usize, 0);
        input.read_exact(key).map_err(failed)?;
        let (mut hash, mut is_odd, mut odd) = ([0; 16], [0], [[0; 4]; ODD]);
        input.read_exact(&mut hash).map_err(failed)?;
        input.read_exact(&mut is_odd).map_err(failed)?;
        if is_odd != [0] {
            input.read_exact(odd.as_flattened_mut()).map_err(failed)?;
        }
        let key = std::str::from_utf8(key).map_err(|e| failed(io::Error::other(e)))?;
        Ok(Some((key, Seen { hash: u128::from_le_bytes(hash), odd: Odd(odd.map(u32::from_le_bytes)) })))
    }
}
