//! A shared folder through which parts exchange messages.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use storebench_engine::Stop;
use storebench_machine::Pid;
use storebench_study::Part;

use super::Meeting;

/// How often a part polls for messages from the others.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The same after the first second, to disturb other parts less that still measure on this machine.
const LOOK_LATER: Duration = Duration::from_millis(50);
/// How often a part writes its heartbeat.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// A part without a heartbeat for this long is lost. Network file systems may show changes seconds late.
const LOST_AFTER: Duration = Duration::from_secs(60);
/// How long a part waits before it shows the user which parts are missing.
const TELL_AFTER: Duration = Duration::from_secs(5);

/// A folder that all parts share, on one machine or over the network.
///
/// | file | contents |
/// |---|---|
/// | `00007.2` | the message of part 2 in exchange 7 |
/// | `2.alive` | the heartbeat of part 2: a number that it increments every second, and its process |
/// | `2.ended` | exists when part 2 has ended |
///
/// Files are renamed into place, so no reader sees a partial file.
#[derive(Debug)]
pub struct SharedFolder {
    folder: PathBuf,
    part: Part,
    next: AtomicU64,
    lost_after: Duration,
    beating: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

/// The known state of another part.
struct Other {
    number: u32,
    message: Option<String>,
    beat: Option<String>,
    beat_seen: Instant,
}

impl SharedFolder {
    /// Joins the parts in this folder. Creates the folder if it does not exist.
    ///
    /// # Errors
    /// The folder is not writable, or this part has already joined.
    pub fn join(folder: &Path, part: Part) -> io::Result<Self> {
        Self::join_and_wait(folder, part, LOST_AFTER)
    }

    fn join_and_wait(folder: &Path, part: Part, lost_after: Duration) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let alive = folder.join(format!("{}.alive", part.number));
        std::fs::File::create_new(&alive)?;
        let (stop, stopped) = mpsc::channel::<()>();
        let (place, number) = (folder.to_owned(), part.number);
        let address = Pid::own_address().unwrap_or_default();
        let beat = std::thread::Builder::new().name("part-alive".into()).spawn(move || {
            for count in 0u64.. {
                // Ignore a failed write: the others tolerate several missing heartbeats.
                let _ = put(&place, &format!("{number}.alive"), &format!("{count} {address}"));
                if !matches!(stopped.recv_timeout(BEAT_EVERY), Err(RecvTimeoutError::Timeout)) {
                    return;
                }
            }
        })?;
        Ok(Self { folder: folder.to_owned(), part, next: AtomicU64::new(0), lost_after, beating: Some((stop, beat)) })
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.join(name)).ok()
    }

    /// Why this part will send no more messages, if it has ended or was lost.
    fn gone(&self, other: &mut Other) -> Option<String> {
        if self.read(&format!("{}.ended", other.number)).is_some() {
            return Some(format!("part {} has ended", other.number));
        }
        let beat = self.read(&format!("{}.alive", other.number));
        let address = beat.as_ref().and_then(|beat| beat.split_once(' ')).map(|(_, address)| address);
        if address.and_then(Pid::ended) == Some(true) {
            return Some(format!("part {} was killed or has crashed", other.number));
        }
        if beat != other.beat {
            (other.beat, other.beat_seen) = (beat, Instant::now());
        }
        // A part that has not started yet has no heartbeat.
        (other.beat.is_some() && other.beat_seen.elapsed() > self.lost_after)
            .then(|| format!("part {} was lost: no sign of life for {} s", other.number, self.lost_after.as_secs()))
    }
}

