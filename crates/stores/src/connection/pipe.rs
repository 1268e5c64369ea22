//! Buffers of requests and answers, and the queue of awaited answers. This module does no I/O.
//!
//! A pipe has buffers only while they contain data: all pipes of a thread share a stack of them. The buffer that
//! one pipe used is then still in the processor's cache when the next one uses it, however many connections a
//! worker has. Buffers keep what they have grown to, so that in the long run nothing is allocated.

use std::cell::RefCell;
use std::collections::VecDeque;

/// The initial size of a buffer of answers. It grows while reads fill it.
const INPUT_BYTES: usize = 16 << 10;
/// How many windows may follow a request before its answer is given up.
const FAR_BEHIND: usize = 1_000;
/// The maximum size of a read, so that answers are processed while they are in the cache.
const READ_BYTES: usize = 256 << 10;
/// Sent bytes are removed from the buffer of requests once there are at least this many of them before unsent ones.
const COMPACT_BYTES: usize = 1 << 20;

/// The most buffers that are kept for reuse, and the largest one that is kept besides others.
const SPARE_BUFFERS: usize = 256;
const SPARE_BYTES: usize = 4 << 20;

thread_local! {
    /// The buffers that no pipe of this thread uses now, those of requests and those of answers, the last used one last.
    static SPARE: [RefCell<Vec<Vec<u8>>>; 2] = const { [const { RefCell::new(Vec::new()) }; 2] };
}
const REQUESTS: usize = 0;
const ANSWERS: usize = 1;

/// Lends a buffer to a pipe that has none.
#[inline]
fn borrow(buffer: &mut Vec<u8>, which: usize) {
    if buffer.capacity() == 0 {
        *buffer = SPARE.with(|spare| spare[which].borrow_mut().pop()).unwrap_or_default();
    }
}

/// Takes back a buffer that is not used any more.
#[inline]
fn give_back(buffer: &mut Vec<u8>, which: usize) {
    if buffer.capacity() == 0 {
        return;
    }
    let buffer = std::mem::take(buffer);
    SPARE.with(|spare| {
        let mut spare = spare[which].borrow_mut();
        if spare.is_empty() || (spare.len() < SPARE_BUFFERS && buffer.capacity() <= SPARE_BYTES) {
            spare.push(buffer);
        }
    });
}

/// Both directions of a connection. Answers come in the order of their requests, or name these by number.
#[derive(Debug)]
pub(crate) struct Pipe<T> {
    out: Vec<u8>,
    /// The number of bytes of `out` already written.
    written: usize,
    /// Offset of `out[0]` in the stream of all requests.
    base: u64,
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the last read filled the buffer, so that more input may be waiting.
    filled_up: bool,
    /// Whether the last read took all there was.
    drained: bool,
    queue: VecDeque<Awaited<T>>,
    window: usize,
    /// How many entries of the queue may be on the wire, and how many of them count against the window.
    released: usize,
    counted: usize,
    /// How many entries the queue has had before the first one now, modulo 2^32.
    before: u32,
}

#[derive(Debug)]
struct Awaited<T> {
    /// `None` if its answer came before that of an earlier one.
    what: Option<T>,
    /// Offset of its request in the stream of all requests.
    start: u64,
    counts: bool,
}

impl<T> Pipe<T> {
    /// At most `window` counting requests are on the wire at once.
    pub(crate) fn new(window: u32) -> Self {
        Self {
            out: Vec::new(),
            written: 0,
            base: 0,
            input: Vec::new(),
            start: 0,
            end: 0,
            filled_up: false,
            drained: false,
            queue: VecDeque::new(),
            window: (window as usize).max(1),
            released: 0,
            counted: 0,
            before: 0,
        }
    }

    /// Queues an awaited answer. The caller appends its request to the returned buffer. `counts` says whether it counts
    /// against the window: all requests do, except parts of a larger operation and the driver's own requests.
    #[inline]
    pub(crate) fn request(&mut self, what: T, counts: bool) -> &mut Vec<u8> {
        borrow(&mut self.out, REQUESTS);
        self.queue.push_back(Awaited { what: Some(what), start: self.base + self.out.len() as u64, counts });
        &mut self.out
    }

    /// Changes the last queued entry.
    #[inline]
    pub(crate) fn amend(&mut self, change: impl FnOnce(&mut T)) {
        if let Some(last) = self.queue.back_mut().and_then(|last| last.what.as_mut()) {
            change(last);
        }
    }

