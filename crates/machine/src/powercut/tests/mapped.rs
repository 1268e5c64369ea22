//! Files that are changed by way of a mapping.

use std::os::fd::AsFd;
use std::ptr;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

use super::*;

const SIZE: usize = 4 * 4096;

/// A mapped file. Unmapped when it is dropped, before the thread that serves it ends.
struct Mapped(*mut u8);

impl Mapped {
    fn new(file: impl AsFd) -> Self {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: it is mapped where nothing is.
        Self(unsafe { mmap(ptr::null_mut(), SIZE, protection, flags, file, 0) }.unwrap().cast())
    }

    fn set(&self, at: usize, byte: u8) {
        assert!(at < SIZE);
        // SAFETY: it lies in the mapping.
        unsafe { self.0.add(at).write_volatile(byte) }
    }

    fn sync(&self, flags: MsyncFlags) -> rustix::io::Result<()> {
        // SAFETY: it is the mapping.
        unsafe { msync(self.0.cast(), SIZE, flags) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it is the mapping, and nothing borrows from it.
        unsafe { munmap(self.0.cast(), SIZE) }.unwrap();
    }
}

#[test]
fn what_is_synced_of_a_mapping_stays() {
    let Some(place) = Place::new() else { return };
    place.write_synced("x", [1; SIZE]);
    let mapped = Mapped::new(place.open("x"));
    mapped.set(5000, 2);
    mapped.sync(MsyncFlags::SYNC).unwrap();
    mapped.set(9000, 3);
    place.sync("x");
    mapped.set(0, 4);
    assert_eq!(place.read("x")[0], 4);
    place.cut();
    drop(mapped);
    let left = place.read("x");
    assert_eq!((left[0], left[5000], left[9000], left.len()), (1, 2, 3, SIZE));
}

#[test]
fn what_is_written_back_of_a_mapping_and_not_synced_is_forgotten() {
    let Some(place) = Place::new() else { return };
    place.write_synced("x", [1; SIZE]);
    let mapped = Mapped::new(place.open("x"));
    mapped.set(5000, 2);
    mapped.sync(MsyncFlags::ASYNC).unwrap();
    drop(mapped);
    assert_eq!(place.read("x")[5000], 2);
    assert_eq!(place.fs.used().unsynced, 4096, "it has arrived");
    assert_eq!(place.cut(), Forgotten { files: 1, bytes: 4096, names: 0 });
    assert_eq!(place.read("x"), [1; SIZE]);
}

#[test]
fn what_arrives_of_a_mapping_after_the_cut_is_not_taken() {
    let Some(place) = Place::new() else { return };
    place.write_synced("x", [1; SIZE]);
    let mapped = Mapped::new(place.open("x"));
    mapped.set(5000, 2);
    let off = place.fs.power_off();
    assert!(mapped.sync(MsyncFlags::SYNC).is_err());
    drop(mapped);
    assert_eq!(off.power_on(Keep::Nothing).unwrap(), Forgotten::default());
    assert_eq!(place.read("x"), [1; SIZE]);
}
