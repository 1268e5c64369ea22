//! Queries in the store's own language.

use serde_json::{Value, json};

use super::Subject;
use super::client::Client;
use super::suite::{Check, Stop, ensure};
use storebench_engine::store::{BatchBuf, ErrorKind, Op, OpKind, Request, Step, StoreError};
use storebench_study::workload::Language;

const NEEDS: &[OpKind] = &[OpKind::Upsert, OpKind::Exists, OpKind::Query];

pub(super) const CHECKS: &[Check] = &[
    Check { name: "query: the rows that its values ask for", needs: NEEDS, run: values },
    Check { name: "query: without contents, counts but no rows", needs: NEEDS, run: without_contents },
    Check { name: "query: two queries on one session", needs: NEEDS, run: two },
    Check { name: "query: one that the store refuses", needs: NEEDS, run: refused },
    Check { name: "query: one that would write is refused before the first operation", needs: NEEDS, run: writing },
    Check { name: "query: asking for its plan does not fail", needs: NEEDS, run: planned },
    Check { name: "query: an index in its language is built, kept, removed", needs: NEEDS, run: index },
    Check { name: "query: what is no index in its language is refused", needs: NEEDS, run: no_index },
];

/// The query for documents of `$user` whose `n` is at least `$n`.
fn of_user(language: Language) -> String {
    match language {
        Language::Postgres => "select doc from {collection} -- by $user\n\
             where doc->>'user' = $user and (doc->>'n')::int >= $n order by (doc->>'n')::int;"
            .into(),
        Language::Sqlite => "select json(body) from {collection} -- by $user\n\
             where body->>'$.user' = $user and body->>'$.n' >= $n order by body->>'$.n';"
            .into(),
        Language::Mysql => "select body from {collection} -- by $user\n\
             where json_value(body, '$.user') = $user and json_value(body, '$.n') + 0 >= $n \
             order by json_value(body, '$.n') + 0;"
            .into(),
        // Columns of indexed fields have JSON texts, which are compared as texts.
        Language::Cassandra => "select body from {collection} // by $user\n\
             where field_user = $user and field_n >= $n allow filtering;"
            .into(),
        Language::Couchbase => {
            "SELECT RAW d FROM {collection} AS d WHERE d.`user` = $user AND d.n >= $n ORDER BY d.n".into()
        }
        Language::Ravendb => "from {collection} where user = $user and n >= $n order by n as long".into(),
        Language::Couchdb => {
            json!({ "find": { "selector": { "user": "$user", "n": { "$gte": "$n" } }, "limit": 1000 } }).to_string()
        }
        Language::Mongodb => json!({
            "aggregate": [{ "$match": { "user": "$user", "n": { "$gte": "$n" } } }, { "$sort": { "n": 1 } }]
        })
        .to_string(),
        // Both fields are indexed as texts, in whose order these numbers are, too.
        Language::Opensearch => json!({ "search": {
            "query": { "bool": { "filter": [{ "term": { "user": "$user" } }, { "range": { "n": { "gte": "$n" } } }] } },
            "sort": ["n"],
        } })
        .to_string(),
        Language::Redis => {
            let script = "local rows = {} \
                 for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do \
                   local text = redis.pcall('GET', key) \
                   if type(text) == 'string' then \
                     local d = cjson.decode(text) \
                     if d.user == ARGV[2] and d.n >= tonumber(ARGV[3]) then rows[#rows + 1] = text end \
                   end \
                 end return rows";
            json!(["EVAL_RO", script, "0", "{collection}", "$user", "$n"]).to_string()
        }
    }
}

/// A query that the store cannot understand.
fn broken(language: Language) -> String {
    match language {
        Language::Postgres | Language::Sqlite | Language::Couchbase | Language::Mysql | Language::Cassandra => {
            "select nothing from {collection} where".into()
        }
        Language::Ravendb => "from {collection} where and".into(),
        Language::Couchdb => json!({ "find": { "selector": { "n": { "$no-such": 1 } } } }).to_string(),
        Language::Mongodb => json!({ "aggregate": [{ "$noSuchStage": {} }] }).to_string(),
        Language::Opensearch => json!({ "search": { "query": { "no-such": {} } } }).to_string(),
        Language::Redis => json!(["NOSUCHCOMMAND"]).to_string(),
    }
}