    /// Passes the number of the last queued entry, and its request, to `write`. For protocols that answer in any order.
    #[inline]
    pub(crate) fn number(&mut self, write: impl FnOnce(u32, &mut [u8])) {
        if let Some(last) = self.queue.back() {
            let number = self.before.wrapping_add(self.queue.len() as u32 - 1);
            write(number, &mut self.out[(last.start - self.base) as usize..]);
        }
    }

    /// The entry with this number, if all of it was sent and it is awaited.
    #[inline]
    pub(crate) fn numbered(&self, number: u32) -> Option<&T> {
        let place = number.wrapping_sub(self.before) as usize;
        let entry = self.queue.get(place)?;
        let end = self.queue.get(place + 1).map_or(self.base + self.out.len() as u64, |next| next.start);
        entry.what.as_ref().filter(|_| end <= self.base + self.written as u64)
    }

    /// The first entry, if so much more than the window follows it that its answer will not come any more.
    pub(crate) fn left_behind(&self) -> Option<&T> {
        let far = self.queue.len() > FAR_BEHIND * self.window + FAR_BEHIND;
        self.queue.front().filter(|_| far)?.what.as_ref()
    }

    /// Removes the entry with this number, because it was answered. It makes room in the window.
    #[inline]
    pub(crate) fn take(&mut self, number: u32) -> Option<T> {
        match number.wrapping_sub(self.before) as usize {
            0 => self.pop(),
            place => {
                self.stop_counting(place);
                self.queue.get_mut(place)?.what.take()
            }
        }
    }

    /// Lets further requests leave although these are not answered, because nobody waits for them any more. Only for
    /// protocols that answer in any order.
    pub(crate) fn overtake(&mut self, which: impl Fn(&T) -> bool) {
        for place in 0..self.queue.len() {
            if self.queue[place].what.as_ref().is_some_and(&which) {
                self.stop_counting(place);
            }
        }
    }

    fn stop_counting(&mut self, place: usize) {
        if let Some(entry) = self.queue.get_mut(place) {
            let counted = std::mem::take(&mut entry.counts) && place < self.released;
            self.counted -= usize::from(counted);
        }
    }

    /// Removes the last queued entry and what was appended of its request.
    pub(crate) fn take_back(&mut self) {
        if let Some(last) = self.queue.pop_back() {
            self.out.truncate((last.start - self.base) as usize);
        }
    }

