//! Selects and renames members of a document. Values are copied verbatim.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

use super::members::{self, ObjectWriter};

/// Field names, separated by commas. A dot leads into an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    tree: Tree,
    typed: String,
}

/// New names of top-level fields, by their old names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renames {
    names: BTreeMap<String, String>,
    typed: String,
}

/// An invalid list of field names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{typed}` {what}")]
pub struct FieldsError {
    typed: String,
    what: &'static str,
}

/// Field names as a tree. A field with no entries below it is meant as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Tree(BTreeMap<String, Tree>);

impl FromStr for Fields {
    type Err = FieldsError;

    /// `a,b.c`
    fn from_str(typed: &str) -> Result<Self, FieldsError> {
        let mut tree = Tree::default();
        for path in typed.split(',') {
            if path.split('.').any(str::is_empty) {
                return Err(FieldsError {
                    typed: typed.to_owned(),
                    what: "has an empty field name; expected fields separated by commas (`title,address.zip`)",
                });
            }
            tree.add(path);
        }
        Ok(Self { tree, typed: typed.to_owned() })
    }
}

impl FromStr for Renames {
    type Err = FieldsError;

    /// `old=new,other=another`
    fn from_str(typed: &str) -> Result<Self, FieldsError> {
        let wrong = |what| FieldsError { typed: typed.to_owned(), what };
        let mut names = BTreeMap::new();
        for pair in typed.split(',') {
            let (old, new) = pair
                .split_once('=')
                .filter(|(old, new)| !old.is_empty() && !new.is_empty() && !new.contains('='))
                .ok_or_else(|| wrong("is not a list of renames; expected `old=new,other=another`"))?;
            if old.contains('.') || new.contains('.') {
                return Err(wrong(
                    "names a field inside an object; only top-level fields can be renamed, use --map for others",
                ));
            }
            if names.insert(old.to_owned(), new.to_owned()).is_some() {
                return Err(wrong("renames one field twice"));
            }
        }
        Ok(Self { names, typed: typed.to_owned() })
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

impl fmt::Display for Renames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

impl Renames {
    /// Whether a name is among the old or new names.
    pub fn names(&self, name: &str) -> bool {
        self.names.iter().any(|(old, new)| old == name || new == name)
    }
}

impl Tree {
    fn add(&mut self, path: &str) {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let known = self.0.get(first).is_some_and(|within| within.0.is_empty());
        let within = self.0.entry(first.to_owned()).or_default();
        match rest {
            // The whole field is already included.
            Some(_) if known => {}
            Some(rest) => within.add(rest),
            None => within.0.clear(),
        }
    }
}

/// Which members of a document are kept, and under which names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Projection {
    /// Keep only these fields; `None` for all.
    pub only: Option<Fields>,
    /// Drop these fields.
    pub without: Option<Fields>,
    /// Rename fields.
    pub renames: Option<Renames>,
}

impl Projection {
    /// Whether the document does not change.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Appends the projected document, its members in their order.
    ///
    /// # Errors
    /// The document is not an object, or two of its fields would get the same name.
    pub(crate) fn apply(&self, json: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let (only, without) = (self.only.as_ref(), self.without.as_ref());
        let none = BTreeMap::new();
        let names = self.renames.as_ref().map_or(&none, |renames| &renames.names);
        members_of(json, only.map(|fields| &fields.tree), without.map(|fields| &fields.tree), names, out)
    }
}

/// Appends an object with the kept members, renamed.
fn members_of(
    json: &str,
    only: Option<&Tree>,
    without: Option<&Tree>,
    names: &BTreeMap<String, String>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut object = ObjectWriter::new(out);
    // Old names by new ones. A name that occurs twice may still do so.
    let mut taken: HashMap<String, Cow<'_, str>> = HashMap::new();
    for (name, value) in members::all(json)? {
        let value = value.get();
        let is_object = value.starts_with('{');
        let only = match only.map(|tree| tree.0.get(name.as_ref())) {
            None => None,
            Some(None) => continue,
            // The whole field is included.
            Some(Some(within)) if within.0.is_empty() => None,
            // A path leads through objects only.
            Some(Some(_)) if !is_object => continue,
            Some(within) => within,
        };
        let without = match without.and_then(|tree| tree.0.get(name.as_ref())) {
            Some(within) if within.0.is_empty() => continue,
            within => within.filter(|_| is_object),
        };
        let new = names.get(name.as_ref()).map_or(name.as_ref(), String::as_str);
        if !names.is_empty() {
            if let Some(other) = taken.get(new).filter(|other| **other != name) {
                return Err(format!("its fields `{other}` and `{name}` would both be named `{new}`"));
            }
            taken.insert(new.to_owned(), name.clone());
        }
        if only.is_some() || without.is_some() {
            members_of(value, only, without, &BTreeMap::new(), object.name(new))?;
        } else {
            object.add(new, value);
        }
    }
    object.end();
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    fn projection(only: &str, without: &str, renames: &str) -> Projection {
        let fields = |typed: &str| (!typed.is_empty()).then(|| typed.parse().unwrap());
        Projection {
            only: fields(only),
            without: fields(without),
            renames: (!renames.is_empty()).then(|| renames.parse().unwrap()),
        }
    }

    fn made(projection: &Projection, json: &str) -> Result<String, String> {
        let mut out = Vec::new();
        projection.apply(json, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    const BOOK: &str =
        r#"{ "title" : "a\u00e9", "n":7.0,"by":{"name":"x","born":1e400,"at":{"zip":1}},"tags":[{"name":1}] }"#;

    #[test]
    fn members_go_on_as_they_are_written_and_in_their_order() {
        for (only, without, renames, json) in [
            ("n,title", "", "", r#"{"title":"a\u00e9","n":7.0}"#),
            ("by.born,by.at.zip", "", "", r#"{"by":{"born":1e400,"at":{"zip":1}}}"#),
            ("by,by.born", "", "", r#"{"by":{"name":"x","born":1e400,"at":{"zip":1}}}"#),
            // Lists and strings have no fields.
            ("tags.name,title.x,none", "", "", "{}"),
            ("", "by,tags", "", r#"{"title":"a\u00e9","n":7.0}"#),
            (
                "",
                "title,by.at.zip,by.name,tags.name",
                "",
                r#"{"n":7.0,"by":{"born":1e400,"at":{}},"tags":[{"name":1}]}"#,
            ),
            ("n,by", "by.at,by.born", "n=title,by=n", r#"{"title":7.0,"n":{"name":"x"}}"#),
            ("", "by,tags", "title=n,n=title", r#"{"n":"a\u00e9","title":7.0}"#),
        ] {
            assert_eq!(made(&projection(only, without, renames), BOOK).unwrap(), json, "{only} {without} {renames}");
        }
    }

    #[test]
    fn two_fields_do_not_get_one_name() {
        let clash = made(&projection("", "", "title=n"), BOOK).unwrap_err();
        assert!(clash.contains("`title` and `n` would both be named `n`"), "{clash}");
        assert!(made(&projection("", "n", "title=n"), BOOK).is_ok());
        // A name that occurs twice also does so after renaming.
        assert_eq!(made(&projection("", "", "a=b"), r#"{"a":1,"a":2}"#).unwrap(), r#"{"b":1,"b":2}"#);
        assert!(made(&projection("a", "", ""), "[1]").unwrap_err().contains("expected a JSON object"));
    }

    #[test]
    fn lists_of_names_that_cannot_be_are_refused() {
        for typed in ["", "a,", "a..b", ".a", "a."] {
            assert!(typed.parse::<Fields>().is_err(), "{typed}");
        }
        for typed in ["", "a", "a=", "=b", "a=b,", "a=b=c", "a.b=c", "a=b.c", "a=b,a=c"] {
            assert!(typed.parse::<Renames>().is_err(), "{typed}");
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_and_what_is_left_out_are_the_whole(
            members in prop::collection::vec(("[a-d\"\\\\é]{0,2}", any::<i64>()), 0..6),
            names in prop::collection::vec("[a-d]{1,2}", 1..4),
        ) {
            let object: Map<String, Value> = members.into_iter().map(|(name, n)| (name, n.into())).collect();
            let json = Value::from(object.clone()).to_string();
            let names = names.join(",");
            let parse = |json: String| serde_json::from_str::<Map<String, Value>>(&json).unwrap();
            let mut whole = parse(made(&projection(&names, "", ""), &json).unwrap());
            let rest = parse(made(&projection("", &names, ""), &json).unwrap());
            prop_assert!(whole.keys().all(|name| !rest.contains_key(name)));
            whole.extend(rest);
            prop_assert_eq!(whole, object);
        }
    }
}