/// Queries that would write, for languages that have such.
fn that_write(language: Language) -> Vec<String> {
    match language {
        Language::Postgres => vec![
            "with gone as (delete from {collection} returning 1) select * from gone".into(),
            "delete from {collection}".into(),
            "select 1; delete from {collection}".into(),
            "select 1; commit; delete from {collection}".into(),
        ],
        Language::Sqlite => vec![
            "delete from {collection} returning key".into(),
            "delete from {collection}".into(),
            "select 1; delete from {collection}".into(),
        ],
        Language::Mysql => vec![
            "delete from {collection}".into(),
            "drop table {collection}".into(),
            "select 1; delete from {collection}".into(),
            "/*! delete from {collection} */ select 1".into(),
            "select body from {collection} into outfile 'x'".into(),
        ],
        Language::Cassandra => vec![
            "delete from {collection} where key = 'u0-1'".into(),
            "truncate {collection}".into(),
            "select key from {collection}; truncate {collection}".into(),
            "begin batch delete from {collection} where key = 'u0-1' apply batch".into(),
            "// select\ndrop table {collection}".into(),
        ],
        Language::Couchbase => vec!["DELETE FROM {collection} RETURNING 1".into()],
        Language::Ravendb => vec!["from {collection} update { this.n = 0 }".into()],
        Language::Mongodb => vec![
            json!({ "aggregate": [{ "$match": {} }, { "$out": "other" }] }).to_string(),
            json!({ "delete": [{ "q": {}, "limit": 0 }] }).to_string(),
        ],
        Language::Couchdb => vec![json!({ "bulk_docs": { "docs": [] } }).to_string()],
        Language::Opensearch => vec![json!({ "delete_by_query": { "query": { "match_all": {} } } }).to_string()],
        Language::Redis => {
            let set = "return redis.call('SET', KEYS[1], '{}')";
            vec![
                json!(["SET", "{collection}made-by-a-query", "{}"]).to_string(),
                json!(["EVAL", set, "1", "{collection}made-by-a-query"]).to_string(),
            ]
        }
    }
}

/// The name of the index of [`index_of_user`].
const INDEX: &str = "own-by-user";

/// An index over `user` and `n`.
fn index_of_user(language: Language) -> Result<String, Stop> {
    Ok(match language {
        Language::Postgres => {
            "create index own_by_user on {collection} ((doc->>'user'), ((doc->>'n')::int)) -- ;".into()
        }
        Language::Sqlite => "create index own_by_user on {collection} (body->>'$.user', body->>'$.n');".into(),
        Language::Mysql => "create index own_by_user on {collection} (body(20)); # over the beginning".into(),
        Language::Couchbase => "CREATE INDEX `own_by_user` ON {collection} (`user`,`n`)".into(),
        Language::Ravendb => "from d in {collection} select new { d.user, d.n }".into(),
        Language::Couchdb => json!({ "fields": ["user", "n"] }).to_string(),
        Language::Mongodb => json!({ "key": { "user": 1, "n": 1 } }).to_string(),
        Language::Redis | Language::Cassandra => return Err(Stop::NotSupported("indexes in its own language".into())),
        Language::Opensearch => return Err(Stop::NotSupported("indexes over documents that it already has".into())),
    })
}

