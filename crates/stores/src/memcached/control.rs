//! A request-response connection: for control calls, and for the start of every session.

use std::time::Duration;

use storebench_engine::store::StoreError;

use crate::connection::Dialog;
use crate::net::{Address, Host, Stream, connect};

/// The timeout for connecting to a server, and for each of its answers.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum length of a line from the server.
const LONGEST_LINE: usize = 64 << 10;

/// A connection after login, with one request at a time.
pub(super) struct Connection {
    dialog: Dialog,
    pub(super) host: Host,
    patience: Duration,
}

impl Connection {
    /// Connects, logs in, and checks that the server supports the meta protocol.
    ///
    /// # Errors
    /// `Unreachable` for a wrong host, port, user or password, for a server that is too old, and if the server is not
    /// memcached.
    pub(super) async fn open(address: &Address, patience: Duration) -> Result<(Self, String), StoreError> {
        let host = address.host();
        let stream = connect(host, None, patience).await?;
        let mut connection = Self { dialog: Dialog::new(stream), host: host.clone(), patience };
        // Ask before sending the password, because a server without authentication would store it as a document.
        let mut answer = connection.ask(b"version\r\n").await?;
        let asks = !answer.starts_with("VERSION ");
        // One variable holds the password for all servers of a study, but some need none.
        if let Some(password) = &address.password
            && (asks || !address.password_assumed)
        {
            if !asks {
                return Err(StoreError::Unreachable(format!(
                    "{host} requires no password, but one was given (in the URL, password_file= or password_env=); \
                     remove it"
                )));
            }
            if password.expose().contains([' ', '\r', '\n']) {
                return Err(StoreError::Unreachable(format!(
                    "{host} requires a password, but memcached accepts none that contains a space; set another"
                )));
            }
            if !answer.contains("unauthenticated") {
                return Err(connection.refusal("version", &answer));
            }
            let user = address.user.as_deref().unwrap_or_default();
            let login = format!("{user} {}", password.expose());
            let request = format!("set auth 0 0 {}\r\n{login}\r\n", login.len());
            if connection.ask(request.as_bytes()).await? != "STORED" {
                return Err(StoreError::Unreachable(format!("{host} rejected this user and password; check both")));
            }
            answer = connection.ask(b"version\r\n").await?;
        }
        let Some(version) = answer.strip_prefix("VERSION ") else {
            return Err(connection.refusal("version", &answer));
        };
        let version = version.to_owned();
        // Base64 keys are the newest feature that the driver uses. This reads such a key, which does not exist.
        let probe = connection.ask(b"mg c3RvcmViZW5jaCBwcm9iZQ== b\r\n").await?;
        if probe != "EN" && !probe.starts_with("HD") {
            return Err(StoreError::Unreachable(format!(
                "{host} is memcached {version}, which does not support the meta protocol with base64 keys (it answered \
                 `{probe}`); use 1.6.10 or later"
            )));
        }
        Ok((connection, version))
    }

    /// The error of an unexpected answer.
    pub(super) fn refusal(&self, asked: &str, answer: &str) -> StoreError {
        let host = &self.host;
        let shown: String = answer.chars().take(60).collect::<String>().escape_debug().to_string();
        if answer.contains("unauthenticated") {
            return StoreError::Unreachable(format!(
                "{host} requires a user and a password; give them in the URL, password_file=, password_env= or \
                 STOREBENCH_PASSWORD"
            ));
        }
        StoreError::Unreachable(format!(
            "{host} answered {asked} with `{shown}`, which is not a memcached answer; check that this port is memcached"
        ))
    }

