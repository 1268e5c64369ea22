//! What a link does to its connections. The tests do not assert how soon data arrives, only that it arrives, and not
//! too early.
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use storebench_machine::{Link, LinkState, OneWay};

/// After this time a test counts as hung.
const HANGS: Duration = Duration::from_secs(30);
/// How long to listen when nothing should arrive.
const QUIET: Duration = Duration::from_millis(100);

/// The same in both directions.
fn both(way: OneWay) -> LinkState {
    LinkState { to_server: way, to_client: way, ..LinkState::default() }
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn ready(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(HANGS)).unwrap();
    stream.set_write_timeout(Some(HANGS)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A server that echoes its input. It ends with the process.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = ready(stream.unwrap());
            thread::spawn(move || {
                let mut bytes = vec![0; 64 << 10];
                while let Ok(read @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..read]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A link, and the listener that its connections reach.
fn open_end() -> (Link, TcpListener) {
    let listener = TcpListener::bind(any()).unwrap();
    (Link::begin(any(), listener.local_addr().unwrap()).unwrap(), listener)
}

fn connect(link: &Link) -> TcpStream {
    ready(TcpStream::connect(link.address()).unwrap())
}

/// Both ends of a connection.
fn pair(link: &Link, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = connect(link);
    (client, ready(listener.accept().unwrap().0))
}

fn send(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

fn hear(stream: &mut TcpStream, text: &str) {
    let mut bytes = vec![0; text.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), text);
}

fn hears_nothing(stream: &mut TcpStream) {
    hears_nothing_for(QUIET, stream);
}

fn hears_nothing_for(time: Duration, stream: &mut TcpStream) {
    stream.set_read_timeout(Some(time)).unwrap();
    let heard = stream.read(&mut [0; 16]);
    assert!(matches!(&heard, Err(e) if e.kind() == ErrorKind::WouldBlock), "{heard:?}");
    stream.set_read_timeout(Some(HANGS)).unwrap();
}

fn hears_end(stream: &mut TcpStream) {
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
}

fn hears_reset(stream: &mut TcpStream) {
    assert_eq!(stream.read(&mut [0; 16]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < HANGS, "{what} never came");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the link has read what was sent before. It polls its sockets at least once in 61 turns.
fn has_read(link: &Link) {
    for _ in 0..200 {
        link.processor_time();
    }
}

fn resets(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(length).collect()
    }
}

fn bandwidth(bytes_per_s: u64) -> Option<NonZeroU64> {
    Some(NonZeroU64::new(bytes_per_s).unwrap())
}

fn stalled() -> LinkState {
    LinkState { stall: true, ..LinkState::default() }
}

fn half_open() -> OneWay {
    OneWay { half_open: true, ..OneWay::default() }
}

#[test]
fn what_is_sent_arrives_and_is_counted() {
    let link = Link::begin(any(), echo()).unwrap();
    assert_eq!(link.counts(), storebench_machine::LinkCounts::default());
    let mut client = connect(&link);
    for text in ["first", "second, and longer"] {
        send(&mut client, text);
        hear(&mut client, text);
    }
    // Bytes are counted after they are passed on.
    until("the count", || link.counts().to_client_bytes == 23);
    let counts = link.counts();
    assert_eq!((counts.open, counts.begun, counts.to_server_bytes), (1, 1, 23));
    drop(client);
    until("its end", || link.counts().open == 0);
    assert_eq!(link.counts().begun, 1);
    assert!(!link.processor_time().is_zero());
}

#[test]
fn it_works_on_both_versions_of_ip() {
    let link = match Link::begin("[::1]:0".parse().unwrap(), echo()) {
        Ok(link) => link,
        Err(error) => return println!("skipped: {error}"),
    };
    assert!(link.address().is_ipv6());
    let mut client = connect(&link);
    send(&mut client, "six");
    hear(&mut client, "six");
}

#[test]
fn an_address_that_others_reach_and_one_that_is_taken_are_refused() {
    let error = Link::begin("0.0.0.0:0".parse().unwrap(), any()).unwrap_err().to_string();
    assert!(error.contains("0.0.0.0:0") && error.contains("127.0.0.1:0"), "{error}");
    let taken = TcpListener::bind(any()).unwrap().local_addr().unwrap();
    let listener = TcpListener::bind(taken).unwrap();
    let error = Link::begin(taken, any()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
    drop(listener);
}

#[test]
fn a_half_close_is_passed_on_in_both_directions() {
    let (link, listener) = open_end();
    for state in [LinkState::default(), LinkState::round_trip(Duration::from_millis(2))] {
        link.set(state).unwrap();
        let (mut client, mut server) = pair(&link, &listener);
        send(&mut client, "a question");
        client.shutdown(Shutdown::Write).unwrap();
        hear(&mut server, "a question");
        hears_end(&mut server);
        send(&mut server, "an answer");
        hear(&mut client, "an answer");
        server.shutdown(Shutdown::Write).unwrap();
        hears_end(&mut client);
        until("its end", || link.counts().open == 0);

        let (mut client, mut server) = pair(&link, &listener);
        server.shutdown(Shutdown::Write).unwrap();
        hears_end(&mut client);
        send(&mut client, "for you who say nothing more");
        hear(&mut server, "for you who say nothing more");
        drop(client);
        hears_end(&mut server);
        until("its end", || link.counts().open == 0);
    }
}

#[test]
fn a_reset_of_one_end_is_one_of_the_other() {
    let (link, listener) = open_end();
    for state in [LinkState::default(), LinkState::round_trip(Duration::from_millis(2))] {
        link.set(state).unwrap();
        let (mut client, server) = pair(&link, &listener);
        resets(&server);
        drop(server);
        hears_reset(&mut client);

        let (client, mut server) = pair(&link, &listener);
        resets(&client);
        drop(client);
        hears_reset(&mut server);

        // The server has closed. The reset follows only when the client sends more data.
        let (mut client, server) = pair(&link, &listener);
        drop(server);
        hears_end(&mut client);
        until("the reset", || client.write_all(b"more").is_err());
        until("its end", || link.counts().open == 0);
    }
}

#[test]
fn what_was_sent_before_a_reset_is_delivered_before_it() {
    let (link, listener) = open_end();
    let early = pair(&link, &listener);
    link.set(both(OneWay { latency: Duration::from_secs(3600), ..OneWay::default() })).unwrap();
    let (mut client, mut server) = early;
    send(&mut server, "the last words");
    has_read(&link);
    resets(&server);
    drop(server);
    has_read(&link);
    hears_nothing(&mut client);
    link.set(LinkState::round_trip(micros(200))).unwrap();
    hear(&mut client, "the last words");
    hears_reset(&mut client);
}

#[test]
fn where_there_is_no_server_clients_are_reset() {
    let nobody = TcpListener::bind(any()).unwrap().local_addr().unwrap();
    let link = Link::begin(any(), nobody).unwrap();
    hears_reset(&mut connect(&link));
    until("its end", || link.counts().open == 0);
}

#[test]
fn two_hundred_connections_at_once_do_not_mix() {
    let link = Link::begin(any(), echo()).unwrap();
    let way = OneWay { latency: Duration::from_micros(300), jitter: Duration::from_millis(1), ..OneWay::default() };
    for state in [LinkState::default(), both(way)] {
        link.set(state).unwrap();
        let mut clients: Vec<TcpStream> = (0..200).map(|_| connect(&link)).collect();
        for round in 0..5 {
            for (number, client) in clients.iter_mut().enumerate() {
                send(client, &format!("{round} of {number:03}"));
            }
            for (number, client) in clients.iter_mut().enumerate() {
                hear(client, &format!("{round} of {number:03}"));
            }
        }
        assert_eq!(link.counts().open, 200);
        drop(clients);
        until("their end", || link.counts().open == 0);
    }
    assert_eq!(link.counts().begun, 400);
}

#[test]
fn latency_is_at_least_what_was_asked_for_of_connecting_too() {
    let link = Link::begin(any(), echo()).unwrap();
    for (there, back) in [(300, 0), (0, 300), (100, 250), (5_000, 2_000)].map(|(a, b)| (micros(a), micros(b))) {
        let way = |latency| OneWay { latency, ..OneWay::default() };
        link.set(LinkState { to_server: way(there), to_client: way(back), ..LinkState::default() }).unwrap();
        let began = Instant::now();
        let mut client = connect(&link);
        send(&mut client, "x");
        hear(&mut client, "x");
        assert!(began.elapsed() >= (there + back) * 2, "{:?} of {there:?} and {back:?}", began.elapsed());
        for _ in 0..20 {
            let began = Instant::now();
            send(&mut client, "x");
            hear(&mut client, "x");
            assert!(began.elapsed() >= there + back, "{:?} of {there:?} and {back:?}", began.elapsed());
        }
    }
}

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

#[test]
fn jitter_is_never_more_than_asked_for_below_the_latency() {
    let link = Link::begin(any(), echo()).unwrap();
    let way = OneWay { latency: micros(2_000), jitter: micros(500), ..OneWay::default() };
    link.set(LinkState { seed: 3, ..both(way) }).unwrap();
    let mut client = connect(&link);
    for _ in 0..30 {
        let began = Instant::now();
        send(&mut client, "x");
        hear(&mut client, "x");
        assert!(began.elapsed() >= micros(3_000));
    }
}

/// The link's burst. It also covers data forwarded before the clock was read.
const BURST: Duration = Duration::from_millis(20);

#[test]
fn bandwidth_is_no_more_than_asked_for_and_all_connections_share_it() {
    let (link, listener) = open_end();
    for (per_s, bytes) in [(1_000_000u64, 200_000usize), (20_000_000, 4_000_000), (5_000, 1_000)] {
        for connections in [1, 4] {
            let one = OneWay { bandwidth: bandwidth(per_s), ..OneWay::default() };
            // The other direction is not limited.
            link.set(LinkState { to_client: one, ..LinkState::default() }).unwrap();
            let mut pairs: Vec<_> = (0..connections).map(|_| pair(&link, &listener)).collect();
            let began = Instant::now();
            let part = bytes / connections;
            thread::scope(|scope| {
                for (number, (client, server)) in pairs.iter_mut().enumerate() {
                    let content = Random(number as u64).bytes(part);
                    let same = content.clone();
                    scope.spawn(move || server.write_all(&content).unwrap());
                    scope.spawn(move || {
                        let mut heard = vec![0; part];
                        client.read_exact(&mut heard).unwrap();
                        assert!(heard == same);
                    });
                }
            });
            let least = Duration::from_secs_f64((part * connections) as f64 / per_s as f64) - BURST;
            assert!(began.elapsed() >= least, "{bytes} bytes at {per_s}/s took {:?}", began.elapsed());
        }
    }
}

#[test]
fn who_sends_more_than_the_link_takes_has_to_wait() {
    let (link, listener) = open_end();
    let slow = OneWay { bandwidth: bandwidth(10_000), ..OneWay::default() };
    let far = OneWay { latency: Duration::from_secs(3600), ..OneWay::default() };
    for state in [both(slow), both(far), stalled(), LinkState::default()] {
        link.set(LinkState::default()).unwrap();
        let (client, _server) = pair(&link, &listener);
        link.set(state).unwrap();
        client.set_write_timeout(Some(QUIET * 3)).unwrap();
        let bytes = vec![1; 1 << 20];
        // Its own limit is 4 MiB; the sizes of the kernel's buffers are unknown.
        let megabytes = (0..100).take_while(|_| (&client).write_all(&bytes).is_ok()).count();
        assert!(megabytes < 64, "{state:?} took {megabytes} MiB");
    }
}

#[test]
fn a_stall_loses_nothing_and_keeps_connections_open() {
    let (link, listener) = open_end();
    let (mut client, mut server) = pair(&link, &listener);
    let (mut other_client, other_server) = pair(&link, &listener);
    link.set(stalled()).unwrap();
    send(&mut client, "to the server");
    send(&mut server, "to the client");
    other_server.shutdown(Shutdown::Write).unwrap();
    let mut late = connect(&link);
    send(&mut late, "I am new");
    for stream in [&mut client, &mut server, &mut late, &mut other_client] {
        hears_nothing(stream);
    }
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    listener.set_nonblocking(false).unwrap();
    assert_eq!(link.counts().open, 3);
    link.set(LinkState::default()).unwrap();
    hear(&mut server, "to the server");
    hear(&mut client, "to the client");
    hears_end(&mut other_client);
    let mut server = ready(listener.accept().unwrap().0);
    hear(&mut server, "I am new");
    send(&mut server, "welcome");
    hear(&mut late, "welcome");
}

#[test]
fn what_is_underway_waits_for_a_stall_too() {
    let (link, listener) = open_end();
    let (mut client, mut server) = pair(&link, &listener);
    // Long enough for the stall to begin before the bytes arrive, even on a busy machine.
    let latency = QUIET * 20;
    let way = OneWay { latency, ..OneWay::default() };
    link.set(both(way)).unwrap();
    send(&mut client, "underway");
    has_read(&link);
    link.set(LinkState { stall: true, ..both(way) }).unwrap();
    hears_nothing_for(latency + QUIET, &mut server);
    link.set(both(way)).unwrap();
    hear(&mut server, "underway");
}

#[test]
fn what_is_underway_arrives_as_soon_as_a_fault_is_over() {
    let (link, listener) = open_end();
    let (mut client, mut server) = pair(&link, &listener);
    let far = OneWay { latency: Duration::from_secs(3600), ..OneWay::default() };
    let slow = OneWay { bandwidth: bandwidth(1), ..OneWay::default() };
    for way in [far, slow, OneWay { bandwidth: bandwidth(1), ..far }] {
        link.set(both(way)).unwrap();
        send(&mut client, "one,");
        has_read(&link);
        send(&mut client, "two,");
        hears_nothing(&mut server);
        link.set(both(OneWay { latency: micros(200), ..OneWay::default() })).unwrap();
        send(&mut client, "three.");
        hear(&mut server, "one,two,three.");
        link.set(both(far)).unwrap();
        send(&mut client, "one,");
        hears_nothing(&mut server);
        link.set(LinkState::default()).unwrap();
        send(&mut client, "two.");
        hear(&mut server, "one,two.");
    }
    link.set(both(far)).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    hears_nothing(&mut server);
    link.set(LinkState::default()).unwrap();
    hears_end(&mut server);
}

#[test]
fn half_open_connections_never_recover_and_new_ones_do() {
    let (link, listener) = open_end();
    let (mut client, mut server) = pair(&link, &listener);
    link.set(both(half_open())).unwrap();
    send(&mut client, "lost");
    send(&mut server, "lost too");
    let mut meanwhile = connect(&link);
    send(&mut meanwhile, "never heard");
    for stream in [&mut client, &mut server, &mut meanwhile] {
        hears_nothing(stream);
    }
    link.set(LinkState::default()).unwrap();
    send(&mut client, "lost still");
    send(&mut server, "that as well");
    for stream in [&mut client, &mut server, &mut meanwhile] {
        hears_nothing(stream);
    }
    let (mut new_client, mut new_server) = pair(&link, &listener);
    send(&mut new_client, "again");
    hear(&mut new_server, "again");
    // Neither side learns that the other has closed until it closes itself.
    drop(client);
    hears_nothing(&mut server);
    send(&mut server, "are you there?");
    hears_nothing(&mut server);
    assert_eq!(link.counts().open, 3);
    drop((server, meanwhile));
    until("their end", || link.counts().open == 1);
}

#[test]
fn a_link_may_be_half_open_one_way() {
    let (link, listener) = open_end();
    for to_server in [true, false] {
        let (mut client, mut server) = pair(&link, &listener);
        let state = if to_server {
            LinkState { to_server: half_open(), ..LinkState::default() }
        } else {
            LinkState { to_client: half_open(), ..LinkState::default() }
        };
        link.set(state).unwrap();
        // The end that receives nothing, and the end that receives.
        let (deaf, heard) = if to_server { (&mut server, &mut client) } else { (&mut client, &mut server) };
        send(heard, "lost");
        send(deaf, "not lost");
        hear(heard, "not lost");
        hears_nothing(deaf);
        link.set(LinkState::default()).unwrap();
        send(heard, "lost still");
        heard.shutdown(Shutdown::Write).unwrap();
        hears_nothing(deaf);
        send(deaf, "not lost either");
        hear(heard, "not lost either");
        // The deaf end does not even learn that the other end no longer takes its bytes.
        if to_server {
            drop(client);
            until("its writing", || server.write_all(b"x").is_ok());
            hears_nothing(&mut server);
            send(&mut server, "y");
            hears_nothing(&mut server);
        } else {
            drop(server);
            until("its writing", || client.write_all(b"x").is_ok());
            hears_nothing(&mut client);
            send(&mut client, "y");
            hears_nothing(&mut client);
        }
    }
    until("their end", || link.counts().open == 0);
}

#[test]
fn what_was_underway_is_lost_with_a_half_open_link() {
    let (link, listener) = open_end();
    let (mut client, mut server) = pair(&link, &listener);
    let far = OneWay { latency: Duration::from_secs(3600), ..OneWay::default() };
    link.set(both(far)).unwrap();
    send(&mut client, "underway");
    has_read(&link);
    link.set(both(half_open())).unwrap();
    link.set(LinkState::default()).unwrap();
    hears_nothing(&mut server);
}

#[test]
fn new_connections_are_refused_and_open_ones_go_on() {
    let (link, listener) = open_end();
    let (mut client, mut server) = pair(&link, &listener);
    for round in 0..3 {
        link.set(LinkState { refuse: true, ..LinkState::default() }).unwrap();
        // Refusing twice is the same as once.
        link.set(LinkState { refuse: true, ..LinkState::round_trip(micros(100)) }).unwrap();
        for _ in 0..3 {
            let error = TcpStream::connect(link.address()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
        // Others cannot take the port meanwhile.
        assert_eq!(TcpListener::bind(link.address()).map(drop).unwrap_err().kind(), ErrorKind::AddrInUse);
        send(&mut client, "as before");
        hear(&mut server, "as before");
        link.set(LinkState::default()).unwrap();
        let (mut new_client, mut new_server) = pair(&link, &listener);
        send(&mut new_client, "again");
        hear(&mut new_server, "again");
        assert_eq!(link.counts().begun, round + 2);
    }
}

#[test]
fn a_reset_is_seen_at_both_ends_of_each_connection() {
    let (link, listener) = open_end();
    assert_eq!(link.reset(), 0);
    let way = OneWay { latency: Duration::from_secs(3600), ..OneWay::default() };
    for state in [LinkState::default(), stalled(), both(way), both(half_open())] {
        link.set(LinkState::default()).unwrap();
        let mut pairs: Vec<_> = (0..20).map(|_| pair(&link, &listener)).collect();
        link.set(state).unwrap();
        for (client, server) in &mut pairs {
            if state != LinkState::default() {
                send(client, "underway");
                send(server, "underway");
            }
        }
        assert_eq!(link.reset(), 20);
        for (client, server) in &mut pairs {
            hears_reset(client);
            hears_reset(server);
        }
        until("their end", || link.counts().open == 0);
    }
    // A connection that has not reached the server yet.
    link.set(stalled()).unwrap();
    let mut client = connect(&link);
    until("it", || link.counts().open == 1);
    assert_eq!(link.reset(), 1);
    hears_reset(&mut client);
}

#[test]
fn connections_end_with_the_link() {
    let (link, listener) = open_end();
    let (mut client, mut server) = pair(&link, &listener);
    send(&mut client, "hello");
    hear(&mut server, "hello");
    let address = link.address();
    drop(link);
    hears_end(&mut client);
    hears_end(&mut server);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn content_survives_two_hundred_states() {
    const PIECES: usize = 200;
    const PIECE_BYTES: usize = 50 << 10;
    let link = Link::begin(any(), echo()).unwrap();
    let content = Random(42).bytes(PIECES * PIECE_BYTES);
    let client = connect(&link);
    let (next, goes_on) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let (mut reading, mut writing) = (client.try_clone().unwrap(), client.try_clone().unwrap());
        let content = &content;
        scope.spawn(move || {
            let mut random = Random(43);
            for piece in content.chunks(PIECE_BYTES) {
                goes_on.recv().unwrap();
                let mut rest = piece;
                while !rest.is_empty() {
                    let now = (random.below(20_000) as usize + 1).min(rest.len());
                    writing.write_all(&rest[..now]).unwrap();
                    rest = &rest[now..];
                }
            }
            writing.shutdown(Shutdown::Write).unwrap();
        });
        let reader = scope.spawn(move || {
            let mut heard = Vec::new();
            reading.read_to_end(&mut heard).unwrap();
            heard
        });
        let mut random = Random(44);
        for _ in 0..PIECES {
            let mut way = || OneWay {
                latency: micros(random.below(2) * random.below(5_000)),
                jitter: micros(random.below(2) * random.below(5_000)),
                bandwidth: NonZeroU64::new(random.below(2) * (random.below(80_000_000) + 5_000_000)),
                half_open: false,
            };
            let (to_server, to_client) = (way(), way());
            let (stall, refuse) = (random.below(5) == 0, random.below(5) == 0);
            link.set(LinkState { to_server, to_client, stall, refuse, seed: random.next() }).unwrap();
            next.send(()).unwrap();
            thread::sleep(micros(random.below(2_000)));
        }
        link.set(LinkState::default()).unwrap();
        let heard = reader.join().unwrap();
        assert_eq!(heard.len(), content.len());
        assert!(heard == *content);
    });
    let all = content.len() as u64;
    until("the count", || link.counts().to_client_bytes == all && link.counts().to_server_bytes == all);
}
