//! A document as one line of JSON.

use crate::shape::members;

/// Appends a document as one line. Blanks of a document that would end the line are left out.
///
/// # Errors
/// Why the key cannot stand in it.
pub(super) fn line(key: &str, body: &[u8], key_field: Option<&str>, out: &mut Vec<u8>) -> Result<(), String> {
    let begin = out.len();
    let trimmed = body.trim_ascii();
    // A store of bytes may hold anything, and one such line spoils a list for all others.
    serde_json::from_slice::<serde::de::IgnoredAny>(trimmed).map_err(|e| format!("it is not JSON: {e}"))?;
    std::str::from_utf8(trimmed).map_err(|e| format!("it is not UTF-8: {e}"))?;
    match key_field {
        None => out.extend_from_slice(trimmed),
        Some(name) if trimmed.first() != Some(&b'{') => {
            return Err(format!("it is not a JSON object, so its key has no place in it as `{name}`"));
        }
        Some(name) if memchr::memmem::find(trimmed, name.as_bytes()).is_some() => {
            renamed(key, trimmed, name, out)?;
        }
        Some(name) => members::with_first(trimmed, name, key, out),
    }
    // JSON holds line ends between its tokens only: within texts they are escaped.
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

/// As [`line`], where the document may have a field of the key's name: the same key may stand there.
fn renamed(key: &str, body: &[u8], name: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let text = std::str::from_utf8(body).map_err(|e| format!("it is not UTF-8: {e}"))?;
    let mut found = Vec::new();
    members::find(text, &[name.to_owned()], &mut found).map_err(|e| format!("it is not JSON: {e}"))?;
    match found.first().copied().flatten() {
        None => members::with_first(body, name, key, out),
        Some(value) if members::is_text(value, key) => {
            out.extend_from_slice(body);
        }
        Some(_) => return Err(format!("it has a field `{name}` that is not its key; give another --key-field")),
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
        let length = out.len();
        assert!(line("k", b"[1]", Some("_id"), &mut out).unwrap_err().contains("not a JSON object"));
        assert!(line("k", b"{\"_id\":\"j\"}", Some("_id"), &mut out).unwrap_err().contains("--key-field"));
        assert_eq!(out.len(), length);
    }
}
