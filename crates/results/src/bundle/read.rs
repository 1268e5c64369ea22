//! Reads a bundle, and checks everything in it.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};

use super::manifest::{BundleFile, Hashing, Manifest};
use super::signature::{Signature, Signed};
use super::tar::{read_header, skip_padding};
use crate::{RESULT_FILE, RunResult, read_result};

pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const SIGNATURE: &str = "signature.json";
/// The most bytes of a manifest, of a signature, and of a `run.json`.
const MOST_MANIFEST: u64 = 64 << 20;
const MOST_SIGNATURE: u64 = 4_096;
const MOST_RESULT: u64 = 1 << 30;

/// A bundle that cannot be read, or unpacked.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {what}")]
pub struct BundleError {
    /// The bundle, or the file that cannot be written.
    pub path: PathBuf,
    /// What is wrong.
    pub what: String,
}

/// A bundle whose content matches its manifest, and its signature if it has one.
#[derive(Debug)]
pub struct Bundle {
    /// What it contains.
    pub manifest: Manifest,
    /// Who signed it.
    pub signed: Signed,
    /// The result.
    pub result: RunResult,
    path: PathBuf,
}

impl Bundle {
    /// Reads a bundle and checks each of its files. Writes nothing.
    ///
    /// # Errors
    /// It cannot be read, is cut short or damaged, differs from its manifest or signature, or contains what a bundle must
    /// not contain.
    pub fn open(path: &Path) -> Result<Self, BundleError> {
        let result_file = format!("run/{RESULT_FILE}");
        let mut text = Vec::new();
        let (manifest, signed) = walk(path, |file, bytes| {
            if file.path == result_file {
                if file.size_bytes > MOST_RESULT {
                    return Err(wrong(path, format!("its {RESULT_FILE} is too large")));
                }
                text.extend_from_slice(bytes);
            }
            Ok(())
        })?;
        if manifest.file(&result_file).is_none() {
            return Err(wrong(path, format!("it has no {result_file}")));
        }
        let result = read_result(&text, &path.join(&result_file)).map_err(|error| wrong(path, error.to_string()))?;
        Ok(Self { manifest, signed, result, path: path.to_owned() })
    }

    /// Writes its files whose paths begin with `only` (all, if it is empty) into a folder, which must be new or empty, and
    /// checks all files again.
    ///
    /// # Errors
    /// As [`Bundle::open`]; or a file is there already or cannot be written.
    pub fn unpack(&self, into: &Path, only: &str) -> Result<(), BundleError> {
        let mut open: Option<(String, File)> = None;
        let (again, _) = walk(&self.path, |file, bytes| {
            if !file.path.starts_with(only) {
                return Ok(());
            }
            let place = into.join(&file.path);
            let mut write = || {
                if open.as_ref().is_none_or(|(path, _)| *path != file.path) {
                    std::fs::create_dir_all(place.parent().unwrap_or(into))?;
                    open = Some((file.path.clone(), File::create_new(&place)?));
                }
                open.as_mut().map_or(Ok(()), |(_, file)| file.write_all(bytes))
            };
            write().map_err(|error: io::Error| wrong(&place, format!("cannot be written: {error}")))
        })?;
        if again != self.manifest {
            return Err(wrong(&self.path, "it was replaced while it was read; try again".to_owned()));
        }
        Ok(())
    }
}

fn wrong(path: &Path, what: String) -> BundleError {
    BundleError { path: path.to_owned(), what }
}

/// Reads a bundle from its beginning to its end, and checks each file once it is read. `each` gets the content piece by
/// piece, the first piece of each file being empty.
fn walk(
    path: &Path,
    mut each: impl FnMut(&BundleFile, &[u8]) -> Result<(), BundleError>,
) -> Result<(Manifest, Signed), BundleError> {
    let failed = |error: io::Error| {
        let what = match error.kind() {
            ErrorKind::UnexpectedEof => "it is cut short; copy it again".to_owned(),
            ErrorKind::InvalidData => error.to_string(),
            _ if error.raw_os_error().is_some() => format!("cannot be read: {error}"),
            _ => format!("it is not a bundle, or is damaged: {error}"),
        };
        wrong(path, what)
    };
    let damaged = |what: &str| wrong(path, what.to_owned());
    let file = File::open(path).map_err(failed)?;
    let decoder = zstd::stream::read::Decoder::with_buffer(BufReader::new(file)).map_err(failed)?;
    let mut reader = BufReader::with_capacity(1 << 16, decoder);
    let small = |reader: &mut BufReader<_>, size: u64, most: u64| -> Result<Vec<u8>, BundleError> {
        if size > most {
            return Err(damaged("its manifest or signature is too large"));
        }
        let mut text = vec![0; size as usize];
        reader.read_exact(&mut text).and_then(|()| skip_padding(reader, size)).map_err(failed)?;
        Ok(text)
    };
    let Some((_, size)) = read_header(&mut reader).map_err(failed)?.filter(|(name, _)| name == MANIFEST) else {
        return Err(damaged("it is not a bundle: it does not begin with a manifest"));
    };
    let text = small(&mut reader, size, MOST_MANIFEST)?;
    let manifest = Manifest::parse(&text).map_err(|what| wrong(path, what))?;
    let mut next = read_header(&mut reader).map_err(failed)?;
    let mut signed = Signed::No;
    if let Some((_, size)) = next.as_ref().filter(|(name, _)| name == SIGNATURE) {
        let signature = small(&mut reader, *size, MOST_SIGNATURE)?;
        let signature: Signature =
            serde_json::from_slice(&signature).map_err(|error| wrong(path, format!("its signature: {error}")))?;
        signed = signature.signer(&text).map_err(|what| wrong(path, what))?;
        next = read_header(&mut reader).map_err(failed)?;
    }
    let mut buffer = vec![0; 1 << 16];
    for file in &manifest.files {
        let name = file.path.escape_debug();
        match &next {
            Some((found, size)) if *found == file.path && *size == file.size_bytes => {}
            Some((found, _)) if *found == file.path => {
                return Err(damaged(&format!("the size of `{name}` differs from its manifest")));
            }
            Some((found, _)) => {
                return Err(damaged(&format!("`{}` is where its manifest has `{name}`", found.escape_debug())));
            }
            None => return Err(damaged(&format!("`{name}` is missing"))),
        }
        each(file, &[])?;
        let mut content = Hashing::new((&mut reader).take(file.size_bytes));
        loop {
            match content.read(&mut buffer).map_err(failed)? {
                0 => break,
                n => each(file, &buffer[..n])?,
            }
        }
        let (sha256, size) = content.finish();
        if size < file.size_bytes {
            return Err(damaged("it is cut short; copy it again"));
        }
        if sha256 != file.sha256 {
            return Err(damaged(&format!(
                "the content of `{name}` differs from its manifest: it was changed or damaged"
            )));
        }
        skip_padding(&mut reader, size).map_err(failed)?;
        next = read_header(&mut reader).map_err(failed)?;
    }
    if let Some((found, _)) = next {
        return Err(damaged(&format!("`{}` is not in its manifest, or is repeated", found.escape_debug())));
    }
    // The end of an archive has two empty blocks, of which one was read.
    if read_header(&mut reader).map_err(failed)?.is_some() || reader.read(&mut buffer).map_err(failed)? > 0 {
        return Err(damaged("something follows its end"));
    }
    Ok((manifest, signed))
}
