//! Makes a connection that accepts queries: TCP, TLS, start-up, authentication.
//!
//! SCRAM-SHA-256 and MD5 come from `postgres-protocol`. A password is sent in clear text only over TLS. On an
//! unencrypted connection, a server or an impostor would only have to ask for it.

use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;
use storebench_engine::store::StoreError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::channel::{Channel, Fault, Lost, Row};
use super::errors::store_error;
use super::wire::ServerError;
use crate::net::{Address, Stream, connect, encrypt};

/// Timeout of a login, including TLS and authentication, and of the requests right after it.
pub(super) const WITHIN: Duration = Duration::from_secs(20);

/// Where to log in, and as whom.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: Address,
    pub(super) user: String,
    pub(super) database: String,
}

/// A connection that accepts queries.
pub(super) struct Connected {
    pub(super) target: Target,
    pub(super) channel: Channel,
    /// The process ID and the secret key for a CancelRequest.
    pub(super) process: (i32, i32),
}

impl Connected {
    /// Runs statements, and returns the rows of all of them. `doing` says what for, in the error.
    pub(super) async fn query(&mut self, doing: &str, sql: &str) -> Result<Vec<Row>, StoreError> {
        self.channel.query(sql).await.map_err(|fault| self.target.fault(doing, &fault))
    }
}

impl Target {
    /// `host:port/database`.
    pub(super) fn place(&self) -> String {
        format!("{}/{}", self.address.host(), self.database)
    }

    fn unreachable(&self, text: &str) -> StoreError {
        StoreError::Unreachable(format!("{}: {text}", self.place()))
    }

    /// The error of a control call whose connection broke.
    pub(super) fn broke(&self, doing: &str, lost: &Lost) -> StoreError {
        self.unreachable(&format!("cannot {doing}: the connection broke: {}; check that the server is up", lost.0))
    }

    /// The error of a control call without an answer in time.
    pub(super) fn silent(&self, doing: &str, within: Duration) -> StoreError {
        self.unreachable(&format!("cannot {doing}: no answer within {within:?}; check the state of the server"))
    }

    /// Waits for an answer within [`WITHIN`].
    ///
    /// # Errors
    /// `Unreachable` if no answer comes in time; otherwise that of the request.
    pub(super) async fn ask<T>(
        &self,
        doing: &str,
        asking: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(WITHIN, asking).await {
            Ok(result) => result.map_err(|fault| self.fault(doing, &fault)),
            Err(_) => Err(self.silent(doing, WITHIN)),
        }
    }

    /// The error of a failed control call.
    pub(super) fn fault(&self, doing: &str, fault: &Fault) -> StoreError {
        match fault {
            Fault::Server(error) => store_error(&self.place(), doing, error),
            Fault::Lost(lost) => self.broke(doing, lost),
        }
    }

    /// Logs in.
    ///
    /// # Errors
    /// `Unreachable` with host, port and database, the reason, and what to do. No error contains the password.
    pub(super) async fn login(&self) -> Result<Connected, StoreError> {
        tokio::time::timeout(WITHIN, self.login_now()).await.unwrap_or_else(|_| {
            Err(self.unreachable(&format!(
                "connected, but got no answer from PostgreSQL within {WITHIN:?}; check that PostgreSQL listens on this \
                 port, and that it is not overloaded or stopped"
            )))
        })
    }

    async fn login_now(&self) -> Result<Connected, StoreError> {
        let mut channel = Channel::new(self.stream().await?);
        let mut out = BytesMut::new();
        let start = [
            ("user", self.user.as_str()),
            ("database", &self.database),
            ("client_encoding", "UTF8"),
            ("application_name", "storebench"),
        ];
        frontend::startup_message(start, &mut out)
            .map_err(|_| StoreError::BadUrl("the user or the database in the URL contains the byte 0".into()))?;
        let mut begun = false;
        match self.authenticate(&mut channel, &out, &mut begun).await {
            Ok(process) => Ok(Connected { target: self.clone(), channel, process }),
            Err(Fault::Server(error)) => Err(store_error(&self.place(), &format!("log in as `{}`", self.user), &error)),
            Err(Fault::Lost(_)) if !begun => {
                let said: String =
                    String::from_utf8_lossy(channel.unread()).chars().take(40).flat_map(char::escape_debug).collect();
                let said = if said.is_empty() { "nothing".to_owned() } else { format!("`{said}`") };
                Err(self.unreachable(&format!(
                    "the server is not PostgreSQL: it answered {said} to a login; check the port"
                )))
            }
            Err(Fault::Lost(lost)) => Err(self.unreachable(&format!("cannot log in as `{}`: {}", self.user, lost.0))),
        }
    }

    /// Connects, and requests TLS if the URL asks for it.
    async fn stream(&self) -> Result<Stream, StoreError> {
        let host = self.address.host();
        let stream = connect(host, None, WITHIN).await?;
        let Some(tls) = &self.address.tls else { return Ok(stream) };
        let Stream::Plain(mut tcp) = stream else { return Ok(stream) };
        let mut out = BytesMut::new();
        frontend::ssl_request(&mut out);
        let mut answer = [0];
        let asked = async {
            tcp.write_all(&out).await?;
            tcp.read_exact(&mut answer).await.map(drop)
        };
        asked.await.map_err(|e| {
            self.unreachable(&format!("no answer to the request for TLS: {e}; check that this is PostgreSQL"))
        })?;
        match answer[0] {
            b'S' => encrypt(tcp, host, tls).await,
            b'N' => {
                Err(self.unreachable("the server does not support TLS (ssl=off); set ssl=on there, or use postgres://"))
            }
            _ => Err(self.unreachable("the server is not PostgreSQL: it did not understand the request for TLS")),
        }
    }

