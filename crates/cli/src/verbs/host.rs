//! `host URL --socket FILE`: hosts an embedded store in its own process.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use crate::args::HostArgs;
use crate::failure::Failure;
use crate::{signals, stores};

/// How often to check for a request to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The longest path of a socket that every system supports, in bytes.
const LONGEST_SOCKET: usize = 100;

pub(crate) fn host(args: &HostArgs) -> Result<u8, Failure> {
    let socket = &args.socket;
    if socket.as_os_str().len() > LONGEST_SOCKET {
        return Err(Failure::bad_input(format!(
            "--socket {}: the path is longer than {LONGEST_SOCKET} bytes, the limit for sockets; use a shorter path",
            socket.display()
        )));
    }
    let store = stores::open(&args.url)?;
    let stop = signals::stop_on_interrupt()?;
    let served = Arc::clone(&store);
    let at = socket.clone();
    let serving = std::thread::spawn(move || storebench_stores::host(served, &at));
    if args.until_input_ends {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut input = std::io::stdin().lock();
            while input.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
            stop.ask();
        });
    }
    while !stop.asked() {
        if serving.is_finished() {
            return match serving.join() {
                Ok(Err(error)) => Err(Failure::of_store(&args.url, &error)),
                _ => Err(Failure::spoiled(format!(
                    "{}: clients can no longer connect; start `storebench host` again",
                    socket.display()
                ))),
            };
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let closed = store.close();
    // Later clients must not wait for a process that has ended.
    let _ = std::fs::remove_file(socket);
    closed.map(|()| 0).map_err(|error| Failure::of_store(&args.url, &error))
}
