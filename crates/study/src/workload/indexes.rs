//! Indexes in the stores' own words.

use serde_json::Value;

use super::check::Problems;
use super::collections::{Body, Collection};
use super::queries::{COLLECTION, Language, in_name, starts_name};

/// PostgreSQL shortens longer names.
const LONGEST_NAME_BYTES: usize = 63;

/// Finds what is wrong with the indexes of a collection.
pub(super) fn check(collection: &Collection, problems: &mut Problems<'_>) {
    let mut say = |key: &[&str], why: String| problems.say(key, why);
    if !collection.indexes.is_empty() && collection.body != Body::Json {
        say(&[], "`indexes` needs body = \"json\"".into());
    }
    let mut names: Vec<(Language, String)> = Vec::new();
    for (name, texts) in &collection.indexes {
        for (language, text) in texts {
            let Some(Ok(sql_name)) = text.as_str().filter(|_| language.is_sql()).map(|sql| index_name(*language, sql))
            else {
                continue;
            };
            let given = (*language, sql_name);
            if names.contains(&given) {
                say(&[name, language.name()], format!("two indexes are called `{}`; give each its own name", given.1));
            }
            names.push(given);
        }
        let well_formed = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.len() <= LONGEST_NAME_BYTES
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !well_formed || name.starts_with("storebench") {
            say(
                &[name],
                format!(
                    "the name of an index must begin with a letter, but not with `storebench`, and have at most \
                     {LONGEST_NAME_BYTES} letters, digits, - and _"
                ),
            );
        }
        if texts.is_empty() {
            say(
                &[name],
                format!(
                    "an index needs its text in the language of each store, such as postgres = \"create index {name} on \
                     {COLLECTION} (…)\""
                ),
            );
        }
        for (language, text) in texts {
            if let Some(why) = problem(*language, text) {
                say(&[name, language.name()], why);
            }
        }
    }
}

/// What is wrong with the text of an index in this language.
fn problem(language: Language, text: &Value) -> Option<String> {
    let wrong = |expected: &str| Some(format!("an index of {language} is {expected}, or false for no index"));
    match (language, text) {
        (_, Value::Bool(false)) => None,
        (Language::Redis, _) => Some("Redis has no indexes over fields of documents; write redis = false".into()),
        (Language::Cassandra, _) => Some(
            "Cassandra indexes columns, not fields of JSON; name the fields in `index`, and write cassandra = false"
                .into(),
        ),
        (_, Value::String(sql)) if language.is_sql() => index_name(language, sql).err(),
        (Language::Postgres | Language::Sqlite | Language::Couchbase | Language::Mysql, _) => {
            wrong("a statement, such as \"create index NAME on {collection} (…)\"")
        }
        (Language::Ravendb, Value::String(map)) if map.contains(COLLECTION) => None,
        (Language::Ravendb, _) => wrong("a map, such as \"from d in {collection} select new { d.city }\""),
        (Language::Mongodb, Value::Object(index)) if index.get("key").is_some_and(Value::is_object) => {
            let name = ["name", "unique", "expireAfterSeconds"].into_iter().find(|name| index.contains_key(*name))?;
            Some(match name {
                "name" => "the index takes its name from the study; remove `name`".into(),
                "unique" => UNIQUE.into(),
                _ => "an index that expires documents would remove them during the measurement; remove \
                      `expireAfterSeconds`"
                    .into(),
            })
        }
        (Language::Mongodb, _) => wrong("a table, such as { key = { city = 1, stars = -1 } }"),
        (Language::Couchdb, Value::Object(index)) if index.get("fields").is_some_and(is_list_of_some) => {
            let name = ["name", "ddoc", "type"].into_iter().find(|name| index.contains_key(*name))?;
            Some(format!("the index takes its name from the study; remove `{name}`"))
        }
        (Language::Couchdb, _) => wrong("a table, such as { fields = [\"city\", \"stars\"] }"),
        (Language::Opensearch, Value::Object(fields))
            if !fields.is_empty() && fields.values().all(Value::is_object) =>
        {
            None
        }
        (Language::Opensearch, _) => {
            wrong("a table of fields and their mappings, such as { stars = { type = \"integer\" } }")
        }
    }
}

fn is_list_of_some(value: &Value) -> bool {
    value.as_array().is_some_and(|list| !list.is_empty())
}

const UNIQUE: &str = "a unique index changes which writes succeed; remove `unique`";

/// The name of the index that a statement creates, as the store keeps it: `create index NAME on {collection} (…)`.
///
/// # Errors
/// What is wrong with the statement. A statement that may do anything else is refused.
pub fn index_name(language: Language, sql: &str) -> Result<String, String> {
    let expected = || format!("write the index as: create index NAME on {COLLECTION} (…)");
    let all = tokens(language, sql)?;
    if let Some(end) = all.iter().position(|token| *token == ";")
        && end + 1 < all.len()
    {
        return Err("the index has more than one statement; use only one".into());
    }
    let mut words = all.into_iter().peekable();
    let is = |word: Option<&str>, wanted: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(wanted));
    if !is(words.next(), "create") {
        return Err(expected());
    }
    match words.next() {
        unique if is(unique, "unique") => return Err(UNIQUE.into()),
        index if is(index, "index") => {}
        _ => return Err(expected()),
    }
    if is(words.peek().copied(), "concurrently") {
        return Err("nothing writes while the index is built, so `concurrently` has no use; remove it".into());
    }
    let given = words.next();
    // Couchbase has it behind the name.
    if is(given, "if") || is(words.peek().copied(), "if") {
        return Err("an index that exists is kept anyway; remove `if not exists`".into());
    }
    if !is(words.next(), "on") {
        return Err(expected());
    }
    if is(words.peek().copied(), "only") {
        words.next();
    }
    if words.next() != Some(COLLECTION) {
        return Err(expected());
    }
    let name = given.and_then(|name| plain_name(language, name)).ok_or_else(expected)?;
    if name.is_empty() || name.len() > LONGEST_NAME_BYTES {
        return Err(format!("the name of an index has 1 to {LONGEST_NAME_BYTES} bytes"));
    }
    Ok(name)
}

