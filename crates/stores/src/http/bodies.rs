//! Bodies of all kinds as JSON objects, for servers that store nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use storebench_documents::json;
use storebench_engine::store::{ErrorKind, OpError};
use storebench_study::workload::Body;

/// Appends the stored form of a body: JSON as it is; bytes and counters inside a document.
pub(crate) fn encode_body(kind: Body, body: &[u8], out: &mut Vec<u8>) {
    match kind {
        Body::Json => out.extend_from_slice(body),
        Body::Bytes => {
            out.extend_from_slice(b"{\"base64\":\"");
            let start = out.len();
            out.resize(start + body.len().div_ceil(3) * 4, b'=');
            // The buffer has exactly the required size.
            let written = BASE64.encode_slice(body, &mut out[start..]).unwrap_or_default();
            out.truncate(start + written);
            out.extend_from_slice(b"\"}");
        }
        Body::Counter => {
            out.extend_from_slice(b"{\"value\":");
            out.extend_from_slice(body);
            out.push(b'}');
        }
    }
}

/// The body of a stored document. `scratch` is where bytes are decoded to.
pub(crate) fn decode_body<'a>(kind: Body, stored: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], OpError> {
    let found = match kind {
        Body::Json => Some(stored),
        Body::Counter => json::member(stored, "value"),
        Body::Bytes => {
            scratch.clear();
            let text = json::member(stored, "base64").and_then(|text| text.strip_prefix(b"\"")?.strip_suffix(b"\""));
            let decoded = text.is_some_and(|text| BASE64.decode_vec(text, scratch).is_ok());
            decoded.then_some(scratch.as_slice())
        }
    };
    found.ok_or_else(|| {
        let what = if kind == Body::Counter { "a counter" } else { "bytes" };
        OpError::new(ErrorKind::Failed, format!("the stored document does not hold {what} in Storebench's format"))
    })
}
