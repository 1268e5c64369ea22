//! Decompresses gzip and zstd, for every verb that reads files. All data before damage is returned before the error, and the error says what is wrong
//! with the stream.

use std::io::{self, BufRead, BufReader, Read};

use flate2::{Crc, Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// Size of the input buffer.
const IN_BYTES: usize = 64 << 10;
/// The window size of deflate. A call with output space up to the end of the window holds nothing back, so that an
/// error does not lose data decompressed before it.
const WINDOW_BYTES: usize = 32 << 10;
/// The largest block of zstd.
const BLOCK_BYTES: usize = 128 << 10;
/// Bytes of a zstd frame that are enough to know the size of its header.
const FRAME_START: usize = 5;

/// The largest window of zstd that is read, as a power of two: `zstd --long=31`.
const WINDOW_LOG: u32 = 31;

/// Compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not compressed.
    Plain,
    /// gzip, possibly with several members.
    Gzip,
    /// zstd, possibly with several frames.
    Zstd,
}

impl Packing {
    /// The name, and the magic bytes that such files start with.
    pub fn told_by(self) -> (&'static str, &'static [u8]) {
        match self {
            Self::Plain => ("", &[]),
            Self::Gzip => ("gzip", &[0x1f, 0x8b]),
            Self::Zstd => ("zstd", &[0x28, 0xb5, 0x2f, 0xfd]),
        }
    }

    /// The compression that the first bytes of a file indicate.
    pub fn of_magic(first: &[u8]) -> Self {
        // A zstd file may begin with frames to skip, as those of pzstd do (RFC 8878, 3.1.2).
        if matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]) {
            return Self::Zstd;
        }
        let fits = |packing: &Self| first.starts_with(packing.told_by().1);
        [Self::Gzip, Self::Zstd].into_iter().find(fits).unwrap_or(Self::Plain)
    }

    /// The compression that a file name indicates.
    pub fn of_name(name: &str) -> Self {
        match name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "gz" => Self::Gzip,
            "zst" | "zstd" => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// Whether a file with this name and content is compressed but ends before its magic bytes do. Compressed files are
    /// never empty.
    pub fn is_cut_off(name: &str, first: &[u8]) -> bool {
        let (_, magic) = Self::of_name(name).told_by();
        first.len() < magic.len() && magic.starts_with(first)
    }
}

/// What is wrong with compressed data, and of which file. An error of a reader contains it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DamagedData(String);

impl DamagedData {
    /// The damage that a reader reported.
    pub fn within(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// Decompresses a file. Messages begin with its name, unless that is empty.
///
/// # Errors
/// No memory for the decoder. Errors of the reader contain [`DamagedData`] if the data are damaged.
pub fn unpacked(input: impl Read + Send + 'static, packing: Packing, name: &str) -> io::Result<Box<dyn Read + Send>> {
    let input = BufReader::with_capacity(IN_BYTES, input);
    Ok(match packing {
        Packing::Plain => Box::new(input.into_inner()),
        Packing::Gzip => Box::new(Unpacker::new(Gzip::new(input), name)),
        Packing::Zstd => Box::new(Unpacker::new(Zstd::new(input)?, name)),
    })
}

/// The error for a file that ends before its magic bytes do.
pub fn cut_off(name: &str, packing: Packing) -> DamagedData {
    damaged(name, packing.told_by().0, What::Cut)
}

/// The result of a decompression step.
enum Step {
    /// This many bytes were decompressed; may be zero.
    Some(usize),
    /// This many bytes were decompressed before the stream turned out to be damaged.
    Damaged(usize, What),
    /// The end of the stream.
    End,
}

#[derive(Clone, Copy)]
enum What {
    Cut,
    Corrupt,
    Checksum,
    Trailing,
}

fn damaged(name: &str, format: &str, what: What) -> DamagedData {
    let place = if name.is_empty() { String::new() } else { format!("{name}: ") };
    DamagedData(match what {
        What::Cut => format!("{place}the {format} stream ends in the middle (truncated download?)"),
        What::Corrupt => format!("{place}the {format} stream is corrupt"),
        What::Checksum => {
            format!("{place}the checksum of the {format} stream is wrong, so any record in it may be damaged")
        }
        What::Trailing => format!("{place}other data follows the {format} stream and was not read"),
    })
}

trait Unpack {
    const FORMAT: &'static str;

    /// Decompresses the next bytes into `out`.
    fn step(&mut self, out: &mut [u8]) -> io::Result<Step>;
}

struct Unpacker<U> {
    unpack: U,
    name: String,
    out: Vec<u8>,
    at: usize,
    filled: usize,
    fault: Option<DamagedData>,
}

impl<U: Unpack> Unpacker<U> {
    fn new(unpack: U, name: &str) -> Self {
        Self { unpack, name: name.to_owned(), out: vec![0; BLOCK_BYTES], at: 0, filled: 0, fault: None }
    }
}

impl<U: Unpack> Read for Unpacker<U> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = (self.filled - self.at).min(into.len());
            if length > 0 || into.is_empty() {
                into[..length].copy_from_slice(&self.out[self.at..self.at + length]);
                self.at += length;
                return Ok(length);
            }
            if let Some(fault) = &self.fault {
                return Err(io::Error::other(fault.clone()));
            }
            (self.at, self.filled) = (0, 0);
            match self.unpack.step(&mut self.out)? {
                Step::Some(filled) => self.filled = filled,
                Step::Damaged(filled, what) => {
                    self.filled = filled;
                    self.fault = Some(damaged(&self.name, U::FORMAT, what));
                }
                Step::End => return Ok(0),
            }
        }
    }
}

