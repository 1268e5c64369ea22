//! Where a worker waits: a plain thread, or a tokio reactor on that thread.
//!
//! The loop itself ([`Turns::turn`]) never blocks. It returns when it next has something to do. A sleep and wake costs
//! 17–47 µs of CPU time and comes 40–60 µs late on a virtual machine. *Economical* pacing therefore waits at least 100
//! µs at a time and sends everything that became due together. *Precise* pacing sleeps only while the next arrival is
//! far off and spins for the rest. It also spins for as long after each send, so that the answer of a fast store is not
//! read as late as a sleeping thread wakes. It yields to the reactor in every round: a spin that does not yield shows
//! perfect send delay while responses wait unread.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::EnterGuard;

use super::clock::{Clock, RealClock};
use super::worker::{Turn, Turns};
use crate::store::{Runtime, StoreError};
use storebench_study::workload::Pacing;

/// The shortest wait of the economical pacer, and so the longest time that a batch gathers.
const BATCH_NS: u64 = 100_000;
/// How long before the next arrival the precise pacer stops sleeping, and how long after a send it does not begin to: about
/// the p99 of a late wake.
const SPIN_NS: u64 = 120_000;

/// Asks the kernel to wake this thread as soon as possible after a timer has expired (the default adds up to 50 µs).
pub(super) fn sharpen_timers() {
    // If the kernel refuses, its default stays. The resulting send delay is measured and reported.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// When to wake for something at `at_ns`, and whether to spin instead of sleep. Only arrivals are worth gathering for, and
/// only arrivals and answers spinning.
fn choose(pacing: Pacing, arrival: bool, now_ns: u64, at_ns: u64, sent_ns: Option<u64>) -> (u64, bool) {
    let answer_until_ns = sent_ns.map_or(0, |sent_ns| sent_ns + SPIN_NS);
    match pacing {
        Pacing::Precise if now_ns < answer_until_ns => (at_ns.min(answer_until_ns), true),
        _ if !arrival => (at_ns, false),
        Pacing::Economical => (at_ns.max(now_ns + BATCH_NS), false),
        Pacing::Precise if at_ns <= now_ns + SPIN_NS => (at_ns, true),
        Pacing::Precise => (at_ns - SPIN_NS, false),
    }
}

/// An event loop for the calling thread.
///
/// # Errors
/// When the system cannot create one.
pub(super) fn event_loop() -> Result<tokio::runtime::Runtime, StoreError> {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|e| StoreError::Failed(format!("could not create an event loop: {e}")))
}

/// The calling thread as the host of a worker, with or without a reactor.
pub(super) struct Host(Option<tokio::runtime::Runtime>);

impl Host {
    /// # Errors
    /// When the system cannot create an event loop.
    pub(super) fn new(runtime: Runtime) -> Result<Self, StoreError> {
        match runtime {
            Runtime::Plain => Ok(Self(None)),
            Runtime::Reactor => event_loop().map(Some).map(Self),
        }
    }

    /// While the guard lives, new sockets belong to the reactor of this thread.
    pub(super) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.0.as_ref().map(tokio::runtime::Runtime::enter)
    }

    /// Waits until the sessions are open. A plain store opens them at once; otherwise it declares the wrong runtime.
    pub(super) fn wait(
        &self,
        opening: Pin<&mut dyn Future<Output = Result<(), StoreError>>>,
    ) -> Result<(), StoreError> {
        match &self.0 {
            Some(reactor) => reactor.block_on(opening),
            None => match opening.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(opened) => opened,
                Poll::Pending => {
                    Err(StoreError::Failed("this store needs a reactor but declares that it is plain".into()))
                }
            },
        }
    }

    /// Drives a worker to its end.
    ///
    /// # Errors
    /// When the system cannot create a timer.
    pub(super) fn run(&self, worker: &mut dyn Turns, clock: &RealClock, pacing: Pacing) -> io::Result<()> {
        match &self.0 {
            // It yields by itself after each turn, so the runtime need not count what it does.
            Some(runtime) => {
                runtime.block_on(tokio::task::unconstrained(with_one_waker(reactor(worker, clock, pacing))))
            }
            None => {
                plain(worker, clock, pacing);
                Ok(())
            }
        }
    }
}

