//! A JSON Merge Patch (RFC 7396) as an update with `$set` and `$unset`. Members that the patch does not name are not
//! transferred, and so keep types that JSON lacks (dates, object ids, decimals).
//!
//! An object in a patch is merged into the member of that name through paths such as `a.b`. MongoDB accepts a path only
//! if it leads through objects. If the stored member is anything else, the server refuses the update. This module
//! refuses patches that paths cannot express.

use storebench_documents::json::{members, name};
use storebench_engine::store::OpError;

use super::bson::{self, DOCUMENT};
use super::encode;
use crate::refusals::refused;

/// A member that no document has, because an update must not be empty.
const NOBODY_S: &str = "_sb_none";

/// What a patch changes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes<'p> {
    /// With the text of the value.
    set: Vec<(String, &'p [u8])>,
    unset: Vec<String>,
}

impl<'p> Changes<'p> {
    /// Splits a patch into the members to set and the members to remove.
    ///
    /// # Errors
    /// *Refused*, if an update cannot express the patch.
    pub(super) fn of(patch: &'p [u8]) -> Result<Self, OpError> {
        if !patch.trim_ascii_start().starts_with(b"{") {
            return Err(refused(
                "the patch is not an object, so it would replace the document with something that is not a document",
            ));
        }
        let mut changes = Self::default();
        changes.add("", patch)?;
        Ok(changes)
    }

    fn add(&mut self, path: &str, object: &'p [u8]) -> Result<(), OpError> {
        for member in members(object) {
            let name = name(member.name).unwrap_or_default();
            // A number would be an index into an array.
            let number = !path.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
            if name.is_empty() || number || name.starts_with('$') || name.contains(['.', '\0']) {
                return Err(refused(format!(
                    "the patch contains the member name `{name}`, which MongoDB would not read as a plain name"
                )));
            }
            let path = if path.is_empty() { name.into_owned() } else { format!("{path}.{name}") };
            if path == encode::KEY {
                return Err(refused("the patch changes `_id`, which is the key; leave it out"));
            }
            match member.value {
                b"null" => self.unset.push(path),
                object if object.starts_with(b"{") && members(object).next().is_none() => {
                    return Err(refused(format!(
                        "the patch merges an empty object into `{path}`, to replace only a value that is not an \
                         object; MongoDB cannot express that"
                    )));
                }
                object if object.starts_with(b"{") => self.add(&path, object)?,
                value => self.set.push((path, value)),
            }
        }
        Ok(())
    }

    /// Appends the members of the update.
    ///
    /// # Errors
    /// *Refused*, if BSON cannot represent a value.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), OpError> {
        if !self.set.is_empty() {
            bson::nested(out, DOCUMENT, "$set", |out| {
                let mut set = self.set.iter();
                set.try_for_each(|(path, value)| encode::member(path, value, out).map(drop))
            })?;
        }
        let nobody_s = self.set.is_empty() && self.unset.is_empty();
        if !self.unset.is_empty() || nobody_s {
            bson::nested(out, DOCUMENT, "$unset", |out| {
                self.unset.iter().for_each(|path| bson::text(out, path, ""));
                if nobody_s {
                    bson::text(out, NOBODY_S, "");
                }
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use storebench_engine::store::ErrorKind;

    use super::*;

    #[test]
    fn members_are_set_and_removed_by_their_paths() {
        let changes = Changes::of(br#"{"a":1.0,"b":null,"c":{"d":[1],"e":{"f":null}}}"#).unwrap();
        assert_eq!(changes.set, [("a".to_owned(), &b"1.0"[..]), ("c.d".to_owned(), b"[1]")]);
        assert_eq!(changes.unset, ["b", "c.e.f"]);
        let mut out = Vec::new();
        Changes::of(b"{}").unwrap().write(&mut out).unwrap();
        assert!(!out.is_empty(), "an update without members would replace the document");
    }

    #[test]
    fn what_a_path_cannot_say_is_refused() {
        for patch in [
            json!(7),
            json!({"a.b": 1}),
            json!({"$set": 1}),
            json!({"": 1}),
            json!({"a": {"0": 1}}),
            json!({"a": {}}),
            json!({"_id": "x"}),
        ] {
            assert_eq!(Changes::of(patch.to_string().as_bytes()).unwrap_err().kind, ErrorKind::Refused, "{patch}");
        }
        assert!(Changes::of(br#"{"0":1,"a":{"_id":2}}"#).is_ok());
    }
}
