//! A request-response connection: for control calls, and for the start of every session.

use std::time::Duration;

use storebench_engine::store::StoreError;

use super::resp::{self, Garbage, Value};
use super::settings::Settings;
use crate::connection::Dialog;
use crate::net::{Host, Secret, Stream, connect};

/// The timeout for connecting to a server, and for each of its answers.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A connection after login, with one request at a time.
pub(super) struct Connection {
    dialog: Dialog,
    pub(super) host: Host,
    patience: Duration,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// `Unreachable` for a wrong host, port, TLS setting, user or password, or if the server is not Redis; `BadUrl` for
    /// a database that the server does not have.
    pub(super) async fn open(settings: &Settings, host: &Host, patience: Duration) -> Result<Self, StoreError> {
        let stream = connect(host, settings.address.tls.as_ref(), patience).await?;
        let mut connection = Self { dialog: Dialog::new(stream), host: host.clone(), patience };
        // Ping before sending the password, so that a server that is not Redis never sees it.
        let mut greeting = connection.call(&[b"PING"]).await?;
        let (user, password) = (settings.address.user.as_deref(), &settings.address.password);
        // One variable holds the password for all servers of a study, but some need none.
        let unasked = settings.address.password_assumed && user.is_none() && matches!(greeting, Value::Simple(_));
        if let Some(password) = password
            && matches!(greeting, Value::Simple(_) | Value::Error(_))
            && !unasked
        {
            connection.log_in(user, password).await?;
            greeting = connection.call(&[b"PING"]).await?;
        }
        match greeting {
            Value::Simple(pong) if pong == "PONG" => {}
            Value::Error(line) => return Err(connection.refusal("PING", &line)),
            other => return Err(connection.unexpected("PING", &other)),
        }
        if settings.database != 0 {
            let number = settings.database.to_string();
            if let Value::Error(line) = connection.call(&[b"SELECT", number.as_bytes()]).await? {
                return Err(StoreError::BadUrl(format!(
                    "{host} has no database {number} (Redis: {line}); use another number after the `/`, or raise \
                     `databases` in its configuration"
                )));
            }
        }
        Ok(connection)
    }

    async fn log_in(&mut self, user: Option<&str>, password: &Secret) -> Result<(), StoreError> {
        let password = password.expose().as_bytes();
        let answer = match user {
            Some(user) => self.call(&[b"AUTH", user.as_bytes(), password]).await?,
            None => self.call(&[b"AUTH", password]).await?,
        };
        match answer {
            Value::Simple(_) => Ok(()),
            // The server's line should not repeat the password. To be sure, it is not shown.
            Value::Error(line) if line.contains("without any password configured") => {
                Err(StoreError::Unreachable(format!(
                    "{} requires no password, but one was given (in the URL, password_file= or password_env=); remove \
                     it",
                    self.host
                )))
            }
            Value::Error(line) => {
                let code = line.split(' ').next().unwrap_or_default();
                Err(StoreError::Unreachable(format!(
                    "{} rejected this user and password ({code}); check both",
                    self.host
                )))
            }
            other => Err(self.unexpected("AUTH", &other)),
        }
    }

