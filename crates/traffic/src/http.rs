//! Access logs of HTTP servers in the common and the combined format
//! (<https://httpd.apache.org/docs/current/logs.html#common>):
//! `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /docs/7 HTTP/1.0" 200 2326`.

use percent_encoding::percent_decode_str;

use super::{Error, Finds, Found, Options};

/// What the method of a request does to a document.
pub(crate) fn operation(method: &str) -> Result<&'static str, String> {
    Ok(match method {
        "GET" => "read",
        "HEAD" => "exists",
        "PUT" => "upsert",
        "PATCH" => "replace",
        "DELETE" => "delete",
        _ => return Err(format!("the method {method}")),
    })
}

/// A request did what it was to do if its status is 2xx, or if the client already had the document.
pub(crate) fn succeeded(status: u16) -> Result<(), String> {
    match status {
        200..300 | 304 => Ok(()),
        _ => Err(format!("a request that was answered with {status}")),
    }
}

/// A part of a path, decoded.
pub(crate) fn decoded(part: &str) -> Result<String, String> {
    percent_decode_str(part).decode_utf8().map(Into::into).map_err(|_| "a key that is not UTF-8".into())
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
    let found = operation_of(request, status, options);
    finds.add(found.map(|(op, within, key)| {
        let size = bytes.filter(|bytes| op == "read" && status == 200 && *bytes > 0);
        Found { at_ns, op, within, key, client: client.to_owned(), size, ..Found::default() }
    }));
    Ok(())
}

/// What a request does, in which folder, and to which key; or why it is no operation.
fn operation_of(request: &str, status: u16, options: &Options) -> Result<(&'static str, String, String), String> {
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let op = operation(method)?;
    succeeded(status)?;
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let (within, key) = match &options.within {
        Some(prefix) => match path.strip_prefix(prefix.as_str()) {
            Some(rest) => (prefix.clone(), rest.trim_start_matches('/')),
            None => ("paths without the prefix".to_owned(), path),
        },
        None => path.rsplit_once('/').map_or((String::new(), path), |(folder, key)| (format!("{folder}/"), key)),
    };
    if key.is_empty() {
        return Err("a path without a key".into());
    }
    Ok((op, within, decoded(key)?))
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
