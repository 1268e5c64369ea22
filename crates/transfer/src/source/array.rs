//! Reads the elements of one JSON array, as a stream.

use std::io::{self, Read};

use super::Unreadable;
use super::damage::Damage;
use super::lines::LONGEST_LINE_BYTES;
use super::quotes::BOM;
use super::reader::{FileRecords, FoundRecord, read_some};
use crate::error::TransferError;
use crate::shape::members::Texts;

const CHUNK_BYTES: usize = 256 << 10;

pub(super) struct ArrayRecords<R> {
    input: R,
    damage: Damage,
    buffer: Vec<u8>,
    at: usize,
    /// Bytes of the last returned element.
    taken: usize,
    /// Offset of the buffer's first byte.
    offset: u64,
    state: ListState,
    name: String,
}

#[derive(PartialEq)]
enum ListState {
    Before,
    /// After the opening bracket or a comma.
    Element,
    /// After an element.
    Comma,
    Ended,
    /// The input ended inside an element.
    Cut,
}

impl<R: Read> ArrayRecords<R> {
    pub(super) fn new(input: R, damage: Damage, name: String) -> Self {
        Self { input, damage, buffer: Vec::new(), at: 0, taken: 0, offset: 0, state: ListState::Before, name }
    }

    /// Reads more input. Returns false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.at);
        self.offset += self.at as u64;
        self.at = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + CHUNK_BYTES, 0);
        let read = read_some(&mut self.input, &mut self.buffer[filled..])?;
        self.buffer.truncate(filled + read);
        Ok(read > 0)
    }

    /// The next byte that is not whitespace, without consuming it.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.buffer.get(self.at).copied() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(byte) => return Ok(Some(byte)),
                None if self.fill()? => {}
                None => return Ok(None),
            }
        }
    }

    /// Skips a byte order mark at the beginning of the input. Returns whether there was one.
    fn skips_bom(&mut self) -> io::Result<bool> {
        while self.buffer.len() - self.at < BOM.len() && self.fill()? {}
        let is_bom = self.offset + self.at as u64 == 0 && self.buffer.starts_with(BOM);
        self.at += if is_bom { BOM.len() } else { 0 };
        Ok(is_bom)
    }

    /// The length of the element that starts here, up to the following comma or bracket.
    fn element(&mut self) -> Result<usize, TransferError> {
        let (mut length, mut depth, mut texts) = (0, 0_u32, Texts::default());
        loop {
            while let Some(byte) = self.buffer.get(self.at + length) {
                match byte {
                    _ if !texts.is_outside(*byte) => {}
                    b'{' | b'[' => depth += 1,
                    b',' | b']' if depth == 0 => return Ok(length),
                    b'}' | b']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                length += 1;
            }
            if length > LONGEST_LINE_BYTES {
                return Err(self.broken(&format!("an element is longer than {LONGEST_LINE_BYTES} bytes")));
            }
            if !self.fill().map_err(|e| TransferError::read(&self.name, &e))? {
                self.state = ListState::Cut;
                return Err(self.cut());
            }
        }
    }

    fn broken(&self, what: &str) -> TransferError {
        TransferError::Damaged(format!("{}, byte {}: {what}", self.name, self.offset + self.at as u64))
    }

    /// The error for input that ends before the array does.
    fn cut(&self) -> TransferError {
        self.damage.found().unwrap_or_else(|| self.broken("the array does not end (truncated?)"))
    }

    /// Advances to the next element and returns its length.
    fn find(&mut self) -> Result<Option<usize>, TransferError> {
        loop {
            let byte = self.peek().map_err(|e| TransferError::read(&self.name, &e))?;
            let at_bom = self.state == ListState::Before && byte == Some(BOM[0]);
            if at_bom && self.skips_bom().map_err(|e| TransferError::read(&self.name, &e))? {
                continue;
            }
            match (&self.state, byte) {
                (ListState::Before, Some(b'[')) => self.state = ListState::Element,
                (ListState::Before, _) => {
                    return Err(TransferError::Source(format!(
                        "{}: a JSON array begins with `[`; if each line is a document, use --from-format jsonl",
                        self.name
                    )));
                }
                (ListState::Ended, None) => return self.damage.found().map_or(Ok(None), Err),
                (ListState::Ended, Some(_)) => return Err(self.broken("unexpected data after the array")),
                (ListState::Element | ListState::Comma, Some(b']')) => self.state = ListState::Ended,
                (ListState::Comma, Some(b',')) => self.state = ListState::Element,
                (ListState::Element, Some(_)) => {
                    let length = self.element()?;
                    self.state = ListState::Comma;
                    return Ok(Some(length));
                }
                (_, None) => return Err(self.cut()),
                (ListState::Cut, Some(_)) => return Err(self.cut()),
                (ListState::Comma, Some(_)) => return Err(self.broken("a comma is missing")),
            }
            self.at += 1;
        }
    }
}

impl<R: Read> FileRecords for ArrayRecords<R> {
    fn next(&mut self) -> Result<Option<FoundRecord<'_>>, TransferError> {
        self.at += std::mem::take(&mut self.taken);
        self.taken = match self.find() {
            Ok(Some(length)) => length,
            Ok(None) => return Ok(None),
            // First return what is left of the element that was cut off.
            Err(_) if self.state == ListState::Cut && self.at < self.buffer.len() => self.buffer.len() - self.at,
            Err(error) => return Err(error),
        };
        let element = self.buffer[self.at..self.at + self.taken].trim_ascii_end();
        let json = std::str::from_utf8(element).map_err(|e| {
            Unreadable::of(format!("not UTF-8 from byte {} of the record on", e.valid_up_to() + 1), element)
        });
        Ok(Some((self.offset + self.at as u64, json)))
    }

    fn told(&mut self, bad: Unreadable) -> Unreadable {
        // If the element itself is complete, only what should follow it is missing.
        if self.state == ListState::Cut {
            let why = "the file ends in the middle of this record (truncated?)".to_owned();
            return Unreadable { why, exact: false, ..bad };
        }
        bad
    }
}
