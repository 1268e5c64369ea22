//! CouchDB's log, which has a line for each request:
//! `[notice] 2026-11-27T04:02:09.123456Z nonode@nohost <0.345.0> 4a5b6c7d8e localhost:5984 127.0.0.1 admin GET /db/doc 200 ok 5`.

use super::http::{decoded, operation, succeeded};
use super::{Error, Finds, Found, rfc3339_ns};

/// What a log also has: stack traces and the like.
const NO_REQUEST: &str = "a line that is no request";

pub(crate) fn line(text: &str, finds: &mut Finds) -> Result<(), Error> {
    finds.add(found(text));
    Ok(())
}

/// The operation of a line, or why it has none.
fn found(text: &str) -> Result<Found, String> {
    let words: Vec<&str> = text.split(' ').collect();
    let at_ns = words.get(1).and_then(|at| rfc3339_ns(at)).filter(|_| text.starts_with('[')).ok_or(NO_REQUEST)?;
    let methods = ["GET", "HEAD", "PUT", "DELETE", "POST", "COPY", "PATCH"];
    let request = words.windows(2).position(|pair| methods.contains(&pair[0]) && pair[1].starts_with('/'));
    let request = request.filter(|at| *at >= 2).ok_or(NO_REQUEST)?;
    let (method, path, client) = (words[request], words[request + 1], words[request - 2]);
    // It is logged when it has ended. The last word is how long it took, in ms.
    let took_ms: i64 = words.last().and_then(|ms| ms.parse().ok()).unwrap_or(0);
    let path = path.split('?').next().unwrap_or_default();
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let (database, key) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let op = operation(method)?;
    if database.is_empty() || database.starts_with('_') || key.is_empty() {
        return Err("a request that is not about a document".into());
    }
    succeeded(words.get(request + 2).and_then(|status| status.parse().ok()).unwrap_or(0))?;
    let first = key.split('/').next().unwrap_or_default();
    if first.starts_with('_') && first != "_local" {
        return Err(format!("a request of {first}"));
    }
    if key.contains('/') && first != "_local" {
        return Err("a request of an attachment".into());
    }
    Ok(Found {
        at_ns: at_ns.saturating_sub(took_ms.saturating_mul(1_000_000)),
        op,
        within: decoded(database)?,
        key: decoded(key)?,
        client: client.to_owned(),
        ..Found::default()
    })
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
