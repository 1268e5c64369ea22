//! Takes secrets out of texts before anything is written.

use serde_json::Value;

const HIDDEN: &str = "***";

/// Names of URL options that hold a secret.
const SECRET_OPTIONS: [&str; 8] = ["password", "passwd", "pwd", "token", "secret", "api_key", "apikey", "access_key"];

/// Hides, in every URL of a text, what stands between `user:` and `@`, and the values of options
/// that name a secret (`password`, `token`, …). Everything else stays, so that a study can be run
/// again once the secret is put back.
pub fn redact(text: &str) -> String {
    options(&user_parts(text))
}

/// The same for every text within a JSON value.
pub(crate) fn redact_value(value: &mut Value) {
    match value {
        Value::String(text) => *text = redact(text),
        Value::Array(items) => items.iter_mut().for_each(redact_value),
        Value::Object(fields) => fields.values_mut().for_each(redact_value),
        _ => {}
    }
}

fn ends_url(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>')
}

fn user_parts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let url_end = after.find(ends_url).unwrap_or(after.len());
        // A password may hold `/` and `@` unescaped; the last `@` before the query ends it.
        let query = after[..url_end].find('?').unwrap_or(url_end);
        match after[..query].rfind('@') {
            Some(sign) => {
                if let Some(colon) = after[..sign].find(':') {
                    out.push_str(&after[..=colon]);
                    out.push_str(HIDDEN);
                } else {
                    out.push_str(&after[..sign]);
                }
                rest = &after[sign..];
            }
            None => rest = after,
        }
    }
    out.push_str(rest);
    out
}

fn options(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(sign) = rest.find(['?', '&']) {
        let (before, after) = rest.split_at(sign + 1);
        out.push_str(before);
        rest = after;
        let end = after.find(|c| ends_url(c) || c == '&').unwrap_or(after.len());
        if let Some((name, _)) = after[..end].split_once('=')
            && SECRET_OPTIONS.iter().any(|s| name.eq_ignore_ascii_case(s))
        {
            out.push_str(name);
            out.push('=');
            out.push_str(HIDDEN);
            rest = &after[end..];
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_nothing_else() {
        for (given, shown) in [
            ("a = \"couch://me:pass@host/db\" # x", "a = \"couch://me:***@host/db\" # x"),
            ("couch://me:p@ss/w:rd@host/db?x=1", "couch://me:***@host/db?x=1"),
            ("couch://me@host/db", "couch://me@host/db"),
            ("http://h/d?Password=x&limit=3&token=y", "http://h/d?Password=***&limit=3&token=***"),
            ("sqlite:a.db?cache=10MiB", "sqlite:a.db?cache=10MiB"),
            ("two a://b:c@d and e://f:g@h", "two a://b:***@d and e://f:***@h"),
            ("mail me@example.org, a://b", "mail me@example.org, a://b"),
            ("ключ://имя:тайна@хост", "ключ://имя:***@хост"),
        ] {
            assert_eq!(redact(given), shown);
        }
    }
}
