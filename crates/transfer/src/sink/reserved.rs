//! Finds members that the target reserves for itself in documents to be written.

use memchr::memmem::Finder;
use storebench_documents::json;
use storebench_engine::store::Capabilities;

use crate::shape::{KEY_FIELD, members};

/// What to do with documents that have members which the target reserves for itself: CouchDB's `_rev`, RavenDB's
/// `@metadata`. A member that only repeats the document's key is always removed, unless the rule is `Keep`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OwnMembers {
    /// Write the document without them.
    Drop,
    /// Send the document unchanged, and let the target decide.
    Keep,
    /// Reject the document.
    #[default]
    Reject,
}

impl OwnMembers {
    /// Each rule, its name, and its help text.
    pub const ALL: [(Self, &str, &str); 3] = [
        (Self::Drop, "drop", "Write the document without them, and count it"),
        (Self::Keep, "keep", "Send the document as it is: the target decides"),
        (Self::Reject, "reject", "Reject the document, unless the member only repeats its key"),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// CouchDB's mark of a deletion. Without it, a document without content would come back to life.
const TOMBSTONE: &str = "_deleted";
const IS_DELETION: &str = "it is a deletion (`_deleted` is true), not a document; leave deletions out with --filter \
                           '._deleted != true', or apply only them with --filter '._deleted == true' --op delete";

/// What to do with one document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Send it unchanged.
    AsIs,
    /// Send this instead. The flag says whether it lost a member that the target does not know from elsewhere.
    As(Vec<u8>, bool),
    /// Reject it, for this reason.
    Rejected(String),
}

/// Checks documents for reserved members.
pub(super) struct Reserved {
    can: Capabilities,
    rule: OwnMembers,
    /// Byte patterns, one of which occurs in every document with a reserved member.
    signs: Vec<Finder<'static>>,
}

impl Reserved {
    pub(super) fn new(can: Capabilities, rule: OwnMembers) -> Self {
        let names = if rule == OwnMembers::Keep { &[] } else { can.reserved_members };
        let mut signs: Vec<_> =
            names.iter().map(|name| Finder::new(&format!("\"{}", name.trim_end_matches('*'))).into_owned()).collect();
        if !signs.is_empty() {
            // A name may be written with escapes.
            signs.push(Finder::new("\"\\u00").into_owned());
        }
        Self { can, rule, signs }
    }

