//! Access logs of HTTP servers in the common and the combined format
//! (<https://httpd.apache.org/docs/current/logs.html#common>):
//! `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /docs/7 HTTP/1.0" 200 2326`.

use percent_encoding::percent_decode_str;

use super::{Error, Finds, Found, Options};

/// What the method of a request does to a document.
pub(crate) fn operation(method: &str) -> Option<&'static str> {
    Some(match method {
        "GET" => "read",
        "HEAD" => "exists",
        "PUT" => "upsert",
        "PATCH" => "replace",
        "DELETE" => "delete",
        _ => return None,
    })
}

/// Whether a request did what it was to do: 2xx, or the client already had the document.
pub(crate) fn has_succeeded(status: u16) -> bool {
    (200..300).contains(&status) || status == 304
}

pub(crate) fn line(text: &str, options: &Options, finds: &mut Finds) -> Result<(), Error> {
    let parsed = || {
        let (client, rest) = text.split_once(' ')?;
        let (_, rest) = rest.split_once('[')?;
        let (at, rest) = rest.split_once("] \"")?;
        let (request, rest) = rest.split_once("\" ")?;
        let at = jiff::fmt::strtime::parse("%d/%b/%Y:%H:%M:%S %z", at).ok()?.to_timestamp().ok()?;
        let mut after = rest.split(' ');
        let status = after.next()?.parse::<u16>().ok()?;
        let bytes = after.next().and_then(|bytes| bytes.parse().ok());
        Some((client, i64::try_from(at.as_nanosecond()).ok()?, request, status, bytes))
    };
    let Some((client, at_ns, request, status, bytes)) = parsed() else {
        return Err(finds.wrong(
            "it is no line of an access log in the common or combined format: client, user, [time], \"request\", status, \
             bytes",
        ));
    };
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let Some(op) = operation(method) else {
        finds.leave_out(format!("the method {method}"));
        return Ok(());
    };
    if !has_succeeded(status) {
        finds.leave_out(format!("a request that was answered with {status}"));
        return Ok(());
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let (within, key) = match &options.within {
        Some(prefix) => match path.strip_prefix(prefix.as_str()) {
            Some(rest) => (prefix.clone(), rest.trim_start_matches('/')),
            None => ("paths without the prefix".to_owned(), path),
        },
        None => path.rsplit_once('/').map_or((String::new(), path), |(folder, key)| (format!("{folder}/"), key)),
    };
    if key.is_empty() {
        finds.leave_out("a path without a key");
        return Ok(());
    }
    let Ok(key) = percent_decode_str(key).decode_utf8() else {
        finds.leave_out("a key that is not UTF-8");
        return Ok(());
    };
    let size = bytes.filter(|bytes| op == "read" && status == 200 && *bytes > 0);
    finds.found.push(Found { at_ns, op, within, key: key.into(), client: client.to_owned(), size, ..Found::default() });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_operations_on_the_last_part_of_their_path() {
        let mut finds = Finds::default();
        for text in [
            r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /docs/a%20b?x=1 HTTP/1.0" 200 2326"#,
            r#"::1 - - [10/Oct/2000:20:55:37 +0000] "PUT /docs/7 HTTP/1.1" 201 - "-" "curl/8""#,
            r#"::1 - - [10/Oct/2000:20:55:37 +0000] "POST /docs/ HTTP/1.1" 201 7"#,
            r#"::1 - - [10/Oct/2000:20:55:37 +0000] "GET / HTTP/1.1" 200 7"#,
            r#"::1 - - [10/Oct/2000:20:55:37 +0000] "GET /docs/none HTTP/1.1" 404 5"#,
        ] {
            line(text, &Options::default(), &mut finds).unwrap();
        }
        let shown: Vec<_> = finds
            .found
            .iter()
            .map(|f| (f.at_ns / 1_000_000_000, f.op, f.within.as_str(), f.key.as_str(), f.size))
            .collect();
        assert_eq!(
            shown,
            [(971_211_336, "read", "/docs/", "a b", Some(2326)), (971_211_337, "upsert", "/docs/", "7", None)]
        );
        assert_eq!(finds.left_out.len(), 3);
        assert!(line("127.0.0.1 - - [10/Oct/2000:13:55:36 -07", &Options::default(), &mut finds).is_err());
    }
}
