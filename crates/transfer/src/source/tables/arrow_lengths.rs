//! Checks lengths in Arrow files and streams before memory is allocated. A compressed buffer states its own
//! decompressed size, and a damaged buffer may state any size.

use std::io::{self, Read};

use arrow_ipc::{CompressionType, Message, root_as_footer, root_as_message};
use parquet::file::reader::{ChunkReader, Length};

use crate::place::Chunks;

/// Optional marker at the start of a message.
const CONTINUED: [u8; 4] = [0xff; 4];
/// Bytes at the end of a file: the length of the footer and the magic bytes.
const END_BYTES: u64 = 10;

/// Refuses a message whose buffers cannot be as large as they state. `start` returns the eight bytes of the body at an
/// offset.
fn check(message: Message<'_>, start: &mut dyn FnMut(u64) -> Option<[u8; 8]>) -> Result<(), String> {
    let dictionary = message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
    let Some(batch) = message.header_as_record_batch().or(dictionary) else { return Ok(()) };
    let (Some(compression), Some(buffers)) = (batch.compression(), batch.buffers()) else { return Ok(()) };
    for buffer in buffers {
        let (offset, packed) = (buffer.offset(), buffer.length());
        if packed == 0 {
            continue;
        }
        let unpacked = u64::try_from(offset).ok().and_then(&mut *start).map(i64::from_le_bytes);
        let times = if compression.codec() == CompressionType::LZ4_FRAME { 255 } else { 40_000 };
        // -1 marks a buffer that is not compressed.
        let most = packed.saturating_mul(times).saturating_add(1_024);
        match unpacked {
            Some(-1) => {}
            Some(unpacked) if (0..=most).contains(&unpacked) => {}
            Some(unpacked) => return Err(format!("{packed} bytes cannot decompress to {unpacked} bytes")),
            None => return Err("a buffer is beyond the end".into()),
        }
    }
    Ok(())
}

/// Checks some batches of a file, or with `None` its dictionaries.
///
/// # Errors
/// What is wrong with them.
pub(super) fn check_file(chunks: &Chunks, batches: Option<std::ops::Range<usize>>) -> Result<(), String> {
    let bytes = |at: u64, length: usize| chunks.get_bytes(at, length).map_err(|e| e.to_string());
    let all = chunks.len();
    let end = bytes(all.checked_sub(END_BYTES).ok_or("it is too short")?, 4)?;
    let footer_bytes = u64::from(u32::from_le_bytes(end[..].try_into().map_err(|_| "it is too short")?));
    let begin = all.checked_sub(END_BYTES + footer_bytes).ok_or("its footer is longer than the file")?;
    let footer_bytes = bytes(begin, footer_bytes as usize)?;
    let footer = root_as_footer(&footer_bytes).map_err(|e| format!("its footer cannot be read: {e}"))?;
    let blocks = if batches.is_some() { footer.recordBatches() } else { footer.dictionaries() };
    let blocks = blocks.into_iter().flatten();
    let wanted = batches.unwrap_or(0..usize::MAX);
    for block in blocks.skip(wanted.start).take(wanted.len()) {
        let at = u64::try_from(block.offset()).map_err(|_| "a batch has a negative offset")?;
        let metadata = u32::try_from(block.metaDataLength()).map_err(|_| "a batch has a negative length")?;
        let body = u64::try_from(block.bodyLength()).map_err(|_| "a batch has a negative length")?;
        let body_at = at.saturating_add(u64::from(metadata));
        if body_at.saturating_add(body) > all {
            return Err("a batch is beyond the end".into());
        }
        let message = bytes(at, metadata as usize)?;
        // Skip the optional marker and the length.
        let head = if message.starts_with(&CONTINUED) { 8 } else { 4 };
        let message = root_as_message(message.get(head..).unwrap_or_default());
        let message = message.map_err(|e| format!("a batch cannot be read: {e}"))?;
        check(message, &mut |offset| {
            let place = body_at.checked_add(offset).filter(|place| place.saturating_add(8) <= all)?;
            bytes(place, 8).ok()?[..].try_into().ok()
        })?;
    }
    Ok(())
}

/// A stream of messages, each of which is checked before it is passed on.
pub(super) struct Checked<R> {
    input: R,
    /// The current message.
    piece: Vec<u8>,
    at: usize,
    /// Whether the rest is passed on unchecked, because it is not a message.
    passes: bool,
}

impl<R: Read> Checked<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, piece: Vec::new(), at: 0, passes: false }
    }

    /// Reads the next bytes of a message. If they are missing, the message reader reports it.
    fn more(&mut self, bytes: u64) -> io::Result<bool> {
        let read = self.input.by_ref().take(bytes).read_to_end(&mut self.piece)?;
        self.passes = (read as u64) < bytes;
        Ok(!self.passes)
    }

    fn message(&mut self) -> io::Result<()> {
        self.piece.clear();
        self.at = 0;
        if !self.more(4)? {
            return Ok(());
        }
        if self.piece == CONTINUED && !self.more(4)? {
            return Ok(());
        }
        let head = self.piece.len();
        let length = self.piece.last_chunk().map_or(0, |length| i32::from_le_bytes(*length));
        let Ok(length @ 1..) = u64::try_from(length) else {
            // Zero ends a stream; a negative length is invalid.
            self.passes = true;
            return Ok(());
        };
        if !self.more(length)? {
            return Ok(());
        }
        let body_at = self.piece.len();
        let body = match root_as_message(&self.piece[head..]).map(|message| u64::try_from(message.bodyLength())) {
            Ok(Ok(body)) => body,
            _ => {
                self.passes = true;
                return Ok(());
            }
        };
        if !self.more(body)? {
            return Ok(());
        }
        let (message, body) = self.piece.split_at(body_at);
        let Ok(message) = root_as_message(&message[head..]) else { return Ok(()) };
        let start = &mut |offset| body.get(usize::try_from(offset).ok()?..)?.first_chunk().copied();
        check(message, start).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            if self.passes {
                return self.input.read(into);
            }
            self.message()?;
        }
        let read = (&self.piece[self.at..]).read(into)?;
        self.at += read;
        Ok(read)
    }
}
