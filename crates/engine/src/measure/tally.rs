//! What happened to the operations of one label: counts and histograms.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::store::{ErrorKind, OpKind};

/// Significant decimal digits kept of a time.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// An empty histogram of nanoseconds that grows as needed.
pub fn histogram() -> Histogram<u64> {
    Histogram::new(SIGNIFICANT_DIGITS).expect("3 digits is within what a histogram can keep")
}

/// Records a time in ns; 0 counts as 1, the smallest value that a histogram keeps.
#[inline]
pub fn record(times: &mut Histogram<u64>, ns: u64) {
    // `saturating_record` alone would not let the histogram grow. Growth fails only if memory runs out. The greatest
    // value that fits is then the closest one.
    if times.record(ns.max(1)).is_err() {
        times.saturating_record(ns);
    }
}

/// When the store answered, in ns from the phase's start. The answer that a document does not exist counts too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The first time; `u64::MAX` if never.
    pub first_ns: u64,
    /// The last time; 0 if never.
    pub last_ns: u64,
}

impl Default for Answered {
    fn default() -> Self {
        Self { first_ns: u64::MAX, last_ns: 0 }
    }
}

impl Answered {
    /// The same answers, on a time axis that begins so much earlier.
    pub(super) fn shifted(self, by_ns: u64) -> Self {
        if self.ever() { Self { first_ns: self.first_ns + by_ns, last_ns: self.last_ns + by_ns } } else { self }
    }

    /// Records an answer at this time.
    #[inline]
    pub fn at(&mut self, ns: u64) {
        self.first_ns = self.first_ns.min(ns);
        self.last_ns = self.last_ns.max(ns);
    }

    /// Whether it has answered at all.
    pub fn ever(self) -> bool {
        self.first_ns <= self.last_ns
    }

    /// Adds the answers to another worker.
    pub fn add(&mut self, other: Self) {
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
    }
}