/// gzip (RFC 1952) with one or more members.
struct Gzip<R> {
    input: R,
    state: GzipState,
    inflate: Decompress,
    crc: Crc,
    /// Whether a member was read completely.
    some: bool,
}

enum GzipState {
    Header,
    Body,
    Trailer,
    /// After the last member, where zeros may pad a tape block.
    Padding,
}

impl<R: BufRead> Gzip<R> {
    fn new(input: R) -> Self {
        Self { input, state: GzipState::Header, inflate: Decompress::new(false), crc: Crc::new(), some: false }
    }

    /// The next bytes; `None` if the input ends inside them.
    fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        match self.input.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(bytes)),
            Err(e)
                if e.kind() == io::ErrorKind::UnexpectedEof && e.get_ref().is_none_or(|e| !e.is::<DamagedData>()) =>
            {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn header(&mut self) -> io::Result<Option<What>> {
        if matches!(self.input.fill_buf()?.first(), None | Some(0)) {
            self.state = GzipState::Padding;
            return Ok((!self.some).then_some(What::Cut));
        }
        let Some(magic) = self.take::<2>()? else { return Ok(Some(What::Cut)) };
        if magic != [0x1f, 0x8b] {
            return Ok(Some(What::Trailing));
        }
        let Some([method, flags, ..]) = self.take::<8>()? else { return Ok(Some(What::Cut)) };
        if method != 8 || flags & 0b1110_0000 != 0 {
            return Ok(Some(What::Corrupt));
        }
        let has = |flag: u8| flags & flag != 0;
        if has(0b100) {
            let Some(length) = self.take::<2>()? else { return Ok(Some(What::Cut)) };
            for _ in 0..u16::from_le_bytes(length) {
                if self.take::<1>()?.is_none() {
                    return Ok(Some(What::Cut));
                }
            }
        }
        // A name and a comment, each terminated by a zero byte.
        for _ in 0..u8::from(has(0b1000)) + u8::from(has(0b1_0000)) {
            loop {
                match self.take::<1>()? {
                    Some([0]) => break,
                    Some(_) => {}
                    None => return Ok(Some(What::Cut)),
                }
            }
        }
        if has(0b10) && self.take::<2>()?.is_none() {
            return Ok(Some(What::Cut));
        }
        self.inflate.reset(false);
        self.crc.reset();
        self.state = GzipState::Body;
        Ok(None)
    }

    fn trailer(&mut self) -> io::Result<Option<What>> {
        let Some(trailer) = self.take::<8>()? else { return Ok(Some(What::Cut)) };
        let (sum, amount) = (self.crc.sum().to_le_bytes(), self.crc.amount().to_le_bytes());
        (self.state, self.some) = (GzipState::Header, true);
        Ok(([sum, amount].concat() != trailer).then_some(What::Checksum))
    }
}

