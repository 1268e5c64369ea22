//! Measures the cost of a link without faults, compared to a direct connection. It prints and asserts nothing: `cargo
//! test --release -p storebench-machine --test all link_cost -- --ignored --nocapture`.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use storebench_machine::{Link, LinkState};

const MESSAGE_BYTES: usize = 100;

fn server(serve: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

fn echo(mut stream: TcpStream) {
    let mut message = [0; MESSAGE_BYTES];
    while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok() {}
}

fn take_all(mut stream: TcpStream) {
    let mut bytes = vec![0; 256 << 10];
    while stream.read(&mut bytes).is_ok_and(|read| read > 0) {}
    let _ = stream.write_all(&[0]);
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// The durations of this many round trips, sorted.
fn round_trips(to: SocketAddr, count: usize) -> Vec<Duration> {
    let mut client = connect(to);
    let mut message = [7; MESSAGE_BYTES];
    let mut all: Vec<Duration> = (0..count)
        .map(|_| {
            let began = Instant::now();
            client.write_all(&message).unwrap();
            client.read_exact(&mut message).unwrap();
            began.elapsed()
        })
        .collect();
    all.sort();
    all
}

fn at(all: &[Duration], share: f64) -> f64 {
    all[(all.len() as f64 * share) as usize].as_secs_f64() * 1e6
}

/// How long these bytes took to arrive.
fn bulk(to: SocketAddr, bytes: usize) -> Duration {
    let mut client = connect(to);
    let piece = vec![7; 256 << 10];
    let began = Instant::now();
    for _ in 0..bytes / piece.len() {
        client.write_all(&piece).unwrap();
    }
    client.shutdown(std::net::Shutdown::Write).unwrap();
    client.read_exact(&mut [0]).unwrap();
    began.elapsed()
}

#[test]
#[ignore = "measures, and asserts nothing; run it by hand, in release"]
fn what_a_link_costs() {
    const TRIPS: usize = 50_000;
    const BULK_BYTES: usize = 2 << 30;
    let server_of_echo = server(echo);
    let link = Link::begin("127.0.0.1:0".parse().unwrap(), server_of_echo).unwrap();
    for connections in [1, 8, 64] {
        for (name, to) in [("direct", server_of_echo), ("link", link.address())] {
            let (began, used) = (Instant::now(), link.processor_time());
            let each = TRIPS / connections;
            let clients: Vec<_> = (0..connections).map(|_| thread::spawn(move || round_trips(to, each))).collect();
            let mut all: Vec<Duration> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
            all.sort();
            let (took, used) = (began.elapsed(), link.processor_time() - used);
            println!(
                "{connections:3} connections, {name:6}: {MESSAGE_BYTES}-byte round trip median {:7.1} µs, p99 {:7.1} µs, \
                 {:7.0}/s; link {:.2} µs of processor time each",
                at(&all, 0.5),
                at(&all, 0.99),
                all.len() as f64 / took.as_secs_f64(),
                used.as_secs_f64() * 1e6 / all.len() as f64,
            );
        }
    }
    let server_of_bulk = server(take_all);
    let bulk_link = Link::begin("127.0.0.1:0".parse().unwrap(), server_of_bulk).unwrap();
    for (name, to) in [("direct", server_of_bulk), ("link", bulk_link.address())] {
        let used = bulk_link.processor_time();
        let took = bulk(to, BULK_BYTES);
        let used = bulk_link.processor_time() - used;
        println!(
            "bulk, {name:6}: {:.0} MB/s; link {:.3} ns of processor time a byte",
            BULK_BYTES as f64 / 1e6 / took.as_secs_f64(),
            used.as_secs_f64() * 1e9 / BULK_BYTES as f64,
        );
    }
    for asked in [200, 500, 1_000, 10_000] {
        link.set(LinkState::round_trip(Duration::from_micros(asked))).unwrap();
        let used = link.processor_time();
        let all = round_trips(link.address(), 500);
        let used = link.processor_time() - used;
        println!(
            "latency {asked:5} µs a round trip: median {:7.1} µs, p99 {:7.1} µs; link {:.2} µs of processor time each",
            at(&all, 0.5),
            at(&all, 0.99),
            used.as_secs_f64() * 1e6 / 500.0,
        );
    }
    // An idle connection must not wake the link.
    link.set(LinkState::default()).unwrap();
    let _open = connect(link.address());
    thread::sleep(Duration::from_millis(100));
    let used = link.processor_time();
    thread::sleep(Duration::from_secs(2));
    println!("idle for 2 s: {:?} of processor time", link.processor_time() - used);
}