/// Texts that are not those of an index.
fn no_indexes(language: Language) -> Vec<String> {
    let all: &[&str] = match language {
        Language::Postgres | Language::Sqlite | Language::Couchbase | Language::Mysql => &[
            "drop index own_by_user",
            "delete from {collection}",
            "create index own_by_user on {collection} (1 +",
            "create index own_by_user on {collection} (key); delete from {collection}",
            "create index if not exists own_by_user on {collection} (key)",
        ],
        Language::Ravendb => &["from d in {collection} select new { d. }", "this is no map of {collection}"],
        Language::Couchdb => &["[]", "{\"fields\":7}"],
        Language::Mongodb => &["[]", "{\"key\":{}}"],
        Language::Redis | Language::Cassandra | Language::Opensearch => &[],
    };
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn language(s: &Subject<'_>) -> Result<Language, Stop> {
    s.capabilities.language.ok_or_else(|| Stop::failed("it supports queries, but declares no language"))
}

/// Users whose names are hard to send, with three documents each.
const USERS: [&str; 4] = ["anna", "o'hara \"x\" \\ $user", "ключ\n\tz", "%"];

fn document(user: &str, n: i64) -> Value {
    json!({ "user": user, "n": n })
}

fn fill(c: &mut Client, s: &Subject<'_>) -> Result<(), Stop> {
    for (i, user) in USERS.iter().enumerate() {
        for n in 1..=3 {
            let body = document(user, n).to_string();
            c.wrote(s.indexed, Op::Upsert { key: &format!("u{i}-{n}"), body: body.as_bytes() })?;
        }
    }
    // A session may refuse a query that was not tried.
    let text = of_user(language(s)?);
    tried(s, &text, &given(USERS[0], 1)).map_err(|error| Stop::failed(format!("its try failed: {error}")))
}

/// The query of a user as a step of a transaction. It has been tried.
pub(super) fn step_of_user(s: &Subject<'_>, user: &str, n: i64) -> Result<Step, Stop> {
    let (text, values) = (of_user(language(s)?), given(user, n));
    tried(s, &text, &values).map_err(|error| Stop::failed(format!("its try failed: {error}")))?;
    Ok(Step { collection: s.indexed, kind: Some(OpKind::Query), text: text.into(), values, ..Step::default() })
}

fn given(user: &str, n: i64) -> BatchBuf {
    let mut values = BatchBuf::new();
    values.push("user", json!(user).to_string().as_bytes());
    values.push("n", n.to_string().as_bytes());
    values
}

/// The rows that the query of a user must have.
fn gives(c: &mut Client, s: &Subject<'_>, number: u16, text: &str, user: &str, n: i64) -> Result<(), Stop> {
    let expected: Vec<Value> =
        if USERS.contains(&user) { (n..=3).map(|n| document(user, n)).collect() } else { vec![] };
    let values = given(user, n);
    c.until(|c| {
        let reply = c.ok(s.indexed, Op::Query { number, text, values: values.as_batch() })?;
        let reply = reply.as_reply();
        let rows: Vec<_> = reply.rows.unwrap_or_default().iter().map(|(_, row)| row.to_vec()).collect();
        ensure!(reply.documents as usize == rows.len(), "{} rows were counted as {}", rows.len(), reply.documents);
        ensure!(rows.len() == expected.len(), "user {user:?}, n {n}: expected {expected:?}, got {} rows", rows.len());
        for wanted in &expected {
            let found = rows.iter().any(|row| super::json::same_json(wanted, row).is_ok());
            ensure!(found, "user {user:?}, n {n}: no row is {wanted}");
        }
        Ok(())
    })
}

fn values(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, text) = (s.client()?, of_user(language(s)?));
    fill(&mut c, s)?;
    for user in USERS {
        for n in [1, 2, 4] {
            gives(&mut c, s, 0, &text, user, n)?;
        }
    }
    gives(&mut c, s, 0, &text, "nobody", 1)
}

fn without_contents(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, text) = (s.client()?, of_user(language(s)?));
    fill(&mut c, s)?;
    gives(&mut c, s, 0, &text, USERS[0], 2)?;
    let values = given(USERS[0], 2);
    let op = Op::Query { number: 0, text: &text, values: values.as_batch() };
    let with = c.ok(s.indexed, op)?;
    let request = Request { collection: s.indexed, op, contents: false };
    let without = c.call_request(&request)?.map_err(|e| Stop::failed(format!("query without contents: {e}")))?;
    let (with, without) = (with.as_reply(), without.as_reply());
    ensure!(without.rows.is_none(), "no contents were wanted, yet some came");
    ensure!(without.documents == 2, "expected 2 rows, got {}", without.documents);
    ensure!(without.bytes > 0, "its rows were counted as 0 bytes");
    ensure!(with.bytes == without.bytes, "{} bytes with contents, {} without", with.bytes, without.bytes);
    Ok(())
}

fn two(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, text) = (s.client()?, of_user(language(s)?));
    fill(&mut c, s)?;
    for _ in 0..3 {
        for number in [5, 0] {
            gives(&mut c, s, number, &text, USERS[number as usize % 3], 2)?;
        }
    }
    Ok(())
}

