//! The settings of a `memcached:` URL.

use storebench_engine::store::StoreError;

use super::SCHEME;
use crate::net::{Address, key_prefix};
use crate::registry::Options;

/// The settings of a URL.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) address: Address,
    /// The prefix of all of Storebench's keys.
    pub(super) prefix: String,
}

impl Settings {
    /// Reads the URL after its colon, and takes the options.
    pub(super) fn read(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let address = Address::parse(url, SCHEME.example, 11_211, false, options)?;
        if let Some(part) = address.path.first() {
            return Err(StoreError::BadUrl(format!(
                "found `/{part}` after the host, but a memcached URL has no path; write it like {}",
                SCHEME.example
            )));
        }
        if address.hosts.len() > 1 {
            return Err(StoreError::BadUrl(
                "several hosts are given, but memcached servers do not form a cluster; name only one".into(),
            ));
        }
        let spaced = |text: &str| text.contains([' ', '\r', '\n']);
        let password = address.password.as_ref().filter(|_| !address.password_assumed);
        if address.user.as_deref().is_some_and(spaced) || password.is_some_and(|password| spaced(password.expose())) {
            return Err(StoreError::BadUrl("memcached accepts no user or password that contains a space".into()));
        }
        let prefix = key_prefix(options, 32)?;
        Ok(Self { address, prefix })
    }
}
