//! Files that the user names for output. An existing file is overwritten only with --force.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use storebench_transfer::put_file;

use crate::failure::Failure;
use crate::output::print;

/// Refuses a file that exists, before any work. Devices and pipes are accepted, since they contain nothing.
pub(crate) fn refuse_existing(file: &Path, force: bool) -> Result<(), Failure> {
    match file.metadata() {
        Ok(found) if found.is_dir() => {
            Err(Failure::bad_input(format!("{} is a folder; name a file in it", file.display())))
        }
        Ok(found) if found.is_file() && !force => Err(exists(file)),
        _ => Ok(()),
    }
}

/// Refuses `-` as the file of a page, and a file that exists.
pub(crate) fn refuse_page(file: &Path, force: bool) -> Result<(), Failure> {
    if file.as_os_str() == "-" {
        return Err(Failure::bad_input("--output names the file of the page; stdout has the result itself"));
    }
    refuse_existing(file, force)
}

fn exists(file: &Path) -> Failure {
    Failure::bad_input(format!("{} exists; name another file, or use --force to overwrite it", file.display()))
}

/// Writes a text into a file and prints the file's name, or prints the text if the file is `-`.
pub(crate) fn write_or_print(file: &Path, text: &str, force: bool) -> Result<(), Failure> {
    if file.as_os_str() == "-" {
        return print(text);
    }
    write_text(file, text, force)?;
    print(&format!("{}\n", file.display()))
}

/// Writes a text, as [`write_bytes`].
pub(crate) fn write_text(file: &Path, text: &str, force: bool) -> Result<(), Failure> {
    write_bytes(file, text.as_bytes(), force)
}

/// Writes a file under a temporary name, then moves it to its place, so that it only ever appears complete.
pub(crate) fn write_bytes(file: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    let output = Output::create(file)?;
    match (&output.file).write_all(bytes) {
        Ok(()) => output.keep(force),
        Err(e) => Err(output.discard(&e)),
    }
}

/// A file that is being written, and appears when it is complete.
pub(crate) struct Output {
    pub(crate) file: File,
    /// Its temporary name; none for a device or pipe, which is written to directly.
    part: Option<PathBuf>,
    place: PathBuf,
}

impl Output {
    pub(crate) fn create(file: &Path) -> Result<Self, Failure> {
        let refused = |error: io::Error| Failure::bad_input(text(file, &error));
        // A link remains a link: its target is written.
        let place = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        if place.metadata().is_ok_and(|found| !found.is_file()) {
            return Ok(Self { file: OpenOptions::new().write(true).open(&place).map_err(refused)?, part: None, place });
        }
        let mut name = place.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = place.with_file_name(name);
        Ok(Self { file: File::create(&part).map_err(refused)?, part: Some(part), place })
    }

    /// Moves it to its place. A file that appeared there meanwhile is not overwritten either.
    pub(crate) fn keep(self, force: bool) -> Result<(), Failure> {
        let Some(part) = &self.part else { return Ok(()) };
        let moved = self.file.sync_data().and_then(|()| put_file(part, &self.place, force));
        moved.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                let _ = self.discard(&e);
                exists(&self.place)
            }
            _ => self.discard(&e),
        })
    }

    /// Removes what was written so far.
    pub(crate) fn discard(&self, error: &io::Error) -> Failure {
        if let Some(part) = &self.part {
            // Only cleanup: the first error is the one that matters.
            let _ = std::fs::remove_file(part);
        }
        Failure::spoiled(text(&self.place, error))
    }
}

fn text(file: &Path, error: &io::Error) -> String {
    format!("{}: cannot be written: {error}; use another path or free space", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_appears_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out");
        refuse_existing(&file, false).unwrap();
        let output = Output::create(&file).unwrap();
        std::fs::write(&file, "theirs").unwrap();
        let told = output.keep(false).unwrap_err();
        assert!(told.code == storebench_results::exit::BAD_INPUT && told.message.contains("--force"), "{told:?}");
        assert_eq!(std::fs::read(&file).unwrap(), b"theirs");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the part is gone");
        assert!(refuse_existing(&file, false).is_err() && refuse_existing(&file, true).is_ok());
        write_text(&file, "ours", true).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"ours");
        refuse_existing(Path::new("/dev/null"), false).unwrap();
        write_text(Path::new("/dev/null"), "x", false).unwrap();
    }
}