fn refused(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, language) = (s.client()?, language(s)?);
    let (text, wrong, none) = (of_user(language), broken(language), BatchBuf::new());
    fill(&mut c, s)?;
    for _ in 0..2 {
        match c.call(s.indexed, Op::Query { number: 1, text: &wrong, values: none.as_batch() })? {
            Err(error) if matches!(error.kind, ErrorKind::Refused | ErrorKind::Failed) => {}
            Err(error) => return Err(Stop::failed(format!("a broken query must be refused; got {error}"))),
            Ok(_) => return Err(Stop::failed(format!("a broken query succeeded: {wrong}"))),
        }
        gives(&mut c, s, 0, &text, USERS[1], 1)?;
    }
    match tried(s, &wrong, &none) {
        Err(_) => Ok(()),
        Ok(()) => Err(Stop::failed(format!("the try of a broken query succeeded: {wrong}"))),
    }
}

fn tried(s: &Subject<'_>, text: &str, values: &BatchBuf) -> Result<(), StoreError> {
    let op = Op::Query { number: 0, text, values: values.as_batch() };
    s.store.try_query(&Request { collection: s.indexed, op, contents: false })
}

fn writing(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, language) = (s.client()?, language(s)?);
    fill(&mut c, s)?;
    for text in that_write(language) {
        ensure!(tried(s, &text, &BatchBuf::new()).is_err(), "a query that writes was not refused: {text}");
    }
    let made = c.ok(s.indexed, Op::Exists { key: "made-by-a-query" })?;
    ensure!(made.as_reply().documents == 0, "a query that writes was refused, but it has written");
    let text = of_user(language);
    USERS.iter().try_for_each(|user| gives(&mut c, s, 0, &text, user, 1))
}

fn planned(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, text) = (s.client()?, of_user(language(s)?));
    fill(&mut c, s)?;
    let values = given(USERS[2], 1);
    let op = Op::Query { number: 0, text: &text, values: values.as_batch() };
    let plan = s.store.explain(&Request { collection: s.indexed, op, contents: false });
    plan.map(drop).map_err(|error| Stop::failed(format!("no plan: {error}")))
}

fn index(s: &Subject<'_>) -> Result<(), Stop> {
    let text = index_of_user(language(s)?)?;
    let mut c = s.client()?;
    fill(&mut c, s)?;
    let failed = |error: StoreError| Stop::failed(format!("building an index failed: {error}"));
    let build = || s.store.build_index(s.indexed, INDEX, &text).map_err(failed);
    let drop = || {
        let dropped = s.store.drop_index(s.indexed, INDEX, &text);
        dropped.map_err(|error| Stop::failed(format!("removing an index failed: {error}")))
    };
    for _ in 0..2 {
        let built = build()?;
        ensure!(built.took.is_some(), "it says that the index existed already, before it was built");
        let again = build()?;
        ensure!(again.took.is_none(), "it does not say that the index existed already, after it was built");
        ensure!(built.bytes.is_none_or(|bytes| bytes > 0), "it says that the index has no bytes");
        gives(&mut c, s, 1, &of_user(language(s)?), USERS[1], 2)?;
        drop()?;
    }
    gives(&mut c, s, 1, &of_user(language(s)?), USERS[1], 2)
}

fn no_index(s: &Subject<'_>) -> Result<(), Stop> {
    let text = index_of_user(language(s)?)?;
    let mut c = s.client()?;
    fill(&mut c, s)?;
    for wrong in no_indexes(language(s)?) {
        match s.store.build_index(s.indexed, INDEX, &wrong) {
            Err(StoreError::NotSupported(_)) => {}
            Err(error) => return Err(Stop::failed(format!("{wrong:?} is not refused, but fails: {error}"))),
            Ok(_) => return Err(Stop::failed(format!("{wrong:?} was taken for an index"))),
        }
    }
    let built = s.store.build_index(s.indexed, INDEX, &text);
    let built = built.map_err(|error| Stop::failed(format!("after those, building an index failed: {error}")))?;
    ensure!(built.took.is_some(), "one of the refused texts has left an index");
    gives(&mut c, s, 1, &of_user(language(s)?), USERS[1], 2)?;
    s.store
        .drop_index(s.indexed, INDEX, &text)
        .map_err(|error| Stop::failed(format!("removing an index failed: {error}")))
}
