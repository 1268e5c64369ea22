//! Tests of a session against small scripted servers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use storebench_engine::FakeClock;
use storebench_engine::store::{
    CollectionId, Durability, ErrorKind, Op, OpError, OwnedReply, PhaseStart, ReadConsistency, Reply, Request, Session,
    SessionOptions, StoreError, Token,
};

use super::wire::{Failure, Wire};
use super::*;
use crate::net::Host;

/// Reads by GET, upserts by PUT, replaces by HEAD and then PUT.
#[derive(Default)]
pub(super) struct Plain;

#[derive(Default)]
pub(super) struct Memory {
    key: String,
    body: Vec<u8>,
    then_put: bool,
    changes: bool,
}

impl Dialect for Plain {
    type State = Memory;

    fn begin<'a>(&'a mut self, request: &Request<'_>, state: &'a mut Memory, out: &mut RequestBuf) -> Next<'a> {
        *state = Memory::default();
        match request.op {
            Op::Read { key } => {
                out.begin(Method::GET).raw("/").segment(key);
            }
            Op::Upsert { key, body } => {
                out.begin(Method::PUT).raw("/").segment(key).body().extend_from_slice(body);
                state.changes = true;
            }
            Op::Replace { key, body } => {
                out.begin(Method::HEAD).raw("/").segment(key);
                (state.key, state.body, state.then_put) = (key.to_owned(), body.to_vec(), true);
            }
            _ => return Err(OpError::unsupported()),
        }
        Ok(None)
    }

    fn answer<'a>(
        &'a mut self,
        state: &'a mut Memory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let answer = answer?;
        if !answer.is_success() {
            return Err(status_error(&answer, out.changes()));
        }
        if std::mem::take(&mut state.then_put) {
            out.begin(Method::PUT).raw("/").segment(&state.key).body().extend_from_slice(&state.body);
            return Ok(None);
        }
        Ok(Some(Reply { documents: 1, body: Some(answer.body), ..Reply::default() }))
    }
}

/// A server that passes each connection, with its number, to a function on its own thread.
pub(super) fn serve(each: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let each = Arc::new(each);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (each, Ok(stream)) = (Arc::clone(&each), stream) else { break };
            thread::spawn(move || each(number, stream));
        }
    });
    port
}

/// Reads one request. Returns its first line and body, or `None` at the end.
pub(super) fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut room = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length:"));
            let length: usize = length.map_or(0, |text| text.trim().parse().unwrap());
            if bytes.len() >= end + 4 + length {
                return Some((head.lines().next().unwrap().to_owned(), bytes[end + 4..].to_vec()));
            }
        }
        match stream.read(&mut room) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&room[..n]),
        }
    }
}

fn answer(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
}

