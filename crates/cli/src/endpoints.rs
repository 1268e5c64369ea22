//! What `copy` reads from and writes to: a store, local or remote files, or the standard streams.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use storebench_engine::store::AnyStore;
use storebench_stores::is_scheme;
use storebench_transfer::{FileLocation, Format, Packing};

use crate::failure::Failure;
use crate::stores;

/// What an SQLite database begins with (<https://www.sqlite.org/fileformat.html>).
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

/// One end of a copy.
pub(crate) enum Endpoint {
    /// A store's URL, and its driver. Only the source and the sink of a copy make contact with it: before that, a driver
    /// says what such a store can at best, and afterwards what this server can.
    Store(String, Arc<dyn AnyStore>),
    /// A path, or a pattern of paths.
    Files(String),
    /// The URL of remote files.
    Remote(String),
    /// Standard input or output.
    Standard,
}

impl Endpoint {
    /// Parses an argument, without accessing anything.
    ///
    /// # Errors
    /// The URL scheme is unknown, or the URL of a store is invalid.
    pub(crate) fn of(text: &str) -> Result<Self, Failure> {
        if text == "-" {
            return Ok(Self::Standard);
        }
        let Some((names, rest)) = text.split_once(':') else { return Ok(Self::Files(text.to_owned())) };
        let is = is_scheme;
        // A scheme can itself contain a plus, such as `mongodb+srv`.
        if is(names) || names.split('+').all(is) || names.split('+').next().is_some_and(is) {
            return Ok(Self::Store(text.to_owned(), stores::open(text)?));
        }
        if FileLocation::is_url(text) {
            return Ok(Self::Remote(text.to_owned()));
        }
        if rest.starts_with("//") {
            return Err(Failure::bad_input(format!(
                "unsupported URL scheme `{names}://`; use a path, `-`, a file at s3://, gs://, \
                 az://, hdfs:// or https://, or a store (`storebench stores` lists them)"
            )));
        }
        Ok(Self::Files(text.to_owned()))
    }

    /// The path or the address of files, without options; none for a store and the standard streams.
    pub(crate) fn files(&self) -> Option<String> {
        match self {
            Self::Files(path) => Some(path.clone()),
            Self::Remote(url) => Some(FileLocation::shown(url)),
            Self::Store(..) | Self::Standard => None,
        }
    }

    /// The default name of a collection, from the file name.
    pub(crate) fn name(&self) -> Option<String> {
        let path = self.files()?;
        // Only endings that say a format: `shop.users.jsonl` and `shop.orders.jsonl` are two collections.
        let file = Path::new(&path).file_name()?.to_str()?;
        let without = |name: &'_ str| name.rsplit_once('.').map_or(name.len(), |(stem, _)| stem.len());
        let unpacked = if Packing::of_name(file) == Packing::Plain { file } else { &file[..without(file)] };
        let stem = if Format::told_by(unpacked).is_some() { &unpacked[..without(unpacked)] } else { unpacked };
        let name: String =
            stem.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' }).collect();
        Some(name.trim_matches('-').to_owned()).filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
    }
}

/// The files of a pattern.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) files: Vec<PathBuf>,
    /// Files of known formats in a folder that are not read, because their names or those of their folders begin with
    /// `_`.
    pub(crate) left_out: u64,
}

/// The files of a path, a folder, or a pattern with `*`, `?` or `[`, sorted. A folder stands for all files below it,
/// except names that begin with `.` or `_`.
///
/// # Errors
/// The pattern is invalid, matches no file, or matches a broken link.
pub(crate) fn find_files(pattern: &str) -> Result<Found, Failure> {
    let path = PathBuf::from(pattern);
    if path.is_dir() {
        return under(&path);
    }
    if !pattern.contains(['*', '?', '[']) || path.exists() {
        return Ok(Found { files: vec![path], left_out: 0 });
    }
    let found = glob::glob(pattern).map_err(|e| Failure::bad_input(format!("invalid pattern `{pattern}`: {e}")))?;
    let mut files = Vec::new();
    for entry in found {
        let path = entry.map_err(|e| Failure::bad_input(format!("{e}; check that the path is readable")))?;
        let is = path.metadata().map_err(|e| {
            Failure::bad_input(format!(
                "{} matches `{pattern}` but cannot be read: {e}; if it is a broken link, remove it, or use a \
                 pattern that does not match it",
                path.display()
            ))
        })?;
        // Pipes and devices are refused later, with an error that names them.
        if !is.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::bad_input(format!("no file matches `{pattern}`; check the path, and quote the pattern")));
    }
    Ok(Found { files, left_out: 0 })
}

