//! Signs requests to services of AWS that take JSON at `/`: Signature Version 4.
//!
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html>
//!
//! Crates that sign (`aws-sigv4`, `reqsign`, and the one within `object_store`) take and return requests of the crate
//! `http`, with a map of headers for each, and bring 20 packages or do not sign for every service. This one writes into
//! the buffers of a request, and allocates nothing once they have grown.

use std::time::{Duration, SystemTime};

use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

use super::RequestBuf;
use crate::net::Secret;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const MEDIA_TYPE: &str = "application/x-amz-json-1.0";

/// The key of a user.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    pub(crate) key: String,
    pub(crate) secret: Secret,
    /// The token of temporary credentials.
    pub(crate) token: Option<Secret>,
}

/// Signs the requests of one session.
#[derive(Clone)]
pub(crate) struct Signer {
    credentials: Credentials,
    /// The header `Host`.
    host: String,
    region: String,
    service: &'static str,
    /// The first part of the names of operations.
    api: &'static str,
    /// The time of `date`, in seconds.
    second: u64,
    /// `20150830T123600Z`.
    date: String,
    /// `20150830/us-east-1/dynamodb/aws4_request`.
    scope: String,
    /// The key of the day.
    mac: Hmac<Sha256>,
    /// The operation of the last request. Reused, as is `text`.
    target: String,
    text: Vec<u8>,
}

impl Signer {
    /// `host` is the header `Host`. `service` is its name in signatures, and `api` begins the names of its operations.
    pub(crate) fn new(
        credentials: Credentials,
        host: String,
        region: String,
        [service, api]: [&'static str; 2],
    ) -> Self {
        Self {
            credentials,
            host,
            region,
            service,
            api,
            second: u64::MAX,
            date: String::new(),
            scope: String::new(),
            mac: mac(b""),
            target: String::new(),
            text: Vec::new(),
        }
    }

    /// Sets the headers of the operation in a request, whose body is complete.
    pub(crate) fn sign(&mut self, operation: &str, out: &mut RequestBuf) {
        self.set_time(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        self.target.clear();
        self.target.extend([self.api, ".", operation]);
        let token = self.credentials.token.as_ref().map_or("", Secret::expose);
        let all = [
            ("content-type", MEDIA_TYPE),
            ("host", &self.host),
            ("x-amz-date", &self.date),
            ("x-amz-security-token", token),
            ("x-amz-target", &self.target),
        ];
        let (body, headers) = out.signed_parts();
        headers.clear();
        signature(&self.mac, [&self.date, &self.scope], &all, body, &mut self.text);
        // The host is among the headers of every request.
        for (name, value) in all.iter().filter(|(name, value)| *name != "host" && !value.is_empty()) {
            push(headers, &[name, ": ", value, "\r\n"]);
        }
        push(headers, &["authorization: ", ALGORITHM, " Credential=", &self.credentials.key, "/", &self.scope]);
        push(headers, &[", SignedHeaders="]);
        push_names(headers, &all);
        push(headers, &[", Signature="]);
        headers.extend_from_slice(&self.text);
        push(headers, &["\r\n"]);
    }

    /// Sets the time of the signature, and the key if the day is another.
    fn set_time(&mut self, now: Duration) {
        if now.as_secs() == self.second {
            return;
        }
        self.second = now.as_secs();
        let date = jiff::Timestamp::from_second(now.as_secs().cast_signed()).unwrap_or_default();
        let date = date.strftime("%Y%m%dT%H%M%SZ").to_string();
        let day = &date[..8];
        if !self.scope.starts_with(day) {
            let secret = format!("AWS4{}", self.credentials.secret.expose());
            let parts = [day, &self.region, self.service, "aws4_request"];
            let derived = |key: Vec<u8>, part: &&str| mac(&key).chain_update(part).finalize().into_bytes().to_vec();
            self.mac = mac(&parts.iter().fold(secret.into_bytes(), derived));
            self.scope = parts.join("/");
        }
        self.date = date;
    }
}

/// Leaves the signature of a POST to `/` in `text`, in hexadecimal digits. Headers without a value are left out.
fn signature(mac: &Hmac<Sha256>, [date, scope]: [&str; 2], headers: &[(&str, &str)], body: &[u8], text: &mut Vec<u8>) {
    text.clear();
    push(text, &["POST\n/\n\n"]);
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        push(text, &[name, ":", value.trim(), "\n"]);
    }
    push(text, &["\n"]);
    push_names(text, headers);
    push(text, &["\n"]);
    push_hex(&Sha256::digest(body), text);
    let canonical = Sha256::digest(&*text);
    text.clear();
    push(text, &[ALGORITHM, "\n", date, "\n", scope, "\n"]);
    push_hex(&canonical, text);
    let signature = mac.clone().chain_update(&*text).finalize().into_bytes();
    text.clear();
    push_hex(&signature, text);
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    // A key of any length is valid.
    Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()))
}

