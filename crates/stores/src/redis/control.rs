//! One question, one answer: the connection of control calls, and the beginning of every session's.

use std::time::Duration;

use storebench_engine::store::StoreError;

use super::resp::{self, Garbage, Value};
use super::settings::Settings;
use crate::connection::Dialog;
use crate::net::{Host, Secret, Stream, connect};

/// How long a server may take to be connected to, and to answer one question.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A connection, logged in, on which one thing is asked at a time.
pub(super) struct Connection {
    dialog: Dialog,
    host: Host,
    patience: Duration,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// `Unreachable` for host, port, TLS, user and password, or where something else than a Redis
    /// answers; `BadUrl` for a database that the server has not.
    pub(super) async fn open(settings: &Settings, host: &Host, patience: Duration) -> Result<Self, StoreError> {
        let stream = connect(host, settings.address.tls.as_ref(), patience).await?;
        let mut connection = Self { dialog: Dialog::new(stream), host: host.clone(), patience };
        // Asked before the password is sent: what is no Redis never sees it, and cannot repeat it.
        let mut greeting = connection.call(&[b"PING"]).await?;
        let (user, password) = (settings.address.user.as_deref(), &settings.address.password);
        // One variable holds the password for all servers of a study, of which some ask for none.
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
            other => return Err(resp::unexpected(&host.to_string(), "PING", &other)),
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
            // The line is the server's, and repeats no password; it is not shown to be sure of it.
            Value::Error(line) if line.contains("without any password configured") => {
                Err(StoreError::Unreachable(format!(
                    "{} asks for no password, but one was given (in the URL, by password_file= or password_env=); leave it \
                     out",
                    self.host
                )))
            }
            Value::Error(line) => {
                let code = line.split(' ').next().unwrap_or_default();
                Err(StoreError::Unreachable(format!(
                    "{} does not accept this user and password ({code}); are both right?",
                    self.host
                )))
            }
            other => Err(resp::unexpected(&self.host.to_string(), "AUTH", &other)),
        }
    }

    /// Asks something. An error of the server is an answer.
    pub(super) async fn call(&mut self, words: &[&[u8]]) -> Result<Value, StoreError> {
        let mut out = Vec::new();
        resp::command(&mut out, words.len());
        for word in words {
            resp::word(&mut out, word);
        }
        let (patience, host) = (self.patience, self.host.clone());
        let name = String::from_utf8_lossy(words.first().copied().unwrap_or_default()).into_owned();
        match tokio::time::timeout(patience, self.exchange(&out)).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Unreachable(format!(
                "{host} did not answer {name} within {patience:?}; is it a Redis, and is it well?"
            ))),
        }
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<Value, StoreError> {
        let broken = |host: &Host, e: std::io::Error| {
            StoreError::Unreachable(format!(
                "{host}: the connection broke: {e}; is it a Redis, is it well, and does it speak TLS (rediss://)?"
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
                        "{} answered `{shown}`, which no Redis does; is it another server behind that port, or one \
                         that speaks TLS (rediss://)?",
                        self.host
                    )));
                }
            }
        }
    }

    /// Asks something that must not be refused.
    pub(super) async fn ask(&mut self, words: &[&[u8]]) -> Result<Value, StoreError> {
        match self.call(words).await? {
            Value::Error(line) => {
                let name = String::from_utf8_lossy(words.first().copied().unwrap_or_default()).into_owned();
                Err(self.refusal(&name, &line))
            }
            value => Ok(value),
        }
    }

    /// Asks many things at once: the words of each, begun by how many they are, are in `requests`.
    pub(super) async fn ask_all(&mut self, requests: &[u8], count: usize) -> Result<Vec<Value>, StoreError> {
        let answers = self.answers(requests, count).await?;
        match answers.iter().find_map(|answer| if let Value::Error(line) = answer { Some(line) } else { None }) {
            Some(line) => Err(self.refusal("a command", line)),
            None => Ok(answers),
        }
    }

    /// The same, whatever they are answered with.
    pub(super) async fn answers(&mut self, requests: &[u8], count: usize) -> Result<Vec<Value>, StoreError> {
        let mut answers = Vec::with_capacity(count);
        let mut rest = requests;
        while answers.len() < count {
            let patience = self.patience;
            let answer = tokio::time::timeout(patience, self.exchange(rest)).await.map_err(|_| {
                StoreError::Unreachable(format!("{} did not answer within {patience:?}; is it well?", self.host))
            })??;
            rest = &[];
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Asks for a number.
    pub(super) async fn number(&mut self, words: &[&[u8]]) -> Result<i64, StoreError> {
        let value = self.ask(words).await?;
        value.number().ok_or_else(|| self.unexpected(words, &value))
    }

    /// One page of the server's keys from a cursor: the next cursor (0 when there are no more) and keys.
    pub(super) async fn scan(
        &mut self,
        cursor: u64,
        pattern: &[u8],
        count: u32,
        strings: bool,
    ) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let (cursor, count) = (cursor.to_string(), count.to_string());
        let mut words: Vec<&[u8]> = vec![b"SCAN", cursor.as_bytes(), b"MATCH", pattern, b"COUNT", count.as_bytes()];
        if strings {
            words.extend([&b"TYPE"[..], b"string"]);
        }
        let value = self.ask(&words).await?;
        let next = value.items().first().and_then(Value::text).and_then(|text| text.parse().ok());
        let (Some(next), Some(Value::Array(keys))) = (next, value.items().get(1)) else {
            return Err(self.unexpected(&words, &value));
        };
        let keys = keys.iter().filter_map(|key| match key {
            Value::Bulk(bytes) => Some(bytes.clone()),
            _ => None,
        });
        Ok((next, keys.collect()))
    }

    /// What `INFO` tells, as `name:value` lines.
    pub(super) async fn info(&mut self, section: &str) -> Result<Info, StoreError> {
        let words: [&[u8]; 2] = [b"INFO", section.as_bytes()];
        let value = self.ask(&words).await?;
        value.text().map(Info).ok_or_else(|| self.unexpected(&words, &value))
    }

    fn unexpected(&self, words: &[&[u8]], value: &Value) -> StoreError {
        let name = String::from_utf8_lossy(words.first().copied().unwrap_or_default());
        resp::unexpected(&self.host.to_string(), &name, value)
    }

    /// The error of a command that was refused.
    fn refusal(&self, command: &str, line: &str) -> StoreError {
        let host = &self.host;
        let shown: String = line.chars().take(200).collect();
        match line.split(' ').next().unwrap_or_default() {
            "NOAUTH" => StoreError::Unreachable(format!(
                "{host} asks for a password: give it in the URL, by password_file=, password_env= or STOREBENCH_PASSWORD"
            )),
            "NOPERM" => StoreError::Unreachable(format!(
                "{host} does not let this user run {command} (Redis: {shown}); give it the right, or use another user"
            )),
            "LOADING" => {
                StoreError::Unreachable(format!("{host} is still loading its data; try again when it has ended"))
            }
            "READONLY" => {
                StoreError::Unreachable(format!("{host} is a replica, which takes no writes; name its primary"))
            }
            _ => StoreError::Failed(format!("{host}: {command} failed (Redis: {shown})")),
        }
    }

    /// The connection for other use.
    ///
    /// # Errors
    /// `Unreachable` if it said more than it was asked.
    pub(super) fn into_stream(self) -> Result<Stream, StoreError> {
        let (stream, rest) = self.dialog.into_stream();
        if rest.is_empty() {
            return Ok(stream);
        }
        Err(StoreError::Unreachable(format!(
            "{} said more than it was asked, which no Redis does; is it another server behind that port?",
            self.host
        )))
    }
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

    /// Answers each `PING`, and a login as a server does that asks for none.
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
                (false, Err(error)) => assert!(error.to_string().contains("asks for no password"), "{error}"),
                (_, other) => panic!("{assumed} {other:?}"),
            }
        }
    }
}