pub(super) fn options(in_flight: u32) -> SessionOptions {
    SessionOptions {
        durability: Durability::OS,
        consistency: ReadConsistency::Strong,
        timeout: Duration::from_secs(10),
        in_flight,
        clock: Arc::new(FakeClock::new()),
        phase_start: PhaseStart::new(),
    }
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub(super) async fn session(port: u16, in_flight: u32) -> Result<HttpSession<Plain>, StoreError> {
    let target = Target { host: Host { name: "127.0.0.1".into(), port }, tls: None, headers: [].as_slice().into() };
    HttpSession::open(Plain, target, &options(in_flight)).await
}

pub(super) type Ended = Vec<(u64, Result<OwnedReply, OpError>)>;

fn push(ended: &mut Ended) -> impl FnMut(Token, Result<Reply<'_>, OpError>) {
    |token: Token, result: Result<Reply<'_>, OpError>| ended.push((token.0, result.map(OwnedReply::from)))
}

pub(super) fn submit(session: &mut HttpSession<Plain>, number: u64, op: Op<'_>, ended: &mut Ended) {
    session.submit(&Request { collection: CollectionId(0), op, contents: true }, Token(number), &mut push(ended));
}

/// Flushes and polls until `count` operations have ended.
pub(super) async fn finish(session: &mut HttpSession<Plain>, count: usize, ended: &mut Ended) {
    session.flush();
    std::future::poll_fn(|cx| {
        let _ = session.poll(cx, &mut push(ended));
        if ended.len() >= count { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

fn text(ended: &Ended, number: u64) -> String {
    let (_, result) = ended.iter().find(|(n, _)| *n == number).unwrap();
    match result {
        Ok(reply) => String::from_utf8_lossy(reply.as_reply().body.unwrap_or_default()).into_owned(),
        Err(error) => error.kind.to_string(),
    }
}

#[test]
fn more_operations_than_connections_each_get_their_own_answer() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let port = serve(move |_, mut stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        while let Some((line, body)) = request(&mut stream) {
            answer(&mut stream, &format!("{line} {}", String::from_utf8_lossy(&body)));
        }
    });
    runtime().block_on(async {
        let mut session = session(port, 3).await.unwrap();
        let mut ended = Ended::new();
        for n in 0..50 {
            let key = format!("k{n}");
            let op = match n % 3 {
                0 => Op::Read { key: &key },
                1 => Op::Upsert { key: &key, body: b"{}" },
                _ => Op::Replace { key: &key, body: b"[]" },
            };
            submit(&mut session, n, op, &mut ended);
        }
        finish(&mut session, 50, &mut ended).await;
        assert_eq!(ended.len(), 50);
        for n in 0..50 {
            let expected = match n % 3 {
                0 => format!("GET /k{n} HTTP/1.1 "),
                1 => format!("PUT /k{n} HTTP/1.1 {{}}"),
                _ => format!("PUT /k{n} HTTP/1.1 []"),
            };
            // An answer to HEAD has a length but no body. This server sends one, which is ignored.
            if n % 3 != 2 {
                assert_eq!(text(&ended, n), expected);
            }
        }
        assert!(connections.load(Ordering::SeqCst) >= 3);
    });
}

#[test]
fn a_write_that_was_sent_and_not_answered_is_unknown_and_a_read_temporary() {
    let port = serve(|number, mut stream| {
        if number < 2 {
            request(&mut stream);
        } else {
            while let Some((line, _)) = request(&mut stream) {
                answer(&mut stream, &line);
            }
        }
    });
    runtime().block_on(async {
        let mut session = session(port, 2).await.unwrap();
        let mut ended = Ended::new();
        submit(&mut session, 1, Op::Upsert { key: "a", body: b"{}" }, &mut ended);
        submit(&mut session, 2, Op::Read { key: "a" }, &mut ended);
        finish(&mut session, 2, &mut ended).await;
        assert_eq!((text(&ended, 1), text(&ended, 2)), ("outcome-unknown".into(), "temporary".into()));
        assert_eq!(session.counters().disconnects, 2);
        // The session has reconnected by itself.
        submit(&mut session, 3, Op::Read { key: "b" }, &mut ended);
        finish(&mut session, 3, &mut ended).await;
        assert_eq!(text(&ended, 3), "GET /b HTTP/1.1");
    });
}

#[test]
fn what_a_multi_step_write_lost_while_it_only_read_is_temporary() {
    let port = serve(|_, mut stream| {
        request(&mut stream);
    });
    runtime().block_on(async {
        let mut session = session(port, 1).await.unwrap();
        let mut ended = Ended::new();
        submit(&mut session, 1, Op::Replace { key: "a", body: b"{}" }, &mut ended);
        finish(&mut session, 1, &mut ended).await;
        assert_eq!(text(&ended, 1), "temporary");
    });
}

#[test]
fn connections_that_the_server_closes_while_idle_or_after_each_answer_cost_no_operation() {
    let port = serve(|number, mut stream| {
        if number % 2 == 0 {
            return;
        }
        let Some((line, _)) = request(&mut stream) else { return };
        let text = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{line}", line.len());
        let _ = stream.write_all(text.as_bytes());
    });
    runtime().block_on(async {
        let mut session = session(port, 2).await.unwrap();
        let mut ended = Ended::new();
        for n in 0..10 {
            // Long enough to notice that an idle connection was closed.
            tokio::time::sleep(Duration::from_millis(20)).await;
            submit(&mut session, n, Op::Read { key: "a" }, &mut ended);
            finish(&mut session, n as usize + 1, &mut ended).await;
        }
        let answered = ended.iter().filter(|(_, result)| result.is_ok()).count();
        assert!(answered >= 5, "{ended:?}");
        for (_, result) in &ended {
            assert!(result.as_ref().err().is_none_or(|error| error.kind == ErrorKind::Temporary), "{result:?}");
        }
    });
}

#[test]
fn what_takes_connections_only_to_close_them_is_not_asked_without_end() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let port = serve(move |_, stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        drop(stream);
    });
    runtime().block_on(async {
        let mut session = session(port, 1).await.unwrap();
        let mut ended = Ended::new();
        let polled = std::future::poll_fn(|cx| {
            let _ = session.poll(cx, &mut push(&mut ended));
            std::task::Poll::<()>::Pending
        });
        let _ = tokio::time::timeout(Duration::from_millis(300), polled).await;
    });
    // Each wait is twice as long as the one before.
    let connections = connections.load(Ordering::SeqCst);
    assert!((2..20).contains(&connections), "{connections}");
}

#[test]
fn an_abandoned_operation_never_completes_and_its_late_answer_is_nobodys() {
    let port = serve(|number, mut stream| {
        while let Some((line, _)) = request(&mut stream) {
            if number == 0 {
                thread::sleep(Duration::from_millis(50));
            }
            answer(&mut stream, &line);
        }
    });
    runtime().block_on(async {
        let mut session = session(port, 1).await.unwrap();
        let mut ended = Ended::new();
        submit(&mut session, 1, Op::Read { key: "late" }, &mut ended);
        session.flush();
        session.abandon(Token(1));
        submit(&mut session, 2, Op::Read { key: "next" }, &mut ended);
        finish(&mut session, 1, &mut ended).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(ended.len(), 1);
        assert_eq!(text(&ended, 2), "GET /next HTTP/1.1");
        // Abandoning an unsent operation closes no connection.
        submit(&mut session, 3, Op::Read { key: "never" }, &mut ended);
        session.abandon(Token(3));
        submit(&mut session, 4, Op::Read { key: "then" }, &mut ended);
        finish(&mut session, 2, &mut ended).await;
        assert_eq!(text(&ended, 4), "GET /then HTTP/1.1");
        assert_eq!(session.counters().disconnects, 0);
    });
}

#[test]
fn a_request_that_cannot_be_sent_is_refused_and_the_next_one_is_answered() {
    let port = serve(|_, mut stream| {
        while let Some((line, _)) = request(&mut stream) {
            answer(&mut stream, &line);
        }
    });
    runtime().block_on(async {
        let mut session = session(port, 1).await.unwrap();
        let mut ended = Ended::new();
        let long = "k".repeat(70_000);
        submit(&mut session, 1, Op::Upsert { key: &long, body: b"{}" }, &mut ended);
        submit(&mut session, 2, Op::Read { key: "next" }, &mut ended);
        finish(&mut session, 2, &mut ended).await;
        assert_eq!((text(&ended, 1), text(&ended, 2)), ("refused".into(), "GET /next HTTP/1.1".into()));
        assert_eq!(session.counters().disconnects, 0);
    });
}

#[test]
fn without_a_server_operations_are_temporary_at_once_until_it_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime().block_on(async {
        let mut session = session(port, 2).await.unwrap();
        let (first, _) = listener.accept().unwrap();
        let (second, _) = listener.accept().unwrap();
        drop((listener, first, second));
        let mut ended = Ended::new();
        for n in 0..20 {
            submit(&mut session, n, Op::Upsert { key: "a", body: b"{}" }, &mut ended);
            finish(&mut session, n as usize + 1, &mut ended).await;
        }
        let (_, last) = ended.last().unwrap();
        assert_eq!(last.as_ref().unwrap_err().kind, ErrorKind::Temporary, "{ended:?}");
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                thread::spawn(move || {
                    while let Some((line, _)) = request(&mut stream) {
                        answer(&mut stream, &line);
                    }
                });
            }
        });
        loop {
            ended.clear();
            submit(&mut session, 1, Op::Read { key: "back" }, &mut ended);
            finish(&mut session, 1, &mut ended).await;
            if ended[0].1.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            let _ = std::future::poll_fn(|cx| std::task::Poll::Ready(session.poll(cx, &mut push(&mut ended)))).await;
        }
        assert_eq!(text(&ended, 1), "GET /back HTTP/1.1");
    });
}

