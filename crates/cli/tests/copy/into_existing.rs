//! `copy --into-existing`: into collections that Storebench did not create, on real servers.

use std::io::{Read as _, Write as _};

use crate::common::copies::{by_key, count, report};
use crate::common::{Cli, Done};
use crate::server::Server;
use bson::{Document, doc, oid::ObjectId};
use serde_json::{Value, json};

/// Records with these keys; their documents have `n` and `by`.
fn records(keys: impl IntoIterator<Item = String>, by: &str) -> String {
    let line = |(n, key): (usize, String)| format!("{}\n", json!({ "_id": key, "n": n, "by": by }));
    keys.into_iter().enumerate().map(line).collect()
}

/// Copies `new.jsonl` into the user's collection.
fn copy_into(cli: &Cli, url: &str, to: &[&str], more: &[&str]) -> Done {
    let args = [&["copy", "new.jsonl", url, "--into-existing", "--to-collection"][..], to, more, &["--json"]].concat();
    cli.run_args(&args)
}

/// The same, but the copy must run and verify. Returns the numbers of written and rejected records.
fn copied(cli: &Cli, url: &str, to: &[&str], more: &[&str]) -> (u64, u64) {
    let done = copy_into(cli, url, to, more);
    assert!(done.code == 0 || !done.out.is_empty(), "{done:?}");
    let report = report(&done);
    if more.contains(&"--verify") {
        assert_eq!(report["verified"]["equal"], true, "{done:?}");
    }
    (count(&report, "written"), count(&report, "rejected"))
}

