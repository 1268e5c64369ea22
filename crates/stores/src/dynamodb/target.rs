//! What a URL says: the server, its region, and the key that signs requests.

use std::time::Duration;

use storebench_engine::store::StoreError;

use super::server::Server;
use crate::http::aws::{Credentials, Signer};
use crate::http::{Client, Target as HttpTarget, check_place, name_prefix};
use crate::net::{Address, Secret, with_net_options};
use crate::registry::{OptionHelp, Options, Scheme};

pub(crate) const SCHEME: Scheme = Scheme {
    name: "dynamodb",
    aliases: &["dynamodbs"],
    what: "Amazon DynamoDB, or ScyllaDB Alternator, over HTTP: conditional writes, global secondary indexes",
    example: "dynamodbs://dynamodb.eu-west-1.amazonaws.com",
    options: with_net_options![
        OptionHelp { name: "region", meaning: "region of the signature (default: from the host, else AWS_REGION)" },
        OptionHelp { name: "prefix", meaning: "prefix of the names of Storebench's tables (default `storebench-`)" },
        OptionHelp {
            name: "documents",
            meaning: "`text` keeps documents as they were written (default); `native` makes members attributes",
        },
    ],
    decorator: false,
};

/// What a URL says.
pub(super) struct Target {
    pub(super) address: Address,
    pub(super) prefix: String,
    pub(super) native: bool,
    /// Whether it is DynamoDB itself.
    pub(super) is_aws: bool,
    pub(super) signer: Signer,
    pub(super) http: HttpTarget,
}

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    /// `BadUrl`. No error contains the secret.
    pub(super) fn read(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let tls = url.starts_with("dynamodbs:");
        let mut address = Address::parse(url, SCHEME.example, if tls { 443 } else { 8000 }, tls, options)?;
        check_place(&address, "table", "DynamoDB")?;
        let host = address.host().name.clone();
        let is_aws = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"].iter().any(|end| host.ends_with(end));
        if is_aws && !tls {
            let why = format!("`dynamodb://` does not encrypt; to reach AWS, write dynamodbs://{host}");
            return Err(StoreError::BadUrl(why));
        }
        let prefix = name_prefix(options)?;
        let native = options.choice("documents", &["text", "native"])? == Some(1);
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let region = options.take("region").or_else(|| region_in(&host)).map(str::to_owned);
        let region = region.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let credentials = credentials(&mut address, variable)?;
        let http = HttpTarget::of(&address);
        let signer =
            Signer::new(credentials, HttpTarget::host_header(&address), region, ["dynamodb", "DynamoDB_20120810"]);
        Ok(Self { address, prefix, native, is_aws, signer, http })
    }

    /// The server, for control calls of at most this duration.
    pub(super) fn server(&self, patience: Duration) -> Server {
        Server {
            client: Client::new(self.http.clone(), patience),
            signer: self.signer.clone(),
            host: self.address.host().clone(),
            prefix: self.prefix.clone(),
        }
    }
}

/// The region in a host of AWS: `dynamodb.eu-west-1.amazonaws.com`.
fn region_in(host: &str) -> Option<&str> {
    let mut parts = host.split('.').skip_while(|part| !part.starts_with("dynamodb"));
    parts.next()?;
    parts.next().filter(|_| parts.next().is_some())
}

/// The key of the URL, or else of the usual variables. Takes it from the address, because it is no login of HTTP.
fn credentials(
    address: &mut Address,
    variable: impl Fn(&'static str) -> Option<String>,
) -> Result<Credentials, StoreError> {
    let bad = |why: &str| Err(StoreError::BadUrl(why.into()));
    let (key, secret, token) = match (address.user.take(), address.password.take()) {
        (Some(key), Some(secret)) => (key, secret, None),
        (Some(_), None) => {
            return bad(
                "the URL has an access key without its secret; put that into STOREBENCH_PASSWORD, or leave out the key \
                 and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            );
        }
        (None, Some(_)) if !address.password_assumed => {
            return bad("the URL has a secret without its access key; write it like dynamodb://KEY@HOST");
        }
        // An assumed password is meant for another store.
        (None, _) => match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
            (Some(key), Some(secret)) => (key, Secret::new(secret), variable("AWS_SESSION_TOKEN").map(Secret::new)),
            // For servers that check none.
            _ => ("storebench".to_owned(), Secret::new("storebench"), None),
        },
    };
    Ok(Credentials { key, secret, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Target, StoreError> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        Target::read(url, &mut Options::for_test(query))
    }

    #[test]
    fn aws_is_reached_over_tls_only() {
        let aws = read("dynamodbs://dynamodb.eu-west-1.amazonaws.com").unwrap();
        assert!(aws.is_aws && aws.address.host().port == 443);
        let error = read("dynamodb://dynamodb.eu-west-1.amazonaws.com").err().unwrap().to_string();
        assert!(error.contains("dynamodbs://dynamodb.eu-west-1.amazonaws.com"), "{error}");
        assert!(!read("dynamodb://127.0.0.1").unwrap().is_aws);
    }

    #[test]
    fn the_region_is_in_the_host() {
        for (host, region) in [
            ("dynamodb.eu-west-1.amazonaws.com", Some("eu-west-1")),
            ("dynamodb-fips.us-gov-west-1.amazonaws.com", Some("us-gov-west-1")),
            ("123456789012.ddb.us-east-2.amazonaws.com", None),
            ("localhost", None),
            ("dynamodb.local", None),
        ] {
            assert_eq!(region_in(host), region, "{host}");
        }
    }

    #[test]
    fn the_key_is_of_the_url_or_of_the_variables() {
        let address = |url: &str| Address::parse(url, SCHEME.example, 8000, false, &mut Options::for_test("")).unwrap();
        let set = |name: &'static str| Some(format!("{name} is set"));
        let typed = credentials(&mut address("dynamodb://me:hush@h"), set).unwrap();
        assert_eq!((typed.key.as_str(), typed.secret.expose(), typed.token), ("me", "hush", None));
        let found = credentials(&mut address("dynamodb://h"), set).unwrap();
        assert_eq!(found.key, "AWS_ACCESS_KEY_ID is set");
        assert_eq!(found.token.as_ref().map(Secret::expose), Some("AWS_SESSION_TOKEN is set"));
        assert_eq!(credentials(&mut address("dynamodb://h"), |_| None).unwrap().key, "storebench");
        assert!(credentials(&mut address("dynamodb://me@h"), |_| None).is_err());
        assert!(!read("dynamodb://me:hush@h").unwrap().address.shown.contains("hush"));
    }
}
