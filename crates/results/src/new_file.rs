//! Files that appear complete or not at all, and never replace another.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Writes a file that is not there yet, and its folder. Others may read it as far as the process lets them (umask), unlike
/// other temporary files: repositories and colleagues share it.
///
/// # Errors
/// It is there already, or cannot be written. Nothing is left then but the folder.
pub(crate) fn write_new(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut temporary = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(folder)?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_data()?;
    temporary.persist_noclobber(file).map(drop).map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_may_read_it_and_it_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b");
        write_new(&file, b"one").unwrap();
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        let mode = |file: &Path| std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode(&file), mode(&plain));
        assert_eq!(write_new(&file, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&file).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(folder.path().join("a")).unwrap().count(), 1);
    }
}
