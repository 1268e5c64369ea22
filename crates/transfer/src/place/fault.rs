//! Turns errors of remote places into messages that say what to do.

use std::error::Error as _;
use std::io;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use storebench_engine::store::StoreError;

use super::proxy;
use super::url::Scheme;
use crate::error::TransferError;

/// When the error occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Before anything was copied.
    Look,
    /// During reading.
    Read,
    /// During writing.
    Write,
}

/// Longest excerpt of a response in a message.
const LONGEST: usize = 300;

/// S3 error codes about credentials, whatever the HTTP status is.
const OF_CREDENTIALS: [&str; 6] = [
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "RequestTimeTooSkewed",
];

/// The error for a failed access to this URL.
pub(super) fn fault(url: &str, scheme: Scheme, when: When, error: &Error) -> TransferError {
    let mut reason = reason(error);
    let told = |text: String| match when {
        When::Look => TransferError::BadInput(text),
        When::Read => TransferError::Source(text),
        When::Write => TransferError::Target(text),
    };
    let refused = matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
        || OF_CREDENTIALS.iter().any(|code| reason.contains(code))
        || reason.contains("AccessControlException")
        // S3 answers `HEAD` with an expired token like this; such a response has no body for a reason.
        || scheme == Scheme::S3 && reason.ends_with("400 Bad Request:");
    if scheme == Scheme::Http
        && let Some((proxy, variable)) = proxy::of_environment(url)
    {
        reason += &format!(", through the proxy {proxy} of {variable}");
    }
    if refused {
        let on = if when == When::Look { "" } else { ". After fixing them, continue with --resume" };
        return told(format!("{url}: access denied ({reason}); {}{on}", credentials(scheme)));
    }
    if matches!(error, Error::Precondition { .. }) {
        return changed(url);
    }
    if is_away(error) {
        let error = StoreError::Unreachable(format!("cannot be reached ({reason})"));
        return TransferError::Store { url: url.to_owned(), error };
    }
    told(match (error, when) {
        (Error::NotFound { .. }, When::Look) => {
            format!(
                "{url}: not found ({reason}); check the bucket and the name. For all files in a folder, end the URL with `/`"
            )
        }
        (Error::NotFound { .. }, When::Read) => format!("{url}: no longer exists ({reason})"),
        (Error::NotFound { .. }, When::Write) => format!("{url}: cannot be written ({reason}); does the bucket exist?"),
        (_, When::Write) => format!("{url}: writing failed: {reason}; fix the cause, then continue with --resume"),
        (_, When::Read) => format!("{url}: cannot be read further: {reason}"),
        (_, When::Look) => format!("{url}: {reason}"),
    })
}

/// The error for a source that changed after the copy started.
pub(super) fn changed(url: &str) -> TransferError {
    TransferError::Source(format!("{url} has changed since the copy began to read it; use --restart to start over"))
}

/// Where to set credentials.
pub(super) fn credentials(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => {
            "set credentials in the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary ones, \
             AWS_SESSION_TOKEN; for public data, use the option anonymous=true"
        }
        Scheme::Google => {
            "set credentials in the variable GOOGLE_SERVICE_ACCOUNT (a key file) or GOOGLE_APPLICATION_CREDENTIALS; \
             for public data, use the option anonymous=true"
        }
        Scheme::Azure => {
            "set credentials in the variables AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or \
             AZURE_STORAGE_SAS_KEY, or AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and AZURE_TENANT_ID; for public data, \
             use the option anonymous=true"
        }
        Scheme::Hdfs => "set the user in the variable HADOOP_USER_NAME; the default is the system's user",
        Scheme::Http => "for data that is not public, use a signed URL",
    }
}

/// Whether the place may be reachable again later.
fn is_away(error: &Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(http) = error.downcast_ref::<HttpError>()
            && matches!(http.kind(), HttpErrorKind::Connect | HttpErrorKind::Timeout)
        {
            return true;
        }
        if let Some(system) = error.downcast_ref::<io::Error>()
            && matches!(
                system.kind(),
                io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkUnreachable
                    | io::ErrorKind::TimedOut
            )
        {
            return true;
        }
        cause = error.source();
    }
    let all = error.to_string();
    ["status code: 5", "status code: 429", "Connection refused"].iter().any(|sign| all.contains(sign))
}

/// The root cause. For a response in S3's XML, its code and message.
fn reason(error: &Error) -> String {
    let all = error.to_string();
    let tag = |name: &str| {
        let (_, rest) = all.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text.trim().to_owned())
    };
    let mut text = match (tag("Code"), tag("Message")) {
        (Some(code), Some(message)) if !message.is_empty() => format!("{code}: {message}"),
        (Some(code), _) => code,
        _ => {
            let (mut text, mut cause) = (all.clone(), error.source());
            while let Some(error) = cause {
                text = error.to_string();
                cause = error.source();
            }
            text
        }
    };
    if text.len() > LONGEST {
        text = text.chars().take(LONGEST).chain(['…']).collect();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> Error {
        Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn errors_say_what_they_mean() {
        let xml = "x - status code: 400: <Error><Code>ExpiredToken</Code><Message>It has expired.</Message></Error>";
        let error = fault("s3://b/x", Scheme::S3, When::Read, &generic(xml));
        let TransferError::Source(text) = &error else { panic!("{error}") };
        assert!(text.contains("(ExpiredToken: It has expired.)") && text.contains("AWS_SESSION_TOKEN"), "{text}");
        assert!(text.contains("--resume"), "{text}");
        let away = fault("s3://b/x", Scheme::S3, When::Write, &generic("status code: 503: <Code>SlowDown</Code>"));
        assert!(matches!(away, TransferError::Store { .. }), "{away}");
        let missing = Error::NotFound { path: "x".into(), source: "404".into() };
        let error = fault("s3://b/x", Scheme::S3, When::Look, &missing);
        assert!(matches!(&error, TransferError::BadInput(text) if text.contains("not found")), "{error}");
    }
}