/// Declares the tally, so that each count and each histogram is named once.
macro_rules! tally {
    (counts { $($(#[$of_count:meta])* $count:ident,)* } times { $($(#[$of_times:meta])* $times:ident,)* }) => {
        /// Counts and times of the operations of one label. All times are in nanoseconds.
        #[derive(Debug, Clone)]
        pub struct Tally {
            $($(#[$of_count])* pub $count: u64,)*
            /// Operations that failed, by [`ErrorKind`] in the order of [`ErrorKind::ALL`]; *not found* stays 0.
            pub failed: [u64; ErrorKind::ALL.len()],
            /// When the store has answered.
            pub answered_at: Answered,
            $($(#[$of_times])* pub $times: Histogram<u64>,)*
        }

        impl Default for Tally {
            fn default() -> Self {
                Self {
                    $($count: 0,)*
                    failed: Default::default(),
                    answered_at: Answered::default(),
                    $($times: histogram(),)*
                }
            }
        }

        impl Tally {
            /// Every count.
            pub(super) fn counts(&self) -> impl Iterator<Item = u64> {
                [$(self.$count),*].into_iter().chain(self.failed)
            }

            /// Every count, mutable.
            pub(super) fn counts_mut(&mut self) -> impl Iterator<Item = &mut u64> {
                [$(&mut self.$count),*].into_iter().chain(&mut self.failed)
            }

            /// Every histogram.
            pub(super) fn times(&self) -> [&Histogram<u64>; TIMES] {
                [$(&self.$times),*]
            }

            /// Every histogram, mutable.
            pub(super) fn times_mut(&mut self) -> [&mut Histogram<u64>; TIMES] {
                [$(&mut self.$times),*]
            }
        }
    };
}

tally! {
    counts {
        /// Operations that did what was asked.
        succeeded,
        /// Reads and conditional writes that found no document. Not errors, but never counted as successes.
        missed,
        /// Operations that were scheduled but not answered when the phase ended.
        unfinished,
        /// Of the unfinished: sent, so that their outcome is unknown.
        unfinished_sent,
        /// Of the failed: given up at the timeout.
        timed_out,
        /// Retries after temporary failures, and after a transaction was undone.
        retries,
        /// Tries of transactions that the store undid because of another one.
        conflicts,
        /// Documents written, read or found.
        documents,
        /// Documents of bulk operations that were refused while others of the same operation were not. Such an operation
        /// counts as failed, once.
        rejected,
        /// Bytes of keys and documents sent with writes.
        bytes_written,
        /// Bytes of the documents read.
        bytes_read,
        /// Documents whose contents were compared with what they should be.
        checked,
        /// Of the checked: documents that differed.
        wrong,
        /// Queries in transactions with a number of rows that the study does not allow.
        wrong_rows,
        /// Of the missed: those of documents that did not exist before the trace.
        missed_new,
        /// The sum of the squares of the documents of each answer.
        documents_squared,
        /// The same of the bytes of each try.
        written_squared,
        /// The same of the bytes read.
        read_squared,
        /// Tries that were sent.
        sent,
    }
    times {
        /// Open loop: from the scheduled start to the end, of successes and misses. Unfinished operations count with their
        /// age when the phase ended (a lower bound).
        response,
        /// Of the unfinished alone: their age when the phase ended. `response` minus this is the answered operations.
        unfinished_age,
        /// From the send to the end, of successes and misses.
        service,
        /// From the scheduled start (closed loop: the send) to the end, of failed operations.
        failed_time,
        /// Open loop: how long scheduled operations waited in the client because the in-flight limit was reached.
        client_queueing,
    }
}

impl Tally {
    /// Counts bytes that a request sends.
    #[inline]
    pub fn add_sent(&mut self, bytes: u64) {
        self.sent += 1;
        self.bytes_written += bytes;
        self.written_squared = self.written_squared.saturating_add(bytes.saturating_mul(bytes));
    }

    /// Counts the documents of an answer, and the bytes of those that were read.
    #[inline]
    pub fn add_answer(&mut self, documents: u64, bytes: u64) {
        self.documents += documents;
        self.documents_squared = self.documents_squared.saturating_add(documents.saturating_mul(documents));
        self.bytes_read += bytes;
        self.read_squared = self.read_squared.saturating_add(bytes.saturating_mul(bytes));
    }

    /// Operations that ended: succeeded, missed or failed.
    pub fn ended(&self) -> u64 {
        self.succeeded + self.missed + self.errors()
    }

    /// Operations that were scheduled, however they ended.
    pub fn attempts(&self) -> u64 {
        self.ended() + self.unfinished
    }

    /// Open loop: the response times of answered operations, without those that were unfinished when the phase ended.
    pub fn answered(&self) -> Histogram<u64> {
        let mut answered = self.response.clone();
        answered.subtract(&self.unfinished_age).expect("every unfinished operation is in both");
        answered
    }

    /// Operations that failed.
    pub fn errors(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Operations that failed in this way.
    pub fn failed_as(&self, kind: ErrorKind) -> u64 {
        self.failed[kind as usize]
    }

    /// Operations of this kind that may or may not have been applied. 0 for reads, which change nothing.
    pub fn unknown_outcomes(&self, kind: OpKind) -> u64 {
        if kind.writes() { self.failed_as(ErrorKind::OutcomeUnknown) + self.unfinished_sent } else { 0 }
    }

    /// Adds another tally to this one. Histograms are merged, never averaged.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts_mut().zip(other.counts()) {
            *mine = mine.saturating_add(theirs);
        }
        for (mine, theirs) in self.times_mut().into_iter().zip(other.times()) {
            merge(mine, theirs);
        }
        self.answered_at.add(other.answered_at);
    }

    /// Clears it, but keeps its memory.
    pub fn clear(&mut self) {
        for count in self.counts_mut() {
            *count = 0;
        }
        for times in self.times_mut() {
            reset(times);
        }
        self.answered_at = Answered::default();
    }
}

/// How many histograms a tally has.
pub(super) const TIMES: usize = 5;

/// Adds one histogram to another.
pub(super) fn merge(mine: &mut Histogram<u64>, theirs: &Histogram<u64>) {
    mine.add(theirs).expect("a histogram that grows takes every value");
}

/// Clears a histogram, unless it is empty: it may be a hundred kilobytes.
pub(super) fn reset(times: &mut Histogram<u64>) {
    if !times.is_empty() {
        times.reset();
    }
}
