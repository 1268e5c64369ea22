//! Queries in the stores' own languages: their text, their parameters, and what their answers must have.

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::check::{Problems, no_such};
use super::collections::Collection;
use super::fields::Field;
use super::mix::MixEntry;
use crate::op_kind::OpKind;
use crate::written::{names, wire, written_as};

/// A language of queries. It has the name of the scheme of the stores that understand it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Language {
    Postgres,
    Sqlite,
    Couchbase,
    Ravendb,
    Couchdb,
    Mongodb,
    Redis,
    Mysql,
    Cassandra,
    Opensearch,
}

names! { Language:
    Postgres "postgres", Sqlite "sqlite", Couchbase "couchbase", Ravendb "ravendb", Couchdb "couchdb",
    Mongodb "mongodb", Redis "redis", Mysql "mysql", Cassandra "cassandra", Opensearch "opensearch",
}

/// What stands for the store's own name of the collection in the text of a query.
pub const COLLECTION: &str = "{collection}";

/// The text of a query or an index in the language of each store. `false` leaves it out on stores with that language.
pub type QueryTexts = IndexMap<Language, Value>;

/// On which stores a query must have the same answers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "SameOnWire"))]
pub enum SameOn {
    /// On all stores of the study.
    All,
    /// On stores with these languages.
    Languages(Vec<Language>),
}

wire! {
    SameOnWire:
    /// `"all"`
    All(String),
    Languages(Vec<Language>),
}

impl SameOn {
    /// Whether it includes stores with this language.
    pub fn includes(&self, language: Language) -> bool {
        match self {
            Self::All => true,
            Self::Languages(languages) => languages.contains(&language),
        }
    }
}

written_as!(
    SameOn,
    "\"all\" or a list of languages ([\"postgres\", \"sqlite\"])",
    text = |text| if text == "all" { Ok(SameOn::All) } else { Err(format!("`{text}` is neither \"all\" nor a list")) },
    list = |languages: Vec<Language>| {
        if languages.len() > 1 { Ok(SameOn::Languages(languages)) } else { Err("name at least two languages") }
    },
);

impl Serialize for SameOn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Languages(languages) => languages.serialize(serializer),
        }
    }
}

/// How many rows an answer may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "RowsWire"))]
pub struct RowCount {
    /// At least.
    pub least: u64,
    /// At most.
    pub most: u64,
}

wire! { RowsWire: Exactly(u64), Between(u64, u64) }

impl RowCount {
    fn between([least, most]: [u64; 2]) -> Result<Self, String> {
        if least <= most {
            Ok(Self { least, most })
        } else {
            Err(format!("write the smaller number first: [{most}, {least}]"))
        }
    }

    /// Whether an answer of this many rows is within it.
    pub fn allows(self, rows: u64) -> bool {
        (self.least..=self.most).contains(&rows)
    }
}

impl std::fmt::Display for RowCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.least == self.most { write!(f, "{}", self.least) } else { write!(f, "{} to {}", self.least, self.most) }
    }
}

written_as!(
    RowCount,
    "a number of rows (1) or a range ([1, 100])",
    whole = |n| Ok::<_, String>(RowCount { least: n, most: n }),
    list = RowCount::between,
);

impl Serialize for RowCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.least == self.most {
            serializer.serialize_u64(self.least)
        } else {
            [self.least, self.most].serialize(serializer)
        }
    }
}

