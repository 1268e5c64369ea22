//! PostgreSQL's log (<https://www.postgresql.org/docs/current/runtime-config-logging.html>).
//!
//! - `entry`: entries of the text, JSON and CSV forms
//! - `statement`: what an SQL statement does, if it is about single documents

mod entry;
mod statement;

use std::collections::HashMap;
use std::path::Path;

use super::{Error, Finds, Found, Options};
pub(crate) use entry::Entry;
use entry::parameters;
use statement::{Does, Statement, Term};
pub(crate) use statement::{Server, parse};

/// How many texts of statements are remembered.
const MOST_STATEMENTS: usize = 10_000;

/// Reads a log.
pub(crate) fn read(file: &Path, options: &Options, finds: &mut Finds) -> Result<(), Error> {
    // Prepared statements come again with other parameters.
    let mut known: HashMap<String, Vec<Statement>> = HashMap::new();
    // A backend does one statement after another, but the end of each has milliseconds only.
    let mut begun: HashMap<String, i64> = HashMap::new();
    entry::each(file, finds, |entry, finds| {
        let Some((sql, took_ns)) = statement_of(&entry.message) else { return };
        if known.len() > MOST_STATEMENTS {
            known.clear();
        }
        let statements = known.entry(sql.to_owned()).or_insert_with(|| parse(sql, Server::Postgres));
        let at_ns = entry.at_ns.saturating_sub(took_ns);
        let last = begun.entry(entry.client.clone()).or_insert(at_ns);
        *last = at_ns.max(*last);
        let entry = Entry { at_ns: *last, ..entry };
        let parameters = entry.detail.as_deref().map(parameters).unwrap_or_default();
        for statement in statements.iter() {
            add(statement, &parameters, &entry, options, finds);
        }
    })
}

/// The statement in a message, and how long it took, if the message says that. It then was logged at its end.
fn statement_of(message: &str) -> Option<(&str, i64)> {
    let (message, took_ns) = match message.strip_prefix("duration: ") {
        Some(rest) => {
            let (ms, rest) = rest.split_once(" ms")?;
            (rest.trim_start(), (ms.trim().parse::<f64>().ok()? * 1e6) as i64)
        }
        None => (message, 0),
    };
    let sql = match message.strip_prefix("statement: ") {
        Some(sql) => sql,
        None => message.strip_prefix("execute ")?.split_once(": ")?.1,
    };
    Some((sql.trim(), took_ns))
}

