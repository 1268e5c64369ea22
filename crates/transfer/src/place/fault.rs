//! What goes wrong far away, and what to do about it.

use std::error::Error as _;
use std::io;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use storebench_engine::store::StoreError;

use super::url::Scheme;
use crate::error::TransferError;

/// When it went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Before anything was copied.
    Look,
    /// While it was read.
    Read,
    /// While it was written.
    Write,
}

/// No more of an answer is shown.
const LONGEST: usize = 300;

/// Codes of S3 that speak of credentials, whatever their status is.
const OF_CREDENTIALS: [&str; 6] = [
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "RequestTimeTooSkewed",
];

/// An error on the way to or from this URL.
pub(super) fn fault(url: &str, scheme: Scheme, when: When, error: &Error) -> TransferError {
    let reason = reason(error);
    let told = |text: String| match when {
        When::Look => TransferError::BadInput(text),
        When::Read => TransferError::Source(text),
        When::Write => TransferError::Target(text),
    };
    let refused = matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
        || OF_CREDENTIALS.iter().any(|code| reason.contains(code))
        || reason.contains("AccessControlException")
        // So S3 answers `HEAD`, which has no room for a reason, where a token has expired.
        || scheme == Scheme::S3 && reason.ends_with("400 Bad Request:");
    if refused {
        let on = if when == When::Look { "" } else { ". Once they are good, continue with --resume" };
        return told(format!("{url}: access was refused ({reason}); {}{on}", credentials(scheme)));
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
                "{url}: is not there ({reason}); are bucket and name right? All under a folder is named with `/` at the end"
            )
        }
        (Error::NotFound { .. }, When::Read) => format!("{url}: is not there any more ({reason})"),
        (Error::NotFound { .. }, When::Write) => format!("{url}: cannot be written ({reason}); is the bucket there?"),
        (_, When::Write) => format!("{url}: cannot be written further: {reason}; continue with --resume once it can"),
        (_, When::Read) => format!("{url}: cannot be read further: {reason}"),
        (_, When::Look) => format!("{url}: {reason}"),
    })
}

/// What is read is not what was there when the copy began.
pub(super) fn changed(url: &str) -> TransferError {
    TransferError::Source(format!("{url} has changed since the copy began to read it; use --restart to start over"))
}

/// Where credentials come from.
pub(super) fn credentials(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => {
            "credentials come from the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary ones, \
             AWS_SESSION_TOKEN; what is public is read with the option anonymous=true"
        }
        Scheme::Google => {
            "credentials come from the variable GOOGLE_SERVICE_ACCOUNT (a key file) or GOOGLE_APPLICATION_CREDENTIALS; \
             what is public is read with the option anonymous=true"
        }
        Scheme::Azure => {
            "credentials come from the variables AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or \
             AZURE_STORAGE_SAS_KEY, or AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and AZURE_TENANT_ID; what is public is read \
             with the option anonymous=true"
        }
        Scheme::Hdfs => "the user is the one of the variable HADOOP_USER_NAME, or of the system",
        Scheme::Http => "what is not open to everybody is read by a URL that is signed for it",
    }
}

/// Whether it may serve later.
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

/// The cause at the bottom; of an answer in S3's XML its code and message.
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
        assert!(matches!(&error, TransferError::BadInput(text) if text.contains("is not there")), "{error}");
    }
}
