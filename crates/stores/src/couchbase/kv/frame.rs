//! Packets of the binary protocol. This module does no I/O.

pub(super) mod opcode {
    pub(in super::super) const GET: u8 = 0x00;
    pub(in super::super) const SET: u8 = 0x01;
    pub(in super::super) const ADD: u8 = 0x02;
    pub(in super::super) const REPLACE: u8 = 0x03;
    pub(in super::super) const DELETE: u8 = 0x04;
    pub(in super::super) const INCREMENT: u8 = 0x05;
    pub(in super::super) const APPEND: u8 = 0x0e;
    pub(in super::super) const PREPEND: u8 = 0x0f;
    pub(in super::super) const TOUCH: u8 = 0x1c;
    pub(in super::super) const HELLO: u8 = 0x1f;
    pub(in super::super) const SASL_AUTH: u8 = 0x21;
    pub(in super::super) const SASL_STEP: u8 = 0x22;
    pub(in super::super) const SELECT_BUCKET: u8 = 0x89;
    pub(in super::super) const GET_META: u8 = 0xa0;
    pub(in super::super) const GET_CLUSTER_CONFIG: u8 = 0xb5;
    pub(in super::super) const GET_COLLECTION_ID: u8 = 0xbb;
    pub(in super::super) const DICT_UPSERT: u8 = 0xc8;
    pub(in super::super) const SUBDOC_DELETE: u8 = 0xc9;
    pub(in super::super) const MULTI_MUTATION: u8 = 0xd1;
}

pub(super) mod status {
    pub(in super::super) const SUCCESS: u16 = 0x00;
    pub(in super::super) const KEY_NOT_FOUND: u16 = 0x01;
    pub(in super::super) const KEY_EXISTS: u16 = 0x02;
    pub(in super::super) const NOT_STORED: u16 = 0x05;
    pub(in super::super) const NO_NUMBER: u16 = 0x06;
    pub(in super::super) const NOT_MY_VBUCKET: u16 = 0x07;
    pub(in super::super) const NO_BUCKET: u16 = 0x08;
    pub(in super::super) const AUTH_STALE: u16 = 0x1f;
    pub(in super::super) const AUTH_CONTINUE: u16 = 0x21;
    pub(in super::super) const NO_ACCESS: u16 = 0x24;
    /// The first and the last status that speaks of paths of sub-documents.
    pub(in super::super) const PATHS: std::ops::RangeInclusive<u16> = 0xc0..=0xcc;
}

const REQUEST: u8 = 0x80;
const FLEXIBLE_REQUEST: u8 = 0x08;
const ANSWER: u8 = 0x81;
const FLEXIBLE_ANSWER: u8 = 0x18;
const HEADER_BYTES: usize = 24;
/// The offset of the vbucket in a request, and of its number.
const VBUCKET_AT: usize = 6;
const NUMBER_AT: usize = 12;
/// The longest answer accepted. Documents have at most 20 MiB.
const LONGEST_ANSWER: usize = 64 << 20;

/// A request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Request<'a> {
    pub(super) opcode: u8,
    pub(super) vbucket: u16,
    pub(super) cas: u64,
    /// The form of the value.
    pub(super) datatype: u8,
    /// Durability and the like.
    pub(super) frames: &'a [u8],
    pub(super) extras: &'a [u8],
    /// The number of the collection, in front of the key.
    pub(super) prefix: &'a [u8],
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

impl Request<'_> {
    /// Appends it. Keys have at most 255 bytes with their prefix.
    #[inline]
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let key = self.prefix.len() + self.key.len();
        let body = self.frames.len() + self.extras.len() + key + self.value.len();
        let mut header = [0; HEADER_BYTES];
        if self.frames.is_empty() {
            header[0] = REQUEST;
            header[2..4].copy_from_slice(&(key as u16).to_be_bytes());
        } else {
            (header[0], header[2], header[3]) = (FLEXIBLE_REQUEST, self.frames.len() as u8, key as u8);
        }
        (header[1], header[4], header[5]) = (self.opcode, self.extras.len() as u8, self.datatype);
        header[VBUCKET_AT..VBUCKET_AT + 2].copy_from_slice(&self.vbucket.to_be_bytes());
        header[8..12].copy_from_slice(&(body as u32).to_be_bytes());
        header[16..24].copy_from_slice(&self.cas.to_be_bytes());
        out.reserve(HEADER_BYTES + body);
        out.extend_from_slice(&header);
        // Few requests have all of them, and a copy of nothing is a call too.
        for part in [self.frames, self.extras, self.prefix, self.key, self.value] {
            if !part.is_empty() {
                out.extend_from_slice(part);
            }
        }
    }
}

