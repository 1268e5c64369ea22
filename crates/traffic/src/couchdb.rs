//! CouchDB's log, which has a line for each request:
//! `[notice] 2026-11-27T04:02:09.123456Z nonode@nohost <0.345.0> 4a5b6c7d8e localhost:5984 127.0.0.1 admin GET /db/doc 200 ok 5`.

use percent_encoding::percent_decode_str;

use super::http::{has_succeeded, operation};
use super::{Error, Finds, Found, rfc3339_ns};

pub(crate) fn line(text: &str, finds: &mut Finds) -> Result<(), Error> {
    let words: Vec<&str> = text.split(' ').collect();
    let Some(at_ns) = words.get(1).and_then(|at| rfc3339_ns(at)).filter(|_| text.starts_with('[')) else {
        // The other lines of a log: stack traces and the like.
        finds.leave_out("a line that is no request");
        return Ok(());
    };
    let methods = ["GET", "HEAD", "PUT", "DELETE", "POST", "COPY", "PATCH"];
    let request = words.windows(2).position(|pair| methods.contains(&pair[0]) && pair[1].starts_with('/'));
    let Some(request) = request.filter(|at| *at >= 2) else {
        finds.leave_out("a line that is no request");
        return Ok(());
    };
    let (method, path, client) = (words[request], words[request + 1], words[request - 2]);
    // It is logged when it has ended. The last word is how long it took, in ms.
    let took_ms: i64 = words.last().and_then(|ms| ms.parse().ok()).unwrap_or(0);
    let path = path.split('?').next().unwrap_or_default();
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let (database, key) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Some(op) = operation(method) else {
        finds.leave_out(format!("the method {method}"));
        return Ok(());
    };
    if database.is_empty() || database.starts_with('_') || key.is_empty() {
        finds.leave_out("a request that is not about a document");
        return Ok(());
    }
    let status = words.get(request + 2).and_then(|status| status.parse().ok()).unwrap_or(0);
    if !has_succeeded(status) {
        finds.leave_out(format!("a request that was answered with {status}"));
        return Ok(());
    }
    let first = key.split('/').next().unwrap_or_default();
    if first.starts_with('_') && first != "_local" {
        finds.leave_out(format!("a request of {first}"));
        return Ok(());
    }
    if key.contains('/') && first != "_local" {
        finds.leave_out("a request of an attachment");
        return Ok(());
    }
    let (Ok(database), Ok(key)) = (percent_decode_str(database).decode_utf8(), percent_decode_str(key).decode_utf8())
    else {
        finds.leave_out("a key that is not UTF-8");
        return Ok(());
    };
    finds.found.push(Found {
        at_ns: at_ns.saturating_sub(took_ms.saturating_mul(1_000_000)),
        op,
        within: database.into(),
        key: key.into(),
        client: client.to_owned(),
        ..Found::default()
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_documents_are_operations() {
        let mut finds = Finds::default();
        for text in [
            "[notice] 2026-11-27T04:02:09.123456Z nonode@nohost <0.345.0> 4a5b localhost:5984 127.0.0.1 admin GET /db/a%2Fb?rev=1 200 ok 5",
            "[notice] 2026-11-27T04:02:09.200000Z nonode@nohost <0.345.0> 4a5b localhost:5984 10.0.0.2 undefined PUT /db/c 201 ok 12",
            "[notice] 2026-11-27T04:02:09.200000Z nonode@nohost <0.345.0> 4a5b localhost:5984 10.0.0.2 undefined POST /db/_bulk_docs 201 ok 12",
            "[notice] 2026-11-27T04:02:09.200000Z nonode@nohost <0.345.0> 4a5b localhost:5984 10.0.0.2 undefined GET /db/_all_docs 200 ok 12",
            "[info] 2026-11-27T04:02:09.200000Z nonode@nohost <0.9.0> -------- Apache CouchDB has started on http://127.0.0.1:5984/",
            "    in function x",
            "[notice] 2026-11-27T04:02:09.200000Z nonode@nohost <0.345.0> 4a5b localhost:5984 10.0.0.2 undefined GET /db/none 404 ok 12",
            "[notice] 2026-11-27T04:02:09.200000Z nonode@nohost <0.345.0> 4a5b localhost:5984 10.0.0.2 undefined GET /db/c/picture.png 200 ok 12",
        ] {
            line(text, &mut finds).unwrap();
        }
        let shown: Vec<_> = finds
            .found
            .iter()
            .map(|f| (f.at_ns % 1_000_000_000 / 1_000, f.op, f.key.as_str(), f.client.as_str()))
            .collect();
        assert_eq!(shown, [(118_456, "read", "a/b", "127.0.0.1"), (188_000, "upsert", "c", "10.0.0.2")]);
        assert_eq!(finds.left_out.values().map(|left| left.count).sum::<u64>(), 6);
    }
}