impl<R: BufRead> Unpack for Gzip<R> {
    const FORMAT: &'static str = "gzip";

    fn step(&mut self, out: &mut [u8]) -> io::Result<Step> {
        let wrong = match self.state {
            GzipState::Header => self.header()?,
            GzipState::Trailer => self.trailer()?,
            GzipState::Padding => {
                let rest = self.input.fill_buf()?;
                if rest.is_empty() {
                    return Ok(Step::End);
                }
                let (length, zeros) = (rest.len(), rest.iter().all(|byte| *byte == 0));
                self.input.consume(length);
                (!zeros).then_some(What::Trailing)
            }
            GzipState::Body => {
                let input = self.input.fill_buf()?;
                if input.is_empty() {
                    return Ok(Step::Damaged(0, What::Cut));
                }
                let (consumed, written) = (self.inflate.total_in(), self.inflate.total_out());
                let room = WINDOW_BYTES - written as usize % WINDOW_BYTES;
                let status = self.inflate.decompress(input, &mut out[..room], FlushDecompress::None);
                let filled = (self.inflate.total_out() - written) as usize;
                self.input.consume((self.inflate.total_in() - consumed) as usize);
                self.crc.update(&out[..filled]);
                return Ok(match status {
                    Err(_) => Step::Damaged(filled, What::Corrupt),
                    Ok(Status::StreamEnd) => {
                        self.state = GzipState::Trailer;
                        Step::Some(filled)
                    }
                    Ok(_) => Step::Some(filled),
                });
            }
        };
        Ok(wrong.map_or(Step::Some(0), |what| Step::Damaged(0, what)))
    }
}

/// zstd with one or more frames. The decoder is given at most one block at a time, so that an error does not lose the
/// blocks before it.
struct Zstd<R> {
    input: R,
    decoder: Decoder<'static>,
    /// Number of bytes that the decoder wants next.
    wanted: usize,
    /// Whether the input is between two frames.
    between: bool,
    some: bool,
    /// Whether the decoder may hold output that did not fit into the last call's buffer.
    holds: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(input: R) -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
        Ok(Self { input, decoder, wanted: FRAME_START, between: true, some: false, holds: false })
    }
}

impl<R: BufRead> Unpack for Zstd<R> {
    const FORMAT: &'static str = "zstd";

