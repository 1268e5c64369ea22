//! A fake server that speaks MongoDB's protocol and misbehaves as a test requires, and an independent client for a real
//! server.
//!
//! Both support only `OP_MSG`. The server stores nothing: a function gives the answer to each command. [`ReplicaSet`]
//! stores documents.

mod replica_set;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use bson::{Bson, Document, doc};

pub use replica_set::ReplicaSet;

/// What a fake does with a command.
pub enum Reply {
    /// Answers with a document.
    Answer(Document),
    /// Sends these bytes instead of an answer, then closes.
    Bytes(Vec<u8>),
    /// Never answers.
    Silence,
    /// Closes the connection.
    Close,
}

/// The answer to `hello` of a single server.
pub fn single() -> Document {
    doc! {
        "ok": 1.0, "isWritablePrimary": true, "maxBsonObjectSize": 16 << 20, "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000, "minWireVersion": 0, "maxWireVersion": 21,
    }
}

/// Starts a fake that answers commands with this function. Returns the port.
///
/// # Errors
/// If no port is available.
pub fn serve(answer: impl Fn(&str, &Document) -> Reply + Send + Sync + 'static) -> std::io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || talk(stream, &*answer));
        }
    });
    Ok(port)
}

fn talk(mut stream: TcpStream, answer: &dyn Fn(&str, &Document) -> Reply) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    loop {
        let (id, body) = receive(&mut stream)?;
        let command = command(body.get(4..)?)?;
        let name = command.keys().next()?.clone();
        match answer(&name, &command) {
            Reply::Answer(document) => {
                stream.write_all(&message(id, &document.to_vec().ok()?)).ok()?;
            }
            Reply::Bytes(bytes) => {
                stream.write_all(&bytes).ok()?;
                return None;
            }
            Reply::Silence => std::thread::sleep(std::time::Duration::from_secs(3_600)),
            Reply::Close => return None,
        }
    }
}

/// The id and body of the next message. `None` if the other side closes the connection or sends no valid message.
fn receive(stream: &mut TcpStream) -> Option<([u8; 4], Vec<u8>)> {
    let mut header = [0; 16];
    stream.read_exact(&mut header).ok()?;
    let length = u32::from_le_bytes(*header.first_chunk()?) as usize;
    // A TLS handshake is not a message.
    if !(16..16 << 20).contains(&length) || header[12..] != 2013_u32.to_le_bytes() {
        return None;
    }
    let mut body = vec![0; length - 16];
    stream.read_exact(&mut body).ok()?;
    Some((*header[4..].first_chunk()?, body))
}

/// A message with one document, in answer to the message with this id.
fn message(answers: [u8; 4], document: &[u8]) -> Vec<u8> {
    let mut message = (21 + document.len() as u32).to_le_bytes().to_vec();
    message.extend_from_slice(&[0; 4]);
    message.extend_from_slice(&answers);
    message.extend_from_slice(&2013_u32.to_le_bytes());
    message.extend_from_slice(&[0; 5]);
    message.extend_from_slice(document);
    message
}

/// The command in a message, with document sequences as arrays. `None` if it is not a valid message.
fn command(mut sections: &[u8]) -> Option<Document> {
    let mut command = Document::new();
    while let Some((kind, rest)) = sections.split_first() {
        let length = u32::from_le_bytes(rest.first_chunk().copied()?) as usize;
        let (section, after) = rest.split_at_checked(length)?;
        sections = after;
        if *kind == 0 {
            command.extend(Document::from_reader(section).ok()?);
            continue;
        }
        let name_end = section.get(4..)?.iter().position(|b| *b == 0)? + 4;
        let name = String::from_utf8(section[4..name_end].to_vec()).ok()?;
        let mut documents = &section[name_end + 1..];
        let mut list = Vec::new();
        while !documents.is_empty() {
            list.push(Bson::Document(Document::from_reader(&mut documents).ok()?));
        }
        command.insert(name, list);
    }
    Some(command)
}

/// A fake's answers to the control calls around a test: those of an empty database that accepts everything.
pub fn usual(name: &str, hello: &Document) -> Document {
    match name {
        "hello" => hello.clone(),
        "buildInfo" => doc! { "ok": 1.0, "version": "8.0.1" },
        "listCollections" | "find" | "aggregate" => {
            doc! { "ok": 1.0, "cursor": { "id": 0_i64, "ns": "d.c", "firstBatch": [] } }
        }
        _ => doc! { "ok": 1.0, "n": 1 },
    }
}

/// An independent client of a real server. It sends one command at a time.
pub struct Client(Mutex<TcpStream>);

impl Client {
    /// Connects to `mongodb://HOST:PORT`.
    ///
    /// # Errors
    /// If the server is unreachable.
    pub fn connect(url: &str) -> io::Result<Self> {
        let host = url.trim_start_matches("mongodb://").split('/').next().unwrap_or_default();
        TcpStream::connect(host).map(|stream| Self(Mutex::new(stream)))
    }

    /// Runs a command. Returns the server's answer.
    ///
    /// # Errors
    /// If the connection breaks, or the server refuses the command.
    pub fn run(&self, database: &str, mut command: Document) -> io::Result<Document> {
        command.insert("$db", database);
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = command.to_vec().map_err(io::Error::other)?;
        stream.write_all(&message([0; 4], &bytes))?;
        let answer = receive(&mut stream).and_then(|(_, body)| self::command(body.get(4..)?));
        let answer = answer.ok_or(io::ErrorKind::UnexpectedEof)?;
        let is_ok = answer.get("ok").is_some_and(|ok| matches!(ok, Bson::Double(1.0) | Bson::Int32(1)));
        let refused = !is_ok || answer.contains_key("writeErrors");
        if refused { Err(io::Error::other(answer.to_string())) } else { Ok(answer) }
    }

    /// Inserts documents.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn insert(&self, database: &str, collection: &str, documents: Vec<Document>) -> io::Result<()> {
        self.run(database, doc! { "insert": collection, "documents": documents }).map(drop)
    }

    /// The matching documents, sorted by key.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn find(&self, database: &str, collection: &str, filter: Document) -> io::Result<Vec<Document>> {
        self.all(database, doc! { "find": collection, "filter": filter, "sort": { "_id": 1 }, "batchSize": 10_000 })
    }

    /// The names of a database's collections, sorted.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn collections(&self, database: &str) -> io::Result<Vec<String>> {
        let mut names = names(self.all(database, doc! { "listCollections": 1 })?);
        names.sort();
        Ok(names)
    }

    /// The names of a collection's indexes.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn indexes(&self, database: &str, collection: &str) -> io::Result<Vec<String>> {
        Ok(names(self.all(database, doc! { "listIndexes": collection })?))
    }

    /// Everything that a command lists. It must fit into the first answer.
    fn all(&self, database: &str, command: Document) -> io::Result<Vec<Document>> {
        let answer = self.run(database, command)?;
        let cursor = answer.get_document("cursor").map_err(io::Error::other)?;
        if cursor.get_i64("id").ok() != Some(0) {
            return Err(io::Error::other("more than this client reads"));
        }
        let batch = cursor.get_array("firstBatch").map_err(io::Error::other)?;
        Ok(batch.iter().filter_map(|listed| listed.as_document().cloned()).collect())
    }
}

fn names(listed: Vec<Document>) -> Vec<String> {
    listed.iter().filter_map(|one| one.get_str("name").ok().map(str::to_owned)).collect()
}
