//! Storage backends for redb: a file that is synced only if the commit requires it, and a read-only file whose writes
//! stay in memory.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

thread_local! {
    static UNSYNCED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a write transaction, from its start through its commit. Its writes go to the operating system, but are not
/// synced.
///
/// redb has no such level: its commits are synced, or stay in the process's memory. It syncs at the commit, and also
/// whenever an insert makes the file grow. The writing thread does both, so the setting is thread-local.
pub(super) fn unsynced<T>(transaction: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            UNSYNCED.set(false);
        }
    }
    let _reset = Reset;
    UNSYNCED.set(true);
    transaction()
}

/// The file, synced unless the thread is in [`unsynced`].
#[derive(Debug)]
pub(super) struct SyncedOnDemand<B = FileBackend>(pub(super) B);

impl<B: StorageBackend> StorageBackend for SyncedOnDemand<B> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        if UNSYNCED.get() { Ok(()) } else { self.0.sync_data() }
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }
    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }
    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }
    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }
    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }
    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}

const PAGE: u64 = 4_096;

/// A file that is never changed. When redb opens a database that was not closed, it repairs it. Here the repair happens
/// in memory.
#[derive(Debug)]
pub(super) struct Overlay(Mutex<Layers>);

#[derive(Debug)]
struct Layers {
    file: File,
    file_len: u64,
    len: u64,
    pages: HashMap<u64, Box<[u8]>>,
}

impl Overlay {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self(Mutex::new(Layers { file, file_len: len, len, pages: HashMap::new() })))
    }

    fn layers(&self) -> MutexGuard<'_, Layers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layers {
    /// Reads from the file, and zeros after its end.
    fn read_file(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = self.file_len.saturating_sub(offset).min(out.len() as u64) as usize;
        if there > 0 {
            self.file.seek(SeekFrom::Start(offset))?;
            self.file.read_exact(&mut out[..there])?;
        }
        out[there..].fill(0);
        Ok(())
    }
}

/// Splits a range into pieces that each lie in one page. Gives page number, offset in the page, and position in the
/// range.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % PAGE) as usize;
        let size = (PAGE as usize - within).min(len - done);
        let range = done..done + size;
        done += size;
        Some((at / PAGE, within, range))
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.layers().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut layers = self.layers();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > layers.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, within, range) in pieces(offset, out.len()) {
            let size = range.len();
            match layers.pages.get(&page) {
                Some(bytes) => out[range].copy_from_slice(&bytes[within..within + size]),
                None => layers.read_file(page * PAGE + within as u64, &mut out[range])?,
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut layers = self.layers();
        if len < layers.len {
            // Truncated bytes must not reappear when the length grows again.
            layers.file_len = layers.file_len.min(len);
            layers.pages.retain(|page, _| page * PAGE < len);
            if let Some(bytes) = layers.pages.get_mut(&(len / PAGE)) {
                bytes[(len % PAGE) as usize..].fill(0);
            }
        }
        layers.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut layers = self.layers();
        for (page, within, range) in pieces(offset, data.len()) {
            if !layers.pages.contains_key(&page) {
                let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
                layers.read_file(page * PAGE, &mut bytes)?;
                layers.pages.insert(page, bytes);
            }
            if let Some(bytes) = layers.pages.get_mut(&page) {
                bytes[within..within + range.len()].copy_from_slice(&data[range]);
            }
        }
        layers.len = layers.len.max(offset + data.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_reads_what_was_written_and_leaves_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let original: Vec<u8> = (0..10_000_u32).map(|i| i as u8).collect();
        std::fs::write(file.path(), &original).unwrap();
        let overlay = Overlay::new(File::open(file.path()).unwrap()).unwrap();
        let mut expected = original.clone();
        for (offset, len) in [(0, 3), (4_090, 20), (8_191, 1_000), (9_990, 5_000)] {
            let data = vec![0xEE; len];
            overlay.write(offset, &data).unwrap();
            expected.resize(expected.len().max(offset as usize + len), 0);
            expected[offset as usize..offset as usize + len].copy_from_slice(&data);
        }
        overlay.set_len(4_100).unwrap();
        expected.truncate(4_100);
        overlay.set_len(12_000).unwrap();
        expected.resize(12_000, 0);
        let mut read = vec![1; expected.len()];
        overlay.read(0, &mut read).unwrap();
        assert!(read == expected);
        assert!(overlay.read(11_999, &mut [0; 2]).is_err());
        assert_eq!(std::fs::read(file.path()).unwrap(), original);
    }
}
