//! A server for which response times can be computed: every GET and SET takes exactly the same time, and once the server
//! freezes. All other commands go to a real Redis, so that clients find what they need when they begin.
//!
//! It runs as a child of this program, pinned to a processor, and never sleeps except while it is frozen.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::epoll;

use crate::options::STUB;
use crate::{Failure, pin};

/// What a GET or SET takes.
pub(super) const SERVICE: Duration = Duration::from_millis(1);
/// How long after the first GET or SET it freezes, and for how long.
pub(super) const FREEZE_AFTER: Duration = Duration::from_secs(5);
pub(super) const FREEZE: Duration = Duration::from_millis(500);

/// The server, until this value is dropped.
pub(super) struct Stub {
    child: Child,
    pub(super) port: u16,
}

impl Stub {
    /// `redis` is the port of the real one.
    pub(super) fn start(redis: u16) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args([STUB, &redis.to_string()]).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let mut out = io::BufReader::new(child.stdout.take().ok_or("the stub has no output")?);
        io::BufRead::read_line(&mut out, &mut line)?;
        let port = line.trim().parse();
        let stub = Self { child, port: port.as_ref().copied().unwrap_or(0) };
        port.map(|_| stub).map_err(|_| format!("the stub did not start: {line}").into())
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Connection {
    stream: TcpStream,
    /// The real Redis, for this client.
    behind: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// The child: serves until it is killed. Prints its port.
pub(crate) fn child(redis: u16) -> Result<(), Failure> {
    pin::this_thread();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    crate::print(&listener.local_addr()?.port().to_string())?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(u64::MAX), epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut due: VecDeque<(Instant, usize, bool)> = VecDeque::new();
    let mut freeze_at = None;
    // go-ycsb reads JSON with fields in Base64.
    let value = format!("$1024\r\n{{\"field0\":\"{}\"}}   \r\n", "x".repeat(1_008));
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&rustix::fs::Timespec::default()))?;
        for event in &events {
            match event.data.u64() {
                u64::MAX => {
                    while let Ok((stream, _)) = listener.accept() {
                        stream.set_nonblocking(true)?;
                        stream.set_nodelay(true)?;
                        let number = epoll::EventData::new_u64(connections.len() as u64);
                        epoll::add(&poll, &stream, number, epoll::EventFlags::IN)?;
                        let behind = TcpStream::connect(("127.0.0.1", redis))?;
                        connections.push(Some(Connection { stream, behind, input: Vec::new(), output: Vec::new() }));
                    }
                }
                number => {
                    let number = number as usize;
                    let Some(connection) = connections.get_mut(number).and_then(Option::as_mut) else { continue };
                    if !fill(&mut connection.stream, &mut connection.input) {
                        epoll::delete(&poll, connection.stream.as_fd())?;
                        connections[number] = None;
                        continue;
                    }
                    let now = Instant::now();
                    let mut used = 0;
                    while let Some(command) = parse(&connection.input[used..]) {
                        match command.timed {
                            Some(reads) => {
                                freeze_at.get_or_insert(now + FREEZE_AFTER);
                                due.push_back((now + SERVICE, number, reads));
                            }
                            None => {
                                let bytes = &connection.input[used..used + command.length];
                                forward(&mut connection.behind, bytes, &mut connection.output)?;
                            }
                        }
                        used += command.length;
                    }
                    connection.input.drain(..used);
                    send(connection);
                }
            }
        }
        let now = Instant::now();
        if let Some(begins) = freeze_at
            && now >= begins
            && now < begins + FREEZE
        {
            std::thread::sleep(begins + FREEZE - now - Duration::from_millis(1));
            while Instant::now() < begins + FREEZE {
                std::hint::spin_loop();
            }
            continue;
        }
        while let Some((at, number, reads)) = due.front().copied()
            && at <= now
        {
            due.pop_front();
            if let Some(connection) = &mut connections[number] {
                connection.output.extend_from_slice(if reads { value.as_bytes() } else { b"+OK\r\n" });
                if due.front().is_none_or(|next| next.0 > now || next.1 != number) {
                    send(connection);
                }
            }
        }
        // What a socket did not take goes as soon as it does, not with the next answer.
        connections.iter_mut().flatten().for_each(send);
    }
}