#[test]
fn a_body_larger_than_the_sockets_buffers_arrives_and_an_early_answer_to_it_counts() {
    let port = serve(|number, mut stream| {
        if number == 0 {
            let (_, body) = request(&mut stream).unwrap();
            answer(&mut stream, &body.len().to_string());
            // The next request is refused before it is read.
            let mut room = [0; 1000];
            let _ = stream.read(&mut room);
            let _ = stream.write_all(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.shutdown(std::net::Shutdown::Write);
            while stream.read(&mut room).is_ok_and(|n| n > 0) {}
        }
    });
    runtime().block_on(async {
        let mut session = session(port, 1).await.unwrap();
        let mut ended = Ended::new();
        let body = vec![b'x'; 20 << 20];
        submit(&mut session, 1, Op::Upsert { key: "a", body: &body }, &mut ended);
        finish(&mut session, 1, &mut ended).await;
        assert_eq!(text(&ended, 1), body.len().to_string());
        submit(&mut session, 2, Op::Upsert { key: "a", body: &body }, &mut ended);
        finish(&mut session, 2, &mut ended).await;
        assert_eq!(text(&ended, 2), "refused");
    });
}

#[test]
fn a_control_call_tells_what_stands_in_the_way() {
    let client = |port, timeout| {
        let target = Target { host: Host { name: "127.0.0.1".into(), port }, tls: None, headers: [].as_slice().into() };
        Client::new(target, Duration::from_millis(timeout))
    };
    runtime().block_on(async {
        let silent = serve(|_, mut stream| while request(&mut stream).is_some() {});
        let error = client(silent, 50).call(Method::GET, "/", None).await.unwrap_err().to_string();
        assert!(error.contains("no answer within") && error.contains(&silent.to_string()), "{error}");
        let other = serve(|_, mut stream| {
            request(&mut stream);
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
            request(&mut stream);
        });
        let error = client(other, 5_000).call(Method::GET, "/", None).await.unwrap_err().to_string();
        assert!(error.contains("no valid HTTP answer"), "{error}");
        let well = serve(|_, mut stream| {
            let (line, body) = request(&mut stream).unwrap();
            answer(&mut stream, &format!("{line} {}", body.len()));
        });
        let response = client(well, 5_000).call(Method::POST, "/x?y=1", Some(&serde_json::json!({}))).await.unwrap();
        assert_eq!((response.status, response.body.as_slice()), (200, &b"POST /x?y=1 HTTP/1.1 2"[..]));
    });
}

#[test]
fn who_speaks_before_it_is_asked_does_not_speak_http() {
    runtime().block_on(async {
        let mut servers = Vec::new();
        let mut wire = async || {
            let (mut server, client) = tokio::net::UnixStream::pair().unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut server, b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
            servers.push(server);
            Wire::new(crate::net::Stream::Unix(client))
        };
        let (mut idle, mut asked) = (wire().await, wire().await);
        let idle = std::future::poll_fn(|cx| idle.poll(cx)).await;
        assert!(matches!(&idle, Err(Failure::Garbled(_))), "{idle:?}");
        let mut request = RequestBuf::new([].as_slice().into());
        request.begin(Method::GET).raw("/");
        let asked = asked.exchange(&request).await;
        assert!(matches!(&asked, Err(Failure::Garbled(_))), "{asked:?}");
    });
}

#[test]
fn what_tls_holds_back_is_sent_in_the_end() {
    runtime().block_on(async {
        let body = vec![b'x'; 50_000];
        let (host, tls, go) = crate::net::held_reader(body.len(), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nin");
        let target = Target { host, tls: Some(tls), headers: [].as_slice().into() };
        let mut session = HttpSession::open(Plain, target, &options(1)).await.unwrap();
        let mut ended = Ended::new();
        submit(&mut session, 1, Op::Upsert { key: "a", body: &body }, &mut ended);
        let held = tokio::time::timeout(Duration::from_millis(300), finish(&mut session, 1, &mut ended)).await;
        assert!(held.is_err(), "answered before it was read");
        go.send(()).unwrap();
        let done = tokio::time::timeout(Duration::from_secs(60), finish(&mut session, 1, &mut ended));
        done.await.expect("the end of the request never left");
        assert_eq!(text(&ended, 1), "in");
    });
}
