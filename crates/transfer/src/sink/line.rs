//! Writes a document as one line of JSON.

use crate::shape::members;

/// Appends a document as one line. Line breaks between its tokens are removed.
///
/// # Errors
/// Why the key cannot be added, or why the document is not valid JSON.
pub(super) fn line(key: &str, body: &[u8], key_field: Option<&str>, out: &mut Vec<u8>) -> Result<(), String> {
    let begin = out.len();
    let trimmed = body.trim_ascii();
    // A store of bytes may hold anything, and one invalid line would break a whole JSON array.
    serde_json::from_slice::<serde::de::IgnoredAny>(trimmed).map_err(|e| format!("it is not JSON: {e}"))?;
    std::str::from_utf8(trimmed).map_err(|e| format!("it is not UTF-8: {e}"))?;
    match key_field {
        None => out.extend_from_slice(trimmed),
        Some(name) if trimmed.first() != Some(&b'{') => {
            return Err(format!("it is not a JSON object, so its key cannot be added as `{name}`"));
        }
        Some(name) if may_name(trimmed, name) => {
            renamed(key, trimmed, name, out)?;
        }
        Some(name) => members::with_first(trimmed, name, key, out),
    }
    // In JSON, line breaks occur only between tokens; inside strings they are escaped.
    if memchr::memchr2(b'\n', b'\r', &out[begin..]).is_some() {
        let mut kept = begin;
        for at in begin..out.len() {
            if !matches!(out[at], b'\n' | b'\r') {
                out[kept] = out[at];
                kept += 1;
            }
        }
        out.truncate(kept);
    }
    out.push(b'\n');
    Ok(())
}

/// Whether a member may have this name. It may be written with escapes.
fn may_name(body: &[u8], name: &str) -> bool {
    let is_in = |text: &[u8]| memchr::memmem::find(body, text).is_some();
    is_in(name.as_bytes()) || is_in(b"\\u") || name.contains(['/', '"', '\\']) || name.contains(char::is_control)
}

/// Like [`line`], for documents that may have a field with the name of the key's field. Its value must be the key.
fn renamed(key: &str, body: &[u8], name: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let text = std::str::from_utf8(body).map_err(|e| format!("it is not UTF-8: {e}"))?;
    let mut found = Vec::new();
    members::find(text, &[name.to_owned()], &mut found)?;
    match found.first().copied().flatten() {
        None => members::with_first(body, name, key, out),
        Some(value) if members::is_text(value, key) => {
            out.extend_from_slice(body);
        }
        Some(_) => return Err(format!("its field `{name}` differs from its key; give another --key-field")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_one_line() {
        let mut out = Vec::new();
        line("k\n", b"{\r\n \"a\": \"x\\ny\"\n}", Some("_id"), &mut out).unwrap();
        assert_eq!(out, b"{\"_id\":\"k\\n\",\"a\": \"x\\ny\"}\n");
        out.clear();
        line("k", b"[1]\n", None, &mut out).unwrap();
        line("k", b"{ }", Some("_id"), &mut out).unwrap();
        line("k", b"{\"_id\":\"k\"}", Some("_id"), &mut out).unwrap();
        line("k", b"{\"a\":\"_id\"}", Some("_id"), &mut out).unwrap();
        let expected = b"[1]\n{\"_id\":\"k\"}\n{\"_id\":\"k\"}\n{\"_id\":\"k\",\"a\":\"_id\"}\n";
        assert_eq!(out, expected);
        out.clear();
        // The field is found however it is written; a second one would hide the first.
        line("k", br#"{"\u005fid":"k"}"#, Some("_id"), &mut out).unwrap();
        line("k", br#"{"a\/b":"k"}"#, Some("a/b"), &mut out).unwrap();
        assert_eq!(out, b"{\"\\u005fid\":\"k\"}\n{\"a\\/b\":\"k\"}\n");
        let length = out.len();
        assert!(line("k", br#"{"_id":"k","_id":"k"}"#, Some("_id"), &mut out).unwrap_err().contains("occurs twice"));
        assert!(line("k", b"[1]", Some("_id"), &mut out).unwrap_err().contains("not a JSON object"));
        assert!(line("k", b"{\"_id\":\"j\"}", Some("_id"), &mut out).unwrap_err().contains("--key-field"));
        assert_eq!(out.len(), length);
    }
}