/// A part of a query's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryPart<'a> {
    /// Text that is sent as it is.
    Text(&'a str),
    /// The name of a parameter, without its `$`.
    Param(&'a str),
}

pub(super) fn starts_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

pub(super) fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The name at the beginning of `text`; empty if there is none.
fn name_at(text: &str) -> &str {
    if !text.bytes().next().is_some_and(starts_name) {
        return "";
    }
    &text[..text.bytes().position(|byte| !in_name(byte)).unwrap_or(text.len())]
}

impl Language {
    /// Whether indexes are `CREATE INDEX` statements.
    pub(super) fn is_sql(self) -> bool {
        matches!(self, Self::Postgres | Self::Sqlite | Self::Couchbase | Self::Mysql)
    }

    /// Splits a text at its parameters (`$city`). A `$` in a string, a quoted name or a comment begins no parameter.
    ///
    /// # Errors
    /// A quote or a comment that does not end, and parameters by position (`$1`).
    pub fn parts(self, text: &str) -> Result<Vec<QueryPart<'_>>, String> {
        let bytes = text.as_bytes();
        let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
        while at < bytes.len() {
            if !text.is_char_boundary(at) {
                at += 1;
                continue;
            }
            if let Some(end) = self.skipped(text, at)? {
                at = end;
                continue;
            }
            let begins = bytes[at] == b'$' && !(at > 0 && in_name(bytes[at - 1]));
            let name = if begins { name_at(&text[at + 1..]) } else { "" };
            if begins && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) {
                let digits = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
                return Err(format!(
                    "`{}` is a parameter by position; give it a name, such as $city, and its value in `params`",
                    &text[at..=at + digits]
                ));
            }
            if name.is_empty() {
                at += 1;
                continue;
            }
            parts.push(QueryPart::Text(&text[from..at]));
            parts.push(QueryPart::Param(name));
            at += 1 + name.len();
            from = at;
        }
        parts.push(QueryPart::Text(&text[from..]));
        parts.retain(|part| *part != QueryPart::Text(""));
        Ok(parts)
    }

    /// Where the string, quoted name or comment ends that begins here, if one does.
    pub(super) fn skipped(self, text: &str, at: usize) -> Result<Option<usize>, String> {
        let rest = &text[at..];
        let bytes = text.as_bytes();
        let line = || Ok(Some(rest.find('\n').map_or(text.len(), |end| at + end)));
        match bytes[at] {
            // MySQL's needs a space.
            b'-' if self == Self::Mysql && bytes.get(at + 2).is_some_and(|next| *next > b' ') => Ok(None),
            b'-' if rest.starts_with("--") && self != Self::Ravendb => line(),
            b'#' if self == Self::Mysql => line(),
            // The server executes what is in it.
            b'/' if self == Self::Mysql && (rest.starts_with("/*!") || rest.starts_with("/*M!")) => {
                Err("an executable comment may do anything; remove `/*!`".into())
            }
            b'/' if rest.starts_with("//") && matches!(self, Self::Ravendb | Self::Cassandra) => line(),
            b'/' if rest.starts_with("/*") => self.comment(rest).map(|length| Some(at + length)),
            quote @ (b'\'' | b'"') => {
                let escape = match self {
                    Self::Ravendb | Self::Couchbase | Self::Mysql => true,
                    // E'…' in PostgreSQL.
                    _ => {
                        let e = at > 0 && matches!(bytes[at - 1], b'e' | b'E');
                        quote == b'\'' && e && !(at > 1 && in_name(bytes[at - 2])) && self == Self::Postgres
                    }
                };
                quoted(rest, quote, escape).map(|length| Some(at + length))
            }
            b'`' if matches!(self, Self::Sqlite | Self::Couchbase | Self::Mysql) => {
                quoted(rest, b'`', false).map(|length| Some(at + length))
            }
            b'[' if self == Self::Sqlite => quoted(rest, b']', false).map(|length| Some(at + length)),
            b'$' if matches!(self, Self::Postgres | Self::Cassandra) && !(at > 0 && in_name(bytes[at - 1])) => {
                // $$…$$ or, in PostgreSQL, $tag$…$tag$
                let tag = if self == Self::Postgres { name_at(&rest[1..]) } else { "" };
                if bytes.get(at + 1 + tag.len()) != Some(&b'$') {
                    return Ok(None);
                }
                let mark = &rest[..tag.len() + 2];
                match rest[mark.len()..].find(mark) {
                    Some(end) => Ok(Some(at + end + 2 * mark.len())),
                    None => Err(format!("the text after {mark} has no end; close it with {mark}")),
                }
            }
            _ => Ok(None),
        }
    }

    /// The length of a `/* … */` comment. PostgreSQL's may contain others.
    fn comment(self, text: &str) -> Result<usize, String> {
        let (mut depth, mut at) = (0, 0);
        while at < text.len() {
            let rest = &text.as_bytes()[at..];
            if rest.starts_with(b"/*") && (depth == 0 || self == Self::Postgres) {
                depth += 1;
                at += 2;
            } else if rest.starts_with(b"*/") {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Ok(at);
                }
            } else {
                at += 1;
            }
        }
        Err("a comment has no end; close it with */".into())
    }

    /// What is wrong with the text of a query in this language.
    fn problem(self, text: &Value, params: &IndexMap<String, Field>) -> Option<String> {
        let wrong = |expected: &str| Some(format!("a query of {self} is {expected}"));
        let mut used = Vec::new();
        match (self, text) {
            (_, Value::Bool(false)) => return None,
            (Self::Redis, Value::Array(words)) if !words.is_empty() && words.iter().all(Value::is_string) => {
                param_values(text, &mut |name| used.push(name.to_owned()));
            }
            (Self::Redis, _) => {
                return wrong("a list of texts, such as [\"FCALL_RO\", \"top_rated\", \"0\", \"$city\"]");
            }
            (Self::Couchdb | Self::Mongodb | Self::Opensearch, Value::Object(table)) if table.is_empty() => {
                return wrong("a table with one request");
            }
            (Self::Couchdb | Self::Mongodb | Self::Opensearch, Value::Object(_)) => {
                param_values(text, &mut |name| used.push(name.to_owned()));
            }
            (Self::Couchdb, _) => return wrong("a table, such as { find = { selector = { … } } }"),
            (Self::Mongodb, _) => return wrong("a table, such as { aggregate = [ … ] }"),
            (Self::Opensearch, _) => return wrong("a table, such as { search = { query = { … } } }"),
            (_, Value::String(text)) => match self.parts(text) {
                Ok(parts) => used.extend(parts.iter().filter_map(|part| match part {
                    QueryPart::Param(name) => Some((*name).to_owned()),
                    QueryPart::Text(_) => None,
                })),
                Err(error) => return Some(error),
            },
            (Self::Postgres | Self::Sqlite | Self::Couchbase | Self::Ravendb | Self::Mysql | Self::Cassandra, _) => {
                return wrong("a text, such as \"select … where city = $city\"");
            }
        }
        // In a pipeline of MongoDB, `$name` may also be a field.
        if self != Self::Mongodb
            && let Some(name) = used.iter().find(|name| !params.contains_key(*name))
        {
            return Some(match params.is_empty() {
                true => format!("`${name}` has no value; give it one in `params`"),
                false => no_such("parameter", &format!("${name}"), params.keys().map(String::as_str)),
            });
        }
        let unused = params.keys().find(|name| !used.contains(name));
        unused.map(|name| format!("the parameter `{name}` is not used; write ${name} in the text, or remove it"))
    }
}

