//! A server that speaks as much of MongoDB's protocol as a test wants, and misbehaves as it wants.
//!
//! It knows `OP_MSG` alone, keeps nothing, and answers each command with what a function gives.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use bson::{Bson, Document, doc};

/// What a fake does with a command.
pub enum Reply {
    /// Answers with a document.
    Answer(Document),
    /// Sends these bytes instead of an answer, then closes.
    Bytes(Vec<u8>),
    /// Says nothing, for ever.
    Silence,
    /// Closes the connection.
    Close,
}

/// What `hello` answers: one server.
pub fn single() -> Document {
    doc! {
        "ok": 1.0, "isWritablePrimary": true, "maxBsonObjectSize": 16 << 20, "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000, "minWireVersion": 0, "maxWireVersion": 21,
    }
}

/// The port of a fake that answers commands by this function.
///
/// # Errors
/// When no port can be had.
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
        let mut header = [0; 16];
        stream.read_exact(&mut header).ok()?;
        let length = u32::from_le_bytes(*header.first_chunk()?) as usize;
        // A greeting by TLS is no message.
        if !(16..16 << 20).contains(&length) || header[12..] != 2013_u32.to_le_bytes() {
            return None;
        }
        let mut body = vec![0; length - 16];
        stream.read_exact(&mut body).ok()?;
        let command = command(body.get(4..)?)?;
        let name = command.keys().next()?.clone();
        match answer(&name, &command) {
            Reply::Answer(document) => {
                let document = document.to_vec().ok()?;
                let mut reply = (21 + document.len() as u32).to_le_bytes().to_vec();
                reply.extend_from_slice(&[0; 4]);
                reply.extend_from_slice(&header[4..8]);
                reply.extend_from_slice(&2013_u32.to_le_bytes());
                reply.extend_from_slice(&[0; 5]);
                reply.extend_from_slice(&document);
                stream.write_all(&reply).ok()?;
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

/// The command of a message, sequences of documents as arrays; none of what is no message.
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

/// What a fake answers to the control calls around a test: an empty database that takes everything.
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
