//! What a power cut loses, on real mounts.

mod mapped;
mod random;
mod servers;

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{
    FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink,
};
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::*;
use crate::testing::here;

/// What was done so far.
struct PowerCutUse {
    written: u64,
    /// Of files and folders.
    syncs: u64,
    /// Bytes in pages that were changed and not synced. A power cut would lose them now.
    unsynced: u64,
}

impl PowerCut {
    fn used(&self) -> PowerCutUse {
        let tree = &lock(&self.shared).tree;
        PowerCutUse { written: tree.written, syncs: tree.syncs, unsynced: tree.unsynced() }
    }
}

/// A mounted file system in its own folder.
struct TestMount {
    fs: PowerCut,
    /// Dropped last.
    folder: tempfile::TempDir,
}

impl TestMount {
    /// `None` if the machine does not support it; the test then counts as skipped.
    fn new() -> Option<Self> {
        if !here(PowerCut::available()) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let fs = PowerCut::mount(&folder.path().join("at"), &folder.path().join("backing")).unwrap();
        Some(Self { fs, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.fs.at().join(name)
    }

    fn cut(&self) -> Forgotten {
        self.fs.power_off().power_on(Keep::Nothing).unwrap()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    fn sync(&self, name: &str) {
        File::open(self.path(name)).unwrap().sync_all().unwrap();
    }

    fn write_synced(&self, name: &str, content: impl AsRef<[u8]>) {
        self.write(name, content);
        self.sync(name);
    }

    fn names(&self) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(self.fs.at()).unwrap().map(name).collect();
        names.sort();
        names
    }

    fn open(&self, name: &str) -> File {
        OpenOptions::new().read(true).write(true).open(self.path(name)).unwrap()
    }

    fn backing_files(&self) -> usize {
        fs::read_dir(self.folder.path().join("backing")).unwrap().count() - 1
    }
}

#[test]
fn what_was_synced_stays_and_what_was_not_is_forgotten() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("synced", "one");
    place.write("not", "two");
    place.write("synced", "three");
    assert_eq!(place.read("synced"), b"three");
    let forgotten = place.cut();
    assert_eq!(place.read("synced"), b"one");
    assert_eq!(place.names(), ["synced"]);
    assert_eq!((forgotten.files, forgotten.names), (2, 1));
    assert_eq!(place.cut(), Forgotten::default());
    // Later data is synced as before.
    place.write_synced("synced", "four");
    place.cut();
    assert_eq!(place.read("synced"), b"four");
}

#[test]
fn on_a_full_disk_nothing_grows_and_what_is_there_stays() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("a", "one");
    place.fs.full(true);
    let file = place.open("a");
    file.write_all_at(b"two", 0).unwrap();
    let error = file.write_all_at(b"more", 1 << 20).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    assert_eq!(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20), Err(rustix::io::Errno::NOSPC));
    let new = File::create(place.path("b")).unwrap();
    assert!(new.write_all_at(b"x", 0).is_err());
    file.sync_all().unwrap();
    place.fs.full(false);
    new.write_all_at(b"x", 0).unwrap();
    place.cut();
    assert_eq!(place.read("a"), b"two");
}

#[test]
fn a_sync_of_one_file_makes_the_names_of_all_durable_and_its_own_content() {
    let Some(place) = TestMount::new() else { return };
    place.write("a", "content of a");
    place.write_synced("b", "content of b");
    place.write("c", "content of c");
    let forgotten = place.cut();
    assert_eq!(place.names(), ["a", "b"]);
    assert_eq!(place.read("a"), b"");
    assert_eq!(place.read("b"), b"content of b");
    assert_eq!((forgotten.files, forgotten.names), (2, 1));
}

#[test]
fn a_sync_of_a_folder_makes_names_durable_alone() {
    let Some(place) = TestMount::new() else { return };
    fs::create_dir(place.path("folder")).unwrap();
    place.write("folder/a", "content");
    File::open(place.path("folder")).unwrap().sync_all().unwrap();
    place.write("folder/b", "content");
    place.cut();
    assert_eq!(place.read("folder/a"), b"");
    assert!(!place.path("folder/b").exists());
}

