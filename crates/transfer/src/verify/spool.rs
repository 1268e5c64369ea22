//! Spools of keys and hashes that a copy wrote, on disk, one file per split.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::hash::{ODD, Odd, Seen};
use crate::error::TransferError;

/// The folder of spools. Its name contains the format version: other versions find no spools.
pub(crate) const FOLDER: &str = "written-3";

/// Bits of the byte after a record's hash.
const ODD_FOLLOWS: u8 = 1;
const EXPIRY_FOLLOWS: u8 = 2;

/// A record that was written.
pub(crate) struct Written<'a> {
    pub(crate) key: &'a str,
    pub(crate) seen: Seen,
    /// When it may have expired, in seconds since 1970.
    pub(crate) gone_s: Option<i64>,
}

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

    /// Adds a record. `gone` is when it may have expired.
    pub(crate) fn add(&mut self, key: &str, seen: Seen, gone: Option<Timestamp>) -> Result<(), TransferError> {
        let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
        self.out
            .write_all(&length.to_le_bytes())
            .and_then(|()| self.out.write_all(key.as_bytes()))
            .and_then(|()| self.out.write_all(&seen.hash.to_le_bytes()))
            .and_then(|()| self.write_rest(seen.odd, gone))
            .map_err(|e| TransferError::write(&self.path, &e))
    }

    /// Writes odd values and the expiry. Most documents have neither, which takes one byte.
    fn write_rest(&mut self, odd: Odd, gone: Option<Timestamp>) -> io::Result<()> {
        let is_odd = odd != Odd::default();
        self.out.write_all(&[u8::from(is_odd) * ODD_FOLLOWS + u8::from(gone.is_some()) * EXPIRY_FOLLOWS])?;
        if is_odd {
            odd.0.iter().try_for_each(|count| self.out.write_all(&count.to_le_bytes()))?;
        }
        gone.map_or(Ok(()), |gone| self.out.write_all(&gone.as_second().to_le_bytes()))
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

    /// The next record.
    pub(crate) fn next(&mut self) -> Result<Option<Written<'_>>, TransferError> {
        let Self { path, input, key } = self;
        let failed = |e: io::Error| Self::failed(path, &e);
        let mut length = [0; 4];
        match input.read(&mut length[..1]).map_err(failed)? {
            0 => return Ok(None),
            _ => input.read_exact(&mut length[1..]).map_err(failed)?,
        }
        key.resize(u32::from_le_bytes(length) as usize, 0);
        input.read_exact(key).map_err(failed)?;
        let (mut hash, mut follows, mut odd, mut gone) = ([0; 16], [0], [[0; 4]; ODD], [0; 8]);
        input.read_exact(&mut hash).map_err(failed)?;
        input.read_exact(&mut follows).map_err(failed)?;
        if follows[0] & ODD_FOLLOWS > 0 {
            input.read_exact(odd.as_flattened_mut()).map_err(failed)?;
        }
        let expires = follows[0] & EXPIRY_FOLLOWS > 0;
        if expires {
            input.read_exact(&mut gone).map_err(failed)?;
        }
        let key = std::str::from_utf8(key).map_err(|e| failed(io::Error::other(e)))?;
        let seen = Seen { hash: u128::from_le_bytes(hash), odd: Odd(odd.map(u32::from_le_bytes)) };
        Ok(Some(Written { key, seen, gone_s: expires.then(|| i64::from_le_bytes(gone)) }))
    }
}
