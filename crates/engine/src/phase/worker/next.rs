//! Which operation a worker sends next, or why it cannot send one now.

use super::WorkerCore;
use crate::measure::{PartialCause, record};
use crate::phase::clock::Clock;
use crate::phase::maker::{More, Stage};
use crate::phase::replay::Upcoming;
use crate::phase::slots::{Earlier, Fatal};
use crate::store::OpKind;

/// How long after the end the client still sends what it was late with.
const GRACE_NS: u64 = 100_000_000;

/// Why nothing can be sent now.
pub(super) enum Hold {
    /// Something is scheduled at this time.
    Scheduled { at_ns: u64, arrival: bool },
    /// No slot is free, or the last operations are still in flight.
    Answers,
    /// Everything has been sent.
    Done,
}

/// The next operation, in its slot.
pub(super) struct Next {
    pub(super) slot: usize,
    /// When it was scheduled (open loop).
    scheduled: Option<u64>,
    /// When its slot and this thread would have been free, had earlier operations not been sent late.
    could: u64,
}

impl<C: Clock> WorkerCore<C> {
    /// Puts the next operation into a slot, to be sent at once, or returns why it cannot.
    #[inline]
    pub(super) fn take_next(&mut self) -> Result<Next, Hold> {
        if self.replay.is_some() {
            return self.take_recorded();
        }
        let now = self.operations.last_ns;
        if now >= self.course.end_ns && self.course.arrivals.is_none() {
            return Err(Hold::Done);
        }
        if self.course.left == 0 {
            return Err(Hold::Done);
        }
        let scheduled = match &self.course.arrivals {
            None => None,
            Some(arrivals) => {
                let scheduled = self.course.start_ns.saturating_add(arrivals.peek_ns());
                if scheduled >= self.course.end_ns {
                    return Err(Hold::Done);
                }
                Some(scheduled)
            }
        };
        let Some((slot, free_since)) = self.operations.rested(now) else {
            return Err(if now >= self.course.give_up_ns { Hold::Done } else { Hold::Answers });
        };
        if free_since > now {
            return Err(Hold::Scheduled { at_ns: free_since, arrival: false });
        }
        if let Some(scheduled) = scheduled
            && now >= self.course.give_up_ns
        {
            // The end has come. What could have been sent before it, had the client not been late, is still sent for a
            // while.
            let could = scheduled.max(free_since.saturating_sub(self.operations.slots[slot].lag_ns));
            // Waiting for a key counts as waiting for the store.
            let could = if self.keyless { now } else { could };
            let grace_over = self.course.ended_early || now >= self.course.give_up_ns.saturating_add(GRACE_NS);
            if could >= self.course.give_up_ns || grace_over {
                return Err(Hold::Done);
            }
        }
        if scheduled.is_none() && self.plan.think_ns > 0 && self.operations.slots[slot].generation > 0 {
            let ready = free_since.saturating_add(self.plan.think_ns);
            if ready > now {
                return Err(Hold::Scheduled { at_ns: ready, arrival: false });
            }
        }
        if self.plan.ledger && !self.operations.endings.is_empty() {
            self.operations.settle(&mut self.maker);
        }
        if self.prepared.is_none() {
            self.prepared = self.maker.next(&mut self.more);
            if std::mem::take(&mut self.maker.exhausted) {
                return Err(self.wait_for_key());
            }
            if self.prepared.is_none() {
                self.course.left = 0;
                return Err(Hold::Done);
            }
            if std::mem::take(&mut self.keyless) {
                self.key_free_ns = now;
            }
        }
        if let Some(scheduled) = scheduled
            && scheduled > now
        {
            // The wait for the next arrival may have passed while the operation was drawn.
            if scheduled > self.operations.now() {
                return Err(Hold::Scheduled { at_ns: scheduled, arrival: true });
            }
        }
        self.operations.free.pop_front();
        Ok(self.placed(slot, free_since, scheduled))
    }

