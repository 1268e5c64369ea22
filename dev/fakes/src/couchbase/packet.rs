//! Packets of the memcached binary protocol, with Couchbase's flexible framing.

/// The size of a packet's header.
pub(super) const HEADER_BYTES: usize = 24;
/// More than any packet of a test. A longer one means that the stream is out of sync.
const MOST_BODY_BYTES: usize = 64 << 20;

pub(super) mod opcode {
    pub(in super::super) const GET: u8 = 0x00;
    pub(in super::super) const SET: u8 = 0x01;
    pub(in super::super) const ADD: u8 = 0x02;
    pub(in super::super) const REPLACE: u8 = 0x03;
    pub(in super::super) const DELETE: u8 = 0x04;
    pub(in super::super) const INCREMENT: u8 = 0x05;
    pub(in super::super) const DECREMENT: u8 = 0x06;
    pub(in super::super) const NOOP: u8 = 0x0a;
    pub(in super::super) const APPEND: u8 = 0x0e;
    pub(in super::super) const PREPEND: u8 = 0x0f;
    pub(in super::super) const TOUCH: u8 = 0x1c;
    pub(in super::super) const GET_AND_TOUCH: u8 = 0x1d;
    pub(in super::super) const HELLO: u8 = 0x1f;
    pub(in super::super) const SASL_LIST: u8 = 0x20;
    pub(in super::super) const SASL_AUTH: u8 = 0x21;
    pub(in super::super) const SASL_STEP: u8 = 0x22;
    pub(in super::super) const SELECT_BUCKET: u8 = 0x89;
    pub(in super::super) const GET_META: u8 = 0xa0;
    pub(in super::super) const GET_CLUSTER_CONFIG: u8 = 0xb5;
    pub(in super::super) const GET_COLLECTION_ID: u8 = 0xbb;
    pub(in super::super) const SUBDOC_GET: u8 = 0xc5;
    pub(in super::super) const SUBDOC_EXISTS: u8 = 0xc6;
    pub(in super::super) const SUBDOC_SET: u8 = 0xc8;
    pub(in super::super) const SUBDOC_DELETE: u8 = 0xc9;
    pub(in super::super) const SUBDOC_LOOKUP: u8 = 0xd0;
    pub(in super::super) const SUBDOC_MUTATE: u8 = 0xd1;
    pub(in super::super) const GET_ERROR_MAP: u8 = 0xfe;
}

pub(super) mod status {
    pub(in super::super) const SUCCESS: u16 = 0x00;
    pub(in super::super) const KEY_NOT_FOUND: u16 = 0x01;
    pub(in super::super) const KEY_EXISTS: u16 = 0x02;
    pub(in super::super) const TOO_BIG: u16 = 0x03;
    pub(in super::super) const INVALID: u16 = 0x04;
    pub(in super::super) const NOT_STORED: u16 = 0x05;
    pub(in super::super) const BAD_DELTA: u16 = 0x06;
    pub(in super::super) const NOT_MY_VBUCKET: u16 = 0x07;
    pub(in super::super) const NO_BUCKET: u16 = 0x08;
    pub(in super::super) const AUTH_ERROR: u16 = 0x20;
    pub(in super::super) const AUTH_CONTINUE: u16 = 0x21;
    pub(in super::super) const NO_ACCESS: u16 = 0x24;
    pub(in super::super) const UNKNOWN_COMMAND: u16 = 0x81;
    pub(in super::super) const TEMPORARY: u16 = 0x86;
    pub(in super::super) const UNKNOWN_COLLECTION: u16 = 0x88;
    pub(in super::super) const UNKNOWN_SCOPE: u16 = 0x8c;
    pub(in super::super) const DURABILITY_INVALID: u16 = 0xa0;
    pub(in super::super) const DURABILITY_IMPOSSIBLE: u16 = 0xa1;
    pub(in super::super) const SYNC_WRITE_IN_PROGRESS: u16 = 0xa2;
    pub(in super::super) const SYNC_WRITE_AMBIGUOUS: u16 = 0xa3;
    pub(in super::super) const PATH_NOT_FOUND: u16 = 0xc0;
    pub(in super::super) const PATH_MISMATCH: u16 = 0xc1;
    pub(in super::super) const PATH_INVALID: u16 = 0xc2;
    pub(in super::super) const NOT_JSON: u16 = 0xc6;
    pub(in super::super) const MULTI_PATH_FAILURE: u16 = 0xcc;
}

const MAGIC_REQUEST: u8 = 0x80;
const MAGIC_REQUEST_FLEXIBLE: u8 = 0x08;
const MAGIC_RESPONSE: u8 = 0x81;
const MAGIC_SERVER_REQUEST: u8 = 0x82;

