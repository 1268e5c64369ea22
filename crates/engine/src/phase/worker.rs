//! The loop: one for every store, mode and host.
//!
//! [`Turns::turn`] never blocks. It takes completions, gives up operations that timed out, sends what is due while
//! slots are free, and says when it wants to be called again.

mod next;

use std::sync::Arc;
use std::task::Context;

use self::next::Hold;
use super::clock::Clock;
use super::events::Gauges;
use super::maker::{Maker, More, Stage, Task};
use super::plan::{Amount, PhasePlan};
use super::replay::Replay;
use super::requests::sent_bytes;
use super::slots::{Fatal, Operations};
use super::stop::Stop;
use super::team::{Outbox, Snapshot};
use crate::measure::{Partial, PartialCause, Recorder, WorkerUse, thread_cpu_ns, thread_run_queue_ns};
use crate::store::{Session, SessionCounters, Token};
use storebench_documents::schedule::Arrivals;
use storebench_study::workload::OnDisconnect;

/// The most sends in one turn, so that completions do not wait behind a backlog.
const SENDS_PER_TURN: usize = 64;
/// The longest wait, so that a request to stop is noticed soon.
const LONGEST_WAIT_NS: u64 = 100_000_000;

/// What a worker wants after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// To be called again at once, after the reactor had its turn.
    Again,
    /// To be called at this time, or earlier if a completion wakes it.
    Until {
        /// In ns of the clock.
        at_ns: u64,
        /// Whether an operation is scheduled then; otherwise something else is.
        arrival: bool,
        /// Open loop: when an operation was last sent, if any is in flight.
        sent_ns: Option<u64>,
        /// Whether nothing was sent and no answer came in this turn.
        idle: bool,
    },
    /// Nothing more.
    Ended,
}

/// A worker's times and limits, apart from its slots.
struct Course {
    start_ns: u64,
    /// When it stops sending scheduled operations.
    end_ns: u64,
    /// When it gives up operations that are still waiting or in flight (open loop with a duration).
    give_up_ns: u64,
    /// Operations left to make; `u64::MAX` if time or the load decides.
    left: u64,
    arrivals: Option<Arrivals>,
    interval_ns: u64,
    interval: u64,
    next_interval_ns: u64,
    ended_early: bool,
}

/// What a host calls: a worker on any kind of session.
pub(super) trait Turns {
    /// Takes completions, sends what is due, and says when to be called again.
    fn turn(&mut self, context: &mut Context<'_>) -> Turn;

    /// Adds time that was spent busy-waiting.
    fn spun(&mut self, ns: u64);
}

/// One worker of a phase: its sessions and the rest. Only the code that talks to sessions is compiled once per type of
/// session.
pub(super) struct Worker<S, C> {
    sessions: Vec<S>,
    core: WorkerCore<C>,
}

/// The part of a worker that does not depend on the type of its sessions.
pub(super) struct WorkerCore<C> {
    plan: Arc<PhasePlan>,
    number: u32,
    touched: Vec<bool>,
    maker: Maker,
    operations: Operations<C>,
    course: Course,
    /// Its part of a trace.
    replay: Option<Replay>,
    /// The next operation, drawn ahead of time.
    prepared: Option<Task>,
    more: More,
    abandoned: Vec<(usize, Token)>,
    stop: Arc<Stop>,
    outbox: Outbox,
    usage: Usage,
    /// Until when the store last worked on this thread, and how late the client had sent that operation. Nothing else
    /// could be sent meanwhile, whatever slots were free.
    held: (u64, u64),
    /// Whether the next operation is a write that waits for a key (`ledger`), and when a key was last free.
    keyless: bool,
    key_free_ns: u64,
    /// Whether something was submitted since the last poll: no waker is registered for it.
    unpolled: bool,
    unfinished_counted: bool,
    /// The connection counters at the last snapshot.
    connections: SessionCounters,
    /// Why the phase ends here, if it ends because a connection was lost.
    cut_off: Option<String>,
}

/// CPU time: the readings at the last snapshot, the spinning since then, and the totals.
struct Usage {
    cpu_ns: u64,
    run_queue_ns: u64,
    spin_ns: u64,
    total: WorkerUse,
}

impl<S: Session, C: Clock> Turns for Worker<S, C> {
    fn turn(&mut self, context: &mut Context<'_>) -> Turn {
        self.core.operations.idle = true;
        // Sessions are polled even while nothing is in flight, because they reconnect while they are polled.
        let now = self.collect(context);
        self.look_around(now);
        for _ in 0..SENDS_PER_TURN {
            if self.send_again() {
                continue;
            }
            match self.core.take_next() {
                Ok(next) => {
                    let sent = self.send(next.slot);
                    self.core.note_send_delay(&next, sent);
                    let now = self.core.operations.last_ns;
                    if now >= self.core.course.next_interval_ns || self.core.operations.fatal.is_some() {
                        self.look_around(now);
                    }
                }
                Err(hold) => {
                    self.flush();
                    if self.core.unpolled {
                        let before = self.core.operations.in_flight;
                        self.collect(context);
                        if self.core.operations.in_flight < before {
                            return Turn::Again;
                        }
                    }
                    return self.rest(hold);
                }
            }
        }
        self.flush();
        Turn::Again
    }

