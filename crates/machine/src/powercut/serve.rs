//! Answers the kernel's requests from the tree.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags};

use super::content::PAGE;
use super::tree::{Attributes, Kind, NAME_MAX, Tree};

/// How long the kernel may cache answers. Only its own requests change anything, and after a power cut the mount is
/// new.
const FOREVER: Duration = Duration::from_secs(1 << 30);
/// Maximum size of one write request.
const MAX_WRITE: u32 = 1 << 20;

/// State shared by all sessions.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) tree: Tree,
    /// The only session that gets answers. `None` means that the power is off.
    pub(super) session: Option<u64>,
}

/// A poisoned lock is safe to use: nothing panics in the middle of a change to the tree.
pub(super) fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One mount.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) shared: Arc<Mutex<Shared>>,
    pub(super) session: u64,
    /// The entries of each open folder, as they were when its reading began.
    listings: Mutex<Listings>,
    buffer: Mutex<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Listings {
    last: u64,
    open: std::collections::HashMap<u64, Vec<(u64, FileType, OsString)>>,
}

impl Tree {
    fn answer(&mut self, number: u64) -> Result<FileAttr, Errno> {
        let blocks = match self.inode(number)?.kind {
            Kind::File(_) => self.files.blocks(number),
            _ => 0,
        };
        let inode = self.inode(number)?;
        let (size, rdev) = match &inode.kind {
            Kind::File(content) => (content.size(), 0),
            Kind::Folder { .. } => (PAGE, 0),
            Kind::Link(target) => (target.as_os_str().len() as u64, 0),
            Kind::Other(_, device) => (0, *device),
        };
        let Attributes { mode, uid, gid, atime, mtime } = inode.attributes;
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks,
            atime,
            mtime,
            ctime: inode.ctime,
            crtime: inode.ctime,
            kind: inode.kind.file_type(),
            perm: (mode & 0o7777) as u16,
            nlink: inode.links,
            uid,
            gid,
            rdev,
            blksize: PAGE as u32,
            flags: 0,
        })
    }
}

impl Served {
    pub(super) fn new(shared: Arc<Mutex<Shared>>, session: u64) -> Self {
        Self { shared, session, listings: Mutex::default(), buffer: Mutex::default() }
    }

    /// Acts on the tree, if the power is on.
    fn with<T>(&self, act: impl FnOnce(&mut Tree) -> Result<T, Errno>) -> Result<T, Errno> {
        let mut shared = lock(&self.shared);
        if shared.session == Some(self.session) { act(&mut shared.tree) } else { Err(Errno::EIO) }
    }

    fn make(&self, request: &Request, folder: INodeNo, name: &OsStr, kind: Kind, mode: u32) -> Result<FileAttr, Errno> {
        self.with(|tree| {
            let inode = tree.make(folder.0, name, kind, mode, (request.uid(), request.gid()))?;
            tree.answer(inode)
        })
    }

    fn read_into(&self, buffer: &mut Vec<u8>, inode: INodeNo, at: u64, size: u32) -> Result<usize, Errno> {
        // The buffer never shrinks: zeroing it again would take as long as reading.
        if buffer.len() < size as usize {
            buffer.resize(size as usize, 0);
        }
        self.with(|tree| tree.read(inode.0, at, &mut buffer[..size as usize]))
    }
}

/// Replies with what was found, or with the error.
macro_rules! reply {
    ($reply:ident, $result:expr, $found:pat => $answer:expr) => {
        match $result {
            Ok($found) => $answer,
            Err(error) => $reply.error(error),
        }
    };
}

fn entry(reply: ReplyEntry, found: Result<FileAttr, Errno>) {
    reply!(reply, found, found => reply.entry(&FOREVER, &found, Generation(0)));
}

fn attributes(reply: ReplyAttr, found: Result<FileAttr, Errno>) {
    reply!(reply, found, found => reply.attr(&FOREVER, &found));
}

fn empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    reply!(reply, done, () => reply.ok());
}