#[test]
fn an_append_leaves_the_last_page_as_it_was() {
    let Some(place) = TestMount::new() else { return };
    let start: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
    place.write_synced("log", &start);
    let mut log = OpenOptions::new().append(true).open(place.path("log")).unwrap();
    log.write_all(&[7; 20_000]).unwrap();
    drop(log);
    assert_eq!(place.fs.used().unsynced, 6 * 4096);
    let forgotten = place.cut();
    assert_eq!(place.read("log"), start);
    assert_eq!(forgotten, Forgotten { files: 1, bytes: 6 * 4096, names: 0 });
}

#[test]
fn a_file_that_was_cut_off_or_made_longer_is_as_before() {
    let Some(place) = TestMount::new() else { return };
    let start: Vec<u8> = (0..20_000u32).map(|i| (i / 3) as u8).collect();
    for size in [0, 1, 4096, 5000, 19_999, 20_000, 100_000] {
        place.write_synced("x", &start);
        place.open("x").set_len(size).unwrap();
        assert_eq!(fs::metadata(place.path("x")).unwrap().len(), size);
        place.cut();
        assert_eq!(place.read("x"), start, "{size}");
        // And with a write after it.
        place.open("x").set_len(size).unwrap();
        place.open("x").write_all_at(&[1; 3000], 3000).unwrap();
        place.cut();
        assert_eq!(place.read("x"), start, "{size}");
        place.open("x").set_len(size).unwrap();
        place.sync("x");
        place.cut();
        let mut expected = start.clone();
        expected.resize(size as usize, 0);
        assert_eq!(place.read("x"), expected, "{size}");
    }
    // O_TRUNC.
    place.write_synced("x", &start);
    File::create(place.path("x")).unwrap();
    place.sync(".");
    place.cut();
    assert_eq!(place.read("x"), start);
}

#[test]
fn space_that_is_taken_ahead_and_holes_are_content_too() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", [1; 20_000]);
    let file = place.open("x");
    fallocate(&file, FallocateFlags::empty(), 0, 50_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 50_000);
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 1000, 9000).unwrap();
    let mut found = vec![1; 50_000];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found[1000..10_000].iter().chain(&found[20_000..]).all(|&byte| byte == 0));
    place.cut();
    assert_eq!(place.read("x"), [1; 20_000]);
    let file = place.open("x");
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    assert!(file.metadata().unwrap().blocks() >= 2048);
    assert!(fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096).is_err());
    assert_eq!(place.read("x"), [1; 20_000]);
}

#[test]
fn a_file_that_replaces_another_is_there_with_the_sync_and_not_before() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", "old");
    for synced in [false, true] {
        place.write_synced("new", "new");
        fs::rename(place.path("new"), place.path("x")).unwrap();
        assert_eq!((place.names(), place.read("x")), (vec!["x".to_owned()], b"new".to_vec()));
        if synced {
            place.sync(".");
            place.cut();
            assert_eq!((place.names(), place.read("x")), (vec!["x".to_owned()], b"new".to_vec()));
        } else {
            assert_eq!(place.cut().names, 1);
            assert_eq!((place.read("new"), place.read("x")), (b"new".to_vec(), b"old".to_vec()));
        }
    }
    // There and back again.
    place.write_synced("y", "y");
    fs::rename(place.path("y"), place.path("z")).unwrap();
    fs::rename(place.path("z"), place.path("y")).unwrap();
    fs::rename(place.path("y"), place.path("x")).unwrap();
    assert_eq!(place.cut().names, 3);
    assert_eq!((place.read("x"), place.read("y")), (b"new".to_vec(), b"y".to_vec()));
    assert_eq!(place.names(), ["x", "y"]);
}

#[test]
fn a_rename_without_a_sync_of_the_new_file_leaves_it_empty() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", "old");
    place.write("new", "new");
    fs::rename(place.path("new"), place.path("x")).unwrap();
    place.sync(".");
    place.cut();
    assert_eq!(place.read("x"), b"");
}

#[test]
fn names_are_exchanged_and_not_replaced_where_that_is_asked_for() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let Some(place) = TestMount::new() else { return };
    fs::create_dir(place.path("folder")).unwrap();
    place.write("folder/x", "below");
    place.write("x", "file");
    place.fs.settle().unwrap();
    let (file, folder) = (place.path("x"), place.path("folder"));
    assert!(renameat_with(CWD, &file, CWD, place.path("folder/x"), RenameFlags::NOREPLACE).is_err());
    renameat_with(CWD, &file, CWD, &folder, RenameFlags::EXCHANGE).unwrap();
    assert_eq!((place.read("x/x"), place.read("folder")), (b"below".to_vec(), b"file".to_vec()));
    assert_eq!(place.cut().names, 1);
    assert_eq!((place.read("folder/x"), place.read("x")), (b"below".to_vec(), b"file".to_vec()));
}