/// Writes the number of a request into it.
#[inline]
pub(super) fn number(request: &mut [u8], number: u32) {
    request[NUMBER_AT..NUMBER_AT + 4].copy_from_slice(&number.to_be_bytes());
}

/// The vbucket of a request.
pub(super) fn vbucket(request: &[u8]) -> Option<u16> {
    request.get(VBUCKET_AT..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answer<'a> {
    pub(super) opcode: u8,
    pub(super) status: u16,
    pub(super) number: u32,
    pub(super) cas: u64,
    /// The form of the value.
    pub(super) datatype: u8,
    pub(super) extras: &'a [u8],
    pub(super) value: &'a [u8],
}

/// Reads the first answer, and how long it is. `None` while it is incomplete.
///
/// # Errors
/// What is wrong with the bytes.
#[inline]
pub(super) fn answer(bytes: &[u8]) -> Result<Option<(Answer<'_>, usize)>, &'static str> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let (frames, key) = match header[0] {
        ANSWER => (0, usize::from(u16::from_be_bytes([header[2], header[3]]))),
        FLEXIBLE_ANSWER => (usize::from(header[2]), usize::from(header[3])),
        _ => return Err("it is no packet of Couchbase's protocol"),
    };
    let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    let (extras, before) = (frames + usize::from(header[4]), frames + usize::from(header[4]) + key);
    if body > LONGEST_ANSWER || before > body {
        return Err("it has an impossible length");
    }
    let used = HEADER_BYTES + body;
    let Some(body) = bytes.get(HEADER_BYTES..used) else { return Ok(None) };
    let answer = Answer {
        opcode: header[1],
        datatype: header[5],
        status: u16::from_be_bytes([header[6], header[7]]),
        number: u32::from_be_bytes([header[12], header[13], header[14], header[15]]),
        cas: u64::from_be_bytes(*header[16..].first_chunk().unwrap_or(&[0; 8])),
        extras: &body[frames..extras],
        value: &body[before..],
    };
    Ok(Some((answer, used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the protocol's document.
    #[test]
    fn packets_are_those_of_the_document() {
        let mut out = Vec::new();
        Request { opcode: opcode::GET, key: b"Hello", ..Request::default() }.write(&mut out);
        assert_eq!(out, b"\x80\x00\x00\x05\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0Hello");
        let extras = b"\xde\xad\xbe\xef\x00\x00\x0e\x10";
        out.clear();
        Request { opcode: opcode::ADD, extras, key: b"Hello", value: b"World", ..Request::default() }.write(&mut out);
        assert_eq!(&out[..12], b"\x80\x02\x00\x05\x08\0\0\0\0\0\0\x12");
        assert_eq!(&out[24..], b"\xde\xad\xbe\xef\x00\x00\x0e\x10HelloWorld");
        number(&mut out, 0x0102_0304);
        assert_eq!(&out[12..16], [1, 2, 3, 4]);
        let found = b"\x81\x00\0\0\x04\0\0\0\0\0\0\x09\0\0\0\x07\0\0\0\0\0\0\0\x01\xde\xad\xbe\xefWorld";
        let (read, used) = answer(found).unwrap().unwrap();
        assert_eq!((read.number, read.cas, read.status, used), (7, 1, 0, found.len()));
        assert_eq!((read.extras, read.value), (&b"\xde\xad\xbe\xef"[..], &b"World"[..]));
        for short in 0..found.len() {
            assert_eq!(answer(&found[..short]), Ok(None));
        }
    }

    #[test]
    fn flexible_framing_has_its_own_lengths() {
        let mut out = Vec::new();
        let request = Request {
            opcode: opcode::SET,
            vbucket: 0x0102,
            datatype: 0,
            cas: 9,
            frames: &[0x11, 1],
            extras: &[0; 8],
            prefix: &[8],
            key: b"k",
            value: b"v",
        };
        request.write(&mut out);
        assert_eq!(&out[..12], [8, 1, 2, 2, 8, 0, 1, 2, 0, 0, 0, 13]);
        assert_eq!(&out[24..], [0x11, 1, 0, 0, 0, 0, 0, 0, 0, 0, 8, b'k', b'v']);
        assert_eq!(vbucket(&out), Some(0x0102));
        let found = [&[0x18, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0, 8][..], &[0; 12], &[2, 0, 1], &[0; 4], b"v"].concat();
        let (read, _) = answer(&found).unwrap().unwrap();
        assert_eq!((read.extras, read.value), (&[0; 4][..], &b"v"[..]));
        for odd in [&b"\x82"[..], b"\x81\0\0\x09\0\0\0\0\0\0\0\x01", b"\x81\0\0\0\0\0\0\0\xff\0\0\0"] {
            let odd = [odd, &[0; 24]].concat();
            assert!(answer(&odd).is_err(), "{odd:?}");
        }
    }
}
