//! Files changed through a mapping.

use super::servers::Worker;
use super::*;

const SIZE: usize = 4 * 4096;

/// Runs in a separate process: unmapping holds the process's memory lock while it waits for the thread that serves the
/// file system, and that thread may need the same lock.
const MAPS: &str = "
import mmap, sys
with open(sys.argv[1], 'r+b') as file:
    mapped = mmap.mmap(file.fileno(), 0)
print('mapped', flush=True)
for line in sys.stdin:
    match line.split():
        case []:
            continue
        case ['set', at, byte]:
            mapped[int(at)] = int(byte)
        case ['sync']:
            try:
                mapped.flush()
            except OSError:
                print('fails', flush=True)
                continue
        case ['unmap']:
            mapped.close()
    print('done', flush=True)
";

/// A mapped file.
struct Mapped(Worker);

impl Mapped {
    fn new(path: &Path) -> Self {
        let mut worker = Worker::start(MAPS, &[path.to_str().unwrap()]);
        assert_eq!(worker.ask(""), "mapped");
        Self(worker)
    }

    fn set(&mut self, at: usize, byte: u8) {
        assert!(at < SIZE);
        assert_eq!(self.0.ask(&format!("set {at} {byte}")), "done");
    }

    /// Whether it succeeded.
    fn sync(&mut self) -> bool {
        self.0.ask("sync") == "done"
    }

    fn unmap(mut self) {
        assert_eq!(self.0.ask("unmap"), "done");
        self.0.kill();
    }
}

#[test]
fn what_is_synced_of_a_mapping_stays() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", [1; SIZE]);
    let mut mapped = Mapped::new(&place.path("x"));
    mapped.set(5000, 2);
    assert!(mapped.sync());
    mapped.set(9000, 3);
    place.sync("x");
    mapped.set(0, 4);
    assert_eq!(place.read("x")[0], 4);
    place.cut();
    mapped.unmap();
    let left = place.read("x");
    assert_eq!((left[0], left[5000], left[9000], left.len()), (1, 2, 3, SIZE));
}

#[test]
fn what_is_written_back_of_a_mapping_and_not_synced_is_forgotten() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", [1; SIZE]);
    let mut mapped = Mapped::new(&place.path("x"));
    mapped.set(5000, 2);
    mapped.unmap();
    assert_eq!(place.read("x")[5000], 2);
    assert_eq!(place.fs.used().unsynced, 4096, "the page was written back");
    assert_eq!(place.cut(), Forgotten { files: 1, bytes: 4096, names: 0 });
    assert_eq!(place.read("x"), [1; SIZE]);
}

#[test]
fn what_arrives_of_a_mapping_after_the_cut_is_not_taken() {
    let Some(place) = TestMount::new() else { return };
    place.write_synced("x", [1; SIZE]);
    let mut mapped = Mapped::new(&place.path("x"));
    mapped.set(5000, 2);
    let off = place.fs.power_off();
    assert!(!mapped.sync());
    mapped.unmap();
    assert_eq!(off.power_on(Keep::Nothing).unwrap(), Forgotten::default());
    assert_eq!(place.read("x"), [1; SIZE]);
}
