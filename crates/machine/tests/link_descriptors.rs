//! A link leaves no descriptor open. It is alone in its process, because descriptors of other tests would disturb it.
#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use storebench_machine::{Link, LinkState, OneWay};

/// The same in both directions.
fn both(way: OneWay) -> LinkState {
    LinkState { to_server: way, to_client: way, ..LinkState::default() }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn nothing_is_open_after_a_link_was_dropped() {
    // The runtime opens some descriptors once per process, if other crates in the build use its signals.
    let once = TcpListener::bind("127.0.0.1:0").unwrap();
    drop(Link::begin("127.0.0.1:0".parse().unwrap(), once.local_addr().unwrap()).unwrap());
    drop(once);
    let before = descriptors();
    for round in 0..10 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = Link::begin("127.0.0.1:0".parse().unwrap(), listener.local_addr().unwrap()).unwrap();
        let mut ends = Vec::new();
        let far = OneWay { latency: Duration::from_secs(3600), ..OneWay::default() };
        let lost = OneWay { half_open: true, ..OneWay::default() };
        let stall = LinkState { stall: true, ..LinkState::default() };
        let refuse = LinkState { refuse: true, ..LinkState::default() };
        for state in [LinkState::default(), stall, both(far), both(lost), refuse] {
            link.set(LinkState::default()).unwrap();
            for _ in 0..5 {
                ends.push(TcpStream::connect(link.address()).unwrap());
                ends.push(listener.accept().unwrap().0);
            }
            link.set(state).unwrap();
            if !state.refuse {
                ends.push(TcpStream::connect(link.address()).unwrap());
            }
            if round % 2 == 0 {
                link.reset();
            }
        }
        // Vary which side ends first.
        if round % 3 == 0 {
            ends.clear();
        }
        drop(link);
        ends.clear();
        drop(listener);
        // Another thread of the test harness may have descriptors open for a moment.
        let begun = Instant::now();
        while descriptors() != before {
            assert!(begun.elapsed() < Duration::from_secs(30), "{} are open, {before} were before", descriptors());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
