//! The part of the tar format that bundles use: plain files, with names of any length as GNU tar writes them. Everything
//! that may differ between two archives of the same files (owner, time, mode) is fixed.

use std::io::{self, ErrorKind, Read, Write};

const BLOCK: usize = 512;
/// The most characters of a name in a header. A longer one is in a block of its own before the header.
const NAME: usize = 100;
/// The most characters of such a name that are read.
const MOST_NAME: u64 = 4_096;
const LONG_NAME: &str = "././@LongLink";

/// Writes a file. `content` must give exactly `size` bytes.
pub(super) fn write_file(out: &mut impl Write, name: &str, size: u64, content: impl Read) -> io::Result<()> {
    if name.len() > NAME {
        let long = [name.as_bytes(), b"\0"].concat();
        out.write_all(&header(LONG_NAME.as_bytes(), long.len() as u64, b'L'))?;
        out.write_all(&long)?;
        pad(out, long.len() as u64)?;
    }
    out.write_all(&header(&name.as_bytes()[..name.len().min(NAME)], size, b'0'))?;
    // One byte more, to notice that a file has grown.
    let written = io::copy(&mut content.take(size + 1), out)?;
    if written != size {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("{name} changed while it was packed; pack it again"),
        ));
    }
    pad(out, size)
}

/// Writes the end of the archive.
pub(super) fn write_end(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}

fn header(name: &[u8], size: u64, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, name);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(156, &[kind]);
    put(257, b"ustar  \0");
    let sum = format!("{:06o}\0 ", sum_of(&block));
    block[148..156].copy_from_slice(sum.as_bytes());
    block
}

/// The sum of a header, in which the sum itself counts as spaces.
fn sum_of(block: &[u8; BLOCK]) -> u32 {
    let sum: u32 =
        block.iter().enumerate().filter(|(at, _)| !(148..156).contains(at)).map(|(_, b)| u32::from(*b)).sum();
    sum + 8 * u32::from(b' ')
}

/// Fills up the last block of a file.
fn pad(out: &mut impl Write, size: u64) -> io::Result<()> {
    out.write_all(&[0; BLOCK][..padding(size)])
}

fn padding(size: u64) -> usize {
    (size.next_multiple_of(BLOCK as u64) - size) as usize
}

/// The name and size of the next file, or `None` at the end of the archive. Its content follows.
pub(super) fn read_header(reader: &mut impl Read) -> io::Result<Option<(String, u64)>> {
    let Some((name, size, kind)) = header_of(reader)? else { return Ok(None) };
    if kind != b'L' {
        return Ok(Some((name, size)));
    }
    if size > MOST_NAME {
        return Err(damaged("a name is too long"));
    }
    let mut long = vec![0; size as usize];
    reader.read_exact(&mut long)?;
    skip_padding(reader, size)?;
    let long = text(&long)?;
    match header_of(reader)? {
        Some((_, size, b'0')) => Ok(Some((long, size))),
        _ => Err(damaged("a name has no file")),
    }
}

/// Skips what fills up the last block of a file.
pub(super) fn skip_padding(reader: &mut impl Read, size: u64) -> io::Result<()> {
    reader.read_exact(&mut [0; BLOCK][..padding(size)])
}

fn header_of(reader: &mut impl Read) -> io::Result<Option<(String, u64, u8)>> {
    let mut block = [0; BLOCK];
    reader.read_exact(&mut block)?;
    if block == [0; BLOCK] {
        return Ok(None);
    }
    if &block[257..262] != b"ustar" || octal(&block[148..156]) != Some(u64::from(sum_of(&block))) {
        return Err(damaged("it is not a bundle, or is damaged"));
    }
    let name = text(&block[..NAME])?;
    match block[156] {
        kind @ (b'0' | b'L') => {
            let size = octal(&block[124..136]).ok_or_else(|| damaged("a size is not a number"))?;
            Ok(Some((name, size, kind)))
        }
        b'1' | b'2' => Err(damaged(&format!("`{}` is a link, and bundles have none", name.escape_debug()))),
        _ => Err(damaged(&format!("`{}` is not a plain file, and bundles have nothing else", name.escape_debug()))),
    }
}

/// Text up to the first zero.
fn text(bytes: &[u8]) -> io::Result<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).map_err(|_| damaged("a name is not UTF-8"))
}

fn octal(bytes: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(bytes).ok()?.trim_matches([' ', '\0']);
    u64::from_str_radix(digits, 8).ok()
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}
