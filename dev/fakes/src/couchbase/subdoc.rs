//! Operations on parts of a document.

use serde_json::{Map, Value};

use super::documents::Document;
use super::packet::{opcode, status};

/// The maximum number of paths in one request.
pub(super) const MOST_PATHS: usize = 16;
/// The path names an extended attribute.
const XATTR: u8 = 0x04;

/// One part of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spec<'a> {
    opcode: u8,
    flags: u8,
    path: &'a str,
    value: &'a [u8],
}

/// Reads the parts of a request. Lookups have no values.
pub(super) fn specs(mut bytes: &[u8], mutate: bool) -> Option<Vec<Spec<'_>>> {
    let mut specs = Vec::new();
    let head = if mutate { 8 } else { 4 };
    while !bytes.is_empty() {
        let path_bytes = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
        let value_bytes = if mutate { super::packet::be_u32(bytes, 4)? as usize } else { 0 };
        let path = std::str::from_utf8(bytes.get(head..head + path_bytes)?).ok()?;
        let value = bytes.get(head + path_bytes..head + path_bytes + value_bytes)?;
        specs.push(Spec { opcode: bytes[0], flags: bytes[1], path, value });
        bytes = &bytes[head + path_bytes + value_bytes..];
    }
    Some(specs)
}

/// Splits a path into field names. Names may be in backticks, where a doubled backtick stands for one, and are read as the
/// inside of a JSON string. Arrays are not supported.
fn members(path: &str) -> Result<Vec<String>, u16> {
    let mut members = Vec::new();
    let mut rest = path;
    loop {
        let mut name = String::new();
        if let Some(mut quoted) = rest.strip_prefix('`') {
            loop {
                let (part, after) = quoted.split_once('`').ok_or(status::PATH_INVALID)?;
                name.push_str(part);
                match after.strip_prefix('`') {
                    Some(after) => {
                        name.push('`');
                        quoted = after;
                    }
                    None => {
                        rest = after;
                        break;
                    }
                }
            }
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            if rest[..end].is_empty() || rest[..end].contains(['[', ']', '`']) {
                return Err(status::PATH_INVALID);
            }
            name.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        // As the server does, which finds names in the text of the document.
        let name = serde_json::from_str(&format!("\"{name}\"")).map_err(|_| status::PATH_INVALID)?;
        members.push(name);
        match rest.strip_prefix('.') {
            Some(after) => rest = after,
            None if rest.is_empty() => return Ok(members),
            None => return Err(status::PATH_INVALID),
        }
    }
}

/// The object that contains a path's last field, and that field's name.
fn parent<'v>(root: &'v mut Value, path: &str) -> Result<(&'v mut Map<String, Value>, String), u16> {
    let mut members = members(path)?;
    let last = members.pop().ok_or(status::PATH_INVALID)?;
    let mut at = root;
    for member in members {
        at = at.as_object_mut().ok_or(status::PATH_MISMATCH)?.get_mut(&member).ok_or(status::PATH_NOT_FOUND)?;
    }
    Ok((at.as_object_mut().ok_or(status::PATH_MISMATCH)?, last))
}

/// Applies all parts or none. An error is the position and status of the first part that fails.
pub(super) fn mutate(document: &[u8], specs: &[Spec<'_>]) -> Result<Vec<u8>, (u8, u16)> {
    let mut root: Value = serde_json::from_slice(document).map_err(|_| (0, status::NOT_JSON))?;
    for (i, spec) in specs.iter().enumerate() {
        let failed = |status| (i as u8, status);
        if spec.flags & XATTR != 0 {
            return Err(failed(status::PATH_INVALID));
        }
        let (object, name) = parent(&mut root, spec.path).map_err(failed)?;
        match spec.opcode {
            opcode::SUBDOC_SET => {
                let value = serde_json::from_slice(spec.value).map_err(|_| failed(status::NOT_JSON))?;
                object.insert(name, value);
            }
            opcode::SUBDOC_DELETE => {
                object.remove(&name).ok_or(failed(status::PATH_NOT_FOUND))?;
            }
            _ => return Err(failed(status::UNKNOWN_COMMAND)),
        }
    }
    Ok(root.to_string().into_bytes())
}

/// Looks up the parts. Returns whether all exist, and the value of the answer.
pub(super) fn lookup(document: &Document, specs: &[Spec<'_>]) -> (bool, Vec<u8>) {
    let (mut all, mut out) = (true, Vec::new());
    let mut root = serde_json::from_slice::<Value>(&document.value);
    for spec in specs {
        let found = if spec.flags & XATTR != 0 {
            virtual_attribute(document, spec.path)
        } else if spec.opcode == opcode::GET && spec.path.is_empty() {
            Ok(document.value.clone())
        } else {
            root.as_mut().map_err(|_| status::NOT_JSON).and_then(|root| {
                let (object, name) = parent(root, spec.path)?;
                object.get(&name).map(|value| value.to_string().into_bytes()).ok_or(status::PATH_NOT_FOUND)
            })
        };
        let found = match spec.opcode {
            opcode::GET | opcode::SUBDOC_GET => found,
            opcode::SUBDOC_EXISTS => found.map(|_| Vec::new()),
            _ => Err(status::UNKNOWN_COMMAND),
        };
        all &= found.is_ok();
        let (status, value) = found.map_or_else(|status| (status, Vec::new()), |value| (status::SUCCESS, value));
        out.extend_from_slice(&status.to_be_bytes());
        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        out.extend_from_slice(&value);
    }
    (all, out)
}

fn virtual_attribute(document: &Document, path: &str) -> Result<Vec<u8>, u16> {
    match path {
        "$document.exptime" => Ok(document.expires_s.to_string().into_bytes()),
        "$document.flags" => Ok(document.flags.to_string().into_bytes()),
        "$document.CAS" => Ok(format!("\"0x{:016x}\"", document.cas.swap_bytes()).into_bytes()),
        _ => Err(status::PATH_NOT_FOUND),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<'a>(path: &'a str, value: &'a [u8]) -> Spec<'a> {
        Spec { opcode: opcode::SUBDOC_SET, flags: 0, path, value }
    }

    #[test]
    fn paths_name_members_also_odd_ones() {
        assert_eq!(members("a.b").unwrap(), ["a", "b"]);
        assert_eq!(members("`a.b`.`c``d`").unwrap(), ["a.b", "c`d"]);
        assert_eq!(members("``").unwrap(), [""]);
        for bad in ["", "a..b", "a[0]", "`a", "a`b", "`a`b"] {
            assert_eq!(members(bad), Err(status::PATH_INVALID), "{bad}");
        }
    }

    #[test]
    fn all_parts_are_applied_or_none() {
        let remove = Spec { opcode: opcode::SUBDOC_DELETE, flags: 0, path: "b", value: b"" };
        assert_eq!(mutate(br#"{"b":1}"#, &[set("a", b"2"), remove]).unwrap(), br#"{"a":2}"#);
        let remove = Spec { opcode: opcode::SUBDOC_DELETE, flags: 0, path: "b", value: b"" };
        assert_eq!(mutate(b"{}", &[set("a", b"2"), remove]), Err((1, status::PATH_NOT_FOUND)));
        assert_eq!(mutate(b"[1]", &[set("a", b"2")]), Err((0, status::PATH_MISMATCH)));
        assert_eq!(mutate(b"\xff", &[set("a", b"2")]), Err((0, status::NOT_JSON)));
    }
}