fn file_type(mode: u32) -> FileType {
    match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        rustix::fs::FileType::Socket => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

// The kernel handles the missing requests itself (locks, access), or does without them (extended attributes, holes,
// copy_file_range). After one ENOSYS it does not send most of them again. `flush` is missing, too: close(2) syncs
// nothing.
impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.set_max_write(MAX_WRITE);
        // No write-back cache: data must arrive here before write(2) returns.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.with(|tree| {
            let inode = tree.lookup(parent.0, name)?;
            tree.answer(inode)
        });
        entry(reply, found);
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        // Without power, there is nothing to forget.
        let _ = self.with(|tree| {
            tree.forget(inode.0, lookups);
            Ok(())
        });
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes(reply, self.with(|tree| tree.answer(inode.0)));
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = self.with(|tree| {
            if let Some(size) = size {
                tree.resize(inode.0, size)?;
            }
            let mut new = tree.inode(inode.0)?.attributes;
            let time = |new: &mut SystemTime, given: Option<TimeOrNow>| match given {
                Some(TimeOrNow::SpecificTime(time)) => *new = time,
                Some(TimeOrNow::Now) => *new = SystemTime::now(),
                None => {}
            };
            time(&mut new.atime, atime);
            time(&mut new.mtime, mtime);
            new.mode = mode.map_or(new.mode, |mode| mode & 0o7777);
            new.uid = uid.unwrap_or(new.uid);
            new.gid = gid.unwrap_or(new.gid);
            let times = size.is_none() && (atime.is_some() || mtime.is_some());
            if times || mode.is_some() || uid.is_some() || gid.is_some() {
                tree.set_attributes(inode.0, new)?;
            }
            tree.answer(inode.0)
        });
        attributes(reply, set);
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        let target = self.with(|tree| match &tree.inode(inode.0)?.kind {
            Kind::Link(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        });
        reply!(reply, target, target => reply.data(target.as_os_str().as_encoded_bytes()));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let kind = match file_type(mode) {
            FileType::RegularFile => Kind::File(Default::default()),
            other => Kind::Other(other, device),
        };
        entry(reply, self.make(request, parent, name, kind, mode));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        entry(reply, self.make(request, parent, name, Kind::folder(), mode));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.with(|tree| tree.unlink(parent.0, name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.with(|tree| tree.rmdir(parent.0, name)));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        entry(reply, self.make(request, parent, name, Kind::Link(target.to_owned()), 0o777));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        let renamed = self.with(|tree| match flags {
            RenameFlags::RENAME_EXCHANGE => tree.exchange(from, to),
            RenameFlags::RENAME_NOREPLACE => tree.rename(from, to, false),
            flags if flags.is_empty() => tree.rename(from, to, true),
            _ => Err(Errno::EINVAL),
        });
        empty(reply, renamed);
    }

    fn link(&self, _: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.with(|tree| {
            tree.link(inode.0, parent.0, name)?;
            tree.answer(inode.0)
        });
        entry(reply, linked);
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.with(|tree| tree.open(inode.0));
        reply!(reply, opened, () => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE));
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        let created = self.with(|tree| {
            let kind = Kind::File(Default::default());
            let inode = tree.make(parent.0, name, kind, mode, (request.uid(), request.gid()))?;
            tree.open(inode)?;
            tree.answer(inode)
        });
        reply!(reply, created, found => {
            reply.created(&FOREVER, &found, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE)
        });
    }

    fn release(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let released = self.with(|tree| {
            tree.release(inode.0);
            Ok(())
        });
        empty(reply, released);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        at: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        reply!(reply, self.read_into(&mut buffer, inode, at, size), length => reply.data(&buffer[..length]));
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        at: u64,
        data: &[u8],
        write: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.with(|tree| {
            tree.write(inode.0, at, data)?;
            // Newer kernels request the sync themselves. A page that is written back may come through any handle.
            let synced = OFlags::from_bits_retain(flags.0.cast_unsigned()).intersects(OFlags::SYNC | OFlags::DSYNC);
            if synced && !write.contains(WriteFlags::FUSE_WRITE_CACHE) {
                tree.sync(inode.0)?;
            }
            Ok(())
        });
        reply!(reply, written, () => reply.written(data.len() as u32));
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.with(|tree| {
            tree.syncs += 1;
            tree.sync(inode.0)
        });
        empty(reply, synced);
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        at: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        empty(reply, self.with(|tree| tree.allocate(inode.0, at, length, mode)));
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.with(|tree| tree.open(inode.0));
        reply!(reply, opened, () => {
            let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
            listings.last += 1;
            reply.opened(FileHandle(listings.last), FopenFlags::empty());
        });
    }

    fn readdir(&self, _: &Request, inode: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let listing = self.with(|tree| match offset {
            // Reading from the beginning, also after rewinddir(3), takes a new listing.
            0 => Ok(Some(tree.list(inode.0)?)),
            _ => Ok(None),
        });
        match listing {
            Ok(Some(new)) => drop(listings.open.insert(handle.0, new)),
            Ok(None) => {}
            Err(error) => return reply.error(error),
        }
        let listing = listings.open.get(&handle.0).map_or(&[][..], Vec::as_slice);
        for (number, (inode, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*inode), number as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, inode: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).open.remove(&handle.0);
        let released = self.with(|tree| {
            tree.release(inode.0);
            Ok(())
        });
        empty(reply, released);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.with(|tree| {
            tree.syncs += 1;
            tree.commit();
            Ok(())
        });
        empty(reply, synced);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let found = self.with(|tree| {
            rustix::fs::statvfs(tree.files.folder()).map_err(|error| Errno::from_i32(error.raw_os_error()))
        });
        reply!(reply, found, found => reply.statfs(
            found.f_blocks,
            found.f_bfree,
            found.f_bavail,
            found.f_files,
            found.f_ffree,
            found.f_bsize as u32,
            NAME_MAX as u32,
            found.f_frsize as u32,
        ));
    }
}
