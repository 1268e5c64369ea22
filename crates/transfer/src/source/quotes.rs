//! Checks the quotes of CSV before parsing. The parser accepts anything, and with one quote too many, a field swallows
//! the rows after it.

use std::io::{self, Read};

use memchr::{memchr, memchr_iter};

use super::reader::read_some;
use crate::error::TransferError;

/// A byte order mark may precede the first field.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";
const HOW: &str = "no row from here on was copied. A field that contains quotes must be quoted, and each of its quotes \
                   is written twice: \"a \"\"b\"\"\". Fix the file and copy it again";

/// Passes its input through unchanged, up to the first invalid quote. A quote inside a field that does not start with
/// one is plain text.
pub(super) struct Quotes<R> {
    input: R,
    name: String,
    delimiter: u8,
    state: QuoteState,
    /// Whether a field starts at the next byte, if no quote is open.
    begins: bool,
    /// Whether the last byte ended a line.
    ended_row: bool,
    begun: bool,
    /// The line of the next byte, from 1.
    line: u64,
    /// The line of the last opening quote.
    opened: u64,
    fault: Option<TransferError>,
    /// Whether quotes are plain characters.
    plain: bool,
}

#[derive(PartialEq)]
enum QuoteState {
    Outside,
    Inside,
    /// After a quote inside a quoted field. Either it closes the field, or a second quote follows and both stand for
    /// one.
    Behind,
}

impl<R: Read> Quotes<R> {
    pub(super) fn new(input: R, delimiter: u8, name: String) -> Self {
        Self {
            input,
            name,
            delimiter,
            state: QuoteState::Outside,
            begins: true,
            ended_row: true,
            begun: false,
            line: 1,
            opened: 1,
            fault: None,
            plain: false,
        }
    }

    /// Passes quotes as plain characters.
    pub(super) fn none(input: R) -> Self {
        Self { plain: true, ..Self::new(input, b'\t', String::new()) }
    }

    /// Whether the last byte read ended a row.
    pub(super) fn is_at_row(&self) -> bool {
        self.ended_row && self.state != QuoteState::Inside
    }

