//! The process that hosts a store. It serves sessions and control calls over a socket, with a thread for each
//! connection.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use storebench_engine::store::{
    AnyStore, BatchBuf, CollectionId, Layout, OpError, PhaseStart, Prepare, Reply, Runtime, Session, SessionOptions,
    StoreError, Token,
};
use storebench_engine::{Clock, RealClock};

use super::wire::{self, Answer, Ask, Ended, Hello};

/// The initial size of a session's read buffer.
const READ_BYTES: usize = 256 << 10;

/// Serves the store at a socket until the process ends. Replaces an existing socket.
///
/// # Errors
/// If the socket cannot be created, or if the store already is a server.
pub fn serve(store: Arc<dyn AnyStore>, socket: &Path) -> Result<(), StoreError> {
    if store.runtime() != Runtime::Plain {
        let what = format!("{} is already a server; it needs no host", store.describe().scheme);
        return Err(StoreError::NotSupported(what));
    }
    let cannot = |e: io::Error| StoreError::Failed(format!("{}: cannot create the socket: {e}", socket.display()));
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot(error)),
        _ => {}
    }
    let listener = UnixListener::bind(socket).map_err(cannot)?;
    let host = Arc::new(Host {
        store,
        prepared: Mutex::new(false),
        clock: Arc::new(RealClock::new()),
        sessions: AtomicUsize::new(0),
    });
    for stream in listener.incoming() {
        let host = Arc::clone(&host);
        // There is nobody to report a broken connection to.
        std::thread::spawn(move || stream.and_then(|stream| host.connection(stream)));
    }
    Ok(())
}

struct Host {
    store: Arc<dyn AnyStore>,
    /// Whether this process has prepared the store.
    prepared: Mutex<bool>,
    clock: Arc<dyn Clock>,
    /// The number of open sessions. This process notices their end a moment after the client closed them.
    sessions: AtomicUsize,
}

/// How long to retry a call that open sessions may block.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs the call of this name.
macro_rules! run {
    (($store:ident, $call:ident, $arguments:ident)
     $($name:ident($($argument:ident: $of:ty),*) -> $gives:ty;)*) => {
        match $call {
            $(stringify!($name) => {
                let ($($argument,)*): ($($of,)*) = received($arguments)?;
                told(&$store.$name($($argument),*))
            })*
            _ => Err(garbage(postcard::Error::DeserializeBadEnum)),
        }
    };
}

impl Host {
    fn connection(&self, mut stream: UnixStream) -> io::Result<()> {
        let mut buffer = Vec::new();
        if !wire::read_frame(&mut stream, &mut buffer)? {
            return Ok(());
        }
        match postcard::from_bytes(&buffer).map_err(garbage)? {
            Hello::Control => self.control(stream),
            Hello::Session { guarantees, timeout, layout, how } => {
                let (durability, consistency) = guarantees.read()?;
                let options = SessionOptions {
                    durability,
                    consistency,
                    timeout,
                    in_flight: 1,
                    clock: Arc::clone(&self.clock),
                    phase_start: PhaseStart::new(),
                };
                let opened = self.ready(&layout, how).and_then(|()| self.open(&options));
                match opened {
                    Ok(session) => {
                        self.sessions.fetch_add(1, Ordering::SeqCst);
                        let ended = wire::write_frame(&mut stream, &Ok::<(), StoreError>(()))
                            .and_then(|()| self.session(stream, session));
                        self.sessions.fetch_sub(1, Ordering::SeqCst);
                        ended
                    }
                    Err(error) => wire::write_frame(&mut stream, &Err::<(), StoreError>(error)),
                }
            }
        }
    }

    fn open(&self, options: &SessionOptions) -> Result<Box<dyn Session>, StoreError> {
        let waited = "this store cannot be hosted, because opening a session does not complete immediately";
        self.store.open_any(options).now_or_never().unwrap_or_else(|| Err(StoreError::NotSupported(waited.into())))
    }

    /// Prepares the store again, if another process prepared it before this one started. Keeps the existing documents.
    fn ready(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if !*prepared {
            self.store.prepare(layout, if how.empties() { Prepare::Keep } else { how })?;
            *prepared = true;
        }
        Ok(())
    }

    fn control(&self, mut stream: UnixStream) -> io::Result<()> {
        let mut buffer = Vec::new();
        while wire::read_frame(&mut stream, &mut buffer)? {
            let answer = without_sessions(&self.sessions, || self.call(&buffer))?;
            stream.write_all(&answer)?;
        }
        Ok(())
    }

