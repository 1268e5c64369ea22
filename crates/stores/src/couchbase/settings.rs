//! Parses `couchbase://` URLs.

use std::path::PathBuf;
use std::sync::Arc;

use couchbase::authenticator::PasswordAuthenticator;
use couchbase::options::cluster_options::{
    ClusterOptions, CompressionMode, KvOptions, OrphanReporterOptions, TlsOptions,
};
use couchbase::retry::{RetryAction, RetryReason, RetryRequest, RetryStrategy};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use storebench_engine::store::StoreError;

use super::SCHEME;
use crate::net::Address;
use crate::net::scram::Salt;
use crate::registry::Options;

/// The port of the data service.
const PORT: u16 = 11_210;
/// The same with TLS.
const TLS_PORT: u16 = 11_207;

/// The contents of a URL.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) address: Address,
    pub(super) bucket: String,
    pub(super) scope: String,
    /// Whether collections get a primary index, which prefix pages and scans need.
    pub(super) key_index: bool,
    /// Whether the URL asks for that, so that a missing query service is an error.
    pub(super) key_index_asked: bool,
    /// Whether documents are sent compressed with Snappy.
    pub(super) compress: bool,
    /// The password as a connection last sent it, so that further ones avoid thousands of hashes.
    pub(super) salt: Arc<Salt>,
}

impl Settings {
    pub(super) fn read(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let tls = url.starts_with("couchbases:");
        let port = if tls { TLS_PORT } else { PORT };
        let address = Address::parse(url, SCHEME.example, port, tls, options)?;
        let bad = |what: &str| StoreError::BadUrl(format!("{what}; write it as in {}", SCHEME.example));
        let [bucket] = &address.path[..] else {
            return Err(bad("a Couchbase URL names one bucket after its hosts"));
        };
        if address.user.is_none() || address.password.is_none() {
            return Err(bad(
                "Couchbase needs a user and a password (in the URL, STOREBENCH_PASSWORD or password_file=)",
            ));
        }
        if let Some(tls) = &address.tls {
            if tls.client.is_some() {
                return Err(StoreError::BadUrl(
                    "tls_cert: Storebench logs in to Couchbase by password only; leave out tls_cert and tls_key".into(),
                ));
            }
            if tls.name.is_some() {
                return Err(StoreError::BadUrl(
                    "tls_name: Couchbase's client checks certificates against the names that the cluster gives its \
                     nodes; leave it out and use those names"
                        .into(),
                ));
            }
        }
        let bucket = bucket.clone();
        let scope = options.take("scope").unwrap_or("storebench").to_owned();
        if !is_name(&scope) {
            return Err(StoreError::BadUrl(format!(
                "invalid scope={scope}; use at most 30 letters, digits, `-` and `_`, beginning with a letter \
                 or a digit"
            )));
        }
        let keys = options.choice("keys", &["index", "none"])?;
        let (key_index, key_index_asked) = (keys != Some(1), keys == Some(0));
        let compress = options.choice("compression", &["none", "snappy"])? == Some(1);
        Ok(Self { address, bucket, scope, key_index, key_index_asked, compress, salt: Arc::default() })
    }

    /// The address in the SDK's format.
    pub(super) fn connection_string(&self) -> String {
        let scheme = if self.address.tls.is_some() { "couchbases" } else { "couchbase" };
        let hosts: Vec<String> = self.address.hosts.iter().map(ToString::to_string).collect();
        format!("{scheme}://{}", hosts.join(","))
    }

    pub(super) fn credentials(&self) -> (&str, &str) {
        let password = self.address.password.as_ref().map_or("", |password| password.expose());
        (self.address.user.as_deref().unwrap_or_default(), password)
    }

    /// The SDK's options: one connection per node, no retries, no measurements, and nothing requested from the server
    /// that is not used.
    pub(super) fn cluster_options(&self) -> Result<ClusterOptions, StoreError> {
        let (user, password) = self.credentials();
        let kv = KvOptions::new().enable_mutation_tokens(false).enable_server_durations(false).num_connections(1);
        let mut options = ClusterOptions::new(PasswordAuthenticator::new(user, password).into())
            .kv_options(kv.connect_throttle_timeout(RECONNECT_EVERY))
            .compression_mode(CompressionMode::Disabled)
            .orphan_reporter_options(OrphanReporterOptions::new().enabled(false))
            .default_retry_strategy(Arc::new(NoRetries));
        if let Some(tls) = &self.address.tls {
            options = options.tls_options(TlsOptions::new().add_ca_certificates(authorities(tls.ca.as_ref())?));
        }
        Ok(options)
    }
}

/// How long the SDK waits after a failed connection before the next try.
const RECONNECT_EVERY: std::time::Duration = std::time::Duration::from_millis(250);

/// The trusted certificate authorities: those in the file, otherwise the system's.
fn authorities(file: Option<&PathBuf>) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let Some(file) = file else { return Ok(rustls_native_certs::load_native_certs().certs) };
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|e| StoreError::BadUrl(format!("cannot read PEM certificates from tls_ca={}: {e}", file.display())))
}

/// Whether a scope or collection may have this name. This is the server's rule, without `%` and a leading `_`, which
/// the server reserves.
pub(super) fn is_name(name: &str) -> bool {
    let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    letters && name.len() <= 30 && name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
}

/// The engine does and counts all retries. (The SDK always retries for a partition that has moved, and for a collection
/// that is not known yet. Nothing was done in these cases.)
#[derive(Debug)]
struct NoRetries;

impl RetryStrategy for NoRetries {
    fn retry_after(&self, _: &RetryRequest, _: &RetryReason) -> Option<RetryAction> {
        None
    }
}
