//! Which members of a document go on, and under which names. Values stay the text that they are.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

use serde_json::value::RawValue;

use super::members::{self, write_string};

/// Names of fields, separated by commas; a dot leads into an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    tree: Tree,
    typed: String,
}

/// New names of top-level fields, by their old ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renames {
    names: BTreeMap<String, String>,
    typed: String,
}

/// Names of fields that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{typed}` {what}")]
pub struct FieldsError {
    typed: String,
    what: &'static str,
}

/// A field, and those within it; none within means all of it.
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
                    what: "names a field without a name; write fields with commas between them (`title,address.zip`)",
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
                .ok_or_else(|| wrong("is no list of new names; write `old=new,other=another`"))?;
            if old.contains('.') || new.contains('.') {
                return Err(wrong(
                    "leads into an object; only fields of the document itself are renamed, others by --map",
                ));
            }
            if names.insert(old.to_owned(), new.to_owned()).is_some() {
                return Err(wrong("gives one field two names"));
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
    /// Whether a name is a new or an old one.
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
            // All of it is meant already.
            Some(_) if known => {}
            Some(rest) => within.add(rest),
            None => within.0.clear(),
        }
    }
}

/// What goes on of a document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Projection {
    /// Only these fields; none for all.
    pub only: Option<Fields>,
    /// All but these.
    pub without: Option<Fields>,
    /// Under these names.
    pub renames: Option<Renames>,
}

impl Projection {
    /// Whether everything goes on as it is.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Appends the document, its members in their order.
    ///
    /// # Errors
    /// It is no object, or two of its fields would have one name.
    pub(crate) fn apply(&self, json: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let kept: Cow<'_, str> = match &self.only {
            None => json.into(),
            Some(fields) => only(json, &fields.tree)?.into(),
        };
        let kept: Cow<'_, str> = match &self.without {
            None => kept,
            Some(fields) => without(&kept, &fields.tree)?.into(),
        };
        match &self.renames {
            None => out.extend_from_slice(kept.as_bytes()),
            Some(renames) => rename(&kept, &renames.names, out)?,
        }
        Ok(())
    }
}

fn only(json: &str, tree: &Tree) -> Result<String, String> {
    rewrite(json, |name, value| {
        Ok(match tree.0.get(name) {
            None => None,
            Some(within) if within.0.is_empty() => Some(value.get().into()),
            // A path leads through objects only.
            Some(within) if value.get().starts_with('{') => Some(only(value.get(), within)?.into()),
            Some(_) => None,
        })
    })
}

fn without(json: &str, tree: &Tree) -> Result<String, String> {
    rewrite(json, |name, value| {
        Ok(match tree.0.get(name) {
            Some(within) if within.0.is_empty() => None,
            Some(within) if value.get().starts_with('{') => Some(without(value.get(), within)?.into()),
            _ => Some(value.get().into()),
        })
    })
}

/// An object with other members.
fn rewrite(
    json: &str,
    mut keep: impl for<'v> FnMut(&str, &'v RawValue) -> Result<Option<Cow<'v, str>>, String>,
) -> Result<String, String> {
    let mut out = Writer::new();
    for (name, value) in members::all(json)? {
        if let Some(value) = keep(&name, value)? {
            out.add(&name, &value);
        }
    }
    Ok(out.end())
}

fn rename(json: &str, names: &BTreeMap<String, String>, into: &mut Vec<u8>) -> Result<(), String> {
    let mut out = Writer::new();
    // Old names by new ones: a name that stands there twice keeps doing so.
    let mut taken: HashMap<String, Cow<'_, str>> = HashMap::new();
    for (name, value) in members::all(json)? {
        let new = names.get(name.as_ref()).map_or(name.as_ref(), String::as_str);
        match taken.get(new) {
            Some(other) if *other != name => {
                return Err(format!("its fields `{other}` and `{name}` would both be called `{new}`"));
            }
            _ => {}
        }
        out.add(new, value.get());
        taken.insert(new.to_owned(), name);
    }
    into.extend_from_slice(out.end().as_bytes());
    Ok(())
}

/// Writes an object.
struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Self {
        Self(vec![b'{'])
    }

    fn add(&mut self, name: &str, json: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        write_string(name, &mut self.0);
        self.0.push(b':');
        self.0.extend_from_slice(json.as_bytes());
    }

    fn end(mut self) -> String {
        self.0.push(b'}');
        String::from_utf8(self.0).expect("it was made of texts")
    }
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
            // A list is no object, and a text has nothing within.
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
        assert!(clash.contains("`title` and `n` would both be called `n`"), "{clash}");
        assert!(made(&projection("", "n", "title=n"), BOOK).is_ok());
        // What stood there twice does so under its new name, too.
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
