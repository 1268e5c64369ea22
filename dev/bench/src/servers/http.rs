//! A server that answers every read with one document, as CouchDB would. It is a thread of this program, so that its cost
//! is not the client's.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::Failure;

/// Starts the server and returns its port. It answers as long as this program runs.
pub(crate) fn serve(collection: &str, document: &str, after: Duration) -> Result<u16, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let answer = |headers: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\n{headers}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let members = document.strip_prefix('{').ok_or("a document is a JSON object")?;
    let revision = "1-967a00dff5e02add41819138abb3284d";
    let document = format!(r#"{{"_id":"documents/0000000000","_rev":"{revision}",{members}"#);
    let headers = format!("Server: CouchDB/3.3.3 (Erlang OTP/24)\r\nETag: \"{revision}\"\r\n");
    let answers = Answers {
        database: format!("GET /storebench%2D{collection}/"),
        after,
        welcome: answer("", r#"{"couchdb":"Welcome","version":"3.3.3"}"#),
        databases: answer("", &format!(r#"["storebench-{collection}"]"#)),
        marker: answer("", r#"{"made_by":"storebench","made_for":"collection; study"}"#),
        information: answer("", r#"{"doc_count":100000}"#),
        document: answer(&headers, &document),
    };
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        let answers: &'static Answers = Box::leak(Box::new(answers));
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            while let Ok((stream, _)) = listener.accept().await {
                // Otherwise a send would wait for an acknowledgement, and the figure would include that.
                let _ = stream.set_nodelay(true);
                tokio::spawn(answers.serve(stream));
            }
        });
    });
    Ok(port)
}

/// What the server answers, head and body.
struct Answers {
    /// The path of the database.
    database: String,
    /// How long it takes to answer.
    after: Duration,
    welcome: String,
    databases: String,
    marker: String,
    information: String,
    document: String,
}

impl Answers {
    /// Requests arrive one at a time and complete, because both clients wait for each answer.
    async fn serve(&'static self, stream: tokio::net::TcpStream) {
        let mut request = vec![0; 4_096];
        loop {
            if stream.readable().await.is_err() {
                return;
            }
            let answer = match stream.try_read(&mut request) {
                Ok(0) => return,
                Ok(length) => self.to(&request[..length]),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => return,
            };
            if !self.after.is_zero() {
                tokio::time::sleep(self.after).await;
            }
            // A drained socket accepts an answer of this size at once.
            if !matches!(stream.try_write(answer.as_bytes()), Ok(written) if written == answer.len()) {
                return;
            }
        }
    }

    fn to(&self, request: &[u8]) -> &str {
        let begins = |path: &str| request.starts_with(path.as_bytes());
        let within = request.strip_prefix(self.database.as_bytes()).unwrap_or_default();
        match () {
            () if begins("GET / ") => &self.welcome,
            () if begins("GET /_all_dbs") => &self.databases,
            () if within.starts_with(b"_local") => &self.marker,
            () if within.starts_with(b" ") => &self.information,
            () => &self.document,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn the_server_answers_a_document_to_any_key() {
        let port = serve("documents", r#"{"text":"x"}"#, Duration::ZERO).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        for _ in 0..2 {
            let path = "/storebench-documents/documents%2F0000000000";
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
            let mut room = [0; 1_000];
            let length = stream.read(&mut room).unwrap();
            let text = String::from_utf8_lossy(&room[..length]);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with(r#","text":"x"}"#), "{text}");
        }
    }
}
