//! From nothing to a connection that takes queries: TCP, TLS, start-up, authentication.
//!
//! SCRAM-SHA-256 and MD5 are those of `postgres-protocol`. A password is sent as it is only under
//! TLS: over an open connection a server, or who pretends to be it, would only have to ask.

use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;
use storebench_engine::store::StoreError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::channel::{Channel, Fault, Lost};
use super::errors::store_error;
use super::wire::ServerError;
use crate::net::{Address, Stream, connect, encrypt};

/// How long a login may take, TLS and authentication included, and what is asked right after it.
pub(super) const WITHIN: Duration = Duration::from_secs(20);

/// Who is asked for what.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: Address,
    pub(super) user: String,
    pub(super) database: String,
}

/// A connection that takes queries.
pub(super) struct Connected {
    pub(super) channel: Channel,
    /// What a CancelRequest must name.
    pub(super) process: (i32, i32),
}

impl Target {
    /// `host:port/database`.
    pub(super) fn place(&self) -> String {
        format!("{}/{}", self.address.host(), self.database)
    }

    fn unreachable(&self, text: &str) -> StoreError {
        StoreError::Unreachable(format!("{}: {text}", self.place()))
    }

    /// A broken connection as the error of a control call.
    pub(super) fn broke(&self, doing: &str, lost: &Lost) -> StoreError {
        self.unreachable(&format!("cannot {doing}: the connection broke: {}; is the server up?", lost.0))
    }

    /// An answer that did not come in time.
    pub(super) fn silent(&self, doing: &str, within: Duration) -> StoreError {
        self.unreachable(&format!("cannot {doing}: there was no answer within {within:?}; is the server well?"))
    }

    /// Asks something within [`WITHIN`].
    ///
    /// # Errors
    /// `Unreachable` where no answer comes in time.
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

    /// A failed control call.
    pub(super) fn fault(&self, doing: &str, fault: &Fault) -> StoreError {
        match fault {
            Fault::Server(error) => store_error(&self.place(), doing, error),
            Fault::Lost(lost) => self.broke(doing, lost),
        }
    }

    /// Logs in.
    ///
    /// # Errors
    /// `Unreachable` naming host, port and database, what stood in the way and what to do; no error
    /// holds the password.
    pub(super) async fn login(&self) -> Result<Connected, StoreError> {
        tokio::time::timeout(WITHIN, self.login_now()).await.unwrap_or_else(|_| {
            Err(self.unreachable(&format!(
                "there was no answer within {WITHIN:?} that PostgreSQL would give; is that the right port, and is the server up?"
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
            .map_err(|_| StoreError::BadUrl("the user or database of the URL holds the byte 0".into()))?;
        let mut begun = false;
        match self.authenticate(&mut channel, &out, &mut begun).await {
            Ok(process) => Ok(Connected { channel, process }),
            Err(Fault::Server(error)) => Err(store_error(&self.place(), &format!("log in as `{}`", self.user), &error)),
            Err(Fault::Lost(_)) if !begun => {
                let said: String =
                    String::from_utf8_lossy(channel.unread()).chars().take(40).flat_map(char::escape_debug).collect();
                let said = if said.is_empty() { "nothing".to_owned() } else { format!("`{said}`") };
                Err(self.unreachable(&format!(
                    "what listens there is not PostgreSQL: it answered {said} to a login; is that the right port?"
                )))
            }
            Err(Fault::Lost(lost)) => Err(self.unreachable(&format!("cannot log in as `{}`: {}", self.user, lost.0))),
        }
    }

    /// Connects, and asks for TLS where the URL wants it.
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
        asked
            .await
            .map_err(|e| self.unreachable(&format!("no answer to the request for TLS: {e}; is that PostgreSQL?")))?;
        match answer[0] {
            b'S' => encrypt(tcp, host, tls).await,
            b'N' => Err(self.unreachable("the server speaks no TLS (ssl=off); turn it on there, or use postgres://")),
            _ => {
                Err(self.unreachable("what listens there is not PostgreSQL: it did not understand the request for TLS"))
            }
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
                        // The server must show that it knows the password too.
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
                            scram.update(rest).map_err(|_| wrong("the server's part of SCRAM is wrong"))?;
                            let mut out = BytesMut::new();
                            frontend::sasl_response(scram.message(), &mut out)?;
                            channel.send(&out).await?;
                        }
                        Some(12) => {
                            let scram = scram.as_mut().ok_or_else(garbled)?;
                            scram.finish(rest).map_err(|_| {
                                wrong("the server does not know the password: it is not who it says it is")
                            })?;
                            server_proved = true;
                        }
                        Some(how) => {
                            return Err(wrong(&format!(
                                "it asks for authentication of kind {how} (Kerberos or the like), which this driver \
                                 does not speak; allow scram-sha-256 in pg_hba.conf"
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
        self.address.password.as_ref().map(|password| password.expose()).ok_or_else(|| {
            wrong("it asks for a password; give it by password_file=, password_env= or STOREBENCH_PASSWORD")
        })
    }

    async fn clear_text(&self, channel: &mut Channel) -> Result<(), Fault> {
        if self.address.tls.is_none() {
            return Err(wrong(
                "it asks for the password in clear text over an open connection, which is refused; use \
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
            return Err(wrong("it offers no SCRAM-SHA-256; allow scram-sha-256 in pg_hba.conf"));
        }
        let scram = ScramSha256::new(self.password()?.as_bytes(), ChannelBinding::unsupported());
        let mut out = BytesMut::new();
        frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut out)?;
        channel.send(&out).await?;
        Ok(scram)
    }

    /// Asks the server to stop what a connection is doing. Best effort: it answers nothing.
    pub(super) async fn cancel(&self, (process, secret): (i32, i32)) {
        let ask = async {
            let mut stream = self.stream().await?;
            let mut out = BytesMut::new();
            frontend::cancel_request(process, secret, &mut out);
            let _ = stream.write_all(&out).await;
            // The server has taken it when it closes.
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