#[test]
fn a_removed_file_comes_back_with_what_was_synced() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", "synced");
    place.write("x", "not");
    fs::remove_file(place.path("x")).unwrap();
    assert_eq!(place.cut().names, 1);
    assert_eq!(place.read("x"), b"synced");
    fs::remove_file(place.path("x")).unwrap();
    place.sync(".");
    place.cut();
    assert!(place.names().is_empty());
    assert_eq!(place.backing_files(), 0);
}

#[test]
fn a_removed_file_that_is_open_can_be_used() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", "synced");
    let mut file = place.open("x");
    fs::remove_file(place.path("x")).unwrap();
    file.write_all(b"after").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), file.metadata().unwrap().nlink()), ("afterd", 0));
    // The sync makes the removal durable, so nothing is left to lose.
    file.sync_all().unwrap();
    file.write_all(&[0; 100_000]).unwrap();
    assert_eq!(place.fs.used().unsynced, 0);
    assert_eq!(place.backing_files(), 1);
    drop(file);
    // The kernel reports the release of a file some time after its close.
    for _ in 0..1000 {
        if place.backing_files() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(place.backing_files(), 0);
    place.cut();
    assert!(place.names().is_empty());
}

#[test]
fn links_lead_to_one_content() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("a", "one");
    fs::hard_link(place.path("a"), place.path("b")).unwrap();
    assert_eq!(fs::metadata(place.path("a")).unwrap().nlink(), 2);
    assert_eq!(place.cut().names, 1);
    assert_eq!(place.names(), ["a"]);
    assert_eq!(fs::metadata(place.path("a")).unwrap().nlink(), 1);
    fs::hard_link(place.path("a"), place.path("b")).unwrap();
    place.sync("b");
    place.write("b", "two");
    fs::remove_file(place.path("a")).unwrap();
    place.cut();
    assert_eq!((place.read("a"), place.read("b")), (b"one".to_vec(), b"one".to_vec()));
    assert_eq!(fs::metadata(place.path("a")).unwrap().ino(), fs::metadata(place.path("b")).unwrap().ino());
    symlink("b", place.path("soft")).unwrap();
    assert_eq!(place.read("soft"), b"one");
    place.sync("soft");
    symlink("b", place.path("softer")).unwrap();
    place.cut();
    assert_eq!(place.names(), ["a", "b", "soft"]);
    assert_eq!(fs::read_link(place.path("soft")).unwrap(), PathBuf::from("b"));
}

#[test]
fn a_folder_is_renamed_with_all_that_is_in_it() {
    let Some(place) = TestMount::new() else { return };
    fs::create_dir_all(place.path("a/b")).unwrap();
    fs::create_dir(place.path("c")).unwrap();
    place.write("a/b/x", "x");
    place.fs.settle().unwrap();
    fs::rename(place.path("a/b"), place.path("c/d")).unwrap();
    place.write("c/d/y", "y");
    assert_eq!(place.read("c/d/../d/x"), b"x");
    fs::remove_dir(place.path("a")).unwrap();
    assert_eq!(place.cut().names, 3);
    assert_eq!(place.names(), ["a", "c"]);
    assert_eq!(place.read("a/b/../b/x"), b"x");
    assert!(!place.path("a/b/y").exists() && !place.path("c/d").exists());
    fs::rename(place.path("a/b"), place.path("c/d")).unwrap();
    place.sync("c/d/x");
    place.cut();
    assert_eq!(place.read("c/d/x"), b"x");
    assert_eq!(fs::read_dir(place.path("a")).unwrap().count(), 0);
    let refused = fs::rename(place.path("a"), place.path("c")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::DirectoryNotEmpty);
    assert!(fs::remove_dir(place.path("c")).is_err());
    assert!(fs::rename(place.path("c"), place.path("c/d/e")).is_err());
    fs::remove_dir_all(place.path("c")).unwrap();
    assert_eq!(place.names(), ["a"]);
}