    fn step(&mut self, out: &mut [u8]) -> io::Result<Step> {
        let input = if self.holds { &[][..] } else { self.input.fill_buf()? };
        if input.is_empty() && !self.holds {
            return Ok(if self.between && self.some { Step::End } else { Step::Damaged(0, What::Cut) });
        }
        let mut given = InBuffer::around(&input[..self.wanted.min(input.len())]);
        let mut got = OutBuffer::around(out);
        let hint = self.decoder.run(&mut given, &mut got);
        let (consumed, filled, room) = (given.pos(), got.pos(), got.capacity());
        self.input.consume(consumed);
        Ok(match hint {
            Err(e) if e.to_string().contains("checksum") => Step::Damaged(filled, What::Checksum),
            // Unknown data after a complete frame does not damage that frame.
            Err(_) if self.between && self.some => Step::Damaged(filled, What::Trailing),
            Err(_) => Step::Damaged(filled, What::Corrupt),
            Ok(hint) => {
                (self.between, self.holds) = (hint == 0, filled == room);
                self.some |= hint == 0;
                self.wanted = if hint == 0 { FRAME_START } else { hint };
                Step::Some(filled)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut out = flate2::GzBuilder::new()
            .filename("a")
            .comment("b")
            .extra(vec![1, 2, 3])
            .write(Vec::new(), flate2::Compression::fast());
        out.write_all(text).unwrap();
        out.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        let mut out = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        out.include_checksum(true).unwrap();
        out.write_all(text).unwrap();
        out.finish().unwrap()
    }

    fn pack(packing: Packing, text: &[u8]) -> Vec<u8> {
        if packing == Packing::Gzip { gzip(text) } else { zstd(text) }
    }

    /// What is decompressed, and the error at the end.
    fn read(packing: Packing, packed: Vec<u8>) -> (Vec<u8>, Option<String>) {
        let mut out = Vec::new();
        let ended = unpacked(io::Cursor::new(packed), packing, "f").unwrap().read_to_end(&mut out);
        (out, ended.err().map(|e| DamagedData::within(&e).unwrap().to_string()))
    }

    fn text() -> Vec<u8> {
        let mut state = 7_u64;
        let mut words = (0..60_000).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{} ", state >> 44)
        });
        let mut text: Vec<u8> = words.by_ref().take(50_000).collect::<String>().into();
        // Repetitive data expands to many times its size in one step.
        text.extend(vec![b'x'; 3 << 20]);
        text.extend(words.collect::<String>().into_bytes());
        text
    }

    #[test]
    fn what_is_whole_comes_back_also_of_several_members() {
        let text = text();
        for packing in [Packing::Gzip, Packing::Zstd] {
            let packed = pack(packing, &text);
            assert!(read(packing, packed.clone()) == (text.clone(), None));
            let three = [packed.clone(), pack(packing, b""), packed].concat();
            assert!(read(packing, three) == ([text.clone(), text.clone()].concat(), None));
        }
        let padded = [gzip(b"abc"), vec![0; 512]].concat();
        assert_eq!(read(Packing::Gzip, padded), (b"abc".to_vec(), None));
    }

    #[test]
    fn what_is_cut_gives_all_before_the_cut() {
        let text = text();
        for packing in [Packing::Gzip, Packing::Zstd] {
            let packed = pack(packing, &text);
            let mut came = 0;
            for cut in (1..packed.len()).step_by(packed.len() / 97).chain([packed.len() - 1, packed.len() - 4]) {
                let (out, told) = read(packing, packed[..cut].to_vec());
                assert!(text.starts_with(&out), "{cut}");
                let told = told.unwrap();
                assert!(told.contains("stream ends in the middle"), "{cut} {told}");
                came = came.max(out.len());
            }
            assert_eq!(came, text.len());
            // The second member is cut off; the first is complete.
            let two = [packed.clone(), packed[..packed.len() / 2].to_vec()].concat();
            let (out, told) = read(packing, two);
            assert!(out.len() > text.len() && told.unwrap().contains("in the middle"));
        }
    }

    #[test]
    fn what_is_corrupt_or_followed_by_other_data_gives_all_before_it() {
        let text = text();
        for packing in [Packing::Gzip, Packing::Zstd] {
            let packed = pack(packing, &text);
            let mut sum = packed.clone();
            let at = sum.len() - if packing == Packing::Gzip { 6 } else { 2 };
            sum[at] ^= 1;
            let (out, told) = read(packing, sum);
            assert!(out == text);
            assert!(told.unwrap().contains("checksum"), "{packing:?}");
            let (out, told) = read(packing, [packed.clone(), b"garbage".to_vec()].concat());
            assert!(out == text);
            assert!(told.unwrap().contains("other data follows"), "{packing:?}");
        }
        // A deflate block of an invalid type directly after repetitive data.
        let mut repeats = gzip(&vec![b'x'; 100_000]);
        let body = repeats.len() - 8;
        let whole = read(Packing::Gzip, repeats[..body].to_vec()).0;
        assert_eq!(whole.len(), 100_000);
        repeats.truncate(body);
        let mut stored = flate2::Compress::new(flate2::Compression::fast(), false);
        let mut flushed = Vec::with_capacity(10_000);
        stored.compress_vec(&vec![b'x'; 100_000], &mut flushed, flate2::FlushCompress::Sync).unwrap();
        let mut broken = gzip(b"")[..gzip(b"").len() - 8 - 2].to_vec();
        broken.extend(flushed);
        broken.extend([0xff; 40]);
        let (out, told) = read(Packing::Gzip, broken);
        assert_eq!(out.len(), 100_000, "{told:?}");
        assert!(told.unwrap().contains("is corrupt"));
    }
}