/// Adds the operations of a statement.
pub(crate) fn add(
    statement: &Statement,
    parameters: &[Option<String>],
    entry: &Entry,
    options: &Options,
    finds: &mut Finds,
) {
    let Statement { does, table, rows, .. } = statement;
    let op = match does {
        Does::Other(what) => return finds.leave_out(what.clone()),
        Does::Operation(op) => *op,
    };
    let value = |term: &Term| match term {
        Term::Text(text) => Some(text.clone()),
        Term::Parameter(number) => parameters.get(number.checked_sub(1)?)?.clone(),
        Term::Other => None,
    };
    let writes = matches!(op, "insert" | "upsert" | "replace");
    for row in rows {
        let key = match &options.key {
            Some(named) => row.iter().find(|(column, _)| column == named),
            // Otherwise, the only column that is compared, or the first one that is inserted.
            None if statement.compared > 1 => {
                finds.leave_out(format!(
                    "{op} of {table} that compares several columns; name that of the key with --key"
                ));
                continue;
            }
            None => row.first(),
        };
        let Some((column, term)) = key else {
            finds.leave_out(format!("{op} of {table} that does not give the key"));
            continue;
        };
        let Some(key) = value(term) else {
            finds.leave_out(format!("{op} of {table} whose {column} the log does not tell"));
            continue;
        };
        let others = row[statement.compared..].iter().filter(|(other, _)| writes && other != column);
        let body = others.filter_map(|(_, term)| value(term)).max_by_key(String::len);
        let keys = if statement.is_list { entry::array(&key) } else { vec![key] };
        for key in keys {
            finds.found.push(Found {
                at_ns: entry.at_ns,
                op,
                within: table.clone(),
                column: if column.starts_with(statement::NAMELESS) { String::new() } else { column.clone() },
                key,
                client: entry.client.clone(),
                size: body.as_ref().map(|body| body.len() as u64),
                body: body.clone().filter(|_| options.bodies),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, read};

    fn trace(name: &str, text: &str, options: &Options) -> Result<crate::Trace, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        read(Source::Postgres, std::slice::from_ref(&file), options)
            .map_err(|error| error.0.replace(&file.display().to_string(), "F"))
    }

    fn shown(trace: &crate::Trace) -> Vec<String> {
        let first = trace.operations[0].at_ns;
        let show = |of: &crate::Operation| {
            let size = of.size.map(|size| format!(" {size} B")).unwrap_or_default();
            format!("{} {} {} c{}{size}", (of.at_ns - first) / 1_000, of.op, of.key, of.client)
        };
        trace.operations.iter().map(show).collect()
    }

    const LOG: &str = r#"2026-11-27 04:16:16.422 UTC [5699] LOG:  execute s1: INSERT INTO "shop"."docs" AS t (key, doc) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET doc = EXCLUDED.doc
2026-11-27 04:16:16.422 UTC [5699] DETAIL:  parameters: $1 = 'docs/''44', $2 = '{"a": 1}'
2026-11-27 04:16:16.423 UTC [5700] LOG:  execute <unnamed>: SELECT 1 FROM shop.docs AS t WHERE key = $1
2026-11-27 04:16:16.423 UTC [5700] DETAIL:  parameters: $1 = 'x'
2026-11-27 04:16:16.425 UTC [5699] LOG:  duration: 1.500 ms  statement: select doc
	  from shop.docs
	 where key = 'y'
2026-11-27 04:16:16.426 UTC [5699] LOG:  execute s2: UPDATE shop.docs AS t SET doc = $2 WHERE key = $1
2026-11-27 04:16:16.426 UTC [5699] DETAIL:  parameters: $1 = 'x', $2 = NULL
2026-11-27 04:16:16.427 UTC [5699] LOG:  execute s5: DELETE FROM shop.docs WHERE key = ANY($1)
2026-11-27 04:16:16.427 UTC [5699] DETAIL:  parameters: $1 = '{x,"y z"}'
2026-11-27 04:16:16.428 UTC [5699] LOG:  statement: BEGIN
2026-11-27 04:16:16.428 UTC [5699] LOG:  statement: select count(*) from shop.docs where doc->>'city' = 'Lima'
2026-11-27 04:16:16.428 UTC [5699] ERROR:  duplicate key value
2026-11-27 04:16:16.428 UTC [5699] STATEMENT:  INSERT INTO shop.docs VALUES ('again')
2026-11-27 04:16:16.429 UTC [5699] LOG:  statement: insert into shop.docs values ('n', '{}'), ('m', '{}')
"#;

    #[test]
    fn statements_about_single_documents_are_operations() {
        let trace = trace("postgresql.log", LOG, &Options::default()).unwrap();
        assert_eq!(
            shown(&trace),
            [
                "0 upsert docs/'44 c1 8 B",
                "1000 exists x c2",
                "1500 read y c1",
                "4000 replace x c1",
                "5000 delete x c1",
                "5000 delete y z c1",
                "7000 insert n c1 2 B",
                "7000 insert m c1 2 B",
            ]
        );
        assert_eq!((trace.within.as_deref(), trace.clients), (Some("shop.docs"), 2));
        let left: Vec<(&str, u64)> = trace.left_out.iter().map(|(why, left)| (why.as_str(), left.count)).collect();
        assert_eq!(left, [("BEGIN", 1), ("SELECT of shop.docs that is not by one key", 1)]);
        assert!(trace.operations.iter().all(|of| of.body.is_none()), "documents are not kept unless asked for");
    }

    #[test]
    fn keys_in_different_columns_need_a_choice() {
        let text = "2026-11-27 04:16:16.1 UTC [1] LOG:  statement: insert into users (email, name) values ('a@b', 'x')\n\
                    2026-11-27 04:16:16.2 UTC [1] LOG:  statement: select name from Users where id = 7\n\
                    2026-11-27 04:16:16.3 UTC [1] LOG:  statement: delete from users where team_id = 7\n";
        let why = trace("l", text, &Options::default()).unwrap_err();
        assert!(why.ends_with("with --key: email (1), id (1), team_id (1); the numbers are operations"), "{why}");
        let by_id = trace("l", text, &Options { key: Some("id".into()), ..Options::default() }).unwrap();
        assert_eq!((shown(&by_id), by_id.left_out.len()), (vec!["0 read 7 c1".to_owned()], 2));
    }

    #[test]
    fn entries_of_several_backends_are_told_apart() {
        let text = "2026-11-27 04:16:16.1 CEST [5-1] LOG:  execute s: SELECT b FROM d WHERE k = $1\n\
                    2026-11-27 04:16:16.1 CEST [6-1] LOG:  execute s: SELECT b FROM d WHERE k = $1\n\
                    2026-11-27 04:16:16.1 CEST [6-2] DETAIL:  parameters: $1 = 'six'\n\
                    2026-11-27 04:16:16.1 CEST [5-2] DETAIL:  parameters: $1 = 'five'\n\
                    2026-11-27 04:16:16.2 CEST [5-3] LOG:  statement: DELETE FROM d WHERE k = 'see DETAIL:  none'\n\
                    2026-11-27 04:16:16.202 CEST [5-4] LOG:  duration: 0.050 ms  statement: INSERT INTO d VALUES ('n')\n\
                    2026-11-27 04:16:16.202 CEST [5-5] LOG:  duration: 0.200 ms  statement: SELECT b FROM d WHERE k = 'n'\n";
        let found = trace("l", text, &Options::default()).unwrap();
        let mut first: Vec<String> = shown(&found);
        first[..2].sort();
        assert_eq!(first[..2], ["0 read five c1", "0 read six c2"].map(str::to_owned));
        let rest: Vec<&str> = first[2..].iter().map(String::as_str).collect();
        assert_eq!(rest, ["100000 delete see DETAIL:  none c1", "101950 insert n c1", "101950 read n c1"]);
        let changed = text.replacen("04:16:16.2 CEST", "03:16:16.2 CET", 1);
        let why = trace("l", &changed, &Options::default()).unwrap_err();
        assert_eq!(
            why,
            "F:5: the time zone changes from CEST to CET; set log_timezone = 'UTC', or give the part before and the part after it apart"
        );
    }

    #[test]
    fn the_json_and_csv_forms_say_the_same() {
        let json = r#"{"timestamp":"2026-11-27 04:16:16.422 UTC","pid":7,"message":"execute s: SELECT doc FROM docs WHERE key = $1","detail":"Parameters: $1 = 'a'"}
{"timestamp":"2026-11-27 04:16:16.423 UTC","pid":7,"message":"connection received"}
"#;
        assert_eq!(shown(&trace("postgresql.json", json, &Options::default()).unwrap()), ["0 read a c1"]);
        let csv = "2026-11-27 04:16:16.422 UTC,\"u\",\"d\",7,\"127.0.0.1:5\",6a,3,\"SELECT\",2026-11-27 04:16:16 UTC,3/5,0,LOG,00000,\
                   \"execute s: SELECT doc\n FROM docs WHERE key = $1\",\"parameters: $1 = 'a'\",,,,,,,,\"app\",\"client backend\",,0\n";
        assert_eq!(shown(&trace("postgresql.csv", csv, &Options::default()).unwrap()), ["0 read a c1"]);
    }

    #[test]
    fn several_tables_need_a_choice_and_a_log_without_times_is_refused() {
        let two = "2026-11-27 04:16:16.422 UTC [1] LOG:  statement: select b from s.one where id = 1\n\
                   2026-11-27 04:16:16.423 UTC [1] LOG:  statement: select b from two where id = 2\n\
                   2026-11-27 04:16:16.424 UTC [1] LOG:  statement: select b from two where other = 3 and id = 2\n";
        let why = trace("l", two, &Options::default()).unwrap_err();
        assert_eq!(
            why,
            "the log has documents in several places; name one with --within table: s.one (1), two (1); the numbers are operations"
        );
        let of = |within: &str, key: &str| {
            let options = Options { within: Some(within.into()), key: Some(key.into()), ..Options::default() };
            trace("l", two, &options).map(|trace| shown(&trace))
        };
        assert_eq!(of("one", "id").unwrap(), ["0 read 1 c1"]);
        assert_eq!(of("two", "id").unwrap(), ["0 read 2 c1", "1000 read 2 c1"]);
        assert!(of("three", "id").unwrap_err().contains("no operation on a single document"));
        let why = trace("l", "LOG:  statement: select 1\n", &Options::default()).unwrap_err();
        assert_eq!(why, "F:1: the line has no time; set log_line_prefix = '%m [%p] ' in PostgreSQL");
    }
}