    fn spun(&mut self, ns: u64) {
        self.core.usage.spin_ns += ns;
    }
}

impl<S: Session, C: Clock> Worker<S, C> {
    pub(super) fn new(sessions: Vec<S>, core: WorkerCore<C>) -> Self {
        Self { sessions, core }
    }

    /// Takes completions, lets sessions reconnect, and gives up operations that timed out. Returns the time.
    fn collect(&mut self, context: &mut Context<'_>) -> u64 {
        let Self { sessions, core } = self;
        core.unpolled = false;
        for session in sessions {
            let _ = session.poll(context, &mut core.operations);
            core.operations.returned();
        }
        let now = core.operations.now();
        core.operations.expire(now, &mut core.abandoned);
        self.abandon();
        now
    }

    fn abandon(&mut self) {
        for (session, token) in self.core.abandoned.drain(..) {
            self.sessions[session].abandon(token);
        }
    }

    /// What is done from time to time: snapshots, the ledger, requests to stop.
    fn look_around(&mut self, now: u64) {
        if now >= self.core.course.next_interval_ns {
            let counted = counted(&self.sessions);
            self.core.snapshot(now, counted, false);
        }
        self.look_at_connections();
        self.core.look_around(now);
    }

    /// Notes which connection was lost first, if that ends the phase.
    fn look_at_connections(&mut self) {
        if self.core.plan.on_disconnect == OnDisconnect::End && self.core.cut_off.is_none() {
            let lost = self.sessions.iter().position(|session| session.counters().disconnects > 0);
            self.core.cut_off = lost.map(|position| self.core.lost(position));
        }
    }

    fn flush(&mut self) {
        for (session, touched) in self.sessions.iter_mut().zip(&mut self.core.touched) {
            if std::mem::take(touched) {
                session.flush();
            }
        }
    }

    /// Sends one operation that waits for its next try or its second request, if it is due.
    fn send_again(&mut self) -> bool {
        let Some(slot) = self.core.operations.next_again() else { return false };
        // Its request takes over the buffers. A request that was prepared there is written again later.
        self.send(slot);
        true
    }

    /// Sends the operation of a slot. Returns the time of the send, in ns of the clock.
    #[inline]
    fn send(&mut self, slot: usize) -> u64 {
        let Self { sessions, core } = self;
        if core.plan.ledger {
            core.set_floors(slot);
        }
        let WorkerCore { maker, operations, .. } = core;
        let s = &mut operations.slots[slot];
        let (task, stage, session) = (s.task, s.stage, s.session);
        // Taken out during the call, because the request borrows it and the slots are borrowed too.
        let revision = if stage == Stage::Swap { std::mem::take(&mut s.revision) } else { Vec::new() };
        let request = maker.request(&task, &s.more, stage, &revision);
        operations.recorder.ops[task.recipe].add_sent(sent_bytes(&request.op));
        let now = operations.now();
        operations.sent(slot, now);
        if !operations.open_loop && operations.slots[slot].tries == 1 && stage != Stage::Swap {
            operations.slots[slot].scheduled_ns = now;
        }
        let token = operations.token(slot);
        sessions[session].submit(&request, token, operations);
        operations.returned();
        core.touched[session] = true;
        let s = &mut core.operations.slots[slot];
        if s.in_flight {
            core.unpolled = true;
        } else {
            core.held = (core.operations.last_ns, s.lag_ns);
        }
        if stage == Stage::Swap && s.revision.is_empty() {
            s.revision = revision;
        }
        now
    }