    async fn authenticate(&self, channel: &mut Channel, start: &[u8], begun: &mut bool) -> Result<(i32, i32), Fault> {
        channel.send(start).await?;
        let mut process = (0, 0);
        let mut scram: Option<ScramSha256> = None;
        let mut server_proved = false;
        loop {
            let (tag, body) = channel.receive().await?;
            let body = body.to_vec();
            *begun = true;
            let number = |at: usize| body.get(at..at + 4).map(|b| i32::from_be_bytes([b[0], b[1], b[2], b[3]]));
            match tag {
                b'E' => return Err(Fault::Server(ServerError::read(&body))),
                b'K' => process = (number(0).unwrap_or(0), number(4).unwrap_or(0)),
                b'Z' => return Ok(process),
                b'R' => {
                    let rest = body.get(4..).unwrap_or_default();
                    match number(0) {
                        // The server must prove that it knows the password too.
                        Some(0) if scram.is_some() && !server_proved => {
                            return Err(wrong("the server did not prove that it knows the password"));
                        }
                        Some(0) => {}
                        Some(3) => self.clear_text(channel).await?,
                        Some(5) => {
                            let salt = rest.get(..4).and_then(|s| s.try_into().ok()).ok_or_else(garbled)?;
                            let hash = md5_hash(self.user.as_bytes(), self.password()?.as_bytes(), salt);
                            self.password_message(channel, hash.as_bytes()).await?;
                        }
                        Some(10) => scram = Some(self.begin_scram(channel, rest).await?),
                        Some(11) => {
                            let scram = scram.as_mut().ok_or_else(garbled)?;
                            scram.update(rest).map_err(|_| wrong("the server's SCRAM message is invalid"))?;
                            let mut out = BytesMut::new();
                            frontend::sasl_response(scram.message(), &mut out)?;
                            channel.send(&out).await?;
                        }
                        Some(12) => {
                            let scram = scram.as_mut().ok_or_else(garbled)?;
                            scram.finish(rest).map_err(|_| {
                                wrong("the server could not prove that it knows the password; it may be an impostor")
                            })?;
                            server_proved = true;
                        }
                        Some(how) => {
                            return Err(wrong(&format!(
                                "it asks for authentication method {how} (such as Kerberos), which this driver \
                                 does not support; allow scram-sha-256 in pg_hba.conf"
                            )));
                        }
                        None => return Err(garbled()),
                    }
                }
                _ => {}
            }
        }
    }

    fn password(&self) -> Result<&str, Fault> {
        self.address
            .password
            .as_ref()
            .map(|password| password.expose())
            .ok_or_else(|| wrong("it asks for a password; set password_file=, password_env= or STOREBENCH_PASSWORD"))
    }

    async fn clear_text(&self, channel: &mut Channel) -> Result<(), Fault> {
        if self.address.tls.is_none() {
            return Err(wrong(
                "it asks for the password in clear text over an unencrypted connection, which this driver refuses; use \
                 postgres+tls://, or scram-sha-256 in pg_hba.conf",
            ));
        }
        self.password_message(channel, self.password()?.as_bytes()).await
    }

    async fn password_message(&self, channel: &mut Channel, password: &[u8]) -> Result<(), Fault> {
        let mut out = BytesMut::new();
        frontend::password_message(password, &mut out)?;
        channel.send(&out).await.map_err(Fault::Lost)
    }

    async fn begin_scram(&self, channel: &mut Channel, mechanisms: &[u8]) -> Result<ScramSha256, Fault> {
        if !mechanisms.split(|byte| *byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes()) {
            return Err(wrong("it does not offer SCRAM-SHA-256; allow scram-sha-256 in pg_hba.conf"));
        }
        let scram = ScramSha256::new(self.password()?.as_bytes(), ChannelBinding::unsupported());
        let mut out = BytesMut::new();
        frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut out)?;
        channel.send(&out).await?;
        Ok(scram)
    }

    /// Asks the server to cancel what a connection is doing. Best effort: the server does not answer.
    pub(super) async fn cancel(&self, (process, secret): (i32, i32)) {
        let ask = async {
            let mut stream = self.stream().await?;
            let mut out = BytesMut::new();
            frontend::cancel_request(process, secret, &mut out);
            let _ = stream.write_all(&out).await;
            // The server closes the connection once it has read the request.
            let _ = stream.read(&mut [0]).await;
            Ok::<(), StoreError>(())
        };
        let _ = tokio::time::timeout(WITHIN, ask).await;
    }
}

fn wrong(text: &str) -> Fault {
    Fault::Lost(Lost(text.to_owned()))
}

fn garbled() -> Fault {
    wrong("its answer is not PostgreSQL's protocol")
}
