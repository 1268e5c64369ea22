//! Writes a bundle.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::PathBuf;

use super::inputs::Input;
use super::manifest::{BUNDLE_FORMAT, BundleFile, Hashing, Manifest, sha256_of};
use super::read::{MANIFEST, SIGNATURE};
use super::signature::SigningKey;
use super::tar::{write_end, write_file};

/// The compression level of zstd. The text of results becomes hardly smaller at higher ones.
const LEVEL: i32 = 10;

/// A file for a bundle.
#[derive(Debug, Clone)]
pub struct PackedFile {
    /// Its path in the bundle.
    pub path: String,
    /// What it contains.
    pub content: Content,
}

/// The content of a file for a bundle.
#[derive(Debug, Clone)]
pub enum Content {
    /// A file of this machine.
    File(PathBuf),
    /// These bytes.
    Bytes(Vec<u8>),
}

impl Content {
    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match self {
            Self::File(path) => {
                let file = File::open(path)
                    .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
                Box::new(BufReader::new(file))
            }
            Self::Bytes(bytes) => Box::new(bytes.as_slice()),
        })
    }
}

/// Writes a bundle of these files, signed if there is a key. The same files make the same bytes.
///
/// # Errors
/// A file cannot be read, changes meanwhile, or has a path that a bundle cannot have; or `out` cannot be written.
pub fn write_bundle(
    out: impl Write,
    mut files: Vec<PackedFile>,
    inputs: Vec<Input>,
    key: Option<&SigningKey>,
) -> io::Result<Manifest> {
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let listed = |file: &PackedFile| {
        let (sha256, size_bytes) = sha256_of(file.content.open()?)?;
        Ok(BundleFile { path: file.path.clone(), sha256, size_bytes })
    };
    let listed = files.iter().map(listed).collect::<io::Result<Vec<_>>>()?;
    let manifest = Manifest { format: BUNDLE_FORMAT.to_owned(), inputs, files: listed };
    manifest.check().map_err(|what| io::Error::new(ErrorKind::InvalidInput, what))?;
    let mut text = serde_json::to_vec_pretty(&manifest)?;
    text.push(b'\n');
    let mut out = zstd::stream::write::Encoder::new(out, LEVEL)?;
    write_file(&mut out, MANIFEST, text.len() as u64, text.as_slice())?;
    if let Some(key) = key {
        let signature = serde_json::to_vec_pretty(&key.sign(&text))?;
        write_file(&mut out, SIGNATURE, signature.len() as u64, signature.as_slice())?;
    }
    for (file, listed) in files.iter().zip(&manifest.files) {
        let mut content = Hashing::new(file.content.open()?);
        write_file(&mut out, &file.path, listed.size_bytes, &mut content)?;
        if content.finish().0 != listed.sha256 {
            let what = format!("{} changed while it was packed; pack it again", file.path);
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
    }
    write_end(&mut out)?;
    out.finish()?.flush()?;
    Ok(manifest)
}