/// Appends texts.
pub(crate) fn push(into: &mut Vec<u8>, texts: &[&str]) {
    texts.iter().for_each(|text| into.extend_from_slice(text.as_bytes()));
}

fn push_names(into: &mut Vec<u8>, headers: &[(&str, &str)]) {
    let mut between = "";
    for (name, _) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        push(into, &[between, name]);
        between = ";";
    }
}

fn push_hex(digest: &[u8], into: &mut Vec<u8>) {
    let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
    into.extend(digest.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The user, place and moment of AWS's test suite.
    fn signer() -> Signer {
        let credentials = Credentials {
            key: "AKIDEXAMPLE".into(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            token: None,
        };
        let names = ["service", "Api_1"];
        let mut signer = Signer::new(credentials, "example.amazonaws.com".into(), "us-east-1".into(), names);
        signer.set_time(Duration::from_secs(1_440_938_160));
        signer
    }

    /// The suite is described at <https://docs.aws.amazon.com/general/latest/gr/signature-v4-test-suite.html>.
    #[test]
    fn signatures_are_those_of_the_test_suite_of_aws() {
        const DATE: &str = "20150830T123600Z";
        const TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUu\
             wthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQc\
             HNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/o\
             LxBA==";
        let host = ("host", "example.amazonaws.com");
        let date = ("x-amz-date", DATE);
        let form = ("content-type", "application/x-www-form-urlencoded");
        for (name, headers, body, signature) in [
            ("post-vanilla", &[host, date][..], "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                "post-x-www-form-urlencoded",
                &[form, host, date],
                "Param1=value1",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            (
                "post-sts-header-before",
                &[host, date, ("x-amz-security-token", TOKEN)],
                "",
                "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
            ),
        ] {
            let signer = signer();
            assert_eq!((signer.date.as_str(), &signer.scope[..8]), (DATE, "20150830"));
            let mut found = Vec::new();
            super::signature(&signer.mac, [DATE, &signer.scope], headers, body.as_bytes(), &mut found);
            assert_eq!(std::str::from_utf8(&found).unwrap(), signature, "{name}");
        }
    }

    #[test]
    fn a_request_has_the_headers_that_were_signed() {
        let mut out = RequestBuf::new(b"Host: example.amazonaws.com\r\n".as_slice().into());
        out.begin(crate::http::Method::POST).raw("/");
        out.body().extend_from_slice(b"{}");
        let mut signer = signer();
        signer.credentials.token = Some(Secret::new("a token"));
        signer.sign("GetItem", &mut out);
        let headers = String::from_utf8(out.signed_parts().1.clone()).unwrap();
        let lines: Vec<&str> = headers.lines().map(|line| line.split_once(':').unwrap().0).collect();
        assert_eq!(lines, ["content-type", "x-amz-date", "x-amz-security-token", "x-amz-target", "authorization"]);
        assert!(headers.contains("\r\nx-amz-target: Api_1.GetItem\r\n"), "{headers}");
        assert!(headers.contains("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target, "));
        assert!(!headers.contains("wJalr") && !format!("{:?}", signer.credentials).contains("wJalr"));
    }
}