#[test]
fn files_that_are_opened_so_are_synced_with_every_write() {
    let Some(place) = TestMount::new() else { return };
    for (name, flags) in [("sync", OFlags::SYNC), ("data", OFlags::DSYNC)] {
        let mut options = OpenOptions::new();
        options.write(true).create(true).custom_flags(flags.bits().cast_signed());
        let mut file = options.open(place.path(name)).unwrap();
        file.write_all(b"synced").unwrap();
        drop(file);
    }
    place.write("not", "not");
    place.cut();
    assert_eq!(place.names(), ["data", "sync"]);
    assert_eq!((place.read("data"), place.read("sync")), (b"synced".to_vec(), b"synced".to_vec()));
}

#[test]
fn a_close_syncs_nothing_and_a_sync_of_data_does_size_too() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", "one");
    let mut file = OpenOptions::new().append(true).open(place.path("x")).unwrap();
    file.write_all(b"two").unwrap();
    file.sync_data().unwrap();
    file.write_all(b"three").unwrap();
    drop(file);
    place.cut();
    assert_eq!(place.read("x"), b"onetwo");
}

#[test]
fn a_sync_of_the_whole_file_system_does_not_reach_it() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", "one");
    place.write("x", "two");
    rustix::fs::syncfs(place.open("x")).unwrap();
    rustix::fs::sync();
    place.cut();
    assert_eq!(place.read("x"), b"one", "the documentation says so");
}

#[test]
fn modes_owners_and_times_are_names_too() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", "x");
    let of = || fs::metadata(place.path("x")).unwrap();
    let before = of();
    let change = || {
        fs::set_permissions(place.path("x"), fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::chown(place.path("x"), Some(1234), Some(4321)).unwrap();
        place.open("x").set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(5)).unwrap();
        let now = of();
        assert_eq!((now.mode() & 0o7777, now.uid(), now.gid(), now.mtime()), (0o640, 1234, 4321, 5));
    };
    change();
    assert_eq!(place.cut().names, 3);
    let now = of();
    assert_eq!((now.mode(), now.uid(), now.gid()), (before.mode(), before.uid(), before.gid()));
    assert_eq!(now.modified().unwrap(), before.modified().unwrap());
    change();
    place.sync(".");
    place.cut();
    assert_eq!((of().mode() & 0o7777, of().uid(), of().gid(), of().mtime()), (0o640, 1234, 4321, 5));
}

#[test]
fn while_the_power_is_off_nothing_is_taken() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", "synced");
    let mut open = place.open("x");
    let off = place.fs.power_off();
    let refused = |error: std::io::Error| error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
    assert!(refused(open.write_all(b"more").unwrap_err()));
    assert!(refused(open.sync_all().unwrap_err()));
    assert!(refused(File::create(place.path("y")).unwrap_err()));
    assert!(refused(fs::remove_file(place.path("x")).unwrap_err()));
    off.power_on(Keep::Nothing).unwrap();
    // A file opened before the cut is useless but harmless.
    assert!(open.write_all(b"more").is_err());
    drop(open);
    assert_eq!((place.names(), place.read("x")), (vec!["x".to_owned()], b"synced".to_vec()));
    // Without `power_on`, the power stays off.
    let _ = place.fs.power_off();
    assert!(place.fs.power_off().0.at().join("x").metadata().is_err());
    place.cut();
    assert_eq!(place.read("x"), b"synced");
}

#[test]
fn what_was_prepared_is_durable_at_once() {
    let Some(place) = TestMount::new() else { return };
    fs::create_dir(place.path("folder")).unwrap();
    place.write("folder/x", [5; 100_000]);
    place.fs.settle().unwrap();
    let used = place.fs.used();
    assert_eq!((used.written, used.syncs, used.unsynced), (100_000, 0, 0));
    assert_eq!(place.cut(), Forgotten::default());
    assert_eq!(place.read("folder/x"), [5; 100_000]);
    place.sync("folder/x");
    place.sync("folder");
    assert_eq!(place.fs.used().syncs, 2);
}