impl Meeting for SharedFolder {
    fn exchange(&self, message: &str, stop: &Stop, waits: &mut dyn FnMut(&[u32])) -> Result<Vec<String>, String> {
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        let name = |nth: u64, number: u32| format!("{nth:05}.{number}");
        let failed = |e: io::Error| {
            format!("{}: cannot be written: {e}; give all parts a writable shared folder", self.folder.display())
        };
        put(&self.folder, &name(nth, self.part.number), message).map_err(failed)?;
        let others = self.part.all().filter(|part| *part != self.part);
        let began = Instant::now();
        let mut others: Vec<Other> =
            others.map(|part| Other { number: part.number, message: None, beat: None, beat_seen: began }).collect();
        let mut told = false;
        let mut looked = None;
        loop {
            // Check heartbeats less often than messages.
            let asks = looked.is_none_or(|at: Instant| at.elapsed() >= BEAT_EVERY);
            looked = if asks { Some(Instant::now()) } else { looked };
            for other in others.iter_mut().filter(|other| other.message.is_none()) {
                // Check this before reading, because a part may send its last message and then end.
                let ended = if asks { self.gone(other) } else { None };
                other.message = self.read(&name(nth, other.number));
                if let (None, Some(why)) = (&other.message, ended) {
                    return Err(why);
                }
            }
            if others.iter().all(|other| other.message.is_some()) {
                break;
            }
            if stop.asked() {
                return Err("interrupted while waiting for other parts".to_owned());
            }
            if !told && began.elapsed() > TELL_AFTER {
                told = true;
                let missing = others.iter().filter(|other| other.message.is_none()).map(|other| other.number);
                waits(&missing.collect::<Vec<_>>());
            }
            std::thread::sleep(if began.elapsed() < BEAT_EVERY { LOOK_EVERY } else { LOOK_LATER });
        }
        // All parts have read the previous exchange. Otherwise they would not have reached this one.
        if let Some(before) = nth.checked_sub(1) {
            // Only cleans up, so ignore errors.
            let _ = std::fs::remove_file(self.folder.join(name(before, self.part.number)));
        }
        let mut all = others.into_iter().filter_map(|other| other.message);
        let own = |number: u32| number == self.part.number;
        let message_of = |part: Part| if own(part.number) { Some(message.to_owned()) } else { all.next() };
        Ok(self.part.all().filter_map(message_of).collect())
    }
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        if let Some((stop, beat)) = self.beating.take() {
            drop(stop);
            let _ = beat.join();
        }
        // If the write fails, the others notice later that this part is gone.
        let _ = put(&self.folder, &format!("{}.ended", self.part.number), "");
    }
}

/// Writes a file atomically.
fn put(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let temporary = folder.join(format!(".{name}.new"));
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u32, of: u32) -> Part {
        Part { number, of }
    }

    fn exchange(folder: &SharedFolder, message: &str) -> Result<Vec<String>, String> {
        folder.exchange(message, &Stop::new(), &mut |_| ())
    }

    #[test]
    fn every_part_gets_every_message_in_order() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for own in part(1, 4).all() {
                let dir = dir.path();
                scope.spawn(move || {
                    let folder = SharedFolder::join(dir, own).unwrap();
                    for round in 0..20 {
                        let all = exchange(&folder, &format!("{round} from {own}")).unwrap();
                        let wanted: Vec<String> = own.all().map(|part| format!("{round} from {part}")).collect();
                        assert_eq!(all, wanted);
                    }
                });
            }
        });
        let messages = std::fs::read_dir(dir.path())
            .unwrap()
            .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("000"));
        assert_eq!(messages.count(), 4, "old messages are removed");
    }

    #[test]
    fn a_part_that_has_ended_or_is_lost_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let first = SharedFolder::join_and_wait(dir.path(), part(1, 3), Duration::from_millis(300)).unwrap();
        let second = SharedFolder::join(dir.path(), part(2, 3)).unwrap();
        // A killed process leaves its last heartbeat.
        std::fs::write(dir.path().join("3.alive"), "7 on another machine").unwrap();
        drop(second);
        assert_eq!(exchange(&first, "a").unwrap_err(), "part 2 has ended");
        std::fs::remove_file(dir.path().join("2.ended")).unwrap();
        std::fs::write(dir.path().join("00001.2"), "here").unwrap();
        assert_eq!(exchange(&first, "b").unwrap_err(), "part 3 was lost: no sign of life for 0 s");
    }

    #[test]
    fn a_part_that_was_killed_on_this_machine_is_noticed_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let first = SharedFolder::join(dir.path(), part(1, 2)).unwrap();
        let own = Pid::own_address().unwrap();
        let (place, _) = own.rsplit_once(' ').unwrap();
        // The same process ID with another start time belongs to another process.
        std::fs::write(dir.path().join("2.alive"), format!("7 {place} 1")).unwrap();
        assert_eq!(exchange(&first, "a").unwrap_err(), "part 2 was killed or has crashed");
    }

    #[test]
    fn the_last_message_of_a_part_that_has_ended_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let first = SharedFolder::join(dir.path(), part(1, 2)).unwrap();
        std::fs::write(dir.path().join("00000.2"), "last").unwrap();
        std::fs::write(dir.path().join("2.ended"), "").unwrap();
        assert_eq!(exchange(&first, "a").unwrap(), ["a", "last"]);
    }

    #[test]
    fn who_has_to_stop_does_not_wait() {
        let dir = tempfile::tempdir().unwrap();
        let first = SharedFolder::join(dir.path(), part(1, 2)).unwrap();
        let stop = Stop::new();
        stop.ask();
        assert!(first.exchange("a", &stop, &mut |_| ()).unwrap_err().contains("interrupted"));
    }

    #[test]
    fn a_part_joins_once() {
        let dir = tempfile::tempdir().unwrap();
        let _first = SharedFolder::join(dir.path(), part(1, 2)).unwrap();
        assert_eq!(SharedFolder::join(dir.path(), part(1, 2)).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
