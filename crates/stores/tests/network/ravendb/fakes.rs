//! Servers that are not RavenDB, and answers that RavenDB never gives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use storebench_engine::store::{AnyStore, BatchBuf, BulkWrite, ErrorKind, Existing, Op, Prepare, StoreError};

use super::{Ask, layout, list};
use crate::server::free_port;

/// A fake server. `answer` gives the status and text for the method, path and body of each request.
fn pretend(answer: impl Fn(&str, &[u8]) -> (u16, String) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut stream = stream;
                loop {
                    let (mut first, mut length) = (String::new(), 0);
                    if reader.read_line(&mut first).unwrap_or(0) == 0 {
                        return;
                    }
                    loop {
                        let mut line = String::new();
                        if reader.read_line(&mut line).unwrap_or(0) <= 2 {
                            break;
                        }
                        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap();
                        }
                    }
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    let (status, text) = answer(first.trim_end_matches(" HTTP/1.1\r\n"), &body);
                    let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", text.len());
                    if stream.write_all((head + &text).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

const VERSION: &str = r#"{"BuildVersion":41001,"ProductVersion":"4.1","CommitHash":"0","FullVersion":"4.1.0"}"#;

#[test]
fn what_is_no_ravendb_or_too_old_is_named() {
    let inspect =
        |port: u16| storebench_stores::open(&format!("ravendb://127.0.0.1:{port}/x")).unwrap().inspect().unwrap_err();
    let says = |port: u16, words: &[&str]| {
        let error = inspect(port);
        assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("127.0.0.1:{port}")) && words.iter().all(|word| text.contains(word)), "{text}");
    };
    says(free_port(), &["nothing is listening"]);
    says(pretend(|_, _| (200, r#"{"couchdb":"Welcome"}"#.into())), &["is not RavenDB", "Welcome"]);
    says(pretend(|_, _| (404, String::new())), &["is not RavenDB"]);
    says(pretend(|_, _| (200, VERSION.replace("4.1", "4.0"))), &["too old", "4.0.0", "4.1"]);
    says(pretend(|_, _| (200, VERSION.replace("4.1", "3.5"))), &["too old"]);
    says(pretend(|_, _| (403, r#"{"Type":"InvalidAuth","Message":"no"}"#.into())), &["tls_cert"]);
    // The right version, followed by garbage.
    for garbage in ["", "{", "[]", "null", "{\"Results\":7}", "\u{0}"] {
        says(
            pretend(move |line, _| (200, if line == "GET /build/version" { VERSION.into() } else { garbage.into() })),
            &["is not RavenDB's protocol"],
        );
    }
    // A server that does not speak HTTP.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(b"-ERR unknown command\r\n");
        }
    });
    says(port, &["HTTP"]);
}

#[test]
fn settling_ends_in_time_before_a_silent_server() {
    let port = pretend(|_, _| {
        std::thread::sleep(Duration::from_secs(3_600));
        (200, String::new())
    });
    let store = storebench_stores::open(&format!("ravendb://127.0.0.1:{port}/x")).unwrap();
    assert!(!store.settle(Duration::from_millis(100)).unwrap());
}

/// Enough of RavenDB to prepare a layout. `answer` answers the writes.
fn pretend_raven(answer: impl Fn(&str, &[u8]) -> (u16, String) + Send + Sync + 'static) -> Arc<dyn AnyStore> {
    let prepared = std::sync::atomic::AtomicBool::new(false);
    let port = pretend(move |line, body| match line {
        "GET /build/version" => (200, VERSION.into()),
        "GET /databases/x/stats" => (200, r#"{"CountOfDocuments":0,"Indexes":[]}"#.into()),
        "GET /databases/x/docs?id=storebench" => (404, String::new()),
        "GET /databases/x/collections/stats" => (200, r#"{"Collections":{}}"#.into()),
        "GET /admin/databases?name=x" => (200, "{}".into()),
        "PUT /databases/x/admin/indexes" => (201, "{}".into()),
        _ if line.contains("metadataOnly") && !prepared.load(std::sync::atomic::Ordering::SeqCst) => {
            (200, r#"{"Results":[]}"#.into())
        }
        _ if !prepared.swap(true, std::sync::atomic::Ordering::SeqCst) => (201, r#"{"Results":[]}"#.into()),
        _ => answer(line, body),
    });
    let store = storebench_stores::open(&format!("ravendb://127.0.0.1:{port}/x")).unwrap();
    store.prepare(&layout("c"), Prepare::Keep).unwrap();
    store
}

/// The error of RavenDB 7.1 without a licence for an expiration more often than every 36 hours.
const UNLICENSED: &str = r#"{"Url":"/admin/databases","Type":"Raven.Client.Exceptions.Commercial.LicenseLimitException",
    "Message":"Your license doesn't allow modifying the expiration frequency below 36 hours.","Error":"LimitType: Expiration"}"#;

/// A RavenDB 7.1 without a licence, initially without a database. `create` is the status for creating one.
fn unlicensed(create: u16) -> (u16, Arc<std::sync::Mutex<Vec<String>>>) {
    #[derive(Default)]
    struct State {
        made: bool,
        expiration: Value,
    }
    let state = std::sync::Mutex::new(State::default());
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let said = Arc::clone(&log);
    let missing = r#"{"Type":"Raven.Client.Exceptions.Database.DatabaseDoesNotExistException","Message":"x"}"#;
    let document = r#"{"Results":[{"n":1,"@metadata":{"@id":"c/k","@collection":"C","@change-vector":"A:1-x"}}]}"#;
    let port = pretend(move |line, body| {
        let mut state = state.lock().unwrap();
        said.lock().unwrap().push(line.to_owned());
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let allowed = |settings: &Value| {
            !settings.is_object() || settings["DeleteFrequencyInSec"].as_u64().is_some_and(|every| every >= 36 * 3_600)
        };
        match line {
            "GET /build/version" => (200, VERSION.replace("4.1", "7.1")),
            "GET /license/status" => (200, r#"{"Type":"None","MinPeriodForExpirationInHours":36}"#.into()),
            _ if line.starts_with("PUT /admin/databases?name=x&") => {
                if !allowed(&body["Expiration"]) {
                    return (402, UNLICENSED.into());
                }
                state.made = true;
                (create, r#"{"Type":"System.TimeoutException","Message":"the cluster did not answer"}"#.into())
            }
            "DELETE /admin/databases" => {
                state.made = false;
                (create, "{}".into())
            }
            _ if !state.made => (503, missing.into()),
            "GET /databases/x/stats" => (200, r#"{"CountOfDocuments":0,"Indexes":[]}"#.into()),
            "GET /databases/x/docs?id=storebench" => (404, String::new()),
            "GET /databases/x/docs?id=c%2Fk" | "GET /databases/x/docs?id=c/k" => (200, document.into()),
            "GET /databases/x/collections/stats" => (200, r#"{"Collections":{}}"#.into()),
            "GET /databases/x/indexes?namesOnly=true" => (200, r#"{"Results":["Storebench/c/0-user"]}"#.into()),
            "GET /admin/databases?name=x" => (200, json!({ "Expiration": state.expiration }).to_string()),
            "PUT /databases/x/admin/indexes" => (create, "{}".into()),
            "POST /databases/x/admin/expiration/config" if !allowed(&body) => (402, UNLICENSED.into()),
            "POST /databases/x/admin/expiration/config" => {
                state.expiration = body;
                (200, "{}".into())
            }
            "POST /databases/x/bulk_docs" => (201, r#"{"Results":[{"@change-vector":"A:2-x"}]}"#.into()),
            _ => (200, r#"{"Results":[]}"#.into()),
        }
    });
    (port, log)
}

#[test]
fn without_a_licence_a_database_is_made_and_expires_as_often_as_it_may() {
    let (port, log) = unlicensed(201);
    let store = storebench_stores::open(&format!("ravendb://127.0.0.1:{port}/x")).unwrap();
    store.prepare(&layout("c"), Prepare::Fresh).unwrap();
    let set = || log.lock().unwrap().iter().filter(|line| line.contains("expiration/config")).count();
    assert_eq!(set(), 0, "nothing expires yet");
    let capabilities = store.capabilities();
    assert_eq!(capabilities.expires_late_by, Some(Duration::from_secs(36 * 3_600)));
    assert!(capabilities.notes.iter().any(|note| note.contains("less often than once a minute")));
    let mut ask = Ask::new(&*store);
    for _ in 0..2 {
        ask.call(Op::Touch { key: "k", expiry: Duration::from_secs(60) }).unwrap();
    }
    assert_eq!(set(), 1, "expiration is enabled once");
}

#[test]
fn a_database_that_is_there_counts_as_made_whatever_the_cluster_answered() {
    let (port, _) = unlicensed(500);
    let store = storebench_stores::open(&format!("ravendb://127.0.0.1:{port}/x")).unwrap();
    store.prepare(&layout("c"), Prepare::Fresh).unwrap();
    Ask::new(&*store).upsert("k", &json!({ "n": 1 }));
    // A missing document is not found.
    let port = pretend(|line, _| match line {
        "GET /build/version" => (200, VERSION.into()),
        _ if line.starts_with("PUT") => (402, UNLICENSED.into()),
        _ => (503, r#"{"Type":"Raven.DatabaseDoesNotExistException","Message":"x"}"#.into()),
    });
    let store = storebench_stores::open(&format!("ravendb://127.0.0.1:{port}/x")).unwrap();
    let error = store.prepare(&layout("c"), Prepare::Fresh).unwrap_err();
    assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("below 36 hours")), "{error:?}");
}

#[test]
fn a_body_over_the_limit_is_cut_and_a_document_over_it_refused() {
    let store = pretend_raven(|_, body| {
        if body.len() > 2_000 {
            return (413, "too large".into());
        }
        let commands: Value = serde_json::from_slice(body).unwrap();
        let results = vec![json!({ "@change-vector": "A:1-x" }); commands["Commands"].as_array().unwrap().len()];
        (201, json!({ "Results": results }).to_string())
    });
    let mut ask = Ask::new(&*store);
    let mut items = BatchBuf::new();
    for i in 0..64 {
        let length = if i == 40 { 3_000 } else { 100 };
        items.push(&format!("k{i}"), json!({ "t": "x".repeat(length) }).to_string().as_bytes());
    }
    let reply = ask.call(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
    let reply = reply.as_reply();
    assert_eq!((reply.documents, reply.rejects.len()), (63, 1));
    assert_eq!((reply.rejects[0].item, reply.rejects[0].error.kind), (40, ErrorKind::Refused));
    assert!(reply.rejects[0].error.message.contains("larger"), "{}", reply.rejects[0].error);
    assert!(ask.session.as_ref().unwrap().counters().splits >= 7);
    let error = ask.call(Op::Upsert { key: "a", body: json!({ "t": "x".repeat(3_000) }).to_string().as_bytes() });
    assert_eq!(error.unwrap_err().kind, ErrorKind::Refused);
}

#[test]
fn garbage_is_never_taken_for_an_answer() {
    let statuses = [200, 201, 204, 302, 404, 409, 412, 429, 500, 503];
    let texts = [
        "",
        "{",
        "null",
        "[]",
        "{}",
        "{\"Results\":null}",
        "{\"Results\":[",
        "{\"Results\":[7]}",
        "{\"Results\":[{}]}",
        "{\"Results\":[null,null]}",
        "{\"Results\":[{},{\"@change-vector\":7}]}",
        "{\"Results\":[{\"@metadata\":7}]}",
        "{\"Results\":[{\"@metadata\":{\"@id\":3}}]}",
        "{\"Results\":[[[[[[",
        "\"",
        "\u{1}\u{2}",
    ];
    let say = Arc::new(std::sync::Mutex::new((0, String::new())));
    let said = Arc::clone(&say);
    let store = pretend_raven(move |_, _| said.lock().unwrap().clone());
    let mut ask = Ask::new(&*store);
    let mut batch = BatchBuf::new();
    batch.push("a", b"{}");
    batch.push("b", b"{}");
    let items = batch.as_batch();
    let writes = [
        Op::Insert { key: "a", body: b"{}" },
        Op::Upsert { key: "a", body: b"{}" },
        Op::CompareAndSwap { key: "a", expected: b"A:1", body: b"{}" },
        Op::Delete { key: "a" },
        Op::BulkDelete { keys: items },
        Op::BulkWrite { kind: BulkWrite::Upsert, items },
    ];
    let reads = [
        Op::Read { key: "a" },
        Op::Page { field: "user", value: "1", limit: 3 },
        Op::Scan { start: "b", end: None, limit: 3 },
        Op::Prefix { prefix: "a", limit: 3 },
        Op::BulkRead { keys: items },
        Op::BulkWrite { kind: BulkWrite::Insert, items },
        Op::MergePatch { key: "a", patch: b"{}" },
    ];
    for status in statuses {
        for text in texts {
            *say.lock().unwrap() = (status, text.to_owned());
            for op in writes {
                let error = match ask.call(op) {
                    Ok(reply) => {
                        let reply = reply.as_reply();
                        assert_eq!(reply.documents, 0, "{status} {text} {op:?}");
                        reply.rejects.first().expect("garbage is not an acknowledgement").error.clone()
                    }
                    Err(error) => error,
                };
                let known = matches!(status, 404 | 409 | 412 | 429 | 503);
                assert!(known || error.kind == ErrorKind::OutcomeUnknown, "{status} {text} {op:?}: {error}");
            }
            for op in reads {
                // The result depends on the operation. It must end, and return no document.
                if let Ok(reply) = ask.call(op)
                    && !op.kind().writes()
                {
                    assert_eq!(reply.as_reply().documents, 0, "{status} {text} {op:?}");
                }
            }
        }
    }
}

/// A foreign database. `stream` gives the answer for each stream of its collection `Orders`.
fn pretend_orders(
    conflicts: u32,
    stream: impl Fn(usize) -> (u16, String) + Send + Sync + 'static,
) -> Arc<dyn AnyStore> {
    let begun = std::sync::atomic::AtomicUsize::new(0);
    let port = pretend(move |line, _| match line {
        "GET /build/version" => (200, VERSION.into()),
        "GET /databases/x/stats" => (200, r#"{"CountOfDocuments":3,"Indexes":[]}"#.into()),
        "GET /databases/x/docs?id=storebench" => (404, String::new()),
        "GET /databases/x/collections/stats" => {
            (200, format!(r#"{{"CountOfConflicts":{conflicts},"Collections":{{"Orders":3}}}}"#))
        }
        "GET /databases/x/indexes" => (200, r#"{"Results":[]}"#.into()),
        "GET /databases/x/streams/queries?query=from%20%27Orders%27" => {
            stream(begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
        }
        _ => (200, "{}".into()),
    });
    let store = storebench_stores::open(&format!("ravendb://127.0.0.1:{port}/x")).unwrap();
    let mut theirs = layout("orders-of-theirs");
    theirs.collections[0].existing = Some(Existing { name: "Orders".into(), key: None, body: None });
    store.prepare(&theirs, Prepare::ReadOnly).unwrap();
    store
}

/// RavenDB's stream of three documents.
const STREAM: &str = r#"{"ResultEtag":1,"TotalResults":0,"Results":[{"a":"]}","@metadata":{"@id":"a"}},
    {"@metadata":{"@id":"b"}},{"@metadata":{"@id":"c"}}]}"#;

#[test]
fn a_stream_that_breaks_begins_anew_but_not_for_ever() {
    let cut = STREAM.find(r#""c""#).unwrap();
    let store = pretend_orders(0, move |time| (200, STREAM[..if time < 2 { cut } else { STREAM.len() }].to_owned()));
    let pages = list(&*store);
    let [Err(StoreError::Unreachable(first)), Err(StoreError::Unreachable(_)), Ok(keys)] = &pages[..] else {
        panic!("{pages:?}")
    };
    assert!(first.contains("is incomplete"), "{first}");
    assert_eq!(keys, &["a", "b", "c"]);
    let pages = list(&*pretend_orders(0, move |_| (200, STREAM[..cut].to_owned())));
    let [.., Err(StoreError::Failed(last))] = &pages[..] else { panic!("{pages:?}") };
    assert!(last.contains("no more than 2 documents") && pages.iter().all(Result::is_err), "{pages:?}");
    // The server reports the error itself.
    let error = format!(r#"{},"Error":"System.OutOfMemoryException: no"}}"#, STREAM.strip_suffix('}').unwrap());
    let pages = list(&*pretend_orders(0, move |_| (200, error.clone())));
    let [Err(StoreError::Failed(told))] = &pages[..] else { panic!("{pages:?}") };
    assert!(told.contains("OutOfMemoryException"), "{told}");
}

#[test]
fn documents_that_are_in_conflict_are_not_left_out_silently() {
    let pages = list(&*pretend_orders(2, |_| (200, STREAM.into())));
    let [Err(StoreError::NotSupported(told))] = &pages[..] else { panic!("{pages:?}") };
    assert!(told.contains("2 documents are in conflict"), "{told}");
}

#[test]
fn garbage_is_never_taken_for_the_end_of_a_stream() {
    for status in [200, 204, 404, 500, 503] {
        for text in [
            "",
            "{",
            "null",
            "[]",
            "{}",
            "{\"Results\":null}",
            "{\"Results\":[",
            "{\"Results\":[7]}",
            "{\"Results\":[{}]}",
            "{\"Results\":[]",
            "{\"Results\":[{\"@metadata\":{\"@id\":3}}]}",
            "{\"Results\":[{]}}",
            "\u{1}\u{2}",
        ] {
            let pages = list(&*pretend_orders(0, move |_| (status, text.to_owned())));
            assert!(!pages.is_empty() && pages.iter().all(Result::is_err), "{status} {text}: {pages:?}");
        }
    }
    let pages = list(&*pretend_orders(0, |_| (200, "{\"Results\":[]}".to_owned())));
    assert!(matches!(&pages[..], [Ok(keys)] if keys.is_empty()), "{pages:?}");
}

#[test]
fn a_server_that_does_not_tell_its_settings_says_why() {
    let told = |status, text: &'static str| {
        let port = pretend(move |line, _| match line {
            "GET /databases/x/admin/configuration/settings" => (status, text.to_owned()),
            _ => (500, String::new()),
        });
        let store = storebench_stores::open(&format!("ravendb://127.0.0.1:{port}/x")).unwrap();
        store.own_settings().map(|told| told.all.len()).map_err(|error| error.to_string())
    };
    let one = r#"{"Settings":[{"Metadata":{"Keys":["Query.RegexTimeoutInMs"],"DefaultValue":"100"}}]}"#;
    assert_eq!(told(200, one).unwrap(), 1);
    let (may_not, does_not) = ("this user may not read its settings", "this server does not tell its settings");
    let no_route = r#"{"Type":"Raven.Client.Exceptions.Routing.RouteNotFoundException"}"#;
    for (status, text, why) in [
        (401, "", may_not),
        (403, "", may_not),
        (404, "", does_not),
        (400, no_route, does_not),
        (500, no_route, does_not),
    ] {
        assert_eq!(told(status, text).unwrap_err(), why, "{status}");
    }
    assert!(told(500, "{}").unwrap_err().contains("tell its settings"));
}