    /// The same for recorded traffic: the operation of the free slot whose time comes first.
    fn take_recorded(&mut self) -> Result<Next, Hold> {
        let Self { replay: Some(replay), operations, course, maker, .. } = self else { return Err(Hold::Done) };
        let now = operations.last_ns;
        if now >= course.end_ns {
            return Err(Hold::Done);
        }
        while let Some((slot, since)) = operations.free.pop_front() {
            replay.freed(slot, since);
        }
        let Some(Upcoming { slot, since_ns, scheduled_ns }) = replay.upcoming() else {
            let all_sent = replay.left == 0;
            course.left = if all_sent { 0 } else { course.left };
            return Err(if all_sent { Hold::Done } else { Hold::Answers });
        };
        let scheduled = scheduled_ns.map(|after_ns| course.start_ns.saturating_add(after_ns));
        // A slot rests after a failure.
        if since_ns > now {
            return Err(Hold::Scheduled { at_ns: since_ns, arrival: false });
        }
        if let Some(scheduled) = scheduled
            && scheduled > now
            && scheduled > operations.now()
        {
            return Err(Hold::Scheduled { at_ns: scheduled, arrival: true });
        }
        let Some((position, op)) = replay.take(slot) else { return Err(Hold::Answers) };
        self.more = More::default();
        self.prepared = Some(maker.recorded(position, &op));
        Ok(self.placed(slot, since_ns, scheduled))
    }

    /// Puts the prepared operation into a slot.
    #[inline]
    fn placed(&mut self, slot: usize, free_since: u64, scheduled: Option<u64>) -> Next {
        if self.course.left != u64::MAX {
            self.course.left -= 1;
        }
        if let Some(arrivals) = &mut self.course.arrivals {
            arrivals.advance();
        }
        let s = &mut self.operations.slots[slot];
        s.task = self.prepared.take().unwrap_or_default();
        std::mem::swap(&mut s.more, &mut self.more);
        s.stage = match self.plan.recipes[s.task.recipe].label.kind {
            OpKind::CompareAndSwap => Stage::Look,
            _ => Stage::Whole,
        };
        s.tries = 0;
        if self.operations.watched {
            s.looked = None;
        }
        s.earlier = Earlier::default();
        s.scheduled_ns = scheduled.unwrap_or(0);
        let (held_until, held_lag) = self.held;
        Next { slot, scheduled, could: free_since.saturating_sub(s.lag_ns).max(held_until.saturating_sub(held_lag)) }
    }

    /// Records how late a scheduled operation was sent.
    #[inline]
    pub(super) fn note_send_delay(&mut self, next: &Next, sent: u64) {
        let Some(scheduled) = next.scheduled else { return };
        // If the previous operation had been sent on time, its slot (or this thread, if the store works on it) would
        // have been free earlier. So the delay of that operation is the client's fault here too, not a wait for the
        // store.
        let could = scheduled.max(next.could).max(self.key_free_ns);
        let delay = sent.saturating_sub(could);
        let s = &mut self.operations.slots[next.slot];
        s.lag_ns = delay;
        record(&mut self.operations.recorder.send_delay, delay);
        record(&mut self.operations.recorder.ops[s.task.recipe].client_queueing, could - scheduled);
        if !s.in_flight {
            self.held.1 = delay;
        }
    }

    /// Every key that the next write could use has a write in flight or of unknown outcome. The write waits, as it
    /// would for a free slot. Once an answer settles a key, a key is drawn again.
    #[cold]
    fn wait_for_key(&mut self) -> Hold {
        self.keyless = true;
        if self.is_idle() {
            let why = "every key of a worker has a write of unknown outcome, so it cannot write any more";
            self.operations.fatal = Some(Fatal { why: why.to_owned(), cause: PartialCause::NoKeys });
            self.stop.ask();
        }
        Hold::Answers
    }
}