    /// Runs a call. Returns the frame with its answer, and whether it failed.
    fn call(&self, frame: &[u8]) -> io::Result<(Vec<u8>, bool)> {
        let (call, arguments) = postcard::take_from_bytes::<&str>(frame).map_err(garbage)?;
        let store = &self.store;
        let prepared = |now| *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = now;
        if matches!(call, "close" | "remove") {
            prepared(false);
        }
        let (batch, steps) = (&mut BatchBuf::new(), &mut Vec::new());
        match call {
            "describe" => told(&Ok(store.describe().version)),
            "inspect" => told(&store.inspect()),
            "prepare" => {
                let (layout, how): (Layout, Prepare) = received(arguments)?;
                told(&store.prepare(&layout, how).map(|()| prepared(true)))
            }
            "settle" => told(&store.settle(received(arguments)?)),
            "range_order" => told(&Ok(store.range_order(received(arguments)?))),
            "same_keys" => told(&Ok(store.same_keys(received(arguments)?))),
            "try_query" => told(&store.try_query(&received::<Ask<'_>>(arguments)?.request(batch, steps))),
            "explain" => told(&store.explain(&received::<Ask<'_>>(arguments)?.request(batch, steps))),
            "build_index" => {
                let (collection, name, text) = received(arguments)?;
                told(&store.build_index(collection, name, text))
            }
            _ => storebench_engine::sent_calls!(run! store, call, arguments),
        }
    }

    /// Runs operations in order. Answers all operations of one read with one write.
    fn session(&self, mut stream: UnixStream, mut session: Box<dyn Session>) -> io::Result<()> {
        let (mut input, mut end) = (vec![0; READ_BYTES], 0);
        let (mut out, mut batch) = (Vec::new(), BatchBuf::new());
        loop {
            if end == input.len() {
                input.resize(input.len() * 2, 0);
            }
            match stream.read(&mut input[end..])? {
                0 => return Ok(()),
                bytes => end += bytes,
            }
            let mut start = 0;
            while let Some((frame, used)) = wire::frame(&input[start..end]).map_err(io::Error::other)? {
                let ask: Ask<'_> = postcard::from_bytes(frame).map_err(garbage)?;
                self.answer(&mut *session, &ask, &mut batch, &mut out)?;
                start += used;
            }
            input.copy_within(start..end, 0);
            end -= start;
            stream.write_all(&out)?;
            out.clear();
        }
    }

    fn answer(
        &self,
        session: &mut dyn Session,
        ask: &Ask<'_>,
        batch: &mut BatchBuf,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut ended: Option<Result<(), postcard::Error>> = None;
        let mut take = |_: Token, result: Result<Reply<'_>, OpError>| {
            let told: Ended<'_> = match &result {
                Ok(reply) => Ok(Answer::of(reply)),
                Err(error) => Err((error.kind, error.message.to_string())),
            };
            ended = Some(wire::push(&told, out));
        };
        session.submit(&ask.request(batch, &mut Vec::new()), Token(0), &mut take);
        session.flush();
        let _ = session.poll(&mut Context::from_waker(Waker::noop()), &mut take);
        match ended {
            Some(pushed) => pushed.map_err(|e| io::Error::other(e.to_string())),
            None => Err(io::Error::other("the hosted store did not complete the operation immediately")),
        }
    }
}

/// Makes a call. If it fails while sessions are open, retries it for a while.
fn without_sessions(open: &AtomicUsize, mut call: impl FnMut() -> io::Result<(Vec<u8>, bool)>) -> io::Result<Vec<u8>> {
    let began = Instant::now();
    loop {
        // Count before the call, because the blocking session may have ended by the time the call fails.
        let before = open.load(Ordering::SeqCst) > 0;
        let (answer, failed) = call()?;
        let in_the_way = before || open.load(Ordering::SeqCst) > 0;
        if !(failed && in_the_way) || began.elapsed() >= PATIENCE {
            return Ok(answer);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn told<T: Serialize>(outcome: &Result<T, StoreError>) -> io::Result<(Vec<u8>, bool)> {
    let mut frame = Vec::new();
    wire::push(outcome, &mut frame).map_err(io::Error::other)?;
    Ok((frame, outcome.is_err()))
}

fn received<'a, T: Deserialize<'a>>(arguments: &'a [u8]) -> io::Result<T> {
    postcard::from_bytes(arguments).map_err(garbage)
}

fn garbage(error: postcard::Error) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("received an invalid frame: {error}; use the same version of storebench on both sides"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_made_again_where_a_session_that_was_in_the_way_has_just_ended() {
        let open = AtomicUsize::new(1);
        let mut calls = 0;
        let mut call = || {
            calls += 1;
            Ok((vec![calls], open.swap(0, Ordering::SeqCst) > 0))
        };
        assert_eq!(without_sessions(&open, &mut call).unwrap(), [2]);
        let mut fails = || Ok((vec![1], true));
        assert_eq!(without_sessions(&open, &mut fails).unwrap(), [1]);
    }
}
