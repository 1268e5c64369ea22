//! The manifest: the first file of a bundle, which lists all others.

use std::io::{self, Read};
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::inputs::Input;
use crate::human::{bytes, count};

/// The format that this version writes and reads.
pub const BUNDLE_FORMAT: &str = "storebench-bundle/1";
/// The name of the format, without its number.
const FORMAT_NAME: &str = "storebench-bundle/";
/// The most bytes of all files together. A bundle with more is refused before any of them is read.
const MOST_BYTES: u64 = 8 << 30;
/// The most files, and the most inputs.
const MOST_FILES: usize = 100_000;
/// The most characters of a path.
const MOST_PATH: usize = 1_000;

/// What a bundle contains.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Manifest {
    /// Always `storebench-bundle/1`.
    pub format: String,
    /// The files that the study reads.
    pub inputs: Vec<Input>,
    /// The files of the bundle, by path: those of the run folder below `run/`, inputs below `inputs/`.
    pub files: Vec<BundleFile>,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BundleFile {
    /// Its path in the bundle.
    pub path: String,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Its size.
    pub size_bytes: u64,
}

impl Manifest {
    /// Reads and checks the text of a manifest. An error says what is wrong.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Named {
            format: String,
        }
        let broken = |error: serde_json::Error| format!("its manifest cannot be read: {error}");
        let Named { format } = serde_json::from_slice(text).map_err(broken)?;
        match format.strip_prefix(FORMAT_NAME).and_then(|number| number.parse::<u64>().ok()) {
            Some(1) => {}
            Some(_) => {
                return Err(format!(
                    "its format is `{format}`, and this version reads {BUNDLE_FORMAT}; update Storebench"
                ));
            }
            None => return Err(format!("its format is `{format}`, which is not that of a bundle")),
        }
        let manifest: Self = serde_json::from_slice(text).map_err(broken)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Refuses paths that lead elsewhere, repeated paths, and bundles that are too large. An error says what is wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        for (what, n) in [("files", self.files.len()), ("inputs", self.inputs.len())] {
            if n > MOST_FILES {
                let (n, most) = (count(n as u64), count(MOST_FILES as u64));
                return Err(format!("it has {n} {what}, and at most {most} are allowed"));
            }
        }
        let total = self.files.iter().map(|file| file.size_bytes).fold(0, u64::saturating_add);
        if total > MOST_BYTES {
            let (total, most) = (bytes(total as f64), bytes(MOST_BYTES as f64));
            return Err(format!("its files have {total}, and at most {most} are allowed"));
        }
        if let Some(file) = self.files.iter().find(|file| !is_inside(&file.path)) {
            return Err(format!("the path `{}` does not stay within `run/` or `inputs/`", file.path.escape_debug()));
        }
        let wrong =
            |sha256: &str| sha256.len() != 64 || !sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if let Some(file) = self.files.iter().find(|file| wrong(&file.sha256)) {
            return Err(format!("its manifest has no SHA-256 of `{}`", file.path));
        }
        if let Some(pair) = self.files.windows(2).find(|pair| pair[0].path >= pair[1].path) {
            return Err(format!("the paths of its manifest are repeated or not in order, at `{}`", pair[1].path));
        }
        let known = |input: &&Input| input.file.as_ref().is_some_and(|path| self.file(path).is_none());
        match self.inputs.iter().find(known) {
            Some(input) => Err(format!("its manifest names the input `{}`, and does not list it", input.path)),
            None => Ok(()),
        }
    }

    /// The file with this path. The files must be in order, as [`Manifest::check`] demands.
    pub(super) fn file(&self, path: &str) -> Option<&BundleFile> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        self.files.get(at)
    }
}

/// Whether a path stays within one of the two folders of a bundle.
fn is_inside(path: &str) -> bool {
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    let normal = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let folder = path.starts_with("run/") || path.starts_with("inputs/");
    path.len() <= MOST_PATH && normal && folder && path.split('/').all(plain) && !path.chars().any(char::is_control)
}

/// The SHA-256, in hexadecimal, and the size of what a reader gives.
///
/// # Errors
/// The reader fails.
pub fn sha256_of(reader: impl Read) -> io::Result<(String, u64)> {
    let mut hashing = Hashing::new(reader);
    io::copy(&mut hashing, &mut io::sink())?;
    Ok(hashing.finish())
}

/// A reader that hashes what it gives.
pub(super) struct Hashing<R> {
    reader: R,
    hash: Sha256,
    size: u64,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, hash: Sha256::new(), size: 0 }
    }

    /// The hash, in hexadecimal, and the number of bytes.
    pub(super) fn finish(self) -> (String, u64) {
        (self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), self.size)
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buffer)?;
        self.hash.update(&buffer[..n]);
        self.size += n as u64;
        Ok(n)
    }
}