    /// Sends a request and returns the first line of the answer.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<String, StoreError> {
        self.send(request).await?;
        self.line().await.map(|line| String::from_utf8_lossy(&line).into_owned())
    }

    /// Sends without waiting for an answer.
    pub(super) async fn send(&mut self, request: &[u8]) -> Result<(), StoreError> {
        let sent = tokio::time::timeout(self.patience, self.dialog.send(request)).await;
        self.in_time(sent)
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        let read = tokio::time::timeout(self.patience, self.dialog.read()).await;
        self.in_time(read)
    }

    fn in_time(&self, done: Result<std::io::Result<()>, tokio::time::error::Elapsed>) -> Result<(), StoreError> {
        let (host, patience) = (&self.host, self.patience);
        let why = match done {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => format!("{host}: the connection broke: {error}"),
            Err(_) => format!("{host} did not answer within {patience:?}"),
        };
        Err(StoreError::Unreachable(format!("{why}; check that memcached is running")))
    }

    /// The next line, without its end.
    pub(super) async fn line(&mut self) -> Result<Vec<u8>, StoreError> {
        loop {
            if let Some(length) = memchr::memchr(b'\n', self.dialog.input()) {
                return Ok(self.dialog.take(length + 1).trim_ascii_end().to_vec());
            }
            if self.dialog.input().len() > LONGEST_LINE {
                return Err(self.refusal("a request", "a line without end"));
            }
            self.read().await?;
        }
    }

    /// Reads `bytes` bytes and the end of their line. Returns the bytes.
    pub(super) async fn block(&mut self, bytes: usize) -> Result<Vec<u8>, StoreError> {
        while self.dialog.input().len() < bytes + 2 {
            self.read().await?;
        }
        Ok(self.dialog.take(bytes + 2)[..bytes].to_vec())
    }

    /// The names and values of `stats`.
    pub(super) async fn stats(&mut self, which: &str) -> Result<Vec<(String, String)>, StoreError> {
        let request = if which.is_empty() { "stats\r\n".to_owned() } else { format!("stats {which}\r\n") };
        self.send(request.as_bytes()).await?;
        let mut all = Vec::new();
        loop {
            let line = String::from_utf8_lossy(&self.line().await?).into_owned();
            if line == "END" || line == "RESET" {
                return Ok(all);
            }
            let pair = line.strip_prefix("STAT ").and_then(|rest| rest.split_once(' '));
            let Some((name, value)) = pair else { return Err(self.refusal("stats", &line)) };
            all.push((name.to_owned(), value.to_owned()));
        }
    }

    /// The connection for other uses.
    ///
    /// # Errors
    /// `Unreachable` if the server sent more than the awaited answers.
    pub(super) fn into_stream(self) -> Result<Stream, StoreError> {
        if !self.dialog.input().is_empty() {
            return Err(self.refusal("no request", &String::from_utf8_lossy(self.dialog.input())));
        }
        Ok(self.dialog.into_stream().0)
    }
}

/// The value of a name.
pub(super) fn find<'s>(stats: &'s [(String, String)], name: &str) -> Option<&'s str> {
    stats.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::memcached::settings::Settings;
    use crate::registry::Options;

    /// A server without a password, which must never receive one.
    async fn open_server(listener: tokio::net::TcpListener) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 512];
        while let Ok(bytes @ 1..) = stream.read(&mut request).await {
            let answer = if request[..bytes] == *b"version\r\n" { "VERSION 1.6.18\r\n" } else { "EN\r\n" };
            assert!(!request[..bytes].starts_with(b"set"), "it would store the password");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    #[test]
    fn a_password_that_nobody_asks_for_stays_here_or_is_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for assumed in [true, false] {
            let opened = runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let url = format!("memcached://:hush@127.0.0.1:{}", listener.local_addr().unwrap().port());
                let mut settings = Settings::read(&url, &mut Options::for_test("")).unwrap();
                settings.address.password_assumed = assumed;
                tokio::spawn(open_server(listener));
                Connection::open(&settings.address, PATIENCE).await.map(|(_, version)| version)
            });
            match (assumed, opened) {
                (true, Ok(version)) => assert_eq!(version, "1.6.18"),
                (false, Err(error)) => assert!(error.to_string().contains("requires no password"), "{error}"),
                (_, other) => panic!("{assumed} {other:?}"),
            }
        }
    }
}