/// A name without its quotes.
fn plain_name(language: Language, name: &str) -> Option<String> {
    let first = name.bytes().next()?;
    if starts_name(first) {
        return Some(if language == Language::Postgres { name.to_ascii_lowercase() } else { name.to_owned() });
    }
    let last = if first == b'[' { ']' } else { char::from(first) };
    if !matches!(first, b'"' | b'`' | b'[') {
        return None;
    }
    let inside = name.get(1..name.len() - 1)?;
    Some(inside.replace(&format!("{last}{last}"), &last.to_string()))
}

/// The words, names and signs of a statement, without comments.
///
/// # Errors
/// A quote or a comment that does not end.
pub fn tokens(language: Language, text: &str) -> Result<Vec<&str>, String> {
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let word = rest.bytes().position(|byte| !in_name(byte)).unwrap_or(rest.len());
        let end = match language.skipped(text, at)? {
            Some(end) => end,
            None if rest.starts_with(COLLECTION) => at + COLLECTION.len(),
            None => at + word.max(first.len_utf8()),
        };
        let is_comment = end > at + 1 && ["--", "/*", "#", "//"].iter().any(|mark| rest.starts_with(mark));
        if !first.is_whitespace() && !is_comment {
            all.push(&text[at..end]);
        }
        at = end;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_name_of_an_index_is_read_from_its_statement() {
        use Language::{Couchbase, Mysql, Postgres, Sqlite};
        for (language, sql, name) in [
            (Mysql, "create index `by``city` on {collection} (body(20)) # ;", "by`city"),
            (Postgres, "create index By_City on {collection} ((doc->>'city'))", "by_city"),
            (Postgres, "CREATE INDEX \"By \"\"City\" ON ONLY {collection} (key); -- ;", "By \"City"),
            (Postgres, "/* a; */ create\nindex x on {collection} using gin (doc jsonb_path_ops) where key <> ';'", "x"),
            (Sqlite, "create index [by city] on {collection}(body->>'$.city')", "by city"),
            (Sqlite, "create index By_City on {collection} (body)", "By_City"),
            (Couchbase, "CREATE INDEX `by``city` ON {collection}(city)", "by`city"),
        ] {
            assert_eq!(index_name(language, sql).as_deref(), Ok(name), "{sql}");
        }
    }

    #[test]
    fn a_statement_that_does_anything_else_is_refused() {
        for (sql, why) in [
            ("drop table x", "create index NAME"),
            ("create index x on other (a)", "create index NAME"),
            ("create index on {collection} (a)", "create index NAME"),
            ("create index s.x on {collection} (a)", "create index NAME"),
            ("create table x as select 1", "create index NAME"),
            ("create index x", "create index NAME"),
            ("create index 1x on {collection} (a)", "create index NAME"),
            ("", "create index NAME"),
            ("create unique index x on {collection} (a)", "unique"),
            ("create index if not exists x on {collection} (a)", "if not exists"),
            ("create index concurrently x on {collection} (a)", "concurrently"),
            ("create index x on {collection} (a); drop table y", "more than one"),
            ("create index \"\" on {collection} (a)", "1 to 63"),
            ("create index x on {collection} ('a", "no end"),
        ] {
            let error = index_name(Language::Postgres, sql).unwrap_err();
            assert!(error.contains(why), "{sql}: {error}");
        }
    }

    #[test]
    fn each_language_has_its_form() {
        let fine = [
            (Language::Ravendb, json!("from d in {collection} select new { d.city }")),
            (Language::Mongodb, json!({ "key": { "city": 1 }, "sparse": true })),
            (Language::Couchdb, json!({ "fields": ["city"] })),
            (Language::Opensearch, json!({ "stars": { "type": "integer" } })),
            (Language::Redis, json!(false)),
            (Language::Postgres, json!(false)),
        ];
        for (language, text) in fine {
            assert_eq!(problem(language, &text), None, "{language}: {text}");
        }
        let wrong = [
            (Language::Ravendb, json!("from d in docs.Other select new { d.city }"), "map"),
            (Language::Mongodb, json!({ "city": 1 }), "key"),
            (Language::Mongodb, json!({ "key": { "city": 1 }, "unique": true }), "unique"),
            (Language::Mongodb, json!({ "key": { "at": 1 }, "expireAfterSeconds": 1 }), "expire"),
            (Language::Mongodb, json!({ "key": { "at": 1 }, "name": "x" }), "`name`"),
            (Language::Couchdb, json!({ "fields": [] }), "fields"),
            (Language::Couchdb, json!(["city"]), "fields"),
            (Language::Couchdb, json!({ "fields": ["city"], "ddoc": "x" }), "`ddoc`"),
            (Language::Opensearch, json!({ "stars": "integer" }), "mappings"),
            (Language::Opensearch, json!({}), "mappings"),
            (Language::Redis, json!(["FT.CREATE"]), "redis = false"),
            (Language::Postgres, json!({ "a": 1 }), "create index NAME"),
            (Language::Sqlite, json!(true), "create index NAME"),
        ];
        for (language, text, why) in wrong {
            let problem = problem(language, &text).unwrap_or_default();
            assert!(problem.contains(why), "{language}: {text}: {problem}");
        }
    }
}