    /// The next awaited entry, and the input that was not taken yet. `None` if nothing is awaited.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<(&mut T, &[u8])> {
        let front = self.queue.front_mut()?.what.as_mut()?;
        Some((front, &self.input[self.start..self.end]))
    }

    /// Like [`Pipe::front`], but also gives the input if nothing is awaited.
    #[inline]
    pub(crate) fn look(&mut self) -> (Option<&mut T>, &[u8]) {
        (self.queue.front_mut().and_then(|front| front.what.as_mut()), &self.input[self.start..self.end])
    }

    /// Whether nothing is awaited.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// The input that was not taken yet.
    #[inline]
    pub(crate) fn input(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Takes `bytes` bytes of the input.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            self.emptied();
        }
    }

    fn emptied(&mut self) {
        (self.start, self.end) = (0, 0);
        give_back(&mut self.input, ANSWERS);
    }

    /// Removes the next awaited entry, because it was answered.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let front = self.pop_entry()?;
        while self.queue.front().is_some_and(|next| next.what.is_none()) {
            self.pop_entry();
        }
        front.what
    }

    #[inline]
    fn pop_entry(&mut self) -> Option<Awaited<T>> {
        let front = self.queue.pop_front()?;
        self.before = self.before.wrapping_add(1);
        if self.released > 0 {
            self.released -= 1;
            self.counted -= usize::from(front.counts);
        }
        Some(front)
    }

    /// All awaited entries, in order.
    pub(crate) fn awaited(&mut self) -> impl Iterator<Item = &mut T> {
        self.queue.iter_mut().filter_map(|a| a.what.as_mut())
    }

    /// Whether every request has been written.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        self.out.is_empty()
    }

    /// The bytes that may be written now.
    #[inline]
    pub(crate) fn sendable(&mut self) -> &[u8] {
        while self.counted < self.window
            && let Some(next) = self.queue.get(self.released)
        {
            self.released += 1;
            self.counted += usize::from(next.counts);
        }
        // The requests that follow without counting may leave too: they belong to that operation or are the driver's.
        while let Some(next) = self.queue.get(self.released)
            && !next.counts
        {
            self.released += 1;
        }
        let end = self.queue.get(self.released).map_or(self.out.len(), |next| (next.start - self.base) as usize);
        &self.out[self.written..end.max(self.written)]
    }

    /// Records that `bytes` of the sendable bytes were written.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.written = (self.written + bytes).min(self.out.len());
        if self.written == self.out.len() {
            self.base += self.out.len() as u64;
            self.out.clear();
            self.written = 0;
            give_back(&mut self.out, REQUESTS);
        } else if self.written >= COMPACT_BYTES && self.written >= self.out.len() / 2 {
            self.base += self.written as u64;
            self.out.drain(..self.written);
            self.written = 0;
        }
    }

    /// The space to read into; never empty.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        borrow(&mut self.input, ANSWERS);
        let half = self.input.len() / 2;
        if self.start > 0 && self.input.len() - self.end < half {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let short = self.input.len() - self.end < half.max(1);
        if short || (self.filled_up && self.input.len() < READ_BYTES) {
            let bytes = (self.input.len() * 2).max(INPUT_BYTES);
            self.input.resize(bytes, 0);
        }
        self.filled_up = false;
        let end = self.input.len().min(self.end + READ_BYTES);
        &mut self.input[self.end..end]
    }

    /// Records that `bytes` bytes were read into the room. May be 0.
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.input.len());
        self.filled_up = self.end == self.input.len();
        self.drained = bytes > 0 && !self.filled_up;
        if self.start == self.end {
            self.emptied();
        }
    }

    /// Whether the last read took all there was, so that another one would most likely find nothing. True once.
    #[inline]
    pub(crate) fn was_drained(&mut self) -> bool {
        std::mem::take(&mut self.drained)
    }

    /// Clears all buffers after the connection is lost. Returns the awaited entries, each with whether any part of its
    /// request was written.
    pub(crate) fn lose(&mut self) -> impl Iterator<Item = (T, bool)> + use<T> {
        let written = self.base + self.written as u64;
        self.base += self.out.len() as u64;
        self.out.clear();
        (self.written, self.start, self.end, self.released, self.counted) = (0, 0, 0, 0, 0);
        self.before = self.before.wrapping_add(self.queue.len() as u32);
        std::mem::take(&mut self.queue).into_iter().filter_map(move |a| Some((a.what?, a.start < written)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(pipe: &mut Pipe<u32>, what: u32, counts: bool) {
        pipe.request(what, counts).extend_from_slice(format!("[{what}]").as_bytes());
    }

    #[test]
    fn the_window_holds_back_what_counts_and_what_follows_it() {
        let mut pipe = Pipe::new(2);
        for (what, counts) in [(1, true), (2, true), (3, false), (4, true), (5, false)] {
            ask(&mut pipe, what, counts);
        }
        assert_eq!(pipe.sendable(), b"[1][2][3]");
        pipe.sent(4);
        assert_eq!(pipe.sendable(), b"2][3]");
        pipe.sent(5);
        assert!(pipe.sendable().is_empty());
        assert_eq!(pipe.pop(), Some(1));
        assert_eq!(pipe.sendable(), b"[4][5]");
        pipe.sent(6);
        assert_eq!(
            (pipe.pop(), pipe.pop(), pipe.pop(), pipe.pop(), pipe.pop()),
            (Some(2), Some(3), Some(4), Some(5), None)
        );
        ask(&mut pipe, 6, true);
        assert_eq!(pipe.sendable(), b"[6]");
    }

    #[test]
    fn entries_are_found_by_their_numbers() {
        let mut pipe = Pipe::new(9);
        let number = |pipe: &mut Pipe<u32>| {
            let mut found = None;
            pipe.number(|number, request| found = Some((number, request.to_vec())));
            found.unwrap()
        };
        for what in 0..4 {
            ask(&mut pipe, what, true);
            assert_eq!(number(&mut pipe), (what, format!("[{what}]").into_bytes()));
        }
        assert!(pipe.numbered(0).is_none(), "it was not sent");
        let bytes = pipe.sendable().len();
        pipe.sent(4);
        assert_eq!((pipe.numbered(0), pipe.numbered(1)), (Some(&0), None), "only a part of it was sent");
        pipe.sent(bytes - 4);
        assert_eq!((pipe.numbered(2), pipe.numbered(4)), (Some(&2), None));
        assert_eq!((pipe.take(2), pipe.take(2), pipe.take(1)), (Some(2), None, Some(1)));
        assert_eq!((pipe.take(0), pipe.numbered(1), pipe.numbered(3)), (Some(0), None, Some(&3)));
        assert_eq!(pipe.lose().collect::<Vec<_>>(), [(3, true)]);
        ask(&mut pipe, 5, true);
        assert_eq!(number(&mut pipe).0, 4, "an answer to a lost connection's request is not taken for another's");
    }

    /// Neither one that was answered out of turn, nor one that nobody waits for, holds up what follows.
    #[test]
    fn what_waits_at_the_head_does_not_fill_the_window() {
        let mut pipe = Pipe::new(2);
        (0..6).for_each(|what| ask(&mut pipe, what, true));
        assert_eq!(pipe.sendable(), b"[0][1]");
        pipe.sent(6);
        assert_eq!(pipe.take(1), Some(1));
        assert_eq!(pipe.sendable(), b"[2]");
        pipe.sent(3);
        pipe.overtake(|what| *what == 0 || *what == 4);
        assert_eq!(pipe.sendable(), b"[3][4]");
        pipe.sent(6);
        assert_eq!((pipe.take(0), pipe.take(4), pipe.take(3)), (Some(0), Some(4), Some(3)));
        assert_eq!(pipe.sendable(), b"[5]");
        pipe.sent(3);
        assert_eq!((pipe.take(2), pipe.take(5), pipe.is_idle()), (Some(2), Some(5), true));
        for what in 0..4_000 {
            ask(&mut pipe, what, true);
            pipe.overtake(|_| true);
            let bytes = pipe.sendable().len();
            pipe.sent(bytes);
            assert_eq!(pipe.left_behind().is_some(), what >= 3_000, "{what}");
            pipe.take(6 + what + u32::from(what == 0));
        }
    }

    #[test]
    fn pipes_lend_each_other_their_buffers() {
        let (mut one, mut other) = (Pipe::new(2), Pipe::new(2));
        ask(&mut one, 1, true);
        let place = one.sendable().as_ptr();
        ask(&mut other, 2, true);
        assert_ne!(other.sendable().as_ptr(), place, "the first is in use");
        one.sent(2);
        assert_eq!((one.sendable(), other.sendable()), (&b"]"[..], &b"[2]"[..]));
        one.sent(1);
        other.sent(3);
        one.room()[..2].copy_from_slice(b"ab");
        one.filled(2);
        let place = one.input().as_ptr();
        one.consume(1);
        assert_ne!(other.room().as_ptr(), place);
        other.filled(0);
        one.consume(1);
        assert_eq!((one.input.capacity(), other.input.capacity(), other.out.capacity()), (0, 0, 0));
        assert_eq!(one.pop(), Some(1));
        // Both buffers are lent again, however many pipes need one at once.
        let places = |pipe: &mut Pipe<u32>| pipe.request(3, true).as_ptr();
        let mut both = [places(&mut one), places(&mut other)];
        both.sort_unstable();
        for pipe in [&mut one, &mut other] {
            assert!(pipe.out.capacity() > 0);
            pipe.take_back();
            pipe.sent(0);
        }
        let mut again = [places(&mut one), places(&mut other)];
        again.sort_unstable();
        assert_eq!(both, again);
    }

    #[test]
    fn what_was_not_written_at_all_was_not_sent() {
        let mut pipe = Pipe::new(2);
        for what in 1..=4 {
            ask(&mut pipe, what, true);
        }
        assert_eq!(pipe.sendable().len(), 6);
        pipe.sent(4);
        let lost: Vec<_> = pipe.lose().collect();
        assert_eq!(lost, [(1, true), (2, true), (3, false), (4, false)]);
        assert!(pipe.awaited().next().is_none() && pipe.sendable().is_empty());
        ask(&mut pipe, 5, true);
        assert_eq!(pipe.sendable(), b"[5]");
        pipe.sent(3);
        assert_eq!(pipe.lose().collect::<Vec<_>>(), [(5, true)]);
    }

    #[test]
    fn answers_are_kept_whole_however_they_come() {
        let mut pipe = Pipe::<u32>::new(1);
        let text: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let (mut fed, mut taken) = (0, Vec::new());
        for step in [1, 7, 4_000, 16_383, 50_000].into_iter().cycle() {
            let room = pipe.room();
            assert!(!room.is_empty());
            let bytes = step.min(room.len()).min(text.len() - fed);
            room[..bytes].copy_from_slice(&text[fed..fed + bytes]);
            pipe.filled(bytes);
            fed += bytes;
            let take = if fed == text.len() { pipe.input().len() } else { pipe.input().len() / 2 };
            taken.extend_from_slice(&pipe.input()[..take]);
            pipe.consume(take);
            if fed == text.len() {
                break;
            }
        }
        assert!(taken == text);
    }
}
