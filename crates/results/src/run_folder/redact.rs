//! Removes secrets from texts before anything is written.

/// The replacement for a secret.
pub const HIDDEN: &str = "***";

/// Names of URL options that hold a secret.
const SECRET_OPTIONS: [&str; 13] = [
    "password",
    "passwd",
    "pwd",
    "token",
    "secret",
    "api_key",
    "apikey",
    "access_key",
    "access_key_id",
    "secret_access_key",
    "session_token",
    // Of presigned URLs.
    "sig",
    "signature",
];

/// Prefixes of further such names. If a URL is signed again, only these options change.
const SECRET_BEGINNINGS: [&str; 2] = ["x-amz-", "x-goog-"];

/// Whether a URL option of this name holds a secret.
pub(super) fn is_secret(name: &str) -> bool {
    SECRET_OPTIONS.iter().any(|s| name.eq_ignore_ascii_case(s))
        || SECRET_BEGINNINGS.iter().any(|s| name.get(..s.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(s)))
}

/// Ends of the names of environment variables that hold a secret, in upper case.
const SECRET_ENDS: [&str; 8] = ["PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD", "TOKEN", "SECRET", "KEY"];

/// Whether an environment variable of this name holds a secret.
pub(super) fn is_secret_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

/// Hides the secrets in every URL of a text: what stands between `user:` and `@`, and the values of secret options
/// (`password`, `token`, …). Everything else stays, so that a study can be run again once the secret is restored.
pub fn redact(text: &str) -> String {
    options(&user_parts(text))
}

fn ends_url(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>')
}

/// Where user name and password end in the text after `://`: at the last `@` before the query.
///
/// A password may contain `/`, `?` and `@` unescaped. An `@` after a `?` ends one unless a `host:port` stands before
/// it. This hides too much rather than too little.
fn user_end(after: &str) -> Option<usize> {
    let query = after.find('?').unwrap_or(after.len());
    after[..query].rfind('@').or_else(|| {
        let (_, tail) = after[..query].split_once(':')?;
        let port = tail.split('/').next().unwrap_or_default();
        let host_only = after.starts_with('[') || (!port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
        let sign = after.rfind('@')?;
        (!host_only).then_some(sign)
    })
}

/// Redacts a single URL. Unlike in a [text](redact), its end is known, so that its password may contain spaces and
/// quotes.
pub fn redact_url(url: &str) -> String {
    match password_of(url) {
        Some(password) => redact(&url.replacen(&format!(":{password}@"), &format!(":{HIDDEN}@"), 1)),
        None => redact(url),
    }
}

/// The password of a URL, not decoded.
pub(super) fn password_of(url: &str) -> Option<&str> {
    let (_, after) = url.split_once("://")?;
    let (_, password) = after[..user_end(after)?].split_once(':')?;
    Some(password).filter(|password| !password.is_empty())
}

/// The URL without its password, so that it can be kept and used again with a password from a variable or a file. A URL
/// without a password stays the same, except for secret options.
pub fn without_password(url: &str) -> String {
    let Some((scheme, after)) = url.split_once("://") else { return options(url) };
    let Some(end) = user_end(after) else { return redact(url) };
    let user = after[..end].split_once(':').map_or(&after[..end], |(user, _)| user);
    let sign = if user.is_empty() { "" } else { "@" };
    options(&format!("{scheme}://{user}{sign}{}", &after[end + 1..]))
}

fn user_parts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let url_end = after.find(ends_url).unwrap_or(after.len());
        match user_end(&after[..url_end]) {
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
            && is_secret(name)
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
            (
                "https://h/x?X-Amz-Date=1&X-Amz-Signature=ab&page=2",
                "https://h/x?X-Amz-Date=***&X-Amz-Signature=***&page=2",
            ),
            ("https://h/x?sv=2&sig=ab%3D", "https://h/x?sv=2&sig=***"),
            ("sqlite:a.db?cache=10MiB", "sqlite:a.db?cache=10MiB"),
            ("two a://b:c@d and e://f:g@h", "two a://b:***@d and e://f:***@h"),
            ("mail me@example.org, a://b", "mail me@example.org, a://b"),
            ("ключ://имя:тайна@хост", "ключ://имя:***@хост"),
            (
                "mongodb://me:pass@one:27017,two:27018,[::1]:9/db?w=2",
                "mongodb://me:***@one:27017,two:27018,[::1]:9/db?w=2",
            ),
            ("redis://:pass@host:6379/0", "redis://:***@host:6379/0"),
            ("redis://:@host", "redis://:***@host"),
            ("a://me:p%40ss%3Aw%2Frd@host", "a://me:***@host"),
            ("a://me%40corp:pass@host", "a://me%40corp:***@host"),
            ("a://me:what?pass@host/db", "a://me:***@host/db"),
            ("a://host:8091/db?mail=me@example.org", "a://host:8091/db?mail=me@example.org"),
            ("a://[::1]/db?mail=me@example.org", "a://[::1]/db?mail=me@example.org"),
            ("slow+a://me:pass@host?latency=1ms&pwd=x y", "slow+a://me:***@host?latency=1ms&pwd=*** y"),
            ("a://me:one@h,b://me:two@h", "a://me:***@h"),
            ("x=a://me:p@h&token=t, then `a://me:q@h`", "x=a://me:***@h&token=*** then `a://me:***@h`"),
        ] {
            assert_eq!(redact(given), shown);
            assert_eq!(redact(shown), shown, "what is hidden stays as it is");
        }
    }

    #[test]
    fn a_url_alone_hides_what_would_end_it_in_a_text() {
        for (url, shown) in [
            ("redis://me:pa<ss@host", "redis://me:***@host"),
            ("redis://me:p q'r\"@host/0?token=x", "redis://me:***@host/0?token=***"),
            ("redis://me:pass@host", "redis://me:***@host"),
            ("sqlite:a.db", "sqlite:a.db"),
        ] {
            assert_eq!(redact_url(url), shown);
        }
    }

    #[test]
    fn a_password_is_found_where_drivers_find_it() {
        for (url, password) in [
            ("redis://me:pass@host", Some("pass")),
            ("redis://:p%40ss@one:1,two:2/db", Some("p%40ss")),
            ("redis://me:p@ss@host", Some("p@ss")),
            ("redis://me:wh?t@host", Some("wh?t")),
            ("redis://me@host:1", None),
            ("redis://host:1?mail=a@b", None),
            ("redis://:@host", None),
            ("sqlite:a.db", None),
        ] {
            assert_eq!(password_of(url), password, "{url}");
        }
    }

    #[test]
    fn a_url_without_its_password_is_a_url_still() {
        for (url, kept) in [
            ("redis://me:p@ss@one:1,two:2/0?x=1", "redis://me@one:1,two:2/0?x=1"),
            ("redis://:pass@host", "redis://host"),
            ("redis://me@host?mail=a@b", "redis://me@host?mail=a@b"),
            ("redis://host:1?token=t", "redis://host:1?token=***"),
            ("sqlite:a.db?cache=1MiB", "sqlite:a.db?cache=1MiB"),
        ] {
            assert_eq!(without_password(url), kept);
        }
    }
}
