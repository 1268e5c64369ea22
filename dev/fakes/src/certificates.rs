//! Certificates for tests, created by `certificates/make.sh`: one authority, and certificates that it signed.

/// The certificate of the authority.
pub const CA: &str = include_str!("../certificates/ca.pem");
/// A server certificate for `localhost` and `127.0.0.1`.
pub const BOTH: Certificate =
    Certificate { pem: include_str!("../certificates/both.pem"), key: include_str!("../certificates/both.key") };
/// A server certificate for only `localhost`.
pub const LOCALHOST: Certificate = Certificate {
    pem: include_str!("../certificates/localhost.pem"),
    key: include_str!("../certificates/localhost.key"),
};
/// A server certificate for only `127.0.0.1`.
pub const ADDRESS: Certificate =
    Certificate { pem: include_str!("../certificates/address.pem"), key: include_str!("../certificates/address.key") };
/// A server certificate for `db.example`.
pub const NAMED: Certificate =
    Certificate { pem: include_str!("../certificates/named.pem"), key: include_str!("../certificates/named.key") };
/// A client certificate.
pub const CLIENT: Certificate =
    Certificate { pem: include_str!("../certificates/client.pem"), key: include_str!("../certificates/client.key") };

/// A certificate and its private key, in PEM.
#[derive(Debug, Clone, Copy)]
pub struct Certificate {
    /// The certificate.
    pub pem: &'static str,
    /// The key, in PKCS 8.
    pub key: &'static str,
}
