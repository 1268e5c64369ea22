//! Access to files wherever they are: on this machine, in an object store, in HDFS, or behind HTTP.
//!
//! All functions here block the calling thread. A separate thread ([`runtime`]) fetches remote files ahead, so that
//! readers of records need not know where their bytes come from.

#[cfg(feature = "remote")]
mod ahead;
#[cfg(feature = "remote")]
mod blocks;
#[cfg(feature = "tables")]
mod chunks;
#[cfg(feature = "remote")]
mod fault;
#[cfg(feature = "remote")]
mod object;
#[cfg(feature = "remote")]
mod open;
#[cfg(feature = "remote")]
mod proxy;
#[cfg(feature = "remote")]
mod runtime;
#[cfg(feature = "remote")]
mod upload;
#[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "without it, URLs are only refused"))]
mod url;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
#[cfg(feature = "tables")]
use std::sync::Arc;

#[cfg(feature = "tables")]
pub(crate) use chunks::{Chunks, Seekable};
#[cfg(feature = "remote")]
use object::{Object, Version};
#[cfg(feature = "remote")]
pub use open::{HdfsCluster, OpenHdfs, register_hdfs};
use url::RemoteUrl;

use crate::error::TransferError;
use crate::retry::Access;

/// The location of a file or of a folder of files.
#[derive(Debug, Clone)]
pub struct FileLocation(Location);

#[derive(Debug, Clone)]
enum Location {
    Local(PathBuf),
    #[cfg(feature = "remote")]
    Remote(Object),
}

impl From<PathBuf> for FileLocation {
    fn from(path: PathBuf) -> Self {
        Self(Location::Local(path))
    }
}

impl fmt::Display for FileLocation {
    /// A path, or a URL without options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Location::Local(path) => path.display().fmt(f),
            #[cfg(feature = "remote")]
            Location::Remote(object) => object.shown.fmt(f),
        }
    }
}

impl FileLocation {
    /// Whether a text is the URL of a remote file, and not a path or a store.
    pub fn is_url(text: &str) -> bool {
        RemoteUrl::is(text)
    }

    /// A URL for display: without options.
    pub fn shown(url: &str) -> String {
        url::shown(url)
    }

    /// The location of a URL. Does not access it.
    ///
    /// # Errors
    /// The URL is invalid, or it lacks credentials.
    pub fn of_url(url: &str, access: &Access) -> Result<Self, TransferError> {
        let parsed = RemoteUrl::of(url)?;
        #[cfg(not(feature = "remote"))]
        return Err(absent(&parsed, access));
        #[cfg(feature = "remote")]
        Object::open(&parsed, access).map(|object| Self(Location::Remote(object)))
    }

    /// The files of a URL, sorted by name: for a pattern those that match, for a folder all below it. Also how many files
    /// of a folder are left out because their names, or those of their folders, begin with `_`.
    ///
    /// # Errors
    /// Those of [`of_url`](Self::of_url), a failed listing, or no match.
    pub fn find_counted(url: &str, access: &Access) -> Result<(Vec<Self>, u64), TransferError> {
        let parsed = RemoteUrl::of(url)?;
        if !parsed.is_several() {
            return Self::of_url(url, access).map(|place| (vec![place], 0));
        }
        let (found, left_out) = Self::list(&parsed, access)?;
        if found.is_empty() {
            let shown = Self::shown(url);
            let why = match left_out {
                0 => "check the bucket and the name".to_owned(),
                _ => format!(
                    "{left_out} files are left out, because their names, or those of their folders, begin with `_`; name \
                     them with a pattern"
                ),
            };
            return Err(TransferError::BadInput(format!("{shown}: no file matches; {why}")));
        }
        Ok((found, left_out))
    }

    /// The proxy through which a file behind HTTP is read, and the variable of the environment that names it.
    pub fn proxy(url: &str) -> Option<(String, &'static str)> {
        #[cfg(feature = "remote")]
        if url.starts_with("http://") || url.starts_with("https://") {
            return proxy::of_environment(url);
        }
        #[cfg(not(feature = "remote"))]
        let _ = url;
        None
    }

