//! The name space, in memory, with a journal of the changes that are not durable.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use fuser::{Errno, FileType};
use rustix::fs::FallocateFlags;

use super::content::{Content, PAGE};
use super::files::Files;
use super::{Forgotten, Keep};

pub(super) const ROOT: u64 = 1;
/// The maximum length of a name, as everywhere on Linux.
pub(super) const NAME_MAX: usize = 255;
/// With this bit, a new file in a folder gets the group of the folder.
const SET_GROUP: u32 = 0o2000;

type Result<T> = std::result::Result<T, Errno>;

/// What chmod(2), chown(2) and utimensat(2) change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    /// Permissions, without the file type.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) atime: SystemTime,
    pub(super) mtime: SystemTime,
}

#[derive(Debug)]
pub(super) enum Kind {
    File(Content),
    Folder {
        parent: u64,
        entries: BTreeMap<OsString, u64>,
    },
    Link(PathBuf),
    /// Pipes, sockets and devices: the kernel implements them.
    Other(FileType, u32),
}

impl Kind {
    pub(super) fn folder() -> Self {
        Self::Folder { parent: ROOT, entries: BTreeMap::new() }
    }

    pub(super) fn file_type(&self) -> FileType {
        match self {
            Self::File(_) => FileType::RegularFile,
            Self::Folder { .. } => FileType::Directory,
            Self::Link(_) => FileType::Symlink,
            Self::Other(file_type, _) => *file_type,
        }
    }
}

#[derive(Debug)]
pub(super) struct Inode {
    pub(super) kind: Kind,
    pub(super) attributes: Attributes,
    pub(super) ctime: SystemTime,
    /// Number of names that refer to it.
    pub(super) links: u32,
    /// Number of names that would refer to it again if the journal were undone.
    held: u32,
    /// How often it is open.
    handles: u32,
    /// The kernel's reference count (FUSE lookups).
    lookups: u64,
}

impl Inode {
    fn new(kind: Kind, attributes: Attributes) -> Self {
        Self { kind, attributes, ctime: attributes.mtime, links: 0, held: 0, handles: 0, lookups: 0 }
    }

    /// Whether no power cut can bring it back. Then no changes to it need to be tracked.
    fn is_doomed(&self) -> bool {
        self.links == 0 && self.held == 0
    }