/// Reads what is there. Returns false at the end of the connection.
fn fill(stream: &mut TcpStream, input: &mut Vec<u8>) -> bool {
    let mut room = [0; 16 << 10];
    loop {
        match stream.read(&mut room) {
            Ok(0) => return false,
            Ok(bytes) => input.extend_from_slice(&room[..bytes]),
            Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// Writes what fits now.
fn send(connection: &mut Connection) {
    while !connection.output.is_empty() {
        match connection.stream.write(&connection.output) {
            Ok(bytes) if bytes > 0 => drop(connection.output.drain(..bytes)),
            _ => return,
        }
    }
}

/// A complete command.
struct Parsed {
    length: usize,
    /// Whether it is a GET (true) or a SET (false) of a document, which takes its time.
    timed: Option<bool>,
}

fn parse(input: &[u8]) -> Option<Parsed> {
    let (count, mut at) = number(input, b'*')?;
    let mut words: [&[u8]; 2] = [&[]; 2];
    for number_of_word in 0..count {
        let (length, after) = number(&input[at..], b'$')?;
        let begin = at + after;
        at = begin + length + 2;
        let text = input.get(begin..at)?;
        if let Some(word) = words.get_mut(number_of_word) {
            *word = &text[..length];
        }
    }
    let [name, key] = words;
    let document = !key.starts_with(b"storebench") || key.starts_with(b"storebench:docs:");
    let timed = match name {
        _ if !document => None,
        name if name.eq_ignore_ascii_case(b"GET") => Some(true),
        name if name.eq_ignore_ascii_case(b"SET") => Some(false),
        _ => None,
    };
    Some(Parsed { length: at, timed })
}

/// A line such as `*3`, and where the next one begins.
fn number(input: &[u8], kind: u8) -> Option<(usize, usize)> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let text = input.strip_prefix(&[kind])?.get(..end.checked_sub(2)?)?;
    Some((std::str::from_utf8(text).ok()?.parse().ok()?, end + 1))
}

/// Sends a command to the real Redis, and waits for its answer.
fn forward(redis: &mut TcpStream, command: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
    redis.write_all(command)?;
    let begin = output.len();
    let mut room = [0; 16 << 10];
    while answer(&output[begin..]).is_none() {
        match redis.read(&mut room)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => output.extend_from_slice(&room[..bytes]),
        }
    }
    Ok(())
}

/// The length of a complete answer.
fn answer(input: &[u8]) -> Option<usize> {
    let line = input.iter().position(|byte| *byte == b'\n')? + 1;
    let count = |kind| number(input, kind).map_or(0, |(count, _)| count);
    match input[0] {
        b'$' if input[1] != b'-' => Some(line + count(b'$') + 2).filter(|length| input.len() >= *length),
        b'*' | b'~' | b'%' => {
            let kind = input[0];
            let mut at = line;
            for _ in 0..count(kind) * if kind == b'%' { 2 } else { 1 } {
                at += answer(&input[at..])?;
            }
            Some(at)
        }
        _ => Some(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_answers_are_told_apart() {
        let parsed = |text: &str| parse(text.as_bytes()).map(|command| (command.length, command.timed));
        let get = "*2\r\n$3\r\nGET\r\n$4\r\nuser\r\n";
        assert_eq!(parsed(get), Some((get.len(), Some(true))));
        assert_eq!(parsed(&get[..get.len() - 1]), None);
        assert_eq!(parsed("*1\r\n$4\r\nPING\r\n*1").map(|found| found.1), Some(None));
        let marker = "*2\r\n$3\r\nget\r\n$10\r\nstorebench\r\n";
        assert_eq!(parsed(marker), Some((marker.len(), None)));
        for whole in ["+OK\r\n", "$-1\r\n", "$3\r\nabc\r\n", "*2\r\n:1\r\n*1\r\n$1\r\na\r\n", "%1\r\n+a\r\n:1\r\n"] {
            assert_eq!(answer(whole.as_bytes()), Some(whole.len()), "{whole}");
            assert_eq!(answer(&whole.as_bytes()[..whole.len() - 1]), None, "{whole}");
        }
    }
}