/// The length of a quoted text, which begins at the start of `text`. A doubled quote stands for itself.
fn quoted(text: &str, quote: u8, escapes: bool) -> Result<usize, String> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] != quote {
            at += 1;
        } else if bytes.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return Ok(at + 1);
        }
    }
    let beginning: String = text.chars().take(20).collect();
    Err(format!("the quote that begins at {beginning} has no end"))
}

/// Calls `found` with the name of each parameter in a query that is not text: a string that is only `$` and a name.
fn param_values(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => {
            if let Some(name) = param_name(text.strip_prefix(COLLECTION).unwrap_or(text)) {
                found(name);
            }
        }
        Value::Array(all) => all.iter().for_each(|one| param_values(one, found)),
        Value::Object(all) => all.values().for_each(|one| param_values(one, found)),
        _ => {}
    }
}

/// The name of the parameter for which a string stands in a query that is not text, if it stands for one.
pub fn param_name(text: &str) -> Option<&str> {
    text.strip_prefix('$').filter(|name| !name.is_empty() && name_at(name) == *name)
}

/// The names in braces in a template.
fn names_in(template: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('{') {
            rest = after;
        } else if let Some(end) = rest.find('}') {
            names.push(&rest[..end]);
            rest = &rest[end + 1..];
        }
    }
    names
}