    fn list(url: &RemoteUrl, access: &Access) -> Result<(Vec<Self>, u64), TransferError> {
        #[cfg(not(feature = "remote"))]
        return Err(absent(url, access));
        #[cfg(feature = "remote")]
        Object::list(url, access).map(|(objects, left_out)| {
            (objects.into_iter().map(|object| Self(Location::Remote(object))).collect(), left_out)
        })
    }

    /// The path, if the file is on this machine.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Location::Local(path) => Some(path),
            #[cfg(feature = "remote")]
            Location::Remote(_) => None,
        }
    }

    /// A file in this folder.
    pub(crate) fn join(&self, name: &str) -> Self {
        Self(match &self.0 {
            Location::Local(path) => Location::Local(path.join(name)),
            #[cfg(feature = "remote")]
            Location::Remote(object) => Location::Remote(object.join(name)),
        })
    }

    /// Inspects files. Remote files are inspected concurrently.
    ///
    /// # Errors
    /// A file that does not exist, is not a regular file, or cannot be read.
    pub(crate) fn look(places: &[Self]) -> Result<Vec<InspectedFile>, TransferError> {
        #[cfg(feature = "remote")]
        let mut versions = {
            let object =
                |place: &Self| if let Location::Remote(object) = &place.0 { Some(object.clone()) } else { None };
            object::look(places.iter().filter_map(object).collect()).into_iter()
        };
        places
            .iter()
            .map(|place| match &place.0 {
                Location::Local(path) => look(path),
                #[cfg(feature = "remote")]
                Location::Remote(object) => {
                    let (version, first) = versions
                        .next()
                        .transpose()?
                        .ok_or_else(|| TransferError::Source(format!("{place}: could not be inspected")))?;
                    Ok(InspectedFile {
                        place: place.clone(),
                        bytes: version.bytes(),
                        ranges: version.ranges,
                        mark: version.mark(),
                        first,
                        version: Some((object.clone(), version)),
                    })
                }
            })
            .collect()
    }

    /// Checks that the target can be written at the end of the copy. An existing file is not changed.
    ///
    /// # Errors
    /// The target is unreachable, or cannot be written.
    pub(crate) fn check_writable(&self) -> Result<(), TransferError> {
        match &self.0 {
            Location::Local(_) => Ok(()),
            #[cfg(feature = "remote")]
            Location::Remote(object) => upload::check(object),
        }
    }

    /// Whether the file exists.
    ///
    /// # Errors
    /// The location cannot be accessed.
    pub(crate) fn is_there(&self) -> Result<bool, TransferError> {
        match &self.0 {
            // Follows links: a dangling link counts as missing.
            Location::Local(path) => Ok(path.exists()),
            #[cfg(feature = "remote")]
            Location::Remote(object) => object.is_there(),
        }
    }

    /// The files directly in this folder whose names satisfy `is`.
    ///
    /// # Errors
    /// The folder cannot be listed. A missing folder gives an empty list.
    pub(crate) fn names_within(&self, is: &dyn Fn(&str) -> bool) -> Result<Vec<Self>, TransferError> {
        match &self.0 {
            Location::Local(path) => {
                let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
                let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is));
                Ok(named.map(|entry| entry.path().into()).collect())
            }
            #[cfg(feature = "remote")]
            Location::Remote(object) => {
                let within = object.within()?.into_iter();
                Ok(within.filter(|object| is(object.name())).map(|object| Self(Location::Remote(object))).collect())
            }
        }
    }

    /// Deletes the file.
    ///
    /// # Errors
    /// Errors of the system or the store.
    pub(crate) fn remove(&self) -> Result<(), TransferError> {
        match &self.0 {
            Location::Local(path) => std::fs::remove_file(path).map_err(|e| TransferError::write(path, &e)),
            #[cfg(feature = "remote")]
            Location::Remote(object) => object.remove(),
        }
    }

    /// Replaces this file atomically with a file of this machine. The old content stays until then.
    ///
    /// # Errors
    /// Errors of the system or the store. A partly written file is never visible.
    pub(crate) fn put(&self, from: &Path) -> Result<(), TransferError> {
        match &self.0 {
            Location::Local(path) => std::fs::rename(from, path).map_err(|e| TransferError::write(path, &e)),
            #[cfg(feature = "remote")]
            Location::Remote(object) => upload::upload(object, from),
        }
    }
}