/// A parsed request.
#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    pub opcode: u8,
    pub datatype: u8,
    pub vbucket: u16,
    pub opaque: u32,
    pub cas: u64,
    /// The requested durability level: 1 majority, 2 majority and persist on active, 3 persist to majority.
    pub durability: Option<u8>,
    pub preserve_expiry: bool,
    pub extras: Vec<u8>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// Why no request could be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// More bytes are needed.
    Partial,
    /// It is not this protocol.
    NotThis,
}

impl Request {
    /// Reads the first request of a stream. Returns it and its length in bytes.
    pub(super) fn read(stream: &[u8]) -> Result<(Self, usize), Unreadable> {
        let first = stream.first().ok_or(Unreadable::Partial)?;
        if *first != MAGIC_REQUEST && *first != MAGIC_REQUEST_FLEXIBLE {
            return Err(Unreadable::NotThis);
        }
        let header = stream.get(..HEADER_BYTES).ok_or(Unreadable::Partial)?;
        let flexible = *first == MAGIC_REQUEST_FLEXIBLE;
        let (frames, key) = if flexible {
            (usize::from(header[2]), usize::from(header[3]))
        } else {
            (0, usize::from(u16::from_be_bytes([header[2], header[3]])))
        };
        let extras = usize::from(header[4]);
        let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
        if body > MOST_BODY_BYTES || frames + extras + key > body {
            return Err(Unreadable::NotThis);
        }
        let rest = stream.get(HEADER_BYTES..HEADER_BYTES + body).ok_or(Unreadable::Partial)?;
        let (frame_bytes, rest) = rest.split_at(frames);
        let (extra_bytes, rest) = rest.split_at(extras);
        let (key_bytes, value) = rest.split_at(key);
        let mut request = Self {
            opcode: header[1],
            datatype: header[5],
            vbucket: u16::from_be_bytes([header[6], header[7]]),
            opaque: u32::from_be_bytes([header[12], header[13], header[14], header[15]]),
            cas: be_u64(&header[16..24]),
            durability: None,
            preserve_expiry: false,
            extras: extra_bytes.to_vec(),
            key: key_bytes.to_vec(),
            value: value.to_vec(),
        };
        request.read_frames(frame_bytes).ok_or(Unreadable::NotThis)?;
        Ok((request, HEADER_BYTES + body))
    }

    fn read_frames(&mut self, mut frames: &[u8]) -> Option<()> {
        while let Some((head, rest)) = frames.split_first() {
            let (code, length) = (head >> 4, usize::from(head & 0x0f));
            let content = rest.get(..length)?;
            match code {
                1 => self.durability = Some(*content.first()?),
                5 => self.preserve_expiry = true,
                _ => return None,
            }
            frames = &rest[length..];
        }
        Some(())
    }
}

/// A response to send.
#[derive(Debug, Clone, Default)]
pub(super) struct Response {
    pub status: u16,
    pub cas: u64,
    pub datatype: u8,
    pub extras: Vec<u8>,
    pub value: Vec<u8>,
}

impl Response {
    pub(super) fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub(super) fn value(value: impl Into<Vec<u8>>) -> Self {
        Self { value: value.into(), ..Self::default() }
    }

    /// Writes it as the answer to a request.
    pub(super) fn write(&self, opcode: u8, opaque: u32, out: &mut Vec<u8>) {
        let middle = [self.status.to_be_bytes(), [0, 0]].concat();
        write(out, MAGIC_RESPONSE, opcode, self.datatype, &middle[..2], opaque, self.cas, &self.extras, &self.value);
    }
}

/// Writes the notification that there is a newer cluster map.
pub(super) fn write_map_changed(epoch: i64, revision: i64, out: &mut Vec<u8>) {
    let extras = [epoch.to_be_bytes(), revision.to_be_bytes()].concat();
    write(out, MAGIC_SERVER_REQUEST, 0x01, 0, &[0, 0], 0, 0, &extras, &[]);
}

#[allow(clippy::too_many_arguments)]
fn write(
    out: &mut Vec<u8>,
    magic: u8,
    opcode: u8,
    datatype: u8,
    status: &[u8],
    opaque: u32,
    cas: u64,
    extras: &[u8],
    value: &[u8],
) {
    out.extend_from_slice(&[magic, opcode, 0, 0, extras.len() as u8, datatype]);
    out.extend_from_slice(status);
    out.extend_from_slice(&((extras.len() + value.len()) as u32).to_be_bytes());
    out.extend_from_slice(&opaque.to_be_bytes());
    out.extend_from_slice(&cas.to_be_bytes());
    out.extend_from_slice(extras);
    out.extend_from_slice(value);
}

/// Eight bytes as a number; 0 for a slice of another length.
pub(super) fn be_u64(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}

/// Four bytes of a slice as a number, if the slice is long enough.
pub(super) fn be_u32(bytes: &[u8], from: usize) -> Option<u32> {
    bytes.get(from..from + 4)?.try_into().ok().map(u32::from_be_bytes)
}