    fn content(&mut self) -> Result<&mut Content> {
        match &mut self.kind {
            Kind::File(content) => Ok(content),
            Kind::Folder { .. } => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// The reverse of one change that is not durable.
#[derive(Debug)]
enum Undo {
    Entry { folder: u64, name: OsString, old: Option<u64> },
    Attributes { inode: u64, old: Attributes },
}

/// The file system.
#[derive(Debug)]
pub(super) struct Tree {
    inodes: HashMap<u64, Inode>,
    last: u64,
    /// The changes that are not durable, one operation after another.
    journal: Vec<Vec<Undo>>,
    pub(super) files: Files,
    pub(super) written: u64,
    pub(super) syncs: u64,
    /// Whether the disk is full, so that no file may grow.
    pub(super) full: bool,
}

impl Tree {
    /// An empty file system.
    pub(super) fn new(files: Files, root: Attributes) -> Self {
        let mut root = Inode::new(Kind::folder(), root);
        root.links = 1;
        Self {
            inodes: HashMap::from([(ROOT, root)]),
            last: ROOT,
            journal: Vec::new(),
            files,
            written: 0,
            syncs: 0,
            full: false,
        }
    }

    pub(super) fn inode(&self, inode: u64) -> Result<&Inode> {
        self.inodes.get(&inode).ok_or(Errno::ENOENT)
    }

    fn inode_mut(&mut self, inode: u64) -> Result<&mut Inode> {
        self.inodes.get_mut(&inode).ok_or(Errno::ENOENT)
    }

    fn entries(&self, folder: u64) -> Result<&BTreeMap<OsString, u64>> {
        match &self.inode(folder)?.kind {
            Kind::Folder { entries, .. } => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn entry(&self, folder: u64, name: &OsStr) -> Result<u64> {
        self.entries(folder)?.get(name).copied().ok_or(Errno::ENOENT)
    }

    fn is_folder(&self, inode: u64) -> bool {
        self.entries(inode).is_ok()
    }

    /// Bytes in changed pages that a power cut would lose now.
    #[cfg(test)]
    pub(super) fn unsynced(&self) -> u64 {
        let dirty = |inode: &Inode| match &inode.kind {
            Kind::File(content) if !inode.is_doomed() => content.dirty_bytes(),
            _ => 0,
        };
        self.inodes.values().map(dirty).sum()
    }

    // What the kernel knows and has open.

    /// The entry with this name. The kernel gets a reference to it.
    pub(super) fn lookup(&mut self, folder: u64, name: &OsStr) -> Result<u64> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let inode = self.entry(folder, name)?;
        self.inode_mut(inode)?.lookups += 1;
        Ok(inode)
    }

    pub(super) fn forget(&mut self, inode: u64, lookups: u64) {
        if let Ok(found) = self.inode_mut(inode) {
            found.lookups = found.lookups.saturating_sub(lookups);
            self.reap(inode);
        }
    }

    pub(super) fn open(&mut self, inode: u64) -> Result<()> {
        self.inode_mut(inode)?.handles += 1;
        Ok(())
    }

    pub(super) fn release(&mut self, inode: u64) {
        if let Ok(found) = self.inode_mut(inode) {
            found.handles = found.handles.saturating_sub(1);
            if found.handles == 0 {
                self.files.close(inode);
            }
            self.reap(inode);
        }
    }

    /// Drops all references and open handles of the kernel.
    fn disconnect(&mut self) {
        let all: Vec<u64> = self.inodes.keys().copied().collect();
        for inode in all {
            if let Ok(found) = self.inode_mut(inode) {
                found.handles = 0;
                found.lookups = 0;
            }
            self.files.close(inode);
            self.reap(inode);
        }
    }

    /// Removes an inode that nothing can refer to any more.
    fn reap(&mut self, inode: u64) {
        let Some(found) = self.inodes.get_mut(&inode).filter(|found| found.is_doomed()) else { return };
        if let Kind::File(content) = &mut found.kind {
            content.settle();
            if found.handles == 0 && found.lookups == 0 {
                self.files.remove(inode);
            }
        }
        if found.handles == 0 && found.lookups == 0 {
            self.inodes.remove(&inode);
        }
    }

    // Entries.

    /// Points a name to an inode, or removes it, and returns the previous inode.
    fn set_entry(&mut self, folder: u64, name: &OsStr, new: Option<u64>) -> Option<u64> {
        let Kind::Folder { entries, .. } = &mut self.inodes.get_mut(&folder)?.kind else { return None };
        let old = match new {
            Some(new) => entries.insert(name.to_owned(), new),
            None => entries.remove(name),
        };
        if let Some(new) = new.and_then(|new| self.inodes.get_mut(&new)) {
            new.links += 1;
            if let Kind::Folder { parent, .. } = &mut new.kind {
                *parent = folder;
            }
        }
        if let Some(old) = old.and_then(|old| self.inodes.get_mut(&old)) {
            old.links = old.links.saturating_sub(1);
        }
        old
    }

    /// Performs one operation, which a power cut undoes as a whole.
    fn change(&mut self, entries: &[(u64, &OsStr, Option<u64>)]) {
        let now = SystemTime::now();
        let mut undo = Vec::with_capacity(entries.len());
        for &(folder, name, new) in entries {
            let old = self.set_entry(folder, name, new);
            if let Ok(folder) = self.inode_mut(folder) {
                folder.attributes.mtime = now;
                folder.ctime = now;
            }
            for changed in [old, new].into_iter().flatten() {
                if let Ok(changed) = self.inode_mut(changed) {
                    changed.ctime = now;
                }
            }
            if let Some(old) = old.and_then(|old| self.inodes.get_mut(&old)) {
                old.held += 1;
            }
            undo.push(Undo::Entry { folder, name: name.to_owned(), old });
        }
        self.journal.push(undo);
    }

    /// The entries of the folder, after `.` and `..`.
    pub(super) fn list(&self, folder: u64) -> Result<Vec<(u64, FileType, OsString)>> {
        let Kind::Folder { parent, entries } = &self.inode(folder)?.kind else { return Err(Errno::ENOTDIR) };
        let kind = |inode: u64| self.inodes.get(&inode).map_or(FileType::RegularFile, |inode| inode.kind.file_type());
        let dots =
            [(folder, FileType::Directory, OsString::from(".")), (*parent, FileType::Directory, OsString::from(".."))];
        Ok(dots.into_iter().chain(entries.iter().map(|(name, &inode)| (inode, kind(inode), name.clone()))).collect())
    }

    /// Creates an inode and an entry for it. The kernel gets a reference to it.
    pub(super) fn make(
        &mut self,
        folder: u64,
        name: &OsStr,
        kind: Kind,
        mode: u32,
        (uid, mut gid): (u32, u32),
    ) -> Result<u64> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if self.entries(folder)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let above = self.inode(folder)?;
        if above.links == 0 {
            return Err(Errno::ENOENT);
        }
        let mut mode = mode & 0o7777;
        if above.attributes.mode & SET_GROUP != 0 {
            gid = above.attributes.gid;
            if matches!(kind, Kind::Folder { .. }) {
                mode |= SET_GROUP;
            }
        }
        let now = SystemTime::now();
        self.last += 1;
        let inode = self.last;
        let mut new = Inode::new(kind, Attributes { mode, uid, gid, atime: now, mtime: now });
        new.lookups = 1;
        self.inodes.insert(inode, new);
        self.change(&[(folder, name, Some(inode))]);
        Ok(inode)
    }

    pub(super) fn link(&mut self, inode: u64, folder: u64, name: &OsStr) -> Result<()> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if self.entries(folder)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        // A removed file may be gone after the cut, and so would be what is written to it.
        if self.inode(inode)?.links == 0 || self.inode(folder)?.links == 0 {
            return Err(Errno::ENOENT);
        }
        self.change(&[(folder, name, Some(inode))]);
        self.inode_mut(inode)?.lookups += 1;
        Ok(())
    }

    pub(super) fn unlink(&mut self, folder: u64, name: &OsStr) -> Result<()> {
        if self.is_folder(self.entry(folder, name)?) {
            return Err(Errno::EISDIR);
        }
        self.change(&[(folder, name, None)]);
        Ok(())
    }

    pub(super) fn rmdir(&mut self, folder: u64, name: &OsStr) -> Result<()> {
        if !self.entries(self.entry(folder, name)?)?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.change(&[(folder, name, None)]);
        Ok(())
    }

    /// The kernel checks that both types match, and that a folder does not move below itself.
    pub(super) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr), replace: bool) -> Result<()> {
        if to.1.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let inode = self.entry(from.0, from.1)?;
        if self.inode(to.0)?.links == 0 {
            return Err(Errno::ENOENT);
        }
        if let Some(&there) = self.entries(to.0)?.get(to.1) {
            if !replace {
                return Err(Errno::EEXIST);
            }
            if there == inode {
                return Ok(());
            }
            if self.entries(there).is_ok_and(|entries| !entries.is_empty()) {
                return Err(Errno::ENOTEMPTY);
            }
        }
        self.change(&[(from.0, from.1, None), (to.0, to.1, Some(inode))]);
        Ok(())
    }

