//! The content of one file, and what is needed to undo unsynced changes to it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use fastrand::Rng;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

/// The unit in which changes are tracked. Most kernels use the same page size, but nothing depends on it.
pub(super) const PAGE: u64 = 4096;
/// How many pages are read at once: as many as one write request of the kernel holds.
const RUN: u64 = 256;

type Page = Box<[u8; PAGE as usize]>;

/// The state of a file's content, except for the bytes, which are in its backing file.
///
/// `undo` holds every page that has changed since the last sync, with its content at that time. `None` means that it
/// held zeros or was beyond the end. A page that is not in `undo` is unchanged.
#[derive(Debug, Default)]
pub(super) struct Content {
    size: u64,
    /// The size at the last sync.
    durable: u64,
    /// The smallest size since the last sync, including `durable`.
    lowest: u64,
    undo: BTreeMap<u64, Option<Page>>,
}

/// The number of pages that hold this many bytes.
fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE)
}

/// Reads a part of the file; everything beyond its end is zeros.
fn read_zeros(file: &File, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, at) {
            Ok(0) => {
                buffer.fill(0);
                break;
            }
            Ok(read) => {
                buffer = &mut buffer[read..];
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether it has changed since the last sync.
    pub(super) fn is_dirty(&self) -> bool {
        !self.undo.is_empty() || self.size != self.durable
    }

    /// Bytes in pages that have changed since the last sync.
    pub(super) fn dirty_bytes(&self) -> u64 {
        self.undo.len() as u64 * PAGE
    }

    /// Makes the current content durable.
    pub(super) fn settle(&mut self) {
        self.undo.clear();
        self.durable = self.size;
        self.lowest = self.size;
    }

    /// Saves the content that the pages of these bytes had at the last sync.
    fn remember(&mut self, file: &File, from: u64, to: u64) -> io::Result<()> {
        let last = pages(to);
        let known = last.min(pages(self.durable));
        let mut page = from / PAGE;
        let mut buffer = Vec::new();
        while page < known {
            if self.undo.contains_key(&page) {
                page += 1;
                continue;
            }
            let mut end = page + 1;
            while end < known && end - page < RUN && !self.undo.contains_key(&end) {
                end += 1;
            }
            buffer.resize(((end - page) * PAGE) as usize, 0);
            read_zeros(file, &mut buffer, page * PAGE)?;
            let (chunks, _) = buffer.as_chunks::<{ PAGE as usize }>();
            for (number, old) in (page..end).zip(chunks) {
                let zeros = old.iter().all(|&byte| byte == 0);
                self.undo.insert(number, (!zeros).then(|| Box::new(*old)));
            }
            page = end;
        }
        for page in page..last {
            self.undo.entry(page).or_insert(None);
        }
        Ok(())
    }

    /// Like `remember`, for a range that becomes zeros. It skips holes, because a file may have large ones.
    fn remember_data(&mut self, file: &File, from: u64, to: u64) -> io::Result<()> {
        let to = to.min(self.durable).min(self.size);
        let mut at = from;
        while at < to {
            let start = match seek(file, SeekFrom::Data(at)) {
                Ok(start) => start.max(at),
                Err(Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            };
            let end = seek(file, SeekFrom::Hole(start))?.min(to);
            if start >= end {
                break;
            }
            self.remember(file, start, end)?;
            at = end;
        }
        Ok(())
    }

    /// Writes data. With `undoable`, the write can be undone.
    pub(super) fn write(&mut self, file: &File, at: u64, data: &[u8], undoable: bool) -> io::Result<()> {
        let end = at + data.len() as u64;
        if undoable {
            self.remember(file, at, end)?;
        }
        if let Err(error) = file.write_all_at(data, at) {
            // Nothing may remain beyond the size: it would become visible when the file grows.
            let _ = file.set_len(self.size);
            return Err(error);
        }
        self.size = self.size.max(end);
        Ok(())
    }

    /// Truncates or extends the file.
    pub(super) fn resize(&mut self, file: &File, size: u64, undoable: bool) -> io::Result<()> {
        if size < self.size {
            if undoable {
                self.remember_data(file, size, self.size)?;
            }
            // Pages that did not exist at the last sync and no longer exist.
            drop(self.undo.split_off(&pages(size).max(pages(self.durable))));
        }
        file.set_len(size)?;
        self.size = size;
        self.lowest = self.lowest.min(size);
        Ok(())
    }

    /// Implements fallocate(2).
    pub(super) fn allocate(
        &mut self,
        file: &File,
        at: u64,
        length: u64,
        mode: FallocateFlags,
        undoable: bool,
    ) -> io::Result<()> {
        let zeros = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !(zeros | FallocateFlags::KEEP_SIZE).contains(mode) {
            return Err(Errno::OPNOTSUPP.into());
        }
        if undoable && mode.intersects(zeros) {
            self.remember_data(file, at, at + length)?;
        }
        fallocate(file, mode, at, length)?;
        if !mode.contains(FallocateFlags::KEEP_SIZE) {
            self.size = self.size.max(at + length);
        }
        Ok(())
    }

    /// Undoes unsynced changes. With dice, a random part of the changed pages and of the size changes survives. Returns
    /// how many bytes were lost, in whole pages.
    pub(super) fn forget(&mut self, file: &File, dice: Option<&mut Rng>) -> io::Result<u64> {
        let mut size = self.durable;
        // Content beyond this offset is not from the last sync.
        let mut base = self.durable;
        let mut undo = std::mem::take(&mut self.undo);
        if let Some(dice) = dice {
            // If a truncation is lost, so is everything written beyond it since.
            let lost_cut = self.lowest < self.durable && dice.bool();
            let end = if lost_cut { self.lowest / PAGE } else { u64::MAX };
            if !lost_cut {
                base = self.lowest;
                size = if dice.bool() { self.size } else { self.lowest };
            }
            undo.retain(|&page, _| {
                let stays = page < end && dice.bool();
                if stays {
                    size = size.max(self.size.min((page + 1) * PAGE));
                }
                !stays
            });
        }
        let forgotten = undo.len() as u64 * PAGE;
        for (page, old) in undo {
            let at = page * PAGE;
            if at >= size {
                continue;
            }
            let mut then = old.unwrap_or_else(|| Box::new([0; PAGE as usize]));
            then[base.saturating_sub(at).min(PAGE) as usize..].fill(0);
            file.write_all_at(&then[..], at)?;
        }
        file.set_len(size)?;
        self.size = size;
        self.settle();
        Ok(forgotten)
    }
}

/// Whether a file may look like this after losing a part of its changes, page by page. `lowest` is its smallest size
/// since the last sync.
#[cfg(test)]
pub(super) fn may_become(durable: &[u8], live: &[u8], lowest: usize, left: &[u8]) -> bool {
    let byte = |bytes: &[u8], end: usize, at: usize| if at < end { bytes.get(at).copied().unwrap_or(0) } else { 0 };
    let fits = |end: usize, changed_to: usize| {
        left.chunks(PAGE as usize).enumerate().all(|(page, left)| {
            let from = page * PAGE as usize;
            let same =
                |bytes: &[u8], end: usize| left.iter().enumerate().all(|(i, &is)| is == byte(bytes, end, from + i));
            same(durable, end) || (page < changed_to && same(live, usize::MAX))
        })
    };
    // Either the truncation was lost, with everything after it, or it took effect.
    let lost_cut = left.len() == durable.len() && fits(usize::MAX, lowest / PAGE as usize);
    lost_cut || (left.len() >= lowest && left.len() <= live.len() && fits(lowest, usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn bytes(file: &File, content: &Content) -> Vec<u8> {
        assert_eq!(file.metadata().unwrap().len(), content.size());
        let mut all = vec![0; content.size() as usize];
        file.read_exact_at(&mut all, 0).unwrap();
        all
    }

    fn random(content: &mut Content, file: &File, dice: &mut Rng, live: &mut Vec<u8>) {
        let at = dice.u64(..6 * PAGE);
        let length = 1 + dice.u64(..2 * PAGE);
        match dice.u64(..5) {
            0..=2 => {
                let data = vec![1 + dice.u64(..255) as u8; length as usize];
                content.write(file, at, &data, true).unwrap();
                live.resize(live.len().max((at + length) as usize), 0);
                live[at as usize..(at + length) as usize].copy_from_slice(&data);
            }
            3 => {
                content.resize(file, at, true).unwrap();
                live.resize(at as usize, 0);
            }
            _ => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                content.allocate(file, at, length, mode, true).unwrap();
                let end = live.len().min((at + length) as usize);
                live.get_mut(at as usize..end).into_iter().for_each(|hole| hole.fill(0));
            }
        }
        assert_eq!(bytes(file, content), *live);
    }

    fn new_file() -> File {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        fs::OpenOptions::new().read(true).write(true).create_new(true).open(folder.path().join("x")).unwrap()
    }

    #[test]
    fn whatever_is_done_is_forgotten() {
        let (file, mut content, mut dice) = (new_file(), Content::default(), Rng::with_seed(1));
        let (mut live, mut durable) = (Vec::new(), Vec::new());
        for _ in 0..3000 {
            match dice.u64(..8) {
                0 => {
                    content.settle();
                    durable.clone_from(&live);
                }
                1 => {
                    content.forget(&file, None).unwrap();
                    live.clone_from(&durable);
                    assert_eq!(bytes(&file, &content), durable);
                }
                _ => random(&mut content, &file, &mut dice, &mut live),
            }
        }
    }

    #[test]
    fn of_what_was_not_synced_a_part_stays() {
        let (file, mut content, mut dice) = (new_file(), Content::default(), Rng::with_seed(2));
        let mut live = Vec::new();
        let (mut old, mut new, mut between) = (0, 0, 0);
        for _ in 0..1000 {
            for _ in 0..dice.u64(..4) {
                random(&mut content, &file, &mut dice, &mut live);
            }
            content.settle();
            let durable = live.clone();
            for _ in 0..dice.u64(..4) {
                random(&mut content, &file, &mut dice, &mut live);
            }
            let lowest = content.lowest as usize;
            content.forget(&file, Some(&mut dice)).unwrap();
            let left = bytes(&file, &content);
            assert!(may_become(&durable, &live, lowest, &left));
            *(if left == durable {
                &mut old
            } else if left == live {
                &mut new
            } else {
                &mut between
            }) += 1;
            live = left;
        }
        assert!(old > 50 && new > 50 && between > 50, "{old} {new} {between}");
    }

    #[test]
    fn what_is_written_again_and_again_is_remembered_once() {
        let (file, mut content) = (new_file(), Content::default());
        content.write(&file, 0, &[1; 10_000], true).unwrap();
        content.settle();
        for _ in 0..10 {
            content.write(&file, 5000, &[2; 100], true).unwrap();
            content.write(&file, 20_000, &[2; 100], true).unwrap();
        }
        assert_eq!(content.dirty_bytes(), 2 * PAGE);
        content.resize(&file, 10_000, true).unwrap();
        assert_eq!(content.dirty_bytes(), PAGE, "a page beyond the end both then and now needs no undo");
        assert!(content.is_dirty());
        content.forget(&file, None).unwrap();
        assert!(!content.is_dirty());
        assert_eq!(bytes(&file, &content), [1; 10_000]);
    }

    #[test]
    fn a_hole_of_a_terabyte_is_cut_off_at_once() {
        let (file, mut content) = (new_file(), Content::default());
        content.resize(&file, 1 << 40, true).unwrap();
        content.write(&file, 1 << 39, b"x", true).unwrap();
        content.settle();
        content.resize(&file, 0, true).unwrap();
        assert_eq!(content.dirty_bytes(), PAGE);
        content.forget(&file, None).unwrap();
        assert_eq!(content.size(), 1 << 40);
        let mut byte = [0];
        file.read_exact_at(&mut byte, 1 << 39).unwrap();
        assert_eq!(byte, *b"x");
    }
}
