//! Makes a connection that accepts statements, and runs the statements of control calls.

use std::time::Duration;

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{ClientIdentity, Conn, DriverError, Error, IoError, Opts, OptsBuilder, SslOpts};
use storebench_engine::store::StoreError;

use super::durability::Facts;
use super::errors::store_error;
use crate::net::{Address, Secret, not_reached, not_trusted};

/// Timeout of a login, including TLS and authentication, and of the requests right after it.
pub(super) const WITHIN: Duration = Duration::from_secs(20);

/// What every connection sets. Values that do not fit are errors, whatever the server's default is, and 0 is a value as
/// any other where the server counts. Without a `time_zone`, a TIMESTAMP would be read differently from each machine.
const SETTINGS: &str = "SET SESSION sql_mode = \
     'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00', autocommit = 1, lock_wait_timeout = 60, wait_timeout = 31536000";

/// What every connection sets that only reads. A statement reads one snapshot. Without this mode, a date such as
/// 2024-02-30, which a column may have, would be NULL in a condition.
pub(super) const READ_ONLY: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; \
     SET SESSION sql_mode = 'ALLOW_INVALID_DATES'";

/// Where to log in, and as whom.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: Address,
    pub(super) user: String,
    pub(super) database: String,
}

/// A connection for control calls.
pub(super) struct Server {
    pub(super) target: Target,
    pub(super) conn: Conn,
    pub(super) facts: Facts,
}

impl Server {
    /// Runs a statement, and returns its rows. `doing` says what for, in the error.
    pub(super) async fn query<T: FromRow + Send + 'static>(
        &mut self,
        doing: &str,
        sql: &str,
    ) -> Result<Vec<T>, StoreError> {
        self.conn.query(sql).await.map_err(|error| self.target.fault(doing, &error))
    }
}

impl Target {
    /// `host:port/database`.
    pub(super) fn place(&self) -> String {
        format!("{}/{}", self.address.host(), self.database)
    }

    /// The error of a failed control call.
    pub(super) fn fault(&self, doing: &str, error: &Error) -> StoreError {
        store_error(&self.place(), doing, error)
    }

    fn options(&self, first: &str) -> Result<Opts, StoreError> {
        let Address { password, tls, .. } = &self.address;
        let host = self.address.host();
        let ssl = match tls {
            None => None,
            Some(tls) => {
                // Reads the files, so that what is wrong with them is reported as by every other driver. It also
                // checks the names.
                tls.config()?;
                tls.server_name(host)?;
                // Another crate of the binary may bring a second provider, and then there is no default.
                let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
                let trusted = || rustls_native_certs::load_native_certs().certs.into_iter();
                let roots = match &tls.ca {
                    Some(file) => vec![file.clone().into()],
                    None => trusted().map(|certificate| certificate.to_vec().into()).collect(),
                };
                let mut ssl = SslOpts::default().with_disable_built_in_roots(true).with_root_certs(roots);
                if let Some((cert, key)) = tls.client.clone() {
                    ssl = ssl.with_client_identity(Some(ClientIdentity::new(cert.into(), key.into())));
                }
                Some(ssl.with_danger_tls_hostname_override(tls.name.clone()))
            }
        };
        Ok(OptsBuilder::default()
            .ip_or_hostname(host.name.clone())
            .tcp_port(host.port)
            .user(Some(self.user.clone()))
            .pass(password.as_ref().map(Secret::expose))
            .prefer_socket(false)
            .tcp_keepalive(Some(Duration::from_secs(15)))
            // The driver keeps its own statements, and checks sizes itself.
            .stmt_cache_size(0usize)
            .max_allowed_packet(Some(1 << 30))
            .wait_timeout(Some(31_536_000))
            // An update to the same value counts as one.
            .client_found_rows(true)
            .ssl_opts(ssl)
            .init(vec![if first.is_empty() { SETTINGS.to_owned() } else { format!("{SETTINGS}; {first}") }])
            .into())
    }

    /// Logs in, and runs the statements in `first`. No database is chosen, because it may not exist.
    ///
    /// # Errors
    /// `Unreachable` with host, port and database, the reason, and what to do. No error contains the password.
    pub(super) async fn login(&self, first: &str, within: Duration) -> Result<Conn, StoreError> {
        let options = self.options(first)?;
        match tokio::time::timeout(within, Conn::new(options)).await {
            Ok(Ok(conn)) => Ok(conn),
            Ok(Err(error)) => Err(self.not_entered(&error)),
            Err(_) => Err(self.silent(within)),
        }
    }

    /// The error of a login without an answer in time.
    pub(super) fn silent(&self, within: Duration) -> StoreError {
        StoreError::Unreachable(format!(
            "{}: got no answer from MySQL or MariaDB within {within:?}; check that it listens on this port, and that it is \
             not overloaded or stopped",
            self.place()
        ))
    }

    /// The error of a login.
    fn not_entered(&self, error: &Error) -> StoreError {
        let host = self.address.host();
        let unreachable = |text: &str| StoreError::Unreachable(format!("{}: {text}", self.place()));
        match error {
            Error::Server(_) => self.fault(&format!("log in as `{}`", self.user), error),
            Error::Io(IoError::Tls(tls)) => not_trusted(host, &std::io::Error::other(tls.to_string())),
            Error::Io(IoError::Io(io)) if io.raw_os_error().is_some() => not_reached(host, io),
            Error::Io(IoError::Io(io)) if io.to_string().contains("lookup") => not_reached(host, io),
            // What TLS refuses comes as an error of the stream.
            Error::Io(IoError::Io(io)) if self.address.tls.is_some() => not_trusted(host, io),
            Error::Driver(DriverError::NoClientSslFlagFromServer) => {
                unreachable("the server does not support TLS; set ssl_cert and ssl_key there, or use mysql://")
            }
            Error::Driver(asks @ (DriverError::UnknownAuthPlugin { .. } | DriverError::CleartextPluginDisabled)) => {
                let create = "create a user with mysql_native_password or caching_sha2_password";
                unreachable(&format!("it asks for a login that this driver does not support ({asks}); {create}"))
            }
            Error::Driver(DriverError::ConnectionClosed) => {
                unreachable("the server closed the connection during the login; check that it is MySQL or MariaDB")
            }
            other => unreachable(&format!("the server is not MySQL or MariaDB: {other}; check the port")),
        }
    }

    /// Logs in for control calls, and reads the server's version and settings.
    pub(super) async fn enter(&self) -> Result<Server, StoreError> {
        let mut conn = self.login("", WITHIN).await?;
        let facts = Facts::ask(self, &mut conn, WITHIN).await?;
        facts.check(&self.place())?;
        Ok(Server { target: self.clone(), conn, facts })
    }
}
