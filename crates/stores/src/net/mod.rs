//! Code that drivers of servers share: addresses and credentials of a URL, TLS, connecting, back-off, and
//! the runtime on which control calls block.
//!
//! A URL is `scheme://user:password@host:port,host2:port2/path?option=value`. User and password are
//! percent-encoded. Passwords are better kept out of the URL: [`Address::parse`] also reads them from a file
//! (`password_file=`) or an environment variable (`password_env=`, by default `STOREBENCH_PASSWORD`).

mod backoff;
mod lost;
mod stream;

#[cfg(feature = "net")]
mod address;
#[cfg(feature = "net")]
mod connect;
#[cfg(feature = "net")]
mod control;
#[cfg(feature = "net")]
mod memo;
#[cfg(any(feature = "dynamodb", feature = "opensearch"))]
mod removal;
#[cfg(feature = "net")]
mod sample;
#[cfg(feature = "scram")]
pub(crate) mod scram;
#[cfg(feature = "net")]
mod secret;
#[cfg(feature = "net")]
mod tls;

pub(crate) use backoff::Backoff;
pub(crate) use lost::{lost, not_connected};
#[cfg(any(feature = "dynamodb", feature = "opensearch"))]
pub(crate) use removal::mark_removal;
pub(crate) use stream::Stream;
#[cfg(all(test, feature = "net"))]
pub(crate) use tls::tests::{held_reader, shrink_buffers};
#[cfg(feature = "net")]
pub(crate) use {
    address::{Address, Host, key_prefix, read_host},
    connect::{connect, encrypt, not_reached, not_trusted, tls_remedy},
    control::{Control, rest, settled, untold_settings},
    memo::{Memo, collection},
    sample::{KeySample, places},
    secret::Secret,
    tls::Tls,
};

use crate::registry::OptionHelp;

/// Options that every server driver takes.
pub(crate) const OPTIONS: [OptionHelp; 6] = [
    OptionHelp {
        name: "password_env",
        meaning: "environment variable with the password (default STOREBENCH_PASSWORD)",
    },
    OptionHelp { name: "password_file", meaning: "file whose first line is the password" },
    OptionHelp { name: "tls_ca", meaning: "PEM file of the certificate authorities to trust (default: the system's)" },
    OptionHelp { name: "tls_cert", meaning: "PEM file of the client's certificate; requires tls_key" },
    OptionHelp { name: "tls_key", meaning: "PEM file of the client's private key; requires tls_cert" },
    OptionHelp { name: "tls_name", meaning: "name to verify the server's certificate against (default: the host)" },
];

/// The driver's own options, followed by [`OPTIONS`].
macro_rules! with_net_options {
    ($($own:expr),* $(,)?) => {{
        use $crate::net::OPTIONS as N;
        &[$($own,)* N[0], N[1], N[2], N[3], N[4], N[5]]
    }};
}
pub(crate) use with_net_options;