#[test]
fn many_files_are_open_at_once_and_folders_are_read_while_they_shrink() {
    let Some(place) = TestMount::new() else { return };
    let all: Vec<File> = (0..600).map(|i| File::create_new(place.path(&format!("{i}"))).unwrap()).collect();
    for (i, file) in all.iter().enumerate() {
        file.write_all_at(&i.to_le_bytes(), 10).unwrap();
    }
    for file in &all {
        file.sync_data().unwrap();
    }
    assert_eq!(place.names().len(), 600);
    place.cut();
    for i in 0..600usize {
        assert_eq!(place.read(&i.to_string())[10..], i.to_le_bytes());
    }
    for entry in fs::read_dir(place.fs.at()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert!(place.names().is_empty());
}

#[test]
fn sockets_pipes_and_names_that_are_too_long() {
    let Some(place) = TestMount::new() else { return };
    let socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    std::os::unix::net::UnixStream::connect(place.path("socket")).unwrap();
    drop(socket);
    assert!(fs::metadata(place.path("socket")).unwrap().file_type().is_socket());
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("plain"),
        rustix::fs::FileType::RegularFile,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert_eq!(fs::metadata(place.path("plain")).unwrap().mode(), 0o100_400);
    assert!(File::create(place.path(&"x".repeat(256))).is_err());
    place.write(&"x".repeat(255), "x");
    let stat = rustix::fs::statvfs(place.fs.at()).unwrap();
    let behind = rustix::fs::statvfs(place.folder.path()).unwrap();
    assert_eq!((stat.f_blocks, stat.f_namemax), (behind.f_blocks, 255));
}

#[test]
fn writes_around_the_cache_are_writes() {
    let Some(place) = TestMount::new() else { return };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
    let file = options.open(place.path("x")).unwrap();
    let buffer = vec![3; 3 * 4096];
    let start = buffer.as_ptr().align_offset(4096);
    let page = &buffer[start..start + 4096];
    file.write_all_at(page, 4096).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(page, 0).unwrap();
    assert_eq!(place.read("x"), [3; 8192]);
    place.cut();
    assert_eq!(place.read("x")[..4096], [0; 4096]);
    assert_eq!(place.read("x")[4096..], [3; 4096]);
}

#[test]
fn a_folder_that_holds_something_is_refused_and_so_is_one_in_use() {
    let Some(place) = TestMount::new() else { return };
    let path = |name: &str| place.folder.path().join(name);
    fs::create_dir(path("full")).unwrap();
    fs::write(path("full/x"), "").unwrap();
    let refused = |at: &str, backing: &str| PowerCut::mount(&path(at), &path(backing)).unwrap_err().to_string();
    assert!(refused("full", "b").contains("use a separate folder"));
    assert!(refused("a", "full").contains("use a separate folder"));
    assert!(refused("at", "b").contains("mounted by another process"));
    assert!(refused("a", "backing").contains("in use by another process"));
    assert!(refused("a", "a/b").contains("are nested"));
    assert!(fs::read_dir(path("")).unwrap().count() == 3, "nothing is left of what was refused");
    let other = PowerCut::mount(&path("other"), &path("behind")).unwrap();
    drop(other);
    assert!(fs::read_dir(path("")).unwrap().count() == 3);
}

#[test]
fn nothing_is_left_of_one_that_is_dropped() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", "x");
    let open = place.open("x");
    let TestMount { fs, folder } = place;
    let at = fs.at().to_owned();
    assert!(is_mounted_below(folder.path()).unwrap());
    drop(fs);
    assert!(!is_mounted_below(folder.path()).unwrap());
    assert!(!at.exists() && fs::read_dir(folder.path()).unwrap().count() == 0);
    assert!(open.sync_all().is_err());
}

/// Not a test: measures the speed.
#[test]
#[ignore = "takes a while"]
fn throughput() {
    let Some(place) = TestMount::new() else { return };
    let told = |what: &str, bytes: u64, begin: Instant| {
        println!("{what}: {:.0} MB/s", bytes as f64 / 1e6 / begin.elapsed().as_secs_f64());
    };
    const SIZE: u64 = 512 << 20;
    for length in [1 << 20, 64 << 10, 8 << 10, 4 << 10] {
        let data = vec![7; length];
        let file = File::options().read(true).write(true).create(true).truncate(false).open(place.path("x")).unwrap();
        for what in ["new", "over synced", "over unsynced"] {
            let begin = Instant::now();
            for at in (0..SIZE).step_by(length) {
                file.write_all_at(&data, at).unwrap();
            }
            told(&format!("{what}, {} KiB", length >> 10), SIZE, begin);
            if what == "new" {
                file.sync_all().unwrap();
            }
        }
        drop(file);
        let begin = Instant::now();
        let forgotten = place.cut();
        println!("cut: {:?}, {forgotten:?}", begin.elapsed());
        let begin = Instant::now();
        let mut file = File::open(place.path("x")).unwrap();
        let mut buffer = vec![0; 1 << 20];
        while file.read(&mut buffer).unwrap() > 0 {}
        told("read", SIZE, begin);
        fs::remove_file(place.path("x")).unwrap();
    }
}