    /// Reads from the input. The first read is long enough for a byte order mark, because the parser does not recognize
    /// a split one.
    fn fill(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let enough = if self.begun { 1 } else { BOM.len().min(into.len()) };
        let mut filled = 0;
        while filled < enough {
            match read_some(&mut self.input, &mut into[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    /// Checks the bytes that were read; an empty slice means the end of the input. Returns how many bytes are valid.
    fn look(&mut self, bytes: &[u8]) -> usize {
        if bytes.is_empty() {
            if self.state == QuoteState::Inside {
                self.fail(self.opened, "the quote that opens a field here is never closed");
            }
            return 0;
        }
        let (line, delimiter) = (self.line, self.delimiter);
        let ends = |byte: u8| byte == delimiter || matches!(byte, b'\n' | b'\r');
        let line_at = |at: usize| line + memchr_iter(b'\n', &bytes[..at]).count() as u64;
        let first = if !self.begun && bytes.starts_with(BOM) { BOM.len() } else { 0 };
        self.begun = true;
        let (mut at, mut opened) = (first, None);
        while at < bytes.len() {
            if self.state == QuoteState::Behind {
                self.state = match bytes[at] {
                    b'"' => QuoteState::Inside,
                    byte if ends(byte) => QuoteState::Outside,
                    _ => {
                        let opened = opened.map_or(self.opened, line_at);
                        let what = format!("text follows the closing quote of a field that begins in line {opened}");
                        self.fail(line_at(at), &what);
                        return at;
                    }
                };
                at += 1;
                continue;
            }
            let Some(found) = memchr(b'"', &bytes[at..]).filter(|_| !self.plain) else { break };
            at += found;
            let begins = if at == first { self.begins } else { ends(bytes[at - 1]) };
            if self.state == QuoteState::Inside {
                self.state = QuoteState::Behind;
            } else if begins {
                self.state = QuoteState::Inside;
                opened = Some(at);
            }
            at += 1;
        }
        if let Some(at) = opened {
            self.opened = line_at(at);
        }
        self.begins = bytes[first..].last().map_or(self.begins, |last| ends(*last));
        self.ended_row = bytes[first..].last().map_or(self.ended_row, |last| matches!(last, b'\n' | b'\r'));
        self.line = line_at(bytes.len());
        bytes.len()
    }

    fn fail(&mut self, line: u64, what: &str) {
        self.fault = Some(TransferError::Damaged(format!("{}, line {line}: {what}; {HOW}", self.name)));
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let mut right = 0;
        if self.fault.is_none() {
            let read = self.fill(into)?;
            right = self.look(&into[..read]);
        }
        match &self.fault {
            // Report the fault only after the bytes before it are consumed: those rows are complete.
            Some(fault) if right == 0 => Err(io::Error::new(io::ErrorKind::InvalidData, fault.clone())),
            _ => Ok(right),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads in pieces of these sizes, repeated in turn.
    struct Pieces<'a> {
        text: &'a [u8],
        sizes: std::iter::Cycle<std::iter::Copied<std::slice::Iter<'a, usize>>>,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let size = self.sizes.next().unwrap_or(1).min(into.len());
            self.text.read(&mut into[..size])
        }
    }

    fn quotes<'a>(text: &'a [u8], sizes: &'a [usize], delimiter: u8) -> Quotes<Pieces<'a>> {
        Quotes::new(Pieces { text, sizes: sizes.iter().copied().cycle() }, delimiter, "a.csv".to_owned())
    }

    /// The bytes that pass, and the error after them.
    fn passed(text: &[u8], sizes: &[usize], delimiter: u8) -> (Vec<u8>, Option<String>) {
        let mut out = Vec::new();
        let ended = quotes(text, sizes, delimiter).read_to_end(&mut out);
        let told = ended.err().map(|error| {
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            TransferError::within(&error).unwrap().to_string()
        });
        (out, told)
    }

    #[test]
    fn quotes_that_are_right_pass() {
        for text in [
            "",
            "a",
            "\"\"",
            "\"\"\"\"",
            "\u{feff}\"a\",b\n",
            "\u{feff}",
            "a\"b,c\"\"d,e\"\n\"f\"\r\n\"\"\r\n\n\r\"g\"\r\"h\"",
            "\"a,\n\"\"\r\n\",\"\"\n",
            "a,\u{feff}\"b,c\n",
        ] {
            for size in 1..9 {
                assert_eq!(
                    passed(text.as_bytes(), &[size], b','),
                    (text.as_bytes().to_vec(), None::<String>),
                    "{text:?} by {size}"
                );
            }
        }
        assert_eq!(passed(b"a,\"b\t\"c\"", &[2], b'\t').1, None);
    }

    #[test]
    fn quotes_that_are_wrong_are_told_with_their_line() {
        for (text, before, part) in [
            ("id,text\n1,a\n2,\"oops\n3,x\n4,y\n", 28, "a.csv, line 3: the quote"),
            ("\"", 1, "line 1: the quote"),
            ("\u{feff}\"a\n", 6, "line 1: the quote"),
            ("a\n\"b\"\"\n", 7, "line 2: the quote"),
            ("a\r\n\"b\nc\" ,d\n", 8, "line 3: text follows the closing quote of a field that begins in line 2"),
            ("a,\"b\\\"c\\\"\"\n", 6, "line 1: text follows"),
            ("\"a\"\"\"b", 5, "line 1: text follows"),
        ] {
            for size in 1..9 {
                let (out, told) = passed(text.as_bytes(), &[size], b',');
                assert_eq!(out, &text.as_bytes()[..before], "{text:?} by {size}");
                let told = told.unwrap();
                assert!(told.contains(part) && told.contains("written twice"), "{text:?} by {size}: {told}");
            }
        }
    }

    #[test]
    fn rows_before_a_fault_are_handed_out() {
        for (text, rows) in [("id,t\n1,a\n2,\"b\"\"c\"\n3,\"d\n4,e\n", 2), ("id,t\n1,a\n2,\"b\" c\n3,d\n", 1)] {
            for size in [1, 3, 100] {
                let sizes = [size];
                let mut reader = csv::Reader::from_reader(quotes(text.as_bytes(), &sizes, b','));
                let read: Vec<_> = reader.byte_records().collect();
                assert_eq!(read.len(), rows + 1, "{read:?}");
                let (last, whole) = read.split_last().unwrap();
                assert!(whole.iter().all(Result::is_ok), "{read:?}");
                let error = last.as_ref().unwrap_err();
                assert!(matches!(error.kind(), csv::ErrorKind::Io(_)), "{error}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_a_writer_of_csv_writes_passes_as_it_is(
            rows in prop::collection::vec(prop::collection::vec("[a,\t\"\r\n é\u{feff}]{0,6}", 1..5), 0..20),
            sizes in prop::collection::vec(1usize..12, 1..5),
            tabs in any::<bool>(),
            always in any::<bool>(),
            marked in any::<bool>(),
        ) {
            let delimiter = if tabs { b'\t' } else { b',' };
            let style = if always { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
            let begin = if marked { BOM.to_vec() } else { Vec::new() };
            let mut writer = csv::WriterBuilder::new()
                .delimiter(delimiter)
                .quote_style(style)
                .flexible(true)
                .from_writer(begin);
            for row in &rows {
                writer.write_record(row).unwrap();
            }
            let text = writer.into_inner().unwrap();
            prop_assert_eq!(passed(&text, &sizes, delimiter), (text, None::<String>));
        }

        #[test]
        fn the_pieces_in_which_it_comes_do_not_count(
            text in "\u{feff}?[a,\"\r\n]{0,30}",
            sizes in prop::collection::vec(1usize..6, 1..5),
        ) {
            prop_assert_eq!(passed(text.as_bytes(), &sizes, b','), passed(text.as_bytes(), &[1_000], b','));
        }
    }
}