    pub(super) fn exchange(&mut self, one: (u64, &OsStr), other: (u64, &OsStr)) -> Result<()> {
        let (first, second) = (self.entry(one.0, one.1)?, self.entry(other.0, other.1)?);
        if first != second {
            self.change(&[(one.0, one.1, Some(second)), (other.0, other.1, Some(first))]);
        }
        Ok(())
    }

    pub(super) fn set_attributes(&mut self, inode: u64, new: Attributes) -> Result<()> {
        let found = self.inode_mut(inode)?;
        found.ctime = SystemTime::now();
        let old = std::mem::replace(&mut found.attributes, new);
        if !found.is_doomed() {
            self.journal.push(vec![Undo::Attributes { inode, old }]);
        }
        Ok(())
    }

    // Content.

    pub(super) fn read(&mut self, inode: u64, at: u64, buffer: &mut [u8]) -> Result<usize> {
        let size = self.inode_mut(inode)?.content()?.size();
        let length = size.saturating_sub(at).min(buffer.len() as u64) as usize;
        if length > 0 {
            self.files.get(inode)?.read_exact_at(&mut buffer[..length], at)?;
        }
        Ok(length)
    }

    /// Changes the content of a file.
    fn alter(
        &mut self,
        inode: u64,
        what: impl FnOnce(&mut Content, &std::fs::File, bool) -> io::Result<()>,
    ) -> Result<()> {
        let found = self.inodes.get_mut(&inode).ok_or(Errno::ENOENT)?;
        let undoable = !found.is_doomed();
        let content = found.content()?;
        what(content, self.files.get(inode)?, undoable)?;
        let now = SystemTime::now();
        found.attributes.mtime = now;
        found.ctime = now;
        Ok(())
    }