    /// What to do with a document with this key.
    pub(super) fn fate(&self, key: &str, body: &[u8]) -> Fate {
        if self.can.unique_names
            && let Some(name) = json::repeated(body)
        {
            return Fate::Rejected(format!(
                "an object in it has two members `{name}`, of which the target would keep one; remove one of them"
            ));
        }
        if !self.signs.iter().any(|sign| sign.find(body).is_some()) {
            return Fate::AsIs;
        }
        let (mut lost, mut reserved) = (false, None);
        let kept = members::keeping(body, |name, value| {
            if !self.can.reserves(name) {
                return Ok(true);
            }
            if name == TOMBSTONE && value.get() == "true" {
                return Err(IS_DELETION.to_owned());
            }
            let is_key = name == KEY_FIELD && members::is_text(value, key);
            if !is_key && self.rule == OwnMembers::Reject {
                reserved.get_or_insert_with(|| {
                    format!(
                        "its member `{name}` is reserved by the target; use --own-members drop to remove such members, or \
                         --rename to give it another name"
                    )
                });
            }
            lost |= !is_key;
            Ok(false)
        });
        match kept.and_then(|kept| reserved.map_or(Ok(kept), Err)) {
            Ok(None) => Fate::AsIs,
            Ok(Some(kept)) => Fate::As(kept, lost),
            Err(why) => Fate::Rejected(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    fn reserved(names: &'static [&'static str], rule: OwnMembers) -> Reserved {
        Reserved::new(Capabilities { reserved_members: names, ..Capabilities::default() }, rule)
    }

    #[test]
    fn a_document_with_two_members_of_a_name_is_rejected_where_the_target_would_keep_one() {
        let twice = br#"{"b":{"a":1,"a":2}}"#;
        let target =
            |unique_names| Reserved::new(Capabilities { unique_names, ..Capabilities::default() }, OwnMembers::Keep);
        assert!(matches!(target(true).fate("k", twice), Fate::Rejected(why) if why.contains("two members `a`")));
        assert_eq!(target(true).fate("k", br#"{"a":1,"b":{"a":2}}"#), Fate::AsIs);
        assert_eq!(target(false).fate("k", twice), Fate::AsIs);
    }

    fn fate(rule: OwnMembers, json: &str) -> Fate {
        reserved(&["_*", "@metadata"], rule).fate("k", json.as_bytes())
    }

    fn without(json: &str, lost: bool) -> Fate {
        Fate::As(json.as_bytes().to_vec(), lost)
    }

    #[test]
    fn what_only_repeats_the_key_is_left_out_and_the_rest_by_the_rule() {
        use OwnMembers::{Drop, Keep, Reject};
        for rule in [Drop, Reject] {
            assert_eq!(fate(rule, r#"{"a":"_b","c":{"_d":1}}"#), Fate::AsIs);
            assert_eq!(fate(rule, r#"{"_id":"k","a":1}"#), without(r#"{"a":1}"#, false));
            assert_eq!(fate(rule, r#"["_id"]"#), Fate::AsIs);
        }
        let exported = r#" { "_id" : "k", "a" : [1, "}"] , "\u005frev":"1-x","_\"":{"_x":[]}, "b":"\\" }"#;
        assert_eq!(fate(Drop, exported), without(r#"{"a" : [1, "}"],"b":"\\"}"#, true));
        assert_eq!(fate(Keep, exported), Fate::AsIs);
        for (json, name) in [
            (exported, "`_rev`"),
            (r#"{"_id":"another"}"#, "`_id`"),
            (r#"{"@metadata":{"@id":"k"},"a":1}"#, "`@metadata`"),
        ] {
            let Fate::Rejected(why) = fate(Reject, json) else { panic!("{json}") };
            assert!(why.contains(name) && why.contains("--own-members drop"), "{why}");
        }
        assert_eq!(reserved(&[], Reject).fate("k", exported.as_bytes()), Fate::AsIs);
        for rule in [Drop, Reject] {
            let Fate::Rejected(why) = fate(rule, r#"{"_rev":"2-b","_deleted":true}"#) else { panic!("{rule:?}") };
            assert!(why.starts_with("it is a deletion"), "{why}");
        }
        assert_eq!(fate(Drop, r#"{"_deleted":false,"a":1}"#), without(r#"{"a":1}"#, true));
    }

    proptest! {
        #[test]
        fn what_is_left_is_what_a_parser_would_leave(
            object in prop::collection::btree_map("[_ab\"\\\\]{0,3}", prop_oneof![
                any::<i32>().prop_map(Value::from),
                "[\"\\\\{}\\[\\],: é]{0,6}".prop_map(Value::from),
                prop::collection::vec(any::<bool>(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[_a\"]{0,2}", any::<bool>(), 0..3)
                    .prop_map(|members| Value::Object(members.into_iter().map(|(k, v)| (k, v.into())).collect())),
            ], 0..6),
            pretty in any::<bool>(),
        ) {
            let object: Map<String, Value> = object.into_iter().collect();
            let text = if pretty {
                serde_json::to_string_pretty(&object).unwrap()
            } else {
                serde_json::to_string(&object).unwrap()
            };
            let rest: Map<String, Value> = object.into_iter().filter(|(name, _)| !name.starts_with('_')).collect();
            let left = match reserved(&["_*"], OwnMembers::Drop).fate("k", text.as_bytes()) {
                Fate::As(left, _) => left,
                fate => { prop_assert_eq!(fate, Fate::AsIs); text.into_bytes() }
            };
            prop_assert_eq!(serde_json::from_slice::<Map<String, Value>>(&left).unwrap(), rest);
        }
    }
}
