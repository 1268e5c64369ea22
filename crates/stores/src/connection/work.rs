//! Operations with more than one request or answer.

use storebench_engine::store::{BatchBuf, ErrorKind, OpError, Reject, Reply, merge_patch};

use crate::document::{OVERFLOW, counter};

/// No [`Work`]: the operation has one request and one answer.
pub(crate) const NONE: u32 = u32::MAX;

/// One such operation. Reused, to keep its grown buffers.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Whether the documents that it reads are wanted.
    pub(crate) contents: bool,
    pub(crate) abandoned: bool,
    /// Answers still to come.
    pub(crate) pending: u32,
    pub(crate) items: u32,
    pub(crate) documents: u32,
    pub(crate) bytes: u64,
    /// The requested keys.
    pub(crate) keys: BatchBuf,
    pub(crate) rows: BatchBuf,
    /// The item of each row that was asked for by key.
    places: Vec<u32>,
    pub(crate) rejects: Vec<Reject>,
    /// An error that fails the whole operation.
    pub(crate) error: Option<OpError>,
    /// The requests, kept in case they are redirected, and where each ends.
    pub(crate) requests: Vec<u8>,
    pub(crate) ends: Vec<usize>,
    /// The number of retries.
    pub(crate) again: u32,
    /// The key of what is done in steps. For scans, that of the row whose document is still to come.
    pub(crate) key: String,
    pub(crate) change: Change,
    /// The items of a bulk write that wait for the answers to the others, as rounds. The last one is next.
    pub(crate) rounds: Vec<Vec<u32>>,
}

/// What an operation in steps does to its document.
#[derive(Debug)]
pub(crate) enum Change {
    /// Merges a patch (RFC 7396) into it.
    Patch(Vec<u8>),
    /// Adds `delta` to a counter, which starts at `initial`. `sum` is the value that the last step writes.
    Add { delta: i64, initial: i64, sum: i64 },
}

impl Default for Change {
    fn default() -> Self {
        Self::Patch(Vec::new())
    }
}

impl Change {
    /// The document after the change.
    ///
    /// # Errors
    /// *Refused* or *failed* for a document that cannot be changed so.
    pub(crate) fn applied(&mut self, old: &[u8]) -> Result<Vec<u8>, OpError> {
        match self {
            Self::Patch(patch) => merge_patch(old, patch),
            Self::Add { delta, sum, .. } => {
                *sum = counter(old)?.checked_add(*delta).ok_or(OVERFLOW)?;
                Ok(sum.to_string().into_bytes())
            }
        }
    }

    /// What a document that does not exist begins as. `None` if nothing makes one.
    pub(crate) fn first(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Patch(_) => None,
            Self::Add { initial, sum, .. } => {
                *sum = *initial;
                Some(initial.to_string().into_bytes())
            }
        }
    }

    /// The value of the counter that the last step wrote.
    pub(crate) fn sum(&self) -> Option<i64> {
        match self {
            Self::Patch(_) => None,
            Self::Add { sum, .. } => Some(*sum),
        }
    }
}

impl Work {
    /// The request of an item.
    pub(crate) fn request(&self, item: u32) -> &[u8] {
        let item = item as usize;
        let start = if item == 0 { 0 } else { self.ends.get(item - 1).copied().unwrap_or(0) };
        let end = self.ends.get(item).copied().unwrap_or(start);
        self.requests.get(start..end).unwrap_or_default()
    }

    /// Adds a document that was asked for by key.
    pub(crate) fn add(&mut self, item: u32, body: &[u8]) {
        self.documents += 1;
        self.bytes += body.len() as u64;
        if self.contents
            && let Some((key, _)) = self.keys.as_batch().get(item as usize)
        {
            self.rows.push(key, body);
            self.places.push(item);
        }
    }

    /// Takes the answer to the read of a document that was asked for by key.
    pub(crate) fn read(&mut self, item: u32, found: Result<&[u8], OpError>) {
        match found {
            Ok(body) => self.add(item, body),
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => self.error = Some(error),
        }
    }

    /// Puts the rows that were asked for by key in the order of the keys. Nodes answer in any order.
    fn arrange(&mut self) {
        if self.places.is_sorted() {
            return;
        }
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by_key(|row| self.places[*row]);
        let rows = self.rows.as_batch();
        let mut arranged = BatchBuf::new();
        order.into_iter().filter_map(|row| rows.get(row)).for_each(|(key, body)| arranged.push(key, body));
        self.rows = arranged;
    }

    /// The result, once nothing is pending.
    pub(crate) fn result(&mut self) -> Result<Reply<'_>, OpError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let all_lost = |reject: &Reject| matches!(reject.error.kind, ErrorKind::OutcomeUnknown | ErrorKind::Temporary);
        // Unknown if any outcome is: a write that may have been applied must not count as not applied.
        if self.documents == 0
            && self.rejects.len() == self.items as usize
            && self.rejects.iter().all(all_lost)
            && let Some(worst) = self.rejects.iter().max_by_key(|reject| reject.error.kind)
        {
            return Err(worst.error.clone());
        }
        self.rejects.sort_by_key(|reject| reject.item);
        self.arrange();
        let rows = self.contents.then(|| self.rows.as_batch());
        Ok(Reply { documents: self.documents, bytes: self.bytes, rows, rejects: &self.rejects, ..Reply::default() })
    }
}

/// Pool of works, addressed by number.
#[derive(Debug, Default)]
pub(crate) struct Works {
    all: Vec<Work>,
    free: Vec<u32>,
}

impl Works {
    /// Returns the number of an empty work.
    pub(crate) fn take(&mut self, contents: bool) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Work::default());
            (self.all.len() - 1) as u32
        });
        let work = self.get(number);
        (work.contents, work.abandoned) = (contents, false);
        (work.pending, work.items, work.documents, work.bytes, work.again) = (0, 0, 0, 0, 0);
        work.keys.clear();
        work.rows.clear();
        work.rejects.clear();
        work.error = None;
        work.requests.clear();
        work.ends.clear();
        work.key.clear();
        work.change = Change::default();
        work.places.clear();
        work.rounds.clear();
        number
    }

    pub(crate) fn get(&mut self, number: u32) -> &mut Work {
        &mut self.all[number as usize]
    }

    /// Returns a work to the pool, whether it completed or not. Does nothing for [`NONE`].
    #[inline]
    pub(crate) fn give_back(&mut self, number: u32) {
        if number != NONE {
            self.free.push(number);
        }
    }
}
