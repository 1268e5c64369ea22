//! The elements of one JSON array, read as they come.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::lines::LONGEST_LINE_BYTES;
use super::unpack::Damage;
use super::{Reader, Room, Unreadable};
use crate::error::TransferError;
use crate::records::{Origin, Records};
use crate::shape::Maker;

const CHUNK_BYTES: usize = 256 << 10;

pub(super) struct ArrayReader<'a, R> {
    input: R,
    damage: Damage,
    buffer: Vec<u8>,
    at: usize,
    /// Offset of the buffer's first byte.
    offset: u64,
    state: State,
    maker: Maker<'a>,
    file: u32,
    name: String,
    read: Arc<AtomicU64>,
}

#[derive(PartialEq)]
enum State {
    Before,
    /// Behind the bracket or a comma.
    Element,
    /// Behind an element.
    Comma,
    Ended,
    /// The input ended within an element.
    Cut,
}

impl<'a, R: Read> ArrayReader<'a, R> {
    pub(super) fn new(
        input: R,
        damage: Damage,
        maker: Maker<'a>,
        file: u32,
        name: String,
        read: Arc<AtomicU64>,
    ) -> Self {
        Self { input, damage, buffer: Vec::new(), at: 0, offset: 0, state: State::Before, maker, file, name, read }
    }

    /// Reads on; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.at);
        self.offset += self.at as u64;
        self.at = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + CHUNK_BYTES, 0);
        loop {
            match self.input.read(&mut self.buffer[filled..]) {
                Ok(read) => {
                    self.buffer.truncate(filled + read);
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next byte that is no blank, not taken.
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

    /// The length of the element that begins here: up to the comma or bracket behind it.
    fn element(&mut self) -> Result<usize, TransferError> {
        let (mut length, mut depth, mut text, mut escaped) = (0, 0u32, false, false);
        loop {
            while let Some(byte) = self.buffer.get(self.at + length) {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if text => escaped = true,
                    b'"' => text = !text,
                    _ if text => {}
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
                self.state = State::Cut;
                return Err(self.cut());
            }
        }
    }

    fn broken(&self, what: &str) -> TransferError {
        TransferError::Damaged(format!("{}, byte {}: {what}", self.name, self.offset + self.at as u64))
    }

    /// The input ends before the list does.
    fn cut(&self) -> TransferError {
        self.damage.found().unwrap_or_else(|| self.broken("the list does not end (truncated?)"))
    }

    fn next(&mut self) -> Result<Option<usize>, TransferError> {
        loop {
            let byte = self.peek().map_err(|e| TransferError::read(&self.name, &e))?;
            match (&self.state, byte) {
                (State::Before, Some(b'[')) => self.state = State::Element,
                (State::Before, _) => {
                    return Err(TransferError::Source(format!(
                        "{}: a list of documents begins with `[`; if it holds a document on each line, say --from-format jsonl",
                        self.name
                    )));
                }
                (State::Ended, None) => return self.damage.found().map_or(Ok(None), Err),
                (State::Ended, Some(_)) => return Err(self.broken("something stands behind the list")),
                (State::Element | State::Comma, Some(b']')) => self.state = State::Ended,
                (State::Comma, Some(b',')) => self.state = State::Element,
                (State::Element, Some(_)) => {
                    let length = self.element()?;
                    self.state = State::Comma;
                    return Ok(Some(length));
                }
                (_, None) => return Err(self.cut()),
                (State::Cut, Some(_)) => return Err(self.cut()),
                (State::Comma, Some(_)) => return Err(self.broken("a comma is missing")),
            }
            self.at += 1;
        }
    }
}

impl<R: Read> Reader for ArrayReader<'_, R> {
    fn poll_read(
        &mut self,
        _: &mut Context<'_>,
        room: Room,
        into: &mut Records,
        bad: &mut Vec<Unreadable>,
    ) -> Poll<Result<bool, TransferError>> {
        while into.has_room(room) {
            let length = match self.next() {
                Ok(Some(length)) => length,
                Ok(None) => return Poll::Ready(Ok(false)),
                Err(error) => {
                    if self.state == State::Cut && self.at < self.buffer.len() {
                        let origin = Origin { unit: self.file, at: self.offset + self.at as u64 };
                        let rest = self.buffer[self.at..].trim_ascii_end();
                        // Only what should stand behind it may be missing.
                        let whole =
                            std::str::from_utf8(rest).is_ok_and(|json| self.maker.text(json, origin, into).is_ok());
                        if !whole {
                            let why = "the file ends in the middle of this record (truncated?)".to_owned();
                            let text = String::from_utf8_lossy(rest).into_owned();
                            bad.push(Unreadable { origin, key: None, why, text, exact: false });
                        }
                        self.at = self.buffer.len();
                    }
                    return Poll::Ready(Err(error));
                }
            };
            let origin = Origin { unit: self.file, at: self.offset + self.at as u64 };
            let element = self.buffer[self.at..self.at + length].trim_ascii_end();
            let made = std::str::from_utf8(element)
                .map_err(|e| format!("not UTF-8 from byte {} of it on", e.valid_up_to() + 1))
                .and_then(|json| self.maker.text(json, origin, into));
            if let Err(why) = made {
                let text = String::from_utf8_lossy(element);
                let exact = matches!(text, std::borrow::Cow::Borrowed(_));
                bad.push(Unreadable { origin, key: None, why, text: text.into_owned(), exact });
            }
            self.at += length;
        }
        Poll::Ready(Ok(true))
    }

    fn bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}