/// Drives a worker on the calling thread, sleeping while it waits.
fn plain(worker: &mut dyn Turns, clock: &RealClock, pacing: Pacing) {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match worker.turn(&mut context) {
            Turn::Ended => return,
            Turn::Again => {}
            Turn::Until { at_ns, arrival, sent_ns, .. } => {
                let now = clock.now_ns();
                let (wake, spin) = choose(pacing, arrival, now, at_ns, sent_ns);
                if spin {
                    let mut at = now;
                    while at < wake {
                        std::hint::spin_loop();
                        at = clock.now_ns();
                    }
                    worker.spun(at - now);
                } else {
                    // `thread::sleep` is `clock_nanosleep`: as exact as the slack allows.
                    std::thread::sleep(Duration::from_nanos(wake.saturating_sub(now)));
                }
            }
        }
    }
}

/// The same work, always polled with one waker. Sessions keep a clone of the waker, and compare it with that of each poll. A
/// clone equals its own clones, but not always what it was cloned from, because the compiler may have several copies of a
/// waker's table of functions. Sessions would then register a new waker at each poll.
pub async fn with_one_waker<W: Future>(work: W) -> W::Output {
    let mut work = std::pin::pin!(work);
    let mut waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    poll_fn(|cx| {
        if waker.data() != cx.waker().data() {
            waker = cx.waker().clone();
        }
        work.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// Drives a worker on the current tokio runtime.
async fn reactor(worker: &mut dyn Turns, clock: &RealClock, pacing: Pacing) -> io::Result<()> {
    let mut timer = Timer::new()?;
    let mut spinning_since = None;
    loop {
        let woken = if spinning_since.is_some() { clock.now_ns() } else { 0 };
        let turn = poll_fn(|cx| Poll::Ready(worker.turn(cx))).await;
        let now = clock.now_ns();
        if let Some(since) = spinning_since.take() {
            worker.spun(spun(since, woken, now, turn));
        }
        match turn {
            Turn::Ended => return Ok(()),
            Turn::Again => tokio::task::yield_now().await,
            Turn::Until { at_ns, arrival, sent_ns, .. } => {
                let (wake, spin) = choose(pacing, arrival, now, at_ns, sent_ns);
                if spin {
                    spinning_since = Some(now);
                    tokio::task::yield_now().await;
                } else {
                    timer.wake_at(now, wake, arrival)?;
                    timer.fired_or_woken().await?;
                }
            }
        }
    }
}

/// How long a thread has spun, if it waited from `since`, a turn began at `woken`, and it ended at `now`. A turn that finds
/// nothing to do is part of the wait. Any other is work.
fn spun(since: u64, woken: u64, now: u64, turn: Turn) -> u64 {
    match turn {
        Turn::Until { idle: true, .. } => now - since,
        _ => woken - since,
    }
}

/// A timer on the reactor, finer than tokio's, whose wheel has slots of a millisecond.
struct Timer {
    fd: AsyncFd<rustix::fd::OwnedFd>,
    /// When it fires; 0 if it is not set.
    set_ns: u64,
}

/// Whether a timer must be set again to wake at a time. In a closed loop there is mostly nothing to send at that time, and it
/// moves with every operation: a timer that fires earlier wakes once more, which costs less than setting it each time.
fn must_set(set_ns: u64, now_ns: u64, wake_ns: u64, arrival: bool) -> bool {
    arrival || set_ns <= now_ns || set_ns > wake_ns
}

impl Timer {
    fn new() -> io::Result<Self> {
        let fd =
            rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: the `OwnedFd` is a timerfd that is neither replaced nor closed while the `AsyncFd` owns it.
        Ok(Self { fd: unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE)? }, set_ns: 0 })
    }

    /// Sets it to fire once, at `wake_ns`, or earlier unless an arrival is scheduled then. Setting it again also cancels an
    /// earlier firing, so that it need not be read.
    fn wake_at(&mut self, now_ns: u64, wake_ns: u64, arrival: bool) -> io::Result<()> {
        if !must_set(self.set_ns, now_ns, wake_ns, arrival) {
            return Ok(());
        }
        self.set_ns = wake_ns;
        // Zero would disarm it.
        let after_ns = wake_ns.saturating_sub(now_ns).max(1);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: (after_ns / 1_000_000_000) as i64, tv_nsec: (after_ns % 1_000_000_000) as i64 };
        rustix::time::timerfd_settime(
            self.fd.get_ref(),
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: zero, it_value: value },
        )?;
        Ok(())
    }

    /// Returns when the timer has fired, or when anything else has woken the task: a completion must not wait for the
    /// next arrival.
    async fn fired_or_woken(&mut self) -> io::Result<()> {
        let mut asked = false;
        let Self { fd, set_ns } = self;
        poll_fn(|cx| match fd.poll_read_ready(cx) {
            Poll::Ready(Ok(mut guard)) => {
                guard.clear_ready();
                *set_ns = 0;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
            Poll::Pending if std::mem::replace(&mut asked, true) => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    #[test]
    fn work_sees_one_waker_until_another_task_polls_it() {
        struct Task;
        impl Wake for Task {
            fn wake(self: Arc<Self>) {}
        }
        let [one, other] = [Arc::new(Task), Arc::new(Task)].map(Waker::from);
        let (mut kept, changes) = (None::<Waker>, Cell::new(0));
        let mut work = std::pin::pin!(with_one_waker(poll_fn(|cx| {
            if !kept.as_ref().is_some_and(|kept| kept.will_wake(cx.waker())) {
                changes.set(changes.get() + 1);
                kept = Some(cx.waker().clone());
            }
            if kept.as_ref().is_some_and(|kept| kept.data() == other.data()) { Poll::Ready(()) } else { Poll::Pending }
        })));
        for waker in [&one, &one.clone(), &one] {
            assert!(work.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        assert_eq!(changes.get(), 1);
        assert!(work.as_mut().poll(&mut Context::from_waker(&other)).is_ready(), "the other task must be woken now");
        assert_eq!(changes.get(), 2);
    }

    #[test]
    fn the_precise_pacer_spins_before_arrivals_and_after_sends() {
        let (economical, precise) = (Pacing::Economical, Pacing::Precise);
        let second = 1_000_000_000;
        assert_eq!(choose(precise, true, 0, second, None), (second - SPIN_NS, false));
        assert_eq!(choose(precise, true, second - SPIN_NS, second, None), (second, true));
        // The answer to what was just sent may come at any time, whatever else is awaited.
        assert_eq!(choose(precise, true, 1_000, second, Some(500)), (500 + SPIN_NS, true));
        assert_eq!(choose(precise, false, 1_000, second, Some(500)), (500 + SPIN_NS, true));
        assert_eq!(choose(precise, true, 1_000, 9_000, Some(500)), (9_000, true));
        assert_eq!(choose(precise, true, 500 + SPIN_NS, second, Some(500)), (second - SPIN_NS, false));
        assert_eq!(choose(precise, false, 500 + SPIN_NS, second, Some(500)), (second, false));
        assert_eq!(choose(economical, true, 1_000, second, Some(500)), (second, false));
        assert_eq!(choose(economical, true, 1_000, 2_000, Some(500)), (1_000 + BATCH_NS, false));
    }

    #[test]
    fn only_turns_that_find_nothing_to_do_are_spinning() {
        let until = |idle| Turn::Until { at_ns: 9_000, arrival: true, sent_ns: None, idle };
        assert_eq!(spun(1_000, 1_500, 1_700, until(true)), 700);
        assert_eq!(spun(1_000, 1_500, 1_700, until(false)), 500);
        assert_eq!(spun(1_000, 1_500, 1_700, Turn::Again), 500);
        assert_eq!(spun(1_000, 1_500, 1_700, Turn::Ended), 500);
    }

    #[test]
    fn a_timer_is_set_only_if_it_would_fire_too_late_or_for_an_arrival() {
        // In a closed loop, each operation moves the time by a little.
        assert!(must_set(0, 1_000, 101_000, false), "it is not set");
        assert!(!must_set(101_000, 2_000, 102_000, false), "it fires a little early");
        assert!(must_set(101_000, 2_000, 50_000, false), "it would fire too late");
        assert!(must_set(101_000, 101_000, 150_000, false), "it has fired");
        assert!(must_set(101_000, 2_000, 102_000, true), "an arrival is sent at its own time");
    }
}