    /// Whether a file may extend to this offset. Overwriting existing pages needs no space.
    fn room(&self, inode: u64, end: u64) -> Result<()> {
        match &self.inode(inode)?.kind {
            Kind::File(content) if self.full && end > content.size().next_multiple_of(PAGE) => Err(Errno::ENOSPC),
            _ => Ok(()),
        }
    }

    pub(super) fn write(&mut self, inode: u64, at: u64, data: &[u8]) -> Result<()> {
        self.room(inode, at + data.len() as u64)?;
        self.alter(inode, |content, file, undoable| content.write(file, at, data, undoable))?;
        self.written += data.len() as u64;
        Ok(())
    }

    pub(super) fn resize(&mut self, inode: u64, size: u64) -> Result<()> {
        self.alter(inode, |content, file, undoable| content.resize(file, size, undoable))
    }

    pub(super) fn allocate(&mut self, inode: u64, at: u64, length: u64, mode: FallocateFlags) -> Result<()> {
        self.room(inode, at + length)?;
        self.alter(inode, |content, file, undoable| content.allocate(file, at, length, mode, undoable))
    }

    // What is durable.

    /// Makes the content of this file durable, and all changes to names.
    pub(super) fn sync(&mut self, inode: u64) -> Result<()> {
        if let Kind::File(content) = &mut self.inode_mut(inode)?.kind {
            content.settle();
        }
        self.commit();
        Ok(())
    }

    /// Makes all changes to names durable.
    pub(super) fn commit(&mut self) {
        for undo in std::mem::take(&mut self.journal).into_iter().flatten() {
            if let Undo::Entry { old: Some(old), .. } = undo {
                self.let_go(old);
                self.reap(old);
            }
        }
    }

    /// Makes everything durable.
    pub(super) fn settle(&mut self) {
        self.commit();
        for inode in self.inodes.values_mut() {
            if let Kind::File(content) = &mut inode.kind {
                content.settle();
            }
        }
    }

    fn let_go(&mut self, inode: u64) {
        if let Ok(found) = self.inode_mut(inode) {
            found.held = found.held.saturating_sub(1);
        }
    }

    /// Cuts the power: undoes what is not durable.
    pub(super) fn cut(&mut self, keep: Keep) -> io::Result<Forgotten> {
        let mut dice = match keep {
            Keep::Nothing => None,
            Keep::Some(seed) => Some(fastrand::Rng::with_seed(seed)),
        };
        let stay = dice.as_mut().map_or(0, |dice| dice.usize(..=self.journal.len()));
        let lost = self.journal.split_off(stay);
        let mut forgotten = Forgotten { names: lost.len() as u64, ..Forgotten::default() };
        for undo in lost.into_iter().rev().flat_map(|operation| operation.into_iter().rev()) {
            match undo {
                Undo::Entry { folder, name, old } => {
                    self.set_entry(folder, &name, old);
                    if let Some(old) = old {
                        self.let_go(old);
                    }
                }
                Undo::Attributes { inode, old } => {
                    if let Ok(found) = self.inode_mut(inode) {
                        found.attributes = old;
                    }
                }
            }
        }
        // What survives is on the disk, and therefore durable.
        self.commit();
        // In the order of inode numbers, so that the same seed has the same effect.
        let mut dirty: Vec<u64> = Vec::new();
        for (&inode, found) in &self.inodes {
            match &found.kind {
                Kind::File(content) if content.is_dirty() => dirty.push(inode),
                _ => {}
            }
        }
        dirty.sort_unstable();
        for inode in dirty {
            let Some(found) = self.inodes.get_mut(&inode) else { continue };
            let doomed = found.is_doomed();
            let Ok(content) = found.content() else { continue };
            forgotten.files += 1;
            forgotten.bytes += match doomed {
                // It disappears as a whole.
                true => content.dirty_bytes(),
                false => content.forget(self.files.get(inode)?, dice.as_mut())?,
            };
        }
        self.disconnect();
        Ok(forgotten)
    }
}
