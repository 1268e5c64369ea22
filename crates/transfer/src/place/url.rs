//! Parses URLs of remote files.

use crate::error::TransferError;

/// The kind of place of a remote file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Amazon S3 and compatible stores.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
    /// Hadoop's file system (HDFS).
    Hdfs,
    /// HTTP or HTTPS; read-only.
    Http,
}

impl Scheme {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "s3" | "s3a" => Self::S3,
            "gs" => Self::Google,
            "az" | "azure" | "abfs" | "abfss" => Self::Azure,
            "hdfs" => Self::Hdfs,
            "http" | "https" => Self::Http,
            _ => return None,
        })
    }

    /// The options that URLs of this scheme accept.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::S3 => &["endpoint", "region", "virtual_hosted", "anonymous"],
            Self::Google => &["endpoint", "anonymous"],
            Self::Azure => &["account", "endpoint", "anonymous"],
            Self::Hdfs | Self::Http => &[],
        }
    }
}

/// A URL: `s3://bucket/a/b.jsonl?region=x` has the authority `bucket` and the key `a/b.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteUrl {
    pub(crate) scheme: Scheme,
    /// The part before `://`.
    pub(crate) scheme_name: String,
    pub(crate) authority: String,
    /// The part after the authority, without options. As typed, not decoded.
    pub(crate) key: String,
    pub(crate) options: Vec<(String, String)>,
    /// The whole URL, for HTTP.
    pub(crate) whole: String,
}

impl RemoteUrl {
    /// Whether a text begins like such a URL.
    pub(crate) fn is(text: &str) -> bool {
        text.split_once("://").is_some_and(|(name, _)| Scheme::of(name).is_some())
    }

    /// Parses a URL.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn of(text: &str) -> Result<Self, TransferError> {
        let wrong = |what: &str| Err(TransferError::BadInput(format!("`{}`: {what}", shown(text))));
        let Some((scheme_name, rest)) = text.split_once("://") else { return wrong("is not a URL") };
        let Some(scheme) = Scheme::of(scheme_name) else {
            return wrong("unknown scheme; expected s3, gs, az, hdfs, http or https");
        };
        let (place, query) = if scheme == Scheme::Http {
            rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)))
        } else {
            without_options(rest)
        };
        let (authority, key) = place.split_once('/').unwrap_or((place, ""));
        if authority.is_empty() {
            return wrong("names no bucket or host");
        }
        if authority.contains('@') && scheme != Scheme::Azure {
            return wrong("contains a user name, which is never sent; set credentials in the environment");
        }
        let mut options = Vec::new();
        for option in query.filter(|_| scheme != Scheme::Http).into_iter().flat_map(|query| query.split('&')) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if !scheme.options().contains(&name) {
                let known = match scheme.options() {
                    [] => "this scheme has no options".to_owned(),
                    known => format!("expected {}", known.join(", ")),
                };
                return wrong(&format!(
                    "unknown option `{name}`; {known}. Credentials come from the environment, never from the URL"
                ));
            }
            options.push((name.to_owned(), value.to_owned()));
        }
        Ok(Self {
            scheme,
            scheme_name: scheme_name.to_owned(),
            authority: authority.to_owned(),
            key: key.to_owned(),
            options,
            whole: text.to_owned(),
        })
    }

    /// The value of an option.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of an option that is `true` or `false`.
    ///
    /// # Errors
    /// The value is neither.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, TransferError> {
        match self.option(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(TransferError::BadInput(format!("`{name}={other}`: expected true or false"))),
        }
    }

    /// The URL of another key in the same bucket, for display.
    pub(crate) fn shown_with(&self, key: &str) -> String {
        format!("{}://{}/{key}", self.scheme_name, self.authority)
    }

    /// Whether the key stands for several files: it has `*`, `?` or `[`, or is a folder.
    pub(crate) fn is_several(&self) -> bool {
        self.scheme != Scheme::Http && (self.is_pattern() || self.key.is_empty() || self.key.ends_with('/'))
    }

    /// Whether the key is a pattern.
    pub(crate) fn is_pattern(&self) -> bool {
        self.key.contains(['*', '?', '['])
    }
}

/// A URL for display: without options, which may contain a signature that grants access.
pub(crate) fn shown(text: &str) -> String {
    let place = match text.split_once("://") {
        Some(("http" | "https", _)) => text.split('?').next().unwrap_or(text),
        _ => without_options(text).0,
    };
    // URLs with passwords are refused; the message must not repeat the password.
    match place.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?))) {
        Some((scheme, (user, rest))) if user.contains(':') && !user.contains('/') => format!("{scheme}://***@{rest}"),
        _ => place.to_owned(),
    }
}

/// Splits off the options. They begin at a `?` that is followed by a name and `=`; any other `?` is part of a pattern.
fn without_options(text: &str) -> (&str, Option<&str>) {
    let named = |rest: &str| {
        let name = rest.split(['=', '&', '/', '?']).next().unwrap_or_default();
        let word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        word && rest[name.len()..].starts_with('=')
    };
    text.match_indices('?')
        .find(|(at, _)| named(&text[at + 1..]))
        .map_or((text, None), |(at, _)| (&text[..at], Some(&text[at + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = RemoteUrl::of("s3://logs/2014/a b.jsonl?endpoint=http://127.0.0.1:9000&region=eu").unwrap();
        assert_eq!((url.scheme, url.authority.as_str(), url.key.as_str()), (Scheme::S3, "logs", "2014/a b.jsonl"));
        assert_eq!((url.option("endpoint"), url.option("region")), (Some("http://127.0.0.1:9000"), Some("eu")));
        assert!(!url.is_several());
        for (text, key) in [
            ("s3://b/2014-0?.jsonl", "2014-0?.jsonl"),
            ("s3://b/a?.jsonl?region=x", "a?.jsonl"),
            ("gs://b/x/", "x/"),
            ("az://b", ""),
        ] {
            let url = RemoteUrl::of(text).unwrap();
            assert_eq!(url.key, key, "{text}");
            assert!(url.is_several(), "{text}");
        }
        let http = RemoteUrl::of("https://host/a*b.jsonl?page=1").unwrap();
        assert_eq!((http.whole.as_str(), http.is_several()), ("https://host/a*b.jsonl?page=1", false));
        assert!(!RemoteUrl::is("sqlite:a.db") && !RemoteUrl::is("a.jsonl") && RemoteUrl::is("hdfs://h:1/x"));
    }

    #[test]
    fn what_is_wrong_is_told_without_secrets() {
        for (text, part) in [
            ("s3:///x", "names no bucket"),
            ("s3://b/x?secret_access_key=verysecret", "never from the URL"),
            ("hdfs://h/x?user=me", "has no options"),
            ("https://me:verysecret@h/x", "a user name"),
        ] {
            let error = RemoteUrl::of(text).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("verysecret"), "{error}");
        }
        assert_eq!(shown("https://h/x.jsonl?X-Amz-Signature=abc"), "https://h/x.jsonl");
        assert!(RemoteUrl::of("s3://b/x?anonymous=maybe").unwrap().flag("anonymous").is_err());
    }
}
