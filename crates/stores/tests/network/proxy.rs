//! A server with scripted answers, and a proxy to a real server that fails on purpose.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// What happens to the server's answers on a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// They are forwarded.
    None,
    /// After this many bytes, random bytes replace them.
    Garbage { after: usize, seed: u64 },
    /// After this many bytes, the direction to the client is closed. The other direction stays open.
    HalfClosed { after: usize },
    /// After this many bytes, no more are forwarded, but nothing is closed.
    Silent { after: usize },
}

/// Random bytes from a seed. Many of them have a meaning in protocols, so that they are likely to break a parser.
pub(crate) fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let words: [&[u8]; 21] = [
        b"\r\n",
        b"$",
        b"*",
        b":",
        b"+",
        b"-",
        b"-1\r\n",
        b"VA ",
        b"VALUE ",
        b"HD",
        b"EN\r\n",
        b"STAT ",
        b"END\r\n",
        b"99999999999",
        b"3\r\n",
        b"\0",
        b"\xff",
        b" ",
        b"abc",
        b"-MOVED 1 127.0.0.1:1\r\n",
        b"SERVER_ERROR x\r\n",
    ];
    let mut bytes = Vec::new();
    while bytes.len() < count {
        match next() % 3 {
            0 => bytes.push((next() >> 32) as u8),
            _ => bytes.extend_from_slice(words[(next() >> 32) as usize % words.len()]),
        }
    }
    bytes.truncate(count);
    bytes
}

/// Listens on a port and handles each connection on its own thread, until the process ends.
pub(crate) fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let handle = Arc::clone(&handle);
            thread::spawn(move || handle(stream));
        }
    });
    port
}

/// Answers any request with these bytes, then closes.
pub(crate) fn answering(bytes: Vec<u8>) -> u16 {
    serve(move |mut stream| {
        let mut request = [0; 1024];
        if stream.read(&mut request).is_ok_and(|n| n > 0) {
            let _ = stream.write_all(&bytes);
            // Read the rest, because closing with unread data would send a reset.
            let _ = stream.shutdown(Shutdown::Write);
            while stream.read(&mut request).is_ok_and(|n| n > 0) {}
        }
    })
}

/// A proxy to a port. `fault` gives the fault of each connection, numbered from 0.
pub(crate) fn proxy(to: u16, fault: impl Fn(u32) -> Fault + Send + Sync + 'static) -> u16 {
    let count = AtomicU32::new(0);
    serve(move |client| {
        let fault = fault(count.fetch_add(1, Ordering::SeqCst));
        let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { return };
        let (mut requests, mut there) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut requests, &mut there);
            let _ = there.shutdown(Shutdown::Both);
        });
        pass(server, client, fault);
    })
}

/// A proxy to a port that calls `meanwhile` once: after a request that contains these bytes, before the next one.
pub(crate) fn interrupting(to: u16, bytes: &'static [u8], meanwhile: impl Fn() + Send + Sync + 'static) -> u16 {
    const WAITING: u32 = 0;
    const SEEN: u32 = 1;
    const DONE: u32 = 2;
    let state = Arc::new(AtomicU32::new(WAITING));
    let meanwhile = Arc::new(meanwhile);
    serve(move |client| {
        let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { return };
        let (mut requests, mut there) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let (state, meanwhile) = (Arc::clone(&state), Arc::clone(&meanwhile));
        thread::spawn(move || {
            let mut buffer = [0; 64 << 10];
            while let Ok(count @ 1..) = requests.read(&mut buffer) {
                let request = &buffer[..count];
                let change = |from, to| state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok();
                if change(SEEN, DONE) {
                    meanwhile();
                } else if request.windows(bytes.len()).any(|there| there == bytes) {
                    change(WAITING, SEEN);
                }
                if there.write_all(request).is_err() {
                    break;
                }
            }
            let _ = there.shutdown(Shutdown::Both);
        });
        pass(server, client, Fault::None);
    })
}

fn pass(mut server: TcpStream, mut client: TcpStream, fault: Fault) {
    let mut passed = 0;
    let mut buffer = [0; 4096];
    while let Ok(bytes @ 1..) = server.read(&mut buffer) {
        let after = match fault {
            Fault::None => usize::MAX,
            Fault::Garbage { after, .. } | Fault::HalfClosed { after } | Fault::Silent { after } => after,
        };
        let whole = bytes.min(after - passed);
        if client.write_all(&buffer[..whole]).is_err() {
            return;
        }
        passed += whole;
        if passed == after {
            match fault {
                Fault::Garbage { seed, .. } => {
                    let _ = client.write_all(&random_bytes(seed, 200));
                    // Close, so that the client does not wait for the rest of an incomplete answer.
                    let _ = client.shutdown(Shutdown::Write);
                }
                Fault::HalfClosed { .. } => {
                    let _ = client.shutdown(Shutdown::Write);
                }
                _ => {}
            }
            // Discard the server's answers until it is gone.
            while server.read(&mut buffer).is_ok_and(|n| n > 0) {}
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}