/// Refuses a database that is named as a file, without its scheme.
///
/// # Errors
/// Names the file, and its URL.
pub(crate) fn refuse_databases(files: &[PathBuf]) -> Result<(), Failure> {
    let is_database = |file: &&PathBuf| {
        let mut head = [0; SQLITE.len()];
        // A pipe would lose what is read here.
        let read = file.is_file() && File::open(file).and_then(|mut open| open.read_exact(&mut head)).is_ok();
        read && head == *SQLITE
    };
    match files.iter().find(is_database) {
        Some(file) => Err(Failure::bad_input(format!(
            "{} is an SQLite database, not a file of records; give its URL: sqlite:{}",
            file.display(),
            file.display()
        ))),
        None => Ok(()),
    }
}

fn under(folder: &Path) -> Result<Found, Failure> {
    let failed = |e: std::io::Error| Failure::bad_input(format!("{}: cannot be read: {e}", folder.display()));
    let (mut files, mut left_out) = (Vec::new(), 0);
    let mut folders = vec![(folder.to_owned(), false)];
    while let Some((folder, is_left_out)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_left_out = is_left_out || name.starts_with('_');
            let path = entry.path();
            if path.is_symlink() && path.is_dir() {
                let target = path.canonicalize().map_err(failed)?;
                if folder.canonicalize().map_err(failed)?.starts_with(&target) {
                    return Err(Failure::bad_input(format!(
                        "{}: the link leads to a folder that contains it, so the files have no end; remove the link, or name \
                         the files with a pattern",
                        path.display()
                    )));
                }
            }
            match path.is_dir() {
                _ if name.starts_with('.') => {}
                true => folders.push((path, is_left_out)),
                false if is_left_out => left_out += u64::from(Format::told_by(&name).is_some()),
                false => files.push(path),
            }
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::bad_input(format!("no files in `{}`; check the path", folder.display())));
    }
    Ok(Found { files, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_told_from_files() {
        let of = |text: &str| Endpoint::of(text).unwrap();
        for url in ["sqlite:a.db", "memory:", "slow+sqlite:a.db?latency=1ms", "limit+slow+memory:?rate=9&latency=1ms"] {
            assert!(matches!(of(url), Endpoint::Store(typed, _) if typed == url));
        }
        for path in ["a.jsonl", "/b/*.gz", "dir/a:b.jsonl", "out/"] {
            assert!(matches!(of(path), Endpoint::Files(typed) if typed == path));
        }
        for url in ["s3://b/a.jsonl", "gs://b/x/*.gz", "az://c/", "hdfs://h:8020/x", "https://h/x.csv?page=1"] {
            assert!(matches!(of(url), Endpoint::Remote(typed) if typed == url));
        }
        assert!(matches!(of("-"), Endpoint::Standard));
        assert!(Endpoint::of("ftp://h/x").is_err());
    }

    #[test]
    fn what_fits_a_pattern_is_there_or_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a.jsonl"), "").unwrap();
        std::fs::create_dir(path("b.jsonl")).unwrap();
        std::os::unix::fs::symlink(path("a.jsonl"), path("c.jsonl")).unwrap();
        let pattern = path("*.jsonl").display().to_string();
        assert_eq!(find_files(&pattern).unwrap().files, [path("a.jsonl"), path("c.jsonl")]);
        std::os::unix::fs::symlink(path("gone"), path("d.jsonl")).unwrap();
        let told = find_files(&pattern).unwrap_err().message;
        assert!(told.contains("d.jsonl matches") && told.contains("a broken link"), "{told}");
    }

    #[test]
    fn a_link_to_its_own_folder_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("a/x.jsonl"), "").unwrap();
        std::os::unix::fs::symlink(folder.path().join("a"), folder.path().join("a/b/loop")).unwrap();
        let told = find_files(&folder.path().display().to_string()).unwrap_err().message;
        assert!(told.contains("a/b/loop: the link leads to a folder that contains it"), "{told}");
    }

    #[test]
    fn files_that_a_folder_leaves_out_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("_users/deep")).unwrap();
        for name in ["a.jsonl", "_users/f.jsonl", "_users/deep/g.csv", "_SUCCESS", ".h.jsonl", "_users/.i.jsonl"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = find_files(&folder.path().display().to_string()).unwrap();
        assert_eq!((found.files, found.left_out), (vec![folder.path().join("a.jsonl")], 2));
    }

    #[test]
    fn a_file_names_a_collection() {
        let name = |text: &str| Endpoint::Files(text.into()).name();
        assert_eq!(name("x/my books.jsonl.gz").unwrap(), "my-books");
        assert_eq!(name("shop.users.jsonl").unwrap(), "shop-users");
        assert_eq!(name("shop.orders.JSON.zst").unwrap(), "shop-orders");
        assert_eq!(name("shop.users").unwrap(), "shop-users");
        assert_eq!(name("parts-*.jsonl").unwrap(), "parts");
        assert_eq!(name("2014.jsonl"), None);
        let name = |text: &str| Endpoint::Remote(text.into()).name();
        assert_eq!(name("s3://b/x/books.jsonl.gz?region=eu").unwrap(), "books");
        assert_eq!(name("https://h/books.csv?page=1").unwrap(), "books");
        assert_eq!(name("s3://b/books/").unwrap(), "books");
    }
}
