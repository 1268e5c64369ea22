//! Wakes tasks. Tokio's timer has a resolution of one millisecond; latencies within a data centre are shorter.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};

use rustix::fd::OwnedFd;
use rustix::time::{ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The current time, in ns of the monotonic clock.
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Wakes tasks at given times.
pub(super) struct Timer {
    fd: AsyncFd<OwnedFd>,
    /// The tasks, by their time and the order of their requests.
    sleepers: RefCell<BTreeMap<(u64, u64), Waker>>,
    asked: Cell<u64>,
    /// When it fires; `u64::MAX` means never.
    fires_at: Cell<u64>,
}

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let fd =
            rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: the `OwnedFd` is a timerfd that is neither replaced nor closed while the `AsyncFd` owns it.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE)? };
        Ok(Self { fd, sleepers: RefCell::default(), asked: Cell::new(0), fires_at: Cell::new(u64::MAX) })
    }

    /// Wakes once, at or after this time.
    pub(super) fn wake_at(&self, at: u64, waker: &Waker) {
        self.asked.set(self.asked.get() + 1);
        self.sleepers.borrow_mut().insert((at, self.asked.get()), waker.clone());
        if at < self.fires_at.get() {
            self.set(at);
        }
    }

    /// Completes at or after this time.
    pub(super) async fn sleep_until(&self, at: u64) {
        poll_fn(|cx| {
            if now_ns() >= at {
                return Poll::Ready(());
            }
            self.wake_at(at, cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Wakes tasks when they are due. Never returns.
    pub(super) async fn run(&self) -> io::Result<()> {
        loop {
            poll_fn(|cx| self.fd.poll_read_ready(cx).map_ok(|mut ready| ready.clear_ready())).await?;
            let now = now_ns();
            let mut sleepers = self.sleepers.borrow_mut();
            while let Some(sleeper) = sleepers.first_entry()
                && sleeper.key().0 <= now
            {
                sleeper.remove().wake();
            }
            self.fires_at.set(u64::MAX);
            if let Some(((next, _), _)) = sleepers.first_key_value() {
                self.set(*next);
            }
        }
    }

    /// Arming the timer again cancels an earlier expiration, so that it need not be read.
    fn set(&self, at: u64) {
        // Zero would disarm the timer.
        let at = at.max(1);
        self.fires_at.set(at);
        let value =
            Timespec { tv_sec: (at / 1_000_000_000).cast_signed(), tv_nsec: (at % 1_000_000_000).cast_signed() };
        let value = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // It fails only for invalid times and descriptors.
        let _ = rustix::time::timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &value);
    }
}