fn sql(server: &Server, statements: &str) -> String {
    let done = server.psql().args(["-c", statements]).output().unwrap();
    assert!(done.status.success(), "{statements}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_table_of_yours_is_written_and_nothing_else_changes() {
    let server = Server::start("postgres");
    sql(
        &server,
        "CREATE TABLE books (id integer PRIMARY KEY, title text DEFAULT 'none', body jsonb NOT NULL, loose integer); \
         CREATE TABLE notes (id text UNIQUE, body json); CREATE TABLE strict (id text PRIMARY KEY, body jsonb, who text NOT NULL); \
         INSERT INTO books SELECT i, 'title ' || i, jsonb_build_object('old', i) FROM generate_series(1, 50) AS i; \
         INSERT INTO strict VALUES ('a', '{\"old\": 1}', 'ann'); CREATE SCHEMA shop; CREATE TABLE shop.books AS SELECT * FROM books",
    );
    let besides = || {
        sql(
            &server,
            "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM shop.books t; \
             SELECT string_agg(nspname, ',' ORDER BY 1) FROM pg_namespace WHERE nspname !~ '^pg_'; \
             SELECT string_agg(relname, ',' ORDER BY 1) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
               WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'; \
             SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname !~ '^pg_'; \
             SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM books t WHERE id < 40",
        )
    };
    let before = besides();
    let cli = Cli::new();
    let to = ["books", "--to-body", "body"];
    cli.write("new.jsonl", &records((40..90).map(|n| n.to_string()), "new"));
    assert_eq!(copied(&cli, &server.url, &to, &["--verify", "-p", "2"]), (50, 0));
    assert_eq!(
        sql(&server, "SELECT title, body->>'by' FROM books WHERE id IN (45, 60) ORDER BY id"),
        "title 45|new\nnone|new"
    );
    assert_eq!(sql(&server, "SELECT count(*), sum((body->>'n')::int) FROM books WHERE id >= 40"), "50|1225");

    // Two texts for one number: the second conflicts with the first, and is another document.
    cli.write("new.jsonl", &records(["100", "0100", "101"].map(str::to_owned), "first"));
    assert_eq!(copied(&cli, &server.url, &to, &["--op", "insert"]), (2, 1));
    assert_eq!(copied(&cli, &server.url, &to, &["--op", "insert", "--restart"]), (2, 1));
    cli.write("new.jsonl", "{\"_id\":\"x\",\"n\":1}\n{\"_id\":\"102\",\"n\":1}\n");
    assert_eq!(copied(&cli, &server.url, &to, &[]), (1, 1), "no integer");

    cli.write("new.jsonl", "{\"_id\":\"45\",\"by\":null,\"more\":{\"a\":1}}\n{\"_id\":\"5000\",\"a\":1}\n");
    assert_eq!(copied(&cli, &server.url, &to, &["--op", "merge"]), (1, 1));
    assert_eq!(sql(&server, "SELECT body FROM books WHERE id = 45"), r#"{"n": 5, "more": {"a": 1}}"#);
    assert_eq!(copied(&cli, &server.url, &to, &["--op", "replace"]), (1, 1));
    cli.write("new.jsonl", &records((60..200).map(|n| n.to_string()), "gone"));
    assert_eq!(copied(&cli, &server.url, &to, &["--op", "delete", "--verify"]), (33, 0));
    assert_eq!(sql(&server, "SELECT count(*) FROM books"), "59");

    // A column of type `json` keeps the text as it was written.
    cli.write("new.jsonl", "{\"_id\":\"k\",\"b\":  1.50,\"a\":[ ]}\n");
    let notes = ["public.notes", "--to-key", "id", "--to-body", "body"];
    assert_eq!(copied(&cli, &server.url, &notes, &["--verify"]), (1, 0));
    assert_eq!(sql(&server, "SELECT body FROM notes"), r#"{"b":  1.50,"a":[ ]}"#);
    cli.write("new.jsonl", "{\"_id\":\"k\",\"a\":null}\n");
    assert_eq!(copied(&cli, &server.url, &notes, &["--op", "merge"]), (1, 0));
    assert_eq!(sql(&server, "SELECT body->>'b', body->>'a' FROM notes"), "1.50|");

    // Only existing rows can be written.
    cli.write("new.jsonl", "{\"_id\":\"a\",\"old\":2}\n");
    let done = copy_into(&cli, &server.url, &["strict", "--to-body", "body"], &[]);
    assert_eq!(done.code, 1, "{done:?}");
    let rejects =
        std::fs::read_to_string(report(&done)["rejects"].as_str().map(|path| cli.path(path)).unwrap()).unwrap();
    assert!(rejects.contains("columns who need values"), "{rejects}");
    assert_eq!(copied(&cli, &server.url, &["strict", "--to-body", "body"], &["--op", "replace"]), (1, 0));
    assert_eq!(sql(&server, "SELECT * FROM strict"), "a|{\"old\": 2}|ann");

    for (to, told) in [
        (&["bookz", "--to-body", "body"][..], "there is no table `public.bookz`"),
        (&["books"], "no column is named for the document"),
        (
            &["books", "--to-body", "text"],
            "no column `text` for the document; `public.books` has the columns id, title",
        ),
        (&["books", "--to-key", "isbn", "--to-body", "body"], "no column `isbn` for the key"),
        (&["books", "--to-key", "loose", "--to-body", "body"], "is not unique"),
        (&["books", "--to-body", "loose"], "type integer"),
        (&["shop.books", "--to-body", "body"], "no single column is its primary key"),
    ] {
        let done = copy_into(&cli, &server.url, to, &[]);
        assert!(done.code == 2 && done.err.contains(told), "{to:?}: {done:?}");
    }
    // And read. A row without a key is an error, and not skipped.
    let out = ["copy", &server.url, "out.jsonl", "--force", "-p", "3", "--json", "--from-collection"];
    let done = cli.run_args(&[&out[..], &["books", "--from-body", "body"]].concat()).code(0);
    assert_eq!((count(&report(&done), "written"), by_key(&cli.path("out.jsonl")).len()), (59, 59), "{done:?}");
    sql(&server, "INSERT INTO notes VALUES (NULL, '{}')");
    let done = cli.run_args(&[&out[..], &["public.notes", "--from-key", "id", "--from-body", "body"]].concat()).code(2);
    assert!(done.err.contains("`id` is NULL in some rows"), "{done:?}");
    assert_eq!(besides(), before);

    // And back.
    let back = ["copy", &server.url, "back.jsonl", "--from-collection", "books", "--from-body", "body", "-p", "2"];
    let done = cli.run_args(&[&back[..], &["--verify", "--json"]].concat());
    assert_eq!((done.code, count(&report(&done), "written")), (0, 59), "{done:?}");
    assert_eq!(by_key(&cli.path("back.jsonl"))["7"], json!({"_id": "7", "old": 7}));
}

#[test]
fn rows_of_a_table_of_yours_that_a_policy_hides_are_told_of() {
    let server = Server::start("postgres");
    sql(
        &server,
        "CREATE TABLE books (id text PRIMARY KEY, owner text, body jsonb NOT NULL); \
         INSERT INTO books VALUES ('a', 'ann', '{\"n\":1}'), ('b', 'bob', '{\"n\":2}'); \
         ALTER TABLE books ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON books USING (owner = current_user); \
         CREATE ROLE ann LOGIN PASSWORD 'ann'; GRANT SELECT ON books TO ann",
    );
    let ann = server.url.replace("storebench:storebench@", "ann:ann@");
    let cli = Cli::new();
    let copy =
        |url: &str, more: &[&str]| cli.run_args(&[&["copy", url, "out.jsonl", "--force", "--json"][..], more].concat());
    let table = ["--from-collection", "books", "--from-body", "body"];
    let done = copy(&ann, &table).code(2);
    assert!(done.err.contains("role with BYPASSRLS") && done.err.contains("--query"), "{done:?}");
    assert!(!cli.path("out.jsonl").exists());
    // A query returns what the user asked for.
    let done = copy(&ann, &["--query", "SELECT id, body FROM books", "--key", "id"]).code(0);
    assert_eq!(count(&report(&done), "written"), 1);
    assert_eq!(count(&report(&copy(&server.url, &table).code(0)), "written"), 2);
    sql(&server, "ALTER ROLE ann BYPASSRLS");
    assert_eq!(count(&report(&copy(&ann, &table).code(0)), "written"), 2);
}

#[test]
fn a_collection_of_yours_in_mongodb_gets_documents_as_they_are() {
    let server = Server::start("nx-27017");
    let client = storebench_fakes::mongodb::Client::connect(&server.url).unwrap();
    let insert = |name: &str, documents: Vec<Document>| client.insert("shop", name, documents).unwrap();
    let read = |name: &str, filter: Document| client.find("shop", name, filter).unwrap().pop();
    let when = bson::DateTime::from_millis(5);
    insert("books", (0..50).map(|n| doc! { "_id": format!("k{n:03}"), "old": n, "when": when }).collect());
    let ids: Vec<ObjectId> = (0..5).map(|_| ObjectId::new()).collect();
    insert("events", ids.iter().map(|id| doc! { "_id": *id, "a": { "b": 1, "c": when } }).collect());
    let cli = Cli::new();
    let url = format!("{}/shop", server.url);
    cli.write("new.jsonl", &records((40..90).map(|n| format!("k{n:03}")), "new"));
    let refused = cli.run_args(&["copy", "new.jsonl", &url, "--to-collection", "books"]);
    assert!(refused.code == 2 && refused.err.contains("--into-existing"), "{refused:?}");
    assert_eq!(copied(&cli, &url, &["books"], &["--verify"]), (50, 0));
    assert_eq!(read("books", doc! {"_id": "k045"}).unwrap(), doc! {"_id": "k045", "n": 5, "by": "new"});
    assert_eq!(read("books", doc! {"_id": "k039"}).unwrap(), doc! {"_id": "k039", "old": 39, "when": when});
    assert_eq!(copied(&cli, &url, &["books"], &["--op", "insert"]), (50, 0), "there already, the same");

    // Fields that the patch does not name keep their types.
    let id = ids[1].to_hex();
    cli.write("new.jsonl", &format!("{{\"_id\":\"{id}\",\"a\":{{\"b\":null,\"d\":2}}}}\n{{\"_id\":\"nobody\"}}\n"));
    assert_eq!(copied(&cli, &url, &["events"], &["--op", "merge"]), (1, 1));
    assert_eq!(read("events", doc! {"_id": ids[1]}).unwrap(), doc! {"_id": ids[1], "a": { "c": when, "d": 2 }});
    assert_eq!(copied(&cli, &url, &["events"], &[]), (1, 1), "`nobody` is no object id");
    assert_eq!(copied(&cli, &url, &["events"], &["--op", "delete"]).0, 1);
    assert_eq!(read("events", doc! {"_id": ids[1]}), None);
    for (to, told) in
        [(&["films"][..], "no collection `films`"), (&["books", "--to-key", "n"], "the key of `books` is `_id`")]
    {
        let done = copy_into(&cli, &url, to, &[]);
        assert!(done.code == 2 && done.err.contains(told), "{to:?}: {done:?}");
    }
    let counter = copy_into(&cli, &url, &["books"], &["--op", "counter", "--value", "n"]);
    assert!(counter.code == 2 && counter.err.contains("holds JSON"), "{counter:?}");
    assert_eq!(client.collections("shop").unwrap(), ["books", "events"]);
}

#[test]
fn mongodb_s_own_types_go_from_one_existing_collection_to_another() {
    let server = Server::start("nx-27017");
    let client = storebench_fakes::mongodb::Client::connect(&server.url).unwrap();
    let insert = |name: &str, documents: Vec<Document>| client.insert("shop", name, documents).unwrap();
    let (id, when) = (ObjectId::new(), bson::DateTime::from_millis(1_700_000_000_123));
    // This server does not support decimals.
    let order = doc! { "_id": id, "at": when, "lines": [{ "book": ObjectId::new() }], "n": 1_i64 << 40 };
    insert("orders", vec![order.clone()]);
    insert("copies", vec![doc! { "_id": ObjectId::new(), "other": 1 }]);
    let cli = Cli::new();
    let url = format!("{}/shop", server.url);
    let from = ["--from-collection", "orders"];
    let into = ["--to-collection", "copies", "--into-existing", "--verify"];
    cli.run_args(&[&["copy", &url, "orders.jsonl"], &from[..]].concat()).code(0);
    cli.run_args(&[&["copy", "orders.jsonl", &url], &into[..]].concat()).code(0);
    let found = |name: &str| client.find("shop", name, doc! { "_id": id }).unwrap().pop();
    assert_eq!(found("copies"), Some(order.clone()));
    let delete = doc! { "delete": "copies", "deletes": [{ "q": { "_id": id }, "limit": 1 }] };
    client.run("shop", delete).unwrap();
    cli.run_args(&[&["copy", &url, &url], &from[..], &into].concat()).code(0);
    assert_eq!(found("copies"), Some(order));
}

/// Documents in the user's own collection of MongoDB get no expiry, also behind a decorator.
#[test]
fn documents_that_expire_do_not_go_into_a_collection_of_yours_in_mongodb() {
    let (source, target) = (Server::start("redis"), Server::start("nx-27017"));
    redis(source.port, &["SET", "book:ever", "{\"n\":1}"]);
    redis(source.port, &["SET", "book:hour", "{\"n\":2}", "PX", "3600000"]);
    let client = storebench_fakes::mongodb::Client::connect(&target.url).unwrap();
    let cli = Cli::new();
    for (name, url) in
        [("plain", format!("{}/shop", target.url)), ("slow", format!("slow+{}/shop?latency=1ms", target.url))]
    {
        client.insert("shop", name, vec![doc! { "_id": "old" }]).unwrap();
        let into = ["--from-collection", "book:", "--to-collection", name, "--into-existing", "--json"];
        let done = cli.run_args(&[&["copy", &source.url, &url], &into[..]].concat());
        let counts = (count(&report(&done), "written"), count(&report(&done), "rejected"));
        assert_eq!((done.code, counts), (1, (1, 1)), "{name}: {done:?}");
        assert_eq!(client.find("shop", name, doc! { "n": 2 }).unwrap(), Vec::<Document>::new(), "{name}");
    }
}

/// If some keys are numbers and others texts, one type would be left out.
#[test]
fn mongodb_s_keys_that_cannot_be_copied_are_refused_by_type() {
    for name in ["nx-27017", "ferretdb"] {
        let server = Server::start(name);
        let client = storebench_fakes::mongodb::Client::connect(&server.url).unwrap();
        let insert = |name: &str, documents: Vec<Document>| client.insert("shop", name, documents).unwrap();
        insert("mixed", vec![doc! { "_id": 1 }, doc! { "_id": "a" }]);
        insert("switches", vec![doc! { "_id": true }]);
        let cli = Cli::new();
        let url = format!("{}/shop", server.url);
        for (collection, told) in
            [("mixed", "have several types: the first is int, the last string"), ("switches", "have the type bool")]
        {
            let done = cli.run_args(&["copy", &url, "refused.jsonl", "--from-collection", collection]);
            assert!(done.code == 2 && done.err.contains(told), "{name}: {done:?}");
            assert!(!cli.path("refused.jsonl").exists());
        }
    }
}

/// Sends an HTTP request, and returns the answer, or null if nothing is there.
fn http(port: u16, method: &str, path: &str, body: &str) -> Value {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    let head = "Host: h\r\nContent-Type: application/json\r\nConnection: close";
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 2") || head.starts_with("HTTP/1.1 404"), "{method} {path}: {text}");
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    // One chunk, or all of it.
    let json = if chunked {
        body.split_once("\r\n").map_or("", |(_, chunk)| chunk.split("\r\n0\r\n").next().unwrap())
    } else {
        body
    };
    serde_json::from_str(json).unwrap_or_default()
}

/// The key of an item comes back as a member, which is no difference.
#[test]
fn a_table_of_yours_in_dynamodb_is_written_and_equal() {
    let server = Server::start("dynalite");
    let call = |operation: &str, body: &Value| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let body = body.to_string();
        let head = format!(
            "Host: h\r\nConnection: close\r\nContent-Type: application/x-amz-json-1.0\r\n\
             X-Amz-Target: DynamoDB_20120810.{operation}\r\nX-Amz-Date: 20261130T120000Z\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=a/20261130/us-east-1/dynamodb/aws4_request, SignedHeaders=host, \
             Signature=x"
        );
        write!(stream, "POST / HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    };
    for (table, kind) in [("texts", "S"), ("numbers", "N")] {
        call(
            "CreateTable",
            &json!({
                "TableName": table, "BillingMode": "PAY_PER_REQUEST",
                "KeySchema": [{ "AttributeName": "pk", "KeyType": "HASH" }],
                "AttributeDefinitions": [{ "AttributeName": "pk", "AttributeType": kind }],
            }),
        );
        while !call("DescribeTable", &json!({ "TableName": table })).contains("\"ACTIVE\"") {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let cli = Cli::new();
        cli.write("new.jsonl", &records((0..50).map(|n| n.to_string()), "new"));
        for more in [&["--verify"][..], &["--op", "insert", "--verify"]] {
            assert_eq!(copied(&cli, &server.url, &[table], more), (50, 0), "{table}");
        }
        // A document that differs still is told from one that does not.
        cli.write("new.jsonl", &records((40..60).map(|n| n.to_string()), "another"));
        assert_eq!(copied(&cli, &server.url, &[table], &["--op", "insert"]), (10, 10), "{table}");
    }
}

#[test]
fn a_database_of_yours_in_couchdb_is_written() {
    let server = Server::start("pouchdb-server");
    http(server.port, "PUT", "/shop", "");
    let design = json!({"_id": "_design/by", "views": {"n": {"map": "function (doc) { emit(doc.n, null); }"}}});
    let old = (0..50).map(|n| json!({"_id": format!("k{n:03}"), "old": n})).chain([design]).collect::<Vec<_>>();
    http(server.port, "POST", "/shop/_bulk_docs", &json!({ "docs": old }).to_string());
    let cli = Cli::new();
    cli.write("new.jsonl", &records((40..90).map(|n| format!("k{n:03}")), "new"));
    assert_eq!(copied(&cli, &server.url, &["shop"], &["--verify"]), (50, 0));
    let read = |key: &str| http(server.port, "GET", &format!("/shop/{key}"), "");
    assert_eq!(
        (&read("k045")["by"], &read("k045")["old"], &read("k039")["old"]),
        (&json!("new"), &Value::Null, &json!(39))
    );
    cli.write("new.jsonl", "{\"_id\":\"k001\",\"more\":1}\n{\"_id\":\"nobody\",\"more\":1}\n");
    assert_eq!(copied(&cli, &server.url, &["shop"], &["--op", "merge"]), (1, 1));
    assert_eq!((&read("k001")["old"], &read("k001")["more"]), (&json!(1), &json!(1)));
    let databases = http(server.port, "GET", "/_all_dbs", "");
    assert!(databases.as_array().unwrap().iter().all(|name| name == "shop" || name.as_str().unwrap().starts_with('_')));
    assert!(read("_design/by")["views"]["n"].is_object());
    for (to, told) in [(&["films"][..], "no database `films`"), (&["shop", "--to-body", "b"], "in fixed places")] {
        let done = copy_into(&cli, &server.url, to, &[]);
        assert!(done.code == 2 && done.err.contains(told), "{to:?}: {done:?}");
    }
}

#[test]
fn a_collection_of_yours_in_ravendb_is_written_and_others_keep_theirs() {
    let server = Server::start("ravendb");
    let port = server.port;
    http(port, "PUT", "/admin/databases?name=shop&replicationFactor=1", &json!({"DatabaseName": "shop"}).to_string());
    let put = |id: &str, collection: &str, n: u32| {
        let document = json!({"old": n, "@metadata": {"@collection": collection, "Raven-Clr-Type": "Shop.Book"}});
        json!({"Type": "PUT", "Id": id, "ChangeVector": null, "Document": document})
    };
    let mut commands: Vec<Value> = (0..50).map(|n| put(&format!("Books/{n:03}"), "Books", n)).collect();
    commands.push(put("Authors/1", "Authors", 1));
    http(port, "POST", "/databases/shop/bulk_docs", &json!({ "Commands": commands }).to_string());
    let read = |id: &str| http(port, "GET", &format!("/databases/shop/docs?id={id}"), "")["Results"][0].clone();
    let author = read("Authors/1");
    let cli = Cli::new();
    let url = format!("{}/shop", server.url.trim_end_matches("/"));
    cli.write("new.jsonl", &records((40..90).map(|n| format!("Books/{n:03}")), "new"));
    assert_eq!(copied(&cli, &url, &["Books"], &["--verify"]), (50, 0));
    assert_eq!((&read("Books/045")["by"], &read("Books/039")["old"]), (&json!("new"), &json!(39)));
    assert_eq!(read("Books/085")["@metadata"]["@collection"], "Books");
    // Documents of another collection stay unchanged, whatever the operation.
    cli.write("new.jsonl", &records(["Authors/1".to_owned(), "Books/001".to_owned()], "merged"));
    for op in ["merge", "upsert", "insert", "replace", "delete"] {
        assert_eq!(copied(&cli, &url, &["books"], &["--op", op]), (1, 1), "{op}");
        assert_eq!(read("Authors/1"), author, "{op}");
        if op == "merge" {
            let book = read("Books/001");
            assert_eq!((&book["old"], &book["by"]), (&json!(1), &json!("merged")));
            assert_eq!(book["@metadata"]["Raven-Clr-Type"], "Shop.Book");
        }
    }
    assert_eq!(read("Books/001"), Value::Null);
    let done = copy_into(&cli, &url, &["Films"], &[]);
    assert!(done.code == 2 && done.err.contains("no collection `Films`; it has: "), "{done:?}");
    let collections = http(port, "GET", "/databases/shop/collections/stats", "")["Collections"].clone();
    assert_eq!(
        (collections["Books"].clone(), collections.as_object().unwrap().contains_key("Storebench")),
        (json!(89), false)
    );

    // And read completely. A misspelt name is an error.
    let document = |id: &str, collection: &str, more: Value| {
        let mut document = json!({"text": "lorem ipsum ".repeat(90), "@metadata": {"@collection": collection}});
        document["@metadata"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"Type": "PUT", "Id": id, "ChangeVector": null, "Document": document})
    };
    let logs: Vec<Value> = (0..3_000).map(|n| document(&format!("logs/{n}-A"), "Logs", json!({}))).collect();
    http(port, "POST", "/databases/shop/bulk_docs", &json!({ "Commands": logs }).to_string());
    let copy_out = |collection: &str, more: &[&str]| {
        let args = ["copy", &url, "out.jsonl", "--force", "--json", "--from-collection", collection];
        cli.run_args(&[&args[..], more].concat())
    };
    for (collection, documents) in [("Books", 89), ("logs", 3_000)] {
        let done = copy_out(collection, &["--verify", "-p", "3"]).code(0);
        assert_eq!(
            (count(&report(&done), "written"), by_key(&cli.path("out.jsonl")).len()),
            (documents, documents as usize)
        );
        if collection == "Books" {
            assert_eq!(by_key(&cli.path("out.jsonl"))["Books/039"], json!({"_id": "Books/039", "old": 39}));
        }
    }
    let done = copy_out("Bokks", &[]).code(2);
    assert!(done.err.contains("no collection `Bokks`; it has: ") && done.err.contains("Books"), "{done:?}");
    // Documents with attachments or an expiry that cannot be copied are rejected.
    http(port, "PUT", "/databases/shop/attachments?id=Books/002&name=a.txt", "hello");
    let expiration = json!({"Disabled": false, "DeleteFrequencyInSec": 600}).to_string();
    http(port, "POST", "/databases/shop/admin/expiration/config", &expiration);
    let expires = document("Books/003", "Books", json!({"@expires": "2999-01-01T00:00:00.0000000Z"}));
    http(port, "POST", "/databases/shop/bulk_docs", &json!({ "Commands": [expires] }).to_string());
    for (more, written, rejected) in [(&[][..], 87, 2), (&["--drop-expiry"], 88, 1)] {
        let done = copy_out("Books", more).code(1);
        let report = report(&done);
        assert_eq!((count(&report, "written"), count(&report, "rejected")), (written, rejected), "{done:?}");
    }
}

/// Sends a command to Redis, and returns the answer.
fn redis(port: u16, words: &[&str]) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    let count = words.matches('$').count();
    write!(stream, "*{count}\r\n{words}*1\r\n$4\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.trim_end_matches("+OK\r\n").to_owned()
}

#[test]
fn keys_of_yours_in_redis_are_written_and_other_kinds_stay() {
    let server = Server::start("redis");
    let ask = |words: &[&str]| redis(server.port, words);
    for n in 0..20 {
        ask(&["SET", &format!("book:{n}"), &format!("{{\"old\":{n}}}")]);
    }
    ask(&["SET", "author:1", "ann"]);
    ask(&["HSET", "book:hash", "field", "value"]);
    let cli = Cli::new();
    let keys = (10..30).map(|n| n.to_string()).chain(["hash".to_owned()]);
    cli.write("new.jsonl", &records(keys, "new"));
    let done = copy_into(&cli, &server.url, &["book:"], &["--verify"]);
    assert_eq!(
        (done.code, count(&report(&done), "written"), count(&report(&done), "rejected")),
        (1, 20, 1),
        "{done:?}"
    );
    assert_eq!(report(&done)["verified"]["equal"], true);
    assert_eq!(ask(&["GET", "book:9"]), "$9\r\n{\"old\":9}\r\n");
    assert_eq!(ask(&["GET", "book:12"]), "$18\r\n{\"n\":2,\"by\":\"new\"}\r\n");
    for op in ["replace", "delete", "insert"] {
        let (written, rejected) = copied(&cli, &server.url, &["book:"], &["--op", op]);
        assert_eq!((written, rejected), (20, 1), "{op}");
    }
    assert_eq!(ask(&["HGET", "book:hash", "field"]), "$5\r\nvalue\r\n");
    assert_eq!(ask(&["GET", "author:1"]), "$3\r\nann\r\n");
    assert_eq!(ask(&["DBSIZE"]), ":32\r\n");
    cli.write("new.jsonl", "{\"_id\":\"9\",\"old\":null,\"more\":1}\n");
    assert_eq!(copied(&cli, &server.url, &["book:"], &["--op", "merge"]), (1, 0));
    assert_eq!(ask(&["GET", "book:9"]), "$10\r\n{\"more\":1}\r\n");
    cli.write("new.jsonl", "{\"_id\":\"clicks\",\"n\":3}\n");
    assert_eq!(copied(&cli, &server.url, &["count:"], &["--op", "counter", "--value", "n"]), (1, 0));
    assert_eq!(ask(&["GET", "count:clicks"]), "$1\r\n3\r\n");
}

#[test]
fn a_table_of_yours_in_sqlite_is_written() {
    let cli = Cli::new();
    let file = rusqlite::Connection::open(cli.path("shop.db")).unwrap();
    file.execute_batch(
        "CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, doc TEXT); CREATE TABLE notes (id TEXT, doc TEXT); \
         INSERT INTO books VALUES (1, 'one', '{\"old\":1}'), (2, 'two', '{\"old\":2}')",
    )
    .unwrap();
    let schema = || {
        let sql = "SELECT group_concat(sql) FROM sqlite_schema";
        file.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
    };
    let before = schema();
    let to = ["books", "--to-key", "id", "--to-body", "doc"];
    cli.write("new.jsonl", "{\"_id\":\"2\",\"n\":2}\n{\"_id\":\"3\",\"n\":3}\n");
    assert_eq!(copied(&cli, "sqlite:shop.db", &to, &["--verify"]), (2, 0));
    let rows = || {
        let sql = "SELECT group_concat(id || ifnull(title, '-') || doc, ' ') FROM books";
        file.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
    };
    assert_eq!(rows(), r#"1one{"old":1} 2two{"n":2} 3-{"n":3}"#);
    cli.write("new.jsonl", "{\"_id\":\"1\",\"new\":1}\n{\"_id\":\"9\",\"new\":1}\n");
    assert_eq!(copied(&cli, "sqlite:shop.db", &to, &["--op", "merge"]), (1, 1));
    assert_eq!(copied(&cli, "sqlite:shop.db", &to, &["--op", "insert"]), (1, 1));
    assert_eq!(copied(&cli, "sqlite:shop.db", &to, &["--op", "delete"]), (2, 0));
    assert_eq!(rows(), r#"2two{"n":2} 3-{"n":3}"#);
    for (to, told) in [
        (&["films"][..], "no table `films`"),
        (&["books"], "`books` has the columns id, title, doc"),
        (&["notes", "--to-key", "id", "--to-body", "doc"], "cannot write `notes` by key"),
    ] {
        let done = copy_into(&cli, "sqlite:shop.db", to, &[]);
        assert!(done.code == 2 && done.err.contains(told), "{to:?}: {done:?}");
    }
    assert_eq!(schema(), before);
    // SQLite orders numbers by value, but `copy` orders keys by their digits, so ranges would overlap.
    file.execute_batch(
        "WITH RECURSIVE all_ids(n) AS (VALUES (5) UNION ALL SELECT n + 1 FROM all_ids WHERE n < 2000) \
         INSERT INTO books SELECT n, NULL, '{}' FROM all_ids",
    )
    .unwrap();
    let from = ["copy", "sqlite:shop.db", "out.jsonl", "--force", "--from-collection", "books", "--from-key", "id"];
    let done = cli.run_args(&[&from[..], &["--from-body", "doc", "-p", "4", "--json"]].concat()).code(0);
    assert_eq!((count(&report(&done), "written"), &report(&done)["splits"]), (1_998, &json!(1)), "{done:?}");
    assert_eq!(by_key(&cli.path("out.jsonl")).len(), 1_998);
    // Keys that have no order as texts are refused, not skipped.
    file.execute_batch(
        "CREATE TABLE loose (id, doc); INSERT INTO loose VALUES (1, '{}'), (2, '{}'); \
         CREATE TABLE mixed (id TEXT, doc); INSERT INTO mixed VALUES ('a', '{}'), (NULL, '{}'); \
         CREATE TABLE twice (id TEXT, doc); INSERT INTO twice VALUES ('a', '{\"n\":1}'), ('a', '{\"n\":2}')",
    )
    .unwrap();
    for (table, told) in [("loose", "type integer"), ("mixed", "type null and text"), ("twice", "`a` is in several")] {
        let args = ["copy", "sqlite:shop.db", "x.jsonl", "--from-collection", table, "--from-key", "id"];
        let done = cli.run_args(&[&args[..], &["--from-body", "doc"]].concat());
        // Keys that occur twice are found only when they are read.
        assert_eq!(done.code, if table == "twice" { 1 } else { 2 }, "{table}: {done:?}");
        assert!(done.err.contains(told) && !cli.path("x.jsonl").exists(), "{table}: {done:?}");
    }
}

#[test]
fn what_goes_only_with_collections_of_yours_is_told() {
    let cli = Cli::new();
    cli.write("new.jsonl", "{\"_id\":\"a\"}\n");
    for (words, part) in [
        ("copy new.jsonl sqlite:b.db --into-existing", "--to-collection"),
        ("copy new.jsonl sqlite:b.db --to-collection a --to-key id", "--into-existing"),
        ("copy new.jsonl out.jsonl --to-collection a --into-existing", "needs a store"),
        ("copy new.jsonl sqlite:b.db --to-collection a --into-existing", "no SQLite database"),
        ("copy new.jsonl fjall:f --to-collection a --into-existing", "fjall stores only keys and bytes"),
    ] {
        let done = cli.run(words);
        assert!(matches!(done.code, 2 | 3) && done.err.contains(part), "{words}: {done:?}");
    }
    assert!(!cli.path("b.db").exists() && !cli.path("f").exists());
}