    /// Sends a command and waits for its answer. An error from the server counts as an answer.
    pub(super) async fn call(&mut self, words: &[&[u8]]) -> Result<Value, StoreError> {
        let mut out = Vec::new();
        resp::full_command(&mut out, words);
        let (patience, host) = (self.patience, self.host.clone());
        let name = name_of(words);
        tokio::time::timeout(patience, self.exchange(&out)).await.unwrap_or_else(|_| {
            Err(StoreError::Unreachable(format!(
                "{host} did not answer {name} within {patience:?}; check that it is a working Redis server"
            )))
        })
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<Value, StoreError> {
        let broken = |host: &Host, e: std::io::Error| {
            StoreError::Unreachable(format!(
                "{host}: the connection broke: {e}; check that it is a working Redis server, and whether it uses TLS \
                 (rediss://)"
            ))
        };
        self.dialog.send(request).await.map_err(|e| broken(&self.host, e))?;
        loop {
            match Value::read(self.dialog.input()) {
                Ok(Some((value, used))) => {
                    self.dialog.take(used);
                    return Ok(value);
                }
                Ok(None) => self.dialog.read().await.map_err(|e| broken(&self.host, e))?,
                Err(Garbage(shown)) => {
                    return Err(StoreError::Unreachable(format!(
                        "{} answered `{shown}`, which is not a Redis answer; check the port, and whether it uses TLS \
                         (rediss://)",
                        self.host
                    )));
                }
            }
        }
    }

    /// Sends a command that must succeed. An error from the server is an error.
    pub(super) async fn ask(&mut self, words: &[&[u8]]) -> Result<Value, StoreError> {
        match self.call(words).await? {
            Value::Error(line) => Err(self.refusal(&name_of(words), &line)),
            value => Ok(value),
        }
    }

    /// Sends `count` commands at once. `requests` holds them encoded.
    pub(super) async fn ask_all(&mut self, requests: &[u8], count: usize) -> Result<Vec<Value>, StoreError> {
        let answers = self.answers(requests, count).await?;
        match answers.iter().find_map(|answer| if let Value::Error(line) = answer { Some(line) } else { None }) {
            Some(line) => Err(self.refusal("a command", line)),
            None => Ok(answers),
        }
    }

    /// Like [`Connection::ask_all`], but errors from the server count as answers.
    pub(super) async fn answers(&mut self, requests: &[u8], count: usize) -> Result<Vec<Value>, StoreError> {
        let mut answers = Vec::with_capacity(count);
        let mut rest = requests;
        while answers.len() < count {
            let patience = self.patience;
            let answer = tokio::time::timeout(patience, self.exchange(rest)).await.map_err(|_| {
                StoreError::Unreachable(format!("{} did not answer within {patience:?}; check the server", self.host))
            })??;
            rest = &[];
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Sends a command whose answer is a number.
    pub(super) async fn number(&mut self, words: &[&[u8]]) -> Result<i64, StoreError> {
        let value = self.ask(words).await?;
        value.number().ok_or_else(|| self.unexpected(&name_of(words), &value))
    }

    /// One page of the server's keys from a cursor, which begins at 0: the next cursor (`None` at the end), and the keys.
    pub(super) async fn scan(
        &mut self,
        cursor: u64,
        pattern: &[u8],
        count: u32,
        strings: bool,
    ) -> Result<(Option<u64>, Vec<Vec<u8>>), StoreError> {
        let (cursor, count) = (cursor.to_string(), count.to_string());
        let mut words: Vec<&[u8]> = vec![b"SCAN", cursor.as_bytes(), b"MATCH", pattern, b"COUNT", count.as_bytes()];
        if strings {
            words.extend([&b"TYPE"[..], b"string"]);
        }
        let value = self.ask(&words).await?;
        let next = value.items().first().and_then(Value::text).and_then(|text| text.parse::<u64>().ok());
        let (Some(next), Some(Value::Array(keys))) = (next, value.items().get(1)) else {
            return Err(self.unexpected("SCAN", &value));
        };
        let keys = keys.iter().filter_map(|key| match key {
            Value::Bulk(bytes) => Some(bytes.clone()),
            _ => None,
        });
        Ok(((next != 0).then_some(next), keys.collect()))
    }

    /// A section of `INFO`, as `name:value` lines.
    pub(super) async fn info(&mut self, section: &str) -> Result<Info, StoreError> {
        let value = self.ask(&[b"INFO", section.as_bytes()]).await?;
        value.text().map(Info).ok_or_else(|| self.unexpected("INFO", &value))
    }

    /// The error of an answer that does not fit its command.
    pub(super) fn unexpected(&self, command: &str, got: &Value) -> StoreError {
        let shown: String = format!("{got:?}").chars().take(80).collect();
        StoreError::Unreachable(format!(
            "{} answered {command} with {shown}, which is not a Redis answer; check that this port is Redis",
            self.host
        ))
    }

    /// The error of a command that was refused.
    pub(super) fn refusal(&self, command: &str, line: &str) -> StoreError {
        let host = &self.host;
        let shown: String = line.chars().take(200).collect();
        match line.split(' ').next().unwrap_or_default() {
            "NOAUTH" => StoreError::Unreachable(format!(
                "{host} requires a password; give it in the URL, password_file=, password_env= or STOREBENCH_PASSWORD"
            )),
            "NOPERM" => StoreError::Unreachable(format!(
                "{host} does not let this user run {command} (Redis: {shown}); grant permission, or use another user"
            )),
            "LOADING" => {
                StoreError::Unreachable(format!("{host} is still loading its data; retry when it has finished"))
            }
            "READONLY" => {
                StoreError::Unreachable(format!("{host} is a replica, which accepts no writes; name its primary"))
            }
            _ => StoreError::Failed(format!("{host}: {command} failed (Redis: {shown})")),
        }
    }

    /// The connection for other uses.
    ///
    /// # Errors
    /// `Unreachable` if the server sent more than the awaited answers.
    pub(super) fn into_stream(self) -> Result<Stream, StoreError> {
        let (stream, rest) = self.dialog.into_stream();
        if rest.is_empty() {
            return Ok(stream);
        }
        Err(StoreError::Unreachable(format!(
            "{} sent data without a request, which Redis does not do; check the port",
            self.host
        )))
    }
}

fn name_of(words: &[&[u8]]) -> String {
    String::from_utf8_lossy(words.first().copied().unwrap_or_default()).into_owned()
}

/// The text of `INFO`.
#[derive(Debug, Clone, Default)]
pub(super) struct Info(String);

impl Info {
    /// The value of a name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.lines().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// The value as a number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok()
    }

    /// All names and values.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.trim_end().split_once(':'))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::registry::Options;

    /// Answers each `PING`, and rejects a login as a server without passwords does.
    async fn open_server(listener: tokio::net::TcpListener) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 512];
        while let Ok(bytes @ 1..) = stream.read(&mut request).await {
            let ping = request[..bytes].ends_with(b"PING\r\n");
            let answer = if ping { "+PONG\r\n" } else { "-ERR AUTH called without any password configured\r\n" };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    #[test]
    fn a_password_that_nobody_asks_for_stays_here_or_is_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for assumed in [true, false] {
            let opened = runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let url = format!("redis://:hush@127.0.0.1:{}", listener.local_addr().unwrap().port());
                let mut settings = Settings::read(&url, &mut Options::for_test("")).unwrap();
                settings.address.password_assumed = assumed;
                tokio::spawn(open_server(listener));
                Connection::open(&settings, settings.address.host(), PATIENCE).await.map(drop)
            });
            match (assumed, opened) {
                (true, Ok(())) => {}
                (false, Err(error)) => assert!(error.to_string().contains("requires no password"), "{error}"),
                (_, other) => panic!("{assumed} {other:?}"),
            }
        }
    }
}