/// What is wrong with a value that a parameter draws from a document of its collection.
fn drawn_problem(template: &str, name: &str, collection: &Collection) -> Option<String> {
    for wanted in names_in(template) {
        let Some(field) = wanted.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')) else {
            return Some(format!(
                "`{{{wanted}}}`: a parameter draws its value from a document of `{name}`; write {{{name}.key}} or \
                 {{{name}.FIELD}}"
            ));
        };
        let generated = collection.from.is_none() && collection.existing.is_none();
        let first = field.split('.').next().unwrap_or_default();
        let known = collection.fields.contains_key(field) || collection.fields.contains_key(first);
        if generated && field != "key" && !known {
            let fields = collection.fields.keys().map(String::as_str).chain(["key"]);
            return Some(no_such("field", field, fields.collect::<Vec<_>>()));
        }
    }
    None
}

/// Finds what is wrong with the query of a mix. `name` is the name of its collection.
pub(super) fn check(entry: &MixEntry, kind: OpKind, name: &str, collection: &Collection, problems: &mut Problems<'_>) {
    let mut say = |key: &[&str], why: String| problems.say(key, why);
    if kind != OpKind::Query {
        for (key, given) in [
            ("text", !entry.text.is_empty()),
            ("params", !entry.params.is_empty()),
            ("rows", entry.rows.is_some()),
            ("same_on", entry.same_on.is_some()),
            ("same_order", entry.same_order),
        ] {
            if given {
                say(&[key], format!("`{key}` has no meaning for {kind}; it needs op = \"query\""));
            }
        }
        return;
    }
    if entry.text.is_empty() {
        say(&[], "a query needs its text in the language of each store, such as text.postgres = \"select …\"".into());
    }
    if entry.same_order && entry.same_on.is_none() {
        say(&["same_order"], "`same_order` needs same_on = \"all\"".into());
    }
    for (param, field) in &entry.params {
        let drawn = matches!(field, Field::Template(template) if !names_in(template).is_empty());
        if drawn && collection.existing.is_some() && entry.same_on.is_some() {
            say(
                &["params", param],
                "of documents that already exist, each store draws other values, so answers cannot be compared; use a \
                 generated value, or remove `same_on`"
                    .into(),
            );
        }
        if name_at(param) != param {
            say(
                &["params", param],
                format!("invalid name `{param}`; use letters, digits and _, and begin with a letter"),
            );
        }
        let problem = match field.kind() {
            _ if field.vary().is_some_and(|vary| vary.rising.is_some() || vary.with.is_some()) => {
                Some("a parameter belongs to no document, so `rising` and `with` have no meaning; remove them".into())
            }
            Field::Template(template) => drawn_problem(template, name, collection),
            Field::Ref { .. } => {
                Some(format!("a parameter cannot be a `ref`; the key of a document is {{{name}.key}}"))
            }
            Field::Fill | Field::Lines(_) => {
                Some("a parameter has no document to fill and no text file; use words or a text of a given size".into())
            }
            _ => None,
        };
        if let Some(problem) = problem {
            say(&["params", param], problem);
        }
    }
    for (language, text) in &entry.text {
        if let Some(problem) = language.problem(text, &entry.params) {
            say(&["text", language.name()], problem);
        }
    }
    if let Some(SameOn::Languages(languages)) = &entry.same_on
        && let Some(missing) = languages.iter().find(|language| !entry.text.contains_key(*language))
    {
        say(&["same_on"], format!("the query has no text for {missing}; add text.{missing}, or remove it here"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameters of a text.
    fn params(language: Language, text: &str) -> Vec<&str> {
        let parts = language.parts(text).unwrap();
        let whole: String = parts
            .iter()
            .map(|part| match part {
                QueryPart::Text(text) => (*text).to_owned(),
                QueryPart::Param(name) => format!("${name}"),
            })
            .collect();
        assert_eq!(whole, text, "nothing is lost");
        let name = |part: &QueryPart<'_>| match part {
            QueryPart::Param(_) => true,
            QueryPart::Text(_) => false,
        };
        parts
            .into_iter()
            .filter(name)
            .map(|part| match part {
                QueryPart::Param(name) | QueryPart::Text(name) => name,
            })
            .collect()
    }

    #[test]
    fn parameters_are_found_outside_of_strings_names_and_comments() {
        use Language::{Cassandra, Couchbase, Mysql, Postgres, Ravendb, Sqlite};
        for language in [Postgres, Sqlite, Couchbase, Mysql, Cassandra] {
            let text = "select '$a ''$b', \"$c\" -- $d\n from t /* $e */ where x = $x and y=$y_2 or z = $x";
            assert_eq!(params(language, text), ["x", "y_2", "x"], "{language}");
        }
        assert_eq!(params(Postgres, "select E'\\'$a', $$ $b $$, $t$ $c $t$, a$b, $p::int"), ["p"]);
        assert_eq!(params(Postgres, "/* a /* $b */ $c */ $d"), ["d"]);
        assert_eq!(params(Sqlite, "/* a /* $b */ $c `$d` [$e]"), ["c"]);
        assert_eq!(params(Sqlite, "select doc ->> '$.city' from t where k = $k"), ["k"]);
        assert_eq!(params(Ravendb, "from docs where a = 'it\\'s $a' and b = $b // $c"), ["b"]);
        assert_eq!(params(Couchbase, "SELECT `$a` FROM t WHERE b = \"\\\"$c\" AND d = $d"), ["d"]);
        assert_eq!(params(Mysql, "select `$a`, 'it\\'s $b', 1--$c # $d\n , $e"), ["c", "e"]);
        assert!(Mysql.parts("select /*! $a */ 1").is_err() && Mysql.parts("select /*M!100 1 */ 1").is_err());
        assert_eq!(params(Cassandra, "select $$ $a ' $$, 'it''s $b' from t where c = $c // $d"), ["c"]);
        assert_eq!(params(Postgres, "select 'ключ $a', $б, $b"), ["b"]);
    }

    #[test]
    fn what_has_no_end_and_what_has_no_name_is_refused() {
        for text in ["select 'a", "select \"a", "select /* a", "select $t$ a $t", "where a = $1"] {
            assert!(Language::Postgres.parts(text).is_err(), "{text}");
        }
        assert!(Language::Postgres.parts("where a = $12").unwrap_err().contains("`$12`"));
    }

    #[test]
    fn a_query_that_is_not_text_has_parameters_as_whole_values() {
        let query =
            serde_json::json!({ "find": { "selector": { "city": "$city", "$or": [{ "a": "$ x" }, { "b": "$b" }] } } });
        let mut names = Vec::new();
        param_values(&query, &mut |name| names.push(name.to_owned()));
        assert_eq!(names, ["city", "b"]);
    }

    #[test]
    fn row_counts_are_numbers_or_ranges() {
        let read = |text: &str| serde_json::from_str::<RowCount>(text);
        assert_eq!(read("3").unwrap(), RowCount { least: 3, most: 3 });
        assert_eq!(serde_json::to_string(&read("[1, 100]").unwrap()).unwrap(), "[1,100]");
        assert!(read("[5, 1]").unwrap_err().to_string().contains("[1, 5]"));
        assert!(read("[1, 2]").unwrap().allows(2) && !read("[1, 2]").unwrap().allows(0));
    }

    /// Deserialization is tested here because it is written by hand.
    #[test]
    fn same_on_is_all_or_a_list() {
        let read = |text: &str| serde_json::from_str::<SameOn>(text);
        assert_eq!(read("\"all\"").unwrap(), SameOn::All);
        assert_eq!(
            read("[\"postgres\",\"sqlite\"]").unwrap(),
            SameOn::Languages(vec![Language::Postgres, Language::Sqlite])
        );
        assert!(read("\"some\"").is_err() && read("[\"postgres\"]").is_err() && read("[\"a\", \"b\"]").is_err());
    }
}