/// A file that was inspected. A later read gives the content from that time, or an error if the file has changed.
pub(crate) struct InspectedFile {
    pub(crate) place: FileLocation,
    /// Its size; `None` if the server does not report it.
    pub(crate) bytes: Option<u64>,
    /// Whether it can be read from any offset.
    pub(crate) ranges: bool,
    /// A value that changes when the file does.
    pub(crate) mark: String,
    /// Its first bytes, up to 4.
    pub(crate) first: Vec<u8>,
    #[cfg(feature = "remote")]
    version: Option<(Object, Version)>,
}

/// The error of a binary that was built without remote files.
#[cfg(not(feature = "remote"))]
fn absent(url: &RemoteUrl, _: &Access) -> TransferError {
    let shown = url::shown(&url.whole);
    TransferError::BadInput(format!(
        "{shown}: this binary was built without remote files; build with the feature `remote`"
    ))
}

fn look(path: &Path) -> Result<InspectedFile, TransferError> {
    let refused = |what: &str| TransferError::BadInput(format!("{}: {what}", path.display()));
    let found = path.metadata().map_err(|e| refused(&format!("cannot be read: {e}; is the path right?")))?;
    if found.is_dir() {
        return Err(refused("is a folder; name its files, as in `folder/*.jsonl`"));
    }
    if !found.is_file() {
        // It can be read only once, and inspecting it would consume data.
        return Err(refused("is a pipe or a device; pass it as standard input with `-`"));
    }
    let mut first = Vec::new();
    File::open(path)
        .and_then(|file| file.take(4).read_to_end(&mut first))
        .map_err(|e| refused(&format!("cannot be read: {e}")))?;
    Ok(InspectedFile {
        place: path.to_owned().into(),
        bytes: Some(found.len()),
        ranges: true,
        mark: modified(&found),
        first,
        #[cfg(feature = "remote")]
        version: None,
    })
}

/// The time of the file's last change, as text.
fn modified(found: &std::fs::Metadata) -> String {
    let modified = found.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    modified.map(|t| t.as_nanos().to_string()).unwrap_or_default()
}

impl InspectedFile {
    /// Opens a local file.
    fn local(&self) -> io::Result<File> {
        let file = File::open(self.place.path().unwrap_or(Path::new("")))?;
        let now = file.metadata()?;
        if self.bytes != Some(now.len()) || self.mark != modified(&now) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "it has changed since the copy began; start over when it no longer changes",
            ));
        }
        Ok(file)
    }

    /// Reads from an offset on. Data before `until` is fetched ahead; later data is fetched on demand.
    pub(crate) fn read(&self, from: u64, until: u64) -> io::Result<Box<dyn Read + Send>> {
        #[cfg(feature = "remote")]
        if let Some((object, version)) = &self.version {
            return Ok(Box::new(ahead::Ahead::new(object.clone(), version.clone(), from, until)));
        }
        #[cfg(not(feature = "remote"))]
        let _ = until;
        let mut file = self.local()?;
        if from > 0 {
            file.seek(SeekFrom::Start(from))?;
        }
        Ok(Box::new(file))
    }

    /// Random access to the file.
    ///
    /// # Errors
    /// The server does not support range requests.
    #[cfg(feature = "tables")]
    pub(crate) fn chunks(&self) -> Result<Chunks, TransferError> {
        #[cfg(feature = "remote")]
        if let Some((object, version)) = &self.version {
            return object.chunks(version).map(|blocks| Chunks::Remote(Box::new(blocks)));
        }
        let local = self.local().map_err(|e| TransferError::read(&self.place.to_string(), &e))?;
        Ok(Chunks::Local(Arc::new(local)))
    }
}