    /// Decides what to do while nothing can be sent.
    fn rest(&mut self, hold: Hold) -> Turn {
        if matches!(hold, Hold::Done) {
            if self.core.is_given_up() && !self.core.is_idle() {
                let WorkerCore { operations, abandoned, .. } = &mut self.core;
                operations.count_unfinished_in_flight(operations.last_ns, abandoned);
                self.abandon();
            }
            if self.core.is_over() {
                let counted = counted(&self.sessions);
                self.core.finish(counted);
                return Turn::Ended;
            }
        }
        let wake_at_ns = self.sessions.iter().filter_map(Session::wake_at_ns).min();
        self.core.wait(hold, wake_at_ns)
    }

    /// The report of a worker that has ended.
    pub(super) fn into_report(mut self) -> super::WorkerReport {
        self.look_at_connections();
        self.core.into_report()
    }
}

impl<C: Clock> WorkerCore<C> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        plan: Arc<PhasePlan>,
        number: u32,
        mut maker: Maker,
        mut operations: Operations<C>,
        arrivals: Option<Arrivals>,
        start_ns: u64,
        interval_ns: u64,
        stop: Arc<Stop>,
        outbox: Outbox,
    ) -> Self {
        let (end_ns, left) = match plan.amount {
            Amount::Duration(ns) => (start_ns.saturating_add(ns), u64::MAX),
            Amount::Operations(n) => {
                let (n, w, workers) = (n, u64::from(number), u64::from(plan.workers));
                (u64::MAX, n / workers + u64::from(w < n % workers))
            }
            Amount::Load | Amount::Trace => (u64::MAX, u64::MAX),
        };
        let replay = maker.replay.take();
        operations.begin(start_ns);
        Self {
            touched: vec![false; plan.connections as usize],
            maker,
            operations,
            course: Course {
                start_ns,
                end_ns,
                give_up_ns: end_ns.saturating_add(plan.drain_ns),
                left,
                arrivals,
                interval_ns,
                interval: 0,
                next_interval_ns: start_ns + interval_ns,
                ended_early: false,
            },
            replay,
            prepared: None,
            more: More::default(),
            abandoned: Vec::new(),
            stop,
            outbox,
            usage: Usage {
                cpu_ns: thread_cpu_ns(),
                run_queue_ns: thread_run_queue_ns(),
                spin_ns: 0,
                total: WorkerUse { processor: plan.processor_of(number), ..WorkerUse::default() },
            },
            held: (start_ns, 0),
            keyless: false,
            key_free_ns: start_ns,
            unpolled: false,
            unfinished_counted: false,
            connections: SessionCounters::default(),
            cut_off: None,
            number,
            plan,
        }
    }

    /// Settles the ledger and handles requests to stop.
    fn look_around(&mut self, now: u64) {
        if !self.operations.endings.is_empty() {
            self.operations.settle(&mut self.maker);
        }
        if let Some(ledger) = &mut self.maker.ledger {
            ledger.faults(self.stop.faults());
        }
        if self.operations.fatal.is_some() || self.cut_off.is_some() {
            self.stop.ask();
        }
        // This takes effect now at the latest: a turn that continues after this sends nothing more.
        if self.stop.asked() && !self.course.ended_early && self.is_unfinished(now) {
            self.course.end_ns = self.course.end_ns.min(now);
            self.course.give_up_ns = now;
            self.course.ended_early = true;
        }
    }

    /// Whether stopping now leaves anything out: operations that are still to come, in flight, or scheduled and not
    /// sent.
    fn is_unfinished(&self, now: u64) -> bool {
        let Course { start_ns, end_ns, left, arrivals, .. } = &self.course;
        let backlog = || arrivals.as_ref().is_some_and(|a| start_ns.saturating_add(a.peek_ns()) < *end_ns);
        self.operations.in_flight > 0
            || !self.operations.again.is_empty()
            || (*left > 0 && (now < *end_ns || backlog()))
    }

    /// Sets what a read that is sent now, or sent again, must find.
    fn set_floors(&mut self, slot: usize) {
        self.operations.settle(&mut self.maker);
        let s = &mut self.operations.slots[slot];
        s.floor = self.maker.floor(&s.task);
        self.maker.floors(&s.task, &s.more.indexes, &mut s.floors);
    }

    /// Whether nothing is in flight or waits for another try.
    fn is_idle(&self) -> bool {
        self.operations.in_flight == 0 && self.operations.again.is_empty()
    }

    /// Whether operations in flight are given up at some time. A closed loop has no schedule to keep, so it waits for
    /// them, unless the user wants to stop.
    fn is_limited(&self) -> bool {
        self.course.give_up_ns != u64::MAX && (self.course.arrivals.is_some() || self.course.ended_early)
    }

    fn is_given_up(&self) -> bool {
        self.is_limited() && self.operations.last_ns >= self.course.give_up_ns
    }

    /// When nothing more will be sent: whether nothing more is awaited either.
    fn is_over(&self) -> bool {
        let over = self.operations.last_ns >= self.course.end_ns || self.course.end_ns == u64::MAX;
        self.is_given_up() || (self.is_idle() && over)
    }

    /// Until when to wait. At `wake_at_ns` the sessions have something to do without any I/O.
    fn wait(&self, hold: Hold, wake_at_ns: Option<u64>) -> Turn {
        let now = self.operations.last_ns;
        let (scheduled, arrival) = match hold {
            Hold::Scheduled { at_ns, arrival } => (at_ns, arrival),
            Hold::Answers | Hold::Done => (u64::MAX, false),
        };
        let mut at_ns = scheduled.min(wake_at_ns.unwrap_or(u64::MAX));
        let mut earlier = |other: u64| at_ns = at_ns.min(other);
        if self.operations.in_flight > 0 {
            earlier(self.operations.next_timeout_ns);
        }
        for (_, again) in &self.operations.again {
            earlier(*again);
        }
        if self.course.end_ns > now {
            earlier(self.course.end_ns);
        }
        if self.is_limited() && self.course.give_up_ns > now {
            earlier(self.course.give_up_ns);
        }
        earlier(self.course.next_interval_ns);
        earlier(now + LONGEST_WAIT_NS);
        let sent_ns =
            (self.operations.open_loop && self.operations.in_flight > 0).then_some(self.operations.last_sent_ns);
        Turn::Until { at_ns, arrival: arrival && at_ns == scheduled, sent_ns, idle: self.operations.idle }
    }

    /// Counts operations that were scheduled and never sent, and hands over the rest.
    fn finish(&mut self, connections: SessionCounters) {
        if std::mem::replace(&mut self.unfinished_counted, true) {
            return;
        }
        let (now, end_ns) = (self.operations.last_ns, self.course.end_ns);
        if let Some(task) = self.prepared.take() {
            self.maker.unmake(&task, &self.more);
        }
        if let Some(replay) = self.replay.take().filter(|_| end_ns != u64::MAX && self.operations.open_loop) {
            for (after_ns, op) in replay.untaken() {
                let scheduled = self.course.start_ns.saturating_add(after_ns);
                if scheduled < end_ns {
                    self.operations.count_unfinished(self.maker.recipe_of(op.kind()), now.saturating_sub(scheduled));
                }
            }
        }
        if end_ns != u64::MAX
            && let Some(mut arrivals) = self.course.arrivals.take()
        {
            // Only the kind of each of these operations is drawn: no key was touched.
            loop {
                let scheduled = self.course.start_ns.saturating_add(arrivals.peek_ns());
                if scheduled >= end_ns || self.course.left == 0 {
                    break;
                }
                let recipe = self.maker.next_recipe();
                self.operations.count_unfinished(recipe, now.saturating_sub(scheduled));
                arrivals.advance();
                if self.course.left != u64::MAX {
                    self.course.left -= 1;
                }
            }
        }
        self.operations.settle(&mut self.maker);
        self.snapshot(now, connections, true);
    }

    /// Hands over what was recorded since the last snapshot. `connections` are the current counters. `last` means that
    /// nothing more comes.
    fn snapshot(&mut self, now: u64, connections: SessionCounters, last: bool) {
        let (cpu, run_queue) = (thread_cpu_ns(), thread_run_queue_ns());
        let usage = &mut self.usage;
        let cpu_ns = cpu - std::mem::replace(&mut usage.cpu_ns, cpu);
        let run_queue_ns = run_queue.saturating_sub(std::mem::replace(&mut usage.run_queue_ns, run_queue));
        // Under a quota, the kernel reports more waiting than the time that has passed.
        let wall_ns = now.saturating_sub(self.course.start_ns);
        let run_queue_ns = run_queue_ns.min(wall_ns.saturating_sub(usage.total.wall_ns));
        // A spinning thread that was descheduled spun less than the clock says.
        let spin_ns = std::mem::take(&mut usage.spin_ns).min(cpu_ns);
        usage.total.cpu_ns += cpu_ns;
        usage.total.run_queue_ns += run_queue_ns;
        usage.total.spin_ns += spin_ns;
        usage.total.wall_ns = wall_ns;
        let recorder = &mut self.operations.recorder;
        (recorder.cpu_ns, recorder.run_queue_ns, recorder.spin_ns) = (cpu_ns, run_queue_ns, spin_ns);
        let before = std::mem::replace(&mut self.connections, connections);
        recorder.connections = connections.since(before);
        let behind_ns = self.course.arrivals.as_ref().map(|arrivals| {
            let next = self.course.start_ns.saturating_add(arrivals.peek_ns());
            if next < self.course.end_ns { now.saturating_sub(next) } else { 0 }
        });
        let spare = self.outbox.spare.try_recv().unwrap_or_else(|_| Box::new(Recorder::new(self.plan.recipes.len())));
        let full = std::mem::replace(recorder, spare);
        // Nobody receives it only when the run is being torn down.
        let _ = self.outbox.snapshots.send(Snapshot {
            interval: self.course.interval,
            worker: self.number,
            recorder: full,
            now: Gauges { in_flight: Some(self.operations.in_flight as u64), behind_ns, store: None },
            last,
        });
        let passed = now.saturating_sub(self.course.start_ns) / self.course.interval_ns;
        self.course.interval = passed.max(self.course.interval);
        self.course.next_interval_ns = self.course.start_ns + (self.course.interval + 1) * self.course.interval_ns;
    }

    /// The message for a lost connection at this position.
    fn lost(&self, position: usize) -> String {
        format!(
            "worker {} lost its connection {} of {}; the phase ends because of `on_disconnect = \"end\"`",
            self.number,
            position + 1,
            self.plan.connections
        )
    }

    /// Why the phase ended early, as far as this worker knows.
    fn partial(&mut self) -> Option<Partial> {
        if let Some(why) = self.cut_off.take() {
            return Some(Partial { cause: PartialCause::Disconnected, why });
        }
        let Fatal { why, cause } = self.operations.fatal.take()?;
        // The answer alone does not distinguish a busy store from a lost connection.
        let connected = self.connections.disconnects == 0;
        let cause = if cause == PartialCause::Disconnected && connected { PartialCause::Failed } else { cause };
        Some(Partial { cause, why })
    }

    /// The report of a worker that has ended.
    pub(super) fn into_report(mut self) -> super::WorkerReport {
        let partial = self.partial();
        super::WorkerReport {
            worker: self.number,
            usage: self.usage.total,
            distinct: self.maker.take_distinct(),
            ledger: self.maker.ledger.take(),
            reads: self.operations.reads,
            seen: self.operations.seen,
            answers: self.operations.answers,
            highest_version: self.maker.highest_version(),
            messages: self.operations.messages.into_iter().collect(),
            wrong_examples: self.operations.wrong_examples,
            taken: self.maker.taken(),
            partial,
            sent_until_ns: self.course.end_ns.min(self.operations.last_ns),
            ended_ns: self.operations.last_ns,
            ended_early: self.course.ended_early,
            error: None,
        }
    }
}

/// What happened to the connections of these sessions since they were opened.
fn counted<S: Session>(sessions: &[S]) -> SessionCounters {
    let mut all = SessionCounters::default();
    for session in sessions {
        all += session.counters();
    }
    all
}
